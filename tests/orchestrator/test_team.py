"""A team: what its file says, what a plan is, and the way of a brief through it."""

import asyncio

import pytest

import synapse
from orchestrator import Supervisor, Team
from orchestrator.cli import main
from orchestrator.cli.work.example import AGENTS, TEAM
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.spend.limits import Limits
from orchestrator.team import Part, parts, team_of
from synapse.cli import main as memory_shell
from synapse.formats.declared import parse_agent
from tests.team_play import play

ROLES = {
    "cto": "cto",
    "lead": "project-lead",
    "eng-backend": "engineer",
    "eng-frontend": "engineer",
    "qa": "specialist",
}


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        for text in AGENTS.values():
            memory.register(parse_agent(text))
        yield memory


@pytest.fixture
def team(tmp_path):
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    return Team.from_yaml(str(path))


def act(mem, team, script, brief="Say what you know", **more):
    with Supervisor(mem, engine=Scripted(script)) as supervisor:
        return asyncio.run(team.run(supervisor, brief, "hello", **more))


def test_the_file_of_the_example(team):
    assert (team.cto, team.lead, team.engineers, team.qa) == (
        "cto",
        "lead",
        ("eng-backend", "eng-frontend"),
        "qa",
    )
    assert (team.engine, team.view_budget, team.memory_tools, team.max_usd) == (
        "auto",
        "auto",
        "auto",
        None,
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "lead is missing; engineers is missing"),
        ({"lead": "a", "engineers": "b"}, "engineers: write a list"),
        ({"lead": "a", "engineers": ["b"], "boss": "c"}, "boss is not known"),
        ({"lead": "a", "engineers": ["b"], "models": "m"}, "models: write"),
        (
            {"lead": "a", "engineers": ["b"], "memory_tools": "some"},
            "memory_tools: write one of auto, always, never",
        ),
        (
            {"lead": "a", "engineers": ["b"], "tools": {"dig": {"shares": "yes"}}},
            "write true, false or whole",
        ),
    ],
)
def test_a_file_that_is_wrong_is_told_what(fields, told):
    with pytest.raises(synapse.InvalidEntry, match=told):
        team_of(fields)


def test_a_file_that_is_no_yaml_is_named(tmp_path):
    (tmp_path / "mine.yaml").write_text("cto: [1")
    with pytest.raises(synapse.InvalidEntry, match=r"mine\.yaml: not readable as YAML"):
        Team.from_yaml(str(tmp_path / "mine.yaml"))


def test_who_is_not_registered_is_found_out_before_anything_is_spent(mem, team):
    calls = []
    with pytest.raises(synapse.NotFound, match="nobody is not registered"):
        act(mem, team._replace(qa="nobody"), lambda seen: calls.append(seen) or "Done.")
    assert calls == []


def test_without_a_cto_one_tree_holds_all_of_it(mem, team):
    """So that the team's limits hold for the report too."""
    report = act(mem, team._replace(cto=None, max_tokens=500_000), play)
    runs = mem.store.index.current.runs()
    assert (report.status, len({run["root"] for run in runs}), len(runs)) == ("done", 1, 5)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(synapse.NotFound, match="orchestrator init"):
        Team.from_yaml(str(tmp_path / "team.yaml"))


def test_parts_of_a_plan():
    plan = """I split it.

- [eng-a] Serve it.
  In 100 ms.

  With tests.
* [eng-b] Draw it.
1. [eng-a] Say it.
Nothing else.
  Not of a task.
- [ ] a box
- [Eng-C] no agent
    - [eng-d] inside code
"""
    assert parts(plan) == [
        Part("eng-a", "Serve it.\nIn 100 ms.\nWith tests."),
        Part("eng-b", "Draw it."),
        Part("eng-a", "Say it."),
    ]
    assert parts("") == []


def test_a_brief_goes_its_way(mem, team):
    report = act(mem, team, play)
    assert (report.status, report.done) == ("done", True)
    assert [run.run.rpartition("-")[0] for run in report.runs] == [
        "cto", "lead", "eng-backend", "eng-frontend", "qa", "lead",
    ]  # fmt: skip
    assert all("my line of the plan with it" in run.text for run in report.runs[2:4])
    assert report.runs[4].text.startswith("2 of 2 passed")
    assert report.text == "2 of 2 tasks are done; I was shown what 2 of them left in the memory."
    (plan,) = mem.as_agent("qa").read(namespace="projects/hello")
    assert (plan.id, plan.topic, plan.author) == (report.plan, "plan", "lead")
    ids = {run.run: mem.store.index.current.run(run.run) for run in report.runs}
    assert [ids[run.run]["parent"] for run in report.runs] == [
        None, report.runs[0].run, *[report.runs[1].run] * 3, report.runs[0].run,
    ]  # fmt: skip


