"""The budget: decided before the spend, by any number of threads and processes, in all scopes or in
none.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files import ledger
from orchestrator.runs.files.folder import Folder
from orchestrator.runs.files.ledger import Line, Segment
from orchestrator.spend import reservations
from orchestrator.spend.limits import Amount, LimitReached, Limits, Policy, Scope, scopes
from orchestrator.spend.reservations import Budget, Past, Standing
from synapse.errors import StoreError
from synapse.log.postgres.address import parse_address
from synapse.log.postgres.database import Database

AT = 1_769_900_400_000_000  # 2026-01-31T23:00:00Z
RESERVERS = 32
NAMES = count()
CALL = Amount(1, 1_000, 0.07, 1.5)

# A process that reserves until it is refused, then says how often it was not.
RESERVER = """
import sys
from orchestrator.spend.limits import Amount, Limits, LimitReached, Scope
from orchestrator.spend.reservations import Budget
budget, won = Budget(sys.argv[1]), 0
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        budget.reserve(sys.argv[2], "h", [Scope("tree:a", Limits(usd=1.0))], Amount(1, 10, 0.07))
        won += 1
except LimitReached:
    print(won)
"""

# A process that spends without end, in two scopes, always the same in both.
SPENDER = """
import sys
from orchestrator.spend.limits import Amount, Limits, Scope
from orchestrator.spend.reservations import Budget
budget = Budget(sys.argv[1])
where = [Scope("run:a", Limits(tokens=10**9)), Scope("tree:a", Limits(usd=10.0**6))]
print("ready", flush=True)
while True:
    kept = budget.reserve("a", "h", where, Amount(1, 10, 0.25))
    budget.settle(kept, Amount(1, 7, 0.125))
"""

# A process and its child that reserve through the same object.
FORKER = """
import os, sys
from orchestrator.spend.limits import Amount, Limits, Scope
from orchestrator.spend.reservations import Budget
budget, where = Budget(sys.argv[1]), [Scope("run:a", Limits())]
budget.reserve("a", "h", where, Amount(1))
child = os.fork()
if not child:
    budget.reserve("a", "h", where, Amount(1))
    os._exit(0)
