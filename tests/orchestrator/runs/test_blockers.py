"""The blocker entries of runs: written once for each question, and looked up later."""

import pytest

from orchestrator import Task
from orchestrator.runs.records import name
from orchestrator.runs.task import Outcome

NEEDS = {"engine": "scripted", "model": None}


class Blocked:
    """Runs of a project, begun and ended by hand."""

    def __init__(self, here):
        self.here, self.store = here, here.supervisor.run_store
        self.blockers, self.runs = self.store.blockers, self.store.runs

    def begin(self, agent="eng-a", parent=None, project="web", **more):
        id = name(agent, len(self.runs.all()))
        task = Task("Work", agent, project)
        who = self.store.agent(agent)
        fields = NEEDS | more
        return self.runs.begin(id, task, who, "nobody", parent, None, **fields)

    def report(self, run, question, number=1):
        return self.blockers.report(run, Outcome("blocked", "", question), number)

    def entry(self, id):
        return self.here.mem.as_agent("boss").get(id)

    def blocks(self, body, by="eng-a", namespace="blockers/web", **more):
        more = {"priority": "critical"} | more
        return self.here.mem.as_agent(by).append(body, namespace, **more).id


@pytest.fixture
def blocked(world):
    return Blocked(world(lambda seen: "Done."))


# -- reporting -------------------------------------------------------------------------------------


def test_a_question_is_written_as_a_critical_entry(blocked):
    entry = blocked.entry(blocked.report(blocked.begin(), "Which key?"))
    assert (entry.body, entry.author, entry.priority, entry.namespace) == (
        "Blocked: Which key?",
        "eng-a",
        "critical",
        "blockers/web",
    )


@pytest.mark.parametrize(
    ("earlier", "same"),
    [
        ("no key", True),
        ("key no key", True),  # three of four words and pairs in common: exactly 0.75
        ("key key no key", False),
        ("no access", False),
    ],
)
def test_who_asks_what_another_asked_shares_its_entry(blocked, earlier, same):
    first = blocked.report(blocked.begin("eng-b"), earlier)
    second = blocked.report(blocked.begin(), "no key")
    assert (second == first) is same
    assert blocked.entry(second).author == ("eng-b" if same else "eng-a")


@pytest.mark.parametrize("other", [{"namespace": "blockers/bank"}, {"priority": "important"}])
def test_only_a_critical_entry_of_its_project_is_shared(blocked, other):
    elsewhere = blocked.blocks("Blocked: no key", by="eng-b", **other)
    assert blocked.report(blocked.begin(), "no key") != elsewhere


def test_a_run_that_is_blocked_again_by_the_same_reports_it_again(blocked):
    run = blocked.begin()
    first = blocked.report(run, "no key", 1)
    blocked.here.mem.as_agent("eng-a").resolve(first, "here it is")
    assert blocked.report(run, "no key", 1) == first  # an incarnation that repeats it
    second = blocked.report(run, "no key", 2)
    assert second != first
    assert blocked.blockers.stands(second)


# -- what stands -----------------------------------------------------------------------------------


def test_an_entry_stands_until_it_is_resolved_or_replaced(blocked):
    ids = [blocked.blocks(f"Blocked: part {n} has no key") for n in range(3)]
    agent = blocked.here.mem.as_agent("eng-a")
    agent.resolve(ids[0], "here it is")
    agent.append("It has a key", "blockers/web", supersedes=ids[1])
    stands = blocked.blockers.stands
    assert [stands(id) for id in ids] == [False, False, True]
    assert not stands("syn-2026-01-01-999")


def test_a_run_that_is_done_resolves_what_it_reported_itself(blocked):
    run = blocked.begin()
    own, others = blocked.blocks("no key"), blocked.blocks("no page", by="eng-b")
    earlier = blocked.blocks("no text")
    blocked.here.mem.as_agent("boss").resolve(earlier, "there it is")
    blocked.blockers.settle(run, [earlier, others, own])
    stands = blocked.blockers.stands
    assert (stands(own), stands(others)) == (False, True)
    resolved = [
        (record.fields["entry"], record.fields["note"])
        for record in blocked.store.store.log.since(0)
        if record.kind == "resolve"
    ]
    assert resolved == [(earlier, "there it is"), (own, "its run was answered, and is done")]


def test_what_keeps_a_run_is_the_entry_that_it_wrote_itself(blocked):
    run, standing = blocked.begin(), blocked.blockers.standing
    noise = blocked.blocks("no page")
    own = blocked.blocks("no key")
    assert standing(run, [own], takes_tools=True) == own
    assert standing(run, [own], takes_tools=False) == own
    assert standing(run, [], takes_tools=True) is None
    assert standing(run, ["syn-2026-01-01-999"], takes_tools=True) is None
    blocked.here.mem.as_agent("eng-a").resolve(own, "here it is")
    assert standing(run, [own], takes_tools=True) is None
    assert standing(run, [own], takes_tools=False) is None
    assert blocked.blockers.stands(noise)


@pytest.mark.parametrize(
    "other", [{"by": "eng-b"}, {"namespace": "blockers/bank"}, {"priority": "important"}]
)
def test_others_entries_keep_no_run(blocked, other):
    run = blocked.begin()
    blocked.blocks("no key", **other)
    assert blocked.blockers.standing(run, [], takes_tools=False) is None


@pytest.mark.parametrize(("seconds", "keeps"), [(-1, False), (0, True), (1, True)])
def test_a_client_is_kept_by_what_it_wrote_since_it_began(blocked, seconds, keeps):
    begun = blocked.begin()
    entry = blocked.entry(blocked.blocks("no key"))
    run = begun._replace(at=entry.at - seconds * 1_000_000)
    found = blocked.blockers.standing(run, [], takes_tools=False)
    assert found == (entry.id if keeps else None)


# -- children --------------------------------------------------------------------------------------


def test_a_parent_hears_of_children_whose_blockers_stand(blocked):
    parent = blocked.begin("lead")
    stands, resolved = blocked.blocks("no key"), blocked.blocks("no page")
    blocked.here.mem.as_agent("eng-a").resolve(resolved, "here it is")
    children = {entry: blocked.begin(parent=parent) for entry in (stands, resolved, None)}
    for entry, child in children.items():
        blocked.runs.end(child, "blocked", entry=entry)
    blocked.runs.end(blocked.begin(parent=parent), "failed", entry=stands)
    blocked.runs.end(blocked.begin(), "blocked", entry=stands)  # nobody's child
    blocked.begin(parent=parent)  # still at work
    below = blocked.blockers.below(parent)
    assert sorted(below) == sorted((children[entry].id, entry) for entry in (stands, None))


def test_work_that_another_child_has_done_blocks_no_parent(blocked):
    parent = blocked.begin("lead")
    stands = blocked.blocks("no key")
    for intent, status in (("draw", "done"), ("draw", "blocked"), ("write", "blocked")):
        child = blocked.begin(parent=parent, intent=intent)
        blocked.runs.end(child, status, entry=stands if status == "blocked" else None)
        last = child.id
    assert blocked.blockers.below(parent) == [(last, stands)]


def test_a_child_without_an_intent_is_not_done_by_another_without_one(blocked):
    parent, stands = blocked.begin("lead"), blocked.blocks("no key")
    blocked.runs.end(blocked.begin(parent=parent), "done")
    child = blocked.begin(parent=parent)
    blocked.runs.end(child, "blocked", entry=stands)
    assert blocked.blockers.below(parent) == [(child.id, stands)]
