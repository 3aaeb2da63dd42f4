"""The rules of authority: who may write, who may read, which of two entries wins.

Pure: agents, entries and settings in, decisions out. The store and the index call it; nothing here
reads or writes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from operator import attrgetter

from synapse.errors import Forbidden, InvalidEntry, NoKey
from synapse.model import kinds
from synapse.model import namespace as ns
from synapse.model.agents import (
    CONSOLIDATOR,
    GLOBAL,
    OPERATOR,
    PLACES,
    RESERVED,
    Agent,
    authority_in,
)
from synapse.model.entry import (
    NEVER,
    RANK,
    SCOPES,
    TRUST,
    Draft,
    Entry,
    addressees,
    check_priority,
    is_id,
    parse_ttl,
    references,
    stamp,
)
from synapse.model.entry_fields import TEXTS
from synapse.model.records import canonical_body
from synapse.model.settings import Settings
from synapse.privacy import personal
from synapse.system.typed import NamedTuple

MAX_BODY = 1 << 20
MERGED = "merged"
TAKEN = "synapse"  # the source of facts whose words were taken from messages, not by their author


class Effect(NamedTuple):
    """What a new entry does to an earlier one, or to itself: `seq` is hidden until a time, or
    disputed by `by`.
    """

    seq: int
    reason: str
    by: int
    until: int = 0


def check_form(draft: Draft) -> Draft:
    """Return the draft with every field in its canonical form; raise InvalidEntry or NoKey. Knows
    no agents."""
    ns.check(draft.namespace)
    check_priority(draft.priority)
    if draft.scope not in SCOPES:
        raise InvalidEntry(
            f"scope {draft.scope!r} is not one of {', '.join(SCOPES)}", scope=draft.scope
        )
    if draft.pii and draft.scope != "encrypted":
        raise NoKey(
            "pii: true needs a key to seal it: nothing was stored; write it with scope:"
            " encrypted, to agents that have keys"
        )
    body = canonical_body(draft.body)
    if not body:
        raise InvalidEntry("the body is empty")
    _check_texts(draft, body)
    for id in references(draft):
        if not is_id(id):
            raise InvalidEntry(f"{id!r} is not the id of an entry", id=id)
    if draft.ttl is not None:
        parse_ttl(draft.ttl)
    if draft.kind == kinds.MESSAGE and draft.topic:
        raise InvalidEntry("a message has no topic: it is in a thread, and has a subject")
    extra = kinds.check(draft.kind, draft.namespace, draft.more, draft.priority)
    to = addressees(draft.addressees)
    if extra is draft.more and (body, to) == (draft.body, draft.addressees):
        return draft
    return draft._replace(body=body, addressees=to, more=extra)


def check_when(draft: Draft) -> None:
    """Refuse a draft whose `when` names no moment: nobody would ever be shown it."""
    if draft.when is not None:
        from synapse.model.conditions import check

        check(draft)


def admit(draft: Draft, agent: Agent | None, settings: Settings, *, trust: str = "local") -> Entry:
    """Return the entry that the draft becomes, stamped with who wrote it; Forbidden where its
    author may not write.

    An agent of None is one that nobody registered: it is admitted with no authority, and never
    above important.
    """
    draft = personal.checked(check_form(draft), settings)
    if agent is None:
        trust = "unverified"
    else:
        may_write(agent, draft.namespace, settings)
    to = draft.addressees
    if draft.scope == "team" and to == ("all",):
        to = tuple(sorted(f"team:{name}" for name in (agent.groups if agent else ())))
        if not to:
            raise InvalidEntry(
                f"scope: team needs a team, and {draft.author} is in none; name one in `to`"
            )
    unverified = trust == "unverified"
    lowered = unverified and draft.priority == "critical"
    return stamp(
        draft,
        id=draft.id or "",
        timestamp=draft.timestamp or "",
        priority="important" if lowered else draft.priority,
        ttl=draft.ttl or _ttl(draft, settings),
        addressees=to,
        authority=0
        if agent is None or unverified
        else authority_in(agent, draft.namespace, settings.flat),
        trust=trust,
        claimed=draft.priority if lowered else None,
        staged=bool(agent and agent.review_required),
    )


def passed_on(trusts: Iterable[str]) -> str:
    """Return the trust of what is made of things that are trusted so: the least of theirs. Nothing
    gains trust on its way from one to the next.
    """
    return min(trusts, key=TRUST.index)


def authorities_of(author: str, sources: Iterable[Entry]) -> list[int]:
    """Return the authorities of the sources that are by others than this author."""
    return [source.authority for source in sources if source.author != author]


def _ttl(draft: Draft, settings: Settings) -> str:
    """Return the time to live of a draft that names none: mail and knowledge never expire."""
    if draft.kind != kinds.ENTRY:
        return "never"
    if draft.topic == "plan":
        return "90d"
    return ns.default_ttl(draft.namespace, settings.ttl)


def may_write(agent: Agent, namespace: str, settings: Settings, action: str = "write") -> None:
    """Raise Forbidden where the agent may not write. What everybody recalls takes authority too,
    whatever the agent's patterns say.
    """
    declared = agent.write or ()
    if not ns.matches_any(declared, namespace) and not ns.matches_any(agent.writes, namespace):
        raise refusal(agent, namespace, action)
    if not ns.matches(GLOBAL, namespace):
        return
    rank = authority_in(agent, namespace, settings.flat)
    if rank < settings.global_write:
        raise Forbidden(
            f"agent {agent.id} may not {action} in {namespace}: it takes authority"
            f" {settings.global_write}, and it has"
            f" {rank}; `global_write` in synapse.yaml changes that",
            agent=agent.id,
            namespace=namespace,
            action=action,
            allowed=list(agent.write or ()),
        )


def refusal(agent: Agent, namespace: str, action: str = "write") -> Forbidden:
    """Return the error of an agent that may not write there; it names where it may."""
    places = (f"{folder}/{name}/*" for name in agent.memberships for folder in PLACES)
    extra = (
        glob for glob in places if not ns.matches_any(agent.write or (), glob.removesuffix("/*"))
    )
    allowed = (*(agent.write or ()), *dict.fromkeys(extra))
    place, _, project = namespace.partition("/")
    joins = place in PLACES and project and action == "write"
    how = f"; a member of the project {project} may (`projects:` in its file)"
    return Forbidden(
        f"agent {agent.id} may not {action} in {namespace}; it may in"
        f" {', '.join(allowed) or 'no namespace'}{how if joins else ''}",
        agent=agent.id,
        namespace=namespace,
        action=action,
        allowed=list(allowed),
    )


def may_replace(agent: Agent, old: Entry, new: Entry) -> None:
    """Refuse an agent that may not supersede this entry: it needs the right to write there, and a
    message is replaced by its own author alone."""
    if not ns.matches_any(agent.writes, old.namespace):
        raise refusal(agent, old.namespace, f"supersede {old.id}")
    if kinds.MESSAGE in (old.kind, new.kind) and (old.author, old.kind, old.more.get("thread")) != (
        new.author,
        new.kind,
        new.more.get("thread"),
    ):
        raise Forbidden(
            (
                f"{old.id} may not be replaced: a message takes the place of one by its"
                f" own author, in its own thread"
            ),
            agent=agent.id,
            action=f"supersede {old.id}",
        )


def may_rule(agent: Agent, entry: Entry, settings: Settings, action: str) -> None:
    """Refuse an agent that does not stand above the entry: it has to write there, need no review
    itself, and not be its author."""
    rank = authority_in(agent, entry.namespace, settings.flat)
    if agent.id == entry.author:
        raise Forbidden(
            f"agent {agent.id} may not {action} {entry.id}: it is its own",
            agent=agent.id,
            action=action,
        )
    if (
        agent.review_required
        or not ns.matches_any(agent.writes, entry.namespace)
        or rank < max(entry.authority, 1)
    ):
        raise Forbidden(
            f"agent {agent.id} may not {action} {entry.id}: it takes authority"
            f" {max(entry.authority, 1)} or more"
            f" over {entry.namespace}, without review; it has {rank}",
            agent=agent.id,
            namespace=entry.namespace,
            action=action,
            allowed=list(agent.write or ()),
        )


def may_vouch(
    agent: Agent | None, entry: Entry, authority: int, settings: Settings, *, derived: bool
) -> None:
    """Refuse an agent that may not have an unverified entry believed: it could write the entry
    itself, without review, and has no less than the `authority` that the entry gets there.

    What carries its own name, it knows to be its own or not, unless the entry is `derived`: made
    of others, or by a run that was shown such. Then somebody else has to look. An agent of None is
    the operator, who may always say so.
    """
    action = f"vouch for {entry.id}"
    if entry.author in RESERVED and (agent or entry.author != OPERATOR):
        raise Forbidden(
            f"nobody may {action}: {entry.author} is no agent; write what is true of it"
            " yourself, or archive it",
            action=action,
        )
    if agent is None:
        return
    may_write(agent, entry.namespace, settings, action)
    if derived and agent.id == entry.author:
        raise Forbidden(
            f"agent {agent.id} may not {action}: it is its own, and made of what is not believed;"
            " somebody else has to look at it",
            agent=agent.id,
            action=action,
        )
    rank = authority_in(agent, entry.namespace, settings.flat)
    needed = max(authority, 1)
    if agent.review_required or (rank < needed and agent.id != entry.author):
        raise Forbidden(
            f"agent {agent.id} may not {action}: it would count as {entry.author}'s, and so takes"
            f" authority {needed} or more over {entry.namespace}, without review; it has {rank}",
            agent=agent.id,
            namespace=entry.namespace,
            action=action,
            allowed=list(agent.write or ()),
        )


def may_close(agent: Agent, entry: Entry, settings: Settings, action: str) -> None:
    """Refuse an agent that is neither the author of the entry nor above it, and so may not resolve
    it or file it away."""
    if agent.id != entry.author:
        may_rule(agent, entry, settings, action)


def may_steer(agent: Agent | None, first: Entry, action: str) -> None:
    """Refuse to close, reopen or rename a thread to all but its author, who wrote its first
    message, and the operator.
    """
    thread = first.more.get("thread")
    if agent is not None and (agent.id != first.author or first.trust == "unverified"):
        raise Forbidden(
            f"agent {agent.id} may not {action} thread {thread}: a thread is its author's and the"
            " operator's; answer in it, or begin one of your own",
            agent=agent.id,
            action=action,
        )


def may_restore(
    agent: Agent, entry: Entry, by: str, other: Agent | None, settings: Settings
) -> None:
    """Refuse an agent that would bring back what a higher authority filed away: the operator, or
    the agent `other` under the name `by`.
    """
    if other is None and by != OPERATOR:
        return  # the nightly job's, or of an agent that is no more
    rank = authority_in(agent, entry.namespace, settings.flat)
    least = 101 if other is None else authority_in(other, entry.namespace, settings.flat)
    if agent.id != by and rank < least:
        raise Forbidden(
            f"agent {agent.id} may not restore {entry.id}: {by} filed it away, and stands higher;"
            f" {by} or somebody of its authority may restore it, and so may the operator",
            agent=agent.id,
            namespace=entry.namespace,
            action="restore",
        )


def may_overrule(
    agent: Agent, by: str, other: Agent | None, settings: Settings, action: str
) -> None:
    """Refuse an agent that would put its own word on what everybody knows in place of that of a
    higher authority, `other` under the name `by`.
    """
    if agent.id == by or (other is None and by != OPERATOR):
        return
    rank = authority_in(agent, "global", settings.flat)
    if other is None or rank < authority_in(other, "global", settings.flat):
        raise Forbidden(
            f"agent {agent.id} may not {action}: {by} said it, and stands higher",
            agent=agent.id,
            action=action,
        )


def may_say(agent: Agent | None, action: str) -> None:
    """Refuse words that nobody reviews to an agent whose words are to be reviewed."""
    if agent is not None and agent.review_required:
        raise Forbidden(
            f"agent {agent.id} may not {action}: what it writes waits for review, and this would"
            " not; an entry or a message can say it, and waits",
            agent=agent.id,
            action=action,
        )


def visible(entry: Entry, agent: Agent | None) -> bool:
    """Return whether the agent may see the entry: the one read gate.

    An entry to all is seen where an agent subscribes; one that names the agent or its team is seen
    anywhere; everyone sees its own. A staged entry is its author's alone. An agent of None is the
    operator.
    """
    if agent is None or entry.author == agent.id:
        return True
    if entry.staged:
        return False
    if entry.addressees == ("all",):
        return ns.matches_any(agent.reads, entry.namespace)
    return not agent.names.isdisjoint(entry.addressees)


def covers(new: Entry, old: Entry) -> bool:
    """Return whether whoever may see an entry may see another one, whatever agents there are; of
    its author nothing is said, who sees it anywhere.
    """
    if old.addressees == ("all",):
        return new.addressees == old.addressees and new.namespace == old.namespace
    return set(old.addressees) <= set(new.addressees)


def sees_work(agent: Agent | None, whose: str, project: str | None) -> bool:
    """Return whether the agent may know of what somebody works on: its own, and that of the
    projects whose places it reads. An agent of None is the operator.
    """
    if agent is None or agent.id == whose:
        return True
    return project is not None and any(
        ns.matches_any(agent.reads, f"{folder}/{project}") for folder in PLACES
    )


def wakes(entry: Entry, agent: Agent) -> bool:
    """Return whether the entry is delivered to the agent's runs at once. A merged entry is not:
    those it was made of were; nor is what a run of the agent wrote, but what a person does in its
    name.
    """
    is_own = entry.of_run_of(agent.id)
    subscribed = RANK[entry.priority] <= max((RANK[p] for p in agent.notify), default=-1)
    believed = entry.trust != "unverified" and not is_merged(entry)
    return subscribed and believed and not is_own and visible(entry, agent)


def is_merged(entry: Entry) -> bool:
    """Return whether the consolidation made the entry of others. The author's name is reserved, and
    an unverified entry is not believed."""
    return entry.author == CONSOLIDATOR and entry.trust != "unverified" and MERGED in entry.tags


def judge(
    new: Entry, olds: Iterable[Entry], rivals: Iterable[Entry], disputed: Container[int]
) -> list[Effect]:
    """Return what the arrival of an entry changes.

    `olds` are the earlier entries that it supersedes; `rivals` those not superseded that share its
    topic and namespace, or supersede the same ones; `disputed` the seqs in open dispute. Only live
    entries count. A rival may be the later one: an entry that is vouched for arrives at the place
    that it has.
    """
    effects: list[Effect] = []
    for old in olds:
        own = _same_author(new, old)
        doubtful = old.seq in disputed or new.trust == "unverified"
        if not own and new.authority < old.authority:
            effects.append(_outranked(new, old))
        elif not own and new.authority == old.authority and doubtful:
            effects += _dispute(new, old)
        else:
            effects.append(Effect(old.seq, "superseded", new.seq, NEVER))
    ended = {effect.seq for effect in effects if effect.until == NEVER}
    for rival in rivals:
        if rival.seq in ended or rival.seq == new.seq or rival.expires <= new.at:
            continue
        older, newer = (rival, new) if rival.seq < new.seq else (new, rival)
        if _same_author(newer, older):
            effects.append(Effect(older.seq, "replaced by its author", newer.seq, NEVER))
        elif rival.authority > new.authority:
            effects.append(_outranked(new, rival))
        elif rival.authority < new.authority:
            effects.append(_outranked(rival, new))
        else:
            effects += _dispute(new, rival)
    return effects


def _same_author(new: Entry, old: Entry) -> bool:
    """Return whether the newer entry is by the author of the older one. An unverified name speaks
    for no one."""
    return new.author == old.author and new.trust != "unverified"


def _outranked(loser: Entry, winner: Entry) -> Effect:
    """Return the effect of a higher authority: the loser is hidden as long as the winner is shown,
    and may come back, unlike what is superseded."""
    return Effect(loser.seq, "outranked", winner.seq, min(winner.expires, NEVER - 1))


def _dispute(one: Entry, other: Entry) -> list[Effect]:
    return [Effect(one.seq, "disputed", other.seq), Effect(other.seq, "disputed", one.seq)]


_texts_of = attrgetter(*TEXTS.values())


def _check_texts(draft: Draft, body: str) -> None:
    """Refuse texts that cannot be stored, and a body that is too long."""
    tags = [("tag", tag) for tag in draft.tags]
    for name, text in (("body", body), *tags, *zip(TEXTS, _texts_of(draft), strict=True)):
        if text and ("\0" in text or not text.isascii()):
            kinds.text(name, text)
    if len(body) > MAX_BODY // 4 and len(body.encode()) > MAX_BODY:
        raise InvalidEntry(
            f"the body is longer than {MAX_BODY >> 10} KiB; store it as a file and"
            f" write where it lies"
        )
