"""How agents behave, as it was measured: the file that `calibrate` writes and `run --params` reads.

A file is JSON: `schema`, `source` (who was measured, when, how often) and `params`, each a number
or `{value, lo, hi, n}`. A parameter that could not be measured has no value there, and stays as it
is in the scenario.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from scenarios.data.faults import fault
from scenarios.data.schema import PARAMETERS

SCHEMA = "brain-suite/params-v1"
# What of scripted agents a real one can be asked for.
MEASURED = (
    "p_read",
    "tool_use",
    "beside",
    "claims_otherwise",
    "bare_queries",
    "chatter",
    "wrong_notes",
    "heeds",
)
DIGITS = 4


class BrokenParameters(Exception):
    """This is no file of parameters; says why."""


class Estimate(NamedTuple):
    """A share with its 95 % interval, and of how many. Without any, there is no value."""

    value: float | None
    lo: float | None
    hi: float | None
    n: int


class Parameters(NamedTuple):
    """Estimates by the names of parameters, where they come from, and what else was counted."""

    source: Mapping[str, Any]
    estimates: Mapping[str, Estimate]
    details: Mapping[str, Any] = {}

    @property
    def values(self) -> dict[str, float]:
        """Return the parameters that were measured."""
        return {name: one.value for name, one in self.estimates.items() if one.value is not None}


def dump(parameters: Parameters) -> str:
    """Return the text of the file."""
    params = {name: one._asdict() for name, one in parameters.estimates.items()}
    sections = {
        "source": dict(parameters.source),
        "params": params,
        "details": dict(parameters.details),
    }
    return json.dumps({"schema": SCHEMA, **sections}, ensure_ascii=False, indent=1) + "\n"


def load(path: str) -> Parameters:
    """Return the parameters of a file; BrokenParameters where it holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
    except ValueError as error:
        raise BrokenParameters(f"{path}: {fault(error)}") from error
    if not isinstance(fields, dict) or fields.get("schema") != SCHEMA:
        raise BrokenParameters(
            f'{path}: is no file of parameters: write "schema": "{SCHEMA}" into it'
        )
    source, params = fields.get("source"), fields.get("params")
    if not isinstance(source, dict) or not source:
        raise BrokenParameters(
            f'{path}: write "source": {{"model": NAME}}: where the figures come from'
        )
    if not isinstance(params, dict):
        raise BrokenParameters(f'{path}: write "params": {{NAME: VALUE}}')
    for name in params:
        if name not in PARAMETERS:
            raise BrokenParameters(
                f"{path}: there is no parameter {name}; there are {', '.join(PARAMETERS)}"
            )
    details = fields.get("details")
    estimates = {name: _estimate(path, name, value) for name, value in params.items()}
    return Parameters(source, estimates, details if isinstance(details, dict) else {})


def _estimate(path: str, name: str, given: object) -> Estimate:
    fields = given if isinstance(given, Mapping) else {"value": given}
    value, lo, hi = (_share(path, name, fields.get(end)) for end in ("value", "lo", "hi"))
    n = fields.get("n", 0)
    return Estimate(value, lo, hi, n if isinstance(n, int) else 0)


def _share(path: str, name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BrokenParameters(f"{path}: {name} is {value!r}: write a number from 0 to 1")
    return round(float(value), DIGITS)
