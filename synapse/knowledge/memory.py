"""Writing knowledge: facts, atoms (who does what, with which outcome), and links between atoms.

They are entries of a kind of their own, so that who may write and read them is decided where it is
for all entries. Each function acts as the agent memory that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synapse.agent_memory import AgentMemory, Names
from synapse.authority import TAKEN, authorities_of, may_overrule, may_say
from synapse.errors import Conflict, Forbidden, InvalidEntry, NotFound
from synapse.index.full_text.search import holding
from synapse.index.questions.links import Link, links, uses
from synapse.knowledge.references import resolve_reference
from synapse.model.agents import Agent, authority_in
from synapse.model.condense import Shape, Turn, condense
from synapse.model.entry import Draft, Entry, addressees, words
from synapse.model.kinds import ATOM, FACT, MESSAGE, is_id, kind_of, new_id
from synapse.model.records import Guard
from synapse.system.checks import checked
from synapse.system.digest import sha256
from synapse.system.tokens import upper_bound

_LOOKED_AT = 50  # entries that hold all words of a line
MOST_KEPT = 20  # of the tags in one message: so many are kept at most
LINK_TYPES = ("causes", "enables", "precedes", "correlates")
SCOPES = ("agent", "group", "global")
KNOWN = (FACT, ATOM)
HOUR = 3_600_000_000
_TAGS = {"@remember": (), "@decision": ("decision",), "@insight": ("insight",)}
_SUMMARY = Shape(window=1, output=400, specifics=300, capsule=600)


@checked
def remember(
    me: AgentMemory,
    fact: str,
    *,
    scope: str = "agent",
    categories: Names = (),
    importance: float = 1.0,
    confidence: float = 1.0,
    ttl: str | None = None,
    cites: Names = (),
    supersedes: Names = (),
    source: str = "agent",
    to: Names = "all",
    id: str | None = None,
    once: str | None = None,
    unless: Guard | None = None,
) -> Entry:
    """Keep a fact for oneself, a group or everybody. `cites` are the entries, messages, facts,
    atoms and runs that it comes from: it is trusted no more than the least of them.
    """
    _within("importance", importance, 0, 10)
    own = {
        "categories": words(categories),
        "importance": importance,
        "confidence": _share("confidence", confidence),
    }
    draft = _draft(me, fact, FACT, scope, cites, {**own, "source": source}, id)
    draft = draft._replace(ttl=ttl, replaces=words(supersedes), addressees=addressees(to))
    return me.write(draft, once=once, unless=unless)


@checked
def atom(
    me: AgentMemory,
    subject: str,
    action: str,
    outcome: str,
    consequences: str = "",
    *,
    scope: str = "agent",
    confidence: float = 1.0,
    cites: Names = (),
    source: str = "agent",
    to: Names = "all",
    id: str | None = None,
    once: str | None = None,
) -> Entry:
    """Keep a unit of cause and effect: somebody or something does this, with that outcome and these
    consequences.
    """
    texts = {"subject": subject, "action": action, "outcome": outcome, "consequences": consequences}
    texts = {name: " ".join(text.split()) for name, text in texts.items()}
    for name in ("subject", "action", "outcome"):
        if not texts[name]:
            raise InvalidEntry(f"an atom needs its {name}", field=name)
    own = {**texts, "confidence": _share("confidence", confidence), "source": source}
    draft = _draft(me, sentence(texts), ATOM, scope, cites, own, id)
    return me.write(draft._replace(addressees=addressees(to)), once=once)


def sentence(parts: dict[str, str]) -> str:
    """Return the parts of an atom as one sentence, its body."""
    after = f"; {parts['consequences']}" if parts["consequences"] else ""
    return f"{parts['subject']}: {parts['action']} -> {parts['outcome']}{after}"


@checked
def link(
    me: AgentMemory, cause: str, effect: str, type: str = "causes", strength: float = 0.5
) -> Link:
    """Say what one atom does to another; what was said of the pair before no longer counts."""
    if type not in LINK_TYPES:
        raise InvalidEntry(f"link type {type!r} is not one of {', '.join(LINK_TYPES)}", type=type)
    ends = [_entry_of_kind(me, id, (ATOM,)).id for id in (cause, effect)]
    if ends[0] == ends[1]:
        raise InvalidEntry("an atom is not linked to itself", id=ends[0])
    _share("strength", strength)
    agent = _agent(me)
    may_say(agent, "link atoms")
    for record in links_of(me, ends[0]):
        if (record.cause, record.effect) == (ends[0], ends[1]):
            author = me.store.agents.get(record.by)
            may_overrule(agent, record.by, author, me.store.settings, "say this link anew")
    me.writer.act(
        "link", cause=ends[0], effect=ends[1], type=type, strength=float(strength), ids=ends
    )
    return next(
        existing
        for existing in links_of(me, ends[0])
        if (existing.cause, existing.effect) == (ends[0], ends[1])
    )


@checked
def links_of(me: AgentMemory, id: str) -> list[Link]:
    """Return the links from and to an atom, if this agent may see both ends."""
    own = _entry_of_kind(me, id, (ATOM,)).id
    with me.store.snapshot() as snap:
        rows = links(snap, own)
    return [row for row in rows if sees(me, row.effect if row.cause == own else row.cause)]


@checked
def forget(
    me: AgentMemory,
    id: str,
    reason: str | None = None,
    *,
    once: str | None = None,
    unless: Guard | None = None,
) -> Entry:
    """Take a fact or an atom out of everything that is shown. It stays in the log, with who forgot
    it and why.
    """
    entry = _entry_of_kind(me, id, KNOWN)
    return me.resolve(entry.id, reason, once=once, unless=unless)


@checked
def uses_of(me: AgentMemory, id: str) -> int:
    """Return about how often the item was asked for; long-lived processes note it once an hour."""
    entry = _entry_of_kind(me, id, KNOWN)
    with me.store.snapshot() as snap:
        return uses(snap, entry.id) + me.store.used.get(entry.id, 0)


def used(me: AgentMemory, ids: Iterable[str]) -> None:
    """Count that items were asked for. A record goes into the log at most once an hour and
    process.
    """
    store = me.store
    for id in ids:
        if kind_of(id) in KNOWN:
            store.used[id] = store.used.get(id, 0) + 1
    now = store.clock()
    if store.used and now - store.used_since >= HOUR and not store.readonly:
        counts, store.used, store.used_since = dict(sorted(store.used.items())), {}, now
        store.commit.act("used", me.id, counts=counts)


# -- from conversations ----------------------------------------------------------------------------


def harvest(me: AgentMemory, message: Entry) -> list[Entry]:
    """Keep what the tags in a message of one's own name: `@remember`, `@decision`, `@insight` and
    `@atom s | a | o | c`, each to the end of its line, the first `MOST_KEPT` of them. Those whom
    the message reached may see it; a line that others wrote before has no more authority and trust
    than theirs. Doing it again keeps nothing twice.
    """
    if message.kind != MESSAGE or message.author != me.id:
        raise Forbidden(
            f"{message.id} is not a message of {me.id}", agent=me.id, action="keep what it names"
        )
    entries = []
    for position, (tag, text) in enumerate(parse_tags(message.body)[:MOST_KEPT]):
        try:
            entries.append(_write_tagged(me, message, position, tag, text))
        except Conflict:
            continue  # kept before
    return entries


def not_kept(body: str) -> str:
    """Return a sentence that says which tags of a message are more than are kept; empty if none."""
    dropped = parse_tags(body)[MOST_KEPT:]
    if not dropped:
        return ""
    return (
        f"of {MOST_KEPT + len(dropped):,} tagged lines the first {MOST_KEPT} are kept as facts; the"
        f" others stand in the message alone, from {dropped[0][1][:60]!r} on"
    )


def parse_tags(body: str) -> list[tuple[str, str]]:
    """Return the tags of a message, each with the rest of its line. What its author quotes says
    nothing of its own: what stands behind `>`, in a fence or indented as code.
    """
    tags, fence = [], ""
    for line in body.split("\n"):
        marks = line.strip()[:3]
        if marks in ("```", "~~~") and fence in ("", marks):
            fence = "" if fence else marks
        if fence or line.startswith(("    ", "\t")):
            continue
        tag, _, text = line.strip().partition(" ")
        columns = [column for column in text.split("|") if column.strip()]
        if (tag in _TAGS and text.strip()) or (tag == "@atom" and len(columns) in (3, 4)):
            tags.append((tag, text.strip()))
    return tags


def _write_tagged(me: AgentMemory, message: Entry, position: int, tag: str, text: str) -> Entry:
    # from the message: the second time it is taken
    digest = bytes.fromhex(sha256(f"{message.id} {position}".encode()))
    quoted = _quoted(me, message, text)
    how = {
        "scope": _scope_of_message(me, message, quoted),
        "to": message.addressees,
        "cites": (message.id, *(entry.id for entry in quoted)),
        "source": TAKEN,
    }
    if tag == "@atom":
        columns = [column.strip() for column in text.split("|") if column.strip()]
        return atom(me, *columns, **how, id=new_id(ATOM, digest))  # type: ignore[arg-type]
    weight = 2.0 if tag == "@decision" else 1.0
    return remember(
        me,
        text,
        categories=_TAGS[tag],
        importance=weight,
        id=new_id(FACT, digest),
        **how,  # type: ignore[arg-type]
    )


def _quoted(me: AgentMemory, message: Entry, text: str) -> list[Entry]:
    """Return the earlier entries of others in which a line of a message stands, as far as its
    author sees them."""
    line = " ".join(text.split()).casefold()
    with me.store.snapshot(words=True) as snap:
        entries = holding(snap, _agent(me), text, me.store.clock(), _LOOKED_AT)
    return [
        entry
        for entry in entries
        if entry.author != me.id
        and entry.seq < message.seq
        and line in " ".join(entry.body.split()).casefold()
    ]


def _scope_of_message(me: AgentMemory, message: Entry, quoted: Iterable[Entry]) -> str:
    """Return the recall scope of those who received a message, for words that are others' too. An
    addressee sees a fact in any scope."""
    if message.addressees != ("all",):
        return "agent"
    agent = _agent(me)
    own = authority_in(agent, "global", me.store.settings.flat)
    if min([own, *authorities_of(me.id, quoted)]) >= me.store.settings.global_write:
        return "global"
    return f"group:{agent.groups[0]}" if len(agent.groups) == 1 else "agent"


def summarise(me: AgentMemory, messages: Sequence[Entry], text: str | None = None) -> Entry:
    """Write a fact that sums a thread up: the caller's text, or its most telling lines. It reaches
    only those who received every message, and lines of others have no more authority as a fact."""
    if not messages:
        raise InvalidEntry("a thread without messages has nothing to sum up")
    others, source = [], "agent"
    subject = next(
        (message.more["subject"] for message in messages if "subject" in message.more), ""
    )
    if text is None:
        others, source = [*messages], TAKEN
        statements = [Turn(message.author, message.body) for message in messages]
        text = "\n".join(condense(statements, subject, upper_bound, _SUMMARY).pieces)
    audiences = [
        {*message.addressees, f"agent:{message.author}"}
        for message in messages
        if message.addressees != ("all",)
    ]
    to = sorted(set[str].intersection(*audiences)) or [f"agent:{me.id}"] if audiences else "all"
    head = f"{subject}: " if subject else ""
    scope = "agent" if audiences else _scope_of_message(me, messages[0], others)
    cites = tuple(message.id for message in messages)
    return remember(
        me,
        f"{head}{text}",
        scope=scope,
        to=to,
        categories=("summary",),
        importance=2.0,
        source=source,
        cites=cites,
    )


# -- below -----------------------------------------------------------------------------------------


def place(agent: Agent, scope: str) -> str:
    """Return the namespace of a recall scope: `agent`, `group`, `group:NAME` or `global`."""
    kind, _, name = scope.partition(":")
    if kind == "agent" and not name:
        return f"agents/{agent.id}"
    if kind == "global" and not name:
        return "global"
    if kind != "group":
        raise InvalidEntry(
            f"scope {scope!r} is not valid: write agent, group, group:NAME or global", scope=scope
        )
    names = sorted(agent.groups)
    if name and name not in names:
        raise Forbidden(
            f"agent {agent.id} is not in {name}; it is in {', '.join(names) or 'no group'}",
            agent=agent.id,
        )
    if not name and len(names) != 1:
        which = f"is in {', '.join(names)}: write group:NAME" if names else "is in no group"
        raise InvalidEntry(f"agent {agent.id} {which}", scope=scope)
    return f"groups/{name or names[0]}"


def _draft(
    me: AgentMemory,
    body: str,
    kind: str,
    scope: str,
    cites: Names,
    own: dict[str, object],
    id: str | None,
) -> Draft:
    agent, sources = _agent(me), words(cites)
    runs = tuple(source for source in sources if not is_id(source))
    with me.store.snapshot() as snap:
        unknown = next((run for run in runs if snap.run(run) is None), None)
    if unknown is not None:
        raise NotFound(f"there is no entry and no run {unknown} to cite", id=unknown)
    extra = {**own, "cites": runs} if runs else own
    entry_id = id or new_id(kind, me.store.draw(6))
    from_entries = tuple(source for source in sources if is_id(source))
    return Draft(
        body,
        place(agent, scope),
        me.id,
        derived_from=from_entries,
        id=entry_id,
        kind=kind,
        more=extra,  # type: ignore[arg-type]
    )


def _agent(me: AgentMemory) -> Agent:
    agent = me.agent
    if agent is None:
        raise Forbidden("the operator keeps no knowledge; act as an agent", action="remember")
    return agent


def _entry_of_kind(me: AgentMemory, id: str, kinds: tuple[str, ...]) -> Entry:
    entry = resolve_reference(me, id)
    if entry.kind not in kinds:
        raise NotFound(f"{id} is not of the kind {' or '.join(kinds)} but {entry.kind}", id=id)
    return entry


def sees(me: AgentMemory, id: str) -> bool:
    try:
        me.access.entry(id)
    except NotFound:
        return False
    return True


def _share(name: str, value: float) -> float:
    return _within(name, value, 0, 1)


def _within(name: str, value: float, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidEntry(f"{name} {value!r} is not between {least} and {most}", field=name)
    return value
