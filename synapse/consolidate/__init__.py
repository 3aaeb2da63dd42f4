"""Consolidation: the nightly run that merges, archives and bounds what the memory holds.

`plan` is pure and says what would be done; `apply` does it; `run_nightly` does it once for each
local date, by the right that `claim` gives; `undo` takes it back. Everything is appended records:
no entry is changed and nothing is deleted. Called by the shell and by the orchestrator's nightly
jobs.
"""

from synapse.consolidate.acts import Act, AppliedAct
from synapse.consolidate.apply import apply
from synapse.consolidate.nightly import (
    Claim,
    NightlyRun,
    RunHistory,
    claim,
    finish,
    lapsed,
    reach,
    run,
    run_history,
    run_nightly,
)
from synapse.consolidate.plan import PHASES, Plan, State, plan
from synapse.consolidate.proposal import Proposal, Verdict, candidates, judge
from synapse.consolidate.reviews import Account, accounts
from synapse.consolidate.staging import stage, waiting, withdraw
from synapse.consolidate.state import gather
from synapse.consolidate.undo import UndoResult, undo

night = run_nightly  # its name before

__all__ = [
    "PHASES",
    "Account",
    "Act",
    "AppliedAct",
    "Claim",
    "NightlyRun",
    "Plan",
    "Proposal",
    "RunHistory",
    "State",
    "UndoResult",
    "Verdict",
    "accounts",
    "apply",
    "candidates",
    "claim",
    "finish",
    "gather",
    "judge",
    "lapsed",
    "night",
    "plan",
    "reach",
    "run",
    "run_history",
    "run_nightly",
    "stage",
    "undo",
    "waiting",
    "withdraw",
]
