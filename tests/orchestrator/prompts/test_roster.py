"""Whom an agent may give work to: in its prompt, in its receipt, and in what it is told when it
names nobody."""

import json
import re

import pytest

import synapse
from orchestrator.cli import main
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.prompts import roster
from orchestrator.prompts.receipt import load
from synapse.model.agents import Agent, Skill, settled

CTO = Agent("boss", role="cto")
LEAD = Agent("lead", role="project-lead", department="web")
OTHERS = (
    Agent("eng-b", department="web"),
    Agent(
        "eng-a", department="api", projects=("shop",), skills=(Skill("postgres", 80, ("api/*",)),)
    ),
    Agent("qa", role="specialist", department="quality"),
    Agent("lead-2", role="project-lead", department="api"),
)


def ids(agents):
    return [agent.id for agent in agents]


def test_only_those_it_may_sensibly_give_work_to():
    named = (*OTHERS, CTO, LEAD, Agent("boss-2", role="cto"))
    everybody = (*map(settled, named), Agent("consolidator"))
    lead = settled(LEAD)
    assert ids(roster.workers(everybody, settled(CTO))) == [
        "lead",
        "lead-2",
        "eng-a",
        "eng-b",
        "qa",
    ]
    assert ids(roster.workers(everybody, lead)) == ["eng-b", "lead-2", "eng-a", "qa"]
    assert ids(roster.workers(reversed(everybody), lead)) == ["eng-b", "lead-2", "eng-a", "qa"]


def test_a_line_says_what_an_agent_is_for():
    assert roster.lines(OTHERS[:2]) == (
        "- eng-b (engineer, web)",
        "- eng-a (engineer, api): postgres, shop",
    )
    long = Agent("eng-c", projects=[f"project-{n}" for n in range(99)], department="x" * 200)
    assert len(roster.lines([long])[0]) < 200


def test_many_are_counted_and_found_by_a_word():
    crowd = [Agent(f"eng-{n:03d}", department="web" if n % 2 else "api") for n in range(100)]
    lines = roster.lines(crowd)
    assert len(lines) == roster.MOST + 1
    assert lines[-1] == "- 70 more: call spawn_agent with a part of a name, a role or a department"
    told = roster.unknown("web", crowd).partition("work to: ")[2]
    assert told.startswith("eng-001, eng-003, eng-005, ")
    assert told.endswith(" and 70 more")
    assert "eng-097" in roster.unknown("097", crowd)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("leed", "there is no agent leed; you may give work to: lead, eng-b; did you mean lead?"),
        ("x\n## y", "there is no agent x ## y; you may give work to: eng-b, lead"),
    ],
)
def test_who_is_not_there_is_told_with_those_who_are(name, told):
    assert roster.unknown(name, [OTHERS[0], LEAD]) == told


def test_where_there_is_nobody_it_says_so():
    assert (
        roster.unknown("eng", [])
        == "there is no agent eng, and nobody else to give work to: do it yourself"
    )


def test_who_hands_out_work_is_told_to_whom(world, cast):
    seen = {}

    def told(name):
        return lambda found: seen.setdefault(name, found.system) and "Done."

    here = world(cast(boss=told("boss"), lead=told("lead"), eng_a=told("eng-a")))
    for name in ("boss", "lead", "eng-a"):
        here.spawn("Work", name)
    assert (
        "\nYou may give work to:\n- lead (project-lead, web)\n- eng-a (engineer, web)\n"
        in seen["boss"]
    )
    assert (
        "\nYou may give work to:\n- eng-a (engineer, web)\n- eng-b (engineer, web)\n"
        in seen["lead"]
    )
    assert "boss" not in seen["lead"]
    assert "You may give work to" not in seen["eng-a"]


def test_who_cannot_spawn_is_told_nothing(world):
    """A client has no tools, and writes a plan instead."""
    seen = []
    engine = Scripted(lambda found: seen.append(found.system) or "Done.")
    engine.takes_tools = False
    world(engine).spawn("Work", "lead")
    assert "You may give work to" not in seen[0]


def test_the_roster_lasts_and_is_billed_as_the_receipt_says(world, cast):
    seen = []
    here = world(cast(lead=lambda found: seen.append(found.system) or "Done."))
    first = here.spawn("Work", "lead")
    here.time.elapsed += 100_000
    here.says("News", priority="important")
    here.spawn("Other work", "lead", project="shop")
    assert seen[0] == seen[1]
    (line,) = [json.loads(line) for line in here.folder(first.run).lines("ledger.jsonl")]
    receipt = load(here.folder(first.run).read("receipt.json"))
    billed = {label: tokens for label, tokens, *_ in line["in"]}
    assert (billed["system"], billed["guide"]) == (
        receipt.tokens["system"],
        receipt.tokens["guide"],
    )
    assert receipt.roster == ("- eng-a (engineer, web)", "- eng-b (engineer, web)")


