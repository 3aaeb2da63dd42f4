"""The output files of a coding client, standard output and errors, which grow while it runs and
stay when it dies. Understands none of it; `output_rules` does. Secrets are masked at the end.
"""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import IO

from orchestrator.engines import output_rules
from orchestrator.engines.clients import Client
from orchestrator.engines.output_rules import Said
from synapse.privacy.secrets import mask_lines
from synapse.system.plain_files import open_file, read_file, replace_file

TOLD = 4_000  # bytes of it in an error


class Output:
    """One session's output, at the end of what earlier ones left in the same files."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.said = _open(path)
        self.errors = _open(path and f"{path}.stderr")
        self._starts = {file: _whole_lines(file) for file in (self.said, self.errors)}

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.said.close()
        self.errors.close()
        if self.path is not None:
            mask_file(self.path)
            mask_file(f"{self.path}.stderr")

    @property
    def size(self) -> int:
        return sum(os.fstat(file.fileno()).st_size - start for file, start in self._starts.items())

    def understood(self, client: Client) -> Said:
        self.said.seek(self._starts[self.said])
        if client.form == "text":
            text = self.said.read(output_rules.LONGEST).decode("utf-8", "replace").strip()
            return Said(text, understood=1)
        pieces = (
            output_rules.lines(self.said)
            if client.form == "lines"
            else output_rules.whole(self.said)
        )
        return output_rules.understand(pieces, client.rules)

    def tail(self) -> str:
        """Return the end of the output, errors last."""
        return "\n".join(filter(None, (self._end_of(self.said), self._end_of(self.errors))))

    def _end_of(self, file: IO[bytes]) -> str:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(self._starts[file], end - TOLD))
        return file.read(TOLD).decode("utf-8", "replace").strip()


def mask_file(path: str) -> None:
    """Mask the secrets in a file that another program wrote, if it can be read and written."""
    try:
        text = read_file(path).decode("utf-8", "surrogateescape")
        masked = mask_lines(text)
        if masked != text:
            replace_file(path, masked.encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def _open(path: str | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile()
    return open(open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "rb+")


def _whole_lines(file: IO[bytes]) -> int:
    """Close a line that a dead client left torn; where the next one begins."""
    size = file.seek(0, os.SEEK_END)
    if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
        size += os.write(file.fileno(), b"\n")
    return size
