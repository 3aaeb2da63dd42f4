"""Checks of the memory before and after a call of a client's tool: entries for this call, what
others got from the same, what is known of its files.

A worker is told of each of them once. Called by `respond`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from orchestrator.files.changes import Changes
from orchestrator.files.seen import Seen
from orchestrator.plugin.facts.event import Event, Reply
from orchestrator.plugin.hooks.addresses import is_public
from orchestrator.plugin.hooks.context import Context
from orchestrator.plugin.hooks.reads import beside_read
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.state import LONGEST, Worker
from orchestrator.plugin.sessions.tasks import tasks_of
from orchestrator.runs.files.workspace import lives
from orchestrator.runs.intent import ALIKE, similar
from orchestrator.runs.repeats import age
from orchestrator.sessions.wake import AT_ONCE
from orchestrator.sharing.findings import Findings, Look
from orchestrator.tools.calls import Act, Shares, act_of
from synapse.authority import visible
from synapse.index.full_text.search import holding
from synapse.model.conditions import COMMANDS, SPAWN
from synapse.model.entry import Entry
from synapse.system.tree_file import TreeFile, is_named
from synapse.trust.lineage import why

CONCERN = 3  # entries about a file or address that are told beside one call
LOOKED_AT = 50  # of the newest entries with the words of its name
# kinds of tools that make a turn one that leaves something
ACTS = ("edit", "run", "spawn", "fetch", "search")
GOT = Shares("10m")  # how long what a fetch or a search gave is kept for others


class CallChecks:
    """Looks into the memory around the calls of one session's workers."""

    def __init__(self, workers: ClientRuns, context: Context, changes: Changes[Worker]) -> None:
        self.workers, self.context, self.store = workers, context, workers.store
        self.changes = changes
        self.findings = Findings(self.store, workers.root, lambda name: lives(self.store, name))

    # -- before a call -----------------------------------------------------------------------------

    def before(self, worker: Worker, event: Event) -> Reply:
        """Return the reply before a call: instead of it, or beside it, or nothing."""
        if text := self._moment(worker, event):
            return Reply(deny=text)
        if event.kind == "spawn" and (reply := self._limited(worker)):
            return reply
        results = dict(self._got(worker, event))
        lines, entries = [*results], [*results.values()]
        lines += beside_read(self.changes, worker, event, self.store.clock())
        entries += self._concerning(worker, event)
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
                name: value for name, value in arguments.items() if name.lower() in COMMANDS
            }
        agent_memory = self.workers.agent_memory(worker)
        seen_ids = frozenset(worker.seen)
        entries = self.findings.entries_for_call(agent_memory, call, arguments, seen_ids)
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

    def _alike(self, worker: Worker, event: Event) -> Iterator[tuple[str, Entry | None]]:
        """Yield which runs do what a spawn asks for, or did it, with what they left."""
        agent, now = self.workers.reader(worker), self.store.clock()
        with self.store.snapshot(late=True) as snap:
            runs = snap.runs(project=self.workers.project, limit=50)
        for run in runs:
            if run["run"] == worker.run or run.get("played"):
                continue
            for task, id in tasks_of(self.store, run):
                key = f"alike {run['run']} {id}"
                if key in worker.told or similar(task[:LONGEST], event.prompt[:LONGEST]) < ALIKE:
                    continue
                worker.add("told", [key])
                who = f"(run {run['run']}"
                if id is None:
                    yield f"{run['agent']} is at work on the same {who}).", None
                    continue
                with self.store.snapshot(late=True) as snap:
                    entry = snap.entry(id, now)
                result = entry if entry is not None and visible(entry, agent) else None
                yield f"{run['agent']} has done the same {who}, entry {id}).", result

    def _concerning(self, worker: Worker, event: Event) -> list[Entry]:
        """Return the entries that name the file or address of a call, that the worker was not
        given: at the first call all, later those that have come since.
        """
        entries: list[Entry] = []
        for subject in event.subjects:
            if event.kind in ("read", "edit"):
                file = self.changes.locate(subject, event.cwd)
                entries += self._about_file(worker, file)
            elif event.kind == "fetch" and f"about {subject}" not in worker.told:
                worker.add("told", [f"about {subject}"])
                matches = self._search(worker, subject)
                entries += [entry for entry in matches if subject in _text(entry)]
        entries = list({entry.id: entry for entry in entries}.values())[:CONCERN]
        worker.add("seen", [entry.id for entry in entries])
        return entries

    def _about_file(self, worker: Worker, file: TreeFile) -> Iterator[Entry]:
        """Yield the entries about a file since the worker last had to do with it. What a run wrote
        of a change that the worker was told is no news.
        """
        seen = worker.files.get(file.key, Seen())
        with self.store.snapshot() as snap:
            worker.files[file.key] = seen._replace(cursor=snap.cursor)
        _, known_run = worker.changes.get(file.key, (0, None))
        for entry in self._search(worker, os.path.basename(file.path)):
            is_known = entry.priority == "info" and entry.run == known_run
            if entry.seq <= seen.cursor or (is_known and known_run):
                continue
            is_own = entry.seq > worker.forgot and self.workers.is_own(worker, entry.run)
            if is_named(_text(entry), file) and not is_own:
                yield entry

    def _search(self, worker: Worker, subject: str) -> Iterator[Entry]:
        """Yield the entries that hold the words of a name or an address: those of others, and its
        own that it has forgotten."""
        agent, now = self.workers.reader(worker), self.store.clock()
        with self.store.snapshot(words=True) as snap:
            entries = holding(snap, agent, subject, now, LOOKED_AT)
        for entry in entries:
            is_own = entry.of_run_of(worker.agent) and entry.seq > worker.forgot
            if entry.id in worker.seen or is_own:
                continue
            if entry.trust != "unverified":
                yield entry

    # -- after a call ------------------------------------------------------------------------------

    def after(self, worker: Worker, event: Event) -> None:
        """Keep what a call gave that is the same for everybody."""
        if _is_for_all(event) and event.result.strip():
            once = f"{worker.run}/{event.call or _act(event).key}"
            agent_memory, look = self.workers.agent_memory(worker), Look(files={})
            self.findings.write_result(agent_memory, _act(event), once, event.result, look)


def _text(entry: Entry) -> str:
    return f"{entry.topic or ''}\n{entry.body}"


def _is_for_all(event: Event) -> bool:
    """Return whether a call is a search, or a fetch of what is the same for everybody."""
    if event.kind == "fetch":
        return bool(event.subjects) and all(map(is_public, event.subjects))
    return event.kind == "search"


def _act(event: Event) -> Act:
    return act_of(event.tool, event.arguments, GOT)
