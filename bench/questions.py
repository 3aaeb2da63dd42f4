"""Whole questions to full text, over messages in threads, facts and entries together.

Words are made up and as common as words are (Zipf): a question shares a few with one item, and has
some of its own.
"""

from __future__ import annotations

import random
import time
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import synapse
from bench.figures import Beside, Goal, Row, Timing
from bench.ground import Ground, declared_lines, fill, team
from bench.workload import DAY, DAYS, READER, WORDS, WRITERS
from synapse.agent_memory import AgentMemory
from synapse.authority import admit
from synapse.log.commit import entry_record
from synapse.model import kinds
from synapse.model.entry import Draft, addressees
from synapse.model.records import Record
from synapse.model.settings import Settings

VOCABULARY = 30_000
SYLLABLES = (
    "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo yu za bre cli dro fla gri"
    " plo sta tru"
).split()
ASKED, WARM = 600, 20
SHARED = (3, 6)  # words of a question that stand in one item
LONG = (6, 14)  # words of a question
GOALS = {20_000: (5e-3, 15e-3), 200_000: (10e-3, 40e-3)}
IN_A_THREAD = 100
# words of each
SAID = {kinds.MESSAGE: (5, 45), kinds.FACT: (6, 20), kinds.ENTRY: (30, 90)}


class Speech(NamedTuple):
    """A vocabulary, the commonest word first, and how common each word and all before it are."""

    words: Sequence[str]
    shares: Sequence[float]

    def say(self, dice: random.Random, count: int) -> list[str]:
        total = self.shares[-1]
        return [self.words[bisect(self.shares, dice.random() * total)] for _ in range(count)]


class Question(NamedTuple):
    """What is asked, and the item that it shares words with."""

    text: str
    item: str


def speech(dice: random.Random) -> Speech:
    """The workload's own words are the commonest; made-up ones follow."""
    words = dict.fromkeys(WORDS)
    while len(words) < VOCABULARY:
        words["".join(dice.choices(SYLLABLES, k=dice.randint(2, 4)))] = None
    return Speech((*words,), (*accumulate(1 / (place + 3) for place in range(len(words))),))


def asking(ground: Ground) -> Iterator[Row]:
    """A workspace of its own: half of it messages, the rest facts and some entries."""
    root = f"{ground.root}-questions"
    dice = random.Random(23)
    spoken = speech(dice)
    synapse.init(root).close()
    questions: list[Question] = []
    fill(root, _lines(ground, spoken, questions), files=False)
    with synapse.open(root, clock=lambda: ground.now) as mem:
        agent_memory = mem.as_agent(READER)
        dice.shuffle(questions)
        # the index of words is filled on the way
        _asked(agent_memory, questions[:WARM])
        wall, cpu, found = _asked(agent_memory, questions[WARM:ASKED])
    p50, p99 = GOALS.get(ground.size, (None, None))
    goals = (Goal("p50", p50), Goal("p99", p99)) if p50 and p99 else ()
    beside = Beside("in the process's own time", cpu.p50)
    note = f"found by {found:.0%} of the questions"
    yield Row("a whole question", ground.size, wall.values(), beside, goals, note)
    yield Row("a whole question, the process's own time", ground.size, cpu.values(), None, goals)


def _asked(
    agent_memory: AgentMemory, questions: Sequence[Question]
) -> tuple[Timing, Timing, float]:
    """What each took by the clock and in the process's own time, asked once, and how many found
    their item.
    """
    wall, cpu, found = [], [], 0
    for question in questions:
        start, spent = time.perf_counter(), time.process_time()
        hits = agent_memory.search(question.text)
        cpu.append(time.process_time() - spent)
        wall.append(time.perf_counter() - start)
        found += question.item in {hit.entry.id for hit in hits}
    return Timing(wall), Timing(cpu), found / len(questions)


def _lines(
    ground: Ground, spoken: Speech, questions: list[Question]
) -> Iterator[tuple[int, Record]]:
    """So many items over thirty days, and questions about some of them."""
    dice, settings = random.Random(29), Settings()
    known = {agent.id: agent for agent in team()}
    yield from declared_lines(known.values(), ground.now - DAYS * DAY - 1)
    threads = [
        kinds.new_thread(dice.randbytes(16)) for _ in range(max(1, ground.size // 2 // IN_A_THREAD))
    ]
    every = max(1, ground.size // ASKED)
    for place in range(ground.size):
        at = ground.now - DAYS * DAY * (ground.size - place) // ground.size
        kind = kinds.MESSAGE if place % 2 else kinds.ENTRY if place % 10 == 0 else kinds.FACT
        said = spoken.say(dice, dice.randint(*SAID[kind]))
        thread = threads[
            min(place * len(threads) // ground.size + dice.randint(0, 9), len(threads) - 1)
        ]
        entry = admit(_draft(dice, kind, " ".join(said), thread), known[WRITERS[0]], settings)
        id = entry.id or f"syn-bench-{place}"
        if place % every == 0:
            questions.append(Question(_question(dice, spoken, said), id))
        yield (at, entry_record(Record.new("entry", entry.author, {}, entry), at, id))


def _draft(dice: random.Random, kind: str, body: str, thread: str) -> Draft:
    author = WRITERS[0]
    if kind == kinds.ENTRY:
        return Draft(body, "api/endpoints", author)
    own = (
        kinds.More(thread=thread, urgency="normal")
        if kind == kinds.MESSAGE
        else kinds.More(importance=1.0)
    )
    place = kinds.MAIL if kind == kinds.MESSAGE else "global"
    to = addressees("all" if dice.random() < 0.8 else f"agent:{dice.choice((READER, *WRITERS))}")
    return Draft(
        body,
        place,
        author,
        "info",
        addressees=to,
        kind=kind,
        more=own,
        id=kinds.new_id(kind, dice.randbytes(6)),
        ttl="never",
    )


def _question(dice: random.Random, spoken: Speech, said: Sequence[str]) -> str:
    count = dice.randint(*LONG)
    shared = dice.sample(said, min(dice.randint(*SHARED), len(said), count))
    words = shared + spoken.say(dice, count - len(shared))
    dice.shuffle(words)
    return " ".join(words)
