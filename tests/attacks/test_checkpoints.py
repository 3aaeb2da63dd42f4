"""A journal that somebody rewrote: the chain made anew over other records, an end cut off, an older
copy restored. Signed checkpoints find it.
"""

import json
import os
import random
import re
import shutil
from base64 import b64decode, b64encode
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.cli import main
from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.formats import note
from synapse.formats.note import Checkpoint
from synapse.integrity import checkpoints, schedule
from synapse.integrity.last_signed import folder_of, last_signed
from synapse.log.chain import assemble, chain_of, link, split
from synapse.log.files import FilesLog
from synapse.log.proof import Proof
from synapse.model.agents import Agent
from synapse.model.placement import GENESIS
from synapse.system import home
from synapse.system.digest import sha256
from synapse.testing import FrozenClock
from tests.examples import examples
from tests.trusted import trust

RECORDS = 45
SEGMENT = "journal/000000000001.jsonl"


def workspace(root, records=RECORDS, settings=""):
    mem = synapse.init(str(root), clock=FrozenClock())
    with open(root / "synapse.yaml", "a", encoding="utf-8") as file:
        file.write(settings or "checkpoints: {every: 10}\n")
    mem.store.refresh(whole=True)
    mem.register(Agent("eng", read=("*",), write=("*",)))
    me = mem.as_agent("eng")
    while mem.store.log.last() < records:
        me.append(f"text {mem.store.log.last()}", "api/x")
    return mem


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """Make a checkpoint at every tenth record, however soon the next one comes."""
    monkeypatch.setattr(schedule, "PAUSE", 0.0)


def lines(root):
    return (root / SEGMENT).read_bytes().splitlines(keepends=True)


def rewritten(raws):
    """The lines with their places and a chain made anew: a whole journal for whoever has no other."""
    chain, found = GENESIS, []
    for place, raw in enumerate(raws, 1):
        _, head, text = split(raw)
        rest = head.partition(b",")[2]
        head = b'"seq":%d,' % place + rest
        chain = link(chain, head)
        found.append(assemble(chain, head, text))
    return found


def put(root, raws):
    (root / SEGMENT).write_bytes(b"".join(raws))
    shutil.rmtree(root / ".index")


def problems(root):
    mem = synapse.open(str(root), clock=FrozenClock(1_900_000_000_000_000))
    try:
        return mem.verify().problems
    finally:
        mem.close()


def test_a_journal_that_was_rewritten_is_found(tmp_path):
    root = tmp_path / "shared-memory"
    workspace(root).close()
    raws = lines(root)
    assert problems(root) == ()
    raws[19] = raws[19].replace(b"text 19", b"text 91")
    _, _, text = split(raws[19])
    body = json.loads(text)
    old = json.loads(raws[19])["sha"]
    raws[19] = raws[19].replace(old.encode(), sha256(body.encode()).encode())
    put(root, rewritten(raws))
    found = [problem for problem in problems(root) if problem.where == "journal"]
    assert [problem.what.partition(" is not")[0] for problem in found] == ["record 20"]
    # without the checkpoints nobody can tell
    checkpoints.forget(str(root))
    assert [problem for problem in problems(root) if problem.where == "journal"] == []


WAYS = "flip insert delete reorder truncate fork field cut older".split()
FIELDS = (
    (b'"namespace":"', b'"namespace":"api/y'),
    (b'"by":"', b'"by":"cto'),
    (b'"priority":"', b'"priority":"critical'),
    (b'"at":"', b'"at":"2026-02-01T23:00:00.000000Z'),
    (b'"sha":"', b'"sha":"' + b"0" * 64),
    (b'"text":"', b'"text":"another'),
)


def tamper(draw, raws, signed):
    """Change what was signed, in one of the ways there are; with or without a chain made anew."""
    raws = list(raws)
    way = draw.choice(WAYS)
    place = draw.randrange(signed - 1)
    if way == "flip":
        spot = draw.randrange(len(raws[place]) - 1)
        raw = bytearray(raws[place])
        raw[spot] ^= 1 << draw.randrange(7)
        raws[place] = bytes(raw)
    elif way == "insert":
        raws.insert(place, raws[draw.randrange(signed)])
    elif way == "delete":
        del raws[place]
    elif way == "reorder":
        raws[place], raws[place + 1] = raws[place + 1], raws[place]
    elif way == "truncate":
        del raws[place:]
    elif way == "field":
        name, value = draw.choice(FIELDS)
        raws[place] = re.sub(name + rb"[^\",}]*", value, raws[place], count=1)
    elif way == "cut":  # within a line
        raws[place:] = [raws[place][: draw.randrange(len(raws[place]))]]
    elif way == "older":  # an older copy, which went on
        more = raws[: draw.randrange(1, 30)]
        raws[place:] = [raw.replace(b"text", b"next") for raw in more]
    else:
        raws[place:] = [raw.replace(b"text", b"tent") for raw in raws[place:]]
    if way == "older" or (way not in ("flip", "cut") and draw.random() < 0.7):
        raws = rewritten(raws)
    return raws


