"""Files that follow from records: which are put, by whom, and when they are looked at again."""

import os

import pytest

import synapse
from synapse.errors import StoreError
from synapse.log import progress
from synapse.log.upkeep import tree
from synapse.log.upkeep.finish import Finisher
from synapse.system.lock import hold


@pytest.fixture
def root(tmp_path):
    return tmp_path / "shared"


@pytest.fixture
def memory(root, clock):
    with synapse.init(str(root), clock=clock) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
        memory.register(synapse.Agent("lead", role="cto"))
        clock.advance("1h")
        finish(memory)
        yield memory


def finish(memory, limit=None):
    return memory.store.tree.finish(limit)


def placed(root):
    seq, at, boot = (root / ".index" / "placed").read_text().split(" ")
    return int(seq), int(at), boot


def entries(memory, count):
    eng = memory.as_agent("eng")
    return [eng.append(f"body {number}", "api/x") for number in range(count)]


def file_of(root, entry):
    return root / "entries" / "api" / "x" / f"{entry.id}.md"


def test_a_file_that_a_dead_writer_left_out_is_put_once_it_is_two_seconds_old(memory, root, clock):
    (entry,) = entries(memory, 1)
    text = file_of(root, entry).read_bytes()
    file_of(root, entry).unlink()
    clock.advance("1s")
    assert finish(memory) == 0
    assert not file_of(root, entry).exists()
    clock.advance("1s")
    assert finish(memory) == 1
    assert file_of(root, entry).read_bytes() == text
    assert finish(memory) == 0
    assert placed(root)[0] == memory.store.log.journal.last()


def test_a_file_is_checked_once_and_then_left(memory, root, clock):
    (entry,) = entries(memory, 1)
    clock.advance("1m")
    assert finish(memory) == 1
    file_of(root, entry).unlink()
    clock.advance("1m")
    entries(memory, 1)
    clock.advance("1m")
    finish(memory)
    assert not file_of(root, entry).exists()


