"""Taking over what there was: all of it, once, or nothing at all; and the old file back again."""

import json
import sqlite3
from array import array
from contextlib import closing

import pytest

import synapse
from synapse import Forbidden, InvalidEntry, Mail, NotFound
from synapse.compat import cortex
from synapse.compat.brain import UnifiedBrain
from synapse.compat.migrate import migrate
from synapse.compat.tables import Tables
from synapse.formats import mail_json
from synapse.index.questions.links import uses
from synapse.knowledge import memory
from synapse.mail import messages, synapse_json
from synapse.model.agents import Agent
from synapse.model.clock import iso, now
from synapse.testing import FrozenClock
from tests.trusted import trust

DAY = 86_400_000_000
THREAD = "thr_0c7b2f60-93ce-4c4e-9d3c-6a3c2f8d1e55"
MESSAGES = [
    {"id": "syn_0123456789ab", "from": "helios", "to": "claude-code", "priority": "action", "subject": "EV halt",
     "body": "halt when EV < 0?", "thread_id": THREAD, "timestamp": "2026-02-10T21:00:00.123456",
     "status": "acknowledged", "read_by": ["claude-code"], "ack_body": "yes: built"},
    {"id": "syn_0123456789ac", "from": "claude-code", "to": "helios", "priority": "info", "subject": "Re: EV halt",
     "body": "done, with tests\n", "thread_id": THREAD, "timestamp": "2026-02-10T22:00:00", "status": "sent",
     "read_by": [], "ack_body": None, "metadata": {"commit": "abc"}, "mood": {"is": "good"}},
    {"id": "msg-3", "from_agent": "Claude Code", "to_agent": "all", "priority": "urgent", "body": "   leading space",
     "created_at": "2026-02-11T08:00:00Z", "read_by": ["helios"]},
]  # fmt: skip
MESSAGES[2]["from_agent"] = "claude-code"


def numbers(*values, dimension=384):
    return [*map(float, values), *[0.5] * (dimension - len(values))]


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "w"), clock=FrozenClock(now())) as mem:
        yield mem


@pytest.fixture
def old(tmp_path):
    """A synapse.json and a Cortex folder in all the forms that are known."""
    (tmp_path / "synapse.json").write_text(
        json.dumps({"version": 1, "messages": MESSAGES, "agents": ["helios"]})
    )
    folder = tmp_path / "cortex"
    (folder / "collections").mkdir(parents=True)
    said = {"content": "the spread gate predicts nothing", "timestamp": "2026-02-10T23:00:00", "importance": 2.5,
            "categories": ["trading", "meta"], "category": "trading", "access_count": 7}  # fmt: skip
    more = {"id": "stm_aaaaaaaaaaaa", "content": "EV halt saves 3 %\n", "created_at": "2026-02-11T00:00:00",
            "source": "synapse", "source_message_id": "syn_0123456789ab", "pinned": True}  # fmt: skip
    stm = {"short_term_memory": [said, more], "capacity": 20}
    (folder / "stm.json").write_text(json.dumps(stm))
    (folder / "collections" / "trading.json").write_text(
        json.dumps(
            {"memories": [said | {"categories": ["trading"]}, {"content": "fees are 4 bps"}]}
        )
    )
    with closing(sqlite3.connect(folder / ".atoms.db")) as db:
        # fmt: off
        db.execute("create table atoms(id text, subject text, action text, outcome text,"
            " consequences text,"
                   " subject_embedding blob, confidence real, access_count int,"
                       " created_at text, source text)")
        db.execute("create table causal_links(from_atom_id text, to_atom_id text, link_type"
            " text, strength real,"
                   " observation_count int)")
        blob = array("f", numbers(3)).tobytes()
        whale = "'a1b2c3d4e5f60718','whale','buys','price up','fomo',?,.9,3,'2026-02-09','x'"
        db.execute(f"insert into atoms values({whale})", (blob,))
        db.execute(
            "insert into atoms"
            " values('atm_bbbbbbbbbbbb','fomo','draws','crowds','',null,1,0,null,'x')"
        )
        db.execute(
            "insert into causal_links"
            " values('a1b2c3d4e5f60718','atm_bbbbbbbbbbbb','enables',.7,4)"
        )
        # fmt: on
        db.commit()
    rows = [
        {"source_type": "stm", "source_id": "stm_aaaaaaaaaaaa", "embedding": numbers(1)},
        {"content": said["content"], "embedding": numbers(2)},
        {
            "source_type": "message",
            "source_id": "syn_0123456789ab",
            "embedding": numbers(4, dimension=768),
        },
    ]
    (folder / "embeddings.json").write_text(json.dumps({"embeddings": rows}))
    return str(tmp_path / "synapse.json"), str(folder)


