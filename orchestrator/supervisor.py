"""The supervisor: starts runs, keeps them alive, brings them news, and settles their results.

Any number of supervisors share a workspace; each has its own runs. Whatever touches the memory runs
on one thread of its own, in order, and never on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from orchestrator.engine_pool import EnginePool, check_engines
from orchestrator.engines.protocol import Engine
from orchestrator.nightly.upkeep import Upkeep
from orchestrator.prompts.opening import Policy, by_default
from orchestrator.run_store.recovery import Recovery, let_go, recover
from orchestrator.run_store.store import RunStore
from orchestrator.runs import requirements
from orchestrator.runs.files.lease import BEAT, CONFIRM, LEASE
from orchestrator.runs.records import ATTEMPTS, Run, name
from orchestrator.runs.repeats import WAITS, earlier
from orchestrator.runs.task import Result, Task, check, check_mode
from orchestrator.sessions.config import Handler
from orchestrator.sessions.events import Events, RunEvent
from orchestrator.sessions.loop_runner import LoopRunner
from orchestrator.sessions.memory_thread import MemoryThread
from orchestrator.sessions.session import Session
from orchestrator.sessions.wake import LOOK_EVERY, Listener, News, soon
from orchestrator.sharing.calls import Sharing
from orchestrator.sharing.changed_files import ChangedFiles
from orchestrator.sharing.handlers import ToolContext, handlers_of
from orchestrator.spend.limits import LimitReached, Limits
from orchestrator.tools.functions import UserTool, tools_of
from orchestrator.turns.telemetry import run_span
from orchestrator.turns.turn_loop import TurnLoop
from synapse import core
from synapse.core import Memory
from synapse.errors import Conflict, InvalidEntry, StoreBusy
from synapse.model.agents import OPERATOR
from synapse.model.namespace import is_component
from synapse.system.checks import checked

T = TypeVar("T")


@checked
class Supervisor:
    """Runs agents on engines, with the memory in their prompts: an open one, or that of a
    workspace, which this then opens and closes.

    `engine` and `model` are for agents whose file names none. Without them it is the engine that
    synapse.yaml names, or whose key is set; where neither does, nothing begins. `engines` gives
    engines by name, made already. `memory_tools` (auto, always or never) says when agents are
    offered the memory's tools; `tools` are functions of yours, `mcp` servers whose tools are
    offered, each a command or an address. `context` decides what of the memory goes into a prompt.
    `limits` hold for each run, where they say more than the workspace's. `on_event` is called with
    each RunEvent, on the event loop's thread; `queue.put_nowait` feeds an `async for` of yours.

    With `seed`, the ids of runs follow from it. `inline` keeps everything on the event loop's
    thread: for virtual time. Without a sign of life for `lease` seconds this supervisor counts as
    hung; a run that died `attempts` times without moving is given up.
    """

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str],
        *,
        engine: str | Engine | None = None,
        model: str | None = None,
        engines: Mapping[str, Engine] | None = None,
        memory_tools: str = "auto",
        tools: Iterable[Callable[..., Any] | UserTool] = (),
        mcp: Iterable[str | Sequence[str]] = (),
        context: Policy = by_default,
        limits: Limits | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        seed: int | None = None,
        inline: bool = False,
        lease: float = LEASE,
        attempts: int = ATTEMPTS,
    ) -> None:
        check_mode(memory_tools)
        check_engines(engine, engines or {})
        self.events = Events(on_event)
        self.user_tools = tools_of(tools)
        self._opened: Memory | None = None  # what was opened here is closed with this
        if not isinstance(memory, Memory):
            memory = self._opened = core.open(memory)
        self._loop = LoopRunner()
        self.server_tools: list[UserTool] = []
        self._signed: tuple[list[UserTool], requirements.Signatures] = [], {}
        self.mcp, self.seed = list(mcp), seed
        self.sessions: dict[str, Session] = {}
        # the trees that were left in the middle, by their roots
        self.left: list[str] = []
        self._lives: dict[str, asyncio.Task[Result]] = {}
        self._begun = self._open = 0
        self._ending: str | None = None  # why whatever begins now is to end
        self._hearing: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._listener: Listener | None = None
        self._upkeep: Upkeep | None = None
        self.memory_thread = MemoryThread(inline=inline)
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        try:
            self.engine_pool = EnginePool(memory.store, engine, model, engines or {})
            self.run_store = RunStore(
                memory,
                name,
                context=context,
                memory_tools=memory_tools,
                limits=limits,
                lease=lease,
                attempts=attempts,
                seed=seed,
                offer=self._offer,
                lacking=self._lacking,
            )
        except BaseException:
            self.memory_thread.close(self._close_memory)
            raise
        self.sharing = Sharing(self.memory_thread, self.run_store, self.sessions)
        self.changed_files = ChangedFiles(self.run_store, self.sessions)

    @property
    def engines(self) -> dict[str, Engine]:
        """Return the engines that were given or made so far, by name."""
        return self.engine_pool.engines

    @property
    def default_engine(self) -> str | None:
        """Return the name of the engine where nobody names one; None where there is none."""
        return self.engine_pool.chosen.engine

    # -- for people --------------------------------------------------------------------------------

    def run(self, task: Task) -> Result:
        """Do a task and return what came of it. In a coroutine, `await spawn(task)` instead."""
        return self._loop.run("run", "spawn(task)", lambda: self.spawn(task), self.left)

    def resume(self, run: str | None = None) -> list[Result]:
        """Go on with the runs that were left, are answered, or whose process is gone, or with the
        tree of one, as far as what they need is here; return what came of them."""
        work = partial(self._resumed, run)
        return self._loop.run("resume", "take_over()", work, self.left)

    async def _resumed(self, run: str | None) -> list[Result]:
        async with self:
            root = run and (await self.memory_thread(self.run_store.known, run)).root
            runs = (await self.recover(root)).runs
            return [await self.result(run) for run in runs]

    async def spawn(
        self, task: Task, *, parent: str | None = None, id: str | None = None
    ) -> Result:
        """Do a task, for a run that is its parent or for nobody; what comes of it, refused by a
        limit without a run.
        """
        async with self:
            started = self.run_store.store.clock()
            parent_run = (
                None if parent is None else await self.memory_thread(self.run_store.known, parent)
            )
            try:
                run = await self.start(task, parent=parent_run, id=id)
            except LimitReached as limit:
                return Result("refused", "", "", why=str(limit))
            life = self._lives.get(run.id)
            if life is not None and run.at >= started:
                return await asyncio.shield(life)
            is_ours = await self.memory_thread(self.run_store.admission.is_resumed, run)
            how_old = "" if is_ours else earlier(run, self.run_store.store.clock())
            result = await self._result(run, patient=False)
            return result._replace(repeated=how_old)

    async def start(self, task: Task, *, parent: Run | None = None, id: str | None = None) -> Run:
        """Start a task; `result` waits for it. Return the run that is at this work already, where
        its process is gone, or, with `once`, the run that does it or just did.
        """
        check(task)
        if id is not None and not is_component(id):
            raise InvalidEntry(f"id is {id!r:.60}: write the name of a run")
        id = id or self._new_id(task.agent, parent)
        is_live = parent is not None and parent.id in self._lives
        defaults = self.engine_pool.defaults(parent.needs if parent and is_live else None)
        if not self.memory_thread.inline:
            await self.engine_pool.load_for(task, defaults)
        admit, engine_of = self.run_store.admission.admit, self.engine_pool.for_task
        admitted = self.memory_thread(admit, task, parent, id, engine_of, defaults)
        run: Run
        run, repeated = await admitted
        if not repeated and run.id not in self._lives:
            self._begin(run)
        return run

    async def result(self, run: Run) -> Result:
        """Return what came of a run, once it has ended, whoever holds it. Where its holder is gone,
        this one goes on; where that needs what is not here, wait until somebody does."""
        return await self._result(run, patient=True)

    async def _result(self, run: Run, *, patient: bool) -> Result:
        while (life := self._lives.get(run.id)) is None:
            current = await self.memory_thread(self.run_store.known, run.id)
            if not current.running:
                break
            recovered, waiting = await self.recover(current.root)
            if run.id in waiting and not patient:
                raise Conflict(WAITS.format(run=run.id, why=waiting[run.id]), run=run.id)
            if not recovered:
                await asyncio.sleep(LOOK_EVERY / 2)
        if life is not None:
            return await asyncio.shield(life)
        result: Result = await self.memory_thread(self.run_store.result, current)
        return result

    async def recover(self, root: str | None = None, *, left: bool = True) -> Recovery:
        """Go on with every run whose supervisor is gone or that is answered, or with those of one
        tree, as far as what they need is here; return these, and what the others wait for. Those
        that a person left go on where a person asks (`left`)."""
        look = partial(recover, self.run_store, root, left=left)
        recovery: Recovery = await self.memory_thread(look)
        if self.run_store.lease.suspects:  # perhaps all of us just stood still
            await asyncio.sleep(CONFIRM)
            before = recovery.runs
            recovery = await self.memory_thread(look)
            recovery.runs[:0] = before
        for run in recovery.runs:
            self._begin(run)
        return recovery

    take_over = recover  # its name for users

    async def stop(self, run: str, reason: str = "stopped by the operator") -> None:
        """End a run and all below it."""
        await self.memory_thread(self.run_store.runs.stop, run, OPERATOR, reason)
        await self._hear()

    async def _abandon(self, by: str | None = None) -> list[Run]:
        """Cancel the live sessions without ending their runs; another supervisor may recover them
        from their last steps. If a person abandons them (`by`), they are recovered only on
        request; return these runs."""
        lives = dict(self._lives)
        for life in lives.values():
            life.cancel()
        await asyncio.gather(*lives.values(), return_exceptions=True)
        act = partial(let_go, self.run_store, [*lives] if by else (), by or "")
        left: list[Run] = await self.memory_thread(act)
        self.left[:] = dict.fromkeys(run.root for run in left)
        return left

    # -- being open --------------------------------------------------------------------------------
    async def __aenter__(self) -> Supervisor:
        self._open += 1
        if self._open == 1:
            self.events.open()
            self._background = [asyncio.create_task(self._beat())]
            if self.mcp:
                from orchestrator.tools.mcp import connect

                names = [tool.tool.name for tool in self.user_tools]
                for server in self.mcp:
                    task, tools = await connect(server, names)
                    self._background.append(task)
                    self.server_tools += tools
            if not self.memory_thread.inline:
                loop = asyncio.get_running_loop()
                self._listener = Listener(self.run_store.store, lambda: soon(loop, self._notify))
                self._upkeep = Upkeep(self.run_store.store, lambda: bool(self._lives))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open -= 1
        if self._open:
            return
        if kind is not None and not issubclass(kind, Exception):
            # interrupted: nobody decided that the work ends
            await self._abandon(OPERATOR)
        self._ending = "its supervisor ended"
        for session in list(self.sessions.values()):
            session.stop(self._ending)
        await asyncio.gather(*list(self._lives.values()), return_exceptions=True)
        self._ending = None
        for thread in (self._listener, self._upkeep):
            if thread is not None:
                thread.close()
        self._listener = self._upkeep = None
        for task in (*self._background, *([self._hearing] if self._hearing else ())):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self.server_tools = []
        if not self._loop.is_running():
            await self.engine_pool.close()

    def close(self) -> None:
        """Let go of the workspace and of the engines; the memory stays open."""
        self._loop.close(self.engine_pool.close)
        self.memory_thread.close(self.run_store.close)
        self._close_memory()

    def _close_memory(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            self.run_store.lease.beat()
            if self._listener is None:
                await self._hear()

    def _begin(self, run: Run) -> None:
        self.events.emit(run, "started", run.task.text)
        life = asyncio.create_task(self._run_to_result(run), name=run.id)
        self._lives[run.id] = life
        life.add_done_callback(lambda _: self._lives.pop(run.id, None))

    async def _run_to_result(self, run: Run) -> Result:
        """Take a run from its prompt, or its last step, to its result, whatever goes wrong."""
        try:
            while True:
                with contextlib.suppress(StoreBusy):
                    return await self._settle(run)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            self.sessions.pop(run.id, None)
            self.sharing.ended(run.id)
            for session in self.sessions.values():
                session.changed.set()

    async def _settle(self, run: Run) -> Result:
        session = None
        try:
            session, turns = await self._session(run)
            self.sessions[run.id] = session
            news, end_reason = await self.memory_thread(
                self.run_store.deliveries.missed_news, session
            )
            for item in news:
                session.offer(item)
            if reason := end_reason or self._ending:
                session.stop(reason)
            provider, model = session.engine.name, session.config.model
            with run_span(run.id, run.agent, provider=provider, model=model) as span:
                outcome = await turns.run()
                if outcome.status != "done":
                    span.failed(outcome.status)
        except Exception as error:
            outcome = await self.memory_thread(self.run_store.failed, run, error)
        result: Result = await self.memory_thread(self.run_store.close_run, run, outcome, session)
        self.events.emit(run, "done", result.text or result.why, result=result)
        parent = self.sessions.get(run.parent or "")
        if parent is not None and result.status == "blocked":
            parent.child_blocked(result)
        return result

    async def _session(self, run: Run) -> tuple[Session, TurnLoop]:
        """Return a run's session, and what takes its turns."""
        engine = self.engine_pool.get(str(run.fields["engine"]))
        parts = await self.memory_thread(
            self.run_store.prepare_session, run, engine, not self.sessions
        )
        about = parts.folder, parts.config, parts.recorded
        session = Session(run, engine, *about, self.run_store.memory.store.clock, self.events)
        self.changed_files.add(session)
        handlers: dict[str, Handler] = {}
        if engine.takes_tools:
            context = ToolContext(
                session,
                parts.agent_memory,
                self.sharing,
                self.changed_files,
                self.start,
                self._gather,
            )
            tools = [*self.user_tools, *self.server_tools]
            handlers = handlers_of(context, tools, parts.tools)

        async def unread_results() -> list[Result]:
            unread = await self._unread(run.id, session.conversation.read)
            return [await self.result(child) for child in unread]

        turns = TurnLoop(
            session,
            handlers,
            self.run_store,
            self.memory_thread,
            self.sessions,
            self._hear,
            self.changed_files.text,
            unread_results,
        )
        return session, turns

    def _offer(self) -> requirements.Offer:
        tools = [*self.user_tools, *self.server_tools]
        if tools != self._signed[0]:
            self._signed = tools, requirements.signatures(tool.tool for tool in tools)
        pool, templates = self.engine_pool, self.run_store.templates
        ours = self._signed[1], templates.version
        return requirements.Offer(pool.declared, os.environ, pool.given, *ours)

    def _lacking(self, run: Run, asked_for: bool = False) -> tuple[str, ...]:
        """Return what a run needs that is not here; asked for, by the templates of now."""
        offer = self._offer()._replace(templates="") if asked_for else self._offer()
        return requirements.lacking(run.needs, offer) or tuple(
            self.engine_pool.missing((run.needs or {}).get("engines", ()))
        )

    def _new_id(self, agent: str, parent: Run | None) -> str:
        if self.seed is None:
            return name(agent, os.urandom(16))
        self._begun += 1
        return name(agent, self.seed, parent.id if parent else None, self._begun)

    async def _hear(self) -> None:
        """Put what is critical into the inboxes of its readers, and end what somebody stopped. It
        is completed even if the caller is cancelled: what was read from the log is for everybody.
        """
        if self.memory_thread.inline and not self.run_store.deliveries.has_changed():
            await asyncio.sleep(0)  # whoever is out of time ends here
        else:
            await asyncio.shield(self._read_changes())

    async def _read_changes(self) -> None:
        changes = await self.memory_thread(
            self.run_store.deliveries.changes, list(self.sessions.values())
        )
        now = self.run_store.store.clock()
        for id, entry, tier in changes.news:
            if id in self.sessions:
                self.sessions[id].offer(News(entry, now, tier))
        for id, reason in changes.stops:
            if id in self.sessions:
                self.sessions[id].stop(reason)

    def _notify(self) -> None:
        """Look for news, on the event loop, unless somebody is looking or no session would get
        it.
        """
        if self.sessions and (self._hearing is None or self._hearing.done()):
            self._hearing = asyncio.create_task(self._hear())

    async def _gather(
        self, session: Session, wanted: Iterable[str]
    ) -> tuple[list[Result], list[str]]:
        """Return the unread results of a session's children, those wanted or all, once they have
        ended or one has ended blocked, and the runs that have not; no results where news is due."""
        while True:
            session.changed.clear()
            children = await self._unread(session.run.id, session.conversation.read)
            selected = [child for child in children if not wanted or child.id in wanted]
            running = [child for child in selected if child.running]
            ended = [child for child in selected if not child.running]
            if not running or any(child.status == "blocked" for child in ended):
                return [await self.result(child) for child in ended], [
                    child.id for child in running
                ]
            if session.due:
                return [], [child.id for child in running]
            session.waiting = True
            if all(child.id in self._lives for child in running):
                await session.changed.wait()
            elif not (await self.recover(session.run.root)).runs:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(session.changed.wait(), LOOK_EVERY)
            session.waiting = False

    async def _unread(self, run: str, read: frozenset[str]) -> list[Run]:
        runs: list[Run] = await self.memory_thread(self.run_store.runs.children, run)
        return [child for child in reversed(runs) if child.id not in read]