def test_a_look_may_be_limited_and_goes_on_later(memory, root, clock):
    made = entries(memory, 5)
    for entry in made:
        file_of(root, entry).unlink()
    clock.advance("1m")
    assert [finish(memory, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert all(file_of(root, entry).exists() for entry in made)


@pytest.mark.parametrize(("age", "checked"), [("119s", True), ("121s", False)])
def test_after_the_machine_went_down_two_minutes_are_checked_again(
    memory, root, clock, age, checked
):
    (entry,) = entries(memory, 1)
    clock.advance(age)
    (other,) = entries(memory, 1)
    clock.advance("1h")
    finish(memory)
    whole = file_of(root, entry).read_bytes()
    file_of(root, entry).write_bytes(whole[:9])
    file_of(root, other).write_bytes(b"")
    seq, at, _ = placed(root)
    (root / ".index" / "placed").write_text(f"{seq} {at} before")
    assert finish(memory) >= 1
    assert (file_of(root, entry).read_bytes() == whole) is checked
    assert len(file_of(root, other).read_bytes()) > 9
    assert placed(root)[2] != "before"


def test_a_tree_that_is_yet_to_follow_says_so(memory, root):
    assert progress.lags(str(root)) is False
    assert memory.store.log.lags is False
    progress.restart(str(root), 1)
    assert progress.lags(str(root)) is True
    assert memory.store.log.lags is True
    assert placed(root)[0] == 1
    progress.restart(str(root), 9)  # no further than it was
    assert placed(root)[0] == 1
    finish(memory)
    assert progress.lags(str(root)) is False


def test_where_nothing_was_noted_all_is_checked(memory, root, clock):
    made = entries(memory, 3)
    clock.advance("1h")
    finish(memory)
    for damage in ("", "1 2", "x y z", None):
        for entry in made:
            file_of(root, entry).unlink()
        if damage is None:
            (root / ".index" / "placed").unlink()
        else:
            (root / ".index" / "placed").write_text(damage)
        assert finish(memory) >= 3
        assert all(file_of(root, entry).exists() for entry in made)


def test_a_proposal_stands_where_its_state_puts_it(memory, root, clock):
    junior, lead = memory.as_agent("junior"), memory.as_agent("lead")
    first, second, third = (junior.append(f"p{n}", "api/x") for n in range(3))
    assert not file_of(root, first).exists()
    lead.approve(first.id)
    lead.reject(second.id, "no")
    clock.advance("1h")
    finish(memory)
    found = sorted(path.name for path in (root / "staging").rglob("*.md"))
    assert found == [f"{third.id}.md"]
    assert file_of(root, first).exists()
    # a writer that died before its files left both
    staged = next((root / "staging").rglob("*.md"))
    file_of(root, first).rename(staged.with_name(f"{first.id}.md"))
    staged.unlink()
    progress.restart(str(root), 0)
    finish(memory)
    found = sorted(path.name for path in (root / "staging").rglob("*.md"))
    assert found == [f"{third.id}.md"]
    assert file_of(root, first).exists()


def test_an_archived_entry_is_on_the_page_of_its_month(memory, root, clock):
    eng = memory.as_agent("eng")
    one, two = entries(memory, 2)
    eng.archive([one.id, two.id], "done")
    page = root / "archive" / f"{one.id[4:11]}.md"
    whole = page.read_text()
    assert one.id in whole
    assert not file_of(root, one).exists()
    clock.advance("1h")
    finish(memory)
    page.unlink()
    progress.restart(str(root), 0)
    finish(memory)
    assert one.id in page.read_text()
    assert memory.verify().ok


def test_only_one_process_at_a_time_puts_files(memory, root, clock):
    entries(memory, 1)
    clock.advance("1m")
    lock = hold(f"{root}/.index/placed.lock")
    assert lock is not None
    assert hold(f"{root}/.index/placed.lock") is None
    assert finish(memory) == 0
    os.close(lock)
    assert finish(memory) == 1


def test_a_record_that_names_no_place_holds_up_no_file(memory, root, clock):
    (entry,) = entries(memory, 1)
    journal = memory.store.log.journal
    record = journal.at(entry.seq)
    fields = {**record.fields, "namespace": "../x"}
    journal.append([record._replace(seq=0, id="syn-2026-02-01-900", fields=fields)])
    file_of(root, entry).unlink()
    clock.advance("1m")
    finish(memory)
    assert file_of(root, entry).exists()


def test_a_file_is_not_passed_over_while_the_index_cannot_say_where_it_belongs(memory, root, clock):
    def full(id):
        raise StoreError("the index has no room")

    (entry,) = entries(memory, 1)
    file_of(root, entry).unlink()
    clock.advance("1m")
    before, finisher = placed(root), memory.store.tree.finisher
    Finisher(finisher.log, finisher.find, full).run()
    assert placed(root)[0] < memory.store.log.last()
    assert placed(root)[2] == before[2]
    finish(memory)
    assert file_of(root, entry).exists()
    assert placed(root)[0] == memory.store.log.last()


def test_an_append_finishes_nothing_for_others_and_who_opens_next_does(memory, root, clock):
    one, other = entries(memory, 2)
    file_of(root, one).unlink()
    clock.advance("1m")
    entries(memory, 1)
    assert not file_of(root, one).exists()
    with synapse.open(str(root), clock=clock) as next_one:
        next_one.as_agent("eng").read()
        assert file_of(root, one).exists()
        assert file_of(root, other).exists()


@pytest.mark.parametrize(("count", "moves"), [(2, False), (3, True)])
def test_who_wrote_much_leaves_the_mark_not_far_behind(
    memory, root, clock, monkeypatch, count, moves
):
    monkeypatch.setattr(tree, "FAR", 2)
    before = placed(root)[0]
    with synapse.open(str(root), clock=clock) as other:
        entries(other, count)
        clock.advance("1m")
    assert (placed(root)[0] > before) is moves
