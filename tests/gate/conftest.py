"""The fixtures of the walks: one workspace that they share, and one of their own."""

import pytest

from synapse.model.settings import Semantic
from synapse.search import semantic
from synapse.trust.bearer import new_token
from tests.gate.world import READERS, world_at


@pytest.fixture(scope="module")
def world(embedding_server):
    """Shared by the walks that change nothing. Everything that may be embedded is."""
    found = world_at(None)
    embedding_server.reset()
    store = found.mem.store
    chosen = Semantic("ollama", url=embedding_server.url, search=False)
    store.operator_files.declare(store.settings._replace(semantic=chosen))
    semantic.embed(store)
    yield found
    found.mem.close()


@pytest.fixture
def fresh():
    found = world_at(None)
    yield found
    found.mem.close()


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """Return a file of tokens, and the token of each reader."""
    path = str(tmp_path_factory.mktemp("gate") / "tokens")
    return path, {reader: new_token(path, reader) for reader in READERS}
