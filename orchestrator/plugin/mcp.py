"""The MCP server of a client's sessions: `PYTHON -P mcp.py CLIENT [--root DIR] [--agent LEAD]`.

It speaks over its standard streams, to the client that started it. The tools are those of `synapse
mcp`; each call acts as the conversation that it comes from.
"""

from __future__ import annotations

import os
import sys

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The variable by which a client tells the servers that it starts of its session.
SESSIONS = {"claude-code": "CLAUDE_CODE_SESSION_ID"}


def main(words: list[str]) -> int:
    """Serve until the client closes our standard input, and return the exit code."""
    if PACKAGES not in sys.path:
        sys.path.insert(0, PACKAGES)
    from synapse.mcp import installation, is_installed

    if not is_installed():
        sys.stderr.write(f"the memory's tools need the package mcp: {installation()}\n")
        return 3
    import synapse
    from orchestrator.plugin import facts, hook
    from synapse.errors import NotFound
    from synapse.mcp.caller import Caller
    from synapse.mcp.identity import Opened, as_agent
    from synapse.mcp.offer import offer
    from synapse.mcp.opening import Opening

    client, lead = words[0], ""
    if "--agent" in words[:-1]:
        lead = words[words.index("--agent") + 1]
    # Under a supervisor of ours it is that run's agent, and no other.
    supervised = bool(os.environ.get("SYNAPSE_RUN"))
    identity = os.environ.get("SYNAPSE_AGENT", "") or lead
    if not supervised:
        os.environ.pop("SYNAPSE_AGENT", None)
    pid = hook.client_process()

    def open_memory() -> synapse.Memory:
        root = hook.find_workspace(words, {"cwd": os.getcwd()})
        if root is None:
            hint = f"`orchestrator install {client}` makes one"
            raise NotFound(f"no workspace is in {os.getcwd()} or above it: {hint}")
        return synapse.open(root)

    opened = Opened(open_memory)
    # Some clients make tools of their own of resources and prompts, and send them with every
    # request.
    serves = facts.load(client).raw.get("serves", ("resources", "prompts"))

    def identify(caller: Caller) -> synapse.AgentMemory:
        from orchestrator.plugin.sessions.callers import agent_memory_of

        return agent_memory_of(opened.memory(), client, caller, pid, identity)

    Opening(
        as_agent(opened, identity) if supervised else identify,
        offer(given=True),
        started=os.environ.get(SESSIONS.get(client, ""), ""),
        given=True,
        resources="resources" in serves,
        prompts="prompts" in serves,
    ).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
