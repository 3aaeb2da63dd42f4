"""Senders of webhooks that are killed, one after the other: no entry is lost, and what comes twice
has the same id.

A sender whose cursor moves before a delivery was taken loses entries, and is found out.
"""

import json
import random
import signal
import threading
import time

import pytest

import synapse
from tests.crash.lives import begin
from tests.synapse.webhooks.conftest import declare, receiver, root, wait_for

__all__ = ["receiver", "root"]  # fixtures

RIGHT = """
import asyncio, sys, synapse
from synapse.webhooks.outbox import Backoff, Outbox
from synapse.webhooks.post import Wire
from synapse.webhooks.sender import Sender
class Chosen(Outbox):
    pass
async def main(mem):
    sender = Sender(mem.store, wire=Wire(patience=0.2), backoff=Backoff(0.01, 0.05), outbox=Chosen)
    await sender.run(asyncio.Event())
with synapse.open(sys.argv[1]) as mem:
    asyncio.run(main(mem))
"""
# The cursor of each stands where the log was read, whatever was taken of it.
PLANTED = RIGHT.replace(
    "    pass\n",
    "    def low(self):\n"
    "        return self.follower.cursor\n"
    "    def save(self, now, *, force=False):\n"
    "        super().save(now, force=True)\n",
)
FIRST = 60  # entries written before a sender is there to send them


def played(root, receiver, program, rounds, seed=3):
    """Write entries while senders are killed; return what is wrong with what was taken, and how
    many came more than once.
    """
    draw = random.Random(seed)
    receiver.answer = lambda *call: draw.choice((200, 200, 500, "cut"))
    declare(root, receiver.url)
    written, over = [], threading.Event()

    def write():
        with synapse.open(str(root)) as mem:
            agent_memory = mem.as_agent("eng")
            while not over.is_set() or len(written) < FIRST:
                # never more behind than senders that live this short can send
                if len(written) < receiver.heard + FIRST:
                    written.append(agent_memory.append("text", "api/x").id)
                over.wait(0.003)

    first = started(root, program)  # so that the outbox is there, and its cursor
    assert wait_for(lambda: (root / "runs/.webhooks/chat.json").exists())
    stop(first)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(rounds):
            heard = receiver.heard
            sender = started(root, program)
            wait_for(lambda heard=heard: receiver.heard > heard)
            time.sleep(draw.random() * 0.1)
            stop(sender)
            assert receiver.heard > heard
    finally:
        over.set()
        writer.join()
    last = started(root, program)
    seconds = 60 if program == RIGHT else 3
    wait_for(lambda: set(written) <= set(ids_taken(receiver)), seconds)
    stop(last)
    by = {}
    for headers, body, _ in (*receiver.taken, *receiver.refused):
        by.setdefault(json.loads(body)["data"]["id"], set()).add(headers["webhook-id"])
    lost = set(written) - set(ids_taken(receiver))
    repeats = len(receiver.taken) - len(set(ids_taken(receiver)))
    print(f"{len(written)} entries, {rounds} kills, {len(lost)} lost, {repeats} repeats")
    return lost, [id for id, ids in by.items() if len(ids) > 1]


def ids_taken(receiver):
    return [json.loads(body)["data"]["id"] for _, body, _ in list(receiver.taken)]


def started(root, program):
    return begin("-c", program, root)


def stop(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_senders_lose_nothing(root, receiver):
    assert played(root, receiver, RIGHT, 6) == (set(), [])


def test_a_cursor_that_moves_before_the_delivery_is_found_out(root, receiver):
    lost, _ = played(root, receiver, PLANTED, 6)
    assert lost


@pytest.mark.soak
def test_senders_that_are_killed_again_and_again_lose_nothing(root, receiver):
    assert played(root, receiver, RIGHT, 200) == (set(), [])
