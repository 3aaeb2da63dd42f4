"""The moment that an entry is for: what may be written, and which calls are that moment."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.errors import InvalidEntry
from synapse.log.adopt import SETTLED
from synapse.model.conditions import check, is_due, is_for_a_moment, parse
from synapse.model.entry import Draft, Entry
from synapse.model.kinds import FACT
from tests.examples import examples


def entry(when, priority="info", kind="entry"):
    return Entry(
        "syn-2026-02-01-001",
        "lead",
        "",
        "api",
        priority,
        "Run the whole suite first.",
        "7d",
        when=when,
        kind=kind,
    )


@pytest.fixture
def mem():
    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("lead", role="project-lead"))
        yield mem


@pytest.mark.parametrize(
    ("when", "call", "arguments"),
    [
        ("tool:deploy", "deploy", {}),
        ("spawn", "spawn_agent", {"agent": "eng-a"}),
        ("run git push", "shell", {"command": "git push origin main"}),
        ("run git push", "shell", {"command": "cd api && git -C web push --force"}),
        ("run git push", "bash", {"cmd": ["git", "push"]}),
        ("run git push", "bash", {"script": "set -e\nif x; then 'git' push; fi"}),
        ("edit api/**", "edit_file", {"path": "api/users.py"}),
        ("edit api/**", "edit_file", {"path": "./api/v2/users.py", "text": "x"}),
        ("edit api/**", "edit_file", {"path": "/srv/web/api/users.py"}),
        ("edit api/**", "edit_files", {"edits": [{"path": "web/../api/a.py"}]}),
        ("edit *.sql", "edit_file", {"path": "db/schema.sql"}),
        ("edit api/*/users_*.py", "edit_file", {"path": "api/v2/users_test.py"}),
        ("edit /etc/*", "edit_file", {"path": "/etc/hosts"}),
        ("tool:a, spawn , run git push", "spawn_agent", {}),
    ],
)
def test_a_call_that_is_the_moment(when, call, arguments):
    assert is_due(entry(when), call, arguments)


@pytest.mark.parametrize(
    ("when", "call", "arguments"),
    [
        ("tool:deploy", "deploy_all", {}),
        ("spawn", "shell", {"command": "spawn"}),
        ("run git push", "shell", {"command": "git pull; push"}),
        ("run git push", "shell", {"command": "push git"}),
        ("run git push", "note", {"text": "never git push"}),
        ("edit api/**", "edit_file", {"path": "apis/users.py"}),
        ("edit api/**", "note", {"text": "do not touch api/users.py today"}),
        ("edit api/**", "note", {"text": "api/users.py is not to be touched"}),
        ("edit *.sql", "edit_file", {"path": "db/schema.sql.bak"}),
        ("edit /etc/*", "edit_file", {"path": "/srv/etc/hosts"}),
        ("edit api/*", "edit_file", {"path": "api/v2/users.py"}),
        ("some old text", "deploy", {}),
        (None, "deploy", {}),
    ],
)
def test_a_call_that_is_not(when, call, arguments):
    assert not is_due(entry(when), call, arguments)


@pytest.mark.parametrize(
    "when",
    [
        "before git push",
        "run",
        "edit",
        "edit a b",
        "tool:",
        "tool:a b",
        "spawn me",
        "run x,,",
        "run a\x1b[1m",
    ],
)
def test_what_names_no_moment_says_what_to_write(mem, when):
    with pytest.raises(
        InvalidEntry, match=r"is not valid: write tool:NAME, run git push, edit api/\*\*, spawn"
    ):
        parse(when)
    if ",," not in when:
        with pytest.raises(InvalidEntry, match="write tool:NAME"):
            mem.as_agent("lead").append("Wait.", "decisions/web", when=when)


@given(
    st.text(max_size=60),
    st.text(max_size=40),
    st.dictionaries(st.sampled_from(["cmd", "path", "x"]), st.text() | st.none()),
)
@examples(100)
def test_no_text_does_harm(when, call, arguments):
    found = entry(when)
    assert is_due(found, call, arguments) in (True, False)
    assert is_for_a_moment(found) in (True, False)


@given(
    st.lists(st.sampled_from(["a", "b", "**", "*"]), min_size=1, max_size=5),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=6),
)
def test_globs_match_as_their_definition_says(glob, parts):
    def matches(glob, parts):
        if not glob:
            return not parts
        if glob[0] == "**":
            return any(matches(glob[1:], parts[at:]) for at in range(len(parts) + 1))
        return bool(parts) and glob[0] in ("*", parts[0]) and matches(glob[1:], parts[1:])

    expected = any(matches(glob, parts[at:]) for at in range(len(parts)))
    assert is_due(entry("edit " + "/".join(glob)), "edit", {"path": "/".join(parts)}) is expected


@given(
    st.text("ab*", min_size=1, max_size=6).filter(lambda glob: "**" not in glob),
    st.text("ab", min_size=1, max_size=6),
)
@examples(400)
def test_a_star_is_any_text_within_a_part(glob, name):
    expected = re.fullmatch(glob.replace("*", ".*"), name) is not None
    assert is_due(entry(f"edit {glob}"), "edit", {"path": name}) is expected


@pytest.mark.parametrize(("length", "due"), [(4_096, True), (4_097, False)])
def test_a_text_longer_than_any_path_is_none(length, due):
    path = f"api/{'x' * (length - 4)}"
    assert is_due(entry("edit api/*"), "edit", {"path": path}) is due


@pytest.mark.parametrize(
    ("when", "priority", "held"),
    [
        ("run git push", "info", True),
        ("run git push", "important", True),
        ("run git push", "critical", False),
        (None, "info", False),
        ("some old text", "info", False),  # of an older version, which took any text
    ],
)
def test_what_waits_for_its_moment_is_not_critical_and_names_one(when, priority, held):
    assert is_for_a_moment(entry(when, priority)) is held


@pytest.mark.parametrize("when", [None, "some old text"])
def test_what_names_no_moment_is_never_due(when):
    assert is_due(entry(when), "deploy", {}) is False


def test_it_is_written_and_read_again(tmp_path):
    with synapse.init(str(tmp_path)) as mem:
        mem.register(synapse.Agent("lead", role="project-lead"))
        agent_memory = mem.as_agent("lead")
        one = agent_memory.append("Wait.", "decisions/web", when="run git push")
        two = agent_memory.append("Wait.", "decisions/web", when=["tool:deploy", "spawn"])
        assert [agent_memory.get(each.id).when for each in (one, two)] == [
            "run git push",
            "tool:deploy, spawn",
        ]
        path = next(tmp_path.glob(f"entries/**/{one.id}.md"))
        assert "when: run git push" in path.read_text()


def test_a_dropped_file_may_have_a_list_and_a_wrong_one_is_quarantined(tmp_path):
    with synapse.init(str(tmp_path)) as mem:
        mem.register(synapse.Agent("lead", role="project-lead"))
        folder = tmp_path / "entries" / "decisions" / "web"
        folder.mkdir(parents=True)
        for name, when in (("one", "[run git push, spawn]"), ("two", "before lunch")):
            fields = "from: lead\ntimestamp: 2026-02-01T00:00:00Z\nnamespace: decisions/web"
            text = f"---\nid: syn-{name}\n{fields}\npriority: info\nwhen: {when}\n---\nWait.\n"
            (folder / f"{name}.md").write_text(text)
        mem.store.refresh(whole=True)
        time.sleep(SETTLED + 0.05)
        mem.store.refresh(whole=True)
        (found,) = mem.as_agent("lead").read(namespace="decisions/web")
        assert found.when == "run git push, spawn"
        reports = [
            path.read_text() for path in (tmp_path / "quarantine").rglob("*") if path.is_file()
        ]
        assert any("write tool:NAME" in report for report in reports)


def test_who_keeps_a_time_there_is_left_alone():
    assert not is_for_a_moment(entry("2026-02-01T00:00:00Z", kind=FACT))
    check(Draft("x", "global", "lead", when="2026-02-01T00:00:00Z", kind=FACT))


def test_a_view_without_moments_leaves_it_to_its_moment(mem):
    agent_memory = mem.as_agent("lead")
    soon = agent_memory.append(
        "Run the suite first.", "decisions/web", priority="important", when="run git push"
    )
    now = agent_memory.append(
        "Nobody pushes.", "decisions/web", priority="critical", when="run git push"
    )
    both = agent_memory.briefing()
    assert {each.id for each in both.included} == {soon.id, now.id}
    view = agent_memory.briefing(moments=False)
    assert [each.id for each in view.included] == [now.id]
    assert [(each.id, "when" in each.reason) for each in view.left_out] == [(soon.id, True)]
    assert "Left out" not in view.text
