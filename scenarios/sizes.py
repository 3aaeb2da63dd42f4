"""At which sizes of task memory cannot stay below its share: by the product's own planner, not by what was played."""

from __future__ import annotations

from orchestrator import budget
from orchestrator.budget import Expected

SHARE = budget.SHARE
TURNS = (1, 2, 4, 6, 8, 12, 20, 30)
GROWTHS = (400, 800, 1_500, 2_500)
WRITEBACK = 150.0  # tokens of what a run leaves behind
START = 1_200  # of a system text and a task
TOLD = (
    "What the supervisor plans to spend on memory, of the tokens of a task that takes so many turns and grows by so"
    " many tokens in each. A view is sent again at every turn; in a short task even what is critical and the write-back"
    " take more than 5 %, whatever is saved by it."
)


def table() -> dict[int, list[float]]:
    """Tokens a turn -> the planned share for each number of turns."""
    return {growth: [planned(turns, growth) for turns in TURNS] for growth in GROWTHS}


def planned(turns: int, growth: int) -> float:
    """The share of a task's work that its memory is planned to cost, without tools."""
    work = turns * START + growth * turns * (turns - 1) // 2 + growth * turns // 3
    return budget.plan(Expected(work, turns, WRITEBACK, 0.0)).share
