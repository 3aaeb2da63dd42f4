"""Tools: the memory as a model calls it. Schemas as short as they can be, answers of a few lines of
text.

An answer is a capsule of at most 2,048 bytes; what it quotes stands in the form of `block`, so that
no entry poses as anything else. Whatever is wrong with a call is told as text: nothing that a model
writes raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidEntry, ReadOnly, SynapseError
from synapse.knowledge import recall
from synapse.knowledge.capsule import short
from synapse.knowledge.references import resolved
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.entry import PRIORITIES, Entry, words
from synapse.model.kinds import MESSAGE, URGENCY, kind_of
from synapse.model.message import Message
from synapse.system.typed import Any, NamedTuple
from synapse.view import block

CAPSULE = 2_048  # bytes
PAGE = 20
BRIEFING = (
    200,
    2_000,
    10_000,
)  # tokens of a briefing: at least, where nothing is said, at most

Arguments = Mapping[str, Any]

# `Blocked:` as the first words of a text, whatever Markdown marks stand around them.
_MARKS = r"[*_~]{0,4}"
_BLOCKED = re.compile(
    rf"[\s#>*_~-]*(`?){_MARKS}blocked(?:{_MARKS}:{_MARKS}\1|{_MARKS}\1{_MARKS}\s?:){_MARKS}\s*(.*)",
    re.IGNORECASE,
)
_NOT_BLOCKED = frozenset(("none", "nothing", "no", "nobody", "n/a", "null", "false"))
UNNAMED = "it does not say what is missing"


class ToolProblem(str):
    """The answer to a call that could not be done: `Error: ` and why. A text like any other
    answer.
    """

    __slots__ = ()


class Tool(NamedTuple):
    """A tool of the memory. `call` acts as a seat; its third argument is the key under which a
    retry writes nothing.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    call: Callable[[AgentMemory, Arguments, str | None], str]
    writes: bool


def call(
    tool: Tool, seat: AgentMemory, arguments: object, once: str | None = None
) -> str:
    """Return the tool's answer. Raises ToolProblem if the arguments do not fit or the memory
    refuses."""
    try:
        return tool.call(seat, checked(tool, arguments), once)
    except SynapseError as error:
        return ToolProblem(_cut(f"Error: {block.escaped(str(error))}"))


def offered(role: str) -> list[Tool]:
    """Return the tools of a role. Each offered tool costs tokens in every turn, so a role gets only
    those that it uses: agents that hand out work confirm results and remember for the team; the
    others do so by ending a turn and by writing an entry."""
    return [
        tool
        for tool in TOOLS
        if tool.name not in _LEADS or role in ("cto", "project-lead")
    ]


def checked(tool: Tool, arguments: object) -> Arguments:
    """Return the arguments, or raise InvalidEntry with everything that is wrong with them."""
    takes = tool.schema["properties"]
    if not isinstance(arguments, Mapping):
        raise InvalidEntry(f"{tool.name} takes an object with {', '.join(takes)}")
    values = {name: value for name, value in arguments.items() if value is not None}
    problems = [
        f"{tool.name} takes no {block.escaped(str(name)[:40])!r}"
        for name in values
        if name not in takes
    ]
    problems += [
        f"{name} is missing"
        for name in tool.schema.get("required", ())
        if name not in values
    ]
    problems += [
        f"{name} must be {_kind(takes[name])}"
        for name, value in values.items()
        if name in takes and not _fits(takes[name], value)
    ]
    if problems:
        raise InvalidEntry("; ".join(problems))
    return values


def _fits(schema: Mapping[str, Any], value: object) -> bool:
    match schema["type"]:
        case "string":
            return _is_text(value) and value in schema.get("enum", (value,))
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return (
                isinstance(value, Sequence)
                and not isinstance(value, str)
                and all(map(_is_text, value))
            )


def _is_text(value: object) -> bool:
    """Return whether text can be stored: half a surrogate pair, which JSON allows, cannot."""
    return isinstance(value, str) and not any(
        "\ud800" <= char <= "\udfff" for char in value
    )


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    return {
        "string": "text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
    }.get(schema["type"], "a list of texts")


# -- the tools -------------------------------------------------------------------------