def counts(told):
    return {each.kind: (each.read, each.repeated, each.written, each.there) for each in told.counts}


def test_all_of_it_is_taken_over(mem, old):
    told = migrate(mem, *old)
    assert counts(told) == {
        "messages": (3, 0, 3, 0), "facts": (4, 1, 3, 0), "atoms": (2, 0, 2, 0), "links": (1, 0, 1, 0),
        "embeddings": (4, 0, 4, 0), "receipts": (2, 0, 2, 0), "acks": (1, 0, 1, 0),
    }  # fmt: skip
    assert told.agents == ("helios", "claude-code")
    helios, nova = (Mail(mem.as_agent(id)) for id in ("helios", "claude-code"))
    assert [each.body for each in helios.inbox()] == ["done, with tests"]
    first = nova.get("syn_0123456789ab")
    assert (first.priority, first.subject, iso(first.created)) == (
        "action",
        "EV halt",
        "2026-02-10T21:00:00.123456Z",
    )
    assert [(mark.agent, mark.text) for mark in first.acks] == [("claude-code", "yes: built")]
    thread = nova.thread(THREAD)
    assert (thread.total, thread.created_by, iso(thread.created)[:19]) == (
        2,
        "helios",
        "2026-02-10T21:00:00",
    )
    me = mem.as_agent("claude-code")
    fact = me.search("spread gate", kind="fact")[0].entry
    assert (fact.author, fact.more["importance"], fact.more["categories"]) == (
        "helios",
        2.5,
        ("trading", "meta"),
    )
    assert uses(mem.store.index.current, fact.id) == 7
    halt = me.get("fact_aaaaaaaaaaaa")
    assert (halt.derived_from, json.loads(halt.evidence)) == (
        ("syn_0123456789ab",), {"content": "EV halt saves 3 %\n", "id": "stm_aaaaaaaaaaaa", "pinned": True},
    )  # fmt: skip
    whale = me.search("whale", kind="atom")[0].entry
    assert [(each.effect, each.type, each.strength) for each in memory.links_of(me, whale.id)] == [
        ("atom_bbbbbbbbbbbb", "enables", 0.7)
    ]


def test_vectors_keep_their_model_and_never_mix(mem, old):
    migrate(mem, *old)
    tables = Tables(mem.store, ":memory:")
    tables.sync()
    rows = tables.db.connection.execute(
        "select source_type, model, dimension, embedding from embeddings"
    ).fetchall()
    assert sorted(row[:3] for row in rows) == [
        ("atom.subject", "all-MiniLM-L6-v2", 384), ("message", "nomic-embed-text", 768),
        ("stm", "all-MiniLM-L6-v2", 384), ("stm", "all-MiniLM-L6-v2", 384),
    ]  # fmt: skip
    assert all(len(row[3]) == 4 * row[2] for row in rows)
    subject = next(array("f", row[3]) for row in rows if row[0] == "atom.subject")
    assert list(subject) == numbers(3), "to the bit"
    tables.close()


def test_a_second_time_nothing_is_written(mem, old):
    migrate(mem, *old)
    before, digest = mem.store.log.mark(), mem.digest()
    told = migrate(mem, *old)
    assert {kind: row[2] for kind, row in counts(told).items()} == dict.fromkeys(counts(told), 0)
    assert counts(told)["messages"] == (3, 0, 0, 3)
    assert counts(told)["embeddings"] == (4, 0, 0, 4)
    assert (mem.store.log.mark(), mem.digest()) == (before, digest)


