"""The README says what is so: its code runs as it stands, prints what it shows, and its tables are
the program's.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from orchestrator.cli.verbs import VERBS as TEAM_VERBS
from orchestrator.engines import clients
from orchestrator.engines.process import Process
from orchestrator.engines.protocol import ENGINES
from orchestrator.runs.lease import LEASE
from orchestrator.spend.limits import DAY, RUN, policy
from orchestrator.spend.prices import own
from orchestrator.testing.model_server import ModelServer
from synapse.cli.frame.options import Usage
from synapse.cli.verbs import VERBS
from synapse.errors import SynapseError
from synapse.model.agents import ROLES
from synapse.model.namespace import DEFAULT_TTL, PREFIX_TTL
from synapse.system import yaml

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("bash", "--noprofile", "--norc", "-euo", "pipefail", "-c")

# Python reads this as it starts, in every process that the blocks start: whoever reaches for the
# network fails.
WATCH = """
import sys
REACHING = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
def watch(event, args):
    if event in REACHING:
        raise PermissionError(f"reaches for the network: {event}{args}")
sys.addaudithook(watch)
"""

# What differs from run to run, and what stands for it.
MASKS = (
    (r"\bsyn-\d{4}-\d\d-\d\d-", "syn-DATE-"),
    (r"\bsyn_[0-9a-f]{12}\b", "MESSAGE"),
    (r"\bthr_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "THREAD"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"-[0-9a-f]{10}\b", "-RUN"),
    (r"[\d,]+ tokens, -, [\d.]+m?s", "N tokens, -, TIME"),
)


class Block(NamedTuple):
    line: int
    language: str
    code: str
    shown: str | None


class Run(NamedTuple):
    block: Block
    code: int
    printed: str
    complaint: str


def blocks(text):
    """The blocks that are run, each with the output that the page shows behind it."""
    found = [
        (text.count("\n", 0, match.start()) + 1, *match.groups())
        for match in BLOCK.finditer(text)
    ]
    behind = [*found[1:], (0, "", "")]
    return [
        Block(line, language, code, after[2] if after[1] == "text" else None)
        for (line, language, code), after in zip(found, behind, strict=True)
        if language != "text"
    ]


def masked(text, home=""):
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return "\n".join(
        line.rstrip()
        for line in (text.replace(home, "DIR") if home else text).strip().split("\n")
    )


def environment(home):
    home.joinpath("watch").mkdir()
    home.joinpath("watch/sitecustomize.py").write_text(WATCH)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SYNAPSE_", "PYTHON", "COV_"))
    }
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    return kept | {
        "PATH": path,
        "HOME": str(home),
        "PYTHONPATH": str(home / "watch"),
        "LC_ALL": "C.UTF-8",
    }


def run(block, place, env):
    words = {
        "bash": (*SHELL, block.code),
        "python": (sys.executable, "-c", block.code),
    }[block.language]
    done = subprocess.run(
        words,
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Run(block, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("readme").resolve()


@pytest.fixture(scope="module")
def env(home):
    return environment(home)


@pytest.fixture(scope="module")
def runs(home, env):
    """All of the page, once, in its order, in one directory."""
    place = home / "here"
    place.mkdir()
    return {block.line: run(block, place, env) for block in blocks(README)}


@pytest.mark.parametrize(
    "block", blocks(README), ids=lambda block: f"line-{block.line}"
)
def test_code_runs_and_prints_what_is_shown(block, runs, home):
    done = runs[block.line]
    assert (done.code, done.complaint) == (0, ""), done.complaint
    if block.shown is not None:
        assert masked(done.printed, str(home / "here")) == masked(block.shown)


def test_every_block_is_run_or_is_an_output():
    languages = {match[1] for match in BLOCK.finditer(README)}
    assert languages == {"bash", "python", "text"}
    assert README.count("```") == 2 * len(BLOCK.findall(README))


def test_the_check_sees_a_failing_block(home, env):
    assert run(Block(1, "bash", "false\ntrue\n", None), home, env).code == 1
    assert run(Block(1, "python", "raise SystemExit(3)", None), home, env).code == 3
    assert masked("syn-2026-02-01-001 now") == masked("syn-2027-12-31-001 now")
    assert masked("syn-2026-02-01-001 now") != masked("syn-2026-02-01-002 now")


@pytest.mark.parametrize(
    "call", ["create_connection(('localhost', 9))", "getaddrinfo('localhost', 80)"]
)
def test_the_check_sees_who_reaches_for_the_network(home, env, call):
    done = run(Block(1, "python", f"import socket; socket.{call}", None), home, env)
    assert done.code != 0
    assert "reaches for the network" in done.complaint


def test_nobody_is_told_to_install_by_name():
    for line in README.splitlines():
        assert not re.search(
            r"\b(?:pip|pipx|uv|uvx)\b.*\binstall\b.*\bsynapse", line
        ), line


def rows(heading):
    """The cells of the table under a heading."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, heading
    lines = [
        line.strip().strip("|").split(" | ")
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def test_every_verb_has_its_row():
    told = [
        name
        for cells in rows("The verbs")
        for name in re.findall(r"`([\w-]+)`", cells[0])
    ]
    assert sorted(told) == sorted(VERBS)


def test_every_verb_of_the_orchestrator_has_its_row():
    told = [
        name
        for cells in rows("Running a team")
        for name in re.findall(r"`([\w-]+)`", cells[0])
    ]
    assert sorted(told) == sorted(TEAM_VERBS)


def test_roles_are_the_programs():
    told = {
        name.strip("`"): (
            int(authority),
            re.findall(r"`([^`]+)`", reads),
            re.findall(r"`([^`]+)`", writes),
        )
        for name, authority, reads, writes in rows("Roles and authority")
    }
    assert told == {
        name: (role.authority, list(role.read), list(role.write))
        for name, role in ROLES.items()
    }


def test_engines_are_the_programs():
    told = {cells[0].strip("`"): cells[-1] for cells in rows("Engines")}
    assert sorted(told) == sorted(ENGINES)
    seen = (clients.CLAUDE_CODE, clients.CODEX, clients.GEMINI, clients.OPENCLAW)
    assert {name: version for name, version in told.items() if version} == {
        each.name: each.verified for each in seen
    }


def settings(name):
    """What the page shows of synapse.yaml, from this key on."""
    (text,) = (
        match[2]
        for match in BLOCK.finditer(README)
        if match[1] == "text" and match[2].startswith(f"{name}:\n")
    )
    return yaml.load(text, depth=4, typed=True)


def test_limits_are_the_programs():
    told = (
        f"{RUN.turns} turns, {RUN.children} children and {RUN.seconds:.0f} seconds, at"
        f" depth {RUN.depth} at most"
    )
    text = " ".join(README.split())
    assert f"{told}, and a workspace {DAY.live} live runs" in text
    assert f"taken for dead after {LEASE:.0f} seconds" in text
    shown = settings("limits")
    assert policy(shown).departments["*"].usd == 20.0
    assert [
        own(model, price).input.base for model, price in shown["prices"].items()
    ] == [3.0]


def test_engines_in_the_settings_can_be_made():
    shown = settings("engines")["engines"]
    assert (
        Process(
            client=clients.CLAUDE_CODE, permissions=shown["careful"]["permissions"]
        ).permissions
        == "own"
    )
    assert shown["local"].keys() == {"kind", "base_url", "model"}


@pytest.mark.parametrize(
    "line",
    [line for line in README.splitlines() if line.startswith("OPENAI_BASE_URL=")],
)
def test_a_compatible_server_takes_one_line(line, env, tmp_path):
    """Ollama, vLLM, OpenRouter: the line as it stands, but for the host."""
    calm = env | {"PYTHONPATH": ""}
    run(Block(1, "bash", "orchestrator init shared-memory", None), tmp_path, calm)
    with ModelServer(lambda seen: "Drawn.") as server:
        code = re.sub(r"https?://[^/]+(/api)?", server.url, line)
        done = run(Block(1, "bash", code, None), tmp_path, calm)
        assert (done.code, done.printed) == (0, "Drawn.\n"), done.complaint
        assert server.journal[-1].path == "/v1/chat/completions"


def test_times_to_live_are_the_programs():
    sentence = re.search(r"else the namespace's \((.*?);", README, re.DOTALL)[1]
    told = dict(re.findall(r"`?(\w+)`? (\d+d)", sentence))
    assert told.pop("others") == DEFAULT_TTL
    assert told == PREFIX_TTL


def test_exit_codes_are_the_programs():
    def classes(kind):
        return {kind}.union(*map(classes, kind.__subclasses__()))

    codes = {
        kind.exit_code
        for kind in classes(SynapseError)
        if kind.__module__ == "synapse.errors"
    }
    told = re.search(r"^Exit codes: (.*?)\n\n", README, re.MULTILINE | re.DOTALL)[1]
    assert {int(number) for number in re.findall(r"\b(\d+) [a-z]", told)} == codes
    assert Usage.exit_code in codes
    assert 2 not in codes


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert "://" not in target, target
        assert (ROOT / target).exists(), target


def test_commands_of_make_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make (\w+)`", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_make_says_what_there_is_to_make():
    """Alone, too; every target that the page names is in the list."""
    alone, asked = (subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout for words in
                    (["make"], ["make", "help"]))  # fmt: skip
    assert alone == asked
    listed = {line.split()[0] for line in asked.splitlines()[1:]}
    assert listed >= {*re.findall(r"`make (\w+)`", README), "help", "clean"}
