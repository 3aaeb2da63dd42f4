"""A plan.md that people write and edit: each version is an entry, and the file stays theirs."""

import os

import pytest

import synapse
from synapse.errors import InvalidEntry
from synapse.log import adopt
from synapse.log.adopt import Channel
from synapse.model.entry import Draft

PLAN = "entries/projects/shop/plan.md"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Whatever is dropped is adopted at the next look, however new it is."""
    monkeypatch.setattr(adopt, "SETTLED", -1)


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "shared")) as memory:
        memory.register(synapse.Agent("lead", role="project-lead"))
        memory.register(synapse.Agent("eng", role="engineer"))
        yield memory


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "shared" / PLAN
    path.parent.mkdir(parents=True)
    return path


def plans(memory):
    memory.store._looked = -1
    return [
        entry
        for entry in memory.as_agent("eng").read(namespace="projects/shop")
        if entry.topic == "plan"
    ]


def records(memory):
    return [
        record for record in memory.store.log.since(0) if record.kind in ("entry", "quarantine")
    ]


def test_a_plain_plan_becomes_the_project_s_plan(memory, plan):
    plan.write_text("# Plan\n\n1. build\n")
    (entry,) = plans(memory)
    assert (entry.author, entry.namespace, entry.priority) == (
        "operator",
        "projects/shop",
        "important",
    )
    assert (entry.body, entry.ttl, entry.authority, entry.trust) == (
        "# Plan\n\n1. build",
        "90d",
        80,
        "local",
    )
    assert plan.read_text() == "# Plan\n\n1. build\n", "it stays as it was written"
    assert (plan.parent / f"{entry.id}.md").exists()
    assert memory.verify().ok


def test_an_edit_is_an_entry_in_its_place(memory, plan):
    plan.write_text("one")
    (one,) = plans(memory)
    plan.write_text("one\ntwo")  # in place: no folder changes
    (two,) = plans(memory)
    assert (two.body, two.replaces, two.author) == ("one\ntwo", (one.id,), "operator")
    other = plan.parent / "draft"
    other.write_text("one\ntwo\nthree")
    os.rename(other, plan)  # as editors do
    (three,) = plans(memory)
    assert three.replaces == (two.id,)
    plan.write_text("one")  # back to what it was: a version of its own
    (four,) = plans(memory)
    assert (four.body, four.replaces) == ("one", (three.id,))
    assert len(records(memory)) == 4
    assert memory.verify().ok
    assert not memory.store.log.mirror.exists("quarantine/x")


def test_one_version_is_taken_once_whoever_looks(memory, plan, tmp_path):
    plan.write_text("one")
    plans(memory)
    for _ in range(3):
        with synapse.open(str(tmp_path / "shared")) as other:
            plans(other)
            other.as_agent("eng").append("the folder changes", "projects/shop")
            plans(other)
    os.unlink(tmp_path / "shared" / ".index" / "seen")
    with synapse.open(str(tmp_path / "shared")) as other:
        assert len(plans(other)) == 1
    assert sum(record.fields.get("topic") == "plan" for record in records(memory)) == 1


def test_an_edit_between_two_processes_is_seen_by_the_next(memory, plan, tmp_path):
    plan.write_text("one")
    plans(memory)
    memory.store.log.scanner._save()
    plan.write_text("two")
    with synapse.open(str(tmp_path / "shared")) as other:
        assert [entry.body for entry in plans(other)] == ["two"]


def test_a_plan_may_say_who_it_is_from_later(memory, plan):
    plan.write_text("one")
    (one,) = plans(memory)
    head = "---\nfrom: lead\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n---\n\n"
    plan.write_text(f"{head}two\n")
    (two,) = plans(memory)
    assert (two.author, two.body, two.replaces, two.topic) == ("lead", "two", (one.id,), "plan")


def test_a_lead_s_plan_entry_is_not_undone_by_a_file_that_nobody_edited(memory, plan):
    plan.write_text("one")
    (one,) = plans(memory)
    memory.as_agent("lead").append("by the lead", "projects/shop", topic="plan", supersedes=one.id)
    assert [entry.body for entry in plans(memory)] == ["by the lead"]
    plan.unlink()
    assert [entry.body for entry in plans(memory)] == ["by the lead"]


def test_of_another_user_s_plan_nobody_knows_who_wrote_it(memory):
    draft = Draft("one", "projects/shop", "", "important", topic="plan")
    with pytest.raises(InvalidEntry, match="from is missing"):
        memory.store._admit_drop(draft, Channel(None, 54_321, False))


@pytest.mark.parametrize(
    "name", ["entries/notes/plan.md", "entries/projects/shop/notes.md", "entries/projects/plan.md"]
)
def test_other_files_need_their_front_matter(memory, tmp_path, name):
    path = tmp_path / "shared" / name
    path.parent.mkdir(parents=True)
    path.write_text("# no front matter")
    plans(memory)
    assert not path.exists()
    assert records(memory)[-1].kind == "quarantine"


def test_a_plan_with_front_matter_is_an_entry_as_it_stands(memory, plan):
    plan.write_text(
        "---\nid: syn-2026-02-01-001\nfrom: lead\ntimestamp:"
        " 2026-02-01T01:00:00Z\npriority: info\n---\n\nby hand\n"
    )
    (entry,) = plans(memory)
    assert (entry.id, entry.author, entry.topic) == ("syn-2026-02-01-001", "lead", "plan")
    assert [path.name for path in plan.parent.iterdir()] == ["plan.md"]


def test_an_empty_plan_is_waited_for(memory, plan):
    plan.write_text("")
    assert plans(memory) == []
    plan.write_text("now")
    assert [entry.body for entry in plans(memory)] == ["now"]
