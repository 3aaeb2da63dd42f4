"""The steps in OpenTelemetry traces by the conventions for generative AI, as OTLP's JSON: one
request in a file, or one in each line. Called by `sources`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping
from orchestrator.engines.protocol import Usage

MODEL_CALLS = ("chat", "text_completion", "generate_content")


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row holds spans."""
    return "resourceSpans" in row


def steps(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Step]:
    """Yield the steps that the spans tell of, in the order of their ends."""
    spans = [span for row in rows for span in _spans(row)]
    for span in sorted(spans, key=lambda span: _number(span.get("endTimeUnixNano"))):
        yield from _span(span, name)


def _spans(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in map(mapping, row.get("resourceSpans") or ()):
        for scope in map(mapping, resource.get("scopeSpans") or ()):
            yield from map(mapping, scope.get("spans") or ())


def _span(span: Mapping[str, Any], name: str) -> Iterator[Step]:
    attributes = {
        str(mapping(item).get("key")).removeprefix("gen_ai."): _value(mapping(item).get("value"))
        for item in span.get("attributes") or ()
    }
    operation = attributes.get("operation.name")
    at = _number(span.get("endTimeUnixNano")) // 1_000
    session = str(attributes.get("conversation.id") or span.get("traceId") or name)
    id = str(span.get("spanId") or at)
    step = Step("", at, session, type=str(attributes.get("agent.name") or ""))
    if operation in MODEL_CALLS:
        usage = Usage(
            _number(attributes.get("usage.input_tokens")),
            _number(attributes.get("usage.output_tokens")),
            _number(attributes.get("usage.cache_read.input_tokens")),
            _number(attributes.get("usage.cache_creation.input_tokens")),
        )
        model = str(attributes.get("response.model") or attributes.get("request.model") or "")
        yield step._replace(kind="turn", id=id, usage=usage, model=model)
    elif operation == "execute_tool":
        arguments, text = attributes.get("tool.call.arguments"), attributes.get("tool.call.result")
        tool = str(attributes.get("tool.name") or "")
        call = step._replace(id=id, tool=tool, arguments=_object(arguments))
        yield call._replace(kind="call")
        if isinstance(text, str):
            failed = mapping(span.get("status")).get("code") in (2, "STATUS_CODE_ERROR")
            yield call._replace(kind="result", text=text, failed=failed)


def _value(value: Any) -> Any:
    """Return an attribute's value: OTLP names its type, and writes whole numbers as texts."""
    value = mapping(value)
    if "intValue" in value:
        return _number(value["intValue"])
    return next(iter(value.values()), None)


def _object(value: Any) -> Mapping[str, Any]:
    try:
        return mapping(json.loads(value) if isinstance(value, str) else value)
    except ValueError:
        return {}


def _number(value: Any) -> int:
    try:
        return max(int(value), 0)
    except (TypeError, ValueError):
        return 0
