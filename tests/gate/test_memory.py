"""Every read of an agent's memory gives out what `authority.visible` allows, and nothing else."""

import pytest

from synapse.access.gate import Access
from synapse.agent_memory import AgentMemory
from synapse.model import kinds, worth
from synapse.model.agents import Agent, settled
from synapse.model.entry import Draft
from synapse.search import semantic
from synapse.view import news
from tests.gate.world import AGENTS, LIVE, MAIL, READERS, VIEWED, acts, refusals

READS = (
    ({}, lambda entry: True),
    ({"limit": 1_000}, lambda entry: True),
    ({"limit": None}, lambda entry: True),
    ({"limit": 3}, None),
    ({"since": "24h", "limit": 1_000}, lambda entry: True),
    ({"since": "24h", "archived": False}, lambda entry: True),
    ({"priority": "critical"}, lambda entry: entry.priority == "critical"),
    ({"priority": "critical", "limit": 1_000}, lambda entry: entry.priority == "critical"),
    (
        {"priority": ["critical", "important"], "limit": 1_000},
        lambda entry: entry.priority != "info",
    ),
    (
        {"priority": ["important", "info"], "limit": 1_000},
        lambda entry: entry.priority != "critical",
    ),
    ({"namespace": "api/*", "limit": 1_000}, lambda entry: entry.namespace.startswith("api")),
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
    ({"since": "24h", "priority": "critical"}, lambda entry: entry.priority == "critical"),
    ({"namespace": "api/*", "mark": False}, lambda entry: entry.namespace.startswith("api")),
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
    for asked in ({"namespace": "mail"}, {"namespace": ["mail", "nowhere"], "limit": None}):
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
        if me.id != "operator" and me.store.agents.get(me.id) == me.agent
        else ()
    )


