"""Scenario files, from YAML to values. Unknown keys are refused, names are resolved, cycles are
errors; all problems of a file stand in one message. `$name` stands for a parameter, so that a grid
may vary it; `{i}` for the number of a repeated item, `{each}` for its word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, TypeVar

from scenarios.data.schema import (
    AGENTS,
    IDEAL,
    KINDS,
    PARAMETERS,
    PLAYS,
    SCHEMA,
    VALUES,
    Background,
    Cost,
    Draw,
    Fact,
    Gate,
    Happening,
    Job,
    Member,
    Scenario,
    Size,
    Sizes,
    agents_as,
    matching,
)
from synapse.system import yaml
from synapse.system.digest import sha256

DEPTH = 8
N = TypeVar("N")


class BrokenScenario(Exception):
    """What is wrong with a file, all of it."""


# -- From files ------------------------------------------------------------------------


def library() -> dict[str, str]:
    """Return the scenarios that come with this package: id -> text."""
    folder = resources.files("scenarios") / "library"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {
        file.name[:-5]: file.read_text(encoding="utf-8")
        for file in files
        if file.name.endswith(".yaml")
    }


def find(named: str) -> str:
    """Return the text of a scenario: one of the library by its id, or a file."""
    if named in (scenarios := library()):
        return scenarios[named]
    if not os.path.isfile(named):
        raise BrokenScenario(
            f"there is no scenario {named}; `brain-suite list` names those there are,"
            f" or give a file"
        )
    with open(named, encoding="utf-8") as file:
        return file.read()


def load(text: str, cell: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario that a text describes, with the parameters of a cell where given."""
    try:
        fields = yaml.load(text, depth=DEPTH, typed=True)
    except Exception as error:
        raise BrokenScenario(str(error)) from error
    return _Reader(fields, dict(cell or {}), sha256(text.encode())).scenario()


# -- Reading ---------------------------------------------------------------------------

_TOP = (
    "schema", "id", "title", "shows", "headline", "seed", "runs", "full", "project", "start",
    "arms", "kind",
    "facts", "agents", "tasks", "events", "background", "sizes", "gates", "grid", "params",
)  # fmt: skip
_GATE = re.compile(r"([a-z_0-9.]+)(?:\[([a-z_0-9=.,]+)\])? *(==|>=|<=|>|<) *(-?[0-9.]+)")


def _unfit(name: str, usual: object, value: object) -> str | None:
    """Return what is wrong with the value that a parameter is set to; None where it can be
    meant.
    """
    if name in PARAMETERS and PARAMETERS[name].what.startswith("chance"):
        chance = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
        return None if chance else f"{name} is {value!r}: write a chance from 0 to 1"
    if isinstance(usual, bool) or not isinstance(usual, int | float):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return f"{name} is {value!r}: write a number"
    if isinstance(usual, int) and not isinstance(value, int):
        return f"{name} is {value!r}: write a whole number"
    return None


