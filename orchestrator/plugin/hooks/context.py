"""The texts that a conversation is given of the memory: its view at the start, and the news since.

Each is as long as the client takes. Entries are whole or pointers: what does not fit is a part of
its own, or waits for the next event. Called by `respond` and the doctor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.sessions.news import read_news, waiting_news
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.state import MAIN, Worker
from orchestrator.prompts import render, selection
from orchestrator.prompts.fence import SECRET_BYTES, secret
from orchestrator.prompts.templates import Templates
from orchestrator.sessions import wake
from orchestrator.sessions.wake import NOW, SOON, News
from synapse.agent_memory import AgentMemory
from synapse.errors import OverBudget
from synapse.index.snapshot import Filter
from synapse.model.agents import Agent
from synapse.model.conditions import is_for_a_moment
from synapse.model.entry import SEALED, Entry
from synapse.model.records import Record
from synapse.view import recall
from synapse.view.block import POINTER, Block, pointer, whole
from synapse.view.fence import fence
from synapse.view.view import View

FIRST, MORE = "client", "client-more"  # templates
LEAST_CAP = 1_000  # characters; a client that takes less is given nothing
LEAST_SCALE = 0.02  # of what a view may take otherwise
# tokens of what is important that a conversation begins with, whatever they save: it has forgotten
# what earlier ones of its agent were shown
FLOOR = 1_300
RECALLED = 3  # entries that the words of a prompt find


class Opening(NamedTuple):
    """The texts of a start, one for each hook, and the entries that stand in them."""

    parts: tuple[str, ...]
    view: View


class Context:
    """Makes what the conversations of one workspace are given."""

    def __init__(self, workers: ClientRuns, length: Callable[[str], int] = len) -> None:
        """Make texts for a client that counts their length in this way."""
        self.workers, self.store, self.length = workers, workers.store, length
        self.templates = Templates(workers.store.root)
        self.secret = os.urandom(SECRET_BYTES) if self.store.readonly else secret(workers.root)

    # -- the view ----------------------------------------------------------------------------------

    def opening(
        self,
        agent: Agent,
        agent_memory: AgentMemory,
        text: str,
        cap: int,
        without: Sequence[str],
        parts: int,
    ) -> Opening:
        """Return the view of an agent for a task, divided so that no part is longer than a client
        takes. `without` are the entries that its conversation has.
        """
        if cap < LEAST_CAP:
            return Opening((), _empty_view(agent_memory))
        scale = 1.0
        while scale > LEAST_SCALE:
            view = self._view(agent, agent_memory, text, without, scale)
            texts = self._divide(agent, view, cap) if view.included else ()
            if len(texts) <= parts and all(self.length(text) <= cap for text in texts):
                return Opening(texts, view)
            scale *= 0.8 * min(parts / len(texts), 1.0)
        return Opening((), _empty_view(agent_memory))

    def _view(
        self,
        agent: Agent,
        agent_memory: AgentMemory,
        text: str,
        without: Sequence[str],
        scale: float,
    ) -> View:
        worth = selection.worth(selection.expected(agent.role, ()), scale, FLOOR)
        options: dict[str, Any] = {
            "about": text,
            "without": frozenset(without),
            "moments": False,
            "quick": True,
        }
        try:
            return agent_memory.briefing(
                int((selection.CRITICALS + selection.MOST) * scale), worth=worth, **options
            )
        except OverBudget:
            return _empty_view(agent_memory)

    def _divide(self, agent: Agent, view: View, cap: int) -> tuple[str, ...]:
        """Return the view's text in as few parts as the cap allows, each ending with an entry."""
        texts: list[str] = []
        body = ""
        for piece in _split_entries(view.text):
            if body and self.length(self._frame(agent, body + piece, not texts)) > cap:
                texts.append(self._frame(agent, body, not texts))
                body = ""
            body += piece
        return (*texts, self._frame(agent, body, not texts))

    def _frame(self, agent: Agent, body: str, first: bool) -> str:
        marks = fence(self.secret, agent.id, body)
        variables = {"agent": render.shown(agent), "project": self.workers.project} if first else {}
        return render.fenced(
            FIRST if first else MORE, marks, body, self.templates, "view", **variables
        )

    def note_shown(self, worker: Worker, view: View, how: str) -> None:
        """Note in the log and in the session what a worker was shown."""
        ids = list(view.shown)
        if ids:
            of = len(view.included) + len(view.left_out)
            self.workers.agent_memory(worker).writer.shown(ids, of, view.cursor, how)
            worker.add("seen", ids)

    # -- a prompt ----------------------------------------------------------------------------------

    def recalled(self, worker: Worker, prompt: str, cap: int) -> str:
        """Return what the memory has on a prompt and the worker was not given, as much as the
        client takes, and note that it is given: the few entries that the words find, and what is
        critical and was too much for the start. How memory is to be read, the start has said.
        """
        reader, now = self.workers.reader(worker), self.store.clock()
        with self.store.snapshot(words=True) as snap:
            criticals = snap.page(reader, Filter(("critical",), limit=None), now)
            matches = recall.matches(snap, reader, prompt, now)
        by_words = [m.entry for m in matches if self._is_new(m.entry, worker)][:RECALLED]
        criticals = [
            entry for entry in criticals if self._is_new(entry, worker) and entry not in by_words
        ][: wake.AT_ONCE]
        entries: list[Entry] = []
        text = ""
        for entry in (*by_words, *criticals):
            blocks = _blocks([*entries, entry], cap // 2)
            longer = render.found(blocks, reader, self.secret, self.templates)
            if self.length(longer) <= cap:
                entries, text = [*entries, entry], longer
        if entries:
            ids = [entry.id for entry in entries]
            agent_memory = self.workers.agent_memory(worker)
            agent_memory.access.noticed(entries)
            agent_memory.writer.shown(ids, len(ids), snap.cursor, "prompt")
            worker.add("seen", ids)
            worker.notice("prompt", text)
        return text

    def _is_new(self, entry: Entry, worker: Worker) -> bool:
        """Tell whether an entry is for a prompt: its conversation has not got it, and nothing else
        is the moment to tell it."""
        is_later = is_for_a_moment(entry) and entry.priority != "critical"
        return not (entry.id in worker.seen or is_later or entry.scope in SEALED)

    # -- the news ----------------------------------------------------------------------------------

    def collect_news(self, worker: Worker, event: Event | None = None) -> list[News]:
        """Return the entries that came for a worker and that it was not given, the soonest first.

        What is read of the log waits as due until it is given. The worker knows what stands in a
        result that it is reading, what it wrote itself in its shell, and what its own sub-agents
        leave: its client tells it that.
        """
        reader = self.workers.reader(worker)
        news, worker.cursor = read_news(self.store, worker, reader, worker.about)
        for item in news:
            entry = item.entry
            if _stands_in(event, entry, worker) or self._is_result(entry, worker):
                worker.add("seen", [entry.id])
            else:
                worker.add("due", [f"{item.tier} {entry.id}"])
        order = (NOW, SOON, wake.LATE, wake.BESIDE)
        waiting = waiting_news(self.store, worker)
        return sorted(waiting, key=lambda item: order.index(item.tier))

    def _is_result(self, entry: Entry, worker: Worker) -> bool:
        """Tell whether a sub-agent of this conversation left an entry, at its end or before.

        The client gives the conversation the sub-agent's report, which has what matters of it.
        """
        workers = self.workers.session.workers
        is_note = entry.priority == "info" and entry.addressees == ("all",)
        if worker is not workers.get(MAIN) or not (is_note or "run" in entry.tags):
            return False
        return any(entry.run == peer.run for peer in workers.values() if peer is not worker)

    def render_news(self, worker: Worker, news: Sequence[News], cap: int) -> str:
        """Return the text that tells a worker of the news, as much as the client takes, and note
        that it did.
        """
        reader = self.workers.reader(worker)
        entries = wake.standing(self.store, news, reader)
        obsolete = {item.entry.id for item in news} - {entry.id for entry in entries}
        blocks = [
            pointer(entry) if self.length(block.text) > cap // 2 else block
            for entry, block in zip(entries, wake.blocks(entries, news, commands=True), strict=True)
        ]
        pairs: list[tuple[Entry, Block]] = []
        text = ""
        for pair in list(zip(entries, blocks, strict=True))[: wake.AT_ONCE]:
            longer = render.wake(
                [block for _, block in (*pairs, pair)], reader, self.secret, self.templates
            )
            if self.length(longer) <= cap:
                pairs, text = [*pairs, pair], longer
        done_ids = {entry.id for entry, _ in pairs} | obsolete
        worker.due = [item for item in worker.due if item.partition(" ")[2] not in done_ids]
        worker.add("seen", [entry.id for entry, _ in pairs])
        whole_ids = [entry.id for entry, block in pairs if block.form != POINTER]
        if whole_ids:
            fields = {
                "agent": worker.agent,
                "run": worker.run,
                "epoch": worker.epoch,
                "state": "rendered",
            }
            self.workers.agent_memory(worker).writer.write(
                Record.new("delivery", worker.agent, fields | {"ids": whole_ids})
            )
        worker.notice("news", text)
        return text

    def render_moment(self, worker: Worker, entries: Sequence[Entry]) -> str:
        """Return what a worker is told before a call that entries are for."""
        reader = self.workers.reader(worker)
        text = render.held(_blocks(entries), reader, self.secret, self.templates)
        worker.notice("moment", text)
        return text

    def render_beside(self, worker: Worker, entries: Sequence[Entry]) -> str:
        """Return entries that concern what a worker is about to read, to change or to give out."""
        self.workers.agent_memory(worker).access.noticed(entries)
        return self._blocks_text(worker, "call", _blocks(entries))

    def render_changes(self, worker: Worker, blocks: Sequence[Block]) -> str:
        """Return what was changed that a worker has to know; nothing where there is nothing."""
        return self._blocks_text(worker, "change", blocks) if blocks else ""

    def _blocks_text(self, worker: Worker, kind: str, blocks: Sequence[Block]) -> str:
        reader = self.workers.reader(worker)
        text = render.found(blocks, reader, self.secret, self.templates)
        worker.notice(kind, text)
        return text


def _stands_in(event: Event | None, entry: Entry, worker: Worker) -> bool:
    """Tell whether a call gave an entry's text. One in the worker's own name is its own where the
    call's command has the text, or its result the id: `synapse write` prints that.
    """
    if event is None:
        return False
    body = entry.body.strip()
    if entry.author != worker.agent:
        return body in event.result
    texts = event.result, *filter(_is_text, event.arguments.values())
    return any(body in text or entry.id in text for text in texts)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _blocks(entries: Sequence[Entry], longest: int = wake.LONG) -> list[Block]:
    """Return the entries whole, and long ones as pointers."""
    return [
        whole(entry) if len(entry.body) <= min(longest, wake.LONG) else pointer(entry)
        for entry in entries
    ]


def _empty_view(agent_memory: AgentMemory) -> View:
    view = agent_memory.briefing(only="critical", moments=False, quick=True)
    return view._replace(text="", tokens=0, included=())


def _split_entries(text: str) -> list[str]:
    """Return a view's text cut before each entry and each heading: what others wrote stands behind
    `>`.
    """
    pieces: list[str] = []
    for line in text.splitlines(keepends=True):
        begins = line.startswith(("- ", "## "))
        after_heading = pieces and pieces[-1].startswith("## ") and pieces[-1].count("\n") == 1
        if not pieces or (begins and not after_heading):
            pieces.append(line)
        else:
            pieces[-1] += line
    return pieces
