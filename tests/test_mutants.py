"""The script that changes operators at random: what a test notices is killed, what nothing can notice survives."""

import shutil
from pathlib import Path

import pytest

from bench import mutants
from bench.changes import count, drawn, mutant
from bench.forked import KILLED, SURVIVED, TIMEOUT
from bench.reached import ROOT, Reached, afforded, ranked, record
from bench.typed import Types

TINY = """
MOST = 40


def larger(a, b):
    if a > b:
        return a
    return b


def drained(n):
    while n:
        n = n - 1
    return 0


def thrice(n):
    return n * 3


def forgotten(n):
    return n / 2
"""
TESTS = """
import subprocess
import sys

from tiny import MOST, drained, larger


def test_tiny():
    assert (larger(1, 2), larger(2, 1)) == (2, 2)
    assert drained(4) == 0


def test_a_process():
    command = [sys.executable, "-c", "import tiny; print(tiny.thrice(2))"]
    assert subprocess.check_output(command) == b"6\\n"


def test_most():
    assert larger(MOST, 2) == 40


def test_that_fails_always():
    assert larger(1, 2) == 3
"""
EXPECTED = {
    "Gt -> LtE": {KILLED},
    "Gt -> GtE": {SURVIVED},  # of two that are equal either is the larger
    "Sub -> Add": {TIMEOUT},
    "1 + 1": {SURVIVED},  # four by twos comes to nothing as well
    "0 + 1": {KILLED},
    "40 + 1": {KILLED},
    "3 + 1": {KILLED},
    "Mult -> FloorDiv": {KILLED},
    "Div -> Mult": {SURVIVED},
    "2 + 1": {SURVIVED},
    "return None": {KILLED, SURVIVED},  # the survivor is in what no test calls
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = tmp_path_factory.mktemp("mutants") / "tree"
    (tree / "tests").mkdir(parents=True)
    shutil.copytree(ROOT / "bench", tree / "bench")
    (tree / "tiny.py").write_text(TINY)
    (tree / "tests" / "test_tiny.py").write_text(TESTS)
    return tree


@pytest.fixture(scope="module")
def reached(tree):
    copy = Path(shutil.copytree(tree, tree.parent / "copy"))
    return Reached(record(copy, ["tiny.py"]))


def test_mutants_are_killed_or_survive(tree, reached):
    results = {}
    for one, status, _ in mutants.tried(
        drawn(["tiny.py"], 100, 1, tree), reached, tree, limit=60, patience=5
    ):
        results.setdefault(one.change, set()).add(status)
    assert results == EXPECTED
    assert (tree / "tiny.py").read_text() == TINY


TYPED = """\
import json


def longer(a: list[int], b: list[int] | None) -> list[int]:
    if b is None:
        return a
    return a if len(a) > len(b) else b


def read(text: str) -> int:
    return json.loads(text)  # type: ignore[no-any-return]
"""


def test_the_type_checker_notices_what_no_test_does(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "pyproject.toml").write_text('[tool.mypy]\nstrict = true\nfiles = ["typed.py"]\n')
    types, changes = Types(tmp_path), drawn(["typed.py"], 100, 1, tmp_path)
    noticed = {
        (one.line, one.change): types.notice(one)
        for one in changes
        if one.change in ("Is -> IsNot", "Gt -> GtE")
    }
    assert noticed == {(5, "Is -> IsNot"): True, (7, "Gt -> GtE"): False}
    assert (tmp_path / "typed.py").read_text() == TYPED


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = a and not b", ["not removed", "and <-> or"]),
        ("x: Literal[1] = True", ["not True"]),
        ("x = 'text'", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("def f(a: Literal[1] = 2) -> Literal[3]: return None", ["2 + 1"]),
        ("x = a in b", ["In -> NotIn"]),
    ],
)
def test_what_can_change(source, changes):
    mutants = [mutant("x.py", source, at) for at in range(count(source))]
    assert [one.change for one in mutants] == changes
    assert all(one.source.strip() != source for one in mutants)


def test_a_seed_draws_the_same_mutants():
    first, again = (drawn(["synapse/authority.py"], 5, 3) for _ in range(2))
    assert first == again
    assert len(set(first)) == 5


def test_the_tests_of_the_module_come_first_then_the_quickest():
    near, own = "tests/pack/test_a.py::", "tests/pack/test_mod.py::"
    seconds = {"f[1]": 0.1, "f[2]": 0.2, "f[3]": 0.3, "g": 5, "h": 80}
    seconds |= {f"{near}n": 7, f"{own}slow": 9, f"{own}quick": 8}

    def chosen(tests, limit):
        return afforded(ranked("pack/mod.py", tests, seconds), seconds, limit)

    own_first = [f"{own}quick", f"{own}slow", f"{near}n", "f[1]", "f[2]", "g", "f[3]"]
    assert chosen(seconds, 60) == own_first
    assert chosen(seconds, 25) == [*own_first[:5], "f[3]"]
    assert chosen(["h"], 60) == ["h"]
