"""Checks of the memory before and after a call of a client's tool: entries for this call, what
others got from the same, who is editing the same files.

A worker is told of each of them once. Called by `respond`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestrator.plugin.facts.event import Event, Reply
from orchestrator.plugin.hooks.addresses import is_public
from orchestrator.plugin.hooks.context import Context
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.state import LONGEST, Worker
from orchestrator.runs.files.lease import lives
from orchestrator.runs.intent import ALIKE, similar
from orchestrator.runs.repeats import age
from orchestrator.sessions.wake import AT_ONCE
from orchestrator.sharing.findings import Findings, Look
from orchestrator.tools.calls import Act, Shares, act_of
from synapse.access import claims
from synapse.authority import visible
from synapse.errors import Conflict
from synapse.model.clock import seconds
from synapse.model.conditions import COMMANDS, SPAWN
from synapse.model.entry import SECOND, Entry
from synapse.system.quoting import inline
from synapse.trust.lineage import why
from synapse.view import clauses

EDIT_MINUTES = 15  # that a file counts as being edited after its last change
CONCERN = 3  # entries about a file or address that are told beside one call
# kinds of tools that make a turn one that leaves something
ACTS = ("edit", "run", "spawn", "fetch", "search")
_MINUTE = 60 * SECOND
GOT = Shares("10m")  # how long what a fetch or a search gave is kept for others


class CallChecks:
    """Looks into the memory around the calls of one session's workers."""

    def __init__(self, workers: ClientRuns, context: Context) -> None:
        self.workers, self.context, self.store = workers, context, workers.store
        self.findings = Findings(
            self.store, workers.root, lambda name: lives(workers.root, name)
        )

    # -- before a call -----------------------------------------------------------------------------

    def before(self, worker: Worker, event: Event) -> Reply:
        """Return the reply before a call: instead of it, or beside it, or nothing."""
        if text := self._moment(worker, event):
            return Reply(deny=text)
        if event.kind == "spawn" and (reply := self._limited(worker)):
            return reply
        results = dict(self._got(worker, event))
        lines, entries = [*results], [*results.values()]
        entries += self._concerning(worker, event)
        if event.kind == "edit":
            for path in self._paths(event):
                lines += self._claim_file(worker, path)
        if event.kind == "spawn":
            for line, entry in self._alike(worker, event):
                lines.append(line)
                entries += [entry] if entry is not None else []
        text = self.context.render_beside(worker, entries) if entries else ""
        return Reply(context="\n".join(filter(None, (*lines, text))))

    def _limited(self, worker: Worker) -> Reply | None:
        """Return the reply to a worker that would give out work and may not."""
        doubts = self.workers.agent_memory(worker).access.doubts()
        text = f"You may not give work to anybody: {why(doubts)}." if doubts else ""
        return Reply(deny=text) if text else None

    def _moment(self, worker: Worker, event: Event) -> str:
        """Return the entries for the moment before this call that the worker does not have."""
        call = SPAWN if event.kind == "spawn" else event.tool
        arguments = event.arguments
        # A read may be a command; the entries for edits are for what changes files.
        if event.kind == "read":
            arguments = {
                name: value
                for name, value in arguments.items()
                if name.lower() in COMMANDS
            }
        agent_memory = self.workers.agent_memory(worker)
        seen_ids = frozenset(worker.seen)
        entries = self.findings.entries_for_call(
            agent_memory, call, arguments, seen_ids
        )
        entries = entries[:AT_ONCE]  # the others at the next call
        worker.add("seen", [entry.id for entry in entries])
        return self.context.render_moment(worker, entries) if entries else ""

    def _got(self, worker: Worker, event: Event) -> Iterator[tuple[str, Entry]]:
        """Yield what another agent got minutes ago from the same fetch or search."""
        if not _is_for_all(event):
            return
        agent, now = self.workers.reader(worker), self.store.clock()
        entry = self.findings.latest(agent, _act(event))
        if entry is None or entry.id in worker.seen or entry.author == worker.agent:
            return
        worker.add("seen", [entry.id])
        yield f"{entry.author} made this call {age(now - entry.at)} ago.", entry

    def _claim_file(self, worker: Worker, path: str) -> Iterator[str]:
        """Claim a file for a while, or yield who else is editing it."""
        work = claims.named(f"edit {path[-180:]}")
        now, agent_memory = self.store.clock(), self.workers.agent_memory(worker)
        claim = claims.holder(self.store, work, now)
        if claim is not None and claim.run == worker.run:
            if claim.until - now > EDIT_MINUTES * _MINUTE // 2:
                return
            claim = None
        if claim is None or self.findings.is_gone(claim):
            superseded_runs = {claim.run} if claim else set()
            try:
                claims.take(
                    agent_memory.writer,
                    work,
                    EDIT_MINUTES,
                    None,
                    None,
                    now,
                    superseded_runs,
                )
                worker.add("editing", [work])
                return
            except Conflict:
                claim = claims.holder(self.store, work, now)
        if claim is not None and f"{work} {claim.run}" not in worker.told:
            worker.add("told", [f"{work} {claim.run}"])
            yield (
                f"{claim.agent} is editing {inline(path)} too (until {seconds(claim.until)},"
                f" run {claim.run})."
            )

    def _alike(
        self, worker: Worker, event: Event
    ) -> Iterator[tuple[str, Entry | None]]:
        """Yield which runs do what a spawn asks for, or did it, with what they left."""
        agent, now = self.workers.reader(worker), self.store.clock()
        with self.store.snapshot(late=True) as snap:
            runs = snap.runs(project=self.workers.project, limit=50)
        for run in runs:
            key = f"alike {run['run']} {run['state']}"
            task = str(run["task"])[:LONGEST]
            is_known = run["run"] == worker.run or key in worker.told
            if (
                is_known
                or run.get("played")
                or similar(task, event.prompt[:LONGEST]) < ALIKE
            ):
                continue
            who, lease_name = f"(run {run['run']}", str(run.get("holder"))
            if run["state"] == "running" and lives(self.workers.root, lease_name):
                worker.add("told", [key])
                yield f"{run['agent']} is at work on the same {who}).", None
            elif (
                run["state"] == "ended"
                and run.get("status") == "done"
                and run.get("summary")
            ):
                worker.add("told", [key])
                with self.store.snapshot(late=True) as snap:
                    entry = snap.entry(str(run.get("entry")), now)
                result = entry if entry is not None and visible(entry, agent) else None
                line = f"{run['agent']} has done the same {who}, entry {run.get('entry')})."
                yield line, result

    def _concerning(self, worker: Worker, event: Event) -> list[Entry]:
        """Return the entries that name the file or address of a call, that the worker was not
        given.
        """
        if event.kind not in ("read", "edit", "fetch"):
            return []
        paths = event.subjects if event.kind == "fetch" else self._paths(event)
        entries: list[Entry] = []
        for path in paths:
            if f"about {path}" not in worker.told:
                entries += self._naming(worker, path)
                worker.add("told", [f"about {path}"])
        entries = list({entry.id: entry for entry in entries}.values())[:CONCERN]
        worker.add("seen", [entry.id for entry in entries])
        return entries

    def _naming(self, worker: Worker, path: str) -> Iterator[Entry]:
        """Yield the entries with a file's path or name, or an address, in them."""
        name = os.path.basename(path)
        names = (path, name) if "." in name else (path,)
        agent, now = self.workers.reader(worker), self.store.clock()
        with self.store.snapshot(words=True) as snap:
            matches = clauses.matches(snap, agent, path, now)
        for entry, *_ in matches:
            text = f"{entry.topic or ''}\n{entry.body}"
            if entry.id in worker.seen or entry.author == worker.agent:
                continue
            if entry.trust == "unverified" or not visible(entry, agent):
                continue
            if any(name in text for name in names):
                yield entry

    def _paths(self, event: Event) -> Iterator[str]:
        """Yield the paths of files as the team knows them: from the folder of the session on."""
        for path in event.subjects:
            inside = (
                os.path.relpath(path, event.cwd)
                if os.path.isabs(path) and event.cwd
                else path
            )
            yield path if inside.startswith("..") else inside

    # -- after a call ------------------------------------------------------------------------------

    def after(self, worker: Worker, event: Event) -> None:
        """Keep what a call gave that is the same for everybody."""
        if _is_for_all(event) and event.result.strip():
            once = f"{worker.run}/{event.call or _act(event).key}"
            agent_memory, look = self.workers.agent_memory(worker), Look(files={})
            self.findings.write_result(
                agent_memory, _act(event), once, event.result, look
            )

    def give_back(self, worker: Worker) -> None:
        """Give back the files that a worker was at when it ended."""
        self.workers.release(worker)


def _is_for_all(event: Event) -> bool:
    """Return whether a call is a search, or a fetch of what is the same for everybody."""
    if event.kind == "fetch":
        return bool(event.subjects) and all(map(is_public, event.subjects))
    return event.kind == "search"


def _act(event: Event) -> Act:
    return act_of(event.tool, event.arguments, GOT)
