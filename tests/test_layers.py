"""The shape of the code: who imports whom, how long a file is, what importing does."""

import ast
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("synapse", "orchestrator", "prompts", "scenarios")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

LINT = (
    "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True,"
    " no_logo=True))"
)

# Imports the named modules, one after the other, and prints what each did beyond defining names.
WATCH = """
import logging, os, signal, sys, threading
import numpy  # sets a variable for itself, and takes it back
acts = []
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
tell = {"os.mkdir", "os.remove", "os.rename", "os.link", "os.putenv", "os.chdir", "sqlite3.connect"}
def watch(event, args):
    if event in tell or event.startswith(("socket.", "subprocess.", "os.fork", "os.posix_spawn")):
        acts.append(f"{event}{args}")
    elif event == "open" and isinstance(args[2], int) and args[2] & writing and args[0] != os.devnull:
        acts.append(f"open{args}")
sys.dont_write_bytecode = True
state = lambda: (dict(os.environ), os.getcwd(), threading.active_count(), list(logging.root.handlers),
                 logging.root.level, {n: signal.getsignal(n) for n in signal.valid_signals()})
before = state()
sys.addaudithook(watch)
for name in sys.argv[1:]:
    __import__(name)
    if state() != before:
        acts.append("changed the state of the process")
        before = state()
    for act in acts:
        print(name, act)
    acts.clear()
"""
WRONG = {
    "variable": "import os; os.environ['HELLO'] = 'you'",
    "file": "open('made', 'w').close()",
    "folder": "import os; os.makedirs('made-too', exist_ok=True)",
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    "handler": "import logging; logging.basicConfig()",
    "level": "import logging; logging.root.setLevel(1)",
    "signal": "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    "process": "import subprocess; subprocess.run(['true'])",
    "database": "import sqlite3; sqlite3.connect(':memory:')",
    "connection": "import socket; socket.socket()",
}


def named(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def lint(cwd):
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_import_contracts():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


FORBIDDEN = (
    (
        "synapse/errors.py",
        "from synapse.model.entry import Entry",
        "synapse.errors -> synapse.model.entry",
    ),
    (
        "synapse/errors.py",
        "def f():\n    import synapse.model.protocols",
        "synapse.errors -> synapse.model.protocols",
    ),
    (
        "synapse/errors.py",
        "if TYPE_CHECKING:\n    import synapse.model.records",
        "synapse.errors -> synapse.model.records",
    ),
    (
        "synapse/model/records.py",
        "from synapse import store",
        "synapse.model.records -> synapse.store",
    ),
    (
        "synapse/model/protocols.py",
        "import orchestrator",
        "synapse.model.protocols -> orchestrator",
    ),
    ("prompts/__init__.py", "import synapse.errors", "prompts -> synapse.errors"),
)


@pytest.mark.parametrize(
    "imports",
    [(("synapse/unplaced.py", "", "- synapse.unplaced"),), FORBIDDEN],
    ids=["a module without a layer", "imports"],
)
def test_import_contracts_catch(tmp_path, imports):
    """Also an import within a function, and one for the type checker alone."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, line, _ in imports:
        with (tmp_path / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode == 1
    assert [edge for _, _, edge in imports if edge not in done.stdout] == []


def test_nothing_inside_imports_from_the_root():
    """`from synapse import X` works only once the whole package has loaded, so inside it ties a
    knot.
    """
    knots = [
        f"{named(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "synapse"
        if named(path).startswith("synapse.")
        for alias in node.names
        if not (ROOT / "synapse" / alias.name).is_dir()
        and not (ROOT / f"synapse/{alias.name}.py").is_file()
    ]
    assert knots == []


def test_modules_are_short_and_say_what_they_are():
    long, silent = [], []
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 500:
            long.append(named(path))
        if not ast.get_docstring(ast.parse(text)):
            silent.append(named(path))
    assert (long, silent) == ([], [])


def test_no_folder_is_crowded():
    modules = Counter(path.parent for path in MODULES)
    assert [path.name for path, count in modules.items() if count > 25] == []


def test_tests_are_not_a_package():
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_public_names_are_sorted_and_complete():
    import synapse

    assert synapse.__all__ == sorted(set(synapse.__all__))
    assert [name for name in synapse.__all__ if not hasattr(synapse, name)] == []
    public = declared(ast.parse((ROOT / "synapse/__init__.py").read_text(encoding="utf-8")).body)
    assert public == set(synapse.__all__)


def declared(body):
    """Public names that a module defines or takes from its own package, also for the type checker
    alone.
    """
    names = set()
    for node in body:
        match node:
            case ast.If():
                names |= declared(node.body) | declared(node.orelse)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom(module="synapse.system.typed"):
                pass  # the names of typing
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "synapse":
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")} | names & {"__version__"}


def imported(names, cwd):
    """Return a line for each act of the modules, which one interpreter imports in this order."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *names], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_does_nothing(package, tmp_path):
    paths = [path for path in MODULES if path.is_relative_to(ROOT / package)]
    names = [named(path) for path in paths if path.stem != "__main__"]
    assert package in names
    assert imported(names, tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_an_import_that_does_something_is_found(tmp_path):
    """Also one between others that do nothing, and one that only another module imports."""
    names = []
    for kind, text in WRONG.items():
        (tmp_path / f"good_{kind}.py").write_text("import os\nHERE = os.sep\n")
        (tmp_path / f"wrong_{kind}.py").write_text(f"{text}\n")
        (tmp_path / f"inside_{kind}.py").write_text(f"{text}\n")
        (tmp_path / f"outside_{kind}.py").write_text(f"import inside_{kind}\n")
        names += [f"good_{kind}", f"wrong_{kind}"]
    lines = imported(names, tmp_path)
    assert {line.split()[0] for line in lines} == {f"wrong_{kind}" for kind in WRONG}
    for kind in WRONG:
        lines = imported([f"good_{kind}", f"outside_{kind}"], tmp_path)
        assert {line.split()[0] for line in lines} == {f"outside_{kind}"}, kind
