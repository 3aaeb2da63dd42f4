"""Which engine does the work where nobody names one, and that nothing begins where none does."""

import pytest

import synapse
from orchestrator import Supervisor, Task, Team
from orchestrator.engines.choice import Choice, NotNamed, chosen
from orchestrator.engines.protocol import NoEngine
from orchestrator.engines.scripted import Move, Scripted
from tests.model_server import ModelServer


@pytest.fixture(autouse=True)
def keyless(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path):
    with synapse.init(tmp_path / "ws") as memory:
        memory.register(synapse.Agent("lead", role="project-lead"))
        memory.register(synapse.Agent("eng-a"))
    return tmp_path / "ws"


@pytest.mark.parametrize(
    ("settings", "env", "expected"),
    [
        ({}, {}, Choice()),
        ({}, {"ANTHROPIC_API_KEY": ""}, Choice()),
        (
            {},
            {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"},
            Choice("anthropic", "claude-sonnet-5"),
        ),
        ({}, {"OPENAI_API_KEY": "k"}, Choice("openai", "gpt-5.4-mini")),
        ({"engine": "fast"}, {"OPENAI_API_KEY": "k"}, Choice("fast")),
    ],
)
def test_the_settings_go_before_the_first_key_that_is_set(settings, env, expected):
    assert chosen(settings, env) == expected


@pytest.mark.parametrize("named", [5, "", ["anthropic"]])
def test_what_names_no_engine_is_refused(named):
    with pytest.raises(synapse.InvalidEntry, match=r"in synapse\.yaml names none"):
        chosen({"engine": named}, {})


def test_a_file_names_no_class():
    with pytest.raises(NoEngine, match="no file of a workspace names a class"):
        chosen({"engine": "os:system"}, {})


def test_no_engine_and_no_key_begin_nothing(root):
    with synapse.open(root) as memory, Supervisor(memory) as supervisor:
        assert supervisor.default_engine is None
        with pytest.raises(NotNamed) as caught:
            supervisor.run(Task("Deploy to production", "eng-a"))
        assert supervisor.run_store.runs.all() == []
        assert len(memory.as_agent("eng-a").read()) == 0
    told, to_work, to_play = str(caught.value).splitlines()
    assert told == ("no engine is named for eng-a, and no key is set: nothing was begun.")
    assert "set ANTHROPIC_API_KEY or OPENAI_API_KEY" in to_work
    assert 'Supervisor(memory, engine="scripted")' in to_play
    assert caught.value.exit_code == 64


def test_a_team_in_which_somebody_has_no_engine_begins_nothing(root):
    engines = {"lead": Scripted(lambda seen: "- [eng-a] Do it")}
    with synapse.open(root) as memory:
        memory.register(synapse.Agent("lead", role="project-lead", engine="lead"))
        with Supervisor(memory, engines=engines) as supervisor:
            with pytest.raises(NotNamed, match="for eng-a"):
                supervisor._loop.run(
                    "run", "", lambda: Team("lead", ("eng-a",)).run(supervisor, "Do it")
                )
            assert supervisor.run_store.runs.all() == []


def test_a_lead_is_told_whom_nobody_gave_an_engine(root):
    def lead(seen):
        if not seen.turn:
            return Move(calls=[("spawn_agent", {"agent": "eng-a", "task": "Do it"})])
        return f"Blocked: {seen.messages[-1].text}"

    with synapse.open(root) as memory:
        memory.register(synapse.Agent("lead", role="project-lead", engine="lead"))
        with Supervisor(memory, engines={"lead": Scripted(lead)}) as supervisor:
            result = supervisor.run(Task("Have it done", "lead"))
            assert len(supervisor.run_store.runs.all()) == 1
    assert (result.status, "no engine is named for eng-a" in result.why) == ("blocked", True)


def test_the_agent_s_file_names_an_engine(root):
    with synapse.open(root) as memory:
        memory.register(synapse.Agent("eng-a", engine="mine"))
        engines = {"mine": Scripted(lambda seen: "It is done.")}
        with Supervisor(memory, engines=engines) as supervisor:
            assert supervisor.run(Task("Work", "eng-a")).text == "It is done."


def test_synapse_yaml_names_an_engine(root):
    with (root / "synapse.yaml").open("a") as file:
        file.write("engine: mine\n")
    engines = {"mine": Scripted(lambda seen: "It is done.")}
    with synapse.open(root) as memory, Supervisor(memory, engines=engines) as own:
        assert own.default_engine == "mine"
        assert own.run(Task("Work", "eng-a")).text == "It is done."


def test_a_key_names_an_engine_and_its_model(root, monkeypatch):
    with ModelServer(lambda seen: "By a model.") as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with synapse.open(root) as memory, Supervisor(memory) as supervisor:
            result = supervisor.run(Task("Work", "eng-a"))
            run = supervisor.run_store.known(result.run)
    assert result.text == "By a model."
    assert (run.fields["engine"], run.fields["model"]) == ("anthropic", "claude-sonnet-5")
