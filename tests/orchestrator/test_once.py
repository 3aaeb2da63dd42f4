"""The same work is the same work: what a person starts is done again, unless it is to be done once;
what a lead gives out, and what lost its process, is not.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import synapse
from orchestrator import Supervisor, Task, Team
from orchestrator.cli import main
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.run_store import briefs
from orchestrator.runs.records import Run
from orchestrator.runs.repeats import age
from orchestrator.spend.limits import Limits

LOOK = "It is done."


def done(seen):
    return LOOK


@pytest.fixture
def mem(tmp_path):
    with synapse.init(tmp_path / "ws") as memory:
        memory.register(synapse.Agent("lead", role="project-lead", department="web"))
        for id in ("eng-a", "eng-b"):
            memory.register(synapse.Agent(id, department="web"))
        yield memory


def run(mem, script=done, *, task=None, **options):
    engine = options.pop("engine", None) or Scripted(script)
    with Supervisor(mem, engine=engine, **options) as supervisor:
        return supervisor.run(task or Task("Work", "eng-a"))


# -- what a person starts --------------------------------------------------------------


def test_what_a_person_starts_is_done_again(mem):
    first, second = run(mem), run(mem)
    assert first.run != second.run
    assert (first.repeated, second.repeated, second.text) == ("", "", LOOK)


def test_once_it_is_done_once_and_says_so(world):
    here = world(done)
    first = here.spawn("Work", "eng-a")
    here.time.elapsed += 185
    again = here.spawn("work.", "eng-a", once=True)
    assert (again.run, again.text) == (first.run, LOOK)
    assert again.repeated == (
        f"an earlier result: {first.run} did it 3 min ago; without `once` it is done again"
    )
    here.time.elapsed += 600
    late = here.spawn("Work", "eng-a", once=True)
    assert (late.run != first.run, late.repeated) == (True, "")


def test_once_it_is_waited_for_where_somebody_is_at_it(world):
    here = world(lambda seen: Move("Slow.", takes=60))

    async def both():
        import asyncio

        async with here.supervisor:
            task = Task("Work", "eng-a")
            first = asyncio.create_task(here.supervisor.spawn(task))
            await asyncio.sleep(10)
            second = await here.supervisor.spawn(task._replace(once=True))
            return await first, second

    first, second = here.time.run(both())
    assert (first.run, first.repeated) == (second.run, "")
    assert f"{first.run} began it " in second.repeated


@pytest.mark.parametrize(
    ("micros", "told"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7_199, "119 min"), (7_200, "2 h")],
)
def test_how_old_a_result_is(micros, told):
    assert age(micros * 1_000_000) == told


# -- the same work ---------------------------------------------------------------------


def look(page: str) -> str:
    """Look at a page."""
    return page


def look_twice(page: str, times: int = 2) -> str:
    """Look at a page."""
    return page * times


ONCE = Task("Work", "eng-a", once=True)


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({}, {"script": lambda seen: "Another script."}),
        ({}, {"model": "another"}),
        ({}, {"tools": [look_twice]}),
        ({}, {"limits": Limits(turns=3)}),
        ({"max_turns": 3}, {}),
        ({"max_usd": 3.0}, {}),
        ({"model": "another"}, {}),
        ({"view_budget": 500}, {}),
        ({"role": "specialist"}, {}),
    ],
)
def test_other_work_is_done_though_its_words_are_the_same(mem, change, options):
    same = {"script": done, "model": "m", "tools": [look]}
    first = run(mem, task=ONCE, **same)
    assert run(mem, task=ONCE, **same).run == first.run
    other = run(mem, task=ONCE._replace(**change), **same | options)
    assert (other.run != first.run, other.repeated) == (True, "")


def test_another_engine_is_called_though_the_words_are_the_same(mem):
    first = run(mem, task=ONCE)
    with Supervisor(mem, engines={"other": Scripted(lambda seen: "Other.")}) as other:
        assert other.run(ONCE._replace(engine="other")).text == "Other."
    assert run(mem, task=ONCE).run == first.run
    with Supervisor(mem, engine="claude-code") as missing:
        result = missing.run(ONCE)
    assert (result.run != first.run, result.repeated) == (True, "")


def test_other_templates_make_other_work(mem):
    first = run(mem, task=ONCE)
    folder = os.path.join(mem.store.root, "prompts")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "engineer.md.j2"), "w") as file:
        file.write("You are {{ agent.id }}.\n")
    assert run(mem, task=ONCE).run != first.run


def test_a_lead_gives_the_same_work_out_once(mem):
    def lead(seen):
        spawn = Move(calls=[("spawn_agent", {"agent": "eng-a", "task": "The page"})])
        return (spawn, Move(calls=[("wait", {})]), seen.messages[-1].text)[seen.turn]

    def again(seen):
        spawn = Move(calls=[("spawn_agent", {"agent": "eng-a", "task": "The page"})])
        return (spawn, seen.messages[-1].text)[seen.turn]

    def play(script, eng):
        engines = {"lead": Scripted(script), "eng": Scripted(eng)}
        for id, engine, role in (("lead", "lead", "project-lead"), ("eng-a", "eng", None)):
            mem.register(synapse.Agent(id, role=role or "engineer", engine=engine))
        with Supervisor(mem, engines=engines) as supervisor:
            result = supervisor.run(Task("Lead it", "lead"))
            made = supervisor.run_store.runs.all(agent="eng-a")
        return result.text, len(made)

    text, made = play(lead, done)
    assert (LOOK in text, made) == (True, 1)
    text, made = play(again, done)
    assert ("Nothing was started. This is an earlier result" in text, made) == (True, 1)
    assert LOOK in text, "the lead is told it at once"
    text, made = play(lead, lambda seen: "The new one.")
    assert ("The new one." in text, made) == (True, 2)


def test_a_run_of_an_older_version_is_read(mem):
    with Supervisor(mem, engine=Scripted(done)) as supervisor:
        run = supervisor.run_store.known(supervisor.run(Task("Work", "eng-a")).run)
    older = {**run.fields, "asked": {**run.fields["asked"], "force": True}}
    assert Run(*run[:-1], older).task.agent == "eng-a"


# -- work that lost its process --------------------------------------------------------

PROGRAM = """
import sys, time
import synapse
from orchestrator import Supervisor, Task, Team
from orchestrator.engines.scripted import Move, Scripted

