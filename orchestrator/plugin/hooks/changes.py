"""Changes of files, between the conversations of a workspace: each edit is recorded, and whoever
read or edited the file before is told of it, once.

A conversation remembers the files that it had to do with, by their identity, and how each looked
when it last saw it. What it is told stands quoted, as all text of others. Called by `respond`.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from orchestrator.plugin.facts.event import Event
from orchestrator.plugin.hooks.diff import Diff, is_compound, names_in, of_edit
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.state import MAIN, Worker
from orchestrator.runs import changes
from orchestrator.runs.changes import Change
from orchestrator.runs.repeats import age
from synapse.authority import visible
from synapse.errors import SynapseError
from synapse.index.full_text.search import holding
from synapse.model import namespace as ns
from synapse.model.entry import SECOND, Entry
from synapse.privacy.secrets import mask
from synapse.system.digest import sha256
from synapse.system.plain_files import read_file
from synapse.system.quoting import escaped, inline, prefixed
from synapse.system.tree_file import TreeFile, is_named, locate
from synapse.view.block import BODY, WHOLE, Block

LARGEST = 1 << 20  # bytes of a file that is looked into
AT_ONCE = 4  # files whose changes are told before or behind one call
NAMES = 3  # renamed or missing names of one change that are told
LONGEST_PATH = 120
WORDS = 300  # characters of what an author says of a change
FEWEST = 20  # characters that such words have beside the file's name
ENTRIES = (
    50  # of the newest ones with a file's name, in which such words are looked for
)
_MINUTE = 60 * SECOND
# how long a change is told to who edits the file without having seen it
RECENT = 15 * _MINUTE
# how long it is told to who uses a name that is gone
REMEMBERED = 24 * 60 * _MINUTE
LONGEST_COMMAND = 10_000  # characters that are looked at
NAMED = 12  # words of a command that are looked up as files
MARKS = 20  # calls at work that are remembered
_WORD = re.compile(r"[\w@+~./-]+")
_GREP = re.compile(r"\s*(?:git\s+grep|[efz]?grep|rg|ag|ack)\b")
_STATEMENT = re.compile(r"\n+|(?<=[.!?;])\s+")
_SWAP = re.compile(r"s([/|#,])\W*([A-Za-z_$][\w$]*)\W*\1\W*([A-Za-z_$][\w$]*)\W*\1")
# files whose text is not repeated
_KEPT_BACK = re.compile(r"(?:\A|/)\.env|\.(?:pem|key|p12|pfx)\Z|(?:\A|/)id_[a-z0-9]+\Z")


class Changes:
    """Records the edits of one session's workers, and tells them of those of others."""

    def __init__(self, workers: ClientRuns) -> None:
        self.workers, self.store = workers, workers.store
        self.project = os.path.dirname(workers.root)

    def locate(self, path: str, event: Event) -> TreeFile:
        """Return the file that a path of an event means."""
        file = locate(path, event.cwd or self.project, self.project)
        self.workers.session.trees[file.tree_id] = file.tree
        return file

    # -- what is told ------------------------------------------------------------------------------

    def news(self, worker: Worker) -> list[Block]:
        """Return what was changed in files that the worker has seen, since it was last told."""
        trees = {key.partition(" ")[0] for key in worker.files}
        with self.store.snapshot() as snap:
            cursor = snap.cursor
            candidates = [
                change
                for tree in sorted(trees)
                for change in changes.since(snap, tree, worker.looked)
                if change.file in worker.files
            ]
        worker.looked = cursor
        return self._tell(worker, candidates)

    def before(self, worker: Worker, event: Event) -> list[Block]:
        """Return what a worker has to know before a call, and note how the call finds the files."""
        blocks = self.news(worker)
        blocks += self._tell(worker, [*self._touched(worker, event)])
        self._mark(worker, event)
        return blocks

    def _touched(self, worker: Worker, event: Event) -> Iterator[Change]:
        """Yield the changes of others that a call touches: of a file that it edits and that the
        worker has not seen, and those that took away a name which the call uses.
        """
        now, names = self.store.clock(), _used_names(event)
        files = [file for _, file in self._files(event)] if event.kind == "edit" else []
        keys = {file.key for file in files} - set(worker.files)
        if not names and not keys:
            return
        trees = {file.tree_id for file in (*files, self.locate(".", event))}
        with self.store.snapshot() as snap:
            candidates = [
                change
                for tree in sorted(trees)
                for change in changes.since(snap, tree, 0, now - REMEMBERED)
            ]
        for change in candidates:
            is_edited = change.file in keys and change.at >= now - RECENT
            if is_edited or self._is_missing(
                change, names.intersection(change.removed)
            ):
                yield change

    def _is_missing(self, change: Change, names: set[str]) -> bool:
        """Tell whether the changed file is still without one of these names."""
        return bool(names and names - names_in(_look(self._file(change).full)[1]))

    def _tell(self, worker: Worker, candidates: Sequence[Change]) -> list[Block]:
        """Return the changes as text, those of one file together, without what the worker knows."""
        by_file = defaultdict[str, list[Change]](list)
        for change in candidates:
            newest, _ = worker.changes.get(change.file, (0, ""))
            if change.seq > newest and self._is_news(worker, change):
                by_file[change.file].append(change)
        blocks, unlisted = list[Block](), list[Change]()
        for changed in sorted(by_file.values(), key=lambda group: -group[-1].seq):
            last = changed[-1]
            worker.note_change(last.file, last.seq, last.run)
            digest, text = _look(self._file(last).full)
            if last.file in worker.files:
                if worker.files[last.file][0] == digest:
                    continue  # it is as the worker saw it
                worker.see({last.file: digest})
            if len(blocks) == AT_ONCE:
                unlisted.append(last)
                continue
            blocks.append(self._block(worker, changed, names_in(text)))
            for run in {change.run for change in changed}:
                self.workers.pass_doubts(run, worker.run)
        return [*blocks, _count(unlisted)] if unlisted else blocks

    def _is_news(self, worker: Worker, change: Change) -> bool:
        """Tell whether a change is for the worker to know: another conversation made it, none that
        the worker began, and it may read of that project.
        """
        reader = self.workers.reader(worker)
        if not ns.matches_any(reader.reads, f"status/{change.project}"):
            return False
        return not self.is_own(worker, change.run)

    def is_own(self, worker: Worker, run: str | None) -> bool:
        """Tell whether a run is the worker's conversation, or one that it began."""
        if run == worker.run:
            return True
        with self.store.snapshot(late=True) as snap:
            fields = snap.run(run) if run else None
        session = self.workers.session
        if fields is None or fields.get("attached") != session.session:
            return False
        key = next(key for key, peer in session.workers.items() if peer is worker)
        return key == MAIN or fields.get("conversation") == key

    def _file(self, change: Change) -> TreeFile:
        return TreeFile(self.workers.session.trees.get(change.tree, ""), change.path)

    def _block(
        self, worker: Worker, changed: Sequence[Change], present: set[str]
    ) -> Block:
        """Return what is told of the changes of one file, the last of them by its words."""
        last = changed[-1]
        renamed = {old: new for change in changed for old, new in change.renamed}
        removed = [name for change in changed for name in change.removed]
        facts = [
            f"{name} is now {renamed[name]}" if name in renamed else f"{name} is gone"
            for name in dict.fromkeys(removed)
            if name not in present
        ]
        agents = " and ".join(dict.fromkeys(change.agent for change in changed))
        when = _ago(self.store.clock() - last.at)
        head = f"{agents} changed {_path(last)} {when}"
        text = self._words(worker, last) or last.head
        facts_text = f": {', '.join(facts[:NAMES])}" if facts else ""
        body = prefixed(escaped(text), BODY) if text else ""
        return Block(f"- {head}{facts_text}\n{body}", WHOLE)

    def _words(self, worker: Worker, change: Change) -> str:
        """Return what the author of a change says of the file, and where; nothing where it does
        not.
        """
        agent, now = self.workers.reader(worker), self.store.clock()
        file = self._file(change)
        with self.store.snapshot(words=True) as snap:
            name = os.path.basename(change.path)
            entries = holding(snap, agent, name, now, ENTRIES)
        for entry in entries:
            is_author = entry.run == change.run and entry.seq > change.seq
            if (
                not is_author
                or entry.trust == "unverified"
                or not visible(entry, agent)
            ):
                continue
            if text := _statement(entry, file):
                self.workers.agent_memory(worker).access.noticed([entry])
                worker.add("seen", [entry.id])
                return f"{text} ({entry.id})"
        return ""

    # -- what is recorded --------------------------------------------------------------------------

    def _mark(self, worker: Worker, event: Event) -> None:
        """Note how a call finds the files that it may change."""
        if event.kind not in ("edit", "run"):
            return
        marks: dict[str, Any] = {}
        for path, file in self._files(event):
            digest, text = _look(file.full)
            mark: dict[str, Any] = {"digest": digest}
            if event.kind == "run":
                mark["names"] = sorted(names_in(text) & names_in(_command(event)))
            else:
                edits = [edit for edit in event.edits if edit.path == path]
                mark["diffs"] = [of_edit(text, edit.old, edit.new) for edit in edits]
            marks[file.key] = mark
            mark["looked"] = worker.looked
            if file.key not in worker.files:
                worker.see({file.key: digest})
        worker.marks[event.call or ""] = marks
        for call in list(worker.marks)[:-MARKS]:
            del worker.marks[call]

    def after(self, worker: Worker, event: Event) -> list[Block]:
        """Record what a call changed, note what the worker has seen, and return what others changed
        meanwhile.
        """
        marks = worker.marks.pop(event.call or "", {})
        digests: dict[str, str] = {}
        for path, file in self._files(event):
            digest, text = _look(file.full)
            digests[file.key] = digest
            mark = marks.get(file.key)
            if mark is None or mark["digest"] == digest:
                continue
            if event.kind == "edit" or not self._is_known(file, mark, digest):
                diff = _diff(event, path, mark, text)
                self._record(worker, event, file, diff, digest)
        if event.kind == "read":
            worker.see(digests)  # it has what others changed until now
        blocks = self.news(worker)
        worker.see(digests)
        return blocks

    def _is_known(self, file: TreeFile, mark: dict[str, Any], digest: str) -> bool:
        """Tell whether another one's change left a file as it is, while a command ran that names
        it.
        """
        with self.store.snapshot() as snap:
            candidates = [*changes.since(snap, file.tree_id, mark["looked"])]
        return any(
            (change.file, change.sha) == (file.key, digest) for change in candidates
        )

    def _record(
        self, worker: Worker, event: Event, file: TreeFile, diff: Diff, digest: str
    ) -> None:
        writer = self.workers.agent_memory(worker).writer
        if _KEPT_BACK.search(file.path):
            diff = Diff()
        call = event.call or f"{self.store.clock()}"
        once = f"{worker.run}/{call}/{file.key}"
        fields = {"sha": digest, **diff._asdict()}
        with suppress(SynapseError):  # the edit is made, whoever hears of it
            changes.write(writer, file, once, **fields)

    def _files(self, event: Event) -> Iterator[tuple[str, TreeFile]]:
        """Yield the files that a call reads, edits or names in its command, by their paths."""
        paths: Iterable[str] = ()
        if event.kind in ("read", "edit"):
            paths = event.subjects
        elif event.kind == "run":
            tokens = dict.fromkeys(_WORD.findall(_command(event)))
            paths = [token for token in tokens if "." in token or "/" in token][:NAMED]
        for path in paths:
            file = self.locate(path, event)
            if event.kind == "edit" or os.path.isfile(file.full):
                yield path, file


