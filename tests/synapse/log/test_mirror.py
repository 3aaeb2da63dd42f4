"""Folders of threads go with their last message, and come back with the next one."""

import os

import synapse
from synapse import Mail


def test_the_folder_of_a_thread_goes_with_its_messages_and_comes_back(tmp_path):
    root = str(tmp_path / "shared")
    with synapse.init(root) as memory, synapse.open(root) as other:
        for id in ("helios", "nova"):
            memory.register(synapse.Agent(id))
        first = Mail(memory.as_agent("helios")).send("nova", "one")
        folder = f"{root}/messages/{first.thread}"
        assert Mail(other.as_agent("nova")).reply(
            first.id, "two"
        )  # the other holds the folder open, too
        both = [
            entry.id for entry in memory.as_agent("operator").read(namespace="mail")
        ]
        memory.as_agent("operator").archive(both[:1])
        assert len(os.listdir(folder)) == 1
        memory.as_agent("operator").archive(both[1:])
        assert not os.path.exists(folder)
        assert Mail(other.as_agent("nova")).send("helios", "three", thread=first.thread)
        assert len(os.listdir(folder)) == 1
        memory.as_agent("operator").restore(both)
        assert len(os.listdir(folder)) == 3
        assert memory.verify().ok


def test_a_folder_in_which_a_person_keeps_something_stays(tmp_path):
    root = str(tmp_path / "shared")
    with synapse.init(root) as memory:
        for id in ("helios", "nova"):
            memory.register(synapse.Agent(id))
        first = Mail(memory.as_agent("helios")).send("nova", "one")
        note = tmp_path / "shared" / "messages" / first.thread / "note.txt"
        note.write_text("mine")
        memory.as_agent("operator").archive(first.id)
        assert note.read_text() == "mine"
