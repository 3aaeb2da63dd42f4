"""The whole of `orchestrator sync`: what clients' files say becomes proposals, and what the team
decided goes into a block of each of them.

That a person ran it stands in the record that installations keep, which nobody else can write: the
nightly job goes by it. Called by the shell and the daemon; prints nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from orchestrator.nightly.schedule import Job, Plan
from orchestrator.plugin.install import apply, record
from orchestrator.plugin.install.apply import Prepared
from orchestrator.plugin.install.change import Block, Target
from orchestrator.plugin.install.clients.agents_md import file_of
from orchestrator.plugin.install.files import fence
from orchestrator.plugin.install.place import SYNC, declared_in, target_in
from orchestrator.plugin.sync import proposals, sources
from orchestrator.plugin.sync.projection import (
    format_projection,
    is_lasting,
    is_public,
    without_echo,
)
from orchestrator.plugin.sync.proposals import Accepted, Proposed
from orchestrator.plugin.sync.sources import AGENTS_MD, BESIDE, FILES, Note, Sources
from synapse import core
from synapse.agent_memory import AgentMemory
from synapse.errors import Conflict, NotFound, SynapseError
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.store import Store
from synapse.system import discovery
from synapse.trust.persons import persons_alone


class Done(NamedTuple):
    """What a sync did, or would do. `visible` is how many entries all may see, `notes` what people
    should know."""

    prepared: Prepared
    planned: proposals.Plan
    proposed: Proposed
    visible: int
    notes: list[str]


def sync(store: Store, target: Target, names: Sequence[str] = (), dry_run: bool = False) -> Done:
    """Read a project's files and write the block of each, of those that are named besides those
    that have one. All files are written, or none."""
    _demand_allowed(names)
    ours, accepted = _ours(target), proposals.accepted_in(store)
    public = _public(store, accepted)
    own = {path: (ours.get(path, ""), _text(path, public, (), accepted)) for path in FILES}
    read = sources.read_sources(_place(target), own)
    planned = proposals.plan(store, read.notes, accepted, read.problems)
    notes = [f"{path}: {why}" for path, why in read.problems.items()]
    paths = _paths(target, names, list(ours), read, notes)
    changes = [_block(target, path, _text(path, public, read.notes, accepted)) for path in paths]
    prepared = apply.prepare(target, changes)
    proposed = Proposed([], [])
    if not dry_run:
        proposed = proposals.carry_out(store, planned, _project(target))
        _demand_kept(proposed)
        if prepared.changes or paths != list(ours):
            apply.carry_out(prepared)
    notes += _refusals(proposed)
    notes += [_gone(item) for item in planned.stale]
    return Done(prepared, planned, proposed, len(public), notes)


def remove(target: Target, names: Sequence[str] = (), dry_run: bool = False) -> Prepared:
    """Take the blocks out of the files that are named, of all where none is."""
    _demand_allowed(names)
    install = record.read(target).get(record.key_of(target))
    recorded = [] if install is None or not names else list(install.files.items())
    changes = [
        _block(target, name, str(piece["text"]))
        for path, written in recorded
        if (name := os.path.relpath(path, target.project)) not in names
        for piece in written.pieces
        if piece["kind"] == "block"
    ]
    if changes:
        prepared = apply.prepare(target, changes)
    else:
        marked = [
            _block(target, name, "")
            for name in names or FILES
            if os.path.realpath(path := os.path.join(target.project, name)) == path
        ]
        prepared = apply.prepare_removal(target, marked)
    if not dry_run:
        apply.carry_out(prepared)
    return prepared


def nightly(root: str, plan: Plan) -> list[Job]:
    """Return the job by which the daemon goes on with what a person began; none where there are no
    nights."""

    async def act(on: date) -> bool:
        await asyncio.to_thread(refresh, root)
        return True

    return [] if plan.defrag is None else [Job(SYNC, plan.defrag, act)]


def refresh(root: str) -> list[str]:
    """Sync all projects of a workspace in which a block of ours still stands; return the files that
    were written. What cannot be done is left for the next time."""
    written: list[str] = []
    target = target_in(root, SYNC)
    for project in record.read(target):
        project_target = target._replace(project=project)
        try:
            if not _ours(project_target):
                continue
            with core.open(root) as memory:
                done = sync(memory.store, project_target)
            written += [edit.path for edit in done.prepared.edits if edit.changes]
        except (SynapseError, OSError):
            continue
    return written


def _demand_allowed(names: Sequence[str]) -> None:
    """Refuse an agent, and the name of a file that is not one of clients'."""
    persons_alone("write into the files of clients")
    if other := sorted({*names} - {*FILES}):
        raise NotFound(
            f"{other[0]} is no file of a client: name one of {', '.join(FILES)}", id=other[0]
        )


