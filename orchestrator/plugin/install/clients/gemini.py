"""The installation for Gemini CLI: an extension in its user's folder, for one project, or with
--user for all.

Each project has an extension of its own, and a rule that enables it there alone. Nothing is written
into the project itself, where others would get it with the next commit. Called by `installer`.
"""

from __future__ import annotations

import json
import os
import shlex
from hashlib import sha256

from orchestrator.plugin import facts
from orchestrator.plugin.install.assets import assets, programs
from orchestrator.plugin.install.change import Change, File, Json, Target
from orchestrator.plugin.sessions.settings import component
from synapse.system.findings import Finding

CLIENT = "gemini"
HOOK_MILLISECONDS = 10_000
EVERYWHERE = "!/*"  # a rule that switches an extension off in every folder


def plan(target: Target) -> list[Change]:
    """Return what an installation is: the extension, and where it is at work."""
    name = name_of(target)
    extension = os.path.join(extensions(target), name)
    changes: list[Change] = [
        *programs(target),
        File(os.path.join(extension, "hooks", "hooks.json"), hooks(target), within=extension),
    ]
    for file in assets(target):
        text = file.text.replace("@NAME@", name)
        changes.append(
            File(
                os.path.join(extension, os.path.relpath(file.path, target.folder)),
                text,
                file.mode,
                extension,
            )
        )
    if not target.user:
        rules = {name: {"overrides": [EVERYWHERE, os.path.join(target.project, "*")]}}
        changes.append(
            Json(
                os.path.join(extensions(target), "extension-enablement.json"),
                rules,
                name,
                shared=True,
            )
        )
    return changes


def notes(target: Target) -> list[str]:
    """Return what people should know after an installation."""
    return [
        "Gemini asks before the first call of a memory tool: answer `always`.",
        "A terminal that waits for you cannot be woken; it is told at its next turn.",
    ]


def examine(target: Target) -> list[Finding]:
    """Return whether the extension is where Gemini looks for it, and its hooks are not switched
    off.
    """
    extension = os.path.join(extensions(target), name_of(target))
    exists = os.path.isdir(extension)
    mend = "" if exists else "orchestrator install gemini"
    findings = [Finding("extension", "ok" if exists else "fail", extension, mend)]
    for path in (
        os.path.join(home(target), "settings.json"),
        os.path.join(target.project, ".gemini/settings.json"),
    ):
        if reason := _switched_off(path):
            findings.append(
                Finding("hooks", "fail", f"{path}: {reason}", "gemini hooks enable synapse")
            )
    return findings


def hooks(target: Target) -> str:
    """Return the extension's hooks.json: an entry for each event that the facts name. A hook that
    ends with another code than 0 has Gemini refuse the turn, so one that is gone is passed over.
    """
    program = shlex.quote(target.hook)
    command = f"test ! -x {program} || exec {program}"
    entries = {}
    for event, event_facts in facts.load(CLIENT).events.items():
        hook = {"type": "command", "name": "synapse", "command": command}
        matcher = {"matcher": event_facts.matcher} if event_facts.matcher else {}
        entries[event] = [{**matcher, "hooks": [{**hook, "timeout": HOOK_MILLISECONDS}]}]
    return json.dumps({"hooks": entries}, indent=2) + "\n"


def name_of(target: Target) -> str:
    """Return the extension's name: each project has one of its own."""
    if target.user:
        return "synapse"
    digest = sha256(os.fsencode(target.project)).hexdigest()[:8]
    return "-".join(
        filter(
            None, ("synapse", component(os.path.basename(target.project)).replace("_", "-"), digest)
        )
    )


def home(target: Target) -> str:
    """Return the folder of the user's Gemini CLI."""
    return os.path.join(target.env.get("GEMINI_CLI_HOME") or target.home, ".gemini")


def extensions(target: Target) -> str:
    """Return the folder of the user's extensions."""
    return os.path.join(home(target), "extensions")


def _switched_off(path: str) -> str:
    """Return how a settings file switches our hooks off; nothing where it does not."""
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
        config = settings.get("hooksConfig") or {}
    except (OSError, ValueError, AttributeError):
        return ""
    if not isinstance(config, dict):
        return ""
    if config.get("enabled") is False:
        return "hooksConfig.enabled is false"
    return "hooksConfig.disabled has synapse" if "synapse" in (config.get("disabled") or ()) else ""
