"""There is one way to ask the index and one way to write the log: no module goes past them.

What the source says is read as a tree. A module that asks the index without a snapshot, that writes
inside of one, or that keeps one open across a `yield` fails here, whatever it is called.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("synapse", "orchestrator", "scenarios", "bench")
# The read gate: what opens the index, and what is behind it. The commit asks it under the lock.
BEHIND = ("synapse/index/", "synapse/log/", "synapse/store.py")
# What is done with the index as a whole, which shows nobody an entry: all else asks a snapshot.
UPKEEP = frozenset(
    "afterwards check digest fold fork let_go purge restored say seen tokens".split()
)
# What commits a file with its record, or for many entries: `append` and `act` are everybody's.
COMMITS = frozenset("archive restore register".split())
EXEMPT = {
    "synapse/hurry.py": {"store.index"},  # waits for its lock, and reads nothing of it
    "bench/upkeep.py": {"store.index"},  # measures how fast the index alone is made
    # a declaration with its file in one step
    "synapse/core.py": {"commit.register"},
    # a part of the store: it journals the operator's edits, and acts by them at once
    "synapse/trust/operator_files.py": {"index.catch_up"},
    # what every kind of log is tested by, without a store above it
    "synapse/testing/contract.py": {f"commit.{name}" for name in COMMITS},
}
WRITES = frozenset(
    "append append_all archive restore register act write file delivery shown".split()
)
WRITERS = ("store", "_store", "commit", "agent_memory", "writer")


def ends(node):
    """Return the last name of an expression such as `self.memory.store`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def opens_snapshot(item):
    call = item.context_expr
    return isinstance(call, ast.Call) and ends(call.func) == "snapshot"


def detours(tree):
    """Yield what in a module goes past the gates, and in which line."""
    upkeep = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in UPKEEP
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ends(node.value)
            if node.attr == "index" and owner in ("store", "_store") and node not in upkeep:
                yield node.lineno, f"{owner}.index"
            if node.attr == "query" and owner == "index":
                yield node.lineno, "index.query"
            if node.attr == "db" and owner in ("snap", "snapshot"):
                yield node.lineno, f"{owner}.db"
            if node.attr in COMMITS and owner in ("commit", "_commit"):
                yield node.lineno, f"{owner}.{node.attr}"
            if node.attr == "write" and owner in ("log", "_log"):
                yield node.lineno, f"{owner}.write"
            if node.attr == "catch_up" and owner not in ("self", "state"):
                yield node.lineno, f"{owner}.catch_up"
        if isinstance(node, ast.With) and any(map(opens_snapshot, node.items)):
            yield from held_too_long(node)


def held_too_long(block):
    """Yield what may not stand in the block of a snapshot: a yield, an await, a write."""
    for statement in block.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
                yield node.lineno, f"{type(node).__name__.lower()} in a snapshot"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, name = ends(node.func.value), node.func.attr
                if name in WRITES and owner in WRITERS:
                    yield node.lineno, f"{owner}.{name} in a snapshot"


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(BEHIND):
                yield name


def detours_of(name):
    return detours(ast.parse((ROOT / name).read_text(encoding="utf-8")))


def test_no_module_goes_past_the_gates():
    assert [
        f"{name}:{line}: {detour}"
        for name in modules()
        for line, detour in detours_of(name)
        if detour not in EXEMPT.get(name, ())
    ] == []


def test_every_exemption_is_needed():
    assert {name: EXEMPT[name] - {it for _, it in detours_of(name)} for name in EXEMPT} == {
        name: set() for name in EXEMPT
    }


@pytest.mark.parametrize(
    ("source", "detour"),
    [
        ("rows = store.index.current.page(None, Filter(), 0)", "store.index"),
        ("self._store.index.keyed('k')", "_store.index"),
        ("store.index.db.run('rows')", "store.index"),
        ("index = mem.store.index", "store.index"),
        ("index.query.runs()", "index.query"),
        ("snap.db.run('rows')", "snap.db"),
        ("index.catch_up()", "index.catch_up"),
        (
            "with store.snapshot() as snap:\n    agent_memory.writer.act('resolve')",
            "writer.act in a snapshot",
        ),
        (
            "with store.snapshot() as snap:\n    store.commit.append(x)",
            "commit.append in a snapshot",
        ),
        ("store.commit.register(agent, 'operator')", "commit.register"),
        ("store.log.write([record], decide, keeper)", "log.write"),
        ("file = self._commit.archive", "_commit.archive"),
        ("def f():\n    with s.snapshot() as snap:\n        yield 1", "yield in a snapshot"),
        (
            "async def f():\n    with s.snapshot(late=True) as snap:\n        await g()",
            "await in a snapshot",
        ),
    ],
)
def test_a_module_that_goes_past_them_is_found(source, detour):
    assert {found for _, found in detours(ast.parse(source))} == {detour}
