"""Engines that the options of a verb name, and a supervisor with them. Without a name it is what
synapse.yaml names, else the engine that there is a key for, else none: then no run begins.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.engines.choice import KEYS, MODELS, SCRIPTED, NotNamed, chosen
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Usage

if TYPE_CHECKING:
    from orchestrator.engines.protocol import Engine
    from orchestrator.supervisor import Supervisor

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]


class NoEngineNamed(Usage):
    """No engine is named, and there is no key: nothing was begun."""


def choose_engine(call: Call, name: str | None, script: str | None = None) -> str | None:
    """Return the engine of this name; for `auto`, or none, the scripted one where its script is
    given, else what synapse.yaml names or the first that there is a key for; None where nothing is.
    """
    if name not in (None, "auto"):
        return str(name)
    if script:
        return SCRIPTED
    return chosen(dict(call.memory.store.settings.other), os.environ).engine


@contextmanager
def shell_errors() -> Iterator[None]:
    """Tell how the shell names an engine, where a run that is begun inside has none."""
    try:
        yield
    except NotNamed as error:
        keys = " or ".join(f"export {key}=..." for _, key in KEYS)
        raise NoEngineNamed(
            f"no engine is named for {error.agent}, and no key is set: nothing was begun\n"
            f"to have it done:  {keys}, or --engine NAME\n"
            f"to play it, with nobody at work:  --engine {SCRIPTED}",
            agent=error.agent,
        ) from error


def model_of(
    engine: str | None, model: str | None, models: Mapping[str, str] = MODELS
) -> str | None:
    """Return the model that is named, else the one for this engine."""
    engine = engine or ""
    return model or models.get(engine) or MODELS.get(engine)


def make_engine(engine: str | None, script: str | None) -> str | Engine | None:
    """Return the engine by its name; the scripted one with its script, where one is given."""
    if engine != SCRIPTED or not script:
        return engine
    from orchestrator.engines.scripted import Scripted

    return Scripted(import_function(script))


def takes_tools(name: str, *, by_person: bool = True) -> bool:
    """Tell whether agents on engines of this kind call tools. The class says it: making an engine
    may take a key. Only a person names a class that is not in the list.
    """
    from orchestrator.engines.protocol import ENGINES, kind_of, no_engine

    if name not in ENGINES and not by_person:
        raise no_engine(name)
    return bool(getattr(kind_of(name), "takes_tools", True))


def import_function(dotted: str) -> Any:
    """Return the function `package.module:name`, from the installed packages or from the current
    directory.
    """
    from importlib import import_module

    module, _, name = dotted.partition(":")
    if not name:
        raise Usage(f"{dotted!r} is not of the form MODULE:FUNCTION")
    _find_modules_here()
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Usage(f"{dotted} cannot be found: {error}") from error


def _find_modules_here() -> None:
    """Let modules of the current directory be found, behind what is installed, which stays what it
    is.
    """
    import sys

    if "" not in sys.path:
        sys.path.append("")


def program_in(dotted: str) -> str | None:
    """Return a note on what importing the module of `package.module:name` would run; None where
    there are only imports, definitions and values at its top.
    """
    import ast
    import sys
    from importlib.util import find_spec

    module = dotted.partition(":")[0]
    if module in sys.modules:
        return None
    try:
        spec = find_spec(module)
        with open(str(spec and spec.origin), "rb") as file:
            body = ast.parse(file.read()).body
    except (ImportError, OSError, SyntaxError, ValueError):
        return None  # the import says what is wrong
    for one in body:
        is_call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
        if is_call or isinstance(one, ast.With | ast.For | ast.While):
            return (
                f"importing {module} runs the program at its line {one.lineno}: keep that under"
                ' `if __name__ == "__main__":`'
            )
    return None


def open_supervisor(call: Call) -> Supervisor:
    """Return a supervisor of this workspace, with what the options say."""
    from orchestrator.supervisor import Supervisor

    args = call.args
    engine = choose_engine(call, args.engine, args.script)
    model = model_of(engine, args.model)
    _find_modules_here()
    for name in filter(None, (*(getattr(args, "tool", None) or ()), args.script)):
        if note := program_in(name):
            call.note(note)
    tools = [import_function(name) for name in getattr(args, "tool", None) or ()]
    return Supervisor(
        call.memory, engine=make_engine(engine, args.script), model=model, tools=tools
    )


async def with_servers(supervisor: Supervisor, servers: list[str] | None, work: Work[T]) -> T:
    """Return what comes of the work, done while the servers of its tools run. One that ends fails
    the calls of its tools, and no run.
    """
    if not servers:
        return await work()
    import asyncio
    import shlex

    from orchestrator.tools.mcp import connect

    connections: list[asyncio.Task[None]] = []
    try:
        for server in servers:
            names = [tool.tool.name for tool in supervisor.user_tools]
            address = server if "://" in server else shlex.split(server)
            connection, tools = await connect(address, names)
            connections.append(connection)
            supervisor.user_tools += tools
        return await work()
    finally:
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
