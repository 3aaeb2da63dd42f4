"""The script that changes operators at random: what a test notices is killed, what nothing can notice survives."""

import pytest

from bench import mutants
from bench.mutants import (
    KILLED,
    SURVIVED,
    TIMEOUT,
    count,
    drawn,
    judge,
    mutant,
)

TINY = """
def larger(a, b):
    if a > b:
        return a
    return b


def drained(n):
    while n:
        n = n - 1
    return 0
"""
TESTS = """
from tiny import drained, larger


def test_tiny():
    assert (larger(1, 2), larger(2, 1)) == (2, 2)
    assert drained(3) == 0
"""
EXPECTED = {
    "Gt -> LtE": {KILLED},
    "Gt -> GtE": {SURVIVED},  # of two that are equal either is the larger
    "Sub -> Add": {TIMEOUT},
    "1 + 1": {TIMEOUT},  # three by twos never comes to nothing
    "0 + 1": {KILLED},
    "return None": {KILLED},
}


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    (tmp_path / "test_tiny.py").write_text(TESTS)
    return tmp_path


def test_mutants_are_killed_or_survive(tree):
    results = {}
    for one in drawn(["tiny.py"], 100, 1, tree):
        limit = 1 if EXPECTED[one.change] == {TIMEOUT} else 60
        results.setdefault(one.change, set()).add(
            judge(one, tree, ["test_tiny.py"], limit)
        )
    assert results == EXPECTED
    assert (tree / "tiny.py").read_text() == TINY


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


def test_a_mutant_is_tried_by_the_tests_of_its_package_alone():
    names = dict.fromkeys(
        f"tests/{name}"
        for name in (
            "synapse/mail/test_a.py",
            "gate/test_b.py",
            "crash/test_c.py",
            "orchestrator/test_d.py",
        )
    )
    assert mutants.tests_of_package("synapse/index/mailbox.py", names) == [
        "tests/gate/test_b.py",
        "tests/synapse/mail/test_a.py",
    ]
    assert mutants.tests_of_package("orchestrator/runs/steps.py", names) == [
        "tests/orchestrator/test_d.py"
    ]
