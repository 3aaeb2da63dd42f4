"""The installation for OpenClaw: a native plugin that the gateway loads from its folder, and the
memory tools.

The gateway takes a change of its configuration without a restart. Called by `installer`.
"""

from __future__ import annotations

import os

from orchestrator.plugin.install import record
from orchestrator.plugin.install.assets import assets, programs
from orchestrator.plugin.install.change import Change, Json, Target
from orchestrator.plugin.install.files import jsonc
from synapse.errors import Conflict
from synapse.system import discovery
from synapse.system.findings import Finding

JOB = "synapse-defrag"
NIGHTLY = "30 2 * * *"
COMMAND = ("mcp", "servers", "synapse", "command")
OWN = os.path.join(os.sep, "openclaw", "bin", "mcp")


def plan(target: Target) -> list[Change]:
    """Return what an installation is: the plugin's files, and its place in OpenClaw's
    configuration.
    """
    entry = {"enabled": True, "hooks": {"allowConversationAccess": True}}
    members = {
        "plugins": {"load": {"paths": [target.folder]}, "entries": {"synapse": entry}},
        "mcp": {"servers": {"synapse": {"command": target.mcp}}},
    }
    return [*programs(target), *assets(target), Json(config(target), members, target.folder)]


def refuse_other(target: Target) -> None:
    """Raise Conflict where the gateway, which is one for all projects, has another memory."""
    try:
        with open(config(target), encoding="utf-8") as file:
            node = jsonc.at(jsonc.parse(file.read()), COMMAND)
    except (OSError, ValueError):
        return
    program = str(node.scalar) if node is not None else ""
    is_own = program == target.mcp or record.key_of(target) in record.read(target)
    if is_own or not program.endswith(OWN) or not os.path.exists(program):
        return
    folder = program.removesuffix(OWN)
    root = folder.removesuffix(os.sep + record.PLUGINS)
    if root == folder:
        raise Conflict("your installation with --user is for this project too")
    named = os.path.basename(root) == discovery.FOLDER
    project = os.path.dirname(root) if named else root
    raise Conflict(
        f"the gateway of OpenClaw has the memory of {project}, and it is one for all projects."
        f" `orchestrator uninstall openclaw --project {project}`, then `orchestrator install"
        " openclaw --user`: each agent then has the memory of the folder that it works in",
        path=config(target),
    )


def notes(target: Target) -> list[str]:
    """Return what people should know after an installation."""
    root = f" --root {target.root}" if target.root else ""
    return [
        "A gateway that runs takes it up by itself; else it is there at its next start.",
        "Nightly tidying without `orchestrator up`, as a job of the gateway's:",
        f"openclaw cron add '{NIGHTLY}' --name {JOB} --command 'synapse{root} defrag'",
    ]


def examine(target: Target) -> list[Finding]:
    """Return whether wakes are waiting for a gateway that is not up."""
    folder = os.path.join(target.folder, "wakes")
    waiting = len(os.listdir(folder)) if os.path.isdir(folder) else 0
    if not waiting:
        return [Finding("wakes", "ok", "none waits for a gateway")]
    return [Finding("wakes", "warn", f"{waiting} wait for a gateway", "openclaw gateway start")]


def config(target: Target) -> str:
    """Return OpenClaw's configuration file."""
    path = target.env.get("OPENCLAW_CONFIG_PATH")
    return path or os.path.join(target.config("OPENCLAW_STATE_DIR", ".openclaw"), "openclaw.json")
