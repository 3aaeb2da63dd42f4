import pytest

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from synapse.model.agents import ROLES, Agent, Skill, authority_in, settled
from synapse.model.settings import Settings, settled_settings

# The specification's tables, 4.3 and 5.2: who writes, who reads, and how much each role counts. All
# read status/*:
# what came of a task stands in status/PROJECT, and an engineer that read its department's alone
# would see none of it.
WRITES = {
    "projects/brain": {"cto", "project-lead", "engineer"},
    "decisions/x": {"cto", "project-lead"},
    "blockers/x": set(ROLES),
    "status/brain": set(ROLES),
}
READS = {
    "projects/brain": set(ROLES),
    "decisions/x": set(ROLES),
    "blockers/x": set(ROLES),
    "status/brain": set(ROLES),
}


def who(table, right):
    agents = {role: settled(Agent("a", role=role, department="frontend")) for role in ROLES}
    return {
        place: {
            role for role, agent in agents.items() if ns.matches_any(getattr(agent, right), place)
        }
        for place in table
    }


def test_roles_have_the_rights_of_the_specification():
    assert who(WRITES, "write") == WRITES
    assert who(READS, "read") == READS
    assert {role: settled(Agent("a", role=role)).authority for role in ROLES} == {
        "cto": 100,
        "project-lead": 80,
        "engineer": 60,
        "specialist": 40,
    }


@pytest.mark.parametrize(
    "membership", [{"department": "x"}, {"teams": ("x",)}, {"projects": ("x",)}]
)
def test_a_member_reads_and_writes_in_what_it_belongs_to(membership):
    agent = settled(Agent("a", read=(), write=(), **membership))
    own = () if agent.projects else ("groups/x",)
    for place in ("status/x", "blockers/x/ui", "projects/x", *own):
        assert ns.matches_any(agent.reads, place)
        assert ns.matches_any(agent.writes, place)
    for place in ("status/y", "decisions/x", "api/x", "agents/b", *(() if own else ("groups/x",))):
        assert not ns.matches_any(agent.reads, place)
        assert not ns.matches_any(agent.writes, place)
    assert agent.names == {"agent:a", "team:x"}


def test_who_works_on_a_project_has_its_places_and_not_its_name():
    """Else whoever may begin a run would be in each team that it names as a project."""
    agent = settled(Agent("a", read=(), write=(), projects=("p",)))
    assert agent.joined("p") == agent.joined(None) == agent
    joined = agent.joined("a/b")
    assert ns.matches_any(joined.reads, "status/a/b")
    assert ns.matches_any(joined.writes, "blockers/a/b")
    assert not ns.matches_any(joined.reads, "groups/a/b")
    assert joined.names == agent.names


def test_an_unknown_role_gets_an_engineer_s_rights():
    found = settled(Agent("a", role="poet", department="x"))
    assert found == settled(Agent("a", department="x"))._replace(role="poet")


def test_what_is_declared_comes_before_the_role():
    found = settled(
        Agent("a", role="cto", authority=0, read=(), write="api/*, team/*", notify="critical,info")
    )
    assert (found.authority, found.read, found.write, found.notify) == (
        0,
        (),
        ("api/*", "team/*"),
        ("critical", "info"),
    )


def test_settling_twice_changes_nothing():
    once = settled(
        Agent(
            "a", teams="x,y", skills=[Skill("db", 70, "api/*")], department="", projects=["p", "p"]
        )
    )
    assert settled(once) == once
    assert (once.teams, once.projects, once.department) == (("x", "y"), ("p",), None)
    assert once.skills[0].namespaces == ("api/*",)
    hash(once)


@pytest.mark.parametrize(
    "more",
    [
        {"id": "A"},
        {"id": ""},
        {"id": "operator"},
        {"id": "consolidator"},
        {"id": "all"},
        {"id": "../x"},
        {"id": "a/b"},
        {"authority": 101},
        {"authority": -1},
        {"read": ("../*",)},
        {"write": "API/*"},
        {"notify": ("urgent",)},
        {"teams": ("A",)},
        {"department": "a/b"},
        {"projects": ("..",)},
        {"skills": (Skill("x", 101, ("api/*",)),)},
        {"skills": (Skill("x", 50, ("**",)),)},
    ],
)
def test_what_cannot_be_declared(more):
    with pytest.raises(InvalidEntry):
        settled(Agent(**({"id": "eng-a"} | more)))


def test_names_are_the_agent_its_teams_and_its_projects():
    agent = settled(Agent("a", department="d", teams=("t",), projects=("p",)))
    assert agent.names == {"agent:a", "team:d", "team:t", "team:p"}
    assert Agent("a").rank == 0


def test_authority_in_a_namespace():
    agent = settled(
        Agent(
            "a",
            skills=(
                Skill("db", 90, ("db/*",)),
                Skill("sql", 70, ("db/sql",)),
                Skill("no", 0, ("ui",)),
            ),
        )
    )
    assert [authority_in(agent, place) for place in ("db", "db/sql", "ui", "api")] == [
        90,
        90,
        0,
        60,
    ]
    assert [authority_in(a, "db", flat=True) for a in (agent, settled(Agent("c", role="cto")))] == [
        60,
        100,
    ]


def test_settings_are_checked():
    good = Settings(ttl=(("api/*", "1d"),), staging_ttl="never")
    assert settled_settings(good) is good
    assert dict(good.ttl) == {"api/*": "1d"}
    for wrong in (
        Settings(ttl=(("API", "1d"),)),
        Settings(ttl=(("api", "soon"),)),
        Settings(staging_ttl="x"),
    ):
        with pytest.raises(InvalidEntry):
            settled_settings(wrong)
