"""docs/how-to/when-something-is-wrong.md names each class of error and each check of the doctor, and no
command that there is not.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

from docs.generate import options_of
from orchestrator.cli.verbs import VERBS as ORCHESTRATOR
from synapse import errors
from synapse.cli import doctor
from synapse.cli.checks import database, holders, live, probes
from synapse.cli.verbs import VERBS

PAGE = Path(__file__).parents[1] / "docs/how-to/when-something-is-wrong.md"
TEXT = PAGE.read_text(encoding="utf-8")
CODE = re.compile(r"`([^`\n]+)`")
NOT_LIVE = {"conformance"}  # of another program's folder, when asked for


def rows(text, title):
    """Return the cells of the table below a title."""
    table = text.partition(f"## {title}")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]


def missing_errors(text):
    named = {
        (name, code)
        for code, classes, _ in rows(text, "What a command says")[1:]
        for name in CODE.findall(classes)
    }
    known = {
        (name, str(each.exit_code))
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.SynapseError)
    }
    return known ^ named


def missing_checks(text):
    named = {
        name for cells in rows(text, "What the doctor says") for name in CODE.findall(cells[0])
    }
    found = set(probes.PROBES)
    for module in (doctor, database, holders, live):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Finding", "some"):
                first = node.args[0]
                found |= {first.value} if isinstance(first, ast.Constant) else set()
    return (found - NOT_LIVE) ^ named


def wrong_commands(text):
    """Return the commands that there are not, with what is wrong."""
    wrong = []
    for command in (*CODE.findall(text), *re.findall(r"^synapse .*", text, re.MULTILINE)):
        program, _, rest = command.partition(" ")
        table = {"synapse": VERBS, "orchestrator": ORCHESTRATOR}.get(program)
        if table is None:
            continue
        verb, *words = rest.removeprefix("--root NEW ").split()
        if verb not in table:
            wrong.append(command)
            continue
        known = options_of(table[verb])._option_string_actions
        wrong += [command for word in words if word.startswith("--") and word not in known]
    return wrong


def test_the_page_names_each_error_with_its_code():
    assert missing_errors(TEXT) == set()


def test_the_page_names_each_check_of_the_doctor():
    assert missing_checks(TEXT) == set()


def test_the_page_names_no_command_that_there_is_not():
    assert len(CODE.findall(TEXT)) > 100
    assert wrong_commands(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("| 5 | `QueueFull`", "| 6 | `QueueFull`", missing_errors),
        ("`StoreBusy`", "`StoreBusier`", missing_errors),
        ("| `disk` |", "| `disks` |", missing_checks),
        ("`synapse rebuild`", "`synapse remake`", wrong_commands),
        ("repair --dry-run", "repair --wet-run", wrong_commands),
    ],
)
def test_a_wrong_page_is_found_out(old, new, check):
    assert old in TEXT
    assert check(TEXT.replace(old, new))
