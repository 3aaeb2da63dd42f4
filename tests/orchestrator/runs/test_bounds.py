"""Whom an agent may give work to, and in which project."""

import pytest

from orchestrator.runs import bounds
from synapse.model.agents import Agent

SHOP = ("projects/shop/*",)
LEAD = Agent("lead", authority=40, read=SHOP, write=SHOP)


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (Agent("a", authority=40, read=SHOP, write=SHOP), ""),
        (
            Agent("a", authority=41, read=SHOP, write=SHOP),
            "it has authority 41, and you have 40",
        ),
        (
            Agent("a", authority=10, read=("hr/*",), write=SHOP),
            "it may read hr/*, and you may not",
        ),
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
