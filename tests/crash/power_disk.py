"""The states that a power cut may leave of a folder, from what `power.Recorder` saw of it."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path

from tests.crash.power import Acknowledged, Data, Names, Sync

SECTOR = 512
LONG_AGO = 1_700_000_000  # when files were last changed that nobody writes any more
STYLES = ("dropped", "kept", "zeros", "torn", "mixed", "hole")


class Disk:
    """The states that operations may leave on a disk that began as it did."""

    def __init__(self, recorder):
        self.folders, self.files = recorder.folders, recorder.files
        self.modes, self.ops = recorder.modes, recorder.ops
        self.inodes = {number: inode for (_, inode), number in recorder.numbers.items()}

    def acknowledged(self, count):
        """Return what was acknowledged within the first operations."""
        return [op.what for op in self.ops[:count] if isinstance(op, Acknowledged)]

    def redacted(self, count):
        """Return after how many of the first operations the last redaction was acknowledged."""
        return max(
            (
                at
                for at, op in enumerate(self.ops[:count], 1)
                if isinstance(op, Acknowledged) and op.what[0] == "redacted"
            ),
            default=0,
        )

    def cuts(self, chance, most):
        """Yield where the power is cut, and how its state is chosen: after every operation at
        least once where there are as many cuts, else after some of them; every fourth cut follows
        an acknowledgement.
        """
        last = len(self.ops)
        told = [at for at, op in enumerate(self.ops, 1) if isinstance(op, Acknowledged)]
        places = list(range(last + 1)) if last < most else []
        while len(places) < most:
            soon = told and chance.random() < 0.25
            places.append(chance.choice(told) if soon else chance.randint(0, last))
        for number, place in enumerate(sorted(places)):
            yield place, f"{number} {chance.random()}"

    def holes(self, chance, most):
        """Yield cuts in the midst of what one sync is to cover: several writes to one file."""
        places, waiting = [], Counter()
        for at, op in enumerate(self.ops, 1):
            if isinstance(op, Sync):
                waiting.pop(op.node, None)
            elif isinstance(op, Data):
                waiting[op.file] += 1
            if max(waiting.values(), default=0) > 1:
                places.append(at)
        for number in range(most):
            yield chance.choice(places), f"{number} {chance.random()}"

    def tree(self, count, chance=None, mood=None):
        """Return the names below the root and the bytes of the files, as a cut after so many
        operations may leave them: all that was written, or what chance has left of it.
        """
        ops = self.ops[:count]
        mood = mood or (chance.choice((*STYLES, "any", "least")) if chance else "kept")
        names = self._names(ops, chance, mood)
        contents, done = {}, {}
        for at, op in enumerate(ops):
            if isinstance(op, Sync):
                done[op.node] = at
        writes = {}
        for at, op in enumerate(ops):
            if isinstance(op, Data):
                writes.setdefault(op.file, []).append((at, op))
        reached = {node for folder in names.values() for node in folder.values()}
        for node in reached - names.keys():
            versions = [self.files.get(node, b"")]
            for at, op in writes.get(node, ()):
                version = _applied(versions[-1], op)
                if at < done.get(node, -1):
                    versions[-1] = version
                else:
                    versions.append(version)
            contents[node] = _left(versions, chance, mood)
        return names, contents

    def _names(self, ops, chance, mood):
        """Return the names in each folder, of what a cut may leave of these operations."""
        places = {}
        for at, op in enumerate(ops):
            if isinstance(op, Names):
                places.setdefault(op.folder, []).append(at)
        ends = _ends(ops, places, chance, mood)
        while _needed(ops, places, ends):  # until no rename is there by half
            pass
        names = {folder: dict(held) for folder, held in self.folders.items()}
        for folder, changed in places.items():
            for at in changed[: ends[folder]]:
                for name, node in ops[at].changes:
                    names[folder][name] = node
        return {
            folder: {name: node for name, node in held.items() if node is not None}
            for folder, held in names.items()
        }

    def calls(self):
        """Return how many calls of each kind there were; files that `open` made are left out."""
        known = {*self.files, *self.folders}
        count = Counter()
        for op in self.ops:
            if isinstance(op, Sync):
                count["sync"] += 1
            elif isinstance(op, Data) and op.size is None:
                count["write"] += 1
            elif isinstance(op, Names) and op.needs is None:
                nodes = {node for _, node in op.changes if node is not None}
                count["name"] += nodes <= known
                known |= nodes
        return dict(count)

    def files_of(self, names, contents):
        """Return the bytes of each file of a tree by its path, None for a folder."""
        found = {}

        def walk(folder, path):
            for name, node in names[folder].items():
                at = os.path.join(path, name)
                found[at] = contents.get(node)
                if node in names:
                    walk(node, at)

        walk(min(self.folders), "")
        return found

    def lay(self, path, count, chance=None, mood=None):
        """Make such a tree below a new folder; return which inodes have which ones' place."""
        names, contents = self.tree(count, chance, mood)
        placed, inodes = {}, {}
        os.mkdir(path)

        def fill(folder, path):
            for name, node in names[folder].items():
                at = os.path.join(path, name)
                if node in names:
                    os.mkdir(at)
                    fill(node, at)
                elif node in placed:
                    os.link(placed[node], at)
                else:
                    placed[node] = at
                    Path(at).write_bytes(contents[node])
                os.chmod(at, self.modes[node] | stat.S_IWUSR)
                os.utime(at, (LONG_AGO, LONG_AGO))
                inodes[self.inodes.get(node)] = os.stat(at).st_ino

        fill(min(self.folders), str(path))
        return inodes


