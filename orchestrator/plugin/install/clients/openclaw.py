"""The installation for OpenClaw: a native plugin that the gateway loads from its folder, and the
memory tools.

The gateway takes a change of its configuration without a restart. Called by `installer`.
"""

from __future__ import annotations

import os

from orchestrator.plugin.install.assets import assets, programs
from orchestrator.plugin.install.change import Change, Finding, Json, Target

JOB = "synapse-defrag"
NIGHTLY = "30 2 * * *"


def plan(target: Target) -> list[Change]:
    """Return what an installation is: the plugin's files, and its place in OpenClaw's
    configuration.
    """
    entry = {"enabled": True, "hooks": {"allowConversationAccess": True}}
    members = {
        "plugins": {"load": {"paths": [target.folder]}, "entries": {"synapse": entry}},
        "mcp": {"servers": {"synapse": {"command": target.mcp}}},
    }
    return [
        *programs(target),
        *assets(target),
        Json(config(target), members, target.folder),
    ]


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
    return [
        Finding(
            "wakes", "warn", f"{waiting} wait for a gateway", "openclaw gateway start"
        )
    ]


def config(target: Target) -> str:
    """Return OpenClaw's configuration file."""
    path = target.env.get("OPENCLAW_CONFIG_PATH")
    return path or os.path.join(
        target.config("OPENCLAW_STATE_DIR", ".openclaw"), "openclaw.json"
    )
