"""The journal in PostgreSQL: two machines with folders of their own, a server that dies, answers
that are lost, and a database that is set back.
"""

import os
import shutil
import threading
import time
import uuid
from pathlib import Path

import psycopg
import pytest

import synapse
from synapse.errors import Conflict, NotTrusted, StoreBusy, StoreError, SynapseError
from synapse.log.chain import decode
from synapse.log.postgres import database as database_module
from synapse.log.postgres import journal as journal_module
from synapse.log.postgres.address import parse_address
from synapse.model.placement import NOBODY
from synapse.model.records import Record
from synapse.system.signal import NotificationPipe
from tests.postgres_histories import WRITER, copy_of, is_chain, lines_of, note, through

# -- two machines ----------------------------------------------------------------------------------


def test_what_one_machine_writes_the_other_has(machine, postgres_server, url):
    one, two = machine(), machine()
    one.register(WRITER)
    entry = note(one, "The port is 8443")
    assert two.as_agent("eng-a").read(namespace="api/*")[0].body == "The port is 8443"
    path = f"entries/api/x/{entry.id}.md"
    assert Path(two.store.root, path).read_text() == Path(one.store.root, path).read_text()
    assert [agent.id for agent in two.store.log.agents()] == ["eng-a"]
    answer = note(two, "It is 9443 now", supersedes=(entry.id,))
    assert [e.id for e in one.as_agent("eng-a").read(namespace="api/*")] == [answer.id]
    assert list(one.export()) == list(two.export())
    assert one.digest() == two.digest()
    assert copy_of(one) == copy_of(two) == b"".join(lines_of(postgres_server, url))
    assert one.verify().head == two.verify().head
    assert not one.verify().problems
    assert not two.verify().problems


def test_the_address_alone_opens_it(url, monkeypatch, tmp_path):
    with synapse.open(url) as one:
        one.register(WRITER)
        note(one, "by the address")
        folder = Path(one.store.root)
    assert folder.is_relative_to(os.environ["XDG_STATE_HOME"])
    settings = (folder / "synapse.yaml").read_text()
    assert "secret" not in settings  # the password is nowhere written down
    assert f"log: {parse_address(url).public}" in settings
    monkeypatch.setenv("PGPASSWORD", "secret")
    with synapse.open(folder) as again:
        assert again.as_agent("eng-a").read(namespace="api/*")[0].body == "by the address"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another-machine"))
    with synapse.open(url) as other:
        assert other.as_agent("eng-a").read(namespace="api/*")[0].body == "by the address"
        assert other.store.root != str(folder)


def test_an_agent_that_is_changed_or_removed_is_so_everywhere(machine):
    one, two = machine(), machine()
    one.register(WRITER)
    two.store.refresh(whole=True)
    path = Path(two.store.root, "agents", "eng-a.yaml")
    assert path.exists()
    one.register(WRITER._replace(authority=41))
    two.store.refresh(whole=True)
    assert two.agents()[0].authority == 41
    two.rebuild()  # what the file says is no edit of this machine's
    assert [agent.authority for agent in one.agents()] == [41]
    Path(one.store.root, "agents", "eng-a.yaml").unlink()
    one.store.refresh(whole=True)
    two.store.refresh(whole=True)
    assert not path.exists()
    assert two.agents() == one.agents() == []


def test_a_redaction_reaches_every_machine(machine, postgres_server, url):
    one, two = machine(), machine()
    one.register(WRITER)
    entry = note(one, "the token is swordfish")
    assert two.as_agent("eng-a").read(namespace="api/*")
    from synapse.integrity.redaction import redact

    redact(one.store, entry.id, "leaked")
    two.store.refresh(whole=True)
    for memory in (one, two):
        root = Path(memory.store.root)
        names = [path for path in root.rglob("*") if path.is_file()]
        assert not [path for path in names if b"swordfish" in path.read_bytes()]
    assert b"swordfish" not in b"".join(lines_of(postgres_server, url))
    assert copy_of(one) == copy_of(two)


def test_a_listener_is_told_of_what_another_machine_writes(machine):
    one, two = machine(), machine()
    one.register(WRITER)
    pipe = NotificationPipe(two.store.log.pipes)
    try:
        listening = time.monotonic() + 30
        while not pipe.wait(1) and time.monotonic() < listening:
            pass  # it is notified once it listens
        while pipe.wait(0.3):
            pass
        note(one, "news")
        assert pipe.wait(30)
        assert two.store.log.pipes
        assert two.store.log.journal.listener.alive
        ears = [thread for thread in threading.enumerate() if thread.name == "synapse-listen"]
        assert len(ears) == 1  # one for the process, however many wait
    finally:
        pipe.close()


