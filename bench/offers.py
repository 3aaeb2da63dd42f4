"""What other memories put into requests to a model: the tools of mcp_agent_mail and of beads, and
the prompt with which mem0 has a model read what it is to keep.

`PYTHON -m bench.offers NAME` runs under an interpreter that has the package, and prints what it
sends; `python -m bench.offers` counts the tokens of that from its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

FACT = "BREAKING: use /v2/users"


def agent_mail() -> Any:
    """Return the tools that mcp_agent_mail's server lists."""
    os.environ.setdefault("HTTP_BEARER_TOKEN", "")
    from mcp_agent_mail.app import build_mcp_server  # type: ignore[import-not-found]

    return _listed(asyncio.run(build_mcp_server().get_tools()).values())


def beads() -> Any:
    """Return the tools that beads' MCP server lists."""
    from beads_mcp.server import mcp  # type: ignore[import-not-found]

    return _listed(asyncio.run(mcp.list_tools()))


def mem0() -> Any:
    """Return what mem0 sends to a model for one fact that it is to keep."""
    home = tempfile.mkdtemp()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        settings = {"OPENAI_API_KEY": "none", "MEM0_TELEMETRY": "False", "MEM0_DIR": home}
        os.environ.update(settings)
        from mem0 import Memory  # type: ignore[import-not-found]

        place = {"openai_base_url": f"http://127.0.0.1:{server.server_address[1]}/v1"}
        named = {"provider": "openai", "config": place}
        store = {"provider": "qdrant", "config": {"path": f"{home}/vectors"}}
        memory = Memory.from_config({"llm": named, "embedder": named, "vector_store": store})
        memory.add(FACT, user_id="someone")
        server.shutdown()
    messages = [message for body in _Model.asked for message in body["messages"]]
    return "\n".join(message["content"] for message in messages)


class _Model(BaseHTTPRequestHandler):
    """A model on this machine that finds one fact in whatever it is asked."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/embeddings"):
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            rows = [{"index": n, "embedding": [0.1] * 1536} for n in range(len(texts))]
            answer: dict[str, Any] = {"data": rows, "model": "m", "object": "list"}
        else:
            self.asked.append(body)
            fact = json.dumps({"memory": [{"id": "0", "text": FACT, "event": "ADD"}]})
            said = {"role": "assistant", "content": fact}
            answer = {
                "id": "1",
                "model": "m",
                "object": "chat.completion",
                "created": 1,
                "choices": [{"index": 0, "finish_reason": "stop", "message": said}],
            }
        raw = json.dumps(answer | {"usage": None}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def _listed(tools: Any) -> list[dict[str, Any]]:
    """Return what a request of a client holds of these tools."""
    dumped = [tool.to_mcp_tool().model_dump(exclude_none=True, by_alias=True) for tool in tools]
    return [
        {name: tool[name] for name in ("name", "description", "inputSchema")} for tool in dumped
    ]


def _count() -> None:
    from synapse.system.tokens import Tokens

    sent = json.load(sys.stdin)
    if not isinstance(sent, str):
        sent = json.dumps(sent, separators=(",", ":"), ensure_ascii=False)
    print(f"{Tokens('o200k_base').count(sent):,} tokens")


if __name__ == "__main__":
    known = {"agent-mail": agent_mail, "beads": beads, "mem0": mem0}
    if len(sys.argv) > 1:
        print(json.dumps(known[sys.argv[1]]()))
    else:
        _count()
