"""The supervisor's books: everything about runs that touches the memory or the disk. Synchronous,
on one thread.

Begins runs and ends them, asks the limits, notes deliveries, writes back. What a run leaves is
stored before anybody is told of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from traceback import format_exception
from typing import Any, NamedTuple

from orchestrator import wake
from orchestrator.costs import Costs
from orchestrator.engines.protocol import Engine, Place, Turn, declared
from orchestrator.prompts import render as prompt
from orchestrator.prompts import selection
from orchestrator.prompts.fence import secret
from orchestrator.prompts.opening import (
    Histories,
    Means,
    Policy,
    by_default,
    histories,
    opened,
    registered,
    taught,
)
from orchestrator.prompts.receipt import load
from orchestrator.prompts.render import Report
from orchestrator.prompts.roster import unknown, workers
from orchestrator.prompts.templates import Templates
from orchestrator.runs import ledger, requirements, steps, writeback
from orchestrator.runs.blockers import Blockers
from orchestrator.runs.folder import (
    ERROR,
    LEDGER,
    OUTPUT,
    RECEIPT,
    STEPS,
    TRANSCRIPT,
    Folder,
)
from orchestrator.runs.intent import ALIKE, intent_of, similar
from orchestrator.runs.lease import LEASE, Lease
from orchestrator.runs.records import ATTEMPTS, Run, Runs, still
from orchestrator.runs.task import Outcome, Result, Task, check, result_of
from orchestrator.session import Session
from orchestrator.session_config import SessionConfig
from orchestrator.sharing.findings import Findings
from orchestrator.spend.limits import Limits
from orchestrator.spend.reservations import Reservation
from orchestrator.spend.segments import COORDINATORS, said_label
from orchestrator.tools import calls
from orchestrator.wake import News
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
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import SECOND, Entry
from synapse.model.records import Guard, Pending
from synapse.notify import Follower
from synapse.view.block import POINTER

_ID = re.compile(r"syn-\d{4}-\d\d-\d\d-\d+")
RECENT = 600 * SECOND  # so long a result answers the same task again
MAX_OUTPUT = 8_192  # tokens of one reply
NEIGHBOURS = 20  # running runs that a new one is compared with
HISTORY_KEPT = 30 * SECOND


class Heard(NamedTuple):
    """What came since the last look: which runs are told of what, how soon, and which runs somebody
    stopped."""

    news: list[tuple[str, Entry, str]]
    stops: list[tuple[str, str]]


class Usual(NamedTuple):
    """The engine and the model of an agent whose task and file name none."""

    engine: str
    model: str | None


class Furniture(NamedTuple):
    """What a session is made of."""

    seat: AgentMemory
    tools: list[memory_tools.Tool]
    terms: SessionConfig
    folder: Folder
    recorded: list[steps.Step]


class RunStore:
    """One supervisor's."""

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
        self.attempts, self.offer, self.lacking = attempts, offer, lacking
        self.memory, self.store, self.context, self.memory_tools = (
            memory,
            memory.store,
            context,
            memory_tools,
        )
        self._temporary = (
            None if memory.store.root else tempfile.mkdtemp(prefix="synapse-runs-")
        )
        self.root = memory.store.root or self._temporary or ""
        self.runs = Runs(memory.store)
        self.holder = Lease(self.root, name, lease)
        self.findings = Findings(
            memory.store, self.root, self.holder.lives, not self._temporary
        )
        self.costs = Costs(
            self.runs, self.root, not self._temporary, self.holder, limits
        )
        self.templates = Templates(memory.store.root)
        self.secret = (
            secret(self.root)
            if seed is None
            else sha256(f"seed {seed}".encode()).digest()
        )
        self._history: tuple[int, Histories] = (0, {})
        self.blockers = Blockers(memory.store, self.runs, self.seat, self.told)
        self._looked = (
            memory.store.log.mark()
        )  # before it listens: what comes in between is looked at
        self.ear = wake.Ear(memory.store)
        self._ends_known = self.ear.cursor

    def close(self) -> None:
        self.holder.close()
        self.costs.close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    # -- what there is -----------------------------------------------------------------------------

    def now(self) -> int:
        return self.store.clock()

    def agent(self, id: str) -> Agent:
        return registered(self.store, id)

    def stranger(self, giver: Run, agent: str) -> str | None:
        """Return what an agent is told that gives work to one who is not registered."""
        agents = self.store.agents()
        return (
            None
            if agent in agents
            else unknown(agent, workers(agents.values(), self.agent(giver.agent)))
        )

    def engine_declared(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return an engine's kind and options, as synapse.yaml has them."""
        return declared(dict(self.store.settings.other).get("engines"), name)

    def known(self, id: str) -> Run:
        run = self.runs.get(id)
        if run is None:
            raise NotFound(
                f"there is no run {id}; `orchestrator ps --all` lists those there are",
                id=id,
            )
        return run

    def seat(self, run: Run) -> AgentMemory:
        """Return the memory as the agent has it in this incarnation of the run."""
        return self.memory.as_agent(run.agent, run.id, run.epoch)

    def folder(self, run: Run) -> Folder:
        return Folder(self.root, run.id, lasting=not self._temporary)

    def result(self, run: Run) -> Result:
        """Return the result of a run that has ended."""
        folder = self.folder(run)
        return result_of(
            run.id, run.fields, folder.read(OUTPUT) if folder.has(OUTPUT) else ""
        )

    def reserve(self, session: Session, tokens: int) -> Reservation:
        return self.costs.reserve(session, tokens)

    def settle(
        self,
        session: Session,
        reservation: Reservation,
        turn: Turn | None,
        counted: int,
    ) -> float | None:
        return self.costs.settle(session, reservation, turn, counted)

    # -- beginning ---------------------------------------------------------------------------------

    def admit(
        self,
        task: Task,
        parent: Run | None,
        id: str,
        engine_of: Callable[[Task, Agent, Usual], tuple[str, Engine]],
        usual: Usual,
    ) -> tuple[Run, bool]:
        """Begin a run, within the limits, or return the run that does this work already or did it a
        moment ago.
        """
        agent = self.agent(task.agent)
        check(task)
        self.costs.check_settings()
        calls.shared(
            dict(self.store.settings.other),
            task.tools,
            requirements.parameters(self.offer().tools),
        )
        existing = self.runs.get(id)
        if existing is not None:
            return existing, existing.holder != self.holder.name or not existing.running
        fields = self._about(task, agent, *engine_of(task, agent, usual), usual)
        if task.force:
            return self._begun(id, task, agent, parent, None, fields), False
        intent = intent_of(
            task.text, project=task.project, agent=task.agent, intent=task.intent
        )
        key = f"intent:{intent}"
        while True:
            with self.store.snapshot(late=True) as snap:
                begun_records = snap.keyed(key)
            earlier = (
                self.runs.get(str(begun_records[-1].fields["run"]))
                if begun_records
                else None
            )
            if earlier is not None and self._answers(earlier):
                return earlier, True
            try:
                return self._begun(
                    id,
                    task,
                    agent,
                    parent,
                    still(key, len(begun_records)),
                    fields | {"intent": key},
                ), False
            except Conflict as error:
                if error.details.get("key") != key:
                    raise
                self.store.refresh()  # somebody else began it in this moment: look again

    def _begun(
        self,
        id: str,
        task: Task,
        agent: Agent,
        parent: Run | None,
        unless: Guard | None,
        more: Mapping[str, Any],
    ) -> Run:
        """Count the run, then record it; one that cannot be recorded is uncounted."""
        scopes = self.costs.admit(id, task, agent, parent)
        try:
            return self.runs.begin(
                id, task, agent, self.holder.name, parent, unless, **more
            )
        except SynapseError:
            self.costs.withdraw(id, scopes)
            raise

    def _about(
        self, task: Task, agent: Agent, engine_name: str, engine: Engine, usual: Usual
    ) -> dict[str, Any]:
        """Return what a run is begun with besides its task. Whoever begins others needs the engine
        that these get, too."""
        model = (
            task.model or agent.model or usual.model or getattr(engine, "model", None)
        )
        spawns = engine.takes_tools and (task.role or agent.role) in COORDINATORS
        engines = (engine_name, usual.engine) if spawns else (engine_name,)
        needed = requirements.record(engines, self.offer(), tools=engine.takes_tools)
        needed |= {"usual": list(usual)} if spawns else {}
        fields: dict[str, Any] = {
            "engine": engine_name,
            "model": model,
            "needs": needed,
        }
        if alike := self._alike(task):
            fields["warnings"] = alike
        if not engine.takes_tools:
            fields["folder"] = os.path.abspath(task.folder or os.curdir)
        return fields

    def furnish(self, run: Run, engine: Engine, alone: bool) -> Furniture:
        """Return what a session needs: its prompt, made and receipted, or all that an earlier
        incarnation recorded. `alone`: nobody else runs, so the news until now wakes nobody, and is
        for the view.
        """
        if alone:
            self.heard(())
        folder = self.folder(run).make()
        recorded = steps.read(folder.lines(STEPS))
        if recorded:
            self.note_shown(run, recorded[0].fields)
            fields: Mapping[str, Any] = {"attempts": run.attempts}
            step = steps.Step(recorded[-1].n + 1, run.epoch, "attempt", fields)
        else:
            step = steps.Step(0, run.epoch, "prompt", self._opened(run, engine, folder))
        folder.record(STEPS, steps.dump(step), sync=False)
        first = (recorded or [step])[0].fields
        tools = taught(
            (tool for tool in memory_tools.TOOLS if tool.name in first["tools"]),
            self.templates,
        )
        return Furniture(
            self.seat(run),
            tools,
            self._terms(run, engine, folder),
            folder,
            [*recorded, step],
        )

    def _terms(self, run: Run, engine: Engine, folder: Folder) -> SessionConfig:
        seconds = self.costs.seconds_left(run)
        workplace = None
        if not engine.takes_tools:
            folder_path = str(run.fields.get("folder") or folder.path)
            workplace = Place(
                folder_path,
                self._environment(run),
                os.path.join(folder.path, TRANSCRIPT),
            )
        label = said_label(run.fields["role"])
        model = run.fields["model"]
        resumes = engine.takes_tools or bool(getattr(engine, "resumes", False))
        bounded = self.costs.bounded(run)
        return SessionConfig(
            self.costs.counter(model),
            model,
            MAX_OUTPUT,
            seconds,
            workplace,
            label,
            bounded,
            resumes,
        )

    def _opened(self, run: Run, engine: Engine, folder: Folder) -> dict[str, Any]:
        """Make the prompt, and all that is to be known of it."""
        seat, counter = self.seat(run), self.costs.counter(run.fields["model"])
        past = self._past_of(run.fields["role"], run.fields["engine"])
        means = Means(
            self.context, self.memory_tools, self.secret, self.templates, counter, past
        )
        given_by = self.known(run.parent).agent if run.parent else None
        shell = not engine.takes_tools
        rendered, receipt, news, calls = opened(
            run, self.agent(run.agent), given_by, seat, means, shell
        )
        shown_fields = receipt.shown()
        fields = {
            "tools": list(receipt.tools),
            "ids": shown_fields["ids"],
            "cursor": receipt.cursor,
        }
        fields |= {"guide": receipt.tokens["guide"], "news": news, "acts": calls}
        return (
            steps.prompt(*rendered)
            | fields
            | {"shown": shown_fields, "receipt": receipt.dump()}
        )

    def note_shown(self, run: Run, first: Mapping[str, Any]) -> None:
        """Note in the log what a prompt showed, once, and put its receipt where people look. Both
        follow from its step: the engine is called meanwhile.
        """
        folder = self.folder(run)
        if not folder.has(RECEIPT):
            folder.write(
                RECEIPT, first["receipt"], sync=False
            )  # what the log holds of it is synced
        self.seat(run).pen.write(
            Pending("shown", run.agent, first["shown"]), once=f"shown:{run.id}"
        )

    def _past_of(self, role: str, engine: str) -> list[selection.Past]:
        """Return the newest runs of a role on an engine, looked up now and then."""
        at, pasts = self._history
        if self.now() - at >= HISTORY_KEPT:
            at, pasts = self.now(), histories(self.runs)
            self._history = at, pasts
        return pasts.get((role, engine), [])

    def missed(self, session: Session) -> tuple[list[News], str | None]:
        """Return what came after the prompt was made, before the session could hear: what concerns
        it, and why to end."""
        declared, cursor = self.store.agent(session.run.agent), session.first["cursor"]
        if declared is None:
            return [], "its agent is registered no more"
        reader = session.reader(declared.joined(session.run.project))
        self._learn_ends(cursor)  # the index stands at the cursor at least
        follower = Follower(
            self.store.log, lambda: reader.agent, self.store.current, cursor
        )
        now = self.now()
        came = (
            (event.entry, wake.tier(event.entry, reader, event.cursor))
            for event in follower.poll()
        )
        news = [News(entry, now, tier) for entry, tier in came if tier]
        return news, self.runs.over(session.run, known=True)

    def _learn_ends(self, cursor: int) -> tuple[bool, int]:
        """Catch the index up where the log has a record since the cursor that may end a session of
        ours: a stop or a recovery. Return whether there is one, and how far the log was read. Most
        records are neither: the log is read at once, while the index takes its time.
        """
        relevant, mine = False, (None, self.holder.name)
        for record in self.store.log.since(cursor):
            cursor = record.seq
            relevant |= record.kind == "stop" or (
                record.kind == "run" and record.fields.get("holder") not in mine
            )
        if relevant:
            self.store.refresh()
        return relevant, cursor

    def _environment(self, run: Run) -> dict[str, str]:
        """Return the variables that bind a client's shell commands to this run."""
        bound = {"SYNAPSE_AGENT": run.agent, "SYNAPSE_RUN": f"{run.id}:{run.epoch}"}
        return bound | ({"SYNAPSE_ROOT": self.store.root} if self.store.root else {})

    def _alike(self, task: Task) -> list[str]:
        """Return warnings about running work of this project that sounds similar: perhaps the same,
        perhaps not.
        """
        with self.store.snapshot(late=True) as snap:
            running = snap.runs(project=task.project, state="running", limit=NEIGHBOURS)
        similar_runs = [
            row for row in running if similar(str(row["task"]), task.text) >= ALIKE
        ]
        return [
            f"{row['run']} ({row['agent']}) is at something that sounds like it"
            for row in similar_runs
        ]

    def _answers(self, run: Run) -> bool:
        ended = run.fields.get("ended_at")
        return run.running or (
            run.status == "done" and ended is not None and self.now() - ended < RECENT
        )

    # -- while it runs -----------------------------------------------------------------------------

    def stirred(self) -> bool:
        """Return whether anything was written since the last look."""
        self.store.look()  # what was dropped as a file is news too
        return bool(self.ear.held) or self.store.log.mark() != self._looked

    def heard(self, sessions: Iterable[Session]) -> Heard:
        """Return the news for these sessions, and the ends that somebody asked for."""
        if not self.stirred():
            return Heard([], [])
        sessions, mark = list(sessions), self.store.log.mark()
        running = [session.run for session in sessions]
        with self.store.snapshot(late=True) as snap:
            agents = snap.declared
        readers = {
            session.run.id: session.reader(
                agents[session.run.agent].joined(session.run.project)
            )
            for session in sessions
            if session.run.agent in agents
        }
        ended, cursor = self._learn_ends(self._ends_known)
        stops = (
            [(run.id, reason) for run in running if (reason := self.runs.over(run))]
            if ended
            else []
        )
        news = self.ear.news(readers)
        self._looked, self._ends_known = (
            mark,
            cursor,
        )  # not before: what failed on the way is looked at again
        self._hold()
        return Heard(news, stops)

    def _hold(self) -> None:
        """Put on record what woke nobody, because its author had used up its wakes."""
        with contextlib.suppress(
            SynapseError
        ):  # the next look does it; what was heard must be told
            while self.ear.held:
                id = self.ear.held[-1]
                fields = {
                    "agent": OPERATOR,
                    "state": "held",
                    "ids": [id],
                    "how": "its author woke too often",
                }
                self.store.log.append(
                    Pending("delivery", OPERATOR, fields), once=f"held:{id}"
                )
                self.ear.held.pop()

    def delivered(
        self, session: Session, ids: list[str], state: str, offered: Mapping[str, int]
    ) -> None:
        run = session.run
        fields = {
            "agent": run.agent,
            "run": run.id,
            "epoch": run.epoch,
            "state": state,
            "ids": ids,
        }
        extra = {"offered": dict(offered)} if offered else {}
        self.seat(run).pen.write(Pending("delivery", run.agent, fields | extra))

    def wake_text(self, session: Session, news: list[News]) -> tuple[str, list[str]]:
        """Return what a session is told of the news, and the entries that stand in it whole."""
        reader = self.agent(session.run.agent).joined(session.run.project)
        entries, reach = (
            wake.standing(self.store, news, reader),
            prompt.Reach(tuple(session.first["tools"])),
        )
        commands = reach.follows_commands or not session.engine.takes_tools
        blocks = wake.blocks(entries, news, commands)
        rendered = [
            entry.id
            for entry, block in zip(entries, blocks, strict=True)
            if block.form != POINTER
        ]
        if not blocks:
            return "", []
        return prompt.wake(blocks, reader, self.secret, self.templates), rendered

    def results_text(
        self, reader: Run, results: list[Result], how: str = "unread"
    ) -> str:
        """Return what children left, as their parent is told. `how` names the template: `results`
        for one that waited, `unread` for one that would have ended, `blocked` for one at something
        else.
        """
        reports = [
            Report(
                result.run,
                self.known(result.run).agent,
                result.status,
                writeback.told(result),
                result.entry if result.status == "blocked" else None,
            )
            for result in results
        ]
        render = {
            "results": prompt.results,
            "unread": prompt.unread,
            "blocked": prompt.blocked,
        }[how]
        return render(reports, self.agent(reader.agent), self.secret, self.templates)

    def seen(self, runs: Iterable[str], entries: Sequence[str]) -> list[str]:
        """Return those of the entries that stood before one of these runs. An agent with a shell
        looks for itself: of its, all that it may see.
        """
        visible: set[str] = set()
        for run in map(self.known, runs):
            recorded = steps.read(self.folder(run).lines(STEPS))
            for step in recorded:
                visible.update(step.fields.get("ids", ()))
                if step.kind == "result":
                    visible.update(_ID.findall(step.fields["text"]))
            if "folder" in run.fields:
                visible.update(
                    id for id in entries if knowledge.sees(self.seat(run), id)
                )
        return [id for id in entries if id in visible]

    # -- ending ------------------------------------------------------------------------------------

    def failed(self, run: Run, error: Exception) -> Outcome:
        """Return the outcome of an error that no session expects: the operator's business. One that
        is nobody's word for it is kept whole. A lock that somebody has for too long is no outcome,
        and is raised again."""
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
        folder = self.folder(run).make()
        if self.known(run.id).epoch == run.epoch:
            folder.write(OUTPUT, outcome.text)
        lines = ledger.read(folder.lines(LEDGER))
        usage, cost = ledger.spent(lines)
        overhead = ledger.overhead(lines)
        notes = writeback.settle(run.id, run.project, outcome)
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
        if session is not None:
            fields["past"] = list(
                selection.past(
                    lines, steps.capsules(session.conversation, session.first["tools"])
                )[:4]
            )
            fields["uses"] = self._uses(session)
            fields |= (
                {"shares": shares} if (shares := session.conversation.shares) else {}
            )
        try:
            entry, untold = self.told(run, notes)
            entry, fields["why"] = (
                outcome.blocker or entry,
                "; ".join(filter(None, (outcome.why, untold))),
            )
            ended = self.runs.end(run, outcome.status, entry=entry, **fields)
        except Conflict as stale:
            self.costs.leave(run)
            why = f"another incarnation has taken it over: {stale}"
            return Result(
                "stopped", outcome.text, run.id, usage, cost, overhead, why=why
            )
        self.costs.leave(run)
        return result_of(run.id, ended.fields, outcome.text)

    def _uses(self, session: Session) -> dict[str, list[int]]:
        """Return how many of the entries that the prompt showed whole were used, kind by kind."""
        receipt, now = load(session.first["receipt"]), self.now()
        with self.store.snapshot(late=True) as snap:
            entries = [
                (why, snap.entry(id, now))
                for id, _, form, why in receipt.included
                if form != POINTER
            ]
        texts = [
            (why, entry.body) for why, entry in entries if entry is not None and why
        ]
        return selection.uses(texts, session.run.task.text, session.conversation.turns)

    def told(self, run: Run, notes: list[writeback.Note]) -> tuple[str | None, str]:
        """Write the entries, each once: the id of the last, and what kept one out."""
        id, seat = None, self.seat(run)
        for note in notes:
            once = f"{run.id}/{note.key}"
            try:
                id = seat.append(
                    note.body,
                    note.namespace,
                    priority=note.priority,
                    tags=note.tags,
                    evidence=note.evidence,
                    once=once,
                ).id
            except (InvalidEntry, Forbidden, QueueFull) as error:
                return id, f"no entry says so: {error}"
        return id, ""
