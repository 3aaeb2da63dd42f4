"""The installation for OpenClaw: a native plugin that the gateway loads from its folder. It has the
memory's tools too, for each agent those of the folder that it works in.

The gateway takes a change of its configuration without a restart. Called by `installer`.
"""

from __future__ import annotations

import json
import os
import shlex

from orchestrator.plugin.install import record
from orchestrator.plugin.install.assets import assets, programs
from orchestrator.plugin.install.change import Change, File, Json, Target
from orchestrator.plugin.install.files import jsonc
from synapse.errors import Conflict
from synapse.mcp import listing
from synapse.mcp.offer import offer
from synapse.system import discovery
from synapse.system.findings import Finding

JOB = "synapse-defrag"
NIGHTLY = "30 2 * * *"
MANIFEST = "openclaw.plugin.json"
PREFIX = "synapse__"  # before the names of tools
PATHS = ("plugins", "load", "paths")
OWN = f"{os.sep}openclaw"


def plan(target: Target) -> list[Change]:
    """Return what an installation is: the plugin's files, and its place in OpenClaw's
    configuration.
    """
    entry = {"enabled": True, "hooks": {"allowConversationAccess": True}}
    members = {"plugins": {"load": {"paths": [target.folder]}, "entries": {"synapse": entry}}}
    return [
        *programs(target),
        *map(_with_tools, assets(target)),
        File(os.path.join(target.folder, "tools.json"), json.dumps(_tools(), indent=2) + "\n"),
        Json(config(target), members, target.folder),
    ]


def _tools() -> list[dict[str, object]]:
    """Return the memory's tools as the plugin offers them."""
    keys = ("name", "description", "inputSchema")
    return [{key: tool[key] for key in keys} for tool in listing.tools(offer(given=True))]


def _with_tools(file: File) -> File:
    """Return a file of the plugin; its manifest names the tools, or the gateway takes none."""
    if os.path.basename(file.path) != MANIFEST:
        return file
    manifest = json.loads(file.text)
    manifest["contracts"]["tools"] = [f"{PREFIX}{tool['name']}" for tool in _tools()]
    return file._replace(text=json.dumps(manifest, indent=2) + "\n")


def refuse_other(target: Target) -> None:
    """Raise Conflict where the gateway, which is one for all projects, has another memory."""
    try:
        with open(config(target), encoding="utf-8") as file:
            node = jsonc.at(jsonc.parse(file.read()), PATHS)
    except (OSError, ValueError):
        return
    folders = [str(item.scalar) for _, item in node.items] if node is not None else []
    others = [folder for folder in folders if folder != target.folder and _is_ours(folder)]
    if not others or record.key_of(target) in record.read(target):
        return
    root = _root_of(os.path.join(others[0], "bin", "hook"))
    if root is None:
        raise Conflict("your installation with --user is for this project too")
    named = os.path.basename(root) == discovery.FOLDER
    project = os.path.dirname(root) if named else root
    raise Conflict(
        f"the gateway of OpenClaw has the memory of {project}, and it is one for all projects."
        f" `orchestrator uninstall openclaw --project {project}`, then `orchestrator install"
        " openclaw --user`: each agent then has the memory of the folder that it works in",
        path=config(target),
    )


def _is_ours(folder: str) -> bool:
    return folder.endswith(OWN) and os.path.exists(os.path.join(folder, "bin", "hook"))


def _root_of(program: str) -> str | None:
    """Return the workspace that an installed program is for; None where it is for all projects."""
    try:
        with open(program, encoding="utf-8") as file:
            options = shlex.split(file.read(), comments=True)
        return options[options.index("--root") + 1]
    except (OSError, ValueError, IndexError):
        return None


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
