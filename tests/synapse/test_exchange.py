import json
import time

import pytest

import synapse
from synapse import Conflict, InvalidEntry, InvalidQuery
from synapse.formats import codec
from synapse.model.agents import Agent
from synapse.testing import FrozenClock


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
        mem.register(Agent("lead", role="cto"))
        mem.register(Agent("junior", write=("api/*",), review_required=True))
        me = mem.as_agent("eng-a")
        first = me.append("Grüße 🧠\n\n---\nnot: front matter", "api/x", tags=["a"], topic="t")
        me.append("newer\u2028line", "api/x", supersedes=first.id)
        filed = me.append("filed away", "api/x")
        me.archive(filed.id)
        staged = mem.as_agent("junior").append("approved", "api/x")
        mem.as_agent("junior").append("waits", "api/x")
        mem.as_agent("lead").approve(staged.id)
        me.read(mark=True)
        yield mem


@pytest.fixture
def lines(mem):
    return [*mem.export()]


def opened(kind, address):
    return (
        synapse.open("memory:", clock=FrozenClock())
        if kind == "memory"
        else synapse.init(address, clock=FrozenClock())
    )


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_copy_is_the_same(mem, lines, kind, tmp_path):
    address = str(tmp_path / "copy")
    with opened(kind, address) as copy:
        assert copy.import_(lines, believe=True) == len(lines)
        assert copy.digest() == mem.digest()
        assert [*copy.export()] == lines
        assert [e.body for e in copy.as_agent("eng-a").read()] == [
            e.body for e in mem.as_agent("eng-a").read()
        ]
        assert copy.agents() == mem.agents()
        assert copy.verify().ok
        assert copy.rebuild().digest == mem.digest()
    if kind == "files":
        with synapse.open(address, clock=FrozenClock()) as again:
            assert again.digest() == mem.digest()
            assert [*again.export()] == lines
            assert again.as_agent("eng-a").append("goes on", "api/x").seq == len(lines) + 1


def test_ids_go_on_behind_those_taken_over(mem, lines):
    with synapse.open("memory:", clock=FrozenClock()) as copy:
        copy.import_(lines, believe=True)
        assert (
            copy.as_agent("eng-a").append("text", "api/x").id
            == mem.as_agent("eng-a").append("text", "api/x").id
        )


def test_ids_of_others_go_out_and_in_again(tmp_path):
    """By way of a log in memory, which must number its lines as the files did."""
    with synapse.init(str(tmp_path / "w"), clock=FrozenClock("2026-02-01T23:59:59Z")) as mem:
        mem.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
        me = mem.as_agent("eng-a")
        ids = ("syn-65b2f0c4a1d3e5f607182930", "syn-2026-02-01-007", "syn-2026-01-31-005")
        for id in (None, *ids, None):
            entry = me.append("text", "api/x")
            if id:
                path = tmp_path / f"w/entries/api/x/{id}.md"
                path.write_text(
                    codec.render(entry._replace(id=id, body="dropped")), encoding="utf-8"
                )
        time.sleep(0.25)
        mem.store.refresh(whole=True)
        assert {mem.as_agent("eng-a").get(id).body for id in ids} == {"dropped"}
        mem.store.clock.advance("1s")
        me.append("the next day", "api/x")
        lines = [*mem.export()]
        with synapse.open("memory:", clock=mem.store.clock) as copy:
            copy.import_(lines, believe=True)
            assert [*copy.export()] == lines
            assert (
                copy.as_agent("eng-a").append("more", "api/x").id == me.append("more", "api/x").id
            )


def test_every_line_is_json_and_one_line(lines):
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)


def test_lines_may_end_as_windows_has_it_and_be_apart(mem, lines):
    with synapse.open("memory:") as copy:
        copy.import_([line.replace("\n", "\r\n") for line in lines] + ["\n", "  \n"], believe=True)
        assert copy.digest() == mem.digest()


def broken(lines):
    yield "a line is missing", lines[:3] + lines[4:]
    yield "two are swapped", [lines[1], lines[0], *lines[2:]]
    yield "one is twice", [*lines[:2], lines[1], *lines[2:]]
    yield "a word was changed", [line.replace("newer", "older") for line in lines]
    yield "a right was changed", [line.replace("api/*", "*") for line in lines]
    yield "it is no JSON", [*lines[:2], "{", *lines[2:]]
    yield "it is no record", [json.dumps({"seq": 1}) + "\n"]
    yield "it is cut within a line", [*lines[:-1], lines[-1][:-20]]


def test_what_is_no_whole_export_is_not_taken_in_at_all(lines, tmp_path):
    for place, (why, wrong) in enumerate(broken(lines)):
        for copy in (synapse.open("memory:"), synapse.init(str(tmp_path / f"{place}"))):
            with copy:
                with pytest.raises(InvalidEntry, match="nothing was imported"):
                    copy.import_(wrong)
                assert (why, [*copy.export()]) == (why, [])


def test_an_export_goes_only_into_an_empty_workspace(mem, lines):
    with pytest.raises(Conflict, match="init"):
        mem.import_(lines, believe=True)
    with synapse.open("memory:") as empty:
        assert empty.import_([]) == 0


@pytest.mark.parametrize("generation", ["A", "B", "C"])
def test_entries_for_other_readers(mem, generation):
    found = [
        json.loads(line) for line in "".join(mem.export(generation)).removesuffix("\n").split("\n")
    ]
    texts = [each["content"] if generation == "C" else each["text"] for each in found]
    assert len(found) == 4
    assert any("Grüße 🧠" in text for text in texts)
    assert not any("waits" in text for text in texts)
    if generation != "C":
        assert all(each["path"].startswith("entries/api/x/syn-") for each in found)


def test_no_other_generation(mem):
    with pytest.raises(InvalidQuery, match="generation"):
        [*mem.export("D")]


@pytest.mark.parametrize("generation", ["A", "B"])
def test_what_was_exported_can_be_dropped_elsewhere(mem, generation, tmp_path):
    with synapse.init(str(tmp_path / "w")) as other:
        other.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
        for line in mem.export(generation):
            each = json.loads(line)
            path = tmp_path / "w" / each["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each["text"], encoding="utf-8")
        time.sleep(0.25)
        other.store.refresh(whole=True)
        bodies = {entry.body for entry in other.as_agent("operator").read()}
        assert {"newer\u2028line", "filed away"} <= bodies
