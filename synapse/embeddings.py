"""The vectors of one workspace and the embedder that makes them, each opened when it is first asked
for. Which texts are embedded, and how vectors are searched, is decided in `search`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from synapse.model.settings import Semantic, Settings
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.vectors.vectors import Vectors
    from synapse.model.protocols import Embedder


class Embeddings:
    """The vectors beside one index, of a workspace at a root or of one in memory."""

    def __init__(
        self, index_path: str, root: str | None, readonly: bool, settings: Callable[[], Settings]
    ) -> None:
        self._index_path = index_path
        self._root = root
        self._readonly = readonly
        self._settings = settings
        self._embedder: tuple[Semantic, Embedder] | None = None
        self._vectors: Vectors | None = None

    @property
    def semantic(self) -> Semantic:
        """Return which embedder is used."""
        from synapse.embedders import in_use

        return in_use(self._settings().semantic)

    @property
    def embedder(self) -> Embedder:
        """Return the embedder that is used now; made once, for a model may take a second to load.
        EmbedderError where a person did not trust the workspace with its address.
        """
        chosen = self.semantic
        if self._embedder is None or self._embedder[0] != chosen:
            from synapse.embedders import embedder_of
            from synapse.trust.decisions import demand_embedder

            trusted = demand_embedder(self._root, chosen)
            if self._embedder is not None:
                self._embedder[1].close()
            self._embedder = (chosen, embedder_of(chosen, trusted))
        return self._embedder[1]

    @property
    def vectors(self) -> Vectors:
        """Return the vectors. Where the workspace may not be written, a copy in memory."""
        if self._vectors is None:
            from synapse.index.replay import open_vectors

            copied = f"{self._root}/.index/vectors.db" if self._readonly else None
            self._vectors = open_vectors(self._path, copied)
        return self._vectors

    @property
    def has_vectors(self) -> bool:
        """Return whether anything was ever embedded here."""
        return self._vectors is not None or os.path.exists(self._path)

    @property
    def _path(self) -> str:
        from synapse.index.vectors.vectors import path_beside

        return path_beside(self._index_path)

    def close(self) -> None:
        for resource in (self._embedder and self._embedder[1], self._vectors):
            if resource is not None:
                resource.close()
