"""The workspace that every walk reads: entries in every state, agents with every right, and what each of them may see."""

import re
from typing import NamedTuple

import synapse
from synapse.authority import may_rule, visible
from synapse.errors import Forbidden, SynapseError
from synapse.knowledge.capsule import short_id
from synapse.model import clock, kinds
from synapse.model.agents import Agent, settled
from synapse.model.entry import Draft, Entry, addressees
from synapse.model.records import Record
from synapse.testing import FrozenClock

GHOST = "syn-2001-01-01-001"
GHOST_MESSAGE = "syn_ffffffffffff"
EVERYWHERE = ("api/*", "blockers/*", "vault/*", "team/*")
AGENTS = (
    Agent("cto", role="cto"),
    Agent("lead", role="project-lead", read=("api/*",), write=EVERYWHERE),
    Agent("eng-a", department="backend", read=("api/*", "blockers/*"), write=EVERYWHERE),
    Agent(
        "eng-b",
        department="backend",
        teams=("red",),
        read=("blockers/*", "api/*/v2"),
        write=EVERYWHERE,
    ),
    Agent(
        "eng-c",
        department="frontend",
        teams=("red", "blue"),
        read=("team/*",),
        write=("team/*", "api/*"),
    ),
    Agent("junior", review_required=True, read=("api/endpoints",), write=EVERYWHERE),
    Agent("deaf", read=(), write=("api/*",)),
    Agent("mute", role="specialist", department="ops", read=("*",), write=()),
)
NAMESPACES = ("api", "api/endpoints", "api/endpoints/v2", "blockers/x", "vault/keys", "team/red")
AUDIENCES = (
    "all",
    "team:red",
    "team:backend",
    "agent:eng-c",
    ("agent:eng-b", "team:blue"),
    "own team",
)
# mail that a view shows; the rest is on no page but its own
VIEWED = frozenset(("urgent",))
MAIL = VIEWED | {"mail"}
LIVE = frozenset(("plain", "approved", "vouched", "unverified", "disputed", "winner"))
READERS = (*(agent.id for agent in AGENTS), "operator")


class Known(NamedTuple):
    """An entry of the world: its state, and the word that occurs in its body and nowhere else."""

    id: str
    word: str
    state: str


