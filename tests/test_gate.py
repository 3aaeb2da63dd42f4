"""One visibility predicate: whoever asks whatever in whichever way gets nothing that
`authority.visible` refuses.

Every public reader has a row in a table that says how it is walked, or why it gives out no entry. A
reader without a row fails; so does a row's parameter that the walk never uses.
"""

import asyncio
import inspect
import json
import os
import re
import shutil
import signal
from typing import NamedTuple

import pytest

import synapse
from synapse import cli
from synapse.access import Access
from synapse.agent_memory import AgentMemory
from synapse.authority import may_rule, visible
from synapse.cli.frame.parse import options_of
from synapse.cli.frame.program import Verb
from synapse.cli.verbs import ALIASES, OPERATORS, VERBS
from synapse.compat import shared
from synapse.compat.brain import UnifiedBrain
from synapse.compat.shared import SharedMemoryStore
from synapse.errors import Forbidden, SynapseError
from synapse.index import pages
from synapse.index.database import Database, load_sql
from synapse.knowledge import recall, references
from synapse.knowledge.capsule import short, short_id
from synapse.model import clock, kinds, worth
from synapse.model.agents import Agent, settled
from synapse.model.entry import Draft, Entry, addressees
from synapse.model.records import Record
from synapse.model.settings import Semantic
from synapse.search import semantic
from synapse.testing import FrozenClock
from synapse.view import news

