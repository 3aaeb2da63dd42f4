"""Changes an operator of the code at random, and sees whether a test fails. Run by hand:
`python -m bench.mutants --count 300 --seed 1`.

Each mutant is one change in one module (`bench.changes`), tried in a copy of the tree by the tests
that reach it, by the map of `bench.reached`: its module's own and the quickest first
(`bench.forked`). What no test notices is shown to the type checker (`bench.typed`); what that
passes too survives: it wants a test, or the code that it changed is not needed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.changes import Mutant, drawn
from bench.forked import JOB, KILLED, PIPE, SURVIVED, TEMP, TIMEOUT, UNPLACED
from bench.reached import HEAD, MEMORY, Reached, Source, Statement, afforded, copied, ranked, read
from bench.typed import Types

PLACES = (
    "synapse/log",
    "synapse/index",
    "synapse/view",
    "synapse/authority.py",
    "orchestrator/runs",
    "orchestrator/run_store",
    "orchestrator/spend",
)
TYPES = "types"
START = 60.0  # seconds that a process of pytest may take until its first test
# seconds for one test, besides ten times what it took when it was recorded
PATIENCE = 10.0


def main(words: Sequence[str] | None = None) -> int:
    """Draw mutants, try each, and print the share that was noticed, and what survived."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("places", nargs="*", default=PLACES, help="files and folders")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20, help="seconds of tests for one mutant")
    asked = parser.parse_args(words)
    reached = read()
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory) as folder:
        tree = copied(Path(folder, "tree"))
        # a tree of its own: the tests have the next mutant in theirs already
        types, results = Types(copied(Path(folder, "types"))), []
        mutants = drawn(asked.places, asked.count, asked.seed)
        for one, status, test in tried(mutants, reached, tree, asked.limit):
            if status == SURVIVED and types.notice(one):
                status = TYPES
            results.append((one, status))
            print(f"{status:9} {one.path}:{one.line}: {one.change}  {test}", flush=True)
    _report(results)
    return 0


def tried(
    mutants: Sequence[Mutant],
    reached: Reached,
    tree: Path,
    limit: float,
    patience: float = PATIENCE,
) -> Iterator[tuple[Mutant, str, str]]:
    """Try mutants; return for each what came of it, and the test that noticed it."""
    inside: list[tuple[Mutant, Statement, list[str]]] = []
    outside: list[tuple[Mutant, Statement, list[str]]] = []
    for one in mutants:
        place = Source(one.path, (tree / one.path).read_text("utf-8")).at(one.line)
        known = ranked(one.path, reached.of_statement(place), reached.seconds)
        tests = afforded(known, reached.seconds, limit)
        is_inside = place.function and place.number != HEAD
        (inside if is_inside else outside).append((one, place, tests))
    unplaced = []
    for (one, place, tests), (status, test) in zip(
        inside, _forked(inside, reached.seconds, tree, patience), strict=True
    ):
        if status == UNPLACED:
            unplaced.append((one, place, tests))
        else:
            yield one, status, test
    for one, _, tests in (*unplaced, *outside):
        seconds = START + patience + 3 * sum(reached.seconds[test] for test in tests)
        yield one, judge(one, tree, tests, seconds), ""


def _forked(
    mutants: Sequence[tuple[Mutant, Statement, list[str]]],
    seconds: dict[str, float],
    tree: Path,
    patience: float,
) -> Iterator[tuple[str, str]]:
    """Try mutants in forks of one process that has collected all their tests."""
    names = {test.partition("::")[0] for _, _, tests in mutants for test in tests}
    if not names:
        yield from ((SURVIVED, "") for _ in mutants)
        return
    job = {
        "seconds": seconds,
        "patience": patience,
        "mutants": [(one.path, one.at, place.function, tests) for one, place, tests in mutants],
    }
    temp = tree.parent / "temp"
    temp.mkdir(exist_ok=True)
    (temp / "job").write_text(json.dumps(job), encoding="utf-8")
    reading, writing = os.pipe()
    words = ["-q", "--capture=sys", "-p", "no:cacheprovider", "-p", "bench.forked"]
    added = {JOB: str(temp / "job"), PIPE: str(writing), TEMP: str(temp)}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words, *sorted(names)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)} | added,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(writing,),
    )
    os.close(writing)
    try:
        with os.fdopen(reading, encoding="utf-8") as answers:
            for _ in mutants:
                line = answers.readline()
                if not line:
                    raise RuntimeError("the process that tries the mutants ended")
                status, test = json.loads(line)
                yield status, test
    finally:
        process.kill()
        process.wait()


def judge(one: Mutant, tree: Path, tests: Sequence[str], limit: float) -> str:
    """Return what the tests say of a mutant, tried in a process of its own."""
    if not tests:
        return SURVIVED
    path = tree / one.path
    original = path.read_bytes()
    path.write_text(one.source, encoding="utf-8")
    words = ["-x", "-q", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return KILLED if process.wait(limit) else SURVIVED
    except subprocess.TimeoutExpired:
        return TIMEOUT
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also what its tests started
        except ProcessLookupError:
            pass
        process.wait()
        path.write_bytes(original)


def _report(results: Sequence[tuple[Mutant, str]]) -> None:
    columns = (KILLED, TIMEOUT, TYPES, SURVIVED)
    by_file = Counter((one.path, status) for one, status in results)
    print(f"\n| file | {' | '.join(columns)} |\n|{' --- |' * (1 + len(columns))}")
    for path in sorted({one.path for one, _ in results}):
        figures = (str(by_file[path, status]) for status in columns)
        print(f"| {path} | {' | '.join(figures)} |")
    total = Counter(status for _, status in results)
    late, typed = total[TIMEOUT], total[TYPES]
    tested = 100 * (total[KILLED] + late) / max(1, len(results))
    share = tested + 100 * typed / max(1, len(results))
    print(
        f"\n{len(results)} mutants: tests notice {tested:.0f} % ({late} of them by the"
        f" time limit), and with the type checker {share:.0f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