class Signed:
    """A workspace with the checkpoints of its journal, which is put back after each look."""

    def __init__(self, folder):
        self.root = folder / "shared-memory"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SYNAPSE_HOME", str(folder / "home"))
            workspace(self.root).close()
            self.key = checkpoints.own_vkey()
            self.notes = os.path.join(home.operator_home(), folder_of(str(self.root)))
        self.raws = lines(self.root)

    def found(self, raws):
        """What is wrong with a journal of these lines: its own proof, or what was signed."""
        (self.root / SEGMENT).write_bytes(b"".join(raws))
        log = FilesLog(str(self.root), FrozenClock())
        try:
            proof = Proof(log.root, log.journal, log.mirror)
            for number, raw in enumerate(proof._lines(), 1):
                proof._line(number, raw)
            store = SimpleNamespace(log=log, root=str(self.root))
            return [*proof.problems, *checkpoints.compare(store, self.notes, self.key)]
        finally:
            log.close()


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    return Signed(tmp_path_factory.mktemp("signed"))


@given(st.integers(0, 1_000_000))
@examples(10_000, part=14)
def test_every_tampered_journal_is_found(signed, seed):
    raws = tamper(random.Random(seed), signed.raws, 40)
    assert bool(signed.found(raws)) == (raws != signed.raws)


def test_a_comparison_of_sizes_alone_is_found_out(signed, monkeypatch):
    def sizes(text):
        return Checkpoint(text.split("\n")[0], int(text.split("\n")[1]), "", ())

    monkeypatch.setattr(note, "_checkpoint", sizes)
    drawn = [tamper(random.Random(seed), signed.raws, 40) for seed in range(40)]
    assert not all(signed.found(raws) for raws in drawn)


def test_an_end_that_was_cut_off_is_announced_by_every_command(tmp_path, capsys):
    root = tmp_path / "shared-memory"
    workspace(root).close()
    put(root, lines(root)[:25])
    for verb in (["read"], ["agents"], ["poll", "--agent", "eng"]):
        main(["--root", str(root), *verb])
        # once the files of lost entries came in again, it differs
        told = capsys.readouterr().err
        assert told.count("record 40 ") == told.count("accepts what is there") == 1
    assert main(["--root", str(root), "verify"]) != 0
    assert "journal: " in capsys.readouterr().out
    with synapse.open(str(root)) as mem, pytest.raises(Conflict):
        checkpoints.make(mem.store)  # what was signed once is not signed otherwise
    with synapse.open(str(root)) as mem:  # nor is it forgotten once as many came again
        while mem.store.log.last() < 45:
            mem.as_agent("eng").append("text", "api/x")
    capsys.readouterr()
    main(["--root", str(root), "read"])
    assert "record 40 of the journal is not the one" in capsys.readouterr().err
    assert main(["--root", str(root), "checkpoint", "--forget"]) == 0
    capsys.readouterr()
    main(["--root", str(root), "read"])
    assert "signed" not in capsys.readouterr().err
    with synapse.open(str(root)) as mem:
        checkpoints.make(mem.store)
        assert last_signed(str(root)).size == mem.store.log.last()


def test_a_second_place_finds_what_the_first_forgot(tmp_path):
    root, place = tmp_path / "shared-memory", tmp_path / "usb"
    mem = workspace(root, 12, f"checkpoints: {{every: 10, copy: '{place}'}}\n")
    assert not place.exists()  # nobody trusted it with that
    assert last_signed(str(root)).size == 10
    trust(root)
    me = mem.as_agent("eng")
    while mem.store.log.last() < 30:
        me.append("text", "api/x")
    vkey = checkpoints.own_vkey()
    assert mem.verify(against=str(place)).ok
    mem.close()
    assert len(list(place.iterdir())) == 2
    raws = lines(root)
    shutil.rmtree(home.operator_home())
    raws[21] = raws[21].replace(b'"namespace":"api/x"', b'"namespace":"api/y"')
    put(root, rewritten(raws))
    with synapse.open(str(root)) as mem:
        found = mem.verify(against=str(place), key=vkey).problems
        assert any("record 22 is not the one" in problem.what for problem in found)
        with pytest.raises(NotFound):
            mem.verify(against=str(tmp_path / "nowhere"))


