"""The documents are the program's: generated parts, tables, names, links; and the site that is built."""

import os
import pydoc
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import orchestrator
import synapse
from docs import generate
from docs.hooks import INCLUDED
from docs.library import OLDER, _members
from orchestrator.cli.frame.live import WAITING
from orchestrator.cli.verbs import VERBS as TEAM_VERBS
from orchestrator.engines import clients
from orchestrator.engines.process import Process
from orchestrator.engines.protocol import ENGINES
from orchestrator.runs.files.lease import LEASE
from orchestrator.spend.limits import DAY, RUN, policy
from orchestrator.spend.prices import own
from synapse.cli import INTERRUPTED
from synapse.cli.frame.options import Usage
from synapse.cli.verbs import VERBS
from synapse.errors import SynapseError
from synapse.formats import keys
from synapse.model.agents import ROLES
from synapse.model.namespace import DEFAULT_TTL, PREFIX_TTL
from synapse.system import yaml
from tests.pages import DOCS, PAGES, README, ROOT, fences, name_of, read

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
    assert sorted(title for title in titles if not title.startswith("brain-suite ")) == sorted(
        named
    )
    assert "brain-suite run" in titles
    assert set(generate.NOTES) <= set(titles)


def test_every_public_name_of_the_library_is_in_its_reference():
    text = read(DOCS / "reference/python.md")
    for module in (synapse, orchestrator):
        for name in set(module.__all__) - OLDER:
            section = f"### {module.__name__}.{name}\n"
            assert section in text or f"| `{name}` |" in text, name
    for member in ("append(body: str, namespace: str", "run(task: Task) -> Result"):
        assert f"| `{member}" in text
    assert " at 0x" not in text


def test_a_public_name_without_a_docstring_is_no_reference():
    class Bare:
        """A class."""

        def act(self):
            pass

    with pytest.raises(ValueError, match="act has no docstring"):
        list(_members(Bare))


COMMAND = re.compile(r"\b(synapse|orchestrator) ([a-z][a-z-]+)(?= |\"|'|`|$|<)")


def test_every_command_that_a_page_of_the_dashboard_shows_is_a_verb():
    verbs = {"synapse": VERBS, "orchestrator": TEAM_VERBS}
    templates = [*ROOT.glob("*/server/**/*.html")]
    shown = [
        (path.name, program, verb)
        for path in templates
        for text in re.findall(
            r"[\"'`]((?:synapse|orchestrator) [^\"'`]+)|<code>(.+?)</code>", read(path)
        )
        for program, verb in COMMAND.findall(" ".join(text))
    ]
    assert len(shown) > 20
    assert [each for each in shown if each[2] not in verbs[each[1]]] == []


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
    text = read(DOCS / "architecture.md").partition(f"\n### {root}\n")[2].partition("\n#")[0]
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    layers = {name for line in generate.layers()[root] for name in line}
    assert sorted(named) == sorted(layers - {"__main__"})


GUIDES = [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md"]


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_files_that_are_named_are_there(page):
    paths = set(
        re.findall(r"`((?:synapse|orchestrator|scenarios|tests|docs)/[\w/.-]+)`", read(page))
    )
    assert paths
    assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_modules_that_are_named_are_there(page):
    """A name such as `synapse.testing.FrozenClock` leads to something."""
    for name in re.findall(r"`((?:synapse|orchestrator)(?:\.[a-zA-Z_]\w*)+)", read(page)):
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
        for name, authority, reads, writes in rows("reference/roles.md", "Roles and authority")
    }
    assert told == {
        name: (role.authority, list(role.read), list(role.write)) for name, role in ROLES.items()
    }


def test_engines_are_the_programs():
    told = {cells[0].strip("`"): cells[-1] for cells in rows("how-to/engines.md", "The engines")}
    assert sorted(told) == sorted(ENGINES)
    seen = (clients.CLAUDE_CODE, clients.CODEX, clients.GEMINI, clients.OPENCLAW)
    assert {name: version for name, version in told.items() if version} == {
        each.name: each.verified for each in seen
    }


