"""`ps`, `tree`, `stats`: from the records and the files alone."""

import json

import pytest

from orchestrator.cli.verbs import VERBS


@pytest.fixture
def family(office):
    """A lead with two engineers, one of whom still works."""
    office.begin("lead-1", "lead", task="Ship the shop", role="project-lead")
    office.begin("eng-a-1", "eng-a", "lead-1", "lead-1")
    office.begin("eng-b-1", "eng-b", "lead-1", "lead-1", task="Draw it")
    office.turn("eng-a-1", 1, "x")
    office.end("eng-a-1", summary="The API stands")
    office.turn("eng-b-1", 1, "x", usage=(1_000, 234), cost=0.5, agent="eng-b")
    return office


def test_ps_shows_what_runs(family, run):
    done = run("ps")
    assert done.code == 0
    head, *rows = done.out.splitlines()
    names = ["run", "state", "turns", "own tokens", "own cost", "time", "task"]
    assert head.split() == " ".join(names).split()
    assert [row.split()[0] for row in rows] == ["eng-b-1", "lead-1"]
    assert rows[0].split()[1:5] == ["running", "1", "1,234", "$0.5000"]
    assert rows[1].endswith("Ship the shop")


def test_ps_tells_whose_supervisor_is_gone(family, run):
    family.holder.close()
    shown, waits = run("ps").out.split("\n\nwaits for you:\n")
    assert [line.split()[1] for line in shown.splitlines()[1:]] == ["orphaned", "orphaned"]
    assert waits.endswith("    orchestrator resume lead-1\n")


def test_a_session_whose_client_has_closed_is_no_orphan(office, run):
    office.begin("lead-1", "lead", attached="s1")
    office.holder.close()
    assert run("ps").out.splitlines()[1].split()[1] == "closed"


def test_what_is_left_alone_says_what_it_waits_for(office, run, monkeypatch):
    """As `resume` would find it, called in the same place."""
    engines = {"anthropic": {"kind": "anthropic", "key": "ANTHROPIC_API_KEY"}}
    office.begin("lead-1", "lead", role="project-lead", needs={"engines": engines})
    tools = {"slow(page)": "0123456789abcdef"}
    office.begin("eng-a-1", "eng-a", "lead-1", "lead-1", needs={"engines": engines, "tools": tools})
    office.begin("eng-b-1", "eng-b", needs={"engines": engines})
    assert "waits" not in run("ps").out  # its supervisor lives
    office.holder.close()
    own = "waits for its own program: tool slow(page), key ANTHROPIC_API_KEY"
    key = "waits for its own program: key ANTHROPIC_API_KEY"
    lines = [f"eng-b-1 {key}", f"eng-a-1 {own}", f"lead-1 {key}"]
    assert run("ps").out.partition("\n\n")[0].splitlines()[4:] == lines
    assert sorted(run("tree").out.splitlines()[3:]) == sorted(lines)
    assert [each["waits"] for each in run("ps", "--json").json["runs"]] == [key, own, key]
    assert run("tree", "lead", "--json").json["trees"][0]["children"][0]["waits"] == own
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    own = own.removesuffix(", key ANTHROPIC_API_KEY")
    assert run("ps").out.partition("\n\n")[0].splitlines()[4:] == [
        f"eng-a-1 {own}",
        f"lead-1 waits for eng-a-1, which {own}",
    ]
    run("stop", "eng-a-1")  # to end, it needs nothing
    shown = run("ps").out
    assert "waits for its own program" not in shown
    assert "eng-a-1  stopped\n" in shown


def test_what_a_run_waits_for_stays_text(office, run):
    office.begin("r", needs={"engines": {}, "tools": {"\x1b[2Jslow(page)": "0"}})
    office.holder.close()
    assert "\x1b" not in run("ps").out + run("tree").out


def test_ps_all_and_filters(family, run):
    assert len(run("ps", "--all").out.splitlines()) == 4
    assert "Do it\nwell" not in run("ps", "--all").out
    assert len(run("ps", "--all", "--limit", "1").out.splitlines()) == 2
    assert [
        each["run"] for each in run("ps", "--all", "--agent", "eng-a", "--json").json["runs"]
    ] == ["eng-a-1"]
    assert (
        run("ps", "--project", "nothing").out
        == "nothing runs; `orchestrator ps --all` lists what ran\n"
    )


def test_ps_says_what_is_not_done_and_why(family, run):
    family.begin("eng-a-2", "eng-a", task="Draw\nit", project="other")
    family.end("eng-a-2", status="blocked", summary="Blocked: no key", why="no key\nat all")
    head, *rows = run("ps").out.split("\n\n")
    assert [line.split()[0] for line in head.splitlines()] == ["run", "eng-b-1", "lead-1"]
    assert rows == [
        "ended in the last 24 hours, and not done:\neng-a-2  blocked\n  no key at all\n"
    ]
    assert [each["run"] for each in run("ps", "--json").json["not_done"]] == ["eng-a-2"]
    assert "not done" not in run("ps", "--project", "web").out
    table = run("ps", "--all").out.splitlines()
    assert table[-2:] == ["eng-a-2  blocked", "  no key at all"]
    assert "no key" in run("tree", "eng-a-2").out


def test_ps_json_has_the_figures_of_a_run_that_runs(family, run):
    found = run("ps", "--json").json["runs"][0]
    assert (found["state"], found["turns"], found["tokens"], found["cost"]) == (
        "running",
        1,
        1_234,
        0.5,
    )


