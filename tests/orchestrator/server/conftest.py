"""A served workspace with runs in it, as a supervisor leaves them, and a browser's client."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
CSRF = re.compile(r'name="synapse-csrf" content="([^"]+)"')


def load(path):
    spec = spec_from_file_location(path.replace("/", "_")[:-3], TESTS / path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


served = load("synapse/server/conftest.py")
serve, serve_memory = served.serve, served.serve_memory
Office = load("orchestrator/cli/conftest.py").Office


@pytest.fixture
def site(serve, hire):
    """A server with a team that has done nothing yet; `site.office` writes its runs."""
    site = serve()
    hire(site)
    return site


@pytest.fixture
def hire():
    """A function that gives a server a team, whose supervisor lives as long as the test."""
    hired = []

    def hire(site):
        site.office = Office(site.memory)
        hired.append(site.office)

    yield hire
    for office in hired:
        office.holder.close()


@pytest.fixture
def worked(site):
    """A team that worked: a lead with two children, one of them at work."""
    have_worked(site.office)
    return site


@pytest.fixture
def fill(hire):
    """A function that gives a server a team that worked."""

    def fill(site):
        hire(site)
        have_worked(site.office)

    return fill


def have_worked(office):
    office.begin("lead-1", agent="lead", task="Build it")
    office.prompt("lead-1", agent="lead")
    office.turn("lead-1", 1, "", [("c1", "spawn_agent", {"agent": "eng-a"})], agent="lead")
    office.begin("eng-1", parent="lead-1", root="lead-1", task="The API")
    office.prompt("eng-1", ["syn-2026-01-01-001"])
    office.turn("eng-1", 1, "It is there.")
    office.end("eng-1", summary="It is there.")
    office.begin("eng-2", agent="eng-b", parent="lead-1", root="lead-1", task="The page")
    office.turn("eng-2", 0, "I begin.", agent="eng-b")


@pytest.fixture
def operator(site):
    return site.client("operator")


@pytest.fixture
def browser(site):
    """A client whose browser is logged in as the operator."""
    client = site.client()
    code = site.app.state.serving.browsers.link("operator")
    assert client.post("/login", data={"code": code}).status_code == 303
    client.headers["x-synapse-csrf"] = CSRF.search(client.get("/").text)[1]
    return client
