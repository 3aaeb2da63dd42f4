"""Annotations as JSON schema, checked by an independent implementation; values made into what was
annotated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict

import jsonschema
import pytest

from orchestrator.tools import schema
from orchestrator.tools.schema import Unfit


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclass
class Box:
    corner: Point
    tags: list[str] = field(default_factory=list)


class Row(TypedDict):
    id: int
    note: NotRequired[str]


VALUES = [
    *(
        "a",
        "",
        "3",
        3,
        3.0,
        3.5,
        True,
        None,
        [],
        ["a"],
        [1, 2],
        [["a"]],
        {},
        {"a": 1},
        {"a": "b"},
        {"x": 1},
    ),
    *(
        {"x": 1, "y": 2},
        {"x": "1"},
        {"id": 1},
        {"id": 1, "note": 3},
        {"corner": {"x": 1}},
        {"corner": {"y": 1}},
    ),
]
CASES = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (Any, {}),
    (None, {"type": "null"}),
    (list, {"type": "array"}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (dict, {"type": "object"}),
    (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Literal["a", 3], {"enum": ["a", 3]}),
    (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045 (as users write it)
    (int | str, {"type": ["integer", "string"]}),
    (
        list[str] | None,
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    ),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (
        Point,
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
            "required": ["x"],
        },
    ),
    (
        Row,
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["id"],
        },
    ),
    (Box, None),
    (list[Box | Literal["a"]], None),
]


@pytest.mark.parametrize(("annotation", "expected"), CASES, ids=lambda value: str(value)[:40])
def test_annotations_are_json_schema(annotation, expected):
    found = schema.schema_of(annotation)
    assert expected is None or found == expected
    jsonschema.Draft202012Validator.check_schema(found)


@pytest.mark.parametrize("annotation", [annotation for annotation, _ in CASES], ids=str)
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_what_fits_is_what_the_standard_says(annotation, value):
    found = schema.schema_of(annotation)
    assert (not schema.problems(found, value)) == jsonschema.Draft202012Validator(found).is_valid(
        value
    )


@pytest.mark.parametrize(
    "annotation", [bytes, tuple[int, str], set[str], list[complex], object()], ids=range(5)
)
def test_what_no_json_value_can_be_is_refused(annotation):
    with pytest.raises(Unfit):
        schema.schema_of(annotation)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({}, ["corner: is missing"]),
        (3, ["the arguments: 3 is not an object"]),
        (
            {"corner": {"x": "left", "y": None}},
            ["corner.x: 'left' is not an integer", "corner.y: None is not a number"],
        ),
        ({"corner": {"x": 1}, "tags": ["a", 3]}, ["tags[1]: 3 is not a string"]),
        ({"corner": {"x": float("inf")}}, ["corner.x: inf is not an integer"]),
    ],
)
def test_problems_are_told_where_they_are(value, told):
    assert schema.problems(schema.schema_of(Box), value) == told


def test_choices_are_told():
    assert schema.problems({"enum": ["a", "b"]}, "c" * 99) == [
        f"the arguments: '{'c' * 56}... is not one of 'a', 'b'"
    ]
    assert schema.problems({"type": ["string", "null"]}, 3) == [
        "the arguments: 3 is not a string or null"
    ]
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert schema.problems(closed, {"b": 1}) == ["b: is not known; known are a"]


def test_a_foreign_schema_is_checked_as_far_as_it_is_known():
    foreign = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "date", "minLength": 3}},
    }
    assert schema.problems(foreign, {"a": 3, "b": ""}) == []


@pytest.mark.parametrize(
    ("annotation", "value", "built"),
    [
        (float, 3, 3.0),
        (int, 3.0, 3),
        (list[float], [1], [1.0]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Point, {"x": 1, "y": 2, "z": 3}, Point(1, 2.0)),
        (Box, {"corner": {"x": 1}, "tags": ["a"]}, Box(Point(1), ["a"])),
        (Row, {"id": 1}, {"id": 1}),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (Point | None, None, None),
        (str | Point, {"x": 1}, Point(1)),
        (Annotated[Point, "where"], {"x": 1}, Point(1)),
        (Any, {"x": 1}, {"x": 1}),
        (Literal["a", 3], 3.0, 3),
    ],
    ids=str,
)
def test_values_become_what_was_annotated(annotation, value, built):
    found = schema.build(annotation, value)
    assert found == built
    assert type(found) is type(built)
