"""The document's tables: its SQL runs, the answers are right, and nothing stays in them that the
log does not say.
"""

import random
import sqlite3
from contextlib import closing

import pytest

from synapse import Conflict, Mail
from synapse.compat.brain import UnifiedBrain
from synapse.compat.tables import KEYS, Tables
from synapse.consolidate import undo
from synapse.knowledge import memory
from synapse.model.clock import iso, now
from synapse.model.settings import Semantic
from synapse.testing import FrozenClock
from synapse.trust import decisions

HOUR = 3_600_000_000

# The document's own examples, letter by letter.
UNREAD = """
SELECT m.* FROM messages m
LEFT JOIN read_receipts r ON m.id = r.message_id AND r.agent_id = 'helios'
WHERE m.to_agent IN ('helios', NULL) AND r.message_id IS NULL
ORDER BY m.created_at;
"""
SEARCH = """
SELECT 'message' as type, m.subject as title, m.body as content, m.created_at
FROM messages m JOIN messages_fts ON messages_fts.rowid = m.rowid
WHERE messages_fts MATCH 'EV halt'
UNION ALL
SELECT 'memory' as type, 'STM' as title, s.content, s.created_at
FROM stm s JOIN stm_fts ON stm_fts.rowid = s.rowid
WHERE stm_fts MATCH 'EV halt'
UNION ALL
SELECT 'atom' as type, a.subject as title,
       a.action || ' → ' || a.outcome as content, a.created_at
FROM atoms a JOIN atoms_fts ON atoms_fts.rowid = a.rowid
WHERE atoms_fts MATCH 'EV halt'
ORDER BY created_at;
"""
THREADS = """
SELECT t.subject, t.message_count, t.last_message_at
FROM threads t WHERE t.status = 'active' ORDER BY t.last_message_at DESC;
"""
PROVENANCE = """
SELECT s.content as insight, m.subject as conversation, m.from_agent, m.created_at
FROM stm s JOIN messages m ON s.source_message_id = m.id
WHERE s.content LIKE '%spread gate%';
"""
LAST_HOUR = "SELECT * FROM messages WHERE created_at > datetime('now', '-1 hour');"
COUNTS = """
SELECT m.to_agent, COUNT(*) as unread FROM messages m
LEFT JOIN read_receipts r ON m.id = r.message_id AND r.agent_id = m.to_agent
WHERE r.message_id IS NULL GROUP BY m.to_agent;
"""
# And as they have to be to give the right answers.
UNREAD_RIGHT = "SELECT * FROM unread WHERE agent_id = 'helios' ORDER BY created_at"
LAST_HOUR_RIGHT = "SELECT * FROM messages WHERE datetime(created_at) > datetime('now', '-1 hour')"
COUNTS_RIGHT = "SELECT agent_id, COUNT(*) AS unread FROM unread GROUP BY agent_id"
NEAREST = """
SELECT source_type, source_id, cosine_similarity(embedding, ?) AS sim
FROM embeddings WHERE model = ? ORDER BY sim DESC LIMIT 10
"""


@pytest.fixture
def moment():
    return FrozenClock(now() - 30 * HOUR)


@pytest.fixture
def helios(tmp_path, moment):
    with UnifiedBrain(
        str(tmp_path / "brain.db"), "helios", clock=moment, draw=random.Random(5).randbytes
    ) as brain:
        yield brain


@pytest.fixture
def nova(tmp_path, helios, moment):
    with UnifiedBrain(
        str(tmp_path / "brain.db"), "nova", clock=moment, draw=random.Random(6).randbytes
    ) as brain:
        yield brain


