"""Every scenario of a team can be played by a model: one that knows nothing but what it reads does
the tasks.
"""

import re

import pytest

from orchestrator.engines.scripted import Move
from scenarios import __main__ as shell
from scenarios import verify
from scenarios.data.files import library, load
from scenarios.play.world.world import using_of
from scenarios.report import report
from tests.model_server import ModelServer

VALUE = r"(?:[a-f][0-9][0-9a-f]{5}|[0-9]{3,})"
LOOKS = 12  # times that a worker asks again for what another has to decide


def words(seen):
    """All that the model was told, without its own words."""
    return "\n".join(message.text for message in seen.messages if message.role != "assistant")


def line(task, name):
    found = re.search(rf"^{name}: (.+)$", task, re.MULTILINE)
    return found[1] if found else ""


def reader(seen):
    """A model: it has the prompt, the tools and their results, as text, and no label of any of
    it.
    """
    text = words(seen)
    task = text.split("## Your Task\n")[1].split("\n(Project: ")[0]
    calls = [call for message in seen.messages for call in message.calls]
    tools = {tool.name for tool in seen.tools}
    return (
        coordinate(seen, task, text, calls, tools)
        if "Stage 1:" in task
        else work(task, text, calls, tools)
    )


def work(task, text, calls, tools):
    names = [call.name for call in calls]
    name, steps = line(task, "Task"), int(line(task, "Steps").split(",")[0] or 0)
    needs = [need for need in line(task, "Needs").split("; ") if need]
    values = {need: value_of(need, text) for need in needs}
    for need in (need for need in needs if values[need] is None):
        asked = names.count("memory_search")
        decided_by = re.search(rf"Only (\S+) can decide on {re.escape(need)}", text)
        if "memory_search" in tools and not any(
            call.arguments.get("query") == need for call in calls
        ):
            return Move("", (("memory_search", {"query": need}),))
        if not decided_by:
            return Move("", (("investigate", {"subject": need}),))
        if "report_blocker" in tools and "report_blocker" not in names:
            return Move(
                "",
                (
                    (
                        "report_blocker",
                        {"text": f"I wait for a decision on {need}, by {decided_by[1]}."},
                    ),
                ),
            )
        if "memory_search" in tools and names.count("work") < steps:
            return Move("I go on meanwhile.", (("work", {"task": name}),))
        if "memory_search" in tools and asked < LOOKS:
            return Move("", (("memory_search", {"query": need}),), takes=0.03)
        return Move(f"Blocked: {need} is to be decided by {decided_by[1]}.")
    using = "; ".join(f"`{need.removeprefix('the ')}` = {value}" for need, value in values.items())
    if names.count("work") < steps:
        return Move("", (("work", {"task": name, "using": using}),))
    if "submit" not in names:
        return Move("", (("submit", {"task": name, "using": using}),))
    return f"{name} is done."


def value_of(need, text):
    subject = re.escape(need)
    forms = (
        rf"{subject} is ({VALUE})",
        rf"{subject}: ({VALUE})",
        rf"Use ({VALUE})[^\n]* for {subject}",
    )
    found = [
        (match.start(), match[1])
        for form in forms
        for match in re.finditer(form, text, re.IGNORECASE)
    ]
    return max(found)[1] if found else None


def coordinate(seen, task, text, calls, tools):
    """Hand out what stands in the stages, wait, and decide what others wait for."""
    names = [call.name for call in calls]
    for head, need in re.findall(r"(syn-[0-9-]+)[^\n]*\n[^\n]*decision on ([^,\n]+),", text):
        decided = [
            call for call in calls if call.name == "decide" and call.arguments["subject"] == need
        ]
        if "decide" in tools and not decided:
            return Move("", (("decide", {"subject": need}),))
        answer = value_of(need, text)
        noted = any(
            call.name == "append" and head == call.arguments.get("supersedes") for call in calls
        )
        if answer and not noted and "append" in tools and "not yours to decide" not in text:
            note = {"namespace": "decisions/all", "body": f"{need} is {answer}.", "priority": "critical",
                    "supersedes": head}  # fmt: skip
            return Move("", (("append", note),))
    stages = [re.findall(r"^- \[(\S+)\] (.+(?:\n  .*)*)", stage, re.MULTILINE)
              for stage in re.split(r"^Stage \d+:\n", task, flags=re.MULTILINE)[1:]]  # fmt: skip
    given, waits = names.count("spawn_agent"), names.count("wait")
    told = 0
    for number, stage in enumerate(stages):
        told += len(stage)
        if given < told:
            return Move("", tuple(("spawn_agent", {"agent": agent, "task": re.sub(r"\n  ", "\n", about)})
                                  for agent, about in stage))  # fmt: skip
        if waits <= number or (
            waits < number + 6 and "Nothing has ended" in text.rsplit("\n", 1)[-1]
        ):
            return Move("", (("wait", {}),))
    return "All of it has come back."