def _ends(ops, places, chance, mood):
    """Return how many of the changes in each folder are on the disk."""
    synced, count = {}, Counter()
    for op in ops:
        if isinstance(op, Names):
            count[op.folder] += 1
        elif isinstance(op, Sync):
            synced[op.node] = count[op.node]
    # with what is lost of the bytes, mostly the names are there, and the other way about
    if chance is None or (mood not in ("any", "least") and chance.random() < 0.5):
        return {folder: len(changed) for folder, changed in places.items()}
    ends = {}
    for folder, changed in places.items():
        least = synced.get(folder, 0)
        few = mood == "least" or chance.random() < 0.3
        ends[folder] = least if few else chance.randint(least, len(changed))
    return ends


def _needed(ops, places, ends):
    """Put the new name of a rename on the disk whose old one is gone from it; whether any was."""
    before = dict(ends)
    for folder, changed in places.items():
        for at in changed[: ends[folder]]:
            needs = ops[at].needs
            if needs is not None:
                target = ops[needs].folder
                ends[target] = max(ends[target], places[target].index(needs) + 1)
    return ends != before


def _applied(content, op):
    if op.size is not None:
        return content[: op.size].ljust(op.size, b"\0")
    end = op.offset + len(op.raw)
    return content[: op.offset].ljust(op.offset, b"\0") + op.raw + content[end:]


def _left(versions, chance, mood):
    """Return what a cut may leave of a file: the first version was synced, the last is the one
    that was written.
    """
    if chance is None or len(versions) == 1:
        return versions[-1]
    style = chance.choice(STYLES) if mood == "any" else mood
    first, last = versions[0], versions[-1]
    if style in ("dropped", "least"):
        return first
    if style == "kept":
        return last
    if style == "zeros":
        return last[: len(first)].ljust(len(last), b"\0")
    if style == "torn":
        at = chance.randint(1, len(versions) - 1)
        sector = chance.randint(0, len(versions[at]) // SECTOR) * SECTOR
        return versions[at][:sector] + versions[at - 1][sector:]
    if style == "hole":
        start = chance.randint(len(first) // SECTOR, len(last) // SECTOR) * SECTOR
        old = first[start : start + SECTOR].ljust(SECTOR, b"\0")
        return (last[:start] + old + last[start + SECTOR :])[: len(last)]
    size = len(chance.choice(versions))
    sectors = []
    for start in range(0, size, SECTOR):
        taken = chance.choice(versions)
        if start >= len(first) and chance.random() < 0.3:
            taken = b""  # its block was given out, and never written
        sectors.append(taken[start : start + SECTOR].ljust(SECTOR, b"\0"))
    return b"".join(sectors)[:size]
