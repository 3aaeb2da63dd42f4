import pytest

from synapse.system.spelling import closest, hint

ROLES = ("cto", "project-lead", "engineer", "specialist")
AGENTS = ("cto", "lead", "eng-backend", "eng-frontend", "qa")


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("CTO", ROLES, "cto"),
        ("project_lead", ROLES, "project-lead"),
        ("Project-Lead", ROLES, "project-lead"),
        ("lead", ROLES, "project-lead"),
        ("enginer", ROLES, "engineer"),
        ("wizard", ROLES, None),
        ("eng-frontent", AGENTS, "eng-frontend"),
        ("frontend", AGENTS, "eng-frontend"),
        ("leed", AGENTS, "lead"),
        ("eng", AGENTS, None),
        ("bob", AGENTS, None),
        ("x", (), None),
    ],
)
def test_the_closest_name(name, names, meant):
    assert closest(name, names) == meant
    assert hint(name, names, "else") == (f"did you mean {meant}?" if meant else "else")
