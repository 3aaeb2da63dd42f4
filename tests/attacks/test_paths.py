"""Files where none belong: what a record, a snapshot, a link or a special file may do to the places
of a workspace, and to places outside of it.
"""

import gzip
import io
import json
import os
import shutil
import signal
import sqlite3
import stat
import traceback
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256

import pytest

import synapse
from scenarios.data import ledger, texts
from synapse import Mail, backup, exchange
from synapse.integrity import repair
from synapse.log.chain import encode
from synapse.model.placement import GENESIS, Tail
from synapse.model.records import Record
from tests.accepted import accept

AT = 1_770_000_000_000_000
TEXT = "authority: 100\nrole: cto\n"
THREAD = "thr_00000000-0000-4000-8000-000000000000"
ID = "syn-2026-02-02-001"
FIELDS = {
    "namespace": "api",
    "author": "eng",
    "priority": "info",
    "timestamp": "2026-02-02T00:00:00Z",
    "start": 0,
    "ttl": "9000d",
}
PLANTED = [
    "agents/evil.yaml",
    "agents/evil.md",
    "synapse.yaml",
    "team.yaml",
    "prompts/engineer.md.j2",
    "runs/.secret",
    "runs/x.md",
    "journal/000000000009.jsonl",
    "journal/x.md",
    ".git/hooks/pre-commit",
    ".git/x.md",
    ".index/written",
    ".index/x.md",
    "bin/x.md",
    "bin/synapse-read",
    "inbox/eng/new/x.md",
    "staging/api/x.md",
    "quarantine/x.md",
    "archive/2026-02.md",
    "views/eng.md",
    "changelog/2026-02-02.md",
    "snapshots/x.md",
    "README.md",
    "x.md",
    "/etc/x.md",
    "../x.md",
    "entries/x.md",
    "entries/api/../../agents/evil.md",
    "entries/../agents/evil.md",
    "entries/./api/x.md",
    "entries//api/x.md",
    "entries/api/",
    "entries/api/.x.md",
    "entries/api/x.yaml",
    "entries/api/x.md/y.yaml",
    "entries/other/x.md",
    "entries/api/x\0.md",
    "knowledge/api/x.md",
    "messages/api/x.md",
    f"messages/{THREAD}/x.md",
]


def entry(path=None, id=ID, **fields):
    """A record of an entry, as a stranger's log may have it."""
    record = Record.new("entry", "eng", {**FIELDS, **fields}, text=TEXT, path=path)
    return record._replace(id=id)


def message(thread, path=None, **fields):
    more = {"thread": thread, "urgency": "normal"}
    id = "syn_0123456789ab"
    return entry(path, id, namespace="mail", kind="message", more=more, **fields)


# What a record can say of its place, beside its path.
NAMED = {
    **{f"path {path!r}": entry(path) for path in PLANTED},
    "namespace above": entry(namespace="../agents"),
    "namespace of none": entry(namespace=""),
    "namespace absolute": entry(namespace="/etc"),
    "namespace with dots": entry(namespace="api/../../agents"),
    "namespace of a list": entry(namespace=["api"]),
    "staged above": entry(staged=True, namespace="../agents"),
    "staged id above": entry(staged=True, id="../../agents/evil"),
    "id above": entry(id="syn-../../agents/evil"),
    "id of another folder": entry(id="../evil"),
    "id with a folder": entry(id="syn-x/y"),
    "kind of none": entry(kind="../agents"),
    "thread above": message("../agents"),
    "thread of none": message(""),
    "thread that is none": message("thr_x"),
    "message among entries": message(THREAD, "entries/mail/x.md"),
    "message in another thread": message(THREAD, f"messages/{THREAD[:-1]}1/x.md"),
    "fact among entries": entry("entries/api/x.md", "fact_0123456789ab", kind="fact"),
    "agent above": Record.new("agent", "operator", {"agent": {"id": "../evil"}}),
    "agent with a folder": Record.new("agent", "operator", {"agent": {"id": "a/b"}}),
    "agent of none": Record.new("agent", "operator", {"agent": "evil"}),
}