root, place = sys.argv[1], sys.argv[2]

def note(word):
    with open(place, "a") as file:
        file.write(word + "\\n")

def work(page: str) -> str:
    \"\"\"Work at a page.\"\"\"
    note("work")
    return page

def slow(page: str) -> str:
    \"\"\"Work at a page, slowly.\"\"\"
    note("slow")
    time.sleep(0 if open(place).read().count("slow") > 1 else 600)
    return page

def script(seen):
    return (Move(calls=[("work", {"page": "a"})]), Move(calls=[("slow", {"page": "a"})]), "DONE")[seen.turn]

def lead(seen):
    note("lead")
    if "Your engineers: " in seen.messages[-1].text:
        return "- [eng-a] One part\\n- [eng-b] Another part"
    return "It is all there."

engines = {"lead": Scripted(lead), "eng": Scripted(script)}
with synapse.open(root) as memory:
    with Supervisor(memory, engines=engines, tools=[work, slow], memory_tools="never") as supervisor:
        if sys.argv[3] == "run":
            result = supervisor.run(Task("Work", "eng-a"))
        else:
            team = Team("lead", ("eng-a",) if sys.argv[3] == "one" else ("eng-a", "eng-b"))
            result = supervisor._loop.run("run", "", lambda: team.run(supervisor, "Build it", "shop"))
        print(result.status, result.text, len(supervisor.run_store.runs.all()))
