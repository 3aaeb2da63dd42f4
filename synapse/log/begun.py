"""Acts of many steps: what was begun in a workspace, and is finished by somebody else where the
process that began it was killed.

A file `.index/begun/{name}.json` says what was begun. It is there before the first step and goes
after the last. All this is done under one lock: who gets it knows that nobody is at work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic

from synapse.errors import StoreBusy, StoreError
from synapse.log.disk import make_directory, sync_directory, write_file
from synapse.system.json import dumps
from synapse.system.lock import Lock
from synapse.system.plain_files import read_file
from synapse.system.typed import Any, T

PATIENCE = 60.0
AGAIN = 30.0  # seconds until what could not be finished is tried again
Finish = Callable[[Mapping[str, Any]], object]


class Begun:
    """The acts that were begun in one workspace and are not finished."""

    def __init__(self, root: str) -> None:
        self.folder = os.path.join(root, ".index", "begun")
        self.tried = -AGAIN

    def carry_out(self, name: str, fields: Mapping[str, Any], act: Callable[[], T]) -> T:
        """Do what takes several steps. Killed at any of them, it is finished by `finish`. What
        fails has to be called again, or is finished so.
        """
        return self._alone(lambda: self._carried_out(name, fields, act), PATIENCE)

    def note(self, name: str, fields: Mapping[str, Any]) -> None:
        """Note what was begun elsewhere and is to be finished here too."""
        make_directory(self.folder, 0o700)
        write_file(os.path.join(self.folder, f"{name}.json"), dumps(dict(fields)).encode(), 0o600)

    def names(self) -> list[str]:
        """Return the names of what was begun, by whomever, and is not finished."""
        try:
            return sorted(name for name in os.listdir(self.folder) if name.endswith(".json"))
        except FileNotFoundError:
            return []

    def finish(self, kinds: Mapping[str, Finish]) -> list[str]:
        """Finish what killed processes began, by what each kind of act asks for; return the names
        of what is left: whoever began it is at work, or it cannot be finished now.
        """
        if not (names := self.names()) or monotonic() - self.tried < AGAIN:
            return names
        with suppress(StoreBusy):
            self._alone(lambda: self._finished(kinds), 0)
        return self.names()

    def _carried_out(self, name: str, fields: Mapping[str, Any], act: Callable[[], T]) -> T:
        path = os.path.join(self.folder, f"{name}.json")
        write_file(path, dumps(dict(fields)).encode(), 0o600)
        result = act()
        os.unlink(path)
        sync_directory(self.folder)
        return result

    def _finished(self, kinds: Mapping[str, Finish]) -> None:
        for name in self.names():
            path = os.path.join(self.folder, name)
            finish = kinds.get(name.partition("-")[0].removesuffix(".json"))
            if finish is None:
                continue
            try:
                finish(json.loads(read_file(path)))
                os.unlink(path)
            except (OSError, StoreError):
                self.tried = monotonic()
        sync_directory(self.folder)

    def _alone(self, section: Callable[[], T], patience: float) -> T:
        make_directory(self.folder, 0o700)
        lock = Lock(os.path.join(self.folder, "lock"), patience)
        try:
            return lock.run(section)
        finally:
            lock.close()
