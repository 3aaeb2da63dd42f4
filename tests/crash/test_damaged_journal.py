"""A damaged line of the journal: reads say so and go on; what the chain proves is put back; the
rest is given up only by who says so. Nothing that is not proven is ever put into its place.
"""

from __future__ import annotations

import os
import random
import shutil

import pytest

import synapse
from synapse import StoreCorrupt
from synapse.log import damage
from synapse.log.chain import decode
from tests.crash import kill

ENTRIES = 12


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    with synapse.init(str(folder / "ws")) as memory:
        memory.register(synapse.Agent("ada", read=["*"], write=["*"]))
        memory.register(synapse.Agent("bob", read=["*"], write=["*"]))
        ada = memory.as_agent("ada")
        ids = [
            ada.append(f"entry {n}: ü “quoted” \\ text", "projects/p", tags=["x"]).id
            for n in range(ENTRIES)
        ]
        ada.archive(ids[2:4], "done")
        ada.resolve(ids[5], note="it is")
        memory.as_agent("bob").read(mark=True)
        (folder / "export.jsonl").write_text("".join(memory.export()))
        memory.verify()
    return folder


@pytest.fixture
def root(template, tmp_path):
    return str(shutil.copytree(template / "ws", tmp_path / "ws"))


def journal(root):
    return f"{root}/journal/{1:012d}.jsonl"


def lines(root):
    with open(journal(root), "rb") as file:
        return file.readlines()


def write(root, raws):
    """Write the file anew, as a disk would have it: the same inode, and no index."""
    with open(journal(root), "r+b") as file:
        file.truncate(0)
        file.write(b"".join(raws))


def without_index(root):
    for name in os.listdir(f"{root}/.index"):
        if name.startswith("brain.db"):
            os.remove(f"{root}/.index/{name}")


def flip(raw, place, bit=1):
    changed = bytearray(raw)
    changed[place] ^= bit
    return bytes(changed)


def place_of(raws, kind="entry", nth=4):
    return [n for n, raw in enumerate(raws) if decode(raw).kind == kind][nth]


def opened(root):
    memory = synapse.open(root)
    memory.store.index.say = notes = []
    memory.store.index.say = notes.append
    return memory, notes


def count(memory):
    bob = memory.as_agent("bob")
    return len(bob.read()) + len(bob.read(archived=True))


def digest_of(root):
    with synapse.open(root) as memory:
        return memory.digest()


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_put_back_wherever_it_is(root, seed):
    draw, before, whole = random.Random(seed), digest_of(root), lines(root)
    raws, n = list(whole), place_of(whole, nth=draw.randrange(ENTRIES))
    raws[n] = flip(raws[n], draw.randrange(len(raws[n]) - 1), 1 << draw.randrange(8))
    write(root, raws)
    if draw.random() < 0.5:
        without_index(root)
    with synapse.open(root) as memory:
        assert not memory.verify().ok
        report = memory.repair()
        assert report.ok, report
        assert memory.verify().ok
    assert lines(root)[: len(whole)] == whole
    if len(lines(root)) == len(whole):
        assert digest_of(root) == before


def test_reads_go_on_and_say_so(root):
    raws = lines(root)
    n = place_of(raws)
    raws[n] = b"\0" * (len(raws[n]) - 1) + b"\n"
    write(root, raws)
    without_index(root)
    memory, notes = opened(root)
    with memory:
        memory.store.refresh()
        assert any(f"record {n + 1} cannot be read" in note for note in notes)
        assert count(memory) == ENTRIES - 2
        memory.as_agent("ada").append("life goes on", "projects/p")
        memory.store.refresh(whole=True)
        assert count(memory) == ENTRIES - 1
    assert len(os.listdir(f"{root}/entries/projects/p")) == ENTRIES - 2 + 1
    memory, notes = opened(root)
    with memory:  # every process says it once, also where the index is complete
        memory.store.refresh()
        assert len([note for note in notes if "cannot be read" in note]) == 1


def test_a_changed_line_is_not_believed(root):
    """A record whose bytes were changed, but that can be parsed, is not taken in."""
    raws = lines(root)
    n = place_of(raws)
    raws[n] = raws[n].replace(b"entry 4", b"forged 4").replace(b'"tags":["x"]', b'"tags":["y"]')
    write(root, raws)
    without_index(root)
    with synapse.open(root) as memory:
        assert not memory.as_agent("bob").search("forged")
        assert count(memory) == ENTRIES - 2


