"""Damaged lines of the journal: which they are, and what stood there, where the chain proves it.

Each line's chain follows from the line before and from its own bytes, so that a changed line is
known by it, and what is put in its place is either what was written or is refused. `reader` walks
along here; `integrity.repair` repairs. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from synapse.log.chain import (
    assemble,
    chain_of,
    decode,
    decode_head,
    follows,
    is_redacted,
    link,
    quoted,
    split,
)
from synapse.model.placement import GENESIS
from synapse.model.records import Record
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple

_TRIED = 4096  # bytes of a line in which a flipped bit is looked for
_BIT = "by one bit that had changed"
Place = tuple[int, int]
Texts = Callable[[Record], Iterable[bytes]]


class Step(NamedTuple):
    """A line on the way along the journal, and the place behind it. `record` is None where it is
    not to be believed; `lost` are the numbers of the records that turn out to be damaged here.
    """

    raw: bytes
    place: Place
    record: Record | None
    lost: range = range(0)


class Stretch(NamedTuple):
    """Bytes of one segment that are not what was written: the records that stood there, the chain
    before them, and the line behind them (empty at the end).
    """

    segment: int
    start: int
    raw: bytes
    seqs: range
    before: str
    following: bytes

    @property
    def given_up(self) -> list[object]:
        """Return what the record says of it that gives it up."""
        return [self.seqs.start, self.seqs.stop - 1, sha256(self.raw)]

    @property
    def where(self) -> str:
        if not self.seqs:
            return f"between the records {self.seqs.start - 1} and {self.seqs.start}"
        first, last = self.seqs[0], self.seqs[-1]
        return f"record {first}" if first == last else f"records {first} to {last}"


def walk(lines: Iterable[tuple[bytes, Place]], seq: int, chain: str | None) -> Iterator[Step]:
    """Yield every line after the record `seq`, which left this chain, each with whether it is what
    was written. Where a line is damaged, the next is believed by either of the chains that it may
    have left; behind a gap, the first line is that the next one follows from.
    """
    chains: tuple[str, ...] = (chain,) if chain else ()
    lines = iter(lines)
    line = next(lines, None)
    while line is not None:
        (raw, position), line = line, next(lines, None)
        record = decode(raw) if raw.endswith(b"\n") else None
        if record is None or record.seq <= seq:
            yield Step(raw, position, record)
            continue
        own, head, _ = split(raw)
        links = [link(chain, head) for chain in chains]
        is_next = not links or own in links
        if record.seq != seq + 1 and not (line is None or _leads(own, record, line[0])):
            seq += 1  # a number that nothing follows from
            chains = (own, *links)
            yield Step(raw, position, None, range(seq, seq + 1))
            continue
        lost = range(seq + 1, record.seq)
        seq, chains = record.seq, (own, *links)
        if (is_next or lost) and has_text(record, raw):
            chains = (own,)
            yield Step(raw, position, record, lost)
        else:
            first = lost.start if lost else seq
            yield Step(raw, position, None, range(first, seq + 1))


def _leads(chain: str, record: Record, raw: bytes) -> bool:
    """Return whether the next line follows from this one."""
    following = decode(raw)
    return following is not None and following.seq == record.seq + 1 and follows(raw, chain)


def has_text(record: Record, raw: bytes = b"") -> bool:
    """Return whether the text is the one that the chain vouches for, or its line says that it was
    redacted: `verify` asks for the act that did it.
    """
    if record.text is None and record.sha is not None:
        return is_redacted(raw)
    if record.text is None or record.sha is None:
        return record.text is record.sha
    return sha256(record.text.encode("utf-8", "surrogatepass")) == record.sha


def stretches(
    lines: Iterable[tuple[bytes, Place]], seq: int = 0, chain: str = GENESIS
) -> Iterator[Stretch]:
    """Yield what is damaged of the lines after the record `seq`, which left this chain (empty where
    that is not known), each from the end of the last line that is what was written to the begin of
    the next that is. A torn end is none.
    """
    waiting: list[Step] = []
    lost: list[int] = []
    for step in walk(lines, seq, chain):
        lost.extend(step.lost)
        if step.record is None or step.record.seq <= seq:
            waiting.append(step)
            continue
        if lost or (waiting and not _seals(step.record, waiting)):
            seqs = range(seq + 1, step.record.seq)
            yield _stretch(waiting, step, seqs, chain, step.raw)
        waiting, lost = [], []
        chain, seq = chain_of(step.raw), step.record.seq
    if lost or (waiting and is_changed(waiting[-1].raw)):
        top = max(lost, default=seq + 1)
        yield _stretch(waiting, waiting[-1], range(seq + 1, top + 1), chain, b"")


def _stretch(steps: list[Step], last: Step, seqs: range, chain: str, following: bytes) -> Stretch:
    segment, end = (steps or [last])[0].place
    start = end - len((steps or [last])[0].raw)
    raw = b"".join(step.raw for step in steps)
    return Stretch(segment, start, raw, seqs, chain, following)


def is_changed(raw: bytes) -> bool:
    """Return whether the last line is one that was whole once: it ends as a line does, and no power
    cut left zeros in it.
    """
    return raw.endswith(b"\n") and not raw.endswith(b"~\n") and b"\0" not in raw


def _seals(record: Record, steps: list[Step]) -> bool:
    torn = b"".join(step.raw for step in steps)
    return record.kind == "seal" and record.fields.get("sha") == sha256(torn)


# -- what stood there ------------------------------------------------------------------------------


def restored(
    stretch: Stretch, texts: Texts, others: dict[int, list[bytes]]
) -> tuple[bytes, str] | None:
    """Return the lines that stood there, proven by the chain before and behind them, and how they
    were found: nothing, where lines were put in between; in another copy of the journal; by the
    text of the entry's own file; by a flipped bit. None where they cannot be had.
    """
    if _is_proven(stretch, []):
        return b"", "lines that were put in between"
    lines = _from_others(stretch, others)
    if lines is not None:
        return b"".join(lines), "from the other copy"
    if len(stretch.seqs) != 1:
        return None
    for raw, how in (*_with_texts(stretch, texts), *_flipped(stretch)):
        if _is_proven(stretch, [raw]):
            return raw, how
    return None


def _is_proven(stretch: Stretch, lines: list[bytes]) -> bool:
    """Return whether these lines are what was written: each follows from the one before, has its
    number and its text, and the line behind the stretch follows from the last.
    """
    chain = stretch.before
    if len(lines) != len(stretch.seqs):
        return False
    for seq, raw in zip(stretch.seqs, lines, strict=True):
        record = decode(raw) if raw.endswith(b"\n") else None
        own, head, text = split(raw)
        if (
            record is None
            or record.seq != seq
            or link(chain, head) != own
            or not has_text(record, raw)
            or (record.text is not None and quoted(record.text) != text)
            or raw != assemble(own, head, text)
        ):
            return False
        chain = own
    if not stretch.following:
        return bool(lines) and chain == chain_of(stretch.raw)
    return follows(stretch.following, chain)


def _from_others(stretch: Stretch, others: dict[int, list[bytes]]) -> list[bytes] | None:
    """Return the lines of another copy that follow from the line before the stretch."""
    lines: list[bytes] = []
    chain = stretch.before
    for seq in stretch.seqs:
        raw = next((raw for raw in others.get(seq, ()) if follows(raw, chain)), None)
        if raw is None:
            return None
        lines.append(raw)
        chain = chain_of(raw)
    return lines if lines and _is_proven(stretch, lines) else None


def _with_texts(stretch: Stretch, texts: Texts) -> Iterator[tuple[bytes, str]]:
    """Yield the line with the text of the entry's file, and with its chain made anew."""
    _, head, text = split(stretch.raw)
    chain = link(stretch.before, head)
    yield assemble(chain, head, text), "its chain follows from its bytes"
    record = decode_head(stretch.raw)
    if record is not None and record.sha is not None:
        for text_file in texts(record):
            if sha256(text_file) == record.sha:
                line = assemble(chain, head, quoted(text_file.decode()))
                yield line, "by the text of its file"


def _flipped(stretch: Stretch) -> Iterator[tuple[bytes, str]]:
    """Yield the line with one bit changed, wherever the chain then proves it."""
    raw = stretch.raw
    for changed in _bits(raw, 0, min(len(raw), _TRIED)):
        if follows(changed, stretch.before):
            yield changed, _BIT
    record, text = decode_head(raw), split(raw)[2]
    if record is None or record.sha is None or len(text) > _TRIED:
        return
    for changed in _bits(raw, len(raw) - len(text) - 2, len(raw) - 2):
        decoded = decode(changed)
        if decoded is not None and has_text(decoded):
            yield changed, _BIT


def _bits(raw: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes with each of these bits changed in turn."""
    for index in range(start, end):
        for bit in range(8):
            yield raw[:index] + bytes([raw[index] ^ 1 << bit]) + raw[index + 1 :]
