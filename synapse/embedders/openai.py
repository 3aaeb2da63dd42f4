"""Embeddings of any server with OpenAI's `/v1/embeddings`: theirs, vLLM, llama.cpp, LM Studio and
many more.
"""

from __future__ import annotations

from collections.abc import Sequence

from synapse.embedders.calls import Caller, vectors_of
from synapse.errors import EmbedderError

URL = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"


class OpenAI:
    """POST {url}/embeddings, where the url ends in `/v1` as a rule."""

    def __init__(
        self, url: str = URL, model: str = MODEL, key: str | None = None, trusted: str = ""
    ) -> None:
        self.model = model
        self.name = f"openai/{model}"
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.caller = Caller(url, headers, trusted=trusted)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Sequence[float]]:
        request = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        data = self.caller.post("/embeddings", request).get("data")
        try:  # each says which text it belongs to; they may come in any order
            placed = {row["index"]: row["embedding"] for row in data}  # type: ignore[union-attr]
            vectors = [placed[number] for number in range(len(texts))]
        except (TypeError, KeyError):
            url = self.caller.url
            raise EmbedderError(
                f"{url} did not answer with a vector for each text", url=url
            ) from None
        return vectors_of(vectors, len(texts), self.caller.url)

    def close(self) -> None:
        self.caller.close()
