"""The verbs that move a whole log: `export`, `import`, `merge`, `migrate` and `backup`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import number
from synapse.cli.frame.show import clean, one_line
from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.exchange import GENERATIONS, entries_as
from synapse.system.typed import TYPE_CHECKING
from synapse.wire.forms import fields

if TYPE_CHECKING:
    from synapse.compat.migration import Migration


OLD_FILE = ("json", "synapse-json")


def export_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="a new file; without it, or with -, standard output",
    )
    add(
        "--as-generation",
        choices=GENERATIONS,
        help="the entries alone, for other readers: A and B as a new directory of files"
        " (or lines of path and"
        " text on standard output), C as lines of JSON objects",
    )
    add(
        "--format",
        choices=("jsonl", *OLD_FILE),
        default="jsonl",
        help="jsonl: the log itself; json or synapse-json: all mail in the old format",
    )
    add("--thread", metavar="ID", help="with --format json: only this thread")
    add(
        "--for",
        dest="partner",
        metavar="PARTNER",
        help="a bundle: what this partner of synapse.yaml may read, sealed to its key and signed",
    )
    add(
        "--since",
        metavar="CURSOR",
        help="with --for: what came after it (default: after what the partner confirmed)",
    )


def export(call: Call) -> None:
    args = call.args
    if args.thread and args.format not in OLD_FILE:
        raise Usage("--thread needs --format json")
    if args.since and not args.partner:
        raise Usage("--since needs --for")
    if args.partner:
        _export_bundle(call, args.partner, args.file)
    elif args.format in OLD_FILE:
        _export_mail(call, args.file)
    elif args.file == "-":
        sys.stdout.writelines(call.memory.export(args.as_generation))
    else:
        _export_log(call, args.as_generation, args.file)


def _export_log(call: Call, generation: str | None, path: str) -> None:
    """Export the log, or its entries in the form of a generation, and print the result."""
    export_to = _export_files if generation in ("A", "B") else _export_file
    count, last = export_to(call, path)
    head = {} if generation else {"head": _head(last)}
    suffix = f", head {head['head']}" if head else ""
    text = clean(f"{count} written to {path}{suffix}")
    call.show({"written": count, "file": path, **head}, text)


def _export_bundle(call: Call, partner: str, path: str) -> None:
    """Write a bundle for a partner, to standard output or to a new file."""
    from synapse.bundles import Exported, export_bundle

    with nullcontext(sys.stdout) if path == "-" else _new_file(path) as file:
        for part in export_bundle(call.memory, partner, call.args.since):
            if isinstance(part, str):
                file.write(part)
                continue
            bundle: Exported = part
    if path == "-":
        return
    lines = [f"{bundle.entries} entries for {partner} written to {path}, up to {bundle.until}"]
    if bundle.repeated:
        lines.append(
            f"{bundle.repeated} of them were handed out before, and {partner} confirmed none"
        )
    call.show(lambda: {"file": path, **bundle._asdict()}, lambda: clean("\n".join(lines)))


def _import_bundle(call: Call, partner: str, path: str) -> int:
    """Take in a bundle of a partner's. Return 1 where something is wrong with it."""
    from synapse.bundles import import_bundle

    with _open_input(path) as lines:
        imported = import_bundle(call.memory, partner, lines)
    text = [f"{len(imported.entries)} entries of {partner} taken in, {imported.present} were here"]
    text += [
        f"  {entry.id} {entry.namespace} {one_line(entry.body)[:60]}" for entry in imported.entries
    ]
    text += [f"  refused {why}" for why in imported.refused]
    if imported.entries:
        text.append("they count as text from outside until `synapse vouch ID`")
    if imported.problem:
        text.append(f"stopped: {imported.problem}")
    names = [entry.id for entry in imported.entries]
    call.show(lambda: {**imported._asdict(), "entries": names}, lambda: clean("\n".join(text)))
    return 1 if imported.problem else 0


def _export_mail(call: Call, path: str) -> None:
    """Write all mail in the old format, to standard output or to a new file."""
    from synapse.mail import synapse_json

    text = synapse_json.text(call.memory.store, call.args.thread)
    if path == "-":
        sys.stdout.write(text)
        return
    with _new_file(path) as file:
        file.write(text)
    call.show(lambda: {"file": path}, lambda: clean(f"the mail written to {path}"))


def merge_options(parser: Options) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        metavar="OTHER",
        help="another workspace or an export (default: what git merged here)",
    )
    parser.add_argument(
        "--believe",
        action="store_true",
        help="take in one that is no copy of this workspace, with all that it says of its agents",
    )


def merge(call: Call) -> None:
    from synapse.exchange import merge_in

    source = os.path.expanduser(call.args.source) if call.args.source else None
    merged = merge_in(call.memory.store, source, believe=call.args.believe)
    lines = ["nothing to merge"]
    if merged.records:
        count = f"{merged.records} record{'s' * (merged.records != 1)}"
        lines = [f"{count} of the other history appended"]
    lines += [f"  {old} is {new} now" for old, new in merged.ids.items()]
    fields = {"records": merged.records, "ids": merged.ids}
    call.show(fields, clean("\n".join(lines)))


def import_options(parser: Options) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="an export, or a snapshot made by `backup`; - reads standard input",
    )
    parser.add_argument(
        "--believe", action="store_true", help="accept at once what was written elsewhere"
    )
    parser.add_argument(
        "--from",
        dest="partner",
        metavar="PARTNER",
        help="a bundle that this partner of synapse.yaml handed out",
    )


