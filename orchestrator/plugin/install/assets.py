"""The plugin's own files: templates of `assets/CLIENT/`, filled in, and the launchers in `bin/`.

Called by the modules of the clients. Returns changes; writes nothing.
"""

from __future__ import annotations

import json
import os
import shlex

from orchestrator.plugin.install.change import File, Target
from synapse.system.home import operator_home

_HEAD = """\
#!/bin/sh
# Made by `orchestrator install {client}`; taken away by `orchestrator uninstall {client}`.
"""
_HOOK = (
    _HEAD
    + """\
# A hook that cannot start must not break the client: it reads its input, and says nothing.
if [ -x {python} ] && [ -f {program} ]; then
    {home}exec {python} -I -S {program} {client} {root}"$@"
fi
cat >/dev/null 2>&1
exit 0
"""
)
_WATCH = (
    _HEAD
    + """\
if [ -x {python} ] && [ -f {program} ]; then
    {home}exec {python} -P {program} {client} {root}"$@"
fi
exit 0
"""
)
_MCP = (
    _HEAD
    + """\
{home}exec {python} -P {program} {client} {root}--agent {lead} "$@"
"""
)


def programs(target: Target, watch: bool = False) -> list[File]:
    """Return `bin/hook` and `bin/mcp`, and `bin/watch` where the client can wait for it."""
    templates = {"hook": _HOOK, "mcp": _MCP} | ({"watch": _WATCH} if watch else {})
    return [
        File(os.path.join(target.folder, "bin", name), _program(target, name, text), 0o755)
        for name, text in templates.items()
    ]


def _program(target: Target, name: str, template: str) -> str:
    return template.format(
        client=target.client,
        python=shlex.quote(target.python),
        program=shlex.quote(os.path.join(target.package, f"{name}.py")),
        root="" if target.root is None else f"--root {shlex.quote(target.root)} ",
        lead=shlex.quote(target.lead),
        home=own_folder(target),
    )


def own_folder(target: Target) -> str:
    """Return what names the person's own folder to a program where that is not the usual one: a
    client need not hand on variables.
    """
    is_moved = any(target.env.get(name) for name in ("SYNAPSE_HOME", "XDG_CONFIG_HOME"))
    return f"SYNAPSE_HOME={shlex.quote(operator_home())} " if is_moved else ""


def assets(target: Target) -> list[File]:
    """Return every file of `assets/CLIENT/` at the same place below the plugin's folder, filled
    in.
    """
    source = os.path.join(target.package, "assets", target.client.replace("-", "_"))
    files = []
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = fill_template(
                    target, file.read(), json_strings=name.endswith((".json", ".toml"))
                )
            goal = os.path.join(target.folder, os.path.relpath(path, source))
            files.append(File(goal, text, 0o755 if os.access(path, os.X_OK) else 0o644))
    return files


def fill_template(target: Target, text: str, json_strings: bool = False) -> str:
    """Return a template with its placeholders filled in, escaped for strings of JSON and TOML where
    that is asked for: @HOOK@ @MCP@ @WATCH@ @FOLDER@ @PYTHON@ @ROOT@ @PROJECT@ @LEAD@ @VERSION@."""
    from orchestrator.plugin.install.version import version

    values = {
        "HOOK": target.hook,
        "MCP": target.mcp,
        "WATCH": target.watch,
        "FOLDER": target.folder,
        "PYTHON": target.python,
        "ROOT": target.root or "",
        "PROJECT": target.project,
        "LEAD": target.lead,
        "VERSION": version(),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", json.dumps(value)[1:-1] if json_strings else value)
    return text
