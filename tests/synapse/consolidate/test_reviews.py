"""Standings in a memory: what counts is found in the records, a review moves authority, and can be
taken back.
"""

import json

import pytest

import synapse
from synapse import cli
from synapse.authority import authority_in
from synapse.consolidate import accounts, run_nightly, undo
from synapse.errors import Forbidden, InvalidEntry, NotFound
from synapse.formats.declared import parse_settings, render_settings
from synapse.model.agents import Agent, Skill
from synapse.testing import FrozenClock


@pytest.fixture(params=["on", "report"])
def world(request, tmp_path):
    clock = FrozenClock()
    synapse.init(str(tmp_path / "shared"), clock=clock).close()
    with open(tmp_path / "shared/synapse.yaml", "a") as file:
        file.write(f"reputation: {request.param}\n")
    with synapse.open(str(tmp_path / "shared"), clock=clock) as mem:
        for id in ("a", "b", "c"):
            mem.register(Agent(id, read=("*",), write=("*",)))
        mem.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        mem.on = request.param == "on"
        yield mem, clock


def shown(mem, to, *entries):
    mem.as_agent(to).writer.act(
        "shown", cursor=1, how="spawn", run="r", epoch=1, ids=[entry.id for entry in entries]
    )


def account(mem, agent="a"):
    return accounts(mem, agent)[0]


def told(mem, agent="a"):
    return {(step.deed.entry, step.move, step.why) for step in account(mem, agent).steps}


def test_what_lived_was_superseded_or_acted_on_is_found(world):
    mem, clock = world
    me, other = mem.as_agent("a"), mem.as_agent("b")
    lived = me.append("lived", "api", ttl="1d")
    gone = me.append("gone", "api", ttl="20d")
    own = me.append("own", "api", ttl="20d")
    unseen = me.append("unseen", "api", ttl="1d")
    hand = me.append("filed by hand", "api", ttl="1d")
    merged = [
        agent_memory.append("The build takes 5 min", "api", ttl="1d")
        for agent_memory in (me, other)
    ]
    shown(mem, "b", lived, gone, own, hand, *merged)
    other.append("better", "api", supersedes=gone.id)
    me.append("mine", "api", supersedes=own.id)
    me.archive(hand.id)
    run_nightly(mem, "2026-02-01", clock())
    assert mem.as_agent("a").get(merged[0].id).archived
    clock.advance("2d")
    assert told(mem) == {
        (lived.id, 1, "lived to its time"),
        (merged[0].id, 0, "lived to its time; one gain a day"),
        (gone.id, -2, "superseded by b"),
        (unseen.id, 0, "nobody else was shown it"),
    }
    records = {step.deed.entry: step.deed.records for step in account(mem).steps}
    assert [
        record.id for record in mem.store.log.since(0) if record.seq == records[gone.id][0]
    ] == [gone.id]


def test_a_critical_counts_where_somebody_else_acted_on_it(world):
    mem, clock = world
    me, found = mem.as_agent("a"), {}
    for name in ("own", "resolved", "cited", "acked", "finished", "quoted by itself", "passed on"):
        found[name] = me.append(name, "blockers/x", priority="critical", ttl="20d")
        shown(mem, "b", found[name])
        shown(mem, "a", found[name])
    me.ack(found["own"].id)
    me.resolve(found["own"].id)
    mem.as_agent("b").resolve(found["resolved"].id)
    mem.as_agent("b").append("so I did", "api", related=found["cited"].id)
    mem.as_agent("b").ack(found["acked"].id)
    mem.as_agent("b").writer.delivery("acked", [found["finished"].id], "finished its turn")
    me.append("as I said", "api", related=found["quoted by itself"].id)
    mem.as_agent("b").append(
        "not so", "blockers/x", related=found["passed on"].id, supersedes=found["passed on"].id
    )
    clock.advance("1d")
    assert told(mem) == {
        (found["resolved"].id, 5, "acted on by b"),
        (found["cited"].id, 5, "acted on by b"),
        (found["acked"].id, 5, "acted on by b"),
        (found["passed on"].id, -2, "superseded by b"),
    }


def lose(mem, clock, count=5):
    """So many of a's entries are superseded by others, on days of their own."""
    for n in range(count):
        old = mem.as_agent("a").append(f"guess {n}", "api", ttl="60d")
        shown(mem, "b", old)
        mem.as_agent("b").append(f"measured {n}", "api", ttl="60d", supersedes=old.id)
        clock.advance("24h")


def test_a_review_moves_the_authority_of_what_is_written_after_it(world):
    mem, clock = world
    before = mem.as_agent("a").append("before", "decisions/x", topic="t", ttl="never")
    lose(mem, clock)
    assert run_nightly(mem, "2026-02-06", clock()).ran
    assert not reviewed(mem)  # the period is not over
    clock.advance("26d")
    assert account(mem).move in (-10, -8, -6, -4, -2)
    mem.as_agent("a").append("soon", "decisions/x", priority="important")
    move, then = account(mem).move, clock()
    early = mem.as_agent("lead").briefing(as_of=then).markdown()
    run_nightly(mem, "2026-03-04", clock())
    clock.advance("1m")
    after = mem.as_agent("a").append("after", "decisions/x", topic="u", priority="important")
    assert mem.as_agent("a").get(before.id).authority == 60
    if not mem.on:
        assert (after.authority, reviewed(mem)) == (60, [])
        return
    (record,) = reviewed(mem)
    assert record.fields["moves"] == {"a": move}
    assert after.authority == 60 + move == account(mem).standing
    assert account(mem).declared == 60
    assert account(mem).steps == ()
    assert (account(mem).reviews[0].move, account(mem).reviews[0].stands) == (move, True)
    assert {agent.id: agent.authority for agent in mem.agents()}["a"] == 60
    assert mem.as_agent("lead").briefing(as_of=then).markdown() == early
    assert f"authority {60 + move}" in mem.as_agent("lead").briefing().markdown()
    digest = mem.digest()
    mem.rebuild()
    assert mem.digest() == digest
    assert mem.verify().ok


