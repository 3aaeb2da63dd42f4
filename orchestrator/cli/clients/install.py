"""`orchestrator install | uninstall`: give a coding client the shared memory, or take it away."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.show import clean

if TYPE_CHECKING:
    from orchestrator.plugin.install.installer import Done
    from orchestrator.plugin.install.place import Place

NAMES = ("claude-code", "codex", "gemini", "openclaw", "agents-md")


def install_options(parser: Options) -> None:
    add = parser.add_argument
    add("client", choices=NAMES, help="which client")
    add("--project", metavar="DIR", help="the project (default: the one around the current folder)")
    add("--user", action="store_true", help="in all of your projects that have a workspace")
    add("--dry-run", action="store_true", help="show what would change, and write nothing")


def install(call: Call) -> None:
    from orchestrator.plugin.install import installer, report

    location = _place(call)
    done = installer.install(location, call.args.dry_run)
    _show(call, done, report.format_installation(done, call.args.dry_run))


uninstall_options = install_options


def uninstall(call: Call) -> None:
    from orchestrator.plugin.install import installer, report

    done = installer.uninstall(_place(call), call.args.dry_run)
    _show(call, done, report.format_removal(done, call.args.dry_run))


def _place(call: Call) -> Place:
    from orchestrator.plugin.install.place import place

    args = call.args
    if args.user and args.project:
        raise Usage("--user is for all projects, --project for one: give one of the two")
    if args.user and args.client == "agents-md":
        raise Usage("AGENTS.md is a project's: leave --user out")
    return place(args.client, args.project, args.root, args.user, os.environ)


def _show(call: Call, done: Done, text: str) -> None:
    from orchestrator.plugin.install import report

    difference = report.differences(done, full=call.args.dry_run)
    call.show(
        lambda: _data(call, done), lambda: clean(f"{difference}\n\n{text}" if difference else text)
    )


def _data(call: Call, done: Done) -> dict[str, Any]:
    target = done.place.target
    return {
        "client": target.client,
        "project": target.project,
        "root": target.root,
        "dry_run": call.args.dry_run,
        "changes": done.changes,
        "new_workspace": done.place.new,
        "agents": [agent.id for agent in done.place.agents],
        "files": {edit.path: edit.verb for edit in done.edits},
        "commands": [ran.undo for ran in done.prepared.undo] + [ran.do for ran in done.prepared.do],
        "notes": done.notes,
    }
