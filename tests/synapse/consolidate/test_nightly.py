"""Nights: what they file away and why, who may run one, and that everything can be taken back."""

import pytest

import synapse
from synapse.authority import wakes
from synapse.consolidate import (
    Plan,
    State,
    apply,
    claim,
    finish,
    gather,
    plan,
    reach,
    run,
    run_nightly,
    undo,
)
from synapse.consolidate import state as states
from synapse.consolidate.apply import admit_new_entry
from synapse.consolidate.nightly import LEASE
from synapse.consolidate.state import plan_states
from synapse.errors import Conflict, InvalidQuery, NotFound
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import SECOND
from synapse.model.records import Record
from synapse.model.settings import Settings
from synapse.notify import route

TODAY = "2026-02-03"


def todo(mem, now):
    return plan(gather(mem.store, now), now, mem.store.settings)


def live(mem):
    """What is shown, but for what nights say of themselves."""
    found = mem.as_agent("operator").read(limit=None)
    return {entry.id: entry for entry in found if entry.namespace != "system/changelog"}


def filed(mem):
    return {entry.id for entry in mem.as_agent("operator").read(limit=None, archived=True)}


def test_nothing_to_do_is_an_empty_plan():
    assert plan(State(), 0, Settings()) == Plan((), 0, 0)


def test_superseded_chains_are_filed_away(world):
    mem, clock = world
    me = mem.as_agent("a")
    chain = [me.append("port 1", "api")]
    for n in (2, 3):
        chain.append(me.append(f"port {n}", "api", supersedes=chain[-1].id))
    (act,) = todo(mem, clock()).acts
    assert (act.phase, act.kind, act.reason) == ("merge", "archive", "superseded")
    assert (act.ids, act.successors) == ((chain[0].id, chain[1].id), (chain[1].id, chain[2].id))
    assert run_nightly(mem, TODAY, clock()).ran
    assert (set(live(mem)), filed(mem)) == ({chain[2].id}, {chain[0].id, chain[1].id})
    assert mem.as_agent("a").search("port", archived=True)[0].id in filed(mem)


def test_conflicts_go_by_authority_and_ties_stay(world):
    mem, clock = world
    loser = mem.as_agent("a").append("use REST", "decisions/x", topic="style", ttl="10d")
    winner = mem.as_agent("cto").append("use gRPC", "decisions/x", topic="style", ttl="30d")
    one = mem.as_agent("a").append("tabs", "decisions/x", topic="indent")
    other = mem.as_agent("b").append("spaces", "decisions/x", topic="indent")
    passing = mem.as_agent("a").append("9 am", "decisions/x", topic="hour", ttl="30d")
    mem.as_agent("cto").append("10 am", "decisions/x", topic="hour", ttl="1d")
    run_nightly(mem, TODAY, clock())
    assert filed(mem) == {loser.id}
    assert live(mem)[one.id].disputed == (other.id,)
    assert live(mem)[other.id].disputed == (one.id,)
    clock.advance("2d")
    # an outranked one comes back when the winner's time is up
    assert {winner.id, passing.id} <= set(live(mem))


def test_near_duplicates_become_one_that_counts_for_the_least(world):
    mem, clock = world
    one = mem.as_agent("cto").append(
        "The build takes 5 min", "api", ttl="2d", tags="ci", to="agent:b"
    )
    two = mem.as_agent("a").append(
        "the build takes 5 min.", "api", ttl="3d", tags="slow", to="agent:b"
    )
    other = mem.as_agent("a").append("the build takes 5 h.", "api", ttl="3d", to="agent:b")
    clock.advance("1h")
    (done,) = run_nightly(mem, TODAY, clock()).acts
    found = mem.as_agent("operator").get(done.id)
    assert (found.author, found.derived_from, found.authority) == (
        "consolidator",
        (one.id, two.id),
        60,
    )
    assert (found.body, found.namespace, found.addressees) == (two.body, "api", ("agent:b",))
    assert (found.priority, found.scope, found.trust) == ("info", "public", "local")
    assert 0 <= found.expires - two.expires < 2 * SECOND
    assert found.tags == ("merged", "ci", "slow")
    assert (set(live(mem)), filed(mem)) == ({found.id, other.id}, {one.id, two.id})
    third = mem.as_agent("b").append("The build takes 5 min!", "api", ttl="9d", to="agent:b")
    (again,) = run_nightly(mem, "2026-02-04", clock()).acts
    assert mem.as_agent("operator").get(again.id).derived_from == (found.id, third.id)


