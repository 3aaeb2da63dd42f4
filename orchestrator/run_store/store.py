"""The run store: whatever a supervisor's runs read and write in the memory and on the disk, on one
thread.

It makes prompts, closes runs and formats their results; `admission`, `deliveries` and `costs` are
its parts. What a run leaves is stored before anybody is told of it. Calls no engine.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from traceback import format_exception
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Engine, Place, Request, has_shell
from orchestrator.prompts import render as prompt
from orchestrator.prompts import selection
from orchestrator.prompts.fence import inline, secret
from orchestrator.prompts.opening import (
    Histories,
    Policy,
    PromptDeps,
    build_opening,
    by_default,
    histories,
    registered,
    taught,
)
from orchestrator.prompts.render import Report
from orchestrator.prompts.roster import MOST, unknown, workers
from orchestrator.prompts.templates import Templates
from orchestrator.run_store.admission import Admission
from orchestrator.run_store.costs import Costs
from orchestrator.run_store.deliveries import Deliveries
from orchestrator.run_store.usage import results, uses
from orchestrator.runs import bounds, requirements, writeback
from orchestrator.runs.blockers import Blockers
from orchestrator.runs.files import ledger, steps, workspace
from orchestrator.runs.files.evidence import demand_all_steps
from orchestrator.runs.files.folder import ERROR, LEDGER, OUTPUT, RECEIPT, STEPS, TRANSCRIPT, Folder
from orchestrator.runs.files.workspace import LEASE
from orchestrator.runs.records import ATTEMPTS, Run, Runs
from orchestrator.runs.task import MAX_REPLY, Outcome, Result, result_of
from orchestrator.sessions.config import SessionConfig
from orchestrator.sessions.session import Session
from orchestrator.spend.limits import Limits
from orchestrator.spend.segments import said_label
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import (
    Conflict,
    Forbidden,
    InvalidEntry,
    NotFound,
    QueueFull,
    StoreBusy,
    SynapseError,
)
from synapse.knowledge import memory as knowledge
from synapse.model.agents import Agent
from synapse.model.entry import SECOND
from synapse.model.records import Record
from synapse.privacy.personal import kept
from synapse.system.text import storable_all
from synapse.trust.lineage import why

_ID = re.compile(r"syn-\d{4}-\d\d-\d\d-\d+")
HISTORY_KEPT = 30 * SECOND


class SessionParts(NamedTuple):
    """What a session is made of."""

    agent_memory: AgentMemory
    tools: list[memory_tools.Tool]
    config: SessionConfig
    folder: Folder
    recorded: list[steps.Step]


class RunStore:
    """The runs of one supervisor, in the memory and on the disk."""

    def __init__(
        self,
        memory: Memory,
        name: str,
        *,
        context: Policy = by_default,
        memory_tools: str = "auto",
        limits: Limits | None = None,
        lease: float = LEASE,
        attempts: int = ATTEMPTS,
        seed: int | None = None,
        offer: Callable[[], requirements.Offer],
        lacking: Callable[[Run, bool], tuple[str, ...]],
    ) -> None:
        self.attempts, self.lacking = attempts, lacking
        self.memory = memory
        self.store = memory.store
        self.context = context
        self.memory_tools = memory_tools
        self._temporary = None
        if not memory.store.root:
            self._temporary = tempfile.mkdtemp(prefix="synapse-runs-")
        self.is_lasting = self._temporary is None
        self.root = memory.store.root or self._temporary or ""
        self.runs = Runs(memory.store)
        self.lease = workspace.hold(memory.store, self.root, name, lease)
        self.costs = Costs(self.runs, self.root, self.is_lasting, self.lease, limits)
        self.admission = Admission(memory.store, self.runs, self.costs, self.lease, offer)
        self.templates = Templates(memory.store.root, needed=True)
        self.secret = (
            secret(self.root) if seed is None else sha256(f"seed {seed}".encode()).digest()
        )
        self._history: tuple[int, Histories] = (0, {})
        self.blockers = Blockers(memory.store, self.runs, self.agent_memory, self.write_notes)
        self.deliveries = Deliveries(
            memory.store, self.runs, self.lease.name, self.agent_memory, self.secret, self.templates
        )

    def close(self) -> None:
        self.lease.close()
        self.costs.close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    # -- what there is -----------------------------------------------------------------------------

    def agent(self, id: str) -> Agent:
        return registered(self.store, id)

    def refused(self, giver: Run, agent: str, project: str) -> str | None:
        """Return what an agent is told that gives work to one who is not registered, or who or
        whose project is beyond its own bounds; None where it may.
        """
        if doubts := self.agent_memory(giver).access.doubts():
            return f"you may not give work to anybody: {why(doubts)}"
        agents, flat = self.store.agents.all(), self.store.settings.flat
        own = self.agent(giver.agent).joined(giver.project)
        permitted = workers(agents.values(), own, flat)
        if agent not in agents:
            return unknown(agent, permitted)
        if problem := bounds.beyond(own, agents[agent], flat):
            names = ", ".join(other.id for other in permitted[:MOST]) or "nobody else"
            return f"you may not give work to {agent}: {problem}. You may to: {names}"
        if problem := bounds.foreign(own, giver.project, project):
            return f"you may not give work in {inline(project, 80)}: {problem}"
        return None

    def revealed(self, run: Run, request: Request) -> Request:
        """Return a request with what is sealed in it, as far as the run's agent has a key: it goes
        to the model. What is on the disk has a line in its place.
        """
        access = self.agent_memory(run).access
        messages = tuple(
            message._replace(text=access.revealed(message.text)) for message in request.messages
        )
        return request._replace(messages=messages, system=access.revealed(request.system))

    def known(self, id: str) -> Run:
        run = self.runs.get(id)
        if run is None:
            raise NotFound(
                f"there is no run {id}; `orchestrator ps --all` lists those there are", id=id
            )
        return run

    def agent_memory(self, run: Run) -> AgentMemory:
        """Return the memory as the agent has it in this incarnation of the run."""
        return self.memory.as_agent(run.agent, run.id, run.epoch)

    def folder(self, run: Run) -> Folder:
        return workspace.folder(self.store, self.root, run.id, lasting=self.is_lasting)

    def result(self, run: Run) -> Result:
        """Return the result of a run that has ended."""
        folder = self.folder(run)
        text = folder.read(OUTPUT) if folder.has(OUTPUT) else ""
        result = result_of(run.id, run.fields, text)
        return result._replace(tree=self.costs.tree(run))

    # -- prompts -----------------------------------------------------------------------------------

    def prepare_session(self, run: Run, engine: Engine, alone: bool) -> SessionParts:
        """Return what a session needs: its prompt, made and receipted, or all that an earlier
        incarnation recorded. `alone`: nobody else runs, so the news until now wakes nobody, and is
        for the view.
        """
        if alone:
            self.deliveries.changes(())
        folder = self.folder(run)
        recorded = steps.read(folder.lines(STEPS))
        if run.epoch > 1:
            with self.store.snapshot() as snap:
                shown = snap.first(run.agent, f"shown:{run.id}") is not None
            demand_all_steps(folder, shown)
        folder.make()
        if recorded:
            self.note_shown(run, recorded[0].fields)
            fields: Mapping[str, Any] = {
                "attempts": run.attempts,
                **steps.answered(run.fields, recorded),
            }
            step = steps.Step(recorded[-1].n + 1, run.epoch, "attempt", fields)
        else:
            fields, receipt = self._open_prompt(run, engine)
            # before the step: whoever goes on from that one finds it
            folder.write(RECEIPT, receipt, sync=False)
            step = steps.Step(0, run.epoch, "prompt", fields)
        folder.record(STEPS, steps.dump(step), sync=False)
        first = (recorded or [step])[0].fields
        tools = taught(
            (tool for tool in memory_tools.TOOLS if tool.name in first["tools"]), self.templates
        )
        return SessionParts(
            self.agent_memory(run),
            tools,
            self._session_config(run, engine, folder),
            folder,
            [*recorded, step],
        )

    def _session_config(self, run: Run, engine: Engine, folder: Folder) -> SessionConfig:
        seconds = self.costs.seconds_left(run)
        workplace = None
        if not engine.takes_tools:
            folder_path = str(run.fields.get("folder") or folder.path)
            workplace = Place(
                folder_path,
                {
                    "SYNAPSE_AGENT": run.agent,
                    "SYNAPSE_RUN": f"{run.id}:{run.epoch}",
                    **({"SYNAPSE_ROOT": self.store.root} if self.store.root else {}),
                },
                os.path.join(folder.path, TRANSCRIPT),
            )
        label = said_label(run.fields["role"])
        model = run.fields["model"]
        resumes = engine.takes_tools or bool(getattr(engine, "resumes", False))
        bounded = self.costs.bounded(run)
        return SessionConfig(
            self.costs.counter(model),
            model,
            run.task.max_reply or MAX_REPLY,
            seconds,
            workplace,
            label,
            bounded,
            resumes,
        )

    def _open_prompt(self, run: Run, engine: Engine) -> tuple[dict[str, Any], str]:
        """Return the prompt with all that is to be known of it, and its receipt."""
        agent_memory = self.agent_memory(run)
        counter = self.costs.counter(run.fields["model"])
        past = self._pasts(run.fields["role"], run.fields["engine"])
        deps = PromptDeps(
            self.context, self.memory_tools, self.secret, self.templates, counter, past
        )
        given_by = self.known(run.parent).agent if run.parent else None
        takes_tools, shell = engine.takes_tools, has_shell(engine)
        rendered, receipt, news, calls = build_opening(
            run, self.agent(run.agent), given_by, agent_memory, deps, takes_tools, shell
        )
        shown_fields = receipt.shown()
        fields = {
            "tools": list(receipt.tools),
            "ids": shown_fields["ids"],
            "cursor": receipt.cursor,
        }
        fields |= {"guide": receipt.tokens["guide"], "news": news, "acts": calls}
        return rendered._asdict() | fields | {"shown": shown_fields}, receipt.dump()

    def note_shown(self, run: Run, first: Mapping[str, Any]) -> None:
        """Note in the log what a prompt showed, once. It follows from its step, which is on the
        disk before, as its receipt is: the engine is called meanwhile.
        """
        folder = self.folder(run)
        if folder.has(RECEIPT):
            folder.sync(RECEIPT)
        folder.sync(STEPS)
        if run.fields.get("played"):
            return  # nobody read it: for its agent, all of it is as new as before
        self.agent_memory(run).writer.write(
            Record.new("shown", run.agent, first["shown"]), once=f"shown:{run.id}"
        )

    def _pasts(self, role: str, engine: str) -> list[selection.Past]:
        """Return the newest runs of a role on an engine, looked up now and then."""
        at, pasts = self._history
        if (now := self.store.clock()) - at >= HISTORY_KEPT:
            at, pasts = now, histories(self.runs)
            self._history = at, pasts
        return pasts.get((role, engine), [])

    # -- while it runs -----------------------------------------------------------------------------

    def results_text(self, reader: Run, results: list[Result], how: str = "unread") -> str:
        """Return what children left, as their parent is told. `how` names the template: `results`
        for one that waited, `unread` for one that would have ended, `blocked` for one at something
        else.
        """
        reports = [
            Report(
                result.run,
                self.known(result.run).agent,
                result.status,
                self._as_read(reader, result),
                result.entry if result.status == "blocked" else None,
            )
            for result in results
        ]
        render = {"results": prompt.results, "unread": prompt.unread, "blocked": prompt.blocked}[
            how
        ]
        return render(reports, self.agent(reader.agent), self.secret, self.templates)

    def _as_read(self, reader: Run, result: Result) -> str:
        """Return as much of a result as this reader is told. What limits the run that it is of,
        limits from then on the reader too.
        """
        if result.played:
            return writeback.NOBODY
        doubts = self.agent_memory(self.known(result.run)).access.doubts()
        self.agent_memory(reader).access.noticed_ids(doubts)
        project, agent = self.known(result.run).project, self.agent(reader.agent)
        if bounds.may_read_result(agent.joined(reader.project), project):
            return writeback.for_parent(result)
        return f"(What came of it is in status/{project}, which you may not read.)"

    def seen(self, runs: Iterable[str], entries: Sequence[str]) -> list[str]:
        """Return those of the entries that stood before one of these runs. An agent with a shell
        looks for itself: of its, all that it may see.
        """
        visible: set[str] = set()
        for run in map(self.known, runs):
            recorded = steps.read_known(self.folder(run).lines(STEPS))
            for step in recorded:
                visible.update(step.fields.get("ids", ()))
                if step.kind == "result":
                    visible.update(_ID.findall(step.fields["text"]))
            if "folder" in run.fields:
                visible.update(id for id in entries if knowledge.sees(self.agent_memory(run), id))
        return [id for id in entries if id in visible]

    # -- ending ------------------------------------------------------------------------------------

    def failed(self, run: Run, error: Exception) -> Outcome:
        """Return the outcome of an error that no session expects: it concerns the operator. An
        error that is not ours is kept whole, with its trace. StoreBusy is no outcome, and is raised
        again.
        """
        if isinstance(error, StoreBusy):
            raise error
        if isinstance(error, SynapseError):
            stopped = self.runs.over(run)  # it needs nothing of what is not here
            status = "stopped" if stopped else "failed"
            return Outcome(status, "", stopped or str(error), operational=True)
        self.folder(run).make().write(ERROR, "".join(format_exception(error)))
        why = f"{type(error).__name__}: {error} (runs/{run.id}/{ERROR})"
        return Outcome("failed", "", why, operational=True)

    def close_run(self, run: Run, outcome: Outcome, session: Session | None) -> Result:
        """Store what came of it, write it into the memory, then say that it has ended."""
        outcome = storable_all(outcome)
        played = run.fields.get("played") if session is None else session.played
        if played:
            outcome = writeback.as_played(outcome)
        folder = self.folder(run).make()
        if self.known(run.id).epoch == run.epoch:
            folder.write(OUTPUT, outcome.text)
        lines = ledger.read(folder.lines(LEDGER))
        usage, cost = ledger.spent(lines)
        overhead = ledger.overhead(lines)
        unanswered = ledger.unanswered(lines)
        answers, said = run.fields.get("answers", 0), run.fields.get("said")
        about = (run.id, run.project, outcome, answers, said, results(self.store, run, session))
        notes = [] if played else writeback.settle(*about)
        fields: dict[str, Any] = {
            "summary": writeback.summary(outcome.text),
            "why": outcome.why,
            "debt": list(outcome.debt),
            "usage": usage._asdict(),
            "cost": cost,
            "overhead": list(overhead),
            "guide": ledger.by_label(lines).get("guide", 0),
            "turns": len(session.conversation.turns) if session else 0,
        }
        if unanswered.calls:
            fields["unanswered"] = list(unanswered)
        if played:  # it tells nothing of what such runs take, nor of what they need
            fields["played"] = True
        elif session is not None:
            fields["past"] = list(
                selection.past(
                    [line for line in lines if line.answered],
                    steps.capsules(session.conversation, session.first["tools"]),
                )[:4]
            )
            fields["uses"] = uses(self.store, session)
        if session is not None and (shares := session.conversation.shares):
            fields["shares"] = shares
            fields["spared_tokens"] = session.conversation.spared
        try:
            entry, untold = self.write_notes(run, notes)
            fields["said"] = entry or run.fields.get("said")
            entry = outcome.blocker or entry
            fields["why"] = "; ".join(filter(None, (outcome.why, untold)))
            waits = False
            if outcome.status == "blocked":
                fields["below"] = [id for id, _ in self.blockers.below(run)]
                fields["asks"] = None if outcome.below else entry
                waits = self.blockers.keeps(run, outcome, entry)
            ended = self.runs.end(run, outcome.status, waits=waits, entry=entry, **fields)
        except Conflict as stale:
            self.costs.leave(run.id)
            why = f"another incarnation has taken it over: {stale}"
            tree = self.costs.tree(run)
            own = usage, cost, overhead
            return Result("stopped", outcome.text, run.id, *own, why=why, tree=tree)
        self.costs.leave(run.id)
        result = result_of(run.id, ended.fields, outcome.text)
        return result._replace(tree=self.costs.tree(ended))

    def write_notes(self, run: Run, notes: list[writeback.Note]) -> tuple[str | None, str]:
        """Write the entries, each once: the id of the last, and what kept one out."""
        id, agent_memory = None, self.agent_memory(run)
        for note in notes:
            once = f"{run.id}/{note.key}"
            try:
                id = agent_memory.append(
                    kept(note.body, self.memory.store.settings),
                    note.namespace,
                    priority=note.priority,
                    tags=note.tags,
                    evidence=note.evidence,
                    supersedes=note.replaces,
                    once=once,
                ).id
            except (InvalidEntry, Forbidden, QueueFull) as error:
                return id, f"no entry says so: {error}"
        return id, ""
