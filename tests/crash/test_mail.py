"""Eight processes that send at once: every message that was acknowledged is there, once, and nobody
waits to read.

What a sender was told goes into a list that is checked against the log, the tree, the inbox of
everybody and the counts; a log that loses or doubles one does not pass.
"""

import json
import os
import subprocess
import sys

import pytest

import synapse
from synapse import Mail, StoreBusy
from synapse.log.memory import MemoryLog

SENDERS, EACH = 8, 40
SENDER = """
import json, sys, synapse
root, name, each = sys.argv[1:4]
with synapse.open(root) as memory:
    mail = synapse.Mail(memory.as_agent(name))
    mail.poll()
    print("ready", flush=True)
    sys.stdin.readline()
    sent = [mail.send(("all", "reader")[n % 2], f"{name} {n}", once=f"k{n}").id for n in range(int(each))]
    print(json.dumps(sent), flush=True)
"""


@pytest.fixture
def root(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        for n in range(SENDERS):
            memory.register(synapse.Agent(f"eng-{n}", read=(), write=()))
        memory.register(synapse.Agent("reader", read=(), write=()))
    return str(tmp_path / "memory")


def started(root):
    command = [sys.executable, "-c", SENDER, root]
    senders = [
        subprocess.Popen(
            [*command, f"eng-{n}", str(EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(SENDERS)
    ]
    for sender in senders:
        assert sender.stdout.readline() == "ready\n"
    for sender in senders:
        sender.stdin.write("go\n")
        sender.stdin.flush()
    return senders


def faults(memory, sent):
    """What is wrong with the mail, where these were acknowledged: by name of the sender, ids in
    order.
    """
    found, told = [], [id for ids in sent.values() for id in ids]
    records = [record for record in memory.store.log.since(0) if record.kind == "entry"]
    by = {name: [record.id for record in records if record.by == name] for name in sent}
    if by != sent:
        found.append(
            "the log does not hold what was acknowledged, once each, in the order of its sender"
        )
    waiting = {each.id for each in Mail(memory.as_agent("reader")).inbox()}
    if waiting != {*told} or Mail(memory.as_agent("reader")).poll() != len(told):
        found.append("the reader's inbox is not what was sent to it")
    heard = {name: Mail(memory.as_agent(name)).poll() for name in sent}
    if heard != {
        name: sum(len(ids[::2]) for other, ids in sent.items() if other != name) for name in sent
    }:
        found.append("a sender did not hear what the others said to all")
    if memory.store.root and any(not os.path.exists(path(memory, id)) for id in told):
        found.append("a message has no file")
    return found


def path(memory, id):
    thread = memory.store.commit.get(id).fields["more"]["thread"]
    return os.path.join(memory.store.root, "messages", thread, f"{id}.md")


def test_eight_senders_lose_nothing_and_a_reader_goes_on(root):
    senders, seen = started(root), [0]
    with synapse.open(root) as memory:
        mail = Mail(memory.as_agent("reader"))
        while any(sender.poll() is None for sender in senders):
            seen.append(mail.poll())
            assert len(mail.inbox()) >= seen[-1]
            mail.threads(limit=5)
        sent = {f"eng-{n}": json.loads(sender.communicate()[0]) for n, sender in enumerate(senders)}
        assert [sender.returncode for sender in senders] == [0] * SENDERS
        assert seen == sorted(seen)
        assert len(set(seen)) > 3, "it read on while they sent"
        assert faults(memory, sent) == []
        assert memory.verify().ok
        digest = memory.digest()
        assert memory.rebuild().digest == digest


class Losing(MemoryLog):
    """Acknowledges every tenth record and forgets it."""

    def _put(self, pending, at):
        record = super()._put(pending, at)
        if pending.kind == "entry" and len(self.records) % 10 == 0:
            self.records[-1] = record._replace(
                kind="shown", fields={"cursor": 0}, id=None, once=None
            )
        return record


class Doubling(MemoryLog):
    """Knows nothing of `once`."""

    def _write(self, record, place, keeper):
        return super()._write(record._replace(once=None), place, keeper)


@pytest.mark.parametrize("kind", [Losing, Doubling])
def test_the_check_finds_a_log_that_loses_or_doubles(kind):
    from synapse.core import Memory
    from synapse.model.clock import now
    from synapse.store import Store

    with Memory(Store(kind(), now)) as memory:
        for name in ("eng-0", "eng-1", "reader"):
            memory.register(synapse.Agent(name))
        sent = {}
        for name in ("eng-0", "eng-1"):
            mail = Mail(memory.as_agent(name))
            sent[name] = [
                mail.send(("all", "reader")[n % 2], f"{n}", once=f"k{n}").id for n in range(20)
            ]
            mail.send("all", "0", once="k0")
        assert faults(memory, sent)


def test_nobody_who_reads_waits_for_who_writes(root):
    """With the log's lock held by somebody else, an agent still polls, reads its inbox and lists
    threads.
    """
    with synapse.open(root) as memory, synapse.open(root) as other:
        sent = Mail(other.as_agent("eng-0")).send("reader", "before")
        mail, lock = Mail(memory.as_agent("reader")), other.store.log.journal.lock

        def read():
            return [mail.poll(), len(mail.inbox()), len(mail.threads()), mail.get(sent.id).body]

        assert lock.run(read) == [1, 1, 1, "before"]
        memory.store.log.journal.lock.patience = 0.2
        with pytest.raises(StoreBusy):  # it is held indeed: who writes waits
            lock.run(lambda: mail.ack(sent.id))
