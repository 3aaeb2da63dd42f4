"""What becomes of runs whose supervisor is gone, and of the supervisor that comes back."""

import asyncio
import json
import time
from types import SimpleNamespace

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.prompts import receipt
from orchestrator.run_store.recovery import recover
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import LEDGER, STEPS, Folder
from orchestrator.sessions.wake import Reader
from orchestrator.spend.limits import Limits
from synapse.errors import StoreBusy, StoreError
from synapse.exchange import merge_in


def in_two_steps(seen):
    return Move("", (("read", {}),), takes=1) if seen.turn == 0 else Move("All done.", takes=100)


def for_ever(seen):
    return Move("never", takes=100_000)


def test_a_turn_that_was_paid_for_is_in_the_ledger_once(world):
    here = world(in_two_steps)
    run = here.dies("Work", "eng-a", after=10)
    lost, _ = here.folder(run).lines(LEDGER)
    here.folder(run).write(LEDGER, lost[:20])
    (result,) = here.resumed(in_two_steps)
    assert result.done
    lines = list(here.folder(run).lines(LEDGER))
    turns = [text for text in here.folder(run).lines(STEPS) if '"kind":"turn"' in text]
    assert lines[0] == lost
    assert (len(lines), len(turns)) == (2, 2)


def test_who_was_stopped_while_nobody_held_it_does_not_go_on(world):
    here = world(for_ever)
    run = here.dies("Work", "eng-a", after=10)
    here.supervisor.run_store.runs.stop(run, "operator", "not wanted any more")
    calls = []
    (result,) = here.resumed(lambda seen: calls.append(seen) or "Done.")
    assert (result.status, result.why, calls) == ("stopped", "not wanted any more", [])


def test_time_runs_while_nobody_holds_it(world):
    here = world(for_ever)
    here.dies("Work", "eng-a", after=10, timeout=60)
    here.time.elapsed += 100
    calls = []
    (result,) = here.resumed(lambda seen: calls.append(seen) or "Done.")
    assert (result.status, calls) == ("timeout", [])


def test_the_same_task_again_goes_on_with_what_died(world):
    here = world(in_two_steps)
    run = here.dies("Work", "eng-a", after=10)
    with Supervisor(here.mem, engine=Scripted(in_two_steps), seed=8, inline=True) as other:
        result = here.time.run(other.spawn(Task("work", "eng-a")))
    assert (result.run, result.status, result.repeated) == (run, "done", "")


def test_the_dead_do_not_count_as_alive(world):
    policy = Limits(live=1)
    here = world(for_ever)
    here.supervisor.run_store.costs.policy = here.supervisor.run_store.costs.policy._replace(
        day=policy
    )
    here.dies("Work", "eng-a", after=10)
    with Supervisor(here.mem, engine=Scripted(lambda seen: "Done."), seed=8, inline=True) as other:
        other.run_store.costs.policy = other.run_store.costs.policy._replace(day=policy)
        assert here.time.run(other.spawn(Task("Something else", "eng-b"))).done


def test_a_family_in_two_houses(world, cast):
    """Two supervisors took over at once, and each has a part: a parent hears of the child that the
    other holds.
    """

    def lead(seen):
        if seen.turn == 0:
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part"}),))
        return Move("", (("wait", {}),)) if seen.turn == 1 else f"Heard: {'A is done' in seen.text}"

    engine = cast(lead=lead, eng_a=lambda seen: Move("A is done.", takes=50))
    here = world(engine)
    run = here.dies("All of it", "lead", after=10)
    one, two = (Supervisor(here.mem, engine=engine, seed=n, inline=True) for n in (8, 9))

    async def both():
        async with one, two:
            mine = one.run_store.runs.take(here.known(run), one.run_store.lease.name, 1)
            (child,) = (await two.recover()).runs
            one._begin(mine)
            return child.agent, await one.result(mine)

    with one, two:
        agent, result = here.time.run(both())
    assert (agent, result.status, result.text) == ("eng-a", "done", "Heard: True")


