"""The answer to one event as JSON, in one workspace. Called by the hook's own process, or by the
daemon.

The text for the second hook of a start lies in a file beside the session's until it is taken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from orchestrator.plugin import facts
from orchestrator.plugin.facts.event import Event, Reply, read_event, reply_json
from orchestrator.plugin.hooks import respond
from orchestrator.plugin.sessions import state
from synapse.core import Memory
from synapse.errors import StoreBusy
from synapse.hurry import peek
from synapse.privacy.secrets import mask_json
from synapse.system import plain_files

MORE = ".more"
STARTS, LEAVES = ("start", "agent-start"), ("agent-stop", "stop", "end")


def answer(
    memory: Memory,
    client: str,
    payload: Mapping[str, Any],
    pid: int | None,
    identity: str = "",
    run: str = "",
    late: bool = False,
) -> str:
    """Return what the client's hook prints for an event. A `late` one is printed nowhere: nobody is
    told of news by it. With `run`, the client works for that run of a supervisor.
    """
    client_facts = facts.load(client)
    event = read_event(client_facts, payload, pid, identity)
    if event is None:
        return ""
    event = event._replace(going_on=event.going_on or late, run=run)
    starts = client_facts.parts > 1 and event.name in STARTS and not run
    second_text = ""
    try:
        reply, second_text = respond.respond(memory, client_facts, event)
        return reply_json(client_facts, event, reply)
    except StoreBusy:
        starts = False  # who answers instead leaves the rest
        raise
    finally:
        if starts and memory.store.root and not memory.store.readonly:
            _write_second(
                more_path(memory.store.root, event),
                reply_json(client_facts, event, Reply(context=second_text)),
            )


def answer_unwritten(
    root: str,
    client: str,
    payload: Mapping[str, Any],
    pid: int | None,
    identity: str,
    run: str = "",
) -> str | None:
    """Return what the hook prints while somebody holds the log or its index: the view at a start,
    as the log can be read, and nothing in between. None where a conversation leaves something,
    which has to be written however long that takes.
    """
    event = read_event(facts.load(client), payload, pid, identity)
    if run:
        return ""
    if event is None or event.name in LEAVES:
        return None if event else ""
    with peek(root) as memory:
        text = answer(memory, client, payload, pid, identity)
    if event.name in STARTS:
        _write_second(more_path(root, event), "")  # nobody is to wait for it
    return text


def more_path(root: str, event: Event) -> str:
    """Return the file in which the second hook of a start finds what it prints."""
    return f"{state.path_of(root, event.client, event.session)}.{_key(event)}{MORE}"


def _key(event: Event) -> str:
    return "".join(char for char in event.agent or "main" if char.isalnum() or char in "-_")[:80]


def _write_second(path: str, text: str) -> None:
    """Write the file whole, so that whoever waits for it reads all of it."""
    state.make_folder(os.path.dirname(path))
    plain_files.replace_file(path, mask_json(text).encode())
