"""Embeddings of a model that Ollama serves, `nomic-embed-text` unless another is named."""

from __future__ import annotations

from collections.abc import Sequence

from synapse.embedders.calls import Caller, vectors_of

URL = "http://127.0.0.1:11434"
MODEL = "nomic-embed-text"
# What a model was trained to see before a text that is kept, and before one that asks.
PREFIXES = {"nomic-embed-text": ("search_document: ", "search_query: ")}


class Ollama:
    """A server of Ollama's own protocol: POST /api/embed."""

    def __init__(self, url: str = URL, model: str = MODEL, trusted: str = "") -> None:
        self.model = model
        self.name = f"ollama/{model}"
        self.caller = Caller(url, {}, trusted=trusted)
        self.prefixes = PREFIXES.get(model.partition(":")[0], ("", ""))

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Sequence[float]]:
        before = self.prefixes[query]
        answer = self.caller.post(
            "/api/embed", {"model": self.model, "input": [before + text for text in texts]}
        )
        return vectors_of(answer.get("embeddings"), len(texts), self.caller.url)

    def close(self) -> None:
        self.caller.close()