def walk_news(me, world):
    for asked, keep in UNREAD:
        page = me.read(unread=True, **asked)
        told, ids = [*page, *page.pointers], {entry.id for entry in page}
        due = {
            id
            for id in world.live(me.id, keep or (lambda entry: True))
            if world.mem.store.entry(id).author != me.id
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
    yield ("moments", [rest, rest.markdown()], {each.id for each in rest.included} == viewed, False)
    rest = me.briefing(quick=True)
    yield ("quick", [rest, rest.markdown()], {each.id for each in rest.included} == viewed, False)
    first = set(sorted(viewed)[:1])
    rest = me.briefing(without=first)
    yield (
        "without",
        [rest, rest.markdown()],
        {each.id for each in rest.included} == viewed - first,
        False,
    )
    yield "until", me.briefing(as_of=world.middle, until=found.cursor // 2), True, False
    task = "; ".join(f"{known.word} nowhere; {known.word} common" for known in world.known)
    by = worth.Worth(1e9, 1.0, dict.fromkeys(worth.KINDS, 1.0), 2_000, 20_000, 600)
    for more in (
        {"about": task},
        {"about": task, "worth": by},
        {"about": task, "as_of": world.middle},
    ):
        named = me.briefing(20_000, **more)
        yield ("about", sorted(more)), [named, named.markdown()], True, False
    for budget in (None, 20_000, 400):
        for as_of in (None, world.middle, "2h", "1s"):
            found = me.briefing(budget, as_of=as_of)
            ids = {each.id for each in found.included}
            whole = budget is None and as_of is None
            yield ((budget, as_of), [found, found.markdown()], not whole or ids == viewed, False)
    for department in ("backend", "frontend", "ops"):
        found = me.briefing(department=department, encoding="cl100k_base", mark=False)
        members = [agent.id for agent in AGENTS if agent.department == department]
        due = common(world, me.id, members, LIVE | VIEWED)
        yield (
            department,
            [found, found.markdown()],
            {each.id for each in found.included} == due,
            False,
        )
        yield (department, me.briefing(department=department, as_of=world.middle), True, False)


def common(world, reader, members, states):
    """What a department's view has: each member sees it, and the reader has nothing in its place,
    or for the operator any of them has not.
    """
    seen = ({known.id for known in world.seen_by(name)} for name in members)
    asking = members if reader == "operator" else [reader]
    return set.union(*(world.live(name, states=states) for name in asking)).intersection(*seen)


def walk_later(me, world):
    for department, names in ((None, ()), ("backend", ("eng-a", "eng-b"))):
        found = me.later(world.middle, department)
        live = common(world, me.id, names, LIVE) if names else world.live(me.id)
        due = {id for id in live if world.mem.store.entry(id).at > world.middle}
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
        # in a thread, neighbours are found too
        beside = me.search(f"{known.word} nowhere", limit=100)
        due = known.id in world.live(me.id, states={*LIVE, *MAIL})
        yield ("beside", known), [*beside], bool(beside) == due, False
    for more in SEARCHES:
        hits = me.search("common", **more)
        yield (
            more,
            [*hits],
            {hit.id for hit in hits} <= world.live(me.id, states={*LIVE, *MAIL, "archived"}),
            False,
        )
    for author in {known.state: world.entry(known).author for known in world.known}.values():
        yield author, [*me.search(f"{author} nowhere", limit=100)], True, False
    found = {hit.id for hit in me.search("common", limit=1_000)}
    yield "all", found, found == world.live(me.id), False
    for mode in semantic.MODES:
        found = {hit.id for hit in me.search("common", limit=1_000, mode=mode)}
        due, all_live = world.live(me.id), world.live(me.id, states={*LIVE, *MAIL})
        right = bool(found) and found <= all_live if mode == "meaning" else due <= found <= all_live
        yield mode, found, right, False
    for known in world.known[:: len(world.known) // 20]:
        hits = me.search(known.word, limit=1_000, mode="meaning")
        ids = {hit.id for hit in hits}
        all_live = world.live(me.id, states={*LIVE, *MAIL})
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
    others = {known.id for known in world.seen_by(me.id) if world.entry(known).author != me.id}
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
    due = {known.id for known in (*world.ruled_by(me.id), *world.seen_by(me.id))} & waiting
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
            (found is None) == (world.state(known, me.id) in (*LIVE, *MAIL, "staged")),
            True,
        )
    yield from refusals(me, world, me.fate)


def walk_append(me, world):
    if world.agents[me.id] and world.agents[me.id].write:
        where = "api/endpoints" if me.id != "mute" else "nowhere"
        for way in ("supersedes", "derived_from"):
            yield from acts(lambda me, id, way=way: me.append("text", where, **{way: id}))(
                me, world
            )


def walk_write(me, world):
    if me.id != "operator":
        draft = Draft(
            "text",
            "mail",
            me.id,
            kind="message",
            more=kinds.More(thread=kinds.new_thread(bytes(16))),
        )
        yield from acts(lambda me, id: me.write(draft._replace(replaces=(id,))))(me, world)


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
# What the walks pass; the rest of a reader's parameters are named here, with the reason.
READERS_PASS = {
    "read": {name for asked, _ in (*READS, *UNREAD) for name in asked} | {"archived", "unread"},
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


@pytest.mark.parametrize("reader", [name for name in READERS if name != "operator"])
def test_reads_that_mark_pass_the_gate(fresh, reader):
    me = fresh.mem.as_agent(reader)
    for told in ([*me.read(mark=True)], [view := me.briefing(mark=True), view.markdown()]):
        assert fresh.leaks(reader, repr(told)) == []
    assert me.unread() == 0


@pytest.mark.parametrize("reader", [name for name in READERS if name != "operator"])
def test_what_is_unread_passes_the_gate_page_by_page(fresh, reader):
    me, due = fresh.mem.as_agent(reader), fresh.mem.as_agent(reader).unread()
    while page := me.read(unread=True, budget=400, mark=True):
        assert fresh.leaks(reader, repr([*page, *page.pointers, news.render(page)])) == []
        due -= len(page)
        assert me.unread() == due
        assert next(faults(fresh, me, "unread"), None) is None or due < len(fresh.live(reader))
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
    assert [fault for fault in walk_news(leaky(world, agent), world) if not fault[2]] != []


def test_the_world_has_something_to_see_and_something_not_to(world):
    states = {known.state for known in world.known}
    assert {known.state for known in world.seen_by("operator")} == states
    assert all(world.live(reader) and world.hidden_from(reader) for reader in READERS[:-1])
    assert {known.state for reader in READERS[:-1] for known in world.seen_by(reader)} == states
    assert {known.state for reader in READERS[:-1] for known in world.hidden_from(reader)} == states