def test_who_was_taken_over_ends_and_spends_nothing_more(world):
    calls = []

    def script(seen):
        calls.append(seen)
        return Move(
            "", (("append", {"namespace": "status/web", "body": f"step {len(calls)}"}),), takes=10
        )

    here = world(script)

    def taken():
        (run,) = here.supervisor.run_store.runs.all(state="running")
        here.supervisor.run_store.runs.take(run, "another", 1)

    result = here.spawn("Work", "eng-a", project="web", also=[here.later(25, taken)])
    assert result.status == "stopped"
    assert "goes on as epoch 2" in result.why
    assert len(calls) <= 4
    assert here.run(result).running
    refused = [record.fields for record in here.mem.store.log.since(0) if record.kind == "refused"]
    assert refused
    assert {(each["epoch"], each["current"]) for each in refused} == {(1, 2)}
    assert not here.folder(result.run).has("output.md")
    assert not [
        entry
        for entry in here.mem.as_agent("boss").read(namespace="status/web")
        if "Stopped" in entry.body
    ]


@pytest.mark.parametrize(("moment", "times"), [("before it is recorded", 1), ("after", 0)])
def test_who_hangs_at_a_call_does_not_make_it_as_well(world, monkeypatch, moment, times):
    """A call is on record before the last look at who holds the run: nobody takes over unheard in
    between.
    """
    made, hung, record = [], [], Folder.record

    def script(seen):
        return Move("", (("work", {}),)) if seen.turn == 0 else Move("All done.", takes=1)

    def work() -> str:
        made.append("worked")
        return "worked"

    def records(folder, name, line, **how):
        if '"kind":"call"' not in line or hung:
            record(folder, name, line, **how)
            return
        if moment == "after":
            record(folder, name, line, **how)
        hung.extend(here.supervisor.run_store.runs.all(state="running"))
        here.supervisor.run_store.runs.take(hung[0], "another", 1)
        attempt = steps.Step(steps.read(folder.lines(STEPS))[-1].n + 1, 2, "attempt", {})
        record(folder, STEPS, steps.dump(attempt))
        if moment != "after":
            record(folder, name, line, **how)

    here = world(script, tools=[work])
    monkeypatch.setattr(Folder, "record", records)
    result = here.spawn("Work", "eng-a")
    assert (result.status, made, "epoch 2" in result.why) == ("stopped", [], True)
    (again,) = here.resumed(script, tools=[work])
    assert (again.status, len(made)) == ("done", times)
    told = here.folder(result.run).read(STEPS)
    assert ("it was not repeated" in told) == (moment == "after")


def test_who_was_taken_over_begins_nothing_below_its_run(world, cast):
    """A reply that came while it hung asks for a child; the one that goes on with the run knows
    nothing of it.
    """

    def lead(seen):
        if seen.turn == 0:
            here.supervisor.run_store.runs.take(
                here.supervisor.run_store.runs.all(agent="lead")[0], "another", 1
            )
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part"}),))
        return "All done."

    here = world(cast(lead=lead))
    result = here.spawn("All of it", "lead")
    assert (result.status, [run.agent for run in here.supervisor.run_store.runs.all()]) == (
        "stopped",
        ["lead"],
    )
    refused = [record.fields for record in here.mem.store.log.since(0) if record.kind == "refused"]
    assert {(each["what"], each["epoch"], each["current"]) for each in refused} >= {("run", 1, 2)}
    assert "nothing was written" not in here.folder(result.run).read(STEPS)
    assert here.supervisor.run_store.costs.budget.standing(f"tree:{result.run}").runs == 1


def test_a_takeover_is_heard_of_though_the_first_look_fails(world, monkeypatch):
    """A lock that somebody holds too long is no reason to go on with what another has."""
    here = world(for_ever)
    run = here.dies("Work", "eng-a", after=10)
    run_store = here.supervisor.run_store
    mine, over = here.known(run), run_store.runs.over
    run_store.runs.take(mine, "another", 1)

    def busy(run):
        monkeypatch.setattr(run_store.runs, "over", over)
        raise StoreBusy("process 1 has held the lock for too long")

    monkeypatch.setattr(run_store.runs, "over", busy)
    session = SimpleNamespace(run=mine, reader=Reader)
    with pytest.raises(StoreBusy):
        run_store.deliveries.changes([session])
    ((stopped, why),) = run_store.deliveries.changes([session]).stops
    assert (stopped, "as epoch 2" in why) == (run, True)


# -- whatever goes wrong ---------------------------------------------------------------


def test_an_error_that_nobody_expects_is_an_outcome(world):
    def script(seen):
        raise KeyError("a bug in the script")

    here = world(script)
    result = here.spawn("Work", "eng-a", project="web")
    assert (result.status, result.why[:28], result.entry) == (
        "failed",
        "KeyError: 'a bug in the scri",
        None,
    )
    assert here.run(result).fields["why"] == result.why
    assert "Traceback" in here.folder(result.run).read("error.txt")


