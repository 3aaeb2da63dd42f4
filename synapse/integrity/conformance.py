"""The check of a directory against PROTOCOL.md, whatever program wrote it.

It reads everything and changes nothing. `fail` means that a program that keeps to the protocol
would refuse, lose or mistake something; `warn` that it would cope, but may surprise somebody. The
journal's chain is checked, what it records is believed. `synapse doctor` calls it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from synapse.authority import MAX_BODY, check_form, may_write
from synapse.errors import Forbidden, NewerProtocol, SynapseError
from synapse.formats import codec, declared
from synapse.formats.fields import MAX_FILE as MAX_DECLARED
from synapse.log.adopt import ROOTS, threaded
from synapse.log.chain import decode, link, split
from synapse.log.mirror import block, live_path, pages, path_of, unplaced
from synapse.model import kinds
from synapse.model import namespace as ns
from synapse.model.agents import Agent, settled
from synapse.model.entry import Draft, references
from synapse.model.placement import GENESIS
from synapse.model.records import Record
from synapse.model.settings import Settings, settled_settings
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple
from synapse.trust.drops import demand_envelope

MAX_FILE = MAX_BODY + (64 << 10)
MAX_LINE = 16 << 20
MAX_PAGE = 1 << 30


class Finding(NamedTuple):
    """One thing that does not keep to the protocol, and what to do about it."""

    path: str
    problem: str
    advice: str
    verdict: str = "fail"

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.advice}"


def check(directory: str) -> list[Finding]:
    """Return everything in the directory that does not keep to the protocol; an empty list where it
    conforms."""
    walk = _Check(directory)
    try:
        walk.run()
    except OSError as error:
        walk.add(
            str(error.filename or "."),
            f"cannot be read ({error.strerror})",
            "let this user read it",
        )
    return walk.findings


class _Check:
    """One walk through a directory, and what it read on the way."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.findings: list[Finding] = []
        self.agents: dict[str, Agent] = {}
        self.settings = Settings()
        self.ids: dict[str, str] = {}
        # where the file of a journalled entry stands once nothing waits for review
        self.lives: dict[str, str] = {}
        self.journalled: dict[str, str | None] = {}
        self.references: list[tuple[str, str]] = []

    def run(self) -> None:
        if not os.path.isdir(self.root):
            advice = "name the directory that holds synapse.yaml"
            self.add(".", "is not a directory", advice)
            return
        self._settings()
        for name, check_folder in (
            ("journal", self._journal),
            ("agents", self._agents),
            ("archive", self._archive),
            ("inbox", self._inboxes),
        ):
            if self._folder(name):
                check_folder()
        for top in filter(self._folder, ROOTS):
            self._tree(top)
        for path, id in self.references:
            if id not in self.ids:
                advice = "write the id of an entry that exists"
                self.add(path, f"refers to {id}, which is not here", advice, "warn")

    def add(self, path: str, problem: str, advice: str, verdict: str = "fail") -> None:
        self.findings.append(Finding(path, problem, advice, verdict))

    # -- what the operator declares ----------------------------------------------------

    def _settings(self) -> None:
        raw = self._read("synapse.yaml", MAX_DECLARED)
        if raw is None:
            if not os.path.lexists(self._full("synapse.yaml")):
                self.add("synapse.yaml", "is missing", "write one with the line `protocol: 1`")
            return
        try:
            self.settings = settled_settings(declared.parse_settings(raw.decode(), "synapse.yaml"))
        except NewerProtocol as error:
            problem = (
                f"protocol {error.protocol} is newer than {error.known}, the newest known here"
            )
            self.add(
                "synapse.yaml",
                problem,
                "upgrade this software; what else is said here may be wrong",
            )
        except (SynapseError, UnicodeDecodeError) as error:
            self.add("synapse.yaml", _problem_of(error, "synapse.yaml"), "correct it")

    def _agents(self) -> None:
        for name in self._names("agents"):
            path = f"agents/{name}"
            raw = self._read(path, MAX_DECLARED) if name.endswith(".yaml") else None
            if raw is None:
                continue
            try:
                agent = settled(declared.parse_agent(raw.decode(), path))
            except (SynapseError, UnicodeDecodeError) as error:
                self.add(
                    path,
                    _problem_of(error, path),
                    "correct it; until then nobody writes as this agent",
                )
                continue
            self.agents[agent.id] = agent
            if f"{agent.id}.yaml" != name:
                self.add(path, f"declares the agent {agent.id}", f"call the file {agent.id}.yaml")

    # -- what is written ---------------------------------------------------------------

    def _tree(self, top: str) -> None:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            for name in self._names(folder):
                path = f"{folder}/{name}"
                if os.path.islink(self._full(path)):
                    self._regular(path, 0)
                elif os.path.isdir(self._full(path)):
                    if kinds.is_folder(path):
                        waiting.append(path)
                    elif top == "messages":
                        self.add(path, "is not a thread", "call it thr_ and a UUID")
                    else:
                        self.add(
                            path,
                            "is not a namespace",
                            "use up to 6 levels of a-z, 0-9, '_' and '-'",
                        )
                elif name.endswith(".md"):
                    self._entry(path, folder)
                else:
                    self.add(
                        path, "is not an entry", "end its name in .md, or keep it elsewhere", "warn"
                    )

    def _entry(self, path: str, folder: str) -> None:
        raw = self._read(path, MAX_FILE)
        if raw is None:
            return
        if path in self.journalled:
            if self.journalled[path] not in (None, sha256(raw)):
                self.add(
                    path,
                    "was changed after it was written",
                    "write a new entry; run `synapse repair`",
                )
            return
        expected_kinds, namespace, thread = kinds.of_folder(folder)
        if not (namespace if thread is None else thread):
            self.add(path, "stands in no namespace", f"put it into a folder below {folder}/")
            return
        if kinds.is_plan(path) and raw.strip() and not raw.lstrip().startswith(b"---"):
            return  # people's own: each version of it becomes an entry beside it
        draft = self._draft(path, raw, namespace, thread)
        if draft is None:
            return
        if draft.kind not in expected_kinds:
            self.add(path, f"is of the kind {draft.kind}", "put it where its kind stands")
            return
        self._claim(path, draft)
        self._author(path, draft)

    def _draft(
        self, path: str, raw: bytes, namespace: str | None, thread: str | None = None
    ) -> Draft | None:
        """Return the draft that a conforming program would take; None is a finding."""
        try:
            draft = threaded(
                codec.parse(raw, path=path, namespace=namespace).draft, thread, raw.decode()
            )
            demand_envelope(check_form(draft) if draft.namespace else draft)
        except SynapseError as error:
            self.add(path, _problem_of(error, path), "correct it: as it is it goes to quarantine")
            return None
        self.references += [(path, id) for id in references(draft)]
        if not draft.namespace:
            self.add(
                path, "namespace is missing", "name the namespace: an inbox has none of its own"
            )
            return None
        return draft

    def _claim(self, path: str, draft: Draft) -> None:
        name = os.path.basename(path)
        if draft.id is None:
            self.add(
                path,
                "has no id of the form syn-YYYY-MM-DD-NNN",
                "give it one, or it gets a fresh one",
                "warn",
            )
        elif draft.id in self.ids:
            self.add(
                path,
                f"{draft.id} is already the id of {self.ids[draft.id]}",
                "give every entry an id of its own",
            )
        else:
            self.ids[draft.id] = path
            if name not in (f"{draft.id}.md", "plan.md"):
                self.add(path, f"holds {draft.id}", f"call the file {draft.id}.md", "warn")

    def _author(self, path: str, draft: Draft) -> None:
        agent = self.agents.get(draft.author)
        if agent is None:
            advice = f"declare it in agents/{draft.author}.yaml, or it is heard without authority"
            self.add(path, f"its author {draft.author} is not registered", advice, "warn")
            return
        try:
            may_write(agent, draft.namespace, self.settings)
        except Forbidden as error:
            self.add(path, str(error), "write it as an agent that may")

    # -- drop boxes --------------------------------------------------------------------

    def _inboxes(self) -> None:
        for agent in self._names("inbox"):
            path = f"inbox/{agent}"
            if not self._folder(path):
                self.add(path, "is not a drop box", "keep only folders named for agents here")
            elif not ns.is_component(agent):
                self.add(path, "is not the id of an agent", "use a-z, 0-9, '_' and '-'")
            else:
                self._inbox(path, agent)

    def _inbox(self, path: str, agent: str) -> None:
        if agent not in self.agents:
            self.add(
                path,
                f"there is no agent {agent}",
                f"declare it in agents/{agent}.yaml, or remove the box",
                "warn",
            )
        for box in self._names(path):
            if box not in ("tmp", "new"):
                self.add(
                    f"{path}/{box}",
                    "is not part of a drop box",
                    "write into tmp/, then move to new/",
                    "warn",
                )
        for name in self._names(f"{path}/new") if self._folder(f"{path}/new") else ():
            self._drop(f"{path}/new/{name}", agent)

    def _drop(self, path: str, agent: str) -> None:
        raw = self._read(path, MAX_FILE)
        draft = None if raw is None else self._draft(path, raw, None)
        if draft is None:
            return
        if draft.author != agent:
            self.add(
                path, f"says from: {draft.author} in the box of {agent}", f"write from: {agent}"
            )
        else:
            self._author(path, draft)

    # -- what was written for good -----------------------------------------------------

    def _archive(self) -> None:
        for name in self._names("archive"):
            path = f"archive/{name}"
            raw = self._read(path, MAX_PAGE)
            if raw is None:
                continue
            blocks = list(pages(raw))
            for page in blocks:
                self.ids.setdefault(page.id, path)
                if not page.whole:
                    self.add(
                        path, f"{page.id} is not what its marker says", "restore it from a backup"
                    )
            if b"".join(block(page.id, page.text) for page in blocks if page.whole) != raw:
                self.add(
                    path,
                    "holds text outside of its markers, which nobody reads",
                    "write it as an entry",
                    "warn",
                )

    def _journal(self) -> None:
        """Check the chain from the first line to the last, over all segments."""
        seq, chain, torn = 0, GENESIS, False
        for path, raw in self._lines():
            record = _decoded(raw)
            if record is None:
                torn = True
                continue
            if torn and record.kind != "seal":
                self.add(path, "no seal follows a line that cannot be read", "run `synapse verify`")
            torn = False
            proof, head, _ = split(raw)
            if record.seq != seq + 1:
                self.add(path, f"record {record.seq} follows record {seq}", "run `synapse verify`")
            elif link(chain, head) != proof:
                self.add(
                    path,
                    f"record {record.seq} does not follow from the one before it",
                    "run `synapse verify`",
                )
            elif (
                record.text is not None
                and sha256(record.text.encode(errors="replace")) != record.sha
            ):
                self.add(
                    path, f"the text of record {record.seq} was changed", "run `synapse verify`"
                )
            seq, chain = record.seq, proof
            self._known(record)
        if torn:
            self.add(
                "journal", "ends in a line that cannot be read", "the next write seals it", "warn"
            )

    def _known(self, record: Record) -> None:
        if record.kind == "entry" and record.id:
            if why := unplaced(record):
                self.add("journal", f"record {record.seq}: {why}", "run `synapse verify`")
                return
            path = path_of(record)
            self.journalled[path] = record.sha
            self.ids[record.id] = path
            self.lives[record.id] = live_path(record)
        elif record.kind == "approve" and (id := record.fields.get("entry")) in self.lives:
            self.journalled[self.lives[id]] = self.journalled[self.ids[id]]
            self.ids[id] = self.lives[id]

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        for name in self._names("journal"):
            path = f"journal/{name}"
            if not name.endswith(".jsonl") or not self._regular(path, 1 << 50):
                continue
            with open(self._full(path), "rb") as file:
                while raw := file.readline(MAX_LINE):
                    if len(raw) == MAX_LINE:
                        self.add(
                            path,
                            f"has a line longer than {MAX_LINE >> 20} MiB",
                            "run `synapse verify`",
                        )
                        return
                    yield path, raw

    # -- reading with care -------------------------------------------------------------

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order, hidden files left out."""
        return sorted(name for name in os.listdir(self._full(folder)) if not name.startswith("."))

    def _folder(self, path: str) -> bool:
        """Return whether a folder is there; a link in its place is a finding."""
        if os.path.islink(self._full(path)):
            self.add(
                path, "is a symbolic link", "put the folder itself there: links are not followed"
            )
            return False
        return os.path.isdir(self._full(path))

    def _regular(self, path: str, limit: int) -> bool:
        """Return whether the path is a plain file of bearable size; if not, that is a finding."""
        status = os.lstat(self._full(path))
        if not stat.S_ISREG(status.st_mode):
            kind = "symbolic link" if stat.S_ISLNK(status.st_mode) else "special file"
            kind = "folder" if stat.S_ISDIR(status.st_mode) else kind
            self.add(path, f"is a {kind}", "put a plain file there: nothing else is read")
        elif status.st_nlink > 1:
            self.add(
                path,
                f"has {status.st_nlink} names (hard links)",
                "copy it: a file that is an entry has one",
            )
        elif status.st_size > limit:
            self.add(path, f"has {status.st_size} bytes", f"write at most {limit}")
        else:
            return True
        return False

    def _read(self, path: str, limit: int) -> bytes | None:
        if not os.path.lexists(self._full(path)) or not self._regular(path, limit):
            return None
        fd = os.open(self._full(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(limit)


def _decoded(raw: bytes) -> Record | None:
    try:
        return decode(raw) if raw.endswith(b"\n") else None
    except RecursionError:
        return None


def _problem_of(error: Exception, path: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    return str(error).removeprefix(f"{path}: ")
