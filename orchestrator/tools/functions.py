"""Tools made of a user's functions, by their names, docstrings and annotations, and the carrying
out of their calls. Knows no session.

A call is checked before it is made, has a time limit, and always ends in text: its result, or a
ToolFailed that says in a line what was wrong. The orchestrator's own tools, `spawn_agent` and
`wait`, are described here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Tool
from orchestrator.spend.counting import schema_text
from orchestrator.tools import schema
from orchestrator.tools.calls import Shares, misnamed, shares_of
from synapse.errors import USAGE, InvalidEntry, SynapseError
from synapse.system.json import dumps
from synapse.system.text import storable

SECONDS = 60.0
LONGEST = 16_384  # characters of a result that a model is given
KEY = "idempotency_key"

_TEXT = {"type": "string"}
SPAWN = Tool(
    "spawn_agent",
    "Give another agent a task. Returns its run at once.",
    schema.table({"agent": _TEXT, "task": _TEXT, "project": _TEXT}, ["agent", "task"]),
)
WAIT = Tool(
    "wait",
    "Wait for runs that you spawned (default: all) and get their results.",
    schema.table({"runs": {"type": "array", "items": _TEXT}}, []),
)


_ENDING = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)


class ToolFailed(SynapseError):
    """The tool could not do it. The text is for the model."""

    exit_code = 9


class ToolEnded(Exception):
    """The tool raised what is meant to end a program. It ends the run that called it."""


class Partial(str):
    """What a tool returns that has no result yet: more calls are needed. It is neither kept nor
    shared, and whoever called stays at the work."""

    __slots__ = ()


class UserTool(NamedTuple):
    """A tool, and how it is carried out. `idempotent`: a call may be made again when nobody knows
    how it ended. `shares`: its result holds for everybody; None where it does not. `writes`: its
    server says that it changes something, which nobody is spared by another's result."""

    tool: Tool
    run: Callable[[Mapping[str, Any], str | None], Awaitable[object]]
    idempotent: bool = False
    seconds: float = SECONDS
    shares: Shares | None = None
    writes: bool = False


class _Parameter(NamedTuple):
    annotation: Any
    required: bool
    default: object


class NoTool(SynapseError, TypeError):
    """No tool can be made of this: it is no function, has no usable name, or a parameter that JSON
    cannot give.
    """

    exit_code = USAGE


def tool_of(
    function: Callable[..., Any],
    idempotent: bool = False,
    *,
    name: str | None = None,
    description: str | None = None,
    seconds: float = SECONDS,
    shares: bool | str | Shares = False,
) -> UserTool:
    """Return a function as a tool. It may be async; one that takes `idempotency_key` is given the
    key of the call.

    A plain function runs in a thread of its own. One that is over its time cannot be stopped, only
    left behind. `shares`: it only reads, and the same call gives the same result to anyone until
    something changes, or for as long as `Shares(lifetime=...)` says; "whole" passes long results on
    whole.
    """
    import inspect

    if not callable(function):
        raise NoTool(
            f"{function!r:.60} is no tool: give a function with a name, a docstring and annotations"
        )
    called = name or str(getattr(function, "__name__", type(function).__name__))
    if not is_name(called):
        raise NoTool(
            f"{called!r} is no name for a tool: up to 64 of a-z, A-Z, 0-9, '_' and '-'; give name="
        )
    parameters = _parameters(function, called)
    described = {key: parameter for key, parameter in parameters.items() if key != KEY}
    text = description or inspect.getdoc(function) or called
    tool = Tool(called, text, _schema(called, described))
    run = _runner(function, called, described, keyed=KEY in parameters)
    try:
        shared = shares_of(shares)
    except InvalidEntry as error:
        raise NoTool(f"the tool {called}: {error}") from error
    if problem := misnamed(shared, described):
        raise NoTool(f"the tool {called}: {problem}")
    return UserTool(tool, run, idempotent, seconds, shared)


async def carry_out(
    tool: UserTool,
    arguments: Mapping[str, Any],
    *,
    key: str | None = None,
    longest: int = LONGEST,
    keep: Callable[[str], str] | None = None,
) -> str:
    """Return the result as text, a Partial where the tool gave one, or raise ToolFailed. A longer
    one is cut; `keep` stores the whole and says where it lies."""
    if problems := schema.problems(tool.tool.schema, arguments):
        raise ToolFailed("; ".join(problems))
    try:
        async with asyncio.timeout(tool.seconds) as limit:
            result = await tool.run(arguments, key)
    except ToolFailed:
        raise
    except ToolEnded:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            raise ToolFailed(f"{tool.tool.name} took longer than {tool.seconds:g} s") from error
        raise ToolFailed(describe_error(error)) from error
    try:
        text = cut(storable(text_of(result)), longest, keep)
    except Exception as error:
        # a result may be of any class, and do anything when it is read
        why = f"it was carried out, but its result cannot become text: {describe_error(error)}"
        raise ToolFailed(why) from error
    return Partial(text) if isinstance(result, Partial) else text