# -- the files -------------------------------------------------------------------------------------


def _place(target: Target) -> sources.Place:
    """Return where the sources of a project lie."""
    tree = discovery.work_tree(target.project)
    top = target.project if tree is None else tree.main
    config = target.config("CLAUDE_CONFIG_DIR", ".claude")
    return sources.Place(target.project, claude_memory(top, config))


def claude_memory(top: str, config: str) -> str:
    """Return the folder in which Claude Code keeps what it remembers of a project, which it names
    by the main work tree."""
    name = re.sub(r"[^a-zA-Z0-9]", "-", top)
    return os.path.join(config, "projects", name, "memory")


def _project(target: Target) -> str:
    root = target.root or ""
    return declared_in(root).project_of(root)


def _ours(target: Target) -> dict[str, str]:
    """Return what the blocks say that were written and still stand, by the paths of their files."""
    install = record.read(target).get(record.key_of(target))
    texts = {}
    for path, written in {} if install is None else install.files.items():
        pieces = [piece for piece in written.pieces if piece["kind"] == "block"]
        name = os.path.relpath(path, target.project)
        try:
            raw = sources.read_file(target.project, name) or b""
        except SynapseError:
            continue
        if pieces and b"<!-- synapse-sync:begin" in raw:
            texts[name] = str(pieces[0]["text"])
    return texts


def _paths(
    target: Target, names: Sequence[str], ours: Sequence[str], read: Sources, notes: list[str]
) -> list[str]:
    """Return the files that get a block: those that are named and those that have one; the first
    time AGENTS.md, and what else is there and whose client does not read that."""
    for name in names:
        if name in read.problems:
            raise Conflict(f"{name}: {read.problems[name]}", path=name)
    if names or ours:
        return list(dict.fromkeys([*ours, *names]))
    paths: list[str] = []
    agents_md = os.path.relpath(file_of(target.project), target.project)
    for name in FILES:
        path = os.path.join(target.project, name)
        if name in read.problems or not (name == AGENTS_MD or os.path.exists(path)):
            continue
        if name != AGENTS_MD and _imports(path) and AGENTS_MD in paths:
            notes.append(f"{name} imports {AGENTS_MD}, and has the block from there")
            continue
        if name in BESIDE and {AGENTS_MD, agents_md} & {*paths}:
            notes.append(f"{name}: its client reads {AGENTS_MD} too, and has the block from there")
            continue
        paths.append(name)
    return paths


def _imports(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.search(rf"(?<!\S)@(\./)?{AGENTS_MD}\b", file.read()) is not None


def _public(store: Store, accepted: Sequence[Accepted]) -> list[Entry]:
    """Return what may stand in a file that anybody reads."""
    agents = list(store.agents.all().values())
    from_files = {item.entry.id for item in accepted}
    page = AgentMemory(store, OPERATOR).read()
    return [
        entry
        for entry in page
        if (entry.id in from_files or is_lasting(entry)) and is_public(entry, agents)
    ]


def _text(
    path: str, public: Sequence[Entry], notes: Sequence[Note], accepted: Sequence[Accepted]
) -> str:
    """Return what the block of one file says, without what comes from there."""
    origins = {item.entry.id for item in accepted if item.path == path and not item.inside}
    present = {note.text.rstrip() for note in notes if note.path == path}
    return format_projection(without_echo(public, origins, present))


def _block(target: Target, path: str, text: str) -> Block:
    return Block(os.path.join(target.project, path), text, "markdown", by=fence.SYNC)


def _demand_kept(proposed: Proposed) -> None:
    """Raise Conflict where what somebody wrote into a block would be lost with it."""
    for note, why in proposed.refused:
        if note.inside:
            raise Conflict(
                f"{note.path}:{note.first}: what was written into the block cannot be proposed"
                f" ({why}): move it out of the block; no file was written",
                path=note.path,
            )


def _refusals(proposed: Proposed) -> list[str]:
    """Return why sections are not proposed, each reason once."""
    reasons: dict[str, list[Note]] = {}
    for note, why in proposed.refused:
        reasons.setdefault(why, []).append(note)
    return [
        f"{notes[0].path}:{notes[0].first}"
        + (f" and {len(notes) - 1} more are" if notes[1:] else " is")
        + f" not proposed: {why}"
        for why, notes in reasons.items()
    ]


def _gone(item: Accepted) -> str:
    return (
        f"{item.entry.id} came from {item.path}, and its text is gone from there:"
        f" `synapse archive {item.entry.id}` files it away"
    )
