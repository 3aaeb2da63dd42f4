"""The sender, one per workspace: follows the log and delivers what the webhooks are for, until it
is told to stop.

`run` is a coroutine for the loop of whoever stays up: the server, `orchestrator up`, or `synapse
webhooks run`. The log and the outboxes are looked at in a thread of its own, so that nothing that
syncs runs on the loop. Where another process is the sender, it waits for its turn.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event as Flag
from threading import Thread

from synapse.errors import StoreError, SynapseError
from synapse.notify import RECONCILE
from synapse.store import Store
from synapse.system.lock import hold
from synapse.system.signal import NotificationPipe
from synapse.system.typed import NamedTuple
from synapse.trust import decisions
from synapse.webhooks import signatures
from synapse.webhooks.outbox import Backoff, Delivery, Outbox, made_folder
from synapse.webhooks.post import Outcome, Wire, post
from synapse.webhooks.secrets import read_secret
from synapse.webhooks.targets import BLOCK, Target, declared, is_configured

PAUSE = 1.0  # seconds after a look that failed, and between two looks for the lock
# seconds until a workspace is asked again whether it declares webhooks
LOOK_AGAIN = 1.0
LOCK = ".lock"
MOST_NOTED = 1000
PLAIN = Wire()
USUAL = Backoff()


class Shipment(NamedTuple):
    """A delivery with all that is needed to send it."""

    outbox: Outbox
    delivery: Delivery
    body: bytes
    keys: tuple[bytes, ...]
    trusted: str


async def keep_sending(
    store: Store, note: Callable[[str], None] | None, stop: asyncio.Event
) -> None:
    """Send from when webhooks are declared on, until told to stop. Where another process sends,
    this one waits for its turn.
    """
    while not stop.is_set():
        try:
            if await asyncio.to_thread(is_configured, store):
                await Sender(store, note).run(stop)
        except Exception as error:
            if note is not None:
                note(f"webhooks are sent anew: {type(error).__name__}: {error}")
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_AGAIN)


class Sender:
    """Delivers the entries of one workspace. `note` is told of what goes wrong, once for each
    reason; `chance` gives a number from 0 to 1.
    """

    def __init__(
        self,
        store: Store,
        note: Callable[[str], None] | None = None,
        *,
        wire: Wire = PLAIN,
        backoff: Backoff = USUAL,
        chance: Callable[[], float] = random.random,
        outbox: type[Outbox] = Outbox,
    ) -> None:
        self.store = store
        self.note = note
        self.wire = wire
        self.backoff = backoff
        self.chance = chance
        self.outbox = outbox
        self.outboxes: dict[Target, Outbox] = {}
        self._declared: tuple[object, list[Target]] = (None, [])
        self._noted: set[tuple[str, str]] = set()
        self._done: list[tuple[Shipment, Outcome]] = []
        self._lock = -1

    async def run(self, stop: asyncio.Event) -> None:
        """Send until told to stop. What is on its way then is sent again by the next sender."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        if self.wire.tls is None:
            self.wire = self.wire._replace(tls=ssl.create_default_context())
        under_way: set[asyncio.Task[None]] = set()
        ended = Flag()
        listener = Thread(target=self._listen, args=(loop, changed, ended), daemon=True)
        with ThreadPoolExecutor(1, "webhooks") as memory:
            listener.start()
            try:
                while not stop.is_set():
                    changed.clear()
                    shipments, wait = await loop.run_in_executor(memory, self._look)
                    for shipment in shipments:
                        under_way.add(asyncio.create_task(self._send(shipment, changed)))
                    await _first(stop, changed, wait)
                    under_way = {task for task in under_way if not task.done()}
            finally:
                ended.set()
                for task in under_way:
                    task.cancel()
                await asyncio.gather(*under_way, return_exceptions=True)
                await loop.run_in_executor(memory, self._leave)

    async def _send(self, shipment: Shipment, changed: asyncio.Event) -> None:
        now = self.store.clock() // 1_000_000
        headers = signatures.headers_of(shipment.keys, shipment.delivery.id, now, shipment.body)
        url = shipment.outbox.target.url
        outcome = await post(url, headers, shipment.body, shipment.trusted, self.wire)
        self._done.append((shipment, outcome))
        changed.set()

    # -- in the thread of the memory ---------------------------------------------------------------

    def _look(self) -> tuple[list[Shipment], float]:
        """Settle what was answered, save, and return what is to be sent now, and after how many
        seconds there is to be looked again at the latest.
        """
        try:
            if not self._is_ours():
                return [], PAUSE
            self.store.refresh()
            self._settle()
            self._open()
        except (SynapseError, OSError) as error:
            self._tell("", f"nothing is sent: {error}")
            return [], PAUSE
        shipments: list[Shipment] = []
        for outbox in self.outboxes.values():
            shipments += self._fill(outbox)
        return shipments, self._wait()

    def _fill(self, outbox: Outbox) -> list[Shipment]:
        """Return what one outbox has to send now."""
        shipments: list[Shipment] = []
        deliveries: list[Delivery] = []
        now, name = time.monotonic(), outbox.target.name
        try:
            outbox.recall()
            outbox.fill()
            outbox.save(now)
            deliveries = outbox.due(now)
            shipments = self._prepared(outbox, deliveries) if deliveries else []
            outbox.problem = ""
        except (SynapseError, OSError) as error:
            outbox.problem = str(error)
            self._tell(name, f"webhook {name}: {error}")
            for delivery in deliveries:
                outbox.ground(delivery, now, PAUSE)
        return shipments

    def _prepared(self, outbox: Outbox, due: list[Delivery]) -> list[Shipment]:
        """Return the deliveries ready to be sent, where a person trusts the target."""
        target = outbox.target
        trusted = decisions.demand(self.store.root, target.want)
        self.store.log.sync()  # its writer may be between line and sync
        root = self.store.root
        keys = tuple(signatures.key_of(read_secret(name, root)) for name in target.secrets)
        shipments = []
        for delivery in due:
            body = outbox.body(delivery)
            if body is None:
                outbox.settle(delivery, sent=False)
            else:
                shipments.append(Shipment(outbox, delivery, body, keys, trusted))
        return shipments

    def _settle(self) -> None:
        """Note what was answered since the last look."""
        now = time.monotonic()
        while self._done:
            shipment, outcome = self._done[0]
            outbox, delivery = shipment.outbox, shipment.delivery
            if outcome.delivered:
                outbox.settle(delivery)
            else:
                wait = self.backoff.delay(delivery.attempts + 1, self.chance())
                outbox.fail(delivery, outcome.text, now, max(wait, outcome.wait))
                self._tell(outbox.target.name, f"webhook {outbox.target.name}: {outcome.text}")
            del self._done[0]

    def _open(self) -> None:
        """Open an outbox for each webhook that is declared now, and close all others."""
        settings = self.store.settings
        if self._declared[0] is not settings:
            targets, problems = declared(settings, self.store.root or "")
            for name, why in problems.items():
                self._tell(name, f"{BLOCK}: {why}")
            self._declared = settings, targets
        targets = self._declared[1]
        for target in [target for target in self.outboxes if target not in targets]:
            self.outboxes.pop(target).save(time.monotonic(), force=True)
        for target in targets:
            if target not in self.outboxes:
                try:
                    outbox = self.outbox(self.store, target, self.backoff)
                    outbox.save(time.monotonic(), force=True)
                    self.outboxes[target] = outbox
                except StoreError as error:
                    self._tell(target.name, f"webhook {target.name}: {error}")

    def _wait(self) -> float:
        """Return the seconds until there is something to do that nothing notifies of."""
        if any(outbox.more for outbox in self.outboxes.values()):
            return 0.0
        dues = [outbox.next_due() for outbox in self.outboxes.values() if not outbox.problem]
        first = min((moment for moment in dues if moment is not None), default=None)
        if first is None:
            return RECONCILE
        return min(RECONCILE, max(0.0, first - time.monotonic()))

    def _is_ours(self) -> bool:
        """Return whether this process is the sender; take the lock if nobody has it."""
        if self._lock < 0:
            fd = lock(self.store)
            if fd is None:
                self._tell("", "another process sends for this workspace; waiting for it")
                return False
            self._lock = fd
        return True

    def _leave(self) -> None:
        """Settle and save what is known, and let others send."""
        try:
            self._settle()
            for outbox in self.outboxes.values():
                outbox.save(time.monotonic(), force=True)
        except (SynapseError, OSError) as error:
            self._tell("", f"what was sent last is not noted, and is sent again: {error}")
        finally:
            self.outboxes.clear()
            if self._lock >= 0:
                fd, self._lock = self._lock, -1
                os.close(fd)
            self.store.index.let_go()

    def _tell(self, about: str, text: str) -> None:
        if self.note is not None and (about, text) not in self._noted:
            self.note(text)
        if len(self._noted) < MOST_NOTED:
            self._noted.add((about, text))

    # -- in a thread that waits --------------------------------------------------------------------

    def _listen(self, loop: asyncio.AbstractEventLoop, changed: asyncio.Event, ended: Flag) -> None:
        """Notify the event loop whenever the log has grown."""
        pipe = NotificationPipe(self.store.log.pipes or "")
        try:
            while not ended.is_set():
                if pipe.wait(RECONCILE) and not ended.is_set():
                    loop.call_soon_threadsafe(changed.set)
        except RuntimeError:  # the loop is closed
            pass
        finally:
            pipe.close()


def lock(store: Store) -> int | None:
    """Take the lock of the one sender of a workspace, which ends with its process; None where
    another has it.
    """
    return hold(os.path.join(made_folder(store), LOCK))


async def _first(stop: asyncio.Event, changed: asyncio.Event, seconds: float) -> None:
    """Wait for either event, but not longer."""
    tasks = [asyncio.create_task(event.wait()) for event in (stop, changed)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
