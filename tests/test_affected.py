"""The selection of `make check`: what reaches a change is run, and what nothing reaches is an error."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import affected, reached
from bench.affected import Change, changes, selection
from bench.reached import HEAD, ROOT, Reached, Source, Statement, modules, read, record
from tests import examples
from tests.pages import PAGES, blocks, name_of
from tests.pages import read as read_page

MODULE = """\
import json

MOST = 40


def larger(a, b):
    if a > b:
        return a
    return b


def text(path):
    with open(path) as file:
        return file.read()


def thrice(n):
    return n * 3


def unused(n):
    return n / 2
"""
USER = """\
from synapse.mod import larger


def largest(*numbers):
    most = numbers[0]
    for number in numbers:
        most = larger(most, number)
    return most
"""
TESTS = {
    "tests/synapse/test_mod.py": """\
from synapse.mod import larger, text


def test_larger():
    assert larger(1, 2) == 2
    assert larger(2, 1) == 2


def test_first():
    assert larger(4, 3) == 4


def test_text():
    assert text("synapse/data.txt") == "hello"


def test_that_fails():
    assert larger(1, 2) == 1
""",
    "tests/synapse/test_user.py": """\
import subprocess
import sys

import pytest
from synapse.user import largest


@pytest.mark.parametrize("number", [1, 2])
def test_largest(number):
    assert largest(number, 3) == 3


def test_a_process():
    command = [sys.executable, "-c", "from synapse.mod import thrice; print(thrice(2))"]
    assert subprocess.check_output(command) == b"6\\n"