def test_a_parent_hears_of_a_child_that_could_not_begin(world, cast):
    def lead(seen):
        if seen.turn == 0:
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part"}),))
        return Move("", (("wait", {}),)) if seen.turn == 1 else seen.messages[-1].text

    def policy(agent, task, agent_memory, plan):
        if agent.id == "eng-a":
            raise synapse.InvalidEntry("no view for you")
        from orchestrator.prompts.opening import by_default

        return by_default(agent, task, agent_memory, plan)

    result = world(cast(lead=lead), context=policy).spawn("All of it", "lead")
    assert result.done
    assert "no view for you" in result.text


def test_a_model_without_a_price_is_refused_under_a_limit_on_money(world):
    engine = Scripted(lambda seen: "Done.")
    engine.name = "own"
    here = world(engine)
    result = here.spawn("Work", "eng-a", project="web", max_usd=1.0, model="nobody-knows")
    assert result.status == "refused"
    assert "price of nobody-knows is not known" in result.why
    assert (result.entry, here.run(result).fields["why"]) == (None, result.why)
    assert here.spawn("Work", "eng-a", project="web", model="nobody-knows").done


def test_a_stop_in_the_middle_ends_all_below(world, cast):
    def spawns(*agents):
        def script(seen):
            if seen.turn == 0:
                return Move(
                    "",
                    tuple(
                        ("spawn_agent", {"agent": name, "task": f"For {name}"}) for name in agents
                    ),
                )
            return Move("", (("wait", {}),)) if seen.turn == 1 else "Done."

        return script

    here = world(cast(boss=spawns("lead"), lead=spawns("eng-a"), eng_a=for_ever))

    def stop():
        (middle,) = here.supervisor.run_store.runs.all(agent="lead")
        here.supervisor.run_store.runs.stop(middle.id, "operator", "enough")

    result = here.spawn("All of it", "boss", also=[here.later(10, stop)])
    assert result.done
    assert here.time.elapsed < 60
    states = {
        run.agent: (run.status, run.fields["why"]) for run in here.supervisor.run_store.runs.all()
    }
    assert states == {
        "boss": ("done", ""),
        "lead": ("stopped", "enough"),
        "eng-a": ("stopped", "enough"),
    }


def test_news_is_not_lost_with_whoever_heard_it(tmp_path):
    """One session is cancelled while it looks at the log for all: the other still hears."""
    with synapse.init(str(tmp_path / "ws")) as memory:
        for agent in (synapse.Agent("boss", role="cto"), synapse.Agent("eng-a")):
            memory.register(agent)

        async def story(supervisor):
            async with supervisor:
                run = await supervisor.start(Task("Work", "eng-a"))
                while run.id not in supervisor.sessions:
                    await asyncio.sleep(0.01)
                supervisor._listener.close()
                supervisor._notify = lambda: None
                memory.as_agent("boss").append("Stop", "decisions/api", priority="critical")
                looking = asyncio.create_task(supervisor._hear())
                await asyncio.sleep(0)
                # it is taken off the log, and whoever asked has not been told yet
                time.sleep(0.05)
                looking.cancel()
                return await asyncio.wait_for(supervisor.result(run), 10)

        def script(seen):
            return (
                "Heard." if "Stop" in seen.text else Move("", (("read", {"limit": 1}),), takes=0.3)
            )

        with Supervisor(memory, engine=Scripted(script), memory_tools="always") as supervisor:
            assert asyncio.run(story(supervisor)).text == "Heard."


@pytest.mark.parametrize("dead", [True, False])
def test_only_the_files_of_the_dead_are_swept_away(tmp_path, dead):
    from orchestrator.runs.files.lease import Lease

    one, other = Lease(str(tmp_path), "one"), Lease(str(tmp_path), "other", lease=0.0)
    if dead:
        path, one.path = one.path, "/nowhere"
        one.close()
        one.path = path
    if not dead:  # silent for longer than this lease: it is given a while to beat again
        assert other.lives("one")
        other.suspects["one"] = (other.suspects["one"][0], 0)
    assert not other.lives("one")
    other.sweep()
    assert sorted(tmp_path.glob("runs/.holders/*"))[0].name == ("other" if dead else "one")
    one.close()
    other.close()


# -- a lock that somebody has for too long ---------------------------------------------