def test_its_report_is_nobodys_debt(mem, team, capsys):
    """The lead reports to whoever gave the brief, who is told of it here."""
    report = act(mem, team, play)
    mem.store.refresh()
    (told,) = mem.store.index.current.deliveries(entry=report.runs[-1].entry)
    assert (told["agent"], told["state"], told["run"]) == ("operator", "acked", report.runs[-1].run)
    assert main(["--root", mem.store.root, "unread"]) == 0
    assert capsys.readouterr().out == "no unread results\n"


def test_a_team_that_a_limit_does_not_let_begin(mem, team):
    with Supervisor(mem, engine=Scripted(play), limits=Limits(depth=0)) as supervisor:
        report = asyncio.run(team.run(supervisor, "Say what you know", "hello"))
    assert (report.status, [bool(run.run) for run in report.runs]) == ("refused", [True, False])
    assert report.text.startswith("lead: run:lead-")


def test_engineers_work_side_by_side(mem, team):
    def slow(seen):
        return Move(play(seen), takes=0.4 if ", an engineer" in seen.system else 0)

    report = act(mem, team, slow)
    begun = [mem.store.index.current.run(run.run) for run in report.runs[2:4]]
    assert max(run["at"] for run in begun) < min(run["ended_at"] for run in begun)


def test_the_plan_that_the_lead_wrote_as_an_entry(mem, team):
    def script(seen):
        if "Your engineers: " not in seen.messages[-1].text and seen.turn == 0:
            return play(seen)
        if seen.turn == 0 and "append" in {tool.name for tool in seen.tools}:
            entry = {
                "namespace": "projects/hello",
                "topic": "plan",
                "body": "- [eng-backend] Count to ten.",
            }
            return Move("", (("append", entry),))
        return "I planned."

    with Supervisor(mem, engine=Scripted(script), memory_tools="always") as supervisor:
        report = asyncio.run(team.run(supervisor, "Count", "hello"))
    assert [run.run.rpartition("-")[0] for run in report.runs] == [
        "cto",
        "lead",
        "eng-backend",
        "qa",
        "lead",
    ]
    assert mem.as_agent("cto").get(report.plan).body == "- [eng-backend] Count to ten."


@pytest.mark.parametrize(
    ("plan", "told"),
    [("Let us see.", "has no line of the form"), ("- [cto] Do it all.", "names cto")],
)
def test_a_plan_that_cannot_be_done(mem, team, plan, told):
    def script(seen):
        return plan if "Your engineers: " in seen.messages[-1].text else play(seen)

    report = act(mem, team, script)
    assert (report.status, len(report.runs)) == ("blocked", 2)
    assert told in report.text


def test_a_team_ends_where_somebody_is_blocked(mem, team):
    def script(seen):
        return Move("No budget.", blocked="No budget.") if "the CTO" in seen.system else play(seen)

    report = act(mem, team, script)
    assert (report.status, len(report.runs)) == ("blocked", 1)

    def lame(seen):
        return (
            Move("I cannot.", blocked="No key.")
            if "eng-backend, an engineer" in seen.system
            else play(seen)
        )

    report = act(mem, team, lame, brief="Again")
    assert (report.status, len(report.runs)) == ("blocked", 4)
    assert (report.text, report.waiting) == ("I cannot.", True)


def test_a_lead_whose_engine_is_a_model_drives_by_its_own_tools(mem, team):
    def script(seen):
        task = seen.messages[-1].text if seen.turn == 0 else ""
        if "the CTO" in seen.system and seen.turn == 0:
            assert "Give this project to lead" in task
            return Move("", (("spawn_agent", {"agent": "lead", "task": "All of it"}),))
        if "a project lead" in seen.system and seen.turn == 0:
            plan = {
                "namespace": "projects/hello",
                "topic": "plan",
                "body": "- [eng-backend] Half of it",
            }
            work = {"agent": "eng-backend", "task": "Half of it"}
            return Move("", (("append", plan), ("spawn_agent", work)))
        if "a project lead" in seen.system and seen.turn == 2:
            return Move("", (("spawn_agent", {"agent": "qa", "task": "Test it"}),))
        if "an engineer" not in seen.system and "qa" not in seen.system and seen.turn in (1, 3):
            return Move("", (("wait", {}),))
        gives_out = "the CTO" in seen.system or "a project lead" in seen.system
        assert ("append" in {tool.name for tool in seen.tools}) == gives_out
        return "It is done."

    engine = Scripted(script)
    engine.name = "anthropic"
    with Supervisor(mem, engine=engine) as supervisor:
        report = asyncio.run(
            team._replace(view_budget=321).run(supervisor, "Say what you know", "hello")
        )
        asked = {run.agent: run.task.view_budget for run in supervisor.run_store.runs.all()}
    assert report.done
    assert [run.run.rpartition("-")[0] for run in report.runs] == [
        "lead",
        "eng-backend",
        "qa",
        "cto",
    ]
    assert asked == dict.fromkeys(("cto", "lead", "eng-backend", "qa"), 321), (
        "what the team says holds for each prompt"
    )
    assert mem.as_agent("qa").get(report.plan).body == "- [eng-backend] Half of it"


