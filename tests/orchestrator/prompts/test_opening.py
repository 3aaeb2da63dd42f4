"""How a run begins: when its agent may recall, and what being told of it costs."""

import re

import pytest

import synapse
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.prompts.opening import Context, by_default, taught, view_capsule
from orchestrator.prompts.receipt import derive, load
from orchestrator.prompts.render import Assignment
from orchestrator.prompts.selection import CRITICALS, Plan
from orchestrator.prompts.templates import Templates
from orchestrator.runs.files import steps
from orchestrator.runs.files.ledger import by_label, read
from orchestrator.runs.task import Task
from orchestrator.spend.counting import schema_text
from orchestrator.tools.functions import SPAWN, WAIT
from synapse import tools
from synapse.model.agents import ROLES, Agent
from synapse.system.tokens import Tokens
from synapse.testing import FrozenClock

COUNT = Tokens("o200k_base").count
PAYS, SHORT = Plan(600, True, ""), Plan(240, False, "")
RECALLS = "Ask before you decide"


@pytest.fixture
def agent_memory():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("eng"))
        yield mem.as_agent("eng")


def offered(policy, agent_memory, plan, text="Build it"):
    context = policy(agent_memory.store.agents.get("eng"), Task(text, "eng"), agent_memory, plan)
    assert context.view is None  # the one that the plan allows
    return [tool.name for tool in context.tools]


def test_by_default_an_agent_recalls_where_it_pays(agent_memory):
    assert offered(by_default, agent_memory, SHORT) == []
    assert offered(by_default, agent_memory, PAYS) == [
        tool.name for tool in tools.offered("engineer")
    ]


def test_when_to_recall_is_a_function_of_ones_own(agent_memory):
    asked = []

    def on_policy_questions(agent, task, plan):
        asked.append((agent.id, task.text, plan))
        return "policy" in task.text

    policy = view_capsule(on_policy_questions)
    assert offered(policy, agent_memory, PAYS) == []
    assert "memory_search" in offered(policy, agent_memory, SHORT, "Check the policy")
    assert asked == [("eng", "Build it", PAYS), ("eng", "Check the policy", SHORT)]


@pytest.mark.parametrize("role", ROLES)
def test_when_to_ask_is_taught_in_80_tokens(role):
    told = {tool.name: tool.description for tool in taught(tools.offered(role), Templates())}
    taught_by = [name for name, text in told.items() if RECALLS in text]
    assert taught_by == ["memory_search"]
    assert 0 < COUNT(told["memory_search"].partition(". ")[2]) <= 80
    assert ("Remember" in told["memory_search"]) == ("memory_remember" in told)


def test_all_of_it_stays_below_its_ceiling():
    """The schemas of an engineer's tools, as they are counted in each prompt; a lead's, with all
    that it is taught and the orchestrator's own.
    """
    assert sum(COUNT(schema_text(tool)) for tool in tools.offered("engineer")) <= 250
    lead = [*taught(tools.offered("project-lead"), Templates()), SPAWN, WAIT]
    assert sum(COUNT(schema_text(tool)) for tool in lead) <= 900


def test_a_workspace_teaches_in_its_own_words(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "_recall.md.j2").write_text("Ask when in doubt.")
    (search,) = taught(
        [tool for tool in tools.TOOLS if tool.name == "memory_search"], Templates(str(tmp_path))
    )
    assert search.description.endswith(" all. Ask when in doubt.")


def test_what_is_taught_is_billed_as_schema(world):
    """Offered, it is in `tool_schema` at every turn; not offered, it costs nothing."""
    heard = []

    def play(seen):
        heard.append({tool.name: tool.description for tool in seen.tools})
        return (
            Move("", (("memory_search", {"query": "tea", "scope": "agent"}),))
            if seen.turn == 0
            else "Done."
        )

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
    ground = world(
        lambda seen: "Done.", context=lambda agent, task, agent_memory, plan: Context(**flags)
    )
    result = ground.spawn("Build it", "eng-a")
    first = steps.read(ground.folder(result.run).lines("steps.jsonl"))[0]
    assert first.kind == "prompt"
    wanted = {"news": True, "acts": True} | flags
    assert {name: first.fields[name] for name in wanted} == wanted