def _append(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    fields = {
        name: value
        for name, value in given.items()
        if name not in ("namespace", "body")
    }
    if "supersedes" in fields:
        fields["supersedes"] = [
            resolved(seat, id).id for id in words(fields["supersedes"])
        ]
    return _stored(seat.append(given["body"], given["namespace"], once=once, **fields))


def _report_blocker(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    namespace = f"blockers/{given.get('project') or _project(seat)}"
    text = blocker_of(given["text"]) or given["text"]
    return _stored(
        seat.append(f"Blocked: {text}", namespace, priority="critical", once=once)
    )


def blocker_of(text: str) -> str | None:
    """Return what is missing, where the first line of a text begins with `Blocked:`; None for any
    other text, and for `Blocked: none`. What is missing is the rest of that paragraph, or the next
    one where nothing follows."""
    lines = [line.strip() for line in text.strip().splitlines()]
    first = next(
        (at for at, line in enumerate(lines) if any(map(str.isalnum, line))), len(lines)
    )
    match = _BLOCKED.fullmatch(lines[first]) if first < len(lines) else None
    if match is None:
        return None
    title = _unmarked(match[2])
    if re.split(r"[.,;:]", title.lower(), maxsplit=1)[0].strip() in _NOT_BLOCKED:
        return None
    body = "\n".join([title, *lines[first + 1 :]]).strip()
    return " ".join(body.partition("\n\n")[0].split()) or UNNAMED


def _unmarked(text: str) -> str:
    """Return the text without a mark at its end that was opened before it: `**Blocked: no
    key**`."""
    for mark in ("**", "__", "*", "_"):
        if text.endswith(mark) and text.count(mark) % 2:
            return text.removesuffix(mark).rstrip()
    return text


def _project(seat: AgentMemory) -> str:
    project = seat.pen.project()
    if project is None:
        raise InvalidEntry(
            "no project is known here: append to a namespace below blockers/, with"
            " priority critical"
        )
    return project


def _stored(entry: Entry) -> str:
    waits = "; it waits for review" if entry.staged else ""
    return f"Stored as {entry.id} in {entry.namespace}{waits}."


def _read(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    if "id" in given:
        return _one(seat, given["id"], given.get("offset", 0), once)
    if seat.id != OPERATOR and not given.keys() & {"namespace", "since"}:
        return _news(seat, once)
    page = seat.read(
        since=given.get("since"), namespace=given.get("namespace"), limit=PAGE
    )
    if not page:
        return f"Nothing here for you: {page.matched} live entries match, you may see none of them."
    return _capsule(
        [_short(entry) for entry in page], page.visible, "name a namespace or since"
    )


def _news(seat: AgentMemory, once: str | None) -> str:
    """Return what the agent was not shown, and mark what is there whole. A retry gives again what
    its key marked.
    """
    page = seat.read(unread=True, limit=PAGE)
    rendered = [block.whole(entry).text for entry in page]
    heavy = [len(text.encode()) > CAPSULE // 2 for text in rendered]
    texts = [
        block.pointer(entry).text if cut else text
        for entry, text, cut in zip(page, rendered, heavy, strict=True)
    ]
    answer, count = _filled(texts, page.visible, "read again")
    ids = [
        entry.id
        for entry, cut in zip(page[:count], heavy[:count], strict=True)
        if not cut
    ]
    earlier = _named(seat, once)
    if earlier is not None:
        return "".join(block.whole(seat.get(id)).text for id in earlier)
    if ids:
        _mark(lambda: seat.pen.shown(ids, page.visible, page.cursor, "tool", once))
    if answer:
        return answer
    every = f"{page.matched} live entries match"
    return f"Nothing new for you: {every}, and you were shown all that you may see of them."


def _named(seat: AgentMemory, once: str | None) -> list[str] | None:
    """Return the entries that a first call under this key marked as shown; None where there was
    none.
    """
    if once is None:
        return None
    with seat.store.snapshot() as snap:
        seq = snap.first(seat.id, once)
    return None if seq is None else list(seat.store.log.at(seq).fields["ids"])


def _note(seat: AgentMemory, entry: Entry, once: str | None) -> None:
    """Mark an entry as shown that the agent has just been given to its end, where it was not
    before.
    """
    agent = seat.store.agent(seat.id)
    if agent is None or entry.author == agent.id or entry.staged:
        return
    with seat.store.snapshot() as snap:
        floor, already_seen = snap.seen(agent, entry.seq, entry.seq)
    if entry.seq > floor and not already_seen:
        _mark(lambda: seat.pen.shown([entry.id], 1, snap.cursor, "tool", once))


def _mark(note: Callable[[], object]) -> None:
    """Note what the agent was given; who may only read is given it all the same."""
    try:
        note()
    except ReadOnly:
        pass


def _short(entry: Entry) -> str:
    """Return an entry in full, or a pointer if it would take half of the answer."""
    text = block.natural(entry).text
    return text if len(text.encode()) <= CAPSULE // 2 else block.pointer(entry).text


def _one(seat: AgentMemory, id: str, offset: int, once: str | None) -> str:
    """Return one entry from an offset on, as far as there is room."""
    entry = resolved(seat, id)
    id = entry.id
    if not 0 <= offset < len(entry.body):
        raise InvalidEntry(
            f"offset {offset} is not within the {len(entry.body)} characters of {id}"
        )
    fate = seat.fate(id)
    state = (
        f"(no longer shown: {fate.reason}{' by ' + fate.by if fate.by else ''})\n"
        if fate
        else ""
    )

    def shown(n: int) -> str:
        text, end = (
            block.whole(entry._replace(body=entry.body[offset : offset + n])).text,
            offset + n,
        )
        position = f"(characters {offset} to {end} of {len(entry.body)}; the rest: offset {end})\n"
        return state + text + (position if end < len(entry.body) else "")

    low, high = 1, min(CAPSULE, len(entry.body) - offset)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high)
            if len(shown(middle).encode()) <= CAPSULE
            else (low, middle - 1)
        )
    if offset + low >= len(entry.body) and not fate:
        _note(seat, entry, once)
    return shown(low)


def _memory_search(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    return recall.search(seat, **given).text


def _memory_remember(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    entry = recall.remember(seat, once=once, **given)
    waits = "; it waits for review" if entry.staged else ""
    disputed = f"; disputed with {', '.join(entry.disputed)}" if entry.disputed else ""
    return f"Kept as {short(entry)} in {entry.namespace}{waits}{disputed}."


def _memory_forget(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    return (
        f"Forgot {short(recall.forget(seat, once=once, **given))}; it stays in the log."
    )


def _claim(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    if given.get("release"):
        return f"Released {seat.release(given['work'], once=once).work!r}."
    claim = seat.claim(given["work"], minutes=given.get("minutes", 30), once=once)
    return f"{claim.work!r} is yours until {seconds(claim.until)}."


def _ack(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    ids = [resolved(seat, id).id for id in words(given["ids"])]
    messages = [id for id in ids if kind_of(id) == MESSAGE]
    entries = [id for id in ids if id not in messages]
    if entries or not messages:
        seat.ack(entries, once=once)
    for id in messages:
        Mail(seat).ack(id, once=once and f"{once}:{id}")
    return f"Acknowledged {', '.join(ids)}."


def _briefing(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    least, usual, most = BRIEFING
    budget = given.get("budget", usual)
    if not least <= budget <= most:
        raise InvalidEntry(
            f"budget is {budget} tokens: write {least} to {most}, or none for {usual}"
        )
    view = seat.briefing(budget, about=given.get("task", ""), commands=False)
    if seat.id != OPERATOR:
        total = len(view.included) + len(view.left_out)
        _mark(lambda: seat.pen.shown(view.shown, total, view.cursor, "tool", once))
    return view.markdown()


def _send(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    fields = {name: given[name] for name in ("subject", "priority") if name in given}
    mail = Mail(seat)
    if "re" in given:
        if "thread" in given:
            raise InvalidEntry(
                "an answer goes to the thread of its message: give re or thread, not both"
            )
        message = mail.reply(
            resolved(seat, given["re"]).id,
            given["body"],
            to=given.get("to"),
            once=once,
            **fields,
        )
    else:
        if "to" not in given:
            raise InvalidEntry(
                "to whom? Give to (an agent, a team, or all), or re (the message that this answers)"
            )
        message = mail.send(
            given["to"], given["body"], thread=given.get("thread"), once=once, **fields
        )
    return f"Sent as {message.entry.id} to {message.entry.to} in {message.thread}."


def _inbox(seat: AgentMemory, _: Arguments, once: str | None) -> str:
    """Give the unread messages, and mark those as read that are there whole. A retry gives again
    what its key marked.
    """
    mail = Mail(seat)
    earlier = _named(seat, once)
    if earlier is not None:
        return "".join(_letter(mail.get(id)) for id in earlier)
    waiting = mail.inbox()
    texts = [_letter(message) for message in waiting[:PAGE]]
    heavy = [len(text.encode()) > CAPSULE for text in texts]
    rendered = [
        block.pointer(message.entry, False).text if cut else text
        for message, text, cut in zip(waiting, texts, heavy, strict=False)
    ]
    answer, count = _filled(rendered, len(waiting), "call inbox again")
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
    subject = (
        f", subject: {block.escaped(' '.join(message.subject.split()))}"
        if message.subject
        else ""
    )
    return (
        f"({message.thread},"
        f" {message.priority}{subject})\n{block.whole(message.entry, False).text}"
    )


def _object(required: Iterable[str] = (), **properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object; a bare type name stands for a schema of that type."""
    schemas = {
        name: {"type": schema} if isinstance(schema, str) else schema
        for name, schema in properties.items()
    }
    return {"type": "object", "properties": schemas} | (
        {"required": list(required)} if required else {}
    )


_PRIORITY = {"type": "string", "enum": list(PRIORITIES)}
_IDS = {"type": "array", "items": {"type": "string"}}
_ENTRY = _object(
    ("namespace", "body"),
    namespace="string",
    body="string",
    priority=_PRIORITY,
    to="string",
    topic="string",
    supersedes="string",
)
_WHICH = _object(id="string", offset="integer", namespace="string", since="string")
_WORK = _object(("work",), work="string", minutes="integer", release="boolean")
_QUERY = _object(
    ("query",),
    query="string",
    scope="string",
    top_k="integer",
    max_capsule_bytes="integer",
)
_FACT = _object(
    ("fact", "scope"),
    fact="string",
    scope="string",
    confidence="number",
    ttl_days="integer",
    supersedes="string",
)
_LETTER = _object(
    ("body",),
    body="string",
    to="string",
    re="string",
    thread="string",
    subject="string",
    priority={"type": "string", "enum": list(URGENCY)},
)
TOOLS = (
    Tool(
        "append",
        "Write beside other calls, to agent:ID, team:NAME, operator or all",
        _ENTRY,
        _append,
        True,
    ),
    Tool("read", "Unread entries, newest or one", _WHICH, _read, False),
    Tool(
        "memory_search",
        "Search agent, group, global or all",
        _QUERY,
        _memory_search,
        False,
    ),
    Tool(
        "report_blocker",
        "Report one",
        _object(("text",), text="string"),
        _report_blocker,
        True,
    ),
    Tool("claim", "Reserve work", _WORK, _claim, True),
    Tool(
        "ack",
        "Confirm entries delivered to you",
        _object(("ids",), ids=_IDS),
        _ack,
        True,
    ),
    Tool(
        "memory_remember",
        "Keep a fact for scope agent, group or global",
        _FACT,
        _memory_remember,
        True,
    ),
    Tool(
        "memory_forget",
        "Withdraw a fact",
        _object(("fact_id",), fact_id="string"),
        _memory_forget,
        True,
    ),
)
_LEADS = ("ack", "memory_remember", "memory_forget")

# What clients of the MCP server are given beside these: a supervised agent has its briefing in its
# prompt.
CLIENTS = (
    Tool(
        "briefing",
        "What to know now, for a task",
        _object(task="string", budget="integer"),
        _briefing,
        False,
    ),
    Tool("send", "Send a message, or answer one", _LETTER, _send, True),
    Tool("inbox", "Unread messages; marks them as read", _object(), _inbox, False),
)


# -- capsules --------------------------------------------------------------------------


def _capsule(blocks: Sequence[str], total: int, advice: str) -> str:
    """Return as many blocks as there is room for, in their order; the last line says what is
    missing.
    """
    return _filled(blocks, total, advice)[0]


def _filled(blocks: Sequence[str], total: int, advice: str) -> tuple[str, int]:
    """Return the same, and how many blocks are there."""

    def foot(count: int) -> str:
        return f"({count} of {total} shown; {advice})\n" if count < total else ""

    count, size = 0, 0
    for text in blocks:
        if size + len(text.encode()) + len(foot(count + 1).encode()) > CAPSULE:
            break
        size, count = size + len(text.encode()), count + 1
    return "".join(blocks[:count]) + foot(count), count


def _cut(text: str) -> str:
    """Return a text shortened to what one answer may hold."""
    raw = text.encode("utf-8", "replace")
    return (
        text
        if len(raw) <= CAPSULE
        else raw[: CAPSULE - 4].decode("utf-8", "ignore") + "…"
    )
