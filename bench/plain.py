"""`python -m bench plain FILE`: the search by words beside a plain FTS5 table of the same entries,
what each finds of the evidence for recorded questions, and what a question costs in CPU.

The table is what anybody writes in an afternoon: Porter's stems, every word of the question joined
by OR, bm25. Questions go to both in turn, in one process, so that figures are of pairs.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from scenarios.measure import retrieval
from scenarios.measure.statistics import interval

LIMIT = 10
_WORD = re.compile(r"\w+")


class Pair(NamedTuple):
    """One question: its kind, what share of the evidence the table and the search found, and the
    seconds of CPU that each took."""

    kind: str
    plain: float
    ours: float
    plain_cpu: float
    ours_cpu: float


class Plain:
    """A file with one FTS5 table."""

    def __init__(self, path: str, texts: Sequence[str]) -> None:
        self.db = sqlite3.connect(path)
        self.db.execute("create virtual table said using fts5(text, tokenize='porter unicode61')")
        self.db.executemany("insert into said(rowid, text) values(?, ?)", enumerate(texts))
        self.db.commit()

    def search(self, question: str, limit: int) -> list[tuple[int, str]]:
        """Return the places and texts that answer best."""
        words = dict.fromkeys(_WORD.findall(question.lower()))
        asked = " OR ".join(f'"{word}"' for word in words)
        return self.db.execute(
            "select rowid, text from said where said match ? order by rank limit ?", (asked, limit)
        ).fetchall()


def pairs(conversations: Sequence[retrieval.Conversation], place: str) -> Iterator[Pair]:
    """Yield both answers to every question, each conversation in its own workspace."""
    for number, conversation in enumerate(conversations):
        loaded = retrieval.load(os.path.join(place, str(number)), [conversation])
        turns = conversation.turns
        plain = Plain(os.path.join(place, f"{number}.db"), [turn.text for turn in turns])
        with loaded.mem:
            agent_memory = loaded.agent_memory
            agent_memory.search("the words are filled in")
            for question in conversation.questions:
                start = time.process_time()
                rows = plain.search(question.text, LIMIT)
                between = time.process_time()
                hits = agent_memory.search(question.text, limit=LIMIT)
                end = time.process_time()
                found = {loaded.turns[hit.id][1] for hit in hits}
                yield Pair(
                    question.category,
                    _share({turns[row].id for row, _ in rows}, question.evidence),
                    _share(found, question.evidence),
                    between - start,
                    end - between,
                )


def _share(found: set[str], wanted: frozenset[str]) -> float:
    return len(found & wanted) / len(wanted)


def table(answers: Sequence[Pair]) -> Iterator[str]:
    """Yield the figures for people: each kind of question, all of them, and the CPU."""
    kinds = defaultdict[str, list[Pair]](list)
    for pair in answers:
        kinds[pair.kind].append(pair)
    yield f"{'recall in the first ten':<30}{'plain':>8}{'ours':>8}   difference"
    for kind, group in (*sorted(kinds.items()), ("all", list(answers))):
        low = interval([pair.ours - pair.plain for pair in group])
        yield (
            f"{f'{kind} ({len(group)})':<30}{fmean(pair.plain for pair in group):8.3f}"
            f"{fmean(pair.ours for pair in group):8.3f}"
            f"   {low.value:+.3f} [{low.lo:+.3f}, {low.hi:+.3f}]"
        )
    plain = fmean(pair.plain_cpu for pair in answers) * 1_000
    ours = fmean(pair.ours_cpu for pair in answers) * 1_000
    yield (
        f"CPU of a question: plain {plain:.2f} ms, ours {ours:.2f} ms, {ours / plain:.1f}"
        " times as much"
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench plain", description=__doc__)
    parser.add_argument("files", metavar="FILE", nargs="+", help="conversations, as JSON")
    args = parser.parse_args(argv)
    conversations = [one for path in args.files for one in retrieval.read(path)]
    with tempfile.TemporaryDirectory(prefix="synapse-bench-") as place:
        for line in table(list(pairs(conversations, place))):
            print(line)
    return 0