def lines(*records):
    """The lines of a journal that nobody can tell from one of ours."""
    tail, raws = Tail(0, GENESIS, 0, "", 0, 0), []
    for number, record in enumerate(records):
        raw, _, tail = encode(tail, AT + number, record)
        raws.append(raw)
    return raws


def good():
    return entry("entries/api/good.md", "syn-2026-02-01-001")


def tree(root):
    """What there is below a folder: each path with its kind, mode, content and time."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in folders + names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            is_file = os.path.isfile(path) and not os.path.islink(path)
            with open(path if is_file else os.devnull, "rb") as file:
                raw = file.read()
            where = os.path.relpath(path, root)
            times = (status.st_mtime_ns, status.st_nlink) if is_file else ()
            found[where] = (status.st_mode, raw, os.path.islink(path), *times)
    return found


def workspace(root):
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("own", read=["*"], write=["*"]))
    return {path: tree(root)[path] for path in tree(root) if _is_set(path)}


def _is_set(path):
    """Whether a path is one that no other's record may make or change."""
    top = path.partition("/")[0]
    own = ("agents", "synapse.yaml", "team.yaml", "prompts", "runs", ".git", "bin")
    return top in own


def stray(root, before):
    """What stands where no record puts anything."""
    found = tree(root)
    changed = {p for p in found if _is_set(p) and found[p] != before.get(p)}
    folders = ("entries", "messages", "knowledge", "staging", "archive")
    ours = ("journal", ".index", "inbox", "quarantine", "views", "changelog")
    known = {*folders, *ours, "agents", "synapse.yaml", "bin"}
    changed |= {path for path in found if path.partition("/")[0] not in known}
    changed |= {path for path in found if TEXT.encode() in found[path][1]} - {
        path
        for path in found
        if path.startswith(("journal/", ".index/")) or path.endswith("good.md")
    }
    return changed


def test_an_import_puts_nothing_where_no_entry_belongs(tmp_path):
    """Refused by line and by name, with nothing taken in."""
    before = workspace(tmp_path / "memory")
    with synapse.init(str(tmp_path / "fresh")) as fresh:
        unset = {p: v for p, v in tree(tmp_path / "fresh").items() if _is_set(p)}
        for name, planted in NAMED.items():
            raws = lines(good(), planted)
            with pytest.raises(synapse.SynapseError, match="line 2"):
                fresh.import_(raw.decode() for raw in raws)
            assert not list(fresh.store.log.since(0))
            export = tmp_path / "export.jsonl"
            export.write_bytes(b"".join(raws))
            with synapse.open(str(tmp_path / "memory")) as memory:
                last = memory.store.log.last()
                with pytest.raises(synapse.SynapseError, match="line 2"):
                    exchange.merge_in(memory.store, str(export))
                assert memory.store.log.last() == last
            assert not stray(tmp_path / "fresh", unset), name
            assert not stray(tmp_path / "memory", before), name
        assert fresh.import_(raw.decode() for raw in lines(good())) == 1


