"""Mail gives out messages to whom they were sent, and to the operator."""

import pytest

import synapse
from tests.gate.world import (
    AGENTS,
    GHOST_THREAD,
    MAIL,
    READERS,
    acts,
    refusal,
    refusals,
    threads_of,
)


def walk_inbox(mail, world):
    me = mail.agent_memory
    if me.id == "operator":
        for agent in AGENTS:
            others = {
                known.id
                for known in world.seen_by(agent.id)
                if world.entry(known).author != agent.id
            }
            due = {known.id for known in world.known if known.state in MAIL} & others
            found = {each.id for each in mail.inbox(agent=agent.id)}
            yield (agent.id, None, found == due and mail.poll(agent=agent.id) == len(due), False)
        return
    own = {known.id for known in world.known if world.entry(known).author == me.id}
    due = world.live(me.id, states=MAIL) - own
    for limit in (None, 2, 0):
        found = [each.id for each in mail.inbox(limit)]
        yield (
            limit,
            mail.inbox(limit),
            {*found} <= due and len(found) == min(len(due), len(due) if limit is None else limit),
            False,
        )
    yield "count", None, mail.poll() == len(due), False
    for ask in (mail.poll, mail.inbox):
        yield (
            "another's",
            None,
            refusal(lambda ask=ask: ask(agent="cto" if me.id != "cto" else "lead")).startswith(
                "(<class 'synapse.errors.Forbidden"
            ),
            False,
        )


def walk_threads(mail, world):
    mine = world.live(mail.agent_memory.id, states=MAIL)
    total = 0
    for status in (None, "active"):
        found = mail.threads(status, tag=None, limit=100)
        total = sum(each.total for each in found)
        yield status, found, total == len(mine), False
    for each in found:
        yield (each.id, [mail.thread(each.id), *mail.history(each.id, 1_000)], True, False)
        told = mail.history(each.id, limit=2, before=mail.history(each.id)[-1].id)
        yield "before", told, len(told) <= 2, False
    yield ("history", None, {m.id for each in found for m in mail.history(each.id)} == mine, False)
    hidden = threads_of(world) - {each.id for each in found}
    missing = refusal(lambda: mail.thread(GHOST_THREAD))
    for id in hidden:
        for act in (
            mail.thread,
            mail.history,
            *(
                ()
                if mail.agent_memory.id == "operator"
                else (
                    mail.close,
                    mail.reopen,
                    lambda id: mail.tag(id, "x"),
                    lambda id: mail.rename(id, "x"),
                    lambda id: mail.send("all", "x", thread=id),
                )
            ),
        ):
            yield (
                id,
                None,
                refusal(lambda act=act, id=id: act(id)) == missing.replace(GHOST_THREAD, id),
                False,
            )


def walk_message(mail, world):
    for known in world.seen_by(mail.agent_memory.id):
        if known.state in MAIL:
            found = mail.get(known.id)
            yield known, found, known.word in found.body, False
    yield from refusals(mail.agent_memory, world, mail.get)


def mailed(act):
    def walk(mail, world):
        if mail.agent_memory.id != "operator":
            yield from acts(lambda me, id: act(mail, id))(mail.agent_memory, world)

    return walk


MAILED = {
    "inbox": walk_inbox,
    "poll": walk_inbox,
    "threads": walk_threads,
    "thread": walk_threads,
    "history": walk_threads,
    "close": walk_threads,
    "reopen": walk_threads,
    "tag": walk_threads,
    "rename": walk_threads,
    "send": walk_threads,
    "get": walk_message,
    "read": mailed(lambda mail, id: mail.read(id)),
    "ack": mailed(lambda mail, id: mail.ack(id)),
    "react": mailed(lambda mail, id: mail.react(id, "x")),
    "reply": mailed(lambda mail, id: mail.reply(id, "x")),
    "edit": mailed(lambda mail, id: mail.edit(id, "x")),
}
MAIL_READERS_PASS = {
    "inbox": {"limit", "agent"},
    "poll": {"agent"},
    "threads": {"status", "tag", "limit"},
    "history": {"thread", "limit", "before"},
    "thread": {"id"},
    "get": {"id"},
}


def mail_faults(world, mail, name):
    for asked, told, right, reviewing in MAILED[name](mail, world):
        leaked = world.leaks(mail.agent_memory.id, repr(told), reviewing)
        if leaked or not right:
            yield name, asked, leaked or "wrong", told


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", MAILED)
def test_every_read_of_mail_passes_the_gate(world, name, reader):
    assert next(mail_faults(world, synapse.Mail(world.mem.as_agent(reader)), name), None) is None


def test_the_walk_finds_mail_that_forgot_the_gate(world):
    class Leaky(synapse.Mail):
        def _reader(self):
            return None

        def _message(self, id):
            return self.store.entry(id)

        def _owner(self, named):
            return world.agents["cto"]

    mail = Leaky(world.mem.as_agent("eng-c"))
    seen = {name: [*mail_faults(world, mail, name)] for name in MAIL_READERS_PASS}
    assert [name for name, found in seen.items() if not found] == []
