"""The memory in a run of the OpenAI Agents SDK: its hooks, and a configuration of the run.

The view stands behind the instructions of each request. The SDK forgets what a filter puts into a
request: what came later is put in again, at its place.
"""

from __future__ import annotations

from asyncio import to_thread
from typing import TYPE_CHECKING, Any

from synapse.adapters.conversation import Conversation
from synapse.adapters.tools import tools

if TYPE_CHECKING:
    from agents import RunConfig, Tool

    from synapse.adapters.conversation import AnyMemory


def memory_tools(memory: AnyMemory) -> list[Tool]:
    """Return the tools of an agent, for its `tools`."""
    from agents import function_tool

    return [function_tool(tool) for tool in tools(memory)]


def run_options(memory: AnyMemory, config: RunConfig | None = None, **options: Any) -> Any:
    """Return what `Runner.run` takes for one run, `hooks` and `run_config`; `options` are those of
    `Conversation`.
    """
    from dataclasses import replace

    from agents import RunConfig, RunHooks
    from agents.run import CallModelData, ModelInputData

    run = Conversation(memory, **options)

    async def shown(data: CallModelData[Any]) -> ModelInputData:
        view = await to_thread(run.view)
        items = await to_thread(run.placed, data.model_data.input, _message)
        text = "\n\n".join(filter(None, (data.model_data.instructions, view)))
        return ModelInputData(input=items, instructions=text or None)

    class Hooks(RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            run.spent(response.usage.input_tokens, response.usage.output_tokens)

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            await to_thread(run.done, str(output))

    settings = replace(config or RunConfig(), call_model_input_filter=shown)
    return {"hooks": Hooks(), "run_config": settings}


def _message(text: str) -> Any:
    return {"role": "user", "content": text}
