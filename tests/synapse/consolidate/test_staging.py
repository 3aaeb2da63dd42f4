"""What is proposed waits: nothing changes until somebody above the sources approves, and that can
be taken back.
"""

import pytest

from synapse.consolidate import run_nightly, undo
from synapse.consolidate.proposal import Proposal, judge
from synapse.consolidate.staging import stage, waiting, withdraw
from synapse.errors import Conflict, Forbidden, NotFound, QueueFull
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import SECOND

NIGHT = "2026-02-03T09:00:00"
TEXT = "The build takes 5 min. It runs on web-1."


def proposed(mem, *, to="all", author="a", ttls=("2d", "9d")):
    """Two entries of which one text is to be made, and the proposal."""
    texts = ("The build takes 5 min.", "The build takes 5 minutes. It runs on web-1.")
    sources = [
        mem.as_agent(who).append(text, "api/x", to=to, ttl=ttl)
        for who, text, ttl in zip((author, "b"), texts, ttls, strict=True)
    ]
    verdict = judge(
        Proposal("merge", tuple(e.id for e in sources), TEXT),
        {e.id: e for e in sources},
        mem.store.clock(),
    )
    assert verdict.new_entry, verdict.reason
    return sources, verdict


def live(mem):
    found = mem.as_agent("operator").read(limit=None)
    return {entry.id for entry in found if entry.namespace != "system/changelog"}


def filed(mem):
    return {entry.id for entry in mem.as_agent("operator").read(limit=None, archived=True)}


def test_approved_it_takes_the_place_of_its_sources(world):
    mem, clock = world
    sources, verdict = proposed(mem)
    staged = stage(mem, verdict, NIGHT)
    ids = {entry.id for entry in sources}
    assert (live(mem), waiting(mem.store)) == (ids, ids)
    assert [entry.id for entry in mem.as_agent("lead").staged()] == [staged.id]
    clock.advance("3h")
    before = mem.digest()
    made = mem.as_agent("lead").approve(staged.id)
    assert (live(mem), filed(mem), waiting(mem.store)) == ({made.id}, ids, frozenset())
    assert (made.body, made.author, made.derived_from) == (
        TEXT,
        CONSOLIDATOR,
        tuple(e.id for e in sources),
    )
    assert (made.trust, made.authority, made.priority, made.scope) == (
        "local",
        60,
        "info",
        "public",
    )
    assert 0 <= made.expires - sources[1].expires < SECOND
    done = undo(mem, "last")
    assert (live(mem), filed(mem)) == (ids, {made.id})
    assert set(done.back) == ids
    undo(mem, "last")
    assert (live(mem), filed(mem)) == ({made.id}, ids)
    assert mem.digest() != before
    assert undo(mem, "2026-02-03").away == (made.id,)
    assert stage(mem, verdict, NIGHT) is None
    if mem.store.root:
        assert mem.verify().ok
    digest = mem.digest()
    mem.rebuild()
    assert mem.digest() == digest


def test_rejected_it_leaves_everything_and_does_not_come_again(world):
    mem, _ = world
    sources, verdict = proposed(mem)
    staged = stage(mem, verdict, NIGHT)
    mem.as_agent("cto").reject(staged.id, "no")
    assert (live(mem), filed(mem), waiting(mem.store)) == (
        {e.id for e in sources},
        set(),
        frozenset(),
    )
    assert stage(mem, verdict, NIGHT) is None
    with pytest.raises(Conflict, match="a rejected entry stays rejected"):
        undo(mem, "last")


def test_who_may_approve_stands_above_the_sources_and_may_see_them(world):
    mem, _ = world
    _, verdict = proposed(mem, author="cto", to="agent:lead")
    staged = stage(mem, verdict, NIGHT)
    assert mem.as_agent("operator").staged() == [staged]
    for id in ("deaf", "a", "b"):
        assert mem.as_agent(id).staged() == []
        with pytest.raises(NotFound):
            mem.as_agent(id).approve(staged.id)
        with pytest.raises(NotFound):
            mem.as_agent(id).get(staged.id)
    assert [entry.id for entry in mem.as_agent("lead").staged()] == [staged.id]
    with pytest.raises(Forbidden, match="file away"):
        mem.as_agent("lead").approve(staged.id)
    assert mem.as_agent("operator").get(staged.id).staged


@pytest.mark.parametrize("how", ["superseded", "resolved", "archived", "expired"])
def test_sources_that_changed_are_not_brought_back_by_an_approval(world, how):
    mem, clock = world
    sources, verdict = proposed(mem)
    staged = stage(mem, verdict, NIGHT)
    b = mem.as_agent("b")
    change = {
        "superseded": lambda: b.append("The build takes 7 min.", "api/x", supersedes=sources[1].id),
        "resolved": lambda: b.resolve(sources[1].id),
        "archived": lambda: b.archive(sources[1].id),
        "expired": lambda: clock.advance("3d"),
    }
    change[how]()
    before = live(mem)
    with pytest.raises(Conflict, match=f"is {how} since; reject it"):
        mem.as_agent("lead").approve(staged.id)
    ((id, reason),) = withdraw(mem)
    assert (id, live(mem), waiting(mem.store)) == (staged.id, before, frozenset())
    assert how in reason
    assert withdraw(mem) == []


def test_what_died_between_approval_and_filing_is_finished_by_the_next_night(world):
    mem, clock = world
    sources, verdict = proposed(mem)
    staged = stage(mem, verdict, NIGHT)
    run_nightly(mem, "2026-02-01", clock())
    mem.store.commit.act("approve", "lead", entry=staged.id, trust="local", ttl="9d")
    clock.advance("1d")
    (done,) = run_nightly(mem, "2026-02-02", clock()).acts
    assert (done.act.kind, filed(mem)) == ("archive", {e.id for e in sources})
    assert staged.id in live(mem)


def test_a_full_queue_takes_no_proposal(world):
    mem, _ = world
    mem.register(Agent("junior", write=("*",), review_required=True))
    _, verdict = proposed(mem)
    for number in range(mem.store.settings.staging_limit):
        mem.as_agent("junior").append(f"text {number}", "api/x")
    with pytest.raises(QueueFull):
        stage(mem, verdict, NIGHT)
    assert waiting(mem.store) == frozenset()


def test_a_rejected_proposal_is_not_staged(world):
    mem, clock = world
    sources, _ = proposed(mem)
    wrong = judge(
        Proposal("merge", tuple(e.id for e in sources), "All is well."),
        {e.id: e for e in sources},
        clock(),
    )
    with pytest.raises(Conflict, match="rejected"):
        stage(mem, wrong, NIGHT)
    assert live(mem) == {e.id for e in sources}