def describe_error(error: BaseException) -> str:
    """Return an error as a model or an operator reads it. One that has no text is its class."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return storable(text[:1_000].rstrip(": "))


def cut(text: str, longest: int, keep: Callable[[str], str] | None = None) -> str:
    """Return the text, or its beginning and where the rest is."""
    if len(text) <= longest:
        return text
    location = f"the whole is in {keep(text)}" if keep else "the rest was dropped"
    return f"{text[:longest]}\n[cut: {longest:,} of {len(text):,} characters; {location}]"


def tools_of(items: Iterable[Callable[..., Any] | UserTool]) -> list[UserTool]:
    """Return functions and tools as tools; NoTool where two have one name, for a model could only
    call one of them.
    """
    tools = [item if isinstance(item, UserTool) else tool_of(item) for item in items]
    names = [tool.tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NoTool(
            f"two tools are called {', '.join(twice)}: give one another name, as"
            " tool_of(function, name=...) does"
        )
    return tools


def text_of(result: object) -> str:
    """Return a result as a model reads it: text as it is, anything else as JSON."""
    if isinstance(result, str):
        return result
    return "ok" if result is None else dumps(_plain(result))


def schema_tokens(tools: Iterable[Tool], count: Callable[[str], int]) -> int:
    """Return the tokens that the descriptions of these tools take, in each prompt."""
    return sum(count(schema_text(tool)) for tool in tools)


def is_name(name: str) -> bool:
    """Return whether providers take this as a tool's name."""
    return (
        0 < len(name) <= 64
        and name.isascii()
        and name.replace("_", "a").replace("-", "a").isalnum()
    )


def _parameters(function: Callable[..., Any], name: str) -> dict[str, _Parameter]:
    import inspect
    import typing

    try:
        target = function if inspect.isroutine(function) else type(function).__call__
        hints = typing.get_type_hints(target, include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, ValueError, TypeError) as error:
        raise NoTool(f"the tool {name}: its annotations cannot be read: {error}") from error
    for key, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise NoTool(f"the tool {name}: {parameter} cannot be given by its name, {key}")
    return {
        key: _Parameter(
            hints.get(key, Any), parameter.default is parameter.empty, parameter.default
        )
        for key, parameter in parameters.items()
    }


def _schema(name: str, parameters: Mapping[str, _Parameter]) -> dict[str, Any]:
    try:
        properties = {
            key: {
                **schema.schema_of(parameter.annotation),
                **(
                    {"default": parameter.default}
                    if isinstance(parameter.default, str | int | float)
                    else {}
                ),
            }
            for key, parameter in parameters.items()
        }
    except (schema.Unfit, NameError) as error:
        raise NoTool(f"the tool {name}: {error}") from error
    except RecursionError as error:
        raise NoTool(f"the tool {name}: a type of its parameters holds itself") from error
    return schema.table(
        properties, [key for key, parameter in parameters.items() if parameter.required]
    )


def _runner(
    function: Callable[..., Any], name: str, parameters: Mapping[str, _Parameter], *, keyed: bool
) -> Callable[[Mapping[str, Any], str | None], Awaitable[object]]:
    import inspect

    waits = inspect.iscoroutinefunction(function)

    async def run(arguments: Mapping[str, Any], key: str | None) -> object:
        if unknown := sorted(set(arguments) - set(parameters)):
            raise ToolFailed(
                f"{', '.join(unknown)}: not known; {name} takes"
                f" {', '.join(parameters) or 'nothing'}"
            )
        values = {
            each: schema.build(parameters[each].annotation, value)
            for each, value in arguments.items()
        }
        values |= {KEY: key} if keyed else {}
        if not waits:
            return await _in_thread(function, values)
        try:
            return await function(**values)
        except _ENDING as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise  # the run is cancelled, and with it the call
            raise _ended(error) from error

    return run


def _ended(error: BaseException) -> ToolEnded:
    return ToolEnded(f"a tool ended it: {describe_error(error)}")


async def _in_thread(function: Callable[..., Any], values: Mapping[str, Any]) -> object:
    """Run it in a daemon thread: a pool would run out of threads, and wait at exit, for functions
    that never end.
    """
    from threading import Thread

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()

    def tell(outcome: tuple[object, BaseException | None]) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def call() -> None:
        try:
            outcome: tuple[object, BaseException | None] = function(**values), None
        except BaseException as error:  # raised again where the result is awaited
            outcome = None, error
        try:
            loop.call_soon_threadsafe(tell, outcome)
        except RuntimeError:  # the loop has closed: nobody waits any more
            pass

    Thread(target=copy_context().run, args=(call,), daemon=True).start()
    result, error = await ended
    if isinstance(error, (*_ENDING, GeneratorExit)):
        raise _ended(error) from error
    if error is not None:
        raise error
    return await result if isinstance(result, Awaitable) else result


def _plain(value: object) -> object:
    """Return the value as JSON knows it; fields by name, anything else as its text."""
    import dataclasses

    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
