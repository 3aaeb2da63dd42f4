"""Which dropped files a look finds, which it leaves for later, and what it remembers."""

import os
import socket

import pytest

from synapse.errors import InvalidEntry
from synapse.log import adopt
from synapse.log.adopt import Channel, Drop, Rejected, Scanner, threaded
from synapse.model import kinds
from synapse.model.entry import Draft
from synapse.model.kinds import More

TEXT = """\
---
from: ann
timestamp: 2026-02-01T00:00:00Z
priority: info
---

body
"""
THREADS = [f"messages/{kinds.new_thread(bytes([n]) * 16)}" for n in range(9)]


@pytest.fixture
def root(tmp_path):
    for name in (".index", "entries", "messages", "knowledge"):
        (tmp_path / name).mkdir()
    return tmp_path


def nobody(folder):
    return set()


def dropped(root, path, text=TEXT, age=60):
    """Write a file, and let its folders be of a while ago. The time of a file's own change cannot
    be set: a look has its time of day instead.
    """
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    quiet(root, age)
    return file


def quiet(root, age=60):
    for folder, _, _ in os.walk(root):
        changed = os.stat(folder).st_ctime
        os.utime(folder, (changed - age, changed - age))


def now(root, later=1.0):
    return (
        max(
            os.lstat(os.path.join(folder, name)).st_ctime
            for folder, folders, names in os.walk(root)
            for name in (".", *names)
        )
        + later
    )


def look(scanner, root, known=nobody, waiting=(), **more):
    """Return the paths that a look finds, once it is done."""
    at = more.pop("at", None) or now(root)
    found = list(scanner.look(known, at, **more))
    scanner.done(waiting, at)
    return [(type(each), each.path) for each in found]


def test_a_file_is_found_until_the_log_knows_it(root):
    scanner = Scanner(str(root))
    dropped(root, "entries/api/x/one.md")
    dropped(root, "entries/api/x/.hidden.md")
    dropped(root, "entries/api/x/notes.txt")
    assert look(scanner, root, waiting=["entries/api/x/one.md"]) == [(Drop, "entries/api/x/one.md")]
    assert look(scanner, root, lambda folder: {"one.md"}) == []
    assert look(scanner, root) == []  # nothing changed since


def test_a_folder_that_changed_is_looked_at_again(root):
    scanner = Scanner(str(root))
    dropped(root, "entries/api/one.md")
    look(scanner, root)
    dropped(root, "entries/api/two.md", age=30)
    assert look(scanner, root, lambda folder: {"one.md"}) == [(Drop, "entries/api/two.md")]


def test_a_folder_that_changed_just_now_is_looked_at_once_more(root):
    scanner = Scanner(str(root))
    dropped(root, "entries/api/one.md")
    os.utime(root / "entries/api")
    at = os.stat(root / "entries/api").st_mtime
    for passed, again in ((0.04, True), (0.06, True), (0.06, False)):
        # the file itself is read as one of long ago
        found = list(scanner.look(nobody, at + passed - 9))
        assert bool(found) is again
        scanner.looked = {
            folder: changed for folder, changed in scanner.looked.items() if passed > 0.05
        }
        scanner.done((), at)
        if passed > 0.05:
            scanner.seen["entries/api"] = os.stat(root / "entries/api").st_mtime_ns


@pytest.mark.parametrize(
    ("passed", "found"), [(0.0, 0), (0.19, 0), (0.21, 1), (-1.9, 0), (-2.1, 1)]
)
def test_a_file_is_left_until_it_has_settled_whatever_the_clock_says(root, passed, found):
    file = dropped(root, "entries/api/one.md")
    scanner = Scanner(str(root))
    at = file.stat().st_ctime + passed
    assert len(look(scanner, root, at=at)) == found
    assert len(look(scanner, root, at=file.stat().st_ctime + 1)) == 1 - found


