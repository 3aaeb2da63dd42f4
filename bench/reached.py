"""Which tests reach each statement: the map in `tests/reached.json`, by which `bench.affected`
selects what a change needs and `bench.mutants` what tries a mutant. `python -m bench.reached` makes
it anew: a whole run of the tests on a copy of the tree whose modules have a probe before each
statement (`bench.probe`).

Of the tests that reach a statement the map keeps the nearest and quickest, as `ranked` has them. A
statement is known by its function and the digest of that function, without docstrings, so that a
change elsewhere in a module takes nothing away, nor does the module's move to another folder. A
file that is no module, such as a template, is known by its path, and was reached by who read it.

A test is named in the map by five letters that its id alone decides, so that a test which came or
went changes no line but its file's and those of the functions that it reaches: git merges two maps.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from bench.probe import FOLDER

ROOT = Path(__file__).parents[1]
MAP = ROOT / "tests" / "reached.json"
PACKAGES = ("synapse", "orchestrator", "prompts", "scenarios", "bench")
MEMORY = "/dev/shm"
# made in a checkout, and no part of it
MADE = ".venv .*_cache .hypothesis .clients .conformance __pycache__ dist site *.egg-info"
KEPT = 24  # tests of a statement that the map names
DEAREST = 30.0  # seconds of the processor that those take together, but for the first
# For a process that was given no way to the probe, or that cannot read it: any number will do.
IMPORT = """
try:
    from bench.probe import HITS as __hits__
except ImportError:
    try:
        __import__("sys").path.append({root!r})
        from bench.probe import HITS as __hits__
    except ImportError:
        __hits__ = range(1 << 40)
"""

HEAD = -1
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
WIDTH = 5  # letters of a test's name in the map
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


class Statement(NamedTuple):
    """A statement: its module, the outermost function around it ("" for none), and its place; HEAD
    for the head of a function itself.
    """

    path: str
    function: str
    digest: str
    number: int


def parsed(source: str) -> ast.Module:
    """Return the tree of a module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, False) is not None:
            text = node.body.pop(0)
            if not node.body:
                node.body.append(ast.copy_location(ast.Pass(), text))
    return tree


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
            if isinstance(child, Function):
                if not function:
                    inner = (prefix, prefix + child.name, _digest(ast.dump(child)))
            elif isinstance(child, ast.ClassDef):
                inner = (f"{prefix}{child.name}.", function, digest)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from walk(child, *inner)

    yield from walk(tree, "", "", "")


class Source:
    """A module as a text, whose statements are asked for by line."""

    def __init__(self, path: str, text: str) -> None:
        rows = [*statements(path, parsed(text))]
        pairs = []
        for (node, one), (_, inner) in zip(rows, [*rows[1:], *rows[:1]], strict=True):
            is_head = not one.function and isinstance(node, Function)
            pairs.append((_start(node), inner._replace(number=HEAD) if is_head else one))
        pairs.sort(key=lambda pair: pair[0])
        self._starts = [start for start, _ in pairs]
        self._statements = [one for _, one in pairs] or [Statement(path, "", "", 0)]

    def at(self, line: int) -> Statement:
        """Return the innermost statement that a line belongs to."""
        place = bisect_right(self._starts, line) - 1
        return self._statements[max(0, place)]

    def functions(self) -> dict[str, str]:
        """Return the digest of each outermost function."""
        return {one.function: one.digest for one in self._statements}


