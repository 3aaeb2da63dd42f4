"""The answers to the events of a client's session: the one policy, whatever the client.

A start gets the view; a turn gets the news, and what the words of its prompt find; a call gets the
entries that are for it; the end of a call gets what came meanwhile; the end of a conversation
writes what it leaves. Knows no client's JSON. Called by `answer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from orchestrator.files.changes import Changes
from orchestrator.plugin.facts import Facts
from orchestrator.plugin.facts.event import NOTHING, Event, Reply
from orchestrator.plugin.hooks.call_checks import ACTS, CallChecks
from orchestrator.plugin.hooks.context import Context
from orchestrator.plugin.hooks.reads import note_again, unchanged_files
from orchestrator.plugin.hooks.supervised import respond_to_run
from orchestrator.plugin.sessions import spawns, state
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.settings import clients
from orchestrator.plugin.sessions.state import MAIN, ClientSession, Worker
from orchestrator.plugin.sessions.sweep import end_emptied, sweep
from orchestrator.plugin.transcripts.transcript import child_transcript, last_message
from orchestrator.runs.files.lease import client_holder
from orchestrator.runs.task import Outcome
from orchestrator.sessions.wake import BESIDE
from synapse.core import Memory


def respond(memory: Memory, facts: Facts, event: Event) -> tuple[Reply, str]:
    """Return the reply to an event, and the text of the second hook of a start."""
    memory.store.refresh()
    if event.run:
        return respond_to_run(memory, facts, event), ""
    notice = memory.store.foreign_notice if event.name == "start" else ""
    if memory.store.readonly:
        return _reply_readonly(memory, facts, event)._replace(notice=notice), ""
    if event.name == "start":
        if sweep(memory):
            memory.store.refresh()  # one of them may be this session's own
        state.remove_stale(memory.store.root or "")
    with state.hold_session(memory.store.root or "", event.client, event.session) as session:
        session.cwd = event.cwd or session.cwd
        session.fired[event.hook] = time.time()
        reply, second_text = _Answer(memory, facts, event, session).reply()
    return reply._replace(notice=notice), second_text


def _reply_readonly(memory: Memory, facts: Facts, event: Event) -> Reply:
    """Return the view alone, where nothing can be written: no run begins, and nothing is
    remembered.
    """
    if event.name not in ("start", "agent-start"):
        return NOTHING
    client_runs = ClientRuns(memory, ClientSession(event.client, event.session))
    settings = clients(dict(memory.store.settings.other))
    kind = None if event.name == "start" else event.type or ""
    agent = memory.store.agents.all().get(settings.agent_of(kind, memory.store.agents.all()))
    if agent is None:
        return NOTHING
    cap = facts.events[event.hook].cap
    opening = Context(client_runs, facts.length).opening(
        agent, memory.as_agent(agent.id), event.prompt, cap, (), 1
    )
    return Reply(context=opening.parts[0] if opening.parts else "")


class _Answer:
    """Answers one event of one session, while its state is held."""

    def __init__(self, memory: Memory, facts: Facts, event: Event, session: ClientSession) -> None:
        self.facts, self.event, self.session = facts, event, session
        self.event_facts = facts.events[event.hook]
        self.workers = ClientRuns(memory, session)
        self.context = Context(self.workers, facts.length)
        self.changes: Changes[Worker] = Changes(self.workers)
        self.checks = CallChecks(self.workers, self.context, self.changes)
        self.second_text = ""

    def reply(self) -> tuple[Reply, str]:
        """Return the reply, and the text of a second hook."""
        answers: Mapping[str, Callable[[], Reply]] = {
            "start": self._start,
            "prompt": self._prompt,
            "woken": self._woken,
            "before": self._before,
            "after": self._after,
            "agent-start": self._agent_start,
            "agent-stop": self._agent_stop,
            "stop": self._stop,
            "end": self._end,
        }
        if self.facts.calls and not self._place_event():
            return NOTHING, ""
        reply = answers[self.event.name]()
        worker = self.session.workers.get(self.event.agent or MAIN)
        if worker is not None:
            worker.given += sum(
                map(len, (reply.context, reply.deny, reply.again, self.second_text))
            )
            worker.does = self.event.call_text[: state.LONGEST] or worker.does
            worker.said = self.event.message[: state.LONGEST] or worker.said
        return reply, self.second_text

    # -- starts ------------------------------------------------------------------------------------

    def _start(self) -> Reply:
        """Answer the begin of a session, or of an emptied conversation: the view, without what the
        conversation still has.
        """
        earlier = self.session.workers.get(MAIN)
        if self.event.source == "clear":
            pid = self.event.pid if self.facts.renames else None
            end_emptied(self.workers, client_holder(pid) if pid else "")
        worker = self.workers.of(self.event)
        worker.transcript = self.event.transcript or worker.transcript
        if earlier is not None and self.event.source == "resume":
            self.workers.note_written(earlier)
            worker.add("seen", earlier.seen)  # its conversation has them
            worker.files, worker.changes = earlier.files, earlier.changes
            worker.looked = earlier.looked
        elif self.event.source == "compact":
            worker.forget(self.workers.cursor())
        return self._open(worker, "")

    def _agent_start(self) -> Reply:
        """Answer the begin of a sub-agent: its view, by the words of its task; to one that goes on
        after its end, the news since.
        """
        task = self.event.prompt or self._spawned_prompt()
        worker = self.workers.of(self.event, task)
        worker.about = [task[: state.LONGEST]] if task else []
        if worker.opened:
            return Reply(context=self._with_changes(worker, self._news(worker)))
        return self._open(worker, task)

    def _spawned_prompt(self) -> str:
        """Return the task of the sub-agent that begins: of the spawns of its type, the oldest."""
        for spawn in self.session.spawns:
            if spawn["type"] in ("", self.event.type):
                self.session.spawns.remove(spawn)
                return spawn["prompt"]
        return ""

    def _open(self, worker: Worker, text: str, parts: int = 0) -> Reply:
        agent = self.workers.reader(worker)
        agent_memory = self.workers.agent_memory(worker)
        self.workers.note_written(worker)
        files = unchanged_files(self.changes, worker, self.event, self.workers.store.clock())
        room = self.event_facts.cap - self.facts.length(files) - bool(files)
        opening = self.context.opening(
            agent, agent_memory, text, room, worker.seen, parts or self.facts.parts
        )
        self.context.note_shown(worker, opening.view, self.event.name)
        worker.cursor, worker.opened = max(worker.cursor, opening.view.cursor), True
        worker.notice("view", "".join(opening.parts))
        first, *later_parts = opening.parts or ("",)
        self.second_text = "".join(later_parts)
        return Reply(context="\n".join(filter(None, (files, first))))

    # -- turns -------------------------------------------------------------------------------------

    def _prompt(self) -> Reply:
        """Answer what a person asks: the news, and what the words find that the worker has not."""
        worker = self.workers.of(self.event, self.event.prompt)
        worker.about = [self.event.prompt[: state.LONGEST]]
        if not worker.turns and self.event.prompt:
            self.workers.runs.name(self.workers.run(worker), self.event.prompt[: state.LONGEST])
        worker.acts, worker.busy = 0, True
        worker.turns += 1
        news = self._with_changes(worker, self._news(worker))
        self.changes.see(worker, self.event.touch())
        room = self.event_facts.cap - self.facts.length(news) - 1
        self.workers.note_written(worker)
        recalled = self.context.recalled(worker, self.event.prompt, room)
        return Reply(context="\n".join(filter(None, (news, recalled))))

    def _woken(self) -> Reply:
        """Answer a turn that no person asked for: the news, which may have woken the session."""
        worker = self.workers.of(self.event)
        worker.acts, worker.busy = 0, True
        worker.turns += 1
        return Reply(context=self._with_changes(worker, self._news(worker)))

    def _before(self) -> Reply:
        worker = self.workers.of(self.event)
        if self.event.call:
            self.session.note_call(self.event.call, self.event.agent or MAIN)
        if reason := self.workers.runs.over(self.workers.run(worker)):
            return Reply(deny=f"Stopped: {reason}", stop=reason)
        if self.event.kind == "spawn":
            task = self.event.prompt[: state.LONGEST]
            spawn = {"type": self.event.type or "", "prompt": task, "call": self.event.call or ""}
            self.session.spawns = [*self.session.spawns, spawn][-50:]
        changed = self.context.render_changes(
            worker, self.changes.before(worker, self.event.touch())
        )
        reply = self.checks.before(worker, self.event)
        if changed and reply.deny:
            worker.later += [changed]  # beside what is done instead
        elif changed:
            reply = reply._replace(context=f"{changed}{reply.context}")
        if self.event.kind == "spawn" and (reply.deny or self.facts.calls):
            self.session.spawns.pop()
        if self.event.kind == "spawn" and self.facts.calls and not reply.deny:
            reply = reply._replace(prompt=self._begin_called())
        return self._fit(worker, reply)

    def _after(self) -> Reply:
        worker = self.workers.of(self.event)
        self.checks.after(worker, self.event)
        worker.acts += self.event.kind in ACTS
        note_again(self.changes, worker, self.event)
        changed = self.changes.after(worker, self.event.touch())
        later, worker.later = worker.later, []
        later += [self.context.render_changes(worker, changed)]
        return Reply(context="\n".join(filter(None, (*later, self._news(worker)))))

    def _with_changes(self, worker: Worker, news: str) -> str:
        """Return the news, with what was changed in files that the worker has seen."""
        blocks = self.changes.news(worker)
        return f"{self.context.render_changes(worker, blocks)}{news}"

    def _news(self, worker: Worker) -> str:
        """Return the news for the worker, within what the client takes. Return its view where no
        hook of its start was called, or its context was emptied since.
        """
        if self.event.agent is None and self.workers.is_summarised(worker, self.event):
            worker.forget(self.workers.cursor())
            worker.opened = False
        if not worker.opened:
            return self._open(worker, "\n".join(worker.about), 1).context
        news = self.context.collect_news(worker, self.event)
        return self.context.render_news(worker, news, self.event_facts.cap) if news else ""

    def _fit(self, worker: Worker, reply: Reply) -> Reply:
        """Return a reply without what the event cannot take. Where the client takes no context
        before a call, it waits for the next result; one that is too long is left out.
        """
        forms, cap = self.event_facts.forms, self.event_facts.cap
        context = reply.context
        if "context" not in forms:
            worker.later += [context] if context else []
            context = ""
        elif self.facts.length(context) > cap:
            context = ""
        deny = reply.deny if "deny" in forms else ""
        return reply._replace(context=context, deny=deny)

    # -- sub-agents that are calls -----------------------------------------------------------------

    def _place_event(self) -> bool:
        """Find the conversation of an event; return False where that cannot be known. The end of a
        sub-agent's call ends the sub-agent; a turn's begin or end ends those that are still open.
        """
        if self.event.name in ("start", "prompt", "stop"):
            for spawn in spawns.open_calls(self.session):
                self.session.spawns.remove(spawn)
                outcome = Outcome("stopped", "", spawns.ENDED)
                self.workers.end(spawn["agent"], outcome, self.event.client, silent=True)
        if self.event.name == "after" and self.event.kind == "spawn":
            self._end_called()
        placed = spawns.place_event(self.session, self.event)
        self.event = placed or self.event
        return placed is not None

    def _begin_called(self) -> str:
        """Start the sub-agent that a call is, and return its prompt with its view before it."""
        child = spawns.begin(self.session, self.event)
        worker = self.workers.of(child, child.prompt)
        worker.about = [child.prompt[: state.LONGEST]] if child.prompt else []
        view = self._open(worker, child.prompt).context
        prompt = f"{view}\n{child.prompt}" if view else child.prompt
        worker.given += len(view)
        spawns.remember(self.session, child, prompt)
        return prompt if view else ""

    def _end_called(self) -> None:
        """End the sub-agent whose call has come to its end."""
        spawn = spawns.take_ended(self.session, self.event)
        worker = self.session.workers.get(spawn["agent"]) if spawn else None
        if spawn is None or worker is None:
            return
        event = self.event
        outcome = spawns.read_outcome(self.facts.tool(event.tool), event.result)
        if isinstance(outcome, str):
            outcome = _outcome(outcome)
        parent = event.transcript
        worker.transcript = child_transcript(event.client, parent, event.prompt)
        self.workers.end(spawn["agent"], outcome, event.client)

    # -- ends --------------------------------------------------------------------------------------

    def _agent_stop(self) -> Reply:
        """Answer a sub-agent that would end: with news it has to know, or write its result. One
        that never began is its client's own, such as the writer of a summary: it leaves nothing.
        """
        if (self.event.agent or MAIN) not in self.session.workers:
            return NOTHING
        worker = self.workers.of(self.event)
        if text := self._pressing_news(worker):
            return Reply(again=text)
        worker.transcript = self.event.transcript or worker.transcript
        self.changes.finish(worker)
        self.workers.end(self.event.agent or MAIN, _outcome(self.event.message), self.event.client)
        return NOTHING

    def _stop(self) -> Reply:
        """Answer a turn of the main conversation that would end: with news it has to know, else
        write what it did. The session stays.
        """
        worker = self.workers.of(self.event)
        if text := self._pressing_news(worker):
            return Reply(again=text)
        message = last_message(self.event.client, self.event.transcript, self.event.message)
        self.event = self.event._replace(message=message)
        outcome, entry = _outcome(message), None
        worker.acts += self.changes.finish(worker)
        if outcome.status == "blocked" or (worker.acts and outcome.text):
            entry = self.workers.report(worker, outcome, f"{max(worker.turns, 1)}")
        worker.acts = 0
        worker.finish(entry if outcome.status == "done" else None)
        return NOTHING

    def _pressing_news(self, worker: Worker) -> str:
        """Return the news that a worker has to know before it ends; once in a row."""
        if self.event.going_on or "again" not in self.event_facts.forms:
            return ""
        news = [item for item in self.context.collect_news(worker) if item.tier != BESIDE]
        return self.context.render_news(worker, news, self.event_facts.cap) if news else ""

    def _end(self) -> Reply:
        if self.session.workers:
            self.workers.end_all(self.event.client)
        return NOTHING


def _outcome(message: str) -> Outcome:
    """Return the outcome that a last message tells: done, or blocked by what it names."""
    from synapse.tools import blocker_of  # with all tools, which no other event needs

    blocker = blocker_of(message)
    if blocker:
        return Outcome("blocked", message, blocker)
    return Outcome("done", message)
