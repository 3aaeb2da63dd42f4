"""The turn loop of a session: prompt, reply, tool calls, news and results, until the run ends.

It records before it acts, looks for critical news before every turn. The supervisor starts it;
`model_calls` makes the calls of its model. Whatever touches the memory runs on the memory thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from orchestrator.engines.protocol import Broken, Call, ContextTooLong, EngineError, Request, Turn
from orchestrator.run_store.store import RunStore
from orchestrator.runs.files import steps
from orchestrator.runs.task import Outcome, Result
from orchestrator.sessions.config import Handler, ToolResult
from orchestrator.sessions.memory_thread import MemoryThread
from orchestrator.sessions.session import Session
from orchestrator.sessions.wake import LOOK_EVERY, NOW, answers, divided
from orchestrator.spend import segments
from orchestrator.spend.limits import LimitReached, Unpriced
from orchestrator.tools.functions import ToolEnded
from orchestrator.turns.model_calls import ModelCalls
from orchestrator.turns.telemetry import tool_span
from synapse.errors import SynapseError
from synapse.tools import blocker_of

REMINDERS = 2  # times that a parent is given the results which it left unread
ANSWERS = 3  # times that a blocked run goes on because it was answered
ANSWER_WITHIN = 300.0  # seconds that a blocked run waits for those above it
# times that a model is asked again after an empty reply, or one that was cut
SECOND_TRIES = 2
ANSWERED = "You said that you are blocked; this may be the answer. Try again."
RESOLVED = "What blocked you is resolved. Go on with your task."


class TurnLoop:
    """The turns of one session.

    `sessions` are all live ones, by their runs. `hear` brings news into their inboxes;
    `changed_files` is what is said of changes in the session's files, and what to record of that;
    `unread_results` waits for the session's children and returns what it has not read of them.
    """

    def __init__(
        self,
        session: Session,
        handlers: Mapping[str, Handler],
        run_store: RunStore,
        memory_thread: MemoryThread,
        sessions: Mapping[str, Session],
        hear: Callable[[], Awaitable[None]],
        changed_files: Callable[[Session], tuple[str, Mapping[str, Any]]],
        unread_results: Callable[[], Awaitable[list[Result]]],
    ) -> None:
        self.session = session
        self.handlers = handlers
        self.run_store = run_store
        self.memory_thread = memory_thread
        self.sessions = sessions
        self.hear = hear
        self.changed_files = changed_files
        self.unread_results = unread_results
        self._calls = ModelCalls(session, run_store, memory_thread)

    async def run(self) -> Outcome:
        """Take turns until the run ends, and return its outcome. A session that is cancelled
        without a reason can be continued.
        """
        limit = asyncio.timeout(self.session.config.seconds)
        self.session.task = asyncio.current_task()
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
            if self.session.stop_reason is None:
                raise
            if self.session.task is not None:
                self.session.task.uncancel()
            return self._cut("stopped", self.session.stop_reason, operational=True)
        except (LimitReached, Unpriced, EngineError) as error:
            return self._cut(*_ending(error))
        except ToolEnded as error:
            return self._cut("failed", str(error), operational=True)
        finally:
            self.session.task = None

    # -- what is due -------------------------------------------------------------------------------

    async def _next(self) -> Outcome | None:
        """Do what is due; the outcome when nothing is."""
        if self.session.stop_reason is not None:
            return self._cut("stopped", self.session.stop_reason, operational=True)
        conversation = self.session.conversation
        if conversation.pending:
            for call in conversation.pending:
                if self.session.stop_reason is None:
                    await self._answer(call, call.id in conversation.in_flight)
        elif conversation.last == "turn":
            return await self._after_reply(conversation.turns[-1])
        else:
            self.session.interrupt.clear()
            await self.hear()
            await self._send_changes()
            await self._send_news()
            await self._send_blocked_children()
            if self.session.stop_reason is None:
                await self._calls.take_turn(self._request())
                await self._acknowledge()
        return None

    async def _after_reply(self, turn: Turn) -> Outcome | None:
        """Return the outcome after a reply that calls no tool; None where the run goes on."""
        if turn.stop == "refusal":
            return self._cut(
                "refused", f"the model refused: {turn.text or 'it gave no reason'}"[:500]
            )
        await self.hear()
        if answered := self.session.conversation.answered:
            await self._send_news("answer", answered=answered)
            return None
        if self.session.due:
            await self._send_news()
            return None
        if turn.stop == "interrupted":
            await self._add_message(
                "You were interrupted. Go on with your task.", "retry", "interrupted"
            )
            return None
        if turn.stop in ("empty", "length"):
            return await self._ask_again(turn)
        if await self._send_results():
            return None
        outcome = await self._outcome(turn)
        if outcome.status == "blocked":
            entries = (outcome.blocker,) if outcome.blocker else ()
            self.session.events.emit(self.session.run, "blocked", outcome.why, entries=entries)
        if outcome.status == "blocked" and not outcome.debt and not outcome.below:
            return await self._after_blocker(outcome)
        if outcome.status == "done" and self.session.conversation.reported:
            await self.memory_thread(
                self.run_store.blockers.settle, self.session.run, self.session.conversation.reported
            )
        return outcome

    async def _after_blocker(self, outcome: Outcome) -> Outcome | None:
        """Report what blocks it, and wait while somebody may answer; None where it goes on."""
        answered = self.session.conversation.message_counts.get("answered", 0)
        if answered >= ANSWERS or not self._coordinators():
            return outcome
        if outcome.blocker is None:
            id = await self.memory_thread(
                self.run_store.blockers.report, self.session.run, outcome, self._number(answered)
            )
            outcome = outcome._replace(blocker=id)
        if outcome.blocker is None:
            return outcome
        self.session.seen.add(outcome.blocker)
        self.session.closing = True
        goes_on = await self._wait_for_answer(outcome.why, outcome.blocker)
        self.session.closing = False
        if goes_on:
            await self._send_news("answered", reported=[outcome.blocker])
            return None
        return outcome

    def _coordinators(self) -> list[Session]:
        """Return the other sessions here that give out work, and so may answer."""
        candidates = (session for session in self.sessions.values() if session is not self.session)
        return [
            session for session in candidates if session.run.fields["role"] in segments.COORDINATORS
        ]

    async def _wait_for_answer(self, question: str, blocker: str) -> bool:
        """Return whether news came that answers, within the time and as long as somebody may."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN):
                while self.session.stop_reason is None:
                    self.session.changed.clear()
                    await self.hear()
                    for id, news in self.session.inbox.items():
                        if answers(news, question, blocker):
                            # it is told, whatever else there is
                            self.session.inbox[id] = news._replace(tier=NOW)
                            return True
                    if not await self.memory_thread(self.run_store.blockers.stands, blocker):
                        return True
                    informed = (
                        session for session in self._coordinators() if blocker in session.seen
                    )
                    if not any(
                        session.due or not session.waiting
                        for session in informed
                        if not session.closing
                    ):
                        return False
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.session.changed.wait(), LOOK_EVERY)
        return False

    async def _ask_again(self, turn: Turn) -> Outcome | None:
        """Ask again after an empty reply or one that was cut; return the outcome after too many."""
        if self.session.conversation.message_counts.get(turn.stop, 0) >= SECOND_TRIES:
            why = (
                "the model replied with nothing"
                if turn.stop == "empty"
                else "its reply was cut at its limit"
            )
            return self._cut("failed", f"{why}, {SECOND_TRIES + 1} times")
        ask = {
            "empty": "Your reply was empty. Say what came of your task, or go on with it.",
            "length": (
                "Your reply was cut at the limit of one message. Go on where it stopped; be brief."
            ),
        }
        await self._add_message(ask[turn.stop], "retry", turn.stop)
        return None

    async def _outcome(self, turn: Turn) -> Outcome:
        """Return how it ended, by what was recorded: a blocker that it reported, results that
        nobody read, a blocker below it that stands, or all is well."""
        reported = (turn.blocked and (blocker_of(turn.blocked) or turn.blocked)) or blocker_of(
            turn.text
        )
        own, tools = self.session.conversation.blockers, self.session.engine.takes_tools
        blocker = await self.memory_thread(
            self.run_store.blockers.standing, self.session.run, own, tools
        )
        if reported or blocker:
            return Outcome("blocked", turn.text, reported or "it reported a blocker", blocker)
        unread = await self._unread()
        if unread:
            debt = tuple(result.run for result in unread)
            return Outcome(
                "blocked", turn.text, f"it left results unread: {', '.join(debt)}", debt=debt
            )
        blocked_runs = await self.memory_thread(self.run_store.blockers.below, self.session.run)
        if blocked_runs:
            labels = ", ".join(f"{run} ({entry})" if entry else run for run, entry in blocked_runs)
            why = f"work that it gave out is blocked, and nobody has settled it: {labels}"
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
        texts = [turn.text for turn in self.session.conversation.turns if turn.text]
        return Outcome(status, texts[-1] if texts else "", why, operational=operational)

    # -- a turn ------------------------------------------------------------------------------------

    def _request(self) -> Request:
        conversation = self.session.conversation
        return Request(
            system=conversation.system,
            messages=conversation.messages,
            tools=tuple(handler.tool for handler in self.offered())
            if self.session.engine.takes_tools
            else (),
            model=self.session.config.model,
            max_tokens=self.session.config.max_output,
            key=f"{self.session.run.id}/{conversation.recorded}",
            session=conversation.session,
            place=self.session.config.place,
        )

    # -- messages to its model ---------------------------------------------------------------------

    async def _send_news(self, why: str = "wake", **about: Any) -> None:
        """Put what came and concerns it into the next prompt, all at once."""
        news, later = divided(
            self.session.inbox.values(), self.session.topics(), self.session.conversation.messages
        )
        self.session.inbox = {news_item.entry.id: news_item for news_item in later}
        if not news:
            if about:
                text = await self._resolved(about.get("answered", ()))
                await self._add_message(text, "wake", why, **about)
            return
        text, ids = await self.memory_thread(
            self.run_store.deliveries.wake_text, self.session, news
        )
        if not text:
            return  # none of it stands any more
        text = f"{ANSWERED}\n{text}" if why in ("answered", "answer") else text
        pointed = [item.entry.id for item in news if item.entry.id not in ids]
        await self._add_message(
            text, "wake", why, ids=ids, **({"pointed": pointed} if pointed else {}), **about
        )
        offered = {item.entry.id: item.offered for item in news if item.entry.id in ids}
        await self.memory_thread(
            self.run_store.deliveries.delivered, self.session, ids, "rendered", offered
        )
        self.session.rendered.append((len(self.session.conversation.turns), ids))

    async def _send_changes(self) -> None:
        """Tell it what others changed in the files that it has seen."""
        files = self.session.files
        if files.files or files.untold:
            text, fields = await self.memory_thread(self.changed_files, self.session)
            if text:
                await self._add_message(text, "wake", "changed", **fields)

    def _number(self, answered: int) -> str:
        """Return what tells this blocker from the earlier ones of the run."""
        times = self.session.run.fields.get("answers")
        return f"/{times}/{answered}" if times else str(answered)

    async def _resolved(self, entries: Iterable[str]) -> str:
        """Return what a run is told of which nothing more is known than that it is not blocked any
        more, with what the operator noted about that."""
        notes = [await self.memory_thread(self.run_store.blockers.note, id) for id in entries]
        said = [f"The operator notes: {note}" for note in notes if note]
        return "\n".join([RESOLVED, *said])

    async def _acknowledge(self) -> None:
        """Mark entries as acknowledged one turn after the turn in which they were rendered."""
        turns = len(self.session.conversation.turns)
        read_ids = [id for at, ids in self.session.rendered if turns >= at + 2 for id in ids]
        if read_ids:
            self.session.rendered = [
                (at, ids) for at, ids in self.session.rendered if turns < at + 2
            ]
            await self.memory_thread(
                self.run_store.deliveries.delivered, self.session, read_ids, "acked", {}
            )

    async def _unread(self) -> list[Result]:
        """Return the results of its children that it has not read, once all have ended."""
        self.session.closing = True
        unread = await self.unread_results()
        self.session.closing = False
        return unread

    async def _send_results(self) -> bool:
        """Give it the results of its children that it has not read, twice at most."""
        unread = await self._unread()
        if not unread or self.session.conversation.message_counts.get("unread", 0) >= REMINDERS:
            return False
        read = [result.run for result in unread]
        await self._add_message(
            await self.memory_thread(self.run_store.results_text, self.session.run, unread),
            "plan",
            "unread",
            read=read,
        )
        return True

    async def _send_blocked_children(self) -> None:
        """Give it the results of children that ended blocked while it was at something else. One
        whose entry it was shown needs no telling here: it gets that result when it waits."""
        ended, self.session.blocked_children = self.session.blocked_children, []
        new = [
            result
            for result in ended
            if result.run not in self.session.conversation.read
            and result.entry not in self.session.seen
        ]
        if new:
            text = await self.memory_thread(
                self.run_store.results_text, self.session.run, new, "blocked"
            )
            await self._add_message(text, "plan", "blocked", read=[result.run for result in new])

    async def _add_message(self, text: str, label: str, why: str, **about: Any) -> None:
        fields = steps.message(text, label, why, **about)
        await self.memory_thread(self.session.record, "message", fields)

    def offered(self) -> list[Handler]:
        """Return the tools that the model is told of."""
        return [handler for handler in self.handlers.values() if handler.offered]

    # -- calls -------------------------------------------------------------------------------------

    async def _answer(self, call: Call, begun: bool) -> None:
        """Carry out a call, or say why not; one that was in flight at a crash only if that does no
        harm. What fails because another incarnation goes on with the run is no result: that one
        may yet have to read the steps, and is to make the call itself.
        """
        handler = self.handlers.get(call.name)
        if handler is None:
            names = ", ".join(handler.tool.name for handler in self.offered()) or "none"
            result = ToolResult(f"Error: there is no tool {call.name}; yours: {names}", failed=True)
        elif call.problem:
            result = ToolResult(f"Error: the arguments cannot be read: {call.problem}", failed=True)
        elif begun and not handler.repeatable:
            text = (
                "Error: the process died while this was being carried out. Whether it"
                " took effect is not known;"
            )
            result = ToolResult(f"{text} it was not repeated.", failed=True)
        else:
            if not handler.repeatable:
                await self.memory_thread(self.session.record, "call", {"call": call.id}, True)
                # who took over before that is heard of now; who does from now on reads it
                await self.hear()
            result = await self._carry_out(handler, call)
            if result.failed:
                over = await self.memory_thread(self.run_store.runs.over, self.session.run)
                if over is not None:
                    self.session.stop(over)
                    return
        label = result.label or segments.tool_label(call.name)
        fields = steps.result(call, result.text, label, result.failed, **result.about)
        await self.memory_thread(self.session.record, "result", fields, True)
        for id in result.about.get("ids", ()):
            self.session.seen.add(id)
            self.session.inbox.pop(id, None)  # it came while the call waited for it

    async def _carry_out(self, handler: Handler, call: Call) -> ToolResult:
        key = f"{self.session.run.id}/{len(self.session.conversation.turns)}/{call.id}"
        try:
            with tool_span(self.session.run.id, self.session.run.agent, call.name, call.id):
                return await handler.call(call, key)
        except SynapseError as error:
            return ToolResult(f"Error: {error}", failed=True)


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
