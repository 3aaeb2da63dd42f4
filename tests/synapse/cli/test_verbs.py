import ast
import inspect
import re
import shlex

import pytest

from synapse.cli.frame import parse
from synapse.cli.verbs import ALIASES, FIRST, GROUPS, OPERATORS, VERBS, overview

NAMES = sorted(VERBS)


def example(name):
    text = VERBS[name].example.replace("\\\n", " ")
    return shlex.split(text.removeprefix('eval "$(').removesuffix(')"'))


def test_every_verb_there_should_be():
    assert set(VERBS) == set(
        "init register write read view search watch unread log audit agents resolve"
        " approve reject vouch"
        " archive restore verify repair redact rebuild doctor export import backup"
        " completion ack defrag"
        " undo stats send inbox poll threads thread remember atom link forget why embed reputation"
        " recent what-did timeline migrate where merge mcp trust keys"
        " taint untaint revoke checkpoint serve dashboard token webhooks".split()
    )


@pytest.mark.parametrize("name", NAMES)
def test_verb_has_code_help_and_an_example(name, run):
    verb = VERBS[name]
    assert verb.group in GROUPS
    assert callable(parse.function_of(verb))
    shown = run(name, "--help")
    assert shown.code == 0
    assert shown.err == ""
    assert f"usage: synapse {name}" in shown.out
    assert "example:\n  " + verb.example.splitlines()[0] in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_example_can_be_parsed(name):
    words = example(name)
    verb, rest = parse.split(words[1:])
    assert (words[0], verb) == ("synapse", name)
    parse.arguments(VERBS[name], rest)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_explained(name):
    declared = parse.options_of(VERBS[name]).declared()
    assert [option.dest for option in declared if not option.help] == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("before", [True, False])
def test_root_and_json_are_taken_before_and_after_the_verb(name, before):
    _, rest = parse.split([word for word in example(name)[1:] if word not in ("--root", "./copy")])
    words = (
        ["--root", "here", "--json", name, *rest]
        if before
        else [name, *rest, "--json", "--root=here"]
    )
    verb, rest = parse.split(words)
    args = parse.arguments(VERBS[name], rest)
    assert (verb, args.root, args.json) == (name, "here", True)


@pytest.mark.parametrize("name", NAMES)
def test_a_verb_is_no_more_than_a_call_and_a_print(name):
    function = ast.parse(inspect.getsource(parse.function_of(VERBS[name]))).body[0]
    body = function.body[1:] if ast.get_docstring(function) else function.body
    nodes = [node for part in body for node in ast.walk(part)]
    assert sum(isinstance(node, ast.stmt) for node in nodes) <= 12
    assert body[-1].end_lineno - body[0].lineno < 16  # at 88 columns


def test_overview_lists_every_verb_within_eighty_columns():
    text = overview(every=True)
    assert [name for name in VERBS if f"\n  {name:<11} " not in text] == []
    assert max(map(len, text.splitlines())) <= 80


def test_help_begins_with_the_ten_verbs_of_the_first_week():
    shown = re.findall(r"^  ([a-z][a-z-]+) +[a-z]", overview(), re.MULTILINE)
    assert shown == FIRST
    assert (len(set(FIRST)), set(FIRST) - VERBS.keys()) == (10, set())
    assert f"`synapse help --all` lists all {len(VERBS)}." in overview()
    assert max(map(len, overview().splitlines())) <= 80


def test_aliases_and_operators_are_verbs():
    assert set(ALIASES.values()) <= set(VERBS)
    assert set(VERBS) > OPERATORS
