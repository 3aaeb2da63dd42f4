"""What a tree that waits asks of a person: the lines that say so, and the answers that are typed
while a verb waits. Called by the verbs that give work and that answer.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.live import NOT_DONE, WAITING, WATCH_EVERY, Interrupted, run_and_show
from orchestrator.reports.rows import find_run
from orchestrator.waiting.answers import answer
from orchestrator.waiting.questions import Question, answer_line, questions_of
from synapse.cli.frame.call import Call
from synapse.cli.frame.show import one_line

if TYPE_CHECKING:
    from orchestrator.runs.task import Result
    from orchestrator.supervisor import Supervisor

Again = Callable[[str], Coroutine[Any, Any, "Result"]]


def waiting_lines(call: Call, runs: Iterable[str]) -> list[str]:
    """Return what these runs wait for, each question with the line that answers it."""
    source = source_of(call)
    return [
        line
        for run in runs
        for question in questions_of(source, find_run(source, run))
        for line in (
            one_line(f"{question.runs[0]['run']} waits for you: {question.text}"),
            f"    {answer_line(question.entry.id)}",
        )
    ]


def ended(call: Call, results: Iterable[Result], done: bool) -> int:
    """Return the exit code of work that came to these results; where it waits for a person, say
    for what."""
    waiting = [result.run for result in results if result.waiting]
    if waiting:
        call.note("\n".join(waiting_lines(call, waiting)))
        return WAITING
    return 0 if done else NOT_DONE


async def go_on(supervisor: Supervisor, run: str) -> Result:
    """Go on with the tree of a run that waits, where it is answered, and with the team that it
    belongs to; return what came of it."""
    from orchestrator.team import go_on as team_goes_on

    async with supervisor:
        known = supervisor.run_store.known
        began = await supervisor.memory_thread(known, run)
        await supervisor.recover(began.root)
        result = await supervisor.result(began)
        if result.waiting:
            return result
        root = await supervisor.memory_thread(known, began.root)
        report = await team_goes_on(supervisor, root)
        return result if report is None else report.result(root.id)


def to_the_end(call: Call, supervisor: Supervisor, result: Result, again: Again) -> Result:
    """Wait for an answer as often as the run needs one, from standard input or from elsewhere, and
    return what came of it in the end. `again` goes on with it."""
    lines = Lines()
    while result.waiting:
        until_answered(call, result.run, lines)
        quiet = call.args.quiet or call.json
        result = run_and_show(supervisor, again(result.run), quiet=quiet)
    return result


def until_answered(call: Call, run: str, lines: Lines) -> None:
    """Return once a question of the run is answered. Interrupted, say that it goes on waiting."""
    try:
        _answered(call, run, lines)
    except KeyboardInterrupt:
        said = ["it goes on waiting", *waiting_lines(call, [run])]
        raise Interrupted("\n".join(said), left=[run]) from None


def _answered(call: Call, run: str, lines: Lines) -> None:
    """Return once a question of the run is answered: here, line by line, or by somebody else."""
    source, shown = source_of(call), ""
    while questions := _questions(call, run):
        first = questions[0].entry.id
        if first != shown:
            call.note(_question(questions))
            shown = first
        if (line := lines.next(WATCH_EVERY)) and line.strip():
            answer(call.memory, source, first, line.strip())
            return


def _questions(call: Call, run: str) -> list[Question]:
    source = source_of(call)
    return questions_of(source, find_run(source, run))


def _question(questions: list[Question]) -> str:
    more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
    first = questions[0]
    asks = f"{first.agent} waits for you{more}: {first.text}"
    return f"{one_line(asks)}\n{HOW}"


HOW = "Type the answer in a line, or give it elsewhere: `orchestrator inbox` shows how."


class Lines:
    """The lines of standard input, as they come; none once it has ended."""

    def __init__(self) -> None:
        self.rest = b""
        self.open = sys.stdin is not None and not sys.stdin.closed

    def next(self, seconds: float) -> str | None:
        """Return the next line, where it comes within the time."""
        if b"\n" not in self.rest and self._readable(seconds):
            read = os.read(sys.stdin.fileno(), 65_536)
            self.open = bool(read)
            self.rest += read or b"\n" * bool(self.rest)
        line, newline, rest = self.rest.partition(b"\n")
        if not newline:
            return None
        self.rest = rest
        return line.decode(errors="replace")

    def _readable(self, seconds: float) -> bool:
        """Wait for input, or for the time where there will be none any more."""
        files = [sys.stdin.fileno()] if self.open else []
        return bool(select.select(files, [], [], seconds)[0])
