"""Poisoned entries: what was made of them is found and shown to nobody, whichever way it is asked for,
and comes back where that was a mistake.
"""

import random
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse import Mail
from synapse.access import containment as containing
from synapse.errors import Conflict, Forbidden, NotFound
from synapse.history import sentences, timeline
from synapse.index.questions import containment
from synapse.knowledge import provenance, recall
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import Draft, Entry
from synapse.model.entry_fields import FREE
from synapse.model.records import Record
from synapse.testing import FrozenClock
from synapse.tools.functions import read as read_tool
from tests.examples import examples

WORD = "xylophone"


def workspace(where="memory:"):
    moment = FrozenClock()
    mem = (
        synapse.open(where, clock=moment)
        if where == "memory:"
        else synapse.init(where, clock=moment)
    )
    mem.register(Agent("cto", "cto"))
    mem.register(Agent("lead", "project-lead", projects=("shop",), read=("*",), write=("*",)))
    for id in ("eng", "other"):
        mem.register(Agent(id, projects=("shop",), read=("*",), write=("*",)))
    return mem, moment


def made(mem, moment):
    """A poisoned entry and what was made of it: the entry, then one of each way."""
    eng, other = mem.as_agent("eng"), mem.as_agent("other")
    root = eng.append(f"{WORD} root: use http", "api/x", priority="critical", topic="t")
    moment.advance("1s")
    child = other.append(f"{WORD} child", "api/y", derived_from=[root.id])
    lead = mem.as_agent("lead")
    fact = recall.remember(lead, f"{WORD} fact", "global", cites=[child.id])
    filed = other.append(f"{WORD} filed", "api/z", derived_from=[root.id])
    mem.as_agent("lead").archive([filed.id])
    return root, child, fact, filed


def shown(mem, agent, since=0):
    """All that an agent is shown, whichever way it asks, but by the id of an entry."""
    me = mem.as_agent(agent)
    mem.store.refresh()
    with mem.store.snapshot(words=True):
        pass
    yield [*me.read(limit=None)]
    yield [*me.read(limit=None, archived=True)]
    yield [*me.read(limit=None, author="other")]
    yield [*me.read(limit=None, author="other", archived=True)]
    yield [*me.read(limit=None, namespace="api/*", since="9d")]
    for archived in (False, True):
        yield [hit.entry for hit in me.search(WORD, limit=100, archived=archived)]
        yield [hit.entry for hit in me.search(WORD, limit=100, archived=archived, author="other")]
    yield me.briefing(8_000).markdown()
    yield me.briefing(8_000, about=f"look at {WORD}").markdown()
    yield me.briefing(8_000, as_of=mem.store.clock() - 1).markdown()
    yield me.later(0)
    yield [event.entry for event in me.follow(since, timeout=0)]
    yield [event.entry for event in me.follow(since, timeout=0, critical=True)]
    yield recall.search(me, WORD).text
    yield timeline.recent(me, since="9d", limit=None)
    yield timeline.timeline(me, "shop")
    yield timeline.agent_acts(me, "eng")
    yield timeline.agent_acts(me, "other")
    yield read_tool(me, {"since": "9d"}, None)
    yield [me.read(unread=True, limit=None).entries]
    yield me.unread(), [message.entry for message in Mail(me).inbox()]


def revoke(mem, agent, *rest, **named):
    return containing.revoke(mem.as_agent("operator").access, agent, *rest, **named)


def leaks(mem, agent):
    return [place for place, told in enumerate(shown(mem, agent)) if WORD in repr(told)]


