"""Tries mutants in forks of one process of pytest that has collected their tests: a plugin of
pytest, used by `bench.mutants` alone.

A fork puts the changed code into the functions of the module and runs the tests that reach it. The
file of the module is changed too while it does, for the processes that the tests start. A test that
fails kills a mutant only if it fails alone as well, and passes alone without the change.
"""

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from bench.changes import Mutant, changed, mutant

JOB, PIPE, TEMP = "MUTANTS_JOB", "MUTANTS_PIPE", "MUTANTS_TEMP"
KILLED, SURVIVED, TIMEOUT, UNPLACED = "killed", "survived", "timeout", "unplaced"
WAVES = (40, 300)  # tests that are tried first; a run of them begins anew after each
MEMORY = 8 << 30  # bytes, for a mutant that does not end

Key = tuple[str, str, int]


class Server:
    """The collected tests, and the functions whose code can be changed."""

    def __init__(self, session: Any, job: dict[str, Any]) -> None:
        self.session, self.seconds = session, job["seconds"]
        self.patience = job["patience"]
        self.items = {item.nodeid: item for item in session.items}
        self.place = {item.nodeid: at for at, item in enumerate(session.items)}
        self.sound: dict[str, bool] = {}  # tests that were tried alone without a change
        self.stamp = time.time_ns()
        gc.unfreeze()
        self.functions: defaultdict[Key, list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                self.functions[_key(each.__code__)].append(each)
        gc.freeze()

    def attempt(self, path: str, at: int, function: str, tests: Sequence[str]) -> Any:
        """Return what the tests say of a mutant, and which of them noticed it."""
        file = Path.cwd() / path
        source = file.read_text(encoding="utf-8")
        one = mutant(path, source, at)
        swap = self._swap(one, file, source, function)
        if swap is None:
            return UNPLACED, ""
        todo = [test for test in tests if test in self.items]
        self._write(file, one.source)
        try:
            for wave in _waves(todo):
                left = sorted(wave, key=self.place.__getitem__)
                while left:
                    status, number = self._run(left, swap)
                    if status == SURVIVED:
                        break
                    test = left[number]
                    if self._confirmed(test, status, swap, file, source, one.source):
                        return status, test
                    del left[: number + 1]
            return SURVIVED, ""
        finally:
            self._write(file, source)

    def _write(self, file: Path, source: str) -> None:
        """Write a module with a time of its own, so that no compiled form of another is taken."""
        file.write_text(source, encoding="utf-8")
        self.stamp += 2 * 10**9
        os.utime(file, ns=(self.stamp, self.stamp))

    def _swap(
        self, one: Mutant, file: Path, source: str, function: str
    ) -> Callable[[], None] | None:
        """Return what puts the change into the functions that are loaded."""
        name = one.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name not in sys.modules:
            return lambda: None  # whoever imports it reads the changed file
        original = compile(source, str(file), "exec", dont_inherit=True)
        tree, _, _ = changed(source, one.at)
        new = {
            _key(code): code for code in _codes(compile(tree, str(file), "exec", dont_inherit=True))
        }
        found = [
            (each, new[_key(code)])
            for code in _codes(original)
            if code.co_qualname == function and _key(code) in new
            for each in self.functions[_key(code)]
        ]
        if not found or any(each.__code__.co_freevars != code.co_freevars for each, code in found):
            return None

        def swap() -> None:
            for each, code in found:
                each.__code__ = code

        return swap

    def _confirmed(
        self,
        test: str,
        status: str,
        swap: Callable[[], None],
        file: Path,
        source: str,
        changed: str,
    ) -> bool:
        if test not in self.sound:
            self._write(file, source)
            self.sound[test] = self._run([test], lambda: None)[0] == SURVIVED
            self._write(file, changed)
        if not self.sound[test]:
            return False
        return status == TIMEOUT or self._run([test], swap)[0] != SURVIVED

    def _run(self, tests: Sequence[str], swap: Callable[[], None]) -> tuple[str, int]:
        """Run tests in a fork until one fails; return which."""
        reading, writing = os.pipe()
        folder = tempfile.mkdtemp(prefix="mutant-", dir=os.environ[TEMP])
        child = os.fork()
        if not child:
            self._in_fork(tests, swap, writing, folder)
        os.close(writing)
        try:
            return self._watched(tests, reading, child)
        finally:
            try:
                os.killpg(child, signal.SIGKILL)  # also what its tests started
            except ProcessLookupError:
                pass
            os.waitpid(child, 0)
            os.close(reading)
            shutil.rmtree(folder, ignore_errors=True)

    def _watched(self, tests: Sequence[str], reading: int, child: int) -> tuple[str, int]:
        number, until = 0, time.monotonic() + self.patience
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return TIMEOUT, number
            if not select.select([reading], [], [], left)[0]:
                continue
            heard = os.read(reading, 1)
            if heard == b".":
                number += 1
            elif heard == b"+":
                return SURVIVED, -1
            elif heard in (b"", b"-"):
                return KILLED, min(number, len(tests) - 1)
            seconds = self.seconds.get(tests[min(number, len(tests) - 1)], 0)
            until = time.monotonic() + self.patience + 10 * seconds

    def _in_fork(
        self, tests: Sequence[str], swap: Callable[[], None], pipe: int, folder: str
    ) -> None:
        status = b"-"
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            failed: list[str] = []
            self.session.config.pluginmanager.register(_Failures(failed))
            swap()
            items = [self.items[test] for test in tests]
            for item, after in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if failed:
                    break
                os.write(pipe, b".")
            else:
                status = b"+"
            self.session._setupstate.teardown_exact(None)
        finally:
            os.write(pipe, status)
            os._exit(0)


class _Failures:
    def __init__(self, failed: list[str]) -> None:
        self.failed = failed

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a test that failed in any of its phases."""
        if report.failed:
            self.failed.append(report.nodeid)


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterable[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _waves(tests: Sequence[str]) -> Iterable[Sequence[str]]:
    start = 0
    for size in (*WAVES, len(tests)):
        if tests[start : start + size]:
            yield tests[start : start + size]
        start += size


def pytest_runtestloop(session: Any) -> bool:
    """Try the mutants of a job in place of the tests' own run."""
    job = json.loads(Path(os.environ[JOB]).read_text(encoding="utf-8"))
    server = Server(session, job)
    with os.fdopen(int(os.environ[PIPE]), "w", encoding="utf-8") as answers:
        for one in job["mutants"]:
            found = server.attempt(*one)
            answers.write(json.dumps(found) + "\n")
            answers.flush()
    return True
