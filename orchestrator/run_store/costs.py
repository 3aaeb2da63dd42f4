"""The costs of one supervisor's runs: limits are asked before each call, and each call is priced
after it. On the memory's thread; called by the run store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Turn, Usage, declared
from orchestrator.runs.files import ledger, workspace
from orchestrator.runs.files.folder import LEDGER
from orchestrator.runs.files.workspace import Lease
from orchestrator.runs.records import Run, Runs
from orchestrator.runs.task import Task, Tree
from orchestrator.sessions.session import Session
from orchestrator.spend import limits, prices
from orchestrator.spend.counting import Counter, Ratios
from orchestrator.spend.limits import Amount, LimitReached, Limits, Policy, Scope
from orchestrator.spend.reservations import Budget, Past, Reservation, book, ledgers
from orchestrator.tools import calls
from synapse.errors import InvalidEntry
from synapse.formats.keys import RUN_BLOCKS, concerns
from synapse.log.files import FilesLog
from synapse.model.agents import Agent
from synapse.model.clock import micros
from synapse.model.entry import SECOND
from synapse.model.settings import Settings
from synapse.store import Store

# how the folders of its ledgers begin, with the date behind it
CONSOLIDATION = "consolidation"


class Charge(NamedTuple):
    """What a call took, in tokens and dollars; None where it has no price."""

    tokens: int
    cost: float | None


class Costs:
    """One supervisor's part in the budget that all of a workspace share. `root` is None where
    nothing is shared.
    """

    def __init__(
        self, runs: Runs, root: str, shared: bool, lease: Lease, own: Limits | None
    ) -> None:
        self.runs, self.lease_name, self._lives = runs, lease.name, lease.lives
        self._understood: Settings | None = None
        self.check_settings()
        policy = limits.policy(self._settings())
        self.policy = (
            policy if own is None else policy._replace(run=limits.overridden(policy.run, own))
        )
        path = root if shared else None
        self.budget = budget_of(runs, root, self.policy) if path else Budget(policy=self.policy)
        self.ratios = Ratios(root)
        self._root, self._is_lasting = root, shared
        self._tops: dict[str, Limits] = {}
        self.counters: dict[str | None, Counter] = {}
        self._since: dict[int, int] = {}  # when calls in flight began

    def close(self) -> None:
        self.budget.close()

    def check_settings(self) -> None:
        """Refuse settings that are not understood; those that were checked once are not read
        again.
        """
        settings = self.runs.store.settings
        if settings is not self._understood:
            refuse_misread(self.runs.store)
            self._understood = settings

    def counter(self, model: str | None) -> Counter:
        """Return the counter for this model; each text is counted once."""
        if model not in self.counters:
            self.counters[model] = Counter(model, ratio=self.ratios.of(model))
        return self.counters[model]

    # -- runs --------------------------------------------------------------------------------------

    def admit(self, id: str, task: Task, agent: Agent, parent: Run | None) -> tuple[Scope, ...]:
        """Count a spawn and return its scopes; raise LimitReached where one is full."""
        limits.check_depth(
            id, parent.depth + 1 if parent else 0, limits.tightened(self.policy.run, asked(task))
        )
        root = parent.root if parent else id
        scopes = limits.scopes(
            self.policy,
            run=parent.id if parent else None,
            root=root,
            department=agent.department,
            at=self.runs.store.clock(),
            own=asked(parent.task) if parent else Limits(),
            top=self._top(root, id, task),
        )
        try:
            self.budget.admit(id, self.lease_name, scopes)
        except LimitReached as limit:
            if limit.limit != "live":
                raise
            self.forget_the_dead()  # whoever holds nothing any more keeps nobody out
            self.budget.admit(id, self.lease_name, scopes)
        return scopes

    def recover(self, run: Run) -> None:
        self.budget.recover(run.id, self.lease_name, self._where(run))

    def forget_the_dead(self) -> None:
        """Count no run as alive whose supervisor is not."""
        self.budget.release_dead(self._lives)

    def leave(self, run: str) -> None:
        self.budget.leave(run, self.lease_name)

    def bounded(self, run: Run) -> bool:
        """Return whether the tokens or the money of this run are limited anywhere."""
        return any(
            scope.limits.tokens is not None or scope.limits.usd is not None
            for scope in self._where(run)
        )

    def seconds_left(self, run: Run) -> float | None:
        bound = limits.overridden(self.policy.run, asked(run.task))
        try:
            began = run.at + run.fields.get("rested", 0)
            return limits.time_left(run.id, bound, began, self.runs.store.clock())
        except LimitReached:
            return 0.0  # it ran out while nobody held it

    # -- calls -------------------------------------------------------------------------------------

    def reserve(self, session: Session, tokens: int, line: str) -> Reservation:
        """Ask for the most that the next call can take, in every scope. `line`: what its ledger
        says should this process not live to hear its end.
        """
        run, terms = session.run, session.config
        scopes, most = self._where(run), tokens
        price = self.price(session, terms.model)
        worst = None if price is None else prices.worst(price, most, terms.max_output)
        if session.engine.name == "scripted":
            worst = 0.0
        usd = limits.check_price(scopes, terms.model or session.engine.name, worst)
        try:
            reservation = self.budget.reserve(
                run.id, self.lease_name, scopes, Amount(1, most + terms.max_output, usd), line
            )
        except LimitReached as error:
            raise limits.of_call(error, most, terms.max_output) from None
        self._since[reservation.id] = self.runs.store.clock()
        return reservation

    def charge(self, session: Session, turn: Turn, counted: int) -> Charge:
        """Return what a call took, as its provider reported it, else by our own counts."""
        counter, usage = session.config.counter, turn.usage
        # our own counts are nearer
        if usage.estimated and (session.engine.takes_tools or not usage.input_tokens):
            usage = Usage(counter.theirs(counted), counter.theirs(counter.count(turn.text)))
        price = self.price(session, turn.model or session.config.model)
        cost = usage.cost
        if cost is None and price is not None:
            cost = prices.cost(price, usage)
        return Charge(usage.input_tokens + usage.output_tokens or counted, cost)

    def charge_lost(self, session: Session, tokens: int) -> Charge:
        """Return what a call takes that was sent, and whose reply nobody has."""
        price = self.price(session, session.config.model)
        return Charge(tokens, None if price is None else prices.cost(price, Usage(tokens)))

    def settle(self, reservation: Reservation, charge: Charge | None) -> None:
        """Count what a call took; nothing where it was never made. Where a recovery has counted it,
        it stays so.
        """
        seconds = max(self.runs.store.clock() - self._since.pop(reservation.id), 0) / SECOND
        if charge is None:
            self.budget.release(reservation)
        else:
            amount = Amount(1, charge.tokens, charge.cost or 0.0, seconds)
            self.budget.settle(reservation, amount)

    def learn(self, session: Session, turn: Turn, counted: int) -> None:
        """Learn how the provider counts, from a report of its own."""
        if (
            session.engine.takes_tools
            and session.engine.name != "scripted"
            and not turn.usage.estimated
        ):
            self.ratios.learn(session.config.model, turn.usage.input_tokens, counted)

    def price(self, session: Session, model: str | None) -> prices.Price | None:
        """Return the price of a model; None where none is known."""
        if not model or session.engine.name == "scripted":
            return None
        return prices.price(
            model, at=self.runs.store.clock(), given=prices.declared(self._settings())
        )

    # -- what was spent ----------------------------------------------------------------------------

    def tree(self, run: Run) -> Tree:
        """Return what a run and all below it took, those that still run as far as they are."""
        tree, pending = Tree(), [run]
        while pending:
            one = pending.pop()
            tree += Tree(1, *self._spent(one))
            pending += self.runs.children(one.id)
        return tree

    def _spent(self, run: Run) -> tuple[Usage, float | None]:
        if (usage := run.fields.get("usage")) is not None:
            return Usage(**usage), run.fields.get("cost")
        folder = workspace.folder(self.runs.store, self._root, run.id, lasting=self._is_lasting)
        return ledger.spent(ledger.read(folder.lines(LEDGER)))

    # -- below -------------------------------------------------------------------------------------

    def _where(self, run: Run) -> tuple[Scope, ...]:
        return limits.scopes(
            self.policy,
            run=run.id,
            root=run.root,
            department=run.fields.get("department"),
            at=self.runs.store.clock(),
            own=asked(run.task),
            top=self._top(run.root, run.id, run.task),
        )

    def _top(self, root: str, id: str, task: Task) -> Limits:
        """Return the limits of the task at the root: they hold for all below it."""
        if root == id:
            return asked(task)
        if root not in self._tops:
            top_run = self.runs.get(root)
            self._tops[root] = asked(top_run.task if top_run else task)
        return self._tops[root]

    def _settings(self) -> dict[str, Any]:
        return dict(self.runs.store.settings.other)


def refuse_misread(store: Store) -> None:
    """Raise InvalidEntry where synapse.yaml has a key at its top that nobody knows, or anything
    wrong in what runs go by: a misspelt limit on money is none.
    """
    problems = misread(store, RUN_BLOCKS)
    settings = dict(store.settings.other)
    engines = settings.get("engines") or {}
    if not isinstance(engines, Mapping):
        problems.append(
            "engines is not valid: write a line for each, such as fast: {kind: openai-chat}"
        )
        engines = {}
    checks: list[Callable[[], object]] = [
        lambda: limits.policy(settings),
        lambda: prices.declared(settings),
    ]
    checks += [partial(declared, engines, name) for name in engines]
    checks += [lambda: calls.declared(settings)]
    for check in checks:
        try:
            check()
        except InvalidEntry as error:
            problems.append(str(error))
    if problems:
        raise InvalidEntry(
            f"no run begins by these settings: synapse.yaml: {'; '.join(problems)}",
            path="synapse.yaml",
            problems=problems,
        )


def misread(store: Store, blocks: Collection[str]) -> list[str]:
    """Return what is wrong with these blocks of synapse.yaml, with keys that nobody knows, or with
    all of it.
    """
    strays = store.log.read_settings(None)[1] if isinstance(store.log, FilesLog) else ()
    return [text for path, text in strays if concerns(path, blocks)]


def budget_of(runs: Runs, root: str, policy: Policy) -> Budget:
    """Return the budget that all of a workspace share. A missing one is made again from the
    ledgers of all runs, and of the calls outside of runs.
    """

    def pasts() -> Iterator[Past]:
        for run in runs.all():
            lease_name = run.holder if run.running else None
            department = run.fields.get("department")
            yield Past(run.id, run.parent, run.root, department, run.at, lease_name)
        # the consolidation of each date that has a ledger
        folder = os.path.join(root, "runs")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            kind, _, day = name.partition("-")
            if kind == CONSOLIDATION and day:
                yield Past(name, None, name, None, micros(f"{day}T12:00:00Z"), spawned=False)

    folder_of = partial(workspace.folder, runs.store, root)
    return Budget(
        os.path.join(root, "runs", "spend.db"),
        policy=policy,
        refill=lambda: ledgers(folder_of, pasts()),
        book=partial(book, folder_of),
        database=runs.store.log.database,
    )


def asked(task: Task) -> Limits:
    """Return the limits that a task sets itself."""
    return Limits(
        turns=task.max_turns, tokens=task.max_tokens, usd=task.max_usd, seconds=task.timeout
    )
