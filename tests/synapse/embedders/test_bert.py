import math

import numpy as np
import pytest

from synapse.embedders.bert import Encoder, Shape

TEXTS = ([2, 4, 5, 3], [2, 12, 3], [2, 4, 5, 6, 7, 8, 9, 10, 11, 3], [2, 15, 16, 3])


def slow(weights, shape, ids):
    """The same by the book: one text, one number at a time, with the mathematics library's own
    erf.
    """
    plain = {name: found.astype(float).tolist() for name, found in weights.items()}

    def dense(name, row):
        matrix, bias = plain[f"{name}.weight"], plain[f"{name}.bias"]
        return [
            sum(w * x for w, x in zip(line, row, strict=True)) + b
            for line, b in zip(matrix, bias, strict=True)
        ]

    def normal(name, row):
        mean = sum(row) / len(row)
        spread = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + shape.epsilon)
        scale, shift = plain[f"{name}.weight"], plain[f"{name}.bias"]
        return [
            (x - mean) / spread * s + t
            for x, s, t in zip(row, scale, shift, strict=True)
        ]

    def added(one, other):
        return [a + b for a, b in zip(one, other, strict=True)]

    words = plain["embeddings.word_embeddings.weight"]
    places = plain["embeddings.position_embeddings.weight"]
    kind = plain["embeddings.token_type_embeddings.weight"][0]
    rows = [
        normal("embeddings.LayerNorm", added(added(words[token], places[place]), kind))
        for place, token in enumerate(ids)
    ]
    for number in range(shape.layers):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            [dense(f"{layer}.attention.self.{n}", row) for row in rows]
            for n in ("query", "key", "value")
        )
        size = len(rows[0]) // shape.heads
        mixed = []
        for mine in query:
            out = []
            for head in range(shape.heads):
                span = slice(head * size, (head + 1) * size)
                scores = [
                    sum(a * b for a, b in zip(mine[span], k[span], strict=True))
                    / math.sqrt(size)
                    for k in key
                ]
                shares = [math.exp(score - max(scores)) for score in scores]
                total = sum(shares)
                out += [
                    sum(
                        s / total * v[span][i]
                        for s, v in zip(shares, value, strict=True)
                    )
                    for i in range(size)
                ]
            mixed.append(out)
        after = f"{layer}.attention.output"
        rows = [
            normal(f"{after}.LayerNorm", added(dense(f"{after}.dense", m), row))
            for m, row in zip(mixed, rows, strict=True)
        ]
        wide = [
            [
                x / 2 * (1 + math.erf(x / math.sqrt(2)))
                for x in dense(f"{layer}.intermediate.dense", r)
            ]
            for r in rows
        ]
        rows = [
            normal(
                f"{layer}.output.LayerNorm",
                added(dense(f"{layer}.output.dense", w), row),
            )
            for w, row in zip(wide, rows, strict=True)
        ]
    pooled = (
        rows[0]
        if shape.pooling == "cls"
        else [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    )
    length = math.sqrt(sum(x * x for x in pooled))
    return [x / length for x in pooled]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_it_is_the_model_by_the_book(weights, pooling):
    shape = Shape(2, 3, pooling=pooling)
    found = Encoder(weights, shape).encode(TEXTS)
    assert np.allclose(found, [slow(weights, shape, ids) for ids in TEXTS], atol=2e-6)


def test_a_wrong_number_anywhere_is_seen(weights):
    """The comparison above has a say on every weight but those that cannot matter."""
    shape = Shape(2, 3)
    right = Encoder(weights, shape).encode(TEXTS)
    for name in weights:
        if name.endswith("key.bias"):
            continue  # the same for all keys of a query: the shares do not change
        spoilt = {**weights, name: weights[name] * np.float32(1.1)}
        assert not np.allclose(
            Encoder(spoilt, shape).encode(TEXTS), right, atol=1e-5
        ), name


def test_vectors_are_of_unit_length(weights):
    found = Encoder(weights, Shape(2, 3)).encode(TEXTS)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_a_text_has_one_vector_whatever_goes_through_with_it(weights):
    encoder = Encoder(weights, Shape(2, 3))
    together = encoder.encode(TEXTS)
    assert encoder.dimension == together.shape[1]
    for place, ids in enumerate(TEXTS):
        assert np.allclose(encoder.encode([ids])[0], together[place], atol=1e-6)