# -- What a prompt begins with ---------------------------------------------------------------------


NEEDS = "Tune the gateway. Needs: the retry limit of service 3; the owner key of service 7"
AUTO = {"memory_tools": "auto"}


def prompt_of(ground, result):
    """Return the memory's part of a run's prompt, and its receipt."""
    first = steps.read(ground.folder(result.run).lines("steps.jsonl"))[0].fields
    return first["memory"], load(ground.folder(result.run).read("receipt.json"))


@pytest.mark.parametrize("role", ["engineer", "qa"])
def test_five_criticals_are_whole_in_the_prompt_whatever_runs_were_like(world, role):
    """No expectation lowers what is kept for them: neither the stated one nor runs of a single
    turn.
    """
    ground = world(lambda seen: "Done.", **AUTO)
    ids = [
        ground.says(f"Decided, number {n}: {'and mind what follows from that. ' * 6}").id
        for n in range(5)
    ]
    for n in range(4):
        memory, receipt = prompt_of(
            ground, ground.spawn(f"A short task, number {n}", "eng-a", role=role)
        )
        assert [
            id for id, _, form, kind in receipt.included if kind == "critical" and form == "whole"
        ] == ids
        assert all(f"Decided, number {n}:" in memory for n in range(5))


def test_criticals_beyond_their_reserve_are_pushed_until_they_were_shown(world):
    """Who has more authority is shown first, then what is newer, in each run; and one that was
    never shown, so that all come in turn.
    """
    ground = world(lambda seen: "Done.", **AUTO)
    lead = ground.mem.as_agent("lead")
    body = (
        "{}: "
        + "Decided, and this follows from it at every place where it matters to somebody. " * 12
    )
    low = [
        lead.append(body.format(f"low-{n}"), "decisions/api", priority="critical").id
        for n in range(12)
    ]
    high = [ground.says(body.format(f"high-{n}")).id for n in range(2)]
    seen = set()
    for n in range(10):
        memory, receipt = prompt_of(ground, ground.spawn(f"Look, for the {n}. time", "eng-a"))
        criticals = [each for each in receipt.included if each[3] == "critical"]
        whole = {id for id, _, form, _ in criticals if form == "whole"}
        assert 0 < sum(tokens for _, tokens, *_ in criticals) <= CRITICALS
        if n == 0:
            assert whole == {*high, *low[len(high) - len(whole) :]}, "of equals, the older are cut"
            assert len(whole) > len(high)
        assert {*high, low[-1]} <= whole, "a run knows nothing of what another was shown"
        assert whole - seen or {*low, *high} <= seen, "and all come in turn"
        assert re.search(r"Left out: \d+ critical\b", memory)
        seen |= whole
    assert seen == {*low, *high}


def test_what_the_tasks_words_find_is_whole_at_the_end(world):
    """However old it is, whatever its priority, and though many others sound like it."""
    ground = world(lambda seen: "Done.", **AUTO)
    lead = ground.mem.as_agent("lead")
    names = ("retry limit", "owner key", "queue depth")
    ids = {
        (name, n): lead.append(
            f"The {name} of service {n} is v{n}f{at}0x.", "projects/notes", ttl="90d"
        ).id
        for n in range(60)
        for at, name in enumerate(names)
    }
    ground.time.elapsed += 9 * 86_400
    named = {ids["retry limit", 3], ids["owner key", 7]}
    memory, receipt = prompt_of(ground, ground.spawn(NEEDS, "eng-a"))
    assert {
        id for id, _, form, kind in receipt.included if kind == "named" and form == "whole"
    } == named
    assert {id for id, *_ in receipt.included} == named, "what the task does not name is not there"
    assert "## For Your Task" in memory
    assert "The retry limit of service 3 is v3f00x." in memory
    assert receipt.tools == (), "what concerns the task fits: no tools"
    assert receipt.why.startswith(
        f"{receipt.tokens['view']} tokens: 2 found by the task's words (p 0.3)"
    )
    exact, _ = prompt_of(ground, ground.spawn(NEEDS, "eng-a", view_budget=600))
    assert exact.count("The retry limit of service 3 is v3f00x.") == 1, (
        "so with a number that was asked for"
    )