def busy_once(monkeypatch, where, act, at=1):
    """Has the act fail at its first call, or a later one; how often it was called."""
    done, calls = getattr(where, act), []

    def acts(*args, **more):
        calls.append(args)
        if len(calls) == at:
            raise StoreBusy("process 1 has held the lock for too long")
        return done(*args, **more)

    monkeypatch.setattr(where, act, acts)
    return calls


@pytest.mark.parametrize(
    ("part", "act"),
    [
        ("", "prepare_session"),
        ("deliveries", "missed_news"),
        ("costs", "reserve"),
        ("deliveries", "changes"),
        ("", "close_run"),
    ],
)
def test_a_lock_that_is_held_too_long_ends_no_run(world, monkeypatch, part, act):
    """The run goes on from its steps, in the same incarnation, and ends once."""
    here = world(in_two_steps)
    where = getattr(here.supervisor.run_store, part) if part else here.supervisor.run_store
    calls = busy_once(monkeypatch, where, act, at=2 if act == "changes" else 1)
    result = here.spawn("Work", "eng-a", project="web")
    assert (result.status, here.run(result).epoch, len(calls) > 1) == ("done", 1, True)
    ends = [
        each
        for each in here.mem.store.log.since(0)
        if each.kind == "run" and each.fields["state"] == "ended"
    ]
    turns = [text for text in here.folder(result.run).lines(STEPS) if '"kind":"turn"' in text]
    assert (len(ends), len(turns), len(list(here.folder(result.run).lines(LEDGER)))) == (1, 2, 2)


def test_what_was_taken_over_is_begun_though_the_next_cannot_be(world, cast, monkeypatch):
    """Its holder lives from then on, so nobody else would ever begin it."""

    def lead(seen):
        if seen.turn == 0:
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part"}),))
        return Move("", (("wait", {}),)) if seen.turn == 1 else "All done."

    here = world(cast(lead=lead, eng_a=for_ever))
    here.dies("All of it", "lead", after=10)
    with Supervisor(here.mem, engine=Scripted(in_two_steps), seed=8, inline=True) as other:
        busy_once(monkeypatch, other.run_store.runs, "take", at=2)
        taken = [[run.agent for run in recover(other.run_store).runs] for _ in range(3)]
        assert taken == [["lead"], ["eng-a"], []]
        busy_once(monkeypatch, other.run_store.runs, "all")
        with pytest.raises(StoreBusy):
            recover(other.run_store)


# -- what a prompt showed --------------------------------------------------------------


def shown(here, run):
    return [
        each
        for each in here.mem.store.log.since(0)
        if each.kind == "shown" and each.fields.get("run") == run
    ]


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted"])
def test_what_a_prompt_showed_is_noted_once_whoever_dies(world, noted):
    """The engine is called while it is noted: whoever dies in between left a step that has all of
    it.
    """
    here = world(lambda seen: Move("Begun.", takes=1_000))
    here.says("Use v2")
    if not noted:
        here.supervisor.run_store.note_shown = lambda run, first: None
    run = here.dies("Work", "eng-a", after=1)
    assert len(shown(here, run)) == noted
    (result,) = here.resumed(lambda seen: "Done.")
    assert (result.run, result.status) == (run, "done")
    (record,) = shown(here, run)
    prompt = here.folder(run).read("steps.jsonl").partition("\n")[0]
    kept = receipt.load(here.folder(run).read("receipt.json"))
    assert (
        json.loads(prompt)["shown"]
        == {**record.fields}
        == kept.shown() | {"ids": list(kept.shown()["ids"])}
    )
    assert record.fields["ids"] == [
        each.id for each in here.mem.as_agent("eng-a").read(priority="critical")
    ]


def test_a_receipt_stands_once_and_does_not_grow_with_the_memory(world):
    """Whatever the memory has, a run's folder has what its own prompt and turns take."""
    here = world(lambda seen: "Done.")
    sizes = []
    for number in range(2):
        for n in range(300):
            here.says(f"News {number} {n}", priority="info")
        folder = here.folder(here.spawn(f"Work {number}", "eng-a").run)
        prompt = json.loads(folder.read("steps.jsonl").partition("\n")[0])
        kept = receipt.load(folder.read("receipt.json"))
        assert kept.omitted + len(kept.included) == prompt["shown"]["of"] >= 300
        assert kept.prompt == prompt["shown"]["prompt"]
        assert "left_out" not in json.dumps(prompt | {"shown": None})
        sizes.append(len(folder.read("receipt.json")))
    assert sizes[1] < sizes[0] + 1_000


