"""Figures of the server for Prometheus: requests, their times, open streams, live entries.

No figure has a text of an agent or an id in it: a route is named by its template. Called around all
routes, and by the route `/metrics`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from synapse.core import Memory
from synapse.model.agents import OPERATOR
from synapse.server.problems import template

TEXT = "text/plain; version=0.0.4"
OTHER = "other"  # a request that no route takes
_SPANS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())


class Measures:
    """The figures, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "synapse_requests",
            "Requests that were answered",
            ("method", "route", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "synapse_request_seconds",
            "Seconds until an answer began",
            ("method", "route"),
            buckets=_SPANS,
            registry=registry,
        )
        self.streams = Gauge(
            "synapse_open_streams", "Streams that are open", ("kind",), registry=registry
        )
        self.limited = Counter(
            "synapse_rate_limited", "Requests that were refused for their number", registry=registry
        )
        self.entries = Gauge("synapse_live_entries", "Entries that are live", registry=registry)
        self.records = Gauge("synapse_log_records", "Records in the log", registry=registry)

    def text(self, memory: Memory, streams: Mapping[str, int]) -> bytes:
        """Return all figures, those of the memory and of open streams as they are now."""
        for kind, count in streams.items():
            self.streams.labels(kind).set(count)
        page = memory.as_agent(OPERATOR).read(limit=1)
        self.entries.set(page.visible)
        self.records.set(page.cursor)
        return generate_latest(self.registry)


class Measured:
    """Counts every request by its route and status."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self.app, self.measures = app, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start" and not status:
                status = message["status"]
                seconds = time.perf_counter() - began
                route = template(scope) or OTHER
                method = scope["method"] if scope["method"] in _METHODS else OTHER
                self.measures.requests.labels(method, route, str(status)).inc()
                self.measures.seconds.labels(method, route).observe(seconds)
            await send(message)

        await self.app(scope, receive, noted)
