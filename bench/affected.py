"""Runs the tests that a change needs, for `make check`: those that reach the changed lines, by the
map of `bench.reached`. Not the place of any test itself. It is a plugin of pytest, too, which keeps
of the test files that were named the tests that were selected.

A changed line is one that differs from where the branch began. A statement that changed needs the
tests that reach it, and the tests of the module's own file; what the map does not know, such as a
new module, the tests that reach or name whoever imports it. The nearest and quickest are run, as
many as `LIMIT` has room for; `make test` runs all. A comment or a docstring needs none. A changed
test file is run whole, a changed page is run and compared with the code. A module that needs tests
and has none is an error.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from bench.reached import MAP, PACKAGES, ROOT, Reached, Source, Statement, afforded, parsed, ranked
from bench.reached import read as read_map

LIMIT = 30.0  # seconds of the processor, of the tests that are selected by the map
SHARE = 2.0  # ... at least, of each changed file
EACH = 8.0  # ... for which another worker is started
WORKERS = 4  # at most, where nothing else is said
LINT = (
    "tests/test_words.py::test_pages_and_modules_keep_to_the_glossary",
    "tests/test_layers.py::test_nothing_inside_imports_from_the_root",
    "tests/test_layers.py::test_modules_are_short_and_say_what_they_are",
    "tests/test_layers.py::test_no_folder_is_crowded",
    "tests/gate/test_roads.py::test_no_module_goes_past_the_gates",
    "tests/synapse/cli/test_verbs.py::test_a_verb_is_no_more_than_a_call_and_a_print",
)
SITE = "tests/test_site.py"
PAGE = "tests/test_docs.py::test_code_runs_and_prints_what_is_shown[{}]"
BASES = ("origin/main", "main")
SELECTED = "AFFECTED_TESTS"


class Change(NamedTuple):
    """A file that differs: its path, and its text before and now; None where there is no file."""

    path: str
    old_path: str
    old: str | None
    new: str | None

    @property
    def is_silent(self) -> bool:
        """Whether no more than comments and docstrings differ."""
        if self.old is None or self.new is None or not self.path.endswith(".py"):
            return False
        try:
            return ast.dump(parsed(self.old)) == ast.dump(parsed(self.new))
        except SyntaxError:
            return False


class Selection(NamedTuple):
    """What to run: test files as they are, and tests of other files; the modules without any; how
    many tests reach the change.
    """

    files: list[str]
    tests: list[str]
    without: list[str]
    reaching: int
    seconds: float


def changes(root: Path = ROOT) -> list[Change]:
    """Return what differs from where the branch began, and the files that git does not know yet."""
    base = "HEAD"
    for name in BASES:
        done = _git(root, "merge-base", "HEAD", name)
        if done:
            base = done[0]
            break
    rows = []
    for line in _git(root, "diff", "--name-status", "-M", base):
        _, *paths = line.split("\t")
        rows.append((paths[-1], paths[0]))
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    rows += [(path, path) for path in new]
    return [
        Change(path, old, _before(root, base, old), _now(root / path)) for path, old in sorted(rows)
    ]


def _before(root: Path, base: str, path: str) -> str | None:
    done = subprocess.run(["git", "show", f"{base}:{path}"], cwd=root, capture_output=True)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _now(path: Path) -> str | None:
    return path.read_text("utf-8", "replace") if path.is_file() else None


def _git(root: Path, *words: str) -> list[str]:
    command = ["git", "-c", "core.quotePath=off", *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def selection(changed: Iterable[Change], reached: Reached, root: Path = ROOT) -> Selection:
    """Return the tests that changes need."""
    files: set[str] = set()
    without, lists = [], []
    reaching: set[str] = set()
    for one in changed:
        if one.is_silent:
            files.update(LINT)
            continue
        whole = whole_files(one, root)
        tests = reaching_tests(one, reached, root)
        if one.path.endswith(".py"):
            files.update(LINT)
            if one.new is not None and not whole and not tests:
                without.append(one.path)
        files |= whole
        reaching |= tests
        lists.append([*ranked(one.old_path, tests, reached.seconds)])
    share = max(SHARE, LIMIT / len(lists)) if lists else 0
    kept = [afforded(tests, reached.seconds, share) for tests in lists if tests]
    turns = (test for turn in zip_longest(*kept) for test in turn if test)
    files = {file for file in files if (root / file.partition("::")[0]).exists()}
    picked = [test for test in dict.fromkeys(turns) if test.partition("::")[0] not in files]
    seconds = sum(reached.seconds.get(test, 0) for test in picked)
    return Selection(sorted(files), picked, without, len(reaching), seconds)


def whole_files(one: Change, root: Path) -> set[str]:
    """Return the test files that a changed file is, or that are its own."""
    path = one.path
    if path.startswith("tests/") and path.endswith(".py"):
        if Path(path).name.startswith("test_"):
            return {path} if one.new is not None else set()
        return users(path, root)
    if path.startswith("docs/") or path == "README.md":
        page = {PAGE.format(path)} if path.endswith(".md") and _is_run(one.new) else set()
        return {SITE} | page
    if path.endswith(".py") and path.split("/")[0] in PACKAGES:
        own = f"tests/{Path(path).parent.as_posix()}/test_{Path(path).stem}.py"
        return {own} if (root / own).exists() else set()
    return set()


def _is_run(page: str | None) -> bool:
    """Return whether a page has code, which its test runs."""
    return page is not None and ("\n```bash" in page or "\n```python" in page)


def users(path: str, root: Path) -> set[str]:
    """Return the tests that a file beside them serves: of its folder, and those that name it."""
    folder, _, _ = path.rpartition("/")
    name = module_of(path)
    tests = {
        test.relative_to(root).as_posix(): test for test in (root / "tests").rglob("test_*.py")
    }
    if folder == "tests":
        return {test for test, file in tests.items() if name in imports(file)}
    return {test for test in tests if test.startswith(f"{folder}/")}


def reaching_tests(one: Change, reached: Reached, root: Path) -> set[str]:
    """Return the tests that reach the changed lines of a file, or else whoever imports it."""
    if one.path.startswith("tests/") and one.path.endswith(".py"):
        return set()
    if not one.path.endswith(".py"):
        return reached.of_file(one.old_path)
    if one.old is None or one.new is None:
        tests = reached.of_file(one.old_path)
    else:
        tests = set()
        for statement in changed_statements(one):
            tests |= reached.of_statement(statement)
    tests |= unrecorded(one.path, reached, root)
    return tests or _by_importers(one.path, reached, root)


def changed_statements(one: Change) -> Iterator[Statement]:
    """Yield the statements, as they were, of the lines that a change took or put its own beside."""
    before = Source(one.old_path, one.old or "")
    try:
        now = Source(one.path, one.new or "").functions()
    except SyntaxError:
        now = {}
    same = {name for name, digest in before.functions().items() if now.get(name) == digest}
    old, new = (one.old or "").splitlines(), (one.new or "").splitlines()
    for tag, start, end, *_ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lines = range(start + 1, end + 1) if end > start else (start, start + 1)
        for line in lines:
            statement = before.at(line)
            if not statement.function or statement.function not in same:
                yield statement


def unrecorded(path: str, reached: Reached, root: Path) -> set[str]:
    """Return the test files that name a module and are unknown to the map."""
    name = module_of(path)
    return {
        test
        for file in (root / "tests").rglob("test_*.py")
        if (test := file.relative_to(root).as_posix()) not in reached.files
        if name in imports(file)
    }


def _by_importers(path: str, reached: Reached, root: Path) -> set[str]:
    """Return the tests of whoever imports a module, and the test files that name it."""
    name = module_of(path)
    found = set()
    for package in (*PACKAGES, "tests"):
        for file in (root / package).rglob("*.py"):
            if name in imports(file):
                user = file.relative_to(root).as_posix()
                is_test = user.startswith("tests/") and file.name.startswith("test_")
                found |= {user} if is_test else reached.of_file(user)
    return found


def module_of(path: str) -> str:
    """Return the dotted name of a module's file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def imports(path: Path) -> frozenset[str]:
    """Return every name that a file may import a module by."""
    try:
        return frozenset(_imports(ast.parse(path.read_text(encoding="utf-8"))))
    except SyntaxError:
        return frozenset()


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            # `import synapse` stands in nearly every test, and says nothing about what is tested.
            yield from (alias.name for alias in node.names if "." in alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep what was selected. A case that is there no more stands for all of its function."""
    wanted = json.loads(Path(os.environ[SELECTED]).read_text(encoding="utf-8"))
    there = {item.nodeid for item in items}
    exact = set(wanted)
    functions = {test.partition("[")[0] for test in exact - there}
    kept: list[Any] = []
    left: list[Any] = []
    for item in items:
        names = {item.nodeid, item.nodeid.partition("::")[0]}
        function = item.nodeid.partition("[")[0]
        (kept if names & exact or function in functions else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def run(chosen: Selection, workers: int, root: Path = ROOT) -> int:
    """Run what was selected; return pytest's status."""
    names = [*chosen.files, *chosen.tests]
    files = sorted({name.partition("::")[0] for name in names})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(names, file)
        file.flush()
        wanted = min(workers, 1 + int(chosen.seconds / EACH))
        words = ["-n", str(wanted), "--dist", "worksteal"] if wanted > 1 else []
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "bench.affected", *words, *files],
            cwd=root,
            env=os.environ | {SELECTED: file.name, "PYTHONDONTWRITEBYTECODE": ""},
        ).returncode


def main(words: Sequence[str]) -> int:
    """Select, say what, and run it; return 0 where all of it passed and nothing lacked a test."""
    workers = int(words[0]) if words else WORKERS
    chosen = selection(changes(), read_map(MAP))
    for path in chosen.without:
        print(
            f"{path}: no test is known to reach what changed. Write one in"
            f" tests/{Path(path).parent.as_posix()}/, or record anew who reaches what:"
            " make reached",
            file=sys.stderr,
        )
    if not chosen.files and not chosen.tests:
        if not chosen.without:
            print("nothing changed that tests run")
        return int(bool(chosen.without))
    print(
        f"{len(chosen.tests)} of the {chosen.reaching} nearest tests that reach the change, and"
        f" {len(chosen.files)} test files; `make test` runs all"
    )
    status = run(chosen, workers)
    return status or int(bool(chosen.without))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