@pytest.fixture
def talked(helios, nova, moment):
    """A conversation, and what came of it; each step an hour after the last."""
    said = {}
    said["design"] = helios.send("nova", "EV halt", "when EV turns negative we halt")
    moment.advance("1h")
    said["answer"] = nova.send(
        "helios", "EV halt", "agreed, the halt is on", parent_id=said["design"]
    )
    said["all"] = nova.send(None, "lunch", "at noon")
    said["team"] = nova.send("team:brain", "rota", "who is on")
    said["both"] = nova.send("helios,augur", "fees", "fees went up")
    said["fact"] = helios.remember(
        "the spread gate has no predictive power", ["trading"], 2.0, said["answer"]
    )
    said["halt"] = nova.remember("EV halt lowers the loss", source_message_id=said["design"])
    said["atom"] = helios.create_atom(
        "EV halt", "stops trading", "less loss", "calm", said["answer"]
    )
    said["calm"] = helios.create_atom("calm", "lets people", "sleep", "")
    helios.link_atoms(said["atom"], said["calm"], "enables", 0.8)
    return said


def asked(brain, sql, *values):
    with closing(brain.connect()) as connection:
        return connection.execute(sql, values).fetchall()


def table(brain, name):
    return {row[: len(KEYS[name])]: row for row in asked(brain, f"select * from {name}")}


