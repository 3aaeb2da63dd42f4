"""The inbox of a person: each thing that only a person can move, once, with what to type."""

from datetime import UTC, datetime

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.reports.rows import Source
from orchestrator.waiting.answers import answer
from orchestrator.waiting.inbox import inbox
from synapse.consolidate import claim, reach, run_nightly
from synapse.model.records import Record
from synapse.testing import FrozenClock
from tests.orchestrator.cli.conftest import nowhere, run

__all__ = ["nowhere", "run"]  # fixtures


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as mem:
        mem.register(synapse.Agent("eng", write=("*",), read=("*",)))
        mem.register(synapse.Agent("junior", write=("*",), review_required=True))
        yield mem


def items(mem):
    return inbox(Source(mem.store, mem.store.root))


def kinds(mem):
    return [(item.kind, item.who, item.text) for item in items(mem)]


def blocked(seen):
    return "It is done." if "vault" in seen.messages[-1].text else "Blocked: no key"


def test_an_empty_workspace_has_nothing(mem):
    assert items(mem) == []


def test_a_tree_that_waits_is_there_with_its_age_and_its_cost(mem):
    with Supervisor(mem, engine=Scripted(blocked)) as boss:
        result = boss.run(Task("Work", "eng", project="web"))
        (item,) = items(mem)
        assert (item.kind, item.who, item.text) == ("blocked", "eng", "no key")
        assert (item.run, item.entry) == (result.run, result.entry)
        assert item.line == f'orchestrator answer {result.entry} "..."'
        assert item.tokens == result.usage.input_tokens + result.usage.output_tokens
        assert item.json(item.at + 90_000_000)["age"] == 90
        source = Source(mem.store, mem.store.root)
        answer(mem, source, result.run, "It is in the vault")
        (item,) = items(mem)
        assert (item.kind, item.line) == ("run", f"orchestrator resume {result.run}")
        assert boss.resume(result.run)[0].done
    assert items(mem) == []


def test_questions_reviews_and_blockers_of_nobody_s_run(mem):
    eng = mem.as_agent("eng")
    asked = eng.append("Blue or green?", "projects/web", to="operator")
    stuck = eng.append("Blocked: no disk", "blockers/web", priority="critical")
    staged = mem.as_agent("junior").append("an idea", "projects/web")
    assert kinds(mem) == [
        ("question", "eng", "Blue or green?"),
        ("blocked", "eng", "no disk"),
        ("review", "junior", "an idea"),
    ]
    assert [item.line for item in items(mem)] == [
        f'orchestrator answer {asked.id} "..."',
        f'orchestrator answer {stuck.id} "..."',
        f"synapse approve {staged.id}",
    ]
    mem.tell("eng", "Blue", re=asked.id)
    mem.as_agent("operator").resolve(stuck.id)
    mem.as_agent("operator").reject(staged.id)
    assert items(mem) == []


def test_a_blocker_below_somebody_who_is_at_work_does_not_wait_for_a_person(world, cast):
    seen = []

    def lead(found):
        calls = {0: (("spawn_agent", {"agent": "eng-a", "task": "Part"}),), 1: (("wait", {}),)}
        if found.turn == 2:
            seen.extend(items(here.mem))
        return Move("", calls[found.turn]) if found.turn in calls else "It is blocked."

    here = world(cast(lead=lead, eng_a=lambda found: "Blocked: no key"))
    here.spawn("Both", "lead", project="web")
    assert seen == []
    assert kinds(here.mem) == [("blocked", "eng-a", "no key")]


def test_runs_that_lack_something_say_what_to_give(mem):
    def begins(id, **needs):
        fields = {
            "run": id,
            "epoch": 1,
            "state": "running",
            "agent": "eng",
            "role": "engineer",
            "project": "web",
            "root": id,
            "depth": 0,
            "holder": "gone",
            "task": "Work",
            "asked": {},
            "engine": "anthropic",
            "needs": needs,
        }
        mem.store.commit.append(Record.new("run", "eng", fields, key=f"run:{id}"))

    engines = {"anthropic": {"kind": "anthropic", "key": "ANTHROPIC_API_KEY"}}
    begins("eng-1", engines=engines)
    begins("eng-2", engines={}, tools={"deploy(target)": "0123456789abcdef"})
    begins("eng-3", engines={})
    assert [(item.kind, item.run, item.line) for item in items(mem)] == [
        ("run", "eng-1", "ANTHROPIC_API_KEY=... orchestrator resume eng-1"),
        ("run", "eng-2", "orchestrator resume eng-2 --tool MODULE:FUNCTION"),
        ("run", "eng-3", "orchestrator resume eng-3"),
    ]
    assert "key ANTHROPIC_API_KEY" in items(mem)[0].text


def test_what_a_workspace_asks_for_waits_for_trust(mem):
    with open(f"{mem.store.root}/synapse.yaml", "a") as file:
        file.write("engines: {near: {kind: openai-chat, base_url: http://127.0.0.1:9}}\n")
    mem.store.refresh(whole=True)
    (item,) = items(mem)
    assert (item.kind, item.line) == ("trust", "synapse trust")


def test_a_night_that_broke_off_is_there(tmp_path):
    """Until it, or a later one, came to its end."""
    at = int(datetime(2026, 2, 1, 9, tzinfo=UTC).timestamp()) * 1_000_000
    moment = FrozenClock(at)
    with synapse.init(str(tmp_path / "ws"), clock=moment) as mem:
        right = claim(mem, "night", "2026-02-01", moment())
        reach(mem, right, "merge", moment())
        assert items(mem) == []
        moment.advance("31m")
        (item,) = items(mem)
        assert (item.kind, item.line) == ("night", "synapse defrag")
        assert "2026-02-01 broke off in its phase merge" in item.text
        run_nightly(mem, "2026-02-01", moment())
        assert items(mem) == []


# -- where it is shown -----------------------------------------------------------------


def test_the_shell_shows_it_in_inbox_and_at_the_end_of_ps(mem, run):
    root = ("--root", mem.store.root)
    assert run(*root, "inbox").out == "nothing waits for you\n"
    assert "waits for you" not in run(*root, "ps").out
    asked = mem.as_agent("eng").append("Blue\x1b[2J?", "projects/web", to="operator")
    line = f'    orchestrator answer {asked.id} "..."\n'
    for verb in ("inbox", "questions", "ps"):
        shown = run(*root, verb).out
        assert shown.endswith(line)
        assert "eng: Blue" in shown
        assert "\x1b" not in shown
    (one,) = run(*root, "inbox", "--json").json["waiting"]
    assert (one["kind"], one["entry"]) == ("question", asked.id)
    assert run(*root, "ps", "--json").json["waiting"][0]["entry"] == asked.id
    assert run(*root, "inbox", "--kind", "run").out == "nothing waits for you\n"
    assert run(*root, "inbox", "--kind", "none").code == 64