def test_a_snapshot_of_such_a_log_is_refused(tmp_path):
    with synapse.init(str(tmp_path / "other")) as other:
        taken = backup.take(other.store, str(tmp_path / "kept")).path
    with open(os.path.join(taken, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    with synapse.init(str(tmp_path / "memory")) as memory:
        before = {p: v for p, v in tree(tmp_path / "memory").items() if _is_set(p)}
        for name, planted in NAMED.items():
            raws = lines(good(), planted)
            with open(os.path.join(taken, "log.jsonl"), "wb") as file:
                file.writelines(raws)
            manifest |= {"records": 2, "head": f"2:{raws[-1][10:74].decode()}"}
            with open(os.path.join(taken, "manifest.json"), "w") as file:
                json.dump(manifest, file)
            with pytest.raises(synapse.SynapseError, match="line 2"):
                backup.restore(memory.store, taken)
            assert not list(memory.store.log.since(0))
            assert not stray(tmp_path / "memory", before), name


# What no index takes stands in a journal of its own.
UNREADABLE = ("namespace of a list", "kind of none", "agent of none")


@pytest.mark.parametrize("names", [tuple(NAMED.keys() - UNREADABLE), *UNREADABLE])
def test_a_journal_that_one_opens_puts_nothing_where_no_entry_belongs(tmp_path, names):
    """Somebody else's folder: reading, proving, repairing and rebuilding it writes no file that
    such a record names. What is good in it is read, and `verify` names each.
    """
    root = tmp_path / "memory"
    before = workspace(root)
    names = [names] if isinstance(names, str) else sorted(names)
    planted = [
        NAMED[name]._replace(id=f"syn-2026-02-02-{number:03}")
        if NAMED[name].id == ID
        else NAMED[name]
        for number, name in enumerate(names, 1)
    ]
    ids = [record.id for record in planted if record.kind == "entry"]
    acts = (
        Record.new("archive", "operator", {"ids": ids, "reason": "x"}),
        Record.new("restore", "operator", {"ids": ids, "reason": "x"}),
        *(Record.new("approve", "operator", {"entry": id}) for id in ids),
    )
    for following in ((), acts[:1], acts[:2], acts):
        for path in [*(root / "journal").iterdir(), *(root / ".index").iterdir()]:
            if path.is_file():
                path.unlink()
        raws = lines(good(), *planted, *following)
        (root / "journal" / "000000000001.jsonl").write_bytes(b"".join(raws))
        accept(root, raws)
        with synapse.open(str(root)) as memory:
            try:
                memory.store.refresh(whole=True)
                assert [entry.body for entry in memory.as_agent("own").read()]
            except (synapse.SynapseError, TypeError):
                assert names[0] in UNREADABLE
            found = {each.where.split(" (")[0] for each in memory.verify().problems}
            assert {f"record {seq}" for seq in range(2, 2 + len(planted))} <= found
            for act in (memory.repair, memory.rebuild, lambda m=memory: [*m.export("C")]):
                try:
                    act()
                except (synapse.SynapseError, TypeError):
                    pass
        assert not stray(root, before)


# -- links and special files -----------------------------------------------------------------------

# Opened by their path: whatever else is there is refused before anything of it is opened.
REFUSED = [
    ".index",
    ".index/aside",
    ".index/bells",
    ".index/brain.db",
    ".index/brain.db-journal",
    ".index/brain.db-shm",
    ".index/brain.db-wal",
    ".index/leaders",
    ".index/placed",
    ".index/placed.lock",
    ".index/seen",
    ".index/vectors.db",
    ".index/written",
    "agents",
    "bin",
    "inbox",
    "journal",
    "journal/000000000001.jsonl",
    "journal/lock",
    "prompts",
    "runs",
    "runs/.clients",
    "runs/.holders",
    "runs/.plugins",
    "runs/spend.db",
    "synapse.yaml",
    "views",
]
# Opened in a way that follows no link, or put aside as what was dropped.
KEPT_OUT = [
    "agents/eng.yaml",
    "archive",
    "archive/PAGE",
    "changelog",
    "entries",
    "entries/api",
    "entries/api/x.md",
    "inbox/eng",
    "inbox/eng/new",
    "inbox/eng/new/x.md",
    "inbox/new",
    "knowledge",
    "messages",
    "prompts/engineer.md.j2",
    "quarantine",
    "runs/.secret",
    "runs/RUN",
    "runs/RUN/ledger.jsonl",
    "runs/RUN/steps.jsonl",
    "runs/ratios.json",
    "runs/ratios.json.lock",
    "runs/ratios.json.new",
    "staging",
    "team.yaml",
    "views/eng.md",
]
KINDS = {
    "link to a file": lambda path, away: path.symlink_to(away / "notes.md"),
    "link to a database": lambda path, away: path.symlink_to(away / "away.db"),
    "link to a folder": lambda path, away: path.symlink_to(away / "folder"),
    "link to nothing": lambda path, away: path.symlink_to(away / "nothing"),
    "link to a device": lambda path, away: path.symlink_to("/dev/zero"),
    "link to a pipe": lambda path, away: path.symlink_to(away / "pipe"),
    "link to itself": lambda path, away: path.symlink_to(path.name),
    "hard link": lambda path, away: os.link(away / "notes.md", path),
    "hard link of a database": lambda path, away: os.link(away / "away.db", path),
    "pipe": lambda path, away: os.mkfifo(path),
    "device": lambda path, away: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
}
SECONDS = 60  # after which a process that waits for a pipe is killed


# Every verb meets these, and these verbs every kind.
ALL_VERBS = ("link to a file", "link to a folder", "pipe")
SOME_VERBS = ("write", "doctor", "run")


def verbs(root, outside):
    """One command line of each kind that opens files of a workspace."""
    memory, team = ["synapse", "--root", root], ["orchestrator", "--root", root]
    run = ["run", "--agent", "eng", "--engine", "scripted", "--quiet"]
    return [
        [*memory, "read"],
        [*memory, "write", "--from", "eng", "--namespace", "api", "a body"],
        [*memory, "register", "--id", "new", "--role", "engineer"],
        [*memory, "search", "body"],
        [*memory, "view", "eng", "--write"],
        [*memory, "defrag"],
        [*memory, "rebuild"],
        [*memory, "verify"],
        [*memory, "repair"],
        [*memory, "doctor"],
        [*memory, "export", f"{outside}/export.jsonl"],
        [*memory, "backup", f"{outside}/kept"],
        [*memory, "import", f"{outside}/given.jsonl"],
        [*memory, "merge", "--believe", f"{outside}/given.jsonl"],
        [*memory, "init", root],
        [*team, *run, "--script", SCRIPT, "a task"],
        [*team, "ps", "--all"],
        [*team, "resume"],
        [*team, "init", root],
    ]


SCRIPT = f"{__name__}:answers"


def answers(call):
    return "done"


def said(words):
    """Run a command line in this process; its exit code, and what it said."""
    from orchestrator.cli import main as orchestrator
    from synapse.cli import main as memory

    main = memory if words[0] == "synapse" else orchestrator
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words[1:])
    return code, err.getvalue() + out.getvalue()


def apart(act):
    """Run it in a process of its own, which is killed if it hangs; what it returns."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            signal.alarm(SECONDS)
            with open(write, "w", encoding="utf-8") as file:
                json.dump(act(), file)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        text = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status != -signal.SIGALRM, "it hung"
    assert status == 0
    return json.loads(text)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A workspace in which each of these places is in use."""
    root = tmp_path_factory.mktemp("built") / "memory"

    def build():
        with synapse.init(str(root)) as memory:
            eng = synapse.Agent("eng", role="engineer", read=["*"], write=["*"])
            memory.register(eng)
            seat = memory.as_agent("eng")
            ids = [seat.append(f"body {n}", "api").id for n in range(3)]
            seat.archive(ids[0])
            Mail(seat).send("eng", "to itself", subject="s")

    build()
    (root.parent / "given.jsonl").write_bytes(b"".join(lines(good())))
    for words in verbs(str(root), str(root.parent)):
        code, text = said(words)
        assert code == 0 or words[3] == "import", (words, text)
    (root / "prompts").mkdir()
    (root / ".index" / "bells").mkdir(exist_ok=True)
    return root


@pytest.fixture
def away(tmp_path):
    """What lies outside of the workspace, and is to stay as it is."""
    away = tmp_path / "away"
    (away / "folder" / "api").mkdir(parents=True)
    (away / "notes.md").write_text("mine\n")
    (away / "notes.md").chmod(0o640)
    (away / "folder" / "api" / "x.md").write_text("mine too\n")
    (away / "folder" / "steps.jsonl").write_text("{}\n")
    (away / "folder" / "000000000001.jsonl").write_text("{}\n")
    (away / "folder" / "eng.yaml").write_text("id: eng\n")
    os.mkfifo(away / "pipe")
    with sqlite3.connect(away / "away.db") as db:
        db.execute("create table mine (what)")
        db.execute("insert into mine values ('kept')")
    db.close()
    return away


def plant(root, place, kind, away):
    """Put something else in a place of a workspace; its path, or nothing where that may not be."""
    runs = (path for path in (root / "runs").iterdir() if path.is_dir())
    run = next(path.name for path in runs if path.name[0] != ".")
    place = place.replace("RUN", run)
    if "PAGE" in place:
        place = f"archive/{next((root / 'archive').iterdir()).name}"
    path = root / place
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        KINDS[kind](path, away)
    except PermissionError:
        return None
    return path


PLACES = [*REFUSED, *KEPT_OUT]
FEW = 3  # kinds that a place meets in every run; over the places, all kinds. In the soak all.


def some_kinds(place):
    """Return one of the kinds that every verb meets, and some of the others, by turns."""
    turn = PLACES.index(place)
    others = [kind for kind in KINDS if kind not in ALL_VERBS]
    chosen = [others[(turn * (FEW - 1) + by) % len(others)] for by in range(FEW - 1)]
    return [ALL_VERBS[turn % len(ALL_VERBS)], *chosen]


def test_some_kinds_are_all_kinds_over_the_places():
    for places in (REFUSED, KEPT_OUT):
        assert {kind for place in places for kind in some_kinds(place)} == {*KINDS}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_outside_changes_and_nothing_hangs(tmp_path, monkeypatch, built, away, place):
    """Some kinds of link and special file in each place, each verb: what is outside is as it was,
    and where it is refused, it is by name.
    """
    planted(tmp_path, monkeypatch, built, away, place, some_kinds(place))


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
def test_nothing_outside_changes_whatever_is_planted(tmp_path, monkeypatch, built, away, place):
    planted(tmp_path, monkeypatch, built, away, place, KINDS)


def planted(tmp_path, monkeypatch, built, away, place, kinds):
    """Plant each of these kinds in a copy of the workspace, and check what the verbs make of it."""
    # for what a link hides is not on its way
    monkeypatch.setattr(repair, "_PATIENCE", 0)
    for number, kind in enumerate(kinds):
        root, outside = tmp_path / f"memory{number}", tmp_path / f"out{number}"
        shutil.copytree(built, root, symlinks=True, copy_function=shutil.copyfile)
        outside.mkdir()
        (outside / "given.jsonl").write_bytes(b"".join(lines(good())))
        path = plant(root, place, kind, away)
        if path is None:
            continue
        before = tree(away)
        asked = verbs(str(root), str(outside))
        if kind not in ALL_VERBS:
            asked = [words for words in asked if words[3] in SOME_VERBS]
        told = apart(lambda: [said(words) for words in asked])  # noqa: B023
        assert tree(away) == before, kind
        for (code, text), words in zip(told, asked, strict=True):
            assert "Traceback" not in text, (kind, text)
            assert "this is a bug" not in text, (kind, text)
            if place in REFUSED and not _harmless(place, kind):
                assert code, (kind, words)
                if words[3] != "doctor":
                    assert str(path) in text, (kind, words, text)
                assert path.name in text, (kind, words, text)
        if place not in REFUSED and path.is_symlink() and place in LINKED:
            text = told[[words[3] for words in asked].index("doctor")][1]
            assert f"{place} is a symbolic link" in text
        os.unlink(path) if os.path.lexists(path) and not path.is_dir() else None


LINKED = ("archive", "changelog", "entries", "inbox/eng", "knowledge", "messages")


def _harmless(place, kind):
    """Whether a file may be there under two names: it is read, or replaced as a whole."""
    return kind.startswith("hard") and place == "synapse.yaml"


def test_a_link_to_the_whole_workspace_is_followed(tmp_path, built):
    shutil.copytree(built, tmp_path / "disk" / "memory")
    (tmp_path / "memory").symlink_to("disk/memory")
    (tmp_path / "out").mkdir()
    root = str(tmp_path / "memory")
    for words in verbs(root, str(tmp_path / "out")):
        if words[3] not in ("import", "merge"):
            code, text = apart(lambda: said(words))  # noqa: B023
            assert code == 0, (words, text)


# -- what is restored, and unpacked ----------------------------------------------------------------

SMUGGLED = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/hooks/pre-commit",
    "sub/.git/hooks/pre-commit",
    "journal/000000000009.jsonl",
    "Journal/x",
    ".index/brain.db",
    "runs/.secret",
    "RUNS/.secret",
    "entries/api/x.md",
    "bin/synapse-read.sh",
]


