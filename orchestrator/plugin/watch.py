"""The program that waits for what wakes an idle session: `PYTHON -P watch.py CLIENT [--root DIR]
monitor|rewake`.

It prints a line that names the new entries. The hook of the turn that follows gives their text, as
it gives all news, so that an agent is told of each entry once. `monitor`: a line on standard
output for each wake. `rewake`: a line on standard error, and the exit code with which the client
wakes its model. It reads the memory and writes nothing into it, calls no model, and ends when its
client ends. Started by the client, through the installed `bin/watch`, by the path of this file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from orchestrator.plugin.wakes.client_process import ClientEnd

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODES = ("monitor", "rewake")


def main(words: Sequence[str]) -> int:
    """Wait, and return the exit code. A failure is a line in the log, and wakes nobody."""
    began = time.monotonic()
    if PACKAGES not in sys.path:
        sys.path.insert(0, PACKAGES)
    from orchestrator.plugin import hook
    from orchestrator.plugin.wakes.client_process import ClientEnd

    client, mode = (words[0], words[-1]) if words else ("", "")
    # A run of our own supervisor is woken by that. In another mode a client may wait for this.
    if mode not in MODES or os.environ.get("SYNAPSE_RUN"):
        return 0
    root = None
    try:
        rules = _rules(client)
        declared = os.environ.get(rules.get("pid", ""), "")
        is_declared = declared.isdigit() and int(declared) > 1
        pid = int(declared) if is_declared else hook.client_process()
        end = ClientEnd(pid)
        if mode == "rewake" and not _may_rewake(rules, pid, end):
            return 0
        folder = os.environ.get(rules.get("folder", "")) or os.getcwd()
        root = hook.find_workspace(list(words), {"cwd": folder})
        return 0 if root is None else _wait(root, client, pid, end, mode)
    except BaseException as error:
        hook.log_error(root, client, error, began)
        return 0


def _wait(root: str, client: str, pid: int, end: ClientEnd, mode: str) -> int:
    import synapse
    from orchestrator.plugin.wakes.watch import Watch

    with synapse.open(root) as memory:
        if memory.store.readonly:
            return 0
        return Watch(memory, client, pid, end, mode).wait()


def _rules(client: str) -> Mapping[str, Any]:
    """Return what the client's facts say of wakes: names of variables, and of options."""
    from orchestrator.plugin import facts

    rules = facts.load(client).raw.get("wake")
    return rules if isinstance(rules, dict) else {}


def _may_rewake(rules: Mapping[str, Any], pid: int, end: ClientEnd) -> bool:
    """Tell whether a hook may wait in the background.

    It may not in a session of one question, for the client would wait for it; nor where a monitor
    waits; nor where a hang-up of whoever talks to the client could not be noticed, for a client
    that waits for its hooks does not notice it either.
    """
    from orchestrator.plugin.wakes.client_process import command_line, has_option

    interactive = rules.get("interactive", {})
    if any(os.environ.get(name) == value for name, value in interactive.items()):
        return False
    command = command_line(pid) or []
    return has_option(command, rules.get("stream", ())) and end.hear_hangup()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