""",
}
LARGER, FIRST, TEXT = (
    f"tests/synapse/test_mod.py::test_{name}" for name in ("larger", "first", "text")
)
LARGEST = [f"tests/synapse/test_user.py::test_largest[{n}]" for n in (1, 2)]
PROCESS = "tests/synapse/test_user.py::test_a_process"
OWN = "tests/synapse/test_mod.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = tmp_path_factory.mktemp("affected") / "tree"
    files = {"synapse/__init__.py": "", "synapse/mod.py": MODULE, "synapse/user.py": USER}
    for name, text in {**files, **TESTS, "synapse/data.txt": "hello"}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    shutil.copytree(ROOT / "bench", tree / "bench")
    return tree


@pytest.fixture(scope="module")
def recorded(tree):
    """The map of the tree, written and read."""
    copy = Path(shutil.copytree(tree, tree.parent / "copy"))
    content = record(copy, ["synapse/mod.py", "synapse/user.py"])
    reached.write(content, tree.parent / "reached.json")
    return read(tree.parent / "reached.json")


def change(new, old=MODULE, path="synapse/mod.py"):
    return Change(path, path, old, new)


def selected(one, recorded, tree):
    found = selection([one], recorded, tree)
    files = set(found.files) - set(affected.LINT)
    return files | set(found.tests)


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("if a > b", {LARGER, FIRST, *LARGEST}),
        ("return a", {LARGER, FIRST}),
        ("return b", {LARGER, *LARGEST}),
        ("return n * 3", {PROCESS}),
        ("return n / 2", {LARGER, FIRST, TEXT, PROCESS, *LARGEST}),  # all of the module
        ("MOST = 40", {LARGER, FIRST, TEXT, PROCESS, *LARGEST}),
        ("def thrice", {PROCESS}),
    ],
)
def test_who_reaches_a_line(recorded, text, tests):
    line = MODULE[: MODULE.index(text)].count("\n") + 1
    assert recorded.of_statement(Source("synapse/mod.py", MODULE).at(line)) == tests


def test_a_file_is_reached_by_who_reads_it(recorded):
    assert recorded.of_file("synapse/data.txt") == {TEXT}


def test_what_did_not_pass_is_in_no_map(recorded):
    assert f"{OWN}::test_that_fails" not in recorded.seconds
    assert recorded.seconds.keys() == {LARGER, FIRST, TEXT, PROCESS, *LARGEST}


def test_one_test_file_is_recorded_anew_and_the_others_are_kept(tree, recorded):
    copy = Path(shutil.copytree(tree, tree.parent / "again"))
    text = TESTS[OWN].replace("test_first", "test_second")
    (copy / OWN).write_text(text)
    files = ["synapse/mod.py", "synapse/user.py"]
    again = Reached(record(copy, files, [OWN], recorded))
    second = FIRST.replace("first", "second")
    line = MODULE[: MODULE.index("return a")].count("\n") + 1
    assert again.seconds.keys() == {LARGER, second, TEXT, PROCESS, *LARGEST}
    statement = Source("synapse/mod.py", MODULE).at(line)
    assert again.of_statement(statement) == {LARGER, second}


def test_maps_of_two_branches_merge_line_by_line(tmp_path):
    """Each records a test of a file of its own, which reaches another function."""

    def written(name, *more):
        by, seconds = {}, {}
        pairs = [(function, f"tests/test_{function}.py::test_it") for function in "fghi"]
        for function, test in (*pairs, *more):
            by.setdefault(Statement("synapse/mod.py", function, "0" * 8, 0), []).append(test)
            seconds[test] = 0.5
        reached.write(reached._content(by, seconds), tmp_path / name)
        return str(tmp_path / name)

    first, last = ("f", "tests/test_f.py::test_more"), ("i", "tests/test_i.py::test_more")
    maps = written("ours", first), written("base"), written("theirs", last)
    done = subprocess.run(["git", "merge-file", *maps], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(read(tmp_path / "ours").pairs()) == sorted(
        read(Path(written("both", first, last))).pairs()
    )


def test_a_function_that_changed_or_moved_since_keeps_its_tests(recorded):
    changed = Source("synapse/mod.py", MODULE.replace("if a > b", "if b < a"))
    assert recorded.of_statement(changed.at(7)) == {LARGER, FIRST, *LARGEST}
    moved = Source("synapse/moved.py", "\n\n" + MODULE)
    assert recorded.of_statement(moved.at(10)) == {LARGER, FIRST}
    said = Source(
        "synapse/mod.py", MODULE.replace("b):\n", 'b):\n    """Return the larger."""\n', 1)
    )
    assert recorded.of_statement(said.at(9)) == {LARGER, FIRST}


def test_the_head_of_a_function_is_no_statement_of_another():
    head = Source("m.py", "@cache\ndef f(a=1):\n    return a\n")
    assert [head.at(line).number for line in (1, 2, 3)] == [HEAD, HEAD, 0]
    assert {head.at(line).function for line in (1, 2, 3)} == {"f"}


@pytest.mark.parametrize(
    ("old", "new", "tests"),
    [
        ("return a", "return a + 0", {OWN}),
        ("return b", "return b + 0", {OWN, *LARGEST}),
        ("return n * 3", "return n * 4", {OWN, PROCESS}),
        ("    if a > b", "    a = a\n    if a > b", {OWN, *LARGEST}),
        ("def unused(n):\n    return n / 2", "", {OWN, PROCESS, *LARGEST}),
        ("return a", "return a  # the larger", set()),
        ("b):\n", 'b):\n    """Return the larger."""\n', set()),
        ("import json", "import json  # for later", set()),
    ],
)
def test_a_change_selects_who_reaches_it(tree, recorded, old, new, tests):
    assert selected(change(MODULE.replace(old, new, 1)), recorded, tree) == tests


def test_what_is_no_module_selects_who_read_it(tree, recorded):
    one = change("bye", "hello", "synapse/data.txt")
    assert selected(one, recorded, tree) == {TEXT}


def test_a_module_that_moved_keeps_its_tests(tree, recorded):
    new = MODULE.replace("return a", "return a + 0", 1)
    one = Change("synapse/elsewhere.py", "synapse/mod.py", MODULE, new)
    assert selected(one, recorded, tree) == {LARGER, FIRST}


def test_a_new_module_selects_the_tests_of_whoever_imports_it(tree, recorded):
    text = "from synapse.new import x\n" + USER
    (tree / "synapse/user.py").write_text(text)
    affected.imports.cache_clear()
    try:
        found = selection([change("x = 1", None, "synapse/new.py")], recorded, tree)
    finally:
        (tree / "synapse/user.py").write_text(USER)
        affected.imports.cache_clear()
    assert set(found.tests) == set(LARGEST)
    assert found.without == []


def test_a_module_that_nothing_reaches_is_an_error(tree, recorded):
    found = selection([change("x = 1", None, "synapse/lonely.py")], recorded, tree)
    assert found.without == ["synapse/lonely.py"]


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/synapse/test_user.py", {"tests/synapse/test_user.py"}),
        ("tests/synapse/conftest.py", {OWN, "tests/synapse/test_user.py"}),
        ("README.md", set()),  # this tree has no test of its pages
        ("Makefile", set()),
    ],
)
def test_other_files(tree, recorded, path, tests):
    assert selected(change("x = 1", "x = 2", path), recorded, tree) == tests


def test_the_test_of_a_page_is_there():
    named = set()
    for page in PAGES:
        text = read_page(page)
        one = change(text, "", page.relative_to(ROOT).as_posix())
        files = affected.whole_files(one, ROOT)
        named |= {test.partition("[")[2] for test in files if "[" in test}
    assert named == {f"{name_of(page)}]" for page in PAGES if blocks(read_page(page))}


def git(root, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    command = ["git", "-C", str(root), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_what_changed_is_asked_of_git(tmp_path):
    assert changes(tmp_path) == []
    git(tmp_path, "init", "-q", "-b", "main")
    text = "".join(f"line {number}\n" for number in range(50))
    for name in ("kept", "moved", "gone", "edited"):
        (tmp_path / name).write_text(name + text)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    assert changes(tmp_path) == []
    git(tmp_path, "switch", "-q", "-c", "work")
    git(tmp_path, "mv", "moved", "elsewhere")
    git(tmp_path, "rm", "-q", "gone")
    git(tmp_path, "commit", "-q", "-m", "second")
    (tmp_path / "edited").write_text("now")
    (tmp_path / "new ü").write_text("new")
    assert changes(tmp_path) == [
        Change("edited", "edited", "edited" + text, "now"),
        Change("elsewhere", "moved", "moved" + text, "moved" + text),
        Change("gone", "gone", "gone" + text, None),
        Change("new ü", "new ü", None, "new"),
    ]


def run(command, cwd, **env):
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_case_that_is_gone_stands_for_its_function(tree, tmp_path):
    wanted = [LARGEST[0].replace("[1]", "[one]"), LARGER]
    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    done = run(
        ["-m", "pytest", "-q", "--co", "-p", "bench.affected", *TESTS],
        tree,
        PYTHONPATH=str(tree),
        AFFECTED_TESTS=str(tmp_path / "wanted.json"),
    )
    listed = {line for line in done.stdout.splitlines() if "::" in line}
    assert listed == {LARGER, *LARGEST}


FAULTS = {
    "a default in the place of what a request says": (
        "synapse/server/routes/acts.py",
        "if act.wire_name(name) in values",
        "if name in values",
    ),
    "calls of tools that nobody answers": (
        "orchestrator/turns/turn_loop.py",
        "if self.session.stop_reason is None:\n                    await",
        "if self.session.stop_reason is not None:\n                    await",
    ),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of this checkout with a history of one commit."""
    tree = reached.copied(tmp_path_factory.mktemp("check") / "tree")
    shutil.rmtree(tree / ".git", ignore_errors=True)
    git(tree, "init", "-q", "-b", "main")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "all")
    return tree


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_turns_the_check_red(repository, name):
    path, before, after = FAULTS[name]
    text = (repository / path).read_text()
    assert text.count(before) == 1
    (repository / path).write_text(text.replace(before, after))
    try:
        words = ["-m", "bench.affected", "1"]
        # a parser that a limit struck cannot parse for a traceback (CPython 3.11)
        options = "--timeout=20 --tb=no"
        env = {"PYTHONPATH": str(repository), "PYTEST_ADDOPTS": options}
        done = run(words, repository, **env)
    finally:
        (repository / path).write_text(text)
    assert done.returncode == 1
    assert "1 failed" in done.stdout


