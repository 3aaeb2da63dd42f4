import json
import os

import pytest

from synapse.cli.frame.scripts import COMMANDS
from synapse.cli.setup import skill


def test_init_makes_a_workspace_with_scripts(run, tmp_path):
    done = run("init")
    assert (done.code, done.out) == (0, f"{tmp_path}/shared-memory is ready\n")
    assert (tmp_path / "shared-memory" / "synapse.yaml").is_file()
    assert sorted(os.listdir(tmp_path / "shared-memory" / "bin")) == sorted(
        f"{name}.sh" for name in COMMANDS
    )


def test_init_takes_a_place(run, tmp_path, monkeypatch):
    assert run("init", tmp_path / "one").code == 0
    assert run("--root", tmp_path / "two", "init").code == 0
    monkeypatch.setenv("SYNAPSE_ROOT", str(tmp_path / "three"))
    assert json.loads(run("init", "--json").out)["root"] == str(tmp_path / "three")
    assert all((tmp_path / name / "synapse.yaml").is_file() for name in ("one", "two", "three"))


def test_init_again_keeps_what_is_there(wrote, run, team):
    wrote("still here")
    (team / "synapse.yaml").write_text((team / "synapse.yaml").read_text() + "# mine\n")
    assert run("init").code == 0
    assert "still here" in run("read").out
    assert (team / "synapse.yaml").read_text().endswith("# mine\n")


def test_init_where_it_cannot_be_made_says_so(run, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("init", tmp_path / "file" / "below")
    assert done.code == 6
    assert "file" in done.err
    assert "Traceback" not in done.err


def test_the_workspace_is_found(run, shell, tmp_path, monkeypatch):
    missing = run("read")
    assert missing.code == 3
    assert "synapse init" in missing.err
    assert run("init", tmp_path / "home" / "shared-memory").code == 0
    assert run("read").code == 0
    assert run("init").code == 0
    run("register", "--id", "here")
    assert "here" in run("agents").out
    assert "here" not in run("agents", "--root", tmp_path / "home" / "shared-memory").out
    monkeypatch.setenv("SYNAPSE_ROOT", "~/shared-memory")
    assert "here" not in run("agents").out
    assert "here" in run("agents", "--root", "shared-memory").out


def test_register_with_every_option(run, tmp_path):
    run("init")
    done = run(
        "register", "--id", "eng-backend", "--name", "Backend Engineer", "--role", "engineer", "--department",
        "backend", "--engine", "claude-code", "--model", "opus-4.5", "--authority", "65", "--read",
        "api/*,blockers/*", "--read", "status/*", "--write", "api/*", "--notify", "critical,important", "--team",
        "web", "--project", "brain", "--skill", "db=80:db/*,api/sql", "--user", "nova", "--review-required", "--json",
    )  # fmt: skip
    agent = json.loads(done.out)
    assert done.code == 0, done.err
    assert agent["id"] == "eng-backend"
    assert agent["read"] == ["api/*", "blockers/*", "status/*"]
    assert (agent["authority"], agent["notify"]) == (65, ["critical", "important"])
    assert agent["skills"][0] == {
        "domain": "db",
        "authority": 80,
        "namespaces": ["db/*", "api/sql"],
        "level": "proficient",
    }
    assert (agent["teams"], agent["projects"], agent["review_required"]) == (
        ["web"],
        ["brain"],
        True,
    )
    text = (tmp_path / "shared-memory" / "agents" / "eng-backend.yaml").read_text()
    assert "role: engineer" in text
    assert "department: backend" in text


def test_register_shows_the_rights_that_come_with_a_role(run):
    run("init")
    shown = run("register", "eng-web", "--department", "web").out
    assert shown.splitlines()[0] == "eng-web: engineer, authority 60"
    assert "  reads   projects/*, decisions/*, blockers/*, status/*" in shown
    assert "  member  of web" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--id ID"),
        (("--id", "a", "b"), "--id ID"),
        (("--id", "Eng Backend"), "agent id 'Eng Backend' is not valid"),
        (("--id", "operator"), "operator"),
        (("--id", "a", "--authority", "101"), "between 0 and 100"),
        (("--id", "a", "--authority", "high"), "whole number"),
        (("--id", "a", "--read", "../*"), "pattern"),
        (("--id", "a", "--notify", "loud"), "loud"),
        (("--id", "a", "--skill", "db:80"), "NAME=AUTHORITY:GLOB"),
    ],
)
def test_register_refuses_what_makes_no_sense(run, words, told):
    run("init")
    done = run("register", *words)
    assert (done.code, done.out) == (64, "")
    assert told in done.err
    assert run("agents").out == "no agents\n"


