"""What a scripted engine without a script of the user's says: marked, and no result of anybody's."""

import pytest

import synapse
from orchestrator import Supervisor, Task, Team
from orchestrator.cli import main
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.example_team import play
from orchestrator.prompts.opening import histories
from orchestrator.reports.rows import Source
from orchestrator.reports.sums import sums
from orchestrator.reports.unread import unread_runs
from synapse.cli import main as memory_shell

WORK = "Delete the production database"


def script_of(*steps):
    return Scripted(lambda seen: steps[min(seen.turn, len(steps) - 1)])


def records(mem):
    return list(mem.store.log.since(0))


@pytest.fixture
def mem(tmp_path):
    with synapse.init(tmp_path / "ws") as memory:
        memory.register(synapse.Agent("cto", role="cto", department="web"))
        memory.register(synapse.Agent("lead", role="project-lead", department="web"))
        for id in ("eng-a", "eng-b"):
            memory.register(synapse.Agent(id, department="web"))
        memory.register(synapse.Agent("qa", role="specialist", department="web"))
        yield memory


@pytest.fixture
def supervisor(mem):
    made = []

    def make(engine=None, **engines):
        made.append(Supervisor(mem, engine=engine, engines=engines))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_it_is_marked_and_is_not_done(supervisor):
    played = supervisor("scripted")
    result = played.run(Task(WORK, "eng-a"))
    assert (result.status, result.played, result.done) == ("played", True, False)
    assert result.text == f"(played) Nobody did this: {WORK}"
    run = played.run_store.known(result.run)
    assert (run.fields["played"], run.fields["status"]) == (True, "played")
    assert result.fields()["played"] is True


def test_a_script_of_the_user_s_is_believed(mem, supervisor):
    result = supervisor(script_of("It is done.")).run(Task(WORK, "eng-a"))
    assert (result.status, result.played, result.text) == ("done", False, "It is done.")
    assert mem.as_agent("eng-b").get(result.entry).body == "Done: It is done."


@pytest.mark.parametrize("engine", ["scripted", Scripted(), Scripted(play)])
def test_nobody_is_told_of_it(mem, supervisor, engine):
    """Neither another agent, nor its own in a later run, by any way there is."""
    before = len(records(mem))
    played = supervisor(engine)
    assert played.run(Task(WORK, "eng-a")).entry is None
    kinds = {record.kind for record in records(mem)[before:]}
    assert kinds == {"run"}
    for id in ("cto", "eng-a", "eng-b"):
        agent = mem.as_agent(id)
        assert (len(agent.read()), agent.unread()) == (0, 0)
        assert len(agent.search("production database")) == 0
        assert WORK not in agent.briefing().text
    prompts = []
    real = supervisor(Scripted(lambda seen: prompts.append(seen.text) or "Done."))
    for id in ("eng-a", "eng-b"):
        real.run(Task("Look at the production database", id))
    assert not any("Nobody did this" in text or WORK in text for text in prompts)


def test_a_play_reads_nothing_for_its_agent(mem, supervisor):
    mem.as_agent("cto").append("Use /v2", "decisions/api", priority="critical")
    supervisor("scripted").run(Task("Call the API", "eng-a"))
    assert mem.as_agent("eng-a").unread() == 1


def test_it_is_in_no_list_of_unread_results_and_in_no_saving(mem, supervisor):
    played = supervisor("scripted")
    played.run(Task(WORK, "eng-a"))
    source = Source(mem.store, mem.store.root)
    assert unread_runs(source, 0) == []
    assert histories(played.run_store.runs) == {}
    total = sums(source, "agent").all
    assert (total.runs, total.done, total.failed, total.overhead) == (1, 0, 0, None)


def test_it_does_no_real_work_a_second_time(supervisor):
    supervisor("scripted").run(Task(WORK, "eng-a"))
    result = supervisor(script_of("It is done.")).run(Task(WORK, "eng-a"))
    assert (result.text, result.repeated, result.warnings) == ("It is done.", "", ())


