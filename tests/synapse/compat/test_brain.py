"""The document's API: its methods and signatures, whose they are, and that nobody gets more than it
may see.
"""

import inspect
import json
import random

import pytest

import synapse
from synapse import Conflict, Forbidden, InvalidEntry, InvalidQuery, Mail, NotFound, cli
from synapse.compat.brain import UnifiedBrain
from synapse.consolidate import run_nightly
from synapse.knowledge import memory, recall
from synapse.model.agents import Agent
from synapse.model.clock import micros
from synapse.testing import FrozenClock

# What the document writes out, without what we add after it.
SIGNATURES = {
    "send": ["to", "subject", "body", "thread_id", "priority"],
    "read_unread": ["agent_id"],
    "poll": ["agent_id"],
    "ack": ["message_id", "agent_id", "body"],
    "thread_history": ["thread_id", "limit"],
    "list_threads": ["status"],
    "remember": ["content", "categories", "importance", "source_message_id"],
    "create_atom": ["subject", "action", "outcome", "consequences", "source_message_id"],
    "link_atoms": ["from_id", "to_id", "link_type", "strength"],
    "search": ["query", "limit", "types"],
    "find_provenance": ["knowledge_id"],
    "recent": ["hours", "types"],
    "embed_pending": [],
}


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    monkeypatch.delenv("SYNAPSE_AGENT", raising=False)
    monkeypatch.delenv("SYNAPSE_RUN", raising=False)


@pytest.fixture
def at(tmp_path):
    """Opens the one brain as whoever; all of them share a clock."""
    opened, moment, seed = [], FrozenClock(), iter(range(100))

    def brain(agent=None):
        path = str(tmp_path / "memory" / "brain.db")
        draw = random.Random(next(seed)).randbytes
        opened.append(UnifiedBrain(path, agent, clock=moment, draw=draw))
        opened[-1].moment = moment
        return opened[-1]

    yield brain
    for each in opened:
        each.close()


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_methods_are_the_documents(name):
    takes = inspect.signature(getattr(UnifiedBrain, name)).parameters.values()
    positional = [
        each.name
        for each in takes
        if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"
    ]
    assert positional[: len(SIGNATURES[name])] == SIGNATURES[name]
    assert all(each.default is not each.empty for each in takes if each.kind is each.KEYWORD_ONLY)


def test_it_is_helios_unless_somebody_else_is_named(at, monkeypatch):
    assert at().agent == "helios"
    monkeypatch.setenv("SYNAPSE_AGENT", "nova")
    assert at().agent == "nova"
    assert at("augur").agent == "augur"


def test_a_conversation(at):
    helios, nova = at(), at("nova")
    first = helios.send("nova", "spread gate", "it predicts nothing", priority="action")
    assert (nova.poll(), helios.poll()) == (1, 0)
    (read,) = nova.read_unread()
    assert (read["id"], read["from_agent"], read["to_agent"], read["priority"]) == (
        first,
        "helios",
        "nova",
        "action",
    )
    assert nova.poll() == 0
    assert nova.read_unread() == []
    answer = nova.send("helios", "spread gate", "shown on 900 trades", thread_id=read["thread_id"])
    nova.ack(first, "nova", "seen")
    history = helios.thread_history(read["thread_id"])
    assert [each["id"] for each in history] == [first, answer]
    assert history[0]["status"] == "acknowledged"
    (thread,) = nova.list_threads()
    assert (thread["subject"], thread["message_count"], thread["created_by"]) == (
        "spread gate",
        2,
        "helios",
    )
    nova.send("helios", None, "one more", parent_id=answer)
    assert helios.thread_history(read["thread_id"])[-1]["parent_id"] == answer
    assert helios.thread_history(read["thread_id"], limit=1)[0]["body"] == "one more"


@pytest.mark.parametrize("everybody", [None, "all", ["nova", "all"]])
def test_a_broadcast_reaches_everybody(at, everybody):
    helios, nova, augur = at(), at("nova"), at("augur")
    helios.send(everybody, "rota", "who is on?")
    assert [brain.read_unread()[0]["to_agent"] for brain in (nova, augur)] == [None, None]
    assert helios.poll() == 0


def test_who_is_met_is_registered(at):
    helios = at()
    helios.send("nova, augur", "hello", "both of you")
    assert {agent.id for agent in helios.memory.agents()} == {"helios", "nova", "augur"}
    assert at("nova").poll() == 1
    with pytest.raises(InvalidEntry, match="not valid"):
        helios.send("No Such", "x", "y")
    with pytest.raises(NotFound):
        helios.send("team:nobody", "x", "y")


