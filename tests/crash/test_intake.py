"""Dropped files, taken in by processes that are killed at their calls of the system: each of them
becomes one entry and one alone, none is lost, and the workspace is whole.
"""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

import synapse
from synapse.log import adopt
from synapse.log.upkeep import intake
from synapse.model import clock
from synapse.model.entry import SECOND
from synapse.model.records import Record
from tests.crash import kill

FILES = 40
BATCHES = (5, 20, 250)
# what comes through an inbox changes one of the folders, and no other
PLACES = ("entries/api/x", "entries/api/y", "inbox/ann/new")
DROP = """\
---
{id}from: {author}
timestamp: 2026-02-01T00:{minute:02d}:{second:02d}Z
namespace: {namespace}
priority: info
{more}---

body of the file {token}!
"""


# -- lives -----------------------------------------------------------------------------------------


class RemovesFirst(intake.Intake):
    """A wrong implementation: a file goes before its record is there."""

    def _write(self):
        for path in self.away:
            self.mirror.remove(path)
        super()._write()


class CountsTwice(intake.Intake):
    """A wrong implementation: a file that is tried again is another one."""

    def _write(self):
        self.batch = {f"{key}:{os.getpid()}": record for key, record in self.batch.items()}
        super()._write()


class StopsAtRefused(intake.Intake):
    """A wrong implementation: what is left of a batch goes with the one that is refused."""

    def _quarantine(self, found):
        super()._quarantine(found)
        self.batch, self.away = {}, []


class ForgetsFolders(adopt.Scanner):
    """A wrong implementation: a folder counts as looked at before what is in it was taken in."""

    def look(self, known, now, *, whole=False):
        yield from super().look(known, now, whole=whole)
        self.done((), now)


class SyncsEach(intake.Intake):
    """A wrong implementation: each file has a turn and a sync of its own."""

    def _adopt(self, found):
        super()._adopt(found)
        self._write()


WRONG = (RemovesFirst, CountsTwice, ForgetsFolders)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """What was dropped is taken in at the next look."""
    monkeypatch.setattr(adopt, "SETTLED", -1)


def look(root, batch):
    adopt.SETTLED = -1
    intake.BATCH = int(batch)
    with synapse.open(root) as memory:
        memory.store.refresh(whole=True)


def look_wrongly(root, batch, name):
    from synapse.log import files
    from synapse.log.upkeep import tree

    planted = next(each for each in WRONG if each.__name__ == name)
    owner = files if planted.__base__ is adopt.Scanner else tree
    setattr(owner, planted.__base__.__name__, planted)
    look(root, batch)


# -- the checker -----------------------------------------------------------------------------------


def dropped(root, seed):
    """Drop files everywhere, with ids and without, some that replace others and some that cannot be
    taken in; return the tokens of those that can.
    """
    with synapse.init(root) as memory:
        for name, write in (("ann", "*"), ("bob", "team/*")):
            memory.register(synapse.Agent(name, read=["*"], write=[write]))
    dice, tokens, ids = random.Random(seed), set(), []
    for place in PLACES:
        os.makedirs(f"{root}/{place}", exist_ok=True)
    for number in range(FILES):
        token, id, more = f"t{seed}-{number}", f"syn-own-{number}", ""
        if ids and dice.random() < 0.1:
            more = f"replaces: [{dice.choice(ids)}]\n"
        has_id, refused = dice.random() < 0.5, dice.random() < 0.05
        unread = dice.random() < 0.05  # it cannot even be parsed
        place = dice.choice(PLACES)
        text = DROP.format(
            id=f"id: {id}\n" if has_id else "",
            author="bob" if refused else "ann",
            minute=number // 60,
            second=number % 60,
            namespace="api/x" if place.startswith("inbox") else place[8:],
            more=more + ("priority: none\n" if unread else ""),
            token=token,
        )
        Path(root, place, f"drop-{number}.md").write_text(text)
        if not refused and not unread:
            tokens.add(token)
            ids += [id] * has_id
    return tokens


