"""An agent of A2A made with the SDK, on a free port of this machine, in this process.

Holds no test.
"""

import asyncio
import threading
import time

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCard, Part, Task, TaskState, TaskStatus
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette

from synapse.system import listening
from synapse.wire.a2a import EXTENSION

USAGE = {"input_tokens": 120, "output_tokens": 30, "cost": 0.25}


class Partner(AgentExecutor):
    """Works once for each message: `asked` are their texts, `begun` counts the work. A text with
    `slow` in it is worked on until `go` is set.
    """

    def __init__(self):
        self.asked, self.cancelled, self.contexts = [], 0, []
        self.go = threading.Event()
        self.usage, self.state, self.why = USAGE, TaskState.TASK_STATE_COMPLETED, ""

    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        self.asked.append(context.get_user_input())
        self.contexts.append(context.context_id)
        await event_queue.enqueue_event(
            context.current_task
            or Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            )
        )
        await updater.start_work()
        while "slow" in context.get_user_input() and not self.go.is_set():
            await asyncio.sleep(0.01)
        if self.state == TaskState.TASK_STATE_COMPLETED:
            await updater.add_artifact(
                [Part(text=f"It is done, {len(self.asked)}.")], name="result"
            )
        metadata = {EXTENSION: {"usage": self.usage}} if self.usage else None
        said = updater.new_agent_message([Part(text=self.why)]) if self.why else None
        await updater.update_status(self.state, message=said, metadata=metadata)

    async def cancel(self, context, event_queue):
        self.cancelled += 1
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class PartnerServer:
    """Serves a partner. `streaming` is what its card says; `elsewhere` the address that it names in
    the place of its own."""

    def __init__(self, streaming=True, elsewhere=None):
        self.partner = Partner()
        self._listener = listening.listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        fields = {
            "name": "partner",
            "description": "works",
            "version": "1",
            "supportedInterfaces": [
                {
                    "url": f"{elsewhere or self.url}/rpc",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0",
                }
            ],
            "capabilities": {"streaming": streaming},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "work", "name": "work", "description": "works", "tags": ["work"]}],
        }
        card = AgentCard()
        ParseDict(fields, card)
        handler = DefaultRequestHandler(self.partner, InMemoryTaskStore(), card)
        routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
        config = uvicorn.Config(
            Starlette(routes=routes), log_config=None, timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)

    def __enter__(self):
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listener],), daemon=True
        )
        self._thread.start()
        until = time.monotonic() + 30
        while not self._server.started:
            assert time.monotonic() < until
            time.sleep(0.005)
        return self

    def __exit__(self, *_):
        self.partner.go.set()
        self._server.should_exit = True
        self._thread.join(30)
        self._listener.close()
