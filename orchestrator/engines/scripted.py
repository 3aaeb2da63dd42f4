"""The scripted engine: a function in the place of a model. Deterministic; calls no provider.

The function is given what a model would be given, the text of the prompt, the schemas of the tools
and their results, and nothing else; it returns the next words or calls. Usage is counted, not
invented.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from orchestrator.engines.protocol import Call, Message, Request, Tool, Turn, Usage
from synapse.system.tokens import Tokens


class Seen(NamedTuple):
    """All that a script sees."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]

    @property
    def text(self) -> str:
        """Return the whole prompt as one text."""
        return "\n".join((self.system, *(message.text for message in self.messages)))

    @property
    def turn(self) -> int:
        """Return how many replies there were before."""
        return sum(message.role == "assistant" for message in self.messages)


class Move(NamedTuple):
    """What a script does next: say something, call tools, or be cut short. `takes` is how long it
    thinks.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, object]], ...] = ()
    stop: str | None = None
    takes: float = 0.0
    blocked: str | None = None


Script = Callable[[Seen], Move | str]
Counter = Callable[[str], int]


def played(script: Callable[[Seen], str]) -> Callable[[Seen], str]:
    """Mark a script that is nobody's program: what it says is never the result of work."""
    setattr(script, _MARK, True)
    return script


_MARK = "nobody_works"


@played
def echo(seen: Seen) -> str:
    """Reply what the task was, which nobody does: the script where none is given."""
    task = next(
        (message.text for message in reversed(seen.messages) if message.label == "task"), ""
    )
    lines = [line for line in task.splitlines() if line.strip() and not line.startswith("#")]
    return f"Nobody did this: {lines[0].strip() if lines else 'nothing was asked'}"


class Scripted:
    """Takes any function from what is seen to the next move. Without one of yours it is `played`:
    what it says is marked so, and no other agent is told of it.
    """

    name = "scripted"
    interrupt = "now"
    takes_tools = True

    @property
    def played(self) -> bool:
        """Return whether nobody works: there is no script of the user's."""
        is_own = type(self).step is not Scripted.step  # a class of the user's takes the steps
        return not is_own and bool(getattr(self.script, _MARK, False))

    def __init__(self, script: Script = echo, *, count: Counter | None = None) -> None:
        self.script = script
        self._count = count or lru_cache(4_096)(Tokens().count)

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        """Ask the script for one turn, as a model would be asked."""
        moved = self.script(Seen(request.system, request.messages, request.tools))
        move = Move(moved) if isinstance(moved, str) else moved
        if move.takes and await rung(interrupt, move.takes):
            return Turn(
                "", stop="interrupted", usage=self._usage(request), model=request.model or self.name
            )
        turn = sum(message.role == "assistant" for message in request.messages)
        calls = tuple(
            Call(f"call-{turn}-{i}", name, arguments)
            for i, (name, arguments) in enumerate(move.calls)
        )
        stop = move.stop or ("tools" if calls else "done" if move.text else "empty")
        usage = self._usage(request, move.text, *(f"{name}{args}" for name, args in move.calls))
        return Turn(move.text, calls, stop, usage, request.model or self.name, blocked=move.blocked)

    async def count(self, request: Request) -> int | None:
        """Return None: nobody else counts the tokens of a script."""
        return None

    async def close(self) -> None:
        """Close nothing: a script holds nothing open."""
        return

    def _usage(self, request: Request, *said: str) -> Usage:
        sent = self._count(request.system) + sum(
            self._count(message.text) for message in request.messages
        )
        return Usage(sent, sum(map(self._count, said)))


async def rung(interrupt: asyncio.Event, seconds: float) -> bool:
    """Wait for this time, and return whether an interrupt came meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await interrupt.wait()
    except TimeoutError:
        return False
    return True