"""


@pytest.fixture
def program(tmp_path, mem):
    (tmp_path / "program.py").write_text(PROGRAM)
    place = tmp_path / "place"
    place.touch()
    mem.register(synapse.Agent("lead", role="project-lead", engine="lead"))
    for id in ("eng-a", "eng-b"):
        mem.register(synapse.Agent(id, engine="eng"))
    line = [sys.executable, tmp_path / "program.py", mem.store.root, place]

    def begin(what):
        return subprocess.Popen([*map(str, line), what], stdout=subprocess.PIPE, text=True)

    def until(word, count):
        end = time.monotonic() + 60
        while place.read_text().count(word) < count and time.monotonic() < end:
            time.sleep(0.05)

    return begin, until, place


def test_what_was_killed_goes_on_where_the_same_program_is_started_again(program, mem):
    begin, until, place = program
    with begin("run") as first:
        until("slow", 1)
        first.send_signal(signal.SIGKILL)
    with begin("run") as second:
        printed = second.communicate(timeout=120)[0]
    assert printed == "done DONE 1\n", "the same run, and no other"
    assert place.read_text().split() == ["work", "slow"], "nothing is done twice"
    with begin("run") as third:
        printed = third.communicate(timeout=120)[0]
    assert printed == "done DONE 2\n", "which came to its end is done again"
    assert place.read_text().split()[2:] == ["work", "slow"]


def test_a_team_that_was_killed_goes_on_with_its_own_tree(program, mem):
    begin, until, place = program
    with begin("team") as first:
        until("slow", 2)
        first.send_signal(signal.SIGKILL)
    assert place.read_text().split().count("lead") == 1
    with begin("team") as second:
        printed = second.communicate(timeout=120)[0]
    assert printed == "done It is all there. 4\n", "planned once, worked once, reported"
    assert place.read_text().split().count("lead") == 2
    with begin("team") as third:
        printed = third.communicate(timeout=120)[0]
    assert printed == "done It is all there. 8\n", "one that came to its end is done again"


def test_what_a_program_resumes_first_answers_it_once(world):
    """`resume()`, and then the task that the program is for: the same run, and then a new one."""
    here = world(lambda seen: Move(LOOK, takes=60))
    run = here.dies("Work", "eng-a", after=10)
    slow = here.supervisor.engines["scripted"]

    async def gone_on(*tasks):
        async with other:
            taken = (await other.recover()).runs
            ended = [await other.result(each) for each in taken]
            return ended, [await other.spawn(task) for task in tasks]

    with Supervisor(here.mem, engine=slow, seed=8, inline=True) as other:
        task = Task("Work", "eng-a")
        ended, (first, second) = here.time.run(gone_on(task, task))
    assert [each.run for each in ended] == [run]
    assert (first.run, first.repeated, second.run != run) == (run, "", True)


def test_what_another_process_goes_on_with_is_waited_for(world):
    """A daemon was faster than the program that is started again."""
    here = world(lambda seen: Move(LOOK, takes=60))
    run = here.dies("Work", "eng-a", after=10)
    options = {"engine": here.supervisor.engines["scripted"], "inline": True}

    async def both():
        async with daemon, own:
            await daemon.recover()
            return await own.spawn(Task("Work", "eng-a"))

    with (
        Supervisor(here.mem, seed=8, **options) as daemon,
        Supervisor(here.mem, seed=9, **options) as own,
    ):
        result = here.time.run(both())
    assert (result.run, result.status) == (run, "done")
    assert f"{run} began it" in result.repeated


# -- a team ----------------------------------------------------------------------------


def lead(seen):
    if "Your engineers: " in seen.messages[-1].text:
        return "- [eng-a] One part\n- [eng-b] Another part"
    return "It is all there." if "lead" in seen.system.split("\n")[0] else LOOK


def brief(mem, once=False, script=lead):
    with Supervisor(mem, engine=Scripted(script)) as supervisor:
        team = Team("lead", ("eng-a", "eng-b"))
        return supervisor._loop.run(
            "run", "", lambda: team.run(supervisor, "Build it", "shop", once)
        )


def test_a_team_does_its_brief_again_unless_it_is_once(mem):
    first, second = brief(mem), brief(mem)
    assert first.done
    assert not {one.run for one in first.runs} & {one.run for one in second.runs}
    again = brief(mem, once=True)
    assert [one.run for one in again.runs] == [one.run for one in second.runs]
    assert all("an earlier result" in one.repeated for one in again.runs)


def test_two_parts_that_sound_alike_are_both_done_in_each_tree(mem):
    def alike(seen):
        if "Your engineers: " in seen.messages[-1].text:
            return "- [eng-a] The same part\n- [eng-b] The same part"
        return LOOK

    assert len({one.run for one in brief(mem, script=alike).runs}) == 4


def test_a_team_that_ended_was_not_interrupted(mem):
    first = brief(mem)
    with Supervisor(mem, engine=Scripted(lead)) as supervisor:
        run = supervisor.run_store.known(first.runs[0].run)
        about = (run.agent, run.fields["task"], run.project)
        assert not briefs.is_interrupted(supervisor.run_store, *about)


# -- in the shell ----------------------------------------------------------------------


def test_the_first_line_says_that_a_result_is_an_earlier_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plays_once.py").write_text(
        "def works(seen):\n    return 'It is done.'\n"
        "def changed(seen):\n    return 'It is done anew.'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    root = ("--root", str(tmp_path / "ws"))
    assert main([*root, "init"]) == 0

    def shell(*words, script="plays_once:works"):
        capsys.readouterr()
        assert main([*root, *words, "--script", script, "--quiet"]) == 0
        return capsys.readouterr().out

    words = ("run", "--agent", "qa", "Do it")
    assert shell(*words) == "It is done.\n"
    assert shell(*words) == "It is done.\n"
    first, second = shell(*words, "--once").splitlines()
    assert first.startswith("an earlier result: qa-")
    assert first.endswith("ago; without `once` it is done again")
    assert second == "It is done."
    assert "an earlier" in json.loads(shell(*words, "--once", "--json"))["repeated"]
    assert shell(*words, "--once", script="plays_once:changed") == "It is done anew.\n"
    assert main([*root, *words, "--force"]) == 64
