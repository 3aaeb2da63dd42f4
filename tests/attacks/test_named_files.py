"""Files that the settings of a workspace name, or that lie in an old store: no pipe or device among
them is waited for, and no link in their place leads a write elsewhere.
"""

import json
import os

import pytest

import synapse
from synapse.compat import cortex
from synapse.mail import synapse_json
from synapse.mail.mailbox import Mail

PLACES = {
    "pipe": lambda path: os.mkfifo(path),
    "link to a device": lambda path: os.symlink("/dev/zero", path),
    "link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), os.symlink(f"{path}.pipe", path)),
}


pytestmark = pytest.mark.timeout(30)  # whatever waits for a pipe is interrupted


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        for id in ("eng", "lead"):
            memory.register(synapse.Agent(id, role="engineer"))
        with open(tmp_path / "memory" / "synapse.yaml", "a") as file:
            file.write("mirror: {synapse_json: old.json}\n")
        memory.store.refresh(whole=True)
        yield memory


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe"])
def test_the_old_file_of_mail_is_a_file(memory, kind):
    PLACES[kind](os.path.join(memory.store.root, "old.json"))
    assert "cannot be kept" in synapse_json.stale(memory.store)
    Mail(memory.as_agent("eng")).send("lead", "hello")
    assert synapse_json.stale(memory.store) is None


def test_no_link_leads_the_old_file_of_mail_elsewhere(memory, tmp_path):
    """Whoever made the workspace may guess under which name a file is written first."""
    (tmp_path / "mine").write_text("mine")
    for number in range(os.getpid(), os.getpid() + 3):
        path = os.path.join(memory.store.root, f"old.json.{number}.tmp")
        os.symlink(tmp_path / "mine", path)
    Mail(memory.as_agent("eng")).send("lead", "hello")
    assert (tmp_path / "mine").read_text() == "mine"
    with open(os.path.join(memory.store.root, "old.json")) as file:
        assert [mail["body"] for mail in json.load(file)["messages"]] == ["hello"]


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    "name", ["stm.json", "atoms.json", "embeddings.json", "collections/x.json", "x.db"]
)
def test_a_folder_of_an_old_store_holds_files(tmp_path, kind, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    PLACES[kind](str(path))
    found = cortex.read(str(tmp_path))
    assert found.files == ()
    assert [str(path) in problem for problem in found.problems] == [True]
