"""The lines of the journal as bytes, and the chain that they make. Pure: knows no files."""

from __future__ import annotations

import json
from collections.abc import Mapping

from synapse.model import clock
from synapse.model.entry import mint, minted
from synapse.model.placement import Tail
from synapse.model.records import MALFORMED, Record
from synapse.model.schemas import misfit
from synapse.system.digest import blake2b, sha256
from synapse.system.json import dumps
from synapse.system.typed import Any

_HEAD = len('{"chain":"') + 64 + len('",')
_TEXT = b',"text":'
_NOT_TEXT = b',"\\u0074ext":'  # the same key, of a mapping within the fields
_GONE = b"null"  # in the place of a text that was redacted
_SAID = frozenset(("kind", "by", "id", "path", "once", "key", "f"))  # beside its place and its text
_WORDS = frozenset((str, type(None)))
_loads = json.JSONDecoder().decode
# what an encoder that keeps all characters uses for a text
_quote = json.encoder.encode_basestring


def encode(tail: Tail, at: int, record: Record) -> tuple[bytes, Record, Tail]:
    """Return the line of a new record behind this tail, the record as it stands there, and the tail
    after it.
    """
    moment, seq = clock.iso(at), tail.seq + 1
    day = moment[:10]
    count = ids_minted(tail, day, record.id)
    names = ("kind", "by", "id", "path", "once", "key")
    values = (record.kind, record.by, record.id, record.path, record.once, record.key)
    pairs = zip(names, values, strict=True)
    texts = "".join([f',"{name}":{_quote(text)}' for name, text in pairs if text is not None])
    head = f'"seq":{seq},"at":"{moment}","day":"{day}","n":{count}{texts}'
    if record.fields:
        head += f',"f":{dumps(record.fields)}'
    sha, body = None, b""
    if record.text is not None:
        sha = sha256(record.text.encode())
        head += f',"sha":"{sha}"'
        body = _quote(record.text).encode()
    elif record.sha is not None:  # of a text that was redacted
        sha, body = record.sha, _GONE
        head += f',"sha":"{sha}"'
    covered = head.encode().replace(_TEXT, _NOT_TEXT)
    chain = sha256(tail.chain.encode(), covered)
    raw = assemble(chain, covered, body)
    placed = record._replace(seq=seq, at=at, sha=sha, entry=None)
    return raw, placed, Tail(seq, chain, at, day, count, tail.end + len(raw), tail.end)


def ids_minted(tail: Tail, day: str, id: str | None) -> int:
    """Return how many ids of the day are used up, with this one."""
    count = tail.n if tail.day == day else 0
    if id == mint(day, count + 1):
        return count + 1
    own = minted(id) if id is not None and id.startswith("syn-") else None
    return max(count, own[1]) if own and own[0] == day else count


def assemble(chain: str, head: bytes, text: bytes) -> bytes:
    """Return the line of these parts, as `split` takes them from it."""
    return b'{"chain":"%b",%b%b}\n' % (chain.encode(), head, _TEXT + text if text else b"")


def quoted(text: str) -> bytes:
    """Return a text as a line has it, in JSON."""
    return _quote(text).encode()


def link(chain: str, head: bytes) -> str:
    return sha256(chain.encode(), head)


def imprint(raw: bytes) -> bytes:
    """Return what a line is known by: a digest of its chain, which covers all before it, and of
    what the chain covers of itself. Its text may be redacted.
    """
    return blake2b(raw.partition(_TEXT)[0], digest_size=16).digest()


def follows(raw: bytes, chain: str) -> bool:
    """Return whether a line follows from the one that left this chain."""
    own, head, _ = split(raw)
    return link(chain, head) == own


def decode(raw: bytes) -> Record | None:
    """Return the record on a line, or None for one that is torn. One that is no record of its kind
    is set aside: it is `malformed`, and its fields say why.
    """
    try:
        got = _loads(raw.decode())
        at, get = clock.micros(got["at"]), got.get
        seq, kind, by, fields = got["seq"], got["kind"], got["by"], get("f") or {}
        id, text, sha = get("id"), get("text"), get("sha")
        rest = (get("path"), get("once"), get("key"))
        if type(seq) is not int:
            return None
        if not (
            type(kind) is type(by) is str
            and type(fields) is dict
            and _WORDS.issuperset(map(type, (id, text, sha, *rest)))
            and (b"\\u" not in raw or _is_text(got))
        ):
            return _aside(seq, at, got, "its head or a text in it is none")
        if why := misfit(kind, id, fields):
            return _aside(seq, at, got, why, text, sha)
        return Record(seq, at, kind, by, id, fields, text, *rest, sha)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_text(got: Mapping[str, Any]) -> bool:
    """Return whether all texts of a line can be written: none holds half a surrogate pair."""
    try:
        dumps(got).encode()
    except UnicodeEncodeError:
        return False
    return True


def _aside(
    seq: int, at: int, got: Mapping[str, Any], why: str, text: str | None = None, sha: Any = None
) -> Record:
    """Return what is kept of a line that is no record of its kind, for `verify` and for a merge. It
    has no id and no key, so that nothing else is said to be it.
    """
    own = json.dumps({name: value for name, value in got.items() if name in _SAID})
    fields = {"kind": _writable(got["kind"]), "why": why, "line": own}
    return Record(seq, at, MALFORMED, _writable(got["by"]), None, fields, text, sha=sha)


def _writable(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()


def decode_head(raw: bytes) -> Record | None:
    """Return the record without its text: most of a line, for who only asks what it is about."""
    head, mark, _ = raw.partition(_TEXT)
    return decode(head + b"}" if mark else raw)


def seq_of(raw: bytes) -> int:
    """Return the place that a line says it has, without a look at the rest of it; 0 where it says
    nothing of the kind.
    """
    pair = raw[_HEAD : raw.find(b",", _HEAD)]
    return int(pair[6:]) if pair.startswith(b'"seq":') and pair[6:].isdigit() else 0


def is_whole(raw: bytes) -> bool:
    return raw.endswith(b"\n") and decode(raw) is not None


def split(raw: bytes) -> tuple[str, bytes, bytes]:
    """Return a line's chain, the bytes that the chain covers, and the JSON of its text, empty for
    none.
    """
    inner = raw[_HEAD:].rstrip(b"\n").removesuffix(b"}")
    head, mark, text = inner.partition(_TEXT)
    return raw[10:74].decode("ascii", "replace"), head, text if mark else b""


def blanked(raw: bytes) -> bytes:
    """Return a line without its text, at its length: the chain covers the digest of that alone."""
    chain, head, text = split(raw)
    return assemble(chain, head, _GONE.ljust(len(text)))


def is_redacted(raw: bytes) -> bool:
    """Return whether a line says that its text was redacted."""
    return split(raw)[2].rstrip(b" ") == _GONE


def chain_of(raw: bytes) -> str:
    return raw[10:74].decode("ascii", "replace")


def tail_of(raw: bytes, start: int) -> Tail | None:
    """Return the tail that a whole line leaves, which begins at this offset; None for one that is
    torn.
    """
    try:
        line = _loads(raw.decode()) if raw.endswith(b"\n") else {}
        line["kind"], line["by"]  # every whole line has both
        at, end = clock.micros(line["at"]), start + len(raw)
        return Tail(line["seq"], line["chain"], at, line["day"], line["n"], end, start)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