def test_nobody_acts_for_another(at):
    helios, nova = at(), at("nova")
    sent = helios.send("nova", "x", "y")
    for act in (
        lambda: helios.read_unread("nova"),
        lambda: helios.poll("nova"),
        lambda: helios.ack(sent, "nova"),
        lambda: helios.ack(sent, "operator"),
    ):
        with pytest.raises(Forbidden):
            act()
    assert nova.poll() == 1
    operator = at("operator")
    assert operator.poll("nova") == 1
    assert operator.read_unread("nova")[0]["id"] == sent
    assert nova.poll() == 1, "who looks into another's mail marks nothing"
    operator.ack(sent, "nova", "in its name")
    assert nova.poll() == 0
    with pytest.raises(NotFound):
        operator.poll("ghost")
    with pytest.raises(NotFound):
        operator.poll()


def test_a_run_acts_as_its_agent_alone(at, monkeypatch):
    at("nova")
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "nova")
    assert at().agent == "nova"
    for other in ("helios", "operator", "newcomer"):
        with pytest.raises(Forbidden):
            at(other)


def test_what_one_learns_the_others_know(at):
    helios, nova = at(), at("nova")
    said = helios.send("nova", "EV halt", "we halt when EV turns negative")
    fact = helios.remember("the halt saves 3 % a week", ["trading", "risk"], 2.5, said)
    cause = nova.create_atom("EV halt", "stops trading", "less loss", "calm", said, confidence=0.8)
    effect = helios.create_atom("calm", "lets people", "sleep", "")
    nova.link_atoms(cause, effect, "enables", 0.7)
    found = nova.search("halt")
    assert {each["source_type"] for each in found} == {"message", "stm", "atom"}
    assert {each["id"] for each in found} == {said, fact, cause}
    by_id = {each["id"]: each for each in found}
    assert by_id[fact]["source_message_id"] == by_id[cause]["source_message_id"] == said
    assert by_id[fact]["importance"] == 2.5
    assert [each["id"] for each in nova.search("halt", types=["atom"])] == [cause]
    assert len(nova.search("halt", limit=2)) == 2
    with pytest.raises(InvalidQuery):
        nova.search("halt", types=["facts"])


def test_it_shows_its_work(at):
    helios, nova = at(), at("nova")
    asked = helios.send("nova", "spread gate", "does it predict anything?")
    thread = helios.thread_history(helios.list_threads()[0]["id"])[0]["thread_id"]
    answer = nova.send("helios", None, "no: 900 trades, nothing", parent_id=asked)
    fact = helios.remember("the spread gate predicts nothing", source_message_id=answer)
    found = nova.find_provenance(fact)
    assert (found["knowledge_id"], found["source_type"]) == (fact, "stm")
    assert [each["id"] for each in found["messages"]] == [answer, asked]
    assert found["threads"] == [thread]
    assert found["trail"]["sources"][0]["id"] == answer
    json.dumps(found)
    with pytest.raises(NotFound):
        nova.find_provenance("fact_000000000000")


def test_tags_become_knowledge(at):
    helios, nova = at(), at("nova")
    sent = helios.send(
        "nova",
        "review",
        "@decision fees stay\n@atom fees | rise | margin falls | we lose\n@insight x",
    )
    assert {each["source_message_id"] for each in helios.recent(types=["stm", "atom"])} == {sent}
    helios.send("nova", "review", "@atom too | few")
    assert nova.poll() == 2
    assert len(helios.recent(types=["stm", "atom"])) == 3, "half an atom is only text"


def test_recent_is_what_the_agent_may_see(at):
    helios, nova, augur = at(), at("nova"), at("augur")
    helios.send("nova", "old", "yesterday")
    helios.moment.advance("30h")
    private = helios.send("nova", "new", "for nova alone")
    fact = helios.remember("everybody knows this")
    own = helios.remember("mine alone", scope="agent")
    assert [each["id"] for each in nova.recent()] == [fact, private]
    assert [each["id"] for each in augur.recent()] == [fact]
    assert [each["id"] for each in helios.recent(types=["stm"])] == [own, fact]
    assert len(nova.recent(hours=48)) == 3
    for leak in (augur.search("nova"), augur.search("mine"), augur.list_threads()):
        assert leak == []
    with pytest.raises(NotFound):
        augur.find_provenance(private)
    with pytest.raises(NotFound):
        augur.ack(private)


def test_facts_expire_and_are_forgotten(at):
    helios = at()
    short = helios.remember("until tomorrow", expires="1d")
    gone = helios.remember("until I say so")
    helios.forget(gone, "measured again")
    assert [each["id"] for each in helios.recent()] == [short]
    helios.moment.advance("25h")
    assert helios.recent(hours=100) == []
    assert helios.memory.as_agent("operator").fate(gone).reason == "resolved"


def test_it_lives_beside_its_log(at, tmp_path):
    helios = at()
    sent = helios.send("nova", "x", "as the shell sees it")
    assert (tmp_path / "memory" / "brain.db").is_file()
    with synapse.open(str(tmp_path / "memory" / "brain.db.log"), clock=helios.moment) as mem:
        assert Mail(mem.as_agent("nova")).inbox()[0].id == sent
        mem.register(Agent("augur", teams=("brain",)))
        memory.remember(mem.as_agent("augur"), "written beside it", scope="group:brain")
    assert helios.search("beside")[0]["from_agent"] == "augur"


