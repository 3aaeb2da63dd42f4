"""The files log by itself: which ids it gives, in which order it takes in what was dropped, and what
it does where it may not write or cannot look.
"""

import errno

import pytest

import synapse
from synapse.log import adopt
from synapse.log.files import FilesLog
from synapse.system import lock
from synapse.testing import FrozenClock, draft_entry

CLOCK = "2026-02-01T09:00:00Z"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(adopt, "SETTLED", -1)
    with synapse.init(str(tmp_path / "w"), clock=FrozenClock(CLOCK)) as memory:
        memory.register(synapse.Agent("ann", read=("*",), write=("*",)))
        yield memory


@pytest.fixture
def log(memory):
    return memory.store.log


def wanting(id):
    record = draft_entry("body")
    return record._replace(entry=record.entry._replace(id=id))


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ("syn-2026-02-01-002", True),
        ("syn-2026-02-01-001", False),  # taken
        ("syn-2026-02-01-1001", True),
        ("syn-2026-02-01-1002", False),  # too far ahead of the first
        ("syn-2026-01-31-5000", True),  # of a day that is over
        ("syn-2026-02-02-001", False),  # of a day to come
    ],
)
def test_an_entry_keeps_its_own_id_where_that_is_free_and_not_far_ahead(memory, wanted, kept):
    assert memory.store.commit.append(draft_entry("first")).id == "syn-2026-02-01-001"
    id = memory.store.commit.append(wanting(wanted)).id
    assert id == (wanted if kept else "syn-2026-02-01-002")


def test_what_was_dropped_is_taken_in_by_its_time_its_id_and_its_path(memory, tmp_path):
    folder = tmp_path / "w" / "entries" / "api" / "x"
    folder.mkdir(parents=True)

    def drop(name, id="", hour="08"):
        head = f"from: ann\ntimestamp: 2026-02-01T{hour}:00:00Z\npriority: info\n"
        named = f"id: {id}\n" if id else ""
        (folder / f"{name}.md").write_text(f"---\n{named}{head}---\n\n{name}\n")

    drop("d")
    drop("e")
    drop("c", "syn-2026-02-01-001")
    drop("b", "syn-2026-02-01-002")
    drop("a", "syn-2026-02-01-003")
    drop("z", hour="07")
    memory.store._looked = -1
    memory.store.refresh()
    records = list(memory.store.log.since(0))
    bodies = [
        record.text[record.fields["start"] :].strip()
        for record in records
        if record.kind == "entry"
    ]
    assert bodies == ["z", "d", "e", "c", "b", "a"]


def test_a_log_says_whether_it_may_be_written(tmp_path, log, monkeypatch):
    def refused(path, *flags):
        raise OSError(errno.EROFS, "Read-only file system", path)

    assert log.readonly is False
    monkeypatch.setattr(lock, "Lock", refused)
    assert FilesLog(str(tmp_path / "w")).readonly is True


def test_a_journal_that_has_lines_again_is_another_turn(memory):
    before = memory.store.index.turns()
    memory.store.index.restored(0)
    assert memory.store.index.turns() == before + 1
    assert memory.store.index.fork(before) == 0
