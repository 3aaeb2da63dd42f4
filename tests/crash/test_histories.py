"""The journal becomes another one under its index, and under whoever has it open: a checkout, a
stash, a loss.
"""

import shutil
import subprocess
import sys
import time
from threading import Thread

import pytest

import synapse
from synapse.cli import main
from synapse.errors import StoreCorrupt
from synapse.log import progress, vanished
from synapse.log.git import IGNORE
from tests.git import commit, git


def write(root, *bodies):
    with synapse.open(str(root)) as mem:
        return [mem.as_agent("eng").append(body, "api/x").id for body in bodies]


def bodies(mem):
    return [entry.body for entry in mem.as_agent("operator").read(limit=None)][::-1]


def read(root):
    with synapse.open(str(root)) as mem:
        mem.store.index.say = lambda text: None
        return bodies(mem)


@pytest.fixture
def repo(tmp_path):
    """A workspace in a repository: one entry on main."""
    root = tmp_path / "shared-memory"
    git(tmp_path, "init", "-q")
    with synapse.init(str(root)) as mem:
        mem.register(synapse.Agent("eng", read=["*"], write=["*"]))
    (root / ".gitignore").write_text(IGNORE)
    (root / ".gitattributes").write_text("* -text\n")
    write(root, "one")
    assert read(root) == ["one"]
    commit(root)
    return root


@pytest.fixture
def forked(repo):
    """Two branches that both wrote; main is checked out and indexed, and its journal is the longer
    one.
    """
    git(repo, "checkout", "-qb", "feature")
    write(repo, "two on feature")
    commit(repo)
    git(repo, "checkout", "-q", "main")
    write(repo, "two on main", "three on main")
    commit(repo)
    assert read(repo) == ["one", "two on main", "three on main"]
    return repo


def notes_of(mem):
    notes = []
    mem.store.index.say = notes.append
    return notes


def lost(root):
    """What a reader is told of a loss; it is answered by what was seen, and nobody writes."""
    with synapse.open(str(root)) as mem:
        notes = notes_of(mem)
        assert bodies(mem) != []
        with pytest.raises(StoreCorrupt):
            mem.as_agent("eng").append("not written", "api/x", once="not written")
    return notes[0]


# -- a checkout ------------------------------------------------------------------------------------


def test_a_read_is_of_the_journal_that_is_checked_out(forked):
    for branch, expected in (
        ("feature", "two on feature"),
        ("main", "three on main"),
        ("feature", "two on feature"),
    ):
        git(forked, "checkout", "-q", branch)
        with synapse.open(str(forked)) as mem:
            notes = notes_of(mem)
            assert bodies(mem)[-1] == expected
            assert [note.partition(" (")[0] for note in notes] == [
                "the journal is another one than was indexed"
            ]
            digest = mem.digest()
            assert mem.verify().ok
            assert mem.rebuild().digest == digest
    assert git(forked, "status", "--short") == ""


def test_the_shell_says_so(forked, capsys):
    git(forked, "checkout", "-q", "feature")
    assert main(["--root", str(forked), "read"]) == 0
    told = capsys.readouterr()
    assert "two on feature" in told.out
    assert (
        told.err
        == "the journal is another one than was indexed (a checkout?): the index was made anew\n"
    )
    assert main(["--root", str(forked), "read"]) == 0
    assert capsys.readouterr().err == ""


def test_once_is_decided_on_the_journal_that_is_checked_out(repo):
    """Neither is a key of another branch taken for written, nor one of this branch written
    twice.
    """
    git(repo, "checkout", "-qb", "feature")
    with synapse.open(str(repo)) as mem:
        kept = mem.as_agent("eng").append("B1", "api/x", once="b")
        mem.store.refresh()
    commit(repo)
    git(repo, "checkout", "-q", "main")
    with synapse.open(str(repo)) as mem:
        mem.as_agent("eng").append("A1", "api/x", once="a")
        mem.as_agent("eng").append("A2", "api/x")
        assert len(bodies(mem)) == 3
    commit(repo)
    git(repo, "checkout", "-q", "feature")
    with synapse.open(str(repo)) as mem:
        notes_of(mem)
        assert mem.as_agent("eng").append("B1", "api/x", once="b") == kept
        assert mem.as_agent("eng").append("B2", "api/x", once="a").body == "B2"
        assert bodies(mem) == ["one", "B1", "B2"]
        assert mem.verify().ok