DAMAGES = {
    "zeros": lambda raws, n: [*raws[:n], b"\0" * 600, *raws[n + 3 :]],
    "noise": lambda raws, n: [*raws[:n], random.Random(3).randbytes(900), *raws[n + 2 :]],
    "newline lost": lambda raws, n: [*raws[:n], raws[n][:-1] + b" ", *raws[n + 1 :]],
    "newline put in": lambda raws, n: [
        *raws[:n],
        raws[n][:90] + b"\n" + raws[n][91:],
        *raws[n + 1 :],
    ],
    "deleted": lambda raws, n: [*raws[:n], *raws[n + 2 :]],
    "number": lambda raws, n: [*raws[:n], raws[n].replace(b'"seq":', b'"seq":9'), *raws[n + 1 :]],
    "two apart": lambda raws, n: [
        *raws[:n],
        flip(raws[n], 95, 6),
        *raws[n + 1 : n + 3],
        flip(raws[n + 3], 100, 6),
        *raws[n + 4 :],
    ],
    "the last": lambda raws, n: [*raws[:-1], flip(raws[-1], 120, 7)],
    "a line put in": lambda raws, n: [*raws[:n], b"something else\n", *raws[n:]],
    "a line twice": lambda raws, n: [*raws[:n], raws[n], *raws[n:]],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_another_copy_has_what_is_damaged(root, template, name):
    whole, before = lines(root), digest_of(root)
    write(root, DAMAGES[name](whole, place_of(whole)))
    for copy in (str(template / "ws"), str(template / "export.jsonl")):
        other = shutil.copytree(root, f"{root}-{os.path.basename(copy)}")
        with synapse.open(other) as memory:
            dry = memory.repair(dry_run=True, source=copy)
            if name != "a line twice":
                assert dry.notes
                assert "put back" not in dry.notes[0]
            report = memory.repair(source=copy)
            assert report.ok, (report, name)
        mended = lines(other)
        assert [raw for raw in mended if decode(raw)][: len(whole)] == whole
        assert digest_of(other) == before or len(mended) > len(whole)


@pytest.mark.parametrize("name", ["zeros", "noise", "deleted", "number", "two apart", "the last"])
def test_what_is_given_up_is_recorded_and_reported_no_more(root, name):
    whole = lines(root)
    write(root, DAMAGES[name](whole, place_of(whole)))
    for raw in os.listdir(f"{root}/entries/projects/p"):
        os.remove(f"{root}/entries/projects/p/{raw}")
    memory, notes = opened(root)
    with memory:
        assert not memory.repair().ok
        report = memory.repair(give_up=True)
        assert report.ok, report
        assert memory.verify().ok
        memory.as_agent("ada").append("after", "projects/p")
    memory, notes = opened(root)
    with memory:
        memory.rebuild()
        memory.store.refresh()
        assert not [note for note in notes if "cannot be read" in note]
        assert memory.verify().ok


def test_a_given_up_line_that_changes_again_is_reported(root):
    whole = lines(root)
    n = place_of(whole)
    write(root, DAMAGES["noise"](whole, n))
    with synapse.open(root) as memory:
        assert memory.repair(give_up=True).ok
    raws = lines(root)
    raws[n] = flip(raws[n], 3)
    write(root, raws)
    with synapse.open(root) as memory:
        assert not memory.verify().ok


def test_nothing_that_is_not_proven_is_put_in_its_place(root, template, tmp_path):
    """A copy that says something else, however well its lines are made, is refused."""
    forged = tmp_path / "forged"
    with synapse.init(str(forged)) as memory:
        memory.register(synapse.Agent("ada", read=["*"], write=["*"]))
        memory.register(synapse.Agent("bob", read=["*"], write=["*"]))
        for n in range(ENTRIES):
            memory.as_agent("ada").append(f"forged {n}", "projects/p")
    whole = lines(root)
    n = place_of(whole)
    raws = DAMAGES["zeros"](whole, n)
    write(root, raws)
    with synapse.open(root) as memory:
        report = memory.repair(source=str(forged))
        assert not report.ok
        assert "cannot be put back" in report.notes[0]
    assert b"".join(lines(root)).startswith(b"".join(raws))


def test_a_repair_that_proves_nothing_is_found_out(root, template, monkeypatch):
    monkeypatch.setattr(damage, "_is_proven", lambda stretch, raws: bool(raws))
    whole = lines(root)
    n = place_of(whole)
    raws = list(whole)
    raws[n] = flip(flip(raws[n], 300), 310)
    write(root, raws)
    with synapse.open(root) as memory:
        memory.repair()
    assert lines(root)[: len(whole)] != whole


def test_a_changed_last_line_is_no_torn_one(root):
    whole = lines(root)
    write(root, [*whole[:-1], b"x" * 40 + whole[-1][40:]])
    without_index(root)
    with synapse.open(root) as memory:
        assert "bytes were changed" in str(memory.verify().problems)
        with pytest.raises(StoreCorrupt, match="not torn"):
            memory.as_agent("ada").append("over it", "projects/p")
        assert memory.repair(give_up=True).ok
        memory.as_agent("ada").append("behind it", "projects/p")
        assert memory.verify().ok


def repair(root, source):
    with synapse.open(root) as memory:
        memory.repair(source=source)


@pytest.mark.parametrize("most", kill.POINTS)
def test_a_killed_repair_leaves_the_journal_as_it_was_or_whole(root, template, most):
    whole, other = lines(root), f"{root}-other"
    raws = DAMAGES["noise"](whole, place_of(whole))
    write(root, raws)

    def fresh():
        shutil.rmtree(other, ignore_errors=True)
        return shutil.copytree(root, other), template / "ws"

    for at, _ in kill.kills(repair, fresh, most):
        mended = lines(other)[: len(whole)]
        assert mended == whole or b"".join(lines(other)).startswith(b"".join(raws)), at
        with synapse.open(str(other)) as memory:
            assert memory.repair(source=str(template / "ws")).ok


def test_another_process_that_has_it_open_goes_on_in_what_was_put_back(root, template):
    whole = lines(root)
    with synapse.open(root) as other:
        assert count(other) == ENTRIES - 1
        write(root, DAMAGES["noise"](whole, place_of(whole)))
        with synapse.open(root) as memory:
            assert memory.repair(source=str(template / "ws")).ok
            memory.as_agent("ada").append("more", "projects/p")
        assert count(other) == ENTRIES
        other.as_agent("ada").append("and more", "projects/p")
        assert other.verify().ok
