import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.cli.frame import show
from synapse.model.agents import Agent, Skill
from synapse.model.entry import Entry


def entry(**fields):
    given = {
        "id": "syn-2026-02-01-001",
        "author": "eng-backend",
        "timestamp": "2026-02-01T01:00:00Z",
        "namespace": "api/endpoints",
        "priority": "critical",
        "body": "BREAKING: use /v2/users",
        "ttl": "30d",
    }
    return Entry(**given | fields)


def test_an_entry_is_a_header_and_an_indented_body():
    assert show.block(entry(body="one\n\n  two")) == (
        "syn-2026-02-01-001 critical api/endpoints eng-backend 2026-02-01T01:00:00Z\n"
        "    one\n\n      two"
    )


def test_the_usual_header_fits_eighty_columns():
    assert len(show.header(entry())) <= 80


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"staged": True}, "(staged)"),
        ({"trust": "unverified"}, "(unverified)"),
        ({"archived": True}, "(archived)"),
        ({"disputed": ("syn-2026-02-01-002",)}, "(disputed)"),
        ({"trust": "unverified", "archived": True}, "(unverified, archived)"),
    ],
)
def test_what_a_reader_should_know_stands_in_the_header(fields, told):
    assert show.header(entry(**fields)).endswith(f" {told}")


def test_further_fields_stand_above_the_body():
    full = entry(
        addressees=("agent:nova", "team:web"),
        topic="users",
        tags=("api", "v2"),
        replaces=("syn-1",),
        disputed=("syn-2", "syn-3"),
    )
    assert show.block(full).splitlines()[1] == (
        "    [disputed with syn-2, syn-3; to agent:nova, team:web; topic users; tags"
        " api, v2; supersedes syn-1]"
    )


def test_a_long_body_says_how_to_get_the_rest():
    long = entry(body="\n".join(f"line {n}" for n in range(20)))
    lines = show.block(long).splitlines()
    assert lines[-2:] == ["    line 11", "    ... 8 more lines: synapse read syn-2026-02-01-001"]
    assert show.block(long, whole=True).splitlines()[-1] == "    line 19"


def test_on_a_terminal_bodies_are_folded_at_its_width():
    folded = show.block(entry(body="word " * 40 + "https://example.org/" + "x" * 90), width=80)
    longest = [line for line in folded.splitlines() if len(line) > 80]
    assert len(longest) == 1
    assert longest[0].strip().startswith("https://")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\rb\x00c\x9bd", "a\\x0db\\x00c\\x9bd"),
        ("evil\u202etxt.exe\u2066", "evil\\u202etxt.exe\\u2066"),
        ("tag\U000e0041\U000e007f", "tag\\U000e0041\\U000e007f"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        (
            "línea ñ 世界 привет 👩\u200d💻 می\u200cخواهم",
            "línea ñ 世界 привет 👩\u200d💻 می\u200cخواهم",
        ),
    ],
)
def test_clean_spells_out_what_a_terminal_would_obey(text, shown):
    assert show.clean(text) == shown


@given(st.text())
def test_nothing_clean_can_move_a_cursor_or_turn_a_line(text):
    shown = show.clean(text)
    assert not [char for char in shown if unicodedata.category(char) == "Cc" and char not in "\n\t"]
    assert not [
        char
        for char in shown
        if unicodedata.bidirectional(char) in {"LRE", "RLE", "LRO", "RLO", "PDF"}
    ]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_is_one_printable_line_and_says_the_same(value):
    line = show.to_json({"value": value})
    assert line.isprintable()
    assert json.loads(line) == {"value": value}


def test_json_keeps_readable_what_is():
    assert show.to_json({"body": "привет 世界 👍"}) == '{"body": "привет 世界 👍"}'


def test_named_tuples_become_objects_however_deep():
    agent = Agent("nova", skills=(Skill("db", 80, ("db/*",)),), read=("*",))
    found = json.loads(show.to_json({"agents": [agent]}))["agents"][0]
    assert found["id"] == "nova"
    assert found["skills"] == [
        {"domain": "db", "authority": 80, "namespaces": ["db/*"], "level": "proficient"}
    ]


def test_a_line_holds_one_entry():
    assert show.line(entry(body="first\nsecond")) == (
        "syn-2026-02-01-001 critical api/endpoints eng-backend: first"
    )
    assert show.line(entry(body="x" * 99), 60).endswith("xx...")
    assert len(show.line(entry(body="x" * 99), 60)) == 60
    assert "\n" not in show.short("a\nb", 0)


def test_off_a_terminal_nothing_is_folded():
    assert show.columns() is None
