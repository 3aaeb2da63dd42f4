"""Notes of the tasks of A2A that a run's steps are, in the run's output: a step that is taken again
finds its task. Knows no SDK.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Request
from synapse.system.plain_files import open_file, read_file


class Note(NamedTuple):
    """What a step's task is known by: the id of its message, and its own once the agent gave it."""

    message: str
    task: str = ""


class Notes:
    """The notes of one step, in the output of its run, where it has one."""

    def __init__(self, request: Request) -> None:
        self._path = request.place.output if request.place else None
        self._key = request.key
        self.last = self._read()

    def begin(self) -> Note:
        """Note that a message is sent, before it is; return it."""
        return self._add(Note(str(uuid.uuid4())))

    def begun(self, note: Note, task: str) -> Note:
        """Note the task that the agent made of it."""
        return self._add(note._replace(task=task))

    def _read(self) -> Note | None:
        if self._path is None or not self._key or not os.path.exists(self._path):
            return None
        for line in reversed(read_file(self._path).decode("utf-8", "replace").splitlines()):
            try:
                fields: Any = json.loads(line)
            except ValueError:  # cut by a crash
                continue
            if isinstance(fields, Mapping) and fields.get("key") == self._key:
                return Note(str(fields.get("message", "")), str(fields.get("task", "")))
        return None

    def _add(self, note: Note) -> Note:
        if self._path is not None:
            fields = {"key": self._key, "message": note.message, "task": note.task}
            fd = open_file(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(fd, f"\n{json.dumps(fields)}\n".encode())
                os.fsync(fd)
            finally:
                os.close(fd)
        self.last = note
        return note
