import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from synapse.errors import InvalidEntry
from synapse.system import yaml as yaml_text
from tests.examples import examples

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture(params=["libyaml", "python"])
def loader(request, monkeypatch):
    """PyYAML with and without its C library; the first is much faster, both say the same."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader")


@pytest.mark.usefixtures("loader")
def test_scalars_are_text_and_only_null_is_nothing():
    text = "a: 007\nb: no\nc: 12:30:45\nd: 2026-02-01\ne: null\nf: ~\ng:\nh: 'null'\ni: [1, ~, x]\n"
    assert yaml_text.load(text, depth=2) == {
        "a": "007",
        "b": "no",
        "c": "12:30:45",
        "d": "2026-02-01",
        "e": None,
        "f": None,
        "g": None,
        "h": "null",
        "i": ["1", None, "x"],
    }


@pytest.mark.usefixtures("loader")
def test_typed_values_are_those_whose_text_comes_back():
    text = (
        "a: 7\nb: 007\nc: true\nd: yes\ne: 0.85\nf: 1.10\ng: '7'\nh: -0\ni: 1e3\nj:"
        " 12345678901234567890\n"
    )
    assert list(yaml_text.load(text, depth=1, typed=True).values()) == [
        7, "007", True, "yes", 0.85, "1.10", "7", "-0", "1e3", "12345678901234567890",
    ]  # fmt: skip


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &x 1", "line 1: anchors"),
        ("a: 1\nb: *x", "line 2: anchors"),
        ("a: !!str 1", "tags"),
        ("a: ! 1", "tags"),
        ("a: 1\na: 2", "line 2: 'a' is given twice"),
        ("a: {b: 1, b: 2}", "'b' is given twice"),
        ("<<: {a: 1}", "merge keys"),
        ("? [a]\n: b", "a key must be a word"),
        ("{a: b}", "JSON"),
        ("- a", "expected lines"),
        ("just text", "expected lines"),
        ("a: 1\n---\nb: 2", "second document"),
        ("a: [[b]]", "deeper than 2"),
        ("a: " + "[" * 5000, "deeper than 2"),
        ("a: \x07", "line|control|special"),
        ("a: 'x", "line 1"),
    ],
)
def test_what_is_refused(text, told):
    with pytest.raises(InvalidEntry, match=told):
        yaml_text.load(text, depth=2)


@examples(200)
@given(st.dictionaries(texts, texts | st.lists(texts, max_size=3), max_size=4))
def test_every_text_is_one_line_and_comes_back(fields):
    fields.pop("<<", None)
    written = yaml_text.dump(fields)
    assert written.count("\n") == len(fields)
    assert yaml_text.load(written, depth=2) == fields
    assert (yaml.safe_load(written) or {}) == fields


@pytest.mark.parametrize(
    "text", ["eng-backend", "api/*", "team:core", "Frontend Engineer", "v1.2", "a@b"]
)
def test_what_can_stand_without_quotes_does(text):
    assert yaml_text.quoted(text) == text


@pytest.mark.parametrize(
    "text", ["", "no", "Yes", "null", "007", "1.0", "2026-02-01", "a: b", "a #b", "*", "- a", "a "]
)
def test_what_could_be_mistaken_is_quoted(text):
    assert yaml_text.quoted(text) == f'"{text}"'


def test_what_cannot_be_seen_is_escaped():
    assert (
        yaml_text.quoted('a\n"\\\x00\x1b\u202e\U000e0041é🎉')
        == '"a\\n\\"\\\\\\0\\x1b\\u202e\\U000e0041é🎉"'
    )