def import_(call: Call) -> int:
    if call.args.partner:
        return _import_bundle(call, call.args.partner, call.args.file)
    if os.path.isdir(call.args.file):
        from synapse import backup as snapshots

        snapshot = snapshots.restore(call.memory.store, call.args.file, believe=call.args.believe)
        summary = (
            f"{snapshot.records} records restored: the workspace is as it was at {snapshot.at}"
        )
        call.show(lambda: fields(snapshot), lambda: clean(summary))
        return 0
    count, last = _import_file(call, call.args.file)
    head = _head(last)
    call.show({"records": count, "head": head}, f"{count} records imported, head {head}")
    return 0


def _import_file(call: Call, path: str) -> tuple[int, str]:
    """Import a file. Return the number of records and the last line that is not empty."""
    last = ""

    def read(lines: Iterable[str]) -> Iterator[str]:
        nonlocal last
        for line in lines:
            last = line if line.strip() else last
            yield line

    with _open_input(path) as lines:
        try:
            return call.memory.import_(read(lines), believe=call.args.believe), last
        except UnicodeDecodeError as error:
            raise InvalidEntry(f"{path} is not an export: it is not UTF-8") from error


def _head(line: str) -> str:
    """Return the head of a log from its last line. A copy that was cut off has another head."""
    if not line:
        return ""
    record = json.loads(line)
    return f"{record['seq']}:{record['chain']}"


def backup_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "directory",
        metavar="DIR",
        help="the folder of snapshots, outside the workspace; with --check, one snapshot",
    )
    add(
        "--keep",
        type=number,
        metavar="N",
        help="keep the newest N snapshots of this log and remove the others",
    )
    add("--check", action="store_true", help="check that a snapshot is complete, and write nothing")


def backup(call: Call) -> None:
    from synapse import backup as snapshots

    if call.args.check:
        snapshot = snapshots.check(os.path.expanduser(call.args.directory))
    else:
        snapshot = snapshots.take(call.memory.store, call.args.directory, call.args.keep)
    call.show(
        lambda: fields(snapshot),
        lambda: clean(f"{snapshot.path}: {snapshot.records} records, head {snapshot.head}"),
    )


def _export_file(call: Call, path: str) -> tuple[int, str]:
    """Export to a new file; a failed export leaves none. Return the number of lines and the
    last."""
    count, line = 0, ""
    with _new_file(path) as file:
        for line in call.memory.export(call.args.as_generation):
            count += 1
            file.write(line)
    return count, line


def _export_files(call: Call, folder: str) -> tuple[int, str]:
    """Export each entry to a file of its own. Return the number of files and the last text."""
    os.mkdir(folder, 0o700)
    count, text = 0, ""
    for path, text in entries_as(call.memory.store, call.args.as_generation):
        count += 1
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        with open(target, "x", encoding="utf-8", newline="\n", opener=_private) as file:
            file.write(text)
    return count, text


@contextmanager
def _new_file(path: str) -> Iterator[TextIO]:
    """Open a new file to write, which is on the disk at the end; after an error there is none."""
    if os.path.lexists(path):
        raise Conflict(f"{path} exists already; name another file, or remove it", file=path)
    with open(path, "x", encoding="utf-8", newline="\n", opener=_private) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(path)
            raise


def _private(path: str, flags: int) -> int:
    """Open a file for its owner alone: what is exported is everybody's, private mail too."""
    return os.open(path, flags, 0o600)


def _open_input(path: str) -> AbstractContextManager[TextIO]:
    """Open the file that is imported, or standard input."""
    if path == "-":
        return nullcontext(sys.stdin)
    try:
        return open(path, encoding="utf-8", newline="\n")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}", file=path) from error


def migrate_options(parser: Options) -> None:
    add = parser.add_argument
    add("--synapse-json", metavar="FILE", help="the old synapse.json with messages")
    add(
        "--cortex",
        metavar="DIR",
        help="a folder with stm.json, collections/, atoms, links and vectors",
    )
    add(
        "--agent",
        default="helios",
        metavar="AGENT",
        help="the agent that owns the imported knowledge (default: helios)",
    )
    add("--model", metavar="NAME", help="the model of vectors that do not name one")
    add(
        "--believe",
        action="append",
        metavar="AGENT",
        help="mail from this agent of the workspace is its own; else it is unverified",
    )
    add(
        "--dry-run",
        action="store_true",
        help="only read and check, and print what would be written",
    )


def migrate(call: Call) -> None:
    from synapse.compat.migrate import migrate as import_old

    args = call.args
    if args.synapse_json is None and args.cortex is None:
        raise Usage("name --synapse-json FILE, --cortex DIR, or both")
    migration = import_old(
        call.memory,
        args.synapse_json,
        args.cortex,
        agent=args.agent,
        model=args.model,
        dry=args.dry_run,
        believe=args.believe or (),
    )
    call.show(lambda: fields(migration), lambda: _format_migration(migration))


def _format_migration(migration: Migration) -> str:
    """Return the counts of a migration as a table, then the agents that are new."""
    from synapse.cli.frame.table import draw_table

    heads = ("", "read", "repeated", "written" if migration.written else "to write", "here before")
    lines = [draw_table(heads, [(count.kind, *map(str, count[1:])) for count in migration.counts])]
    if migration.agents:
        lines.append(
            one_line(
                f"{'registered' if migration.written else 'to register'}:"
                f" {', '.join(migration.agents)}"
            )
        )
    lines += [one_line(f"{old} is {new} here") for old, new in migration.renamed.items()]
    if migration.unverified:
        lines.append(
            one_line(
                f"unverified, as they were here before: {', '.join(migration.unverified)}"
                " (--believe AGENT says that it is the same)"
            )
        )
    return "\n".join(lines)
