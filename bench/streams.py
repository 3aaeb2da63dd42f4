"""Live events of a server that is a process of its own, beside a bare application of the framework.

`python -m bench stream` prints what 200 idle WebSockets cost, how long a critical entry takes to a
WebSocket, and what 30 subscribers hear of 20,000 entries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

import synapse
from bench.figures import duration
from synapse.core import Memory
from synapse.trust.bearer import new_token

IDLE, CRITICALS, SUBSCRIBERS, ENTRIES = 200, 300, 30, 20_000
BODY = "use /v2/users " * 28
BARE = """
import asyncio, sys
from fastapi import FastAPI, WebSocket
from synapse.system import listening
app, clients = FastAPI(), set()

@app.websocket("/v1/stream")
async def stream(socket: WebSocket):
    await socket.accept()
    clients.add(socket)
    count = int(socket.query_params.get("count", 0))
    for number in range(1, count + 1):
        await socket.send_text('{"cursor":%d,"body":"%s"}' % (number, "x" * 800))
    await socket.receive()

listener = listening.listen("127.0.0.1", 0)
print(listening.address("127.0.0.1", listener.getsockname()[1]), file=sys.stderr, flush=True)
listening.server(app, ws_per_message_deflate=False).run(sockets=[listener])
"""


class Served:
    """A server in a process of its own: its address, and how much memory it has."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline().split()
        self.address = next(word for word in line if word.startswith("http"))

    def rss(self) -> float:
        """Return the resident memory in MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@contextmanager
def served(root: str, tokens: str) -> Iterator[Served]:
    words = ["-m", "synapse", "--root", root, "serve", "--port", "0"]
    server = Served([sys.executable, *words, "--token-file", tokens])
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def bare() -> Iterator[Served]:
    server = Served([sys.executable, "-c", BARE])
    try:
        yield server
    finally:
        server.stop()


def stream(server: Served, token: str, asked: str = "") -> connect:
    url = f"{server.address.replace('http', 'ws', 1)}/v1/stream{asked}"
    own = {"authorization": f"Bearer {token}"}
    return connect(url, additional_headers=own, proxy=None, compression=None)


async def idle(server: Served, token: str) -> float:
    """Return how many MiB so many idle WebSockets add."""
    async with stream(server, token):
        await asyncio.sleep(1)
        before, sockets = server.rss(), []
        for _ in range(IDLE - 1):
            sockets.append(await stream(server, token))
        await asyncio.sleep(2)
        added = server.rss() - before
        await asyncio.gather(*(socket.close() for socket in sockets))
    return added


async def lags(server: Served, token: str, memory: Memory) -> tuple[list[float], list[float]]:
    """Return how long each critical entry took, from before it was written, and how long its
    writing took, in seconds.
    """
    arrived: dict[str, int] = {}
    async with stream(server, token, "?critical=true") as socket:
        await until(socket, "current")
        sending = asyncio.create_task(asyncio.to_thread(send, memory))
        while len(arrived) < CRITICALS:
            event = json.loads(await socket.recv())
            if event["kind"] == "entry":
                arrived[event["entry"]["id"]] = time.monotonic_ns()
        sent = await sending
    lags = sorted((arrived[id] - start) / 1e9 for id, start, _ in sent)
    return lags, sorted((end - start) / 1e9 for _, start, end in sent)


def send(memory: Memory) -> list[tuple[str, int, int]]:
    writer, sent = memory.as_agent("writer"), []
    for _ in range(CRITICALS):
        start = time.monotonic_ns()
        entry = writer.append(BODY, "api/endpoints", priority="critical")
        sent.append((entry.id, start, time.monotonic_ns()))
        time.sleep(0.01)
    return sent


async def until(socket: ClientConnection, kind: str) -> None:
    while json.loads(await socket.recv())["kind"] != kind:
        pass


async def hear(server: Served, token: str, count: int) -> tuple[list[str], int]:
    """Return the ids that one subscriber heard, and over how many connections."""
    since, ids, connections = 0, [], 0
    while len(ids) < count:
        connections += 1
        try:
            async with stream(server, token, f"?since={since}&namespace=load/*") as heard:
                async for text in heard:
                    event = json.loads(text)
                    since = event["cursor"]
                    if event["kind"] == "entry":
                        ids.append(event["entry"]["id"])
                        if len(ids) == count:
                            break
        except (WebSocketException, OSError):
            pass
    return ids, connections


async def crowd(server: Served, token: str, memory: Memory) -> str:
    """Return what subscribers hear of entries that are written as fast as they can be."""
    written: list[str] = []

    def write() -> None:
        writer = memory.as_agent("writer")
        for number in range(ENTRIES):
            written.append(writer.append(f"entry {number}", "load/x").id)

    start = time.monotonic()
    before = server.rss()
    writing = asyncio.create_task(asyncio.to_thread(write))
    listening = [hear(server, token, ENTRIES) for _ in range(SUBSCRIBERS)]
    peak, told = 0.0, asyncio.gather(*listening)
    while not told.done():
        peak = max(peak, server.rss() - before)
        await asyncio.sleep(0.2)
    await writing
    seconds = time.monotonic() - start
    results = await told
    missed = sum(len(set(written) - set(ids)) for ids, _ in results)
    twice = sum(len(ids) - len(set(ids)) for ids, _ in results)
    order = all(ids == written for ids, _ in results)
    connections = sum(count for _, count in results)
    rate = SUBSCRIBERS * ENTRIES / seconds
    return (
        f"{missed} missed, {twice} twice, order kept: {order}, {connections} connections,"
        f" {duration(seconds)}, {rate:,.0f} events/s, {peak:.0f} MiB more at most"
    )


async def bare_crowd(server: Served) -> str:
    async def hear_all() -> None:
        async with stream(server, "none", f"?count={ENTRIES}") as socket:
            for _ in range(ENTRIES):
                json.loads(await socket.recv())

    start = time.monotonic()
    await asyncio.gather(*(hear_all() for _ in range(SUBSCRIBERS)))
    seconds = time.monotonic() - start
    return f"{duration(seconds)}, {SUBSCRIBERS * ENTRIES / seconds:,.0f} events/s"


def middle(times: list[float]) -> str:
    """Return the middle of sorted times, and what one in a hundred exceeds."""
    p50, p99 = statistics.median(times), times[int(0.99 * len(times))]
    return f"p50 {duration(p50)}, p99 {duration(p99)}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench stream", description=__doc__)
    parser.add_argument("--only", choices=("idle", "lag", "crowd"), action="append")
    parser.add_argument("--dir", help="where the workspace is made")
    args = parser.parse_args(argv)
    wanted = args.only or ["idle", "lag", "crowd"]
    with tempfile.TemporaryDirectory(prefix="synapse-bench-", dir=args.dir) as parent:
        root, tokens = os.path.join(parent, "team"), os.path.join(parent, "tokens")
        with synapse.init(root) as memory:
            memory.register(synapse.Agent("writer", read=["*"], write=["*"]))
            memory.register(synapse.Agent("reader", read=["*"]))
            token = new_token(tokens, "reader")
            with served(root, tokens) as server:
                if "idle" in wanted:
                    print(f"idle: {asyncio.run(idle(server, token)):.1f} MiB")
                if "lag" in wanted:
                    heard, written = asyncio.run(lags(server, token, memory))
                    print(f"critical, heard: {middle(heard)}; written: {middle(written)}")
                if "crowd" in wanted:
                    print(f"crowd: {asyncio.run(crowd(server, token, memory))}")
    with bare() as server:
        if "idle" in wanted:
            print(f"bare, idle: {asyncio.run(idle(server, 'none')):.1f} MiB")
        if "crowd" in wanted:
            print(f"bare, crowd: {asyncio.run(bare_crowd(server))}")
    return 0
