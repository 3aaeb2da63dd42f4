"""A program for tests: reads a workspace where it may write nothing, as a process confined in one
of several ways.

confined.py WAY lines           command lines as JSON on standard input; prints [code, out, err] for
each confined.py WAY watch ROOT ACKS N [stale]      N reads while others write; prints what was
missed
"""

import ctypes
import importlib
import io
import json
import os
import pkgutil
import re
import struct
import sys
from contextlib import redirect_stderr, redirect_stdout

NOBODY = 65534
BODY = "entry number {n}: " + "whole " * 40 + "{n} end"
LATER = (
    "difflib textwrap traceback pwd hashlib argparse ast importlib.metadata"
    " encodings.idna shutil zoneinfo"
)


def landlock():
    """Give up every right to write below `/`, for this process and all that it starts; False where
    there is no way.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform != "linux" or libc.syscall(444, None, 0, 1) < 1:
        return False
    # write, remove, make: none is granted
    rights = struct.pack("Q", 1 << 1 | sum(1 << bit for bit in range(4, 13)))
    ruleset = libc.syscall(444, rights, len(rights), 0)
    return ruleset >= 0 and libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, ruleset, 0) == 0


def nobody():
    """Become a user who owns nothing here."""
    if os.geteuid():
        return False
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return True


def preload(*packages):
    """Import all that may be needed of these packages: whoever is confined may not even read the
    interpreter's own files.
    """
    for package in map(importlib.import_module, packages):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not re.search(r"__main__|testing|embedders|conformance|\.mcp", module.name):
                importlib.import_module(module.name)
    for name in LATER.split():
        importlib.import_module(name)


def lines(commands):
    done = []
    for words in commands:
        main = importlib.import_module(f"{words[0]}.cli").main
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main(words[1:])
        done.append((code, out.getvalue(), err.getvalue()))
    return done


def watch(root, acks, reads, stale=False):
    """Read the workspace over and over, newly opened and held open in turn; what a read misses of
    all that was acknowledged before it began, and what is not whole.
    """
    import synapse
    from synapse.index.index import Index

    if stale:
        Index.take_in = lambda index: index.refresh(None)
    kept, missed, torn, most = synapse.open(root), 0, 0, 0
    for turn in range(int(reads)):
        with open(acks, encoding="utf-8") as file:
            acknowledged = {int(line) for line in file.read().split("\n")[:-1]}
        mem = kept if turn % 2 else synapse.open(root)
        bodies = [entry.body for entry in mem.as_agent("operator").read(limit=None)]
        numbers = {int(body.rpartition(" ")[0].rpartition(" ")[2]): body for body in bodies}
        missed += len(acknowledged - numbers.keys())
        torn += sum(body != BODY.format(n=n) for n, body in numbers.items())
        most = max(most, len(numbers))
        if mem is not kept:
            mem.close()
    return {"missed": missed, "torn": torn, "most": most}


if __name__ == "__main__":
    way, act, *rest = sys.argv[1:]
    commands = json.load(sys.stdin) if act == "lines" else []
    preload("synapse", *{words[0] for words in commands})
    if not {"landlock": landlock, "user": nobody, "none": lambda: True}[way]():
        raise SystemExit(77)
    answer = lines(commands) if act == "lines" else watch(*rest)
    print(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)