def test_what_came_since_is_taken_over_too(mem, old, tmp_path):
    migrate(mem, *old)
    later = [*MESSAGES, MESSAGES[1] | {"id": "syn_0123456789ad", "body": "one more"}]
    later[1] = later[1] | {"read_by": ["helios"]}
    (tmp_path / "synapse.json").write_text(json.dumps(later))
    with pytest.raises(InvalidEntry, match="syn_0123456789ac is here already"):
        migrate(mem, old[0])
    later[1] = MESSAGES[1]
    (tmp_path / "synapse.json").write_text(json.dumps(later))
    assert counts(migrate(mem, old[0]))["messages"] == (4, 0, 1, 3)


BAD = (
    ({"id": "x", "from": "a", "to": "b"}, "has no body"),
    ({"id": "x", "to": "b", "body": "y"}, "has no sender"),
    ({"from": "a", "to": "b", "body": "y"}, "has no id"),
    ({"id": "x", "from": "a", "to": "b", "body": "y", "priority": "someday"}, "priority 'someday'"),
    ({"id": "x", "from": "a", "to": "b", "body": "y", "timestamp": "noon"}, "time 'noon'"),
    ({"id": "x", "from": "!!", "to": "b", "body": "y"}, "cannot be the name"),
    ({"id": "x", "from": "operator", "to": "b", "body": "y"}, "operator"),
    ({"id": "x", "from": "a", "to": "all", "body": "y", "ack_body": "ok"}, "by whom"),
    ({"id": "x", "from": "a", "to": "all", "body": "y", "status": "read"}, "by whom"),
    ({"id": "x", "from": "a", "to": "b", "body": "y", "read_by": [3]}, "read_by"),
    ({"id": "x", "from": "a", "to": "b", "body": "y\0"}, "NUL"),
    ({"id": "x", "from": "a", "to": "b", "body": "y", "huge": "x" * 5000}, "no place here"),
    ({"id": "x", "from": "A", "to": "a", "body": "y"}, "one agent"),
    ("a text", "no object"),
)


@pytest.mark.parametrize(("row", "why"), BAD, ids=[why for _, why in BAD])
def test_nothing_is_written_where_one_thing_cannot_be_kept(mem, old, tmp_path, row, why):
    (tmp_path / "synapse.json").write_text(json.dumps([*MESSAGES, row]))
    before = mem.store.log.mark()
    with pytest.raises(InvalidEntry, match="nothing was written") as refused:
        migrate(mem, *old)
    assert any(why in problem for problem in refused.value.details["problems"])
    assert mem.store.log.mark() == before
    assert mem.agents() == []


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("stm.json", [{"content": "  "}], "no content"),
        ("stm.json", {"unknown": []}, "no list that is known"),
        ("stm.json", [{"id": "a", "content": "x"}, {"id": "a", "content": "y"}], "exists already with another content"),
        ("stm.json", [{"content": "x", "importance": "high"}], "importance 'high'"),
        ("atoms.json", {"atoms": [], "links": [{"from_id": "a", "to_id": "b"}]}, "no two atoms"),
        ("atoms.json", [{"subject": "a", "action": "", "outcome": "c"}], "lacks its subject"),
        ("embeddings.json", [{"source_id": "stm_aaaaaaaaaaaa", "embedding": [1.0, 2.0]}], "unnamed model"),
        ("embeddings.json", [{"embedding": numbers(1)}], "does not say of what"),
        ("embeddings.json", [{"source_id": "a", "embedding": numbers(1), "model": "m"},
                             {"source_id": "b", "embedding": [1.0], "model": "m"}], "two models"),
        ("embeddings.json", [{"source_id": "a", "embedding": [float("nan")] * 384}], "not a number"),
    ],
)  # fmt: skip
def test_knowledge_that_cannot_be_kept_is_refused(mem, old, tmp_path, name, data, why):
    (tmp_path / "cortex" / name).write_text(json.dumps(data))
    with pytest.raises(InvalidEntry) as refused:
        migrate(mem, *old)
    assert any(why in problem for problem in refused.value.details["problems"])
    assert mem.agents() == []


