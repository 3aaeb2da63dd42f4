"""An import is whole or nothing, wherever the process that imports is killed."""

from __future__ import annotations

import os
import shutil

import pytest

import synapse
from synapse.log import unite
from synapse.log.disk import sync, write_all
from tests.crash import kill


def take_in(root, source):
    with synapse.open(root) as memory, open(source) as lines:
        memory.import_(lines)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    with synapse.init(str(folder / "ws")) as memory:
        memory.register(synapse.Agent("ada", write=["*"], read=["*"]))
        memory.register(synapse.Agent("bob", write=["*"], read=["*"]))
        ada = memory.as_agent("ada")
        ids = [ada.append(f"entry {n}", "projects/p").id for n in range(20)]
        ada.archive(ids[:3])
        (folder / "export.jsonl").write_text("".join(memory.export()))
        digest = memory.digest()
    return folder / "export.jsonl", digest


def _is_half(root, source, digest):
    """Return what is wrong with a workspace whose import was killed: nothing of it there is right,
    and so is all of it.
    """
    with synapse.open(root) as memory:
        records = list(memory.export())
        if not records:
            with open(source) as lines:
                memory.import_(lines)
        report = memory.verify()
        if not report.ok:
            return report.problems
        if memory.digest() != digest:
            return f"{len(records)} records"
        names = [name for name in os.listdir(f"{root}/agents") if name[0] != "."]
        if sorted(names) != ["ada.yaml", "bob.yaml"]:
            return names
    drafts = [name for name in os.listdir(f"{root}/.index") if "journal-" in name]
    return drafts if records and drafts else None


@pytest.mark.parametrize("most", [24, pytest.param(200, marks=pytest.mark.soak)])
def test_a_killed_import_is_whole_or_nothing(source, tmp_path, most):
    export, digest = source
    empty, root = tmp_path / "empty", tmp_path / "cut"
    synapse.init(str(empty)).close()

    def fresh():
        shutil.rmtree(root, ignore_errors=True)
        return shutil.copytree(empty, root), export

    states = set()
    for at, _ in kill.kills(take_in, fresh, most):
        states.add(os.path.exists(f"{root}/journal/{1:012d}.jsonl"))
        assert _is_half(str(root), export, digest) is None, at
    assert len(states) == 2  # killed before the rename, and after it


def test_an_import_that_writes_line_by_line_is_found_out(source, tmp_path):
    export, digest = source
    root = str(tmp_path / "naive")
    synapse.init(root).close()
    with synapse.open(root) as memory, open(export) as lines:
        journal = memory.store.log.journal
        fd = journal._fd(journal.starts[-1])
        for raw in list(lines)[:11]:
            write_all(fd, raw.encode())
        sync(fd)
    assert _is_half(root, export, digest) is not None


def test_what_a_killed_merge_or_import_drafted_is_removed(source, tmp_path):
    export, _ = source
    root = str(tmp_path / "ws")
    synapse.init(root).close()
    with open(f"{root}/.index/{unite.DRAFT}4711", "w") as file:
        file.write("half")
    with synapse.open(root) as memory, open(export) as lines:
        memory.import_(lines)
    assert not [name for name in os.listdir(f"{root}/.index") if "4711" in name]