@pytest.fixture
def play(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-key-at-all")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key-at-all")

    def go(scenario, arms, *more, out="out", script=reader, live="anthropic"):
        with ModelServer(script) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            asked = [
                "run",
                scenario,
                "--live",
                live,
                "--arms",
                arms,
                "--runs",
                "1",
                "--max-usd",
                "50",
                "--quiet",
            ]
            code = shell.main([*asked, "--out", str(tmp_path / out), *more])
            return code, report.read(str(tmp_path / out)), server.journal

    return go


def test_redundant_discovery_is_played_by_a_model(play, tmp_path):
    code, table, journal = play(
        "redundant_discovery", "isolated,shipped,view_capsule", "--set", "n=4"
    )
    assert code in (0, 1)
    assert table["run"]["level"] == "L2"
    for arm in ("isolated", "shipped", "view_capsule"):
        key = next(key for key in table["metrics"] if arm in key)
        assert table["metrics"][key]["task_success"]["value"] == 1, arm
    offered = {tool["name"] for taken in journal for tool in taken.body.get("tools", ())}
    assert {"memory_search", "append", "claim", "investigate"} <= offered
    assert verify.differences(str(tmp_path / "out")) == []
    for form in (report.TEXT, report.PAGE):
        assert "L2" in (tmp_path / "out" / form).read_text()


def test_blocker_escalation_is_played_by_a_model_and_from_its_cassette(play, tmp_path):
    tape = ["--cassette", str(tmp_path / "tape.jsonl")]
    _, table, journal = play("blocker_escalation", "isolated,view_capsule", *tape)
    success = {arm: figures["task_success"]["value"] for arm, figures in table["metrics"].items()}
    assert success["view_capsule"] == 1
    assert success["isolated"] < 1, "nobody hears of the decision"
    assert journal
    _, again, silent = play(
        "blocker_escalation", "isolated,view_capsule", *tape, "--cassette-mode", "replay", out="2"
    )
    assert silent == []
    assert again["run"]["ledger"] == table["run"]["ledger"]
    assert again["metrics"] == table["metrics"]


def test_a_model_of_another_provider_plays(play):
    _, table, journal = play("telephone", "isolated", live="openai")
    assert table["metrics"]["isolated"]["task_success"]["value"] == 1
    assert table["run"]["engines"] == ["openai gpt-5-mini"]
    assert any(taken.path.endswith("/responses") for taken in journal)


def test_steps_that_were_left_out_are_no_success(play):
    def hasty(seen):
        move = reader(seen)
        if not isinstance(move, Move) or move.calls[0][0] != "work":
            return move
        handed = any(call.name == "submit" for message in seen.messages for call in message.calls)
        return "It is done." if handed else Move("", (("submit", move.calls[0][1]),))

    _, table, _ = play("telephone", "isolated", script=hasty)
    figures = table["metrics"]["isolated"]
    assert figures["task_success"]["value"] == 0
    assert figures["fidelity"]["value"] == 1, "all values were right"


@pytest.mark.parametrize(
    "name", [name for name, text in library().items() if load(text).kind != "team"]
)
def test_what_no_agent_takes_part_in_no_model_can_play(name, play, capsys):
    assert shell.main(["run", name, "--live", "anthropic"]) == 2
    assert "no agent takes part in it" in capsys.readouterr().err


def test_what_a_model_says_it_uses_is_read_however_it_is_written():
    expected = {"depth of the lake": "431", "limit": "a1b2c3d"}
    texts = (
        "the depth of the lake = 431; limit = a1b2c3d",
        "- `depth of the lake` = `431`\n- The limit = a1b2c3d.",
        "Depth  of the Lake = '431' ; limit=a1b2c3d;",
    )
    for text in texts:
        assert using_of(text) == expected
