"""Who calls: a token's agent, a browser that logged in, or anybody on this machine where that is
allowed.

A request's identity is its token alone: a name in a body that differs is refused. Every route asks
here; nothing else reads tokens or cookies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import Forbidden, NotFound
from synapse.model.agents import OPERATOR
from synapse.server.browsers import COOKIE, CSRF, Browsers
from synapse.server.problems import Unauthorized
from synapse.trust.bearer import TokenFile

AGENT = "synapse-agent"  # the header that names the agent where no token is asked for
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


@dataclass(frozen=True)
class Caller:
    """Who sent a request: the agent it acts as, whether it may write, and by what it is known:
    a token's id, a browser's, or `local`.
    """

    agent: str
    read_only: bool = False
    key: str = "local"

    @property
    def operator(self) -> bool:
        return self.agent == OPERATOR


@dataclass(frozen=True)
class Gate:
    """What decides who calls: the tokens, the browsers that logged in, and whether requests
    without either are the operator's, or the agent's that they name.
    """

    memory: Memory
    tokens: TokenFile
    browsers: Browsers
    trust_local: bool = False

    def caller(self, connection: HTTPConnection) -> Caller:
        """Return who calls. Unauthorized where nobody is known."""
        scheme, _, text = connection.headers.get("authorization", "").partition(" ")
        if scheme:
            return self._of_token(text.strip() if scheme.lower() == "bearer" else "")
        if COOKIE in connection.cookies:
            return self._of_browser(connection)
        if self.trust_local:
            return Caller(connection.headers.get(AGENT) or OPERATOR)
        raise Unauthorized(
            "a token is needed: send `Authorization: Bearer TOKEN`; `synapse token new"
            " AGENT` makes one"
        )

    def _of_token(self, text: str) -> Caller:
        token = self.tokens.find(text)
        if token is None:
            raise Unauthorized("this token is not good here: it is unknown, revoked or expired")
        return Caller(token.agent, token.read_only, token.id)

    def _of_browser(self, connection: HTTPConnection) -> Caller:
        browser = self.browsers.find(connection.cookies[COOKIE])
        if browser is None:
            raise Unauthorized("this login is over: run `synapse dashboard` for another link")
        method = connection.scope.get("method", "GET")
        if method not in SAFE and not browser.proves(connection.headers.get(CSRF, "")):
            raise Forbidden(
                f"a change from a browser needs the header {CSRF} of its page", action="act"
            )
        return Caller(browser.agent, browser.read_only, browser.id)

    def agent_memory(self, caller: Caller) -> AgentMemory:
        """Return the memory as the caller has it."""
        try:
            return self.memory.as_agent(caller.agent)
        except NotFound as error:
            raise Forbidden(str(error), agent=caller.agent, action="act") from None


def gate_of(connection: HTTPConnection) -> Gate:
    gate = connection.app.state.gate
    assert isinstance(gate, Gate)
    return gate


def known(connection: HTTPConnection) -> Caller:
    """Return who calls, once for a request: whatever limits it, and whoever answers it."""
    state = connection.state
    if not hasattr(state, "caller"):
        state.caller = gate_of(connection).caller(connection)
    caller = state.caller
    assert isinstance(caller, Caller)
    return caller


def reader(connection: HTTPConnection) -> AgentMemory:
    """Return the memory for a route that reads."""
    return gate_of(connection).agent_memory(known(connection))


def writer(connection: HTTPConnection) -> AgentMemory:
    """Return the memory for a route that writes. Forbidden where the token may read alone."""
    caller = known(connection)
    if caller.read_only:
        raise Forbidden("this token may read alone", agent=caller.agent, action="write")
    return gate_of(connection).agent_memory(caller)


def operator(connection: HTTPConnection) -> Memory:
    """Return the whole workspace, for the operator alone."""
    caller = known(connection)
    if not caller.operator:
        raise Forbidden(
            f"this is the operator's, not {caller.agent}'s",
            agent=caller.agent,
            action="act as the operator",
        )
    if caller.read_only and connection.scope.get("method", "GET") not in SAFE:
        raise Forbidden("this token may read alone", agent=caller.agent, action="write")
    return gate_of(connection).memory


# They run where requests are awaited: a thread for each would cost more than what they do.


async def _known(connection: HTTPConnection) -> Caller:
    return known(connection)


async def _reader(connection: HTTPConnection) -> AgentMemory:
    return reader(connection)


async def _writer(connection: HTTPConnection) -> AgentMemory:
    return writer(connection)


async def _operator(connection: HTTPConnection) -> Memory:
    return operator(connection)


Known = Annotated[Caller, Depends(_known)]
Reader = Annotated[AgentMemory, Depends(_reader)]
Writer = Annotated[AgentMemory, Depends(_writer)]
Operator = Annotated[Memory, Depends(_operator)]
Authenticated = Depends(_known)
