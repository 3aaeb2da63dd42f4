"""Records which tests reach each statement of a module, once, for `bench.mutants`. What a mutant is
stands in `bench.changes`.

Copies of the modules get a probe before each statement (`bench.probe`), and the tests run on them.
What they reached lies in `.mutants.json`, per test file. A test file that changed since is recorded
again. A statement is known by its function and the digest of that function, so that a change
elsewhere in a module takes nothing away, nor does the module's move to another folder.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from bench.probe import FOLDER

BATCH = 12  # test files that one run of pytest records
BODIES = ("body", "orelse", "finalbody")


class Statement(NamedTuple):
    """A statement: its module, the outermost function around it ("" for none), and its place."""

    path: str
    function: str
    digest: str
    number: int

    @property
    def key(self) -> str:
        return "|".join((self.path, self.function, self.digest, str(self.number)))


def statements(path: str, tree: ast.Module) -> Iterator[tuple[ast.stmt, Statement]]:
    """Return every statement of a module, in the order of its lines."""
    counts: defaultdict[str, int] = defaultdict(int)

    def walk(
        node: ast.AST, prefix: str, function: str, digest: str
    ) -> Iterator[tuple[ast.stmt, Statement]]:
        for child in ast.iter_child_nodes(node):
            inner = (prefix, function, digest)
            if isinstance(child, ast.stmt):
                yield child, Statement(path, function, digest, counts[function])
                counts[function] += 1
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if not function:
                    inner = (prefix, prefix + child.name, _digest(ast.dump(child)))
            elif isinstance(child, ast.ClassDef):
                inner = (f"{prefix}{child.name}.", function, digest)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from walk(child, *inner)

    yield from walk(tree, "", "", "")


def statement_at(path: str, source: str, line: int) -> Statement:
    """Return the innermost statement that a line belongs to."""
    found = [(_start(node), one) for node, one in statements(path, ast.parse(source))]
    found.sort(key=lambda pair: pair[0])
    return found[max(0, bisect_right([start for start, _ in found], line) - 1)][1]


def _start(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min((node.lineno, *(each.lineno for each in decorators)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


def probed(path: str, source: str, numbers: dict[str, int]) -> str:
    """Return a module with a probe before each statement; numbers gets one for each."""
    tree = ast.parse(source)
    known = {id(node): one for node, one in statements(path, tree)}
    nodes = list(ast.walk(tree))
    head = 0
    while head < len(tree.body) and _must_stand_first(tree.body[head]):
        head += 1
    for node in nodes:
        for field, value in ast.iter_fields(node):
            if not isinstance(value, list) or not value:
                continue
            if not isinstance(value[0], ast.stmt):
                continue
            first = head if node is tree else int(_must_stand_first(value[0]))
            body: list[ast.stmt] = value[:first]
            for each in value[first:]:
                number = numbers.setdefault(known[id(each)].key, len(numbers))
                body += (ast.parse(f"__hits__[{number}]").body[0], each)
            setattr(node, field, body)
    importing = ast.parse("from bench.probe import HITS as __hits__").body[0]
    tree.body.insert(head, importing)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _must_stand_first(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class Reached:
    """What the tests reached when they were last recorded, in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.numbers: dict[str, int] = {}
        self.files: dict[str, Any] = {}
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            self.numbers, self.files = found["numbers"], found["files"]
        self._index()

    def record(self, tree: Path, paths: Sequence[str], tests: Sequence[str]) -> None:
        """Record the test files that changed, in this copy of the tree, and forget those that are
        gone.
        """
        known = self.files
        self.files = {name: known[name] for name in known if (tree / name).exists()}
        self._index()
        digests = {name: _digest((tree / name).read_text("utf-8")) for name in tests}
        stale = [
            name
            for name in tests
            if self.files.get(name, {}).get("digest") != digests[name]
        ]
        if not stale:
            return
        originals = {path: (tree / path).read_text("utf-8") for path in paths}
        for path, source in originals.items():
            (tree / path).write_text(probed(path, source, self.numbers), "utf-8")
        for start in range(0, len(stale), BATCH):
            batch = stale[start : start + BATCH]
            found = _recorded(tree, batch)
            for name in batch:
                mine = {
                    test: value
                    for test, value in found.items()
                    if test.partition("::")[0] == name
                }
                self.files[name] = {"digest": digests[name], "tests": mine}
            self._save()
            done = min(start + BATCH, len(stale))
            print(f"recorded {done} of {len(stale)} test files", flush=True)
        for path, source in originals.items():
            (tree / path).write_text(source, "utf-8")
        self._index()

    def _save(self) -> None:
        text = json.dumps({"numbers": self.numbers, "files": self.files})
        part = self.file.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(self.file)

    def _index(self) -> None:
        """Turn what each test reached into who reaches each statement, function and module."""
        wholes: dict[int, tuple[str, str]] = {}
        self._moved: defaultdict[str, list[int]] = defaultdict(list)
        for key, number in self.numbers.items():
            path, function, *_ = key.split("|")
            if function:
                self._moved[key.partition("|")[2]].append(number)
            wholes[number] = (path, f"{path}|{function}")
        self.seconds: dict[str, float] = {}
        self._by: defaultdict[str | int, set[str]] = defaultdict(set)
        for file in self.files.values():
            for test, (seconds, hits) in file["tests"].items():
                self.seconds[test] = seconds
                for number in hits:
                    self._by[number].add(test)
                for pair in {wholes[number] for number in hits}:
                    for whole in pair:
                        self._by[whole].add(test)

    def tests(self, one: Statement) -> set[str]:
        """Return the tests that reach a statement; else its function, else its module."""
        if one.function:
            _, _, unmoved = one.key.partition("|")
            known = [self.numbers.get(one.key), *self._moved.get(unmoved, ())]
            numbers = [number for number in known if number is not None]
            if numbers:
                return set().union(*(self._by.get(number, ()) for number in numbers))
            if f"{one.path}|{one.function}" in self._by:
                return self._by[f"{one.path}|{one.function}"]
        return self._by.get(one.path, set())


def _recorded(tree: Path, files: Iterable[str]) -> dict[str, tuple[float, list[int]]]:
    """Run test files; return for each test that passed its seconds and what it reached."""
    with tempfile.TemporaryDirectory(prefix="mutants-hits-") as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        env = os.environ | {"PYTHONPATH": str(tree), FOLDER: folder}
        subprocess.run(
            [*command, "-p", "bench.probe", *files],
            cwd=tree,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        seconds: defaultdict[str, float] = defaultdict(float)
        failed = set()
        reports = Path(folder, "reports")
        for line in reports.read_text("utf-8").splitlines() if reports.exists() else ():
            test, outcome, time = line.rsplit("\t", 2)
            seconds[test] += float(time)
            if outcome != "passed":
                failed.add(test)
        hits: defaultdict[str, set[int]] = defaultdict(set)
        for file in Path(folder).glob("*.hits"):
            for line in file.read_text("utf-8", "replace").splitlines():
                test, _, numbers = line.rpartition("\t")
                # a process may die, or be out of space, in the middle of a number
                hits[test].update(
                    int(each) for each in numbers.split() if each.isdigit()
                )
    return {
        test: (round(time, 4), sorted(hits[test]))
        for test, time in seconds.items()
        if test not in failed
    }
