"""The look before an act: what a run takes before a tool's call to know whether the work is done,
or for its moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench.figures import Goal, Row, timed
from bench.ground import Ground
from bench.workload import READER
from orchestrator.runs.records import Runs, name
from orchestrator.runs.task import Task
from orchestrator.sharing.findings import Findings, Look
from orchestrator.tools.calls import Shares, act_of
from synapse.agent_memory import AgentMemory
from synapse.core import Memory

RULES = 20  # entries that are for a moment
LOOK = (Goal("p50", 1e-3),)


def acting(ground: Ground) -> Iterator[Row]:
    """A result that another run got, given; one that another run is at; a call that entries hold,
    and one that none does. The claim that is taken where nothing is there is a write, and not in
    it.
    """
    with ground.open(frozen=False) as mem:
        findings = Findings(mem.store, ground.root, lambda holder: True)
        one, other = _seat(mem, "one"), _seat(mem, "other")
        done, busy = (
            act_of("look", {"subject": f"the limit of service {n}"}, Shares()) for n in "ab"
        )
        findings.write_result(
            one,
            done,
            "one/1/a",
            "The limit is 57.",
            findings.begin(one, done, "one/1/a", None, 60.0),
        )
        findings.begin(one, busy, "one/2/b", None, 60.0)
        for place in range(RULES):
            one.append(
                "Run the suite first.", "status/alpha", when=f"run git push, tool:deploy{place}"
            )

        def look(act: object) -> Look:
            return findings.begin(other, act, "other/1/a", None, 60.0)  # type: ignore[arg-type]

        assert look(done).text is not None
        assert look(busy).claim is not None
        yield Row(
            "look: a result is there", ground.size, timed(lambda: look(done)).values(), None, LOOK
        )
        yield Row(
            "look: somebody is at it", ground.size, timed(lambda: look(busy)).values(), None, LOOK
        )
        for call, held in (("git push origin", RULES), ("git pull", 0)):
            arguments = {"command": call}
            found = findings.entries_for_call(other, "shell", arguments, frozenset())
            assert len(found) == held
            taken = timed(
                lambda given=arguments: findings.entries_for_call(
                    other, "shell", given, frozenset()
                )
            )  # type: ignore[misc]
            yield Row(
                f"look: {held} of {RULES} entries are for it",
                ground.size,
                taken.values(),
                None,
                LOOK,
            )


def _seat(mem: Memory, origin: str) -> AgentMemory:
    agent = mem.store.agents.all()[READER]
    id = name(READER, origin, os.getpid())
    run = Runs(mem.store).begin(id, Task("Look", READER, "alpha"), agent, "bench", None, None)
    return mem.as_agent(READER, run.id, run.epoch)