def test_what_was_made_of_a_poisoned_entry_is_shown_nowhere(tmp_path):
    mem, moment = workspace(str(tmp_path / "shared-memory"))
    entries = made(mem, moment)
    message = Mail(mem.as_agent("other")).send("cto", f"{WORD} mail", subject=WORD)
    assert len(leaks(mem, "cto")) > 15
    done = containing.taint(mem.as_agent("operator").access, entries[0].id, "it was forged")
    assert set(done.ids) == {entry.id for entry in entries}
    containing.taint(mem.as_agent("operator").access, message.entry.id)
    assert leaks(mem, "cto") == []
    assert leaks(mem, "eng") == []  # its author neither
    for entry in entries:
        got = mem.as_agent("cto").get(entry.id)
        assert WORD not in repr(got)
        assert mem.as_agent("cto").fate(entry.id).reason == "tainted"
        assert WORD not in read_tool(mem.as_agent("cto"), {"id": entry.id}, None)
        assert WORD in mem.as_agent("operator").get(entry.id).body
        assert WORD not in repr(provenance.why(mem.as_agent("cto"), entry.id))
    assert mem.verify().ok
    digest = mem.digest()
    mem.rebuild()
    assert mem.digest() == digest
    assert mem.verify().ok
    mem.close()


def test_no_text_of_a_poisoned_entry_is_given_by_its_id():
    mem, _ = workspace()
    texts = dict.fromkeys(FREE, WORD) | {"when": f"run {WORD}"}
    draft = Draft(WORD, "api/x", "eng", tags=(WORD,), **texts)
    entry = mem.as_agent("eng").write(draft)
    assert repr(mem.as_agent("cto").get(entry.id)).count(WORD) == len(FREE) + 2
    containing.taint(mem.as_agent("operator").access, entry.id, "it was forged")
    assert WORD not in repr(mem.as_agent("cto").get(entry.id))


@pytest.mark.parametrize("way", ["untaint", "undo"])
def test_a_mistake_is_taken_back(way):
    mem, moment = workspace()
    entries = made(mem, moment)
    before = [repr(told) for told in shown(mem, "cto")]
    operator = mem.as_agent("operator")
    done = containing.taint(operator.access, entries[0].id)
    if way == "untaint":
        assert set(containing.untaint(operator.access, entries[0].id)) == {
            entry.id for entry in entries
        }
    else:
        from synapse.consolidate import undo

        undo(mem, str(done.seq))
    after = [repr(told) for told in shown(mem, "cto")]
    same = [one == other for one, other in zip(before, after, strict=True)]
    assert leaks(mem, "cto")
    assert sum(same) >= len(same) - 6  # cursors differ
    digest = mem.digest()
    mem.rebuild()
    assert mem.digest() == digest
    with pytest.raises(Conflict):
        containing.untaint(operator.access, entries[0].id)


def test_one_of_many_is_shown_again_by_itself():
    mem, moment = workspace()
    root, child, fact, _ = made(mem, moment)
    operator = mem.as_agent("operator")
    containing.taint(operator.access, root.id)
    assert containing.untaint(operator.access, child.id) == (child.id,)
    cto = mem.as_agent("cto")
    assert cto.fate(child.id) is None
    assert cto.fate(fact.id).reason == cto.fate(root.id).reason == "tainted"


def test_what_a_poisoned_entry_buried_comes_back():
    mem, _ = workspace()
    eng, cto = mem.as_agent("eng"), mem.as_agent("cto")
    old = eng.append("use https", "api/x", topic="scheme")
    poison = eng.append("use http", "api/x", topic="scheme", supersedes=[old.id])
    rival = mem.as_agent("other").append("use ssh", "api/x", topic="scheme")
    assert cto.fate(old.id).by == poison.id
    containing.taint(mem.as_agent("operator").access, poison.id)
    assert cto.fate(old.id) is None
    assert {entry.id for entry in cto.read()} == {old.id, rival.id}
    containing.untaint(mem.as_agent("operator").access, poison.id)
    assert cto.fate(old.id).by == poison.id
    digest = mem.digest()
    mem.rebuild()
    assert mem.digest() == digest


