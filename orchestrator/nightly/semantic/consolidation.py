"""Semantic consolidation: a model proposes merges and summaries, the memory judges them, and those
that pass are staged.

Off unless synapse.yaml names an engine. It comes after consolidation, by a claim of its own, so
that no trouble with the provider harms that. Every call is reserved under the limits before it is
made, and booked in a ledger of its own, as `consolidation`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.engines import factory
from orchestrator.engines.protocol import ContextTooLong, Engine, no_engine
from orchestrator.nightly.semantic.model import Asker, Spent
from orchestrator.nightly.semantic.proposals import Malformed, Question, answer, batches, question
from orchestrator.prompts.fence import secret
from orchestrator.prompts.templates import Templates
from orchestrator.run_store.costs import CONSOLIDATION
from orchestrator.runs.files import workspace
from orchestrator.runs.files.folder import Folder
from synapse.consolidate import candidates, claim, finish, judge, reach, stage, waiting, withdraw
from synapse.consolidate.nightly import Claim
from synapse.consolidate.proposal import Proposal, Verdict
from synapse.core import Memory
from synapse.errors import InvalidEntry, SynapseError
from synapse.formats.wants import of_consolidation
from synapse.index.questions import maintenance
from synapse.model.agents import CONSOLIDATOR
from synapse.model.clock import seconds
from synapse.model.entry import Entry
from synapse.model.settings import Settings
from synapse.privacy.personal import kept
from synapse.store import Store
from synapse.trust import decisions

SEMANTIC = "semantic"
NEWEST = 5_000  # entries that are looked at
PROPOSALS = "proposals.jsonl"
_KEYS = ("engine", "model", "max_tokens", "max_usd")
_FORM = (
    "consolidation: write a block such as {semantic: {engine: anthropic, model: NAME,"
    " max_tokens: 50000}}"
)


class Wanted(NamedTuple):
    """What synapse.yaml asks for: which engine and model, and what one night may take."""

    engine: str
    model: str | None = None
    max_tokens: int | None = None
    max_usd: float | None = None


class Outcome(NamedTuple):
    """What became of a proposal: `staged` under an id, or `rejected`, `known`, with the reason."""

    proposal: Proposal
    state: str
    reason: str
    id: str | None = None


class Report(NamedTuple):
    """What a run did. `ran` is false where another had, or has, the right to it; `stopped` says why
    it ended early.
    """

    date: str
    ran: bool
    outcomes: tuple[Outcome, ...] = ()
    asked: int = 0
    malformed: int = 0
    spent: Spent = Spent()
    stopped: str | None = None


def wanted(settings: Settings) -> Wanted | None:
    """Return what the workspace asks for; None where it asks for nothing; InvalidEntry says which
    part of it is not valid.
    """
    block = dict(settings.other).get("consolidation")
    if block is None:
        return None
    if not isinstance(block, Mapping) or set(block) - {"semantic"}:
        raise InvalidEntry(_FORM)
    setting = block.get("semantic")
    if setting is None or setting is False or setting == "off":
        return None
    if not isinstance(setting, Mapping) or not isinstance(setting.get("engine"), str):
        raise InvalidEntry(_FORM)
    if unknown := sorted(set(setting) - set(_KEYS)):
        raise InvalidEntry(
            f"consolidation: semantic: {unknown[0]!r} is not one of {', '.join(_KEYS)}"
        )
    if ":" in setting["engine"]:
        raise no_engine(setting["engine"])
    tokens = setting.get("max_tokens")
    usd = setting.get("max_usd")
    model = setting.get("model")
    if not (tokens is None or (type(tokens) is int and tokens > 0)) or not (
        usd is None or _is_money(usd)
    ):
        raise InvalidEntry(
            "consolidation: semantic: max_tokens is a whole number, max_usd an amount of dollars"
        )
    return Wanted(
        setting["engine"],
        None if model is None else str(model),
        tokens,
        None if usd is None else float(usd),
    )


def is_off(settings: Settings) -> bool:
    """Return whether nothing is asked for; settings that are not valid are not off."""
    try:
        return wanted(settings) is None
    except InvalidEntry:
        return False


def _is_money(value: object) -> bool:
    try:
        return 0 < float(str(value)) < float("inf")
    except ValueError:
        return False


def consolidate(
    mem: Memory,
    date: str,
    asked: Wanted | None = None,
    *,
    engine: Engine | None = None,
    by_hand: bool = False,
) -> Report:
    """Ask for proposals on what has come since the last time, once for each local date; by hand,
    whenever asked. Whatever goes wrong with the provider or a limit is told, and what was staged
    until then stands.
    """
    store = mem.store
    right = claim(mem, SEMANTIC, date, store.clock(), again=by_hand)
    if right is None:
        return Report(date, ran=False)
    job = _Job(mem, right, by_hand)
    try:
        if asked is None and engine is None and not by_hand:  # the workspace's own wish
            declared = dict(store.settings.other).get("consolidation")
            decisions.demand(store.root, of_consolidation(declared))
        withdraw(mem, right.fence)
        ask_for = asked or wanted(store.settings)
        if ask_for is None:
            raise InvalidEntry(_FORM)
        asyncio.run(job.work(ask_for, engine))
    except SynapseError as error:
        job.stopped = f"{type(error).__name__}: {error}"
    except Exception as error:
        # whatever an SDK raises: the night before it is whole, and stays so
        job.stopped = f"{type(error).__name__}"
    finish(mem, job.right, **job.outcome())
    return job.report()


def portions(store: Store) -> tuple[list[list[Entry]], int]:
    """Return the portions that would be asked about now, and the place in the log up to which that
    looks.
    """
    store.refresh()
    with store.snapshot() as snap:
        now = store.clock()
        floor, after = _reached(store)
        live = maintenance.mergeable(snap, now, floor, CONSOLIDATOR, NEWEST)
        busy, settings = waiting(store), store.settings
        groups = candidates(
            (  # personal data from before it was looked for is not shown to a model
                entry
                for entry in live
                if entry.id not in busy and kept(entry.body, settings) == entry.body
            ),
            now,
            maintenance.brought_back(snap),
        )
        pending = [portion for portion in batches(groups) if portion[0].seq >= after]
        return pending, snap.cursor


def _reached(store: Store) -> tuple[int, int]:
    """Return the place in the log up to which everything was asked about, and where the rest
    begins.
    """
    with store.snapshot() as snap:
        records = maintenance.nightly_records(snap)
    for record in reversed(records):
        if record.fields["job"] == SEMANTIC and "cursor" in record.fields:
            return int(record.fields["cursor"]), int(record.fields.get("after", 0))
    return 0, 0


class _Job:
    """One run: what it has done so far, whatever ends it."""

    def __init__(self, mem: Memory, right: Claim, by_hand: bool) -> None:
        self.mem, self.right, self.by_hand = mem, right, by_hand
        now = mem.store.clock()
        self.name = f"{right.date}T{seconds(now)[11:19]}"
        self.outcomes: list[Outcome] = []
        self.asked = self.malformed = 0
        self.spent = Spent()
        self.stopped: str | None = None
        self.cursor, self.after = _reached(mem.store)
        self.taken: set[str] = set()

    async def work(self, wanted: Wanted, engine: Engine | None) -> None:
        store = self.mem.store
        todo, cursor = portions(store)
        root = store.root
        if root is None:
            raise InvalidEntry(
                "semantic consolidation needs a workspace on the disk: its ledger is a file"
            )
        folder = workspace.folder(store, root, f"{CONSOLIDATION}-{self.right.date}")
        if todo:
            asked_engine = engine or factory.make(
                wanted.engine,
                dict(store.settings.other).get("engines"),
                root,
                by_program=self.by_hand,
            )
            limits = (wanted.model, wanted.max_tokens, wanted.max_usd)
            asker = Asker(store, root, folder.make(), asked_engine, *limits)
            try:
                for portion in todo:
                    self.after = portion[0].seq
                    await self._portion(
                        asker,
                        portion,
                        question(portion, secret(root), Templates(root, needed=True)),
                        folder,
                    )
                    self.spent = asker.spent
            finally:
                self.spent = asker.spent
                await asker.close()
                # in the loop that it was used in, whoever made it
                await asked_engine.close()
        self.cursor, self.after = cursor, 0

    async def _portion(
        self, asker: Asker, portion: Sequence[Entry], asked: Question, folder: Folder
    ) -> None:
        """Ask one question, and handle its answer."""
        self.right = reach(self.mem, self.right, "propose", self.mem.store.clock())
        self.asked += 1
        try:
            proposals = answer(await asker.ask(asked.system, asked.text))
        except (Malformed, ContextTooLong) as error:
            self.malformed += 1
            folder.record(PROPOSALS, _line("malformed", str(error)), sync=False)
            return
        by_id = {entry.id: entry for entry in portion}
        with self.mem.store.snapshot(late=True) as snap:
            spared = maintenance.brought_back(snap)
        for proposal in proposals:
            outcome = self._settled(
                judge(proposal, self._current(by_id), self.mem.store.clock(), spared)
            )
            self.outcomes.append(outcome)
            folder.record(PROPOSALS, _line(outcome.state, outcome.reason, outcome), sync=False)

    def _current(self, known: Mapping[str, Entry]) -> dict[str, Entry]:
        """Return the entries as they are now: the answer took its time."""
        with self.mem.store.snapshot() as snap:
            now = self.mem.store.clock()
            current = {id: self.mem.store.entry(id) for id in known}
            return {id: entry for id, entry in current.items() if snap.fate(entry, now) is None}

    def _settled(self, verdict: Verdict) -> Outcome:
        proposal = verdict.proposal
        if verdict.new_entry is None:
            return Outcome(proposal, "rejected", verdict.reason)
        if overlap := self.taken.intersection(proposal.sources):
            return Outcome(proposal, "rejected", f"{min(overlap)} is in another proposal")
        entry = stage(self.mem, verdict, self.name, self.right.fence)
        if entry is None:
            return Outcome(proposal, "known", "the same entries were proposed before")
        self.taken.update(proposal.sources)
        return Outcome(proposal, "staged", verdict.reason, entry.id)

    def outcome(self) -> dict[str, object]:
        """Return the fields that the record of its end has."""
        states = [outcome.state for outcome in self.outcomes]
        counts = {"asked": self.asked, "malformed": self.malformed} | {
            state: states.count(state) for state in ("staged", "rejected")
        }
        fields: dict[str, object] = {
            "cursor": self.cursor,
            "after": self.after,
            **counts,
            "tokens": self.spent.tokens,
        }
        fields |= {} if self.spent.cost is None else {"usd": self.spent.cost}
        return fields | ({"stopped": self.stopped[:300]} if self.stopped else {})

    def report(self) -> Report:
        outcomes = tuple(self.outcomes)
        return Report(
            self.right.date, True, outcomes, self.asked, self.malformed, self.spent, self.stopped
        )


def _line(state: str, reason: str, outcome: Outcome | None = None) -> str:
    fields: dict[str, Any] = {"state": state, "reason": reason}
    if outcome is not None:
        fields |= outcome.proposal._asdict() | {"id": outcome.id}
    return json.dumps(fields, ensure_ascii=False) + "\n"