def test_what_is_no_file_of_an_entry_is_rejected_with_the_reason(root):
    (folder := root / "entries" / "api").mkdir()
    (folder / "link.md").symlink_to("elsewhere")
    os.mkfifo(folder / "pipe.md")
    (folder / "one.md").write_text(TEXT)
    os.link(folder / "one.md", folder / "two.md")
    (folder / "long.md").write_bytes(b"x" * (adopt._LIMIT + 1))
    (folder / "most.md").write_bytes(b"x" * adopt._LIMIT)
    (folder / "empty.md").touch()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(folder / "s.md"))
    with open(os.fsencode(folder) + b"/odd\xff.md", "w"):
        pass
    quiet(root)
    found = {
        each.path.rpartition("/")[2]: each.reason
        for each in Scanner(str(root)).look(nobody, now(root))
    }
    assert found["link.md"] == "it is not a file but a symbolic link"
    assert found["pipe.md"] == "it is not a file but a named pipe"
    assert found["s.md"] == "it is not a file but a socket"
    assert found["one.md"] == found["two.md"]
    assert found["one.md"].startswith("it has 2 names")
    assert "bytes; an entry has at most" in found["long.md"]
    assert "bytes; an entry has at most" not in found["most.md"]
    assert found["odd\udcff.md"] == "its name is not UTF-8"
    assert len(found) == 9


def test_a_plan_that_somebody_begins_to_write_is_left(root):
    scanner = Scanner(str(root))
    file = dropped(root, "entries/projects/shop/plan.md", "")
    assert look(scanner, root) == []
    file.write_text("---\n")
    assert look(scanner, root) == [(Rejected, "entries/projects/shop/plan.md")]
    file.write_text("Sell it.\n")
    found, *_ = Scanner(str(root)).look(nobody, now(root))
    assert (found.plain, found.draft.topic, found.start) == (True, "plan", -1)
    assert found.draft.namespace == "projects/shop"


def test_a_file_says_through_whom_it_came(root):
    scanner = Scanner(str(root))
    dropped(root, "entries/api/one.md")
    dropped(root, "inbox/ann/new/two.md", TEXT.replace("priority", "namespace: api\npriority"))
    dropped(root, "inbox/Not One/new/three.md")
    one, two = scanner.look(nobody, now(root))
    uid = os.getuid()
    assert one.channel == Channel(None, uid, True)
    assert (two.path, two.channel) == ("inbox/ann/new/two.md", Channel("ann", uid, True))
    assert one.text[one.start :].strip() == "body"
    assert one.draft.namespace == "api"


def test_a_file_in_a_folder_of_another_kind_is_rejected(root):
    dropped(root, "entries/api/one.md", TEXT.replace("from:", "kind: message\nfrom:"))
    dropped(root, "entries/Not One/two.md")
    dropped(root, "messages/not-a-thread/three.md")
    reasons = [each.reason for each in Scanner(str(root)).look(nobody, now(root))]
    assert any("is no kind that stands in entries/api" in each for each in reasons)
    assert any("its folder is not a namespace" in each for each in reasons)
    assert any("its folder is not a thread" in each for each in reasons)


def test_what_was_seen_is_remembered_by_the_next_process(root):
    scanner = Scanner(str(root))
    for folder in ("entries/api", *THREADS[:2]):
        dropped(root, f"{folder}/one.md")
    look(scanner, root)
    scanner._save()
    other = Scanner(str(root))
    assert other.seen == scanner.seen
    assert other.seen["entries/api"] == (root / "entries/api").stat().st_mtime_ns
    assert set(other.turns) == set(THREADS[:2])
    assert set(other.places) == {"entries", "messages", "knowledge", "entries/api"} - (
        {"entries", "messages", "knowledge"} - set(other.seen)
    )
    assert set(other.lively) == set(THREADS[:2])
    assert look(other, root) == []
    (root / ".index/seen").write_text("entries/api not-a-number\n")
    assert Scanner(str(root)).seen == {}


def test_what_was_seen_is_saved_now_and_then(root):
    scanner = Scanner(str(root))
    saved = root / ".index/seen"
    dropped(root, "entries/api/one.md")
    at = now(root)
    look(scanner, root, at=at)
    assert "entries/api " in saved.read_text()
    for name, later, there in (("x", 4.9, False), ("y", 5.0, True)):
        dropped(root, f"entries/{name}/one.md")
        look(scanner, root, at=at + later)
        assert (f"entries/{name} " in saved.read_text()) is there
    saved.unlink()
    look(scanner, root, at=at + 20)
    assert not saved.exists()  # nothing is new
    dropped(root, "entries/more/one.md")
    look(scanner, root, at=at - 20)  # a clock that was set back
    assert saved.exists()


