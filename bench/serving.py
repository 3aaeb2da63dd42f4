"""The server beside what it is made of: an append beside a bare application that writes one line, a
briefing beside the library's own. Each server is a process of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from bench.figures import Beside, Goal, Row, Timing, timed
from bench.ground import Ground
from bench.workload import READER, WRITERS
from synapse.trust.bearer import TokenFile, new_token

ROUNDS, EACH = 6, 50
HALF = Goal("ratio", 2.0)  # of the bare application's speed, at least
ABOVE = Goal("above", 2e-3)
DRAFT = {"body": "the endpoint /v2/users is live", "namespace": "api/endpoints"}


def serving(ground: Ground) -> Iterator[Row]:
    """Append and ask over HTTP, at as many entries as the workspace has."""
    ground.close()
    tokens = f"{ground.root}-tokens"
    writer, reader = new_token(tokens, WRITERS[0]), new_token(tokens, READER)
    bare = [f"{ground.root}-bare"]
    with child("library", [ground.root, tokens]) as ours, child("bare", bare) as theirs:
        append = request(ours, writer, "POST", "/v1/entries", DRAFT)
        line = request(theirs, "", "POST", "/lines", DRAFT)
        own, other = _by_turns(append, line)
        yield Row(
            "HTTP: append",
            ground.size,
            own.values(),
            Beside("a bare application: one line, one fsync", other.values()["p50"]),
            (HALF,),
        )
        briefing = request(ours, reader, "GET", "/v1/briefing?budget=4000")
        unchanged = timed(briefing, calls=100).values()
        mem = ground.open(frozen=False)
        try:
            me = mem.as_agent(READER)
            least = timed(lambda: me.briefing(4_000), calls=100).values()["p50"]
        finally:
            mem.close()
        above = {**unchanged, "above": unchanged["p50"] - least}
        beside = Beside("the library's own", least)
        yield Row("HTTP: briefing", ground.size, above, beside, (ABOVE,))


def _by_turns(one: Callable[[], object], other: Callable[[], object]) -> tuple[Timing, Timing]:
    """Time two calls in turns, so that both meet the same disk."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, found in zip((one, other), seconds, strict=True):
            call()
            for _ in range(EACH):
                start = time.perf_counter()
                call()
                found.append(time.perf_counter() - start)
    return Timing(seconds[0]), Timing(seconds[1])


def request(
    port: int, token: str, method: str, place: str, body: Mapping[str, str] | None = None
) -> Callable[[], bytes]:
    """Return a function that asks, over one connection, and returns the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"

    def ask() -> bytes:
        connection.request(method, place, sent, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            raise AssertionError(f"{method} {place}: {answer.status}")
        return text

    return ask


@contextmanager
def child(what: str, arguments: list[str]) -> Iterator[int]:
    """Start a server and yield its port; it is ended with the block."""
    command = [sys.executable, "-m", "bench.serving", what, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield int(child.stdout.readline())
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


def main(words: list[str]) -> None:
    """Serve, and say at which port: `library ROOT TOKENS`, `pages ROOT TOKENS`, or `bare FILE`."""
    from synapse.system import listening

    app = _bare(words[1]) if words[0] == "bare" else _library(*words)
    listener = listening.listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    listening.server(app).run(sockets=[listener])


def _library(what: str, root: str, tokens: str) -> object:
    """Return the application of a workspace: for tokens, or with the pages for anybody here."""
    import synapse
    from synapse.server.application import Serving, build
    from synapse.server.limits import Limits

    limits, shown = Limits(rate=0), what == "pages"
    serving = Serving(synapse.open(root), TokenFile(tokens), shown, limits=limits)
    return build(serving, None if shown else ())


def _bare(path: str) -> object:
    from fastapi import FastAPI
    from pydantic import BaseModel, create_model

    app = FastAPI()
    model: type[BaseModel] = create_model("Line", body=(str, ...), namespace=(str, ...))
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(line: model) -> dict[str, str]:  # type: ignore[valid-type]
        values: dict[str, str] = line.model_dump()  # type: ignore[attr-defined]
        os.write(file, json.dumps(values).encode() + b"\n")
        os.fsync(file)
        return values

    write.__annotations__["line"] = model
    app.post("/lines", status_code=201)(write)
    return app


if __name__ == "__main__":
    main(sys.argv[1:])
