"""Facts, atoms, links: who keeps what where, what it comes from, and what forgetting leaves."""

import pytest

import synapse
from synapse.errors import Forbidden, InvalidEntry, NotFound
from synapse.knowledge import memory
from synapse.mail.mailbox import Mail
from synapse.model.kinds import MAIL, new_id, new_thread
from synapse.testing.tools import FrozenClock


@pytest.fixture
def mem():
    mem = synapse.open("memory:", clock=FrozenClock())
    mem.register(synapse.Agent("cto", role="cto"))
    for name in ("ann", "bob"):
        mem.register(
            synapse.Agent(name, role="engineer", teams=("web",), read=("api/*",), write=("api/*",))
        )
    mem.register(synapse.Agent("eve", role="engineer", read=("api/*",), write=("api/*",)))
    yield mem
    mem.close()


@pytest.fixture
def ann(mem):
    return mem.as_agent("ann")


def message(me, body, to="all", thread=None, **more):
    """A message as mail writes it."""
    draw = me.store.draw
    own = {"thread": thread or new_thread(draw(16))} | more
    names = synapse.model.entry.addressees(to)
    draft = synapse.Draft(
        body, MAIL, me.id, addressees=names, id=new_id("message", draw(6)), kind="message", more=own
    )
    return me.write(draft)


def sees(mem, who, id):
    try:
        return mem.as_agent(who).get(id).id == id
    except NotFound:
        return False


def test_a_fact_is_seen_within_its_scope(mem, ann):
    own = memory.remember(ann, "the staging key is in the vault")
    team = memory.remember(
        ann, "we deploy on thursdays", scope="group", categories=["process"], importance=2
    )
    everybody = memory.remember(mem.as_agent("cto"), "no personal data in logs", scope="global")
    seen = {
        who: [sees(mem, who, each.id) for each in (own, team, everybody)]
        for who in ("ann", "bob", "eve")
    }
    assert seen == {
        "ann": [True, True, True],
        "bob": [False, True, True],
        "eve": [False, False, True],
    }
    assert (team.kind, team.namespace, team.more["categories"], team.ttl) == (
        "fact",
        "groups/web",
        ("process",),
        "never",
    )


def test_who_may_not_keep_what(mem, ann):
    with pytest.raises(Forbidden):
        memory.remember(ann, "a rule for all", scope="global")
    with pytest.raises(Forbidden):
        memory.remember(ann, "x", scope="group:other")
    with pytest.raises(InvalidEntry):
        memory.remember(mem.as_agent("eve"), "x", scope="group")
    with pytest.raises(InvalidEntry):
        memory.remember(ann, "x", scope="planet")
    with pytest.raises(Forbidden):
        memory.remember(mem.as_agent("operator"), "x")
    with pytest.raises(InvalidEntry):
        memory.remember(ann, "x", confidence=1.5)
    with pytest.raises(NotFound):
        memory.remember(ann, "x", cites="run-nobody")


def test_a_retry_keeps_one_fact(ann):
    first = memory.remember(ann, "once", once="k")
    assert memory.remember(ann, "once", once="k").id == first.id
    assert len(list(ann.read(namespace="agents/ann"))) == 1


def test_what_is_forgotten_stays_in_the_log(mem, ann):
    fact = memory.remember(ann, "the port is 4711", scope="group")
    with pytest.raises(NotFound):
        memory.forget(mem.as_agent("eve"), fact.id)
    memory.forget(ann, fact.id, "it moved")
    assert not list(ann.read(namespace="groups/*"))
    assert not list(ann.search("port"))
    assert ann.get(fact.id).body == "the port is 4711"
    assert ann.fate(fact.id).reason == "resolved"
    with pytest.raises(NotFound):
        memory.forget(ann, ann.append("an entry", "api/x").id)


def test_an_atom_and_its_chain(ann):
    first = memory.atom(
        ann,
        "deploy",
        "skipped the migration",
        "login failed",
        "two hours of outage",
        confidence=0.9,
    )
    second = memory.atom(ann, "support", "was flooded", "answers took a day")
    assert first.body == "deploy: skipped the migration -> login failed; two hours of outage"
    assert (first.more["outcome"], first.more["confidence"]) == ("login failed", 0.9)
    memory.link(ann, first.id, second.id, "enables", 0.4)
    link = memory.link(ann, first.id, second.id, "causes", 0.8)
    assert memory.links_of(ann, second.id) == [link]
    assert (link.type, link.strength, link.by) == ("causes", 0.8, "ann")
    for wrong in (
        (first.id, first.id),
        (first.id, second.id, "delights"),
        (first.id, second.id, "causes", 2),
    ):
        with pytest.raises(InvalidEntry):
            memory.link(ann, *wrong)
    with pytest.raises(InvalidEntry):
        memory.atom(ann, "deploy", "", "failed")


