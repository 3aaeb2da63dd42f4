"""Lives of programs for the kill checks: each is a process of its own, forked from one that has
imported what they need. Holds no test.

The nursery, which is this file as a program, is told over a socket what to run, and says how each
life ended. It opens nothing itself: a life begins as in a new interpreter, but for the imports.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

from synapse.system import tokens

ROOM = 1 << 20  # bytes that a life may print before anybody reads them
PACKAGES = ("synapse", "orchestrator")
# What no life of these checks imports, or what it may lack.
NOT = re.compile(r"__main__|testing|embedders|conformance|mcp|plugin|server|compat")
LATER = (
    "pytest yaml jinja2.loaders jinja2.sandbox openai httpx multiprocessing.connection"
    " cryptography.hazmat.primitives.asymmetric.ed25519"
).split()


class Life:
    """A process as `subprocess.Popen` has it, whose parent is the nursery."""

    def __init__(self, pid, over, given, out, err):
        self.pid, self.returncode = pid, None
        self._over, self._err = over, err
        self.stdin = os.fdopen(given, "w", encoding="utf-8")
        self.stdout = os.fdopen(out, encoding="utf-8")

    def poll(self):
        return self._ended(0)

    def wait(self, timeout=None):
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Return all that it said, once it has ended; what it prints has to fit a pipe."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.wait(timeout)
        if self.stdout.closed:
            return "", ""
        self._err.seek(0)
        with self.stdout, self._err:
            return self.stdout.read(), self._err.read()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout):
        if self.returncode is None and select.select([self._over], [], [], timeout)[0]:
            self.returncode = int(self._over.recv(99))
            self._over.close()
        return self.returncode


def begin(*words, cwd=None, env=None):
    """Begin a life: the words are those behind the interpreter, a script or `-m` or `-c`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    source, given = os.pipe()
    out, into = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, ROOM)
    err = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
    asked = {
        "words": [str(word) for word in words],
        "cwd": str(cwd or os.getcwd()),
        "env": dict(env or os.environ),
    }
    raw = json.dumps(asked).encode()
    with theirs:
        socket.send_fds(_nursery(), [raw], [theirs.fileno(), source, into, err.fileno()])
    os.close(source)
    os.close(into)
    return Life(int(ours.recv(99)), ours, given, out, err)


@functools.cache
def _nursery():
    """Start the nursery of this process; the socket that it listens to."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=Path(__file__).parents[2],
        )

    def close():
        ours.close()
        process.wait()

    atexit.register(close)
    return ours


# -- the nursery -----------------------------------------------------------------------


def preload():
    """Import what lives import, now or later, and open the table of tokens."""
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not NOT.search(module.name):
                importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    tokens.problem()  # opens the table, which takes longer than most lives
    gc.freeze()


def forked(listener):
    """Fork a life for each message until nobody sends any more. Returns twice: in a life what it
    is to run, in the nursery None.
    """
    lives = {}
    while True:
        if select.select([listener], [], [], 0.01 if lives else None)[0]:
            raw, fds, *_ = socket.recv_fds(listener, 1 << 20, 4)
            if not raw:
                return None
            over, *files = fds
            pid = os.fork()
            if pid == 0:
                for each in lives.values():
                    each.close()
                listener.close()
                os.close(over)
                return json.loads(raw), files
            lives[pid] = socket.socket(fileno=over)
            lives[pid].send(str(pid).encode())
            for each in files:
                os.close(each)
        for pid in [*lives]:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                with lives.pop(pid) as over, contextlib.suppress(OSError):
                    over.send(str(os.waitstatus_to_exitcode(status)).encode())


def lived(asked, files):
    """Live, and end as an interpreter does, but leave the memory to the system."""
    try:
        run(asked, files)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def run(asked, files):
    """Become a new interpreter with these words, as far as one can tell."""
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for number, fd in enumerate(files):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = sys.__stdin__ = os.fdopen(0)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w")
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, errors="backslashreplace")
    kind, *words = asked["words"]
    if kind == "-m":
        sys.argv, sys.path[0] = words, os.getcwd()
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *words[1:]], os.getcwd()
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = [kind, *words], os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    preload()
    life = forked(socket.socket(fileno=int(sys.argv[1])))
    if life is not None:
        lived(*life)