def test_an_import_goes_into_the_database_and_a_merge_as_well(
    machine, tmp_path, postgres_server, url
):
    with synapse.init(tmp_path / "files") as files:
        files.register(WRITER)
        note(files, "from a folder")
        lines = list(files.export())
    one = machine()
    assert one.import_(lines, believe=True) == len(lines)
    two = machine()
    assert list(two.export()) == lines
    with synapse.init(tmp_path / "other") as other:
        other.import_(lines, believe=True)
        note(other, "written apart")
        apart = [line.encode() for line in other.export()]
    note(two, "meanwhile")
    one.store.refresh()
    merged = one.store.commit.merge(apart)
    assert merged.records == 1
    bodies = {entry.body for entry in two.as_agent("eng-a").read(namespace="api/*")}
    assert bodies == {"from a folder", "meanwhile", "written apart"}
    assert is_chain(lines_of(postgres_server, url))


# -- the commit ------------------------------------------------------------------------------------


def test_an_append_takes_one_round_trip_and_two_beside_others(machine, proxy, url):
    alone, other = machine(log=through(proxy, url)), machine()
    alone.register(WRITER)
    note(alone, "warm")
    journal, record = alone.store.log.journal, Record.new

    def trips(number):
        proxy.trips = 0
        journal.append([record("shown", "eng-a", {"cursor": number})])
        return proxy.trips

    assert [trips(number) for number in range(5)] == [1] * 5
    for number in range(5):  # others were faster, each time
        other.store.log.journal.append([record("shown", "eng-a", {"cursor": 0})])
        assert trips(number) == 2
    assert trips(0) <= 2
    assert trips(0) == 1


def swallow(writer_trips):
    """Return what loses the answer of every second commit."""

    def lose(data):
        if b"COMMIT\0" in data:
            lose.number += 1
            return lose.number % 2 == 1
        return False

    lose.number = 0
    return lose


def lost_answers(machine, proxy, server, url, rounds):
    """Append without `once` while answers to commits are lost; return what was raised, and the
    texts that are stored.
    """
    memory = machine(log=through(proxy, url))
    memory.register(WRITER)
    acknowledged, raised = [], []
    proxy.lose = swallow(rounds)
    for number in range(rounds):
        try:
            note(memory, f"text {number}")
            acknowledged.append(number)
        except StoreError:
            raised.append(number)
    proxy.lose = None
    texts = [decode(raw).text or "" for raw in lines_of(server, url)]
    stored = [n for n in range(rounds) for text in texts if text.endswith(f"text {n}\n")]
    return acknowledged, raised, stored


def test_a_commit_whose_answer_was_lost_is_looked_up(
    machine, proxy, postgres_server, url, monkeypatch
):
    monkeypatch.setattr(journal_module, "PAUSE", 0.01)
    acknowledged, raised, stored = lost_answers(machine, proxy, postgres_server, url, 10)
    assert acknowledged == stored == list(range(10))
    assert raised == []
    assert proxy.trips


@pytest.mark.soak
def test_two_hundred_lost_answers(machine, proxy, postgres_server, url, monkeypatch):
    monkeypatch.setattr(journal_module, "PAUSE", 0.01)
    acknowledged, raised, stored = lost_answers(machine, proxy, postgres_server, url, 200)
    assert acknowledged == stored == list(range(200))
    assert raised == []


def test_a_guess_at_a_lost_answer_is_caught(machine, proxy, postgres_server, url, monkeypatch):
    """The bug: a connection that broke within a commit is taken for a commit that failed."""

    def guess(self):
        self.after = self.journal._current(self.keeper).seq
        try:
            return self._at_once()
        except database_module.ConnectionLost:
            raise StoreBusy("nothing was stored") from None

    monkeypatch.setattr(journal_module._Append, "run", guess)
    _, raised, stored = lost_answers(machine, proxy, postgres_server, url, 6)
    assert set(raised) & set(stored)


def test_a_database_that_stays_away_is_said_so(machine, proxy, url, monkeypatch):
    monkeypatch.setattr(journal_module, "PATIENCE", 0.3)
    memory = machine(log=through(proxy, url))
    memory.register(WRITER)

    def lose(data):
        if b"COMMIT\0" not in data:
            return False
        proxy.close()
        return True

    proxy.lose = lose
    with pytest.raises(StoreError, match="not known whether this was stored"):
        note(memory, "who knows")