@pytest.mark.parametrize("branch", ["feature", "main"])
def test_a_process_that_is_open_goes_on_in_the_journal_that_is_checked_out(forked, branch):
    """Its reads, its keys and its lines: all of them are those of the file that has the name
    now.
    """
    other = "main" if branch == "feature" else "feature"
    git(forked, "checkout", "-q", other)
    with synapse.open(str(forked)) as mem:
        notes_of(mem)
        me = mem.as_agent("eng")
        assert other in bodies(mem)[-1]
        git(forked, "checkout", "-q", branch)
        kept = me.append("written under it", "api/x", once="key")
        assert me.append("again", "api/x", once="key") == kept
        assert [branch in body for body in bodies(mem)[-2:]] == [True, False]
        assert mem.verify().ok
    assert read(forked)[-1] == "written under it"


def test_a_journal_that_is_written_over_in_its_place_is_noticed(forked):
    """By rsync --inplace or cp: the file keeps its name and its inode."""
    path = forked / "journal" / "000000000001.jsonl"
    git(forked, "checkout", "-q", "feature")
    feature = path.read_bytes()
    git(forked, "checkout", "-q", "main")
    with synapse.open(str(forked)) as mem:
        notes_of(mem)
        assert bodies(mem)[-1] == "three on main"
        git(forked, "symbolic-ref", "HEAD", "refs/heads/feature")
        with path.open("r+b") as file:
            file.write(feature)
            file.truncate()
        assert bodies(mem) == ["one", "two on feature"]
        mem.as_agent("eng").append("three on feature", "api/x")
    assert read(forked) == ["one", "two on feature", "three on feature"]


def test_a_journal_of_the_same_length_is_noticed(repo):
    git(repo, "checkout", "-qb", "feature")
    write(repo, "two")
    read(repo)
    commit(repo)
    git(repo, "checkout", "-q", "main")
    write(repo, "TWO")
    commit(repo)
    with synapse.open(str(repo)) as mem:
        notes_of(mem)
        assert bodies(mem) == ["one", "TWO"]
        git(repo, "checkout", "-q", "feature")
        assert bodies(mem) == ["one", "two"]
        git(repo, "checkout", "-q", "main")
        assert bodies(mem) == ["one", "TWO"]


def test_a_follower_goes_on_from_where_the_branches_part(forked):
    with synapse.open(str(forked)) as mem:
        notes_of(mem)
        events = mem.as_agent("operator").follow(since=0, timeout=20)
        assert [next(events).entry.body for _ in range(3)] == [
            "one",
            "two on main",
            "three on main",
        ]
        git(forked, "checkout", "-q", "feature")
        assert next(events).entry.body == "two on feature"
        write(forked, "three on feature")
        assert next(events).entry.body == "three on feature"
        git(forked, "stash", "-q", "-u")
        git(forked, "checkout", "-q", "main")
        assert [next(events).entry.body for _ in range(2)] == ["two on main", "three on main"]


def test_what_a_checkout_leaves_behind_is_nobody_s_drop(repo):
    """A stash takes the lines and leaves the files: they are put aside, and stand again with their
    lines.
    """
    write(repo, "not committed")
    for seen in (False, True):
        if seen:
            assert read(repo) == ["one", "not committed"]
        time.sleep(0.3)  # so long a file has to be unchanged before it is looked at
        git(repo, "stash", "-q")
        assert read(repo) == ["one"]
        assert len(list((repo / ".index" / "aside").iterdir())) == 1
        assert len(list((repo / "entries" / "api" / "x").iterdir())) == 1
        assert git(repo, "status", "--short") == ""
        git(repo, "stash", "pop", "-q")
        assert read(repo) == ["one", "not committed"]
    with synapse.open(str(repo), clock=lambda: synapse.model.clock.now() + 60_000_000) as mem:
        mem.store.refresh(whole=True)
        assert mem.verify().ok


# -- a loss ----------------------------------------------------------------------------------------


def lose(root):
    shutil.rmtree(root / "journal")


def empty(root):
    (root / "journal" / "000000000001.jsonl").write_text("")


def cut(root):
    path = root / "journal" / "000000000001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def cut_within(root):
    """Cut within the last line, as a copy that was stopped does: a writer would seal its torn
    rest, and the seal would stand in the place of the record.
    """
    path = root / "journal" / "000000000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])


