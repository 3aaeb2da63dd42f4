"""Proof and repair of a whole workspace: its journal, its files, its operator's files, its index.

`Memory` offers these acts; `log.proof` walks along the journal. Nothing here is on the way of a
read or of an append.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from synapse.errors import StoreError
from synapse.log.files import FilesLog
from synapse.model.agents import OPERATOR
from synapse.model.entry import SECOND
from synapse.model.results import Problem, Report
from synapse.store import Store
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    pass

_PATIENCE = (
    2.5  # s; by then a file is where it belongs, or its writer is known to be dead
)


def verify(store: Store, head: str | None = None) -> Report:
    """Prove the journal's chain and every file against it. A file that is on its way is waited for;
    what a writer who died left undone is done.
    """
    if not isinstance(store.log, FilesLog):
        return Report((), store.log.mark()[1], "")
    start, mark = time.monotonic(), store.log.mark()
    report, at = _proven(store, store.log, head)
    while not report.ok and time.monotonic() - start < _PATIENCE:
        if store.log.mark() == mark and store.clock() - at > 2 * SECOND:
            break
        time.sleep(0.2)
        mark, known = store.log.mark(), set(report.problems)
        newer, at = _proven(store, store.log, head)
        both = tuple(problem for problem in newer.problems if problem in known)
        report = newer._replace(problems=both)
    return report


def _proven(store: Store, log: FilesLog, head: str | None) -> tuple[Report, int]:
    """Return what is wrong now, and when the last record was received."""
    from synapse.log.proof import Proof

    newest, proof = store.highest_seen(), Proof(log.root, log.journal, log.mirror)
    try:
        # an index of another journal is made anew, and says so
        store.refresh()
        newest = store.highest_seen()
        store.catch_up_tree()
    except StoreError:
        pass  # what is wrong is found on the way
    try:
        report = proof.run(head)
    except OSError as error:
        raise StoreError(f"{log.root} could not be read: {error}") from error
    if newest > report.records:
        cut = Problem(
            "journal",
            f"ends at record {report.records}, but the index has seen {newest}: it was cut",
        )
        return report._replace(problems=(*report.problems, cut)), proof.at
    try:
        undeclared = tuple(_undeclared(store, log))
    except StoreError as error:
        undeclared = (Problem("index", str(error)),)
    return report._replace(problems=report.problems + undeclared), proof.at


def repair(store: Store) -> Report:
    """Put files back as the journal has them and record what was done; then what `verify` still
    finds.
    """
    from synapse.log.proof import Proof, mend

    store.demand_writable()
    log = store.log
    repaired: list[str] = []
    if isinstance(log, FilesLog):
        store.look(force=True)
        proof = Proof(log.root, log.journal, log.mirror)
        if not proof.run().ok:
            repaired, lost = mend(proof)
            store.act("repair", OPERATOR, ids=repaired, lost=lost)
    return verify(store)._replace(mended=tuple(repaired))


def _undeclared(store: Store, log: FilesLog) -> Iterator[Problem]:
    """Yield files of the operator's that are not, byte for byte, what the journal says."""
    from synapse.formats.declared import render_agent

    with store.snapshot() as snap:
        declared = snap.declared
    if store.unnoticed("synapse.yaml"):
        yield Problem(
            "synapse.yaml",
            "was edited since it was last read; the next read takes it in",
        )
    paths = {f"agents/{id}.yaml": id for id in declared}
    for path in sorted({*paths, *log.declared()}):
        try:
            raw, agent = log.declared_raw(path), declared.get(paths.get(path, ""))
        except OSError as error:
            yield Problem(path, f"cannot be read: {error}")
            continue
        if agent is None or (
            sha256(raw) != declared.sha(agent.id)
            and raw != render_agent(agent).encode()
        ):
            yield Problem(
                path,
                (
                    "was edited, and the journal does not know it; the next read"
                    " takes in what is valid"
                ),
            )
