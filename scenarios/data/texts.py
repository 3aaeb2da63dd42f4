"""The texts behind a ledger's tokens, by their sha256: kept where somebody asks for them
(`--prompts`), so that every token of every call can be counted again by whoever has the two files.

`texts.jsonl.gz` holds each distinct text once, a line of `{"sha256": ..., "text": ...}`. A prompt
of the ledger refers to those that came to its run's conversation with it, `[label, first, sha256]`:
it consists of these and of all that the run's prompts before it referred to, which are sent again.
A completion refers to what was said, `[label, sha256]`. A fourth part is the sha256 of a text whose
tokens are taken off: `guide` is the system text less the same without what it says of the memory.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter as Sums
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from orchestrator.spend.counting import Counter
from orchestrator.spend.segments import Piece
from scenarios.data import ledger
from scenarios.data.faults import fault
from scenarios.data.ledger import Run

FILE = "texts.jsonl.gz"
MOST = 20  # differences that are named one by one
Reference = Sequence[Any]


class Texts:
    """The texts of one run, while it is played."""

    def __init__(self) -> None:
        self.by_digest: dict[str, str] = {}

    def keep(self, text: str) -> str:
        """Keep a text, and return by what it is known."""
        name = digest(text)
        self.by_digest[name] = text
        return name

    def sent(self, pieces: Iterable[Piece]) -> list[Reference]:
        return [
            [piece.label, int(piece.first), self.keep(piece.text)] for piece in pieces if piece.text
        ]

    def said(self, pieces: Iterable[Piece]) -> list[Reference]:
        return [[piece.label, self.keep(piece.text)] for piece in pieces if piece.text]

    def system(self, whole: str, bare: str) -> list[Reference]:
        """Return the references of a system text and of the guide in it."""
        names = self.keep(whole), self.keep(bare)
        return [["system", 1, names[1]], ["guide", 1, *names]] if whole else []


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# -- The file --------------------------------------------------------------------------


@contextmanager
def keeping(folder: str) -> Iterator[Callable[[Mapping[str, str]], None]]:
    """Give what adds texts to the file of a folder, each once; it gets its name when it is
    whole.
    """
    path, written = os.path.join(folder, FILE), set[str]()
    try:
        with open(f"{path}.new", "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:

            def add(texts: Mapping[str, str]) -> None:
                for name in (name for name in texts if name not in written):
                    line = json.dumps({"sha256": name, "text": texts[name]}, separators=(",", ":"))
                    packed.write(f"{line}\n".encode())
                    written.add(name)

            yield add
        os.replace(f"{path}.new", path)
    except BaseException:
        os.remove(f"{path}.new")
        raise


def forget(folder: str) -> None:
    """Remove the texts of an earlier ledger in this folder."""
    if os.path.exists(path := os.path.join(folder, FILE)):
        os.remove(path)


def beside(path: str) -> str:
    """Return where the texts of a ledger lie."""
    return os.path.join(os.path.dirname(path), FILE)


def _read(path: str) -> Iterator[tuple[str, str]]:
    try:
        for line in ledger.unpacked(path):
            row = json.loads(line)
            yield row["sha256"], row["text"]
    except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
        raise ledger.BrokenLedger(f"{path}: {fault(error)}") from error


# -- Counted again ---------------------------------------------------------------------


class Recount(NamedTuple):
    """What came of counting again. `missing` says why nothing was counted; empty where it was."""

    texts: int = 0
    segments: int = 0
    differences: Sequence[str] = ()
    missing: str = ""


def recount(path: str) -> Recount | None:
    """Count every segment of a ledger again from the texts beside it; None where its runs were
    played without keeping them."""
    runs = ledger.runs(ledger.lines(path))
    referring = [run for run in runs if any("texts" in event for event in run.of("prompt"))]
    if not referring:
        return None
    if not os.path.exists(beside(path)):
        return Recount(missing=f"nothing lies at {beside(path)}")
    differences: list[str] = []
    counts: dict[str, int] = {}
    counter = Counter(encoding=referring[0].begin["encoding"])
    for name, text in _read(beside(path)):
        if digest(text) != name:
            differences.append(
                f"texts: {name[:16]}: the text has another sha256, {digest(text)[:16]}"
            )
        counts[name] = counter.count(text)
    if counter.counting != "exact":
        return Recount(missing="no tokenizer can be loaded")
    segments = 0
    for run in referring:
        for checked, different in _recounted(run, counts):
            segments += checked
            differences += different
    return Recount(len(counts), segments, differences)


def _recounted(run: Run, counts: Mapping[str, int]) -> Iterator[tuple[int, list[str]]]:
    """Return, for each call of a run, how many segments were counted, and which differ."""
    labels: dict[str, list[Reference]] = {}
    for event in run.of("prompt", "completion"):
        references = event.get("texts", ())
        lost = [
            name
            for reference in references
            for name in reference[2 if event["kind"] == "prompt" else 1 :]
            if name not in counts
        ]
        location = (
            f"{' '.join(map(str, run.key)).replace('  ', ' ')}:"
            f" {event['run']}/{event['step']} {event['kind']}"
        )
        if lost:
            yield (0, [f"{location}: no text has the sha256 {name[:16]}" for name in lost])
            continue
        if event["kind"] == "prompt":
            recounted = [[label, 0, *names] for label, _, *names in labels.get(event["run"], ())]
            sums = _sums([*recounted, *references], counts)
            labels.setdefault(event["run"], []).extend(references)
        else:
            sums = _sums([[label, 1, name] for label, name in references], counts)
        billed = {
            (label, int(not first or first[0])): tokens
            for label, tokens, *first in event["segments"]
        }
        keys = dict.fromkeys((*billed, *sums))
        yield (
            len(keys),
            [
                f"{location}: {label}{'' if first else ', sent again'}:"
                f" {billed.get((label, first), 0):,} tokens in the ledger,"
                f" {sums.get((label, first), 0):,} by its texts"
                for label, first in keys
                if billed.get((label, first), 0) != sums.get((label, first), 0)
            ],
        )


def _sums(references: Iterable[Reference], counts: Mapping[str, int]) -> dict[tuple[str, int], int]:
    sums: Sums[tuple[str, int]] = Sums()
    for label, first, name, *less in references:
        sums[label, first] += counts[name] - sum(counts[amount] for amount in less)
    return {key: tokens for key, tokens in sums.items() if tokens}
