"""The guides of the frameworks run as they stand, each in an environment of its own, against a model
server on loopback: what the requests hold, and what happens where the memory fails.
"""

import json
import os
import re
import subprocess
import tomllib
from inspect import signature
from itertools import pairwise

import pytest

from bench.matrix import FRAMEWORKS
from orchestrator.engines.scripted import Move
from synapse.system.tokens import Tokens
from synapse.trust.bearer import new_token
from tests.model_server import ModelServer
from tests.pages import DOCS, ROOT, blocks, read
from tests.server_process import process
from tests.synapse.adapters import playing

VIEW, CRITICAL = "the users are at /v2/users", "Stop: use /v3/users."
BESIDE = {"langchain": ["langchain-openai"]}  # a model of OpenAI's, which the guides ask
PACKAGES = {"pydantic-ai": "pydantic-ai-slim"}
PARTS = {"pydantic-ai": "[openai]"}
ADAPTERS = ("langchain", "pydantic-ai", "openai-agents")
WAYS, FAULTS = ("--in-a-loop", "--remote"), ("lock held", "folder gone", "server down")
# One framework runs each time; the others in the soak, and each in its oldest version.
some = [
    pytest.param(name, marks=[] if name == "langchain" else pytest.mark.soak) for name in ADAPTERS
]


def asked(name, lowest=False):
    """Return what the environment of an adapter is made of: exactly the version that was tried, or
    the lowest that its extra takes.
    """
    with (ROOT / "pyproject.toml").open("rb") as file:
        (wanted,) = tomllib.load(file)["project"]["optional-dependencies"][name]
    package, low = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+),<[\d.]+", wanted).groups()
    assert package == PACKAGES.get(name, name)
    version = low if lowest else FRAMEWORKS[package]
    return [f"{package}{PARTS.get(name, '')}=={version}", *BESIDE.get(name, [])]


def script(seen):
    """Call the guide's tool, then one of the memory's, then say what the memory says."""
    if seen.turn == 0:
        return Move("", (("build", {}),))
    if seen.turn == 1:
        return Move("", (("memory_search", {"query": "users"}),))
    return "The page shows " + ("/v3/users." if CRITICAL in seen.text else "/v2/users.")


class Played:
    def __init__(self, done, server):
        self.done = done
        self.bodies = [taken.body for taken in server.journal]
        self.texts = [json.dumps(body) for body in self.bodies]

    @property
    def rows(self):
        """Return how often the view and the critical entry stand in each request."""
        return [(told(text, VIEW), told(text, CRITICAL)) for text in self.texts]


def told(text, what):
    """Return how often a text has something whole; pointers, as a search answers, are none."""
    return text.count(f"  > {what}")