@pytest.mark.parametrize(
    ("says", "offered"),
    [("never", ()), ("always", ("cto", "lead", "eng-backend")), (None, ("cto", "lead"))],
)
def test_tools_for_the_memory_are_the_teams_to_give(mem, team, says, offered):
    """Where it says nothing, they are for who coordinates: one policy for teams and single runs."""
    seen = {}

    def play(found):
        name = found.system.split()[2].strip(",")
        seen[name] = "append" in {tool.name for tool in found.tools}
        gives = {"cto": "lead", "lead": "eng-backend"}
        if name in gives and found.turn < 2:
            return Move(
                "",
                (
                    (("spawn_agent", {"agent": gives[name], "task": "All of it"}), ("wait", {}))[
                        found.turn
                    ],
                ),
            )
        return "It is done."

    engine = Scripted(play)
    engine.name = "anthropic"
    with Supervisor(mem, engine=engine) as supervisor:
        asyncio.run(team._replace(memory_tools=says).run(supervisor, "Say what you know", "hello"))
    assert set(seen) == {"cto", "lead", "eng-backend"}
    assert {name for name, able in seen.items() if able} == set(offered)


ALL = (("spawn_agent", {"agent": "lead", "task": "All of it"}), ("wait", {}))
PLAN = (
    "append",
    {"namespace": "projects/hello", "topic": "plan", "body": "- [eng-backend] All of it"},
)
HALF = (PLAN, ("spawn_agent", {"agent": "eng-backend", "task": "All of it"}), ("wait", {}))
TEST = (("spawn_agent", {"agent": "qa", "task": "Test it"}), ("wait", {}))


@pytest.mark.parametrize(
    ("cto", "lead", "why"),
    [
        ((), (), "lead wrote no plan: there is no entry in projects/hello with the topic plan"),
        (ALL, (), "lead wrote no plan"),
        (ALL, (PLAN,), "nobody gave work to eng-backend or eng-frontend"),
        (ALL, HALF, "nobody had qa test it"),
        (ALL, (*HALF, *TEST), ""),
    ],
)
def test_a_team_of_models_is_done_when_all_of_it_was_done(mem, team, cto, lead, why):
    """A CTO that merely answers says that it is done, whatever was."""

    def script(seen):
        acts = cto if "the CTO" in seen.system else lead if "a project lead" in seen.system else ()
        return Move("", (acts[seen.turn],)) if seen.turn < len(acts) else "It is done."

    engine = Scripted(script)
    engine.name = "anthropic"
    with Supervisor(mem, engine=engine) as supervisor:
        report = asyncio.run(team.run(supervisor, "Say what you know", "hello"))
    assert (report.status, report.why[: len(why)]) == ("blocked" if why else "done", why)


def test_a_team_whose_qa_saw_no_result_is_not_done(mem, team):
    report = act(mem, team._replace(view_budget=0), play)
    assert (
        report.runs[4].text
        == "0 of 2 passed: my prompt shows their status, and it says what it should."
    )
    results = ", ".join(sorted(run.entry for run in report.runs[2:4]))
    assert (report.status, report.why) == (
        "blocked",
        f"qa saw none of the results that it was to test ({results}); `orchestrator"
        f" receipt {report.runs[4].run}`"
        " says why",
    )


def test_what_keeps_a_project_from_being_done_stands_until_it_is(mem, team):
    """Else the next agent reads that all is done."""
    report = act(mem, team._replace(view_budget=0), play)
    (blocker,) = mem.as_agent("qa").read(namespace="blockers/hello")
    assert (blocker.author, blocker.priority) == ("lead", "critical")
    assert blocker.body == f"Blocked: the project is not done: {report.why}"
    assert act(mem, team, play).done
    assert list(mem.as_agent("qa").read(namespace="blockers/hello")) == []


def test_a_qa_that_looked_for_itself_saw_the_results(mem, team):
    """Its prompt shows nothing; the memory's tool does."""

    def script(seen):
        if "test what others" in seen.system and seen.turn == 0:
            return Move("", (("read", {"namespace": "status/hello"}),))
        return "2 of 2 passed." if "test what others" in seen.system else play(seen)

    with Supervisor(mem, engine=Scripted(script), memory_tools="always") as supervisor:
        report = asyncio.run(
            team._replace(view_budget=0).run(supervisor, "Say what you know", "hello")
        )
    assert (report.status, report.why) == ("done", "")