class _Reader:
    """One file on its way to a scenario; problems are collected, so that all are told."""

    def __init__(self, fields: Mapping[str, Any], cell: dict[str, Any], digest: str) -> None:
        self.problems: list[str] = []
        self.cell, self.digest = cell, digest
        own = fields.get("params") or {}
        own = own if isinstance(own, dict) else {}
        kind = (own | cell).get("agents", IDEAL)
        if kind not in AGENTS:
            self.problems.append(f"agents: must be one of {', '.join(AGENTS)}, not {kind}")
        self.params = agents_as(kind) | own
        for name in set(cell) - set(self.params):
            self.problems.append(
                f"{name} is no parameter of this scenario: {', '.join(sorted(self.params))}"
            )
        unfit = [
            problem for name in cell if (problem := _unfit(name, self.params.get(name), cell[name]))
        ]
        if unfit:
            raise BrokenScenario("; ".join(unfit))
        self.params |= cell
        self.fields: dict[str, Any] = self._filled(fields)

    def scenario(self) -> Scenario:
        fields = self.fields
        self._known(fields, _TOP, "the file")
        if fields.get("schema") != SCHEMA:
            self.problems.append(f"schema: must be {SCHEMA}")
        for name in ("id", "title", "shows", "agents", "arms"):
            if not fields.get(name):
                self.problems.append(f"{name} is missing")
        scenario = self._made(fields)
        self.problems += _unresolved(scenario)
        if self.problems:
            raise BrokenScenario(f"{fields.get('id', 'scenario')}: " + "; ".join(self.problems))
        return scenario

    def _made(self, fields: Mapping[str, Any]) -> Scenario:
        sizes = self._record(
            Sizes, fields.get("sizes") or {}, "sizes", dict.fromkeys(Sizes._fields, self._size)
        )
        readers = {"namespaces": self._names, "by": self._names, "tokens": self._size}
        background = self._record(Background, fields.get("background") or {}, "background", readers)
        grid = [axis for axis in self._list(fields, "grid") if isinstance(axis, dict)]
        return Scenario(
            str(fields.get("id", "")),
            str(fields.get("title", "")),
            " ".join(str(fields.get("shows", "")).split()),
            " ".join(str(fields.get("headline", "")).split()),
            int(fields.get("seed", 7)),
            int(fields.get("runs", 30)),
            int(fields.get("full") or fields.get("runs", 30)),
            str(fields.get("project", "suite")),
            str(fields.get("start", "2026-02-01T09:00:00Z")),
            self._names(fields.get("arms")),
            str(fields.get("kind", "team")),
            tuple(self._facts()),
            tuple(self._agents()),
            tuple(self._jobs()),
            tuple(self._record(Happening, event, "events") for event in self._repeated("events")),
            background,
            sizes,
            tuple(self._gates()),
            tuple(grid),
            self.params,
            self.cell,
            self.digest,
        )

    def _facts(self) -> Iterator[Fact]:
        for item in self._repeated("facts"):
            yield self._record(Fact, item, f"fact {item.get('id')}", {"cost": self._cost})

    def _agents(self) -> Iterator[Member]:
        readers: dict[str, Callable[[Any], Any]] = dict.fromkeys(
            ("read", "write", "notify"), self._names
        )
        for item in self._repeated("agents"):
            yield self._record(Member, item, f"agent {item.get('id')}", readers)

    def _jobs(self) -> Iterator[Job]:
        readers: dict[str, Callable[[Any], Any]] = {
            "after": self._names,
            "needs": self._names,
            "steps": self._size,
            "draws": self._draw,
        }
        for item in self._repeated("tasks"):
            yield self._record(Job, item, f"task {item.get('id')}", readers)

    def _gates(self) -> Iterator[Gate]:
        for text in self._list(self.fields, "gates"):
            match = _GATE.fullmatch(str(text).strip())
            if match is None:
                self.problems.append(
                    f"gates: {text!r} is not `metric op number` or `metric[cell] op number`"
                )
                continue
            yield Gate(match[1], match[2] or "", match[3], float(match[4]))

    # -- pieces --

    def _record(
        self,
        kind: Callable[..., N],
        given: Any,
        where: str,
        more: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> N:
        """Return a value from a mapping, each field by its own rule, else as it is and by the type
        of its default.
        """
        names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
        defaults: Mapping[str, Any] = kind._field_defaults  # type: ignore[attr-defined]
        if not isinstance(given, Mapping):
            self.problems.append(f"{where}: must be `name: value` pairs")
            given = {}
        self._known(given, names, where)
        values: dict[str, Any] = {}
        for name in names:
            if name in given:
                values[name] = self._typed(
                    (more or {}).get(name), defaults.get(name), given[name], f"{where}: {name}"
                )
            elif name not in defaults:
                self.problems.append(f"{where}: {name} is missing")
                values[name] = ""
        return kind(**values)

    def _typed(
        self, rule: Callable[[Any], Any] | None, default: Any, value: Any, where: str
    ) -> Any:
        try:
            if rule is not None:
                return rule(value)
            if isinstance(default, bool):
                if not isinstance(value, bool):
                    raise TypeError("must be true or false")
                return value
            if isinstance(default, int | float):
                if isinstance(value, bool):
                    raise TypeError("must be a number")
                return type(default)(value)
        except (TypeError, ValueError, KeyError) as error:
            self.problems.append(f"{where}: {value!r}: {error}")
            return default
        return value if value is None or isinstance(value, int | float) else str(value).strip()

    def _size(self, value: Any) -> Size:
        if isinstance(value, int | float):
            return Size(value, value)
        if (
            isinstance(value, Mapping)
            and set(value) == {"p50", "p90"}
            and 0 < value["p50"] <= value["p90"]
        ):
            return Size(value["p50"], value["p90"])
        raise ValueError("must be a number, or {p50: NUMBER, p90: NUMBER}")

    def _cost(self, value: Any) -> Cost:
        cost = self._record(Cost, value, "cost")
        return cost._replace(tokens=round(cost.tokens * float(self.params["price"])))

    def _draw(self, value: Any) -> Draw:
        return self._record(Draw, value, "draws")

    def _names(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        return tuple(str(name) for name in value or ())

    def _list(self, fields: Mapping[str, Any], name: str) -> list[Any]:
        items = fields.get(name) or []
        if not isinstance(items, list):
            self.problems.append(f"{name}: must be a list")
            return []
        return items

    def _repeated(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield each item of a list; one with `count` so many times, `{i}` being its number; one
        with `each` for each of these words, `{each}` being the word. With `every`, each begins so
        many seconds after the one before.
        """
        for item in self._list(self.fields, name):
            if not isinstance(item, dict):
                self.problems.append(f"{name}: {item!r} is not `name: value` pairs")
                continue
            plain = {
                key: value for key, value in item.items() if key not in ("count", "each", "every")
            }
            replacements = item.get("each") or [None] * int(item.get("count", 1))
            numbered = "count" in item or "each" in item
            for i, replacement in enumerate(replacements, 1):
                late = (
                    {"at": plain.get("at", 0) + item["every"] * (i - 1)} if "every" in item else {}
                )
                yield _put(
                    plain | late, {"i": str(i), "each": str(replacement)} if numbered else {}
                )

    def _filled(self, value: Any) -> Any:
        """Return the tree with every `$name` replaced by the parameter."""
        if isinstance(value, dict):
            return {
                key: item if key == "params" else self._filled(item) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in self.params:
                self.problems.append(f"{value} is no parameter")
                return 0
            return self.params[value[1:]]
        return value

    def _known(self, given: Mapping[str, Any], names: Iterable[str], where: str) -> None:
        for name in given:
            if name not in tuple(names):
                self.problems.append(f"{where}: {name} is not known; there are {', '.join(names)}")


def _put(value: Any, replacements: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _put(item, replacements) for key, item in value.items()}
    if isinstance(value, list):
        return [_put(item, replacements) for item in value]
    if isinstance(value, str):
        for name, word in replacements.items():
            value = value.replace("{" + name + "}", word)
    return value


# -- What has to hold between the parts ------------------------------------------------


def _unresolved(scenario: Scenario) -> Iterator[str]:
    facts, agents, jobs = (
        [item.id for item in items] for items in (scenario.facts, scenario.agents, scenario.jobs)
    )
    yield from _wrong_words(scenario)
    for kind, ids in (("fact", facts), ("agent", agents), ("task", jobs)):
        yield from (
            f"two {kind}s are called {id}" for id in sorted({id for id in ids if ids.count(id) > 1})
        )
    for fact in scenario.facts:
        if fact.value not in VALUES:
            yield f"fact {fact.id}: value must be one of {', '.join(VALUES)}"
        if fact.value == "int" and fact.high <= fact.low:
            yield f"fact {fact.id}: an int needs low and high"
        if fact.known is not None and fact.known not in agents:
            yield f"fact {fact.id}: known by {fact.known}, who is no agent"
        yield from _wrong_deciders(fact, agents)
    for event in scenario.happenings:
        if event.write not in facts or event.by not in agents:
            yield f"events: {event.write} by {event.by}: no such fact or agent"
    for job in scenario.jobs:
        yield from _wrong_with(job, facts, agents, jobs)
    yield from _cycles(scenario.jobs)


def _wrong_words(made: Scenario) -> Iterator[str]:
    """Yield what is wrong with the words that have to be of a list."""
    if made.gated not in made.arms:
        yield f"arms: {made.gated} is missing: gates are about what ships"
    if made.kind not in KINDS:
        yield f"kind: must be one of {', '.join(KINDS)}"
    yield from (
        f"agent {member.id}: plays must be one of {', '.join(PLAYS)}"
        for member in made.agents
        if member.plays not in PLAYS
    )


def _wrong_deciders(fact: Fact, agents: list[str]) -> Iterator[str]:
    for who in (fact.decided_by, fact.also_by):
        if who is not None and who not in agents:
            yield f"fact {fact.id}: decided by {who}, who is no agent"
    if fact.also_by is not None and fact.decided_by in (None, fact.also_by):
        yield f"fact {fact.id}: also_by needs decided_by, and another agent"


def _wrong_with(job: Job, facts: list[str], agents: list[str], jobs: list[str]) -> Iterator[str]:
    if job.agent not in agents:
        yield f"task {job.id}: there is no agent {job.agent}"
    if job.given is not None and job.given not in jobs:
        yield f"task {job.id}: given in {job.given}, which is no task"
    for need in job.needs:
        if need not in facts:
            yield f"task {job.id}: needs {need}, which is no fact"
    if job.makes is not None and job.makes not in facts:
        yield f"task {job.id}: makes {job.makes}, which is no fact"
    if job.draws is not None:
        common, own = matching(job.draws.common, facts), matching(job.draws.own, facts)
        if len(common) < job.draws.number or len(own) < job.draws.number:
            yield (
                f"task {job.id}: draws {job.draws.number} of {len(common)} common and"
                f" {len(own)} own facts"
            )
    for glob in job.after:
        if not matching(glob, jobs):
            yield f"task {job.id}: after {glob}, which is no task"


def _cycles(jobs: Iterable[Job]) -> Iterator[str]:
    jobs = list(jobs)
    before = {
        job.id: {id for glob in job.after for id in matching(glob, [each.id for each in jobs])}
        for job in jobs
    }
    while free := {id for id, earlier in before.items() if not earlier & set(before)}:
        before = {id: earlier for id, earlier in before.items() if id not in free}
    if before:
        yield f"tasks wait for each other: {', '.join(sorted(before))}"