def ends(folder, most, work=look, *more):
    """Kill at so many of its calls who takes the files in, and twice who goes on, until one comes
    to its end; yield each time what is wrong when they were looked for once more.
    """
    tokens = {}

    def fresh():
        number = len(tokens)
        root = str(folder / f"{number}")
        tokens[root] = dropped(root, number)
        return root, BATCHES[number % len(BATCHES)], *more

    for at, (root, *args) in kill.kills(work, fresh, most):
        all(kill.killed(work, root, *args, at=at) for _ in range(2))
        yield [(at, what) for what in faults(root, tokens[root])]


def faults(root, tokens):
    """Return what is lost, doubled, left or damaged, a while later: the files of the newest records
    may still be on their way.
    """
    found = []
    with synapse.open(root, clock=lambda: clock.now() + 10 * SECOND) as memory:
        memory.store.refresh(whole=True)
        texts = [
            record.text.rpartition("file ")[2].partition("!")[0]
            for record in memory.store.log.since(0)
            if record.kind == "entry"
        ]
        report = memory.verify()
    counts = Counter(texts)
    found += [f"lost: {token}" for token in sorted(tokens - set(counts))]
    found += [f"doubled: {token}" for token in tokens if counts[token] > 1]
    found += [f"unknown: {token}" for token in sorted(set(counts) - tokens)]
    found += [f"left: {name}" for name in os.listdir(f"{root}/inbox/ann/new")]
    found += [f"{problem.where}: {problem.what}" for problem in report.problems]
    return found


@pytest.mark.parametrize("most", kill.POINTS)
def test_killed_at_it_each_file_becomes_one_entry(tmp_path, most):
    every = [*ends(tmp_path, most)]
    assert every == [[]] * len(every)
    assert len(every) > 9  # the stores differ, and the last calls of one are none of another


@pytest.mark.parametrize("wrong", WRONG)
def test_the_checker_catches_a_wrong_implementation(tmp_path, wrong):
    assert any(ends(tmp_path, 16, look_wrongly, wrong.__name__))


@pytest.fixture
def once(tmp_path, monkeypatch):
    """Return what takes in the same files with one look, by an implementation: how many of them are
    missing then, and how many syncs it took beside those of what was put aside.
    """

    def look(implementation):
        root = str(tmp_path / implementation.__name__)
        tokens, syncs, sync = dropped(root, 1), [], os.fdatasync
        monkeypatch.setattr("synapse.log.upkeep.tree.Intake", implementation)
        with synapse.open(root) as memory, monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), sync(fd)))
            memory.store.refresh(whole=True)
            taken = sum(record.kind == "entry" for record in memory.store.log.since(0))
        return len(tokens) - taken, len(syncs) - len(os.listdir(f"{root}/quarantine")) // 2

    return look


def test_one_that_is_refused_stops_no_other(once):
    assert once(intake.Intake)[0] == 0
    assert once(StopsAtRefused)[0] > 0


def test_files_share_a_sync(once):
    assert once(intake.Intake)[1] < FILES / 10
    assert once(SyncsEach)[1] > FILES / 2


def test_two_files_of_one_id_in_one_batch_are_two_entries(tmp_path):
    root = str(tmp_path / "root")
    with synapse.init(root) as memory:
        memory.register(synapse.Agent("ann", read=["*"], write=["*"]))
    os.makedirs(f"{root}/entries/api/x")
    for name in ("one", "two"):
        text = DROP.format(
            id="id: syn-own-1\n",
            author="ann",
            minute=0,
            second=0,
            namespace="api/x",
            more="",
            token=name,
        )
        Path(root, "entries/api/x", f"{name}.md").write_text(text)
    with synapse.open(root) as memory:
        memory.store.refresh(whole=True)
        entries: list[Record] = [
            record for record in memory.store.log.since(0) if record.kind == "entry"
        ]
    assert [record.path for record in entries] == ["entries/api/x/one.md", "entries/api/x/two.md"]
    assert entries[0].id == "syn-own-1" != entries[1].id
