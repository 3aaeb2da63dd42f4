"""The memory in an agent of Pydantic AI: a capability.

The view stands in the instructions of each request; what comes later is a message of the run.
"""

from __future__ import annotations

from asyncio import to_thread
from typing import TYPE_CHECKING, Any

from synapse.adapters.conversation import Conversation
from synapse.adapters.tools import tools

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from synapse.adapters.conversation import AnyMemory


def capability(memory: AnyMemory, **options: Any) -> AbstractCapability[Any]:
    """Return the capability of an agent; `options` are those of `Conversation`."""
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import FunctionToolset

    class Memory(AbstractCapability[Any]):
        """The shared memory of a team, in one run of an agent."""

        def __init__(self) -> None:
            self.run = Conversation(memory, **options)

        async def for_run(self, ctx: Any) -> AbstractCapability[Any]:
            return Memory()

        def get_instructions(self) -> Any:
            async def view(ctx: Any) -> str:
                return await to_thread(self.run.view)

            return view

        def get_toolset(self) -> Any:
            return FunctionToolset(tools(memory))

        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            if text := await to_thread(self.run.news):
                ctx.enqueue(text)
            return request_context

        async def after_model_request(
            self, ctx: Any, *, request_context: Any, response: Any
        ) -> Any:
            self.run.spent(response.usage.input_tokens, response.usage.output_tokens)
            return response

        async def after_run(self, ctx: Any, *, result: Any) -> Any:
            await to_thread(self.run.done, str(result.output))
            return result

    return Memory()
