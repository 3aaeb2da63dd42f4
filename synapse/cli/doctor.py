"""The checks of `synapse doctor`: of the machine, the file system under the workspace, and the
workspace itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from synapse.cli.checks import database, holders, live, probes
from synapse.errors import SynapseError
from synapse.hurry import hurried
from synapse.log.begun import Begun
from synapse.model.settings import PROTOCOL
from synapse.system.findings import Finding, failed, run, some
from synapse.system.plain_files import demand_file, open_file, read_file
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.core import Memory

PATIENCE = 0.3  # seconds that a check waits for who holds the log or the index


def examine(root: str, open_memory: Callable[[], Memory]) -> list[Finding]:
    """Check the machine, the file system and the workspace; without a workspace, only the
    machine."""
    findings = list(machine())
    if findings[0].verdict == "fail":
        return findings
    try:
        memory = open_memory()
    except (SynapseError, OSError) as error:
        return [*findings, *file_system(root), Finding("workspace", "fail", str(error))]
    findings += file_system(root, memory.store.readonly)
    findings += [Finding("workspace", "ok", os.path.abspath(root)), *holders.findings(root)]
    with hurried(memory.store, PATIENCE):
        return [*findings, *workspace(root, memory)]


def machine(platform: str = sys.platform) -> Iterator[Finding]:
    supported = {"linux": "Linux", "darwin": "macOS"}
    if platform in supported:
        yield Finding("system", "ok", supported[platform])
    elif platform in ("win32", "cygwin", "msys"):
        yield Finding("system", "fail", "Windows is not supported; use WSL 2 on its own disk")
    else:
        yield Finding("system", "warn", f"{platform} is untested; Linux and macOS are supported")
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        "python",
        "ok" if sys.version_info >= (3, 11) else "fail",
        f"{version}; it takes 3.11 or later",
    )
    yield from _sqlite()
    yield Finding("protocol", "ok", f"this software reads protocols up to {PROTOCOL}")


def file_system(root: str, readonly: bool = False) -> Iterator[Finding]:
    """Check what the files log needs of the disk, by trying it out where writing is allowed."""
    folder = os.path.abspath(root)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    kind = probes.file_system_of(folder)
    if kind in probes.NETWORK:
        yield Finding(
            "file system", "warn", f"{kind} at {folder}: its locks and syncs can't be trusted"
        )
    else:
        yield Finding("file system", "ok", f"{kind or 'of unknown kind'} at {folder}")
    if readonly:
        yield Finding("access", "warn", f"{root} cannot be written here; reading works")
    for name, probe in () if readonly else probes.PROBES.items():
        try:
            problem = probe(folder)
        except OSError as error:
            problem = f"{error.strerror or error} at {folder}"
        worst = "warn" if name in probes.HELPFUL else "fail"
        yield Finding(name, worst if problem else "ok", problem or "works")
    if os.path.isdir(root) and os.stat(root).st_mode & 0o002:
        yield Finding("access", "warn", f"every user of this machine may write in {root}")


def workspace(root: str, memory: Memory) -> Iterator[Finding]:
    declared = (_settings, _declarations, _roles, _trust, _elsewhere)
    written = (_clock, _authors, _namespaces, _nightly_runs, _set_aside, _run_files, _older)
    around = (database.database, live.disk, live.server, live.tokens, live.webhooks, live.snapshots)
    return run(
        (database.database, _links, _begun, _integrity, _journal, *declared, *written, *around),
        root,
        memory,
    )


def _begun(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that nothing which a killed process began is left: each look tries to finish it."""
    memory.store.refresh()
    problems = [f"{name.removesuffix('.json')} is not finished" for name in Begun(root).names()]
    yield from some("begun", "fail", problems, "call the same command again")


def _links(root: str, memory: Memory) -> Iterator[Finding]:
    """Check the folders of files that follow from the journal: a link in the place of one is not
    followed, so that what belongs there is missing. Of others, nothing would have been opened.
    """
    names = "archive changelog entries knowledge messages quarantine staging".split()
    inbox = os.path.join(root, "inbox")
    boxes = os.listdir(inbox) if os.path.isdir(inbox) else []
    names += [f"inbox/{box}{end}" for box in boxes for end in ("", "/new")]
    linked = [name for name in names if os.path.islink(os.path.join(root, name))]
    yield from some(
        "links",
        "fail",
        [f"{name} is a symbolic link, and is not followed" for name in sorted(linked)],
        "put the folder itself there, or link the whole workspace",
    )


