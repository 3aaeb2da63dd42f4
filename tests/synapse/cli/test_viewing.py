import json

from synapse.cli import alias


def test_view_is_the_briefing(wrote, run):
    wrote("BREAKING: use /v2/users", "--priority", "critical")
    done = run("view", "eng-frontend")
    assert done.code == 0, done.err
    assert "## Critical" in done.out
    assert "BREAKING: use /v2/users" in done.out
    assert run("view", "--agent", "eng-frontend").out == done.out


def test_view_json_has_its_account(wrote, run):
    id = wrote("BREAKING: use /v2/users", "--priority", "critical")
    found = json.loads(run("view", "eng-frontend", "--budget", "2000", "--json").out)
    assert found["markdown"].startswith(
        run("view", "eng-frontend", "--budget", "2000").out.rstrip("\n")
    )
    assert [each["id"] for each in found["included"]] == [id]
    assert (found["budget"], found["left_out"]) == (2000, [])
    assert 0 < found["tokens"] <= 2000


def test_a_budget_that_holds_nothing_is_refused(wrote, run):
    wrote("x " * 200, "--priority", "critical")
    done = run("view", "eng-frontend", "--budget", "1", "--json")
    assert done.code == 8
    assert json.loads(done.err)["error"]["type"] == "OverBudget"


def test_write_puts_the_view_where_programs_find_it(wrote, run, team):
    wrote("BREAKING: use /v2/users", "--priority", "critical")
    shown = run("view", "eng-frontend").out
    done = run("view", "eng-frontend", "--write")
    assert done.code == 0
    path = team / "views" / "eng-frontend.md"
    assert done.out.strip().endswith("views/eng-frontend.md")
    assert path.read_text().rstrip("\n") == shown.rstrip("\n")
    assert [each.name for each in (team / "views").iterdir()] == ["eng-frontend.md"]
    assert run("view", "eng-frontend", "--department", "frontend", "--write").code == 0
    assert (team / "views" / "frontend.md").exists()


def test_the_view_of_a_department_needs_no_agent(wrote, run, team):
    wrote("BREAKING: use /v2/users", "--priority", "critical")
    wrote("for the lead", "--to", "agent:pl-brain", "--priority", "critical")
    shown = run("view", "--department", "frontend").out
    assert "/v2/users" in shown
    assert "for the lead" not in shown


def test_a_name_cannot_leave_the_folder(team, run):
    for words in (("../../evil",), ("eng-frontend", "--department", "../../evil")):
        done = run("view", *words, "--write")
        assert done.code in (64, 3)
        assert not list(team.parent.glob("**/evil*"))


def test_view_wants_to_know_whose(team, run):
    assert run("view").code == 64
    assert run("view", "eng-frontend", "--agent", "eng-backend").code == 64


def test_as_of_says_what_it_would_have_been_and_what_came_later(wrote, run):
    early = wrote("the early one", "--priority", "critical")
    entry = json.loads(run("read", early, "--json").out)["entries"][0]
    late = wrote("the late one", "--priority", "critical")
    done = run("view", "eng-frontend", "--as-of", entry["received"])
    assert done.code == 0, done.err
    view, _, after = done.out.partition("\n-- what came later and would have changed it:\n")
    assert "the early one" in view
    assert "the late one" not in view
    assert after == f"  {late} critical api/endpoints eng-backend: the late one\n"
    nothing = run("view", "eng-frontend", "--as-of", "2200-01-01").out
    assert nothing.endswith("would have changed it:\n  nothing\n")
    assert run("view", "eng-frontend", "--as-of", "1h", "--write").code == 64
    found = json.loads(run("view", "eng-frontend", "--as-of", entry["received"], "--json").out)
    assert [each["id"] for each in found["included"]] == [early]
    assert [each["id"] for each in found["later"]] == [late]
    assert run("view", "eng-frontend", "--as-of", "once").code == 64


def test_synapse_view(wrote, team, monkeypatch, capsys):
    wrote("BREAKING", "--priority", "critical")
    monkeypatch.setattr("sys.argv", ["synapse-view", "--agent", "eng-frontend", "--write"])
    assert alias("synapse-view") == 0
    assert "BREAKING" in (team / "views" / "eng-frontend.md").read_text()
