"""Calls of models, on record: made once, played again without a network. One JSON object a line.

A call is known by what was asked: model, system, messages, tools and the most it may say, with
everything put aside that differs between two recordings of the same question (times, fences, ids of
entries and calls, paths). A question that was asked twice has two answers, given again in their
order. A cassette proves what was recorded with it and nothing else: whoever changes a prompt asks
another question. Secrets are taken out before anything is written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Call, Message, Request, Turn, Usage
from scenarios.data.faults import fault
from synapse.system.json import dumps

FORMAT = "brain-suite/cassette-v1"
# `replay`: what is not there is an error. `once`: all is asked, and there must be no cassette yet.
# `new`: what is
# there is played, the rest is asked. `all`: all is asked anew.
MODES = ("replay", "once", "new", "all")
_ASIDE = (
    ("TIME", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")),
    ("FENCE", re.compile(r"(?<=memory-)[0-9a-f]{12,24}")),
    ("ENTRY", re.compile(r"\bsyn-\d{4}-\d\d-\d\d-\d{3,}\b")),
    ("PATH", re.compile(r"(?<![\w./])/(?:tmp|home|root|Users|var|private)/[^\s\"'\\]+")),
)
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bAIza[0-9A-Za-z_-]{30,}|\bgh[opsu]_[A-Za-z0-9]{20,}|\bxox[abp]-[A-Za-z0-9-]{10,}"
    r"|(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{16,}=*|\bAKIA[0-9A-Z]{16}\b"
)
_KEYS = re.compile(r"(?:_API_KEY|_AUTH_TOKEN|_SECRET|_PASSWORD)$")
SECRET = "<SECRET>"


class BrokenCassette(Exception):
    """This is no cassette, or it is not to be used so; says why."""


class Missed(Exception):
    """This question is not on the cassette."""


class Played(NamedTuple):
    """An answer, how long it took in seconds, and what it cost in dollars."""

    turn: Turn
    took: float
    cost: float


class Cassette:
    """The calls on record, and those that are being added. Without a path it keeps nothing."""

    def __init__(
        self, path: str | None, mode: str = "new", env: Mapping[str, str] | None = None
    ) -> None:
        if mode not in MODES:
            raise BrokenCassette(f"{mode} is no mode: {', '.join(MODES)}")
        if mode == "replay" and path is None:
            raise BrokenCassette("to replay, there has to be a cassette")
        self.path, self.mode = path, mode
        self.hits = self.asked = 0
        self._secrets = [
            value for name, value in (env or {}).items() if _KEYS.search(name) and len(value) >= 8
        ]
        self._known: dict[str, list[Played]] = {}
        if path is not None:
            self._begin(path)

    def _begin(self, path: str) -> None:
        exists = os.path.exists(path)
        if exists and self.mode == "once":
            raise BrokenCassette(f"{path} is there already; once means once")
        if not exists and self.mode == "replay":
            raise BrokenCassette(f"{path}: there is no such cassette")
        if exists and self.mode != "all":
            for key, played in _read(path):
                self._known.setdefault(key, []).append(played)
        elif not exists or self.mode == "all":
            with open(path, "w", encoding="utf-8") as file:
                file.write(
                    _dump({"cassette": FORMAT, "aside": [name for name, _ in _ASIDE] + ["CALL"]})
                )

    def find(self, request: Request) -> Played | None:
        """Return the next answer to this question; None where it has to be asked. Missed where it
        may not be.
        """
        waiting = self._known.get(self._key(request))
        if waiting:
            self.hits += 1
            return waiting.pop(0)
        if self.mode == "replay":
            raise Missed(f"{request.key}: this prompt is not on {self.path}: record it anew")
        return None

    def keep(self, request: Request, played: Played, at: str) -> Played:
        """Put an answer on record, without any secret; back comes what is on record, so that this
        is what is played.
        """
        self.asked += 1
        if self.path is None:
            return played
        line = {
            "key": self._key(request),
            "request": asked(request),
            "response": _response(played.turn),
            "usage": played.turn.usage._asdict(),
            "model": played.turn.model,
            "took": played.took,
            "cost": played.cost,
            "ts": at,
        }
        text = self.clean(_dump(line))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)
        return _played(json.loads(text))

    def _key(self, request: Request) -> str:
        return key_of(request, self.clean)

    def clean(self, text: str) -> str:
        """Return the text without secrets: what looks like one, or is one in the environment."""
        for secret in self._secrets:
            text = text.replace(secret, SECRET)
        return _SECRETS.sub(SECRET, text)


def key_of(request: Request, clean: Callable[[str], str] = str) -> str:
    """Return the key of a request; all secrets count as the same text."""
    return sha256(clean(canonical(request)).encode()).hexdigest()


def canonical(request: Request) -> str:
    """Return the question in one form, whatever was different when it was asked: each such thing by
    its number.
    """
    text = json.dumps(asked(request), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    for name, pattern in _ASIDE:
        text = _numbered(text, pattern, name)
    calls = [call.id for message in request.messages for call in message.calls]
    return _numbered(text, re.compile("|".join(map(re.escape, calls))), "CALL") if calls else text


def _numbered(text: str, pattern: re.Pattern[str], name: str) -> str:
    counts: dict[str, int] = {}
    return pattern.sub(
        lambda match: f"<{name}{counts.setdefault(match[0], len(counts) + 1)}>", text
    )


def asked(request: Request) -> dict[str, Any]:
    """Return the request as data: text and calls of earlier replies, without the provider's own
    form.
    """
    return {
        "model": request.model,
        "system": request.system,
        "max_tokens": request.max_tokens,
        "messages": [_message(message) for message in request.messages],
        "tools": [[tool.name, tool.description, dict(tool.schema)] for tool in request.tools],
    }


def _message(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = {"role": message.role, "text": message.text}
    if message.calls:
        result["calls"] = [[call.id, call.name, dict(call.arguments)] for call in message.calls]
    if message.answers is not None:
        result |= {"answers": message.answers, "failed": message.failed}
    return result


def _response(turn: Turn) -> dict[str, Any]:
    calls = [call._asdict() | {"arguments": dict(call.arguments)} for call in turn.calls]
    return {"text": turn.text, "calls": calls, "stop": turn.stop, "native": turn.native}


def _read(path: str) -> Iterator[tuple[str, Played]]:
    with open(path, encoding="utf-8") as file:
        lines = iter(file)
        try:
            if json.loads(next(lines))["cassette"] != FORMAT:
                raise BrokenCassette(f"{path}: is no cassette of the form {FORMAT}")
            for line in lines:
                table = json.loads(line)
                yield table["key"], _played(table)
        except (ValueError, KeyError, TypeError, StopIteration) as error:
            raise BrokenCassette(f"{path}: {fault(error)}") from error


def _played(line: Mapping[str, Any]) -> Played:
    response = line["response"]
    calls = tuple(Call(**call) for call in response["calls"])
    turn = Turn(
        response["text"],
        calls,
        response["stop"],
        Usage(**line["usage"]),
        line["model"],
        response["native"],
    )
    return Played(turn, float(line["took"]), float(line["cost"]))


def _dump(value: Mapping[str, Any]) -> str:
    return dumps(value) + "\n"