def raw(brain, *statements):
    with sqlite3.connect(brain.db_path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


# -- the document's SQL ----------------------------------------------------------------


@pytest.mark.parametrize("sql", [UNREAD, SEARCH, THREADS, PROVENANCE, LAST_HOUR, COUNTS])
def test_every_example_of_the_document_runs(helios, talked, sql):
    asked(helios, sql)


def test_unread_needs_more_than_the_document_asks(helios, talked):
    mine = [talked["answer"], talked["all"], talked["team"], talked["both"]]
    assert [row[0] for row in asked(helios, UNREAD)] == [talked["answer"]], (
        "IN (…, NULL) never finds a broadcast"
    )
    assert [row[1] for row in asked(helios, UNREAD_RIGHT)] == mine
    assert [row["id"] for row in helios.read_unread()] == mine
    assert asked(helios, UNREAD_RIGHT) == []


def test_counts_per_agent_are_those_of_poll(helios, nova, talked):
    assert (None, 1) in asked(helios, COUNTS), (
        "what everybody has waiting stands under nobody's name"
    )
    counts = dict(asked(helios, COUNTS_RIGHT))
    assert counts == {"helios": 4, "nova": 1, "augur": 3}
    assert (helios.poll(), nova.poll()) == (counts["helios"], counts["nova"])


def test_the_last_hour_compares_times_not_texts(helios, talked, moment):
    moment.set(now() - 2 * HOUR)
    early = helios.send("nova", "early", "two hours ago")
    moment.set(now() - HOUR // 2)
    late = helios.send("nova", "late", "half an hour ago")
    assert [row[0] for row in asked(helios, LAST_HOUR_RIGHT)] == [late]
    if iso(now() - 2 * HOUR)[:10] == iso(now() - HOUR)[:10]:
        assert early in {row[0] for row in asked(helios, LAST_HOUR)}, "'T' sorts after ' '"


def test_search_finds_conversations_and_knowledge(helios, talked):
    rows = asked(helios, SEARCH)
    assert {row[:2] for row in rows} == {
        ("message", "EV halt"),
        ("memory", "STM"),
        ("atom", "EV halt"),
    }
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)
    assert len(rows) == 4


def test_provenance_and_threads(helios, talked):
    assert asked(helios, PROVENANCE) == [
        (
            "the spread gate has no predictive power",
            "EV halt",
            "nova",
            table(helios, "messages")[talked["answer"],][9],
        )
    ]
    assert {row[:2] for row in asked(helios, THREADS)} == {
        ("EV halt", 2),
        ("lunch", 1),
        ("rota", 1),
        ("fees", 1),
    }


def test_where_there_is_no_embedder_nothing_is_pending(helios, talked):
    store = helios.memory.store
    store.operator_files.declare(store.settings._replace(semantic=Semantic("off")))
    assert helios.embed_pending() == 0
    assert asked(helios, "select * from embeddings") == []


def test_vectors_are_compared_within_one_model(helios, talked, embeddings):
    store = helios.memory.store
    for model in ("small", "large"):
        chosen = Semantic("ollama", model=model, url=embeddings.url)
        store.operator_files.declare(store.settings._replace(semantic=chosen))
        decisions.trust(store.root, decisions.asked(store.settings, store.root), "2026")
        assert helios.embed_pending() == 9
        embeddings.dimension = 256
    models = {row[4] for row in asked(helios, "select * from embeddings")}
    assert len(models) == 2
    assert len(asked(helios, "select * from embeddings")) == 18
    for model in models:
        id = talked["fact"]
        (mine,) = asked(
            helios, "select embedding from embeddings where source_id = ? and model = ?", id, model
        )
        best = asked(helios, NEAREST, mine[0], model)
        assert best[0][:2] == ("stm", id)
        assert best[0][2] == pytest.approx(1)
    other = asked(helios, "select cosine_similarity(a.embedding, b.embedding) from embeddings a, embeddings"
        " b"
                  " where a.model <> b.model")  # fmt: skip
    assert {value for (value,) in other} == {None}
    assert helios.check() == []


def test_a_vacuum_changes_no_row(helios, talked):
    before = asked(helios, SEARCH)
    raw(helios, "delete from strays")
    connection = sqlite3.connect(helios.db_path)
    connection.execute("vacuum")
    connection.close()
    assert asked(helios, SEARCH) == before


# -- in step with the log --------------------------------------------------------------


def test_whatever_happens_the_tables_are_those_of_a_new_file(
    helios, nova, talked, moment, tmp_path
):
    """Step by step, and at once from the whole log: the same rows."""
    me, mail = nova.me, Mail(nova.me)
    steps = (
        lambda: nova.read_unread(),
        lambda: nova.ack(talked["design"], body="done"),
        lambda: mail.edit(talked["answer"], "agreed: it is on, since noon"),
        lambda: mail.tag(helios.mail.get(talked["design"]).thread, ["risk"]),
        lambda: helios.mail.rename(helios.mail.get(talked["design"]).thread, "EV halt, at last"),
        lambda: helios.mail.close(helios.mail.get(talked["design"]).thread),
        lambda: helios.forget(talked["fact"], "measured again"),
        lambda: undo(helios.memory, "last"),
        lambda: helios.forget(talked["fact"], "measured again"),
        lambda: memory.remember(
            me, "EV halt halves the loss", scope="group:brain", supersedes=talked["halt"]
        ),
        lambda: helios.forget(talked["calm"]),
        lambda: helios.memory.as_agent("operator").archive([talked["all"]], "done"),
        lambda: helios.memory.as_agent("operator").restore([talked["all"]]),
        lambda: helios.search("EV halt"),
    )
    for step in steps:
        moment.advance("20m")
        step()
        helios.tables.sync()
        anew = Tables(helios.memory.store, ":memory:")
        anew.sync()
        for name in KEYS:
            rows = sorted(helios.tables.db.connection.execute(f"select * from {name}"), key=repr)
            assert rows == sorted(anew.db.connection.execute(f"select * from {name}"), key=repr), (
                name
            )
        anew.close()
    assert helios.check() == []
    messages = table(helios, "messages")
    assert talked["answer"] not in messages
    assert talked["fact"] not in table(helios, "stm")
    edited = next(row for row in messages.values() if row[7] == "agreed: it is on, since noon")
    assert edited[9] < edited[10], "it keeps the time at which it was first said"
    assert asked(helios, "select status, tags, subject from threads where message_count = 2") == [
        ("closed", '["risk"]', "EV halt, at last")
    ]
    assert asked(helios, "select count(*) from atom_links") == [(0,)], "one end is forgotten"


def test_what_names_an_edited_message_follows_it(helios, nova, talked):
    version = Mail(helios.me).edit(talked["design"], "when EV turns negative we halt at once").id
    messages = table(helios, "messages")
    assert messages[talked["answer"],][2] == version
    assert table(helios, "stm")[talked["halt"],][9] == version


def test_the_file_may_be_deleted(tmp_path, helios, talked, moment):
    before = {name: table(helios, name) for name in KEYS}
    helios.close()
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"brain.db{suffix}").unlink(missing_ok=True)
    with UnifiedBrain(str(tmp_path / "brain.db"), "helios", clock=moment) as again:
        assert {name: table(again, name) for name in KEYS} == before


