"""The functions of the tools: each calls the memory as one agent and answers in text.

What an answer quotes stands in the form of `block`, so that no entry poses as anything else.
"""

from __future__ import annotations

from collections.abc import Callable

from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidEntry, ReadOnly
from synapse.knowledge import recall
from synapse.knowledge.capsule import short
from synapse.knowledge.memory import not_kept
from synapse.knowledge.references import resolve_reference
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.entry import Entry, words
from synapse.model.kinds import MESSAGE, kind_of
from synapse.model.message import Message
from synapse.privacy.records import masked_notice
from synapse.system.quoting import inline
from synapse.tools.answer import CAPSULE, fill, fit
from synapse.tools.blockers import blocker_of
from synapse.tools.tool import Arguments
from synapse.view import block

PAGE = 20
# tokens of a briefing: at least, where nothing is said, at most
BRIEFING = (200, 2_000, 10_000)


def append(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    fields = {name: value for name, value in arguments.items() if name not in ("namespace", "body")}
    if "supersedes" in fields:
        fields["supersedes"] = [
            resolve_reference(agent_memory, id).id for id in words(fields["supersedes"])
        ]
    return _stored(
        agent_memory.append(arguments["body"], arguments["namespace"], once=once, **fields)
    )


def report_blocker(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    namespace = f"blockers/{arguments.get('project') or _project(agent_memory)}"
    text = blocker_of(arguments["text"]) or arguments["text"]
    return _stored(
        agent_memory.append(f"Blocked: {text}", namespace, priority="critical", once=once)
    )


def _project(agent_memory: AgentMemory) -> str:
    project = agent_memory.writer.project()
    if project is None:
        raise InvalidEntry(
            "no project is known here: append to a namespace below blockers/, with"
            " priority critical"
        )
    return project


def _stored(entry: Entry) -> str:
    waits = "; it waits for review" if entry.staged else ""
    less = f"; as {entry.priority}: enough is {entry.claimed} for now" if entry.claimed else ""
    notice = masked_notice(entry)
    masked = f" {notice[0].upper()}{notice[1:]}." if notice else ""
    return f"Stored as {entry.id} in {entry.namespace}{less}{waits}.{masked}"


def read(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    if "id" in arguments:
        return _read_one(agent_memory, arguments["id"], arguments.get("offset", 0), once)
    if agent_memory.id != OPERATOR and not arguments.keys() & {"namespace", "since"}:
        return _news(agent_memory, once)
    page = agent_memory.read(
        since=arguments.get("since"), namespace=arguments.get("namespace"), limit=PAGE
    )
    if not page:
        agent = agent_memory.agent
        reads = ", ".join(agent.reads) if agent else "*"
        return f"Nothing here for you, up to record {page.cursor}: you may see {reads}."
    texts = []
    for entry in page:
        text = block.natural(entry).text
        # what would take half of the answer is a pointer
        is_long = len(text.encode()) > CAPSULE // 2
        texts.append(block.pointer(entry).text if is_long else text)
    return fit(texts, page.visible, "name a namespace or since")


def _news(agent_memory: AgentMemory, once: str | None) -> str:
    """Return what the agent was not shown, and mark what is there whole. A retry gives again what
    its key marked.
    """
    page = agent_memory.read(unread=True, limit=PAGE)
    rendered = [block.whole(entry).text for entry in page]
    heavy = [len(text.encode()) > CAPSULE // 2 for text in rendered]
    texts = [
        block.pointer(entry).text if cut else text
        for entry, text, cut in zip(page, rendered, heavy, strict=True)
    ]
    answer, count = fill(texts, page.visible, "read again")
    ids = [entry.id for entry, cut in zip(page[:count], heavy[:count], strict=True) if not cut]
    earlier = _ids_under_key(agent_memory, once)
    if earlier is not None:
        return "".join(block.whole(agent_memory.get(id)).text for id in earlier)
    if ids:
        _mark(lambda: agent_memory.writer.shown(ids, page.visible, page.cursor, "tool", once))
    if answer:
        return answer
    every = f"{page.matched} live entries match"
    return f"Nothing new for you: {every}, and you were shown all that you may see of them."


def _ids_under_key(agent_memory: AgentMemory, once: str | None) -> list[str] | None:
    """Return the entries that a first call under this key marked as shown; None where there was
    none.
    """
    if once is None:
        return None
    with agent_memory.store.snapshot() as snap:
        seq = snap.first(agent_memory.id, once)
    return None if seq is None else list(agent_memory.store.log.at(seq).fields["ids"])


def _mark_read(agent_memory: AgentMemory, entry: Entry, once: str | None) -> None:
    """Mark an entry as shown that the agent has just been given to its end, where it was not
    before.
    """
    agent = agent_memory.store.agents.get(agent_memory.id)
    if agent is None or entry.author == agent.id or entry.staged:
        return
    with agent_memory.store.snapshot() as snap:
        floor, already_seen = snap.seen(agent, entry.seq, entry.seq)
    if entry.seq > floor and not already_seen:
        _mark(lambda: agent_memory.writer.shown([entry.id], 1, snap.cursor, "tool", once))


def _mark(note: Callable[[], object]) -> None:
    """Note what the agent was given; who may only read is given it all the same."""
    try:
        note()
    except ReadOnly:
        pass


def _read_one(agent_memory: AgentMemory, id: str, offset: int, once: str | None) -> str:
    """Return one entry from an offset on, as far as there is room."""
    entry = resolve_reference(agent_memory, id)
    id = entry.id
    if not 0 <= offset < len(entry.body):
        raise InvalidEntry(
            f"offset {offset} is not within the {len(entry.body)} characters of {id}"
        )
    fate = agent_memory.fate(id)
    state = (
        f"(no longer shown: {inline(fate.reason)}{' by ' + fate.by if fate.by else ''})\n"
        if fate
        else ""
    )

    def shown(n: int) -> str:
        text = block.whole(entry._replace(body=entry.body[offset : offset + n])).text
        end = offset + n
        position = f"(characters {offset} to {end} of {len(entry.body)}; the rest: offset {end})\n"
        return state + text + (position if end < len(entry.body) else "")

    low, high = 1, min(CAPSULE, len(entry.body) - offset)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(shown(middle).encode()) <= CAPSULE else (low, middle - 1)
    if offset + low >= len(entry.body) and not fate:
        _mark_read(agent_memory, entry, once)
    return shown(low)


def memory_search(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    return recall.search(agent_memory, **arguments).text


def memory_remember(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    entry = recall.remember(agent_memory, once=once, **arguments)
    waits = "; it waits for review" if entry.staged else ""
    disputed = f"; disputed with {', '.join(entry.disputed)}" if entry.disputed else ""
    return f"Kept as {short(entry)} in {entry.namespace}{waits}{disputed}."


def memory_forget(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    id = recall.forget(agent_memory, once=once, **arguments)
    return f"Forgot {short(id)}; it stays in the log."


def claim(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    if arguments.get("release"):
        return f"Released {_quoted(agent_memory.release(arguments['work'], once=once).work)}."
    claim = agent_memory.claim(arguments["work"], minutes=arguments.get("minutes", 30), once=once)
    return f"{_quoted(claim.work)} is yours until {seconds(claim.until)}."


def _quoted(work: str) -> str:
    return inline(repr(work))


def ack(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    ids = [resolve_reference(agent_memory, id).id for id in words(arguments["ids"])]
    messages = [id for id in ids if kind_of(id) == MESSAGE]
    entries = [id for id in ids if id not in messages]
    if entries or not messages:
        agent_memory.ack(entries, once=once)
    for id in messages:
        Mail(agent_memory).ack(id, once=once and f"{once}:{id}")
    return f"Acknowledged {', '.join(ids)}."


def briefing(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    least, usual, most = BRIEFING
    budget = arguments.get("budget", usual)
    if not least <= budget <= most:
        raise InvalidEntry(
            f"budget is {budget} tokens: write {least} to {most}, or none for {usual}"
        )
    view = agent_memory.briefing(budget, about=arguments.get("task", ""), commands=False)
    if agent_memory.id != OPERATOR:
        total = len(view.included) + len(view.left_out)
        _mark(lambda: agent_memory.writer.shown(view.shown, total, view.cursor, "tool", once))
    return view.markdown()


def send(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    fields = {name: arguments[name] for name in ("subject", "priority") if name in arguments}
    mail = Mail(agent_memory)
    if "re" in arguments:
        if "thread" in arguments:
            raise InvalidEntry(
                "an answer goes to the thread of its message: give re or thread, not both"
            )
        message = mail.reply(
            resolve_reference(agent_memory, arguments["re"]).id,
            arguments["body"],
            to=arguments.get("to"),
            once=once,
            **fields,
        )
    else:
        if "to" not in arguments:
            raise InvalidEntry(
                "missing to (an agent, a team, or all), or re (the message that this answers)"
            )
        message = mail.send(
            arguments["to"], arguments["body"], thread=arguments.get("thread"), once=once, **fields
        )
    dropped = not_kept(message.entry.body)
    note = f" {inline(dropped[0].upper() + dropped[1:])}." if dropped else ""
    return f"Sent as {message.entry.id} to {message.entry.to} in {message.thread}.{note}"


def inbox(agent_memory: AgentMemory, _: Arguments, once: str | None) -> str:
    """Give the unread messages, and mark those as read that are there whole. A retry gives again
    what its key marked.
    """
    mail = Mail(agent_memory)
    earlier = _ids_under_key(agent_memory, once)
    if earlier is not None:
        return "".join(_letter(mail.get(id)) for id in earlier)
    waiting = mail.inbox()
    texts = [_letter(message) for message in waiting[:PAGE]]
    heavy = [len(text.encode()) > CAPSULE for text in texts]
    rendered = [
        block.pointer(message.entry, False).text if cut else text
        for message, text, cut in zip(waiting, texts, heavy, strict=False)
    ]
    answer, count = fill(rendered, len(waiting), "call inbox again")
    ids = [
        message.entry.id
        for message, cut in zip(waiting[:count], heavy[:count], strict=True)
        if not cut
    ]
    if ids:
        _mark(lambda: mail.read(ids, once=once))
    return answer or "No unread messages."


def _letter(message: Message) -> str:
    """Return a message as text: its thread and subject, then the entry in its whole form."""
    subject = f", subject: {inline(' '.join(message.subject.split()))}" if message.subject else ""
    return (
        f"({message.thread}, {message.priority}{subject})\n{block.whole(message.entry, False).text}"
    )
