"""Tools of real MCP servers, over standard streams and HTTP, written with the SDK."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.tools import functions
from orchestrator.tools.functions import ToolFailed
from orchestrator.tools.mcp import connect, mcp_tools

SERVER = """
import os, sys
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("shelf")

@server.tool()
def find(title: str, limit: int = 3) -> str:
    '''Find a book.'''
    return f"{title} {limit}"

@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def fail() -> str:
    raise ValueError("no such book")

@server.tool(name="books.pid")
def pid() -> int:
    return os.getpid()

@server.tool()
def die() -> str:
    os._exit(3)

print("server is up", file=sys.stderr, flush=True)
if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""
HOST = """
import asyncio, sys
from orchestrator.tools import functions as tools
from orchestrator.tools.mcp import mcp_tools
async def main():
    async with mcp_tools([sys.executable, sys.argv[1]]) as found:
        pid = next(tool for tool in found if tool.tool.name == "books_pid")
        print(await tools.carry_out(pid, {}), flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.fixture
def server(tmp_path):
    path = tmp_path / "shelf.py"
    path.write_text(SERVER)
    return [sys.executable, str(path)]


def within(server, body, **more):
    async def run():
        async with asyncio.timeout(60), mcp_tools(server, **more) as found:
            return await body({tool.tool.name: tool for tool in found})

    return asyncio.run(run())


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid, seconds=60):
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_a_servers_tools_are_ours(server, tmp_path):
    async def body(found):
        assert list(found) == ["find", "fail", "books_pid", "die"]
        find = found["find"]
        assert find.tool.description == "Find a book."
        assert list(find.tool.schema["properties"]) == ["title", "limit"]
        assert (find.idempotent, found["fail"].idempotent) == (True, False)
        assert (find.writes, found["fail"].writes) == (False, True)
        assert await functions.carry_out(find, {"title": "Ulysses"}, key="run/1/0") == "Ulysses 3"
        with pytest.raises(ToolFailed, match="title: is missing"):
            await functions.carry_out(find, {})
        with pytest.raises(ToolFailed, match="Error executing tool fail"):
            await functions.carry_out(found["fail"], {})
        pid = int(await functions.carry_out(found["books_pid"], {}))
        assert alive(pid)
        return pid

    log = tmp_path / "log"
    pid = within(server, body, idempotent=["find"], log=str(log))
    assert gone(pid), "the server ends with its block"
    assert "server is up" in log.read_text()


def test_a_server_that_dies_is_a_problem_of_the_call(server):
    """And errors of the block stay what they are. A name that is taken gets the server's."""

    async def body(found):
        assert list(found) == ["shelf_find", "shelf_fail_2", "books_pid", "die"]
        for name, given in (("die", {}), ("shelf_find", {"title": "x"})):
            with pytest.raises(ToolFailed):
                await functions.carry_out(found[name], given)
        raise LookupError("ours")

    taken = ["find", "fail", "shelf_fail"]
    with pytest.raises(LookupError, match="ours"):
        within(shlex.join(server), body, taken=taken, seconds=5)


def test_a_cancelled_block_leaves_no_server(server):
    async def run():
        pids = []

        async def body():
            async with mcp_tools(server) as found:
                pid = next(tool for tool in found if tool.tool.name == "books_pid")
                pids.append(int(await functions.carry_out(pid, {})))
                await asyncio.sleep(60)

        task = asyncio.create_task(body())
        async with asyncio.timeout(60):
            while not pids:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
        return pids[0], task.cancelled()

    pid, cancelled = asyncio.run(run())
    assert cancelled
    assert gone(pid)


def test_the_sdk_is_loaded_on_use():
    code = (
        "import sys, asyncio; old = set(sys.modules);"  # asyncio brings inspect along
        "import orchestrator.tools.mcp, orchestrator.spend.reservations;"
        "import orchestrator.runs.intent, orchestrator.spend.prices;"
        "heavy = {'mcp', 'pydantic', 'anyio', 'genai_prices', 'opentelemetry',"
        " 'dataclasses', 'inspect'};"
        "print(*heavy & (set(sys.modules) - old))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "server",
    [["/none/such"], [sys.executable, "-c", "pass"], "http://127.0.0.1:9/mcp"],
    ids=["none", "ends", "refused"],
)
def test_a_server_that_cannot_be_used_is_said(server):
    async def body(found):
        raise AssertionError("never reached")

    with pytest.raises(ToolFailed, match="cannot be used"):
        within(server, body)


def test_a_server_ends_with_a_killed_host(server):
    with subprocess.Popen(
        [sys.executable, "-c", HOST, server[1]], stdout=subprocess.PIPE, text=True
    ) as host:
        pid = int(host.stdout.readline())
        assert alive(pid)
        os.kill(host.pid, signal.SIGKILL)
        host.wait(10)
    assert gone(pid)


STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
from mcp.server import MCPServer
server = MCPServer("mule")

@server.tool(name="books.pid")
def pids() -> str:
    return f"{os.getpid()} {child.pid}"

try:
    server.run("stdio")
finally:
    signal.pause()
"""


def test_nothing_of_a_server_outlives_a_killed_host(tmp_path):
    """Not one that is deaf to its input's end and to SIGTERM, nor what it started in a session of
    its own.
    """
    path = tmp_path / "mule.py"
    path.write_text(STUBBORN)
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(path)], stdout=subprocess.PIPE, text=True
    ) as host:
        pids = [int(pid) for pid in host.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        os.kill(host.pid, signal.SIGKILL)
        host.wait(10)
    assert [pid for pid in pids if not gone(pid)] == []


def test_nothing_of_a_server_outlives_its_block(tmp_path):
    path = tmp_path / "mule.py"
    path.write_text(STUBBORN)

    async def body(found):
        return await functions.carry_out(found["books_pid"], {})

    pids = [int(pid) for pid in within([sys.executable, str(path)], body).split()]
    assert [pid for pid in pids if not gone(pid)] == []


async def outlived(address):
    """Return the calls that fail when a server dies in one of them; nothing else ends with it."""
    connection, tools = await connect(address, ())
    tool, failed = {tool.tool.name: tool for tool in tools}, []
    for name in ("die", "find", "find"):
        try:
            async with asyncio.timeout(20):
                await functions.carry_out(
                    tool[name], {"title": "Ulysses"} if name == "find" else {}
                )
        except ToolFailed:
            failed.append(name)
    connection.cancel()
    await asyncio.gather(connection, return_exceptions=True)
    return failed


def test_a_server_is_reached_by_its_address(server, free_port):
    with subprocess.Popen([*server, str(free_port)], stderr=subprocess.PIPE, text=True) as running:
        try:

            async def body(found):
                return await functions.carry_out(
                    found["find"], {"title": "Ulysses", "limit": 1}, key="k"
                )

            for line in running.stderr:
                if "running on" in line:
                    break
            address = f"http://127.0.0.1:{free_port}/mcp"
            assert within(address, body) == "Ulysses 1"
            assert asyncio.run(outlived(address)) == ["die", "find", "find"]
        finally:
            running.kill()
            running.wait(10)
            running.stderr.close()


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