class World:
    """A memory with an entry of every state, audience and reach."""

    def __init__(self, mem, moment):
        self.mem, self.clock = mem, moment
        self.known = []
        self.winners = {}  # what stands in the place of which
        for agent in AGENTS:
            mem.register(agent)
        self.agents = {agent.id: settled(agent) for agent in AGENTS} | {"operator": None}
        for place, namespace in enumerate(NAMESPACES):
            for turn, to in enumerate(AUDIENCES):
                self.write(
                    "plain",
                    "eng-a",
                    namespace,
                    to,
                    priority=("critical", "important", "info")[(place + turn) % 3],
                )
        for author, namespace in (
            ("eng-a", "agents/eng-a"),
            ("eng-c", "groups/red"),
            ("cto", "global"),
        ):
            self.known_as_fact(author, namespace)
        for turn, to in enumerate(AUDIENCES[:-1]):
            self.said("mail" if turn % 2 else "urgent", "eng-a", to)
        self.said("mail", "deaf", "agent:eng-b")
        self.middle = moment.advance("1m")
        moment.advance("1m")
        for namespace in ("api/endpoints", "vault/keys"):
            for to in ("all", "team:red", "agent:eng-c"):
                for state in (
                    "staged",
                    "rejected",
                    "approved",
                    "archived",
                    "expired",
                    "resolved",
                    "unverified",
                    "vouched",
                ):
                    getattr(self, state)(namespace, to)
                for state in ("superseded", "outranked", "disputed"):
                    self.pair(state, namespace, to)
        moment.advance("2h")
        self.entries = {known: mem.store.entry(known.id) for known in self.known}
        self.seen = {reader: self._seen_by(reader) for reader in READERS}
        self.ruled = {reader: self._ruled_by(reader) for reader in READERS}

    def write(self, state, author, namespace, to, **more):
        word = f"word{len(self.known):04d}"
        more = {"ttl": "30d", "tags": ["tagged"]} | more
        if to == "own team":
            to, more["scope"] = "all", "team"
        entry = self.mem.as_agent(author).append(f"common {word} end", namespace, to=to, **more)
        self.known.append(Known(entry.id, word, state))
        return entry

    def known_as_fact(self, author, namespace):
        word = f"word{len(self.known):04d}"
        id = kinds.new_id("fact", len(self.known).to_bytes(6, "little"))
        draft = Draft(
            f"common {word} end", namespace, author, ttl="30d", tags=("tagged",), id=id, kind="fact"
        )
        self.known.append(Known(self.mem.as_agent(author).write(draft).id, word, "plain"))

    def said(self, state, author, to):
        word = f"word{len(self.known):04d}"
        id = kinds.new_id("message", len(self.known).to_bytes(6, "little"))
        more = kinds.More(
            thread=kinds.new_thread(bytes([len(self.known) % 3] * 16)), subject=f"about {word}"
        )
        priority = "critical" if state == "urgent" else "info"
        draft = Draft(
            f"said {word} end",
            "mail",
            author,
            priority,
            addressees=addressees(to),
            id=id,
            kind="message",
        )
        self.known.append(
            Known(self.mem.as_agent(author).write(draft._replace(more=more)).id, word, state)
        )

    def staged(self, namespace, to):
        return self.write("staged", "junior", namespace, to)

    def rejected(self, namespace, to):
        entry = self.write("rejected", "junior", namespace, to)
        self.mem.as_agent("lead").reject(entry.id)

    def approved(self, namespace, to):
        entry = self.write("approved", "junior", namespace, to)
        self.mem.as_agent("lead").approve(entry.id)

    def archived(self, namespace, to):
        entry = self.write("archived", "eng-a", namespace, to)
        self.mem.as_agent("eng-a").archive(entry.id)

    def expired(self, namespace, to):
        self.write("expired", "eng-a", namespace, to, ttl="1h", priority="critical")

    def resolved(self, namespace, to):
        entry = self.write("resolved", "eng-a", namespace, to)
        self.mem.as_agent("eng-a").resolve(entry.id)

    def unverified(self, namespace, to, state="unverified"):
        word = f"word{len(self.known):04d}"
        audience = (to,) if isinstance(to, str) else to
        entry = Entry(
            "",
            "eng-b",
            "",
            namespace,
            "info",
            f"common {word}",
            "30d",
            audience,
            trust="unverified",
        )
        record = self.mem.store.commit.append(Record.new("entry", "eng-b", {}, entry))
        self.known.append(Known(record.id, word, state))
        return record.id

    def vouched(self, namespace, to):
        id = self.unverified(namespace, to, "vouched")
        self.mem.store.commit.act(
            "vouch", "lead", entry=id, authority=60, trust="reviewed", priority="critical"
        )

    def pair(self, state, namespace, to):
        """Two entries of which one bears on the other, said to different people."""
        topic = f"topic-{len(self.known)}"
        other = {"superseded": "eng-a", "outranked": "lead", "disputed": "eng-b"}[state]
        old = self.write(
            state, "eng-a", namespace, to, **({} if state == "superseded" else {"topic": topic})
        )
        more = {"supersedes": old.id} if state == "superseded" else {"topic": topic}
        self.write("winner", other, namespace, "agent:deaf", ttl="20d", **more)
        self.winners[self.known[-2]] = self.known[-1]

    # -- the truth ---------------------------------------------------------------------------------

    def entry(self, known):
        return self.entries[known]

    def seen_by(self, reader):
        return self.seen[reader]

    def ruled_by(self, reader):
        return self.ruled[reader]

    def _seen_by(self, reader):
        """The entries that the predicate lets this reader see."""
        return [known for known in self.known if visible(self.entry(known), self.agents[reader])]

    def _ruled_by(self, reader):
        """The entries that wait, or waited, for review, and that this reader may rule on."""
        return [
            known
            for known in self.known
            if known.state in ("staged", "rejected") and self._rules(known, reader)
        ]

    def _rules(self, known, reader):
        if reader == "operator":
            return True
        try:
            may_rule(self.agents[reader], self.entry(known), self.mem.store.settings, "approve")
        except Forbidden:
            return False
        return True

    def hidden_from(self, reader):
        told = {*self.seen_by(reader), *self.ruled_by(reader)}
        return [known for known in self.known if known not in told]

    def live(self, reader, keep=lambda entry: True, states=LIVE):
        found = [known for known in self.seen_by(reader) if self.state(known, reader) in states]
        return {known.id for known in found if keep(self.entry(known))}

    def state(self, known, reader):
        """The state of an entry for this reader, from whom one that it does not see takes nothing."""
        winner = self.winners.get(known)
        gone = winner is None or visible(self.entry(winner), self.agents[reader])
        return known.state if gone else "plain"

    def leaks(self, reader, told, reviewing=False):
        """What of the hidden entries stands in what the reader was told."""
        seen = self.seen_by(reader)
        allowed = {*seen, *(self.ruled_by(reader) if reviewing else ())}
        # by a text that the reader may see
        quoted = {id for known in seen for id in self.entry(known).replaces}
        words = (
            set(re.findall(r"word\d{4}|syn-\d{4}-\d\d-\d\d-\d+|[a-z]+_[0-9a-f]{8,12}", told))
            - quoted
        )
        return [
            known
            for known in self.known
            if known not in allowed and words & {known.id, known.word, short_id(known.id)}
        ]


def world_at(root):
    moment = FrozenClock(clock.now() - 4 * 3_600_000_000)
    if root is None:
        return World(synapse.open("memory:", clock=moment), moment)
    return World(synapse.init(str(root), clock=moment), moment)


def refusals(me, world, act):
    """What is hidden answers as what is not there does, word for word."""
    missing = refusal(lambda: act(GHOST))
    for known in world.hidden_from(me.id):
        answer = refusal(lambda known=known: act(known.id))
        yield known, None, answer == missing.replace(GHOST, known.id), False


def refusal(act):
    """The error as `--json` tells it."""
    try:
        return f"it was done: {act()}"
    except SynapseError as error:
        return repr((type(error), str(error), error.details))


def acts(act):
    """An act on an entry tells nothing of a hidden one, and does nothing to it."""

    def walk(me, world):
        if me.id != "operator":
            before = world.mem.store.log.mark()
            yield from refusals(me, world, lambda id: act(me, id))
            yield ("nothing was written", None, world.mem.store.log.mark() == before, False)

    return walk


def threads_of(world):
    return {world.entry(known).more["thread"] for known in world.known if known.state in MAIL}


GHOST_THREAD = kinds.new_thread(b"no such thread..")
# `Memory` is the operator's: it shows everything, or nothing of any entry.
WHOLE, NONE = "the operator's, and a spawned run is refused", "tells of no entry"
ASKED = "asks the seat or its mail; walked by `brain_faults`"
ACT = "an act of the seat's, or of its mail"


def samples(world, reader):
    """One entry of each state among those that the reader sees, and among those that it does
    not.
    """
    return [*{known.state: known for known in world.hidden_from(reader)}.values()]