def test_what_is_superseded_while_it_is_tainted_stays_so():
    mem, _ = workspace()
    eng, cto = mem.as_agent("eng"), mem.as_agent("cto")
    poison = eng.append("use http", "api/x")
    containing.taint(mem.as_agent("operator").access, poison.id)
    eng.append("use https", "api/x", supersedes=[poison.id])
    containing.untaint(mem.as_agent("operator").access, poison.id)
    assert cto.fate(poison.id).reason == "superseded"


def test_what_is_made_of_it_later_is_tainted_at_once():
    mem, _ = workspace()
    eng, cto = mem.as_agent("eng"), mem.as_agent("cto")
    mem.register(Agent("junior", review_required=True, read=("*",), write=("*",)))
    poison = eng.append(f"{WORD}", "api/x", priority="critical")
    done = containing.taint(mem.as_agent("operator").access, poison.id)
    cursor = mem.verify().records
    late = eng.append(f"{WORD} late", "api/x", priority="critical", derived_from=[poison.id])
    waits = mem.as_agent("junior").append(f"{WORD} waits", "api/x", derived_from=[late.id])
    assert cto.fate(late.id).reason == "tainted"
    assert cto.staged() == []
    assert [*cto.follow(cursor, timeout=0)] == []
    with pytest.raises(Conflict):
        cto.approve(waits.id)
    from synapse.consolidate import undo

    undo(mem, str(done.seq))
    assert cto.fate(late.id) is None
    assert [e.id for e in cto.staged()] == [waits.id]
    assert cto.approve(waits.id).trust == "reviewed"


def test_a_follower_that_is_late_is_told_of_nothing_that_was_tainted_since():
    mem, _ = workspace()
    eng, cto = mem.as_agent("eng"), mem.as_agent("cto")
    ids = [eng.append(f"{WORD} {n}", "api/x").id for n in range(3)]
    for _ in range(1_200):
        mem.store.commit.append(Record.new("used", "eng", {"counts": {}}))
    containing.taint(mem.as_agent("operator").access, ids[1])
    assert [event.entry.id for event in cto.follow(0, timeout=0)] == [ids[0], ids[2]]


def test_sources_of_a_merge_come_back_without_it():
    mem, _ = workspace()
    cto = mem.as_agent("cto")
    good = mem.as_agent("eng").append("the same text", "api/x", priority="important")
    bad = mem.as_agent("other").append("the same text", "api/x", priority="important")
    merged = Entry(
        "", CONSOLIDATOR, "", "api/x", "important", "the same text", "30d", ("all",), ("merged",)
    )._replace(derived_from=(good.id, bad.id), authority=60, trust="local")
    record = mem.store.commit.append(Record.new("entry", CONSOLIDATOR, {}, merged))
    filed = {"ids": [good.id, bad.id], "reason": "merged", "heirs": [record.id]}
    mem.store.commit.append(Record.new("archive", CONSOLIDATOR, filed))
    assert [entry.id for entry in cto.read()] == [record.id]
    containing.taint(mem.as_agent("operator").access, bad.id)
    assert [entry.id for entry in cto.read()] == [good.id]
    assert cto.read(archived=True).entries == ()


def test_who_may_not_rule_on_an_entry_may_not_taint_it():
    mem, _ = workspace()
    lead, eng, cto = (mem.as_agent(id) for id in ("lead", "eng", "cto"))
    root = eng.append("text", "api/x")
    above = cto.append("of it", "api/x", derived_from=[root.id])
    unseen = cto.append("of it", "api/x", to="agent:other", derived_from=[root.id])
    for me, id in ((eng, above.id), (eng, root.id), (lead, above.id)):
        with pytest.raises(Forbidden):
            containing.taint(me.access, id)
    with pytest.raises(NotFound):
        containing.taint(lead.access, unseen.id)
    done = containing.taint(lead.access, root.id)
    assert (done.ids, done.left) == ((root.id,), (above.id,))
    assert cto.fate(above.id) is None
    assert unseen.id not in repr(
        sentences.visible_acts(lambda n: mem.store.acts(None, None, 0, n), lead, 0)
    )
    containing.taint(mem.as_agent("operator").access, above.id)
    with pytest.raises(Forbidden):
        containing.untaint(lead.access, above.id)
    assert containing.untaint(lead.access, root.id) == (root.id,)


