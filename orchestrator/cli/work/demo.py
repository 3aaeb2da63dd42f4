"""`orchestrator demo`: a team of three at work on one memory, told in the terminal as it happens,
then shown on its dashboard. Needs no key and no network.

This process knows of the agents what the memory tells it, and the person at the terminal answers
their question. `orchestrator.demo` has the team.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import one_line
from synapse.errors import StoreError, SynapseError

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.model.entry import Entry

WIDTH = 80
WITHIN = 60.0  # seconds in which the next thing has to happen
ANSWER_WITHIN = 90  # seconds that the person has
ANSWER = "No, show the name alone."
COLOURS = {"lead": "35", "eng-api": "36", "eng-web": "33", "you": "32"}
BOLD, DIM = "1", "2"
PROGRAM = "orchestrator.demo"
Ask = Callable[[], str]
Team = dict[str, "subprocess.Popen[str]"]


def demo_options(parser: Options) -> None:
    text = "a new folder for the workspace, which stays; else one that is removed"
    parser.add_argument("--dir", metavar="DIR", help=text)


def demo(call: Call) -> int:
    """Tell the story in a workspace of its own, and serve it where somebody can look at it."""
    kept = call.args.dir and os.path.abspath(os.path.expanduser(call.args.dir))
    if kept and os.path.isdir(kept) and os.listdir(kept):
        raise StoreError(f"{call.args.dir} is not empty; name a new folder")
    os.environ.pop("SYNAPSE_AGENT", None)  # the workspace is the demo's own
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    paper = Paper(terminal and not os.environ.get("NO_COLOR"))
    home = tempfile.mkdtemp(prefix="synapse-demo-")
    root = kept or os.path.join(home, "webshop")
    try:
        from orchestrator.demo import workspace

        with workspace(root) as memory:
            perform(memory, root, paper, partial(_typed if terminal else _none, paper))
            if kept:
                where = shlex.quote(call.args.dir)
                paper.line(f"\nAll of it stays: orchestrator --root {where} ps --all")
            if terminal:
                _serve(memory, root, paper)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _typed(paper: Paper) -> str:
    """Return what the person types; where that is nothing, what the demo says for them."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before is no answer
    print(f"{'':14}Your answer (Enter: {ANSWER}) ", end="", flush=True)
    if select.select([sys.stdin], [], [], ANSWER_WITHIN)[0]:
        return sys.stdin.readline().strip() or ANSWER
    paper.line("")
    paper.says("", f"({ANSWER_WITHIN} seconds are over: the demo answers for you)")
    return ANSWER


def _none(paper: Paper) -> str:
    """Return what the demo says where nobody is at a terminal."""
    paper.says("", "(nobody is at a terminal: the demo answers for you)")
    return ANSWER


# -- the team ----------------------------------------------------------------------------------


@contextmanager
def _team(root: str) -> Iterator[Team]:
    """Start a process for each agent. Each waits for a line before it begins."""
    from orchestrator.demo import TASKS

    env = {key: value for key, value in os.environ.items() if "SYNAPSE" not in key}
    team = {
        agent: subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM, root, agent],
            env=env,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is this process's, which ends them
        )
        for agent in TASKS
    }
    try:
        yield team
    finally:
        for process in team.values():
            process.kill()
            process.communicate()


def _begin(process: subprocess.Popen[str]) -> None:
    """Let an agent begin."""
    assert process.stdin is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except OSError:
        pass  # it is gone, which is noticed where it is waited for


def perform(memory: Memory, root: str, paper: Paper, ask: Ask) -> None:
    """Run the team, tell what happens, and let the person answer."""
    from orchestrator.demo import API, QUESTION, TASKS

    paper.heading("Three agents in three processes, with one memory between them")
    done = 0
    with _team(root) as team:
        for agent, task in TASKS.items():
            paper.says(agent, f"process {team[agent].pid}: {task}")
            if agent != API:
                _begin(team[agent])
        _await_work(memory, root, team)
        _begin(team[API])
        for entry in _news(memory, team):
            _tell(memory, root, entry, paper)
            if entry.body == QUESTION:
                _answer(memory, entry, ask(), paper)
            done += entry.body.startswith("Done: ")
            if done == len(TASKS):
                break
        for process in team.values():
            process.wait(WITHIN)
    _sum_up(memory, root, paper)


def _await_work(memory: Memory, root: str, team: Team) -> None:
    """Wait until the others are in the middle of their work: what eng-api writes wakes them."""
    from orchestrator.reports.rows import Source, find_runs, run_rows

    source, until = Source(memory.store, root), time.monotonic() + WITHIN
    while sum(row.turns > 0 for row in run_rows(source, find_runs(source))) < 1:
        _check(team, until)
        time.sleep(0.05)


def _news(memory: Memory, team: Team) -> Iterator[Entry]:
    """Yield what the agents write, in the order of the log."""
    from synapse.model.agents import OPERATOR

    me, cursor = memory.as_agent(OPERATOR), 0
    while True:
        until = time.monotonic() + WITHIN
        while not (events := list(me.follow(cursor, timeout=0.1))):
            _check(team, until)
        for event in events:
            cursor = event.cursor
            yield event.entry


