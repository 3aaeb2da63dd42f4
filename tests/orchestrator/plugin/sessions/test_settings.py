"""`clients:` in synapse.yaml: who a client's agents are, and what is said of a mistake."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.plugin.sessions.settings import Clients, clients
from synapse.errors import InvalidEntry
from synapse.model.agents import Agent


def test_the_defaults() -> None:
    assert clients({}) == clients({"clients": None}) == Clients("lead", "engineer", {}, "")


def test_all_of_it() -> None:
    values = {
        "lead": "boss",
        "default": "hand",
        "agents": {"Explore": "scout"},
        "project": "shop",
        "x-mine": 1,
    }
    known = clients({"clients": values})
    assert known == Clients("boss", "hand", {"Explore": "scout"}, "shop")
    agents = {"tester": Agent("tester")}
    assert [
        known.agent_of(type, agents) for type in (None, "Explore", "synapse:tester", "other")
    ] == ["boss", "scout", "tester", "hand"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"leed": "x"}, "there is no key 'leed': did you mean lead?"),
        ({"colour": "x"}, "there is no key 'colour': it is one of lead, default, agents, project"),
        (["lead"], "clients is not valid"),
        ({"agents": "scout"}, "agents is not valid"),
        ({"lead": "The Boss"}, "'The Boss' is no name"),
    ],
)
def test_a_mistake_is_named(values: Any, problem: str) -> None:
    with pytest.raises(InvalidEntry) as error:
        clients({"clients": values})
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("root", "project"),
    [
        ("/w/My Shop/shared-memory", "my-shop"),
        ("/w/memory-of-shop", "memory-of-shop"),
        ("/shared-memory", "general"),
    ],
)
def test_a_project_is_named_after_its_folder(root: str, project: str) -> None:
    assert Clients().project_of(root) == project
