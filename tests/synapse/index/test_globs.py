"""Globs as SQL say of every namespace what `matches` says of it."""

import random
import sqlite3

from synapse.index.globs import covering
from synapse.model.namespace import is_glob, matches_any

PARTS = ("a", "b", "a-b", "a0", "ab", "0")


def disagreements(condition, seed):
    """Return the globs and namespaces of which the condition says something else."""
    dice = random.Random(seed)
    names = {"/".join(dice.choices(PARTS, k=dice.randint(1, 6))) for _ in range(400)} | {
        "a",
        "a/b",
        "a/b/a",
        "a/b/a/b",
        "a-b/a",
        "a0",
        "a0/b",
    }
    base = sqlite3.connect(":memory:")
    base.execute("create table namespaces(name text primary key)")
    base.executemany("insert into namespaces values(?)", [(name,) for name in names])
    found = []
    for _ in range(300):
        globs = tuple(
            "/".join(dice.choices((*PARTS[:3], "*"), k=dice.randint(1, 7)))
            for _ in range(dice.randint(0, 3))
        )
        assert all(map(is_glob, globs))
        sql = f"select name from namespaces where {condition(globs)}"
        covered = {name for (name,) in base.execute(sql)}
        wanted = {name for name in names if matches_any(globs, name)}
        found += [(globs, name) for name in covered ^ wanted]
    return found


def test_sql_covers_what_matches():
    assert [disagreements(covering, seed) for seed in range(5)] == [[]] * 5


def test_the_comparison_catches_what_a_plain_glob_takes_for_one_segment():
    def plain(globs):
        terms = (f"name glob '{glob}'" for glob in globs)
        return " or ".join(terms) or "0"

    assert disagreements(plain, 0)


def test_what_is_no_glob_covers_nothing():
    assert covering(("a' or 1 or '", "A", "")) == "0"
