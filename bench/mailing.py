"""Mail: polling, the inbox, lists of threads, sending, at as many messages as the workspace has
entries.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import synapse
from bench.figures import Beside, Goal, Row, Timing, once, timed
from bench.ground import Ground, declared_lines, fill, team
from bench.limits import Raw
from bench.workload import DAY, DAYS, READER, WORDS, WRITERS, bodies
from bench.writing import BLOCK, BLOCKS, CREW, EACH, together
from synapse import Mail
from synapse.authority import admit
from synapse.log.commit import entry_record
from synapse.model import kinds
from synapse.model.entry import Draft, addressees
from synapse.model.records import Record
from synapse.model.settings import Settings

IN_A_THREAD = 100
POLLED, LISTED = Goal("p50", 0.2e-3), Goal("p50", 1e-3)
SENT = (Goal("above", 1e-3),)
TOGETHER = (Goal("failures", 0), Goal("doubled", 0), Goal("lost", 0))
SMALL = {10_000: (Goal("bytes", 10e6),)}
URGENT = (
    "info",
    "normal",
    "normal",
    "normal",
    "normal",
    "normal",
    "normal",
    "action",
    "action",
    "urgent",
)


def mailing(ground: Ground) -> Iterator[Row]:
    """A workspace of its own, with nothing but mail in it."""
    root = f"{ground.root}-mail"
    synapse.init(root).close()
    fill(root, _lines(ground), files=ground.files)
    with synapse.open(root, clock=lambda: ground.now) as mem:
        reader, never = Mail(mem.as_agent(READER)), Mail(mem.as_agent(WRITERS[-1]))
        first = reader.poll()
        yield Row(
            "poll: by one who never read anything",
            first,
            timed(never.poll).values(),
            None,
            (POLLED,),
        )
        reader.inbox(mark=True)
        sender = Mail(mem.as_agent(WRITERS[0]))
        for place in range(100):
            sender.send(("all", READER)[place % 2], f"news {place}")
        if reader.poll() != 100:
            raise AssertionError(f"100 messages are unread, and {reader.poll()} were counted")
        yield Row("poll: 100 new", ground.size, timed(reader.poll).values(), None, (POLLED,))
        send = _sender(mem)
        yield Row(
            "poll, after a send", ground.size, timed(reader.poll, before=send, calls=200).values()
        )
        yield Row(
            "inbox: 100 new", ground.size, timed(lambda: reader.inbox(100), calls=100).values()
        )
        yield Row(
            "threads: the 50 liveliest",
            ground.size,
            timed(reader.threads).values(),
            None,
            (LISTED,),
        )
        thread = max(reader.threads(limit=300), key=lambda found: found.total).id
        yield Row(
            "a thread's last 100",
            ground.size,
            timed(lambda: reader.history(thread), calls=100).values(),
        )
        with mem.store.snapshot(words=True):
            pass  # full text is there to its end
        size = float(os.path.getsize(os.path.join(root, ".index", "brain.db")))
        yield Row(
            "index of mail, full text too",
            ground.size,
            {"bytes": size},
            None,
            SMALL.get(ground.size, ()),
        )
    yield from sending(root, ground)


def sending(root: str, ground: Ground) -> Iterator[Row]:
    """One sender, in blocks between those of a synced line; then eight at once."""
    raw = Raw(os.path.join(os.path.dirname(root), f"mail-raw-{ground.size}"))
    with synapse.open(root) as mem:
        acts: tuple[Callable[[], object], ...] = (raw.line, _sender(mem))
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(BLOCKS):
            for act, taken in zip(acts, seconds, strict=True):
                taken += [once(act) for _ in range(BLOCK)]
    raw.close()
    line, own = map(Timing, seconds)
    values = own.values() | {"above": max(0.0, own.p50 - line.p50)}
    yield Row("send, durable", ground.size, values, Beside("synced line", line.p50), SENT)
    with synapse.open(root) as mem:
        before = Mail(mem.as_agent(READER)).poll()
        timing, rate, answers = together([("send", root, WRITERS[place]) for place in range(CREW)])
        lost = before + CREW * EACH - Mail(mem.as_agent(READER)).poll()
    ids = [id for answer in answers for id in answer["ids"]]
    errors = [error for answer in answers for error in answer["errors"]]
    values = {"per_s": rate} | timing.values("p95")
    values |= {
        "failures": float(len(errors)),
        "doubled": float(len(ids) - len({*ids})),
        "lost": float(lost),
    }
    yield Row(f"{CREW} senders", ground.size, values, None, TOGETHER, errors[0] if errors else "")


def _sender(mem: synapse.Memory) -> Callable[[], object]:
    mail, texts, dice = Mail(mem.as_agent(WRITERS[0])), bodies(256), random.Random(3)
    return lambda: mail.send(
        ("all", READER)[dice.random() < 0.5], dice.choice(texts), subject="news"
    )


def _lines(ground: Ground) -> Iterator[tuple[int, Record]]:
    """So many messages over thirty days; each of the threads goes on for its part of them."""
    dice, pool, settings = random.Random(17), bodies(), Settings()
    known = {agent.id: agent for agent in team()}
    yield from declared_lines(known.values(), ground.now - DAYS * DAY - 1)
    names = [*known]
    threads = [
        kinds.new_thread(dice.randbytes(16)) for _ in range(max(1, ground.size // IN_A_THREAD))
    ]
    for place in range(ground.size):
        at = ground.now - DAYS * DAY * (ground.size - place) // ground.size
        part = dice.randrange(
            max(0, place * len(threads) // ground.size - 10),
            place * len(threads) // ground.size + 1,
        )
        draft = _message(dice, threads[part], dice.choice(pool), dice.choice(names[1:]))
        entry = admit(draft, known[draft.author], settings)
        record = Record.new("entry", draft.author, {}, entry)
        yield at, entry_record(record, at, entry.id)


def _message(dice: random.Random, thread: str, body: str, author: str) -> Draft:
    chance, urgency = dice.random(), dice.choice(URGENT)
    to = (
        "all"
        if chance < 0.4
        else "team:alpha"
        if chance < 0.6
        else f"agent:{dice.choice((READER, *WRITERS))}"
    )
    more = kinds.More(thread=thread, subject=" ".join(dice.choices(WORDS, k=3)), urgency=urgency)
    return Draft(
        body,
        kinds.MAIL,
        author,
        kinds.URGENCY[urgency],
        addressees=addressees(to),
        kind=kinds.MESSAGE,
        more=more,
        id=kinds.new_id(kinds.MESSAGE, dice.randbytes(6)),
    )