def test_any_number_of_equals_become_one_in_one_night(world):
    mem, clock = world
    sources = [
        mem.as_agent("a").append("The build takes 5 min", "api", tags=f"run-{n}")
        for n in range(700)
    ]
    done = run_nightly(mem, TODAY, clock()).acts
    (last,) = live(mem).values()
    assert (last.body, last.author) == ("The build takes 5 min", "consolidator")
    made = {each.id: mem.as_agent("operator").get(each.id) for each in done}
    named = [id for entry in made.values() for id in entry.derived_from]
    assert sorted(named) == sorted({*(entry.id for entry in sources), *made} - {last.id}), (
        "each is in one other"
    )
    assert mem.verify().ok
    assert not run_nightly(mem, "2026-02-04", clock()).acts
    undo(mem, TODAY)
    assert {*live(mem)} == {entry.id for entry in sources}


def test_a_night_holds_some_entries_at_once_and_comes_to_the_same_end(world, monkeypatch):
    mem, clock = world
    for n in range(48):
        mem.as_agent("ab"[n % 2]).append(
            f"The build takes {n % 8} min", "api" if n % 16 < 8 else "status/x"
        )
    now = clock()
    whole = list(plan_states(mem.store, now))
    monkeypatch.setattr(states, "AT_ONCE", 6)
    some = list(plan_states(mem.store, now))
    assert [len(each.live) for each in some] == [2] * 8
    assert [group for each in some for group in each.live] == list(whole[0].live)
    assert [each.superseded or each.lapsed or each.unfinished_merges for each in some[1:]] == [
        ()
    ] * 7, "said once"
    planned = {act.ids for act in todo(mem, now).acts}
    assert len(planned) == 16
    assert {each.act.ids for each in run_nightly(mem, TODAY, now).acts} == planned
    assert len(live(mem)) == 16
    assert not run_nightly(mem, "2026-02-04", now).acts


def test_what_came_beside_a_merge_that_was_begun_is_merged_in_the_same_night(world):
    """Its leader died before it filed the sources away, and somebody said the same again."""
    mem, clock = world
    one, two = (mem.as_agent(name).append("The build takes 5 min", "api") for name in "ab")
    (act,) = todo(mem, clock()).acts
    record = mem.store.commit.append(
        Record.new(
            "entry", CONSOLIDATOR, {"night": TODAY}, admit_new_entry(mem.store, act.new_entry)
        )
    )
    third = mem.as_agent("a").append("The build takes 5 min", "api")
    run_nightly(mem, TODAY, clock())
    assert filed(mem) == {one.id, two.id, record.id, third.id}
    (last,) = live(mem).values()
    assert last.derived_from == (record.id, third.id)
    assert not run_nightly(mem, "2026-02-04", clock()).acts


def test_no_head_of_an_entry_is_too_large_for_the_night(world):
    """One may fill its head with tags, references or names; the night goes on with what it has room
    for.
    """
    mem, clock = world
    for n in range(300):
        mem.register(
            Agent(f"chief-{n:03}-{'x' * 40}", role="project-lead", read=("*",), write=("*",))
        )
    many = tuple(f"тег-{n}-{'ы' * 20}" for n in range(140))
    blocker = mem.as_agent("a").append(
        "prod is down", "blockers/x", priority="critical", ttl="1d", tags=many
    )
    alike = [
        mem.as_agent("a").append("The build takes 5 min", "api", tags=many, to="agent:b")
        for _ in range(3)
    ]
    related = tuple(entry.id for entry in alike) * 80
    alike.append(
        mem.as_agent("b").append("The build takes 5 min.", "api", related=related, to="agent:b")
    )
    clock.advance("2d")
    done = run_nightly(mem, TODAY, clock())
    assert {each.act.kind for each in done.acts} == {"merge", "escalate"}
    assert filed(mem) == {blocker.id, *(entry.id for entry in alike)}
    merged, escalated = (mem.as_agent("operator").get(each.id) for each in done.acts)
    assert merged.tags[0] == "merged"
    assert {*merged.tags} < {"merged", *many}
    assert merged.derived_from == tuple(entry.id for entry in alike)
    assert (escalated.tags[0], escalated.derived_from) == ("escalated", (blocker.id,))
    assert len(escalated.addressees) > 20
    assert all(to.startswith("agent:chief-") for to in escalated.addressees)
    assert mem.verify().ok