def test_a_dry_run_writes_nothing(mem, old):
    before = mem.store.log.mark()
    told = migrate(mem, *old, dry=True)
    assert counts(told)["messages"] == (3, 0, 3, 0)
    assert not told.written
    assert mem.store.log.mark() == before


def test_it_is_the_operators(mem, old, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "helios")
    with pytest.raises(Forbidden):
        migrate(mem, *old)


def test_what_is_not_there_is_told(mem, tmp_path):
    with pytest.raises(NotFound):
        migrate(mem, str(tmp_path / "none.json"))
    with pytest.raises(InvalidEntry, match="no folder"):
        migrate(mem, None, str(tmp_path / "none"))


def test_threads_that_were_silent_and_read_are_filed_away(mem, tmp_path):
    at = mem.store.clock() - 40 * DAY
    row = {
        "from": "helios",
        "to": "nova",
        "body": "x",
        "thread_id": "t1",
        "timestamp": iso(at),
        "read_by": ["nova"],
    }
    new = row | {"timestamp": iso(mem.store.clock() - DAY), "thread_id": "t2"}
    unread = row | {"thread_id": "t3", "read_by": []}
    rows = [each | {"id": f"m{place}"} for place, each in enumerate((row, row, new, unread))]
    (tmp_path / "synapse.json").write_text(json.dumps(rows))
    migrate(mem, str(tmp_path / "synapse.json"))
    nova = Mail(mem.as_agent("nova"))
    assert sorted(thread.total for thread in nova.threads("archived")) == [2]
    assert sorted(thread.total for thread in nova.threads("active")) == [1, 1]
    assert nova.poll() == 1


# -- the old file again ----------------------------------------------------------------


def test_the_old_file_comes_out_as_it_went_in(mem, old):
    migrate(mem, *old)
    assert json.loads(synapse_json.text(mem.store)) == {
        "version": 1,
        "messages": MESSAGES,
        "agents": ["helios"],
    }
    assert json.loads(synapse_json.text(mem.store, THREAD)) == {"messages": MESSAGES[:2]}
    with pytest.raises(NotFound):
        synapse_json.text(mem.store, "thr_" + "0" * 8)


def test_what_happened_since_stands_in_it(mem, old):
    migrate(mem, *old)
    helios = Mail(mem.as_agent("helios"))
    helios.ack("syn_0123456789ac", "good")
    sent = helios.send("claude-code", "next", subject="more", metadata={"n": 1})
    rows = {row["id"]: row for row in json.loads(synapse_json.text(mem.store))["messages"]}
    assert rows["syn_0123456789ac"]["read_by"] == ["helios"]
    assert (rows["syn_0123456789ac"]["ack_body"], rows["syn_0123456789ac"]["status"]) == (
        "good",
        "acknowledged",
    )
    assert rows["syn_0123456789ac"]["mood"] == {"is": "good"}
    assert rows["syn_0123456789ab"] == MESSAGES[0]
    made = rows[sent.id]
    assert (made["from"], made["to"], made["body"], made["read_by"]) == (
        "helios",
        "claude-code",
        "next",
        [],
    )
    assert made["metadata"] == {"n": 1}


def test_round_and_round(mem, old, tmp_path):
    """Out of one brain and into another: the same messages, readers and answers."""
    for id in ("helios", "nova", "augur"):
        mem.register(Agent(id, teams=("lab",)))
    helios, nova, augur = (Mail(mem.as_agent(id)) for id in ("helios", "nova", "augur"))
    first = helios.send(
        "nova, augur",
        "one\n  two",
        subject="s",
        priority="urgent",
        metadata={"deep": {"x": [1, 2]}},
    )
    nova.reply(first.id, "answer")
    helios.send("all", "everybody")
    for each, said in ((nova, "n"), (augur, None)):
        each.ack(first.id, said)
    augur.inbox(mark=True)
    (tmp_path / "out.json").write_text(synapse_json.text(mem.store))
    with synapse.init(str(tmp_path / "again"), clock=FrozenClock(now())) as other:
        told = migrate(other, str(tmp_path / "out.json"))
        assert counts(told)["acks"] == (2, 0, 2, 0)

        def facts(mem):
            return [
                (each.id, each.thread, each.parent, each.sender, each.entry.addressees, each.priority, each.subject,
                 each.body, each.created, {mark.agent for mark in each.reads},
                 {(mark.agent, mark.text) for mark in each.acks})
                for each in messages.everything(mem.store)
            ]  # fmt: skip

        assert facts(other) == facts(mem)
        again = json.loads(synapse_json.text(other.store))
        assert again == json.loads((tmp_path / "out.json").read_text())


