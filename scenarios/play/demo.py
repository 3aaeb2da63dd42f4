"""The demo: three agents in three processes, who know of each other only what the shared memory
tells them.

Each agent acts when it hears of what another one wrote. The process that starts them only tells the
reader, in the order of the story, what they report, and proves at the end that all of it happened.
No engine, no network.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty
from typing import TYPE_CHECKING, NamedTuple, TextIO

import synapse
from synapse.model import clock
from synapse.model.agents import OPERATOR, settled

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

PATIENCE = 30.0
PACE = 0.3
BUDGET = 2_000
WIDTH = 80
LEAD, BACKEND, FRONTEND = "cto", "eng-backend", "eng-frontend"
COLOURS = {LEAD: "35", BACKEND: "36", FRONTEND: "33"}
BOLD, DIM = "1", "2"

_ALL_HEAR = ("api/*", "decisions/*", "blockers/*", "projects/*", "status/*")
TEAM = (
    synapse.Agent(LEAD, role="cto", notify=("critical", "important")),
    synapse.Agent(
        BACKEND,
        read=_ALL_HEAR,
        write=("api/*", "status/backend", "blockers/*", "projects/*"),
    ),
    synapse.Agent(
        FRONTEND,
        read=_ALL_HEAR,
        write=("ui/*", "status/frontend", "blockers/*", "projects/*"),
    ),
)


class Report(NamedTuple):
    """What an agent wrote, was told, or saw; `step` is its place in the story."""

    step: str
    entry: synapse.Entry | None = None
    micros: int = 0
    text: str = ""
    tokens: int = 0
    seen: tuple[synapse.Entry, ...] = ()
    pid: int = 0


class Broken(Exception):
    """Something that the story promises did not happen."""


# -- The agents, each in a process of its own ------------------------------------------


class Player:
    """An agent at work: its agent memory, its listener at the log, and the narrator."""

    def __init__(self, me: synapse.AgentMemory, narrator: Queue[Report]) -> None:
        self.me = me
        self.news = me.follow(timeout=PATIENCE)
        self._narrator = narrator

    def hear(self, place: str) -> tuple[synapse.Entry, int]:
        """Return the next entry that another agent writes there, and the microseconds from its
        receipt until now.
        """
        for event in self.news:
            if event.entry.namespace == place:
                return event.entry, clock.now() - event.entry.at
        raise Broken(f"{self.me.id} heard nothing of {place}")

    def report(self, report: Report) -> None:
        """Tell the narrator, and give the reader time to follow."""
        self._narrator.put(report)
        time.sleep(PACE)

    def write(
        self,
        step: str,
        body: str,
        place: str,
        priority: str = "info",
        topic: str | None = None,
    ) -> None:
        self.report(
            Report(step, self.me.append(body, place, priority=priority, topic=topic))
        )


def play_backend(player: Player) -> None:
    # until the others listen; one that came late would hear of it all the same
    time.sleep(PACE)
    player.write(
        "announced",
        "BREAKING: GET /users ends on Friday. Use GET /v2/users.",
        "api/endpoints",
        "critical",
    )
    player.hear("status/frontend")
    player.write(
        "served",
        "/v2/users is deployed; from Friday on /users answers 410.",
        "status/backend",
    )
    player.hear("decisions/api")
    player.write(
        "proposed",
        "Lists in /v2 are paged by cursor.",
        "projects/webshop",
        "important",
        "paging",
    )


def play_frontend(player: Player) -> None:
    _, micros = player.hear("api/endpoints")
    view = player.me.briefing(budget=BUDGET)
    player.report(
        Report("told", micros=micros, text=view.markdown(), tokens=view.tokens)
    )
    player.write("moving", "Moving the client to /v2/users.", "status/frontend")
    player.hear("status/backend")
    text = "/v2/users has no avatar: the profile page cannot be drawn."
    player.write("blocked", text, "blockers/webshop", "critical")
    player.hear("projects/webshop")
    text = "Pages are numbered: a link to page 7 has to last."
    player.write("opposed", text, "projects/webshop", "important", "paging")
    player.hear("projects/webshop")
    try:
        player.me.append("GET /users stays.", "api/endpoints", priority="critical")
    except synapse.Forbidden as refusal:
        player.report(Report("refused", text=str(refusal)))


def play_lead(player: Player) -> None:
    me = player.me
    blocker, micros = player.hear("blockers/webshop")
    player.report(Report("alarmed", blocker, micros))
    text = "/v2/users gains avatar_url, as /users has it."
    answer = me.append(
        text, "decisions/api", priority="important", related=[blocker.id]
    )
    me.resolve(blocker.id, f"see {answer.id}")
    player.report(Report("resolved", answer, seen=me.read(namespace="blockers/*")[:]))
    player.hear("projects/webshop")
    player.hear("projects/webshop")
    rivals = me.read(namespace="projects/webshop")[:]
    player.report(Report("disputed", seen=rivals))
    text = "Cursors in the API; the client keeps the cursor in its links."
    ids = [rival.id for rival in rivals]
    ruling = me.append(
        text, "projects/webshop", priority="important", topic="paging", supersedes=ids
    )
    player.report(
        Report("ruled", ruling, seen=me.read(namespace="projects/webshop")[:])
    )


PLAYS: dict[str, Callable[[Player], None]] = {
    LEAD: play_lead,
    BACKEND: play_backend,
    FRONTEND: play_frontend,
}


def act(id: str, root: str, narrator: Queue[Report], together: Barrier) -> None:
    """Play the part of one process."""
    try:
        with synapse.open(root) as memory:
            player = Player(memory.as_agent(id), narrator)
            narrator.put(Report(id, pid=os.getpid()))
            together.wait(PATIENCE)
            PLAYS[id](player)
    except KeyboardInterrupt:
        pass
    except Exception as error:  # nobody but the narrator would hear of it
        narrator.put(Report("failed", text=f"{id}: {type(error).__name__}: {error}"))


# -- The narrator ----------------------------------------------------------------------


class Story:
    """The reports, handed out in the order of the story whatever order they came in."""

    def __init__(self, narrator: Queue[Report]) -> None:
        self._narrator = narrator
        self._here: dict[str, Report] = {}

    def of(self, step: str) -> Report:
        """Wait for the report of this step, and return it."""
        while step not in self._here:
            try:
                report = self._narrator.get(timeout=PATIENCE)
            except Empty:
                raise Broken(
                    f"nobody reported {step!r} within {PATIENCE:g} s"
                ) from None
            if report.step == "failed":
                raise Broken(report.text)
            self._here[report.step] = report
        return self._here[step]

    def id(self, step: str) -> str:
        return self.entry(step).id

    def entry(self, step: str) -> synapse.Entry:
        entry = self.of(step).entry
        assert entry is not None
        return entry


class Paper:
    """What is printed: 80 columns, in colour only where somebody looks."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def line(self, text: str) -> None:
        print(text, flush=True)

    def heading(self, text: str) -> None:
        self.line(f"\n{self._painted(BOLD, text)}")

    def says(self, who: str, what: str) -> None:
        name = self._painted(COLOURS.get(who, BOLD), f"{who:<12}") if who else " " * 12
        first, *wrapped = textwrap.wrap(what, WIDTH - 16, break_on_hyphens=False)
        self.line(
            "\n".join([f"  {name}  {first}", *(f"{'':16}{line}" for line in wrapped)])
        )

    def quotes(self, text: str) -> None:
        for line in text.rstrip("\n").split("\n"):
            for line_part in textwrap.wrap(
                line, WIDTH - 18, subsequent_indent="    ", break_on_hyphens=False
            ):
                self.line(f"{'':16}{self._painted(DIM, f'| {line_part}')}")

    def wrote(self, entry: synapse.Entry) -> None:
        self.says(
            entry.author, f"writes {entry.id}, {entry.priority}, in {entry.namespace}"
        )
        self.quotes(entry.body)

    def _painted(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour else text


def tell(story: Story, paper: Paper) -> None:
    """Print the story, scene by scene."""
    paper.line("Three agents, three processes, one memory between them")
    for agent in map(settled, TEAM):
        paper.says(
            agent.id, f"pid {story.of(agent.id).pid}, authority {agent.authority}"
        )
    _change(story, paper)
    _blocker(story, paper)
    _dispute(story, paper)
    paper.heading("4. Nobody writes where it may not")
    refusal = story.of("refused").text
    paper.says(FRONTEND, "tries to write in api/endpoints, and is refused:")
    paper.quotes(refusal)


def _change(story: Story, paper: Paper) -> None:
    paper.heading("1. A breaking change reaches whom it breaks")
    paper.wrote(story.entry("announced"))
    event = story.of("told")
    paper.says(FRONTEND, f"hears of it {_ms(event)} after the log did; its briefing:")
    paper.quotes(event.text)
    paper.says("", f"({event.tokens} tokens, of {BUDGET} allowed)")


def _blocker(story: Story, paper: Paper) -> None:
    paper.heading("2. Both work on; one is blocked, and the lead unblocks it")
    for step in ("moving", "served", "blocked"):
        paper.wrote(story.entry(step))
    paper.says(
        LEAD, f"hears of it {_ms(story.of('alarmed'))} after the log did, and decides"
    )
    paper.wrote(story.entry("resolved"))
    paper.says(
        LEAD,
        f"resolves {story.id('blocked')}; blockers left: {len(story.of('resolved').seen)}",
    )


def _dispute(story: Story, paper: Paper) -> None:
    paper.heading(
        "3. Two equals contradict each other, and it shows until somebody rules"
    )
    for step in ("proposed", "opposed"):
        paper.wrote(story.entry(step))
    paper.says(LEAD, "finds both live, on one topic:")
    for rival in story.of("disputed").seen:
        paper.quotes(f"{rival.id}, disputed by {', '.join(rival.disputed) or 'nobody'}")
    paper.wrote(story.entry("ruled"))
    paper.says(
        "", f"(live on this topic now: {', '.join(_ids(story.of('ruled').seen))})"
    )


def _ms(report: Report) -> str:
    return f"{report.micros / 1000:.1f} ms"


def _ids(entries: Iterable[synapse.Entry]) -> list[str]:
    return [entry.id for entry in entries]


# -- What it proves --------------------------------------------------------------------


def prove(root: str, story: Story, paper: Paper) -> list[str]:
    """Ask the memory itself how the story went; what was promised and is not so."""
    with synapse.open(root) as memory:
        report = memory.verify()
        views = {
            agent.id: memory.as_agent(agent.id).briefing(budget=BUDGET)
            for agent in TEAM
        }
        everything = memory.as_agent(OPERATOR).read()
    paper.heading("5. What is left")
    state = "every file is as it was written" if report.ok else "DAMAGED"
    paper.says("verify", f"{report.records} records in one chain, {state}")
    costs = ", ".join(f"{id} {view.tokens}" for id, view in views.items())
    paper.says("briefing", f"would add so many tokens to a prompt now: {costs}")
    rivals = story.of("disputed").seen
    promises = {
        "the journal and every file are sound": report.ok,
        "the briefing held the breaking change": story.id("announced")
        in story.of("told").text,
        "the briefing kept to its budget": 0 < story.of("told").tokens <= BUDGET,
        "the blocker was resolved": not story.of("resolved").seen
        and story.id("blocked") not in _ids(everything),
        "both sides of the dispute were shown": [
            len(rival.disputed) for rival in rivals
        ]
        == [1, 1],
        "the ruling stands alone": _ids(story.of("ruled").seen) == [story.id("ruled")],
        "what was refused is nowhere": all(
            entry.author != FRONTEND or entry.namespace != "api/endpoints"
            for entry in everything
        ),
        "three processes took part": len(
            {os.getpid(), *(story.of(agent.id).pid for agent in TEAM)}
        )
        == 4,
        "every count of tokens is exact": not any(
            view.bounded for view in views.values()
        ),
    }
    return [promise for promise, holds in promises.items() if not holds]


def perform(root: str, paper: Paper) -> list[str]:
    """Set up the workspace, run the agents, tell what they do; the promises that were not kept."""
    with synapse.init(root) as memory:
        for agent in TEAM:
            memory.register(agent)
    context = mp.get_context("spawn")
    narrator: Queue[Report] = context.Queue()
    together = context.Barrier(len(TEAM))
    players = [
        context.Process(
            target=act, args=(agent.id, root, narrator, together), daemon=True
        )
        for agent in TEAM
    ]
    for player in players:
        player.start()
    story = Story(narrator)
    try:
        tell(story, paper)
        for player in players:
            player.join(PATIENCE)
        return [
            *prove(root, story, paper),
            *(f"{p.name} ended well" for p in players if p.exitcode),
        ]
    finally:
        for player in players:
            player.kill()


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments(argv)
    home = (
        os.path.abspath(os.path.expanduser(args.dir))
        if args.dir
        else tempfile.mkdtemp(prefix="synapse-demo-")
    )
    if os.path.isdir(home) and os.listdir(home):
        print(
            f"demo: {home} is not empty; name a directory that is not there yet",
            file=sys.stderr,
        )
        return 2
    for name in ("SYNAPSE_RUN", "SYNAPSE_AGENT"):
        # the workspace is the demo's own, whoever's shell this is
        os.environ.pop(name, None)
    paper = Paper(coloured(sys.stdout, os.environ))
    try:
        broken = perform(home, paper)
    except KeyboardInterrupt:
        return 130
    except (Broken, synapse.SynapseError, OSError) as error:
        broken = [str(error)]
    finally:
        if not args.keep:
            shutil.rmtree(home, ignore_errors=True)
    for promise in broken:
        print(f"demo: this did not happen: {promise}", file=sys.stderr)
    if args.keep:
        _where(home, paper)
    return 1 if broken else 0


def coloured(stream: TextIO, env: Mapping[str, str]) -> bool:
    return stream.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def _where(home: str, paper: Paper) -> None:
    command = os.path.join(os.path.dirname(sys.executable), "synapse")
    name = (
        "synapse"
        if shutil.which("synapse") == command
        else min(command, os.path.relpath(command), key=len)
    )
    paper.heading(f"All of it stays in {home}")
    paper.line(f"  cat {shlex.quote(home)}/entries/*/*/*.md")
    paper.line(f"  {name} --root {shlex.quote(home)} log")
    paper.line(f"  rm -r {shlex.quote(home)}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scenarios.play.demo",
        description="A team of three at one memory.",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="where to make the workspace; else a temporary directory",
    )
    parser.add_argument(
        "--keep",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="leave it there; the default",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
