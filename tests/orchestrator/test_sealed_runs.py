"""Runs and sealed entries: the model is given the text, and no file of the run holds it."""

from synapse.trust.workspace_keys import WorkspaceKeys
from tests.synapse.trust.test_sealed import SECRET, leaks


def test_the_model_reads_what_no_file_holds(world):
    told = []

    def script(seen):
        told.append("\n".join(message.text for message in seen.messages))
        return "Done."

    there = world(script)
    for id in ("boss", "eng-a"):
        WorkspaceKeys(there.mem.store).new(id)
    there.says(SECRET, scope="encrypted", to="eng-a")
    result = there.spawn("look at the door", "eng-a", project="shop")
    assert result.status == "done"
    assert SECRET in told[0]
    assert "[sealed " not in told[0]
    assert leaks(there.mem.store.root) == {}
    assert there.mem.verify().ok
