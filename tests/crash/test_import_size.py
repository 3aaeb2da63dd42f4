"""An import holds no more in memory for a log of twice the size."""

from __future__ import annotations

import io
import tracemalloc

import pytest

import synapse
from synapse import exchange

LINES, BODY = 400, "all work and no play " * 800  # 17 kB a line
SIZE = LINES * len(BODY)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    with synapse.init(str(folder / "ws")) as memory:
        memory.register(synapse.Agent("ada", write=["*"], read=["*"]))
        ada = memory.as_agent("ada")
        for n in range(LINES):
            ada.append(f"{n} {BODY}", "projects/p")
        (folder / "export.jsonl").write_text("".join(memory.export()))
    return folder / "export.jsonl"


def peak(source, root):
    """Return the most bytes that Python held at once until the lines were in the journal: the index
    takes records in batches, of this log in one.
    """
    with synapse.init(str(root)) as memory:
        tracemalloc.start()
        try:
            with open(source) as lines, exchange.acceptable(memory.store, lines) as copy:
                memory.store.log.recover(copy)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            assert "".join(memory.export()) == source.read_text()


def test_lines_are_not_held_in_memory(source, tmp_path):
    assert peak(source, tmp_path / "ws") < SIZE / 4


def test_an_import_that_holds_its_lines_is_found_out(source, tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "_unnamed", lambda store: io.BytesIO())
    assert peak(source, tmp_path / "ws") > SIZE
