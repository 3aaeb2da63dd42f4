"""The engine for agents of A2A, through its SDK: a step is one task of an agent at an address.

What a task is known by is noted in the run's output before and while it is worked on, so that a
step which is taken again finds its task, and the agent does not work twice. Knows nothing of
memory.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from orchestrator.engines.a2a_notes import Notes
from orchestrator.engines.client_command import prompt_of
from orchestrator.engines.protocol import Broken, Rejected, Request, Turn
from synapse.system import extras

if TYPE_CHECKING:
    from orchestrator.engines.a2a_client import Remote

KEY = "A2A_TOKEN"  # the variable with the token, where none is given


class A2A:
    """`url` is where the agent's card is. Its tools are its own: it is sent texts, and answers with
    artifacts. A later step goes on in the same context.
    """

    name = "a2a"
    interrupt = "turn"
    takes_tools = False
    shell = False  # it is on a machine of its own
    resumes = True

    def __init__(
        self,
        *,
        url: str = "",
        model: str | None = None,
        api_key: str | None = None,
        max_retries: int = 4,
        timeout: float | None = None,
        trusted: str = "",
    ) -> None:
        if not url:
            raise Rejected(
                "an engine of the kind `a2a` needs the address of its agent; name it under"
                " engines: in synapse.yaml, such as partner: {kind: a2a, url: https://HOST/}"
            )
        extras.demand("a2a")
        self.url, self.model, self.trusted = url, model, trusted
        self.own_key = api_key is not None
        self.token = api_key or os.environ.get(KEY)
        self.max_retries, self.timeout = max_retries, timeout
        self._remote: Remote | None = None

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        remote = await self._connected()
        notes = Notes(request)
        text = prompt_of(request, resumed=request.session is not None, with_system=True)
        try:
            async with asyncio.timeout(self.timeout):
                return await remote.turn(text, request.session, notes)
        except TimeoutError:
            raise Broken(f"the agent at {self.url} did not end within {self.timeout:g} s") from None

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        if self._remote is not None:
            await self._remote.close()

    async def _connected(self) -> Remote:
        if self._remote is None:
            from orchestrator.engines.a2a_client import Remote

            self._remote = Remote(self.url, self.token, self.trusted, self.max_retries)
        return self._remote
