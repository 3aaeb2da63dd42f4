"""The team of the demo: three agents, each run by a process of its own, who know of each other only
what the shared memory tells them.

Programs take the place of models, so nothing needs a key; their tokens are counted as those of a
model are, and their price is made up. `orchestrator demo` starts a process of each and tells what
the memory sees: `python -m orchestrator.demo ROOT AGENT` is one.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import synapse
from orchestrator.engines.scripted import Move, Scripted, Seen
from orchestrator.runs.task import Task
from synapse.core import Memory
from synapse.model.agents import OPERATOR

PROJECT = "webshop"
LEAD, API, WEB = "lead", "eng-api", "eng-web"
MODEL = "scripted-demo"
SETTINGS = f"""
prices: {{{MODEL}: {{input: 3.0, output: 15.0}}}}
limits: {{day: {{usd: 10.0}}}}
"""
PATIENCE = 600.0  # seconds that an agent thinks, unless something that it is told ends it
PACE = 0.2  # seconds that a turn takes, so that a reader can follow
LINES = 600  # of each part of the code that an engineer reads

CHANGE = "BREAKING: GET /users ends on Friday. Use GET /v2/users."
MOVING = "Moving the pages to /v2/users."
QUESTION = "May the page of a user show the e-mail address? Only you can say."
DECIDED = "The pages follow what the operator decided."
CURSORS = "Lists in /v2 are paged by cursor."
NUMBERS = "Pages are numbered: a link to page 7 has to last."
RULING = "Cursors in the API; the pages keep the cursor in their links."

_HEAR = ("critical", "important")
_READ = ("api/*", "decisions/*", "blockers/*", "projects/*", "status/*")
_WRITE = ("status/*", "blockers/*", "projects/*")
TEAM = (
    synapse.Agent(LEAD, role="project-lead", department="product", read=("*",), notify=_HEAR),
    synapse.Agent(API, department="backend", read=_READ, write=("api/*", *_WRITE), notify=_HEAR),
    synapse.Agent(WEB, department="frontend", read=_READ, write=("ui/*", *_WRITE), notify=_HEAR),
)
TASKS = {
    LEAD: "Keep the web shop in one piece: decide where two engineers contradict.",
    API: "Serve the users of the shop, in a second version of the API.",
    WEB: "Draw a page for each user of the shop.",
}


class Step(NamedTuple):
    """A move, made once these words stand in what the agent was shown; it thinks until then."""

    move: Move | Callable[[Seen], Move]
    after: tuple[str, ...] = ()


def _call(tool: str, **arguments: object) -> Move:
    return Move(calls=((tool, arguments),), takes=PACE)


def _read(*parts: str) -> Move:
    calls: tuple[tuple[str, dict[str, object]], ...] = tuple(
        ("read_code", {"part": part}) for part in parts
    )
    return Move(calls=calls, takes=PACE)


def _write(namespace: str, body: str, priority: str = "info", **more: object) -> Move:
    return _call("append", namespace=namespace, body=body, priority=priority, **more)


def _propose(body: str) -> Move:
    return _write(f"projects/{PROJECT}", body, "important", topic="paging")


def _rule(seen: Seen) -> Move:
    """Return the ruling, which takes the place of all that was proposed."""
    found = re.findall(rf"\[projects/{PROJECT}\] (syn-[0-9-]+)", seen.text)
    ids = ",".join(dict.fromkeys(found))
    body, place = RULING, f"projects/{PROJECT}"
    return _write(place, body, "important", topic="paging", supersedes=ids)


STEPS = {
    LEAD: (
        Step(_rule, after=(CURSORS, NUMBERS)),
        Step(Move("The shop is in one piece: one dispute, decided.", takes=PACE)),
    ),
    API: (
        Step(_read("users", "orders", "rights", "schema")),
        Step(_write("api/endpoints", CHANGE, "critical")),
        Step(_call("run_tests", part="users")),
        Step(_propose(CURSORS), after=(DECIDED,)),
        Step(
            Move("/v2/users is served, with cursors; 14 tests pass.", takes=PACE), after=(RULING,)
        ),
    ),
    WEB: (
        Step(_read("pages", "forms", "client", "styles")),
        Step(_write(f"status/{PROJECT}", MOVING), after=(CHANGE,)),
        Step(_call("run_tests", part="users")),
        Step(_write(f"blockers/{PROJECT}", QUESTION, "critical", to=OPERATOR)),
        Step(_write(f"status/{PROJECT}", DECIDED, "important"), after=(f"({OPERATOR}, authority",)),
        Step(_propose(NUMBERS), after=(CURSORS,)),
        Step(
            Move("A page for each user, on /v2/users, as you decided.", takes=PACE), after=(RULING,)
        ),
    ),
}


def script(agent: str) -> Callable[[Seen], Move]:
    """Return what an agent says and calls, turn by turn."""

    def move(seen: Seen) -> Move:
        step = STEPS[agent][min(seen.turn, len(STEPS[agent]) - 1)]
        if not all(words in seen.text for words in step.after):
            return Move(takes=PATIENCE)
        return step.move if isinstance(step.move, Move) else step.move(seen)

    return move


class Program(Scripted):
    """A program in the place of a model, whose tokens have a price as those of a model have."""

    name = "demo"


def read_code(part: str) -> str:
    """Return the code of a part of the shop."""
    return "\n".join(
        f"{part}.handle_{n}(request, rows=fetch('{part}', page={n}), sorted_by='name')"
        for n in range(1, LINES + 1)
    )


def run_tests(part: str) -> str:
    """Run the tests of a part of the shop."""
    time.sleep(PACE)
    return "\n".join(f"{part}: test {n} passed" for n in range(1, 15))


def workspace(root: str) -> Memory:
    """Return a new workspace with the team in it."""
    synapse.init(root).close()
    with open(os.path.join(root, "synapse.yaml"), "a", encoding="utf-8") as settings:
        settings.write(SETTINGS)
    memory = synapse.open(root)
    for agent in TEAM:
        memory.register(agent._replace(engine=agent.id, model=MODEL))
    return memory


def work(root: str, agent: str) -> bool:
    """Do the task of one agent, in this process; return whether it is done."""
    from orchestrator.supervisor import Supervisor
    from orchestrator.tools.functions import tool_of

    engines = {name: Program(script(name)) for name in TASKS}
    tools = [tool_of(read_code), tool_of(run_tests, shares=True)]
    with Supervisor(
        root, engines=engines, model=MODEL, memory_tools="always", tools=tools
    ) as supervisor:
        sys.stdin.readline()  # until whoever started this says so
        return supervisor.run(Task(TASKS[agent], agent, PROJECT)).done


if __name__ == "__main__":
    sys.exit(0 if work(*sys.argv[1:]) else 1)