def test_a_link_to_what_one_may_not_see_is_not_there(mem, ann):
    bob = mem.as_agent("bob")
    shared = memory.atom(ann, "a", "b", "c", scope="group")
    own = memory.atom(bob, "d", "e", "f")
    memory.link(bob, own.id, shared.id)
    assert len(memory.links_of(bob, shared.id)) == 1
    assert memory.links_of(ann, shared.id) == []
    with pytest.raises(NotFound):
        memory.link(ann, shared.id, own.id)


def test_uses_go_into_the_log_once_an_hour(mem, ann):
    clock = mem.store.clock
    fact = memory.remember(ann, "often asked for")
    before = mem.store.log.mark()
    for _ in range(5):
        memory.used(ann, [fact.id, "syn-2026-01-01-001"])
    assert mem.store.log.mark() == before, "asking writes nothing"
    assert memory.uses_of(ann, fact.id) == 5
    clock.advance("1h")
    memory.used(ann, [fact.id])
    assert mem.store.log.mark() != before
    assert memory.uses_of(ann, fact.id) == 6
    mem.rebuild()
    assert memory.uses_of(ann, fact.id) == 6


def test_tags_in_a_message_are_kept_once_and_reach_whom_it_reached(mem, ann):
    body = (
        "Hello,\n@remember the sandbox resets at noon\nwe said: @remember this is in mid-line\n"
        "@decision use postgres\n@atom cache | was off | pages took 2 s | users left\n@insight"
    )
    sent = message(ann, body, to="bob")
    kept = memory.harvest(ann, sent)
    assert [(each.kind, each.body) for each in kept] == [
        ("fact", "the sandbox resets at noon"),
        ("fact", "use postgres"),
        ("atom", "cache: was off -> pages took 2 s; users left"),
    ]
    assert kept[1].more["categories"] == ("decision",)
    assert all(each.derived_from == (sent.id,) for each in kept)
    assert memory.harvest(ann, sent) == []
    assert [[sees(mem, who, each.id) for each in kept] for who in ("bob", "eve")] == [
        [True] * 3,
        [False] * 3,
    ]
    with pytest.raises(Forbidden):
        memory.harvest(mem.as_agent("bob"), sent)


def test_tags_of_a_broadcast_stay_where_their_author_may_write(mem, ann):
    (own,) = memory.harvest(ann, message(ann, "@remember everybody reads this"))
    assert own.namespace == "groups/web"
    (all_,) = memory.harvest(
        mem.as_agent("cto"), message(mem.as_agent("cto"), "@remember so do all")
    )
    assert all_.namespace == "global"


def test_a_thread_leaves_a_fact(mem, ann):
    thread = new_thread(bytes(16))
    first = message(ann, "Which database?", to="bob", thread=thread, subject="Storage")
    last = message(ann, "We take Blue Harbor 4.2, as agreed.", to="bob", thread=thread)
    fact = memory.summarise(ann, [first, last])
    assert fact.body.startswith("Storage: ")
    assert "Blue Harbor 4.2" in fact.body
    assert fact.derived_from == (first.id, last.id)
    assert sees(mem, "bob", fact.id)
    assert not sees(mem, "eve", fact.id)
    assert memory.summarise(ann, [first, last], "we chose").body == "Storage: we chose"


def test_knowledge_is_trusted_as_its_sources_are(mem, ann):
    entry = ann.append("measured: 40 ms", "api/speed")
    fact = memory.remember(ann, "it takes 40 ms", cites=[entry.id])
    assert fact.derived_from == (entry.id,)
    with pytest.raises(NotFound):
        memory.remember(ann, "x", cites=[memory.remember(mem.as_agent("bob"), "his own").id])


def test_what_is_sent_with_tags_is_kept(mem, ann):
    sent = Mail(ann).send(
        "bob", "Hi\n@remember the sandbox resets at noon\n@atom only | two parts", subject="Box"
    )
    (fact,) = [
        hit.entry for hit in mem.as_agent("bob").search("sandbox") if hit.entry.kind == "fact"
    ]
    assert fact.derived_from == (sent.id,)
    Mail(ann).edit(sent.id, "@remember the sandbox resets at one")
    assert len([each for each in ann.read(namespace="agents/ann") if each.kind == "fact"]) == 1


def test_a_closed_thread_leaves_a_fact_for_who_heard_all_of_it(mem, ann):
    sent = Mail(ann).send("bob", "Which database?", subject="Storage")
    Mail(mem.as_agent("bob")).reply(sent.id, "Blue Harbor 4.2")
    assert Mail(ann).close(sent.thread, summary=True).status == "closed"
    (fact,) = [each for each in ann.read(namespace="agents/ann") if each.kind == "fact"]
    assert "Blue Harbor 4.2" in fact.body
    assert fact.addressees == ("agent:ann", "agent:bob")
    wide = Mail(ann).send("all", "We all like it", subject="Party")
    Mail(ann).close(wide.thread, summary="it was fun")
    assert [each.body for each in mem.as_agent("bob").read(namespace="groups/web")] == [
        "Party: it was fun"
    ]
