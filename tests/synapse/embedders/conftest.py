import json
import random

import numpy as np
import pytest
from safetensors.numpy import save_file

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] a b c d e f g h deploy release freeze happy person dog sunny"
    " day ##s ##ed"
).split()
SIZE, WIDE, HEADS, LAYERS, PLACES = 12, 20, 3, 2, 24


def weights_of(seed=7):
    """The weights of a small encoder, all of them different."""
    draw = random.Random(seed)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), SIZE),
        "embeddings.position_embeddings.weight": (PLACES, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
        "embeddings.LayerNorm.weight": (SIZE,),
        "embeddings.LayerNorm.bias": (SIZE,),
    }
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            shapes[f"{layer}.attention.self.{part}.weight"] = (SIZE, SIZE)
            shapes[f"{layer}.attention.self.{part}.bias"] = (SIZE,)
        for name, rows, columns in (
            ("attention.output.dense", SIZE, SIZE),
            ("intermediate.dense", WIDE, SIZE),
            ("output.dense", SIZE, WIDE),
        ):
            shapes[f"{layer}.{name}.weight"] = (rows, columns)
            shapes[f"{layer}.{name}.bias"] = (rows,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}.{name}.weight"] = (SIZE,)
            shapes[f"{layer}.{name}.bias"] = (SIZE,)
    count = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    drawn = {
        name: [draw.uniform(-0.9, 0.9) for _ in range(n)] for name, n in count.items()
    }
    return {
        name: np.array(found, np.float32).reshape(shapes[name])
        for name, found in drawn.items()
    }


def write_model(folder, weights, **config):
    """A folder as sentence-transformers lays it out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    asked = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": PLACES,
        "layer_norm_eps": 1e-12,
    }
    files = {
        "config.json": asked | config,
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "1_Pooling/config.json": {
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
        },
        "tokenizer.json": _tokenizer(),
    }
    for name, found in files.items():
        (folder / name).write_text(json.dumps(found))
    save_file(weights, folder / "model.safetensors")
    return folder


def _tokenizer():
    """Cut to length and padded as files in the wild are, which must not matter."""
    specials = {
        name: {"id": name, "ids": [place], "tokens": [name]}
        for place, name in ((2, "[CLS]"), (3, "[SEP]"))
    }
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    single += [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    return {
        "version": "1.0",
        "truncation": {
            "max_length": 8,
            "strategy": "LongestFirst",
            "stride": 0,
            "direction": "Right",
        },
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
        }
        | {"strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": single,
            "special_tokens": specials,
        },
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: place for place, word in enumerate(WORDS)},
        },
    }


@pytest.fixture
def weights():
    return weights_of()


@pytest.fixture
def model(tmp_path):
    """Writes a small model into a folder of this name; what else is given changes its config."""
    return lambda name="tiny", seed=7, **config: write_model(
        tmp_path / name, weights_of(seed), **config
    )