def plain(tmp_path, versioned):
    """A workspace with three entries, two of them never committed, seen by its index."""
    root = tmp_path / "shared-memory"
    with synapse.init(str(root)) as mem:
        mem.register(synapse.Agent("eng", read=["*"], write=["*"]))
    write(root, "one")
    if versioned:
        git(tmp_path, "init", "-q")
        (root / ".gitignore").write_text(IGNORE)
        commit(root)
    write(root, "two", "three")
    assert len(read(root)) == 3
    return root


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("loss", [lose, empty, cut, cut_within])
def test_a_journal_that_lost_records_says_so_at_once(tmp_path, capsys, loss, versioned):
    root = plain(tmp_path, versioned)
    loss(root)
    for words in (["read"], ["view", "eng"], ["unread", "--agent", "eng"], ["search", "two"]):
        assert main(["--root", str(root), *words]) == 0, words
        told = capsys.readouterr()
        assert "two" in told.out or words[0] == "unread"
        assert "were seen" in told.err
        assert all(
            way in told.err
            for way in ("backup", f"git -C {root} checkout -- journal", "synapse rebuild")
        )
    assert (
        main(["--root", str(root), "write", "--from", "eng", "--namespace", "api/x", "four"]) == 6
    )
    assert "were seen" in capsys.readouterr().err
    assert main(["--root", str(root), "verify"]) == 6
    assert main(["--root", str(root), "doctor"]) == 6


@pytest.mark.parametrize("loss", [lose, empty, cut, cut_within])
def test_a_process_that_is_open_writes_nothing_after_a_loss(tmp_path, loss):
    root = plain(tmp_path, versioned=False)
    with synapse.open(str(root)) as mem:
        me = mem.as_agent("eng")
        me.read()
        loss(root)
        for _ in range(2):
            with pytest.raises(synapse.errors.StoreError):
                me.append("four", "api/x")
            if loss is lose:  # not even a folder
                with pytest.raises(synapse.errors.StoreError):
                    me.read()
            else:
                assert [entry.body for entry in me.read()] == ["three", "two", "one"]


@pytest.mark.parametrize("loss", [lose, empty, cut, cut_within])
def test_what_is_there_can_be_accepted(tmp_path, loss):
    """The texts whose files are still there come back as drops; nobody is told of a loss any
    more.
    """
    root = plain(tmp_path, versioned=False)
    loss(root)
    assert main(["--root", str(root), "rebuild"]) == 0
    time.sleep(0.3)
    with synapse.open(str(root)) as mem:
        mem.store.refresh(whole=True)
        assert sorted(bodies(mem)) == ["one", "three", "two"]
        assert {entry.trust for entry in mem.as_agent("operator").read()} == {"local"}
        assert mem.verify().ok
        assert mem.as_agent("eng").append("four", "api/x").body == "four"


def test_git_may_go_back(repo):
    """To what is committed, and to a time before anything was."""
    write(repo, "two")
    commit(repo)
    assert read(repo) == ["one", "two"]
    git(repo, "checkout", "-q", "HEAD~1")
    assert read(repo) == ["one"]
    assert write(repo, "another two")
    assert read(repo) == ["one", "another two"]


def test_git_takes_back_no_more_than_it_has(repo):
    """What is on the disk is not what is checked out: somebody lost it."""
    write(repo, "two")
    commit(repo)
    read(repo)
    path = repo / "journal" / "000000000001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))
    assert "3 were seen" in lost(repo)
    lose(repo)
    assert "is gone" in lost(repo)
    git(repo, "checkout", "-q", "--", "journal")
    assert read(repo) == ["one", "two"]


def test_a_clone_opens_without_an_index(forked, tmp_path):
    git(tmp_path, "clone", "-q", str(tmp_path), "copy")
    assert read(tmp_path / "copy" / "shared-memory") == ["one", "two on main", "three on main"]
    with synapse.open(str(tmp_path / "copy" / "shared-memory")) as mem:
        assert mem.verify().ok


