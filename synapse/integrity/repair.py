"""Proof and repair of a whole workspace: its journal, its files, its operator's files, its index.

`Memory` offers these acts; `log.proof` walks along the journal. Nothing here is on the way of a
read or of an append.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from synapse.errors import InvalidEntry, NoKey, StoreError
from synapse.integrity import checkpoints
from synapse.log.chain import seq_of
from synapse.log.damage import Stretch, restored
from synapse.log.files import FilesLog
from synapse.log.proof import Proof, mend
from synapse.log.unite import lines_of, put_back
from synapse.log.upkeep.finish import GRACE
from synapse.model.agents import OPERATOR
from synapse.model.results import Problem, Report
from synapse.store import Store
from synapse.system.digest import sha256

_CANNOT = "cannot be put back from here: name a copy with --from, or accept the loss with --give-up"
# seconds; by then a file is where it belongs, or its writer is known to be dead
_PATIENCE = 2.5


def verify(
    store: Store, head: str | None = None, against: str | None = None, key: str | None = None
) -> Report:
    """Prove the journal's chain and every file against it. A file that is on its way is waited for;
    what a writer who died left undone is done.
    """
    if not isinstance(store.log, FilesLog):
        return Report(tuple(_unsigned(store, True)), store.log.mark()[1], "")
    start, mark = time.monotonic(), store.log.mark()
    report, settled = _proven(store, store.log, head)
    retry = True
    while retry and not report.ok:
        if store.log.mark() == mark and settled:
            break
        # what is missing may be on its way, or its writer dead; all else is looked at once more
        retry = any("missing" in problem.what for problem in report.problems)
        retry = retry and time.monotonic() - start < _PATIENCE
        moment = store.clock()
        time.sleep(0.1)
        retry = retry and store.clock() > moment  # one that stands still says nothing
        mark, earlier = store.log.mark(), set(report.problems)
        newer, settled = _proven(store, store.log, head)
        both = tuple(problem for problem in newer.problems if problem in earlier)
        report = newer._replace(problems=both)
    try:
        differing = tuple(checkpoints.compare(store, against, key))
    except NoKey as error:
        if against is not None:
            raise
        return report._replace(notes=(*report.notes, str(error)), compared=0)
    signed = checkpoints.signed_up_to(store, against, key)
    return report._replace(problems=(*report.problems, *differing), compared=signed)


def _proven(store: Store, log: FilesLog, head: str | None) -> tuple[Report, bool]:
    """Return what is wrong now, and whether every record was old enough for its files to be put
    there before that was looked at: a proof of a large log may last longer than the difference.
    """
    start = store.clock()
    newest, proof = store.index.seen(), Proof(log.root, log.journal, log.mirror)
    try:
        with store.snapshot():  # an index of another journal is made anew, and says so
            newest = store.index.seen()
        if store.tree is not None and not store.readonly:
            if log.lags:
                store.operator_files.write_missing()
            store.tree.place_missing()
    except StoreError:
        pass  # what is wrong is found on the way
    try:
        report = proof.run(head)
    except OSError as error:
        raise StoreError(f"{log.root} could not be read: {error}") from error
    settled = start - proof.at > GRACE
    if newest > report.records:
        cut = Problem(
            "journal",
            f"ends at record {report.records}, but the index has seen {newest}: it was cut",
        )
        return report._replace(problems=(*report.problems, cut)), settled
    try:
        undeclared = tuple(_undeclared(store, log))
    except StoreError as error:
        undeclared = (Problem("index", str(error)),)
    problems = (*report.problems, *undeclared)
    try:
        problems += tuple(_unsigned(store, proof.keyed))
    except NoKey as error:
        report = report._replace(notes=(f"signatures were not checked: {error}",))
    return report._replace(problems=problems), settled


def _unsigned(store: Store, claimed: bool) -> Iterator[Problem]:
    """Yield the entries that their authors' keys did not sign. `claimed` says whether one says of
    itself that it is signed.
    """
    if store.agents.keys is None and not claimed:
        return
    from synapse.trust.keyring import unproven

    for record, why in unproven(store.log.since(0)):
        advice = f"`synapse vouch {record.id}` accepts it as it is"
        yield Problem(f"record {record.seq}", f"{record.id}: {why}; {advice}")


def repair(
    store: Store, *, dry_run: bool = False, source: str | None = None, give_up: bool = False
) -> Report:
    """Put lines back as the chain proves them and files as the journal has them, and record what
    was done; then what `verify` still finds. A dry run writes nothing and says what it would do.
    """
    log, notes = store.log, []
    repaired: list[str] = []
    if not isinstance(log, FilesLog):
        return verify(store)
    if dry_run:
        for stretch, _, how in _findings(log, source):
            notes.append(f"{stretch.where}: {how or _CANNOT}")
        report = verify(store)
        return report._replace(notes=tuple(notes))
    store.log.demand_writable()
    notes = _repair_lines(store, log, source, give_up)
    if give_up or not notes or not log.journal.stretches():
        store.refresh(whole=True)  # files come after the journal that says what they are
        proof = Proof(log.root, log.journal, log.mirror)
        if not proof.run().ok and proof.wrong:
            repaired, lost = mend(proof)
            store.commit.act("repair", OPERATOR, ids=repaired, lost=lost)
        if give_up and proof.aside:
            notes += [f"{problem.where}: given up" for problem in proof.aside.values()]
            store.commit.act("repair", OPERATOR, aside=[*proof.aside])
    report = verify(store)
    return report._replace(mended=tuple(repaired), notes=tuple(notes))


def _findings(log: FilesLog, source: str | None) -> list[tuple[Stretch, bytes | None, str]]:
    """Return what of the journal is damaged, what stood there, and how that is known."""
    stretches = log.journal.stretches()
    seqs = {seq for stretch in stretches for seq in stretch.seqs}
    copies: dict[int, list[bytes]] = {}
    for raw in lines_of(source, strict=False) if source and seqs else ():
        if (seq := seq_of(raw)) in seqs:
            copies.setdefault(seq, []).append(raw)
    findings: list[tuple[Stretch, bytes | None, str]] = []
    for stretch in stretches:
        restoration = restored(stretch, log.texts_of, copies)
        findings.append((stretch, *(restoration or (None, ""))))
    return findings


def _repair_lines(store: Store, log: FilesLog, source: str | None, give_up: bool) -> list[str]:
    """Put damaged lines back; give up the others where that is wanted. Return what was done."""
    notes: list[str] = []
    given_up: list[list[object]] = []
    floor = -1
    # from the end: places stay
    for stretch, raw, how in reversed(_findings(log, source)):
        if raw is not None and put_back(log.root, log.journal, stretch, raw):
            notes.append(f"{stretch.where}: put back, {how}")
        elif not give_up:
            notes.append(f"{stretch.where}: {_CANNOT}")
            continue
        elif stretch.following:
            given_up.append(stretch.given_up)
            notes.append(f"{stretch.where}: given up")
        else:
            log.journal.give_up_last(store.commit)
            notes.append(f"{stretch.where}: given up")
        floor = stretch.seqs.start - 1
    if floor >= 0:
        store.index.restored(floor)
        store.refresh()
    if given_up:
        store.commit.act("repair", OPERATOR, lines=given_up[::-1])
    return notes[::-1]


def _undeclared(store: Store, log: FilesLog) -> Iterator[Problem]:
    """Yield files of the operator's that are not, byte for byte, what the journal says."""
    from synapse.formats.declared import render_agent

    with store.snapshot() as snap:
        declared = snap.declared
    waits = store.operator_files.waits
    if store.operator_files.unnoticed("synapse.yaml") and not waits("synapse.yaml"):
        yield Problem(
            "synapse.yaml", "was edited since it was last read; the next read takes it in"
        )
    paths = {f"agents/{id}.yaml": id for id in declared}
    for path in sorted({*paths, *log.declared()}):
        try:
            raw, agent = log.declared_raw(path), declared.get(paths.get(path, ""))
        except OSError as error:
            yield Problem(path, f"cannot be read: {error}")
            continue
        except InvalidEntry as error:
            yield Problem(path, str(error).removeprefix(f"{path} "))
            continue
        differs = agent is None or (
            sha256(raw) != declared.sha(agent.id) and raw != render_agent(agent).encode()
        )
        if differs and not waits(path):
            yield Problem(
                path,
                (
                    "was edited, and the journal does not know it; the next read"
                    " takes in what is valid"
                ),
            )
