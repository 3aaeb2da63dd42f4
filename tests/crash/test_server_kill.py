"""A server that is killed while it is written to and listened to: what was acknowledged is there once,
and every subscriber has heard all of it, once and in order.
"""

import random
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx2
import pytest

import synapse
from synapse.trust.bearer import new_token
from tests.synapse.served import PLAIN
from tests.synapse.server.stream.listeners import FORMS, eventually, heard

WRITERS = ("eng-0", "eng-1", "eng-2")
LISTENERS = ("websocket", "sse", "websocket")
SHORT = 3  # kills in every run; two hundred in the soak
PAUSE = 0.02  # seconds between two entries of one writer


def faults(acknowledged, logged, streams):
    """Return what is wrong: entries that were acknowledged and are lost, or there twice, or that a
    stream lacks, tells twice or in another order.
    """
    found = [f"{id} is lost" for id in acknowledged if id not in set(logged)]
    bodies = list(logged.values())
    found += [f"{body} is there twice" for body in set(bodies) if bodies.count(body) > 1]
    for name, ids in streams.items():
        if ids != list(logged):
            found.append(f"{name} heard {len(ids)} of {len(logged)} entries")
    return found


@pytest.mark.parametrize(
    ("acknowledged", "logged", "stream"),
    [
        (["a", "b"], {"a": "1"}, ["a"]),
        (["a", "b"], {"a": "1", "b": "1"}, ["a", "b"]),
        (["a", "b"], {"a": "1", "b": "2"}, ["a"]),
        (["a", "b"], {"a": "1", "b": "2"}, ["a", "b", "b"]),
        (["a", "b"], {"a": "1", "b": "2"}, ["b", "a"]),
    ],
)
def test_what_is_wrong_is_found(acknowledged, logged, stream):
    assert faults(acknowledged, logged, {"stream": stream})
    assert not faults(["a"], {"a": "1"}, {"stream": ["a"]})


def test_a_killed_server_loses_nothing(tmp_path):
    assert killed(tmp_path, SHORT) == []


@pytest.mark.soak
def test_a_server_that_is_killed_two_hundred_times_loses_nothing(tmp_path):
    assert killed(tmp_path, 200) == []


def killed(tmp_path, kills):
    """Return what was wrong after so many kills."""
    root, tokens = str(tmp_path / "team"), str(tmp_path / "tokens")
    with synapse.init(root) as memory:
        for name in (*WRITERS, "reader"):
            memory.register(synapse.Agent(name, read=("*",), write=("api/*",)))
    address = f"http://127.0.0.1:{_free_port()}"
    team = Team(address, {name: new_token(tokens, name) for name in (*WRITERS, "reader")})
    dice = random.Random(11)
    command = [sys.executable, "-m", "synapse", "--root", root, "serve"]
    command += ["--port", address.rpartition(":")[2], "--token-file", tokens]
    for number in range(kills + 1):
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert "serving" in server.stderr.readline()
            if number == 0:
                team.start()
            if number == kills:
                team.finish()
            else:
                team.await_answers(3 * (number + 1))
                time.sleep(dice.uniform(0.0, 0.2))
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait(60)
            server.stderr.close()
    with synapse.open(root) as memory:
        events = memory.as_agent("operator").follow(0, timeout=0)
        logged = {event.entry.id: event.entry.body for event in events}
        assert memory.verify().problems == ()
    acknowledged = [id for ids in team.acknowledged.values() for id in ids]
    print(f"\n{kills} kills, {len(acknowledged)} entries, {team.retries} retries")
    assert len(acknowledged) >= 3 * kills
    return faults(acknowledged, logged, team.streams)


class Team:
    """Writers and subscribers of a server that comes and goes."""

    def __init__(self, address, tokens):
        self.address, self.tokens = address, tokens
        self.acknowledged = {name: [] for name in WRITERS}
        self.streams, self.retries = {}, 0
        self.over = threading.Event()
        self.end = None
        self.writers = [threading.Thread(target=self._write, args=(n,)) for n in WRITERS]
        self.listeners = [
            threading.Thread(target=self._listen, args=(f"{form} {n}", form))
            for n, form in enumerate(LISTENERS)
        ]

    def start(self):
        for thread in (*self.writers, *self.listeners):
            thread.start()

    def await_answers(self, count):
        """Wait until so many entries were acknowledged: what is killed has been at work."""
        eventually(lambda: sum(map(len, self.acknowledged.values())) >= count, 60)

    def finish(self):
        """End the writers, and have the subscribers hear what there is."""
        self.over.set()
        for thread in self.writers:
            thread.join(60)
            assert not thread.is_alive()
        own = {"authorization": f"Bearer {self.tokens['reader']}"}
        url = f"{self.address}/v1/entries?limit=1"
        self.end = httpx2.get(url, headers=own, trust_env=False, verify=PLAIN).json()["cursor"]
        for thread in self.listeners:
            thread.join(60)
            assert not thread.is_alive()

    def _write(self, name):
        number, ids = 0, self.acknowledged[name]
        while not self.over.is_set():
            number += 1
            ids.append(self._acknowledged(name, number))
            time.sleep(PAUSE)

    def _acknowledged(self, name, number):
        """Ask until it is answered, with one key."""
        own = {"authorization": f"Bearer {self.tokens[name]}", "idempotency-key": f"k{number}"}
        draft = {"body": f"{name} {number}", "namespace": "api/x"}
        while True:
            try:
                answer = httpx2.post(
                    f"{self.address}/v1/entries",
                    json=draft,
                    headers=own,
                    timeout=5,
                    trust_env=False,
                    verify=PLAIN,
                )
                if answer.status_code == 201:
                    return answer.json()["id"]
                assert answer.status_code == 503, answer.text
            except httpx2.HTTPError:
                pass
            self.retries += 1
            time.sleep(0.02)

    def _listen(self, name, form):
        token = self.tokens["reader"]
        ids, _ = heard(FORMS[form], self.address, token, lambda: self.end)
        self.streams[name] = ids


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