def test_a_thread_of_another_is_refused(at):
    helios = at()
    first, second = (helios.send("nova", subject, "x") for subject in ("one", "two"))
    with pytest.raises(InvalidEntry, match="another thread"):
        helios.send("nova", None, "y", helios.mail.get(second).thread, parent_id=first)
    helios.mail.close(helios.mail.get(first).thread)
    with pytest.raises(Conflict):
        helios.send("nova", None, "y", helios.mail.get(first).thread)


def test_times_are_texts_that_sort(at):
    helios = at()
    helios.send("nova", "x", "y")
    (row,) = helios.recent()
    assert micros(row["created_at"]) == helios.moment() + 2


# -- conversations that were filed away ------------------------------------------------


def types(found):
    return sorted(row["source_type"] for row in found)


def test_a_conversation_is_found_after_its_thread_was_filed_away(at):
    """The conversation is the memory: after thirty days as on the first one."""
    helios, nova = at(), at("nova")
    asked = helios.send("nova", "EV halt", "when EV turns negative we halt")
    edited = helios.send(
        "nova", "fees", "the halt costs a fee of 2 %", thread_id=helios.mail.get(asked).thread
    )
    Mail(helios.me).edit(edited, "the halt costs no fee")
    helios.remember("EV halt lowers the loss", source_message_id=asked)
    nova.read_unread()
    before = nova.search("EV halt")
    assert [row["archived"] for row in before] == [False] * 3
    helios.moment.advance("31d")
    assert run_nightly(helios.memory, "2026-03-05", helios.moment()).acts
    after = nova.search("EV halt")
    assert [row["id"] for row in after] == [row["id"] for row in before], "ranked as before"
    assert types(after) == ["message", "message", "stm"]
    assert {row["source_type"]: row["archived"] for row in after} == {"message": True, "stm": False}
    assert [row["content"] for row in nova.search("fee", types=["message"])] == [
        "the halt costs no fee"
    ]
    assert nova.list_threads() == []
    assert [entry["archived"] for entry in nova.search("halt", types=["message"])] == [True, True]


def test_recall_and_search_mark_what_is_archived(at, capsys):
    helios = at()
    helios.send("nova", "EV halt", "when EV turns negative we halt")
    helios.moment.advance("31d")
    run_nightly(helios.memory, "2026-03-05", helios.moment())
    assert "archived" in recall.search(helios.me, "EV halt").text
    root = helios.memory.store.root
    assert cli.main(["search", "--root", root, "--agent", "nova", "EV", "halt"]) == 0
    assert "(archived)" in capsys.readouterr().out
    assert (
        cli.main(["search", "--root", root, "--agent", "nova", "--kind", "message", "--json", "EV"])
        == 0
    )
    assert [entry["archived"] for entry in json.loads(capsys.readouterr().out)["entries"]] == [True]


def test_an_entry_that_was_filed_away_stays_out(at):
    """Superseded, past its time, or by hand: out of the search, and among the archived as
    before.
    """
    helios = at()
    me = helios.me
    old = me.append("the halt is off", "agents/helios")
    me.append("the halt is on", "agents/helios", supersedes=old.id)
    gone = me.append("the halt lapses", "agents/helios", ttl="1d")
    hand = me.append("the halt by hand", "agents/helios")
    fact = helios.remember("the halt is a fact")
    me.archive([hand.id, fact])
    helios.moment.advance("2d")
    run_nightly(helios.memory, "2026-02-05", helios.moment())
    assert [hit.entry.body for hit in me.search("halt")] == ["the halt is on"]
    assert {old.id, gone.id, hand.id, fact} == {hit.id for hit in me.search("halt", archived=True)}


def test_mail_that_was_taken_over_is_found_at_once(tmp_path):
    row = {
        "id": "m1",
        "from": "helios",
        "to": "nova",
        "subject": "EV halt",
        "body": "we halt when EV turns negative",
    }
    row |= {"timestamp": "2020-02-01T00:00:00Z", "thread_id": "thr_1", "read_by": ["nova"]}
    (tmp_path / "synapse.json").write_text(json.dumps([row]))
    cortex = tmp_path / "cortex"
    cortex.mkdir()
    (cortex / "stm.json").write_text(
        json.dumps([{"id": "s1", "content": "EV halt lowers the loss"}])
    )
    path = str(tmp_path / "brain.db")
    UnifiedBrain.migrate(str(tmp_path / "synapse.json"), str(cortex), path)
    with UnifiedBrain(path) as brain:
        assert [thread["status"] for thread in brain.list_threads(None)] == ["archived"]
        assert types(brain.search("EV halt")) == ["message", "stm"]