def settings(page, name):
    """What a page shows of synapse.yaml, from this key on."""
    (text,) = (
        block.code for block in fences(read(DOCS / page)) if block.code.startswith(f"{name}:\n")
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
    assert [own(model, price).input.base for model, price in shown["prices"].items()] == [3.0]


def test_engines_in_the_settings_can_be_made():
    shown = settings("how-to/engines.md", "engines")["engines"]
    assert (
        Process(client=clients.CLAUDE_CODE, permissions=shown["careful"]["permissions"]).permissions
        == "own"
    )
    assert shown["local"].keys() == {"kind", "base_url", "model"}


def test_times_to_live_are_the_programs():
    text = " ".join(read(DOCS / "reference/roles.md").split())
    told = dict(
        re.findall(r"`?(\w+)`? (\d+d)", re.search(r"else the namespace's \((.*?);", text)[1])
    )
    assert told.pop("others") == DEFAULT_TTL
    assert told == PREFIX_TTL


def test_the_settings_begin_with_the_twelve_keys_that_people_set():
    page = read(DOCS / "reference/settings.md")
    first = re.search(r"^## (.+)$", page, re.MULTILINE)[1]
    assert first == "The twelve keys that people set"
    shown = rows("reference/settings.md", first)
    assert len(shown) == 12
    known = {"`synapse.yaml`": keys.SETTINGS, "`agents/{id}.yaml`": keys.AGENT}
    assert [key for file, key, _ in shown if key.strip("`") not in known[file]] == []


def test_figures_of_the_readme_are_those_of_the_results():
    """Those marked ᵇ; `make suite` prints the others."""
    readme, results = (
        " ".join(read(page).split()) for page in (README, DOCS / "brain-suite/results.md")
    )
    row = re.search(r"\| stale_authority \| ideal .*?\|(?= [a-z])", results)[0]
    tokens = re.search(r"-(\d+) % \[[^]]*\] v native_store", row)[1]
    dollars = re.search(r"-(\d+) % \[[^]]*\] v file_tail", row)[1]
    assert f"ours takes {tokens} % more tokens where old figures mislead" in readme
    assert f"ours costs {dollars} % more where a lead's old figure misleads" in readme
    spared = re.search(r"one after the other, 5 of 7 .*?\(-(\d+) %\)", results)[1]
    assert f"{spared} % fewer tokens where the second agent needs" in readme
    assert "elsewhere the plugin costs 2 to 3 %" in results
    assert "our plugin costs 2 to 3 %" in readme
    missed = re.search(r"\d+ of \d+ thresholds are missed", results)[0]
    assert missed in readme
    section = results.partition("## What others put into requests")[2]
    sent = re.findall(r"\| ([\d,]+) \|", section.partition("## ")[0])
    assert len(sent) == 4
    assert all(figure in readme for figure in sent)


def test_exit_codes_are_the_programs():
    def classes(kind):
        return {kind}.union(*map(classes, kind.__subclasses__()))

    codes = {
        kind.exit_code for kind in classes(SynapseError) if kind.__module__ == "synapse.errors"
    }
    told = {int(number) for number, _ in rows("reference/shell.md", "Exit codes")}
    assert told - {0, INTERRUPTED, WAITING} == codes
    assert Usage.exit_code in codes
    assert 2 not in codes


# -- links, commands, the site -------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", read(page)):
        assert "://" not in target, target
        path = (page.parent / target).resolve()
        assert path.exists() or path.relative_to(DOCS).as_posix() in INCLUDED.values(), target


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
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in commands
    )
    assert alone == asked
    listed = {line.split()[0] for line in asked.splitlines()[1:]}
    assert listed >= {*re.findall(r"`make (\w+)`", read(ROOT / "CONTRIBUTING.md")), "help", "clean"}


def build(config, place):
    words = (sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", place)
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
    sources = [page.relative_to(DOCS).with_suffix(".html") for page in PAGES if page != README]
    places = {Path(place).with_suffix(".html") for place in INCLUDED.values()}
    assert {page.relative_to(tmp_path / "site") for page in pages} == {
        *sources,
        *places,
        Path("404.html"),
    }
    for page in pages:
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)", read(page)
        )
        assert loaded == [], page


def test_a_broken_link_is_an_error(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", *INCLUDED):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    with (tmp_path / "docs/how-to/mail.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md) and [no such part](mcp.md#no-such-part)\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "no-such-part" in done.stderr
