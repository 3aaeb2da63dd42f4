"""Changes of files, between the conversations of a workspace: each edit is recorded, and whoever
read or edited the file before is told of it, once.

A conversation remembers the files that it had to do with, by their identity, and how each looked
when it last saw it (`seen`). What it is told stands quoted, as all text of others. The one policy,
for the sessions of clients and for runs with tools of their own; knows nothing of either. Called by
the hooks of clients and by `sharing`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from orchestrator.files.diff import Diff, names_in, of_edit
from orchestrator.files.look import Look, has_changed, look
from orchestrator.files.seen import SeenFiles
from orchestrator.files.touch import Touch
from orchestrator.runs import changes
from orchestrator.runs.changes import Change
from orchestrator.runs.repeats import age
from synapse.agent_memory import AgentMemory
from synapse.errors import SynapseError
from synapse.index.full_text.search import holding
from synapse.model import namespace as ns
from synapse.model.agents import Agent
from synapse.model.entry import SECOND, Entry
from synapse.privacy.secrets import mask
from synapse.store import Store
from synapse.system.pattern import later
from synapse.system.quoting import escaped, inline, prefixed
from synapse.system.tree_file import TreeFile, is_named, locate
from synapse.view.block import BODY, WHOLE, Block

SETTLED = 2.0  # seconds in which the record of a change is written
LISTED = 8  # files that are named in one line
ALSO = "also changed, of the files that you know"
OUTSIDE = "changed since you read them, by no edit of a session"
AT_ONCE = 4  # files whose changes are told before or behind one call
NAMES = 3  # renamed or missing names of one change that are told
LONGEST_PATH = 120
WORDS = 300  # characters of what an author says of a change
FEWEST = 20  # characters that such words have beside the file's name
ENTRIES = 50  # of the newest ones with a file's name, in which such words are looked for
_MINUTE = 60 * SECOND
# how long a change is told to who edits the file without having seen it
RECENT = 15 * _MINUTE
# how long it is told to who uses a name that is gone
REMEMBERED = 24 * 60 * _MINUTE
MARKS = 20  # calls at work that are remembered
_STATEMENT = later(r"\n+|(?<=[.!?;])\s+")
_SWAP = later(r"s([/|#,])\W*([A-Za-z_$][\w$]*)\W*\1\W*([A-Za-z_$][\w$]*)\W*\1")
# files whose text is not repeated
_KEPT_BACK = later(r"(?:\A|/)\.env|\.(?:pem|key|p12|pfx)\Z|(?:\A|/)id_[a-z0-9]+\Z")


W = TypeVar("W", bound=SeenFiles)
W_contra = TypeVar("W_contra", bound=SeenFiles, contravariant=True)


class Conversations(Protocol[W_contra]):
    """The conversations of a session or a supervisor. `folder` is that of their project; `trees`
    are the work trees of their files, by their short names.
    """

    store: Store
    folder: str

    @property
    def trees(self) -> MutableMapping[str, str]: ...

    def reader(self, worker: W_contra) -> Agent:
        """Return the agent of a conversation as it reads in its run."""

    def agent_memory(self, worker: W_contra) -> AgentMemory:
        """Return the memory as that agent has it."""

    def is_own(self, worker: W_contra, run: str | None) -> bool:
        """Tell whether a run is this conversation, or one that it began."""

    def pass_doubts(self, source: str, to: str) -> None:
        """Limit a run by what limits another one, whose words it was told."""

    def note_given(self, worker: W_contra, entry: Entry) -> None:
        """Note that a conversation was given the words of an entry."""


class Changes(Generic[W]):
    """Records the edits of conversations, and tells them of those of others."""

    def __init__(self, workers: Conversations[W]) -> None:
        self.workers, self.store = workers, workers.store
        self.project = workers.folder

    def locate(self, path: str, folder: str) -> TreeFile:
        """Return the file that a path means in a current folder."""
        file = locate(path, folder or self.project, self.project)
        self.workers.trees[file.tree_id] = file.tree
        return file

    # -- what is told ------------------------------------------------------------------------------

    def news(self, worker: W, ended: Touch | None = None) -> list[Block]:
        """Return what was changed in files that the worker has seen, since it was last told.
        `ended` is the call that has just ended.
        """
        own = self.settle(worker, ended and ended.call)
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
        blocks = self._tell(worker, candidates)
        for key, found in own.items():
            worker.see(key, found.digest, found.status)
        if ended is not None and ended.kind != "read":
            self.see(worker, ended, own)
        known = {change.file: change.sha for change in candidates}
        settled = 0.0 if ended and ended.kind == "run" else SETTLED
        return blocks + _listed(OUTSIDE, self._outside(worker, known, settled))

    def _outside(self, worker: W, known: Mapping[str, str], settled: float) -> list[str]:
        """Return the files that are not as the worker read them, by none of the changes that are
        `known`: a person's, or those of a program that named no file. What was written less than
        `settled` seconds ago waits: its record may be on the way.
        """
        paths = list[str]()
        for key, seen in list(worker.files.items()):
            path = self.file_of(key).full
            if seen.watched and (key in known or has_changed(path, seen.status, settled)):
                found = look(path)
                worker.see(key, found.digest, found.status)
                if found.digest not in (seen.digest, known.get(key)):
                    worker.files[key] = worker.files[key]._replace(watched=False)
                    worker.note_notice(key)
                    paths.append(f"{key.partition(' ')[2]}{'' if found.digest else ' (gone)'}")
        return paths[::-1]

    def before(self, worker: W, touch: Touch) -> list[Block]:
        """Return what a worker has to know before a call, and note how the call finds the files."""
        blocks = self.news(worker)
        blocks += self._tell(worker, [*self._touched(worker, touch)])
        self._mark(worker, touch)
        return blocks

    def _touched(self, worker: W, touch: Touch) -> Iterator[Change]:
        """Yield the changes of others that a call touches: of a file that it edits and that the
        worker has not seen, and those that took away a name which the call uses.
        """
        now, names = self.store.clock(), touch.used_names()
        files = [file for _, file in self.named(touch)] if touch.kind == "edit" else []
        keys = {file.key for file in files} - set(worker.files)
        if not names and not keys:
            return
        beside = self.locate("_", touch.folder)  # any file of the folder: that may be a tree's top
        trees = {file.tree_id for file in (*files, beside)}
        with self.store.snapshot() as snap:
            candidates = [
                change
                for tree in sorted(trees)
                for change in changes.since(snap, tree, 0, now - REMEMBERED)
            ]
        for change in candidates:
            is_edited = change.file in keys and change.at >= now - RECENT
            # who has the new name beside it knows
            replaced = {old for old, new in change.renamed if new in names}
            used = names.intersection(change.removed) - replaced
            if is_edited or self._is_missing(change, used):
                yield change

    def _is_missing(self, change: Change, names: set[str]) -> bool:
        """Tell whether the changed file is still without one of these names."""
        return bool(names and names - names_in(look(self.file_of(change.file).full).text))

    def _tell(self, worker: W, candidates: Sequence[Change]) -> list[Block]:
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
            found = look(self.file_of(last.file).full)
            if last.file in worker.files:
                if worker.files[last.file].digest == found.digest:
                    continue  # it is as the worker saw it
                worker.see(last.file, found.digest, found.status)
            worker.note_notice(last.file)
            if len(blocks) == AT_ONCE:
                unlisted.append(last)
                continue
            blocks.append(self._block(worker, changed, names_in(found.text)))
            for run in {change.run for change in changed}:
                self.workers.pass_doubts(run, worker.run)
        return blocks + _listed(ALSO, [change.path for change in unlisted])

    def _is_news(self, worker: W, change: Change) -> bool:
        """Tell whether a change is for the worker to know: another conversation made it, none that
        the worker began, and it may read of that project.
        """
        reader = self.workers.reader(worker)
        if not ns.matches_any(reader.reads, f"status/{change.project}"):
            return False
        return not self.workers.is_own(worker, change.run)

    def file_of(self, key: str) -> TreeFile:
        """Return the file that a key stands for."""
        tree, _, path = key.partition(" ")
        return TreeFile(self.workers.trees.get(tree, ""), path)

    def _block(self, worker: W, changed: Sequence[Change], present: set[str]) -> Block:
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
        head = f"{agents} changed {path_end(last.path)} {when}"
        text = self._words(worker, last) or last.head
        facts_text = f": {', '.join(facts[:NAMES])}" if facts else ""
        body = prefixed(escaped(text), BODY) if text else ""
        return Block(f"- {head}{facts_text}\n{body}", WHOLE)

    def _words(self, worker: W, change: Change) -> str:
        """Return what the author of a change says of the file, and where; nothing where it does
        not.
        """
        agent, now = self.workers.reader(worker), self.store.clock()
        file = self.file_of(change.file)
        with self.store.snapshot(words=True) as snap:
            name = os.path.basename(change.path)
            entries = holding(snap, agent, name, now, ENTRIES)
        for entry in entries:
            is_author = entry.run == change.run and entry.seq > change.seq
            if not is_author or entry.trust == "unverified":
                continue
            if text := _statement(entry, file):
                self.workers.note_given(worker, entry)
                return f"{text} ({entry.id})"
        return ""

    # -- what is recorded --------------------------------------------------------------------------

    def _mark(self, worker: W, touch: Touch) -> None:
        """Note how a call finds the files that it may change."""
        if touch.kind not in ("edit", "run"):
            return
        marks: dict[str, Any] = {}
        for path, file in self.named(touch):
            found = look(file.full)
            edits = [edit for edit in touch.edits if edit.path == path]
            diffs = [of_edit(found.text, edit.old, edit.new) for edit in edits]
            if touch.kind == "run":
                diffs = diffs or [_of_command(touch.text, found.text)]
            mark = {"digest": found.digest, "looked": worker.looked, "diffs": diffs}
            mark |= {"text": found.text} if touch.keep else {}
            marks[file.key] = mark | {"run": touch.kind == "run"}
            if file.key not in worker.files:
                worker.see(file.key, found.digest, found.status)
        worker.marks[touch.call] = marks
        for call in list(worker.marks)[:-MARKS]:
            del worker.marks[call]

    def after(self, worker: W, touch: Touch) -> list[Block]:
        """Record what a call changed, note what the worker has seen, and return what others changed
        meanwhile.
        """
        if touch.kind == "read":
            self.see(worker, touch)  # it has what others changed until now
        blocks = self.news(worker, touch)
        worker.marks.pop(touch.call, None)
        return blocks

    def see(self, worker: W, touch: Touch, changed: Collection[str] = ()) -> None:
        """Note how the files look that a call or a prompt names. The worker knows the text of those
        that it read, and that its edit `changed`. A call that failed gave it none.
        """
        has_read = touch.kind == "read" and not touch.failed
        for _, file in self.named(touch):
            found = look(file.full)
            is_read = has_read or (touch.kind == "edit" and file.key in changed)
            read = self.store.clock() if is_read and found.digest else 0
            worker.see(file.key, found.digest, found.status, read)

    def settle(self, worker: W, ended: str | None = None) -> dict[str, Look]:
        """Record what the worker's calls changed, and return how these files look now. Not every
        client says when a call has ended: one whose file has changed is over, unless somebody else
        changed it.
        """
        looks = dict[str, Look]()
        for call, marks in worker.marks.items():
            for key, mark in list(marks.items()):
                file = self.file_of(key)
                found = look(file.full)
                if found.digest == mark["digest"]:
                    continue
                is_edit = call == ended and not mark.get("run")
                if not is_edit and self._is_known(file, mark, found.digest):
                    mark |= {"digest": found.digest, "looked": worker.looked}
                    continue
                del marks[key]
                looks[key] = found
                self._record(worker, call, file, _diff(mark, found.text), found.digest)
        return looks

    def finish(self, worker: W) -> int:
        """Record what calls changed whose end nobody told, at the end of a turn; return how many
        files that were.
        """
        looks = self.settle(worker)
        for key, found in looks.items():
            worker.see(key, found.digest, found.status)
        worker.marks = {}
        return len(looks)

    def _is_known(self, file: TreeFile, mark: dict[str, Any], digest: str) -> bool:
        """Tell whether another one's change left a file as it is, while a command ran that names
        it.
        """
        with self.store.snapshot() as snap:
            candidates = [*changes.since(snap, file.tree_id, mark["looked"])]
        return any((change.file, change.sha) == (file.key, digest) for change in candidates)

    def _record(self, worker: W, call: str, file: TreeFile, diff: Diff, digest: str) -> None:
        writer = self.workers.agent_memory(worker).writer
        if _KEPT_BACK.search(file.path):
            diff = Diff()
        once = f"{worker.run}/{call or self.store.clock()}/{file.key}"
        fields = {"sha": digest, **diff._asdict()}
        with suppress(SynapseError):  # the edit is made, whoever hears of it
            changes.write(writer, file, once, **fields)

    def named(self, touch: Touch) -> Iterator[tuple[str, TreeFile]]:
        """Yield the files that a call or a prompt names, by their paths."""
        for path in touch.paths:
            file = self.locate(path, touch.folder)
            if touch.kind == "edit" or os.path.isfile(file.full):
                yield path, file


def _of_command(command: str, text: str) -> Diff:
    """Return what a command that names a file may change in it: the names that both have."""
    names = names_in(text) & names_in(command)
    swaps = [(old, new) for _, old, new in _SWAP.findall(command) if old in names]
    line = mask(command.strip().partition("\n")[0])
    return Diff(f"$ {line[:WORDS]}", tuple(sorted(names)), tuple(swaps))


def _diff(mark: Mapping[str, Any], text: str) -> Diff:
    """Return the changes of one call as one, in a file whose text is this now."""
    if "text" in mark:
        return of_edit(mark["text"], None, text)
    diffs: Sequence[Sequence[Any]] = mark["diffs"]
    present = names_in(text)
    heads, removed, renamed = zip(*diffs, strict=True) if diffs else ((), (), ())
    missing = [name for names in removed for name in names if name not in present]
    pairs = [(old, new) for names in renamed for old, new in names if old in missing]
    return Diff(next(filter(None, heads), ""), tuple(missing), tuple(pairs))


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


def path_end(path: str) -> str:
    """Return the end of the path of a file, on one line."""
    text = inline(path)
    return text if len(text) <= LONGEST_PATH else f"…{text[-LONGEST_PATH:]}"


def _listed(what: str, paths: Sequence[str]) -> list[Block]:
    """Return one line for files of which no more is told; none where there are none."""
    if not paths:
        return []
    rest = f" and {len(paths) - LISTED} more" if len(paths) > LISTED else ""
    return [Block(f"- {what}: {', '.join(map(path_end, paths[:LISTED]))}{rest}\n", WHOLE)]