def _start(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min((node.lineno, *(each.lineno for each in decorators)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


def probed(path: str, source: str, numbers: dict[Statement, int], root: Path) -> str:
    """Return a module with a probe before each statement; numbers gets one for each."""
    tree = ast.parse(source)
    known = {}
    for node, one in statements(path, parsed(source)):
        known[type(node), node.lineno, node.col_offset] = one
    head = 0
    while head < len(tree.body) and _must_stand_first(tree.body[head]):
        head += 1
    for parent in list(ast.walk(tree)):
        for field, value in ast.iter_fields(parent):
            if not isinstance(value, list) or not value:
                continue
            if not isinstance(value[0], ast.stmt):
                continue
            first = head if parent is tree else int(_must_stand_first(value[0]))
            body: list[ast.stmt] = value[:first]
            for each in value[first:]:
                one = known[type(each), each.lineno, each.col_offset]
                number = numbers.setdefault(one, len(numbers))
                body += (ast.parse(f"__hits__[{number}]").body[0], each)
            setattr(parent, field, body)
    tree.body[head:head] = ast.parse(IMPORT.format(root=str(root))).body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _must_stand_first(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def ranked(path: str, tests: Iterable[str], seconds: Mapping[str, float]) -> Iterator[str]:
    """Return tests of a file in the order in which to try them: those of its own test file, then
    of its folder, then the others. Of these the quickest come first, and two cases of each function
    before its other cases.
    """
    folder = f"tests/{Path(path).parent.as_posix()}/"
    own = f"{folder}test_{Path(path).stem}.py::"
    cases: Counter[str] = Counter()
    rows: list[tuple[int, int, int, str]] = []
    for test in sorted(tests, key=lambda test: (seconds.get(test, 0), test)):
        function = test.partition("[")[0]
        distance = 2 - test.startswith(folder) - test.startswith(own)
        rows.append((distance, cases[function] // 2, len(rows), test))
        cases[function] += 1
    return (test for *_, test in sorted(rows))


def short(test: str) -> str:
    """Return the name of a test in the map."""
    number = int.from_bytes(sha256(test.encode()).digest()[:8])
    return "".join(LETTERS[number // 62**place % 62] for place in range(WIDTH))


def afforded(tests: Iterable[str], seconds: Mapping[str, float], limit: float) -> list[str]:
    """Return the tests that the limit has room for, the first at any cost."""
    picked: list[str] = []
    used = 0.0
    for test in tests:
        spent = seconds.get(test, 0.0)
        if used + spent <= limit or not picked:
            picked.append(test)
            used += spent
    return picked


class Reached:
    """The tests of each statement, and what each test took."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.seconds = {
            f"{file}::{case}": spent
            for file, cases in content["tests"].items()
            for case, spent in cases.items()
        }
        self.files = frozenset(content["tests"])
        named_so = {short(test): test for test in self.seconds}
        self._by: dict[Statement, list[str]] = {}
        self._of: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._moved: defaultdict[tuple[str, str, int], list[str]] = defaultdict(list)
        for path, functions in content["reached"].items():
            for function, (digest, *blocks) in functions.items():
                for numbers, names in blocks:
                    all_named = (names[at : at + WIDTH] for at in range(0, len(names), WIDTH))
                    named = [named_so[name] for name in all_named if name in named_so]
                    for whole in {function, ""}:  # "" is all of the module
                        self._of[path, whole] |= dict.fromkeys(named)
                    for number in _numbers(numbers):
                        self._by[Statement(path, function, digest, number)] = named
                        self._moved[function, digest, number] += named

    def pairs(self) -> Iterator[tuple[Statement, str]]:
        """Yield each statement with each of its tests."""
        for one, tests in self._by.items():
            yield from ((one, test) for test in tests)

    def of_statement(self, one: Statement) -> set[str]:
        """Return the tests of a statement; else of its function, else of its module."""
        if one.function:
            exact = self._by.get(one) or self._moved.get(one[1:])
            if exact:
                return set(exact)
            if (one.path, one.function) in self._of:
                return set(self._of[one.path, one.function])
        return self.of_file(one.path)

    def of_functions(self, path: str) -> set[str]:
        """Return the tests that reach a function of a module."""
        named = (tests for (file, name), tests in self._of.items() if file == path and name)
        return {test for tests in named for test in tests}

    def of_file(self, path: str) -> set[str]:
        """Return the tests that reach anything of a module, or read a file."""
        return set(self._of.get((path, ""), ()))


def read(path: Path = MAP) -> Reached:
    """Return the map of a checkout."""
    return Reached(json.loads(path.read_text(encoding="utf-8")))


def record(
    tree: Path, files: Sequence[str], words: Sequence[str] = (), known: Reached | None = None
) -> dict[str, Any]:
    """Put probes into modules of a copy of the tree, run tests on it, and return the map. `words`
    are for pytest. Of a known map the tests of other test files are kept.
    """
    numbers: dict[Statement, int] = {}
    for path in files:
        if path != "bench/probe.py":
            source = (tree / path).read_text(encoding="utf-8")
            (tree / path).write_text(probed(path, source, numbers, tree), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="reached-") as folder:
        env = os.environ | {"PYTHONPATH": str(tree), FOLDER: folder}
        plugins = ["-p", "bench.probe", "-p", "no:cacheprovider"]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=no", *plugins, *words],
            cwd=tree,
            env=env,
            stdin=subprocess.DEVNULL,
        )
        seconds = _seconds(Path(folder))
        by = _hits(Path(folder), tree, list(numbers), seconds.keys())
    renewed = {test.partition("::")[0] for test in seconds}
    if known is not None:
        for one, test in known.pairs():
            file = test.partition("::")[0]
            if file not in renewed and (tree / file).exists():
                by[one].append(test)
                seconds[test] = known.seconds[test]
    return _content(by, seconds)


def _seconds(folder: Path) -> dict[str, float]:
    """Return the seconds of each test that passed."""
    seconds, failed = {}, set()
    for line in (folder / "reports").read_text("utf-8").splitlines():
        test, outcome, spent = line.rsplit("\t", 2)
        seconds[test] = float(spent)
        if outcome != "passed":
            failed.add(test)
    for test in sorted(failed):
        print(f"did not pass under the probes: {test}", file=sys.stderr)
    return {test: seconds[test] for test in seconds.keys() - failed}


def _hits(
    folder: Path, tree: Path, keys: Sequence[Statement], tests: Set[str]
) -> defaultdict[Statement, list[str]]:
    """Return the tests of each statement, and of each file that is no module."""
    by: defaultdict[Statement, set[str]] = defaultdict(set)
    for file in folder.glob("*.hits"):
        for line in file.read_text("utf-8", "replace").splitlines():
            test, _, words = line.rpartition("\t")
            for word in words.split() if test in tests else ():
                # a process may die, or be out of space, in the middle of a number
                if word.isascii() and word.isdigit() and int(word) < len(keys):
                    by[keys[int(word)]].add(test)
                elif (tree / word).is_file():
                    by[Statement(word, "", "", 0)].add(test)
    return defaultdict(list, {one: sorted(named) for one, named in by.items()})


def _content(by: Mapping[Statement, Sequence[str]], seconds: Mapping[str, float]) -> dict[str, Any]:
    """Return the map as it is written, of the nearest tests of each statement and file."""
    chosen = {one: _nearest(one.path, tests, seconds) for one, tests in by.items()}
    used = sorted({test for tests in chosen.values() for test in tests})
    names = {test: short(test) for test in used}
    if len({*names.values()}) < len(used):
        raise ValueError("two tests have one name in the map: WIDTH is to be larger")
    files: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for test in used:
        file, _, case = test.partition("::")
        files[file][case] = round(seconds[test], 2)
    reached: defaultdict[str, dict[str, list[Any]]] = defaultdict(dict)
    blocks: defaultdict[tuple[str, str, str], dict[str, list[int]]]
    blocks = defaultdict(lambda: defaultdict(list))
    for one in sorted(chosen):
        named = "".join(sorted(names[test] for test in chosen[one]))
        blocks[one[:3]][named].append(one.number)
    for (path, function, digest), rows in blocks.items():
        pairs = [[_stretches(numbers), named] for named, numbers in rows.items()]
        reached[path][function] = [digest, *pairs]
    return {"tests": dict(files), "reached": dict(reached)}


def _stretches(numbers: Iterable[int]) -> str:
    """Return numbers as a text: `0:4,7`."""
    stretches: list[list[int]] = []
    for number in sorted(numbers):
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}:{b}" for a, b in stretches)


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers that `_stretches` wrote."""
    for stretch in text.split(","):
        first, _, last = stretch.partition(":")
        yield from range(int(first), int(last or first) + 1)


def _nearest(path: str, tests: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    return afforded(ranked(path, tests, seconds), seconds, DEAREST)[:KEPT]


def write(content: Mapping[str, Any], path: Path = MAP) -> None:
    """Write a map, a function a line."""
    lines = ["{", '"tests": {']
    lines += _lines(content["tests"].items())
    lines += ["},", '"reached": {']
    rows = []
    for name, functions in content["reached"].items():
        inner = ",\n".join(_lines(functions.items(), ""))
        rows.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
    lines += [",\n".join(rows), "}", "}"]
    part = path.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.replace(path)


def _lines(rows: Iterable[tuple[str, Any]], end: str = ",") -> list[str]:
    texts = [
        f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'), ensure_ascii=False)}"
        for name, row in rows
    ]
    return [f"{text}{end}" for text in texts[:-1]] + texts[-1:]


def copied(folder: Path) -> Path:
    """Return a copy of the checkout, without what was made in it."""
    without = shutil.ignore_patterns(*MADE.split())
    return Path(shutil.copytree(ROOT, folder, ignore=without, symlinks=True))


def modules(tree: Path = ROOT) -> list[str]:
    """Return the modules of the project, of the benchmarks too."""
    return sorted(
        path.relative_to(tree).as_posix()
        for package in PACKAGES
        for path in (tree / package).rglob("*.py")
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run tests on probed modules, and write the map."""
    parser = argparse.ArgumentParser(prog="python -m bench.reached", description=__doc__)
    parser.add_argument(
        "tests", nargs="*", help="record these test files alone, and keep the others"
    )
    parser.add_argument("--workers", default="4", help="processes that run tests")
    asked = parser.parse_args(words)
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="reached-", dir=memory) as folder:
        os.chmod(folder, 0o755)  # tests act as other users below it
        tree = copied(Path(folder, "tree"))
        options = [*asked.tests, "-n", asked.workers, "--dist", "worksteal"]
        content = record(tree, modules(), options, read() if asked.tests else None)
    write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
