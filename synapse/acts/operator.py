"""The acts of the operator: questions and answers, nightly runs, audit, the proof of the journal.

A client of an agent has none of them.
"""

from __future__ import annotations

from typing import Any

from synapse import consolidate
from synapse.acts.act import OPERATOR, Act, Answer
from synapse.acts.answers import ENTRIES, ENTRY
from synapse.consolidate import RunHistory
from synapse.consolidate.metrics import measure_json
from synapse.consolidate.undo import UndoResult, undo_json
from synapse.core import Memory
from synapse.model.records import Record
from synapse.wire.forms import fields, record_json

NOUN, TIMES = "operator", "history"


def _history_json(history: RunHistory) -> dict[str, Any]:
    return {
        "nights": [measure_json(run) for run in history.runs],
        "warnings": [*history.worries, *history.remarks],
    }


AUDIT: Answer[list[Record]] = Answer(
    "Audit", lambda records: {"audit": [record_json(record) for record in records]}
)
NIGHTS = Answer("NightlyRuns", _history_json)
UNDONE: Answer[UndoResult] = Answer("Undone", lambda done: fields(undo_json(done)))
VERIFIED = Answer("Verified", fields)

audit = Act(TIMES, Memory.audit, "GET /audit", AUDIT, who=OPERATOR, absent={"limit": 0})
questions = Act(NOUN, Memory.questions, "GET /questions", ENTRIES, who=OPERATOR)
tell = Act(
    NOUN,
    Memory.tell,
    "POST /tell",
    ENTRY,
    who=OPERATOR,
    creates=True,
    names={"whom": "to"},
    local=("ttl",),
)
nightly_runs = Act(
    NOUN, consolidate.run_history, "GET /nights", NIGHTS, who=OPERATOR, title="nightly_runs"
)
undo = Act(NOUN, consolidate.undo, "POST /nights/undo", UNDONE, who=OPERATOR, local=("by",))
verify = Act(
    NOUN,
    Memory.verify,
    "GET /verify",
    VERIFIED,
    who=OPERATOR,
    local=("against", "key"),
    description="Prove the journal's chain and every file against it. `head` is what an earlier"
    " report ended with.",
)
