"""Names the tests that a change touches, for `make check`. Not the place of any test itself.

A changed test file is run. A changed module is tested by the files that import it, by the file of
its own name and by the tests of its folder; a module at the top of a package by the tests at the
top too, where no file has its name. A page of the documents is run, and compared with the code.
The slow walks in tests/crash, tests/e2e, tests/histories and tests/scenarios run only when they
change themselves: `make test` runs them always.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("synapse", "orchestrator", "prompts", "scenarios", "bench")
SLOW = ("tests/crash/", "tests/e2e/", "tests/histories/", "tests/scenarios/")
SITE = "tests/test_site.py"
PAGE = "tests/test_docs.py::test_code_runs_and_prints_what_is_shown[{}]"
BASES = ("origin/main", "main")


def changed(root: Path = ROOT) -> list[str]:
    """Return the files that differ from where the branch began, and those git does not know yet."""
    base = "HEAD"
    for name in BASES:
        done = _git(root, "merge-base", "HEAD", name)
        if done:
            base = done[0]
            break
    names = _git(root, "diff", "--name-only", base)
    names += _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted(set(names))


def affected(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the test files to run for these changed files, without those that are gone; of a page
    its one test.
    """
    tests = {
        path.relative_to(root).as_posix(): path
        for path in (root / "tests").rglob("test_*.py")
    }
    picked = set()
    for path in paths:
        if path in tests:
            picked.add(path)
        elif path.startswith("tests/"):
            folder, _, file = path.rpartition("/")
            if (
                folder != "tests"
                and file.endswith(".py")
                and not file.startswith("test_")
            ):
                picked.update(test for test in tests if test.startswith(f"{folder}/"))
        elif path.startswith("docs/") or path == "README.md":
            picked.update({SITE} & tests.keys())
            if path.endswith(".md") and _is_run(root / path):
                picked.add(PAGE.format(path))
        elif path.endswith(".py") and path.split("/")[0] in PACKAGES:
            picked.update(tests_of(path, tests))
    return sorted(picked)


def _is_run(page: Path) -> bool:
    """Return whether a page has code, which its test runs."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return "\n```bash" in text or "\n```python" in text


def tests_of(path: str, tests: dict[str, Path]) -> set[str]:
    """Return the quick tests of one module."""
    name = module_of(path)
    quick = {test: file for test, file in tests.items() if not test.startswith(SLOW)}
    picked = {test for test, file in quick.items() if name in imports(file)}
    parent = Path(path).parent.as_posix()
    beside = {test for test in quick if test.rpartition("/")[0] == f"tests/{parent}"}
    own = f"tests/{parent}/test_{Path(path).stem}.py"
    if "/" in parent or own not in beside:
        return picked | beside
    return picked | {own}


def module_of(path: str) -> str:
    """Return the dotted name of a module's file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def imports(path: Path) -> frozenset[str]:
    """Return every name that a test file may import a module by."""
    return frozenset(_imports(ast.parse(path.read_text(encoding="utf-8"))))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            # `import synapse` stands in nearly every test, and says nothing about what is tested.
            yield from (alias.name for alias in node.names if "." in alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    print(*affected(sys.argv[1:] or changed()), sep="\n")
