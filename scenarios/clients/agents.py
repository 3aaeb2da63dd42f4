"""What the scripted models of a session do: a lead that gives two tasks out, and the agents that do
them.

Each decides from the text of its request alone. Chance depends on the seed, the task and the thing,
never on the arm: nothing here can know whether the plugin is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from orchestrator.engines.protocol import Message
from orchestrator.engines.scripted import Move, Seen
from scenarios.clients.repository import PACKAGE, Cell, line_of

LEAD, TASK = "Plan:", "Task:"  # how the texts begin that say who is asked
SIDE = "side"  # a request of the client's own: a title, a page to be condensed
LONGEST = 40  # turns
AT_ONCE = 2  # files that an agent reads in one turn
REMINDER = "<system-reminder>"
INSTEAD = "PreToolUse:"  # how a result begins that a hook gave in the place of a call
_VALUE = re.compile(r"\b([A-Z][A-Z_]{3,})(?:\*\*|`)?\s*(?:=|is)\s*(\d{4})\b")
_MATCH = re.compile(rf"^({PACKAGE}/\w+\.py):\d+:([A-Z][A-Z_]+)$", re.MULTILINE)


class Chances(NamedTuple):
    """How careful agents are: `p_read`, that what one was given is taken in; `wrong_notes`, that a
    finding is said with a wrong value at the end. The values of `degraded` are the suite's own.
    """

    p_read: float = 0.9
    wrong_notes: float = 0.05


class Asked(NamedTuple):
    """What a task's text asks for."""

    name: str
    target: str
    needs: tuple[str, ...]
    limit: str
    url: str

    @property
    def all_needs(self) -> tuple[str, ...]:
        return (*self.needs, self.limit)


class Known(NamedTuple):
    """What a request says: values that the agent found by itself, values that it was given, the
    files that hold a limit, and the files that it has read.
    """

    own: Mapping[str, int]
    given: Mapping[str, int]
    places: Mapping[str, str]
    searched: bool
    read: frozenset[str]
    edited: bool


class Agents:
    """The models of one session. `pause` is how long each thinks before it answers."""

    def __init__(self, seed: int, folder: str, cell: Cell, chances: Chances, pause: float) -> None:
        self.seed = seed
        self.folder = folder
        self.cell = cell
        self.chances = chances
        self.pause = pause

    def __call__(self, seen: Seen) -> Move:
        who, text = asked_of(seen)
        if seen.turn >= LONGEST:
            return Move("Stopped: it took too many turns.")
        if who == SIDE:
            return Move(_condensed(text))
        move = self._lead(seen, text) if who == "lead" else self._agent(seen, read_task(text))
        return move._replace(takes=self.pause)

    # -- the lead ----------------------------------------------------------------------------------

    def _lead(self, seen: Seen, text: str) -> Move:
        """Give the tasks out as they were given to it, one after the other or both at once."""
        tasks = [f"{TASK}{task}".strip() for task in text.split(TASK)[1:]]
        results = [own_part(message.text) for message in seen.messages if message.role == "tool"]
        if len(results) == len(tasks):
            return Move("Both tasks are done.")
        if self.cell.order == "together":
            return Move("", tuple(map(_spawn, tasks)))
        values = (
            dict(pair for result in results for pair in values_in(result))
            if self.cell.hands_on
            else {}
        )
        note = "".join(f"\n{name} is {value}." for name, value in values.items())
        return Move(
            "", (_spawn(tasks[len(results)] + (f"\nKnown already:{note}" if note else "")),)
        )

    # -- an agent ----------------------------------------------------------------------------------

    def _agent(self, seen: Seen, asked: Asked) -> Move:
        knowledge = read_messages(seen.messages, asked, self.folder)
        values = {**self._heeded(asked, knowledge.given), **knowledge.own}
        open_needs = [name for name in asked.needs if name not in values]
        if open_needs and not knowledge.searched:
            patterns = " ".join(f"-e {name}" for name in open_needs)
            return _call(
                "Bash",
                command=f"git grep -now {patterns} -- {PACKAGE}",
                description="Find the limits",
            )
        if files := self._files(open_needs, knowledge):
            return Move("", tuple(("Read", {"file_path": path}) for path in files[:AT_ONCE]))
        if asked.limit not in values:
            return _call("WebFetch", url=asked.url, prompt=f"What is {asked.limit}?")
        if knowledge.edited:
            return Move(self._report(asked, values, knowledge))
        return self._edit(asked, values, knowledge)

    def _heeded(self, asked: Asked, given: Mapping[str, int]) -> dict[str, int]:
        """Return what was given and is taken in; the rest is found out as if it were not there."""
        return {
            name: value
            for name, value in given.items()
            if self._chance(asked, name, "read") < self.chances.p_read
        }

    def _files(self, names: Sequence[str], known: Known) -> list[str]:
        paths = (f"{self.folder}/{known.places[name]}" for name in names if name in known.places)
        return [path for path in dict.fromkeys(paths) if path not in known.read]

    def _edit(self, asked: Asked, values: Mapping[str, int], known: Known) -> Move:
        path = f"{self.folder}/{PACKAGE}/{asked.target}.py"
        if path not in known.read:
            return _call("Read", file_path=path)
        last = f"# end of {asked.target}"
        line = line_of(asked.name, sum(values.get(name, 0) for name in asked.all_needs))
        return _call("Edit", file_path=path, old_string=last, new_string=f"{line}\n{last}")

    def _report(self, asked: Asked, values: Mapping[str, int], known: Known) -> str:
        """Return the last message: what was done, and what the agent used, now and then said
        wrongly.
        """
        lines = []
        for name in asked.all_needs:
            value = values.get(name, 0)
            if self._chance(asked, name, "say") < self.chances.wrong_notes:
                value = 1_000 + (value + 1_234) % 9_000
            source = known.places.get(name) or ("" if name in asked.needs else asked.url)
            lines.append(f"{name} is {value}{f' ({source})' if source else ''}")
        done = f"{PACKAGE}/{asked.target}.py says what its limits come to ({asked.name})."
        if self.cell.brief:
            return f"{done} I found out: {'; '.join(lines)}."
        return "\n".join((done, "", "What I found out:", "", *(f"- {line}" for line in lines)))

    def _chance(self, asked: Asked, name: str, what: str) -> float:
        return Random(f"{self.seed} {asked.name} {name} {what}").random()


