"""Tools of MCP servers, as their client: a server is a command that speaks over its standard
streams, or an address.

The SDK is imported when a server is asked for. A server started here lives as long as the block
that started it. A watchdog stands between it and us, as with coding clients: when this process
dies, however it dies, nothing of it is left.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from orchestrator.engines.child import WATCHDOG
from orchestrator.engines.output import mask_file
from orchestrator.engines.protocol import Tool
from orchestrator.tools.functions import SECONDS, ToolFailed, UserTool
from synapse.mcp.caller import KEY

GRACE = "1.0"  # what a server has to end; the SDK waits two seconds
_PAGES = 50


@asynccontextmanager
async def mcp_tools(
    server: str | Sequence[str],
    *,
    taken: Collection[str] = (),
    idempotent: Collection[str] = (),
    env: Mapping[str, str] | None = None,
    folder: str | None = None,
    log: str = os.devnull,
    seconds: float = SECONDS,
) -> AsyncIterator[list[UserTool]]:
    """Connect to a server by its command or its address, and yield its tools. What a command prints
    beside the protocol goes to `log`. A tool whose name is `taken` gets the server's name before
    its own. Which ones are `idempotent` is for the user to say, by the server's names: what a
    server says of itself proves nothing. Enter and leave it in the same task.
    """
    failed = None
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(_client(server, env, folder, stack, log))
            listed = await _listed(client)
            title = client.server_info.name if client.server_info else "mcp"
        except ImportError as error:
            raise ToolFailed(
                "tools of MCP servers need the package mcp, which the extra mcp installs"
            ) from error
        except Exception as error:
            command = server if isinstance(server, str) else shlex.join(server)
            raise ToolFailed(f"the MCP server {command} cannot be used: {_cause(error)}") from error
        names = _names([tool.name for tool in listed], title, taken)
        offered = [
            UserTool(
                Tool(names[tool.name], tool.description or tool.name, tool.input_schema),
                _caller(client, tool.name),
                tool.name in idempotent,
                seconds,
                writes=_writes(tool),
            )
            for tool in listed
        ]
        try:
            yield offered
        except Exception as error:
            # the SDK would wrap it in groups of groups on its way out
            failed = error
    if failed is not None:
        raise failed


def _writes(tool: Any) -> bool:
    """Return whether a server says of a tool that it changes something. What it says proves
    nothing; this much is believed, for then no call is left out."""
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint is False or hints.destructive_hint)


async def connect(
    server: str | Sequence[str], taken: Collection[str]
) -> tuple[asyncio.Task[None], list[UserTool]]:
    """Return the tools of a server, and the task that keeps its connection until cancelled."""
    tools: asyncio.Future[list[UserTool]] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with mcp_tools(server, taken=taken) as offered:
            tools.set_result(offered)
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    try:
        await asyncio.wait((tools, task), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        task.result()
    return task, tools.result()


def _client(
    server: str | Sequence[str],
    env: Mapping[str, str] | None,
    folder: str | None,
    stack: AsyncExitStack,
    log: str,
) -> Any:
    from mcp import Client, StdioServerParameters, stdio_client

    if isinstance(server, str) and "://" in server:
        return Client(server)
    argv = shlex.split(server) if isinstance(server, str) else list(server)
    if shutil.which(argv[0], path=(env or {}).get("PATH")) is None and not (
        folder and os.sep in argv[0]
    ):
        raise FileNotFoundError(f"{argv[0]} is not there to be run")
    life = _lifeline(stack)
    stack.callback(mask_file, log)
    log_file = stack.enter_context(open(log, "a", encoding="utf-8"))  # noqa: SIM115 (the stack closes it)
    started = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", WATCHDOG, life, GRACE, *argv],
        env=dict(env) if env else None,
        cwd=folder,
    )
    return Client(stdio_client(started, errlog=log_file))


def _lifeline(stack: AsyncExitStack) -> str:
    """Make a named pipe that only this process writes to: it closes when the process dies."""
    # the watchdog removes it; we do where none began
    folder = tempfile.mkdtemp(prefix="synapse-")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "life")
    os.mkfifo(path, 0o600)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return path


async def _listed(client: Any) -> list[Any]:
    """Return every page of the server's tools, up to a limit that no honest server reaches."""
    page = await client.list_tools()
    listed = list(page.tools)
    for _ in range(_PAGES):
        if not page.next_cursor:
            break
        page = await client.list_tools(cursor=page.next_cursor)
        listed += page.tools
    return listed


def _names(names: Sequence[str], title: str, taken: Collection[str]) -> dict[str, str]:
    """Return what each tool is called here: a name that providers take and no other tool has."""
    found: dict[str, str] = {}
    used = set(taken)
    for name in names:
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]
        prefixed = re.sub(r"[^a-zA-Z0-9_-]", "_", f"{title}_{name}")
        choices = [plain, prefixed[:64], *(f"{prefixed[:60]}_{n}" for n in range(2, 100))]
        found[name] = next(choice for choice in choices if choice not in used)
        used.add(found[name])
    return found


def _caller(client: Any, name: str) -> Callable[[Mapping[str, Any], str | None], Awaitable[object]]:
    async def run(arguments: Mapping[str, Any], key: str | None) -> object:
        result = await client.call_tool(name, dict(arguments), meta={KEY: key} if key else None)
        text = "\n".join(_text(block) for block in result.content)
        if result.is_error:
            raise ToolFailed(text or f"{name} failed and did not say why")
        return text or result.structured_content

    return run


def _text(block: Any) -> str:
    """Return a block of a result: its text, or a note of its kind."""
    if block.type == "text":
        return str(block.text)
    inner = getattr(block, "resource", None)
    if isinstance(getattr(inner, "text", None), str):
        return str(inner.text)  # type: ignore[union-attr]
    fields = (
        getattr(inner, "uri", None)
        or getattr(block, "uri", None)
        or getattr(block, "mime_type", None)
        or "no text"
    )
    return f"[{block.type}: {fields}]"


def _cause(error: BaseException) -> str:
    """Return the first error inside a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
