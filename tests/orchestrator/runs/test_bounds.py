"""Whom an agent may give work to, and in which project."""

import pytest

from orchestrator.runs import bounds
from synapse.model.agents import Agent, Skill

SHOP = ("projects/shop/*",)
LEAD = Agent("lead", authority=40, read=SHOP, write=SHOP)


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (Agent("a", authority=40, read=SHOP, write=SHOP), ""),
        (Agent("a", authority=41, read=SHOP, write=SHOP), "it has authority 41, and you have 40"),
        (Agent("a", authority=10, read=("hr/*",), write=SHOP), "it may read hr/*, and you may not"),
        (
            Agent("a", authority=10, read=SHOP, write=("hr/*",)),
            "it may write hr/*, and you may not",
        ),
    ],
)
def test_who_has_more_than_the_giver_is_beyond_it(agent, why):
    assert bounds.beyond(LEAD, agent) == why


def test_who_is_of_its_team_may_have_rights_of_its_own():
    lead = LEAD._replace(department="web")
    agent = Agent("a", department="web", authority=10, read=("hr/*",))
    assert bounds.beyond(lead, agent) == ""
    assert bounds.beyond(LEAD, agent) == "it may read hr/*, and you may not"


def test_a_project_that_it_may_not_write_is_foreign():
    assert bounds.foreign(LEAD, "shop", "shop") == ""
    assert bounds.foreign(LEAD._replace(write=("*",)), "shop", "bank") == ""
    why = bounds.foreign(LEAD, "shop", "bank")
    assert why.startswith("you may not write ")
    assert why.endswith("/bank; name shop, or leave the project out")


def test_who_writes_unreviewed_is_beyond_a_giver_who_is_reviewed():
    agent = Agent("a", authority=10, read=SHOP, write=SHOP)
    reviewed = LEAD._replace(review_required=True)
    why = "what you write is reviewed, and what it writes is not"
    assert bounds.beyond(reviewed, agent) == why
    assert bounds.beyond(reviewed, agent._replace(review_required=True)) == ""
    assert bounds.beyond(LEAD, agent._replace(review_required=True)) == ""


def test_skills_count_for_one_of_another_team_unless_all_are_equal():
    skilled = Agent("a", authority=10, read=SHOP, write=SHOP, skills=(Skill("web", 60, SHOP),))
    why = "it has authority 60, and you have 40"
    assert bounds.beyond(LEAD, skilled) == why
    assert bounds.beyond(LEAD, skilled, flat=True) == ""
    team = {"department": "web"}
    assert bounds.beyond(LEAD._replace(**team), skilled._replace(**team)) == ""


def test_a_result_is_read_by_who_reads_the_status_of_its_project():
    assert bounds.may_read_result(Agent("a", read=("status/shop",)), "shop") is True
    assert bounds.may_read_result(Agent("a", read=SHOP), "shop") is False
