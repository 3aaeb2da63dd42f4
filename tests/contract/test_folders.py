"""The contract of a run's folder, in files and in PostgreSQL: there, opened again, it is on another
machine.
"""

import itertools
import os
import signal
import time

import pytest

import synapse
from orchestrator.runs.files import workspace
from orchestrator.runs.files.evidence import demand_all_steps
from orchestrator.runs.files.folder import LEDGER, OUTPUT, STEPS
from synapse.errors import NotFound, StoreCorrupt, StoreError

NAMES, MACHINES = itertools.count(), itertools.count()
HARD = 'a "line" of \u2028 \\ any \ud800 sort, é, \x01\n'
TURN = '{"n":0,"epoch":1,"kind":"turn","ledger":"paid"}\n'


@pytest.fixture(params=["files", "postgres"])
def opened(request, tmp_path):
    """Return what opens the folder of a run anew: on another machine, where there are several."""
    url, memories = None, []
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        url = server.url(f"f{os.getpid()}_{next(NAMES)}")

    def open_one(run="eng-1"):
        root = tmp_path / (f"machine-{next(MACHINES)}" if url else "here")
        memories.append(synapse.init(root, log=url))
        return workspace.folder(memories[-1].store, str(root), run)

    open_one.tail = lambda: workspace.tail(
        memories[-1].store, memories[-1].store.root, "eng-1", STEPS
    )
    yield open_one
    for memory in memories:
        memory.close()


def test_lines_stand_in_their_order_for_all(opened):
    folder = opened().make()
    assert list(folder.lines(STEPS)) == []
    assert not folder.has(STEPS)
    for n in range(5):
        folder.record(STEPS, f"{n} {HARD}", sync=n % 2 == 0)
    folder.record(LEDGER, "paid\n")
    folder.sync(STEPS)
    for each in (folder, opened()):
        assert list(each.lines(STEPS)) == [f"{n} {HARD}" for n in range(5)]
        assert list(each.lines(LEDGER)) == ["paid\n"]
        assert each.has(STEPS)
        assert each.exists
    assert list(opened("eng-2").lines(STEPS)) == []


def test_a_file_is_written_whole_and_again(opened):
    folder = opened().make()
    with pytest.raises(NotFound):
        folder.read(OUTPUT)
    assert folder.write(OUTPUT, "first") == f"{folder.path}/{OUTPUT}"
    folder.write(OUTPUT, HARD, sync=False)
    for each in (folder, opened()):
        assert each.read(OUTPUT) == HARD
        assert each.has(OUTPUT)


def test_no_secret_is_kept(opened):
    folder, key = opened().make(), "sk-ant-api03-" + "a1B2" * 24
    folder.record(STEPS, f'{{"key": "{key}"}}\n')
    folder.write(OUTPUT, f'"{key}"')
    assert key not in "".join(opened().lines(STEPS)) + opened().read(OUTPUT)


def test_a_tail_gives_each_line_once(opened):
    folder = opened().make()
    folder.record(STEPS, "one\n")
    opened()
    tail = opened.tail()
    assert tail.lines() == ["one\n"]
    assert tail.lines() == []
    folder.record(STEPS, "two\n")
    assert tail.lines() == ["two\n"]


def test_a_run_that_had_come_further_than_its_steps_is_known(opened):
    folder = opened().make()
    demand_all_steps(folder, shown=False)
    with pytest.raises(StoreCorrupt, match="there are none"):
        demand_all_steps(folder, shown=True)
    folder.record(STEPS, TURN)
    folder.record(LEDGER, "paid")
    demand_all_steps(opened(), shown=True)
    folder.record(LEDGER, '{"stop":"done"}\n')
    with pytest.raises(StoreCorrupt, match="its ledger names a call"):
        demand_all_steps(opened(), shown=True)


def test_what_this_machine_alone_has_is_read_here(tmp_path, postgres_server):
    """The transcript that a client wrote; the steps of a run that an earlier version began."""
    with synapse.init(tmp_path, log=postgres_server.url(f"f{os.getpid()}_{next(NAMES)}")) as mem:
        folder = workspace.folder(mem.store, str(tmp_path), "eng-1").make()
        for name, text in (("transcript.log", "it did"), (STEPS, "early\n")):
            with open(os.path.join(folder.path, name), "w", encoding="utf-8") as file:
                file.write(text)
        folder.record(STEPS, "late\n")
        assert folder.read("transcript.log") == "it did"
        assert folder.has("transcript.log")
        assert list(folder.lines(STEPS)) == ["early\n", "late\n"]


def test_what_was_synced_outlasts_the_server(tmp_path):
    from tests.postgres import Server

    server = Server()
    try:
        with synapse.init(tmp_path, log=server.url("lasting")) as memory:
            server.run("alter role owner set synchronous_commit = off")
            folder = workspace.folder(memory.store, str(tmp_path), "eng-1").make()
            folder.record(STEPS, "early\n", sync=False)
            folder.record(STEPS, "one\n")
            server.stop(signal.SIGQUIT)
            with pytest.raises(StoreError):
                folder.record(STEPS, "lost\n")
            server.start()
            assert list(folder.lines(STEPS)) == ["early\n", "one\n"]
            folder.record(STEPS, "two\n", sync=False)
            folder.sync(STEPS)
            server.stop(signal.SIGQUIT)
            time.sleep(0.1)
            server.start()
            assert list(folder.lines(STEPS)) == ["early\n", "one\n", "two\n"]
    finally:
        server.close()
