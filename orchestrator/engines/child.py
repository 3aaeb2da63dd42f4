"""The process of a coding client, as the supervisor holds it by its lifeline. Starts it, waits for
it, ends it; reads none of its output.

Neither a thread nor a signal handler is needed: one pair of sockets tells the watchdog that we are
dead, and us that the watchdog is.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

WATCHDOG = os.path.join(os.path.dirname(__file__), "watchdog.py")
END = b"."


class Child:
    """A running command. Its input is a file, so that a prompt of any length is read at the
    client's own pace; its output goes to files, so that it is there whoever dies.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str,
        env: Mapping[str, str],
        files: tuple[IO[bytes], IO[bytes], IO[bytes]],
        grace: float,
    ) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._life = ours
        stdin, stdout, stderr = files
        try:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", "-S", WATCHDOG, str(theirs.fileno()), str(grace), *command],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env=env,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    async def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code once nothing of the process is left; None where that takes
        longer.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_recv(self._life, 1)
        except TimeoutError:
            return None
        return self._watchdog.wait()

    async def end(self) -> None:
        """End the process, kindly at first; do nothing where it has ended. Cancelled meanwhile, it
        is killed.
        """
        try:
            if self._watchdog.poll() is None:
                self._life.send(END)
                await self.wait()
        except (BrokenPipeError, ConnectionResetError):  # it has just ended
            self._watchdog.wait()
        finally:
            self._life.close()
