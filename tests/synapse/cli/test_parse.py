import shlex
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from synapse.cli.frame import parse
from synapse.cli.frame.options import Usage
from synapse.cli.frame.parser import parser_of
from synapse.cli.verbs import PROGRAM, VERBS
from tests.examples import examples


@pytest.mark.parametrize(
    ("words", "verb", "rest"),
    [
        ([], None, []),
        (["read"], "read", []),
        (["--json", "read", "--since", "1h"], "read", ["--json", "--since", "1h"]),
        (["--root", "read", "write"], "write", ["--root", "read"]),
        (["--root=x", "read", "y"], "read", ["--root=x", "y"]),
        (["--version"], None, ["--version"]),
        (["--root"], None, ["--root"]),
    ],
)
def test_split(words, verb, rest):
    assert parse.split(words) == (verb, rest)


@pytest.mark.parametrize(
    ("given", "found"),
    [(None, None), ([], []), (["a, b", "c,,a"], ["a", "b", "c"]), (["", " "], [])],
)
def test_many(given, found):
    assert parse.many(given) == found


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "٣", "9" * 30])
def test_number_refuses(text):
    with pytest.raises(ValueError, match="is not a whole number"):
        parse.number(text)


def test_number():
    assert parse.number("0") == 0
    assert parse.number("50") == 50


@pytest.mark.parametrize(
    ("name", "hint"),
    [("raed", "did you mean 'read'?"), ("xyzzy", "`synapse help --all` lists them all")],
)
def test_an_unknown_verb_is_answered_with_a_hint(name, hint):
    with pytest.raises(Usage, match="there is no verb") as caught:
        parse.find_verb(name, PROGRAM)
    assert hint in str(caught.value)


def test_options_are_not_abbreviated():
    with pytest.raises(Usage, match="unrecognized arguments: --name"):
        parse.arguments(VERBS["read"], ["--name", "api/*"])


WORDS = [
    "-",
    "--",
    "-h",
    "--json=",
    "a",
    "api/*",
    "info",
    "0",
    "50",
    "x y",
    "",
    "-1",
    "public",
    "A",
    "bash",
    "--nope",
]


@examples(150)
@given(data=st.data())
def test_the_quick_way_agrees_with_argparse(data):
    verb = VERBS[data.draw(st.sampled_from(sorted(VERBS)))]
    options = parse.options_of(verb)
    flags = [name for names, _ in options.calls for name in names if name.startswith("-")]
    words = data.draw(st.lists(st.sampled_from(WORDS) | st.sampled_from(flags), max_size=6))
    found = parse.quick(options, words)
    assume(found is not None)
    assert vars(found) == vars(parser_of(verb, options).parse_args(words))


@pytest.mark.parametrize("name", sorted(VERBS))
def test_the_examples_go_the_quick_way(name):
    text = VERBS[name].example.replace("\\\n", " ").removeprefix('eval "$(').removesuffix(')"')
    _, words = parse.split(shlex.split(text)[1:])
    assert parse.quick(parse.options_of(VERBS[name]), words) is not None


def test_a_verb_is_parsed_without_the_others_and_without_argparse():
    code = (
        "import sys; from synapse.cli import main; main(['unread', '--root',"
        " '/nowhere']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--agent", "x"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "synapse.cli.follow" in loaded
    assert loaded.isdisjoint(
        {f"synapse.cli.{name}" for name in ("read", "upkeep", "doctor", "frame.parser")}
    )
    assert loaded.isdisjoint({"argparse", "gettext", "shutil", "difflib", "textwrap"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("0", 0), ("5m", 300), ("2h", 7_200), ("1d", 86_400), ("30s", 30)],
)
def test_a_time_in_seconds_or_with_a_unit(text, seconds):
    assert parse.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1", "5 m", "soon", "1.2.3", "1e3", "inf", "nan", "٣"])
def test_what_is_no_time_is_told_in_words(text):
    with pytest.raises(
        ValueError, match="is not a time: write seconds, or a number and s, m, h or d"
    ):
        parse.seconds(text)