def _diff(event: Event, path: str, mark: dict[str, Any], text: str) -> Diff:
    """Return what a call changed in a file whose text is this now."""
    if event.kind == "run":
        command = _command(event)
        removed = [name for name in mark["names"] if name not in names_in(text)]
        swaps = [(old, new) for _, old, new in _SWAP.findall(command) if old in removed]
        line = mask(command.strip().partition("\n")[0])
        return Diff(f"$ {line[:WORDS]}", tuple(removed), tuple(swaps))
    present = names_in(text)
    diffs = [Diff(*diff) for diff in mark["diffs"]]
    removed = [name for diff in diffs for name in diff.removed if name not in present]
    renamed = [
        (old, new) for diff in diffs for old, new in diff.renamed if old in removed
    ]
    heads = [diff.head for diff in diffs if diff.head]
    return Diff(heads[0] if heads else "", tuple(removed), tuple(renamed))


def _look(path: str) -> tuple[str, str]:
    """Return the digest of a file and its text; of a large one, what its folder says of it."""
    try:
        status = os.stat(path)
        if status.st_size > LARGEST:
            return f"{status.st_size} {status.st_mtime_ns}", ""
        raw = read_file(path, LARGEST)
    except OSError:
        return "", ""
    return sha256(raw)[:16], raw.decode("utf-8", "replace")