def test_a_team_registered_by_its_roles_alone_works_together(tmp_path, team):
    with synapse.init(str(tmp_path / "roles")) as mem:
        for id, role in ROLES.items():
            mem.register(synapse.Agent(id, role=role, department=f"of-{id}"))
        report = act(mem, team, play)
        assert (report.status, report.runs[4].text[:13]) == ("done", "2 of 2 passed")
        assert all("my line of the plan with it" in run.text for run in report.runs[2:4])


@pytest.mark.parametrize("project", ["general", "web"])
def test_engineers_of_one_role_see_what_came_of_each_other_s_work(tmp_path, capsys, project):
    root = ("--root", str(tmp_path / "ws"))
    assert memory_shell([*root, "init"]) == 0
    for id in ("e1", "e2"):
        assert (
            memory_shell(
                [*root, "register", "--id", id, "--role", "engineer", "--department", "backend"]
            )
            == 0
        )
    asked = [
        "run",
        "--agent",
        "e1",
        "--project",
        project,
        "--script",
        "tests.team_play:builds",
        "--quiet",
        "Build the API",
    ]
    assert main([*root, *asked]) == 0
    capsys.readouterr()
    assert memory_shell([*root, "read", "--agent", "e2"]) == 0
    assert "1 of 1 visible" in capsys.readouterr().out
    assert (
        main([*root, "run", "--agent", "e2", "--dry-run", "--engine", "scripted", "Build it again"])
        == 0
    )
    assert "Done: The API is built." in capsys.readouterr().out


def test_members_of_a_project_are_addressed_and_write_in_it(tmp_path, capsys):
    root = ("--root", str(tmp_path / "ws"))
    assert memory_shell([*root, "init"]) == 0
    for id, more in (
        ("a", ("--project", "x")),
        ("b", ()),
        ("c", ("--read", "api/*", "--write", "api/*")),
    ):
        assert memory_shell([*root, "register", "--id", id, "--role", "specialist", *more]) == 0
    assert (
        memory_shell(
            [*root, "write", "--from", "b", "--namespace", "status/x", "--to", "team:x", "for x"]
        )
        == 0
    )
    assert "nobody is called" not in capsys.readouterr().err
    for id, seen in (("a", 1), ("b", 1), ("c", 0)):  # its own, everybody sees
        assert memory_shell([*root, "read", "--agent", id]) == 0
        assert f"-- {seen} of {seen} visible" in capsys.readouterr().out
    plan = ("write", "--namespace", "projects/x", "--topic", "plan", "- [a] Draw it")
    assert memory_shell([*root, *plan, "--from", "b"]) == 4
    assert memory_shell([*root, *plan, "--from", "a"]) == 0


def test_a_team_whose_qa_found_a_fault_is_not_done(mem, team):
    def script(seen):
        if "test what others" in seen.system:
            assert "your last message begins with `Blocked:`" in seen.system
            return "Blocked: the page of eng-frontend answers 500.\n\n1 of 2 passed."
        return play(seen)

    report = act(mem, team, script)
    why = f"{report.runs[4].run} is blocked: the page of eng-frontend answers 500"
    assert (report.status, report.why) == ("blocked", why)


@pytest.mark.parametrize(
    ("who", "text"),
    [("You are eng-backend", "Blocked: no key"), ("You are qa", "Blocked: 1 of 1 failed")],
)
def test_a_team_of_models_in_which_one_part_ended_otherwise_is_not_done(
    mem, team, monkeypatch, who, text
):
    """Whatever its lead makes of it, where the blocker was settled after it had ended."""
    monkeypatch.setattr("orchestrator.turns.turn_loop.ANSWERS", 0)

    def script(seen):
        if who in seen.system:
            return text
        acts = (
            ALL
            if "the CTO" in seen.system
            else (*HALF, *TEST)
            if "a project lead" in seen.system
            else ()
        )
        if (
            seen.turn == len(acts)
            and acts
            and mem.as_agent("operator").read(namespace="blockers/*")
        ):
            for entry in mem.as_agent("operator").read(namespace="blockers/*"):
                mem.as_agent("cto").resolve(entry.id)
        return Move("", (acts[seen.turn],)) if seen.turn < len(acts) else "It is done."

    engine = Scripted(script)
    engine.name = "anthropic"
    with Supervisor(mem, engine=engine) as supervisor:
        report = asyncio.run(team.run(supervisor, "Say what you know", "hello"))
    assert (report.runs[-1].status, report.status) == ("done", "blocked")
    assert text.partition(": ")[2] in report.why