@pytest.mark.parametrize("text", ["", "[", "{}", '{"messages": 3}', "[" * 100_000])
def test_no_file_is_too_odd(text):
    assert mail_json.read(text).problems


@pytest.mark.parametrize("text", ["[]", '{"messages": []}', '{"messages": {}}'])
def test_an_empty_file_is_one(text):
    assert mail_json.read(text).problems == ()


def test_messages_by_id_are_read():
    (found,) = mail_json.read(
        '{"messages": {"m1": {"sender": "a", "recipient": ["b", "c"], "content": "x"}}}'
    ).messages
    assert (found.sender, found.to, found.body) == ("a", ("b", "c"), "x")


def test_a_folder_of_nothing_is_one(tmp_path):
    found = cortex.read(str(tmp_path))
    assert (found.facts, found.problems) == ((), ())


# -- keeping it current ----------------------------------------------------------------


def settings(mem, tmp_path, until):
    with open(f"{mem.store.root}/synapse.yaml", "a", encoding="utf-8") as file:
        file.write(f"mirror: {{synapse_json: ../mirror.json{until}}}\n")
    trust(mem.store.root)
    mem.store.refresh(whole=True)
    return tmp_path / "mirror.json"


def test_the_mirror_follows_every_act_on_mail(mem, tmp_path):
    path = settings(mem, tmp_path, "")
    for id in ("helios", "nova"):
        mem.register(Agent(id))
    helios, nova = Mail(mem.as_agent("helios")), Mail(mem.as_agent("nova"))
    acts = (
        lambda: helios.send("nova", "one"),
        lambda: nova.inbox(mark=True),
        lambda: nova.ack(nova.history(nova.threads()[0].id)[0].id, "ok"),
        lambda: nova.reply(nova.history(nova.threads()[0].id)[0].id, "two"),
        lambda: helios.edit(helios.history(helios.threads()[0].id)[0].id, "one, mended"),
    )
    for act in acts:
        act()
        assert path.read_text() == synapse_json.text(mem.store)
        assert synapse_json.stale(mem.store) is None
    assert path.stat().st_mode & 0o077 == 0
    mem.as_agent("operator").archive(
        [helios.threads()[0].id and nova.history(nova.threads()[0].id)[0].id]
    )
    path.write_text("{}")
    assert "not what the log says" in synapse_json.stale(mem.store)


def test_the_mirror_ends_with_its_day(mem, tmp_path):
    path = settings(mem, tmp_path, f", until: {iso(mem.store.clock())[:10]}")
    for id in ("helios", "nova"):
        mem.register(Agent(id))
    Mail(mem.as_agent("helios")).send("nova", "one")
    before = path.read_text()
    mem.store.clock.advance("2d")
    Mail(mem.as_agent("helios")).send("nova", "two")
    assert path.read_text() == before
    assert synapse_json.stale(mem.store) is None


def test_a_mirror_that_cannot_be_written_stops_nothing(mem, tmp_path):
    path = settings(mem, tmp_path, "")
    path.mkdir()
    for id in ("helios", "nova"):
        mem.register(Agent(id))
    assert Mail(mem.as_agent("helios")).send("nova", "one").body == "one"
    assert "cannot be kept" in synapse_json.stale(mem.store)


def test_the_documents_own_call(old, tmp_path):
    told = UnifiedBrain.migrate(*old, str(tmp_path / "brain.db"))
    assert told["messages"]["written"] == 3
    with UnifiedBrain(str(tmp_path / "brain.db"), "claude-code") as brain:
        found = brain.search("EV halt")
        assert {each["source_type"] for each in found} >= {"message", "stm"}
        assert brain.find_provenance("fact_aaaaaaaaaaaa")["messages"][0]["id"] == "syn_0123456789ab"
        assert brain.check() == []
