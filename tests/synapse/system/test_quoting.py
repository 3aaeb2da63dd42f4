"""Text of others, made safe to print: one set of characters and tokens for people and for models."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.system import quoting
from synapse.system.quoting import clean, escaped, in_json, inline, one_line, prefixed

PATH = quoting.__file__.replace("quoting.py", "chat_tokens.txt")
with open(PATH, encoding="utf-8") as file:
    LISTED = [row for row in file.read().split("\n") if row and not row.startswith("#")]


def example(token):
    """The token with something in the place of its `*`."""
    return token.replace(" *>", ' name="x">').replace("*", "x_1")


def test_terminals_and_models_are_spared_the_same_characters():
    """Each alone; those of which neither changes anything are tried together."""
    codes = range(sys.maxunicode + 1)
    for start in codes[::64]:
        texts = [f"a{chr(code)}b" for code in codes[start : start + 64]]
        together = "".join(texts)
        if clean(together) != together or escaped(together) != together:
            for text in texts:
                assert (clean(text) == text) == (escaped(text) == text), ascii(text)


@pytest.mark.parametrize("token", LISTED)
def test_each_listed_token_is_broken(token):
    text = example(token)
    for around in (text, f"a{text}b", f"<{text}", f"{text}{text}", f"(`{text}`)"):
        for safe in (escaped, inline, clean, one_line, in_json):
            assert text not in safe(around)
            assert safe(safe(around)) == safe(around)
    told = escaped(text)
    assert told.startswith(f"<U+{ord(text[0]):04X}>")
    assert text[1:].rstrip(">") in told.replace("<U+003C>", "<")


def test_the_list_has_no_token_twice():
    assert len(LISTED) == len(set(LISTED)) > 150


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "if (a<b || c>d) x = y<<2;",
        "List<Tool> Map<String, List<Think>> Vec<u8> std::vector<s>()".replace("<s>", "<S>"),
        "<div class='x'><span>t</span></div>",
        "x[i] [link](y) [1] [tool] [ARG] [Inst]",
        "std::cout << bos << eos;",
        "f <| x |> g <|> h <||>",
        "<systems> <thinker> <tooling> <user> <T>",
        "cat <<EOF\nsystem\nEOF",
        "1 <2> 3 <think and> <tool result>",
    ],
)
def test_ordinary_text_stays(text):
    for safe in (escaped, clean, in_json):
        assert safe(text) == text


@given(st.text(alphabet=st.sampled_from("ab \n\t\r\x0b\x1c\x85\u2028\u2029<|>[]INST/s_é\u202e")))
def test_a_field_is_one_line_and_a_body_keeps_its_lines(text):
    for safe in (inline, one_line):
        assert len(safe(text).splitlines()) <= 1
    for safe in (escaped, clean):
        assert safe(text).split("\n") == [safe(row) for row in text.split("\n")] or "<" in text
        rows = prefixed(safe(text), "  > ").split("\n")
        assert rows.pop() == ""
        assert all(row == "  >" or row.startswith("  > ") for row in rows)
        assert len(rows) == text.count("\n") + 1
