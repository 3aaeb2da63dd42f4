"""The ledger of the Brain Suite: what happened in a run, one event a line. Every figure is a
function of these lines.

A ledger is JSON lines, gzipped where its name ends in `.gz`. It holds any number of runs, one after
another; each begins with `begin` and ends with `finish`, and nothing of another run stands between.
A line holds no wall time, process, path or random id: the same scenario, arm, seed and cell give
the same bytes. Every line has `kind`, and `t`, the virtual milliseconds since the run began; lines
of a run are in the order of `t`.

What is recorded is seen at the edges of the product, never inside it: the prompts that the engine
was given, the replies that it gave, the calls of tools, the records of the memory's log, the
supervisor's own token ledger, and what the environment judged. Tokens are counted in `encoding` of
the line `begin`.

A *version* of a fact is written `nav_fix@0`: the fact, and the how manieth value that it had. A
value that was never true is `nav_fix@?`. A *segment* is `[label, tokens, first]`, as the token
ledger of the orchestrator has it (labels: orchestrator.engines.protocol.LABELS); `first` is 1 where
these tokens are sent for the first time in their run.

begin    format, scenario, digest (of the scenario's file), arm, seed, cell (the parameters that
         were set: a mapping), encoding, counting (exact, bound, estimate), gated (whether this arm
         is the one that has to pass), roster [{id, role, plays}], tasks [{id, agent, needs: [fact],
         acts, makes, hop}], facts [fact]; engine (of a real model's runs alone); prices {model:
         {input, cached, written, output (dollars per million tokens), lifetime (of a cache's entry,
         seconds), least (tokens that a cache takes), source}}, the first of which is `usd`;
         `dollars` says how. `hop` is a task's place in a chain
fact     fact, version, value, known: a value becomes true; `known`: the memory held it before the
run began
spawn    run, agent, role, parent (a run or null), task (of the scenario, or null), tools [name],
         budget (tokens that were planned for the view), view_tokens (of the view and its frame),
         ids [entries shown], live_entries, live_tokens (all live entries of the memory, each in its
         natural form), needs [fact], available [needed facts whose value of now stands in a live
         entry that the agent may see]
prompt   run, agent, step, segments; ids [entries told of for the first time], shows {label:
         [version]} (what of the facts stands in the part of the prompt that is new, by the label of
         that part); disputed [version], where there are any: those of them that an entry says of
         which it is said to be in dispute; texts [[label, first, sha256]], where they are kept: see
         `texts`. A call that came to nothing has no line; else each prompt is followed by its
         completion, of the same run and step
completion  run, agent, step, segments [[label, tokens]], stop, calls [{call, tool}], interrupted
         (the prompt's work was thrown away, because news came: all of its tokens count as spent on
         waking), cost in dollars by the first of `prices`, cached and written (the tokens of the
         prompt that were read from the cache, and written to it); of a real model: cost and usage
         as its provider reports them, and model; texts [[label, sha256]], where they are kept
tool_call    run, agent, call, tool
tool_result  run, agent, call, tool, label, tokens, failed
write    id, agent, run (or null), namespace, priority, topic, supersedes [id], tokens (of its
         natural form), facts [version], for [agents that are to be woken by it: by the scenario's
         subscriptions, not the product's routing], source (`agent`, `writeback`: by the supervisor
         when a run ended, `scenario`: from outside)
read     run, agent, call, ids, facts [version]
search   run, agent, call, query, ids, facts [version]
claim    run, agent, call, work, got (bool)
wake_enqueued  id, agent, run: put in the inbox of a live session
wake_rendered  id, agent, run, via (`wake`: told while it ran; `view`: at the start of a session;
         `capsule`: found by its own search), the first time that the text of an entry with a `for`
         stands in a prompt of that agent
duplicate_wake id, agent, run: the same entry once more in one conversation, by `wake` or `view`
relay    agent (for whom), read (tokens), wrote (tokens), cached (of those read, what it had read
         before), kept [version], lost [version], changed [version]: a manager or lead passed on
         what it knew
discovery  run, agent, fact, began, tokens (of its observations), turns, known (the value stood,
         before it began, in a live entry that the agent may see), concurrent (another agent was
         finding it out already, and had not written it), stale (the memory held an older value
         only); t is when it ended
answer   id, agent, fact, version, authority (of its author, as the scenario has it): an entry by
         one of two who decide on a fact, each otherwise
action   run, agent, task, fact, used (version, or null where nothing was used), ok (it was the
         value of now), stale (it was an older one), asserted (a value was used, right or wrong),
         hop; judged by the environment
consolidate  night, date (the local one that it is for), live_before, live_after, tokens_before,
         tokens_after, archived, tokens (that it took itself)
probe    name, value (number, or mapping of numbers): something measured outside of any agent, as
the scenario says
poison   id (or null), way (null for honest ones), stored, shown (in a prompt), quoted (it stood in
         a quotation wherever it stood), acted (its value was used), legit (it is an honest one),
         blocked (it was kept out)
crash    run, agent;  resume  run, agent, epoch, lost (acknowledged writes that are missing),
         repeated_tokens, tokens
end      run, agent, status, turns
verdict  task, agent, run, ok, why: whether a task of the scenario was done right; one per task,
         also for those that were never begun
finish   elapsed (ms), tasks, ok (of them), lost_results (results that nobody was told of and no
entry holds)
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from scenarios.data.faults import fault
from synapse.system.json import dumps

FORMAT = "brain-suite/ledger-v1"
KINDS = (
    "begin", "fact", "spawn", "prompt", "completion", "tool_call", "tool_result", "write", "read",
    "search", "claim",
    "wake_enqueued", "wake_rendered", "duplicate_wake", "relay", "discovery", "answer", "action",
    "consolidate",
    "probe", "poison", "crash", "resume", "end", "verdict", "finish",
)  # fmt: skip

Event = Mapping[str, Any]
# How much a gzipped file may unpack to: so many times its bytes, any that is small, none that is
# larger than this. Ours unpack to 5 to 40 times their bytes.
RATIO, SMALL, MOST = 200, 16 << 20, 1 << 30


class Run:
    """All events of one run, in their order, by kind too."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self._of: dict[str, list[Event]] = {}
        for event in events:
            self._of.setdefault(event["kind"], []).append(event)

    @property
    def begin(self) -> Event:
        return self.events[0]

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Scenario, arm, cell and seed: what tells runs apart. Runs that differ in the arm alone
        are a pair.
        """
        begin = self.begin
        return begin["scenario"], begin["arm"], cell_name(begin["cell"]), begin["seed"]

    def of(self, *kinds: str) -> Sequence[Event]:
        """Return the events of these kinds, in their order."""
        if len(kinds) == 1:
            return self._of.get(kinds[0], ())
        return [event for event in self.events if event["kind"] in kinds]


class BrokenLedger(Exception):
    """The lines are no ledger; says where and why."""


def cell_name(cell: Mapping[str, Any]) -> str:
    """Return the parameters in one word: `n=20,overlap=0.5`; empty for those of the scenario."""
    return ",".join(f"{name}={cell[name]}" for name in sorted(cell))


def dump(event: Event) -> str:
    return dumps(event) + "\n"


def lines_of(run: Run) -> Iterator[str]:
    """Return the lines of a run."""
    return map(dump, run.events)


def write(path: str, lines: Iterable[str]) -> None:
    """Write the lines into a file. The bytes depend on the lines alone, gzipped or not."""
    if not path.endswith(".gz"):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
        return
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        for line in lines:
            packed.write(line.encode())


def lines(path: str) -> Iterator[str]:
    """Yield the lines of a ledger's file, one after another; BrokenLedger where it cannot be
    unpacked.
    """
    try:
        if path.endswith(".gz"):
            yield from unpacked(path)
            return
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise BrokenLedger(f"{path}: {fault(error)}") from error


def unpacked(path: str) -> Iterator[str]:
    """Yield the lines of a gzipped file, piece by piece, as far as `MOST` and `RATIO` allow;
    BrokenLedger for more: a few kilobytes can be made that unpack to more than any memory holds.
    """
    with gzip.open(path) as file:
        bounded = io.BufferedReader(_Bounded(file, path), 1 << 20)
        yield from io.TextIOWrapper(bounded, encoding="utf-8", newline="\n")


class _Bounded(io.RawIOBase):
    """What a file unpacks to, until that is too much."""

    def __init__(self, file: gzip.GzipFile, path: str) -> None:
        self.file, self.path, self.size = file, path, 0
        self.packed = os.path.getsize(path)
        self.most = min(MOST, max(SMALL, self.packed * RATIO))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self.file.read(len(buffer))
        self.size += len(piece)
        if self.size > self.most:
            raise BrokenLedger(
                f"{self.path}: {self.packed} bytes that unpack to more than {self.most}; at most"
                f" {RATIO} times its bytes are read, and {MOST >> 20} MiB: unpack it by hand"
                " if it is yours"
            )
        buffer[: len(piece)] = piece
        return len(piece)


def read(path: str) -> list[Run]:
    """Return the runs of a ledger."""
    return list(runs(lines(path)))


def runs(lines: Iterable[str]) -> Iterator[Run]:
    """Return the runs that these lines hold; BrokenLedger where they do not begin, end or follow as
    they should.
    """
    return _runs(_event(number, line) for number, line in enumerate(lines, 1))


def checked(run: Run) -> Run:
    """Return this run; BrokenLedger where its lines would be none."""
    (runs_found,) = _runs(_known(number, event) for number, event in enumerate(run.events, 1))
    return runs_found


def _runs(each: Iterable[Event]) -> Iterator[Run]:
    events: list[Event] = []
    for number, event in enumerate(each, 1):
        if (event["kind"] == "begin") == bool(events):
            raise BrokenLedger(
                f"line {number}: a {event['kind']}"
                f" {'within a run' if events else 'before any begin'}"
            )
        if events and event["t"] < events[-1]["t"]:
            raise BrokenLedger(f"line {number}: it is earlier than the line before")
        events.append(event)
        if event["kind"] == "finish":
            yield Run(events)
            events = []
    if events:
        raise BrokenLedger(f"the last run, of {events[0]['arm']}, has no finish")


def _event(number: int, line: str) -> Event:
    try:
        return _known(number, json.loads(line))
    except ValueError as error:
        raise BrokenLedger(f"line {number}: {fault(error)}") from error


def _known(number: int, event: Event) -> Event:
    try:
        if event["kind"] not in KINDS or not isinstance(event["t"], int):
            raise BrokenLedger(f"line {number}: {event['kind']!r} is no kind of event")
        if event["kind"] == "begin" and event["format"] != FORMAT:
            raise BrokenLedger(f"line {number}: the format is {event['format']}, not {FORMAT}")
    except (KeyError, TypeError) as error:
        raise BrokenLedger(f"line {number}: {fault(error)}") from error
    return event


def digest(lines: Iterable[str]) -> str:
    """Return the sha256 of a ledger's lines."""
    hasher = sha256()
    for line in lines:
        hasher.update(line.encode())
    return hasher.hexdigest()
