"""What anybody may put into `entries/` and the inboxes: pipes, links, sockets, devices of a
terabyte, names that are no text. Nothing is followed, nothing hangs, nothing keeps the rest from
being read; each is put aside with a reason.
"""

import os
import shutil
import socket
import stat
import time

import pytest

import synapse
from synapse.log import adopt

HANGS = 60  # seconds: a pipe, a device or a terabyte that is read ends never
TEXT = (
    "---\nid: syn-x\nfrom: eng\ntimestamp: 2026-02-01T00:00:00Z\n"
    "namespace: api/endpoints\npriority: info\n---\n\n{}\n"
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Whatever is dropped is adopted at the next look, however new it is."""
    monkeypatch.setattr(adopt, "SETTLED", -1)


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.as_agent("eng").append("what was there", "api/endpoints")
        (tmp_path / "memory" / "inbox" / "eng" / "new").mkdir(parents=True, exist_ok=True)
        yield memory


def read(memory):
    """What is there, after a look at all that was dropped."""
    memory.store._looked = -1
    return [entry.body for entry in memory.as_agent("eng").read()]


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "outside.md"
    path.write_text(TEXT.format("a secret outside"))
    path.chmod(0o640)
    return path


def sock(path):
    here = os.open(".", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)
        listener.bind(path.name)
        os.fchdir(here)
    os.close(here)


def sparse(path):
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)


def linked(path, outside):
    outside.with_suffix(f".{path.name}").write_bytes(outside.read_bytes())
    os.link(outside.with_suffix(f".{path.name}"), path)


HOSTILE = {
    "a pipe": lambda path, outside: os.mkfifo(path),
    "a link": lambda path, outside: path.symlink_to(outside),
    "a link to nothing": lambda path, outside: path.symlink_to("nowhere"),
    "a link to itself": lambda path, outside: path.symlink_to(path),
    "a link to a folder": lambda path, outside: path.symlink_to("/"),
    "a link to a device": lambda path, outside: path.symlink_to("/dev/zero"),
    "a link to a pipe": lambda path, outside: (
        os.mkfifo(path.with_suffix(".fifo")) or path.symlink_to(path.name[:-3] + ".fifo")
    ),
    "a hard link": linked,
    "a terabyte": lambda path, outside: sparse(path),
    "a socket": lambda path, outside: sock(path),
    "an empty file": lambda path, outside: path.write_bytes(b""),
    "ten megabytes": lambda path, outside: path.write_bytes(b"x" * 10_000_000),
    "no text": lambda path, outside: path.write_bytes(bytes(range(256)) * 99),
    "a megabyte of an unclosed front": lambda path, outside: path.write_text(
        "---\n" + "a: b\n" * 200_000
    ),
    "a device": lambda path, outside: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
}
PLACES = ["entries/api/endpoints", "entries", "inbox/eng/new"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_it_is_put_aside(memory, tmp_path, outside, kind, place):
    root, count = tmp_path / "memory", 12
    before = outside.read_bytes(), outside.stat().st_mode
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for n in range(count):
            HOSTILE[kind](folder / f"x{n}.md", outside)
    except PermissionError:
        pytest.skip("this user may not make one")
    (folder / "good.md").write_text(TEXT.format("good").replace("api/endpoints", "status/x"))
    begun = time.perf_counter()
    bodies = set(read(memory))
    took = time.perf_counter() - begun
    assert took < HANGS
    assert {"what was there"} <= bodies <= {"what was there", "good"}
    aside = sorted((root / "quarantine").glob("*.md"))
    assert len(aside) == count + (place != "inbox/eng/new")
    for path in aside:
        reason = path.with_name(path.name + ".reason.txt")
        assert len(reason.read_text().splitlines()) >= 2
        assert stat.S_IMODE(reason.lstat().st_mode) == 0o600
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            assert stat.S_IMODE(status.st_mode) == 0o600
    assert (outside.read_bytes(), outside.stat().st_mode) == before
    assert not [
        name for name in os.listdir(folder) if name.startswith("x") and name.endswith(".md")
    ]
    assert len(memory.audit(limit=count)) == count
    assert memory.verify().problems == ()
    assert memory.rebuild().digest == memory.digest()


def test_a_hard_link_s_other_name_keeps_its_mode(memory, tmp_path, outside):
    os.link(outside, tmp_path / "memory" / "entries" / "x.md")
    read(memory)
    assert outside.stat().st_mode & 0o777 == 0o640
    assert outside.read_text() == TEXT.format("a secret outside")
    assert [act.kind for act in memory.audit(limit=1)] == ["quarantine"]


def test_a_folder_named_like_an_entry_is_a_folder(memory, tmp_path):
    folder = tmp_path / "memory" / "entries" / "api" / "x.md"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text(TEXT.format("good"))
    assert read(memory) == ["what was there"]
    assert folder.is_dir()
    assert memory.audit(limit=1)[0].fields["reason"].count("x.md") >= 1


NAMES = [
    b"\xff\xfe.md",
    b"a\nb.md",
    b"\x1b[31m.md",
    "é\u202e.md".encode(),
    b"-rf.md",
    b"x" * 240 + b".md",
    b" .md",
    b"a b.md",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES[::2])
@pytest.mark.parametrize("good", [False, True])
def test_a_file_of_any_name(memory, tmp_path, name, place, good):
    """What is in it counts; its name is text that somebody else wrote, and goes into the journal as
    such.
    """
    folder = os.path.join(os.fsencode(tmp_path / "memory"), place.encode())
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(TEXT.format("good").encode() if good else b"bad")
    before = len(memory.audit())
    bodies = read(memory)
    assert bodies in (["what was there"], ["good", "what was there"])
    assert len(memory.audit()) == before + 1
    assert memory.verify().problems == ()
    assert memory.rebuild().digest == memory.digest()
    with synapse.open(str(tmp_path / "memory")) as other:
        assert [entry.body for entry in other.as_agent("eng").read()] == bodies
        assert len(other.audit()) == before + 1
    with synapse.open("memory:") as copy:
        assert copy.import_(memory.export()) == memory.verify().records


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"a\nb", b"a 5\nentries", b"UPPER", b"..x", b"\xe2\x80\xae"]
)
def test_a_folder_of_any_name(memory, tmp_path, name):
    folder = os.path.join(os.fsencode(tmp_path / "memory"), b"entries", name)
    os.mkdir(folder)
    with open(os.path.join(folder, b"x.md"), "wb") as file:
        file.write(TEXT.format("hidden").encode())
    (tmp_path / "memory" / "entries" / "api" / "endpoints" / "good.md").write_text(
        TEXT.format("good")
    )
    for _ in range(2):
        assert read(memory) == ["good", "what was there"]
    with synapse.open(str(tmp_path / "memory")) as other:
        assert [entry.body for entry in other.as_agent("eng").read()] == ["good", "what was there"]
        assert [act.kind for act in other.audit(limit=2)].count("quarantine") == 1


def test_a_tree_deeper_than_a_path_may_be_hides_nothing(memory, tmp_path):
    here = os.open(".", os.O_RDONLY)
    os.chdir(tmp_path / "memory" / "entries")
    for _ in range(80):
        os.mkdir("x" * 60)
        os.chdir("x" * 60)
    os.fchdir(here)
    (tmp_path / "memory" / "entries" / "zz").mkdir()
    (tmp_path / "memory" / "entries" / "zz" / "good.md").write_text(
        TEXT.format("good").replace("api/endpoints", "zz")
    )
    try:
        assert read(memory) == ["good", "what was there"]
    finally:
        os.chdir(tmp_path / "memory" / "entries")
        for _ in range(80):
            os.chdir("x" * 60)
        for _ in range(80):
            os.chdir("..")
            os.rmdir("x" * 60)
        os.fchdir(here)
        os.close(here)


def test_many_folders_of_others_hide_nothing(memory, tmp_path):
    for n in range(2_000):
        (tmp_path / "memory" / "entries" / f"n{n}").mkdir()
    (tmp_path / "memory" / "entries" / "zz").mkdir()
    (tmp_path / "memory" / "entries" / "zz" / "good.md").write_text(
        TEXT.format("good").replace("api/endpoints", "zz")
    )
    assert read(memory) == ["good", "what was there"]


def test_the_name_of_a_folder_cannot_lead_outside(memory, tmp_path):
    """Folders are noted by name, a line each; a name may hold a line of its own."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "notes.md").write_text("not an entry")
    os.utime(tmp_path / "victim", (1, 1))
    (tmp_path / "memory" / "entries" / "a 5\n.." / "victim").mkdir(parents=True)
    (tmp_path / "memory" / "entries" / "a 5\nentries" / "api").mkdir(parents=True)
    for _ in range(3):
        read(memory)
        with synapse.open(str(tmp_path / "memory")) as other:
            read(other)
            read(other)
    assert (tmp_path / "victim" / "notes.md").read_text() == "not an entry"
    assert not list((tmp_path / "memory" / "quarantine").iterdir())


@pytest.mark.parametrize(
    "folder", ["entries/api", "entries", "archive", "quarantine", "staging", "inbox/eng/new"]
)
def test_a_link_in_place_of_a_folder_leads_nowhere(memory, tmp_path, folder):
    """Whoever can replace a folder can lose us files, but cannot make us write outside the
    workspace.
    """
    root, away = tmp_path / "memory", tmp_path / "away"
    away.mkdir()
    (away / "endpoints").mkdir()
    (away / "endpoints" / "good.md").write_text(TEXT.format("good"))
    (away / "x.md").write_text("bad")
    before = sorted(path.name for path in away.rglob("*"))
    read(memory)
    shutil.rmtree(root / folder, ignore_errors=True)
    (root / folder).symlink_to(away)
    with synapse.open(str(root)) as other:
        eng = other.as_agent("eng")
        (root / "inbox" / "eng" / "new").mkdir(parents=True, exist_ok=True)
        ids = [eng.append("body", "api/endpoints").id, eng.append("body", "status/x").id]
        eng.archive(ids[1])
        assert [entry.body for entry in eng.read()] == ["body", "what was there"]
        assert eng.get(ids[1]).archived
    assert sorted(path.name for path in away.rglob("*")) == before
