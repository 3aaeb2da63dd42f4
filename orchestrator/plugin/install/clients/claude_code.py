"""The installation for Claude Code: the plugin's folder, which is a marketplace of its own, and the
two settings that turn it on.

Files only, so that it is undone exactly: the client loads the plugin in place, and nothing is
copied. Nothing is written here; `plan` returns the changes.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from orchestrator.plugin.install.assets import assets, programs
from orchestrator.plugin.install.change import Change, Command, File, Json, Target
from synapse.system.findings import Finding

PLUGIN = "synapse"
_TOOL = """\
#!/bin/sh
# The command line of the memory, for the shells of a session.
{root}exec {python} -P -m {module} "$@"
"""


def plan(target: Target) -> list[Change]:
    """Return what is written for Claude Code, and where it is turned on."""
    name = marketplace(target)
    source = {"source": {"source": "directory", "path": target.folder}}
    members = {
        "extraKnownMarketplaces": {name: source},
        "enabledPlugins": {f"{PLUGIN}@{name}": True},
    }
    # The client keeps a list of the marketplaces that it has seen; only its own command tidies
    # that.
    forget = Command(
        undo=("claude", "plugin", "marketplace", "remove", name), cwd=target.project, late=True
    )
    return [
        *programs(target, watch=True),
        *assets(target),
        File(
            os.path.join(target.folder, ".claude-plugin", "marketplace.json"),
            _marketplace_json(name),
        ),
        *(_tool(target, module) for module in ("synapse", "orchestrator")),
        Json(settings_path(target), members, mark=name),
        forget,
    ]


def marketplace(target: Target) -> str:
    """Return the name of the plugin's marketplace. The client keeps one folder for each name, for
    all of a user's projects: the name is the folder's own.
    """
    return f"{PLUGIN}-{sha256(target.folder.encode()).hexdigest()[:8]}"


def settings_path(target: Target) -> str:
    """Return the settings file: the user's, or the project's that is not shared with others."""
    if target.user:
        return os.path.join(target.config("CLAUDE_CONFIG_DIR", ".claude"), "settings.json")
    return os.path.join(target.project, ".claude", "settings.local.json")


def notes(target: Target) -> list[str]:
    """Return what the user has to know after the installation."""
    status_note = "In the next session, /synapse:status shows who is at work."
    if target.user or is_trusted(target):
        return [status_note]
    return ["Claude Code loads it once you trust this folder: run `claude` here.", status_note]


def examine(target: Target) -> list[Finding]:
    """Return what hinders the plugin that only Claude Code's own files tell of."""
    findings = []
    if not target.user:
        mend = f"run `claude` in {target.project} once, and say that you trust the folder"
        findings.append(
            Finding("claude-code folder trusted", "ok", target.project)
            if is_trusted(target)
            else Finding(
                "claude-code folder trusted",
                "fail",
                "plugins are loaded in trusted folders only",
                mend,
            )
        )
    for path, settings in _settings(target):
        if settings.get("disableAllHooks") is True:
            mend = f"take disableAllHooks out of {path}"
            findings.append(
                Finding("claude-code hooks", "fail", "all hooks are switched off", mend)
            )
        if _at(settings, "enabledPlugins").get(f"{PLUGIN}@{marketplace(target)}") is False:
            mend = f"in a session, say /plugin and enable {PLUGIN}; or change it in {path}"
            findings.append(
                Finding("claude-code plugin", "fail", "the plugin is switched off", mend)
            )
    return findings


def is_trusted(target: Target) -> bool:
    """Tell whether the user has told Claude Code to trust the project's folder, or one above it."""
    config = target.env.get("CLAUDE_CONFIG_DIR") or target.home
    projects = _at(_read(os.path.join(config, ".claude.json")), "projects")
    folder = os.path.realpath(target.project)
    while True:
        if _at(projects, folder).get("hasTrustDialogAccepted") is True:
            return True
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent


def _settings(target: Target) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the settings files that count in the project."""
    user = os.path.join(target.config("CLAUDE_CONFIG_DIR", ".claude"), "settings.json")
    local = os.path.join(target.project, ".claude")
    for path in (
        user,
        os.path.join(local, "settings.json"),
        os.path.join(local, "settings.local.json"),
    ):
        yield path, _read(path)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _at(values: dict[str, Any], key: str) -> dict[str, Any]:
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def _marketplace_json(name: str) -> str:
    plugin = {
        "name": PLUGIN,
        "source": "./",
        "description": "Shared memory for the agents of a repository",
    }
    values = {
        "name": name,
        "description": "Made by `orchestrator install claude-code`",
        "owner": {"name": "Synapse contributors"},
        "plugins": [plugin],
    }
    return json.dumps(values, indent=2) + "\n"


def _tool(target: Target, module: str) -> File:
    root = (
        ""
        if target.root is None
        else f"export SYNAPSE_ROOT=${{SYNAPSE_ROOT:-{shlex.quote(target.root)}}}\n"
    )
    text = _TOOL.format(root=root, python=shlex.quote(target.python), module=module)
    return File(os.path.join(target.folder, "bin", module), text, 0o755)
