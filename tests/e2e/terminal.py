"""A terminal that a program is run in, for the clients that a person sits before."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")


class Terminal:
    """A program in a terminal of its own. What it shows is read while somebody waits for
    something.
    """

    def __init__(self, command, folder, env):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))

    @property
    def text(self):
        return re.sub(r"\s+", "", ESCAPES.sub("", self.shown))

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, condition, seconds=60):
        """Read until something holds; whether it did."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or not self._read(0.1):
                return condition()
        return True

    def say(self, text, until):
        """Type a line as a person does, and read until something holds."""
        self.type(text)
        self.wait(lambda: False, 1)
        self.type("\r")
        assert self.wait(until), self.text[-500:]

    def _read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            part = os.read(self.fd, 1 << 16)
        except OSError:  # the program has ended
            return False
        self.shown += part.decode("utf-8", "replace")
        return bool(part)

    def kill(self):
        """End the program as hard as can be."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def close(self):
        self.kill()
        os.close(self.fd)
