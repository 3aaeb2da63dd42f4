"""Keys: where they lie, who may make them, and what becomes of them."""

import json
import os
import stat

import pytest

import synapse
from synapse.errors import Conflict, Forbidden, InvalidEntry, NoKey, NotFound, SealError
from synapse.model.agents import Agent
from synapse.system import home
from synapse.trust.workspace_keys import WorkspaceKeys


@pytest.fixture(params=["files", "memory"])
def memory(request, tmp_path):
    address = tmp_path / "ws" if request.param == "files" else "memory:"
    with synapse.init(address) if request.param == "files" else synapse.open(address) as memory:
        for id in ("eng-a", "eng-b"):
            memory.register(Agent(id))
        yield memory


@pytest.fixture
def files(tmp_path):
    with synapse.init(tmp_path / "ws") as memory:
        memory.register(Agent("eng-a"))
        yield memory


def states(memory):
    return [(key.owner, key.state, key.here) for key in WorkspaceKeys(memory.store).list()]


def test_keys_are_made_rotated_and_revoked(memory):
    keys = WorkspaceKeys(memory.store)
    first = keys.new("eng-a")
    assert states(memory) == [("eng-a", "current", True)]
    second = keys.rotate("eng-a")
    assert states(memory) == [("eng-a", "rotated", True), ("eng-a", "current", True)]
    assert keys.revoke("eng-a") == second
    assert keys.revoke("eng-a", first) == first
    assert [state for _, state, _ in states(memory)] == ["revoked", "revoked"]
    keys.new()
    assert states(memory)[-1] == ("@workspace", "current", True)


def test_what_does_not_fit_is_refused(memory):
    keys = WorkspaceKeys(memory.store)
    keys.new("eng-a")
    with pytest.raises(Conflict, match="rotate"):
        keys.new("eng-a")
    with pytest.raises(NoKey, match="eng-b has no key yet: `synapse keys new eng-b`"):
        keys.rotate("eng-b")
    with pytest.raises(NotFound, match="eng-x"):
        keys.new("eng-x")
    with pytest.raises(NoKey, match="eng-b has no key to revoke"):
        keys.revoke("eng-b")
    id = keys.revoke("eng-a")
    with pytest.raises(Conflict, match="revoked before"):
        keys.revoke("eng-a", id)


def test_the_private_half_is_the_persons_alone(files):
    id = WorkspaceKeys(files.store).new("eng-a")
    path = os.path.join(home.operator_home(), files.store.keyring.place("eng-a", id))
    assert not path.startswith(files.store.root)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    with open(path) as file:
        private = json.load(file)
    for folder, _, names in os.walk(files.store.root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                raw = file.read()
            assert private["seal"].encode() not in raw
            assert private["sign"].encode() not in raw


def test_a_file_that_others_may_write_is_not_believed(files):
    id = WorkspaceKeys(files.store).new("eng-a")
    path = os.path.join(home.operator_home(), files.store.keyring.place("eng-a", id))
    os.chmod(path, 0o666)
    with synapse.open(files.store.root) as again, pytest.raises(synapse.StoreError):
        WorkspaceKeys(again.store).list()


def test_a_lost_key_is_named(files):
    id = WorkspaceKeys(files.store).new("eng-a")
    path = os.path.join(home.operator_home(), files.store.keyring.place("eng-a", id))
    os.unlink(path)
    with synapse.open(files.store.root) as again:
        assert states(again) == [("eng-a", "current", False)]
        with pytest.raises(NoKey, match=f"eng-a's key {id} is not here"):
            WorkspaceKeys(again.store).export_public("eng-a")


def test_another_process_and_a_rebuilt_index_know_the_keys(files):
    id = WorkspaceKeys(files.store).new("eng-a")
    with synapse.open(files.store.root) as again:
        digest = again.digest()
        assert [key.id for key in WorkspaceKeys(again.store).list()] == [id]
        assert again.rebuild().digest == digest
        assert [key.id for key in WorkspaceKeys(again.store).list()] == [id]
        WorkspaceKeys(again.store).rotate("eng-a")
    assert len(WorkspaceKeys(files.store).list()) == 2
    assert files.verify().ok


def test_a_public_key_goes_to_another_workspace(files, tmp_path):
    id = WorkspaceKeys(files.store).new("eng-a")
    text = WorkspaceKeys(files.store).export_public("eng-a")
    with synapse.init(tmp_path / "other") as other:
        with pytest.raises(NotFound):
            WorkspaceKeys(other.store).import_public(text)
        other.register(Agent("eng-a"))
        other.register(Agent("eng-b"))
        with pytest.raises(SealError):
            WorkspaceKeys(other.store).import_public(text.replace("eng-a", "eng-b"))
        assert WorkspaceKeys(other.store).import_public(text).id == id
        assert states(other) == [("eng-a", "current", False)]
        with pytest.raises(InvalidEntry, match="registered already"):
            WorkspaceKeys(other.store).import_public(text)


@pytest.mark.parametrize("name", ["SYNAPSE_RUN", "SYNAPSE_AGENT"])
def test_who_acts_as_an_agent_makes_no_keys(memory, monkeypatch, name):
    text = WorkspaceKeys(memory.store).new("eng-a") and WorkspaceKeys(memory.store).export_public(
        "eng-a"
    )
    monkeypatch.setenv(name, "eng-a")
    keys = WorkspaceKeys(memory.store)
    for act in (
        lambda: keys.new("eng-b"),
        lambda: keys.rotate("eng-a"),
        lambda: keys.revoke("eng-a"),
        lambda: keys.import_public(text),
    ):
        with pytest.raises(Forbidden):
            act()


def test_a_record_by_an_agent_is_no_key(memory):
    from synapse import crypto
    from synapse.model.records import Record

    key = crypto.new_key("eng-a")
    fields = {"how": "new", "key": crypto.public_fields(key.public)}
    memory.store.commit.append(Record.new("key", "eng-b", fields))
    assert WorkspaceKeys(memory.store).list() == []


@pytest.mark.parametrize("lines", [0, 3, 400])
def test_a_writer_that_reads_nothing_hears_of_keys(files, lines):
    """Others made, rotated or revoked a key, and wrote more than is looked through at once."""
    writer = files.as_agent("eng-a")
    files.register(Agent("eng-b", write=["*"]))
    writer.append("before there is a key", "status/x")

    def elsewhere(act):
        with synapse.open(files.store.root) as other:
            act(WorkspaceKeys(other.store))
            for n in range(lines):
                other.as_agent("eng-b").append(f"{n} " + "x" * 3_000, "status/x")

    elsewhere(lambda keys: keys.new("eng-a"))
    assert writer.append("signed", "status/x").signature
    elsewhere(lambda keys: keys.rotate("eng-a"))
    assert writer.append("signed anew", "status/x").signature
    elsewhere(lambda keys: keys.revoke("eng-a"))
    for _ in range(2):
        with pytest.raises(NoKey, match="eng-a's key was revoked"):
            writer.append("nobody vouches for it", "status/x")
    assert files.verify().ok


def test_a_key_that_comes_between_an_entry_and_its_line(memory, monkeypatch):
    writer, append = memory.as_agent("eng-a"), memory.store.commit.append

    def late(record, **named):
        if record.entry is not None and not record.entry.signature:
            WorkspaceKeys(memory.store).new("eng-a")
        return append(record, **named)

    monkeypatch.setattr(memory.store.commit, "append", late)
    assert writer.append("signed in the end", "status/x").signature
    assert memory.verify().ok
