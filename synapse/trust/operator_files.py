"""The files that the operator writes, declarations and settings: their changes, journalled. Opened
by `Store` alone; when to look at them is its affair.
"""

from __future__ import annotations

import json
import os
from _thread import allocate_lock
from collections.abc import Iterable, Sequence

from synapse.errors import InvalidEntry, StoreError, SynapseError
from synapse.index.index import Index
from synapse.log.accepted import WAITING_FILE
from synapse.log.commit import Commit, agent_record
from synapse.log.files import FilesLog
from synapse.model.agents import OPERATOR, settled
from synapse.model.namespace import is_component
from synapse.model.records import FEATURES, Record
from synapse.model.settings import Semantic, Settings
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.formats.keys import Stray
    from synapse.log.memory import MemoryLog

# files whose changes are journalled with one turn at the lock and one sync
BATCH = 1_000
Signatures = dict[str, tuple[int, int, int]]


class OperatorFiles:
    """The operator's files of one workspace, as they were last read. A log in memory has none."""

    def __init__(self, log: FilesLog | MemoryLog, commit: Commit, index: Index) -> None:
        self.commit = commit
        self.log = log if isinstance(log, FilesLog) else None
        self.index = index
        self.signed: Signatures | None = None
        self.turn = -1  # which log they were noticed for, where that is known
        self.guard = allocate_lock()
        self.foreign: dict[str, tuple[int, int, int]] = {}  # files that wait to be accepted
        self.editions = 0  # how often the settings were found to be others
        self.declared_settings: Settings | None = None
        self._complaints: dict[str, list[str]] | None = None
        if not isinstance(log, FilesLog):
            self.declared_settings, self._complaints = log.settings(), {}
        commit.subscribe(self._raise_protocol)

    def _raise_protocol(self, records: Sequence[Record]) -> None:
        """Have older software refuse the workspace, once it would misread what was written."""
        needed = any(record.kind in FEATURES for record in records)
        if needed and self.log is not None and self.log.raise_protocol():
            self.sign("synapse.yaml")

    def notice(self) -> None:
        """Journal what changed in the operator's files since they were last read."""
        assert self.log is not None
        now = self.log.signatures()
        if self.signed is None or self.turned:
            self.signed, self.turn = self._recall(), self.index.turns()
        if now == self.signed:
            return
        self.index.catch_up()
        if self.log.forked:
            return  # which of them the files belong to is yet to be seen
        before, unread = self.signed, set[str]()
        changes: list[tuple[str, Record]] = []
        for path in sorted(set(now) | set(before)):
            if path.startswith("agents/") and now.get(path) != before.get(path):
                change = self._changed_agent(path, now.get(path))
                if change is None:
                    unread.add(path)
                changes += change or []
        for start in range(0, len(changes), BATCH):
            self.commit.append_all(dict(changes[start : start + BATCH]))
        if now.get("synapse.yaml") != before.get("synapse.yaml"):
            unread |= self._notice_settings(now.get("synapse.yaml"))
        self.signed = {path: now[path] for path in now.keys() - unread}
        # the next look reads them again
        self.signed.update((path, before[path]) for path in unread & before.keys())
        self.index.catch_up()  # whoever looked acts by what it found
        if self.signed != before:
            self._remember(self.signed)

    def write_missing(self) -> None:
        """Write the files of agents that the journal declares and that were never noticed here:
        whoever imported or merged the journal may have died before.
        """
        from synapse.formats.declared import render_agent

        assert self.log is not None
        self.index.catch_up()
        now = self.log.signatures()
        signed = self._recall() if self.signed is None or self.turned else self.signed
        declared = self.index.current.declared
        paths = {f"agents/{id}.yaml": declared[id] for id in declared if is_component(id)}
        missing = {path: agent for path, agent in paths.items() if path not in now}
        for path in (new := sorted(missing.keys() - signed.keys())):
            text = render_agent(missing[path]).encode()
            self.log.accepted.note_file(path, text)
            self.log.mirror.place(path, text, synced=True)
        if new:
            self.sign(*new)

    @property
    def turned(self) -> bool:
        """Say whether the log is another one than the one that the operator's files were noticed
        for.
        """
        return self.turn not in (-1, self.index.turns())

    def _changed_agent(
        self, path: str, signature: tuple[int, int, int] | None
    ) -> list[tuple[str, Record]] | None:
        """Return the record of a file that changed or went, behind what it counts once by; nothing
        where its agent is as it was, or the file is wrong; None where it could not be read.
        """
        from synapse.model.roles import refuse_typo

        assert self.log is not None
        id = os.path.basename(path)[: -len(".yaml")]
        was = self.index.current.declared.get(id)
        if signature is None:
            self.complaints.pop(path, None)
            if was is None:
                return []
            record = agent_record(was, OPERATOR, was, "removed")
            return [(f"removed:{id}:{self.index.cursor()}", record)]
        try:
            declared = self.log.declaration(path)
            raw = self.log.declared_raw(path)
            agent, sha = settled(declared), sha256(raw)
            same = agent == was and self.index.current.declared.sha(id) in (sha, None)
            if not same and self.is_foreign(path, raw, signature):
                return None
            if was is None or was.role != agent.role:
                refuse_typo(declared, self.log.root)
        except (SynapseError, OSError) as error:
            self.complaints[path] = list(getattr(error, "problems", ())) or [str(error)]
            return None if isinstance(error, OSError) else []
        self.complaints.pop(path, None)
        if agent.id != id or same:
            return []
        how = "registered" if was is None else "edited"
        record = agent_record(agent, OPERATOR, was, how, sha)
        return [(f"edit:{path}:{signature}", record)]

    def is_foreign(self, path: str, raw: bytes, signature: tuple[int, int, int]) -> bool:
        """Return whether a file came by git and nobody accepted it as it is; it waits then. One
        that a person wrote here counts from now on, wherever it is met.
        """
        assert self.log is not None
        if self.foreign.get(path) == signature:
            return True
        if not self.log.accepted.takes_file(path, raw, note=not self.log.readonly):
            self.foreign[path] = signature
            self.complaints[path] = [WAITING_FILE]
            return True
        if self.foreign.pop(path, None):
            self.complaints.pop(path, None)
        return False

    def waits(self, path: str) -> bool:
        """Return whether a file is somebody else's, as it is now, and waits to be accepted."""
        assert self.log is not None
        signature = self.log.signatures().get(path)
        try:
            raw = self.log.declared_raw(path)
        except (OSError, InvalidEntry):
            return False  # whoever reads it says what is wrong
        return signature is not None and self.is_foreign(path, raw, signature)

    def _notice_settings(self, signature: tuple[int, int, int] | None) -> set[str]:
        """Write a record of the settings where they changed, old and new. Those that a workspace
        began with need none. Return their file where it waits to be accepted.
        """
        if self.waits("synapse.yaml"):
            return {"synapse.yaml"}
        stored = self.index.meta("settings")
        was = _settings_from(stored) if stored else None
        assert self.log is not None
        settings, strays = self.log.read_settings(was)
        self.declare(settings)
        self._complain(strays)
        # what software may open it is no setting of anybody's
        if was is not None and was._replace(protocol=settings.protocol) != settings:
            fields = {"settings": settings._asdict(), "was": was._asdict(), "how": "edited"}
            self.commit.append(
                Record.new("settings", OPERATOR, fields), once=f"settings:{signature}"
            )
        return set()

    def reread(self) -> None:
        """Drop the settings where a file changed, for a process that can journal nothing: settings
        are what their file says, agents what was journalled last.
        """
        assert self.log is not None
        now = self.log.signatures()
        if now != self.signed:
            self.signed = now
            self.declare(None)

    def sign(self, *paths: str) -> None:
        """Note these files of the operator's as they are: they were just written through this
        store.
        """
        if self.log is not None:
            now = self.log.signatures()
            signatures = self._recall() if self.signed is None or self.turned else self.signed
            self.signed = signatures | {path: now[path] for path in paths if path in now}
            self._remember(self.signed)

    def unnoticed(self, path: str) -> bool:
        """Return whether a file of the operator's is not, byte for byte, the one that was last
        read. A copy is.
        """
        return self.index.meta(f"sha:{path}") not in (None, self._sha(path))

    def _sha(self, path: str) -> str:
        assert self.log is not None
        try:
            return sha256(self.log.declared_raw(path))
        except (FileNotFoundError, InvalidEntry):
            return ""
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}") from error

    def _recall(self) -> Signatures:
        stored = json.loads(self.index.meta("signatures") or "{}")
        return {path: (changed, size, inode) for path, (changed, size, inode) in stored.items()}

    def _remember(self, signatures: Signatures) -> None:
        """Keep the parsed settings beside the signatures, so that a cold command reads no YAML."""
        self.index.note("settings", json.dumps(self.settings))
        self.index.note("complaints", json.dumps(self.complaints))
        self.index.note("sha:synapse.yaml", self._sha("synapse.yaml"))
        self.index.note("signatures", json.dumps(signatures))

    @property
    def settings(self) -> Settings:
        """Return the settings as they were last noticed, which are read where nobody has. What
        another thread notices meanwhile stands.
        """
        while (settings := self.declared_settings) is None:
            edition = self.editions
            read = self._kept_settings() or self._read_settings()
            with self.guard:
                if edition == self.editions:
                    self.declared_settings = read
        return settings

    def declare(self, settings: Settings | None) -> None:
        """Set what the settings are from now on; None where their file is to be read again."""
        with self.guard:
            self.editions += 1
            self.declared_settings = settings

    @property
    def complaints(self) -> dict[str, list[str]]:
        """Return what is wrong with which file of the operator's, by the last look."""
        if self._complaints is None:
            self._complaints = json.loads(self.index.meta("complaints") or "{}")
        return self._complaints

    def _read_settings(self) -> Settings:
        assert self.log is not None
        if self.waits("synapse.yaml"):
            stored = self.index.meta("settings")
            return _settings_from(stored) if stored else Settings()
        settings, strays = self.log.read_settings(None)
        self._complain(strays)
        return settings

    def _complain(self, strays: Iterable[Stray]) -> None:
        texts = [stray.text for stray in strays]
        self.complaints.pop("synapse.yaml", None)
        self.complaints.update({"synapse.yaml": texts} if texts else {})

    def _kept_settings(self) -> Settings | None:
        stored = self.index.meta("settings")
        if not stored or self.log is None or self.signed is None:
            return None
        if self._recall().get("synapse.yaml") != self.signed.get("synapse.yaml"):
            return None
        return _settings_from(stored)


def _settings_from(kept: str) -> Settings:
    """Return the settings as they were kept beside the index."""
    values = dict(zip(Settings._fields, json.loads(kept), strict=True))
    for name in ("ttl", "users", "sizes", "quota", "hourly", "other"):
        values[name] = tuple((key, value) for key, value in values[name])
    values["semantic"] = Semantic(*values["semantic"])
    return Settings(**values)
