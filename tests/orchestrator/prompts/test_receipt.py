"""Receipts: the budget is kept, everything is accounted for, and the prompt can be made again."""

import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import synapse
from orchestrator.prompts.fence import secret
from orchestrator.prompts.receipt import (
    NotReproducible,
    Order,
    derive,
    explain,
    fit,
    load,
    omissions,
    replay,
)
from orchestrator.prompts.render import Assignment, Prompt, Reach
from orchestrator.prompts.selection import CRITICALS, MOST, expected, reason, worth
from orchestrator.prompts.templates import Templates
from orchestrator.spend.counting import Counter
from synapse.errors import OverBudget
from synapse.model.agents import Agent
from synapse.model.clock import micros
from synapse.view.view import LeftOut
from tests.examples import examples

TASK = Assignment("Fix the navigation.", "landing", "pl-landing")
KEY = bytes(range(32))
TEMPLATES = Templates()
COUNTER = Counter("gpt-5")
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300)
START = micros("2026-02-01T00:00:00Z")


class Ticking:
    """A clock that goes on by a second at each look."""

    def __init__(self):
        self.now = START

    def __call__(self):
        self.now += 1_000_000
        return self.now


@pytest.fixture
def mem():
    made = synapse.open("memory:", clock=Ticking())
    made.register(Agent("eng-frontend", read=["*"], write=["*"], department="frontend"))
    made.register(Agent("eng-backend", read=["*"], write=["*"]))
    yield made
    made.close()


def fill(mem, count=30):
    for number in range(count):
        priority = ("critical", "important", "info", "info")[number % 4]
        body = f"Step {number}: " + "and what follows from it " * (number % 7)
        mem.as_agent("eng-backend").append(
            body, ("api/x", "status/frontend")[number % 2], priority=priority
        )


def order(mem, budget=600, **more):
    return Order("r-1", 1, mem.store.agents.get("eng-frontend"), TASK, budget, **more)


def made(mem, budget=600, counter=COUNTER, **more):
    return fit(mem.as_agent("eng-frontend"), order(mem, budget, **more), KEY, TEMPLATES, counter)


# -- What it says ----------------------------------------------------------------------


def test_a_receipt_accounts_for_every_entry_and_token(mem):
    fill(mem)
    prompt, receipt = made(mem, schema=250, reach=Reach(("append",)))
    system = receipt.tokens["system"], receipt.tokens["guide"]
    assert sum(system) == COUNTER.count(prompt.system)
    assert all(part > 0 for part in system)
    assert receipt.tokens == {
        "system": system[0],
        "guide": system[1],
        "tool_schema": 250,
        "view": Counter("gpt-5").count(prompt.memory),  # one that was told nothing
        "task": COUNTER.count(prompt.task),
    }
    ids = {entry.id for entry in mem.as_agent("eng-frontend").read()}
    shown = {id for id, *_ in receipt.included}
    hidden = {id for omission in receipt.left_out for id in omission.ids}
    assert shown | hidden == ids
    assert not shown & hidden
    assert all(id in prompt.memory for id in shown)
    assert all(omission.why.startswith("budget: ") for omission in receipt.left_out)
    assert receipt.prompt == prompt.sha256
    assert receipt.cursor == mem.as_agent("eng-frontend").read().cursor
    assert (receipt.counting, receipt.encoding) == ("exact", "o200k_base")
    assert receipt.tokenizer.startswith("tiktoken ")


def test_a_receipt_survives_its_text(mem):
    fill(mem)
    _, receipt = made(mem)
    assert load(receipt.dump()) == receipt
    assert receipt.shown() == {
        "cursor": receipt.cursor,
        "how": "spawn",
        "run": "r-1",
        "epoch": 1,
        "ids": [id for id, _, form, _ in receipt.included if form == "whole"],
        "of": 30,
        "tokens": sum(receipt.tokens.values()),
        "budget": 600,
        "encoding": "o200k_base",
        "template": TEMPLATES.version,
        "prompt": receipt.prompt,
        "left_out": 30 - len(receipt.included),
    }


