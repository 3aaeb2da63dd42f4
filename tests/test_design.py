"""The design documents keep in step with the code: every guarantee names tests that exist, every
module its place.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from orchestrator.engines import clients, watchdog
from orchestrator.prompts import selection
from orchestrator.runs import records, writeback
from orchestrator.runs.files import lease
from orchestrator.sessions import wake
from orchestrator.spend.limits import DAY, RUN
from orchestrator.tools import functions
from orchestrator.turns import turn_loop
from synapse import notify, store
from synapse.index.full_text import search as full_text
from synapse.log import adopt
from synapse.model import worth
from synapse.system import lock
from synapse.view import recall

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "synapse/DESIGN.md"
TEAM_DESIGN = ROOT / "orchestrator/DESIGN.md"
PROMISES = ROOT / "docs/promises.md"
PAGES = (DESIGN, TEAM_DESIGN, PROMISES)
NAMED = re.compile(r"`((?:tests|synapse|orchestrator)/[\w/]+\.py)::((?:\w+::)?\w+)`")


def page(path):
    return path.relative_to(ROOT).as_posix()


@cache
def defined_in(path):
    """The names of the tests of a file, those in classes as Class::test."""
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    found = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for kind in (node for node in body if isinstance(node, ast.ClassDef)):
        found |= {
            f"{kind.name}::{node.name}" for node in kind.body if isinstance(node, ast.FunctionDef)
        }
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def missing(text):
    """The tests that a text names and that are not there."""
    return [
        f"{path}::{name}"
        for path, name in NAMED.findall(text)
        if not (ROOT / path).is_file() or name not in defined_in(path)
    ]


def promises(path):
    """The rows of the table of promises: number -> (promise, tests)."""
    rows = re.findall(
        r"^\| ([PO]\d+) \| (.+?) \| (.+) \|$", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {number: (promise, NAMED.findall(named)) for number, promise, named in rows}


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_named_tests_exist(path):
    text = path.read_text(encoding="utf-8")
    assert NAMED.search(text)
    assert missing(text) == []


@pytest.mark.parametrize("path", PAGES, ids=page)
def test_every_promise_names_a_test(path):
    found = promises(path)
    letters = {DESIGN: "P", TEAM_DESIGN: "O", PROMISES: "PO"}[path]
    numbers = {
        letter: [number for number in found if number.startswith(letter)] for letter in letters
    }
    assert list(found) == [number for letter in letters for number in numbers[letter]]
    for letter, named in numbers.items():
        assert named
        assert named == [f"{letter}{number}" for number in range(1, len(named) + 1)]
    assert [number for number, (_, named) in found.items() if not named] == []


def test_the_site_promises_what_the_designs_do():
    assert promises(PROMISES) == promises(DESIGN) | promises(TEAM_DESIGN)


@pytest.mark.parametrize(
    "text",
    [
        "`tests/test_design.py::test_that_is_not_here`",
        "`tests/test_nowhere.py::test_named_tests_exist`",
    ],
)
def test_a_wrong_name_is_found(text):
    assert missing(text) == [text.strip("`")]
    assert missing("`tests/test_design.py::test_named_tests_exist`") == []


@pytest.mark.parametrize("path", [DESIGN, TEAM_DESIGN], ids=page)
def test_every_module_has_its_place(path):
    section = path.read_text(encoding="utf-8").partition("\n## Modules\n")[2].partition("\n## ")[0]
    told = [
        name
        for row in re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    ]
    single = {each.name for each in path.parent.glob("*.py") if not each.stem.startswith("__")}
    folders = {f"{each.parent.name}/" for each in path.parent.glob("*/__init__.py")}
    assert sorted(told) == sorted(single | folders)
    inside = {each.name for folder in folders for each in (path.parent / folder).glob("*")}
    inside = {name for name in inside if name.endswith((".py", ".sql")) and "__" not in name}
    assert {name for name in inside if f"`{name}`" not in section} == set()


def test_figures_are_the_programs():
    text = " ".join(DESIGN.read_text(encoding="utf-8").split())
    assert f"scores the best {full_text.SEEDS} of all that hold a word" in text
    assert f"Where more than {recall.FEW} entries hold the same" in text
    assert f"to hold {recall.NEAR} of what the best one does" in text
    assert f"at most {lock.PATIENCE:g} s" in text
    assert f"has not changed for {adopt.SETTLED * 1000:g} ms" in text
    assert f"{1 / store.LOOK_EVERY:g} looks a second".replace("5", "five") in text
    assert f"looks again {1 / notify.RECONCILE:g} times a second".replace("4", "four") in text


def test_figures_are_the_orchestrators():
    text = " ".join(TEAM_DESIGN.read_text(encoding="utf-8").split())
    assert f"a hang after the lease ({lease.LEASE:g} s)" in text
    assert f"{records.ATTEMPTS} deaths without a step".replace("3", "Three") in text
    assert f"{wake.QUOTA} wakes a minute".replace("10", "Ten") in text
    assert f"{wake.TALK} entries are told".replace("10", "ten") in text
    assert f"at most {writeback.LONGEST} characters" in text
    assert f"Results over {functions.LONGEST:,} characters" in text
    assert (turn_loop.REMINDERS, turn_loop.SECOND_TRIES) == (2, 2), "twice, says the text"
    assert f"the newest {selection.NEWEST} runs" in text
    assert f"have {selection.CRITICALS:,} tokens of their own" in text
    assert f"up to {selection.MOST:,} tokens with the frame" in text
    assert f"as far as {selection.LEAST} tokens go" in text
    assert (
        f"({selection.FIND_TURNS} turns of the run's usual size, and"
        f" {selection.FIND_TOKENS:,} tokens"
    ) in text
    assert f"counts as {selection.DOUBT} entries" in text
    before = selection.stated("engineer")
    assert f"({before.turns} turns and {before.work:,} tokens for an engineer)" in text
    assert f"halves with every {worth.SPREAD} newer ones" in text
    assert f"depth {RUN.depth}, {RUN.children} children, {RUN.turns} turns" in text
    assert f"{DAY.live} live runs" in text
    assert f"(SIGTERM, {watchdog.HASTE:g} s)" in text


def test_versions_of_clients_are_those_that_were_seen():
    text = TEAM_DESIGN.read_text(encoding="utf-8")
    for client in (clients.CLAUDE_CODE, clients.CODEX, clients.GEMINI, clients.OPENCLAW):
        assert re.search(
            rf"^\| `{client.name}` \|.*\| {re.escape(client.verified)} \|$", text, re.MULTILINE
        ), client.name


def test_what_security_promises_is_promised():
    """Every promise that SECURITY.md names is one of the designs', none of the attacks' is left
    out, and its table has promises in every row.
    """
    text = (ROOT / "synapse/SECURITY.md").read_text(encoding="utf-8")
    known = promises(PROMISES)
    named = set()
    for first, last in re.findall(r"\b([PO]\d+)(?:–[PO](\d+))?", text):
        letter, number = first[0], int(first[1:])
        named |= {f"{letter}{n}" for n in range(number, int(last or number) + 1)}
    assert named <= set(known)
    attacked = {
        number
        for number, (_, tests) in known.items()
        if any(path.startswith("tests/attacks/") for path, _ in tests)
    }
    assert attacked
    assert attacked <= named
    table = text.partition("## Who attacks")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if not re.search(r"\([PO]\d", row)] == []
