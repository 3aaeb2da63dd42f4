"""The retention of ended runs: after `retention.runs` in synapse.yaml they lose what is only needed
to go on with them or to look back. Called by the nightly job.

A tree of runs is trimmed as a whole, once each of its runs has ended. The ledger, the output and
files of the agent's own stay.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from orchestrator.runs.files.folder import Folder
from orchestrator.runs.files.trim import is_trimmed, trim
from orchestrator.runs.records import Run, Runs
from synapse.errors import InvalidEntry, StoreError
from synapse.model.clock import seconds
from synapse.model.entry import SECOND, parse_ttl
from synapse.model.settings import Settings
from synapse.store import Store

DAY = 24 * 3_600 * SECOND


class Trimmed(NamedTuple):
    """How many runs were trimmed, and how many bytes that gave back."""

    runs: int
    bytes: int


def kept_for(settings: Settings) -> int | None:
    """Return for how many microseconds ended runs keep all of their files; None: for ever."""
    declared = dict(settings.other).get("retention")
    if declared is None:
        return None
    wrong = InvalidEntry("retention: write a block such as {runs: 90d}; a day at least, or never")
    if not isinstance(declared, Mapping) or set(declared) != {"runs"}:
        raise wrong
    try:
        span = parse_ttl(str(declared["runs"]))
    except InvalidEntry as error:
        raise wrong from error
    if span is not None and span < DAY:
        raise wrong
    return span


def trim_runs(store: Store, root: str, span: int) -> Trimmed:
    """Trim the runs of all trees that ended longer ago. One whose files cannot be removed stays
    for the next night.
    """
    runs = freed = 0
    day = seconds(store.clock())[:10]
    for run in _due(Runs(store), store.clock() - span, root):
        folder = Folder(root, run.id)
        with suppress(StoreError):
            if not is_trimmed(folder):
                freed += trim(folder, day)
                runs += 1
    return Trimmed(runs, freed)


def _due(runs: Runs, before: int, root: str) -> Iterator[Run]:
    """Yield the runs of the trees that had ended by then, as far as their folders are here: a
    name of the log leads nowhere else.
    """
    trees: dict[str, list[Run]] = {}
    for run in runs.all():
        trees.setdefault(run.root, []).append(run)
    path = os.path.join(root, "runs")
    here = set(os.listdir(path)) if os.path.isdir(path) else set()
    for tree in trees.values():
        if all(run.state == "ended" and run.fields["ended_at"] < before for run in tree):
            yield from (run for run in tree if run.id in here)