@pytest.fixture
def play(environment, tmp_path):
    def played(name, *options, lowest=False):
        python = environment(*asked(name, lowest))
        page, place = DOCS / f"how-to/{name}.md", tmp_path / "place"
        place.mkdir()
        env = {"PATH": f"{ROOT}/.venv/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
        env |= {key: os.environ[key] for key in ("TMPDIR", "XDG_STATE_HOME")}
        prepare = next(block.code for block in blocks(read(page)) if block.language == "bash")
        subprocess.run(["bash", "-euc", prepare], cwd=place, env=env, check=True)
        token = new_token(str(tmp_path / "tokens"), "eng")
        with ModelServer(script) as models, process(place / "shared-memory", tmp_path) as server:
            env |= {"OPENAI_BASE_URL": f"{models.url}/v1", "OPENAI_API_KEY": "any"}
            env |= {"SERVER": server.address, "TOKEN": token, "PYTHONPATH": str(ROOT)}
            env |= {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
            command = [str(python), playing.__file__, str(page), *options]
            done = subprocess.run(
                command, cwd=place, env=env, capture_output=True, text=True, timeout=200
            )
            assert done.returncode == 0, done.stderr
            return Played(done, models)

    return played


def shown(name):
    """Return what the guide says that it prints."""
    return next(b for b in blocks(read(DOCS / f"how-to/{name}.md")) if b.language == "python").shown


@pytest.mark.parametrize(
    "options", [(), *(pytest.param((way,), marks=pytest.mark.soak) for way in WAYS)], ids=str
)
@pytest.mark.parametrize("name", some)
def test_a_guide_runs_and_each_request_holds_what_it_says(play, name, options):
    run = play(name, *options)
    assert run.done.stdout == shown(name)
    assert run.rows == [(1, 0), (1, 1), (1, 1)]
    assert "the run goes on without" not in run.done.stderr
    check_prefixes(run.bodies)
    check_places(run.bodies)


@pytest.mark.soak
@pytest.mark.parametrize("name", ADAPTERS)
def test_the_lowest_version_does_as_well(play, name):
    assert play(name, lowest=True).rows == [(1, 0), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    "fault", ["raises", *(pytest.param(fault, marks=pytest.mark.soak) for fault in FAULTS)]
)
@pytest.mark.parametrize("name", some)
def test_a_fault_of_the_memory_is_said_once_and_ends_no_run(play, name, fault):
    run = play(name, "--fault", fault)
    assert run.done.stdout == "The page shows /v2/users.\n"
    assert run.rows == [(1, 0)] * 3
    assert run.done.stderr.count("the run goes on without") == 1, run.done.stderr


def items(body):
    """Return what a request says, in its order, the system's text first."""
    first = [body["instructions"]] if body.get("instructions") else []
    return first + list(body.get("messages") or body["input"])


def check_prefixes(bodies):
    """Each request begins with the one before it: the provider's cache holds."""
    for before, after in pairwise(bodies):
        assert items(after)[: len(items(before))] == items(before)
        assert after["tools"] == before["tools"]


def check_places(bodies):
    """The system speaks first and once, and a tool's result stands behind its call."""
    for body in bodies:
        said = items(body)
        roles = [item.get("role") if isinstance(item, dict) else "system" for item in said]
        assert [role in ("system", "developer") for role in roles] == [True] + [False] * (
            len(roles) - 1
        )
        for at, item in enumerate(said):
            if isinstance(item, dict) and (
                item.get("role") == "tool" or item.get("type") == "function_call_output"
            ):
                id = item.get("tool_call_id") or item["call_id"]
                assert id in json.dumps(said[at - 1]), "directly"


@pytest.mark.parametrize("spoiled", ["a view that moves", "a result that is moved"])
def test_the_checks_see_what_is_wrong(spoiled):
    call = {"role": "assistant", "tool_calls": [{"id": "c1"}]}
    result, news = {"role": "tool", "tool_call_id": "c1"}, {"role": "user", "content": "news"}
    first = {"messages": [{"role": "system", "content": "view"}, {"role": "user"}], "tools": []}
    good = {"messages": [*first["messages"], call, result, news], "tools": []}
    check_prefixes([first, good])
    check_places([first, good])
    if spoiled == "a view that moves":
        bad = {
            **good,
            "messages": [{"role": "system", "content": "another"}, *good["messages"][1:]],
        }
        with pytest.raises(AssertionError):
            check_prefixes([first, bad])
    else:
        bad = {**good, "messages": [*first["messages"], call, news, result]}
        with pytest.raises(AssertionError):
            check_places([first, bad])


def test_the_page_says_what_the_tools_take():
    from synapse.adapters.tools import tools

    schemas = [
        {
            "type": "function",
            "function": {
                "name": tool.__name__,
                "description": tool.__doc__,
                "parameters": {name: {"type": "string"} for name in signature(tool).parameters},
            },
        }
        for tool in tools(None)
    ]
    (row,) = re.findall(r"`memory_search`.*\| (\d+) \|", read(DOCS / "how-to/frameworks.md"))
    assert int(row) * 0.7 < Tokens().count(json.dumps(schemas)) < int(row)
