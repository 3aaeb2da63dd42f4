"""How a run begins: when its agent may recall, and what being told of it costs."""

import pytest

import synapse
from orchestrator import steps
from orchestrator.budget import Plan
from orchestrator.counting import schema_text
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.ledger import by_label, read
from orchestrator.opening import Context, by_default, taught, view_capsule
from orchestrator.task import Task
from orchestrator.templates import Templates
from orchestrator.tools import SPAWN, WAIT
from synapse import tools
from synapse.testing import FrozenClock
from synapse.tokens import Tokens
from synapse.workspace import ROLES, Agent

COUNT = Tokens("o200k_base").count
PAYS, SHORT = Plan(600, False, True, 0.03, ""), Plan(240, True, False, 0.04, "")
RECALLS = "Ask before you decide"


@pytest.fixture
def seat():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("eng"))
        yield mem.as_agent("eng")


def offered(policy, seat, plan, text="Build it"):
    context = policy(seat.store.agent("eng"), Task(text, "eng"), seat, plan)
    assert context.view is None  # the one that the plan allows
    return [tool.name for tool in context.tools]


def test_by_default_an_agent_recalls_where_it_pays(seat):
    assert offered(by_default, seat, SHORT) == []
    assert offered(by_default, seat, PAYS) == [tool.name for tool in tools.offered("engineer")]


def test_when_to_recall_is_a_function_of_ones_own(seat):
    asked = []

    def on_policy_questions(agent, task, plan):
        asked.append((agent.id, task.text, plan))
        return "policy" in task.text

    policy = view_capsule(on_policy_questions)
    assert offered(policy, seat, PAYS) == []
    assert "memory_search" in offered(policy, seat, SHORT, "Check the policy")
    assert asked == [("eng", "Build it", PAYS), ("eng", "Check the policy", SHORT)]


@pytest.mark.parametrize("role", ROLES)
def test_when_to_ask_is_taught_in_80_tokens(role):
    told = {tool.name: tool.description for tool in taught(tools.offered(role), Templates())}
    taught_by = [name for name, text in told.items() if RECALLS in text]
    assert taught_by == ["memory_search"]
    assert 0 < COUNT(told["memory_search"].partition(". ")[2]) <= 80
    assert ("Remember" in told["memory_search"]) == ("memory_remember" in told)


def test_all_of_it_stays_below_its_ceiling():
    """The schemas of an engineer's tools, as they are counted in each prompt; a lead's, with all that it is taught and
    the orchestrator's own."""
    assert sum(COUNT(schema_text(tool)) for tool in tools.offered("engineer")) <= 250
    lead = [*taught(tools.offered("project-lead"), Templates()), SPAWN, WAIT]
    assert sum(COUNT(schema_text(tool)) for tool in lead) <= 900


def test_a_workspace_teaches_in_its_own_words(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "_recall.md.j2").write_text("Ask when in doubt.")
    (search,) = taught([tool for tool in tools.TOOLS if tool.name == "memory_search"], Templates(str(tmp_path)))
    assert search.description.endswith(" all. Ask when in doubt.")


def test_what_is_taught_is_billed_as_schema(world):
    """Offered, it is in `tool_schema` at every turn; not offered, it costs nothing."""
    heard = []

    def play(seen):
        heard.append({tool.name: tool.description for tool in seen.tools})
        return Move("", (("memory_search", {"query": "tea", "scope": "agent"}),)) if seen.turn == 0 else "Done."

    ground = world(Scripted(play))
    result = ground.spawn("Build it", "eng-a")
    assert result.done
    assert all(RECALLS in tools_told["memory_search"] for tools_told in heard)
    lines = read(ground.folder(result.run).lines("ledger.jsonl"))
    billed = by_label(lines)["tool_schema"]
    told = taught(tools.offered("engineer"), Templates())
    assert billed == len(lines) * sum(COUNT(schema_text(tool)) for tool in told)
    assert by_label(lines)["capsule"] > 0


@pytest.mark.parametrize("flags", [{}, {"news": False}, {"acts": False}])
def test_a_policy_says_what_is_pushed_and_the_prompt_step_has_it(world, flags):
    ground = world(lambda seen: "Done.", context=lambda agent, task, seat, plan: Context(**flags))
    result = ground.spawn("Build it", "eng-a")
    first = steps.read(ground.folder(result.run).lines("steps.jsonl"))[0]
    assert first.kind == "prompt"
    wanted = {"news": True, "acts": True} | flags
    assert {name: first.fields[name] for name in wanted} == wanted
