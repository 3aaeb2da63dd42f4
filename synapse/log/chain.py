"""The lines of the journal as bytes, and the chain that they make. Pure: knows no files."""

from __future__ import annotations

import json

from synapse.log.line import Line
from synapse.model import clock
from synapse.model.records import Record
from synapse.system.digest import sha256
from synapse.system.json import dumps
from synapse.system.typed import NamedTuple

GENESIS = "0" * 64
_HEAD = len('{"chain":"') + 64 + len('",')
_TEXT = b',"text":'
_NOT_TEXT = b',"\\u0074ext":'  # the same key, of a mapping within the fields
_loads = json.JSONDecoder().decode


class Tail(NamedTuple):
    """Where the journal ends: all that the next line depends on."""

    seq: int
    chain: str
    at: int
    day: str
    n: int
    end: int
    start: int = -1  # where the last line begins, in the segment that is written to


def encode(tail: Tail, at: int, line: Line) -> tuple[bytes, Record, Tail]:
    """The bytes of the line that follows this tail, the record it holds, and the tail it leaves."""
    day = clock.day(at)
    n = line.n if line.n is not None else tail.n if tail.day == day else 0
    seq = tail.seq + 1
    text = None if line.text is None else line.text.encode()
    sha = None if text is None else sha256(text)
    pairs = {
        "seq": seq,
        "at": clock.iso(at),
        "day": day,
        "n": n,
        "kind": line.kind,
        "by": line.by,
        "id": line.id,
    }
    pairs |= {
        "path": line.path,
        "once": line.once,
        "key": line.key,
        "f": line.fields or None,
        "sha": sha,
    }
    head = dumps({name: value for name, value in pairs.items() if value is not None})[
        1:-1
    ].encode()
    head = head.replace(_TEXT, _NOT_TEXT)
    chain = link(tail.chain, head)
    body = b"" if line.text is None else _TEXT + dumps(line.text).encode()
    raw = b'{"chain":"' + chain.encode() + b'",' + head + body + b"}\n"
    record = Record(
        seq,
        at,
        line.kind,
        line.by,
        line.id,
        line.fields,
        line.text,
        line.path,
        line.once,
        line.key,
        sha,
    )
    return raw, record, Tail(seq, chain, at, day, n, tail.end + len(raw), tail.end)


def link(chain: str, head: bytes) -> str:
    return sha256(chain.encode(), head)


def decode(raw: bytes) -> Record | None:
    """The record on a line, or None for one that is torn."""
    try:
        got = _loads(raw.decode())
        get, at = got.get, clock.micros(got["at"])
        head = (got["seq"], at, got["kind"], got["by"], get("id"), get("f") or {})
        return Record(
            *head, get("text"), get("path"), get("once"), get("key"), get("sha")
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def decode_head(raw: bytes) -> Record | None:
    """The record without its text: most of a line, for who only asks what it is about."""
    head, mark, _ = raw.partition(_TEXT)
    return decode(head + b"}" if mark else raw)


def seq_of(raw: bytes) -> int:
    """What a line says that its place is, without a look at the rest of it; 0 where it says nothing
    of the kind.
    """
    said = raw[_HEAD : raw.find(b",", _HEAD)]
    return int(said[6:]) if said.startswith(b'"seq":') and said[6:].isdigit() else 0


def is_whole(raw: bytes) -> bool:
    return raw.endswith(b"\n") and decode(raw) is not None


def split(raw: bytes) -> tuple[str, bytes, bytes]:
    """A line's chain, the bytes that the chain covers, and the JSON of its text, empty for none."""
    inner = raw[_HEAD:].rstrip(b"\n").removesuffix(b"}")
    head, mark, text = inner.partition(_TEXT)
    return raw[10:74].decode("ascii", "replace"), head, text if mark else b""


def chain_of(raw: bytes) -> str:
    return raw[10:74].decode("ascii", "replace")


def tail_of(raw: bytes, start: int) -> Tail | None:
    head, mark, _ = raw.partition(_TEXT)
    try:
        got = json.loads(head + b"}" if mark else head)
        at, end = clock.micros(got["at"]), start + len(raw)
        return Tail(got["seq"], got["chain"], at, got["day"], got["n"], end, start)
    except (ValueError, KeyError, TypeError):
        return None