def _call(tool: str, **arguments: object) -> Move:
    return Move("", ((tool, arguments),))


def _spawn(text: str) -> tuple[str, dict[str, object]]:
    arguments = {
        "description": "One of the tasks",
        "prompt": text,
        "subagent_type": "general-purpose",
    }
    return "Agent", {**arguments, "run_in_background": False}


# -- reading a request -----------------------------------------------------------------


def asked_of(seen: Seen) -> tuple[str, str]:
    """Return who a request asks, by how its task begins, and the text that asks."""
    for message in seen.messages if seen.tools else ():
        if message.role == "user" and message.text.startswith(LEAD):
            return "lead", message.text
        if message.role == "user" and message.text.startswith(TASK):
            return read_task(message.text).name, message.text
    return SIDE, "\n".join(message.text for message in seen.messages)


def read_task(text: str) -> Asked:
    """Return what the text of a task asks for."""
    head = re.search(rf"have {PACKAGE}/(\w+)\.py say .*\((\S+)\)", text)
    needs = re.search(r"set to in the code: ([^.]+)\.", text)
    page = re.search(r"Find out ([A-Z_]+), which only the page (\S+) says", text)
    if head is None or needs is None or page is None:
        raise ValueError(f"this is no task: {text[:80]!r}")
    return Asked(head[2], head[1], tuple(needs[1].split(", ")), page[1], page[2])


def read_messages(messages: Sequence[Message], asked: Asked, folder: str) -> Known:
    """Return what an agent knows by its request."""
    own: dict[str, int] = {}
    values: dict[str, int] = {}
    places: dict[str, str] = {}
    for message in messages:
        found = own_part(message.text) if message.role == "tool" else ""
        own |= dict(values_in(found))
        places |= {name: path for path, name in _MATCH.findall(found)}
        if message.role != "assistant":
            values |= dict(values_in(message.text[len(found) :]))
    calls = [call for message in messages for call in message.calls]
    read = frozenset(str(call.arguments.get("file_path")) for call in calls if call.name == "Read")
    searched = any(call.name == "Bash" for call in calls)
    edited = any(call.name == "Edit" for call in calls)
    return Known(own, values, places, searched, read, edited)


def own_part(text: str) -> str:
    """Return what a tool gave: without what the client or a hook put behind it, or in its place."""
    return "" if text.startswith(INSTEAD) else text.partition(REMINDER)[0]


def values_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the limits that a text says the values of."""
    for name, value in _VALUE.findall(text.replace("\\_", "_")):
        yield name, int(value)


def _condensed(text: str) -> str:
    """Return what a page says of what is asked: the part of the model that a client's fetch
    uses.
    """
    return (
        " ".join(f"{name} is {value}." for name, value in values_in(text))
        or "Nothing is said of that."
    )
