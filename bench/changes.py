"""Changes of one operator in a module, each drawn with equal chance, for `bench.mutants`. Not the
place of what runs tests.
"""

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.reached import ROOT

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


class Mutant(NamedTuple):
    """A module with one change in it."""

    path: str
    line: int
    change: str
    source: str
    at: int = -1


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
                if other and self._here(node, f"{type(operator).__name__} -> {other.__name__}"):
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
        return node if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


def count(source: str) -> int:
    """Return how many changes there are to be made in a module."""
    counter = _Change()
    counter.visit(ast.parse(source))
    return counter.count


def written(tree: ast.Module) -> str:
    """Return a module as mutants are written: without its comments and blank lines."""
    return ast.unparse(tree) + "\n"


def mutant(path: str, source: str, at: int) -> Mutant:
    """Return the module with this change."""
    tree, line, change = changed(source, at)
    return Mutant(path, line, change, written(tree), at)


def changed(source: str, at: int) -> tuple[ast.Module, int, str]:
    """Return the tree of a module with this change, its line, and what it is."""
    changer = _Change(at)
    tree = changer.visit(ast.parse(source))
    return ast.fix_missing_locations(tree), changer.line, changer.change


def drawn(places: Sequence[str], number: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Return that many mutants of the modules at these places, each drawn with equal chance."""
    sources = {path: (root / path).read_text(encoding="utf-8") for path in modules(places, root)}
    changes = [(path, at) for path, source in sources.items() for at in range(count(source))]
    picked = random.Random(seed).sample(changes, min(number, len(changes)))
    return [mutant(path, sources[path], at) for path, at in picked]


def modules(places: Sequence[str], root: Path = ROOT) -> Iterator[str]:
    """Return the modules at these places."""
    for place in places:
        path = root / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        yield from (file.relative_to(root).as_posix() for file in files)
