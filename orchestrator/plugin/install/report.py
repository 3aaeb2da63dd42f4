"""The texts that `install` and `uninstall` print: the differences of files, and at most twenty
lines.

Pure, but for the current folder, by which paths are shortened. Called by the shell.
"""

from __future__ import annotations

import difflib
import os
import textwrap
from collections.abc import Iterator

from orchestrator.plugin.install import record
from orchestrator.plugin.install.files.write import Edit
from orchestrator.plugin.install.installer import Done
from orchestrator.plugin.install.place import AGENTS_MD

TITLES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "openclaw": "OpenClaw",
    "agents-md": "AGENTS.md",
}
WIDTH = 80
MOST_FILES = 4
MOST_LINES = 20


def differences(done: Done, full: bool = False) -> str:
    """Return the unified differences of the files that others write too; with `full` of all that is
    written or removed."""
    folder = done.place.target.folder + os.sep
    lines: list[str] = []
    for edit in done.edits if full else done.prepared.edits:
        is_shared = None not in (edit.old, edit.new) and not edit.path.startswith(folder)
        if edit.old != edit.new and (full or is_shared):
            lines += difference(edit)
    return "\n".join(lines)


def difference(edit: Edit) -> Iterator[str]:
    """Yield the unified difference of one file, in lines of at most 80 columns."""
    path = shorten_path(edit.path)
    old, new = (
        data.decode(errors="replace").splitlines() if data is not None else []
        for data in (edit.old, edit.new)
    )
    before, after = ("/dev/null" if data is None else path for data in (edit.old, edit.new))
    for line in difflib.unified_diff(old, new, before, after, lineterm="", n=2):
        yield from fold(line)


def fold(line: str) -> list[str]:
    """Return a line in pieces of at most 80 columns, cut between words where that can be; each
    piece but the first begins with the line's sign and a mark."""
    pieces, sign = [], line[:1]
    while len(line) > WIDTH and not line.startswith(("---", "+++")):
        cut = line.rfind(" ", 24, WIDTH + 1)
        cut = cut if cut > 0 else WIDTH
        pieces.append(line[:cut])
        line = f"{sign}… {line[cut:].lstrip()}"
    return [*pieces, line]


def format_installation(done: Done, dry_run: bool) -> str:
    """Return what an installation did, what comes of it, and how to see and undo it."""
    target, title = done.place.target, TITLES[done.place.target.client]
    if not done.changes:
        return "\n".join([f"{title} is set up already: nothing changes.", *_wrap(done.notes)])
    first = f"{title} gets the shared memory from its next session on."
    if target.client == AGENTS_MD:
        first = "Agents that read AGENTS.md are told of the shared memory from now on."
    lines = [*_wrap([f"Would be done: {first}" if dry_run else first], ""), ""]
    lines += [
        *_workspace(done),
        *_agents(done),
        *_files(done),
        *_commands(done),
        *_wrap(done.notes),
        "",
    ]
    if target.client != AGENTS_MD:
        lines += [*_wrap([NEXT], ""), ""]
    user = " --user" if target.user else ""
    check = f"orchestrator doctor {target.client}{user}"
    see = (
        [
            "see      orchestrator ps --watch; synapse log",
            'speak    orchestrator say "TEXT"   (to all sessions at once)',
            f"check    {check}",
        ]
        if target.client != AGENTS_MD
        else []
    )
    lines += [*see, f"undo     orchestrator uninstall {target.client}{user}"]
    while len(lines) > MOST_LINES and "" in lines:
        lines.remove("")
    return "\n".join(lines)


NEXT = (
    "The next session starts with what its agent should know, hears what others find"
    " while it works, and leaves what it finished and what blocks it."
)


def format_removal(done: Done, dry_run: bool) -> str:
    """Return what was taken out, and what stays."""
    target, title = done.place.target, TITLES[done.place.target.client]
    if not done.changes:
        location = "for this user" if target.user else f"in {target.project}"
        return f"{title} is not set up {location}: there is nothing to undo."
    first = f"{title} is as it was before the installation."
    if target.client == AGENTS_MD:
        first = "The block is out of AGENTS.md."
    lines = [
        f"Would be done: {first}" if dry_run else first,
        "",
        *_files(done),
        *_commands(done),
        *_wrap(done.notes),
    ]
    if target.root is not None and os.path.isdir(target.root):
        lines += [
            "",
            *_wrap(
                [f"The workspace {shorten_path(target.root)} stays, with all that is in it."], ""
            ),
        ]
    return "\n".join(lines)


def _workspace(done: Done) -> list[str]:
    root = done.place.target.root
    if root is None:
        return ["memory   that of the folder in which a session runs; none, and it does nothing"]
    return [_cut(f"memory   {shorten_path(root)}{' (new)' if done.place.new else ''}")]


def _agents(done: Done) -> list[str]:
    agents = ", ".join(f"{agent.id} ({agent.role})" for agent in done.place.agents)
    project = next((project for agent in done.place.agents for project in agent.projects), "")
    return [_cut(f"agents   {agents}, of the project {project}")] if agents else []


def _files(done: Done) -> list[str]:
    """Return a line for each file, and one for the files of a folder that is new."""
    groups: dict[tuple[str, str], list[Edit]] = {}
    ours = done.place.target.folder + os.sep
    for edit in sorted(done.edits, key=lambda edit: edit.path.startswith(ours)):
        groups.setdefault((f"{edit.verb:<8}", _group(done, edit)), []).append(edit)
    lines = []
    for (verb, folder), edits in groups.items():
        one = f"{verb} {shorten_path(edits[0].path)}"
        lines.append(
            _cut(
                one
                if len(edits) == 1
                else f"{verb} {shorten_path(folder)}{os.sep} ({len(edits)} files)"
            )
        )
    if len(lines) > MOST_FILES:
        lines = [*lines[: MOST_FILES - 1], f"         … and {len(lines) - MOST_FILES + 1} more"]
    return lines


def _group(done: Done, edit: Edit) -> str:
    """Return the folder of ours that a file lies in, the outermost; of another file the file."""
    target, prepared = done.place.target, done.prepared
    if edit.path.startswith(target.folder + os.sep):
        return target.folder
    installs = [*prepared.installs.values(), *record.read(target).values()]
    written = next(
        (install.files[edit.path] for install in installs if edit.path in install.files), None
    )
    folders = edit.folders or (written.folders if written is not None else ())
    return next(iter(folders), edit.path) if None in (edit.old, edit.new) else edit.path


def _commands(done: Done) -> list[str]:
    prepared = done.prepared
    commands = [ran.undo for ran in prepared.undo] + [ran.do for ran in prepared.do]
    return [_cut(f"ran      {' '.join(command)}") for command in commands if command]


def _wrap(texts: list[str], head: str = "note     ") -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    return lines


def _cut(line: str) -> str:
    """Return a line of at most 80 columns: a path that is too long loses its middle."""
    return line if len(line) <= WIDTH else f"{line[:28]}…{line[-(WIDTH - 29) :]}"


def shorten_path(path: str) -> str:
    """Return a path as people would write it: from the current folder, else from their home."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    home = os.path.expanduser("~")
    if not near.startswith(".."):
        return near
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
