"""Older versions of this software beside today's, on one workspace, both ways. Each is taken from the
history of this repository, and runs with the packages that are installed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import synapse
from synapse.model.records import FEATURES, Record

ROOT = Path(__file__).parents[1]
# the last one before keys, one between, and the release 0.2.0
OLDER = ("033a48bd", "39c97184", "2870e8c0")
ACTS = {
    "keys": ("keys", "new", "eng"),
    "taint": ("taint", "ID", "--reason", "wrong"),
    "redaction": ("redact", "ID", "--reason", "a secret"),
}


@pytest.fixture(scope="session", params=OLDER)
def older(request, tmp_path_factory):
    """The folder of an older version."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True)

    if git("rev-parse", "--is-shallow-repository").stdout != b"false\n":
        pytest.skip("this checkout has no history")
    folder = tmp_path_factory.mktemp(request.param)
    packed = git("archive", request.param, "synapse", "orchestrator", "prompts")
    assert packed.returncode == 0, packed.stderr
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return str(folder)


class Shell:
    """The shell of one version, in one workspace."""

    def __init__(self, root, version=str(ROOT)):
        self.root = root
        self.env = os.environ | {"PYTHONPATH": version, "SYNAPSE_ROOT": root}

    def __call__(self, *words, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "synapse.cli", "--root", self.root, *words],
            env=self.env, capture_output=True, text=True, timeout=60, cwd=self.env["PYTHONPATH"],
        )  # fmt: skip
        assert (done.returncode == 0) == (code == 0), (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "home"))
    return str(tmp_path / "team")


def journal_of(root):
    return b"".join(path.read_bytes() for path in sorted(Path(root, "journal").glob("*.jsonl")))


def begun(shell):
    shell("init", shell.root) if not os.path.isdir(shell.root) else None
    shell("register", "--id", "eng", "--role", "engineer", "--read", "*", "--write", "*")
    return shell("write", "--from", "eng", "--namespace", "api/x", "the first entry").strip()


def test_this_version_goes_on_where_an_older_one_was(older, root):
    old, new = Shell(root, older), Shell(root)
    begun(old)
    if OLDER[0] in older:  # its index does not say that it was made here
        new("trust", "--text", "--yes")
    assert "the first entry" in new("read", "--agent", "eng")
    new("write", "--from", "eng", "--namespace", "api/x", "the second entry")
    assert new("verify").startswith("ok: ")
    new("rebuild")
    assert "the first entry" in new("read", "--agent", "eng")


def test_without_what_came_later_an_older_one_reads_and_writes_beside_it(older, root):
    """What it writes is not known to be of this person, and waits for one command."""
    old, new = Shell(root, older), Shell(root)
    begun(new)
    assert "the first entry" in old("read", "--agent", "eng")
    old("write", "--from", "eng", "--namespace", "api/x", "by the older one")
    assert "synapse trust --text" in new("read", "--agent", "eng")
    new("trust", "--text", "--yes")
    assert "by the older one" in new("read", "--agent", "eng")
    assert new("verify").startswith("ok: ")
    assert old("verify").startswith("ok: ")


@pytest.mark.parametrize("feature", ACTS)
def test_an_older_one_refuses_what_it_would_misread(older, root, feature):
    old, new = Shell(root, older), Shell(root)
    id = begun(new)
    assert "the first entry" in old("read", "--agent", "eng")
    new(*(id if word == "ID" else word for word in ACTS[feature]))
    assert f'"features":["{feature}"]'.encode() in journal_of(root)
    before = journal_of(root)
    for words in (
        ("read", "--agent", "eng"),
        ("write", "--from", "eng", "--namespace", "api/x", "unsigned"),
        ("repair", "--give-up"),
        ("rebuild",),
    ):
        assert "upgrade" in old(*words, code=1)
    assert journal_of(root) == before
    assert new("verify").startswith("ok: ")


@pytest.fixture
def memory(root):
    with synapse.init(root) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.as_agent("eng").append("an entry", "api/x")
        yield memory


def later(memory):
    """A record of a later version, which this one does not know how to read."""
    memory.store.commit.append(Record.new("hologram", "operator", {"features": ["holograms"]}))


@pytest.mark.parametrize(
    "words",
    [
        ("read", "--agent", "eng"),
        ("write", "--from", "eng", "--namespace", "api/x", "an entry"),
        ("unread", "--agent", "eng"),
        ("search", "entry"),
        ("verify",),
        ("repair", "--give-up"),
        ("rebuild",),
        ("defrag",),
    ],
    ids=" ".join,
)
def test_this_version_refuses_what_a_later_one_needs(memory, words):
    later(memory)
    before = journal_of(memory.store.root)
    told = Shell(memory.store.root)(*words, code=6)
    assert "this workspace needs holograms" in told
    assert "upgrade" in told
    assert journal_of(memory.store.root) == before


def test_a_program_that_has_it_open_refuses_too(memory):
    with synapse.open(memory.store.root) as other:
        later(other)
    for act in (
        lambda: memory.as_agent("eng").append("one more", "api/x"),
        lambda: list(memory.as_agent("eng").read()),
    ):
        with pytest.raises(synapse.NewerProtocol, match="holograms"):
            act()


def test_what_nobody_accepted_shuts_nobody_out(memory, monkeypatch, tmp_path):
    later(memory)
    memory.close()
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "another person"))
    shutil.copytree(memory.store.root, tmp_path / "copied", ignore=shutil.ignore_patterns(".index"))
    told = Shell(str(tmp_path / "copied"))("read", "--agent", "eng", code=1)
    assert "trust --text" in told
    assert "holograms" not in told


def test_every_feature_is_tried():
    assert {*FEATURES.values()} == {*ACTS}