def test_tree(family, run):
    lines = run("tree").out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["lead-1", "├─ eng-a-1", "└─ eng-b-1"]
    assert lines[1].endswith("The API stands")
    assert run("tree", "eng-b").out.startswith("eng-b-1  running  1,234 tokens, $0.5000, ")
    assert lines[0].startswith("lead-1  running  in all 3 runs, 1,354 tokens, $0.5100, ")
    assert "; its own 0 tokens, -  " in lines[0]
    nested = run("tree", "--json").json["trees"]
    assert (nested[0]["cost"], nested[0]["total"]["cost"]) == (None, 0.51)
    assert [child["run"] for child in nested[0]["children"]] == ["eng-a-1", "eng-b-1"]


def test_tree_of_a_tree(office, run):
    office.begin("a")
    office.begin("b", parent="a", root="a")
    office.begin("c", parent="b", root="a")
    office.begin("d", parent="a", root="a")
    assert [line.split("  running")[0] for line in run("tree").out.splitlines()] == [
        "a",
        "├─ b",
        "│  └─ c",
        "└─ d",
    ]
    assert [line.split("  running")[0] for line in run("tree", "b").out.splitlines()] == [
        "b",
        "└─ c",
    ]


def test_a_run_by_the_beginning_of_its_name(family, run):
    assert run("tree", "eng").code == 5
    assert (
        "eng-a-1, eng-b-1" in run("tree", "eng").err or "eng-b-1, eng-a-1" in run("tree", "eng").err
    )
    assert run("tree", "nobody").code == 3


def test_stats(family, run):
    done = run("stats")
    table, note = done.out.split("\noverhead: ")
    assert note.startswith("tokens that memory took")
    assert "as a share of the tokens of the work" in " ".join(note.split())
    assert "100 %" in note
    assert "5 %" not in note
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert rows["backend"] == ["1", "1", "0", "0", "0", "0", "120", "$0.0100", "11.1%"]
    assert rows["frontend"][:5] == ["1", "0", "0", "0", "1"]
    assert rows["in"] == ["all", "3", "1", "0", "0", "2", "0", "1,354", "$0.5100", "11.1%"]
    assert [each["name"] for each in run("stats", "--by", "agent", "--json").json["groups"]] == [
        "eng-a",
        "eng-b",
        "lead",
    ]
    assert run("stats", "--since", "2030-01-01").out == "no runs\n"
    assert run("stats", "--by", "moon").code == 64
    for verb in ("stats", "wakes"):
        assert run(verb, "--since", "last tuesday").code == 0
        assert "yesterday" in run(verb, "--since", "once").err


def test_stats_tell_what_sessions_of_clients_were_told(office, run):
    assert "sessions of coding clients" not in run("stats").out
    office.begin("lead-1", "lead", task="A session")
    office.end("lead-1", notices={"change": [2, 90, 0, 0], "unchanged": [1, 40, 12_000, 3_500]})
    done = run("stats")
    told = done.out.partition("\ntold")[2].splitlines()
    assert told[0].split() == ["times", "tokens", "named", "read", "again"]
    assert [line.split() for line in told[1:3]] == [
        ["change", "2", "90", "0", "0"],
        ["unchanged", "1", "40", "12,000", "3,500"],
    ]
    rows = run("stats", "--json").json["notices"]
    assert rows[1] == {
        "kind": "unchanged",
        "times": 1,
        "tokens": 40,
        "named": 12_000,
        "again": 3_500,
    }
    assert run("stats", "--since", "2030-01-01", "--json").json["notices"] == []


def test_stats_count_blockers_that_ended_no_run(family, run):
    """A run may report two and be done, or be blocked without one."""
    agent_memory = family.memory.as_agent("eng-a")
    for text in ("No key", "No disk"):
        agent_memory.append(text, "blockers/web", priority="critical")
    agent_memory.append("Only a note", "blockers/web", priority="info")
    family.memory.as_agent("lead").append("No budget", "blockers/shop", priority="critical")

    def blockers(*words):
        return {
            each["name"]: each["blockers"] for each in run("stats", *words, "--json").json["groups"]
        }

    assert blockers() == {"-": 1, "backend": 2, "frontend": 0}
    assert blockers("--by", "project") == {"shop": 1, "web": 2}
    assert blockers("--by", "agent") == {"eng-a": 2, "eng-b": 0, "lead": 1}
    assert blockers("--by", "role") == {"engineer": 2, "project-lead": 1}
    assert blockers("--by", "model") == {"m": None}
    assert run("stats", "--json").json["all"]["blockers"] == 3
    assert run("stats", "--json").json["all"]["blocked"] == 0


def test_hostile_text_stays_text(office, run):
    office.begin("r", task="\x1b[2J\u202eevil\nmore")
    for verb in ("ps", "tree"):
        assert "\x1b" not in run(verb).out
        assert "\u202e" not in run(verb).out
    assert json.loads(run("ps", "--json").out)["runs"][0]["task"] == "\x1b[2J\u202eevil\nmore"


def test_an_empty_workspace(office, run):
    for words in (["ps"], ["ps", "--all"], ["tree"], ["stats"], ["unread"], ["wakes"]):
        done = run(*words)
        assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_spawned_run_is_refused(office, run, monkeypatch, verb):
    monkeypatch.setenv("SYNAPSE_RUN", "r:1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-a")
    needs = {"run": ["--agent", "eng-a", "x"], "team": ["--project", "p"]}
    needs |= {
        "answer": ["r", "x"],
        "say": ["x"],
        "completion": ["bash"],
        "install": ["codex"],
        "uninstall": ["codex"],
    }
    done = run(
        verb,
        *needs.get(
            verb, ["r"] if verb in ("tail", "replay", "receipt", "stop", "defrag-agent") else []
        ),
    )
    assert (done.code, done.out) == (4, "")
    assert f"may not call `orchestrator {verb}`" in done.err
