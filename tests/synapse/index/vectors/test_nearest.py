import random
import sqlite3
from struct import pack

import pytest

from synapse.index.vectors.nearest import Rows


@pytest.fixture
def many():
    """Numbers that halves of floats hold exactly."""
    draw = random.Random(3)
    return [
        (n, 1 + n // 2, [draw.randrange(-64, 65) / 64 for _ in range(8)]) for n in range(1, 400)
    ]


def cursor(rows):
    """The rows as SQLite gives them."""
    db = sqlite3.connect(":memory:")
    db.execute("create table rows(num, seq, vector)")
    db.executemany(
        "insert into rows values(?, ?, ?)",
        [(n, seq, pack("<8e", *vector)) for n, seq, vector in rows],
    )
    return db.execute("select * from rows order by num")


def slow(rows, vector):
    """Every one compared, by hand."""
    best = {}
    for _, seq, row in rows:
        score = sum(a * b for a, b in zip(row, vector, strict=True))
        best[seq] = max(best.get(seq, score), score)
    return sorted(best, key=lambda seq: (-best[seq], -seq))


def test_it_finds_what_a_look_at_each_finds(many):
    held = Rows(8, 0)
    held.extend(cursor(many))
    assert (held.count, held.last) == (399, 399)
    for _, _, vector in many[:20]:
        found = [seq for _, seq in held.nearest(vector, 10**9)]
        assert found[:40] == slow(many, vector)[:40]
        few = [seq for _, seq in held.nearest(vector, 30)]
        assert few == found[: len(few)]
        assert len(few) >= 15, "two parts each"


def test_it_grows_a_row_at_a_time_as_it_does_at_once(many):
    once, slowly = Rows(8, 0), Rows(8, 0)
    once.extend(cursor(many))
    for row in many:
        slowly.extend(cursor([row]))
    assert slowly.nearest(many[0][2], 50) == once.nearest(many[0][2], 50)


def test_nothing_is_near_to_what_is_not_there():
    assert Rows(8, 0).nearest([1.0] * 8, 5) == []
