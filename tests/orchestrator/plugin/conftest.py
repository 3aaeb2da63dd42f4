"""A workspace with a team, and a client's session whose events are answered in it."""

import json
import os

import pytest

import synapse
from orchestrator.plugin.facts import load
from orchestrator.plugin.facts.event import read_event
from orchestrator.plugin.hooks.answer import answer, more_path

CLIENT = "claude-code"


class Client:
    """Says what Claude Code says, and keeps what it is answered. `run` is the supervisor's run that
    it works for.
    """

    run = ""

    def __init__(self, memory, folder, session="s1"):
        self.memory = memory
        self.folder = folder
        self.session = session
        self.calls = 0
        self.answers = []

    def __call__(self, name, agent=None, **fields):
        """Return the answer to an event, as the client reads it."""
        payload = {
            "hook_event_name": name,
            "session_id": self.session,
            "cwd": self.folder,
            **fields,
        }
        if agent is not None:
            payload |= {
                "agent_id": agent,
                "agent_type": fields.get("agent_type", "general-purpose"),
            }
        text = answer(self.memory, CLIENT, payload, os.getpid(), run=self.run)
        given = json.loads(text) if text else {}
        if name in ("SessionStart", "SubagentStart") and not self.run:
            path = more_path(self.memory.store.root, read_event(load(CLIENT), payload))
            with open(path, encoding="utf-8") as file:
                more = file.read()
            os.unlink(path)
            given["more"] = context(json.loads(more)) if more else ""
        self.answers.append((name, agent, given))
        return given

    def spawn(self, agent, prompt, type="general-purpose"):
        """Return the answer to a sub-agent's start, after its spawn's call."""
        self.tool("Agent", {"prompt": prompt, "subagent_type": type})
        return self("SubagentStart", agent, agent_type=type)

    def before(self, tool, arguments, agent=None):
        """Return the answer before a call, and the call's id."""
        self.calls += 1
        call = f"call-{self.calls}"
        given = self("PreToolUse", agent, tool_name=tool, tool_input=arguments, tool_use_id=call)
        return given, call

    def tool(self, tool, arguments, agent=None, result="ok"):
        """Return the answers before and after a call; None for the second where it was refused."""
        given, call = self.before(tool, arguments, agent)
        if denied(given):
            return given, None
        fields = {
            "tool_name": tool,
            "tool_input": arguments,
            "tool_use_id": call,
            "tool_response": result,
        }
        return given, self("PostToolUse", agent, **fields)


def context(given):
    """Return the text that reaches the model beside something."""
    return given.get("hookSpecificOutput", {}).get("additionalContext", "")


def denied(given):
    """Return what stands in the place of a call."""
    return given.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")


@pytest.fixture
def memory(tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    with synapse.init(str(folder / "shared-memory")) as memory:
        memory.register(synapse.Agent("boss", role="cto"))
        yield memory


@pytest.fixture
def client(memory):
    return Client(memory, os.path.dirname(memory.store.root))
