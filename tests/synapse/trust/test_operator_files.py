"""The settings of a workspace are what its file says, whichever thread notices that first."""

import os

import synapse
from synapse.testing.tools import together
from synapse.trust.operator_files import OperatorFiles


def edit(root, n):
    """Change the settings: how many entries may wait for review."""
    path = os.path.join(root, "synapse.yaml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    old = text.partition("  limit: ")[2].partition("\n")[0]
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(f"  limit: {old}\n", f"  limit: {n}\n"))


def test_an_edit_that_two_threads_notice_stands(tmp_path):
    root = str(tmp_path / "ws")
    synapse.init(root).close()
    for n in range(200, 260):
        with synapse.open(root) as memory:
            store = memory.store
            edit(root, n)
            store._looked = store._noticed = -1.0
            together(store.refresh, store._notice, lambda store=store: store.settings)
            store.refresh(whole=True)
            assert store.settings.staging_limit == n
        with synapse.open(root) as memory:
            assert memory.store.settings.staging_limit == n


def test_what_is_read_late_takes_the_place_of_nothing(tmp_path, monkeypatch):
    """A thread that reads the settings is overtaken by one that notices an edit."""
    root = str(tmp_path / "ws")
    synapse.init(root).close()
    with synapse.open(root) as memory:
        files = memory.store.operator_files
        files.declare(None)
        read = OperatorFiles._kept_settings
        old = read(files) or files._read_settings()
        new = old._replace(staging_limit=7)

        def overtaken(self):
            monkeypatch.setattr(OperatorFiles, "_kept_settings", read)
            self.declare(new)
            return old

        monkeypatch.setattr(OperatorFiles, "_kept_settings", overtaken)
        assert files.settings == new
        assert memory.store.settings == new
