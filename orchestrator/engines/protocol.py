"""The Engine protocol, with its values and its errors, and the look-up of an engine by name: one
step of one agent at a time.

An engine is given everything that its model may see, and returns the turn of one step. It knows
nothing of memory, runs or limits, and keeps no conversation of its own: its caller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from synapse.errors import USAGE, InvalidEntry, SynapseError
from synapse.system import extras
from synapse.system.spelling import hint

if TYPE_CHECKING:
    import asyncio

# What every token of a prompt is for. The ledger sums them; the overhead is what coordination
# costs.
LABELS = (
    "system",
    "guide",
    "task",
    "view",
    "tool_schema",
    "capsule",
    "wake",
    "history",
    "work_obs",
    "work_out",
    "plan",
    "writeback",
    "retry",
    "consolidation",
)

# How a step ended. `tools`: the model wants its calls answered; `length`: it was cut at max_tokens;
# `interrupted`: the caller asked for it; `empty`: neither text nor calls.
STOPS = ("done", "tools", "length", "refusal", "interrupted", "empty")


class Tool(NamedTuple):
    """A tool as a model is told of it. `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


class Call(NamedTuple):
    """A model's wish to have a tool called. `problem` says why its arguments cannot be read, if
    they cannot.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    problem: str | None = None


class Message(NamedTuple):
    """A piece of the conversation. A tool's result names the call that it answers.

    `native` is a provider's own form of an assistant's message (signed thinking, say), JSON that
    has to go back as it came; other engines leave it alone.
    """

    role: str  # user, assistant or tool
    text: str
    label: str
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    failed: bool = False
    native: Any = None


class Usage(NamedTuple):
    """What the provider reports for one step. `input_tokens` includes what its cache held
    (`cached_tokens`) and what was written to it; `cost` in dollars where it says so itself.
    `estimated`: there was no report.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    cost: float | None = None
    estimated: bool = False

    def __add__(self, other: object) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        cost = (
            None
            if self.cost is None and other.cost is None
            else (self.cost or 0.0) + (other.cost or 0.0)
        )
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.written_tokens + other.written_tokens,
            cost,
            self.estimated or other.estimated,
        )


class Place(NamedTuple):
    """Where an engine with a process of its own runs it, and what it leaves there."""

    folder: str
    env: Mapping[str, str] = {}
    output: str | None = None


class Request(NamedTuple):
    """One step: all that the model may see, and what it may use.

    `messages` begin with the user's: the memory block (stable, worth caching), then the task. `key`
    names this step, the same on a retry. `session` is what an earlier Turn gave: a client that
    keeps conversations resumes it and is sent only the messages after the last assistant's.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    model: str | None = None
    max_tokens: int = 8_192
    key: str = ""
    session: str | None = None
    place: Place | None = None


class Turn(NamedTuple):
    """What came of one step. `session` names the client's own conversation, to go on with.
    `blocked` is what a client reported, in a structured result, as keeping it from its task.
    `anew`: it had lost its conversation, and was told all of it again.
    """

    text: str
    calls: tuple[Call, ...] = ()
    stop: str = "done"
    usage: Usage = Usage()
    model: str = ""
    native: Any = None
    session: str | None = None
    blocked: str | None = None
    anew: bool = False


@runtime_checkable
class Engine(Protocol):
    """Take steps for an agent.

    * `step` returns a Turn or raises EngineError; it holds no state that a later step needs, so
      that a step can be taken again by another process.
    * Malformed arguments of a call are a Call with a `problem`, never an error. A refusal is a
      Turn.
    * When `interrupt` is set during a step, an engine whose `interrupt` is "now" stops soon and
      returns what it has, with stop "interrupted", whole calls only; one that says "turn" ends its
      step as if nothing were.
    * Cancelling `step` frees everything it holds, and leaves no process behind.
    * `takes_tools`: it is given tools and gives calls. Where not, its agent uses the shell, unless
      the engine has a `shell` that is False.
    * `count` is the provider's own count of a request's input, or None where there is none.
    """

    name: str
    interrupt: str
    takes_tools: bool

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn: ...

    async def count(self, request: Request) -> int | None: ...

    async def close(self) -> None: ...


def has_shell(engine: Engine) -> bool:
    """Return whether an engine's agent has the memory's shell."""
    return not engine.takes_tools and bool(getattr(engine, "shell", True))


class EngineError(SynapseError):
    """The engine could not take the step. `usage` is what is known of what it took; `sent`: a
    request was made, and what became of it is not known.
    """

    exit_code = 9
    usage: Usage
    sent: bool


class Unavailable(EngineError):
    """The provider did not answer, or answered with an error, however often it was asked."""


class Rejected(EngineError):
    """The provider will not take this request: a wrong key, an unknown model, a bad request."""


class ContextTooLong(EngineError):
    """The conversation is longer than the model's window."""


class Broken(EngineError):
    """The client's process failed, or said something that cannot be read. `.output` is what it
    said.
    """


class NoEngine(Rejected):
    """There is no engine of this name, or none can be made with these options."""

    exit_code = USAGE


def taken_by(error: BaseException, weight: int) -> int:
    """Return the tokens that a failed step counts as. `weight`: those of its request.

    Nothing where the provider refused it; what its engine knows of it, where it knows; the whole
    request, where it was sent and nobody knows what became of it.
    """
    if not isinstance(error, EngineError):
        return weight
    usage = getattr(error, "usage", None) or Usage()
    tokens = usage.input_tokens + usage.output_tokens
    return tokens + weight if getattr(error, "sent", False) else tokens


def reported(*counts: object) -> bool:
    """Return whether a provider's report can be one: whole numbers, none of them negative."""
    return all(type(count) is int and count >= 0 for count in counts)


# the argument that says which kind of place `base_url` was trusted as
TRUSTED = "trusted"

ENGINES = {
    "scripted": "orchestrator.engines.scripted:Scripted",
    "anthropic": "orchestrator.engines.anthropic:Anthropic",
    "openai": "orchestrator.engines.openai:OpenAI",
    "openai-chat": "orchestrator.engines.openai_chat:OpenAIChat",
    "process": "orchestrator.engines.process:Process",
    "claude-code": "orchestrator.engines.process:ClaudeCode",
    "codex": "orchestrator.engines.process:Codex",
    "gemini": "orchestrator.engines.process:Gemini",
    "openclaw": "orchestrator.engines.process:OpenClaw",
    "a2a": "orchestrator.engines.a2a:A2A",
}


def declared(engines: object, name: str) -> tuple[str, dict[str, Any]]:
    """Return an engine's kind and options, as `engines:` in synapse.yaml has them: `fast: {kind:
    openai-chat, model: m}`; a name that is not there is a kind. A file imports nothing: its kinds
    are those of the table.
    """
    entry = engines.get(name) if isinstance(engines, Mapping) else None
    if entry is None:
        return name, {}
    if not isinstance(entry, Mapping) or not isinstance(entry.get("kind"), str):
        raise InvalidEntry(
            f"engines: {name} in synapse.yaml needs a kind, such as {{kind: openai-chat}}"
        )
    kind = str(entry["kind"])
    if kind not in ENGINES:
        raise no_engine(kind)
    options = {str(key): value for key, value in entry.items() if key != "kind"}
    if TRUSTED in options:
        raise InvalidEntry(f"engines: {name} in synapse.yaml: {TRUSTED} is no option")
    return kind, options


def load(name: str, **options: Any) -> Engine:
    """Return the engine of this name, or of the `package.module:Class` that a program or a person
    names, made with its options. Imports it only now.
    """
    kind = kind_of(name)
    try:
        engine = kind(**options)
    except Rejected as error:
        raise NoEngine(str(error)) from error
    except ModuleNotFoundError as error:
        why = extras.missing(error, f"the engine {name!r}")
        raise NoEngine(why or f"the engine {name!r} cannot be made: {error}") from error
    except (ImportError, AttributeError, TypeError) as error:
        raise NoEngine(f"the engine {name!r} cannot be made: {error}") from error
    if not isinstance(engine, Engine):
        raise NoEngine(
            f"{name} is no engine: it needs name, interrupt, takes_tools, step, count and close"
        )
    return engine


def check_name(engines: object, name: str) -> None:
    """Refuse the name of an engine that there is none of, without importing any."""
    kind, _ = declared(engines, name)
    if kind not in ENGINES and ":" not in kind:
        raise no_engine(kind, engines)


def no_engine(name: str, engines: object = None) -> NoEngine:
    """Return the error for a name that is no engine's."""
    names = [*(engines if isinstance(engines, Mapping) else ()), *ENGINES]
    listed = f"it is one of {', '.join(ENGINES)}"
    if ":" in name:
        return NoEngine(
            f"there is no engine {name!a}: no file of a workspace names a class, a program gives"
            f" it to Supervisor(engines=...); {listed}"
        )
    return NoEngine(f"there is no engine {name!r}; {hint(name, names, listed)}")


def kind_of(name: str) -> Any:
    """Import and return the class that makes engines of this name."""
    module, _, attribute = ENGINES.get(name, name).partition(":")
    if not attribute:
        raise no_engine(name)
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise NoEngine(f"the engine {name!r} cannot be made: {error}") from error