def _command(event: Event) -> str:
    """Return the command that a call runs, or the pattern that it looks for."""
    values = event.arguments.values()
    text = "\n".join(value for value in values if isinstance(value, str))
    return text[:LONGEST_COMMAND]


def _used_names(event: Event) -> set[str]:
    """Return the names that a call uses: that it looks for, that its command has, or that it adds
    to a file. Only what is looked for may be one plain word, which means something else elsewhere.
    """
    if event.kind in ("run", "grep"):
        command = _command(event)
        names = names_in(command)
        if event.kind == "grep" or _GREP.match(command):
            return names
    else:
        names = set[str]()
        for edit in event.edits:
            names |= names_in(edit.new) - names_in(edit.old or "")
    return set(filter(is_compound, names))


def _statement(entry: Entry, file: TreeFile) -> str:
    """Return the sentences of an entry that name a file, if they say something of it."""
    sentences = [text for text in _STATEMENT.split(entry.body) if text.strip()]
    places = [n for n, text in enumerate(sentences) if is_named(text, file)]
    if not places:
        return ""
    # what follows the file's name is said of it
    text = " ".join(sentences[places[0] :])[:WORDS]
    return text if len(text) - len(file.path) >= FEWEST else ""


def _ago(micros: int) -> str:
    return "just now" if micros < _MINUTE else f"{age(micros)} ago"


def _path(change: Change) -> str:
    """Return the end of the path of a file, on one line."""
    path = inline(change.path)
    return path if len(path) <= LONGEST_PATH else f"…{path[-LONGEST_PATH:]}"


def _count(unlisted: Sequence[Change]) -> Block:
    """Return one line for the changes that there was no room for."""
    paths = ", ".join(_path(change) for change in unlisted[:8])
    suffix = f" and {len(unlisted) - 8} more" if len(unlisted) > 8 else ""
    return Block(
        f"- also changed, of the files that you know: {paths}{suffix}\n", WHOLE
    )
