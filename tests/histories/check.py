"""The checker: what a history left behind, held against what was acknowledged, and what everybody
is told, held against what the journal says.
"""

from __future__ import annotations

from synapse.errors import SynapseError
from synapse.mail.mailbox import Mail
from synapse.model.entry import SECOND
from tests.histories import acts
from tests.histories.acts import ACKED, Act
from tests.histories.truth import Truth

MAIL = ("lead", "eng", "ops", "junior")


def on_the_way(world):
    """Check through one handle, as far as it costs little."""
    mem = world.handle()
    world.looked(mem)
    truth = Truth(world.root)
    faults = [*account(world, truth)]
    who = world.dice.sample(["operator", *MAIL], 2)
    for other in {id(each): each for each in (mem, world.handle())}.values():
        faults += answers(world, other, truth, who)
    for fault in faults:
        world.wrong(fault)


def account(world, truth):
    yield from truth.doubled()
    yield from world.ledger.faults(truth, world.orders)


def answers(world, mem, truth, who):
    """Yield where a reader is told something else than the journal says."""
    now = world.now
    try:
        for agent in who:
            me = mem.as_agent(agent)
            yield from differing(
                f"read by {agent}",
                [entry.id for entry in me.read(limit=None)],
                truth.plain(agent, now),
            )
            if agent != "operator":
                yield from differing(
                    f"unread by {agent}", me.unread(), len(truth.unread(agent, now))
                )
                mail, waits = Mail(me), truth.inbox(agent, now)
                yield from differing(f"poll by {agent}", mail.poll(), len(waits))
                found = [message.id for message in mail.inbox()]
                yield from differing(f"inbox of {agent}", found, waits)
            if agent in truth.agents:
                view = me.briefing(quick=True, budget=4_000)
                stray = {each.id for each in view.included} - set(truth.live(agent, now))
                yield from differing(f"strays in the view of {agent}", stray, set())
        yield from searched(world, mem, truth, who[0])
    except SynapseError as error:
        yield f"a read failed: {type(error).__name__}: {error}"


def searched(world, mem, truth, agent):
    """Yield where a search for a token does not find the one entry that has it."""
    live = truth.found(agent, world.now)
    for item in world.dice.sample(world.items, min(2, len(world.items))):
        id, token = item["id"], item["token"]
        found = [hit.entry.id for hit in mem.as_agent(agent).search(token).hits]
        entry = truth.entries.get(id)
        if entry is not None and token in entry.body.split():
            yield from differing(f"search for {token}", id in found, id in live)


def differing(what, told, known):
    if told != known:
        yield f"{what}: told {told!r:.300}, but it is {known!r:.300}"


def at_the_end(world):
    """Close what is half done, then check everything through every handle and a fresh one."""
    from tests.histories import steps

    if world.merging is not None:
        steps.merge(world, None)
    mem = world.handle()
    world.now += 5 * SECOND
    outcome, value = world.act(
        mem, Act("append", "eng", token := world.token(), steps.plain(token, "api/x"))
    )
    if outcome != ACKED:
        return world.wrong(f"the last append {outcome}: {value}")
    world.looked(mem)
    for agent in MAIL:
        world.act(mem, Act("receive", agent, world.token(), {}))
    world.now += 5 * SECOND
    if world.problems:
        return None
    world.looked(world.open())
    truth = Truth(world.root)
    faults = [*account(world, truth), *mailed(world, truth)]
    digests = set()
    for each in world.handles:
        who = ["operator", *MAIL]
        if each is not world.handles[-1]:
            who = ["operator", world.dice.choice(MAIL)]
        faults += answers(world, each, truth, who)
        digests.add(each.digest())
    digests.add(mem.rebuild().digest)
    if len(digests) > 1:
        faults.append("the index is not what a rebuild makes of the journal")
    outcome, value = acts.attempt(mem, Act("verify", "operator", "", {}))
    faults += [f"verify: {problem}" for problem in value or ()]
    if Truth(world.root).signatures[: len(truth.signatures)] != truth.signatures:
        faults.append("a check changed what is there")
    for fault in faults:
        world.wrong(fault)
    return None


def mailed(world, truth):
    """Yield the messages that an agent was given twice, or never."""
    for agent in MAIL:
        given = world.ledger.delivered.get(agent, {})
        marked = world.ledger.marked.get(agent, set())
        yield from (
            f"{token} was given to {agent} {count} times"
            for token, count in given.items()
            if count > 1
        )
        for id in truth.live(agent, world.now):
            entry, token = truth.entries[id], truth.token_of[id]
            if entry.kind != "message" or entry.author == agent or given.get(token):
                continue
            if token not in marked and "*" not in marked:
                yield f"{token} was never given to {agent}"