def test_a_merge_wakes_nobody_again(world):
    mem, clock = world
    sleeper = mem.register(Agent("sleeper", read=("*",), notify=("critical", "important")))
    sources = [
        mem.as_agent(id).append("The build takes 5 min", "api", priority="important")
        for id in ("a", "b")
    ]
    assert all(wakes(entry, sleeper) for entry in sources)
    (done,) = run_nightly(mem, TODAY, clock()).acts
    made = mem.as_agent("operator").get(done.id)
    assert made.priority == "important"
    assert not wakes(made, sleeper)
    assert [to.tier for to in route(made, mem.agents())] == ["next"] * 5
    assert not wakes(made._replace(tags=(), trust="unverified"), sleeper)
    # a tag that anybody can write keeps nobody asleep
    assert wakes(made._replace(author="a"), sleeper)


def test_what_is_past_its_time_is_filed_by_month_and_whole(world):
    mem, clock = world
    entry = mem.as_agent("a").append("short\n<!-- synapse:entry id=x -->", "status/x", ttl="1h")
    stays = mem.as_agent("a").append("long", "status/x", ttl="30d")
    clock.advance("2h")
    run_nightly(mem, TODAY, clock())
    assert (set(live(mem)), filed(mem)) == ({stays.id}, {entry.id})
    assert mem.as_agent("a").get(entry.id)._replace(archived=False) == entry
    assert mem.verify().ok
    assert [act.fields["reason"] for act in mem.audit(entry=entry.id) if act.kind == "archive"] == [
        "past its time"
    ]


def test_an_unresolved_critical_blocker_climbs_to_the_operator(world):
    mem, clock = world
    me = mem.as_agent("a")
    me.resolve(me.append("solved", "blockers/x", priority="critical").id)
    blocker = me.append("prod is down", "blockers/x", priority="critical")
    told = []
    for number in range(5):
        clock.advance("8d")
        done = run_nightly(mem, f"2026-03-0{number + 1}", clock())
        told.append([mem.as_agent("operator").get(each.id) for each in done.acts if each.id])
    assert [[entry.to for entry in found] for found in told] == [
        ["agent:lead"], ["agent:cto"], ["agent:operator"], [], []
    ]  # fmt: skip
    first = told[0][0]
    assert "prod is down" in first.body
    assert blocker.id in first.body
    assert (first.priority, first.derived_from, first.authority) == (
        "critical",
        (blocker.id,),
        blocker.authority,
    )
    assert live(mem) == {}


def test_a_blocker_is_not_passed_on_to_who_may_not_see_it(world):
    mem, clock = world
    mem.as_agent("a").append("the key leaked", "blockers/x", priority="critical", to="agent:b")
    clock.advance("8d")
    (done,) = run_nightly(mem, TODAY, clock()).acts
    assert mem.as_agent("operator").get(done.id).to == "agent:operator"
    assert [entry.id for entry in mem.questions()] == [done.id]


def test_a_second_night_changes_nothing(world):
    mem, clock = world
    busy(mem, clock)
    run_nightly(mem, TODAY, clock())
    before = mem.digest()
    assert todo(mem, clock()).acts == ()
    assert not run_nightly(mem, TODAY, clock()).ran
    assert mem.digest() == before
    assert run_nightly(mem, "2026-02-04", clock()).acts == ()


def busy(mem, clock):
    """Something of everything."""
    me = mem.as_agent("a")
    for text in ("same", "Same things said", "same things said.", "same things said"):
        me.append(text, "api")
    me.append("new", "api", supersedes=me.append("old", "api").id)
    me.append("short", "status/x", ttl="1h")
    me.append("blocked", "blockers/x", priority="critical", ttl="1h")
    clock.advance("2h")


