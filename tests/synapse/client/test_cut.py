"""Connections that are cut at random bytes: what was acknowledged is there once, nothing twice."""

import random
from collections import Counter

import pytest

import synapse
from synapse.errors import SynapseError
from tests.synapse.client.cutting import Cutting

CUTS, SOAK = 60, 1_000
LATELY = 100  # acts that a reader looks for
PLANTED = 40  # cuts after which a server without keys has something twice


class Acts:
    """What a client was told of its acts: done, or not known."""

    def __init__(self, site, address, seed):
        self.library, self.dice = site.memory, random.Random(seed)
        self.me = synapse.connect(address, site.token("lead"), timeout=60)
        self.done, self.unknown, self.kinds, self.missing = [], [], Counter(), []
        self.marks = self.claims = 0

    def play(self):
        """Do one act, of those that there are at random."""
        act = self.dice.choice((self.append, self.send, self.read, self.mark, self.claim))
        self.kinds[act.__name__] += 1
        text = f"{act.__name__} {sum(self.kinds.values())}"
        try:
            act(text)
        except SynapseError:
            self.unknown.append(text)

    def append(self, text):
        entry = self.me.append(text, "api/x")
        assert entry.body == text
        self.done.append(text)

    def send(self, text):
        message = self.me.mail.send("eng", text)
        assert message.body == text
        self.done.append(text)

    def read(self, text):
        wanted = [each for each in self.done[-LATELY:] if each.startswith("append")]
        seen = {entry.body for entry in self.me.read(limit=LATELY, namespace="api/x")}
        self.missing += [each for each in wanted if each not in seen]

    def sent(self):
        return synapse.Mail(self.library.as_agent("operator")).inbox(agent="eng")

    def mark(self, text):
        self.me.read(mark=True, limit=LATELY)
        self.marks += 1

    def claim(self, text):
        self.me.claim(text, note=text)
        self.claims += 1

    def counted(self):
        """How often each text is there."""
        everything = self.library.as_agent("operator")
        found = Counter(entry.body for entry in everything.read(namespace="api/x"))
        return found + Counter(message.body for message in self.sent())

    def records(self, kind):
        return sum(record.kind == kind for record in self.library.audit())


def play(site, cuts, seed, **planted):
    """Return the acts of a client whose connections are cut so often."""
    with Cutting(site.address, seed, **planted) as proxy:
        acts = Acts(site, proxy.address, seed)
        with acts.me:
            while proxy.cuts < cuts:
                acts.play()
    return acts


def lost(acts):
    found = acts.counted()
    return [text for text in acts.done if not found[text]]


def doubled(acts):
    found = acts.counted()
    twice = [text for text in (*acts.done, *acts.unknown) if found[text] > 1]
    return twice + ["mark"] * (acts.records("shown") - acts.marks)


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(SOAK, marks=pytest.mark.soak)])
def test_what_is_acknowledged_is_there_once(site, cuts):
    acts = play(site, cuts, seed=cuts)
    print(dict(acts.kinds), f"unknown {len(acts.unknown)}")
    assert set(acts.kinds) == {"append", "send", "read", "mark", "claim"}
    assert (acts.missing, lost(acts), doubled(acts), acts.unknown) == ([], [], [], [])
    assert acts.records("claim") == acts.claims


def test_the_check_finds_what_is_written_twice(site):
    acts = play(site, PLANTED, seed=3, keyless=True)
    assert doubled(acts)
