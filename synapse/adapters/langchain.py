"""The memory in an agent of LangChain or LangGraph: a middleware for `create_agent`.

The view stands in the system message of each request and in no checkpoint; what comes later is a
message of the conversation, and is kept with it.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from synapse.adapters.conversation import Conversation
from synapse.adapters.tools import tools

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

    from synapse.adapters.conversation import AnyMemory

State = dict[str, Any]


def middleware(memory: AnyMemory, **options: Any) -> AgentMiddleware:
    """Return the middleware of an agent; `options` are those of `Conversation`."""
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langgraph.channels import UntrackedValue

    # what belongs to one run, and to no checkpoint
    own = Annotated[Conversation, UntrackedValue, PrivateStateAttr]
    MemoryState = TypedDict("MemoryState", {"synapse": own})  # noqa: UP013 (names are local)

    class Memory(AgentMiddleware):
        """The shared memory of a team, in the runs of one agent."""

        state_schema = MemoryState

        def __init__(self) -> None:
            self.tools = [tool(function) for function in tools(memory)]

        def before_model(self, state: State, runtime: Any) -> State:
            run = state.get("synapse") or Conversation(memory, **options)
            text = run.news()
            return {"synapse": run, "messages": [HumanMessage(text)] if text else []}

        async def abefore_model(self, state: State, runtime: Any) -> State:
            return await to_thread(self.before_model, state, runtime)

        def wrap_model_call(
            self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
        ) -> ModelResponse:
            return _counted(request, handler(_shown(request)))

        async def awrap_model_call(
            self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
        ) -> ModelResponse:
            return _counted(request, await handler(_shown(request)))

        def after_agent(self, state: State, runtime: Any) -> None:
            state["synapse"].done(state["messages"][-1].text)

        async def aafter_agent(self, state: State, runtime: Any) -> None:
            await to_thread(self.after_agent, state, runtime)

    return Memory()


def _shown(request: ModelRequest) -> ModelRequest:
    """Return the request with the view behind the system's text."""
    from langchain_core.messages import SystemMessage

    prompt = request.system_message.text if request.system_message else ""
    text = "\n\n".join(filter(None, (prompt, request.state["synapse"].view())))
    return request.override(system_message=SystemMessage(text)) if text else request


def _counted(request: ModelRequest, response: ModelResponse) -> ModelResponse:
    for message in response.result:
        used = getattr(message, "usage_metadata", None) or {}
        request.state["synapse"].spent(used.get("input_tokens", 0), used.get("output_tokens", 0))
    return response
