"""Changes an operator of the code at random, and sees whether a test fails. Run by hand:
`python -m bench.mutants --count 300 --seed 1`.

Each mutant is one change in one module, tried in a copy of the tree by the tests of that module,
and where these do not notice it by those of its whole package. One that no test notices survives:
it wants a test, or the code that it changed is not needed.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

from bench.affected import ROOT, SLOW, tests_of

PLACES = (
    "synapse/log",
    "synapse/index",
    "synapse/view",
    "synapse/authority.py",
    "orchestrator/runs",
    "orchestrator/run_store.py",
    "orchestrator/spend",
)
# Tests of a place that do not import its modules by name.
MORE = {
    "synapse/log": (
        "tests/contract/test_log.py",
        "tests/crash/test_torn.py",
        "tests/crash/test_verify.py",
        "tests/crash/test_histories.py",
    ),
    "synapse/index": ("tests/synapse/test_index.py", "tests/synapse/test_query.py"),
    "orchestrator/runs": (
        "tests/orchestrator/test_run_store.py",
        "tests/orchestrator/test_recovery.py",
    ),
    "orchestrator/spend": ("tests/orchestrator/test_limits_supervised.py",),
}
FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


class Mutant(NamedTuple):
    """A module with one change in it."""

    path: str
    line: int
    change: str
    source: str


class _Change(ast.NodeTransformer):
    """Counts the places that can change; makes the change at one of them."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.count, self.line, self.change = at, 0, 0, ""

    def _here(self, node: ast.expr | ast.stmt, change: str) -> bool:
        self.count += 1
        if self.count - 1 != self.at:
            return False
        self.line, self.change = node.lineno, change
        return True

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for table in (FLIPS, BOUNDARIES):
            for place, operator in enumerate(node.ops):
                other = table.get(type(operator))
                if other and self._here(
                    node, f"{type(operator).__name__} -> {other.__name__}"
                ):
                    node.ops[place] = other()
                    return node
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._here(node, "and <-> or"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._here(node, "not removed"):
            return node.operand
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        other = ARITHMETIC.get(type(node.op))
        if other and self._here(node, f"{type(node.op).__name__} -> {other.__name__}"):
            node.op = other()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool) and self._here(node, f"not {node.value}"):
            return ast.copy_location(ast.Constant(not node.value), node)
        if type(node.value) is int and self._here(node, f"{node.value} + 1"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        nothing = node.value is None or ast.unparse(node.value) == "None"
        if not nothing and self._here(node, "return None"):
            node.value = ast.Constant(None)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Change bodies and defaults, but no annotations: these are for the type checker."""
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return (
            node
            if ast.unparse(node.test) == "TYPE_CHECKING"
            else self.generic_visit(node)
        )


def count(source: str) -> int:
    """Return how many changes there are to be made in a module."""
    counter = _Change()
    counter.visit(ast.parse(source))
    return counter.count


def mutant(path: str, source: str, at: int) -> Mutant:
    """Return the module with this change."""
    changer = _Change(at)
    tree = ast.fix_missing_locations(changer.visit(ast.parse(source)))
    return Mutant(path, changer.line, changer.change, ast.unparse(tree) + "\n")


def drawn(
    places: Sequence[str], number: int, seed: int, root: Path = ROOT
) -> list[Mutant]:
    """Return that many mutants of the modules at these places, each drawn with equal chance."""
    sources = {
        path: (root / path).read_text(encoding="utf-8")
        for path in _modules(places, root)
    }
    changes = [
        (path, at) for path, source in sources.items() for at in range(count(source))
    ]
    picked = random.Random(seed).sample(changes, min(number, len(changes)))
    return [mutant(path, sources[path], at) for path, at in picked]


def _modules(places: Sequence[str], root: Path) -> Iterator[str]:
    for place in places:
        path = root / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        yield from (file.relative_to(root).as_posix() for file in files)


def judge(one: Mutant, tree: Path, tests: Sequence[str], limit: float) -> str:
    """Return what the tests say of a mutant, tried in this copy of the tree."""
    path = tree / one.path
    original = path.read_bytes()
    path.write_text(one.source, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    env = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=env,
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


def tests_for(path: str, tests: dict[str, Path]) -> list[str]:
    """Return the tests of a module, those in its own folder first."""
    folder = f"tests/{Path(path).parent.as_posix()}/"
    names = tests_of(path, tests)
    for place, more in MORE.items():
        if path.startswith(place):
            names.update(more)
    return sorted(
        names & tests.keys(),
        key=lambda name: (name.startswith(SLOW), not name.startswith(folder), name),
    )


def tests_of_package(path: str, tests: dict[str, Path]) -> list[str]:
    """Return the quick tests of the package that the module is in."""
    package = path.partition("/")[0]
    folders = [f"tests/{package}/"]
    if package == "synapse":
        folders += ["tests/contract/", "tests/gate/"]
    return sorted(name for name in tests if name.startswith(tuple(folders)))


def copied(folder: Path) -> Path:
    """Return a copy of the checkout, without what was made in it."""
    without = shutil.ignore_patterns(".*", "__pycache__", "dist", "node_modules")
    return Path(shutil.copytree(ROOT, folder, ignore=without))


def main(words: Sequence[str] | None = None) -> int:
    """Draw mutants, try each, and print the share that was noticed, and what survived."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutants", description=__doc__
    )
    parser.add_argument("places", nargs="*", default=PLACES, help="files and folders")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds for one set of tests"
    )
    asked = parser.parse_args(words)
    tests = {
        path.relative_to(ROOT).as_posix(): path
        for path in (ROOT / "tests").rglob("test_*.py")
    }
    mutants = drawn(asked.places, asked.count, asked.seed)
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ThreadPoolExecutor(asked.workers) as pool,
    ):
        trees: Queue[Path] = Queue()
        for number in range(asked.workers):
            trees.put(copied(Path(folder, str(number))))

        def narrow(one: Mutant) -> tuple[Mutant, str]:
            return one, tried(one, tests_for(one.path, tests))

        def wide(one: Mutant) -> tuple[Mutant, str]:
            return one, tried(one, tests_of_package(one.path, tests))

        def attempt(one: Mutant) -> tuple[Mutant, str]:
            _, status = narrow(one)
            return wide(one) if status == SURVIVED else (one, status)

        def tried(one: Mutant, names: Sequence[str]) -> str:
            tree = trees.get()
            try:
                return judge(one, tree, names, asked.limit)
            finally:
                trees.put(tree)

        wholes = [whole(path) for path in sorted({one.path for one in mutants})]
        packages = {one.path.partition("/")[0]: one for one in wholes}
        results = [*pool.map(narrow, wholes), *pool.map(wide, packages.values())]
        failing = [one.path for one, status in results if status != SURVIVED]
        if failing:
            print(
                "the tests of these fail, or take too long, without a change:", *failing
            )
            return 1
        results = []
        for one, status in pool.map(attempt, mutants):
            results.append((one, status))
            print(f"{status:9} {one.path}:{one.line}: {one.change}", flush=True)
    _report(results)
    return 0


def whole(path: str) -> Mutant:
    """Return a module as a mutant without a change, which has to survive."""
    source = (ROOT / path).read_text(encoding="utf-8")
    return Mutant(path, 0, "none", ast.unparse(ast.parse(source)) + "\n")


def _report(results: Sequence[tuple[Mutant, str]]) -> None:
    by_file = Counter((one.path, status) for one, status in results)
    print("\n| file | killed | survived | timeout |\n| --- | --- | --- | --- |")
    for path in sorted({one.path for one, _ in results}):
        figures = (str(by_file[path, status]) for status in (KILLED, SURVIVED, TIMEOUT))
        print(f"| {path} | {' | '.join(figures)} |")
    total = Counter(status for _, status in results)
    share = 100 * (total[KILLED] + total[TIMEOUT]) / max(1, len(results))
    late = total[TIMEOUT]
    print(
        f"\n{len(results)} mutants, {share:.0f} % noticed, {late} of them by the time limit"
    )


if __name__ == "__main__":
    sys.exit(main())
