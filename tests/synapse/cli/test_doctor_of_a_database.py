"""Each fault that the database of a log may have is named by `synapse doctor`, with the command that
comes next, and within seconds, whether it answers or not.
"""

import os
import time
from contextlib import contextmanager

import psycopg
import pytest

import synapse
from synapse.cli.checks import database as checks
from synapse.log.postgres.address import parse_address
from synapse.model.clock import DAY, now
from tests.postgres import Server
from tests.synapse.cli.test_doctor_at_night import told

WRITER = synapse.Agent("eng", read=["*"], write=["*"])


@pytest.fixture(scope="module")
def own_server():
    """Return a server that is set as one should be, and ill-treated by the tests."""
    server = Server(autovacuum=None)
    yield server
    server.close()


@pytest.fixture
def url(own_server):
    return own_server.url(f"ill_{os.urandom(4).hex()}")


@pytest.fixture
def root(machine, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "secret")
    memory = machine()
    memory.register(WRITER)
    for n in range(3):
        memory.as_agent("eng").append(f"entry {n}", "api/x")
    memory.as_agent("eng").read()
    root = memory.store.root
    memory.close()
    return root


@contextmanager
def stopped(server, schema):
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server, schema):
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


def role_with(name, value):
    @contextmanager
    def setting(server, schema):
        server.run(f"alter role owner set {name} = {value}")
        try:
            yield
        finally:
            writable = server.url() + "?options=-c%20default_transaction_read_only%3Doff"
            with psycopg.connect(writable, autocommit=True) as connection:
                connection.execute(f"alter role owner reset {name}")

    return setting


def server_with(name, value):
    @contextmanager
    def setting(server, schema):
        reload(server, f"alter system set {name} = {value}", lambda now: now == value)
        try:
            yield
        finally:
            reload(server, f"alter system reset {name}", lambda now: now != value)

    def reload(server, text, is_done):
        server.run(text)
        server.run("select pg_reload_conf()")
        until = time.monotonic() + 30
        while not is_done(server.run(f"show {name}")[0][0]):
            assert time.monotonic() < until
            time.sleep(0.05)

    return setting


@contextmanager
def held(server, schema):
    with psycopg.connect(server.url()) as connection:
        connection.execute(f"select from {schema}.head for update")
        time.sleep(checks.HELD + 1)
        yield
        connection.rollback()


@contextmanager
def bloated(server, schema):
    server.run(f"""do $$ begin for n in 1..9000 loop
        update {schema}.head set seq = seq; end loop; end $$""")
    yield


FAULTS = {
    "it is stopped": (stopped, "start the server, or correct the address; until then"),
    "it stands still": (frozen, "see whether its machine stands still"),
    "it is read-only": (
        role_with("default_transaction_read_only", "on"),
        "name the primary in `log:`",
    ),
    "commits do not wait": (role_with("synchronous_commit", "off"), "`alter role … reset"),
    "fsync is off": (server_with("fsync", "off"), "`alter system reset fsync`"),
    "pages are torn": (server_with("full_page_writes", "off"), "reset full_page_writes`"),
    "nothing is vacuumed": (server_with("autovacuum", "off"), "`alter system reset autovacuum`"),
    "the head is held": (held, "nobody can write; `select pg_terminate_backend("),
    "the head is bloated": (bloated, "`vacuum full ill_"),
}
BOUNDS = {
    "LEAST": (999_999, "15 or later is needed: upgrade it"),
    "MOST": (0, "raise max_connections"),
    "LONG": (0, "has a transaction open for"),
    "DEAD": (0, "rows of the log are dead: `vacuum ill_"),
}


def test_a_sound_database_has_none(root):
    assert told(root) == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_what_comes_next(root, fault, own_server, url):
    plant, named = FAULTS[fault]
    with plant(own_server, parse_address(url).schema):
        assert named in told(root)


@pytest.mark.parametrize("bound", BOUNDS)
def test_what_nears_a_bound_is_named(root, bound, own_server, url, monkeypatch):
    schema = parse_address(url).schema
    own_server.run(f"update {schema}.line set raw = raw")
    value, named = BOUNDS[bound]
    with synapse.open(root) as memory, psycopg.connect(own_server.url()) as other:
        other.execute(f"select from {schema}.line")
        assert named not in details(root, memory)
        monkeypatch.setattr(checks, bound, value)
        assert named in details(root, memory)


def details(root, memory):
    found = checks.database(root, memory)
    return "\n".join(each.detail for each in found if each.verdict != "ok")


def test_clocks_that_are_apart_are_named(root):
    with synapse.open(root, clock=lambda: now() - DAY // 24) as memory:
        assert "3600 s behind the database's: `timedatectl`" in details(root, memory)
    with synapse.open(root, clock=lambda: now() + DAY // 24) as memory:
        assert "3600 s ahead of the database's" in details(root, memory)


def test_a_copy_that_is_held_up_is_named(root, holds, machine):
    holds(f"{root}/journal/lock")
    machine().as_agent("eng").append("meanwhile", "api/x")
    text = told(root)
    assert "lacks 1 of" in text
    assert "kill -CONT" in text
