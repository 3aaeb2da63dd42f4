"""A server in a process of its own, on a free port of this machine: what it holds is counted by its
process id, and by that it is stopped.

Holds no test.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx2

import synapse
from synapse import Agent
from synapse.trust.bearer import new_token
from tests.synapse.served import PLAIN

TEAM = (
    Agent("eng", read=["api/*"], write=["api/*"], authority=10),
    Agent("qa", read=["api/*"], write=["status/*"]),
)


class Process:
    """A server that runs: its address, what it holds, and what it logged."""

    def __init__(self, root, tokens, child, address, log):
        self.root, self.tokens, self.child, self.address = root, tokens, child, address
        self._log = log

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    @property
    def log(self):
        return self._log.read_text(encoding="utf-8")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def megabytes(self):
        with open(f"/proc/{self.child.pid}/status", encoding="utf-8") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024

    def processor_seconds(self):
        with open(f"/proc/{self.child.pid}/stat", encoding="utf-8") as stat:
            user, system = stat.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def client(self, agent=None, **options):
        token = new_token(self.tokens, agent, **options) if agent else None
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=60, verify=PLAIN)

    def stop(self):
        """Send SIGTERM, and return the code that it ends with."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(30)


def team(folder, agents=TEAM):
    """Make a workspace with these agents, and return its folder. It has no embedder: its weights are
    loaded at some moment, and are no leak.
    """
    with synapse.init(folder) as memory:
        for agent in agents:
            memory.register(agent)
    with open(folder / "synapse.yaml", "a", encoding="utf-8") as settings:
        settings.write("semantic: {embedder: off}\n")
    return folder


@contextmanager
def process(root, folder, *options, descriptors=None, env=None):
    """Serve a workspace, with so many descriptors at most."""
    log, tokens = folder / "serve.log", str(folder / "tokens")
    command = [sys.executable, "-m", "synapse.cli", "--root", root, "serve", "--port", "0"]

    def bounded():
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with open(log, "ab") as file:
        before = file.tell()
        child = subprocess.Popen(
            [*command, "--token-file", tokens, *options],
            stdout=file,
            stderr=file,
            preexec_fn=bounded,
            env=os.environ | (env or {}),
        )
    try:
        until = time.monotonic() + 60
        while not (found := re.findall(r"serving .* at (http://\S+)", log.read_text()[before:])):
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < until
            time.sleep(0.02)
        yield Process(root, tokens, child, found[-1], log)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait(30)
