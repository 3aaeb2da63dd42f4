"""The documents are true: the code of README.md and docs/ runs as it stands and prints what is shown.

Each page is run from its top in a folder of its own.
"""

import re

import pytest

from orchestrator.spend.limits import policy
from synapse.formats.declared import read_settings
from synapse.formats.keys import SETTINGS, strays
from synapse.model.settings import Settings
from synapse.system import yaml
from tests.model_server import ModelServer
from tests.pages import (
    DOCS,
    PAGES,
    README,
    Block,
    blocks,
    environment,
    fences,
    masked,
    name_of,
    read,
    run,
)

LANGUAGES = {"nginx", "bash", "python", "text", "yaml", "markdown"}
FRAMEWORKS = ("langchain", "openai-agents", "pydantic-ai")
LOOPBACK = {
    DOCS / f"how-to/{name}.md"
    for name in ("a2a", "events", "remote", "server", "testing", "webhooks")
}  # pages that start a server
# Those of frameworks, each with an environment of its own: tests/synapse/adapters runs them.
APART = {DOCS / f"how-to/{name}.md" for name in FRAMEWORKS}


@pytest.fixture
def home(tmp_path):
    return tmp_path.resolve()


@pytest.fixture
def env(home):
    return environment(home)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(read(page)) and page not in APART], ids=name_of
)
def test_code_runs_and_prints_what_is_shown(page, home, env):
    """All of a page, in its order, in one folder."""
    place = home / "here"
    place.mkdir()
    env = env | ({"DOCS_MAY_USE_LOOPBACK": "1"} if page in LOOPBACK else {})
    for block in blocks(read(page)):
        done = run(block, place, env)
        where = f"{name_of(page)}:{block.line}"
        assert (where, done.code, done.complaint) == (where, 0, ""), done.printed + done.complaint
        if block.shown is not None:
            assert masked(done.printed, str(place)) == masked(block.shown), where


def test_a_page_can_be_followed_in_one_terminal(home, env):
    """Of the blocks that change the folder, each comes back to where the next one is meant."""
    code = [block.code for block in blocks(read(DOCS / "how-to/workspace.md"))]
    done = run(Block(1, "bash", "", "\n".join(code)), home, env)
    assert (done.code, done.complaint) == (0, ""), done.printed
    assert (home / "shared-memory/.gitignore").is_file()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_is_an_output(page):
    text = read(page)
    assert {block.language for block in fences(text)} <= LANGUAGES
    assert text.count("```") == 2 * len(fences(text))


@pytest.mark.parametrize("page", [page for page in PAGES if "```yaml" in read(page)], ids=name_of)
def test_settings_that_are_shown_are_valid(page):
    """A block of YAML is a part of synapse.yaml."""
    for block in fences(read(page)):
        if block.language == "yaml":
            fields = yaml.load(block.code, depth=4, typed=True)
            assert [stray.path for stray in strays(fields, SETTINGS)] == [], block.line
            assert read_settings(block.code, "synapse.yaml", Settings())[1] == (), block.line
            policy(fields)


def test_the_check_sees_a_failing_block(home, env):
    assert run(Block(1, "bash", "", "false\ntrue\n"), home, env).code == 1
    assert run(Block(1, "python", "", "raise SystemExit(3)"), home, env).code == 3
    assert masked("syn-2026-02-01-001 now") == masked("syn-2027-12-31-001 now")
    assert masked("syn-2026-02-01-001 now") != masked("syn-2026-02-01-002 now")
    assert (
        masked("2 passed in 0.50s")
        == masked("2 passed in 1.25s")
        != masked("1 failed, 1 passed in 0.50s")
    )


@pytest.mark.parametrize(
    "call", ["create_connection(('localhost', 9))", "getaddrinfo('localhost', 80)"]
)
def test_the_check_sees_who_reaches_for_the_network(home, env, call):
    done = run(Block(1, "python", "", f"import socket; socket.{call}"), home, env)
    assert done.code != 0
    assert "reaches for the network" in done.complaint


def test_a_page_with_a_server_of_its_own_reaches_no_other_machine(home, env):
    code = "import socket; socket.create_connection(('192.0.2.1', 9))"
    done = run(Block(1, "python", "", code), home, env | {"DOCS_MAY_USE_LOOPBACK": "1"})
    assert "reaches for the network" in done.complaint


def test_the_readme_has_one_page():
    assert len(read(README).splitlines()) <= 220


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nobody_is_told_to_install_by_name(page):
    for line in read(page).splitlines():
        assert not re.search(r"\b(?:pip|pipx|uv|uvx)\b.*\binstall\b.*\bsynapse", line), line


SERVERS = [
    line
    for line in read(DOCS / "how-to/engines.md").splitlines()
    if line.startswith("OPENAI_BASE_URL=")
]


@pytest.mark.parametrize("line", SERVERS)
def test_a_compatible_server_takes_one_line(line, env, tmp_path):
    """Ollama, vLLM, OpenRouter: the line as it stands, but for the host."""
    calm = env | {"PYTHONPATH": ""}
    run(Block(1, "bash", "", "orchestrator init shared-memory"), tmp_path, calm)
    with ModelServer(lambda seen: "Drawn.") as server:
        code = re.sub(r"https?://[^/]+(/api)?", server.url, line)
        done = run(Block(1, "bash", "", code), tmp_path, calm)
        assert (done.code, done.printed) == (0, "Drawn.\n"), done.complaint
        assert server.journal[-1].path == "/v1/chat/completions"
