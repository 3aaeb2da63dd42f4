"""Consolidation: what is outdone or past its time is filed away at night, and nothing is ever lost.

`plan` is pure and says what would be done; `apply` does it; `night` does it once for each local
date, by the right that `claim` gives; `undo` takes it back. All of it is appended records: no entry
is changed, and nothing is deleted.
"""

from synapse.consolidate.acts import Act
from synapse.consolidate.apply import Done, apply
from synapse.consolidate.nightly import (
    Claim,
    Measured,
    Night,
    claim,
    finish,
    lapsed,
    measured,
    night,
    reach,
    run,
)
from synapse.consolidate.plan import PHASES, Plan, State, plan
from synapse.consolidate.proposal import Proposal, Verdict, candidates, judge
from synapse.consolidate.reviews import Account, accounts
from synapse.consolidate.staging import stage, waiting, withdraw
from synapse.consolidate.state import gather
from synapse.consolidate.undo import Undone, undo

__all__ = [
    "PHASES",
    "Account",
    "Act",
    "Claim",
    "Done",
    "Measured",
    "Night",
    "Plan",
    "Proposal",
    "State",
    "Undone",
    "Verdict",
    "accounts",
    "apply",
    "candidates",
    "claim",
    "finish",
    "gather",
    "lapsed",
    "judge",
    "measured",
    "night",
    "plan",
    "reach",
    "run",
    "stage",
    "undo",
    "waiting",
    "withdraw",
]
