"""A workspace that may not be written is read, and read rightly, while others write too."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import synapse
from synapse.index import copy
from tests.crash.lives import begin

PROGRAM = str(Path(__file__).with_name("confined.py"))
SKIPPED = 77
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'

# Appends until its standard input ends; the number of what was acknowledged goes into a file.
# Closes the workspace now
# and then, so that the index is found with its log of changes and without.
WRITER = """
import os, select, sys
import synapse
sys.path.insert(0, os.path.dirname(sys.argv[3]))
from confined import BODY
acks, n = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND), int(sys.argv[4])
while not select.select([0], [], [], 0)[0]:
    with synapse.open(sys.argv[1]) as mem:
        me = mem.as_agent("eng-a")
        for n in range(n, n + 25):
            me.append(BODY.format(n=n), "api/x")
            os.write(acks, b"%d\\n" % n)
            if n % 5 == 0:
                mem.store.refresh()
    n += 1
"""


def mounted(root):
    """The words that run a program where the workspace is mounted without the right to write."""
    return ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(root)]


def ways():
    found = ["landlock"]
    if os.geteuid() == 0:
        found += ["user", "mount"]
    else:
        found += ["chmod"]
    return found


@pytest.fixture
def place():
    """A folder that every user may enter."""
    path = Path(tempfile.mkdtemp(prefix="synapse-readonly-"))
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+w", str(path)], check=False)
    shutil.rmtree(path)


@pytest.fixture
def root(place):
    root = place / "shared-memory"
    with synapse.init(str(root)) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(synapse.Agent(id, read=["*"], write=["*"]))
        mem.as_agent("eng-a").append("the first endpoint", "api/x", topic="users")
    return root


def confine(way, root, *words, given=""):
    """Run the program for tests in this way; skip where the system has it not."""
    if way == "chmod":
        subprocess.run(["chmod", "-R", "a-w", str(root)], check=True)
    if way == "user":  # whom the owner lets read
        subprocess.run(["chmod", "-R", "a+rX", str(root)], check=True)
    name = way if way in ("landlock", "user") else "none"
    words = [PROGRAM, name, *map(str, words)]
    env = {key: value for key, value in os.environ.items() if not key.startswith("SYNAPSE_")}
    env["HOME"] = str(Path(root).parent)
    if way == "mount":
        done = subprocess.run(
            [*mounted(root), sys.executable, *words],
            cwd="/",
            env=env,
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        life = begin(*words, cwd="/", env=env)
        life.stdin.write(given)
        out, err = life.communicate(timeout=300)
        code = life.returncode
    if code == SKIPPED or (way == "mount" and "unshare:" in err):
        pytest.skip(f"no {way} here: {err}")
    if way == "user" and "PermissionError" in err:
        pytest.skip("the checkout cannot be read by another user")
    assert code == 0, err
    return json.loads(out)


def run(way, root, *commands):
    """The answers to command lines, each [code, out, err]."""
    words = [[program, "--root", str(root), *line.split()] for program, line in commands]
    return confine(way, root, "lines", given=json.dumps(words))


def tree(root):
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in sorted(root.rglob("*"))
    }


READS = (
    "read", "read --agent eng-b --json", "search endpoint", "view eng-b", "unread --agent eng-b", "log", "audit",
    "verify", "doctor", "where", "agents", "stats", "recent --agent eng-b", "what-did --agent eng-b eng-a",
    "timeline --agent eng-b api", "inbox --agent eng-b", "poll --agent eng-b", "threads --agent eng-b",
    "why --agent eng-b {id}", "read {id}", "approve --from eng-b", "reputation", "export -", "defrag --plan",
    "watch --agent eng-b --since 0 --count 1 --timeout 5",
)  # fmt: skip
WRITES = (
    "write --from eng-a --namespace api/x no", "send --from eng-a --to eng-b no", "read --agent eng-b --mark",
    "register eng-c", "archive --from eng-a {id}", "remember --from eng-a no", "rebuild", "repair",
)  # fmt: skip
RUNS = ("ps --all", "tree", "stats", "receipt eng-a-1", "tail eng-a-1")


@pytest.mark.parametrize("way", ways())
def test_everything_that_reads_works_and_writes_nothing(root, way):
    with synapse.open(str(root)) as mem:
        id = mem.as_agent("operator").read()[0].id
        # which the index has yet to take in
        mem.as_agent("eng-a").append("the second endpoint", "api/x")
    time.sleep(0.1)
    before = tree(root)
    lines = [("synapse", line.format(id=id)) for line in (*READS, *WRITES)]
    answers = run(way, root, *lines)
    refused = answers[len(READS) :]
    answers = answers[: len(READS)]
    for line, (code, out, err) in zip(READS, answers, strict=True):
        assert (code, err) == (0, ""), f"{line}: {out}{err}"
    shown = dict(zip(READS, (out for _, out, _ in answers), strict=True))
    for line in ("read", "search endpoint", "log", "recent --agent eng-b"):
        assert "second endpoint" in shown[line]
    assert shown["unread --agent eng-b"] == "2\n"
    assert "cannot be written here; reading works" in shown["doctor"]
    assert "fail" not in shown["doctor"]
    for line, (code, _, err) in zip(WRITES, refused, strict=True):
        assert code == 6, f"{line}: {err}"
        assert f"this workspace cannot be written here: {root}/journal/lock: " in err
        assert err.endswith("; reading works\n")
    assert tree(root) == before


def test_some_way_of_confinement_is_tried_here(root):
    """A check that every machine skips checks nothing."""
    assert any(is_here(way, root) for way in ways())


def is_here(way, root):
    try:
        return bool(run(way, root, ("synapse", "where")))
    except pytest.skip.Exception:
        return False


INDEXES = ("none", "another version", "damaged", "in use", "left behind")


def with_index(root, index):
    """Give a workspace such an index; what holds it open, if anything."""
    db = root / ".index/brain.db"
    with synapse.open(str(root)) as mem:
        mem.store.refresh()
        mem.as_agent("eng-a").append("after the index", "api/x")
    held = None
    if index == "none":
        for path in root.glob(".index/brain.db*"):
            path.unlink()
    elif index == "damaged":
        db.write_bytes(b"SQLite format 3\0" + b"nonsense" * 4_000)
    elif index == "another version":
        with sqlite3.connect(db) as connection:
            connection.execute("update meta set value = '0' where key = 'version'")
        connection.close()
    else:
        held = sqlite3.connect(db)
        held.execute("insert into meta values ('test', 'x')")
        held.commit()
        assert (root / ".index/brain.db-wal").stat().st_size
    if index == "left behind":  # as by a copy, or a crash and a hand that tidied
        os.unlink(root / ".index/brain.db-shm")
    return held


@pytest.mark.parametrize("way", ways())
def test_whatever_index_there_is_the_read_is_right(place, root, way):
    """One process reads a workspace with each of them: all lie in the folder that it may read."""
    lines, held = ("read", "search after", "verify"), []
    for index in INDEXES:
        copy = shutil.copytree(root, place / "all" / index)
        held.append(with_index(copy, index))
    time.sleep(0.1)
    commands = [
        ["synapse", "--root", str(place / "all" / index), *line.split()]
        for index in INDEXES
        for line in lines
    ]
    try:
        shown = confine(way, place / "all", "lines", given=json.dumps(commands))
    finally:
        for connection in filter(None, held):
            connection.close()
    for number, index in enumerate(INDEXES):
        read, found, verified = shown[3 * number : 3 * number + 3]
        assert [code for code, _, _ in (read, found, verified)] == [0, 0, 0], index
        assert "the first endpoint" in read[1], index
        assert "after the index" in read[1], index
        assert "1 found" in found[1], index


@pytest.mark.parametrize("way", ["landlock", "user" if os.geteuid() == 0 else "landlock"])
def test_no_read_misses_what_was_acknowledged_before_it_began(place, root, way):
    done = watched(place, root, way, 60)
    assert (done["missed"], done["torn"]) == (0, 0)
    assert done["most"] > 25


def test_a_reader_that_serves_a_stale_index_is_caught(place, root):
    assert watched(place, root, "landlock", 20, "stale")["missed"] > 0


def watched(place, root, way, reads, *more):
    """What readers miss while a process appends continuously."""
    with synapse.open(str(root)) as mem:
        mem.as_agent("operator").read()
        mem.as_agent("eng-a").archive([entry.id for entry in mem.as_agent("operator").read()])
    acks = place / "acks"
    acks.touch()
    words = [sys.executable, "-c", WRITER, str(root), str(acks), PROGRAM, "0"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=place) as writer:
        try:
            while len(acks.read_bytes()) < 100:
                time.sleep(0.02)
            return confine(way, root, "watch", root, acks, reads, *more)
        finally:
            writer.stdin.close()
            writer.wait()


def test_a_torn_line_at_the_end_is_passed_over_and_stays(root):
    journal = next((root / "journal").glob("*.jsonl"))
    with journal.open("ab") as file:
        file.write(b'{"chain":"0123')
    raw = journal.read_bytes()
    (code, out, _), (_, log, _) = run("landlock", root, ("synapse", "read"), ("synapse", "verify"))
    assert (code, "the first endpoint" in out) == (0, True)
    assert "ends in a torn line" in log
    assert journal.read_bytes() == raw


def test_nothing_is_adopted_and_agents_stand_as_journalled(root):
    (root / "agents/eng-b.yaml").write_text(
        "agent:\n  id: eng-b\nsubscriptions:\n  read: []\n  write: []\n"
    )
    settings = root / "synapse.yaml"
    settings.write_text(settings.read_text() + "reputation: on\n")
    (root / "entries/api/x/dropped.md").write_text(
        "---\nfrom: eng-a\nnamespace: api/x\npriority: info\ntimestamp:"
        " 2026-02-01T01:00:00Z\n---\ndropped\n"
    )
    time.sleep(0.3)
    before = tree(root)
    lines = ("read --agent eng-b", "read --json", "audit --json", "reputation")
    shown = run("landlock", root, *(("synapse", line) for line in lines))
    assert "the first endpoint" in shown[0][1], "what it may read is what was journalled last"
    assert len(json.loads(shown[1][1])["entries"]) == 1
    assert "edited" not in shown[2][1]
    assert "only told of" not in shown[3][1], "settings are what their file says"
    assert tree(root) == before
    with synapse.open(str(root)) as mem:
        assert {found.body.strip() for found in mem.as_agent("operator").read()} == {
            "the first endpoint",
            "dropped",
        }


def test_a_workspace_without_a_journal_is_told_to_be_opened_once(place):
    root = place / "shared-memory"
    (root / "entries/api").mkdir(parents=True)
    (root / "entries/api/one.md").write_text("---\nfrom: eng-a\nnamespace: api\n---\none\n")
    [(code, out, err)] = run("landlock", root, ("synapse", "read"))
    assert (code, out) == (6, "")
    assert "has no journal yet, and cannot be written here: open it once where it can be" in err


def test_an_empty_workspace_reads_as_empty_until_somebody_writes(place):
    root = place / "shared-memory"
    with synapse.init(str(root)):
        for path in (root / "journal").glob("*.jsonl"):
            path.unlink()
    [(code, out, _)] = run("landlock", root, ("synapse", "read"))
    assert (code, out.startswith("-- 0 of 0")) == (0, True)


def test_python_refuses_writes_with_its_own_class(root):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import confined, synapse;"
        " confined.preload('synapse')\n"
        "if not confined.landlock(): raise SystemExit(77)\n"
        "mem = synapse.open(sys.argv[2]); me = mem.as_agent('eng-a')\n"
        "print(mem.store.readonly, len(me.read()),"
        " me.search('endpoint')[0].entry.body, me.unread())\n"
        "for act in (lambda: me.append('x', 'api/x'), lambda:"
        " mem.register(synapse.Agent('z')), mem.rebuild):\n"
        "    try: act()\n"
        "    except synapse.ReadOnly as error: print(error.exit_code, error.path)\n"
        "print(len(mem.as_agent('eng-b').read(mark=False)), mem.verify().ok)\n"
    )
    words = [sys.executable, "-c", code, os.path.dirname(PROGRAM), str(root)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == SKIPPED:
        pytest.skip("no landlock here")
    lock = f"6 {root}/journal/lock"
    assert done.stdout.splitlines() == [
        "True 1 the first endpoint 0",
        lock,
        lock,
        lock,
        "1 True",
    ], done.stderr


def test_bytes_that_change_while_they_are_read_are_never_taken(place, monkeypatch):
    path = place / "file"

    def quiet():
        path.write_bytes(b"a" * (1 << 20))
        os.utime(path, (time.time() - 60,) * 2)

    def written_meanwhile(name):
        with open(name, "rb") as file:
            first = file.read(1 << 19)
            with open(name, "r+b", buffering=0) as writer:
                os.pwrite(writer.fileno(), b"b" * (1 << 20), 0)
            return first + file.read()

    quiet()
    assert set(copy._whole(str(path))) == set(b"a")
    assert set(written_meanwhile(str(path))) == set(b"ab"), "what reads without looking is torn"
    os.utime(path)
    assert copy._whole(str(path)) is None, "somebody wrote a moment ago, and may go on"
    quiet()
    monkeypatch.setattr(copy, "read_file", written_meanwhile)
    assert copy._whole(str(path)) is None
    monkeypatch.undo()
    quiet()
    (place / "file-wal").write_bytes(b"more")
    assert copy._whole(str(path)) is None


@pytest.fixture
def office(root):
    """A workspace in which a run was played."""
    words = [
        sys.executable,
        "-m",
        "orchestrator",
        "--root",
        str(root),
        "run",
        "--agent",
        "eng-a",
        "--project",
        "x",
    ]
    words += ["--engine", "scripted", "--json", "Say what you know"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", [way for way in ways() if way != "user"])
def test_runs_are_told_where_nothing_may_be_written(root, office, way):
    name = office["run"]
    commands = [line.replace("eng-a-1", name) for line in RUNS]
    for line, (code, out, err) in zip(
        commands, run(way, root, *(("orchestrator", line) for line in commands)), strict=True
    ):
        assert (code, err) == (0, ""), f"{line}: {err}"
        assert out, line