def test_what_was_left_out_is_counted_and_the_newest_named():
    """However many there are, the receipt does not grow with them."""
    left = [LeftOut(f"syn-{n:04}", ("old", "info")[n % 2]) for n in range(5_000)]
    old, info = omissions(left)
    assert (old.why, old.total, info.why, info.total) == ("old", 2_500, "info", 2_500)
    assert info.ids == tuple(f"syn-{n:04}" for n in range(4_961, 5_000, 2))
    assert omissions([]) == ()


def test_a_receipt_of_an_earlier_version_is_read(mem):
    """It has the ids of all that was left out, by their reasons."""
    fill(mem)
    _, receipt = made(mem)
    fields = json.loads(receipt.dump())
    fields["left_out"] = [[why, ids] for why, _, ids in fields["left_out"]]
    found = load(json.dumps(fields))
    assert found == receipt._replace(
        left_out=tuple(each._replace(total=len(each.ids)) for each in receipt.left_out)
    )


def test_it_is_pleasant_to_read(mem, golden):
    fill(mem)
    of = expected("engineer", [])
    order_of = {"about": True, "worth": worth(of)}
    view = mem.as_agent("eng-frontend").briefing(4_000, about=TASK.text, worth=worth(of))
    _, receipt = made(
        mem, CRITICALS + MOST, why=reason(view, view.tokens, None, of, worth(of)), **order_of
    )
    told = explain(receipt._replace(templates="0" * 64, prompt="1" * 64, tokenizer="tiktoken 1"))
    golden("receipt.txt", told)
    assert max(map(len, told.splitlines())) <= 80
    assert "nothing" in explain(made(mem, 0)[1])


# -- The budget ------------------------------------------------------------------------


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["critical", "important", "info"]), TEXTS), max_size=12),
    st.integers(90, 900),
    st.sampled_from([1.0, 1.25]),
    st.booleans(),
    st.booleans(),
)
def test_the_budget_is_kept(entries, budget, ratio, about, pays):
    """Of a number that was asked for, and of what a view that pays may take; and nothing is there
    twice.
    """
    with synapse.open("memory:", clock=Ticking()) as mem:
        for id in ("eng-frontend", "eng-backend"):
            mem.register(Agent(id, read=["*"], write=["*"]))
        for priority, body in entries:
            mem.as_agent("eng-backend").append(f"x{body}", "status/x", priority=priority)
        counter = Counter("claude-x", ratio=ratio)
        by = worth(expected("engineer", []), 1 / ratio)._replace(
            criticals=budget // 2, most=budget // 2
        )
        prompt, receipt = made(mem, budget, counter, about=about, worth=by if pays else None)
        assert counter.count(prompt.memory) == receipt.tokens["view"]
        assert counter.count(prompt.memory) * ratio <= budget
        hidden = [id for omission in receipt.left_out for id in omission.ids]
        ids = [*(id for id, *_ in receipt.included), *hidden]
        assert len(ids) == len(set(ids)) == len(entries)
        assert receipt.omitted == len(hidden)
        assert all(prompt.memory.count(id) == 1 for id, *_ in receipt.included)


def test_a_budget_below_one_line_is_told(mem):
    fill(mem)
    with pytest.raises(
        OverBudget,
        match=r"the shortest memory takes \d+ tokens with its frame, and its budget is 20",
    ) as caught:
        made(mem, 20)
    needed = caught.value.needed
    assert made(mem, needed)[1].tokens["view"] <= needed
    with pytest.raises(OverBudget):
        made(mem, needed - 1)


def test_no_budget_is_no_view(mem):
    fill(mem)
    prompt, receipt = made(mem, 0)
    assert prompt.memory == ""
    assert receipt.tokens["view"] == 0
    assert receipt.omitted == 30
    assert [omission.why for omission in receipt.left_out] == ["there was no budget for a view"]


