"""What keeps the record of a run: sees prompts and replies at the engine's edge, and entries in the
log.

It gives nothing to anybody but the ledger, and knows what the scenario knows; no agent can reach
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from itertools import count as counting
from typing import Any

from orchestrator.engines.protocol import Call, Message, Request, Turn
from orchestrator.prompts import receipt
from orchestrator.prompts.render import GUIDES, Assignment, Reach, system_text
from orchestrator.prompts.selection import Plan
from orchestrator.run_store.store import RunStore
from orchestrator.runs.files import ledger as token_ledger
from orchestrator.runs.files.folder import RECEIPT
from orchestrator.spend import segments as bill
from orchestrator.testing.virtual import VirtualTime
from scenarios.data import ledger
from scenarios.data.schema import Member, Scenario
from scenarios.data.texts import Reference, Texts
from scenarios.measure import dollars
from scenarios.play.world.task_text import read_task
from scenarios.play.world.truth import Truth
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import NotFound
from synapse.model.agents import OPERATOR, Agent, settled
from synapse.model.clock import micros
from synapse.model.entry import Entry
from synapse.model.namespace import matches_any
from synapse.model.records import Record, entry_of
from synapse.view.block import natural

MEMORY = ("view", "wake", "capsule")  # labels of what the memory says
_DISPUTE = "disputed with "
_BLOCKS = re.compile(r"(?m)^(?=- )")
_ID = re.compile(r"\bsyn-\d{4}-\d\d-\d\d-\d{3,}\b")


class Recorder:
    """The record of one run. `run_store` are the supervisor's, once there is one."""

    run_store: RunStore

    def __init__(
        self, scenario: Scenario, time: VirtualTime, memory: Memory, truth: Truth, count: Any
    ) -> None:
        self.scenario = scenario
        self.time = time
        self.memory = memory
        self.truth = truth
        self.count = count
        self.events: list[dict[str, Any]] = []
        self.holders: dict[str, set[str]] = {}  # version -> entries that hold it
        self.plans: dict[tuple[str, str], Plan] = {}  # of an agent and a task's text
        self._needs = {job.id: list(job.needs) for job in scenario.jobs}
        self._reads = {
            member.id: settled(declared(member)).read or () for member in scenario.agents
        }
        self._ranks = {member.id: settled(declared(member)).authority for member in scenario.agents}
        self.texts: Texts | None = None  # where they are to be kept
        self.zero = 0.0  # seconds of virtual time that passed before the run began
        self._start = micros(scenario.start)
        self.lies: dict[str, dict[str, Any]] = {}  # value -> what became of it
        self._sizes: dict[tuple[str, tuple[str, ...]], int] = {}
        self._order = counting()
        self._cursor = 0
        self._messages: dict[str, int] = {}  # of each run, that were seen
        self._asked: dict[tuple[str, str], Call] = {}  # run and call
        self._rendered: set[tuple[str, str]] = set()  # entry and agent
        self._wakers: dict[str, list[str]] = {}  # entry -> agents it is for
        self._runs: dict[str, tuple[str, str]] = {}  # run -> agent and task

    def now(self) -> int:
        # by the clock of the memory, so that neither is rounded past the other
        return self._at(self.time())

    def note(self, kind: str, *, at: int | None = None, **fields: Any) -> dict[str, Any]:
        """Return a line of the ledger, behind all that the log holds so far."""
        if at is None:
            self.drain()
        event = {
            "kind": kind,
            "t": self.now() if at is None else at,
            **fields,
            "_": next(self._order),
        }
        self.events.append(event)
        return event

    def agent_of(self, run: str) -> tuple[str, str]:
        """Return the agent and the task of a run."""
        if run not in self._runs:
            record = self.run_store.known(run)
            self._runs[run] = record.agent, read_task(record.task.text).name
        return self._runs[run]

    def readable(self, agent: str, version: str) -> bool:
        """Return whether this version stands in a live entry that the agent may see."""
        self.drain()
        agent_memory = self.memory.as_agent(agent)
        return any(_is_shown(agent_memory, id) for id in sorted(self.holders.get(version, ())))

    def live(self) -> tuple[int, int]:
        """Return the number of live entries and their tokens in the form of a view."""
        entries = list(self.memory.as_agent(OPERATOR).read())
        return len(entries), sum(map(self._size, entries))

    def _size(self, entry: Entry) -> int:
        """Return the tokens of an entry as shown, counted once for each state of its dispute."""
        key = entry.id, entry.disputed
        if key not in self._sizes:
            self._sizes[key] = self.count(natural(entry).text)
        return self._sizes[key]

    # -- at the engine's edge --

    def prompted(self, request: Request) -> None:
        run, _, step = request.key.rpartition("/")
        if begins := run not in self._messages:
            self._spawned(run, request)
        new = request.messages[self._messages.get(run, 0) :]
        self._messages[run] = len(request.messages)
        agent, _ = self.agent_of(run)
        shows: dict[str, list[str]] = {}
        ids: list[str] = []
        doubts: list[str] = []
        for message in new:
            if message.role == "assistant":
                continue
            if facts := self.truth.facts_in(message.text):
                shows.setdefault(message.label, []).extend(facts)
            for value, lie in self.lies.items():
                _look_for(value, lie, message)
            if message.role == "tool":
                self._answered(run, agent, message)
            if message.label in MEMORY:
                ids += self._shown(run, agent, message)
                doubts += self._disputed(message.text)
        fields: dict[str, Any] = {"disputed": sorted(set(doubts))} if doubts else {}
        if self.texts is not None:
            fields["texts"] = self._head(run, request) if begins else []
            fields["texts"] += self.texts.sent(chain.from_iterable(map(bill.pieces, new)))
        self.note(
            "prompt",
            run=run,
            agent=agent,
            step=int(step),
            segments=[],
            ids=list(dict.fromkeys(ids)),
            shows=shows,
            **fields,
        )

    def _head(self, id: str, request: Request) -> list[Reference]:
        """Return the references of what stands before a conversation: the system text and the
        tools.
        """
        assert self.texts is not None
        run = self.run_store.known(id)
        receipt_of = receipt.load(self.run_store.folder(run).read(RECEIPT))
        reach = Reach(receipt_of.tools, receipt_of.shell, receipt_of.roster)
        without_guides = system_text(
            self.run_store.agent(run.agent),
            Assignment(run.task.text, run.task.project, None, run.task.role),
            self.run_store.templates,
            reach,
            GUIDES,
        )
        return self.texts.system(request.system, without_guides) + self.texts.sent(
            bill.schemas(request.tools)
        )

    def _spawned(self, run: str, request: Request) -> None:
        record = self.run_store.known(run)
        agent, task = self.agent_of(run)
        needs = self._needs.get(task, [])
        view = next((message.text for message in request.messages if message.label == "view"), "")
        entries, tokens = self.live()
        available = [need for need in needs if self.readable(agent, self.truth.version(need))]
        plan = self.plans.get((agent, record.task.text))
        self.note(
            "spawn",
            run=run,
            agent=agent,
            role=str(record.fields["role"]),
            parent=record.parent,
            task=task if task in self._needs else None,
            tools=[tool.name for tool in request.tools],
            budget=plan.view if plan else 0,
            view_tokens=0,
            ids=_ids(view),
            live_entries=entries,
            live_tokens=tokens,
            needs=needs,
            available=available,
        )

    def _shown(self, run: str, agent: str, message: Message) -> list[str]:
        """Return the entries that it is told of; those that are for it, for the first time or once
        more.
        """
        ids = _ids(message.text)
        for id in ids:
            if agent not in self._wakers.get(id, ()):
                continue
            if (id, agent) not in self._rendered:
                self._rendered.add((id, agent))
                self.note("wake_rendered", id=id, agent=agent, run=run, via=message.label)
            elif message.label == "wake":
                self.note("duplicate_wake", id=id, agent=agent, run=run)
        return ids

    def _disputed(self, text: str) -> list[str]:
        """Return the facts that stand in disputed entries of the text."""
        if _DISPUTE not in text:
            return []
        blocks = [block for block in _BLOCKS.split(text) if _DISPUTE in block.partition("\n")[0]]
        return self.truth.facts_in("\n".join(blocks))

    def replied(self, request: Request, turn: Turn) -> None:
        run, _, step = request.key.rpartition("/")
        agent, _ = self.agent_of(run)
        calls = [{"call": call.id, "tool": call.name} for call in turn.calls]
        fields: dict[str, Any] = {}
        if self.texts is not None:
            label = bill.said_label(str(self.run_store.known(run).fields["role"]))
            fields["texts"] = self.texts.said(bill.said(turn, label))
        self.note(
            "completion",
            run=run,
            agent=agent,
            step=int(step),
            segments=[],
            stop=turn.stop,
            calls=calls,
            interrupted=turn.stop == "interrupted",
            **fields,
        )
        for call in turn.calls:
            self.note("tool_call", run=run, agent=agent, call=call.id, tool=call.name)
            self._asked[run, call.id] = call

    def _answered(self, run: str, agent: str, message: Message) -> None:
        call = self._asked.get((run, message.answers or ""))
        if call is None:
            return
        fields: dict[str, Any] = {"run": run, "agent": agent, "call": call.id}
        self.note(
            "tool_result",
            **fields,
            tool=call.name,
            label=message.label,
            tokens=self.count(message.text),
            failed=message.failed,
        )
        shown_facts: dict[str, Any] = {
            "ids": _ids(message.text),
            "facts": self.truth.facts_in(message.text),
        }
        if call.name == "memory_search":
            self.note("search", **fields, query=str(call.arguments.get("query")), **shown_facts)
        elif call.name == "read":
            self.note("read", **fields, **shown_facts)
        elif call.name == "claim":
            self.note(
                "claim", **fields, work=str(call.arguments.get("work")), got=not message.failed
            )

    # -- the log --

    def drain(self) -> None:
        """Take in what the log holds since the last look."""
        for record in list(self.memory.store.log.since(self._cursor)):
            self._cursor = record.seq
            if record.kind == "entry":
                self._written(entry_of(record), record)
            elif record.kind == "delivery" and record.fields.get("state") == "rendered":
                for id, offered in (record.fields.get("offered") or {}).items():
                    self.note(
                        "wake_enqueued",
                        at=self._at(offered),
                        id=id,
                        agent=record.fields["agent"],
                        run=record.fields.get("run"),
                    )

    def _written(self, entry: Entry, record: Record) -> None:
        facts = self.truth.facts_in(entry.body)
        for version in facts:
            self.holders.setdefault(version, set()).add(entry.id)
        to = [member.id for member in self.scenario.agents if self._is_for(member, entry)]
        self._wakers[entry.id] = to
        run, _, key = (record.once or "").partition("/")
        source = "scenario" if not key else "agent" if "/" in key else "writeback"
        self.note(
            "write",
            at=self._at(record.at),
            id=entry.id,
            agent=entry.author,
            run=run if key else None,
            namespace=entry.namespace,
            priority=entry.priority,
            topic=entry.topic,
            supersedes=list(entry.replaces),
            tokens=self._size(entry),
            facts=facts,
            source=source,
            **{"for": to},
        )
        for version in facts:
            fact = self.truth.facts[version.partition("@")[0]]
            if fact.also_by and entry.author in (fact.decided_by, fact.also_by):
                self.note(
                    "answer",
                    at=self._at(record.at),
                    id=entry.id,
                    agent=entry.author,
                    fact=fact.id,
                    version=version,
                    authority=self._ranks[entry.author],
                )

    def _is_for(self, member: Member, entry: Entry) -> bool:
        """Return whether the scenario subscribes this agent to the entry: what the product must do,
        not what it does.
        """
        is_notified = entry.author != member.id and entry.priority in member.notify
        return is_notified and matches_any(tuple(self._reads[member.id]), entry.namespace)

    def _at(self, at: int) -> int:
        return max((at - self._start - round(self.zero * 1_000_000)) // 1_000, 0)

    # -- the end --

    def bill(self, billed: Mapping[str, Mapping[int, token_ledger.Line]]) -> None:
        """Put the supervisor's own account of each call to the prompt and the reply that were
        seen.
        """
        first, stored = dict[str, int](), dict[str, list[Reference]]()
        for event in self.events:
            if event["kind"] not in ("prompt", "completion"):
                continue
            line = billed[event["run"]].get(event["step"])
            if line is None:
                event["kind"] = "lost"
                stored[event["run"]] = [*stored.get(event["run"], ()), *event.get("texts", ())]
            elif event["kind"] == "prompt":
                # they come with the next call
                if lost := stored.pop(event["run"], None):
                    event["texts"] = [*lost, *event["texts"]]
                first.setdefault(
                    event["run"],
                    sum(segment.tokens for segment in line.sent if segment.label == "view"),
                )
                event["segments"] = [
                    [segment.label, segment.tokens, int(segment.first)] for segment in line.sent
                ]
            else:
                event["segments"] = [[segment.label, segment.tokens] for segment in line.got]
        dollars.book(self.events)
        for event in self.events:
            if event["kind"] == "spawn":
                event["view_tokens"] = first.get(event["run"], 0)

    def run(self) -> ledger.Run:
        """Return all recorded events, in the order of their times."""
        events = [event for event in self.events if event["kind"] != "lost"]
        first = [event for event in events if event["kind"] == "begin"]
        last = [event for event in events if event["kind"] == "finish"]
        middle = [event for event in events if event["kind"] not in ("begin", "finish")]
        middle.sort(key=lambda event: (event["t"], event["_"]))
        events = [*first, *middle, *last]
        return ledger.Run(
            [{key: value for key, value in event.items() if key != "_"} for event in events]
        )


def _is_shown(agent_memory: AgentMemory, id: str) -> bool:
    """Return whether an entry is live and visible to this agent."""
    try:
        agent_memory.get(id)
    except NotFound:
        return False
    return agent_memory.fate(id) is None


def _look_for(value: str, lie: dict[str, Any], message: Message) -> None:
    """Record whether a false value stands in an agent's message, and whether it is always
    quoted.
    """
    lines = [line for line in message.text.splitlines() if value in line]
    if lines and message.label != "work_obs":
        lie["shown"] = True
        lie["quoted"] = lie["quoted"] and all(
            line.lstrip().startswith(">") or " > " in line for line in lines
        )


def declared(member: Member, hears: tuple[str, ...] | None = None) -> Agent:
    """Return a member as an agent of the memory; woken by what the scenario says, or by these
    priorities.
    """
    return Agent(
        member.id,
        role=member.role,
        department=member.department,
        authority=member.authority,
        read=member.read,
        write=member.write,
        notify=member.notify if hears is None else hears,
        engine=f"scripted:{member.plays}",
    )


def _ids(text: str) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(map(_ids_of, text.splitlines()))))


@lru_cache(16_384)
def _ids_of(line: str) -> tuple[str, ...]:
    """Return the ids in a line; many long texts share their lines."""
    return tuple(_ID.findall(line))
