"""The forward pass of a BERT encoder in numpy: token ids in, one unit vector for each text out.
Reads no file.

Linear layers and normalisation see the tokens of a batch as one long list; only attention is
computed text by text, padded to the longest. Texts of a batch should be of about one length, which
is the caller's to see to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from synapse.system.typed import NamedTuple

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]

# Abramowitz and Stegun, 7.1.26: off by 1.5e-7 at most, which is what a float32 can tell apart.
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_P = 0.3275911
_NOWHERE = np.float32(-1e9)


class Shape(NamedTuple):
    """What the weights do not say themselves."""

    layers: int
    heads: int
    epsilon: float = 1e-12
    pooling: str = "mean"


class Layer(NamedTuple):
    """One layer's weights; query, key and value are one matrix, so that one product gives all
    three.
    """

    mixed: Floats
    mixed_bias: Floats
    attended: Floats
    attended_bias: Floats
    attended_scale: Floats
    attended_shift: Floats
    wide: Floats
    wide_bias: Floats
    narrow: Floats
    narrow_bias: Floats
    scale: Floats
    shift: Floats


class Encoder:
    """The weights of one model, laid out for use."""

    def __init__(self, weights: Weights, shape: Shape) -> None:
        self.shape = shape
        self.words = weights["embeddings.word_embeddings.weight"]
        # Every text is one segment, the first: its embedding is part of every position's.
        types = weights["embeddings.token_type_embeddings.weight"]
        self.places = weights["embeddings.position_embeddings.weight"] + types[0]
        self.scale = weights["embeddings.LayerNorm.weight"]
        self.shift = weights["embeddings.LayerNorm.bias"]
        self.layers = [
            _layer(weights, f"encoder.layer.{number}") for number in range(shape.layers)
        ]

    @property
    def dimension(self) -> int:
        return int(self.words.shape[1])

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return a unit vector for each list of token ids; none of them may be empty, or longer
        than there are places.
        """
        lengths = np.array([len(ids) for ids in texts])
        width = int(lengths.max())
        mask = np.arange(width) < lengths[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate([np.asarray(row) for row in texts])
        state = self.words[ids[mask]] + self.places[np.nonzero(mask)[1]]
        state = _normal(state, self.scale, self.shift, self.shape.epsilon)
        for layer in self.layers:
            state = self._through(layer, state, mask)
        return _unit(self._pooled(state, lengths))

    def _through(self, layer: Layer, state: Floats, mask: NDArray[np.bool_]) -> Floats:
        attended = (
            self._attention(state @ layer.mixed + layer.mixed_bias, mask)
            @ layer.attended
        )
        attended += layer.attended_bias
        attended += state
        state = _normal(
            attended, layer.attended_scale, layer.attended_shift, self.shape.epsilon
        )
        wide = _gelu(state @ layer.wide + layer.wide_bias) @ layer.narrow
        wide += layer.narrow_bias
        wide += state
        return _normal(wide, layer.scale, layer.shift, self.shape.epsilon)

    def _attention(self, mixed: Floats, mask: NDArray[np.bool_]) -> Floats:
        """Return what each token takes from the others of its own text."""
        count, width = mask.shape
        size = mixed.shape[1] // 3
        padded = np.zeros((count, width, mixed.shape[1]), np.float32)
        padded[mask] = mixed
        stacked = padded.reshape(count, width, 3, self.shape.heads, -1).transpose(
            2, 0, 3, 1, 4
        )
        query, key, value = stacked[0], stacked[1], stacked[2]
        scores = query @ key.transpose(0, 1, 3, 2)
        scores *= np.float32((size // self.shape.heads) ** -0.5)
        scores += np.where(mask, np.float32(0), _NOWHERE)[:, None, None, :]
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        context: Floats = (
            (scores @ value).transpose(0, 2, 1, 3).reshape(count, width, size)[mask]
        )
        return context

    def _pooled(self, state: Floats, lengths: NDArray[np.int_]) -> Floats:
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        if self.shape.pooling == "cls":
            return state[starts]
        sums = np.add.reduceat(state, starts, axis=0)
        return (sums / lengths[:, None]).astype(np.float32)


def _layer(weights: Weights, name: str) -> Layer:
    mix = [f"{name}.attention.self.{prefix}" for prefix in ("query", "key", "value")]
    after = f"{name}.attention.output"
    return Layer(
        _turned(np.concatenate([weights[f"{prefix}.weight"] for prefix in mix])),
        np.concatenate([weights[f"{prefix}.bias"] for prefix in mix]),
        _turned(weights[f"{after}.dense.weight"]),
        weights[f"{after}.dense.bias"],
        weights[f"{after}.LayerNorm.weight"],
        weights[f"{after}.LayerNorm.bias"],
        _turned(weights[f"{name}.intermediate.dense.weight"]),
        weights[f"{name}.intermediate.dense.bias"],
        _turned(weights[f"{name}.output.dense.weight"]),
        weights[f"{name}.output.dense.bias"],
        weights[f"{name}.output.LayerNorm.weight"],
        weights[f"{name}.output.LayerNorm.bias"],
    )


def _turned(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix.T)


def _normal(rows: Floats, scale: Floats, shift: Floats, epsilon: float) -> Floats:
    rows = rows - rows.mean(axis=-1, keepdims=True, dtype=np.float32)
    rows /= np.sqrt(np.square(rows).mean(axis=-1, keepdims=True) + np.float32(epsilon))
    rows *= scale
    rows += shift
    return rows


def _gelu(rows: Floats) -> Floats:
    """Return half of x times 1 + erf(x / sqrt 2), in as few passes over the memory as may be."""
    half = np.abs(rows)
    half *= np.float32(0.5**0.5)
    step = 1 / (1 + np.float32(_ERF_P) * half)
    curve = np.full_like(step, _ERF[-1])
    for factor in _ERF[-2::-1]:
        curve *= step
        curve += np.float32(factor)
    curve *= step
    np.square(half, out=half)
    np.negative(half, out=half)
    np.exp(half, out=half)
    curve *= half
    erf = np.copysign(1 - curve, rows)
    erf += 1
    erf *= rows
    erf *= np.float32(0.5)
    result: Floats = erf
    return result


def _unit(rows: Floats) -> Floats:
    lengths = np.sqrt(np.square(rows).sum(axis=-1, keepdims=True))
    result: Floats = rows / np.maximum(lengths, np.float32(1e-12))
    return result