def test_a_tree_without_a_journal_opens(tmp_path):
    (tmp_path / "entries" / "api").mkdir(parents=True)
    fields = (
        "from: eng\ntimestamp: 2026-02-01T00:00:00Z\nnamespace: api\npriority: info\nttl: never\n"
    )
    text = f"---\nid: syn-2026-02-01-001\n{fields}---\n\nfrom a specification\n"
    (tmp_path / "entries" / "api" / "syn-2026-02-01-001.md").write_text(text)
    time.sleep(0.3)  # so long it has to be unchanged
    with synapse.open(str(tmp_path)) as mem:
        mem.store.refresh(whole=True)
        assert bodies(mem) == ["from a specification"]


# -- a power cut -----------------------------------------------------------------------------------


@pytest.fixture
def another_boot(monkeypatch):
    """The machine went down and came up again."""

    def reboot():
        for module in (progress, vanished):
            monkeypatch.setattr(module, "boot", lambda: "00000000-0000-0000-0000-000000000000")

    return reboot


def test_a_power_cut_may_take_what_was_not_acknowledged(tmp_path, another_boot):
    root = plain(tmp_path, versioned=False)
    cut(root)
    assert "1 record lost" in lost(root)
    another_boot()
    with synapse.open(str(root)) as mem:
        notes = notes_of(mem)
        assert bodies(mem) == ["one", "two"]
        assert "the machine went down" in notes[0]
        assert mem.as_agent("eng").append("four", "api/x").body == "four"


def test_a_power_cut_takes_nothing_that_is_older(tmp_path, another_boot):
    root = plain(tmp_path, versioned=False)
    with synapse.open(str(root), clock=lambda: synapse.model.clock.now() + 60_000_000) as mem:
        mem.as_agent("eng").append("a minute later", "api/x")
        bodies(mem)
    cut(root)
    cut(root)
    another_boot()
    assert "2 records lost" in lost(root)


@pytest.mark.parametrize("file_too", [False, True])
def test_zeros_in_the_place_of_a_line_are_noticed(tmp_path, another_boot, file_too):
    """A power cut may leave the length of a line without its bytes; the index had taken it in."""
    root = plain(tmp_path, versioned=False)
    path = root / "journal" / "000000000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + b"\0" * len(lines[-1]))
    if file_too:
        next(root.glob("entries/api/x/*-003.md")).unlink()
    another_boot()
    with synapse.open(str(root)) as mem:
        notes_of(mem)
        me = mem.as_agent("eng")
        ids = {entry.id for entry in me.read()}
        new = me.append("four", "api/x")
        assert new.id not in ids
        assert [body for body in bodies(mem) if body != "three"] == ["one", "two", "four"]
        assert mem.verify().ok


@pytest.mark.parametrize("fill", [b"", b"\0"], ids=["torn", "zeros"])
@pytest.mark.parametrize("file_too", [False, True])
def test_a_line_that_is_there_in_part_is_noticed(tmp_path, another_boot, fill, file_too):
    """The index holds what the journal says and nothing else, wherever the power cut the line."""
    root = plain(tmp_path, versioned=False)
    raw = (root / "journal" / "000000000001.jsonl").read_bytes()
    start = raw.rstrip(b"\n").rfind(b"\n") + 1
    another_boot()
    for place in range(start, len(raw), 29):
        copy = tmp_path / f"at {place}"
        subprocess.run(["cp", "-a", root, copy], check=True)
        rest = fill * (len(raw) - place)
        (copy / "journal" / "000000000001.jsonl").write_bytes(raw[:place] + rest)
        if file_too:
            next(copy.glob("entries/api/x/*-003.md")).unlink()
        with synapse.open(str(copy)) as mem:
            notes_of(mem)
            mem.as_agent("eng").append("four", "api/x")
            assert [b for b in bodies(mem) if b != "three"] == ["one", "two", "four"]
            digest = mem.digest()
            mem.rebuild()
            assert mem.digest() == digest, f"cut at {place - start}"
            assert mem.verify().ok


def test_many_processes_notice_at_once(forked):
    """One makes the index anew, the others wait for it or find it made."""
    git(forked, "checkout", "-q", "feature")
    found = []
    threads = [Thread(target=lambda: found.append(read(forked))) for _ in range(4)]
    code = (
        "import sys, synapse; print([e.body for e in"
        " synapse.open(sys.argv[1]).as_agent('operator').read()][0])"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(forked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["one", "two on feature"]] * 4
    outputs = [other.communicate() for other in others]
    assert [out for out, _ in outputs] == [b"two on feature\n"] * 3
