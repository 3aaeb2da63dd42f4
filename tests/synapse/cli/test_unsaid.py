"""Command lines that were once taken without a word, or refused in Python's."""

import pytest


@pytest.fixture
def here(run):
    assert run("init").code == 0
    assert run("register", "--id", "eng-a", "--role", "engineer").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("write --from eng-a --namespace status/web --tags ,,, Text", "',,,' names nothing"),
        ("register --id eng-b --read ,", "',' names nothing"),
        ("register --id eng-b --project", "the project 'P P' is not valid: a-z, 0-9"),
        ("register --id eng-b --team", "the team or department 'P P' is not valid"),
    ],
)
def test_what_names_nothing_is_refused(here, run, words, told):
    last = ["P P"] if words.endswith(("--project", "--team")) else []
    done = run(*words.split(), *last)
    assert (done.code, done.out) == (64, "")
    assert told in done.err


def test_an_empty_list_of_rights_is_still_none(here, run):
    assert run("register", "--id", "eng-c", "--role", "engineer", "--read", "").code == 0


def test_the_memory_of_nobody_is_not_served(here, run):
    pytest.importorskip("mcp")
    done = run("mcp", "--agent", "eng-aa")
    assert (done.code, done.out) == (3, "")
    assert "agent eng-aa is not registered; did you mean eng-a?" in done.err


# -- the specification's own lines, as they stand ------------------------------------------------

CONFIG = """\
agent:
  id: eng-frontend
  name: Frontend Engineer
  role: engineer
  department: frontend
  engine: claude-code
  model: opus-4.5
  authority: 60
  projects: [{project}]

subscriptions:
  read:
    - "projects/*"
    - "decisions/*"
    - "blockers/*"
    - "status/frontend"
  write:
    - "status/frontend"
    - "blockers/*"
  notify:
    - critical
"""
WRITE = (
    "write --from eng-frontend --namespace status/brain-suite --priority info"
    " --tags frontend,deployed --ttl 7d Deployed"
)
BLOCKED = "write --namespace blockers --priority critical Blocked"


@pytest.fixture
def config(run, tmp_path):
    assert run("init").code == 0

    def config(project):
        path = tmp_path / "shared-memory/agents/eng-frontend.yaml"
        path.write_text(CONFIG.format(project=project))

    return config


def test_a_member_of_a_project_writes_its_status_by_the_rights_of_the_document(run, config):
    config("brain-suite")
    assert run(*WRITE.split()).code == 0


def test_who_is_no_member_is_told_how_to_be_one(run, config):
    config("another")
    done = run(*WRITE.split())
    assert done.code == 4
    assert "a member of the project brain-suite may (`projects:` in its file)" in done.err


def test_where_one_agent_is_meant_it_is_meant(run, config):
    config("brain-suite")
    done = run(*BLOCKED.split())
    assert (done.code, done.out[:4]) == (0, "syn-")
    assert "as eng-frontend, the only agent that can be meant" in done.err
    assert run("register", "--id", "eng-b", "--role", "engineer").code == 0
    done = run(*BLOCKED.split())
    assert (done.code, done.out) == (64, "")
    assert "missing --from AGENT" in done.err


def test_a_letter_is_from_who_is_not_its_receiver(here, run):
    assert run("register", "--id", "nova", "--role", "engineer").code == 0
    letter = ["send", "--to", "nova", "--subject", "Gates", "--body", "What of them?"]
    done = run(*letter)
    assert done.code == 0
    assert "as eng-a, the only agent" in done.err
    assert run("register", "--id", "third", "--role", "engineer").code == 0
    assert run(*letter).code == 64
    done = run("approve", "syn-2026-01-01-001")
    assert (done.code, "that operator may see" in done.err) == (3, True), (
        "a ruling is the operator's own, and nobody is guessed"
    )
