"""Which calls ask for the same thing, what of a result is passed on, and who may wait for whom."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.calls import (
    LONG,
    NAME,
    Shares,
    act_of,
    closes_circle,
    condensed,
    declared,
    shared,
    shares_of,
)
from orchestrator.tools.functions import NoTool, Partial, tool_of
from synapse.access.claims import named
from synapse.errors import InvalidEntry
from tests.examples import examples

PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), VALUES, max_size=4)


def act(arguments, name="look", schema=None, **shares):
    return act_of(name, arguments, Shares(**shares), schema)


@given(ARGUMENTS)
@examples(100)
def test_the_order_of_arguments_and_a_way_through_json_make_no_difference(arguments):
    again = dict(reversed(list(json.loads(json.dumps(arguments)).items())))
    assert act(again)[:2] == act(arguments)[:2]


@given(PLAIN, st.sampled_from(["  ", "\t "]))
def test_case_spaces_and_marks_at_the_end_make_no_difference(text, blank):
    """Of plain words."""
    text = text.lower()
    other = (
        "\n"
        + blank.join(word.upper() if word.isalpha() else word for word in text.split(" "))
        + " ."
    )
    assert act({"subject": other}).key == act({"subject": text}).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dQw4w9WgXcQ", "dqw4w9wgxcq"),
        ("/a/README.md", "/a/readme.md"),
        ("a\n  b", "a\nb"),
        ("userName", "username"),
    ],
)
def test_what_may_mean_something_makes_a_difference(one, other):
    assert act({"subject": one}).key != act({"subject": other}).key


@given(ARGUMENTS, ARGUMENTS)
@examples(100)
def test_acts_have_one_name_each(one, other):
    """Two with one key have one name, and two names come of two keys."""
    assert (act(one).key == act(other).key) == (act(one).work == act(other).work)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), st.text(), max_size=4))
@examples(100)
def test_every_name_can_be_claimed(arguments):
    work = act(arguments).work
    assert len(named(work)) <= 200
    assert len(work) <= NAME + 11


def test_the_name_says_what_is_looked_for():
    assert act({"subject": "The retry limit of  service 3."}, "investigate").work == (
        "investigate: subject=the retry limit of service 3"
    )
    assert act({}).work == "look"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 3}, {"n": "3"}),
        ({"a": "x, b=y"}, {"a": "x", "b": "y"}),
        ({"a": None}, {}),
        ({"a": "null"}, {"a": None}),
    ],
)
def test_what_differs_stays_apart(one, other):
    assert act(one).key != act(other).key
    assert act(one).work != act(other).work


def test_a_tool_is_part_of_it():
    assert act({"a": "x"}).key != act({"a": "x"}, "find").key


def test_a_default_counts_as_given():
    schema = {"properties": {"n": {"type": "integer", "default": 10}}}
    assert act({"q": "x"}, schema=schema).key == act({"q": "x", "n": 10.0}, schema=schema).key


def test_a_path_keeps_its_case():
    apart = [act({"path": path}, files=("path",)) for path in ("README", "readme")]
    assert apart[0].key != apart[1].key
    assert apart[0].paths == ("README",)


# -- condensing ------------------------------------------------------------------------------------


def test_of_a_long_result_the_lines_about_the_call_stay():
    text = (
        "One more line of nothing much.\n" * 80
        + "The retry limit of service 3 is 57.\n"
        + "And more.\n" * 80
    )
    short = condensed(text, "the retry limit of service 3")
    assert short == "The retry limit of service 3 is 57."
    assert condensed("x" * LONG, "") is None


@given(st.lists(PLAIN, min_size=1, max_size=60), PLAIN)
def test_what_stays_is_short_and_of_the_result(lines, words):
    text = "\n".join(lines * 40)[: 4 * LONG].ljust(LONG + 1, ".")
    short = condensed(text, words)
    assert len(short) <= 520
    assert all(line in text or line == "[...]" for line in short.split("\n"))


def test_a_result_without_any_specifics_keeps_its_beginning_and_its_end():
    text = "begin " + "la la " * 400 + "end"
    short = condensed(text, "something else")
    assert short.startswith("begin")
    assert short.endswith("end")


# -- circles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waits", "parents", "circle"),
    [
        ({}, {}, False),
        ({"b": "a"}, {}, True),
        ({"b": "c", "c": "a"}, {}, True),
        ({"b": "c"}, {}, False),
        ({}, {"a": "b"}, True),  # b waits, or will, for its child
        ({}, {"a": "x", "x": "b"}, True),
        ({}, {"b": "a"}, True),
        ({"c": "a"}, {"c": "b"}, True),  # b waits for its child c, which waits for a
        ({"c": "d"}, {"c": "b", "a": "boss", "b": "boss"}, False),
    ],
)
def test_nobody_waits_for_itself(waits, parents, circle):
    assert closes_circle("a", "b", waits, {"a": None, "b": None} | parents) is circle


# -- declaring -------------------------------------------------------------------------------------


def look(path: str) -> str:
    """Look."""
    return path


def test_a_tool_declares_what_it_shares():
    assert tool_of(look).shares is None
    assert tool_of(look, shares=True).shares == Shares()
    assert tool_of(look, shares="whole").shares == Shares(whole=True)
    assert tool_of(look, shares=Shares("30m", ("path",))).shares == Shares("30m", ("path",))


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ("all", "write True, 'whole' or Shares"),
        (Shares("soon"), "lifetime is 'soon': write one such as 30m"),
        (Shares(lifetime=30), "lifetime is 30: write one such as 30m"),
        (Shares("0m"), "over at once"),
        (Shares(files=("file",)), "it takes path"),
    ],
)
def test_what_cannot_be_meant_is_refused(shares, says):
    with pytest.raises(NoTool, match=says):
        tool_of(look, shares=shares)


def test_the_settings_declare_it_too():
    said = {
        "tools": {
            "a": {"shares": True, "lifetime": "2h", "files": ["path"]},
            "b": {"shares": "whole"},
            "c": {"shares": False},
        }
    }
    assert declared(said) == {"a": Shares("2h", ("path",)), "b": Shares(whole=True), "c": None}
    assert declared({}) == {}


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        (["a"], "write a line for each"),
        ({"a": True}, "write fields, such as {shares: true"),
        ({"a": {"shares": "perhaps"}}, "write true, false or whole"),
        ({"a": {"lifetime": "soon"}}, "tools: a: lifetime is 'soon': write one such as 30m"),
        ({"a": {"files": [3]}}, "names of arguments"),
    ],
)
def test_settings_that_cannot_be_meant_say_what_to_write(tools, says):
    with pytest.raises(InvalidEntry, match=says):
        declared({"tools": tools})


def test_a_lifetime_that_is_no_text_is_an_invalid_entry():
    with pytest.raises(InvalidEntry, match=r"^lifetime is 30: write one such as 30m$"):
        shares_of(Shares(lifetime=30))


def test_a_task_comes_before_the_settings():
    settings = {"tools": {"a": {"files": ["path"]}, "b": {"files": ["elsewhere"]}}}
    shares = shared(settings, {"a": {"shares": False}}, {"a": ["path", "lines"]})
    assert shares == {"a": None, "b": Shares(files=("elsewhere",))}, "nobody knows b here"


@pytest.mark.parametrize(("takes", "listed"), [(["path", "lines"], "path, lines"), ([], "nothing")])
@pytest.mark.parametrize("is_of_task", [True, False])
def test_files_that_name_no_argument_are_refused(takes, listed, is_of_task):
    tools = {"read_page": {"files": ["pth"]}}
    settings, of_task = ({}, tools) if is_of_task else ({"tools": tools}, {})
    with pytest.raises(
        InvalidEntry, match=f"^tools: read_page: files names pth; it takes {listed}$"
    ):
        shared(settings, of_task, {"read_page": takes})


def test_a_partial_result_is_a_text():
    assert Partial("not yet") == "not yet"
