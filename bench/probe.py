"""Notes which statements a test reaches, for `bench.reached`. It stands in probed copies of modules
and, as a plugin of pytest, beside their tests. Nothing heavy may be imported here.

Every process writes a file of its own in the folder that the environment names: for each test a
line with its id, the numbers of the statements it reached and the files of the tree that it read,
also in the processes that it starts.
"""

import os
import sys
from typing import Any

FOLDER = "REACHED_HITS"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_write = os.write  # a test may put its own in the place of the system's


class Hits(dict[int | str, None]):
    """What was reached since it was cleared; a number or path that is asked for is put in."""

    def __init__(self) -> None:
        super().__init__()
        self.process, self.file, self.test = 0, -1, ""

    def __missing__(self, hit: int | str) -> None:
        self[hit] = None
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        folder = os.environ.get(FOLDER)
        if not test or not folder:
            return
        if self.process != os.getpid():
            self.process, self.test = os.getpid(), ""
            path = os.path.join(folder, f"{self.process}.hits")
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self.file = os.open(path, flags)
        start = "" if test == self.test else f"\n{test}\t"
        self.test = test
        _write(self.file, f"{start}{hit} ".encode())


HITS = Hits()


def _opened(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(args[0], str):
        return
    path = os.path.join(os.getcwd(), args[0]) if args[0][:1] != os.sep else args[0]
    name = path.removeprefix(ROOT)  # still whole if it lies elsewhere; hidden folders are no source
    if not name.startswith(("/", ".")) and not name.endswith((".py", ".pyc")) and " " not in name:
        HITS[name]


if FOLDER in os.environ:
    sys.addaudithook(_opened)
    _begun: dict[str, float] = {}


def _seconds() -> float:
    """Return the processor time of this process and of those it waited for."""
    return sum(os.times()[:4])


def pytest_runtest_protocol(item: Any) -> None:
    """Begin a test: nothing is reached yet."""
    HITS.clear()
    _begun[item.nodeid] = _seconds()


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Note what came of a phase of a test, and the processor time since it began."""
    outcome = "failed" if call.excinfo else "passed"
    spent = _seconds() - _begun[item.nodeid]
    line = f"{item.nodeid}\t{outcome}\t{spent:.4f}\n".encode()
    with open(os.path.join(os.environ[FOLDER], "reports"), "ab", 0) as file:
        file.write(line)