print(os.waitpid(child, 0)[1], budget.standing("run:a").reserved.turns)
"""


@pytest.fixture(params=["file", "memory", "database"])
def budget(request, tmp_path):
    database = None
    if request.param == "database":
        server = request.getfixturevalue("postgres_server")
        database = Database(parse_address(server.url(f"b{os.getpid()}_{next(NAMES)}")))
        database.workspace()
    path = ":memory:" if request.param == "memory" else str(tmp_path / "runs/spend.db")
    made = Budget(path, database=database)
    yield made
    made.close()
    if database is not None:
        database.close()


def scope(name="run:a", **bounds):
    return Scope(name, Limits(**bounds))


def overspend(reserve, bound, each):
    """How far 32 threads at once get beyond a bound."""
    ready, won = threading.Barrier(RESERVERS), []

    def reserver():
        ready.wait(10)
        for _ in range(4):
            try:
                reserve(each)
            except LimitReached:
                return
            won.append(each)

    with ThreadPoolExecutor(RESERVERS) as pool:
        for done in [pool.submit(reserver) for _ in range(RESERVERS)]:
            done.result(30)
    return max(sum(won) - bound, 0), sum(won)


def test_what_is_asked_for_is_set_aside_and_what_was_used_is_counted(budget):
    where = [scope("run:a", usd=1), scope("tree:a", tokens=5_000)]
    kept = budget.reserve("a", "h", where, CALL)
    assert budget.standing("tree:a") == Standing(Amount(), CALL, 0, 0)
    assert budget.settle(kept, Amount(1, 900, 0.05, 1.25))
    assert budget.standing("run:a") == Standing(Amount(1, 900, 0.05, 1.25), Amount(), 0, 0)
    assert budget.standing("tree:a") == budget.standing("run:a")


def test_a_call_that_was_never_made_costs_nothing(budget):
    assert budget.release(budget.reserve("a", "h", [scope(usd=1)], CALL))
    assert budget.standing("run:a") == Standing(Amount(), Amount(), 0, 0)


def test_what_was_used_beyond_its_reservation_shows(budget):
    kept = budget.reserve("a", "h", [scope(usd=0.1)], CALL)
    budget.settle(kept, CALL._replace(usd=0.3))
    assert budget.standing("run:a").spent.usd == 0.3
    with pytest.raises(LimitReached, match=r"\$0.1 allowed, \$0.3 taken, \$0.07 asked for"):
        budget.reserve("a", "h", [scope(usd=0.1)], CALL)


@pytest.mark.parametrize(
    ("limit", "bound"),
    [("turns", 3), ("tokens", 3_500), ("usd", 0.27), ("seconds", 5.0)],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("name", ["run:a", "tree:a", "department:web", "day:2026-01-31"])
def test_each_amount_is_limited_alone_in_each_scope(budget, name, limit, bound):
    where = [scope("run:z"), scope(name, **{limit: bound}), scope("workspace")]
    for _ in range(3):
        budget.reserve("a", "h", where, CALL)
    with pytest.raises(LimitReached) as caught:
        budget.reserve("a", "h", where, CALL)
    assert (caught.value.scope, caught.value.limit, caught.value.bound) == (name, limit, bound)
    assert budget.standing("run:z").reserved.turns == 3


def test_what_is_not_limited_is_still_counted(budget):
    for _ in range(5):
        budget.reserve("a", "h", [scope()], Amount(1, 10**9, 10**6))
    assert budget.standing("run:a").reserved == Amount(5, 5 * 10**9, 5 * 10**6)


def test_money_adds_up_exactly(budget):
    for _ in range(10):
        budget.reserve("a", "h", [scope(usd=1.0)], Amount(1, 0, 0.1))
    with pytest.raises(LimitReached):
        budget.reserve("a", "h", [scope(usd=1.0)], Amount(1, 0, 1e-9))


def spawn_all(budget, policy, *, at_most=300):
    """Agents that always spawn 4 children: how many runs there were, and which limits stopped
    them.
    """
    begun, stopped, waiting = 0, set(), [("r", None, 0)]
    while waiting and begun < at_most:
        run, parent, depth = waiting.pop(0)
        try:
            if policy.run.depth is not None and depth > policy.run.depth:
                raise LimitReached(limit="depth")
            budget.admit(run, "h", scopes(policy, run=parent, root="r", department="web", at=AT))
        except LimitReached as error:
            stopped.add(error.limit)
            continue
        begun += 1
        waiting += [(f"{run}.{n}", run, depth + 1) for n in range(4)]
    return begun, stopped


@pytest.mark.parametrize(
    ("policy", "limit", "begun"),
    [
        (Policy(run=Limits(depth=2), day=Limits()), "depth", 21),
        (Policy(run=Limits(children=0), day=Limits()), "children", 1),
        (Policy(run=Limits(), tree=Limits(children=50), day=Limits()), "children", 50),
        (
            Policy(run=Limits(), departments={"web": Limits(children=9)}, day=Limits()),
            "children",
            9,
        ),
        (Policy(run=Limits(), day=Limits(children=33)), "children", 33),
        (Policy(run=Limits(), tree=Limits(live=12), day=Limits()), "live", 12),
        (Policy(run=Limits(), departments={"*": Limits(live=7)}, day=Limits()), "live", 7),
        (Policy(run=Limits(), day=Limits(live=30)), "live", 30),
    ],
)
def test_agents_that_always_spawn_are_stopped_by_each_limit_alone(budget, policy, limit, begun):
    assert spawn_all(budget, policy) == (begun, {limit})


def test_without_limits_they_are_not_stopped(budget):
    assert spawn_all(budget, Policy(run=Limits(), day=Limits())) == (300, set())


def test_a_live_run_makes_room_when_it_ends(budget):
    where = [scope("workspace", live=1)]
    budget.admit("a", "h", where)
    with pytest.raises(LimitReached):
        budget.admit("b", "h", where)
    budget.leave("a", "another")
    with pytest.raises(LimitReached):
        budget.admit("b", "h", where)
    budget.leave("a", "h")
    budget.admit("b", "h", where)
    assert (budget.standing("workspace").runs, budget.standing("workspace").live) == (2, 1)


def test_a_takeover_settles_what_was_in_flight_at_what_was_reserved(budget):
    where = [scope("tree:a", usd=1)]
    budget.admit("a", "old", where)
    kept = budget.reserve("a", "old", where, CALL)
    budget.recover("a", "new", where)
    assert budget.standing("tree:a") == Standing(CALL, Amount(), 1, 1)
    assert not budget.settle(kept, Amount(1, 9, 0.01)), "the stale process counts nothing twice"
    assert budget.standing("tree:a").spent == CALL
    assert budget.lease_names() == {"new"}


def test_a_dead_supervisor_counts_no_more(budget):
    where = [scope("workspace", live=2)]
    for run, holder in (("a", "dead"), ("b", "living")):
        budget.admit(run, holder, where)
        budget.reserve(run, holder, where, CALL)
    assert budget.lease_names() == {"dead", "living"}
    budget.release_all("dead")
    assert budget.standing("workspace") == Standing(CALL, CALL, 2, 1)
    assert budget.lease_names() == {"living"}


@pytest.mark.parametrize("end", ["recover", "leave", "release_all", "give_up"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_call_whose_end_nobody_reports_is_booked_once(tmp_path, end, earlier):
    """By whoever finds it first, in whichever process; in a file of an earlier version too."""
    path, booked = str(tmp_path / "spend.db"), []

    def opened():
        return Budget(path, book=lambda *line: booked.append(line))

    opened().close()
    if earlier:
        db = sqlite3.connect(path)
        db.execute("alter table call drop column line")
        db.close()
    where = [scope("tree:a", usd=1)]
    first = opened()
    for _ in range(2):
        first.settle(first.reserve("a", "old", where, CALL, "answered\n"), CALL)
    kept = first.reserve("a", "old", where, CALL, "line\n")
    other = opened()
    ends = {
        "recover": lambda: other.recover("a", "new", where),
        "leave": lambda: other.leave("a", "old"),
        "release_all": lambda: other.release_dead(lambda name: False),
        "give_up": lambda: other.give_up(kept),
    }
    for _ in range(2):
        ends[end]()
        assert booked == [("a", "line\n")]
    assert other.standing("tree:a").spent.turns == 3
    first.close()
    other.close()


def test_a_ledger_that_cannot_be_written_stops_nobody(tmp_path):
    def book(run, line):
        raise StoreError("its disk is full")

    budget = Budget(book=book)
    budget.reserve("a", "old", [scope("tree:a", usd=1)], CALL, "line\n")
    budget.release_all("old")
    assert budget.standing("tree:a") == Standing(CALL, Amount(), 0, 0)


def test_threads_do_not_overspend(budget):
    assert overspend(
        lambda usd: budget.reserve("a", "h", [scope(usd=1.0)], Amount(1, 0, usd)), 1.0, 0.07
    ) == (0, pytest.approx(0.98))


def test_the_check_catches_a_naive_budget():
    class Naive:
        spent = 0.0

        def reserve(self, usd):
            if self.spent + usd > 1.0:
                raise LimitReached
            time.sleep(0.001)
            self.spent += usd

    assert overspend(Naive().reserve, 1.0, 0.07)[0] > 0


def test_processes_do_not_overspend(tmp_path):
    path = str(tmp_path / "spend.db")
    command = [sys.executable, "-c", RESERVER, path]
    made = [
        subprocess.Popen(
            [*command, f"r{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(RESERVERS)
    ]
    try:
        assert [one.stdout.readline() for one in made] == ["ready\n"] * RESERVERS
        for one in made:
            one.stdin.write("go\n")
            one.stdin.flush()
        won = [int(one.communicate(timeout=30)[0]) for one in made]
    finally:
        for one in made:
            one.kill()
            one.wait(10)
    assert sum(won) == 14
    assert Budget(path).standing("tree:a").reserved == Amount(14, 140, 0.98)


def test_a_kill_in_the_middle_leaves_whole_decisions(tmp_path):
    path, chance = str(tmp_path / "spend.db"), random.Random(7)
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", SPENDER, path], stdout=subprocess.PIPE, text=True
        ) as one:
            assert one.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0, 0.03))
            os.kill(one.pid, signal.SIGKILL)
            one.wait(10)
        budget = Budget(path)
        found = budget.standing("run:a")
        assert found == budget.standing("tree:a")
        assert found.reserved in (Amount(), Amount(1, 10, 0.25))
        budget.release_all("h")
        assert budget.standing("run:a").reserved == Amount()
        budget.close()
    db = sqlite3.connect(path)
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    assert db.execute("select count(*) from call").fetchone() == (0,)
    assert found.spent.turns > 0
    db.close()


def test_a_child_of_a_fork_has_a_connection_of_its_own(tmp_path):
    command = [sys.executable, "-c", FORKER, str(tmp_path / "spend.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 2\n", "")


def test_a_missing_file_is_made_again_from_the_ledgers(tmp_path):
    policy = Policy()
    runs = [Past("a", None, "a", None, AT), Past("b", "a", "a", "web", AT, lease_name="h")]
    lines = [
        Line("b", 0, "e", "m", "o200k", "exact", (Segment("task", 9),), (), Usage(90, 10, 5), 0.5),
        Line("b", 1, "e", "m", "o200k", "exact", (Segment("task", 9),), (Segment("work_out", 3),)),
    ]
    for line in lines:
        Folder(str(tmp_path), "b").make().record("ledger.jsonl", ledger.dump(line))
    path = str(tmp_path / "runs/spend.db")
    budget = Budget(
        path,
        policy=policy,
        refill=lambda: reservations.ledgers(partial(Folder, str(tmp_path)), runs),
    )
    spent = Amount(2, 112, 0.5)
    expected = {
        "run:b": Standing(spent, Amount(), 0, 0),
        "run:a": Standing(Amount(), Amount(), 1, 1),
        "tree:a": Standing(spent, Amount(), 2, 1),
        "department:web": Standing(spent, Amount(), 1, 1),
        "day:2026-01-31": Standing(spent, Amount(), 2, 1),
    }
    assert {name: budget.standing(name) for name in expected} == expected
    budget.reserve("a", "h", [scope("run:b")], CALL)
    os.remove(path)
    assert {name: budget.standing(name) for name in expected} == expected, (
        "noticed by a process that has it open"
    )
    budget.close()


def test_a_damaged_file_is_set_aside_and_one_that_cannot_be_opened_is_said(tmp_path):
    damaged = b"no database " * 500
    (tmp_path / "spend.db").write_bytes(damaged)
    Budget(str(tmp_path / "spend.db")).close()
    assert (tmp_path / "spend.db.damaged").read_bytes() == damaged
    with pytest.raises(StoreError, match="cannot be used"):
        Budget("/proc/none/spend.db")