def test_after_a_restart_every_folder_is_looked_at_again(root):
    scanner = Scanner(str(root))
    dropped(root, "entries/api/one.md")
    look(scanner, root)
    assert look(scanner, root) == []
    scanner.restart()
    assert not (root / ".index/seen").exists()
    assert set(scanner.seen.values()) == {0}
    assert look(scanner, root) == [(Drop, "entries/api/one.md")]
    scanner.restart()
    scanner.restart()  # with no file to remove


def test_quiet_threads_take_turns_and_lively_ones_are_always_looked_at(root, monkeypatch):
    monkeypatch.setattr(adopt, "THREADS", 2)
    monkeypatch.setattr(adopt, "LIVELY", 3)
    for folder in THREADS:
        dropped(root, f"{folder}/one.md")
    scanner = Scanner(str(root))
    look(scanner, root)
    assert set(scanner.turns) == set(THREADS)
    assert len(scanner.lively) == 3
    seen = []
    for _ in range(5):
        due = scanner._due(1e9)
        assert set(scanner.lively) < set(due)
        assert set(adopt.ROOTS) < set(due)
        seen += due[-2:]
    assert set(seen) == set(THREADS)
    assert sorted(map(seen.count, THREADS)) == [1] * 8 + [2]
    lively = list(scanner.lively)
    quiet_one = next(folder for folder in THREADS if folder not in lively)
    scanner._rouse(quiet_one)
    assert list(scanner.lively) == [*lively[1:], quiet_one]
    scanner._rouse(lively[1])
    assert list(scanner.lively) == [lively[2], quiet_one, lively[1]]


def test_a_folder_that_went_is_forgotten_and_its_parent_looked_at(root):
    scanner = Scanner(str(root))
    dropped(root, "entries/api/x/one.md")
    look(scanner, root)
    (root / "entries/api/x/one.md").unlink()
    (root / "entries/api/x").rmdir()
    quiet(root)
    look(scanner, root)
    assert "entries/api/x" not in scanner.seen
    assert "entries/api/x" not in scanner.places
    dropped(root, "entries/api/x/two.md")
    assert look(scanner, root, whole=True) == [(Drop, "entries/api/x/two.md")]


def test_a_folder_behind_a_link_is_not_entered(root, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "one.md").write_text(TEXT)
    (root / "entries" / "api").symlink_to(other)
    quiet(root)
    assert look(Scanner(str(root)), root) == []


MESSAGE = Draft("body", "", "ann", "info")._replace(kind=kinds.MESSAGE)
THREAD = THREADS[0].rpartition("/")[2]
OTHER = THREADS[1].rpartition("/")[2]


def test_a_message_is_in_the_thread_of_its_folder_its_own_or_a_new_one():
    own = MESSAGE._replace(more=More({"thread": THREAD, "parent": "x"}))
    assert threaded(MESSAGE, THREAD, "text").more["thread"] == THREAD
    assert threaded(own, None, "text").more["thread"] == THREAD
    assert threaded(own, THREAD, "text").more == own.more
    assert threaded(own, None, "text").namespace == kinds.MAIL
    new = [threaded(MESSAGE, None, text).more["thread"] for text in ("a", "b", "a")]
    assert new[0] == new[2] != new[1]
    assert kinds.is_thread(new[0])
    with pytest.raises(InvalidEntry, match="does not fit the place"):
        threaded(own, OTHER, "text")
    answer = MESSAGE._replace(more=More({"parent": "x"}))
    assert threaded(answer, THREAD, "text").more["thread"] == THREAD
    with pytest.raises(InvalidEntry, match="thread is missing"):
        threaded(answer, None, "text")
    entry = Draft("body", "api", "ann", "info")
    assert threaded(entry, THREAD, "text") is entry