def test_a_lead_is_told_that_nobody_worked(mem, supervisor):
    seen = []

    def lead(found):
        seen.append(found.text)
        steps = (
            Move(calls=[("spawn_agent", {"agent": "eng-a", "task": WORK})]),
            Move(calls=[("wait", {})]),
            "It was not done.",
        )
        return steps[found.turn]

    mem.register(synapse.Agent("eng-a", department="web", engine="scripted"))
    task = Task("Have it done", "lead", engine="leads")
    supervisor(leads=Scripted(lead)).run(task)
    assert "played" in seen[-1]
    assert "no model and no program of the user's worked on it" in seen[-1]
    assert "Nobody did this" not in seen[-1]


def test_what_was_played_gives_nobody_real_work(mem, supervisor):
    here = supervisor("scripted", real=script_of("It is done."))
    first = here.run(Task("Set the goal", "cto"))
    with pytest.raises(synapse.Conflict, match="gives no work to eng-a, whose engine"):
        here._loop.run(
            "run", "", lambda: here.spawn(Task(WORK, "eng-a", engine="real"), parent=first.run)
        )


def test_a_run_that_a_play_goes_on_with_is_played(mem, world):
    here = world(Scripted(lambda seen: Move("never", takes=1_000)))
    run = here.dies("Work", "eng-a", after=5)
    (result,) = here.resumed(Scripted())
    assert (result.run, result.status, result.entry) == (run, "played", None)


# -- a team ----------------------------------------------------------------------------


def brief(supervisor, team):
    return supervisor._loop.run("run", "", lambda: team.run(supervisor, "Build me a shop", "shop"))


TEAM = Team("lead", ("eng-a", "eng-b"), cto="cto", qa="qa")


def test_a_team_that_is_played_shows_its_prompts_and_does_nothing(mem, supervisor):
    mem.as_agent("cto").append("Use /v2", "decisions/api", priority="critical")
    before = len(records(mem))
    report = brief(supervisor(Scripted(play)), TEAM)
    assert (report.status, report.played, report.done) == ("played", True, False)
    assert [result.status for result in report.runs] == ["played"] * 6
    assert report.text == (
        "(played) 2 tasks were given out, and nobody did them. My prompt shows of the"
        " memory: decisions/api by cto."
    )
    kinds = {record.kind for record in records(mem)[before:]}
    assert kinds == {"run"}


def test_a_team_of_which_a_part_was_played_is_not_done(mem, supervisor):
    lead = script_of("- [eng-a] Do it\n- [eng-b] Do it, too")
    mem.register(synapse.Agent("lead", role="project-lead", engine="lead"))
    mem.register(synapse.Agent("eng-a", engine="real"))
    engines = {"lead": lead, "real": script_of("It is done.")}
    team = TEAM._replace(cto=None, qa=None)
    report = brief(supervisor("scripted", **engines), team)
    assert (report.status, report.played) == ("blocked", False)
    assert report.why.startswith("eng-b-")
    assert report.why.endswith(" was played, and nobody did its part")


def test_a_plan_that_was_played_is_nobody_s_real_task(mem, supervisor):
    mem.register(synapse.Agent("eng-a", engine="real"))
    called = []
    real = Scripted(lambda seen: called.append(seen) or "It is done.")
    report = brief(supervisor(Scripted(play), real=real), TEAM)
    assert (report.status, called) == ("refused", [])
    assert "was played, so it gives no work to eng-a" in report.why


# -- in the shell ----------------------------------------------------------------------


def test_the_shell_says_that_it_was_played(tmp_path, capsys):
    root = ("--root", str(tmp_path / "ws"))
    assert main([*root, "init"]) == 0
    words = ("--engine", "scripted", "--quiet")
    capsys.readouterr()
    assert main([*root, "run", "--agent", "qa", *words, WORK]) == 0
    assert capsys.readouterr().out == f"(played) Nobody did this: {WORK}\n"
    told = ["team", "--project", "shop", "--brief", "Build me a shop", *words]
    assert main([*root, *told]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("(played) 2 tasks were given out, and nobody did them.")
    assert lines[-1] == ("The project was played: nobody worked on it, and nothing is done.")
    assert main([*root, "ps", "--all"]) == 0
    assert capsys.readouterr().out.count("  played  ") == 7
    assert main([*root, "ps"]) == 0
    assert "played" not in capsys.readouterr().out, "nobody has to do anything"
    assert memory_shell([*root, "read", "--agent", "cto"]) == 0
    assert "0 of 0 visible" in capsys.readouterr().out