def places(mem):
    """Where every entry of an agent's own stands, with all that it says; and what else is to be
    seen.
    """
    mem.store.refresh()
    entries = mem.store.index.current.all(mem.store.clock())
    own = {entry.id: entry for entry in entries if entry.author != "consolidator"}
    return own, {id: entry.body for id, entry in live(mem).items()}


def test_a_night_can_be_taken_back_and_that_too(world):
    mem, clock = world
    busy(mem, clock)
    before = places(mem)
    run_nightly(mem, TODAY, clock())
    after = places(mem)
    assert after != before
    for what, state in ((TODAY, before), ("last", after), ("last", before), ("last", after)):
        undo(mem, what)
        assert places(mem) == state
        assert mem.verify().ok
    with pytest.raises(NotFound):
        undo(mem, "2001-01-01")
    undo(mem, TODAY)
    with pytest.raises(Conflict):
        undo(mem, TODAY)
    assert todo(mem, clock()).acts == ()  # what was taken back is not done again


def test_one_act_can_be_taken_back_by_either_of_its_numbers(world):
    mem, clock = world
    busy(mem, clock)
    done = run_nightly(mem, TODAY, clock()).acts
    (merge,) = [each for each in done if each.act.kind == "merge"]
    for seq in merge.seqs:
        taken = undo(mem, str(seq))
        assert (set(taken.back), set(taken.away)) == (set(merge.act.ids), {merge.id})
        undo(mem, "last")
    with pytest.raises(NotFound):
        undo(mem, "99999")


def test_what_was_restored_by_hand_stays(world):
    mem, clock = world
    me = mem.as_agent("a")
    old = me.append("old", "api")
    me.append("new", "api", supersedes=old.id)
    run_nightly(mem, TODAY, clock())
    me.restore(old.id)
    assert todo(mem, clock()).acts == ()


def test_one_of_many_gets_the_night(world):
    mem, clock = world
    now = clock()
    first = claim(mem, "night", TODAY, now)
    assert first.epoch == 1
    assert claim(mem, "night", TODAY, now) is None
    assert claim(mem, "night", TODAY, now, again=True) is None
    assert claim(mem, "backup", TODAY, now)
    assert claim(mem, "night", "2026-02-04", now)
    finish(mem, first)
    assert claim(mem, "night", TODAY, now + 2 * LEASE) is None
    with pytest.raises(InvalidQuery):
        claim(mem, "night", "tomorrow", now)


def test_a_dead_leader_s_night_is_taken_over_where_it_was(world):
    mem, clock = world
    busy(mem, clock)
    dead = reach(mem, claim(mem, "night", TODAY, clock()), "archive", clock())
    assert not run_nightly(mem, TODAY, clock() + LEASE - SECOND).ran
    phases = []
    assert run_nightly(mem, TODAY, clock() + LEASE, phases.append).ran
    assert phases == ["archive", "enforce", "changelog", "metrics"]
    with pytest.raises(Conflict):
        reach(mem, dead, "archive", clock())
    with pytest.raises(Conflict):
        apply(mem, todo(mem, clock()), TODAY, dead.fence)


def test_a_run_by_hand_does_not_stand_for_the_night(world):
    mem, clock = world
    for left in (True, False):
        by_hand = claim(mem, "night", TODAY, clock(), again=True)
        assert (by_hand.done, claim(mem, "night", TODAY, clock())) == (not left, None)
        assert run(mem, by_hand, clock()).date == f"{TODAY}T09:00:00"
        assert run_nightly(mem, TODAY, clock()).ran == left


def test_a_plan_can_be_applied_by_itself_and_twice(world):
    mem, clock = world
    busy(mem, clock)
    made = todo(mem, clock())
    apply(mem, made)
    after = places(mem)
    before = mem.digest()
    apply(mem, made)
    assert (places(mem), mem.digest()) == (after, before)


def test_a_spawned_run_consolidates_nothing(world, monkeypatch):
    mem, clock = world
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "a")
    for act in (
        lambda: run_nightly(mem, TODAY, clock()),
        lambda: undo(mem, "last"),
        lambda: apply(mem, Plan((), 0, 0)),
    ):
        with pytest.raises(synapse.errors.Forbidden):
            act()