def reviewed(mem):
    return [record for record in mem.store.log.since(0) if record.kind == "review"]


def reviewed_world(mem, clock):
    lose(mem, clock)
    clock.advance("26d")
    run_nightly(mem, "2026-03-04", clock())


def test_a_review_can_be_taken_back_and_that_too(world):
    mem, clock = world
    reviewed_world(mem, clock)
    if not mem.on:
        return
    moved = mem.as_agent("a").append("x", "api").authority
    assert moved < 60
    (record,) = reviewed(mem)
    for turn, wanted in enumerate((60, moved, 60, moved)):
        done = undo(mem, "last" if turn else str(record.seq))
        assert done.reviews == ((record.seq, turn % 2 == 1),)
        assert mem.as_agent("a").append("x", "api").authority == wanted
        assert account(mem).reviews[0].stands is (turn % 2 == 1)
    undo(mem, "2026-03-04")
    assert mem.as_agent("a").append("x", "api").authority == 60
    run_nightly(mem, "2026-03-05", clock())
    assert len(reviewed(mem)) == 1  # what was taken back is not done again


def test_switched_off_it_counts_no_more(world):
    mem, clock = world
    reviewed_world(mem, clock)
    with open(f"{mem.store.root}/synapse.yaml") as file:
        text = file.read()
    with open(f"{mem.store.root}/synapse.yaml", "w") as file:
        file.write(text.replace("reputation: on", "reputation: off"))
    mem.store.refresh(whole=True)
    assert mem.as_agent("a").append("x", "api").authority == 60


def test_a_low_standing_does_not_rule_over_others(world):
    mem, clock = world
    mem.register(Agent("even", read=("*",), write=("*",)))
    reviewed_world(mem, clock)
    entry = mem.as_agent("even").append("x", "api")
    if mem.on:
        with pytest.raises(Forbidden):
            mem.as_agent("a").archive(entry.id)
    else:
        mem.as_agent("a").archive(entry.id)


def test_a_dead_leader_s_review_is_not_written_twice(world):
    mem, clock = world
    lose(mem, clock)
    clock.advance("26d")

    def die(phase):
        if phase == "metrics":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_nightly(mem, "2026-03-04", clock(), die)
    clock.advance("1h")
    run_nightly(mem, "2026-03-04", clock())
    clock.advance("24h")
    run_nightly(mem, "2026-03-05", clock())
    assert len(reviewed(mem)) == int(mem.on)


def test_the_shift_is_no_part_of_what_is_declared(world):
    mem, clock = world
    reviewed_world(mem, clock)
    agent = mem.store.agents.get("a")
    assert (agent.shift < 0) is mem.on
    mem.register(agent._replace(name="A"))
    assert mem.store.index.current.declared["a"].shift == 0
    (record,) = [
        r for r in mem.audit(agent="operator") if r.fields.get("agent", {}).get("name") == "A"
    ]
    assert "shift" not in repr(record.fields)


def test_skills_move_too_and_bounds_hold():
    skilled = Agent("a", authority=60, skills=(Skill("db", 90, ("db/*",)),))
    assert [authority_in(skilled._replace(shift=shift), "db/x") for shift in (5, 50, -500)] == [
        95,
        100,
        10,
    ]
    assert [authority_in(skilled._replace(shift=shift), "api") for shift in (5, 50, -500)] == [
        65,
        100,
        10,
    ]
    assert [authority_in(skilled._replace(shift=shift), "api", flat=True) for shift in (-1, 0)] == [
        59,
        60,
    ]
    assert authority_in(Agent("low", authority=3)._replace(shift=-9), "api") == 3


def test_the_setting_is_read_and_written():
    for text in ("on", "off", "report"):
        found = parse_settings(f"protocol: 1\nreputation: {text}\n")
        assert found.reputation == text
        assert parse_settings(render_settings(found)) == found
    assert parse_settings("protocol: 1").reputation == "report"
    with pytest.raises(InvalidEntry):
        parse_settings("reputation: maybe")


def test_the_shell_explains_each_step(world, capsys):
    mem, clock = world
    reviewed_world(mem, clock)
    mem.close()

    def run(*words):
        capsys.readouterr()
        code = cli.main(["reputation", "--root", mem.store.root, *words])
        out = capsys.readouterr()
        return out.out if not code else out.err

    assert "declared" in run()
    text = run("a")
    assert text.startswith("a: declared 60, stands at ")
    (found,) = json.loads(run("a", "--json"))["agents"]
    assert ("superseded by b" in text) is mem.on
    if mem.on:
        assert found["standing"] < 60
        assert {step["move"] for step in found["reviews"][0]["steps"]} == {-2}
    assert "there is no agent z" in run("z")


def test_nobody_is_nobody(world):
    mem, _ = world
    with pytest.raises(NotFound):
        accounts(mem, "z")
