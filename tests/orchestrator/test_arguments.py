"""Every argument of a supervisor, a task and a team, given values of other types: an error in
words, or it works.
"""

import asyncio
import datetime
import inspect
import os
import pathlib
from functools import partial

import pytest

import synapse
from orchestrator import Supervisor, Task, Team
from orchestrator.engines.scripted import Scripted
from orchestrator.runs.records import Run
from orchestrator.spend.limits import Limits
from orchestrator.tools import tool_of
from synapse.errors import SynapseError

WRONG = {
    "a number": 30,
    "a negative": -1,
    "a fraction": 1.5,
    "nan": float("nan"),
    "true": True,
    "none": None,
    "bytes": b"text",
    "a text": "text",
    "no text": "",
    "a number as text": "1",
    "half a character": "\ud800",
    "a zero": "a\0b",
    "a list": ["text"],
    "numbers": [5],
    "nothing": [],
    "a dict": {"a": 1},
    "an object": object(),
    "a class": int,
    "a datetime": datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC),
    "a path": pathlib.Path("nowhere"),
    "huge": 10**30,
}
LEFT_OUT = {"attempts", "lease"}  # numbers that are only compared
RIGHT = {"task": Task("Work", "eng-a"), "run": "eng-a-1", "brief": "Work"}


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with synapse.init(tmp_path / "shared-memory") as memory:
        memory.register(synapse.Agent("eng-a", read=("*",), write=("*",)))
        memory.register(synapse.Agent("lead", role="cto"))
        yield memory


def refusal(what, call):
    """The error in words that a call ends with, None where it works; whatever else comes out fails
    the test.
    """
    try:
        found = call()
        if inspect.iscoroutine(found):
            asyncio.run(asyncio.wait_for(found, 20))
    except SynapseError as error:
        assert str(error), what  # noqa: PT017
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return None


OPTIONS = [name for name in inspect.signature(Supervisor).parameters if name not in LEFT_OUT]


@pytest.mark.parametrize("option", OPTIONS)
def test_the_options_of_a_supervisor(memory, option):
    for what, value in WRONG.items():
        given = {"memory": memory, "engine": Scripted(lambda seen: "Done.")} | {option: value}

        def begin(given=given, what=what):
            with Supervisor(**given) as supervisor:
                supervisor.run(Task(f"Work on {what}", "eng-a"))

        refusal(what, begin)


METHODS = {
    name: function
    for name, function in vars(Supervisor).items()
    if inspect.isfunction(function) and not name.startswith("_") and name != "close"
}
ARGUMENTS = [
    pytest.param(name, parameter, id=f"{name}({parameter})")
    for name in ("run", "spawn", "start", "result", "resume", "stop")
    for parameter in list(inspect.signature(METHODS[name]).parameters)[1:]
]


@pytest.mark.parametrize(("name", "wrong"), ARGUMENTS)
def test_the_arguments_of_a_supervisor(memory, name, wrong):
    with Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor:
        for what, value in WRONG.items():
            if (wrong, what) in (("parent", "none"), ("id", "none"), ("root", "none")):
                continue  # that is right
            given = {wrong: value}
            for parameter in list(inspect.signature(METHODS[name]).parameters.values())[1:]:
                if parameter.default is inspect.Parameter.empty and parameter.name != wrong:
                    given[parameter.name] = RIGHT[parameter.name]
            refusal(what, partial(getattr(supervisor, name), **given))


@pytest.mark.parametrize("field", Task._fields)
def test_the_fields_of_a_task(memory, field):
    with Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor:
        for what, value in WRONG.items():
            task = Task(f"Work on {what}", "eng-a")._replace(**{field: value})
            before = memory.store.log.mark()
            if refusal(what, partial(supervisor.run, task)) is not None:
                assert memory.store.log.mark() == before, f"{what}: a run began all the same"


@pytest.mark.parametrize("field", Team._fields)
def test_the_fields_of_a_team(memory, field):
    for what, value in WRONG.items():
        with Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor:
            team = Team("lead", ("eng-a",))._replace(**{field: value})
            refusal(what, partial(team.run, supervisor, f"{field} {what}"))


@pytest.mark.parametrize("wrong", ["supervisor", "brief", "project", "once"])
def test_the_arguments_of_a_team(memory, wrong):
    for what, value in WRONG.items():
        with Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor:
            given = {"supervisor": supervisor, "brief": "Work"} | {wrong: value}
            refusal(what, partial(Team("lead", ("eng-a",)).run, **given))


