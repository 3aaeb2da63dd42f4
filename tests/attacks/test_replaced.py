"""What takes the place of an entry takes it from those who may see it, and from nobody else.

A reader is asked in two worlds: in one there is all that was written, in the other only what this
reader may see, and acts that nobody reads in place of the rest. Both answer the same.
"""

import random
import re

import pytest

import synapse
from synapse.authority import visible
from synapse.consolidate.nightly import run_nightly
from synapse.index.derive import projector
from synapse.knowledge import memory, recall
from synapse.model.agents import Agent
from synapse.testing import FrozenClock
from tests.attacks.test_counts import BASE, masked

AGENTS = (
    Agent("cto", "cto"),
    Agent("lead", "project-lead", read=("*",), write=("*",)),
    Agent("eng", read=("api/*", "global"), write=("*",), teams=("red",), department="build"),
    Agent(
        "low",
        read=("api/x",),
        write=("*",),
        authority=10,
        teams=("red", "blue"),
        department="build",
    ),
    Agent("deaf", read=(), write=("*",), teams=("blue",)),
)
READERS = ("eng", "low", "deaf")
PLACES = ("api/x", "api/y", "secret/x")
AUDIENCES = ("all", "all", "all", "team:red", "team:blue", "agent:eng", ("agent:eng", "agent:low"))


class World:
    """A memory in which a reader's acts and those of others come at the same times."""

    def __init__(self):
        self.clock = FrozenClock(BASE)
        self.mem = synapse.open("memory:", clock=self.clock)
        self.ids = {}
        for agent in AGENTS:
            self.mem.register(agent)

    def write(self, author, body, supersedes=(), **more):
        self.clock.advance("1m")
        ids = [self.ids[old] for old in supersedes if old in self.ids]
        entry = self.mem.as_agent(author).append(body, supersedes=ids, **more)
        self.ids[body] = entry.id
        return entry

    def pass_by(self):
        """Let as much time go by as an entry takes, with an act that nobody reads."""
        self.clock.advance("1m")
        self.mem.store.commit.act("used", "cto", counts={"fact_000000000000": 1})

    def answers(self, reader):
        """Return what a reader is told, by whichever way it asks."""
        me = self.mem.as_agent(reader)
        bodies = {id: body for body, id in self.ids.items()}
        named = [bodies[id] for id in self.ids.values() if sees(me, id)]
        told = {
            "read": page(me.read(limit=None)),
            "newest": page(me.read(limit=2)),
            "by place": page(me.read(namespace="api/x", limit=3)),
            "by author": page(me.read(author="cto")),
            "criticals": page(me.read(priority="critical")),
            "archived": page(me.read(archived=True)),
            "unread": (me.unread(), page(me.read(unread=True))),
            "search": [(hit.entry.body, disputes(me, hit.entry)) for hit in me.search("word")],
            "briefing": me.briefing(quick=True).text,
            "team": me.briefing(quick=True, department="build").text,
            "about": me.briefing(quick=True, about="what of the word?").text,
            "before": me.briefing(quick=True, as_of="20m").text,
            "later": [entry.body for entry in me.later("20m")],
            "recalled": re.sub(r"version \d+", "", recall.search(me, "word").text),
            "fates": [(body, fate(me, self.ids[body], bodies)) for body in named],
            "got": [(body, disputes(me, me.get(self.ids[body]))) for body in named],
        }
        return {way: masked(answer) for way, answer in told.items()}


def sees(me, id):
    try:
        return me.get(id)
    except synapse.NotFound:
        return None


def disputes(me, entry):
    return sorted(me.get(id).body for id in entry.disputed)


def page(found):
    return [(entry.body, entry.priority) for entry in found], found.matched, found.visible


def fate(me, id, bodies):
    found = me.fate(id)
    return found and (found.reason, bodies.get(found.by, found.by), found.until)


def history(seed, length=14):
    """Return random entries: who writes what, where, to whom, in the place of what."""
    draw, written = random.Random(seed), []
    for number in range(length):
        author, audience = draw.choice(AGENTS).id, draw.choice(AUDIENCES)
        olds = draw.sample(written, k=min(len(written), draw.choice((0, 0, 1, 1, 2))))
        more = {"namespace": draw.choice(PLACES), "to": audience}
        more |= {"topic": draw.choice((None, "t", "t", "u"))}
        more |= {"priority": draw.choice(("info", "important", "critical"))}
        more |= {"ttl": draw.choice(("30d", "30d", "5m"))}
        body = f"word {number} by {author}"
        yield author, body, {"supersedes": olds} | more
        written.append(body)


def both(seed, reader):
    """Return the two worlds of a reader: with all, and with what it may see."""
    whole, own = World(), World()
    agent = whole.mem.store.agents.get(reader)
    taken = set()
    for author, body, more in history(seed):
        # two that name one entry are rivals, and say so to whoever sees both
        more["supersedes"] = [old for old in more["supersedes"] if old not in taken]
        taken |= {old for old in more["supersedes"] if old not in own.ids}
        try:
            entry = whole.write(author, body, **more)
        except (synapse.NotFound, synapse.Forbidden):
            own.pass_by()  # it names what its author may not see
            continue
        if visible(entry, agent):
            own.write(author, body, **more)
        else:
            own.pass_by()
    return whole, own


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_a_reader_may_not_see_changes_what_it_sees(seed):
    for reader in READERS:
        whole, own = both(seed, reader)
        told, alone = whole.answers(reader), own.answers(reader)
        assert {way: told[way] for way in told if told[way] != alone[way]} == {}
        for world in (whole, own):
            world.clock.advance("6m")  # what was to live so long is over
        told, alone = whole.answers(reader), own.answers(reader)
        assert {way: told[way] for way in told if told[way] != alone[way]} == {}