def test_a_prompt_is_made_again_after_others_were_registered(world, cast, capsysbinary):
    here = world(cast(lead=lambda found: "Done."))
    run = here.spawn("Work", "lead").run
    words = ["--root", here.mem.store.root, "replay", run]
    assert main(words) == 0
    before = capsysbinary.readouterr().out
    assert b"- eng-b (engineer, web)\n" in before
    here.mem.register(synapse.Agent("eng-c", department="web"))
    here.folder(run).write("steps.jsonl", "")  # it is made from the receipt and the log
    assert main(words) == 0
    assert capsysbinary.readouterr().out == before


def test_a_receipt_from_before_there_were_rosters_is_read(world):
    here = world(lambda seen: "Done.")
    text = here.folder(here.spawn("Work", "lead").run).read("receipt.json")
    fields = {name: value for name, value in json.loads(text).items() if name != "roster"}
    assert load(json.dumps(fields)).roster == ()


def test_a_model_that_names_nobody_is_told_whom_there_is(world, cast):
    def lead(seen):
        if not seen.turn:
            return Move("", (("spawn_agent", {"agent": "eng_a", "task": "A part"}),))
        return seen.messages[-1].text

    result = world(cast(lead=lead)).spawn("Lead it", "lead")
    assert result.text == (
        "Error: there is no agent eng_a; you may give work to: eng-a, eng-b; did you mean eng-a?"
    )  # fmt: skip


# -- What errors advise ----------------------------------------------------------------

COMMAND = re.compile(r"`?(synapse|orchestrator) [a-z]|synapse\.yaml|--[a-z]")


def commands(texts):
    """The texts that name a command, an option or a file of the operator's: a model without a shell
    has none."""
    return [text for text in texts if COMMAND.search(text)]


WRONG = (
    ("spawn_agent", {"agent": "eng", "task": "x"}),
    ("spawn_agent", {"agent": "operator", "task": "x"}),
    ("spawn_agent", {"agent": "", "task": "x"}),
    ("spawn_agent", {"agent": "eng-a", "task": "x", "project": "Web Shop"}),
    ("spawn_agent", {"agent": "eng-a"}),
    ("spawn_agent", {"agent": "eng-a", "task": "one too many"}),
    ("wait", {"runs": ["no-such-run"]}),
    ("wait", {"runs": "all"}),
    ("nothing", {}),
    ("append", {"namespace": "system/x", "body": "x"}),
    ("append", {"namespace": "A B", "body": "x"}),
    ("append", {"namespace": "status/web", "body": "x", "to": "agent:nobody"}),
    ("append", {"namespace": "status/web", "body": "x", "to": "nobody at all"}),
    ("append", {"namespace": "status/web", "body": "x", "priority": "urgent"}),
    ("append", {"namespace": "status/web", "body": "x", "supersedes": "syn-2026-01-01-999"}),
    ("append", {"namespace": "status/web", "body": "x" * 100_000}),
    ("read", {"id": "syn-2026-01-01-999"}),
    ("read", {"since": "whenever"}),
    ("read", {"namespace": "A B"}),
    ("memory_search", {"query": ""}),
    ("memory_search", {"query": "x", "scope": "planet"}),
    ("memory_search", {"query": "x", "top_k": 0}),
    ("report_blocker", {}),
    ("claim", {"work": "x", "minutes": -1}),
    ("claim", {"work": "never", "release": True}),
    ("ack", {"ids": ["syn-2026-01-01-999"]}),
    ("memory_remember", {"fact": "x", "scope": "planet"}),
    ("memory_remember", {"fact": "x", "scope": "global", "ttl_days": 0}),
    ("memory_forget", {"fact_id": "fact-1"}),
)


def test_no_error_that_a_model_is_told_names_a_command(world, cast):
    seen = []

    def lead(found):
        seen.append(found)
        return Move("", (WRONG[found.turn],)) if found.turn < len(WRONG) else "Done."

    here = world(cast(lead=lead), settings="limits: {run: {children: 0}}\n")
    here.spawn("Get it all wrong", "lead", project="web")
    told = [message.text for message in seen[-1].messages if message.role == "tool"]
    assert len(told) == len(WRONG)
    assert commands(told) == []


def test_a_command_in_an_error_is_found_out():
    """What was told before: the checker can fail."""
    assert (
        len(commands(["agent leed is not registered; `synapse agents` lists those that are"])) == 1
    )
    assert (
        len(commands(["at its limit of children; raise limits.run.children in synapse.yaml"])) == 1
    )


def test_news_names_no_command_that_its_reader_has_not(world):
    """A body too long for a prompt is cut; who can read the rest is told how."""

    def script(seen):
        told = [message.text for message in seen.messages if message.label == "wake"]
        return told[0] if told else Move("Working", takes=600)

    for tools in ("never", "always"):
        here = world(script, memory_tools=tools, settings="size_limits: {per_entry: off}\n")
        result = here.spawn(
            "Work", "eng-a", also=[here.later(10, lambda here=here: here.says("x" * 70_000))]
        )
        assert "the first 65536 of 70000 bytes" in result.text
        assert ("`synapse read syn-" in result.text) == (tools == "always")