def test_a_team_s_file(memory, tmp_path):
    for what, value in WRONG.items():
        refusal(what, partial(Team.from_yaml, value))
    (tmp_path / "team.yaml").write_text("lead: lead\nengineers: [eng-a]\n")
    assert Team.from_yaml(tmp_path / "team.yaml") == Team.from_yaml(str(tmp_path / "team.yaml"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "binary", tmp_path):
        with pytest.raises(SynapseError, match="cannot be read"):
            Team.from_yaml(path)


@pytest.mark.parametrize("address", [str, pathlib.Path])
def test_a_supervisor_opens_a_workspace_and_closes_it(memory, tmp_path, address):
    def files():
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sorted(path for link in links if str(tmp_path) in (path := os.path.realpath(link)))

    memory.close()
    with Supervisor(
        address(tmp_path / "shared-memory"), engine=Scripted(lambda seen: "Done.")
    ) as supervisor:
        assert supervisor.run(Task("Work", "eng-a")).status == "done"
    assert not os.path.isdir("/proc/self/fd") or files() == []
    with pytest.raises(SynapseError, match="there is no workspace"):
        Supervisor(address(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"engine": "scriptd"}, "there is no engine 'scriptd'; did you mean scripted?"),
        ({"engine": "warp"}, "it is one of scripted, anthropic"),
        ({"engine": 5}, "write the name of one, such as anthropic"),
        ({"memory_tools": "sometimes"}, "not one of auto, always, never"),
        ({"tools": [5]}, "5 is no tool: give a function"),
        ({"limits": {"turns": 5}}, "write a Limits or None"),
        ({"seed": "7"}, "seed is '7', a str: write a whole number or None"),
    ],
)
def test_what_is_wrong_is_found_before_anything_begins(memory, given, told):
    with pytest.raises(SynapseError) as caught:
        Supervisor(memory, **given)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (
            "Work",
            (
                "task is 'Work', a str: write a Task, such as Task('Fix the page',"
                " agent='eng-frontend')"
            ),
        ),
        (Task("Work", "eng-a", max_usd="1"), "task: max_usd is '1', a str: write a number or None"),
        (Task(b"Work", "eng-a"), "task: text is b'Work', a bytes: write a text"),
        (
            Task("Work", "eng-a", memory_tools="often"),
            "memory_tools 'often' is not one of auto, always, never",
        ),
        (
            Task("Work", "eng-a", view_budget="big"),
            "view_budget 'big' is neither auto nor a number of tokens",
        ),
        (Task("", "eng-a"), "the task is empty: say what is to be done"),
        (Task(" \n", "eng-a"), "the task is empty"),
        (Task("Work", "eng_a"), "agent eng_a is not registered; did you mean eng-a?"),
    ],
)
def test_a_task_that_cannot_be_begun_says_why(memory, task, told):
    with (
        Supervisor(memory, engine=Scripted(lambda seen: "Done.")) as supervisor,
        pytest.raises(SynapseError) as caught,
    ):
        supervisor.run(task)
    assert told in str(caught.value)
    assert not memory.store.index.current.runs()


def port(service: str) -> int:
    """Return a port."""
    return 8080


def other(service: str) -> int:
    """Return another port."""
    return 8081


def test_what_a_supervisor_has_for_people_is_all_that_is_public():
    public = {name for name in vars(Supervisor) if not name.startswith("_")}
    methods = {name for name in public if callable(getattr(Supervisor, name))}
    assert methods == set("run resume spawn start result recover take_over stop close".split())


def test_two_tools_of_one_name_are_refused(memory):
    engine = Scripted(lambda seen: "Done.")
    for tools in ([port, port], [port, tool_of(other, name="port")]):
        with pytest.raises(SynapseError, match="two tools are called port"):
            Supervisor(memory, engine=engine, tools=tools)
    renamed = [port, tool_of(port, name="port_of")]
    Supervisor(memory, engine=engine, tools=renamed).close()


def test_a_supervisor_that_is_closed_says_so(memory):
    supervisor = Supervisor(memory, engine=Scripted(lambda seen: "Done."))
    supervisor.close()
    for act in (lambda: supervisor.run(Task("Work", "eng-a")), supervisor.resume):
        with pytest.raises(SynapseError, match="this supervisor is closed"):
            act()
    supervisor.close()


def test_the_values_that_are_right_pass(memory):
    with Supervisor(
        memory, engine="scripted", limits=Limits(turns=3), mcp=[], tools=(), seed=1, model="m"
    ) as supervisor:
        assert (
            supervisor.run(Task("Work", "eng-a", max_usd=1, timeout=30, view_budget="500")).status
            == "played"
        )
    assert issubclass(Run, tuple)