PROTOCOLS = "synapse/model/protocols.py"  # says what others do, and does nothing


def long_modules():
    """Return the longer modules, without those of measurements that people start by hand."""
    return [
        path
        for path in modules()
        if not path.startswith("bench/") and path != PROTOCOLS
        if (ROOT / path).read_text(encoding="utf-8").count("\n") >= 100
    ]


def executing(known, path):
    """Return the tests that run a function of a module; of one without any, those that load it."""
    text = (ROOT / path).read_text(encoding="utf-8")
    is_table = not any(Source(path, text).functions())
    return known.of_file(path) if is_table else known.of_functions(path)


def test_every_long_module_has_a_test_that_executes_it(tmp_path):
    """The quickest of those that the map names run under the probes: in every run for a part of the
    modules, in the soak for all.
    """
    known, paths = read(), long_modules()
    assert [path for path in paths if not executing(known, path)] == []
    paths = paths if examples.whole else paths[::12]
    quickest = [
        sorted(executing(known, path), key=lambda test: known.seconds[test])[:2] for path in paths
    ]
    tests = sorted({test for pair in quickest for test in pair})
    (tmp_path / "tests.json").write_text(json.dumps(tests))
    files = sorted({test.partition("::")[0] for test in tests})
    tree = reached.copied(tmp_path / "tree")
    os.environ[affected.SELECTED] = str(tmp_path / "tests.json")
    try:
        executed = Reached(record(tree, paths, ["-p", "bench.affected", *files]))
    finally:
        del os.environ[affected.SELECTED]
    assert [path for path in paths if not executing(executed, path)] == []


HANGS = """\
import threading


def test_quick():
    pass


def test_that_waits_for_ever():
    threading.Event().wait()
"""
AGAIN = """\


def test_that_waits_again_at_its_end():
    try:
        threading.Event().wait()
    finally:
        threading.Event().wait()
"""


def hang(folder, text, *words):
    (folder / "test_hang.py").write_text(text)
    shutil.copy(ROOT / "pyproject.toml", folder)
    limits = ["-o", "timeout=2", "-o", "faulthandler_timeout=5"]
    words = [*limits, "--import-mode=importlib", *words]
    return run(["-m", "pytest", *words, "test_hang.py"], folder)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_that_hangs_is_named_with_its_stacks(tmp_path, workers):
    done = hang(tmp_path, HANGS, "-n", workers)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "test_that_waits_for_ever" in done.stdout
    assert "Timeout (>2.0s)" in done.stdout
    assert ">       threading.Event().wait()" in done.stdout


def test_a_test_that_hangs_at_its_end_too_ends_its_process(tmp_path):
    done = hang(tmp_path, HANGS + AGAIN, "-k", "quick or again", "-n", "1")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "crashed while running 'test_hang.py::test_that_waits_again" in done.stdout
    assert 'test_hang.py", line 16 in test_that_waits_again_at_its_end' in done.stderr


def test_every_test_has_a_limit(request):
    assert 0 < float(request.config.getini("timeout")) <= 600