def test_what_is_addressed_to_the_agent_is_there_in_each_of_its_runs(world):
    """A new run is a new conversation: what an earlier one was shown, it does not know."""
    ground = world(lambda seen: "Done.", **AUTO)
    lead = ground.mem.as_agent("lead")
    mine = lead.append("Ask me before the release.", "projects/notes", to="agent:eng-a").id
    ours = lead.append("Meet at ten.", "projects/notes", to="team:web").id
    decided = lead.append("Pages use the new nav.", "projects/notes", priority="important").id
    lead.append("Just a note.", "projects/notes")
    for text in ("Sweep", "Sweep again", "Sweep once more"):
        _, receipt = prompt_of(ground, ground.spawn(text, "eng-a"))
        kinds = {id: kind for id, _, _, kind in receipt.included if kind != "status"}
        assert kinds == {mine: "addressed", ours: "addressed", decided: "important"}
    assert ground.mem.as_agent("eng-a").unread() == 1, "marks of delivery stay"


@pytest.mark.parametrize("uses", [True, False])
def test_what_runs_used_decides_what_later_ones_are_shown(world, uses):
    """Important entries that agents use come to be shown in number; those that nobody uses, no
    more.
    """

    def look(at: str) -> str:
        """Look at a page."""
        return "Nothing to see here. " * 60

    def play(seen):
        if seen.turn < 8:
            return Move("Thinking about it. " * 40, (("look", {"at": f"page {seen.turn}"}),))
        shown = re.findall(
            r"is (x\w+)\.", "".join(m.text for m in seen.messages if m.label == "view")
        )
        return f"Used {' '.join(shown)}." if uses else "Done."

    ground = world(play, tools=[look], **AUTO)
    lead, counts = ground.mem.as_agent("lead"), []
    for n in range(8):
        for k in range(15):
            lead.append(
                f"The limit of thing {n}-{k} is x{n}{k}fa9.", "projects/web", priority="important"
            )
        ground.time.elapsed += 60  # histories are looked up now and then
        _, receipt = prompt_of(ground, ground.spawn(f"Sweep, time {n}", "eng-a", project="web"))
        counts.append([kind for *_, kind in receipt.included].count("important"))
    assert counts[0] > 0
    assert counts[-1] > counts[0] if uses else counts[-1] < counts[0]


def test_tools_are_offered_where_more_concerns_the_task_than_fits(world):
    ground = world(lambda seen: "Done.", **AUTO)
    lead = ground.mem.as_agent("lead")
    lead.append(
        "The retry limit of service 3 is v3f00x. " + "That took long to find out. " * 600,
        "projects/notes",
    )
    _, receipt = prompt_of(ground, ground.spawn(NEEDS, "eng-a"))
    assert "memory_search" in receipt.tools
    assert [(form, kind) for _, _, form, kind in receipt.included] == [("pointer", "named")]
    assert prompt_of(ground, ground.spawn("Sweep", "eng-a"))[1].tools == ()
    assert "memory_search" in prompt_of(ground, ground.spawn("Sweep", "lead"))[1].tools, (
        "who gives out work has them"
    )


def test_a_prompt_that_pays_is_made_again_to_the_byte(world):
    ground = world(lambda seen: "Done.", **AUTO)
    lead = ground.mem.as_agent("lead")
    for n in range(9):
        lead.append(
            f"The retry limit of service {n} is v{n}f00x.", "projects/notes", priority="important"
        )
    ground.says("Stop at noon.")
    ground.time.elapsed += 1  # the log's own times are a microsecond apart
    result = ground.spawn(NEEDS, "eng-a")
    memory, receipt = prompt_of(ground, result)
    lead.append("The owner key of service 7 is k77ab.", "projects/notes")
    lead.append(
        "The retry limit of service 3 is v999.",
        "projects/notes",
        supersedes=receipt.included[-1][0],
    )
    run, run_store = ground.run(result), ground.supervisor.run_store
    again = derive(
        run_store.agent_memory(run),
        receipt,
        Assignment(run.task.text, run.task.project, None, run.task.role),
        run_store.secret,
        run_store.templates,
        run_store.agent("eng-a"),
    )
    assert again.memory == memory
    assert again.sha256 == receipt.prompt
    assert prompt_of(ground, ground.spawn(NEEDS, "eng-a"))[0] != memory
