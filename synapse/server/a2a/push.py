"""Push notifications: what happens in a task, sent to an address that its agent named.

They go through the sender of webhooks: the host is resolved once, checked, and connected to by its
number. An agent named it and no person did, so it has to be a public address of https, or one of
the hosts that whoever started the server allowed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import deque

from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryPushNotificationConfigStore, PushNotificationSender
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToJson

from synapse.errors import Forbidden, InvalidEntry
from synapse.server.a2a.allowed import Push
from synapse.system import addresses
from synapse.webhooks.outbox import Backoff
from synapse.webhooks.post import post

MOST = 10  # addresses of one task
WAITING = 100  # notifications that wait for one address
LONGEST = 1_000  # characters of a token, or of credentials
USUAL = Backoff(longest=60.0, attempts=5)

log = logging.getLogger(__name__)
Key = tuple[str, str]  # a task, and its address


class Configs(InMemoryPushNotificationConfigStore):
    """The addresses of the tasks, each found by its agent alone."""

    async def set_info(
        self,
        task_id: str,
        notification_config: TaskPushNotificationConfig,
        context: ServerCallContext,
    ) -> TaskPushNotificationConfig:
        secrets = notification_config.authentication
        for text in (notification_config.token, secrets.scheme, secrets.credentials):
            if len(text) > LONGEST or not (text.isascii() and (text.isprintable() or not text)):
                raise InvalidParamsError("a token or credentials cannot be sent in a header")
        present = {config.id for config in await self.get_info(task_id, context)}
        if len(present) >= MOST and notification_config.id not in present:
            raise InvalidParamsError(f"a task has at most {MOST} addresses")
        return await super().set_info(task_id, notification_config, context)

    async def forget(self, task_id: str, context: ServerCallContext) -> None:
        """Forget the addresses of a task."""
        if await self.get_info(task_id, context):
            await self.delete_info(task_id, context)


class Sender(PushNotificationSender):
    """Sends the events of a task to its addresses, to each in their order. What cannot be sent
    after some attempts is logged, and what waits ends with the server.
    """

    def __init__(self, push: Push, configs: Configs) -> None:
        self._push = push
        self._configs = configs
        self._kinds: dict[str, str] = {}  # of the hosts that are allowed beside public ones
        self._waiting: dict[Key, deque[bytes]] = {}
        self._workers: dict[Key, asyncio.Task[None]] = {}

    async def accepts(self, url: str) -> bool:
        """Return whether an address may be named. It is resolved again when something is sent."""
        try:
            place = addresses.place_of(url)
            kind = await self._kind(place.host)
            if kind == addresses.PUBLIC and place.scheme == "http":
                return False
            resolver = self._push.wire.resolver
            await asyncio.to_thread(addresses.resolved, place.host, place.port, kind, resolver)
        except (Forbidden, InvalidEntry, OSError, UnicodeError):
            return False
        return True

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        body = MessageToJson(to_stream_response(event), indent=None).encode()
        for config in await self._configs.get_info_for_dispatch(task_id):
            key = task_id, config.id
            waiting = self._waiting.setdefault(key, deque())
            if len(waiting) >= WAITING:
                log.warning("push: %d notifications wait for one address: one is left out", WAITING)
                continue
            waiting.append(body)
            if key not in self._workers:
                self._workers[key] = asyncio.create_task(self._work(key, config))

    async def close(self) -> None:
        """Stop sending."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, key: Key, config: TaskPushNotificationConfig) -> None:
        """Send what waits for one address."""
        waiting = self._waiting[key]
        try:
            while waiting and config in await self._configs.get_info_for_dispatch(key[0]):
                await self._send(config, waiting[0])
                waiting.popleft()
        finally:
            del self._waiting[key], self._workers[key]

    async def _send(self, config: TaskPushNotificationConfig, body: bytes) -> None:
        headers = {}
        if config.token:
            headers["x-a2a-notification-token"] = config.token
        if config.authentication.credentials:
            secrets = config.authentication
            headers["authorization"] = f"{secrets.scheme} {secrets.credentials}"
        wire = self._push.wire
        if wire.tls is None:
            wire = wire._replace(tls=await asyncio.to_thread(ssl.create_default_context))
            self._push = self._push._replace(wire=wire)
        kind = await self._kind(addresses.place_of(config.url).host)
        for attempt in range(1, USUAL.attempts + 1):
            outcome = await post(config.url, headers, body, kind, wire)
            if outcome.delivered:
                return
            if attempt < USUAL.attempts:
                wait = max(USUAL.delay(attempt, random.random()), outcome.wait)
                await asyncio.sleep(min(wait, USUAL.longest))
        log.warning(
            "push: nothing is sent to an address of task %s: %s", config.task_id, outcome.text
        )

    async def _kind(self, host: str) -> str:
        """Return the kind of place that a host has to be."""
        if host not in self._push.hosts:
            return addresses.PUBLIC
        if host not in self._kinds:
            resolver = self._push.wire.resolver
            self._kinds[host] = await asyncio.to_thread(addresses.kind_found, host, 0, resolver)
        return self._kinds[host]
