import os
import subprocess
import sys

import numpy as np
import pytest

from synapse.embedders import local
from synapse.errors import EmbedderError


def cosine(one, other):
    return float(np.dot(one, other))


def test_texts_become_vectors_in_their_order(model):
    embedder = local.Local(str(model()))
    texts = ["a b c d", "happy dog", "deploys freeze", "", "unheard of"]
    found = embedder.embed(texts)
    assert len(found) == len(texts)
    for text, vector in zip(texts, found, strict=True):
        assert cosine(vector, vector) == pytest.approx(1, abs=1e-5)
        assert vector == pytest.approx(embedder.embed([text])[0], abs=1e-6)
    assert found[0] != pytest.approx(found[1], abs=0.01)


def test_the_length_is_the_models_and_not_the_tokenizers(model):
    """`tokenizer.json` is cut and padded to 8; the model was trained on 16."""
    embedder = local.Local(str(model()))
    sixteen = "a b c d e f g h a b c d e f"  # and the two marks
    assert embedder.embed([f"{sixteen} g h happy"])[0] == pytest.approx(
        embedder.embed([sixteen])[0], abs=1e-6
    )
    assert embedder.embed(["a b c d e f g h"])[0] != pytest.approx(
        embedder.embed(["a b c d e f"])[0], abs=1e-3
    )


def test_a_name_is_of_these_weights(model):
    one, same, other = (
        local.Local(str(model(*each)))
        for each in (("one",), ("two/one",), ("three/one", 8))
    )
    assert one.name == same.name
    assert one.name.startswith("local/one-")
    assert other.name != one.name


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "config.json",
            '{"model_type": "mpnet", "hidden_act": "gelu"}',
            "of kind mpnet",
        ),
        ("config.json", '{"model_type": "bert", "hidden_act": "relu"}', "with relu"),
        ("config.json", "not json", "cannot be read"),
        ("config.json", "[]", "not an object"),
        ("config.json", None, "there is no"),
        ("tokenizer.json", None, "there is no"),
        ("tokenizer.json", "{}", "cannot be used"),
        ("model.safetensors", "short", "cannot be used"),
        (
            "1_Pooling/config.json",
            '{"pooling_mode_max_tokens": true}',
            "pools by max_tokens",
        ),
    ],
)
def test_a_folder_that_holds_no_such_model_is_named(model, name, text, problem):
    folder = model()
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(EmbedderError, match=problem) as caught:
        local.Local(str(folder)).embed(["a"])
    assert str(folder) in str(caught.value)


def test_missing_weights_are_named(model, tmp_path):
    folder = model(num_hidden_layers=3)
    with pytest.raises(EmbedderError, match=r"encoder\.layer\.2.* is missing"):
        local.Local(str(folder)).embed(["a"])
    with pytest.raises(EmbedderError, match="there is no"):
        local.Local(str(tmp_path / "nowhere"))


def test_batches_hold_every_text_once_and_little_padding():
    lengths = [3, 300, 5, 4, 256, 256, 7, *([12] * 200)]
    found = local.batches(lengths)
    assert sorted(place for batch in found for place in batch) == list(
        range(len(lengths))
    )
    for batch in found:
        widest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * widest <= local.BATCH_TOKENS
    assert len(found) < 10


def test_without_numpy_it_says_what_to_install(model):
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from synapse.embedders.local import Local\n"
        "from synapse.errors import EmbedderError\n"
        f"embedder = Local({str(model())!r})\n"
        "try: embedder.embed(['a'])\n"
        "except EmbedderError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "pip install numpy tokenizers safetensors" in done.stdout


def test_threads_are_asked_for_only_while_numpy_is_loaded(model):
    code = (
        "import os\n"
        "from synapse.embedders.local import Local\n"
        f"Local({str(model())!r}).embed(['a'])\n"
        "print(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    )
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_NUM_THREADS")
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=env,
    )
    assert done.stdout.strip() == "None"
