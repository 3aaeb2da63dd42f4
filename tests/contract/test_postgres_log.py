"""The contract of the log on the journal in PostgreSQL: opened again, it is another machine, with an
empty folder of its own.
"""

import itertools

import pytest

import synapse
from synapse.testing import LogContract

NAMES = itertools.count()


class TestPostgresLog(LogContract):
    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path, postgres_server):
        self.path, self.server, self.memories = tmp_path, postgres_server, []
        yield
        for memory in self.memories:
            memory.close()

    def _kept(self, url):
        root = str(self.path / f"machine-{len(self.memories)}")
        self.memories.append(synapse.init(root, log=url, clock=self.clock))
        return self.memories[-1].store.commit

    def make_commit(self, clock):
        self.clock = clock
        return self._kept(self.server.url(f"contract_{next(NAMES)}"))

    def reopened(self, commit):
        return self._kept(
            commit.log.journal.database.address.dsn
            + "?workspace="
            + commit.log.journal.database.address.schema
        )
