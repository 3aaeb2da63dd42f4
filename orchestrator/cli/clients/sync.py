"""`orchestrator sync`: clients' own files are read as proposals, and get what the team decided."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import clean
from synapse.errors import NotFound

if TYPE_CHECKING:
    from orchestrator.plugin.install.apply import Prepared
    from orchestrator.plugin.install.change import Target
    from orchestrator.plugin.sync.sync import Done

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", ".github/copilot-instructions.md")


def sync_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help=f"these, besides those that have the block: {', '.join(NAMES)}",
    )
    add("--project", metavar="DIR", help="the project (default: the one around the current folder)")
    add("--undo", action="store_true", help="take the block out of the files again")
    add("--dry-run", action="store_true", help="show what would change, and write nothing")


def sync(call: Call) -> None:
    from orchestrator.plugin.sync import sync as syncing
    from synapse import core

    args, target = call.args, _target(call)
    if args.undo:
        prepared = syncing.remove(target, args.files, args.dry_run)
        call.show(lambda: _files(prepared), lambda: _show(prepared, _undone(prepared)))
        return
    with core.open(target.root or "") as memory:
        done = syncing.sync(memory.store, target, args.files, args.dry_run)
    call.show(lambda: _data(done), lambda: _show(done.prepared, _format(done, args.dry_run)))


def _target(call: Call) -> Target:
    from orchestrator.plugin.install.place import SYNC, place

    location = place(SYNC, call.args.project, call.args.root, False, os.environ)
    if location.new:
        raise NotFound("there is no workspace here: `orchestrator install agents-md` makes one")
    return location.target


def _show(prepared: Prepared, lines: list[str]) -> str:
    from orchestrator.plugin.install.report import difference

    changed = [line for edit in prepared.edits for line in difference(edit)]
    return clean("\n".join([*changed, "", *lines] if changed else lines))


def _format(done: Done, dry_run: bool) -> list[str]:
    """Return what was done, in lines."""
    written = [edit for edit in done.prepared.edits if edit.changes]
    count = len(done.planned.new) if dry_run else len(done.proposed.entries)
    lines = ["Would be done:"] if dry_run else []
    lines += [f"{edit.verb:<8} {_shorten(edit.path)}" for edit in written]
    lines.append(f"shown    {done.visible} decided and weighty, that every agent may see")
    if count:
        lines.append(f"new      {count} to review: `synapse approve` lists them")
    if done.planned.withdrawn:
        lines.append(f"gone     {len(done.planned.withdrawn)} that waited for review")
    lines += [f"note     {note}" for note in done.notes]
    return lines


def _undone(prepared: Prepared) -> list[str]:
    edits = [edit for edit in prepared.edits if edit.changes]
    lines = [f"{edit.verb:<8} {_shorten(edit.path)}" for edit in edits]
    return [*lines, *prepared.notes] or ["no file has the block"]


def _shorten(path: str) -> str:
    from orchestrator.plugin.install.report import shorten_path

    return shorten_path(path)


def _files(prepared: Prepared) -> dict[str, Any]:
    edits = [edit for edit in prepared.edits if edit.changes]
    return {"files": {edit.path: edit.verb for edit in edits}}


def _data(done: Done) -> dict[str, Any]:
    return {
        **_files(done.prepared),
        "shown": done.visible,
        "proposed": [entry.id for entry in done.proposed.entries],
        "withdrawn": [entry.id for entry in done.planned.withdrawn],
        "notes": done.notes,
    }