def _check(team: Team, until: float) -> None:
    """Raise StoreError where an agent's process failed, or nothing happened for too long."""
    for agent, process in team.items():
        if process.poll():
            assert process.stderr is not None
            why = process.stderr.read().strip().rpartition("\n")[2]
            raise StoreError(f"{agent} ended with {process.returncode}: {why}")
    if time.monotonic() > until:
        raise StoreError(f"nothing happened for {WITHIN:.0f} seconds")


def _answer(memory: Memory, entry: Entry, answer: str, paper: Paper) -> None:
    """Tell the agent the answer; where the memory does not take it, what the demo says."""
    try:
        memory.tell(entry.author, answer, priority="important", re=entry.id)
    except SynapseError as error:
        paper.says("", f"(not taken: {error}; the demo answers for you)")
        memory.tell(entry.author, ANSWER, priority="important", re=entry.id)


# -- what is told ------------------------------------------------------------------------------


class Paper:
    """What is printed: 80 columns, in colour only where somebody looks."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def line(self, text: str) -> None:
        print(text, flush=True)

    def heading(self, text: str) -> None:
        self.line(f"\n{self._painted(BOLD, text)}")

    def says(self, who: str, what: str) -> None:
        name = self._painted(COLOURS.get(who, BOLD), f"{who:<10}")
        first, *wrapped = textwrap.wrap(what, WIDTH - 14, break_on_hyphens=False)
        self.line("\n".join([f"  {name}  {first}", *(f"{'':14}{line}" for line in wrapped)]))

    def quotes(self, text: str) -> None:
        for line in textwrap.wrap(one_line(text), WIDTH - 16, break_on_hyphens=False):
            self.line(f"{'':14}{self._painted(DIM, f'| {line}')}")

    def _painted(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour else text


def _tell(memory: Memory, root: str, entry: Entry, paper: Paper) -> None:
    """Tell what an entry says, and what led to it."""
    from orchestrator import demo
    from synapse.model.agents import OPERATOR

    if entry.body == demo.CHANGE:
        paper.heading("1. A breaking change reaches whom it breaks")
    elif entry.body == demo.MOVING:
        took = _woken_within(memory, root, demo.WEB)
        paper.says(entry.author, f"was in the middle of a turn, and was told {took}")
    elif entry.body == demo.QUESTION:
        paper.heading("2. An agent cannot go on without you")
    elif entry.body == demo.CURSORS:
        paper.heading("3. Two equals contradict each other, until somebody rules")
    elif entry.body == demo.RULING:
        paper.says(entry.author, "was shown both, marked as disputed, and rules")
    elif entry.body.startswith("run_tests("):
        paper.says(entry.author, "ran the tests; who asks for them is given the result")
        return
    place = f"{entry.id}, {entry.priority}, in {entry.namespace}"
    if entry.author == OPERATOR:
        paper.says("you", f"write {place}, which wakes who asked")
    else:
        paper.says(entry.author, f"writes {place}")
    paper.quotes(entry.body)


def _woken_within(memory: Memory, root: str, agent: str) -> str:
    """Return how soon an agent was told of the newest critical entry."""
    from orchestrator.reports.rows import Source
    from orchestrator.reports.wakes import find_wakes

    wakes = find_wakes(Source(memory.store, root), "1h")
    took = [wake.rendered for wake in wakes if wake.agent == agent and wake.rendered]
    return f"{took[0] / 1000:.0f} ms later" if took else "at once"


def _sum_up(memory: Memory, root: str, paper: Paper) -> None:
    """Tell what the work took, what memory took and spared of it, and that the log is whole."""
    from orchestrator.cli.frame.figures import format_count, format_money
    from orchestrator.reports.rows import Source
    from orchestrator.reports.sums import sums

    total, report = sums(Source(memory.store, root), "agent").all, memory.verify()
    paper.heading("What it took")
    paper.says(
        "work",
        f"{format_count(total.tokens)} tokens, {format_money(total.cost)} (programs play"
        " the models, and their price is made up)",
    )
    share = f"{total.overhead or 0:.0%}"
    calls = f"{total.spared} call{'s' * (total.spared != 1)} of a tool"
    paper.says("memory", f"took {share} of the tokens of the work, and spared {calls}")
    state = "each as it was written" if report.ok else "DAMAGED"
    paper.says("journal", f"{report.records} records in one chain, {state}")


def _serve(memory: Memory, root: str, paper: Paper) -> None:
    """Serve the dashboard until Ctrl-C, or say what it needs."""
    from synapse.cli.serve import demand_packages

    try:
        demand_packages()
    except StoreError as missing:
        paper.line(f"\nTo see it on a dashboard, too: {missing}")
        return
    from orchestrator.server.daemon_server import served
    from synapse.server.application import Serving
    from synapse.trust.bearer import TokenFile, place

    paper.heading("Its dashboard, until Ctrl-C")
    try:
        with served(Serving(memory, TokenFile(place(root))), root, 0, paper.line):
            signal.pause()
    except KeyboardInterrupt:
        paper.line("")