def test_a_full_disk_here_does_not_undo_what_was_committed(machine, monkeypatch):
    one, two = machine(), machine()
    one.register(WRITER)
    real = journal_module.write_all

    def full(fd, raw):
        real(fd, raw[: len(raw) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module, "write_all", full)
    journal = one.store.log.journal
    ((stored, _),) = journal.append([Record.new("shown", "eng-a", {})])
    monkeypatch.setattr(journal_module, "write_all", real)
    assert two.store.log.at(stored.seq).seq == stored.seq
    assert one.store.log.at(stored.seq).seq == stored.seq
    assert copy_of(one) == copy_of(two)


def test_commits_are_on_the_disk_whatever_the_role_says(postgres_server, url, machine, tmp_path):
    def committed_with(memory):
        """Return how the server commits within an append."""
        schema = parse_address(url).schema
        postgres_server.run(
            f"create or replace function {schema}.spy() returns trigger language plpgsql as $$"
            f" begin insert into {schema}.seen values (current_setting('synchronous_commit'));"
            f" return null; end $$"
        )
        postgres_server.run(f"create table if not exists {schema}.seen (how text)")
        postgres_server.run(
            f"create or replace trigger spy after insert on {schema}.line"
            f" for each statement execute function {schema}.spy()"
        )
        memory.register(WRITER)
        return {how for (how,) in postgres_server.run(f"select how from {schema}.seen")}

    try:
        postgres_server.run("alter role owner set synchronous_commit = off")
        memory = machine()
        assert committed_with(memory) == {"on"}
        # the bug: whatever the role says
        memory.store.log.journal.database.sql["guard"] = b"select 1"
        memory.store.log.journal.crowded = False
        memory.register(WRITER._replace(authority=42))
        assert ("off",) in postgres_server.run(f"select how from {parse_address(url).schema}.seen")
    finally:
        postgres_server.run("alter role owner reset synchronous_commit")


# -- readers -----


def missed(writers, read):
    """Return what a reader at a cursor never sees of what the writers acknowledge."""
    threads = [threading.Thread(target=write) for write, _ in writers]
    seen, cursor, last = set(), 0, False
    for thread in threads:
        thread.start()
    while not last:
        last = not any(thread.is_alive() for thread in threads)
        for number, name in read(cursor):
            seen.add(name)
            cursor = max(cursor, number)
    return {name for _, names in writers for name in names} - seen


def test_a_reader_at_a_cursor_misses_nothing(machine, postgres_server):
    machines = [machine() for _ in range(3)]
    machines[0].register(WRITER)
    writers = []
    for w, memory in enumerate(machines):
        names = [f"{w}-{n}" for n in range(8)]
        writers.append((lambda m=memory, t=names: [note(m, s, once=s) for s in t], names))
    log = machine().store.log
    assert not missed(writers, lambda cursor: [(r.seq, r.once) for r in log.since(cursor)])
    # the bug: numbers of a sequence, which are given out before the commits that others see
    postgres_server.run("create table counted (seq bigserial, name text)")
    insert = "insert into counted (name) values (%s)"
    begun, passed = threading.Event(), threading.Event()

    def late():
        with psycopg.connect(postgres_server.url()) as connection:
            connection.execute(insert, ("late",))
            begun.set()
            passed.wait(30)

    def early():
        begun.wait(30)
        postgres_server.run(insert, "early")

    def read(cursor):
        rows = postgres_server.run("select seq, name from counted where seq > %s", cursor)
        if rows:
            passed.set()
        return rows

    assert missed([(late, ["late"]), (early, ["early"])], read) == {"late"}


# -- a database that is another one than before ----------------------------------------------------


def set_back(server, url, seq):
    """Make the database what a standby has that lacks the last lines."""
    schema = parse_address(url).schema
    server.run(f"delete from {schema}.line where seq > %s", seq)
    server.run(
        f"update {schema}.head set seq = %s,"
        f" chain = (select substr(raw, 11, 64) from {schema}.line where seq = %s)",
        seq,
        seq,
    )


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_database_that_was_set_back_cuts_every_copy(machine, postgres_server, url, goes_on):
    one, two = machine(), machine()
    one.register(WRITER)
    kept = [note(one, f"kept {n}").seq for n in range(3)][-1]
    for n in range(4):
        note(one, f"gone {n}")
    assert len(two.as_agent("eng-a").read(namespace="api/*")) == 7
    set_back(postgres_server, url, kept)
    said = []
    for memory in (one, two):
        memory.store.index.say = said.append
    if goes_on:
        with synapse.init(Path(one.store.root).parent / "third", log=url) as third:
            note(third, "after the failover")
    expected = {f"kept {n}" for n in range(3)} | ({"after the failover"} if goes_on else set())
    for memory in (one, two):
        assert {e.body for e in memory.as_agent("eng-a").read(namespace="api/*")} == expected
        assert not memory.verify().problems
    assert len({memory.digest() for memory in (one, two)}) == 1
    assert copy_of(one) == copy_of(two) == b"".join(lines_of(postgres_server, url))
    assert (
        len(
            [
                text
                for text in said
                if f"records {kept + 1} to {kept + 4} are not in it any more" in text
            ]
        )
        == 2
    )
    (cut,) = Path(one.store.root, "cut").iterdir()
    from synapse.log.unite import lines_of as lines_in

    assert one.store.commit.merge(lines_in(str(cut))).records == 4
    bodies = {e.body for e in two.as_agent("eng-a").read(namespace="api/*")}
    assert bodies == expected | {f"gone {n}" for n in range(4)}


def test_a_copy_that_is_lost_or_torn_comes_again(machine, postgres_server, url):
    one = machine()
    one.register(WRITER)
    note(one, "in the database")
    root = Path(one.store.root)
    one.close()
    shutil.rmtree(root / ".index")
    again = machine(root)
    assert [e.body for e in again.as_agent("eng-a").read()] == ["in the database"]
    again.close()
    (segment,) = Path(root, "journal").glob("*.jsonl")
    raw = segment.read_bytes()
    segment.write_bytes(raw[:-20])
    again = machine(root)
    assert copy_of(again) == raw
    again.close()
    for path in Path(root, "journal").iterdir():
        path.unlink()
    assert copy_of(machine(root)) == raw


def test_a_folder_is_a_copy_of_one_database(machine, monkeypatch, tmp_path, postgres_server, url):
    one = machine()
    one.register(WRITER)
    root = Path(one.store.root)
    one.close()
    schema = parse_address(url).schema
    postgres_server.run(f"drop schema {schema} cascade")
    with pytest.raises(Conflict, match="another workspace"):
        machine(root)
    with synapse.init(tmp_path / "own") as own:
        own.register(WRITER)
    monkeypatch.setenv("PGPASSWORD", "secret")
    settings = tmp_path / "own" / "synapse.yaml"
    settings.write_text(settings.read_text() + f"log: {url}\n")
    with pytest.raises(Conflict, match="does not have"):
        synapse.open(tmp_path / "own")


# -- what is said ----------------------------------------------------------------------------------


def refusal(url):
    with pytest.raises(SynapseError) as caught:
        synapse.open(url)
    return str(caught.value)


def test_what_is_wrong_with_an_address_is_said(postgres_server, monkeypatch):
    port = postgres_server.port
    assert "start the server" in refusal("postgresql://owner@127.0.0.1:1/postgres")
    wrong = refusal(postgres_server.url(password="wrong"))
    assert "~/.pgpass" in wrong
    assert "wrong@" not in wrong
    assert "create it" in refusal(f"postgresql://owner:secret@127.0.0.1:{port}/missing")
    assert "cannot be the name" in refusal(postgres_server.url("No-Name"))
    assert "cannot be used" in refusal("postgresql://owner@127.0.0.1/postgres?colour=red")
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    assert "pip install '.[postgres]'" in refusal(postgres_server.url())


def test_an_address_that_came_from_elsewhere_is_asked_about(monkeypatch, tmp_path, url):
    with synapse.init(tmp_path / "made") as made:
        made.register(WRITER)
    settings = tmp_path / "made" / "synapse.yaml"
    settings.write_text(settings.read_text() + f"log: {url}\n")
    shutil.rmtree(tmp_path / "made" / ".index")
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "somebody-else"))
    with pytest.raises(NotTrusted, match="--log"):
        synapse.open(tmp_path / "made")


def test_a_writer_that_stops_in_its_turn_is_passed_over(machine, postgres_server, url):
    one, two = machine(), machine()
    one.register(WRITER)
    database = one.store.log.journal.database
    tail = one.store.log.journal.lock.run(lambda: one.store.log.journal._current(NOBODY))
    with database.turn() as turn:
        turn.hold(tail, 0, str(uuid.uuid4()), 1)
        assert note(two, "beside one that stopped").seq == tail.seq + 1
    note(one, "and goes on")
    two.store.refresh()
    assert copy_of(one) == copy_of(two) == b"".join(lines_of(postgres_server, url))
