"""A row of the table: `Act`, and `Answer`, the forms of what it returns.

The signature of the function is the only list of an act's parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LARGEST = 1_000_000  # that a limit may be
PAGE = 1_000  # rows of an answer of a server, whatever its limit is
TOKENS = 200_000  # and of a budget there
READER, WRITER, OPERATOR = "reader", "writer", "operator"
MARK = "mark"  # noted by a request of its own, once the answer has arrived
ONCE = "once"  # a header of the request
# Annotations of what stands otherwise on the wire: times as text, lists as lists.
TIMES = ("When", "str | int", "str | int | None")
LISTS = ("Names", "Iterable[str]", "Collection[str]")
ATTACHMENTS = "Iterable[str | Mapping[str, Any]]"
# Parameters that no request has.
LOCAL = {
    "unless": "a condition is checked under the log's lock: it is a function of the library",
    "worth": "what pays is decided by whoever spawns runs, in the folder",
    "id": "the server draws the id of what is written",
}


def _no_client(form: Any) -> NoReturn:
    raise TypeError("no client asks for this act")


@dataclass(frozen=True, eq=False)
class Answer(Generic[R]):
    """The forms of a result: the name of its shape in the document, its JSON, and the way back.
    What was written can be read at `place`, below its id.
    """

    shape: str
    form: Callable[[R], Any]
    parse: Callable[[Any], R] = _no_client
    place: str = ""


@dataclass(frozen=True, eq=False)
class Act(Generic[P, R]):
    """A function of the library, and where a server offers it: `route` is `GET /why/{id}`.

    `names` are those of its parameters on the wire, where they differ; `limits` the least and the
    most of a number, or of how many there are; `absent` stands on the wire for None. An `optional`
    parameter may be left out, for None; a `local` one is in no request. `creates` says that
    something can be read afterwards. `of` makes the function's first argument of the agent's
    memory. `title` is its name in the document, `operation` its id there, where others lead to it,
    `description` its text, where that of the function is of what no request has; `problems` are
    statuses beside those of its noun. `bodied` says that there is a body even where nothing needs
    to be in it; `clamps`, that a negative limit is 0.
    """

    noun: str
    function: Callable[Concatenate[Any, P], R]
    route: str
    answer: Answer[R]
    _: KW_ONLY
    who: str = ""
    creates: bool = False
    of: Callable[[Any], Any] | None = None
    bodied: bool = False
    clamps: bool = False
    description: str = ""
    title: str = ""
    operation: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    absent: Mapping[str, Any] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def place(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def role(self) -> str:
        """Return who may ask: whoever reads, whoever writes, or the operator alone."""
        return self.who or (READER if self.method == "GET" else WRITER)

    @cached_property
    def signature(self) -> inspect.Signature:
        """Return the function's signature as a client has it: without what needs the folder."""
        whole = inspect.signature(self.function)
        first, *others = whole.parameters.values()
        left = {*LOCAL, *self.local}
        kept = [each for each in others if each.name not in left or self.in_path(each.name)]
        itself = first.replace(name="self", annotation=first.empty)
        return whole.replace(parameters=[itself, *kept])

    @cached_property
    def inputs(self) -> dict[str, inspect.Parameter]:
        """Return the parameters that stand in a query or a body, by their names there."""
        _, *parameters = self.signature.parameters.values()
        return {
            self.wire_name(each.name): each
            for each in parameters
            if each.name not in (MARK, ONCE) and not self.in_path(each.name)
        }

    @property
    def reads(self) -> bool:
        """Return whether it is a question: its answer has a tag."""
        return self.method == "GET" or self.who == READER

    @property
    def keyed(self) -> bool:
        """Return whether it is done once under a key."""
        return ONCE in self.signature.parameters

    def wire_name(self, name: str) -> str:
        return self.names.get(name, name)

    def in_path(self, name: str) -> bool:
        return f"{{{self.wire_name(name)}}}" in self.place

    def is_needed(self, parameter: inspect.Parameter) -> bool:
        """Return whether a request must have a parameter."""
        return parameter.default is parameter.empty and parameter.name not in self.optional

    @property
    def needs_body(self) -> bool:
        return self.bodied or any(map(self.is_needed, self.inputs.values()))

    def limits_of(self, parameter: inspect.Parameter) -> tuple[int, int] | None:
        """Return the least and the most of a number, or of how many names there are."""
        usual = {"limit": (0, LARGEST)}
        return self.limits.get(parameter.name, usual.get(parameter.name))

    def takes_text(self, parameter: inspect.Parameter) -> bool:
        """Return whether one name may stand for a list of one."""
        return not self.is_needed(parameter) and parameter.default != ()