def test_a_successor_that_counts_for_all_is_found_out(monkeypatch):
    monkeypatch.setattr(projector, "covers", lambda new, old: True)
    plain, hidden = told_to_stop(), told_to_stop("its author's, on its topic")
    assert hidden.answers("low") != plain.answers("low")


# -- one by one ------------------------------------------------------------------------------------

STOP = "word: do not deploy"
PRIVATE = {
    "its author's, on its topic": ("cto", {"topic": "deploy"}, ()),
    "a higher authority's": ("cto", {"topic": "build"}, ()),
    "one that supersedes it": ("cto", {}, (STOP, "word: use make")),
    "one that supersedes it elsewhere": (
        "cto",
        {"namespace": "secret/x", "to": "all"},
        (STOP, "word: use make"),
    ),
}


def told_to_stop(way=None):
    """Return a world with a public critical entry and a public fact, and a private successor."""
    world = World()
    world.write("cto", STOP, namespace="api/x", priority="critical", topic="deploy")
    world.write("lead", "word: use make", namespace="api/x", topic="build")
    if way is None:
        world.pass_by()
    else:
        author, more, olds = PRIVATE[way]
        place = {"namespace": "api/x", "to": "agent:lead"}
        world.write(author, "word: ask me", olds, **(place | more))
    return world


@pytest.mark.parametrize("way", PRIVATE)
def test_a_private_entry_takes_nothing_from_others(way):
    plain, hidden = told_to_stop(), told_to_stop(way)
    for reader in ("eng", "low"):
        assert STOP in str(hidden.answers(reader)["briefing"])
        assert hidden.answers(reader) == plain.answers(reader)


@pytest.mark.parametrize("way", PRIVATE)
def test_who_sees_the_successor_has_it_instead(way):
    world = told_to_stop(way)
    for reader in ("lead", "operator"):
        me = world.mem.as_agent(reader)
        bodies = {entry.body for entry in me.read()}
        gone = {STOP, "word: use make"} - bodies
        assert gone
        assert "word: ask me" in bodies
        for body in gone:
            assert me.fate(world.ids[body]).by == world.ids["word: ask me"]
        assert me.search("deploy make").hits == () or gone.isdisjoint(
            hit.entry.body for hit in me.search("word")
        )
        assert me.read().visible == len(bodies)


@pytest.mark.parametrize("way", PRIVATE)
def test_no_night_files_away_what_some_still_read(way):
    plain, hidden = told_to_stop(), told_to_stop(way)
    for world in (plain, hidden):
        world.clock.advance("26h")
        run_nightly(world.mem, "2026-11-27", world.clock())
    assert hidden.answers("eng") == plain.answers("eng")
    assert STOP in hidden.answers("eng")["briefing"]
    shifts = [
        [world.mem.store.agents.get(agent.id).shift for agent in AGENTS]
        for world in (plain, hidden)
    ]
    assert shifts[0] == shifts[1]


def test_a_private_dispute_changes_no_public_one():
    """Whether an entry is in dispute decides what becomes of it: by what all of its readers see."""
    worlds = []
    for private in (False, True):
        world = World()
        world.write("eng", "word: v1", namespace="api/x", topic="t")
        if private:
            world.write("deaf", "word: no", namespace="api/x", to="agent:lead", topic="t")
        else:
            world.pass_by()
        world.mem.register(Agent("eng-2", read=("api/*",), write=("*",)))
        world.write("eng-2", "word: v2", ("word: v1",), namespace="api/x")
        worlds.append(world)
    assert worlds[0].answers("low") == worlds[1].answers("low")


def test_a_private_successor_of_a_fact_refuses_nobody():
    for private in (False, True):
        world = World()
        fact = memory.remember(world.mem.as_agent("cto"), "word: ids are words", scope="global")
        seen = recall.version_by(world.mem.as_agent("eng"), fact.id)
        if private:
            world.write("lead", "word: no", namespace="secret/x", to="agent:lead")
            world.mem.as_agent("cto").append(
                "word: otherwise", "secret/x", to="agent:lead", supersedes=fact.id
            )
        assert recall.version_by(world.mem.as_agent("eng"), fact.id) == seen


def test_a_message_is_edited_for_those_who_have_it():
    world = World()
    from synapse.mail.mailbox import Mail

    sent = Mail(world.mem.as_agent("cto")).send("team:red", "word: at noon")
    Mail(world.mem.as_agent("cto")).edit(sent.id, "word: at one")
    for reader in ("eng", "low"):
        assert [m.body for m in Mail(world.mem.as_agent(reader)).inbox()] == ["word: at one"]
        assert Mail(world.mem.as_agent(reader)).poll() == 1


def test_what_was_for_some_comes_to_all():
    world = World()
    world.write("cto", "word: draft", namespace="api/x", to="agent:eng", topic="t")
    world.write("cto", "word: final", namespace="api/x", topic="t")
    assert [entry.body for entry in world.mem.as_agent("eng").read()] == ["word: final"]
    # who hears of the new one nowhere has the old one still
    world.write("cto", "word: for deaf", namespace="api/x", to="agent:deaf", topic="s")
    world.write("cto", "word: for all", namespace="api/x", topic="s")
    assert [entry.body for entry in world.mem.as_agent("deaf").read()] == ["word: for deaf"]
