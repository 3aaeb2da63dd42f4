import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.errors import InvalidEntry
from synapse.webhooks.template import LONGEST_TEXT, LONGEST_VALUE, parse, render
from tests.examples import examples

DATA = {
    "issue": {"title": "Login fails", "number": 7, "open": True, "labels": ["a", "b"]},
    "ratio": 0.5,
    "nobody": None,
    "list": [{"name": "first"}, {"name": "second"}],
    "under_score-dash": "x",
}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{issue.title}", "Login fails"),
        ("#{issue.number}: {issue.title} ({issue.open})", "#7: Login fails (true)"),
        ("{ratio} {nobody}.", "0.5 ."),
        ("{list.1.name}, {issue.labels.0}", "second, a"),
        ("{issue.missing?}{list.9.name?}{issue.title.x?}|", "|"),
        ("{under_score-dash}", "x"),
        ("{{issue.title}} {{}}", "{issue.title} {}"),
        ("a\nb {issue.number}", "a\nb 7"),
    ],
)
def test_a_template_is_a_text_with_paths(text, made):
    assert render(parse(text), DATA) == made


@pytest.mark.parametrize(
    "text",
    [
        "{", "}", "{}", "{ issue}", "{issue.}", "{.issue}", "{issue..title}", "{issue[0]}",
        "{issue!r}", "{issue:>10}", "{issue|upper}", "{issue()}", "{a b}", "{7*7 }", "{{{}",
        "{%x%}", "{issue.title", "issue.title}", "{é}", "{a\nb}", "{issue??}", "{?}",
        "{" + "a" * 65 + "}", "{" + ".".join("abcdefghi") + "}", "x" * 4097, "{a}" * 33,
        "{__class__.__mro__!s}", "{0.__class__[x]}",
    ],
)  # fmt: skip
def test_what_is_no_template_is_refused(text):
    with pytest.raises(InvalidEntry):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "{issue}",
        "{list}",
        "{missing}",
        "{issue.title.x}",
        "{list.-1}",
        "{list.name}",
        "{__class__}",
        "{issue.__len__}",
    ],
)
def test_a_path_leads_to_a_single_value_of_the_json(text):
    with pytest.raises(InvalidEntry):
        render(parse(text), DATA)


def test_a_text_that_is_too_long_says_what_is_missing():
    made = render(parse("{a}{a}{a}{a}"), {"a": "x" * (LONGEST_VALUE + 5)})
    assert len(made) < LONGEST_TEXT + 50
    assert made.endswith("characters more)")
    assert "(5 characters more)" in made


@given(
    st.text(max_size=40),
    st.recursive(
        st.text(max_size=9) | st.integers() | st.none(),
        lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    ),
)
@examples(200)
def test_whatever_comes_in_is_a_text_or_refused(text, data):
    """And what came in is never read as a template itself."""
    try:
        made = render(parse(text), data)
    except InvalidEntry:
        return
    assert isinstance(made, str)


@given(st.text(max_size=60))
@examples(200)
def test_a_value_is_given_as_it_is(value):
    assert render(parse("{a}"), json.loads(json.dumps({"a": value}))) == value
