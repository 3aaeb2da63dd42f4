"""The budget of several machines: one in the database of their log sells a limit once, a file on each
machine sells it as often as there are machines.
"""

import os
import signal
import subprocess
import sys
import time
from itertools import count

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files.ledger import Line, Segment
from orchestrator.spend.limits import Amount, Limits, Scope
from orchestrator.spend.reservations import Budget, Past, Standing
from synapse.log.postgres.address import parse_address
from synapse.log.postgres.database import Database

NAMES = count()
RESERVERS, MACHINES, LIMIT = 32, 3, 100
DAY = "day:2026-11-28"
BEGIN = """
import os, sys
from orchestrator.spend.limits import Amount, Limits, LimitReached, Scope
from orchestrator.spend.reservations import Budget
from synapse.log.postgres.address import parse_address
from synapse.log.postgres.database import Database
where, name = sys.argv[1:3]
budget = Budget(where, database=Database(parse_address(where)) if "://" in where else None)
scopes = [Scope("day:2026-11-28", Limits(turns=100)), Scope("tree:a", Limits())]
print("ready", flush=True)
sys.stdin.readline()
"""
RESERVER = (
    BEGIN
    + """
sold = 0
for _ in range(8):
    try:
        kept = budget.reserve(name, name, scopes, Amount(1, 10, 0.5))
        budget.settle(kept, Amount(1, 7, 0.25))
        sold += 1
    except LimitReached:
        break
print(sold)
"""
)
SPENDER = (
    BEGIN
    + """
while True:
    kept = budget.reserve(name, name, [Scope(each.name, Limits()) for each in scopes], Amount(1))
    budget.settle(kept, Amount(1))
"""
)
HANGS = (
    BEGIN
    + """
def hang(db):
    print("held", flush=True)
    sys.stdin.readline()
budget._decide(hang)
"""
)


@pytest.fixture
def url(postgres_server):
    made = postgres_server.url(f"s{os.getpid()}_{next(NAMES)}")
    database = Database(parse_address(made))
    database.workspace()
    database.close()
    return made


@pytest.fixture
def open_budget(url):
    opened = []

    def open_one(**more):
        opened.append(Database(parse_address(url)))
        return Budget(database=opened[-1], **more)

    yield open_one
    for database in opened:
        database.close()


def begin(code, where, name):
    words = [sys.executable, "-c", code, where, name]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout.readline() == "ready\n"
    return process


def sold(places):
    """Return how many calls reservers were granted in all, each at its machine's place."""
    made = [begin(RESERVER, places[n % MACHINES], f"r{n}") for n in range(RESERVERS)]
    try:
        for process in made:
            process.stdin.write("go\n")
            process.stdin.flush()
        return sum(int(process.communicate(timeout=120)[0]) for process in made)
    finally:
        for process in made:
            process.kill()
            process.communicate(timeout=10)


def test_machines_sell_a_limit_once(url, open_budget):
    assert sold([url] * MACHINES) == LIMIT
    standing = open_budget().standing(DAY)
    assert standing == Standing(Amount(100, 700, 25.0), Amount(), 0, 0)
    assert open_budget().standing("tree:a").spent == standing.spent


def test_a_file_on_each_machine_sells_it_again(tmp_path):
    assert sold([str(tmp_path / f"spend-{n}.db") for n in range(MACHINES)]) > LIMIT


def test_a_machine_that_is_killed_leaves_whole_decisions(url, open_budget):
    for number in range(8):
        process = begin(SPENDER, url, "dead")
        process.stdin.write("go\n")
        time.sleep(0.05 + 0.01 * number)
        process.kill()
        process.communicate(timeout=10)
        budget = open_budget()
        assert budget.standing(DAY) == budget.standing("tree:a")
        budget.release_all("dead")
        assert budget.standing(DAY).reserved == Amount()
    assert budget.standing(DAY).spent.turns > 0


def test_a_machine_that_hangs_within_a_decision_loses_its_turn(url, open_budget):
    budget = open_budget()
    process = begin(HANGS, url, "hangs")
    try:
        process.stdin.write("go\n")
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGSTOP)
        kept = budget.reserve("a", "h", [Scope(DAY, Limits(turns=1))], Amount(1))
        assert budget.settle(kept, Amount(1))
    finally:
        process.kill()
        process.communicate(timeout=10)


def test_what_was_spent_before_is_counted_by_the_first_alone(open_budget):
    line = Line("a", 0, "e", "m", "o200k", "exact", (Segment("task", 9),), (), Usage(90, 10), 0.5)
    past = Past("a", None, "a", None, 1_769_900_400_000_000, "h")
    asked = []

    def refill():
        asked.append(1)
        return [(past, [line])]

    first, second = open_budget(refill=refill), open_budget(refill=refill)
    assert asked == [1]
    assert first.standing("tree:a") == second.standing("tree:a")
    assert first.standing("workspace").live == 1
    assert first.standing("tree:a").spent.turns == 1
