"""Fixtures that several tests share, and what every run of the suite needs."""

import atexit
import fcntl
import gc
import json
import os
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"
MEMORY = "/dev/shm"
SPACE = 4 << 30  # bytes, several times what a run of the suite leaves behind
# both say how fast, not whether right
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("soak", deadline=None, suppress_health_check=SLOW)
settings.register_profile("suite", settings.get_profile("soak"), derandomize=True)
settings.load_profile("suite")
# Two thirds of collecting are rewritten asserts: they are kept, whatever the environment says.
sys.dont_write_bytecode = False


def pytest_configure(config):
    """Put the temporary folders of the tests in memory, where there is room for them; have the
    soak play all random examples, others at each run. The suite plays the same ones each time, so
    that a commit passes or fails for good.

    The suite makes and removes some hundred thousand files. On a disk it waits for them.
    """
    if config.getoption("markexpr") == "soak":
        from tests import examples

        examples.whole = True
        settings.load_profile("soak")
    in_memory = (
        os.access(MEMORY, os.W_OK)
        and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(MEMORY).free > SPACE
    )
    if in_memory:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
    place = tempfile.mkdtemp(prefix="synapse-", dir=MEMORY if in_memory else None)
    os.chmod(place, 0o755)  # tests that act as other users work below it
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    # of the product's own temporary folders, also in processes that tests start
    os.environ["TMPDIR"] = tempfile.tempdir = place
    os.environ["SYNAPSE_HOME"] = f"{place}/home"  # never the folder of whoever tests
    os.mkdir(f"{place}/home", 0o700)
    os.environ["XDG_STATE_HOME"] = f"{place}/state"
    os.environ["CI"] = "1"  # hooks start no daemon that outlives its test


def pytest_collection_finish(session):
    """Spare the collector of rubbish the thousands of tests, which stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call):
    """Leave out of a traceback the frames that have no line: CPython 3.11 makes one where a limit
    strikes at a jump, and pytest ends its whole run on it.
    """
    frame = call.excinfo and call.excinfo.tb
    while frame:
        while frame.tb_next and frame.tb_next.tb_lineno is None:
            frame.tb_next = frame.tb_next.tb_next
        frame = frame.tb_next


@pytest.fixture(scope="session")
def installing():
    """Return a lock on a folder that one worker fills for all of them."""

    @contextmanager
    def locked(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    return locked


def pytest_addoption(parser):
    parser.addoption(
        "--golden", action="store_true", help="write the golden files anew instead of comparing"
    )


@pytest.fixture(scope="session")
def postgres_server():
    """Return a PostgreSQL server of this worker's own, which is stopped at the end."""
    from tests.postgres import Server

    server = Server()
    yield server
    server.close()


@pytest.fixture
def clock():
    """Return a clock that stands still until a test moves it."""
    from synapse.testing import FrozenClock

    return FrozenClock()


@pytest.fixture
def golden(request):
    """Compares a text with the golden file of this name, byte for byte; `pytest --golden` writes
    it.
    """

    def check(name, text):
        path = GOLDEN / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        assert path.read_bytes().decode() == text

    return check


def words_vector(text, dimension=512):
    """A vector in which each word counts, whatever its place: texts with words in common are
    near.
    """
    vector = [0.0] * dimension
    for word in re.findall(r"\w+", text.lower()):
        place = int.from_bytes(sha256(word.encode()).digest()[:8])
        vector[place % dimension] += 1.0 if place >> 63 else -1.0
    return vector if any(vector) else [1.0] * dimension


class EmbeddingServer(ThreadingHTTPServer):
    """Speaks Ollama's format and OpenAI's on 127.0.0.1. `heard` are the texts it was given;
    `answers` holds functions that take the place of the next answers: from the request to a status
    and bytes.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Embedding)
        self.heard = []
        self.calls = []
        self.answers = []
        self.refuses = ()
        self.dimension = 512
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def reset(self):
        self.heard = []
        self.calls = []
        self.answers = []
        self.refuses = ()
        self.dimension = 512

    def answer(self, path, asked):
        texts = asked["input"]
        if any(word in text for word in self.refuses for text in texts):
            return 400, b'{"error": "input is too long"}'
        self.heard += texts
        found = [words_vector(text, self.dimension) for text in texts]
        if path.endswith("/api/embed"):
            return 200, json.dumps({"model": asked["model"], "embeddings": found}).encode()
        rows = [
            {"object": "embedding", "index": place, "embedding": each}
            for place, each in enumerate(found)
        ]
        return 200, json.dumps(
            {"object": "list", "data": rows[::-1], "model": asked["model"]}
        ).encode()


class _Embedding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        asked, server = json.loads(body), self.server
        server.calls.append(
            (self.path, {name.lower(): value for name, value in self.headers.items()}, asked)
        )
        if server.answers:
            status, raw = server.answers.pop(0)(self, asked)
        elif self.path in ("/api/embed", "/v1/embeddings"):
            status, raw = server.answer(self.path, asked)
        else:
            status, raw = 404, b"no such page"
        self.send_response(status)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        try:
            self.wfile.write(raw)
        except OSError:
            self.close_connection = True  # who asked has gone

    def log_message(self, *words):
        """Says nothing."""


@pytest.fixture(scope="session")
def embedding_server():
    """One server for all tests; whoever uses it resets it first."""
    with EmbeddingServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def embeddings(embedding_server):
    embedding_server.reset()
    return embedding_server
