"""Notes which statements a test reaches, for `bench.mutants`. It stands in probed copies of modules
and, as a plugin of pytest, beside their tests. Nothing heavy may be imported here.

Every process writes a file of its own in the folder that the environment names: for each test a
line with its id and the numbers of the statements it reached, also in the processes that it starts.
"""

import os
from typing import Any

FOLDER = "MUTANTS_HITS"
_write = os.write  # a test may put its own in the place of the system's


class Hits(dict[int, None]):
    """What was reached since it was cleared; a number that is asked for is put in."""

    def __init__(self) -> None:
        super().__init__()
        self.process, self.file, self.test = 0, -1, ""

    def __missing__(self, number: int) -> None:
        self[number] = None
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
        _write(self.file, f"{start}{number} ".encode())


HITS = Hits()


def pytest_runtest_protocol(item: Any) -> None:
    """Begin a test: nothing is reached yet."""
    HITS.clear()


def pytest_runtest_logreport(report: Any) -> None:
    """Note how long a phase of a test took, and what came of it."""
    with open(os.path.join(os.environ[FOLDER], "reports"), "a") as file:
        file.write(f"{report.nodeid}\t{report.outcome}\t{report.duration:.4f}\n")
