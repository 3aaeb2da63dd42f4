"""`synapse export | import | merge | backup`: the whole log as JSON Lines or as a snapshot, entries
for other readers, and two histories as one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.parse import number
from synapse.cli.show import clean, fields
from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.exchange import GENERATIONS, entries_as

OLD_FILE = ("json", "synapse-json")


def export_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="a new file; - or nothing: standard output",
    )
    add(
        "--as-generation",
        choices=GENERATIONS,
        help="the entries alone, for other readers: A and B as a new directory of files"
        " (or lines of path and text on standard output), C as lines of JSON objects",
    )
    add(
        "--format",
        choices=("jsonl", *OLD_FILE),
        default="jsonl",
        help="the log's own lines; json or synapse-json: all mail as the old file",
    )
    add("--thread", metavar="ID", help="of the old file, only this thread")


def export(call: Call) -> None:
    generation, place = call.args.as_generation, call.args.file
    if call.args.format in OLD_FILE:
        return _old_file(call, place)
    if call.args.thread:
        raise Usage("--thread goes with --format json: the mail of one thread")
    if place == "-":
        sys.stdout.writelines(call.memory.export(generation))
        return None
    count, last = _tree(call, place) if generation in ("A", "B") else _file(call, place)
    head = {} if generation else {"head": _head(last)}
    told = f"{count} written to {place}" + "".join(
        f", head {value}" for value in head.values()
    )
    return call.show({"written": count, "file": place, **head}, clean(told))


def _old_file(call: Call, place: str) -> None:
    """All mail as the old file has it, on standard output or in a new file."""
    from synapse.mail import synapse_json

    text = synapse_json.text(call.memory.store, call.args.thread)
    if place == "-":
        sys.stdout.write(text)
        return
    if os.path.lexists(place):
        raise Conflict(
            f"{place} is there already; name another file, or remove it", file=place
        )
    with open(place, "x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    call.show(lambda: {"file": place}, lambda: clean(f"the mail written to {place}"))


def merge_options(parser: Options) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        metavar="OTHER",
        help="another workspace's directory, or an export; else what git merged",
    )


def merge(call: Call) -> None:
    from synapse.exchange import merge_in

    source = call.args.source
    told = merge_in(call.memory.store, os.path.expanduser(source) if source else None)
    count = f"{told.records} record{'s' * (told.records != 1)}"
    shown = (
        f"{count} of the other history appended" if told.records else "nothing to merge"
    )
    ids = [f"  {old} is {new} now" for old, new in told.ids.items()]
    call.show(
        {"records": told.records, "ids": told.ids}, clean("\n".join([shown, *ids]))
    )


def import_options(parser: Options) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="an export, or a snapshot that `backup` took; - is standard input",
    )


def import_(call: Call) -> None:
    if os.path.isdir(call.args.file):
        from synapse import backup as snapshots

        told = snapshots.restore(call.memory, call.args.file)
        shown = (
            f"{told.records} records restored: the workspace is as it was at {told.at}"
        )
        return call.show(lambda: fields(told), lambda: clean(shown))
    count, last = _taken_in(call, call.args.file)
    head = _head(last)
    return call.show(
        {"records": count, "head": head}, f"{count} records imported, head {head}"
    )


def _taken_in(call: Call, place: str) -> tuple[int, str]:
    """How many records came from a file, and the line of the last of them."""
    last = [""]
    with _input(place) as lines:
        try:
            return call.memory.import_(_watched(lines, last)), last[0]
        except UnicodeDecodeError as error:
            raise InvalidEntry(f"{place} is no export: it is not UTF-8") from error


def _watched(lines: Iterable[str], last: list[str]) -> Iterator[str]:
    """The lines, of which the last that says anything is kept."""
    for line in lines:
        last[0] = line if line.strip() else last[0]
        yield line


def _head(line: str) -> str:
    """What the log ends with whose last line this is. A copy that was cut off ends with another."""
    if not line:
        return ""
    record = json.loads(line)
    return f"{record['seq']}:{record['chain']}"


def backup_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "directory",
        metavar="DIR",
        help="where snapshots are, outside of the workspace; with --check, one of them",
    )
    add(
        "--keep",
        type=number,
        metavar="N",
        help="then remove the oldest of this log beyond so many; else none",
    )
    add(
        "--check",
        action="store_true",
        help="instead read a snapshot through, and say whether it is whole",
    )


def backup(call: Call) -> None:
    from synapse import backup as snapshots

    if call.args.check:
        told = snapshots.check(os.path.expanduser(call.args.directory))
    else:
        told = snapshots.take(call.memory, call.args.directory, call.args.keep)
    call.show(
        lambda: fields(told),
        lambda: clean(f"{told.path}: {told.records} records, head {told.head}"),
    )


def _file(call: Call, place: str) -> tuple[int, str]:
    """How many lines went out, and the last of them. Never over something that is there: the file
    may be the only copy. A failed export leaves none.
    """
    count, line = 0, ""
    if os.path.lexists(place):
        raise Conflict(
            f"{place} is there already; name another file, or remove it", file=place
        )
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
    return count, line


def _tree(call: Call, place: str) -> tuple[int, str]:
    os.mkdir(place)
    count, text = 0, ""
    for path, text in entries_as(call.memory.store, call.args.as_generation):
        count += 1
        target = os.path.join(place, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return count, text


def _input(place: str) -> AbstractContextManager[TextIO]:
    if place == "-":
        return nullcontext(sys.stdin)
    try:
        return open(place, encoding="utf-8", newline="\n")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {place}", file=place) from error
