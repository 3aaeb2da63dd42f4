"""No text of a run, of a report or of the pages for people poses as anything else where it is
printed."""

import os
import re
from pathlib import Path

import pytest

from orchestrator import cli
from orchestrator.engines.protocol import Call
from orchestrator.prompts.roster import lines as roster_lines
from orchestrator.runs.files import steps
from scenarios.report import markdown, page, terminal
from scenarios.running import one_line
from synapse.consolidate import pages
from synapse.model.agents import Agent
from tests.attacks.test_quoting import TOKENS, World, forgeries, payload
from tests.orchestrator.cli.conftest import Office
from tests.scenarios.report.test_page import everything, reported

TEXT = payload()


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """Runs in which every text is hostile."""
    import synapse

    root = tmp_path_factory.mktemp("runs") / "shared-memory"
    with synapse.init(str(root)) as memory:
        made = Office(memory)
        entry = memory.as_agent("eng-a").append(TEXT, "blockers/web", priority="critical")
        for id, ending in (
            ("going", None),
            ("done", {"summary": TEXT}),
            ("failed", {"status": "failed", "summary": TEXT, "why": TEXT}),
            ("blocked", {"status": "blocked", "summary": TEXT, "why": TEXT}),
        ):
            needs = {"engines": {TEXT: {"kind": TEXT}}, "tools": {TEXT: TEXT}}
            texts = dict.fromkeys(("project", "model", "engine", "role", "department"), TEXT)
            made.begin(id, task=TEXT, parent="going", root="going", needs=needs, **texts)
            made.prompt(id, [entry.id])
            made.turn(id, 1, TEXT, [("c1", TEXT, {TEXT: TEXT})])
            result = steps.result(Call("c1", TEXT, {}), TEXT, "capsule")
            made.step(id, 2, "result", **result)
            said = steps.message(TEXT, "wake", "wake", ids=[entry.id])
            made.step(id, 3, "message", **said)
            if ending:
                made.end(id, **ending)
        yield made
        made.holder.close()


@pytest.mark.parametrize(
    "line",
    [
        "ps",
        "ps --all",
        "tree",
        "tail failed",
        "tail done",
        "tail blocked --json",
        "stats",
        "stats --by department",
        "stats --by model",
        "stats --by project",
        "receipt done",
        "wakes",
        "unread",
        "unread --agent lead",
        "ps --all --json",
        "replay done",
        "tail nobody",
        "schedule",
        "resume",
    ],
)
def test_no_verb_prints_a_forged_line(office, capfd, monkeypatch, line):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    verb, *words = line.split()
    cli.main([verb, "--root", office.memory.store.root, *words])
    told = "".join(capfd.readouterr())
    assert told
    assert forgeries(told) == []


def test_the_roster_and_an_agent_in_a_prompt_stand_on_a_line():
    from orchestrator.prompts.render import shown

    agent = Agent("a", role=TEXT, name=TEXT, department=TEXT, projects=(TEXT,))
    told = "\n".join(roster_lines([agent]))
    told += "\n".join(map(str, shown(agent)[:4]))
    assert [what for what in forgeries(told) if "raw" not in what] == []


def test_the_pages_for_people_have_no_forged_line(tmp_path):
    world = World(tmp_path / "shared-memory")
    with world.mem:
        pages.write_days(world.mem.store, 0, world.mem.store.clock())
        pages.write_views(world.mem)
    written = [*Path(world.root, "changelog").glob("*.md"), *Path(world.root, "views").glob("*.md")]
    assert len(written) > 3
    assert [what for path in written for what in forgeries(path.read_text("utf-8"))] == []


MARKUP = "<img src=x onerror=alert(1)> <script>x</script> [click](https://evil.example) | x |"


def _reported(text):
    made = reported(everything())
    described = {
        name: row | {"title": text, "shows": text, "headline": text}
        for name, row in made.table["scenarios"].items()
    }
    return made._replace(table=made.table | {"scenarios": described, "warnings": [text]})


@pytest.mark.parametrize("text", [TEXT, MARKUP])
def test_a_report_has_no_line_and_no_markup_of_a_scenario(text):
    told = "\n".join(markdown.lines(_reported(text)))
    assert forgeries(told) == []
    markup = [tag for tag in re.findall("<[^>]*>", told) if tag not in OURS]
    assert markup == []
    assert "](http" not in told
    shown = terminal.lines(markdown.lines(_reported(text)))
    assert forgeries("\n".join(map(one_line, shown))) == []
    assert not re.search(r"<(?!/?(details|summary|svg|g|rect|circle)\b)[^>]*(onerror|script|evil)",
                         page.html(_reported(text)))  # fmt: skip


OURS = {"<details>", "</details>", "<summary>", "</summary>"}


def test_an_ordinary_report_is_as_it_was():
    made = _reported("Finds things twice, `view` against `isolated` (p = 0.01)")
    assert list(markdown.lines(made)) == list(markdown._lines(made))
    assert TOKENS