def test_skill():
    found = skill("data base=80:api/*, db/*")
    assert (found.domain, found.authority, found.namespaces) == ("data base", 80, ("api/*", "db/*"))


def test_agents_lists_by_authority_with_last_seen(wrote, run):
    wrote()
    lines = run("agents").out.splitlines()
    assert lines[0].split() == ["id", "role", "department", "authority", "last", "seen"]
    assert [line.split()[0] for line in lines[1:]] == [
        "pl-brain",
        "eng-backend",
        "eng-frontend",
        "junior",
    ]
    assert lines[2].split()[1:4] == ["engineer", "backend", "60"]
    assert lines[2].split()[4].endswith("Z")
    assert lines[3].endswith("never")
    assert max(map(len, lines)) <= 80
    found = {agent["id"]: agent for agent in json.loads(run("agents", "--json").out)["agents"]}
    assert found["eng-backend"]["last_seen"].endswith("Z")
    assert found["junior"]["last_seen"] is None
    assert found["junior"]["review_required"] is True


def test_registering_again_changes_the_agent(team, run):
    run("register", "--id", "junior", "--role", "engineer", "--authority", "61")
    found = {agent["id"]: agent for agent in json.loads(run("agents", "--json").out)["agents"]}
    assert found["junior"]["authority"] == 61
    assert "authority 40 -> 61" in run("log").out


def test_registering_again_tells_what_changed(run):
    run("init")
    words = ("--department", "web", "--write", "api/*,ui/*", "--review-required")
    assert run("register", "eng-web", *words).err == ""
    assert run("register", "eng-web", *words).err == ""
    done = run("register", "eng-web", "--department", "web", "--authority", "65")
    assert done.err == (
        "eng-web was declared before; what changed: authority 60 -> 65;"
        " write api/*, ui/* -> projects/*, status/*, blockers/*; review required yes -> no\n"
    )
    assert run("register", "eng-web", "--role", "engineer", "--json").err == ""


def test_a_role_that_is_misspelt_is_refused(team, run):
    for role, meant in (
        ("CTO", "cto"),
        ("lead", "project-lead"),
        ("Project-Lead", "project-lead"),
        ("enginer", "engineer"),
    ):
        done = run("register", "--id", "new", "--role", role)
        assert done.code == 64
        assert f"did you mean {meant}?" in done.err
    assert run("register", "--id", "new", "--role", "poet").code == 64
    own = ("--read", "api/*", "--write", "api/*", "--authority", "7")
    assert run("register", "--id", "new", "--role", "poet", *own).code == 0


def test_to_register_again_and_say_nothing_wipes_nothing(team, run):
    before = json.loads(run("agents", "--json").out)
    done = run("register", "--id", "eng-backend")
    assert done.code == 64
    assert "eng-backend is registered already: give its role and rights again" in done.err
    assert "read" in done.err, "what would be lost is said"
    assert json.loads(run("agents", "--json").out) == before
    assert run("register", "--id", "eng-backend", "--role", "engineer").code == 0
    assert run("register", "--id", "eng-backend").code == 0, "nothing would change"


def test_init_again_says_that_it_was_there(run, tmp_path):
    assert run("init").out.endswith("is ready\n")
    assert (
        run("init").out
        == f"{tmp_path}/shared-memory was a workspace already; nothing in it was changed\n"
    )
    assert json.loads(run("init", "--json").out)["there"] is True
