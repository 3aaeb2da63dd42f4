"""A team of thirty under virtual time: `python thirty.py FOLDER` plays it in a new workspace there,
and prints a digest of the ledgers, the steps and the receipts that it leaves.
"""

import random
import sys
from hashlib import sha256
from pathlib import Path

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.testing.virtual import VirtualTime

LEADS = ("lead-a", "lead-b", "lead-c")
QA = ("qa-a", "qa-b")
AGENTS = (
    synapse.Agent("cto", role="cto"),
    *(synapse.Agent(name, role="project-lead", department=name[-1]) for name in LEADS),
    *(synapse.Agent(f"eng-{team}{n}", department=team) for team in "abc" for n in range(8)),
    *(synapse.Agent(name, role="specialist") for name in QA),
)


def play(seen):
    name = seen.system.split()[2].strip(",")
    if name == "cto":
        return coordinated(seen, [*LEADS, *QA])
    if name.startswith("lead"):
        return coordinated(seen, [f"eng-{name[-1]}{n}" for n in range(8)])
    thinks = random.Random(f"{name} {seen.turn}").uniform(0.5, 30.0)
    if seen.turn == 0 and name.startswith("eng"):
        found = {
            "namespace": f"status/{name[4]}",
            "body": f"{name} found something",
            "tags": [name],
        }
        blocker = {
            "namespace": f"status/{name[4]}",
            "body": f"{name} warns everybody",
            "priority": "critical",
        }
        return Move(
            "I look.", (("append", blocker if name.endswith("3") else found),), takes=thinks
        )
    if seen.turn == 1:
        return Move(
            "I read.", (("read", {"limit": 3}), ("memory_search", {"query": "found"})), takes=thinks
        )
    return Move(f"{name} is done.", takes=thinks)


def coordinated(seen, agents):
    if seen.turn == 0:
        return Move(
            "",
            tuple(
                ("spawn_agent", {"agent": each, "task": f"The part of {each}"}) for each in agents
            ),
        )
    return Move("", (("wait", {}),), takes=2.0) if seen.turn == 1 else "All parts are done."


def main(root):
    time = VirtualTime()
    with synapse.init(root, clock=time) as memory:
        for agent in AGENTS:
            memory.register(agent)
        options = {
            "engine": Scripted(play, count=len),
            "seed": 3,
            "inline": True,
            "memory_tools": "always",
        }
        with Supervisor(memory, **options) as supervisor:
            result = time.run(supervisor.spawn(Task("Build it all", "cto", project="all")))
        runs = {run.agent: run.status for run in supervisor.run_store.runs.all()}
    assert result.done, result
    assert runs == {agent.id: "done" for agent in AGENTS}, runs
    print(digest(Path(root)), f"{time.elapsed:.6f}")


def digest(root):
    """Of all that the runs left, folder by folder."""
    found = sha256()
    for path in sorted(root.glob("runs/*/*")):
        if path.name in ("ledger.jsonl", "steps.jsonl", "receipt.json", "output.md"):
            found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()


if __name__ == "__main__":
    main(sys.argv[1])