def test_what_others_append_is_taken_in(helios, nova, talked):
    Mail(nova.me).send("helios", "past the facade")  # as `synapse send` would
    assert helios.tables.behind()
    assert "past the facade" in {row[7] for row in table(helios, "messages").values()}
    assert not helios.tables.behind()


# -- raw SQL ---------------------------------------------------------------------------

RAW = (
    ((
        "insert into messages(id, thread_id, from_agent, body, created_at)"
        " values('syn_0', 'thr_0', 'x', 'raw', '2026')"
    ),
     "messages", "syn_0", "insert"),
    ("update messages set body = 'forged' where from_agent = 'helios'", "messages", "design", "update"),
    ("delete from messages where from_agent = 'helios'", "messages", "design", "delete"),
    ((
        "insert into read_receipts select id, 'ghost', '2026' from messages where"
        " from_agent = 'helios'"
    ),
     "read_receipts", "design", "insert"),
    ("insert into acks select id, 'ghost', 'yes', '2026' from messages where from_agent = 'helios'",
     "acks", "design", "insert"),
    ("update threads set status = 'closed' where subject = 'lunch'", "threads", None, "update"),
    ("update agents set display_name = 'Nova' where id = 'nova'", "agents", "nova", "update"),
    ("update stm set importance = 3 where source_message_id is not null", "stm", "fact", "update"),
    ("delete from stm", "stm", "halt", "delete"),
    ("update atoms set id = 'atom_0' where subject = 'calm'", "atoms", "atom_0", "update"),
    ("delete from atom_links", "atom_links", None, "delete"),
    ("insert into atom_links values('a', 'b', 'causes', 1, '2026')", "atom_links", "a b", "insert"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "name", "key", "act"), RAW, ids=[f"{row[3]} {row[1]}" for row in RAW]
)
def test_rows_written_past_the_log_are_reported_and_undone(helios, talked, sql, name, key, act):
    before = {each: table(helios, each) for each in KEYS}
    raw(helios, sql)
    assert helios.tables.behind()
    waiting = {(each.table, each.key, each.act) for each in helios.tables.waiting()}
    expected = talked.get(key, key)
    assert any(found[0] == name and found[2] == act and (key is None or found[1].startswith(expected))
               for found in waiting)  # fmt: skip
    assert {each: table(helios, each) for each in KEYS} == before
    problems = helios.check()
    assert problems
    assert all(f" {name} " in each.where and act in each.what for each in problems)


def test_the_check_sees_what_no_trigger_noted(helios, talked):
    """It compares every row with the log: whoever switches the notes off is found out too."""
    assert helios.check() == []
    raw(
        helios,
        "update writing set open = 1",
        "update stm set content = 'forged'",
        "update writing set open = 0",
    )
    found = helios.check()
    assert {each.where.split()[-1] for each in found} == {talked["fact"], talked["halt"]}
    assert all(each.what.startswith("is not as logged") for each in found)
    helios.tables.rebuild()
    assert helios.check() == []


def test_a_reader_writes_nothing(helios, talked):
    with closing(helios.connect()) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("delete from messages")


def test_a_file_of_somebody_elses_is_not_touched(tmp_path):
    path = tmp_path / "brain.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table messages(id text)")
        connection.execute("insert into messages values('mine')")
    connection.close()
    with pytest.raises(Conflict, match="not made here"):
        UnifiedBrain(str(path))
    with sqlite3.connect(path) as connection:
        assert connection.execute("select id from messages").fetchall() == [("mine",)]
    connection.close()