def test_a_snapshot_restores_no_program_and_nothing_that_is_derived(tmp_path):
    """Its manifest may name anything: what the log gives back, git's own and the marks of programs
    stay behind.
    """
    with synapse.init(str(tmp_path / "other")) as other:
        taken = backup.take(other.store, str(tmp_path / "kept")).path
    kept = {"synapse.yaml": b"name: x\n", "tool.sh": b"#!/bin/sh\n", "sub/a.md": b"a"}
    with open(os.path.join(taken, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    for name, raw in {**kept, **dict.fromkeys(SMUGGLED, b"evil")}.items():
        path = os.path.join(taken, "files", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(raw)
        os.chmod(path, 0o6777)
        manifest["files"][name] = sha256(raw).hexdigest()
    with open(os.path.join(taken, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    with synapse.init(str(tmp_path / "memory")) as memory:
        assert backup.restore(memory.store, taken).records == manifest["records"]
    found = tree(tmp_path / "memory")
    assert not [path for path in found if found[path][1] == b"evil"]
    assert not [path for path in found if ".git" in path.casefold()]
    for name, raw in kept.items():
        assert found[name][1] == raw
        assert stat.S_IMODE(found[name][0]) == 0o644


def test_a_snapshot_takes_nothing_of_git(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        (tmp_path / "memory" / ".git" / "hooks").mkdir(parents=True)
        (tmp_path / "memory" / ".git" / "hooks" / "x").write_text("x")
        taken = backup.take(memory.store, str(tmp_path / "kept"))
    assert set(taken.files) == {"synapse.yaml"}


@pytest.mark.parametrize("line", [b"", b'{"kind":"begin"}\n', b"\n"])
def test_a_ledger_unpacks_to_no_more_than_a_multiple(tmp_path, monkeypatch, line):
    """Whatever it unpacks to, no more than a piece beyond the limit is ever unpacked."""
    monkeypatch.setattr(ledger, "SMALL", 1 << 20)
    monkeypatch.setattr(ledger, "RATIO", 20)
    path = tmp_path / "ledger.jsonl.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(4):
            file.write(line * ((4 << 20) // len(line)) if line else bytes(4 << 20))
    read = 0
    with pytest.raises(ledger.BrokenLedger, match="unpack to more than"):  # noqa: PT012
        for text in ledger.lines(str(path)):
            read += len(text)
    assert read <= 1 << 20
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(path, folder / texts.FILE)
    with pytest.raises(ledger.BrokenLedger):
        list(texts._read(str(folder / texts.FILE)))


def test_a_ledger_of_ours_unpacks(tmp_path):
    path = str(tmp_path / "ledger.jsonl.gz")
    written = [f'{{"kind":"fact","n":{n},"text":"é\u2028"}}\n' for n in range(20_000)]
    ledger.write(path, written)
    assert list(ledger.lines(path)) == written


# -- modes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0, 0o022])
def test_private_mail_is_its_owner_s_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        root = tmp_path / "memory"
        with synapse.init(str(root)) as memory:
            eng = synapse.Agent("eng", read=["*"], write=["*"], review_required=False)
            memory.register(eng)
            seat = memory.as_agent("eng")
            seat.archive(seat.append("body", "api").id)
            Mail(seat).send("eng", "private", subject="s")
            memory.verify()
    finally:
        os.umask(before)
    private = "journal .index messages staging archive quarantine views".split()
    for path, (mode, *_) in tree(root).items():
        assert not mode & 0o022, path
        if path.partition("/")[0] in private:
            assert not mode & 0o077, path
    assert stat.S_IMODE((root / "inbox" / "eng" / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "inbox" / "eng").stat().st_mode) == 0o711


def test_what_was_opened_to_others_stays_so(tmp_path):
    """A new file is for whom its folder is for, in a workspace of before too."""
    root = tmp_path / "memory"
    synapse.init(str(root)).close()
    for folder in ("journal", "messages", ".index", "archive"):
        (root / folder).mkdir(exist_ok=True)
        (root / folder).chmod(0o755)
    for path in [*(root / "journal").iterdir(), *(root / ".index").iterdir()]:
        if path.is_file():
            path.unlink()
    with synapse.open(str(root)) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        seat = memory.as_agent("eng")
        seat.archive(seat.append("body", "api").id)
        Mail(seat).send("eng", "for all to read", subject="s")
    found = {path: stat.S_IMODE(state[0]) for path, state in tree(root).items()}
    shown = ("journal/0", "messages/", "archive/", ".index/brain.db")
    for path in found:
        if path.startswith(shown) and not path.endswith("lock"):
            assert found[path] in (0o755, 0o644), path
