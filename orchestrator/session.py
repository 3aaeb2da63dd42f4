"""A session: one incarnation of a run, turn after turn. What is due next follows from the recorded
conversation alone, so that another process can go on where this one ended.

It records before it acts, hears what is critical before every turn, and asks for every token before
it is spent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from orchestrator.engines.protocol import (
    Broken,
    Call,
    ContextTooLong,
    Engine,
    EngineError,
    Request,
    Turn,
    Usage,
    taken_by,
)
from orchestrator.memory_thread import MemoryThread
from orchestrator.runs import steps
from orchestrator.runs.blockers import Blockers
from orchestrator.runs.folder import LEDGER, STEPS, Folder
from orchestrator.runs.ledger import Line, Segment, dump
from orchestrator.runs.records import Run
from orchestrator.runs.task import Outcome, Result
from orchestrator.session_config import Handler, SessionConfig, ToolResult
from orchestrator.spend import segments
from orchestrator.spend.limits import LimitReached, Unpriced
from orchestrator.telemetry import step_span, tool_span
from orchestrator.wake import BESIDE, LOOK_EVERY, NOW, News, Reader, answers, divided
from synapse.errors import SynapseError
from synapse.model.agents import Agent
from synapse.tools import blocker_of

REMINDERS = 2  # times that a parent is given the results which it left unread
ANSWERS = 3  # times that a blocked run goes on because it was answered
ANSWER_WITHIN = 300.0  # seconds that a blocked run waits for those above it
# times that a model is asked again after an empty reply, or one that was cut
SECOND_TRIES = 2
ANSWERED = "You said that you are blocked; this may be the answer. Try again."
RESOLVED = "What blocked you is resolved. Go on with your task."
Sent = tuple[Segment, ...]


class Ground(Protocol):
    """What a session asks of its supervisor, on the event loop."""

    desk: MemoryThread
    sessions: dict[str, Session]

    async def hear(self) -> None: ...

    async def ended_children(self, run: str, read: frozenset[str]) -> list[Result]: ...


class RunStore(Protocol):
    """What it asks of the supervisor's books. All of it may touch the disk: `Ground.desk` takes it
    there.
    """

    blockers: Blockers

    def reserve(self, session: Session, tokens: int) -> Any: ...

    def note_shown(self, run: Run, first: Mapping[str, Any]) -> None: ...

    def settle(
        self, session: Session, reservation: Any, turn: Turn | None, counted: int
    ) -> float | None: ...

    def delivered(
        self, session: Session, ids: list[str], state: str, offered: Mapping[str, int]
    ) -> None: ...

    def wake_text(
        self, session: Session, news: list[News]
    ) -> tuple[str, list[str]]: ...

    def results_text(
        self, reader: Run, results: list[Result], how: str = ...
    ) -> str: ...


class Session:
    """A run that is being lived. `seen` holds the entries that its prompt showed."""

    def __init__(
        self,
        ground: Ground,
        run_store: RunStore,
        run: Run,
        engine: Engine,
        handlers: Mapping[str, Handler],
        folder: Folder,
        terms: SessionConfig,
        recorded: list[steps.Step],
    ) -> None:
        self.ground, self.run_store, self.run, self.engine = (
            ground,
            run_store,
            run,
            engine,
        )
        self.handlers, self.folder, self.terms = handlers, folder, terms
        self.inbox: dict[str, News] = {}
        self.interrupt = asyncio.Event()
        self.ended = (
            asyncio.Event()
        )  # a child has, or something was heard: who waits looks again
        self.waits = False  # for its children, until there is news
        self.at: dict[str, str] = {}  # the words of the shared calls that it is at
        self.closes = False  # has done all it will, and waits for its children's end
        self.stop_reason: str | None = None
        self._living: asyncio.Task[Any] | None = None
        self._blocked: list[
            Result
        ] = []  # what its children left that ended blocked, until it is told
        self.first = recorded[0].fields  # what its prompt was made of
        self._adding = steps.Adding()
        self._bill = segments.Sheet(terms.counter.count, self.first.get("guide", 0))
        self._rendered: list[
            tuple[int, list[str]]
        ] = []  # (turns so far, entries told of before the next)
        for step in recorded:
            self._adding.take(step)
            if ids := step.kind == "message" and step.fields.get("ids"):
                self._rendered.append((len(self._adding.turns), list(ids)))
        self.conversation = self._adding.sum()
        self.seen = {
            *self.first["ids"],
            *self.conversation.heard,
            *self.conversation.pointed,
        }

    # -- from outside ------------------------------------------------------------------------------

    def offer(self, news: News) -> None:
        """Put news into its next prompt; in mid-turn where it wakes the agent and the engine can be
        interrupted."""
        if news.entry.id not in self.seen:
            self.seen.add(news.entry.id)
            self.inbox[news.entry.id] = news
            if news.tier != BESIDE:
                self.ended.set()
            if news.tier == NOW and self.engine.interrupt == "now":
                self.interrupt.set()

    @property
    def due(self) -> bool:
        """Return whether there is news that is worth a turn of its own."""
        return any(news.tier != BESIDE for news in self.inbox.values())

    def reader(self, agent: Agent) -> Reader:
        """Return what decides whether news concerns this session. Who gives out work is told what
        comes of it as results, and of the rest what wakes it, is addressed to it or replaces
        something that it was shown."""
        if not self.first.get("news", True):
            return Reader(agent, woken=True)
        if self.run.fields["role"] in segments.COORDINATORS:
            return Reader(agent, (), self.seen, self.first["cursor"])
        return Reader(agent, self._about(), self.seen, self.first["cursor"])

    def _about(self) -> tuple[str, ...]:
        """Return what it works at: its task, and the work that it or its supervisor claimed for
        it.
        """
        calls = (
            call
            for turn in self.conversation.turns
            for call in turn.calls
            if call.name == "claim"
        )
        claims = (str(call.arguments.get("work", "")) for call in calls)
        return (self.run.task.text, *dict.fromkeys((*claims, *self.at.values())))

    def child_blocked(self, result: Result) -> None:
        """Tell it of a child that ended blocked, before its next turn, unless it has heard of it by
        then."""
        self._blocked.append(result)

    def stop(self, reason: str) -> None:
        """End it as soon as may be; what is known so far is its outcome."""
        if self.stop_reason is None:
            self.stop_reason = reason
            if self._living is not None and self._living is not asyncio.current_task():
                self._living.cancel()

    async def live(self) -> Outcome:
        """Take turns until the run ends, and return its outcome. A session that is cancelled
        without a reason can be continued.
        """
        limit, self._living = (
            asyncio.timeout(self.terms.seconds),
            asyncio.current_task(),
        )
        try:
            async with limit:
                while True:
                    outcome = await self._next()
                    if outcome is not None:
                        return outcome
        except TimeoutError:
            if not limit.expired():
                raise
            return self._cut("timeout", "its time was up")
        except asyncio.CancelledError:
            if self.stop_reason is None:
                raise
            if self._living is not None:
                self._living.uncancel()
            return self._cut("stopped", self.stop_reason, operational=True)
        except (LimitReached, Unpriced, EngineError) as error:
            return self._cut(*_ending(error))
        finally:
            self._living = None

    # -- what is due -------------------------------------------------------------------------------

    async def _next(self) -> Outcome | None:
        """Do what is due; the outcome when nothing is."""
        if self.stop_reason is not None:
            return self._cut("stopped", self.stop_reason, operational=True)
        conversation = self.conversation
        if conversation.pending:
            for call in conversation.pending:
                await self._answer(call, call.id in conversation.begun)
        elif conversation.last == "turn":
            return await self._concluded(conversation.turns[-1])
        else:
            await self._take_turn()
        return None

    async def _concluded(self, turn: Turn) -> Outcome | None:
        """Return the outcome after a reply that calls no tool; None where the run goes on."""
        if turn.stop == "refusal":
            return self._cut(
                "refused",
                f"the model refused: {turn.text or 'it gave no reason'}"[:500],
            )
        await self.ground.hear()
        if self.due:
            await self._told_news()
            return None
        if turn.stop == "interrupted":
            await self._say(
                "You were interrupted. Go on with your task.", "retry", "interrupted"
            )
            return None
        if turn.stop in ("empty", "length"):
            return await self._second_try(turn)
        if await self._told_results():
            return None
        outcome = await self._outcome(turn)
        if outcome.status == "blocked" and not outcome.debt and not outcome.below:
            return await self._unanswered(outcome)
        if outcome.status == "done" and self.conversation.reported:
            await self.ground.desk(
                self.run_store.blockers.settle, self.run, self.conversation.reported
            )
        return outcome

    async def _unanswered(self, outcome: Outcome) -> Outcome | None:
        """Report what blocks it, and wait while somebody may answer; None where it goes on."""
        answered = self.conversation.said.get("answered", 0)
        if answered >= ANSWERS or not self._coordinators():
            return outcome
        if outcome.blocker is None:
            id = await self.ground.desk(
                self.run_store.blockers.report, self.run, outcome, answered
            )
            outcome = outcome._replace(blocker=id)
        if outcome.blocker is None:
            return outcome
        self.seen.add(outcome.blocker)
        self.closes = True
        goes_on = await self._is_answered(outcome.why, outcome.blocker)
        self.closes = False
        if goes_on:
            await self._told_news("answered", reported=[outcome.blocker])
            return None
        return outcome

    def _coordinators(self) -> list[Session]:
        """Return the other sessions here that give out work, and so may answer."""
        candidates = (
            session for session in self.ground.sessions.values() if session is not self
        )
        return [
            session
            for session in candidates
            if session.run.fields["role"] in segments.COORDINATORS
        ]

    def _has_help(self, blocker: str) -> bool:
        """Return whether one who was told of the blocker is at work or will be, and so may
        answer.
        """
        informed = (
            session for session in self._coordinators() if blocker in session.seen
        )
        return any(
            session.due or not session.waits
            for session in informed
            if not session.closes
        )

    async def _is_answered(self, question: str, blocker: str) -> bool:
        """Return whether news came that answers, within the time and as long as somebody may."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN):
                while self.stop_reason is None:
                    self.ended.clear()
                    await self.ground.hear()
                    for id, news in self.inbox.items():
                        if answers(news, question, blocker):
                            self.inbox[id] = news._replace(
                                tier=NOW
                            )  # it is told, whatever else there is
                            return True
                    if not await self.ground.desk(
                        self.run_store.blockers.stands, blocker
                    ):
                        return True
                    if not self._has_help(blocker):
                        return False
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.ended.wait(), LOOK_EVERY)
        return False

    async def _second_try(self, turn: Turn) -> Outcome | None:
        """Ask again after an empty reply or one that was cut; return the outcome after too many."""
        if self.conversation.said.get(turn.stop, 0) >= SECOND_TRIES:
            why = (
                "the model replied with nothing"
                if turn.stop == "empty"
                else "its reply was cut at its limit"
            )
            return self._cut("failed", f"{why}, {SECOND_TRIES + 1} times")
        ask = {
            "empty": "Your reply was empty. Say what came of your task, or go on with it.",
            "length": (
                "Your reply was cut at the limit of one message. Go on where it stopped;"
                " be brief."
            ),
        }
        await self._say(ask[turn.stop], "retry", turn.stop)
        return None

    async def _outcome(self, turn: Turn) -> Outcome:
        """Return how it ended, by what was recorded: a blocker that it reported, results that
        nobody read, a blocker below it that stands, or all is well."""
        reported = (
            turn.blocked and (blocker_of(turn.blocked) or turn.blocked)
        ) or blocker_of(turn.text)
        own, tools = self.conversation.blockers, self.engine.takes_tools
        blocker = await self.ground.desk(
            self.run_store.blockers.standing, self.run, own, tools
        )
        if reported or blocker:
            return Outcome(
                "blocked", turn.text, reported or "it reported a blocker", blocker
            )
        unread = await self._unread()
        if unread:
            debt = tuple(result.run for result in unread)
            return Outcome(
                "blocked",
                turn.text,
                f"it left results unread: {', '.join(debt)}",
                debt=debt,
            )
        blocked_runs = await self.ground.desk(self.run_store.blockers.below, self.run)
        if blocked_runs:
            labels = ", ".join(
                f"{run} ({entry})" if entry else run for run, entry in blocked_runs
            )
            why = (
                f"work that it gave out is blocked, and nobody has settled it: {labels}"
            )
            return Outcome(
                "blocked",
                turn.text,
                why,
                blocked_runs[0][1],
                below=tuple(run for run, _ in blocked_runs),
            )
        return Outcome("done", turn.text)

    def _cut(self, status: str, why: str, operational: bool = False) -> Outcome:
        """Return the outcome of a run that ended in the middle, with what is known so far."""
        texts = [turn.text for turn in self.conversation.turns if turn.text]
        return Outcome(status, texts[-1] if texts else "", why, operational=operational)

    # -- a turn ------------------------------------------------------------------------------------

    async def _take_turn(self) -> None:
        self.interrupt.clear()
        await self.ground.hear()
        await self._told_news()
        await self._told_blocked()
        if self.stop_reason is not None:
            return
        request = self._request()
        sent = self._bill.sent(request, self.conversation.sent)
        if not self.terms.resumes and self.conversation.turns:
            sent = segments.begun_again(sent)
        counted = sum(segment.tokens for segment in sent)
        weight = await self._weight(request, counted)
        reservation = await self.ground.desk(self.run_store.reserve, self, weight)
        noted = (
            None
            if self.conversation.turns
            else self.ground.desk.aside(self.run_store.note_shown, self.run, self.first)
        )
        try:
            turn = await self._stepped(request)
        except BaseException as error:
            lost = (
                weight if isinstance(error, asyncio.CancelledError) else taken_by(error)
            )
            await self.ground.desk.through(
                self.ground.desk(self._lose, sent, reservation, lost)
            )
            if isinstance(error, ContextTooLong):
                raise ContextTooLong(
                    f"its conversation no longer fits the model: {error}"
                ) from error
            raise
        await self.ground.desk.through(
            self.ground.desk(self._keep, turn, sent, reservation, counted)
        )
        if noted is not None:
            await noted
        await self._acknowledge()

    async def _weight(self, request: Request, counted: int) -> int:
        """Return the tokens of a request as its provider counts them: by its own count where a
        limit depends on it and it gives one, else by ours, scaled by earlier differences.
        """
        theirs = None
        if self.terms.bounded:
            with contextlib.suppress(EngineError):
                theirs = await self.engine.count(request)
        return self.terms.counter.theirs(counted) if theirs is None else theirs

    async def _stepped(self, request: Request) -> Turn:
        run, provider = self.run, self.engine.name
        with step_span(
            run.id,
            run.agent,
            self.conversation.next,
            provider=provider,
            model=request.model,
        ) as span:
            turn = await self.engine.step(request, self.interrupt)
            span.used(turn.usage)
            return turn

    def _request(self) -> Request:
        conversation = self.conversation
        return Request(
            system=conversation.system,
            messages=conversation.messages,
            tools=tuple(handler.tool for handler in self.offered())
            if self.engine.takes_tools
            else (),
            model=self.terms.model,
            max_tokens=self.terms.max_output,
            key=f"{self.run.id}/{conversation.next}",
            session=conversation.session,
            place=self.terms.place,
        )

    def _keep(self, turn: Turn, sent: Sent, reservation: Any, counted: int) -> None:
        """Record what was paid for, before anything is done with it."""
        cost = self.run_store.settle(self, reservation, turn, counted)
        sent = segments.begun_again(sent) if turn.anew else sent
        got = segments.got(turn, self.terms.label, self.terms.counter.count)
        usage = None if turn.usage.estimated else turn.usage
        line = dump(self._line(sent, got, usage, cost, turn.stop, turn.model))
        self._record("turn", steps.turn(turn, self.terms.label, line), sync=True)
        self.folder.record(LEDGER, line, sync=False)

    def _lose(self, sent: Sent, reservation: Any, lost: int) -> None:
        """Book the usage of a call that failed, in the budget and in the ledger."""
        self.run_store.settle(self, reservation, None, lost)
        if lost:
            usage = Usage(lost, estimated=True)
            self.folder.record(
                LEDGER,
                dump(self._line(sent, (), usage, None, "lost", None)),
                sync=False,
            )

    def _line(
        self,
        sent: Sent,
        got: Sent,
        usage: Usage | None,
        cost: float | None,
        stop: str,
        model: str | None,
    ) -> Line:
        terms, run = self.terms, self.run
        who = (
            run.id,
            self.conversation.next,
            run.agent,
            model or terms.model or self.engine.name,
        )
        return Line(
            *who,
            terms.counter.encoding,
            terms.counter.counting,
            sent,
            got,
            usage,
            cost,
            stop,
        )

    # -- what it is told ---------------------------------------------------------------------------

    async def _told_news(self, why: str = "wake", **about: Any) -> None:
        """Put what came and concerns it into the next prompt, all at once."""
        news, later = divided(
            self.inbox.values(), self._about(), self.conversation.messages
        )
        self.inbox = {news_item.entry.id: news_item for news_item in later}
        if not news:
            if about:
                await self._say(RESOLVED, "wake", why, **about)
            return
        text, ids = await self.ground.desk(self.run_store.wake_text, self, news)
        if not text:
            return  # none of it stands any more
        text = f"{ANSWERED}\n{text}" if why == "answered" else text
        pointed = [item.entry.id for item in news if item.entry.id not in ids]
        await self._say(
            text,
            "wake",
            why,
            ids=ids,
            **({"pointed": pointed} if pointed else {}),
            **about,
        )
        offered = {item.entry.id: item.offered for item in news if item.entry.id in ids}
        await self.ground.desk(self.run_store.delivered, self, ids, "rendered", offered)
        self._rendered.append((len(self.conversation.turns), ids))

    async def _acknowledge(self) -> None:
        """Mark entries as acknowledged one turn after the turn in which they were rendered."""
        turns = len(self.conversation.turns)
        read_ids = [id for at, ids in self._rendered if turns >= at + 2 for id in ids]
        if read_ids:
            self._rendered = [(at, ids) for at, ids in self._rendered if turns < at + 2]
            await self.ground.desk(
                self.run_store.delivered, self, read_ids, "acked", {}
            )

    async def _unread(self) -> list[Result]:
        """Return the results of its children that it has not read, once all have ended."""
        self.closes = True
        unread = await self.ground.ended_children(self.run.id, self.conversation.read)
        self.closes = False
        return unread

    async def _told_results(self) -> bool:
        """Give it the results of its children that it has not read, twice at most."""
        unread = await self._unread()
        if not unread or self.conversation.said.get("unread", 0) >= REMINDERS:
            return False
        read = [result.run for result in unread]
        await self._say(
            await self.ground.desk(self.run_store.results_text, self.run, unread),
            "plan",
            "unread",
            read=read,
        )
        return True

    async def _told_blocked(self) -> None:
        """Give it the results of children that ended blocked while it was at something else. One
        whose entry it was shown needs no telling here: it gets that result when it waits."""
        ended, self._blocked = self._blocked, []
        new = [
            result
            for result in ended
            if result.run not in self.conversation.read
            and result.entry not in self.seen
        ]
        if new:
            text = await self.ground.desk(
                self.run_store.results_text, self.run, new, "blocked"
            )
            await self._say(
                text, "plan", "blocked", read=[result.run for result in new]
            )

    async def _say(self, text: str, label: str, why: str, **about: Any) -> None:
        fields = steps.message(text, label, why, **about)
        await self.ground.desk(self._record, "message", fields)

    def offered(self) -> list[Handler]:
        """Return the tools that the model is told of."""
        return [handler for handler in self.handlers.values() if handler.offered]

    # -- calls -------------------------------------------------------------------------------------

    async def _answer(self, call: Call, begun: bool) -> None:
        """Carry out a call, or say why not; one that was in flight at a crash only if that does no
        harm.
        """
        handler = self.handlers.get(call.name)
        if handler is None:
            names = ", ".join(handler.tool.name for handler in self.offered()) or "none"
            result = ToolResult(
                f"Error: there is no tool {call.name}; yours: {names}", failed=True
            )
        elif call.problem:
            result = ToolResult(
                f"Error: the arguments cannot be read: {call.problem}", failed=True
            )
        elif begun and not handler.repeatable:
            text = (
                "Error: the process died while this was being carried out. Whether it"
                " took effect is not known;"
            )
            result = ToolResult(f"{text} it was not repeated.", failed=True)
        else:
            if not handler.repeatable:
                await self.ground.desk(self._record, "call", {"call": call.id}, True)
                # who took over before that is heard of now; who does from now on reads it
                await self.ground.hear()
            result = await self._carried_out(handler, call)
        label = result.label or segments.tool_label(call.name)
        fields = steps.result(call, result.text, label, result.failed, **result.about)
        await self.ground.desk(self._record, "result", fields, True)
        for id in result.about.get("ids", ()):
            self.seen.add(id)
            self.inbox.pop(id, None)  # it came while the call waited for it

    async def _carried_out(self, handler: Handler, call: Call) -> ToolResult:
        key = f"{self.run.id}/{len(self.conversation.turns)}/{call.id}"
        try:
            with tool_span(self.run.id, self.run.agent, call.name, call.id):
                return await handler.call(call, key)
        except SynapseError as error:
            return ToolResult(f"Error: {error}", failed=True)

    # -- the record --------------------------------------------------------------------------------

    def _record(self, kind: str, fields: Mapping[str, Any], sync: bool = False) -> None:
        step = steps.Step(self.conversation.next, self.run.epoch, kind, fields)
        self.folder.record(STEPS, steps.dump(step), sync=sync)
        self._adding.take(step)
        self.conversation = self._adding.sum()


def _ending(error: SynapseError | EngineError) -> tuple[str, str, bool]:
    """Return the status and the reason that an error in the middle comes to, and whether it is
    operational. Of those of an engine, two are about the work: it is too long for the model, and
    the client's process broke off."""
    if isinstance(error, LimitReached):
        return "stopped", str(error), True
    if isinstance(error, Unpriced):
        return "refused", str(error), True
    return (
        "failed",
        f"{type(error).__name__}: {error}",
        not isinstance(error, ContextTooLong | Broken),
    )