def _run_files(root: str, memory: Memory) -> Iterator[Finding]:
    """Check the side files of runs: every whole line of theirs is an object of JSON."""
    folder = os.path.join(root, "runs")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    problems = [
        f"{os.path.join('runs', run, name)} line {number} cannot be read"
        for name in ("steps.jsonl", "ledger.jsonl")
        for run in names
        for number in _damaged_lines(os.path.join(folder, run, name))
    ]
    yield from some("runs", "warn", problems, "a run without all its steps ends as failed")
    if "spend.db.damaged" in names:
        text = "runs/spend.db.damaged was set aside; it was made again, delete it"
        yield Finding("runs", "warn", text)


def _damaged_lines(path: str) -> Iterator[int]:
    import json

    if not os.path.isfile(path):
        return
    with open(open_file(path), "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                is_object = isinstance(json.loads(line), dict)
            except ValueError:
                is_object = not line.endswith(b"\n")  # it is being written
            if not is_object:
                yield number


def _older(root: str, memory: Memory) -> Iterator[Finding]:
    """Check the files kept for older readers: the old file of mail, and a brain's tables."""
    from synapse.compat.tables import Tables, path_of
    from synapse.mail import synapse_json

    if problem := synapse_json.stale(memory.store):
        yield Finding("mirror", "warn", problem)
    path = path_of(memory.store)
    if path is not None and os.path.exists(path) and not memory.store.readonly:
        tables = Tables(memory.store, path)
        try:
            problems = [f"{stray.where}: {stray.what}" for stray in tables.check()]
        finally:
            tables.close()
        yield from some("tables", "warn", problems, "`brain check` names all")
        if not problems:
            yield Finding("tables", "ok", f"{path} is what the log says")


def conforming(directory: str) -> list[Finding]:
    """Check whether a directory, written by any program, keeps to the protocol."""
    from synapse.integrity import conformance

    findings = [
        Finding("conformance", violation.verdict, str(violation))
        for violation in conformance.check(directory)
    ]
    if all(finding.verdict != "fail" for finding in findings):
        findings.insert(
            0, Finding("conformance", "ok", f"{directory} keeps to protocol {PROTOCOL}")
        )
    return findings


def findings_json(findings: Sequence[Finding]) -> dict[str, Any]:
    return {"ok": not failed(findings), "checks": [finding._asdict() for finding in findings]}


def findings_text(findings: Iterable[Finding]) -> str:
    from synapse.cli.frame.table import draw_table

    rows = [(finding.verdict, finding.check, finding.detail) for finding in findings]
    return draw_table(("verdict", "check", "detail"), rows)


def _sqlite() -> Iterator[Finding]:
    import sqlite3

    try:
        sqlite3.connect(":memory:").execute(
            "create virtual table probe using fts5(body)"
        ).connection.close()
        yield Finding("sqlite", "ok", f"{sqlite3.sqlite_version} with full text")
    except sqlite3.Error as error:
        yield Finding(
            "sqlite", "fail", f"{sqlite3.sqlite_version} without full text (FTS5): {error}"
        )


def _integrity(root: str, memory: Memory) -> Iterator[Finding]:
    import sqlite3

    path = os.path.join(root, ".index", "brain.db")
    if memory.store.readonly:
        memory.store.refresh()
        sound = memory.store.index.check() == "ok"
        yield Finding(
            "index", "ok" if sound else "fail", "in memory, for it cannot be written here"
        )
        return
    if os.path.exists(f"{path}.damaged"):
        text = "brain.db.damaged was set aside; it was made again, delete it"
        yield Finding("index", "warn", text)
    if not os.path.exists(path):
        yield Finding("index", "ok", "none yet; it is derived at the first read")
        return
    try:
        demand_file(path)
        connection = sqlite3.connect(path)
        try:
            answers = [row[0] for row in connection.execute("pragma integrity_check(5)")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        answers = [str(error)]
    sound = answers == ["ok"]
    yield Finding(
        "index", *(("ok", "sound") if sound else ("fail", f"{answers[0]}; run `synapse rebuild`"))
    )


def _journal(root: str, memory: Memory) -> Iterator[Finding]:
    report = memory.verify()
    if report.ok:
        yield Finding("journal", "ok", f"{report.records} records, every file as it was written")
    yield from some("journal", "warn", [*report.notes], "")
    yield from some(
        "journal",
        "fail",
        [f"{problem.where}: {problem.what}" for problem in report.problems],
        "`synapse verify` names all; `synapse repair --dry-run` says what can be put back",
    )


def _settings(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.formats.keys import RUN_BLOCKS, concerns
    from synapse.log.files import FilesLog

    log = memory.store.log
    strays = log.read_settings(None)[1] if isinstance(log, FilesLog) else ()
    runs = (
        ", runs do not begin" if any(concerns(stray.path, RUN_BLOCKS) for stray in strays) else ""
    )
    advice = f"reads and writes go on without them{runs}; docs/reference/settings.md has every key"
    yield from some("settings", "fail", [f"synapse.yaml: {stray.text}" for stray in strays], advice)


def _elsewhere(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that nothing waits which was written elsewhere: nobody is shown it."""
    from synapse.access.foreign import waiting
    from synapse.index.derive.progress import format_foreign

    foreign = waiting(memory.store)
    problems = [format_foreign(len(foreign.records))] if foreign.records else []
    problems += [f"{path} was written elsewhere, and is not used" for path, _ in foreign.files]
    advice = "`synapse trust --text` shows what they say, and asks"
    yield from some("text", "warn", problems, advice)


def _trust(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.trust import decisions

    origin = memory.store.root or root
    wants = decisions.asked(memory.store.settings, origin)
    missing = decisions.open_wants(origin, wants)
    yield from some(
        "trust",
        "warn",
        [want.line for want in missing],
        "not trusted, so it does not happen; `synapse trust` asks you",
    )
    if not missing:
        detail = f"trusted with all {len(wants)} that it asks for" if wants else "asks for nothing"
        yield Finding("trust", "ok", detail)


def _roles(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.model.roles import unknown

    problems = [
        f"agent {agent.id}: {text}; it has an engineer's rights where its file says nothing"
        for agent in memory.agents()
        if (text := unknown(agent.role, root))
    ]
    yield from some("roles", "warn", problems, "")


def _declarations(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.log.files import FilesLog
    from synapse.model.roles import refuse_typo

    log = memory.store.log
    assert isinstance(log, FilesLog)
    folder = os.path.join(root, "agents")
    roles = {agent.id: agent.role for agent in memory.agents()}
    problems = []
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        if not name.endswith(".yaml") or name.startswith("."):
            continue
        try:
            agent = log.declaration(f"agents/{name}")
            if roles.get(agent.id) != agent.role:
                refuse_typo(agent, root)
        except (SynapseError, OSError, UnicodeDecodeError) as error:
            problems.append(str(error))
    if not problems:
        yield Finding("agents", "ok", f"{len(list(memory.agents()))} registered")
    yield from some(
        "agents", "fail", problems, "until they are corrected, what was declared before holds"
    )


def _clock(root: str, memory: Memory) -> Iterator[Finding]:
    """Yield whether the last record was received in a time to come, or many were."""
    from synapse.model.clock import AHEAD, DAY, seconds

    with memory.store.snapshot() as snap:
        last, steps = snap.last_stamp(), snap.steps()
    now = memory.store.clock()
    if last - now > AHEAD:
        text = (
            f"the last record was received at {seconds(last)}, which is to come, by"
            f" {(last - now) / DAY:.1f} days: the clock is behind, or was ahead then;"
            " the next write goes on with the clock as it is"
        )
        yield Finding("clock", "warn", text)
    elif any(steps):
        count = len(steps.caps) + len(steps.floors)
        text = f"time stepped back {count} times in the journal; readers allow for it"
        yield Finding("clock", "ok", text)


def _authors(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.index.questions.maintenance import counts_by_author

    registered = {agent.id for agent in memory.agents()} | {"operator", "consolidator"}
    operator = memory.as_agent("operator")
    memory.store.refresh()
    with memory.store.snapshot() as snap:
        authors = counts_by_author(snap, memory.store.clock())
    problems = [
        f"{author} wrote {count} {'entry' if count == 1 else 'entries'} and is not registered"
        for author, count in authors.items()
        if author not in registered
        and any(entry.trust == "unverified" for entry in operator.read(author=author))
    ]
    yield from some(
        "authors", "warn", problems, "`synapse register --id ID`, then `synapse vouch ENTRY`"
    )


def _namespaces(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.consolidate import run_history

    yield from some("namespaces", "warn", list(run_history(memory).remarks), "")


def _nightly_runs(root: str, memory: Memory) -> Iterator[Finding]:
    from synapse.consolidate import run_history

    history = run_history(memory)
    yield from some("nights", "warn", list(history.worries), "`synapse defrag` is one")
    if history.runs and not history.worries:
        yield Finding("nights", "ok", f"the last one was of {history.runs[-1].date}")


def _set_aside(root: str, memory: Memory) -> Iterator[Finding]:
    folder = os.path.join(root, "quarantine")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    reasons = []
    for name in names:
        if name.endswith(".reason.txt"):
            path = os.path.join(folder, name)
            try:
                text = read_file(path, 2000).decode(errors="replace").strip()
                reasons.append(": ".join(text.split("\n", 1)).replace("\n", "; "))
            except OSError as error:
                reasons.append(f"{path}: {error.strerror}")
    yield from some("quarantine", "warn", reasons, "mend and drop them again, or delete them")
