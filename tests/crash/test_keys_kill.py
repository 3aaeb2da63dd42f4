"""SIGKILL of changes of keys at their calls of the system: each counts whole or not at all, whoever
could open a sealed text opens it still, and whoever writes goes on.
"""

import pytest

import synapse
from synapse.access import sharing
from synapse.errors import SynapseError
from synapse.trust.keyring import Keyring
from synapse.trust.workspace_keys import WorkspaceKeys
from tests.crash import kill
from tests.privacy.made import plain_in

SAID = "The word for the door is Otter Quay {0}."


def change(root, how, *args):
    with synapse.open(root) as memory:
        getattr(WorkspaceKeys(memory.store), how)(*args)


def write(root, text):
    with synapse.open(root) as memory:
        memory.as_agent("eng-a").append(text, "team/web", scope="encrypted", to="eng-b")


def share(root, id):
    with synapse.open(root) as memory:
        sharing.share(memory.as_agent("eng-a").access, id, "eng-c")


def rotate_carelessly(root, how, owner):
    """Make a key known before its private half is kept."""
    kept, keep, commit = [], Keyring.keep, WorkspaceKeys._write

    def write(keys, *args):
        commit(keys, *args)
        for args in kept:
            keep(*args)

    Keyring.keep = lambda *args: kept.append(args)
    WorkspaceKeys._write = write
    change(root, how, owner)


class Team:
    """Two who have keys, one who is to get some, and the sealed texts that the first two share."""

    def __init__(self, root):
        self.root, self.texts = root, {}
        for name in ("eng-a", "eng-b", "eng-c"):
            change(str(root), "new", name)
        self.before = self.keys()
        self.sealed()

    def sealed(self):
        """Write one more sealed text; its id."""
        text = SAID.format(len(self.texts))
        with synapse.open(str(self.root)) as memory:
            me = memory.as_agent("eng-a")
            id = me.append(text, "team/web", scope="encrypted", to="eng-b").id
        self.texts[id] = text
        self.before = self.keys()
        return id

    def keys(self):
        with synapse.open(str(self.root)) as memory:
            return WorkspaceKeys(memory.store).list()

    def wrong(self):
        """Yield what is wrong after a kill."""
        after = self.keys()
        if [key.id for key in after[: len(self.before)]] != [key.id for key in self.before]:
            yield "keys are others", after
        if len(after) > len(self.before) + 1 or not all(key.here for key in after):
            yield "a key is half made", after
        owners = [key.owner for key in after if key.state == "current"]
        if len(owners) != len({*owners}):
            yield "two are current", after
        yield from self.unread()
        with synapse.open(str(self.root)) as memory:
            if not (report := memory.verify()).ok:
                yield "verify", report.problems
            if "eng-a" not in owners:
                WorkspaceKeys(memory.store).new("eng-a")
            try:
                memory.as_agent("eng-a").append("It goes on.", "team/web")
            except SynapseError as error:
                yield "stuck", repr(error)
        if left := plain_in(self.root, self.texts.values()):
            yield "left", left
        self.before = self.keys()

    def unread(self):
        """Yield who cannot open a sealed text any more that was written for both."""
        with synapse.open(str(self.root)) as memory:
            for id, text in self.texts.items():
                for name in ("eng-a", "eng-b"):
                    if memory.as_agent(name).get(id).body != text:
                        yield "locked out", (name, id)


@pytest.fixture
def team(root):
    return Team(root)


def wrong_after_kills(team, work, args, most):
    count, wrong = 0, []

    def fresh():
        named = [team.sealed() if arg is None else arg for arg in args]
        return team.root, *named

    for at, _ in kill.kills(work, fresh, most):
        count += 1
        wrong += [(at, *what) for what in team.wrong()]
    return count, wrong


WORKS = {
    "rotate": (change, "rotate", "eng-a"),
    "revoke": (change, "revoke", "eng-a"),
    "write": (write, SAID.format("none")),
    "share": (share, None),
}


@pytest.mark.parametrize("most", kill.POINTS)
@pytest.mark.parametrize("name", WORKS)
def test_a_killed_change_of_keys_counts_whole_or_not_at_all(team, name, most):
    work, *args = WORKS[name]
    count, wrong = wrong_after_kills(team, work, args, most)
    assert wrong == []
    assert count > 5


def test_a_key_that_is_known_before_it_is_kept_is_found_out(team):
    _, wrong = wrong_after_kills(team, rotate_carelessly, ("rotate", "eng-a"), 30)
    assert "a key is half made" in {what[1] for what in wrong}
