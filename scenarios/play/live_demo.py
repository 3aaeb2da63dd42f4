"""The live demo: a team works for about a minute, and a browser shows it as it happens.

Scripts take the place of models, so it needs no key and no network; the price of their tokens is
made up. The server stays until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted, Seen
from orchestrator.server.daemon_server import served
from synapse.cli.serve import PORT
from synapse.core import Memory
from synapse.model.agents import OPERATOR
from synapse.server.announcement import link
from synapse.server.application import Serving
from synapse.system.browser import open_page
from synapse.trust.bearer import TokenFile, place

MODEL = "scripted-demo"
SETTINGS = """\
prices: {scripted-demo: {input: 3.0, output: 15.0}}
limits: {day: {usd: 1.0}}
"""
READ = ("api/*", "decisions/*", "blockers/*", "projects/*", "status/*")
WRITE = ("api/*", "status/*", "blockers/*", "projects/*")
TEAM = (
    synapse.Agent(
        "lead", role="project-lead", department="product", read=("*",), write=("*",)
    ),
    synapse.Agent("eng-api", department="backend", read=READ, write=WRITE),
    synapse.Agent("eng-web", department="frontend", read=READ, write=WRITE),
    synapse.Agent("qa", role="specialist", department="quality", read=READ),
    synapse.Agent("writer", role="specialist", department="product", read=READ),
)
TASKS = (
    ("writer", "Write the guide of the API for those who use it."),
    ("lead", "Open the web shop: users, their orders, and a page for each."),
)
Step = tuple[float, str, tuple[tuple[str, dict[str, object]], ...]]


def _call(tool: str, **arguments: object) -> tuple[str, dict[str, object]]:
    return tool, arguments


def _entry(namespace: str, body: str, **more: object) -> tuple[str, dict[str, object]]:
    return _call("append", namespace=namespace, body=body, **more)


_CHANGE = "BREAKING: GET /users ends on Friday. Use GET /v2/users."
PLAYS: dict[str, tuple[Step, ...]] = {
    "lead": (
        (
            3.0,
            "Two engineers side by side, then a test of both.",
            (
                _call("spawn_agent", agent="eng-api", task="Serve users and orders"),
                _call("spawn_agent", agent="eng-web", task="Draw a page for each user"),
            ),
        ),
        (0.5, "", (_call("wait"),)),
        (0.5, "", (_call("wait"),)),  # what was critical ended the first one
        (
            3.0,
            "Both are done. QA looks at the whole.",
            (_call("spawn_agent", agent="qa", task="Test the shop from end to end"),),
        ),
        (0.5, "", (_call("wait"),)),
        (
            2.0,
            "",
            (
                _entry(
                    "decisions/api",
                    "Lists in /v2 are paged by cursor.",
                    priority="important",
                ),
            ),
        ),
        (2.0, "The shop is open: users, orders and pages, 31 tests pass.", ()),
    ),
    "eng-api": (
        (3.0, "I read what is asked for.", (_call("read_spec", part="users"),)),
        (4.0, "", (_entry("api/endpoints", _CHANGE, priority="critical"),)),
        (4.0, "", (_call("run_tests", part="api"),)),
        (
            4.0,
            "",
            (_entry("status/webshop", "/v2/users and /v2/orders are served."),),
        ),
        (8.0, "The API serves /v2/users and /v2/orders; 14 tests pass.", ()),
    ),
    "eng-web": (
        (4.0, "I read what is asked for.", (_call("read_spec", part="pages"),)),
        (5.0, "", (_call("run_tests", part="pages"),)),
        (
            3.0,
            "The API changes under me: I move the client first.",
            (_entry("status/webshop", "Moving the client to /v2/users."),),
        ),
        (
            3.0,
            "",
            (
                _entry(
                    "status/webshop",
                    "Do pages of users show their e-mail address?",
                    to=OPERATOR,
                ),
            ),
        ),
        (4.0, "", (_call("run_tests", part="pages"),)),
        (3.0, "A page for each user, on /v2/users; 17 tests pass.", ()),
    ),
    "qa": (
        (3.0, "", (_call("run_tests", part="all"),)),
        (4.0, "", (_call("run_tests", part="all"),)),
        (3.0, "The shop holds: 31 tests pass, the old address is used nowhere.", ()),
    ),
    "writer": (
        (4.0, "", (_call("read_spec", part="users"),)),
        (3.0, "Blocked: may the guide name the old address?", ()),
    ),
}


class Actor(Scripted):
    """A scripted engine whose tokens have a price, as those of a model have."""

    name = "demo"


def script(agent: str, pace: float) -> Callable[[Seen], Move]:
    """Return what an agent says and calls, turn by turn."""
    play = PLAYS[agent]

    def move(seen: Seen) -> Move:
        seconds, text, calls = play[min(seen.turn, len(play) - 1)]
        return Move(text, calls, takes=seconds * pace)

    return move


def work(memory: Memory, pace: float) -> None:
    """Let the team do its tasks, one after the other."""

    def read_spec(part: str) -> str:
        """Return what is asked for in a part of the shop."""
        time.sleep(pace)
        return "\n".join(
            f"{part} {n}: shown on a page of its own, sorted by name, found by search"
            for n in range(1, 91)
        )

    def run_tests(part: str) -> str:
        """Run the tests of a part of the shop."""
        time.sleep(2 * pace)
        return "\n".join(f"{part}: test {n} passed" for n in range(1, 61))

    engines = {agent.id: Actor(script(agent.id, pace)) for agent in TEAM}
    with Supervisor(
        memory,
        engines=engines,
        model=MODEL,
        tools=[read_spec, run_tests],
        memory_tools="always",
    ) as team:
        for agent, task in TASKS:
            result = team.run(Task(task, agent, "webshop"))
            print(
                f"  {agent}: {result.status}. {result.text or result.why}", flush=True
            )


def workspace(root: str) -> Memory:
    """Return a new workspace with the team in it."""
    synapse.init(root).close()
    with open(os.path.join(root, "synapse.yaml"), "a", encoding="utf-8") as settings:
        settings.write(SETTINGS)
    memory = synapse.open(root)
    for agent in TEAM:
        memory.register(agent._replace(engine=agent.id, model=MODEL))
    return memory


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments(argv)
    for name in ("SYNAPSE_RUN", "SYNAPSE_AGENT"):
        os.environ.pop(name, None)  # the workspace is the demo's own, whoever's shell
    home = args.dir or tempfile.mkdtemp(prefix="synapse-demo-")
    if os.path.isdir(home) and os.listdir(home):
        print(f"demo: {home} is not empty; name a new folder", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            workspace(home) as memory,
            served(serving(memory, home), home, args.port, _say),
        ):
            shown = args.open and open_page(link(home, OPERATOR))
            what = "your browser shows it" if shown else "open that link"
            _say(f"{what}; a team works now, for about a minute:")
            work(memory, args.pace)
            if args.stay:
                _say("The team is done, and the server stays. Ctrl-C ends it.")
                signal.pause()
    except KeyboardInterrupt:
        _say("ended.")
    except (synapse.SynapseError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        if not args.dir:
            shutil.rmtree(home, ignore_errors=True)
    return 0


def serving(memory: Memory, root: str, trust_local: bool = False) -> Serving:
    """Return what is served of a workspace, to who has a token of it or the link."""
    return Serving(memory, TokenFile(place(root)), trust_local)


def _say(text: str) -> None:
    print(text, flush=True)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scenarios.play.live_demo",
        description="A team at work, in a browser.",
    )
    add = parser.add_argument
    add("--dir", metavar="DIR", help="a new folder to keep; else one that is removed")
    add("--port", type=int, default=PORT, help=f"default: {PORT}; 0: any free")
    add("--pace", type=float, default=1.0, help="0.1 is ten times as fast")
    add(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show it in your browser, where there is one; the default",
    )
    add(
        "--stay",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="serve until Ctrl-C; the default",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
