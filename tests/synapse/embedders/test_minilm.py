"""The real weights: all-MiniLM-L6-v2, held against cosines that were published for it."""

import numpy as np
import pytest

from synapse.embedders import embedder_of, local
from synapse.model.settings import Semantic

pytestmark = pytest.mark.soak

# What sentence-transformers' quick start prints, and what the page of the model shows.
WEATHER = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
PUBLISHED = ((1.0, 0.6660, 0.1046), (0.6660, 1.0, 0.1411), (0.1046, 0.1411, 1.0))
HAPPY = (
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
)
SHOWN = (0.695, 0.943, 0.257)


@pytest.fixture(scope="module")
def minilm():
    assert local.packaged(), "`make soak` installs it"
    return embedder_of(Semantic("local"))


def cosines(embedder, texts):
    found = np.array(embedder.embed(texts))
    return found @ found.T


def test_cosines_are_those_that_were_published(minilm):
    assert np.round(cosines(minilm, WEATHER), 4) == pytest.approx(
        np.array(PUBLISHED), abs=1.1e-4
    )
    assert cosines(minilm, HAPPY)[0, 1:] == pytest.approx(SHOWN, abs=6e-4)


def test_vectors_are_of_unit_length_and_of_384_numbers(minilm):
    found = np.array(
        minilm.embed([*WEATHER, "", "x" * 5_000, "Ünïcödé 🎉", "Привет, мир"])
    )
    assert found.shape == (7, 384)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_batch_gives_what_each_text_gives_alone(minilm):
    texts = [*WEATHER, *HAPPY, "word " * 300, "a"]
    together = np.array(minilm.embed(texts))
    alone = np.array([minilm.embed([text])[0] for text in texts])
    assert np.abs(together - alone).max() < 1e-5


def test_what_is_beyond_256_tokens_is_not_seen(minilm):
    """254 words and the two marks."""
    seen = "word " * 254
    assert np.array(minilm.embed([seen + "zebra"])[0]) == pytest.approx(
        np.array(minilm.embed([seen])[0]), abs=1e-6
    )
    fewer = "word " * 253
    changed = np.array(minilm.embed([fewer + "zebra"])[0]) @ np.array(
        minilm.embed([fewer])[0]
    )
    assert changed < 0.9999
