"""The rivals are played fairly: what each is billed is counted again by hand, from the texts of its
conversations.
"""

import json

import pytest

from orchestrator.spend.counting import schema_text
from orchestrator.tools.functions import tool_of
from scenarios.data import files
from scenarios.measure import metrics
from scenarios.measure.metrics import tally
from scenarios.play import harness
from scenarios.play.arms.arm import CONTROL, KINDS, RIVAL, ever
from scenarios.play.arms.catalog import ARMS
from scenarios.play.arms.rivals import _words
from scenarios.play.harness import Counts, Play
from scenarios.play.supervisors import Telling
from scenarios.play.world.task_text import read_task

NAMES = ["broadcast", "file_tail", "tool_cache", "grep_start"]
CELLS = {"ideal": {"n": 6, "agents": "ideal"}, "degraded": {"n": 6}}


class Heard(Play):
    """A run that keeps every request and reply as they passed."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.calls = []

    def _engine(self, plays):
        keeper, calls = super()._engine(plays), self.calls
        step = keeper.step

        async def heard(request, interrupt):
            turn = await step(request, interrupt)
            calls.append((request, turn))
            return turn

        keeper.step = heard
        return keeper

    def conversations(self):
        """The last request of each run, which holds all that it was sent, and its agent."""
        last = {request.key.rpartition("/")[0]: request for request, _ in self.calls}
        return {
            run: (self.recorder.agent_of(run)[0], request.messages) for run, request in last.items()
        }


@pytest.fixture(scope="module")
def count():
    return Counts()


@pytest.fixture(scope="module")
def heard(count):
    known = {}

    def play(arm, kind, name="redundant_discovery"):
        if (arm, kind, name) not in known:
            cell = CELLS[kind] if name == "redundant_discovery" else {"agents": kind}
            made = Heard(files.load(files.find(name), cell), arm, 11, count)
            known[arm, kind, name] = made, made.run()
        return known[arm, kind, name]

    return play


def by_hand(made, count):
    """Every text that was sent, each time, and every text that came back."""

    def said(call):
        return count(f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}")

    total = 0
    for request, turn in made.calls:
        total += count(request.system) + sum(count(schema_text(tool)) for tool in request.tools)
        total += sum(count(each.text) + sum(map(said, each.calls)) for each in request.messages)
        total += count(turn.text) + sum(map(said, turn.calls))
    return total


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("arm", NAMES)
def test_a_rivals_bill_is_what_its_conversations_say(heard, count, arm, kind):
    made, run = heard(arm, kind)
    assert tally(run)["tokens"] == by_hand(made, count) > 0
    assert not run.of("relay"), "nobody else is billed"


# -- The file of notes -----------------------------------------------------------------


def looks(made):
    """By run: its agent, and what it was shown of the file, at the start and then at each look."""
    for agent, messages in made.conversations().values():
        calls = {
            call.id for each in messages for call in each.calls if call.name == "memory_search"
        }
        start = "".join(each.text for each in messages if each.label == "view")
        yield agent, start, [each.text for each in messages if each.answers in calls]


def fair_file(made):
    """No line of another is shown twice to anybody, and none of its own after the start."""
    for agent, start, later in looks(made):
        shown = [
            line for text in (start, *later) for line in text.splitlines() if line.startswith("- ")
        ]
        others = [line for line in shown if not line.startswith(f"- {agent}:")]
        assert len(others) == len(set(others))
        assert not any(
            line.startswith(f"- {agent}:") for text in later for line in text.splitlines()
        )


@pytest.mark.parametrize("kind", CELLS)
def test_a_file_is_read_whole_once_and_then_only_what_is_new(heard, kind):
    made, run = heard("file_tail", kind)
    fair_file(made)
    assert any(later for _, _, later in looks(made))
    written = [event for event in run.of("write") if event["source"] == "agent"]
    assert written


def test_a_file_that_is_billed_whole_at_every_look_is_found_out(count, monkeypatch):
    fair = ARMS["file_tail"]

    def whole(ground):
        async def memory_search(query: str = "") -> str:
            return (
                "".join(f"- {entry.author}: {entry.body}\n" for entry in ever(ground))
                or "Nothing new."
            )

        setting = fair.make(ground)
        tools = (tool_of(memory_search, description="Read the file of notes"), setting.tools[1])
        return setting._replace(tools=tools)

    monkeypatch.setattr(harness, "ARMS", {"file_tail": fair._replace(make=whole)})
    made = Heard(
        files.load(files.find("redundant_discovery"), CELLS["ideal"]), "file_tail", 11, count
    )
    made.run()
    with pytest.raises(AssertionError):
        fair_file(made)


def test_behind_a_lock_nobody_finds_out_what_another_does(heard):
    _, run = heard("file_tail", "ideal")
    assert metrics.measured(run)["duplicate_work"] == 0


def test_a_lock_is_about_the_subject_however_the_claim_is_worded(heard):
    made, _ = heard("file_tail", "degraded")
    taken = {}
    for agent, messages in made.conversations().values():
        gave = {each.answers: each.text for each in messages if each.answers}
        for call in (call for each in messages for call in each.calls if call.name == "claim"):
            subject = call.arguments["work"].removeprefix("find out ").removeprefix("looking into ")
            taken.setdefault(subject, []).append(
                (call.arguments["work"].split()[0], agent, gave[call.id])
            )
    both = [each for each in taken.values() if len({words for words, _, _ in each}) == 2]
    assert any("is at it." in text for each in both for _, _, text in each)


# -- The cache of tool results ---------------------------------------------------------


def test_a_cache_gives_every_result_whole_and_carries_a_call_out_once(heard):
    made, run = heard("tool_cache", "degraded")
    found = [event["fact"] for event in run.of("discovery")]
    assert len(found) == len(set(found)), "nobody found out what another had"
    results = {}
    for _, messages in made.conversations().values():
        calls = {call.id: call.arguments["subject"] for each in messages for call in each.calls
                 if call.name == "investigate"}  # fmt: skip
        for each in messages:
            if each.answers in calls and not each.text.endswith("Not found yet."):
                results.setdefault(calls[each.answers], []).append(each.text)
    assert any(len(texts) > 1 for texts in results.values())
    assert all(len(set(texts)) == 1 for texts in results.values()), (
        "the very text that the first one got"
    )


def test_a_cached_result_that_was_refused_is_found_out_anew(heard):
    """Who asks once more has the call carried out: a cache is not held against what has changed."""
    _, run = heard("tool_cache", "ideal", "api_migration_wake")
    assert metrics.measured(run)["task_success"] == 1
    assert {event["fact"] for event in run.of("discovery")} == {"users_api"}
    assert len(run.of("discovery")) >= 2


def test_a_short_cache_passes_on_the_last_line_alone(heard):
    made, run = heard("cache_short", "ideal")
    assert metrics.measured(run)["task_success"] == 1
    lines = {}
    for _, messages in made.conversations().values():
        calls = {call.id: call.arguments["subject"] for each in messages for call in each.calls
                 if call.name == "investigate"}  # fmt: skip
        for each in messages:
            if each.answers in calls and not each.text.endswith("Not found yet."):
                lines.setdefault(calls[each.answers], []).append(each.text)
    shared = [texts for texts in lines.values() if len(texts) > 1]
    assert shared
    for texts in shared:
        long = [text for text in texts if "\n" in text]
        assert len(long) == 1, "who found it out has all of it"
        assert {text.rpartition("\n")[2] for text in texts} == {long[0].rpartition("\n")[2]}


# -- A grep at the start ---------------------------------------------------------------


def test_a_grep_shows_the_lines_that_have_all_words_of_a_need(heard):
    made, run = heard("grep_start", "ideal", "context_explosion")
    assert metrics.measured(run)["task_success"] == 1
    shown = 0
    for _, messages in made.conversations().values():
        task = "".join(each.text for each in messages if each.label == "task")
        view = "".join(each.text for each in messages if each.label == "view")
        needs = [_words(need) for need in read_task(task).needs]
        for line in view.splitlines():
            if line.startswith("- "):
                shown += 1
                assert any(need <= _words(line) for need in needs)
    assert shown
    assert not any(event["tool"] in ("append", "memory_search") for event in run.of("tool_call"))


# -- Telling everybody -----------------------------------------------------------------


def fair_broadcast(run):
    """No turn is thrown away; whatever is more than information, each other run is shown once: at
    its start, or by the first prompt after it was written.
    """
    assert not any(event["interrupted"] for event in run.of("completion"))
    shown = {}
    for event in run.of("prompt"):
        for id in event["ids"]:
            shown.setdefault((event["run"], id), []).append(event["t"])
    assert all(len(times) == 1 for times in shown.values())
    last = {event["run"]: event["t"] for event in run.of("prompt")}
    for write in run.of("write"):
        for spawn in run.of("spawn"):
            if (
                write["priority"] != "info"
                and write["agent"] != spawn["agent"]
                and write["t"] < last[spawn["run"]]
            ):
                assert (spawn["run"], write["id"]) in shown


@pytest.mark.parametrize("kind", CELLS)
def test_a_broadcast_throws_no_turn_away_and_tells_everybody_once(heard, kind):
    _, run = heard("broadcast", kind)
    fair_broadcast(run)


class Interrupting(Telling):
    """One that breaks off whatever turn is under way."""

    async def _hear(self):
        await super()._hear()
        for session in self.sessions.values():
            if session.inbox:
                session.interrupt.set()


class Forgetful(Telling):
    """One that tells of one entry in two."""

    def _stands(self, entry):
        return super()._stands(entry) and int(entry.id[-1]) % 2 == 0


@pytest.mark.parametrize("unfair", [Interrupting, Forgetful])
def test_a_broadcast_that_is_played_unfairly_is_found_out(count, monkeypatch, unfair):
    monkeypatch.setattr(harness, "Telling", unfair)
    run = Heard(
        files.load(files.find("redundant_discovery"), CELLS["ideal"]), "broadcast", 11, count
    ).run()
    with pytest.raises(AssertionError):
        fair_broadcast(run)


# -- Those who pass on what they know --------------------------------------------------


def test_a_manager_that_loses_nothing_tells_each_what_its_task_names(heard, count):
    made, run = heard("manager", "ideal")
    relays = run.of("relay")
    assert relays
    assert not any(event["lost"] or event["changed"] for event in relays)
    for event in relays:
        assert event["read"] >= event["cached"] >= 0
    assert tally(run)["tokens"] == by_hand(made, count) + sum(
        each["read"] + each["wrote"] for each in relays
    )
    for agent, messages in made.conversations().values():
        lines = [
            line
            for each in messages
            for line in each.text.splitlines()
            if each.label in ("task", "view")
        ]
        needs = (
            next(line for line in lines if line.startswith("Needs: "))
            .removeprefix("Needs: ")
            .split("; ")
        )
        for line in lines:
            assert not line.startswith("- ") or any(
                need.removeprefix("the ") in line for need in needs
            ), agent


def test_a_lead_hands_on_all_results_that_there_are(heard, count):
    made, run = heard("handoff", "ideal")
    relays = run.of("relay")
    assert tally(run)["tokens"] == by_hand(made, count) + sum(
        each["read"] + each["wrote"] for each in relays
    )
    results = [event for event in run.of("write") if event["source"] == "writeback"]
    first = {event["run"]: event["t"] for event in reversed(run.of("prompt"))}
    for id, (_, messages) in made.conversations().items():
        view = "".join(each.text for each in messages if each.label == "view")
        assert sum(line.startswith("- ") for line in view.splitlines()) == sum(
            event["t"] < first[id] for event in results
        )


def test_a_store_is_langgraphs_own():
    assert ARMS["native_store"].missing() is None
    made = Heard(
        files.load(files.find("redundant_discovery"), CELLS["ideal"]), "native_store", 11, Counts()
    )
    run = made.run()
    found = metrics.measured(run)
    assert (found["task_success"], found["duplicate_work"]) == (1, 0)
    assert any(event["tool"] == "memory_search" for event in run.of("tool_call"))


# -- All of them -----------------------------------------------------------------------


def test_every_arm_says_what_it_is():
    assert {arm.kind for arm in ARMS.values()} == set(KINDS)
    assert [arm.name for arm in ARMS.values() if arm.kind == "product"] == ["shipped", "nightly"]


@pytest.mark.parametrize(
    "arm", [arm.name for arm in ARMS.values() if arm.kind in (RIVAL, CONTROL) and arm.name != "off"]
)
def test_nothing_of_the_products_own_works_for_a_rival(arm, count):
    """Its agents get no news by the product and no look before a call."""
    made = Heard(files.load(files.find("landing_pages"), {"agents": "ideal"}), arm, 7, count)
    pushed = []
    context = made._watched

    def watched(setting):
        def policy(agent, task, agent_memory, plan):
            given = context(setting)(agent, task, agent_memory, plan)
            pushed.append((given.news, given.acts))
            return given

        return policy

    made._watched = watched
    made.run()
    assert pushed
    assert set(pushed) == {(arm == "oracle", False)}