def test_where_nothing_pays_nothing_is_paid(mem):
    """A view that pays has no frame either where it has no entry; what is critical is there at any
    price.
    """
    dear = worth(expected("engineer", []))._replace(saving=1.0)
    more = {"worth": dear, "about": True}
    mem.as_agent("eng-backend").append("An important one.", "decisions/x", priority="important")
    prompt, receipt = made(mem, CRITICALS + MOST, **more)
    assert prompt.memory == ""
    assert receipt.left_out[-1].why == "it would cost more than it is expected to save"
    mem.as_agent("eng-backend").append("The API is gone.", "api/x", priority="critical")
    prompt, receipt = made(mem, CRITICALS + MOST, **more)
    assert "The API is gone." in prompt.memory
    assert "## Important" not in prompt.memory
    assert "Left out: 1 important" in prompt.memory


# -- Made again ------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"budget": 150}, {"budget": 3_000}])
def test_who_has_neither_shell_nor_tool_is_shown_no_command(mem, more):
    """Nothing that it could not do; who can is told how. Both keep to the budget, and can be made
    again."""
    fill(mem)
    agent_memory, agent = mem.as_agent("eng-frontend"), mem.store.agents.get("eng-frontend")
    for reach in (Reach(), Reach(("append",)), Reach(("append", "read")), Reach(shell=True)):
        prompt, receipt = made(mem, reach=reach, **more)
        assert ("`synapse " in prompt.memory) == reach.follows_commands
        assert receipt.tokens["view"] == Counter("gpt-5").count(prompt.memory)
        assert 0 < receipt.tokens["view"] <= receipt.budget
        assert derive(agent_memory, load(receipt.dump()), TASK, KEY, TEMPLATES, agent) == prompt


PAYS = {"budget": CRITICALS + MOST, "about": True, "worth": worth(expected("engineer", []))}


@pytest.mark.parametrize("more", [{}, {"about": True}, PAYS, {"budget": 0}, {"budget": 3_000}])
def test_a_prompt_is_made_again_from_the_log(mem, more):
    fill(mem)
    prompt, receipt = made(mem, **more)
    fill(mem, 9)
    agent_memory = mem.as_agent("eng-frontend")
    agent_memory.resolve(receipt.included[0][0]) if receipt.included else None
    again = derive(
        agent_memory,
        load(receipt.dump()),
        TASK,
        KEY,
        TEMPLATES,
        mem.store.agents.get("eng-frontend"),
    )
    assert again == prompt
    assert replay(receipt.prompt, None, lambda: again) == prompt
    assert made(mem, **more)[0] != prompt or not receipt.included


def test_what_came_in_the_same_moment_is_not_taken_in(mem):
    """Another process may write between the end of what was read and the time that was looked
    at.
    """
    fill(mem, 3)
    prompt, receipt = made(mem)
    mem.as_agent("eng-backend").append("Late.", "status/x")
    agent_memory = mem.as_agent("eng-frontend")
    late = receipt._replace(at=mem.store.clock())
    assert (
        derive(agent_memory, late, TASK, KEY, TEMPLATES, mem.store.agents.get("eng-frontend"))
        == prompt
    )
    wider = late._replace(cursor=late.cursor + 9)
    assert (
        derive(agent_memory, wider, TASK, KEY, TEMPLATES, mem.store.agents.get("eng-frontend"))
        != prompt
    )


def test_only_what_the_log_knows_is_replayed():
    kept, other = Prompt("s", "m", "t"), Prompt("s", "m", "other")
    assert replay(kept.sha256, kept, lambda: other) == kept
    assert replay(kept.sha256, other, lambda: kept) == kept
    for stored, told in ((None, "is missing"), (other, f"has {other.sha256[:16]}")):
        with pytest.raises(NotReproducible, match="templates or the workspace's secret") as caught:
            replay(kept.sha256, stored, lambda: other)
        assert told in str(caught.value)
        assert (caught.value.expected, caught.value.found) == (kept.sha256, other.sha256)


def test_a_workspaces_secret_is_in_its_prompts_and_nowhere_in_the_receipt(mem, tmp_path):
    fill(mem)
    key = secret(str(tmp_path))
    prompt, receipt = fit(mem.as_agent("eng-frontend"), order(mem), key, TEMPLATES, COUNTER)
    assert receipt.fence in prompt.memory
    assert key.hex() not in receipt.dump()
