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
from synapse.bearer import TokenFile, new_token

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
    with (
        _child("library", [ground.root, tokens]) as ours,
        _child("bare", bare) as theirs,
    ):
        append = _request(ours, writer, "POST", "/v1/entries", DRAFT)
        line = _request(theirs, "", "POST", "/lines", DRAFT)
        own, other = _by_turns(append, line)
        yield Row(
            "HTTP: append",
            ground.size,
            own.values(),
            Beside("a bare application: one line, one fsync", other.values()["p50"]),
            (HALF,),
        )
        briefing = _request(ours, reader, "GET", "/v1/briefing?budget=4000")
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


def _by_turns(
    one: Callable[[], object], other: Callable[[], object]
) -> tuple[Timing, Timing]:
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


def _request(
    port: int,
    token: str,
    method: str,
    place: str,
    body: Mapping[str, str] | None = None,
) -> Callable[[], None]:
    """Return a function that asks, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}

    def ask() -> None:
        connection.request(method, place, sent, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (200, 201):
            raise AssertionError(f"{method} {place}: {answer.status}")

    return ask


@contextmanager
def _child(what: str, arguments: list[str]) -> Iterator[int]:
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
    """Serve, and say at which port: `library ROOT TOKENS`, or `bare FILE`."""
    from synapse.system import listening

    app = _library(*words[1:]) if words[0] == "library" else _bare(words[1])
    listener = listening.listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    listening.run(app, listener)


def _library(root: str, tokens: str) -> object:
    import synapse
    from synapse.server.application import Serving, build
    from synapse.server.limits import Limits

    limits = Limits(rate=0)
    return build(Serving(synapse.open(root), TokenFile(tokens), limits=limits), ())


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
