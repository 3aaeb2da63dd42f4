import subprocess
import sys

import pytest

from synapse.cli.frame import parse
from synapse.cli.frame.options import Usage
from synapse.cli.verbs import PROGRAM, VERBS


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


def test_a_verb_is_parsed_without_the_others():
    code = (
        "import sys; from synapse.cli import main; main(['unread', '--root',"
        " '/nowhere']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--agent", "x"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "synapse.cli.follow" in loaded
    assert loaded.isdisjoint({f"synapse.cli.{name}" for name in ("read", "upkeep", "doctor")})
    assert loaded.isdisjoint({"typing", "shutil", "difflib", "textwrap"})


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
