"""While the database is away, this machine's copy is read and says so, and no write is taken."""

import os
import subprocess
import sys
import time

import pytest

import synapse
from synapse import Agent
from synapse.errors import Conflict, StoreBusy, StoreError
from synapse.log.postgres import database as database_module
from synapse.log.postgres import journal as journal_module
from synapse.log.postgres.address import parse_address
from tests.postgres import Server

WRITER = Agent("eng-a", role="engineer", read=("*",), write=("*",))
BOUND = 60.0  # seconds on a busy machine; two on a quiet one


@pytest.fixture(scope="module")
def own_server():
    """Return a server that is stopped and frozen as it pleases a test."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=["stopped", "frozen"])
def absence(request, own_server):
    """Return what takes the server away, and what brings it back."""
    if request.param == "stopped":
        yield own_server.stop, own_server.start
        if own_server.process.poll() is not None:
            own_server.start()
    else:
        yield own_server.freeze, own_server.thaw
        own_server.thaw()


@pytest.fixture
def url(own_server):
    return own_server.url(f"away_{os.urandom(4).hex()}")


def bodies(memory):
    return {entry.body for entry in memory.as_agent("eng-a").read(namespace="api/*")}


def note(memory, text):
    return memory.as_agent("eng-a").append(text, "api/x")


def shell(root, *words):
    command = [sys.executable, "-m", "synapse.cli", "--root", root, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_copy_is_read_and_says_once_that_it_may_be_behind(machine, absence):
    away, back = absence
    one, two = machine(), machine()
    one.register(WRITER)
    note(one, "kept")
    assert bodies(two) == {"kept"}
    said = []
    two.store.index.say = said.append
    away()
    start = time.monotonic()
    assert [bodies(two) for _ in range(3)] == [{"kept"}] * 3
    assert time.monotonic() - start < BOUND
    (text,) = said
    assert "may lack what other machines wrote" in text
    assert "cannot be reached" in text
    back()
    note(one, "news")
    until = time.monotonic() + 30
    while bodies(two) != {"kept", "news"}:
        assert time.monotonic() < until
        time.sleep(0.1)
    away()
    assert bodies(two) == {"kept", "news"}
    assert len(said) == 2  # it was back between


def test_a_write_is_refused_with_what_to_do(machine, absence):
    away, back = absence
    one = machine()
    one.register(WRITER)
    note(one, "kept")
    away()
    assert bodies(one) == {"kept"}
    start = time.monotonic()
    with pytest.raises(StoreBusy, match="nothing was stored") as caught:
        note(one, "refused")
    assert time.monotonic() - start < BOUND
    assert "see whether its machine" in str(caught.value) or "start the server" in str(caught.value)
    back()
    note(one, "taken")
    assert bodies(one) == {"kept", "taken"}


def test_a_quiet_writer_asks_before_it_commits(machine, own_server, monkeypatch):
    """What is sent to a server that stands still may be stored when it goes on."""
    monkeypatch.setattr(database_module, "WRITERS_WAIT", 1)
    monkeypatch.setattr(journal_module, "PATIENCE", 1)
    one = machine()
    one.register(WRITER)
    note(one, "kept")

    def refused(text):
        own_server.freeze()
        try:
            with pytest.raises(StoreError) as caught:
                note(one, text)
            return "nothing was stored" in str(caught.value)
        finally:
            own_server.thaw()

    assert not refused("just after another")
    monkeypatch.setattr(journal_module, "QUIET", 0)
    note(one, "kept too")
    assert refused("after a while")
    note(one, "taken")
    assert bodies(one) - {"just after another"} == {"kept", "kept too", "taken"}


def test_a_folder_opens_without_its_database(machine, url, absence, monkeypatch):
    away, back = absence
    one = machine()
    one.register(WRITER)
    note(one, "kept")
    root = one.store.root
    monkeypatch.setenv("PGPASSWORD", "secret")
    away()
    read = shell(root, "read")
    assert "kept" in read.stdout
    assert read.stderr.count("may lack what other machines wrote") == 1
    written = shell(root, "write", "--from", "eng-a", "--namespace", "api/x", "refused")
    assert written.returncode == StoreBusy.exit_code
    assert "nothing was stored" in written.stderr
    with pytest.raises(StoreError, match="cannot be reached"):
        machine()  # a new folder has nothing to show
    back()
    assert shell(root, "write", "--from", "eng-a", "--namespace", "api/x", "taken").returncode == 0
    assert bodies(one) == {"kept", "taken"}


def test_another_database_is_found_out_when_it_answers(machine, own_server, url):
    one = machine()
    one.register(WRITER)
    root = one.store.root
    own_server.stop()
    memory = synapse.init(root, log=url)
    own_server.start()
    schema = parse_address(url).schema
    own_server.run(f"update {schema}.about set workspace = gen_random_uuid()")
    try:
        with pytest.raises(Conflict, match="another workspace"):
            note(memory, "into another")
        with pytest.raises(Conflict, match="another workspace"):
            bodies(memory)
    finally:
        memory.close()


def test_a_process_that_holds_the_folder_stops_no_reader(machine, tmp_path):
    one, two = machine(), machine()
    one.register(WRITER)
    assert bodies(two) == set()
    code = (
        "import fcntl, os, sys, time; fd = os.open(sys.argv[1], os.O_RDWR);"
        " fcntl.flock(fd, fcntl.LOCK_EX); print(flush=True); time.sleep(600)"
    )
    path = os.path.join(two.store.root, "journal", "lock")
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    said = []
    two.store.index.say = said.append
    try:
        holder.stdout.readline()
        note(one, "meanwhile")
        assert bodies(two) == set()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert "may lack what other machines wrote" in said[0]
