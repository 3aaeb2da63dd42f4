"""The documents are true: their code runs as it stands and prints what it shows, their tables are the program's.

Every page (README.md and docs/) is run from its top in a folder of its own. The site is built as users build it.
"""

import os
import pydoc
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from docs import generate
from docs.hooks import INCLUDED
from orchestrator.cli.verbs import VERBS as TEAM_VERBS
from orchestrator.engines import clients
from orchestrator.engines.process import Process
from orchestrator.engines.protocol import ENGINES
from orchestrator.runs.lease import LEASE
from orchestrator.spend.limits import DAY, RUN, policy
from orchestrator.spend.prices import own
from orchestrator.testing.model_server import ModelServer
from synapse.cli import INTERRUPTED
from synapse.cli.frame.options import Usage
from synapse.cli.verbs import VERBS
from synapse.errors import SynapseError
from synapse.formats.declared import read_settings
from synapse.formats.keys import SETTINGS, strays
from synapse.model.agents import ROLES, Settings
from synapse.model.namespace import DEFAULT_TTL, PREFIX_TTL
from synapse.system import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(
    r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
SHELL = ("bash", "--noprofile", "--norc", "-euo", "pipefail", "-c")
LANGUAGES = {"bash", "python", "text", "yaml", "markdown"}
LOOPBACK = {DOCS / "how-to/testing.md"}  # pages that start a server for their own tests

# Python reads this as it starts, in every process that the blocks start: what reaches for the network fails.
WATCH = """
import os, sys
REACHING = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
LOOPBACK = os.environ.get("DOCS_MAY_USE_LOOPBACK")
def watch(event, args):
    if event in REACHING:
        places = [arg[0] if isinstance(arg, tuple) else arg for arg in args]
        if not LOOPBACK or "127.0.0.1" not in places:
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
    (r"passed in [\d.]+s", "passed in TIME"),
)


class Block(NamedTuple):
    line: int
    language: str
    title: str
    code: str
    shown: str | None = None


class Run(NamedTuple):
    block: Block
    code: int
    printed: str
    complaint: str


def read(path):
    return path.read_text(encoding="utf-8")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def fences(text):
    """All fenced blocks of a page."""
    return [
        Block(
            text.count("\n", 0, match.start()) + 1, match[1], match[2] or "", match[3]
        )
        for match in BLOCK.finditer(text)
    ]


def blocks(text):
    """The blocks that are run, each with the output that the page shows behind it."""
    found = fences(text)
    behind = [*found[1:], Block(0, "", "", "")]
    return [
        block._replace(shown=after.code if after.language == "text" else None)
        for block, after in zip(found, behind, strict=False)
        if block.language in ("bash", "python")
    ]


def masked(text, home=""):
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return "\n".join(
        line.rstrip()
        for line in (text.replace(home, "DIR") if home else text).strip().split("\n")
    )


def environment(home):
    for folder in ("watch", "tmp"):
        home.joinpath(folder).mkdir()
    home.joinpath("watch/sitecustomize.py").write_text(WATCH)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SYNAPSE_", "PYTHON", "COV_"))
    }
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    places = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PYTHONPATH": str(home / "watch"),
    }
    return kept | places | {"PATH": path, "LC_ALL": "C.UTF-8"}


def run(block, place, env):
    """Run a block; one that has a title is a file, and is written."""
    if block.title:
        (place / block.title).write_text(block.code)
        return Run(block, 0, "", "")
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


@pytest.fixture
def home(tmp_path):
    return tmp_path.resolve()


@pytest.fixture
def env(home):
    return environment(home)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(read(page))], ids=name_of
)
def test_code_runs_and_prints_what_is_shown(page, home, env):
    """All of a page, in its order, in one folder."""
    place = home / "here"
    place.mkdir()
    env = env | ({"DOCS_MAY_USE_LOOPBACK": "1"} if page in LOOPBACK else {})
    for block in blocks(read(page)):
        done = run(block, place, env)
        where = f"{name_of(page)}:{block.line}"
        assert (where, done.code, done.complaint) == (where, 0, ""), (
            done.printed + done.complaint
        )
        if block.shown is not None:
            assert masked(done.printed, str(place)) == masked(block.shown), where


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_is_an_output(page):
    text = read(page)
    assert {block.language for block in fences(text)} <= LANGUAGES
    assert text.count("```") == 2 * len(fences(text))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```yaml" in read(page)], ids=name_of
)
def test_settings_that_are_shown_are_valid(page):
    """A block of YAML is a part of synapse.yaml."""
    for block in fences(read(page)):
        if block.language == "yaml":
            fields = yaml.load(block.code, depth=4, typed=True)
            assert [stray.path for stray in strays(fields, SETTINGS)] == [], block.line
            assert read_settings(block.code, "synapse.yaml", Settings())[1] == (), (
                block.line
            )
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
        assert not re.search(
            r"\b(?:pip|pipx|uv|uvx)\b.*\binstall\b.*\bsynapse", line
        ), line


# -- what is made from the code ------------------------------------------------------------------------


@pytest.mark.parametrize("path", generate.pages(), ids=name_of)
def test_generated_parts_are_committed(path):
    """`python -m docs.generate` writes them anew."""
    assert read(path) == generate.pages()[path]


def test_every_verb_has_its_section():
    titles = re.findall(r"^#### (.+)$", read(DOCS / "reference/shell.md"), re.MULTILINE)
    named = [
        f"{program} {verb}"
        for program, table in (("synapse", VERBS), ("orchestrator", TEAM_VERBS))
        for verb in table
    ]
    assert sorted(
        title for title in titles if not title.startswith("brain-suite ")
    ) == sorted(named)
    assert "brain-suite run" in titles


def test_the_drawing_has_every_layer_of_the_contracts():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]
    drawn = {(), *((root,) for root in project["root_packages"])}
    contracts = [each for each in project["contracts"] if each["type"] == "layers"]
    layers = [
        line
        for contract in contracts
        if tuple(contract.get("containers", ())) in drawn
        for line in contract["layers"]
    ]
    names = sorted(name for line in layers for name in re.findall(r"\w+", line))
    assert sorted(re.findall(r">([^<]+)</text>", read(generate.LAYERS))) == names


@pytest.mark.parametrize("root", ["scenarios", "orchestrator", "synapse"])
def test_the_architecture_names_every_layer(root):
    text = (
        read(DOCS / "architecture.md")
        .partition(f"\n### {root}\n")[2]
        .partition("\n#")[0]
    )
    cells = [
        line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")
    ]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    layers = {name for line in generate.layers()[root] for name in line}
    assert sorted(named) == sorted(layers - {"__main__"})


GUIDES = [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md"]


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_files_that_are_named_are_there(page):
    paths = set(
        re.findall(
            r"`((?:synapse|orchestrator|scenarios|tests|docs)/[\w/.-]+)`", read(page)
        )
    )
    assert paths
    assert [
        path for path in paths if "NAME" not in path and not (ROOT / path).exists()
    ] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_modules_that_are_named_are_there(page):
    """A name such as `synapse.testing.FrozenClock` leads to something."""
    for name in re.findall(
        r"`((?:synapse|orchestrator)(?:\.[a-zA-Z_]\w*)+)", read(page)
    ):
        if not name.endswith((".yaml", ".json")):
            assert pydoc.locate(name) is not None, name


def test_every_tool_of_an_agent_is_explained():
    text = read(DOCS / "reference/agent-tools.md")
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert listed
    assert [
        name
        for name in listed
        if f"**`{name}`**" not in text and f"`{name}`" not in text.partition("## ")[2]
    ] == []


def rows(page, heading):
    """The cells of the table under a heading."""
    section = read(DOCS / page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, heading
    lines = [
        line.strip().strip("|").split(" | ")
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def test_roles_are_the_programs():
    told = {
        name.strip("`"): (
            int(authority),
            re.findall(r"`([^`]+)`", reads),
            re.findall(r"`([^`]+)`", writes),
        )
        for name, authority, reads, writes in rows(
            "reference/roles.md", "Roles and authority"
        )
    }
    assert told == {
        name: (role.authority, list(role.read), list(role.write))
        for name, role in ROLES.items()
    }


def test_engines_are_the_programs():
    told = {
        cells[0].strip("`"): cells[-1]
        for cells in rows("how-to/engines.md", "The engines")
    }
    assert sorted(told) == sorted(ENGINES)
    seen = (clients.CLAUDE_CODE, clients.CODEX, clients.GEMINI, clients.OPENCLAW)
    assert {name: version for name, version in told.items() if version} == {
        each.name: each.verified for each in seen
    }


def settings(page, name):
    """What a page shows of synapse.yaml, from this key on."""
    (text,) = (
        block.code
        for block in fences(read(DOCS / page))
        if block.code.startswith(f"{name}:\n")
    )
    return yaml.load(text, depth=4, typed=True)


def test_limits_are_the_programs():
    told = f"{RUN.turns} turns, {RUN.children} children and {RUN.seconds:.0f} seconds, at depth {RUN.depth} at most"
    assert f"{told}, and a workspace {DAY.live} live runs" in " ".join(
        read(DOCS / "how-to/limits.md").split()
    )
    assert f"a run has {RUN.turns} turns and one hour" in " ".join(read(README).split())
    assert RUN.seconds == 3600
    assert f"taken for dead after {LEASE:.0f} seconds" in " ".join(
        read(DOCS / "how-to/resume.md").split()
    )
    shown = settings("how-to/limits.md", "limits")
    assert policy(shown).departments["*"].usd == 20.0
    assert [
        own(model, price).input.base for model, price in shown["prices"].items()
    ] == [3.0]


def test_engines_in_the_settings_can_be_made():
    shown = settings("how-to/engines.md", "engines")["engines"]
    assert (
        Process(
            client=clients.CLAUDE_CODE, permissions=shown["careful"]["permissions"]
        ).permissions
        == "own"
    )
    assert shown["local"].keys() == {"kind", "base_url", "model"}


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


def test_times_to_live_are_the_programs():
    text = " ".join(read(DOCS / "reference/roles.md").split())
    told = dict(
        re.findall(
            r"`?(\w+)`? (\d+d)", re.search(r"else the namespace's \((.*?);", text)[1]
        )
    )
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
    told = {int(number) for number, _ in rows("reference/shell.md", "Exit codes")}
    assert told - {0, INTERRUPTED} == codes
    assert Usage.exit_code in codes
    assert 2 not in codes


# -- links, commands, the site -------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", read(page)):
        assert "://" not in target, target
        path = (page.parent / target).resolve()
        assert (
            path.exists() or path.relative_to(DOCS).as_posix() in INCLUDED.values()
        ), target


def test_commands_of_make_are_there():
    makefile = read(ROOT / "Makefile")
    named = {
        target
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"`make (\w+)`", read(page))
    }
    assert {"docs", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_make_says_what_there_is_to_make():
    """Alone, too; every target that the pages name is in the list."""
    commands = (["make"], ["make", "help"])
    alone, asked = (
        subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for words in commands
    )
    assert alone == asked
    listed = {line.split()[0] for line in asked.splitlines()[1:]}
    assert listed >= {
        *re.findall(r"`make (\w+)`", read(ROOT / "CONTRIBUTING.md")),
        "help",
        "clean",
    }


def build(config, place):
    words = (
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        config,
        "-d",
        place,
    )
    return subprocess.run(
        [*map(str, words)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    sources = [
        page.relative_to(DOCS).with_suffix(".html") for page in PAGES if page != README
    ]
    places = {Path(place).with_suffix(".html") for place in INCLUDED.values()}
    assert {page.relative_to(tmp_path / "site") for page in pages} == {
        *sources,
        *places,
        Path("404.html"),
    }
    for page in pages:
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)",
            read(page),
        )
        assert loaded == [], page


def test_a_broken_link_is_an_error(tmp_path):
    shutil.copytree(
        DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("mkdocs.yml", *INCLUDED):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    with (tmp_path / "docs/how-to/mail.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md) and [no such part](mcp.md#no-such-part)\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "no-such-part" in done.stderr
