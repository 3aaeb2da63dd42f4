"""Words about work that was done before, or that waits: how old a result is, and how the work is
done again. Pure; the supervisor and the tools of a lead use them.
"""

from __future__ import annotations

from orchestrator.runs.records import Run
from synapse.model.entry import SECOND

WAITS = (
    "run {run} is at this work, its process is gone, and it {why}. Start that program again; or "
    "give what it needs (`orchestrator resume --tool ... --mcp ...`); or end it (`orchestrator "
    "stop {run}`): then the work is done anew"
)


def age(micros: int) -> str:
    """Return how long ago something was: 12 s, 3 min, 2 h."""
    seconds = max(micros, 0) // SECOND
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def earlier(run: Run, now: int) -> str:
    """Return that a result is an earlier one, how old it is, and how the work is done again."""
    ended = run.fields.get("ended_at")
    if ended is None:
        done = f"{run.id} began it {age(now - run.at)} ago"
    else:
        done = f"{run.id} did it {age(now - int(ended))} ago"
    return f"an earlier result: {done}; without `once` it is done again"