def test_all_that_an_agent_wrote_since_a_time():
    mem, moment = workspace()
    eng, other = mem.as_agent("eng"), mem.as_agent("other")
    before = eng.append("before", "api/x")
    at = moment.advance("1h")
    since = mem.store.clock()
    bad = eng.append("after", "api/x")
    of_it = other.append("of it", "api/x", derived_from=[bad.id])
    assert revoke(mem, "eng", since, plan=True).ids == (bad.id, of_it.id), at
    assert {e.id for e in other.read()} == {before.id, bad.id, of_it.id}
    assert revoke(mem, "eng", since, "its key was stolen").ids == (bad.id, of_it.id)
    assert {e.id for e in other.read()} == {before.id}
    with pytest.raises(NotFound):
        revoke(mem, "nobody")
    with pytest.raises(Forbidden):
        containing.revoke(mem.as_agent("lead").access, "eng")


# -- what runs had in sight ------------------------------------------------------------------------


class World:
    """A random history of entries, runs and what these were shown; and what follows from it."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.mem, self.moment = workspace()
        self.numbers = count(1)
        self.ids, self.runs = [], []
        self.sources, self.run_of, self.at = {}, {}, {}
        self.sight = []  # run, when, entry
        self.tree = {}  # run: parent, began, ended

    def run(self):
        id = f"r-{next(self.numbers)}"
        parent = self.draw.choice([None, *self.live()])
        fields = {"run": id, "agent": "eng", "project": "shop", "state": "running", "epoch": 1}
        record = self.mem.store.commit.append(Record.new("run", "eng", fields | {"parent": parent}))
        self.tree[id] = [parent, record.at, None]
        self.runs.append(id)

    def live(self):
        return [id for id in self.runs if self.tree[id][2] is None]

    def end(self):
        if live := self.live():
            id = self.draw.choice(live)
            fields = {"run": id, "epoch": 1, "state": "ended", "status": "done"}
            self.tree[id][2] = self.mem.store.commit.append(Record.new("run", "eng", fields)).at

    def show(self):
        if self.runs and self.ids:
            run, id = self.draw.choice(self.runs), self.draw.choice(self.ids)
            kind = self.draw.choice(("shown", "delivery"))
            fields = {"run": run, "agent": "eng", "epoch": 1, "ids": [id], "cursor": 1}
            fields |= {"state": "rendered"} if kind == "delivery" else {}
            record = self.mem.store.commit.append(Record.new(kind, "eng", fields))
            self.sight.append((run, record.at, id))

    def write(self):
        olds = self.draw.sample(self.ids, min(len(self.ids), self.draw.choice((0, 0, 1, 2))))
        run = self.draw.choice([None, *self.live()])
        entry = Entry(
            "", "eng", "", "api/x", "info", f"{WORD} {next(self.numbers)}", "30d", ("all",)
        )
        replaced = tuple(
            self.draw.sample(self.ids, min(len(self.ids), self.draw.choice((0, 0, 1))))
        )
        entry = entry._replace(
            derived_from=tuple(olds), replaces=replaced, authority=60, trust="local"
        )
        fields = {"run": run} if run else {}
        saw = self.draw.sample(self.ids, min(len(self.ids), 1)) if run else []
        record = self.mem.store.commit.append(
            Record.new("entry", "eng", fields | ({"saw": saw} if saw else {}), entry)
        )
        self.ids.append(record.id)
        self.sources[record.id] = olds
        self.run_of[record.id] = run
        self.at[record.id] = record.at
        self.sight += [(run, record.at, id) for id in saw]

    def cycle(self):
        """Two entries that name each other, as files may that people write by hand."""
        names = [f"syn-2001-01-01-{next(self.numbers):03d}" for _ in range(2)]
        for id, other in (names, names[::-1]):
            olds = [other, *self.draw.sample(self.ids, min(len(self.ids), 1))]
            entry = Entry(id, "eng", "", "api/x", "info", f"{WORD} cycle", "30d", ("all",))
            entry = entry._replace(
                derived_from=tuple(olds), replaces=(other,), authority=60, trust="local"
            )
            record = self.mem.store.commit.append(Record.new("entry", "eng", {}, entry))
            self.ids.append(record.id)
            self.sources[record.id] = olds
            self.run_of[record.id] = None
            self.at[record.id] = record.at

    def play(self, steps):
        acts = (self.write, self.write, self.write, self.show, self.run, self.end, self.cycle)
        for _ in range(steps):
            self.moment.advance("1s")
            self.draw.choice(acts)()
        return self

    def expected(self, root):
        """What was made of an entry, and what may be affected, by going round until nothing
        changes: slow, and plain."""
        made = {root}
        while more := {id for id, olds in self.sources.items() if made & {*olds}} - made:
            made |= more
        had, since = made.copy(), {}
        before = None
        while before != (known := (len(had), sorted(since.items()))):
            before = known
            for run, at, id in self.sight:
                if id in had:
                    since[run] = min(since.get(run, at), at)
            self.hand_on(since)
            for id, olds in self.sources.items():
                run = self.run_of[id]
                if had & {*olds} or (run in since and self.at[id] >= since[run]):
                    had.add(id)
        return made, had - made, set(since)

    def hand_on(self, since):
        """A run gives what it had in sight to those that it begins, and to the one that began it."""
        for run, (parent, began, ended) in self.tree.items():
            if parent in since and began >= since[parent]:
                since[run] = min(since.get(run, began), began)
            if run in since and parent and ended is not None and ended >= since[run]:
                since[parent] = min(since.get(parent, ended), ended)


@given(st.integers(0, 10_000))
@examples(200)
def test_nothing_that_was_made_of_an_entry_is_missed(seed):
    check(seed)


def test_entries_that_name_what_comes_later_are_tainted_with_it():
    check(4)  # its second cycle is made of the tainted entry; the first of the two comes before


def test_a_long_chain_that_was_named_before_it_came_is_tainted_whole():
    world = World(1)
    world.write()
    root, store = world.ids[0], world.mem.store
    containing.taint(world.mem.as_agent("operator").access, root)
    names = [f"syn-2001-01-01-{number:04d}" for number in range(1, 1_301)]
    for id, source in zip(names, [*names[1:], root], strict=True):
        entry = Entry(id, "eng", "", "api/x", "info", f"{WORD} chain", "30d", ("all",))
        entry = entry._replace(derived_from=(source,), authority=60, trust="local")
        store.commit.append(Record.new("entry", "eng", {}, entry))
    assert not {entry.id for entry in world.mem.as_agent("cto").read(limit=None)} & {*names}


def check(seed):
    world = World(seed)
    world.play(30)
    if not world.ids:
        return
    root = world.draw.choice(world.ids)
    made, may, runs = world.expected(root)
    with world.mem.store.snapshot() as snap:
        found = containment.reach(snap, [root])
    assert (set(found.made), set(found.may), set(found.runs)) == (made, may, runs)
    containing.taint(world.mem.as_agent("operator").access, root)
    live = {entry.id for entry in world.mem.as_agent("cto").read(limit=None)}
    assert not live & made
    world.play(10)  # and what is made of it from now on
    made, _, _ = world.expected(root)
    live = {entry.id for entry in world.mem.as_agent("cto").read(limit=None)}
    assert not live & made
    digest = world.mem.digest()
    world.mem.rebuild()
    assert world.mem.digest() == digest


def test_a_search_that_forgets_runs_is_found(monkeypatch):
    monkeypatch.setattr(containment._Lineage, "_exposed_to", lambda self, ids: [])
    missed = []
    for seed in range(20):
        try:
            check(seed)
        except AssertionError:
            missed.append(seed)
    assert missed
