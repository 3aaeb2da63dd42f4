"""`synapse export | import | backup`: the whole log as JSON Lines or as a snapshot, or entries for other readers."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.parse import number
from synapse.cli.show import clean, fields
from synapse.errors import Conflict, InvalidEntry
from synapse.exchange import GENERATIONS, entries_as


def export_options(parser: Options) -> None:
    add = parser.add_argument
    add("file", nargs="?", default="-", metavar="FILE", help="a new file; - or nothing: standard output")
    add(
        "--as-generation",
        choices=GENERATIONS,
        help="the entries alone, for other readers: A and B as a new directory of files (or lines of path and"
        " text on standard output), C as lines of JSON objects",
    )
    add(
        "--format",
        choices=("jsonl", "synapse-json"),
        default="jsonl",
        help="the log's own lines, or the old file of mail",
    )
    add("--thread", metavar="ID", help="of the old file, only this thread")


def export(call: Call) -> None:
    generation, place = call.args.as_generation, call.args.file
    if call.args.format == "synapse-json":
        return _old_file(call, place)
    if call.args.thread:
        raise Usage("--thread goes with --format synapse-json")
    if place == "-":
        sys.stdout.writelines(call.memory.export(generation))
    else:
        count = _tree(call, place) if generation in ("A", "B") else _file(call, place)
        return call.show({"written": count, "file": place}, clean(f"{count} written to {place}"))
    return None


def _old_file(call: Call, place: str) -> None:
    """All mail as the old file has it, on standard output or in a new file."""
    from synapse import oldfile

    text = oldfile.text(call.memory.store, call.args.thread)
    if place == "-":
        sys.stdout.write(text)
        return
    if os.path.lexists(place):
        raise Conflict(f"{place} is there already; name another file, or remove it", file=place)
    with open(place, "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    call.show(lambda: {"file": place}, lambda: clean(f"the mail written to {place}"))


def import_options(parser: Options) -> None:
    parser.add_argument("file", metavar="FILE", help="an export, or a snapshot that `backup` took; - is standard input")


def import_(call: Call) -> None:
    if os.path.isdir(call.args.file):
        from synapse import backup as snapshots

        told = snapshots.restore(call.memory, call.args.file)
        shown = f"{told.records} records restored: the workspace is as it was at {told.at}"
        return call.show(lambda: fields(told), lambda: clean(shown))
    with _input(call.args.file) as lines:
        try:
            count = call.memory.import_(lines)
        except UnicodeDecodeError as error:
            raise InvalidEntry(f"{call.args.file} is no export: it is not UTF-8") from error
    return call.show(lambda: {"records": count}, lambda: f"{count} records imported")


def backup_options(parser: Options) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR", help="where snapshots are, outside of the workspace; with --check, one of them")
    add("--keep", type=number, metavar="N", help="then remove the oldest of this log beyond so many; else none")
    add("--check", action="store_true", help="instead read a snapshot through, and say whether it is whole")


def backup(call: Call) -> None:
    from synapse import backup as snapshots

    if call.args.check:
        told = snapshots.check(os.path.expanduser(call.args.directory))
    else:
        told = snapshots.take(call.memory, call.args.directory, call.args.keep)
    call.show(lambda: fields(told), lambda: clean(f"{told.path}: {told.records} records, head {told.head}"))


def _file(call: Call, place: str) -> int:
    """Never over something that is there: the file may be the only copy. A failed export leaves none."""
    count = 0
    if os.path.lexists(place):
        raise Conflict(f"{place} is there already; name another file, or remove it", file=place)
    with open(place, "x", encoding="utf-8", newline="\n") as file:
        try:
            for line in call.memory.export(call.args.as_generation):
                count += 1
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(place)
            raise
    return count


def _tree(call: Call, place: str) -> int:
    os.mkdir(place)
    count = 0
    for path, text in entries_as(call.memory.store, call.args.as_generation):
        count += 1
        target = os.path.join(place, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return count


def _input(place: str) -> AbstractContextManager[TextIO]:
    return nullcontext(sys.stdin) if place == "-" else open(place, encoding="utf-8", newline="\n")
