"""The sandbox that renders templates, and what a template may take: no calls, texts and output of a
bounded length, a bounded number of repetitions and seconds. The only place that knows Jinja.

A template is a file of the workspace, and a workspace may be a stranger's. It is stopped while it
runs, in this process: whatever can repeat or grow passes a check (loops, includes, `~`, `+`, `*`,
filters). What cannot be checked is not there: macros, blocks that are filtered or assigned,
methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextvars import ContextVar
from typing import Any

from jinja2 import FunctionLoader, StrictUndefined, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST = 1 << 20  # characters of a text that a template makes
OUTPUT = 1 << 24  # characters of what it prints
TURNS = 10_000  # of all its loops together
SECONDS = 1.5

FILTERS_TAKEN = (
    "abs capitalize count d default first int last length list lower reverse sort string title trim"
    " unique upper".split()
)
# They assign, filter or repeat what they hold, and nothing asks how long it has become.
_REFUSED = (
    nodes.Macro,
    nodes.CallBlock,
    nodes.FilterBlock,
    nodes.AssignBlock,
    nodes.Import,
    nodes.FromImport,
)
_NUMBER = 1_000_000
PASSES = "jinja_pass_arg"  # filters with this are given the environment first


class _Budget:
    """What one rendering may still take."""

    def __init__(self) -> None:
        self.turns, self.output = TURNS, OUTPUT
        self.until = time.thread_time() + SECONDS

    def tick(self) -> None:
        if time.thread_time() > self.until:
            raise SecurityError(f"it works for longer than {SECONDS} seconds")

    def turn(self) -> None:
        self.tick()
        self.turns -= 1
        if self.turns < 0:
            raise SecurityError(f"its loops take more than {TURNS:,} turns")

    def printed(self, text: str) -> None:
        self.tick()
        self.output -= len(text)
        if self.output < 0:
            raise SecurityError(f"it prints more than {OUTPUT:,} characters")


_budget: ContextVar[_Budget] = ContextVar("_budget")


def _is_small(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= _NUMBER


def _bounded(length: int) -> None:
    """Raise SecurityError where a text would become too long, or time is up."""
    _budget.get().tick()
    if length > LONGEST:
        raise SecurityError(f"it makes a text of more than {LONGEST:,} characters")


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of a loop, as many as there may be."""
    budget = _budget.get()
    for item in items:
        budget.turn()
        yield item


def _joined(items: Iterable[object], d: str = "") -> str:
    texts = [str(item) for item in items]
    _bounded(sum(map(len, texts)) + len(d) * len(texts))
    return d.join(texts)


def _replaced(text: object, old: str, new: str) -> str:
    value = str(text)
    _bounded(len(value) + value.count(old) * len(new))
    return value.replace(old, new)


def _indented(text: object, width: int = 4, first: bool = False) -> str:
    rows = str(text).split("\n")
    _bounded(sum(map(len, rows)) + width * len(rows))
    blank = " " * width
    return "\n".join(blank + row if row and (at or first) else row for at, row in enumerate(rows))


def _checked(name: str) -> Callable[..., Any]:
    """Return a filter of Jinja's that first asks whether there is time for its value."""
    wrapped: Callable[..., Any] = FILTERS[name]

    def call(*values: Any, **named: Any) -> Any:
        for value in values:
            if isinstance(value, str | list | tuple):
                _bounded(len(value))
        return wrapped(*values, **named)

    if hasattr(wrapped, PASSES):
        setattr(call, PASSES, getattr(wrapped, PASSES))
    return call


class _Code(CodeGenerator):
    """Compiles `~` and `include` so that they are counted."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:
        self.writeline("environment.turn()")
        super().visit_Include(node, frame)


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment without calls, with the filters that are listed, and with a budget."""

    code_generator_class = _Code
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(
        self,
        load: Callable[[str], tuple[str, str, None] | None],
        filters: Mapping[str, Callable[..., Any]],
    ) -> None:
        super().__init__(
            loader=FunctionLoader(load),
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self.globals.clear()
        self.filters.clear()
        self.filters |= {name: _checked(name) for name in FILTERS_TAKEN}
        self.filters |= {
            "join": _joined,
            "replace": _replaced,
            "indent": _indented,
            "counted": _counted,
            **filters,
        }
        self.joined = _joined

    def turn(self) -> None:
        _budget.get().turn()

    def text_of(self, name: str, values: Mapping[str, object]) -> str:
        """Return what a template prints, within the budget."""
        budget = _Budget()
        token = _budget.set(budget)
        try:
            pieces = []
            for piece in self.get_template(name).generate(values):
                budget.printed(piece)
                pieces.append(piece)
            return "".join(pieces)
        finally:
            _budget.reset(token)

    def call(self, context: Context, called: Any, *values: Any, **named: Any) -> Any:
        """Refuse every call; what is not there says so itself."""
        if isinstance(called, Undefined):
            return called(*values, **named)
        raise SecurityError("a template calls nothing: that is unsafe")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "+":
            if isinstance(left, Sized) and isinstance(right, Sized):
                _bounded(len(left) + len(right))
        elif not (_is_small(left) and _is_small(right)):
            raise SecurityError(f"{operator} is for small numbers: that is unsafe")
        elif operator == "**" and abs(right) > 9:
            raise SecurityError("** is for small numbers: that is unsafe")
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in tree.find_all(nodes.Node):
            if isinstance(node, _REFUSED) or not _constant(node):
                kind = type(node).__name__.lower()
                raise TemplateSyntaxError(
                    f"a template has no such {kind}: what it would make cannot be bounded",
                    node.lineno,
                    name,
                    filename,
                )
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno)
        return tree


def _constant(node: nodes.Node) -> bool:
    """Return whether a list, tuple or dictionary holds constants alone: lists in lists, again and
    again, print more than any text is long."""
    if isinstance(node, nodes.Tuple) and node.ctx == "store":
        return True
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(isinstance(item, nodes.Const) for item in node.items)
    if isinstance(node, nodes.Dict):
        return all(
            isinstance(side, nodes.Const) for pair in node.items for side in (pair.key, pair.value)
        )
    return True
