"""Our named tuples are what typing would make of the same statements."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import typing

import pytest

import synapse
from synapse.model.entry import Entry
from synapse.system.typed import NamedTuple

TELL = """
import importlib, inspect, json, pickle, pkgutil, re, sys, typing
from types import SimpleNamespace

if sys.argv[1:] == ["typing"]:
    theirs = {**vars(typing), "Any": object, "T": typing.TypeVar("T")}
    sys.modules["synapse.system.typed"] = SimpleNamespace(**theirs)

import synapse

def kinds():
    for found in pkgutil.walk_packages(synapse.__path__, "synapse."):
        if not found.name.endswith("__main__") and found.name != "synapse.system.typed":
            module = importlib.import_module(found.name)
            yield from (kind for kind in vars(module).values() if tells_fields(kind) and kind.__module__ == found.name)

def tells_fields(kind):
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")

def without_places(value):
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))

def told(kind):
    for said in kind.__annotations__.values():
        assert isinstance(text(said), str), f"{kind.__module__} needs `from __future__ import annotations`"
    value = kind(*range(len(kind._fields)))
    assert pickle.loads(pickle.dumps(value)) == value
    return {
        "kind": [kind.__module__, kind.__name__, kind.__qualname__, kind.__doc__],
        "bases": [str(base) for base in kind.__mro__[1:]],
        "has": sorted((name, type(had).__name__) for name, had in vars(kind).items() if name != "__orig_bases__"),
        "takes": [(taken.name, str(taken.kind), without_places(taken.default)) for taken in parameters(kind)],
        "fields": [kind._fields, without_places(kind._field_defaults), kind.__match_args__],
        "annotations": [(name, text(said)) for name, said in kind.__annotations__.items()],
        "constructor": [(name, text(said)) for name, said in kind.__new__.__annotations__.items()],
        "value": [value._asdict(), value._replace(**{kind._fields[0]: "new"}), kind._make(value)],
    }

def parameters(kind):
    return inspect.signature(kind).parameters.values()

def text(said):
    return getattr(said, "__forward_arg__", said)

print(json.dumps([told(kind) for kind in kinds()]))
"""


def told(*how):
    done = subprocess.run(
        [sys.executable, "-c", TELL, *how], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_value_is_what_typing_makes_of_it():
    ours, theirs = told(), told("typing")
    assert len(ours) > 30
    assert ours == theirs


def test_annotations_are_found():
    assert typing.get_type_hints(Entry)["author"] is str


class Point(NamedTuple):
    """A place."""

    x: int
    y: int = 0

    @property
    def far(self) -> bool:
        return self.x + self.y > 10

    @classmethod
    def origin(cls) -> Point:
        return cls(0)

    def __str__(self) -> str:
        return f"{self.x}/{self.y}"


def test_a_value_has_fields_defaults_and_methods():
    point = Point(7, y=4)
    assert (point, point.far, str(point), repr(point)) == ((7, 4), True, "7/4", "Point(x=7, y=4)")
    assert Point.origin() == Point(0) == (0, 0)
    assert point._replace(x=1) == Point(1, 4)
    assert point._asdict() == {"x": 7, "y": 4}
    assert hash(point) == hash((7, 4))
    assert copy.copy(point) == pickle.loads(pickle.dumps(point)) == point
    assert isinstance(point, tuple)


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1})]
)
def test_what_does_not_fit_is_refused(args, named):
    with pytest.raises(TypeError):
        Point(*args, **named)


def test_a_value_cannot_be_changed():
    draft = synapse.Draft("text", "api/endpoints", "eng-backend")
    with pytest.raises(AttributeError):
        draft.body = "another"
    with pytest.raises(AttributeError):
        draft.unknown = 1


def test_a_value_matches_by_its_fields():
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