def test_who_writes_much_signs_once_a_second_and_at_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "PAUSE", 60.0)
    mem = workspace(tmp_path / "shared-memory")
    assert last_signed(mem.store.log.root) is None  # 10 to 40 within a second
    mem.close()
    signed = [name for name, _ in checkpoints.listed(mem.store.log.root)]
    assert signed == [f"{RECORDS:018d}.note"]
    assert problems(tmp_path / "shared-memory") == ()


def test_a_spawned_run_signs_nothing(tmp_path, monkeypatch):
    root = tmp_path / "shared-memory"
    mem = workspace(root, 5)
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng")
    while mem.store.log.last() < 25:
        mem.as_agent("eng").append("text", "api/x")
    assert last_signed(str(root)) is None
    monkeypatch.delenv("SYNAPSE_RUN")
    monkeypatch.delenv("SYNAPSE_AGENT")
    assert checkpoints.make(mem.store).size == 25


# -- forged checkpoints ----------------------------------------------------------------------------

SECRET = bytes(range(32))
KEY = note.public_of("synapse-test", SECRET)
CHECKPOINT = Checkpoint(note.origin_of("ab" * 32), 7, "cd" * 32, (b"abcdef", b"\xcd" * 6))


def test_a_note_is_what_others_can_read():
    text = note.sign(CHECKPOINT, KEY, SECRET)
    assert text.splitlines()[:3] == [
        "synapse-journal/" + "ab" * 16,
        "7",
        b64encode(bytes.fromhex("cd" * 32)).decode(),
    ]
    assert text.split("\n\n")[1].startswith("\u2014 synapse-test ")
    assert b64decode(text.split(" ")[-1])[:4] == KEY.hash
    assert note.opened(text, KEY) == CHECKPOINT
    assert note.key_of(KEY.vkey) == KEY


@given(st.integers(0, 1_000_000))
@examples(10_000, part=8)
def test_no_forged_checkpoint_is_accepted(seed):
    draw = random.Random(seed)
    text = note.sign(CHECKPOINT, KEY, SECRET)
    other = draw.randbytes(32)
    way = draw.randrange(6)
    if way == 0:  # one bit
        raw = bytearray(text.encode())
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        forged = raw.decode("utf-8", "replace")
    elif way == 1:  # another key under the same name
        forged = note.sign(CHECKPOINT, note.public_of("synapse-test", other), other)
    elif way == 2:  # another key that says it is this one
        forged = note.sign(CHECKPOINT, KEY, other)
    elif way == 3:  # another text under the signature
        more = CHECKPOINT._replace(size=draw.randrange(8, 10**9))
        forged = note.text_of(more) + "\n" + text.split("\n\n")[1]
    elif way == 4:  # a part
        forged = text[: draw.randrange(len(text))]
    else:  # more than was signed
        place = draw.randrange(len(text))
        forged = (
            text[:place]
            + draw.choice(("\n", " ", "0", "=", "\n\n", "\u2014 ", "\r"))
            + text[place:]
        )
    if forged != text:
        with pytest.raises(InvalidEntry):
            note.opened(forged, KEY)


def test_a_forged_note_among_those_that_are_kept_is_named(tmp_path):
    root = tmp_path / "shared-memory"
    workspace(root).close()
    name = f"{folder_of(str(root))}/{50:018d}.note"
    home.write(name, note.sign(CHECKPOINT, KEY, SECRET).encode())
    assert [problem.where for problem in problems(root)] == [f"checkpoint {50:018d}.note"]
    assert chain_of(lines(root)[39]) == last_signed(str(root)).chain


def test_a_new_workspace_where_one_was_deleted_has_a_journal_of_its_own(tmp_path):
    root = tmp_path / "ws"
    workspace(root).close()
    assert last_signed(str(root)) is not None
    synapse.init(root).close()
    assert last_signed(str(root)) is not None  # it was there, and stays as it was
    shutil.rmtree(root)
    synapse.init(root).close()
    assert last_signed(str(root)) is None
    workspace(root).close()
    assert problems(root) == ()


def test_verify_says_with_what_it_compared(tmp_path, capsys):
    """A journal below its first checkpoint, or one that was moved, proves nothing but itself."""
    root = tmp_path / "memory"
    workspace(root, 60, "checkpoints: {every: 1000}\n").close()
    nothing = "compared with nothing signed: a journal that was made anew would look the same"

    def said(*words):
        capsys.readouterr()
        assert main(["--root", str(root), "verify", *words]) == 0
        return capsys.readouterr().out

    with synapse.open(str(root)) as memory:
        assert memory.verify().compared == 0
    raws = lines(root)
    put(root, rewritten(raws))
    assert nothing in said()
    with synapse.open(str(root)) as memory:
        size = checkpoints.make(memory.store).size
        assert memory.verify().compared == size
    assert f"records 1 to {size} are as they were signed" in said()
    root = root.rename(tmp_path / "moved")
    assert nothing in said()