GHOST = "syn-2001-01-01-001"
GHOST_MESSAGE = "syn_ffffffffffff"
EVERYWHERE = ("api/*", "blockers/*", "vault/*", "team/*")
AGENTS = (
    Agent("cto", role="cto"),
    Agent("lead", role="project-lead", read=("api/*",), write=EVERYWHERE),
    Agent(
        "eng-a", department="backend", read=("api/*", "blockers/*"), write=EVERYWHERE
    ),
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
NAMESPACES = (
    "api",
    "api/endpoints",
    "api/endpoints/v2",
    "blockers/x",
    "vault/keys",
    "team/red",
)
AUDIENCES = (
    "all",
    "team:red",
    "team:backend",
    "agent:eng-c",
    ("agent:eng-b", "team:blue"),
    "own team",
)
VIEWED = frozenset(
    ("urgent",)
)  # mail that a view shows; the rest is on no page but its own
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
        for agent in AGENTS:
            mem.register(agent)
        self.agents = {agent.id: settled(agent) for agent in AGENTS} | {
            "operator": None
        }
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
        self.entries = {known: mem.store.current(known.id) for known in self.known}
        self.seen = {reader: self._seen_by(reader) for reader in READERS}
        self.ruled = {reader: self._ruled_by(reader) for reader in READERS}

    def write(self, state, author, namespace, to, **more):
        word = f"word{len(self.known):04d}"
        more = {"ttl": "30d", "tags": ["tagged"]} | more
        if to == "own team":
            to, more["scope"] = "all", "team"
        entry = self.mem.as_agent(author).append(
            f"common {word} end", namespace, to=to, **more
        )
        self.known.append(Known(entry.id, word, state))
        return entry

    def known_as_fact(self, author, namespace):
        word, id = (
            f"word{len(self.known):04d}",
            kinds.new_id("fact", len(self.known).to_bytes(6, "little")),
        )
        draft = Draft(
            f"common {word} end",
            namespace,
            author,
            ttl="30d",
            tags=("tagged",),
            id=id,
            kind="fact",
        )
        self.known.append(
            Known(self.mem.as_agent(author).write(draft).id, word, "plain")
        )

    def said(self, state, author, to):
        word, id = (
            f"word{len(self.known):04d}",
            kinds.new_id("message", len(self.known).to_bytes(6, "little")),
        )
        more = kinds.More(
            thread=kinds.new_thread(bytes([len(self.known) % 3] * 16)),
            subject=f"about {word}",
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
            Known(
                self.mem.as_agent(author).write(draft._replace(more=more)).id,
                word,
                state,
            )
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
        record = self.mem.store.log.append(Record.new("entry", "eng-b", {}, entry))
        self.known.append(Known(record.id, word, state))
        return record.id

    def vouched(self, namespace, to):
        id = self.unverified(namespace, to, "vouched")
        self.mem.store.act(
            "vouch",
            "lead",
            entry=id,
            authority=60,
            trust="reviewed",
            priority="critical",
        )

    def pair(self, state, namespace, to):
        """Two entries of which one bears on the other, said to different people."""
        topic = f"topic-{len(self.known)}"
        other = {"superseded": "eng-a", "outranked": "lead", "disputed": "eng-b"}[state]
        old = self.write(
            state,
            "eng-a",
            namespace,
            to,
            **({} if state == "superseded" else {"topic": topic}),
        )
        more = {"supersedes": old.id} if state == "superseded" else {"topic": topic}
        self.write("winner", other, namespace, "agent:deaf", ttl="20d", **more)

    # -- the truth ---------------------------------------------------------------------------------

    def entry(self, known):
        return self.entries[known]

    def seen_by(self, reader):
        return self.seen[reader]

    def ruled_by(self, reader):
        return self.ruled[reader]

    def _seen_by(self, reader):
        """The entries that the predicate lets this reader see."""
        return [
            known
            for known in self.known
            if visible(self.entry(known), self.agents[reader])
        ]

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
            may_rule(
                self.agents[reader],
                self.entry(known),
                self.mem.store.settings,
                "approve",
            )
        except Forbidden:
            return False
        return True

    def hidden_from(self, reader):
        told = {*self.seen_by(reader), *self.ruled_by(reader)}
        return [known for known in self.known if known not in told]

    def live(self, reader, keep=lambda entry: True, states=LIVE):
        found = [known for known in self.seen_by(reader) if known.state in states]
        return {known.id for known in found if keep(self.entry(known))}

    def leaks(self, reader, told, reviewing=False):
        """What of the hidden entries stands in what the reader was told."""
        seen = self.seen_by(reader)
        allowed = {*seen, *(self.ruled_by(reader) if reviewing else ())}
        quoted = {
            id for known in seen for id in self.entry(known).replaces
        }  # by a text that the reader may see
        words = (
            set(
                re.findall(
                    r"word\d{4}|syn-\d{4}-\d\d-\d\d-\d+|[a-z]+_[0-9a-f]{8,12}", told
                )
            )
            - quoted
        )
        return [
            known
            for known in self.known
            if known not in allowed
            and words & {known.id, known.word, short_id(known.id)}
        ]


def world_at(root):
    moment = FrozenClock(clock.now() - 4 * 3_600_000_000)
    if root is None:
        return World(synapse.open("memory:", clock=moment), moment)
    return World(synapse.init(str(root), clock=moment), moment)


@pytest.fixture(scope="module")
def world(embedding_server):
    """Shared by the walks that change nothing. Everything that may be embedded is."""
    found = world_at(None)
    embedding_server.reset()
    store = found.mem.store
    chosen = Semantic("ollama", url=embedding_server.url, search=False)
    store.declared_settings = store.settings._replace(semantic=chosen)
    semantic.embed(store)
    yield found
    found.mem.close()


@pytest.fixture
def fresh():
    found = world_at(None)
    yield found
    found.mem.close()


# -- how each reader is walked ---------------------------------------------------------
#
# A walk yields (what was called, what it told, the ids that it had to tell or None, whether what
# the reader may
# rule on counts as visible).

READS = (
    ({}, lambda entry: True),
    ({"limit": 1_000}, lambda entry: True),
    ({"limit": None}, lambda entry: True),
    ({"limit": 3}, None),
    ({"since": "24h", "limit": 1_000}, lambda entry: True),
    ({"since": "24h", "archived": False}, lambda entry: True),
    ({"priority": "critical"}, lambda entry: entry.priority == "critical"),
    (
        {"priority": "critical", "limit": 1_000},
        lambda entry: entry.priority == "critical",
    ),
    (
        {"priority": ["critical", "important"], "limit": 1_000},
        lambda entry: entry.priority != "info",
    ),
    (
        {"priority": ["important", "info"], "limit": 1_000},
        lambda entry: entry.priority != "critical",
    ),
    (
        {"namespace": "api/*", "limit": 1_000},
        lambda entry: entry.namespace.startswith("api"),
    ),
    (
        {"namespace": ["vault/keys", "team/*"]},
        lambda entry: entry.namespace in ("vault/keys", "team/red"),
    ),
    ({"namespace": "*", "limit": 1_000}, lambda entry: True),
    ({"author": "eng-a"}, lambda entry: entry.author == "eng-a"),
    (
        {"author": "eng-b", "namespace": "vault/*"},
        lambda e: e.author == "eng-b" and e.namespace == "vault/keys",
    ),
    ({"tag": "tagged"}, lambda entry: "tagged" in entry.tags),
    ({"mark": False}, lambda entry: True),
)
UNREAD = (
    ({}, lambda entry: True),
    ({"limit": 3}, None),
    ({"budget": 800}, None),
    ({"budget": 100_000}, lambda entry: True),
    (
        {"since": "24h", "priority": "critical"},
        lambda entry: entry.priority == "critical",
    ),
    (
        {"namespace": "api/*", "mark": False},
        lambda entry: entry.namespace.startswith("api"),
    ),
    ({"author": "eng-a"}, lambda entry: entry.author == "eng-a"),
    ({"tag": "tagged"}, lambda entry: "tagged" in entry.tags),
)


def walk_read(me, world):
    for asked, keep in READS:
        page = me.read(**asked)
        ids = {entry.id for entry in page}
        yield asked, [*page], ids == (world.live(me.id, keep) if keep else ids), False
        if keep:
            yield ("visible", asked), page.visible, page.visible == len(ids), False
    for asked in (
        {"namespace": "mail"},
        {"namespace": ["mail", "nowhere"], "limit": None},
    ):
        page = me.read(**asked)
        mail = world.live(me.id, states=MAIL)
        yield (
            asked,
            [*page],
            {entry.id for entry in page} == mail and page.visible == len(mail),
            False,
        )
    page = me.read(archived=True)
    filed = world.live(me.id, states={"archived"})
    yield (
        "archived",
        [*page],
        {entry.id for entry in page} == filed and page.visible == len(filed),
        False,
    )

    yield from (
        walk_news(me, world)
        if me.id != "operator" and me.store.agent(me.id) == me._me()
        else ()
    )


def walk_news(me, world):
    for asked, keep in UNREAD:
        page = me.read(unread=True, **asked)
        told, ids = [*page, *page.pointers], {entry.id for entry in page}
        due = {
            id
            for id in world.live(me.id, keep or (lambda entry: True))
            if world.mem.store.current(id).author != me.id
        }
        yield (
            ("unread", asked),
            [told, news.render(page)],
            ids == due if keep else ids <= due,
            False,
        )
        yield ("counted", asked), page.visible, page.visible == len(due), False


def walk_briefing(me, world):
    for only in ("critical", "info"):
        found = me.briefing(only=only)
        viewed = world.live(me.id, states=LIVE | VIEWED)
        yield (
            only,
            [found, found.markdown()],
            {each.id for each in found.included} <= viewed,
            False,
        )
    bare = me.briefing(commands=False)
    yield (
        "commands",
        [bare, bare.markdown()],
        {each.id for each in bare.included} == viewed,
        False,
    )
    rest = me.briefing(moments=False)
    yield (
        "moments",
        [rest, rest.markdown()],
        {each.id for each in rest.included} == viewed,
        False,
    )
    rest = me.briefing(quick=True)
    yield (
        "quick",
        [rest, rest.markdown()],
        {each.id for each in rest.included} == viewed,
        False,
    )
    first = set(sorted(viewed)[:1])
    rest = me.briefing(without=first)
    yield (
        "without",
        [rest, rest.markdown()],
        {each.id for each in rest.included} == viewed - first,
        False,
    )
    yield "until", me.briefing(as_of=world.middle, until=found.cursor // 2), True, False
    task = "; ".join(
        f"{known.word} nowhere; {known.word} common" for known in world.known
    )
    by = worth.Worth(1e9, 1.0, dict.fromkeys(worth.KINDS, 1.0), 2_000, 20_000, 600)
    for more in (
        {"about": task},
        {"about": task, "worth": by},
        {"about": task, "as_of": world.middle},
    ):
        named = me.briefing(20_000, **more)
        yield ("about", sorted(more)), [named, named.markdown()], True, False
    for budget in (None, 20_000, 400):
        for as_of in (None, world.middle, "2h"):
            found = me.briefing(budget, as_of=as_of)
            ids = {each.id for each in found.included}
            whole = budget is None and as_of is None
            yield (
                (budget, as_of),
                [found, found.markdown()],
                not whole or ids == viewed,
                False,
            )
    for department in ("backend", "frontend", "ops"):
        found = me.briefing(department=department, encoding="cl100k_base", mark=False)
        members = [agent.id for agent in AGENTS if agent.department == department]
        common = set.intersection(
            *(world.live(name, states=LIVE | VIEWED) for name in (*members, me.id))
        )
        yield (
            department,
            [found, found.markdown()],
            {each.id for each in found.included} == common,
            False,
        )
        yield (
            department,
            me.briefing(department=department, as_of=world.middle),
            True,
            False,
        )


def walk_later(me, world):
    for department, names in ((None, ()), ("backend", ("eng-a", "eng-b"))):
        found = me.later(world.middle, department)
        since = {
            id
            for id in world.live(me.id)
            if world.mem.store.current(id).at > world.middle
        }
        due = since.intersection(*(world.live(name) for name in names))
        yield department, found, {entry.id for entry in found} == due, False
    yield "from the first", me.later("3d"), True, False


SEARCHES = (
    {"limit": 1_000},
    {"limit": 2},
    {"namespace": "api/*", "limit": 1_000},
    {"archived": True},
    {"kind": "fact", "author": "eng-c"},
    {"kind": ["message", "entry"], "priority": "critical,important", "tag": "tagged"},
    {"since": "3h", "until": "today"},
    {"when": "yesterday to today"},
)


def walk_search(me, world):
    for known in world.known:
        hits = me.search(known.word, archived=known.state == "archived")
        due = known.id in world.live(me.id, states={*LIVE, *MAIL, "archived"})
        yield (
            known,
            [*hits],
            [hit.id for hit in hits] == [known.id] * due and hits.ranked == due,
            False,
        )
        beside = me.search(
            f"{known.word} nowhere", limit=100
        )  # in a thread, neighbours are found too
        due = known.id in world.live(me.id, states={*LIVE, *MAIL})
        yield ("beside", known), [*beside], bool(beside) == due, False
    for more in SEARCHES:
        hits = me.search("common", **more)
        yield (
            more,
            [*hits],
            {hit.id for hit in hits}
            <= world.live(me.id, states={*LIVE, *MAIL, "archived"}),
            False,
        )
    for author in {
        known.state: world.entry(known).author for known in world.known
    }.values():
        yield author, [*me.search(f"{author} nowhere", limit=100)], True, False
    found = {hit.id for hit in me.search("common", limit=1_000)}
    yield "all", found, found == world.live(me.id), False
    for mode in semantic.MODES:
        found = {hit.id for hit in me.search("common", limit=1_000, mode=mode)}
        due, all_live = world.live(me.id), world.live(me.id, states={*LIVE, *MAIL})
        right = (
            bool(found) and found <= all_live
            if mode == "meaning"
            else due <= found <= all_live
        )
        yield mode, found, right, False
    for known in world.known[:: len(world.known) // 20]:
        hits = me.search(known.word, limit=1_000, mode="meaning")
        ids, all_live = (
            {hit.id for hit in hits},
            world.live(me.id, states={*LIVE, *MAIL}),
        )
        yield (
            ("meaning", known),
            [*hits],
            ids <= all_live and (known.id in ids or known.id not in all_live),
            False,
        )


def walk_follow(me, world):
    for asked in (
        {"since": 0},
        {"since": 0, "critical": True},
        {"since": world.mem.store.index.cursor()},
    ):
        events = [*me.follow(timeout=0, **asked)]
        yield asked, events, True, False
    others = {
        known.id for known in world.seen_by(me.id) if world.entry(known).author != me.id
    }
    never = {known.id for known in world.known if known.state in ("staged", "rejected")}
    yield (
        "all",
        None,
        {event.entry.id for event in me.follow(0, timeout=0)} == others - never,
        False,
    )


def walk_unread(me, world):
    if me.id != "operator":
        own = {known.id for known in world.known if world.entry(known).author == me.id}
        yield "count", None, me.unread() == len(world.live(me.id) - own), False


def walk_staged(me, world):
    waiting = {known.id for known in world.known if known.state == "staged"}
    found = me.staged()
    due = {
        known.id for known in (*world.ruled_by(me.id), *world.seen_by(me.id))
    } & waiting
    yield "all", found, {entry.id for entry in found} == due, True


def walk_get(me, world):
    for known in (*world.seen_by(me.id), *world.ruled_by(me.id)):
        found = me.get(known.id)
        yield known, found, known.word in found.body, True
    yield from refusals(me, world, me.get)


def walk_fate(me, world):
    for known in (*world.seen_by(me.id), *world.ruled_by(me.id)):
        found = me.fate(known.id)
        yield (
            known,
            found,
            (found is None) == (known.state in (*LIVE, *MAIL, "staged")),
            True,
        )
    yield from refusals(me, world, me.fate)


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
            yield (
                "nothing was written",
                None,
                world.mem.store.log.mark() == before,
                False,
            )

    return walk


def walk_append(me, world):
    if world.agents[me.id] and world.agents[me.id].write:
        where = "api/endpoints" if me.id != "mute" else "nowhere"
        for way in ("supersedes", "derived_from"):
            yield from acts(
                lambda me, id, way=way: me.append("text", where, **{way: id})
            )(me, world)


def walk_write(me, world):
    if me.id != "operator":
        draft = Draft(
            "text",
            "mail",
            me.id,
            kind="message",
            more=kinds.More(thread=kinds.new_thread(bytes(16))),
        )
        yield from acts(lambda me, id: me.write(draft._replace(replaces=(id,))))(
            me, world
        )


def walk_claim(me, world):
    if me.id != "operator":
        yield "claim", [me.claim("some work"), me.release("some work")], True, False


SEAT = {
    "read": walk_read,
    "briefing": walk_briefing,
    "later": walk_later,
    "search": walk_search,
    "follow": walk_follow,
    "unread": walk_unread,
    "staged": walk_staged,
    "get": walk_get,
    "fate": walk_fate,
    "append": walk_append,
    "write": walk_write,
    "claim": walk_claim,
    "release": walk_claim,
    "ack": acts(lambda me, id: me.ack([id])),
    "resolve": acts(lambda me, id: me.resolve(id)),
    "vouch": acts(lambda me, id: me.vouch(id)),
    "approve": acts(lambda me, id: me.approve(id)),
    "reject": acts(lambda me, id: me.reject(id)),
    "archive": acts(lambda me, id: me.archive([id])),
    "restore": acts(lambda me, id: me.restore([id])),
}


PLACES = {
    "agent": lambda me, where: where == f"agents/{me.id}" if me.id != "operator" else where.startswith("agents/"),
    "group": lambda me, where: where in {f"groups/{team}" for team in teams(me)} or (
        me.id == "operator" and where.startswith("groups/")),
    "global": lambda me, where: where == "global",
    "all": lambda me, where: True,
}  # fmt: skip


def teams(me):
    agent = me.store.agent(me.id)
    return (
        [name[5:] for name in agent.names if name.startswith("team:")] if agent else []
    )


def walk_recall(me, world):
    states = {*LIVE, *MAIL}
    for scope, holds in PLACES.items():
        due = world.live(
            me.id, lambda entry, holds=holds: holds(me, entry.namespace), states
        )
        for known in world.known:
            found = recall.search(me, known.word, scope, top_k=1, max_capsule_bytes=256)
            yield (
                (scope, known),
                found,
                [entry.id for entry in found.shown] == [known.id] * (known.id in due),
                False,
            )
        found = recall.search(
            me, "common said", scope, top_k=1_000, max_capsule_bytes=1 << 16
        )
        yield (
            scope,
            found.text,
            {entry.id for entry in found.shown} <= due
            and bool(due) == bool(found.shown),
            False,
        )
    for team in ("red", "blue", "backend"):
        asked = refusal(
            lambda team=team: recall.search(me, "common", f"group:{team}").shown
        )
        yield (
            team,
            None,
            team in teams(me) or me.id == "operator" or "Forbidden" in asked,
            False,
        )


def walk_references(me, world):
    """A short form of what is hidden answers as one of what is not there."""
    for known in world.hidden_from(me.id):
        entry = world.entry(known)
        for text in (short(entry), short_id(known.id)):
            for act in (references.resolve_reference, recall.version_by, recall.forget):
                if act is not recall.forget or me.id != "operator":
                    told = refusal(lambda act=act, text=text: act(me, text))
                    yield (
                        known,
                        told.replace(known.id, "").replace(short_id(known.id), ""),
                        "NotFound" in told,
                        False,
                    )


RECALL = {
    "search": walk_recall,
    "within": walk_recall,
    "version_by": walk_references,
    "forget": walk_references,
    "remember": acts(
        lambda me, id: recall.remember(me, "text", "agent", supersedes=id)
    ),
    "cites": acts(lambda me, id: recall.remember(me, "text", "agent", cites=id)),
}


def walk_store(me, world):
    """The store and its functions say what recall says, and nothing else."""
    store = SharedMemoryStore(world.mem, me.id)
    search, _, forget = store.tools()
    for scope in recall.SCOPES:
        recall.search(
            me, "common", scope, 1_000, 1 << 16
        )  # notes in the log, at most once an hour, what is used
    for scope in recall.SCOPES:
        found = recall.search(me, "common", scope, top_k=1_000)
        told = [
            store.search("common", scope, top_k=1_000),
            search("common", scope, 1_000),
        ]
        yield scope, told, told == [found, found.text], False
    missing = refusal(lambda: store.version(GHOST))
    for known in world.hidden_from(me.id):
        yield (
            known,
            None,
            refusal(lambda id=known.id: store.version(id))
            == missing.replace(GHOST, known.id),
            False,
        )
        for told in (forget(known.id), search(known.id)):
            yield (
                known,
                told.replace(known.id, ""),
                "Error" in told or known.word not in told,
                False,
            )
    if me.id != "operator":
        yield from acts(lambda me, id: store.forget(id))(me, world)
        yield from acts(lambda me, id: store.remember("text", "agent", supersedes=id))(
            me, world
        )


SHARED = {
    **dict.fromkeys("search remember forget version tools".split(), walk_store),
    "agent_memory": "gives an AgentMemory",
    "seat": "the older name of agent_memory",
    "close": "tells of no entry",
}


@pytest.mark.parametrize("reader", READERS)
def test_every_read_of_the_shared_store_passes_the_gate(world, reader):
    for asked, told, right, reviewing in walk_store(world.mem.as_agent(reader), world):
        assert (right, world.leaks(reader, repr(told), reviewing)) == (True, []), asked


def walk_inbox(mail, world):
    me = mail.agent_memory
    if me.id == "operator":
        for agent in AGENTS:
            others = {
                known.id
                for known in world.seen_by(agent.id)
                if world.entry(known).author != agent.id
            }
            due = {known.id for known in world.known if known.state in MAIL} & others
            found = {each.id for each in mail.inbox(agent=agent.id)}
            yield (
                agent.id,
                None,
                found == due and mail.poll(agent=agent.id) == len(due),
                False,
            )
        return
    own = {known.id for known in world.known if world.entry(known).author == me.id}
    due = world.live(me.id, states=MAIL) - own
    for limit in (None, 2, 0):
        found = [each.id for each in mail.inbox(limit)]
        yield (
            limit,
            mail.inbox(limit),
            {*found} <= due
            and len(found) == min(len(due), len(due) if limit is None else limit),
            False,
        )
    yield "count", None, mail.poll() == len(due), False
    for ask in (mail.poll, mail.inbox):
        yield (
            "another's",
            None,
            refusal(
                lambda ask=ask: ask(agent="cto" if me.id != "cto" else "lead")
            ).startswith("(<class 'synapse.errors.Forbidden"),
            False,
        )


def walk_threads(mail, world):
    mine = world.live(mail.agent_memory.id, states=MAIL)
    total = 0
    for status in (None, "active"):
        found = mail.threads(status, tag=None, limit=100)
        total = sum(each.total for each in found)
        yield status, found, total == len(mine), False
    for each in found:
        yield (
            each.id,
            [mail.thread(each.id), *mail.history(each.id, 1_000)],
            True,
            False,
        )
        told = mail.history(each.id, limit=2, before=mail.history(each.id)[-1].id)
        yield "before", told, len(told) <= 2, False
    yield (
        "history",
        None,
        {m.id for each in found for m in mail.history(each.id)} == mine,
        False,
    )
    hidden = threads_of(world) - {each.id for each in found}
    missing = refusal(lambda: mail.thread(GHOST_THREAD))
    for id in hidden:
        for act in (
            mail.thread,
            mail.history,
            *(
                ()
                if mail.agent_memory.id == "operator"
                else (
                    mail.close,
                    mail.reopen,
                    lambda id: mail.tag(id, "x"),
                    lambda id: mail.rename(id, "x"),
                    lambda id: mail.send("all", "x", thread=id),
                )
            ),
        ):
            yield (
                id,
                None,
                refusal(lambda act=act, id=id: act(id))
                == missing.replace(GHOST_THREAD, id),
                False,
            )


def walk_message(mail, world):
    for known in world.seen_by(mail.agent_memory.id):
        if known.state in MAIL:
            found = mail.get(known.id)
            yield known, found, known.word in found.body, False
    yield from refusals(mail.agent_memory, world, mail.get)


def mailed(act):
    def walk(mail, world):
        if mail.agent_memory.id != "operator":
            yield from acts(lambda me, id: act(mail, id))(mail.agent_memory, world)

    return walk


def threads_of(world):
    return {
        world.entry(known).more["thread"]
        for known in world.known
        if known.state in MAIL
    }


GHOST_THREAD = kinds.new_thread(b"no such thread..")
MAILED = {
    "inbox": walk_inbox,
    "poll": walk_inbox,
    "threads": walk_threads,
    "thread": walk_threads,
    "history": walk_threads,
    "close": walk_threads,
    "reopen": walk_threads,
    "tag": walk_threads,
    "rename": walk_threads,
    "send": walk_threads,
    "get": walk_message,
    "read": mailed(lambda mail, id: mail.read(id)),
    "ack": mailed(lambda mail, id: mail.ack(id)),
    "react": mailed(lambda mail, id: mail.react(id, "x")),
    "reply": mailed(lambda mail, id: mail.reply(id, "x")),
    "edit": mailed(lambda mail, id: mail.edit(id, "x")),
}
MAIL_READERS_PASS = {
    "inbox": {"limit", "agent"},
    "poll": {"agent"},
    "threads": {"status", "tag", "limit"},
    "history": {"thread", "limit", "before"},
    "thread": {"id"},
    "get": {"id"},
}
# What the walks pass; the rest of a reader's parameters are named here, with the reason.
READERS_PASS = {
    "read": {name for asked, _ in (*READS, *UNREAD) for name in asked}
    | {"archived", "unread"},
    "briefing": {
        "budget",
        "department",
        "as_of",
        "encoding",
        "mark",
        "until",
        "only",
        "commands",
        "moments",
    }
    | {"about", "worth", "without", "quick"},
    "later": {"as_of", "department"},
    "search": {"query", "mode"} | {name for asked in SEARCHES for name in asked},
    "follow": {"since", "critical", "timeout"},
    "unread": set(),
    "staged": set(),
    "get": {"id"},
    "fate": {"id"},
}
# `Memory` is the operator's: it shows everything, or nothing of any entry.
WHOLE, NONE = "the operator's, and a spawned run is refused", "tells of no entry"
MEMORY = {
    "agents": NONE,
    "as_agent": "gives the seat, whose methods are walked",
    "audit": WHOLE,
    "close": NONE,
    "digest": NONE,
    "export": WHOLE,
    "import_": WHOLE,
    "last_seen": NONE,
    "rebuild": NONE,
    "register": WHOLE,
    "questions": WHOLE,
    "repair": WHOLE,
    "tell": WHOLE,
    "verify": NONE,
}
ASKED, ACT = (
    "asks the seat or its mail; walked by `brain_faults`",
    "an act of the seat's, or of its mail",
)
BRAIN = {
    **dict.fromkeys(
        "read_unread poll thread_history list_threads search find_provenance recent".split(),
        ASKED,
    ),
    **dict.fromkeys("send ack remember create_atom link_atoms forget".split(), ACT),
    **dict.fromkeys(
        "check connect strays".split(), "of the tables, which are the operator's"
    ),
    "embed_pending": NONE,
    "close": NONE,
    "migrate": WHOLE,
}
VALUE, ERROR = (
    "a value; reads nothing",
    "an error; what it says is compared by `refusals`",
)
PUBLIC = {
    "Memory": "its methods have rows in MEMORY",
    "AgentMemory": "its methods have rows in SEAT",
    "Seat": "the older name of AgentMemory",
    "Mail": "its methods have rows in MAILED",
    "SharedMemoryStore": "its methods have rows in SHARED",
    "init": "gives a Memory",
    "open": "gives a Memory",
    "find": "gives a path",
    **dict.fromkeys(
        (
            "Agent Claim Draft Entry Event Fate Hit Hits Message Page Problem Rebuilt"
            " Report Settings Skill Thread View"
        ).split(),
        VALUE,
    ),
    **dict.fromkeys(
        (name for name in synapse.__all__ if name.endswith("Error")), ERROR
    ),
    **dict.fromkeys(
        "Conflict Forbidden InvalidEntry InvalidQuery NewerProtocol NoKey NotFound"
        " OverBudget QueueFull ReadOnly"
        " StoreBusy StoreCorrupt".split(),
        ERROR,
    ),
}
# Statements that pick entries for a reader carry the gate in themselves. The others say why they
# need none.
SEEN = "the fragment `seen`"
HEARD = "the fragment `heard`: as `seen`, without what the reader wrote itself"
GATED = {
    **dict.fromkeys(
        "history threads_active threads_any thread_rows"
        " page_all page_paged page_weighty page_critical page_filtered lane count"
        " count_since peers search"
        " search_archived search_within search_together search_author search_rows".split(),
        SEEN,
    ),
    "lane_own": "e.aid = :me",
    "lane_addressed": "e.audience in ({audiences})",
    "unread": HEARD,
    "unread_paged": HEARD,
    **dict.fromkeys(("left_since", "fresh", "fresh_counts"), HEARD),
    "inbox": HEARD,
    "poll": HEARD,
    "census": HEARD,
}
PICKED = "the text at places that a gated statement picked, or that passed `visible` one by one"
NUMBER = "a number, of no entry in particular"
OWN = "what the log and the projection ask of themselves"
UNGATED = {
    **dict.fromkeys(
        ("trace", "lost_between"),
        "places and times, for whether the journal is the one that was indexed",
    ),
    "rows": PICKED,
    "texts": PICKED,
    **dict.fromkeys(
        "in_dispute disputed_between receipts_of acks_of reactions_of places".split(),
        PICKED,
    ),
    "row": PICKED,
    "fate": PICKED,
    "id_of": PICKED,
    "every": "for export, the operator's",
    "acts": "for audit, the operator's; `log` asks the seat for each entry",
    "staged": "asked of the seat one by one",
    **dict.fromkeys(
        ("keyed_entries", "standing"), "for a supervisor, which asks `visible` of each"
    ),
    "conditional": NUMBER,
    **dict.fromkeys(
        "idle outdone lapsed comparable mergeable brought_back filings_of held_by"
        " weights of_night nights"
        " written_since told in_dispute_now sized long received busy lived superseded"
        " critical_acts citing critical"
        " seen_by reviews".split(),
        "for consolidation, the operator's",
    ),
    **dict.fromkeys(
        ("act_of", "approvals_of", "last_ruling"),
        "acts by number, for `undo`: the operator's, or those of its agent",
    ),
    "embeddable": "the texts that go to the embedder, which the operator chose; to no reader",
    "embeddable_count": NUMBER,
    **dict.fromkeys(
        (
            "floor_of version next_release act_at hidden shown seen_between lane_counts"
            " last_active"
        ).split(),
        NUMBER,
    ),
    **dict.fromkeys(("word_count", "last_entry", "ceiling_of"), NUMBER),
    "around": (
        "places in a thread; what is asked there passes `search_rows`, and its words came"
        " from `search`"
    ),
    **dict.fromkeys(
        "blockers run runs runs_by_state runs_by_root runs_by_parent deliveries"
        " deliveries_by_entry deliveries_by_run"
        " deliveries_by_agent".split(),
        "runs, counts and ids, for whoever runs the team; no text of an entry",
    ),
    "ids_alike": "ids; whoever asks is asked of each whether it sees it",
    "touched": OWN,
    "links_of": "ids of atoms; whoever asks sees one end, and is asked whether it sees the other",
    "uses_of": NUMBER,
    **dict.fromkeys(
        (
            "namespaces aid_of audiences agents authors get_meta token_counts thread_of"
            " tags_of_thread"
        ).split(),
        "names, not entries",
    ),
    **dict.fromkeys(
        "names names_in_thread first_once keyed unworded all_voids is_void refiled"
        " place_of rivals_by_topic"
        " rivals_by_heirs".split(),
        OWN,
    ),
}
WRITES = ("insert", "update", "delete")


def public(kind):
    return {
        name
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name))
    }


def own(module):
    """The public functions that a module has of its own."""
    functions = {
        name: each for name, each in vars(module).items() if inspect.isfunction(each)
    }
    return {
        name
        for name, each in functions.items()
        if not name.startswith("_") and each.__module__ == module.__name__
    }


def unlisted(found, *tables):
    """Readers without a row, and rows without a reader."""
    return set(found) ^ {name for table in tables for name in table}


def unwalked(kind, table=None, *other):
    """The parameters of readers that no walk passes."""
    return {
        f"{name}({parameter})"
        for name, passed in (table or READERS_PASS).items()
        for parameter in inspect.signature(getattr(kind, name)).parameters
        if parameter not in ("self", *passed, *other)
    }


def ungated(statements):
    """Statements that read without having a row, or that should carry the gate and do not."""
    readers = {
        name: text for name, text in statements.items() if not text.startswith(WRITES)
    }
    fragments = {SEEN: load_fragment("seen"), HEARD: load_fragment("heard")}
    gates = {name: fragments.get(gate, gate) for name, gate in GATED.items()}
    missing = {
        name for name, gate in gates.items() if gate not in readers.get(name, "")
    }
    return missing | unlisted(readers, GATED, UNGATED)


def load_fragment(name):
    path = os.path.join(os.path.dirname(inspect.getfile(Database)), "queries.sql")
    with open(path, encoding="utf-8") as file:
        return (
            file.read()
            .partition(f"-- fragment: {name}\n")[2]
            .partition("\n-- ")[0]
            .strip()
        )


def in_order(parts, text):
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
    return True


def test_every_public_reader_has_a_row():
    assert unlisted(public(AgentMemory), SEAT) == set()
    assert unlisted(public(synapse.Mail), MAILED) == set()
    assert unwalked(synapse.Mail, MAIL_READERS_PASS, "mark") == set()
    assert unlisted(public(synapse.Memory), MEMORY) == set()
    assert unlisted(public(UnifiedBrain), BRAIN) == set()
    assert unlisted(own(recall), [name for name in RECALL if name != "cites"]) == set()
    assert unlisted(public(SharedMemoryStore), SHARED) == set()
    assert unlisted(own(shared), ["recall_tools", "always"]) == set()
    assert unlisted(synapse.__all__, PUBLIC) == set()
    assert unlisted(VERBS, SHELL) == set()
    assert unwalked(AgentMemory) == set()
    assert unasked() == set()
    assert ungated(load_sql("queries.sql")) == set()


def test_a_reader_without_a_row_fails(tmp_path):
    class Peeking(AgentMemory):
        def peek(self, id):
            """A new reader."""

        def read(self, *, raw=False):
            """A new way to ask."""

    assert unlisted(public(Peeking), SEAT) == {"peek"}
    assert unlisted({*synapse.__all__, "peek"}, PUBLIC) == {"peek"}
    assert unlisted(
        {**VERBS, "peek": Verb("peek", "write", "reading", "", "")}, SHELL
    ) == {"peek"}
    assert unwalked(Peeking) == {"read(raw)"}
    source = os.path.join(os.path.dirname(inspect.getfile(Database)), "queries.sql")
    for more, name in (
        ("-- name: peek\nselect body from texts\n", "peek"),
        ("-- name: page_all\nselect e.seq, e.rec, e.rev from entries e\n", "page_all"),
    ):
        shutil.copy(source, tmp_path / "queries.sql")
        with (tmp_path / "queries.sql").open("a", encoding="utf-8") as file:
            file.write("\n" + more)
        assert ungated(load_sql(str(tmp_path / "queries.sql"))) == {name}


# -- the library -----------------------------------------------------------------------


def faults(world, me, name):
    """What a walk told that it had not to, and what it did not tell."""
    for asked, told, right, reviewing in SEAT[name](me, world):
        leaked = world.leaks(me.id, repr(told), reviewing)
        if leaked or not right:
            yield name, asked, leaked or "wrong", told


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", SEAT)
def test_every_read_of_a_seat_passes_the_gate(world, name, reader):
    assert next(faults(world, world.mem.as_agent(reader), name), None) is None


def recall_faults(world, me, name):
    for asked, told, right, reviewing in RECALL[name](me, world):
        leaked = world.leaks(me.id, repr(told), reviewing)
        if leaked or not right:
            yield name, asked, leaked or "wrong", told


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", RECALL)
def test_every_recall_passes_the_gate(world, name, reader):
    assert next(recall_faults(world, world.mem.as_agent(reader), name), None) is None


def test_the_walk_finds_a_recall_that_forgot_the_scope(world, monkeypatch):
    monkeypatch.setattr(recall, "within", lambda me, scope: None)
    assert (
        next(recall_faults(world, world.mem.as_agent("eng-c"), "search"), None)
        is not None
    )


def mail_faults(world, mail, name):
    for asked, told, right, reviewing in MAILED[name](mail, world):
        leaked = world.leaks(mail.agent_memory.id, repr(told), reviewing)
        if leaked or not right:
            yield name, asked, leaked or "wrong", told


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", MAILED)
def test_every_read_of_mail_passes_the_gate(world, name, reader):
    assert (
        next(mail_faults(world, synapse.Mail(world.mem.as_agent(reader)), name), None)
        is None
    )


def test_the_walk_finds_mail_that_forgot_the_gate(world):
    class Leaky(synapse.Mail):
        def _reader(self):
            return None

        def _message(self, id):
            return self.store.current(id)

        def _owner(self, named):
            return world.agents["cto"]

    mail = Leaky(world.mem.as_agent("eng-c"))
    seen = {name: [*mail_faults(world, mail, name)] for name in MAIL_READERS_PASS}
    assert [name for name, found in seen.items() if not found] == []


@pytest.fixture(scope="module")
def brained(tmp_path_factory):
    """The world as the log of a brain."""
    place = tmp_path_factory.mktemp("brain")
    found = world_at(place / "brain.db.log")
    found.path = str(place / "brain.db")
    yield found
    found.mem.close()


def brain_faults(world, brain):
    """What a brain told its agent that it had not to."""
    seen = {known.id for known in world.seen_by(brain.agent)}
    rows = [
        brain.recent(hours=10_000),
        *(brain.thread_history(each["id"]) for each in brain.list_threads(None, 1_000)),
    ]
    rows += [brain.search(known.word) for known in world.known]
    if brain.agent != "operator":
        rows.append(brain.read_unread())
    told = [
        repr(rows),
        brain.poll() if brain.agent != "operator" else 0,
        {row["id"] for each in rows for row in each},
    ]
    yield from world.leaks(brain.agent, told[0])
    yield from told[2] - seen
    for known in world.known:
        try:
            yield from world.leaks(
                brain.agent, repr(brain.find_provenance(known.id)), reviewing=True
            )
        except SynapseError as error:
            yield from world.leaks(brain.agent, str(error).replace(known.id, ""))


@pytest.mark.parametrize("reader", READERS)
def test_a_brain_passes_the_gate(brained, reader):
    with UnifiedBrain(brained.path, reader, clock=brained.mem.store.clock) as brain:
        assert next(brain_faults(brained, brain), None) is None
        assert brain.check() == []


def test_the_walk_finds_a_brain_that_forgot_the_gate(brained):
    with UnifiedBrain(brained.path, "eng-c", clock=brained.mem.store.clock) as brain:
        brain.me = brained.mem.as_agent("operator")
        assert next(brain_faults(brained, brain), None) is not None


@pytest.mark.parametrize("reader", [name for name in READERS if name != "operator"])
def test_reads_that_mark_pass_the_gate(fresh, reader):
    me = fresh.mem.as_agent(reader)
    for told in (
        [*me.read(mark=True)],
        [view := me.briefing(mark=True), view.markdown()],
    ):
        assert fresh.leaks(reader, repr(told)) == []
    assert me.unread() == 0


@pytest.mark.parametrize("reader", [name for name in READERS if name != "operator"])
def test_what_is_unread_passes_the_gate_page_by_page(fresh, reader):
    me, due = fresh.mem.as_agent(reader), fresh.mem.as_agent(reader).unread()
    while page := me.read(unread=True, budget=400, mark=True):
        assert (
            fresh.leaks(reader, repr([*page, *page.pointers, news.render(page)])) == []
        )
        due -= len(page)
        assert me.unread() == due
        assert next(faults(fresh, me, "unread"), None) is None or due < len(
            fresh.live(reader)
        )
    assert due == 0


def leaky(world, agent):
    """Return the memory of eng-c, read as if by another agent."""

    class Leaky(Access):
        def agent(self):
            return agent

    me = AgentMemory(world.mem.store, "eng-c")
    me.access = Leaky(me.store, me.writer, me.id)
    return me


def test_the_walk_finds_a_reader_that_forgot_the_gate(world):
    seen = {
        name: [*faults(world, leaky(world, None), name)]
        for name in READERS_PASS
        if name != "unread"
    }
    assert [name for name, found in seen.items() if not found] == []


def test_the_walk_finds_news_that_forgot_the_gate(world):
    agent = settled(Agent("eng-c", read=("*",), teams=("red", "backend", "frontend")))
    assert [
        fault for fault in walk_news(leaky(world, agent), world) if not fault[2]
    ] != []


def test_the_world_has_something_to_see_and_something_not_to(world):
    states = {known.state for known in world.known}
    assert {known.state for known in world.seen_by("operator")} == states
    assert all(
        world.live(reader) and world.hidden_from(reader) for reader in READERS[:-1]
    )
    assert {
        known.state for reader in READERS[:-1] for known in world.seen_by(reader)
    } == states
    assert {
        known.state for reader in READERS[:-1] for known in world.hidden_from(reader)
    } == states


def test_every_gated_statement_runs_in_the_walk(world, fresh, monkeypatch):
    ran = []
    fresh.mem.store.index.db.connection.set_trace_callback(ran.append)
    marked = fresh.mem.as_agent("eng-a")
    page = marked.read(limit=1, mark=True)
    assert marked.unread() == len(
        {entry.id for entry in marked.read(unread=True)} - {page[0].id}
    )
    fresh.mem.store.index.db.connection.set_trace_callback(None)
    world.mem.store.index.db.connection.set_trace_callback(ran.append)
    for talkative in (1.0, 0.0):
        monkeypatch.setattr(pages, "_TALKATIVE", talkative)
        for reader in READERS:
            me = AgentMemory(world.mem.store, reader)
            for name in ("read", "search", "unread", "get", "briefing"):
                assert list(faults(world, me, name)) == []
            for name in ("inbox", "threads"):
                assert list(mail_faults(world, synapse.Mail(me), name)) == []
    world.mem.store.index.db.connection.set_trace_callback(None)
    statements = load_sql("queries.sql")
    shapes = {name: re.split(r"\{\w+\}|:\w+", statements[name]) for name in GATED}
    assert {
        name
        for name, shape in shapes.items()
        if not any(in_order(shape, text) for text in ran)
    } == set()


def test_what_tells_of_no_entry_tells_of_none(world):
    for name in [
        name for name, why in MEMORY.items() if why == NONE and name != "close"
    ]:
        told = repr(getattr(world.mem, name)())
        assert [
            known for known in world.known if known.id in told or known.word in told
        ] == []


@pytest.mark.parametrize("name", [name for name, why in MEMORY.items() if why == WHOLE])
def test_a_spawned_run_does_not_get_the_operator_s_acts(world, monkeypatch, name):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-c")
    given = {"register": (Agent("new"),), "import_": ([],), "tell": ("lead", "x")}.get(
        name, ()
    )
    with pytest.raises(Forbidden):
        list(getattr(world.mem, name)(*given))


# -- the shell -------------------------------------------------------------------------

# Command lines of each verb; {me}, {id} and {word} are filled in. An id or a word of each state,
# seen or not.
ID_ACT = ("--from {me} --json {id}",)
SHELL = {
    "read": (
        "--agent {me} --json",
        "--agent {me} --json --limit 0",
        "--agent {me} --limit 0 --markdown",
        "--agent {me} --json --limit 0 --since 24h --priority critical,important --namespace api/*",
        "--agent {me} --json --author eng-a --tag tagged",
        "--agent {me} --json --archived",
        "--agent {me} --mark",
        "--agent {me} --unread",
        "--agent {me} --unread --budget 300",
        "--agent {me} --unread --json --limit 0",
        "--agent {me} --json {id}",
        "--agent {me} --markdown {id}",
    ),
    "search": (
        "--agent {me} --json --limit 500 common",
        "--agent {me} common",
        "--agent {me} --json --archived --namespace api/* common",
        (
            "--agent {me} --json --kind entry,message --author eng-a --priority critical"
            " --tag tagged common"
        ),
        "--agent {me} --since 2d --until today common",
        "--agent {me} --when yesterday common",
        "--agent {me} --json {word}",
        "--agent {me} --json --limit 500 --mode meaning common",
        "--agent {me} --mode both common",
    ),
    "view": (
        "{me} --json",
        "{me}",
        "--agent {me} --budget 500",
        "--agent {me} --department backend --json",
        "{me} --as-of 3h --json",
        "{me} --as-of 3h --department backend",
        "{me} --write",
    ),
    "unread": ("--agent {me} --json",),
    "watch": (
        "--agent {me} --json --since 0 --timeout 0",
        "--agent {me} --since 0 --critical --timeout 0 --count 9999",
    ),
    "log": ("--agent {me} --json --limit 0", "--agent {me} --since 24h --limit 0"),
    "approve": ("--from {me} --json", "--from {me}", *ID_ACT),
    "reject": ID_ACT,
    "resolve": ID_ACT,
    "vouch": ID_ACT,
    "archive": ID_ACT,
    "restore": ID_ACT,
    "forget": ID_ACT,
    "link": ("--from {me} --json {id} {id}",),
    "remember": ("--from {me} --json --cites {id} text",),
    "atom": ("--from {me} --json --cites {id} who does that",),
    "why": ("--agent {me} --json {id}", "--agent {me} {id}"),
    "ack": (
        *ID_ACT,
        "--from {me} --json --body yes {id}",
        "--from {me} --json --react yes {id}",
    ),
    "send": (
        "--from {me} --json --reply-to {id} text",
        "--from {me} --json --edit {id} text",
    ),
    "inbox": ("--agent {me} --json --limit 0", "--agent {me}", "--agent {me} --mark"),
    "poll": ("--agent {me} --json",),
    "threads": (
        "--agent {me} --json --status all --limit 99",
        "--agent {me} --tag none",
    ),
    "thread": ("--agent {me} --json {thread}", "--agent {me} --limit 3 {thread}"),
    "recent": (
        "--agent {me} --json --limit 0",
        "--agent {me} --since 24h --kind entry,message",
    ),
    "what-did": (
        "--agent {me} --json --limit 0 eng-a",
        "--agent {me} --since 24h eng-a",
    ),
    "timeline": ("--agent {me} --json --limit 0 x", "--agent {me} --since 24h x"),
    "write": ("--from {me} --json --namespace api/endpoints --supersedes {id} text",),
    "undo": (
        "--from {me} --json --plan last",
        *(f"--from {{me}} --plan {number}" for number in (1, 12, 30, 60, 90, 9999)),
    ),
    **dict.fromkeys(
        "audit backup defrag embed export import init merge migrate register".split(),
        WHOLE,
    ),
    **dict.fromkeys("repair reputation tell".split(), WHOLE),
    **dict.fromkeys(
        ("agents", "completion", "doctor", "rebuild", "stats", "verify", "where"), NONE
    ),
    "mcp": "serves: what it answers is walked below",
}
REVIEWING = ("approve", "log", "read")
WRITERS = (
    "approve",
    "reject",
    "resolve",
    "vouch",
    "archive",
    "restore",
    "ack",
    "forget",
    "link",
    "remember",
    "atom",
    "write",
    "send",
    "thread",
    "undo",
)


def unasked():
    """Options of reading verbs that no command line of the table uses."""
    return {
        f"{verb} {names[0]}"
        for verb, lines in SHELL.items()
        if isinstance(lines, tuple) and verb not in WRITERS
        for names, _ in options_of(VERBS[verb]).calls
        if names[0].startswith("--") and names[0] not in ("--root", "--debug")
        if not any(name in line for name in names for line in lines)
    }


@pytest.fixture(scope="module")
def disk(tmp_path_factory, embedding_server):
    """The world in files."""
    root = tmp_path_factory.mktemp("gate") / "shared-memory"
    found = world_at(root)
    embedding_server.reset()
    with (root / "synapse.yaml").open("a") as file:
        file.write(
            f"semantic: {{embedder: ollama, url: '{embedding_server.url}', search: off}}\n"
        )
    found.mem.store.refresh(force=True)
    semantic.embed(found.mem.store)
    yield found
    found.mem.close()


@pytest.fixture
def run(disk, capsys, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    before = signal.getsignal(signal.SIGTERM)

    def run(verb, line, prog=None, **filled):
        capsys.readouterr()
        words = [word.format(**filled) for word in line.split()]
        cli.main([verb, "--root", disk.mem.store.root, *words], prog=prog)
        return "".join(capsys.readouterr())

    yield run
    assert signal.getsignal(signal.SIGTERM) == before


def samples(world, reader):
    """One entry of each state among those that the reader sees, and among those that it does
    not.
    """
    return [*{known.state: known for known in world.hidden_from(reader)}.values()]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "verb", [verb for verb, lines in SHELL.items() if isinstance(lines, tuple)]
)
def test_every_verb_passes_the_gate(disk, run, verb, reader):
    if (
        verb in (*WRITERS, "unread", "inbox", "poll")
        and verb != "thread"
        and reader == "operator"
    ):
        return
    for line in SHELL[verb]:
        for id in threads_of(disk) if "{thread}" in line else ():
            assert disk.leaks(reader, run(verb, line, me=reader, thread=id)) == [], line
        if "{thread}" in line:
            continue
        if "{id}" in line:
            missing = {
                ghost: run(verb, line, me=reader, id=ghost)
                for ghost in (GHOST, GHOST_MESSAGE)
            }
            for known in samples(disk, reader):
                ghost = GHOST_MESSAGE if known.state in MAIL else GHOST
                assert run(verb, line, me=reader, id=known.id) == missing[
                    ghost
                ].replace(ghost, known.id), line
        elif "{word}" in line:
            for known in samples(disk, reader):
                assert (
                    json.loads(run(verb, line, me=reader, word=known.word))["entries"]
                    == []
                )
        else:
            assert (
                disk.leaks(reader, run(verb, line, me=reader), verb in REVIEWING) == []
            ), line
    views = os.path.join(disk.mem.store.root, "views", f"{reader}.md")
    if verb == "view" and reader != "operator":
        with open(views, encoding="utf-8") as file:
            assert disk.leaks(reader, file.read()) == []


@pytest.mark.parametrize("reader", READERS)
def test_the_shell_shows_what_is_visible(disk, run, reader):
    assert {
        each["id"]
        for each in entries(run("read", "--agent {me} --json --limit 0", me=reader))
    } == disk.live(reader)
    found = run("search", "--agent {me} --json --limit 500 common", me=reader)
    assert {each["id"] for each in entries(found)} == disk.live(reader)
    archived = run("read", "--agent {me} --json --limit 0 --archived", me=reader)
    assert {each["id"] for each in entries(archived)} == disk.live(
        reader, states={"archived"}
    )
    text = run(
        "read", "--limit 0 --markdown --agent {me}", prog="synapse-read", me=reader
    )
    assert {known.id for known in disk.known if known.word in text} == disk.live(reader)


def entries(told):
    return json.loads(told)["entries"]


def test_the_specification_s_own_commands_are_verbs():
    assert set(ALIASES.values()) <= set(SHELL)


def test_a_spawned_run_is_its_agent_alone(disk, run, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-c")
    assert {verb for verb, why in SHELL.items() if why == WHOLE} == OPERATORS
    needed = {"backup": "--json new", "import": "--json new", "register": "--json new"}
    needed |= {"tell": "--json lead text"}
    for verb in OPERATORS:
        told = run(verb, needed.get(verb, "--json"))
        assert "SYNAPSE_RUN" in told
        assert disk.leaks("eng-c", told) == []
    for verb, line in (
        ("read", "--agent operator --json"),
        ("view", "lead"),
        ("unread", "--agent lead"),
    ):
        assert "acts as eng-c" in run(verb, line)
    assert {
        each["id"] for each in entries(run("read", "--json --limit 0"))
    } == disk.live("eng-c")


@pytest.mark.parametrize("verb", [verb for verb, why in SHELL.items() if why == NONE])
def test_verbs_that_tell_of_no_entry_tell_of_none(disk, run, verb):
    told = run(verb, "bash" if verb == "completion" else "--json")
    assert [
        known for known in disk.known if known.id in told or known.word in told
    ] == []


# -- the MCP server --------------------------------------------------------------------


@pytest.fixture(scope="module")
def told():
    """A world whose readers may be noted as having been shown what they were given."""
    found = world_at(None)
    yield found
    found.mem.close()


async def walk_server(world, reader, served=None):
    """What a client that acts as the reader is told: each with whether it stands in a review; and
    what it is told of each hidden entry, which is what it is told of one that is not there.
    """
    from mcp import Client
    from mcp.shared.exceptions import MCPError

    from synapse.mcp.offer import offer
    from synapse.mcp.server import build

    given, apart = [], []
    async with Client(
        build(lambda caller: world.mem.as_agent(served or reader), offer())
    ) as client:

        async def call(name, **arguments):
            return (await client.call_tool(name, arguments)).content[0].text

        async def resource(uri):
            try:
                return (
                    (await client.read_resource(uri, cache_mode="bypass"))
                    .contents[0]
                    .text
                )
            except MCPError as error:
                return str(error)

        given += [
            await call("read", namespace=glob, since="9d")
            for glob in ("api/*", "vault/*", "blockers/*")
        ]
        given += [
            await call("memory_search", query="common", top_k=100) for _ in range(2)
        ]
        given += [
            await call("briefing", task="common", budget=10_000),
            await call("read"),
            await call("inbox"),
        ]
        given += [await resource(f"synapse://view/{name}") for name in READERS]
        given.append(
            (await client.get_prompt("briefing", {"task": "common"}))
            .messages[0]
            .content.text
        )
        for known in samples(world, reader):
            ghost = GHOST_MESSAGE if known.state in MAIL else GHOST
            for ask in (
                lambda id: call("read", id=id),
                lambda id: call("ack", ids=[id]),
                lambda id: call("send", re=id, body="text"),
                lambda id: call("append", namespace="api", body="text", supersedes=id),
                lambda id: resource(f"synapse://entry/{id}"),
            ):
                apart.append(
                    (
                        known,
                        await ask(known.id),
                        (await ask(ghost)).replace(ghost, known.id),
                    )
                )
            given.append(
                (await call("memory_search", query=known.word)).replace(known.word, "")
            )
        wanted = [f"synapse://entry/{known.id}" for known in samples(world, reader)]
        async with client.listen(
            resource_subscriptions=[
                *wanted,
                *(f"synapse://view/{name}" for name in READERS),
            ]
        ) as open:
            honored = open.honored.resource_subscriptions or []
        own = READERS if reader == "operator" else (reader,)
        apart.append(
            (None, sorted(honored), sorted(f"synapse://view/{name}" for name in own))
        )
    return given, apart


@pytest.mark.parametrize("reader", READERS)
def test_every_answer_of_the_mcp_server_passes_the_gate(told, reader):
    given, apart = asyncio.run(walk_server(told, reader))
    assert [leaked for text in given if (leaked := told.leaks(reader, text))] == []
    assert [each for each in apart if each[1] != each[2]] == []


def test_the_walk_finds_a_server_that_acts_as_another(told):
    given, apart = asyncio.run(walk_server(told, "eng-c", served="cto"))
    assert [text for text in given if told.leaks("eng-c", text)]
    assert [each for each in apart if each[1] != each[2]]
