"""A week of a team, in virtual time: what short runs are shown of what was decided, while everybody
writes about everything.
"""

from itertools import product

import pytest

import synapse
from orchestrator.prompts.selection import CRITICALS, MOST, Past, expected, worth
from synapse.model.agents import Agent
from synapse.testing import FrozenClock

AGENTS, DAYS, RUNS = 12, 7, 4  # runs of each agent a day
TOPICS = (
    *("retry limit", "page size", "cache lifetime", "upload quota", "batch window", "idle timeout"),
    *("token length", "queue depth", "log rotation", "mail sender", "pool width", "crawl delay"),
)
SHORT = [Past(402, 2)] * 5  # runs of a few hundred tokens, in which nothing pays
RULE = "From now on every change names its ticket."


@pytest.fixture(scope="module")
def week():
    """Yield the prompts of a week: the day, the topic, its value of that day, and the view."""
    clock = FrozenClock()
    mem = synapse.open("memory:", clock=clock)
    mem.register(Agent("cto", "cto"))
    mem.register(Agent("lead", "project-lead"))
    for n in range(AGENTS):
        mem.register(Agent(f"eng-{n}"))
    clock.advance("1s")
    mem.as_agent("cto").append(RULE, "decisions/all", priority="important")
    by = worth(expected("engineer", SHORT))
    prompts, current = [], {}
    for day in range(DAYS):
        for n, topic in enumerate(TOPICS):
            if day % 3 == n % 3:
                body = f"The {topic} is {100 * day + n + 10}."
                entry = mem.as_agent("lead").append(
                    body, "decisions/limits", priority="important", topic=topic
                )
                current[topic] = entry.body
        for turn, n in product(range(RUNS), range(AGENTS)):
            me, topic = mem.as_agent(f"eng-{n}"), TOPICS[(n + turn + day) % len(TOPICS)]
            task = f"Look after the {topic}: make sure that the page of its owners is right."
            view = me.briefing(CRITICALS + MOST, about=task, worth=by)
            prompts.append((day, topic, current.get(topic), view))
            me.append(
                f"Looked after the {topic} on page {day}-{turn}-{n}, and it is fine.", "status/x"
            )
            me.append(f"The owners of the {topic} were asked, round {turn} of {day}.", "projects/x")
            clock.advance("20m")
        clock.advance("8h")
    return prompts


def test_the_current_value_of_the_tasks_topic_is_there(week):
    asked = [(value, view.text) for _, _, value, view in week if value]
    assert len(asked) > 280
    assert sum(value in text for value, text in asked) >= 0.95 * len(asked)


def test_a_decision_to_all_is_there_while_it_is_new(week):
    assert all(RULE in view.text for _, _, _, view in week)


def test_an_earlier_value_never_is(week):
    for _, topic, value, view in week:
        others = [line for line in view.text.splitlines() if f"The {topic} is" in line]
        assert others in ([], [f"  > {value}"])


def test_it_stays_small(week):
    """What is there beside what pays takes about fifty tokens, as a mean."""
    assert sum(view.tokens for *_, view in week) <= 450 * len(week)
