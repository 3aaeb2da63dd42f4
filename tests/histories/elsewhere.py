"""Another process, which does what it is told and dies where it is told: by a real SIGKILL.

One process waits for orders and forks for each, so that none has to load Python anew. It never
opens a workspace itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import traceback

import synapse
from tests.histories import acts, faults


class Elsewhere:
    """Runs acts in children of a process that has opened nothing."""

    def __init__(self):
        self.process = None

    def run(self, order):
        """Return what became of each of the acts, as far as the child got: a list of [outcome,
        value]."""
        if self.process is None:
            command = [sys.executable, "-m", "tests.histories.elsewhere"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


def preload():
    """Import what is otherwise imported when it is first used: in each child anew."""
    for module in pkgutil.walk_packages(synapse.__path__, "synapse."):
        if not re.search(r"__main__|testing|embedders|\.mcp|\.cli|brain", module.name):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def serve():
    """Answer each order on standard input with a line."""
    preload()
    for line in sys.stdin:
        order = json.loads(line)
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            status = 1
            try:
                carry_out(order, theirs)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(theirs)
        with os.fdopen(ours) as file:
            told = [json.loads(each) for each in file.read().splitlines()]
        os.waitpid(child, 0)
        print(json.dumps(told), flush=True)


def carry_out(order, told):
    """Do the acts of an order; SIGKILL comes at one of the calls that change the disk."""
    write = os.write
    with acts.virtual(lambda: order["now"], order["trusting"]):
        mem = acts.opened(order["root"], lambda: order["now"], order["seed"])
        mem.store.log.journal.segment_bytes = order["segment"]

        def killed():
            os.kill(os.getpid(), signal.SIGKILL)

        with faults.dying(order["die"], killed) if order["die"] else faults.none():
            for act in order["acts"]:
                answer = acts.attempt(mem, acts.Act(*act))
                write(told, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    serve()
