"""The steps in a chat of Gemini CLI: `~/.gemini/tmp/PROJECT/chats/*.jsonl`, and a folder for its
sub-agents; older versions write one object of JSON. Called by `sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping, moment, text_of
from orchestrator.plugin.transcripts.gemini import read_usage


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is of a chat of Gemini CLI."""
    return "projectHash" in row


def steps(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Step]:
    """Yield the steps of a chat in order. A reply comes again when its calls are done."""
    session, cwd, agent, at = name, "", "", 0
    called, done = set[str](), set[str]()
    for row in _each(rows):
        at = max(at, moment(row.get("timestamp") or row.get("startTime")))

        def step(kind: str, **fields: Any) -> Step:
            return Step(kind, at, session, cwd, agent, **fields)  # noqa: B023  # made at once

        if "projectHash" in row:
            folders = row.get("directories")
            cwd = str(folders[0]) if isinstance(folders, list) and folders else ""
            cwd = cwd or str(row["projectHash"])
            session = str(row.get("sessionId") or name)
            agent = session if row.get("kind") == "subagent" else ""
            yield step("start")
        elif row.get("type") == "user" and not agent:
            if (text := text_of(row.get("content"))).strip():
                yield step("prompt", text=text)
        elif row.get("type") == "gemini" and row.get("id"):
            usage = read_usage(mapping(row.get("tokens")))
            model = str(row.get("model") or "")
            yield step("turn", id=str(row["id"]), usage=usage, model=model)
            if (text := text_of(row.get("content"))).strip():
                yield step("said", text=text)
            for call in row.get("toolCalls") or ():
                yield from _call(mapping(call), step("call"), called, done)
    yield Step("end", at, session, cwd, agent)


def _each(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows, and behind the head of an older chat its messages."""
    for row in rows:
        yield row
        messages = row.get("messages")
        yield from map(mapping, messages if isinstance(messages, list) else ())


def _call(call: Mapping[str, Any], step: Step, called: set[str], done: set[str]) -> Iterator[Step]:
    id, arguments = str(call.get("id")), mapping(call.get("args"))
    step = step._replace(id=id, tool=str(call.get("name")), arguments=arguments)
    if id not in called:
        called.add(id)
        yield step
    if call.get("result") is not None and id not in done:
        done.add(id)
        results = call["result"] if isinstance(call["result"], list) else [call["result"]]
        responses = [mapping(mapping(item).get("functionResponse")) for item in results]
        texts = [mapping(response.get("response")) for response in responses]
        text = "\n".join(str(text.get("output") or text.get("error") or "") for text in texts)
        failed = call.get("status") == "error"
        yield step._replace(kind="result", text=text, failed=failed)
