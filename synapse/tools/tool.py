"""A tool: its name and schema, the check of its arguments, and a call that never raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidEntry, SynapseError
from synapse.system.quoting import inline
from synapse.system.text import encodes
from synapse.system.typed import Any, NamedTuple
from synapse.tools.answer import cut

Arguments = Mapping[str, Any]


class ToolProblem(str):
    """The answer to a call that could not be done: `Error: ` and why. A text like any other
    answer.
    """

    __slots__ = ()


class Tool(NamedTuple):
    """A tool of the memory. `call` acts as an agent memory; its third argument is the key under
    which a retry writes nothing.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    call: Callable[[AgentMemory, Arguments, str | None], str]
    writes: bool


def call(tool: Tool, agent_memory: AgentMemory, arguments: object, once: str | None = None) -> str:
    """Return the tool's answer. Raises ToolProblem if the arguments do not fit or the memory
    refuses."""
    try:
        return tool.call(agent_memory, checked(tool, arguments), once)
    except SynapseError as error:
        return ToolProblem(cut(f"Error: {inline(str(error))}"))


def checked(tool: Tool, arguments: object) -> Arguments:
    """Return the arguments, or raise InvalidEntry with everything that is wrong with them."""
    takes = tool.schema["properties"]
    if not isinstance(arguments, Mapping):
        raise InvalidEntry(f"{tool.name} takes an object with {', '.join(takes)}")
    values = {name: value for name, value in arguments.items() if value is not None}
    problems = [f"{tool.name} takes no {str(name)[:40]!r}" for name in values if name not in takes]
    problems += [
        f"{name} is missing" for name in tool.schema.get("required", ()) if name not in values
    ]
    problems += [
        f"{name} must be {_kind(takes[name])}"
        for name, value in values.items()
        if name in takes and not _fits(takes[name], value)
    ]
    if problems:
        raise InvalidEntry("; ".join(problems))
    return values


def _fits(schema: Mapping[str, Any], value: object) -> bool:
    match schema["type"]:
        case "string":
            return _is_text(value) and value in schema.get("enum", (value,))
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return (
                isinstance(value, Sequence)
                and not isinstance(value, str)
                and all(map(_is_text, value))
            )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and encodes(value)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    return {
        "string": "text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
    }.get(schema["type"], "a list of texts")
