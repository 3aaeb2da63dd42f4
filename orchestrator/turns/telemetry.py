"""OpenTelemetry spans of runs, steps and tool calls, named by the conventions for generative AI.
Spans carry names and numbers, never prompts, results or entries.

OpenTelemetry is never imported here: a program that configures a tracer provider has loaded it.
Without one a span does nothing, and costs next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from orchestrator.engines.protocol import Usage


class Span:
    """What is told about a piece of work while it goes on."""

    def __init__(self, recorded: Any = None) -> None:
        self._recorded = recorded

    def tell(self, **attributes: object) -> None:
        """Set attributes by their names in the conventions, `__` for each dot; None is left out."""
        if self._recorded is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._recorded.set_attribute(name.replace("__", "."), value)

    def used(self, usage: Usage, cost: float | None = None) -> None:
        self.tell(
            gen_ai__usage__input_tokens=usage.input_tokens,
            gen_ai__usage__output_tokens=usage.output_tokens,
            gen_ai__usage__cache_read__input_tokens=usage.cached_tokens or None,
            gen_ai__usage__cache_creation__input_tokens=usage.written_tokens or None,
            synapse__cost_usd=cost,
        )

    def failed(self, kind: str) -> None:
        """Mark the span as failed: `kind` is a short word, such as an error's class or a run's
        status.
        """
        if self._recorded is not None:
            self._recorded.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR, kind)
            self.tell(error__type=kind)


_SILENT = Span()


def run_span(
    run: str, agent: str, *, provider: str, model: str | None = None, **more: object
) -> AbstractContextManager[Span]:
    """Trace a run, from its first step to its end."""
    return _span(
        "INTERNAL",
        "invoke_agent",
        agent,
        run,
        agent,
        gen_ai__provider__name=provider,
        gen_ai__request__model=model,
        **more,
    )


def step_span(
    run: str, agent: str, step: int, *, provider: str, model: str | None
) -> AbstractContextManager[Span]:
    """Trace one call of a model."""
    return _span(
        "CLIENT",
        "chat",
        model,
        run,
        agent,
        gen_ai__provider__name=provider,
        gen_ai__request__model=model,
        synapse__step=step,
    )


def tool_span(run: str, agent: str, tool: str, call: str) -> AbstractContextManager[Span]:
    """Trace one call of a tool."""
    return _span(
        "INTERNAL",
        "execute_tool",
        tool,
        run,
        agent,
        gen_ai__tool__name=tool,
        gen_ai__tool__call__id=call,
        gen_ai__tool__type="function",
    )


@contextmanager
def _span(
    kind: str, operation: str, of: str | None, run: str, agent: str, **more: object
) -> Iterator[Span]:
    """Trace an operation of a run: on an agent, a model or a tool."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield _SILENT
        return
    tracer = trace.get_tracer("synapse-orchestrator")
    # An error's text may quote an entry: only its kind is told, below.
    silent = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(
        f"{operation} {of}" if of else operation, kind=trace.SpanKind[kind], **silent
    ) as recorded:
        span = Span(recorded if recorded.is_recording() else None)
        span.tell(
            gen_ai__operation__name=operation,
            gen_ai__agent__name=agent,
            gen_ai__conversation__id=run,
            **more,
        )
        try:
            yield span
        except BaseException as error:
            span.failed(type(error).__name__)
            raise
