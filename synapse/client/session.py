"""A session: the token's agent on one server, and what notes that a page was shown to it."""

from __future__ import annotations

from collections.abc import Collection

from synapse.client.transport import Transport
from synapse.errors import NotFound
from synapse.model.agents import Agent
from synapse.system.typed import Any
from synapse.wire import parse


class Session:
    """The agent of a token on a server. Thread-safe; close it, or use it in a `with`."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.writer = RemoteWriter(transport)
        self._id: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transport.address!r})"

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()

    @property
    def agent_memory(self) -> Session:
        return self

    @property
    def id(self) -> str:
        """Return the agent of the token."""
        if self._id is None:
            self._id = self.transport.value(_name, self._me("agent"))
        return self._id

    @property
    def agent(self) -> Agent | None:
        """Return the agent as registered; None for the operator."""
        declared = self._me("declared")
        return None if declared is None else self.transport.value(parse.agent, declared)

    @property
    def cursor(self) -> int:
        """Return the number of the last record that the server has read."""
        return self.transport.value(int, self._me("cursor"))

    def agents(self) -> list[Agent]:
        """Return the agents of the team, as far as this one is told of them."""
        form = self.transport.get("/v1/agents")
        return self.transport.value(_agents, form)

    def _me(self, name: str) -> Any:
        return self.transport.value(lambda form: form[name], self.transport.get("/v1/me"))

    def known(self, id: str) -> str:
        """Return an id that can stand in a path; NotFound for a text that is none."""
        if not id or "/" in id:
            raise NotFound(f"there is no entry {id} that {self.id} may see", id=id)
        return id


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _agents(form: dict[str, Any]) -> list[Agent]:
    if not isinstance(form["agents"], list):
        raise TypeError
    return [parse.agent(row) for row in form["agents"]]


class RemoteWriter:
    """What notes on the server that a page was shown, after it has arrived."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def shown(
        self, ids: Collection[str], of: int, cursor: int, how: str, once: str | None = None
    ) -> None:
        """Note that this agent was shown these entries, of so many, as of a cursor."""
        body = {"ids": [*ids], "visible": of, "cursor": cursor, "how": how}
        self.transport.post("/v1/shown", body, once)
