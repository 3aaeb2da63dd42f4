"""The design documents keep in step with the code: every guarantee names tests that exist, every module its place."""

import ast
import re
from pathlib import Path

import pytest

from synapse import lock, notify, store
from synapse.index import search
from synapse.log import adopt

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "synapse/DESIGN.md"
README = ROOT / "README.md"
NAMED = re.compile(r"`((?:tests|synapse)/[\w/]+\.py)::((?:\w+::)?\w+)`")


def defined_in(path):
    """The names of the tests of a file, those in classes as Class::test."""
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    found = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for kind in (node for node in body if isinstance(node, ast.ClassDef)):
        found |= {f"{kind.name}::{node.name}" for node in kind.body if isinstance(node, ast.FunctionDef)}
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
    rows = re.findall(r"^\| (P\d+) \| (.+?) \| (.+) \|$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {number: (promise, NAMED.findall(named)) for number, promise, named in rows}


@pytest.mark.parametrize("path", [DESIGN, README], ids=lambda path: path.name)
def test_named_tests_exist(path):
    text = path.read_text(encoding="utf-8")
    assert NAMED.search(text)
    assert missing(text) == []


@pytest.mark.parametrize("path", [DESIGN, README], ids=lambda path: path.name)
def test_every_promise_names_a_test(path):
    found = promises(path)
    assert list(found) == [f"P{number}" for number in range(1, len(found) + 1)]
    assert [number for number, (_, named) in found.items() if not named] == []


def test_the_readme_promises_what_the_design_does():
    assert {number: promise for number, (promise, _) in promises(README).items()} == {
        number: promise for number, (promise, _) in promises(DESIGN).items()
    }


@pytest.mark.parametrize(
    "text",
    ["`tests/test_design.py::test_that_is_not_here`", "`tests/test_nowhere.py::test_named_tests_exist`"],
)
def test_a_wrong_name_is_found(text):
    assert missing(text) == [text.strip("`")]
    assert missing("`tests/test_design.py::test_named_tests_exist`") == []


def test_every_module_has_its_place():
    section = DESIGN.read_text(encoding="utf-8").partition("\n## Modules\n")[2].partition("\n## ")[0]
    told = [
        name for row in re.findall(r"^\| (.+?) \|", section, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    ]
    package = ROOT / "synapse"
    single = {f"{path.stem}.py" for path in package.glob("*.py") if not path.stem.startswith("__")}
    folders = {"cli/", "consolidate/", "index/", "log/", "testing/"}
    assert sorted(told) == sorted(single | folders)
    inside = {
        path.relative_to(package).as_posix()
        for folder in ("consolidate", "log", "index", "testing")
        for path in (package / folder).glob("*")
    }
    inside = {name for name in inside if name.endswith((".py", ".sql")) and "__" not in name}
    assert {name for name in inside if f"`{name.partition('/')[2]}`" not in section} == set()


def test_figures_are_the_programs():
    text = " ".join(DESIGN.read_text(encoding="utf-8").split())
    assert f"ranks the newest {search.RANKED} matches" in text
    assert f"at most {lock.PATIENCE:g} s" in text
    assert f"has not changed for {adopt.SETTLED * 1000:g} ms" in text
    assert f"{1 / store.LOOK_EVERY:g} looks a second".replace("5", "five") in text
    assert f"looks again {1 / notify.RECONCILE:g} times a second".replace("4", "four") in text