def test_a_prompt_that_cannot_be_noted_ends_its_run(world):
    def fails(run, first):
        raise StoreError("the disk is full")

    here = world(lambda seen: "Done.")
    here.supervisor.run_store.note_shown = fails
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.why) == ("failed", "the disk is full")
    assert result.usage.input_tokens > 0  # what was paid for is on record all the same


def test_a_run_of_another_workspace_is_left_to_it(tmp_path):
    """Its record came with a merge; its steps, and perhaps its supervisor, are there."""
    roots = [str(tmp_path / name) for name in ("here", "there")]
    for root in roots:
        with synapse.init(root) as memory:
            memory.register(synapse.Agent("eng-a", role="engineer"))
    with (
        synapse.open(roots[1]) as memory,
        Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor,
    ):
        task = Task("Work", "eng-a")
        run, _ = supervisor.run_store.admission.admit(
            task,
            None,
            "eng-a-1",
            supervisor.engine_pool.for_task,
            supervisor.engine_pool.defaults(None),
        )
    with synapse.open(roots[0]) as memory:
        merge_in(memory.store, roots[1], believe=True)
        with Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor:
            taken, left = recover(supervisor.run_store)
            assert (taken, list(left)) == ([], [run.id])
            assert "the workspace that it began in" in left[run.id]
            supervisor.run_store.runs.stop(run.id, "operator", "enough")
            assert [mine.id for mine in recover(supervisor.run_store).runs] == [run.id]


def test_a_call_that_is_repeated_after_a_recovery_has_the_key_of_the_first(world):
    keys = []

    class Noted(Scripted):
        async def step(self, request, interrupt):
            keys.append(request.key)
            return await super().step(request, interrupt)

    here = world(Noted(in_two_steps))
    here.dies("Work", "eng-a", after=10)
    (result,) = here.resumed(Noted(in_two_steps))
    assert result.done
    assert len(keys) == 3
    assert keys[1] == keys[2]
    assert keys[0] != keys[1]


def test_a_run_that_died_as_often_as_it_may_is_ended_with_a_blocker(world):
    here = world(lambda seen: Move("never", takes=1_000))
    run = here.dies("Work", "eng-a", project="web", after=10)
    assert here.resumed(lambda seen: "Done.", attempts=1) == []
    fields = here.known(run).fields
    why = "it died 1 times without moving"
    assert (fields["status"], fields["why"]) == ("failed", why)
    entry = here.mem.as_agent("boss").get(fields["entry"])
    assert (entry.namespace, entry.priority) == ("blockers/web", "critical")
    assert entry.body.startswith("Blocked: the run died 1 times without moving")
    budget = here.supervisor.run_store.costs.budget
    assert budget.standing("workspace").live == 0


def test_a_run_that_may_die_once_more_goes_on(world):
    here = world(lambda seen: Move("never", takes=1_000))
    run = here.dies("Work", "eng-a", after=10)
    (result,) = here.resumed(lambda seen: "Done.", attempts=2)
    assert (result.run, result.status) == (run, "done")


@pytest.mark.parametrize("known", [False, True])
def test_what_is_refused_to_a_stale_incarnation_is_no_result(world, known):
    """Whoever took the run over may read its steps only after that; the call is still to be
    made.
    """
    wrote = {"namespace": "status/web", "body": "Half of it is done"}

    def script(seen):
        (run,) = here.supervisor.run_store.runs.all()
        here.supervisor.run_store.runs.take(run, "another", 0)
        if known:
            here.supervisor.run_store.store.refresh()
        return Move("", (("append", wrote), ("append", wrote | {"body": "More"})))

    here = world(script)
    first = here.spawn("Work", "eng-a", project="web")
    assert (first.status, "goes on as epoch 2" in first.why) == ("stopped", True)
    recorded = steps.read(here.folder(first.run).lines(STEPS))
    assert [step.kind for step in recorded] == ["prompt", "turn"]
    (second,) = here.resumed(lambda seen: "Done.", memory_tools="always")
    assert (second.run, second.status) == (first.run, "done")
    bodies = [
        entry.body
        for entry in here.mem.as_agent("operator").read(namespace="status/web", author="eng-a")
    ]
    assert sorted(bodies)[1:] == ["Half of it is done", "More"]
