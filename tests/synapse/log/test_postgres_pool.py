"""A log behind PgBouncer in transaction mode: appends and reads go on as ever, and what needs the
server itself is refused, with what to do.
"""

import logging
import threading

import psycopg
import pytest

from synapse.system.signal import NotificationPipe
from tests.postgres import POOL, Pool
from tests.postgres_histories import WRITER, copy_of, is_chain, lines_of, note, through
from tests.synapse.cli.test_doctor_at_night import told

pytestmark = pytest.mark.skipif(not POOL, reason="no pgbouncer here")
WRITERS, TEXTS = 6, 5


@pytest.fixture(scope="module")
def pool(postgres_server):
    pool = Pool(postgres_server)
    yield pool
    pool.close()


def test_what_many_write_through_a_pool_is_one_log(machine, pool, postgres_server, url):
    machines = [machine(log=through(pool, url)) for _ in range(WRITERS)]
    machines[0].register(WRITER)

    def write(memory, name):
        for n in range(TEXTS):
            note(memory, f"{name} {n}", once=f"{name}-{n}")

    threads = [
        threading.Thread(target=write, args=(memory, f"w{n}")) for n, memory in enumerate(machines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"w{n} {k}" for n in range(WRITERS) for k in range(TEXTS)}
    for memory in machines:
        entries = memory.as_agent("eng-a").read(namespace="api/*", limit=100)
        assert {entry.body for entry in entries} == expected
    lines = lines_of(postgres_server, url)
    assert is_chain(lines)
    assert {copy_of(memory) for memory in machines} == {b"".join(lines)}


def test_a_writer_loses_its_connections_and_goes_on(machine, pool, postgres_server, url):
    memory = machine(log=through(pool, url))
    memory.register(WRITER)
    for n in range(5):
        postgres_server.run(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'synapse'"
        )
        note(memory, f"text {n}")
    assert len(memory.as_agent("eng-a").read(namespace="api/*")) == 5


def test_a_listener_is_refused_with_what_to_do(machine, pool, url, caplog):
    one, two = machine(), machine(log=through(pool, url))
    one.register(WRITER)
    with caplog.at_level(logging.WARNING, "synapse"):
        pipe = NotificationPipe(two.store.log.pipes)
        try:
            two.store.log.journal.listener.thread.join(30)
            assert not two.store.log.journal.listener.alive
        finally:
            pipe.close()
    assert "name the server itself" in caplog.text
    note(one, "seen at the next look")
    assert len(two.as_agent("eng-a").read(namespace="api/*")) == 1


def test_whoever_listens_behind_a_pool_hears_nothing(pool, postgres_server):
    """The bug that the refusal spares."""

    def heard(url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.prepare_threshold = None
            connection.execute("listen news")
            with psycopg.connect(url, autocommit=True) as other:  # it has a connection as well
                other.execute("select 1")
                postgres_server.run("notify news")
                return len(list(connection.notifies(timeout=5, stop_after=1)))

    assert heard(postgres_server.url()) == 1
    assert heard(postgres_server.url(port=pool.own)) == 0


def test_the_doctor_names_a_pool(machine, pool, url, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "secret")
    memory = machine(log=through(pool, url))
    memory.register(WRITER)
    assert "answers through a pool of connections" in told(memory.store.root)
