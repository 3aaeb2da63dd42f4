"""Who is blocked: by its own report or its own word, and who hears of it."""

import sys
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines import clients
from orchestrator.engines.process import Process
from orchestrator.engines.protocol import load
from orchestrator.engines.scripted import Move
from tests.model_server import ModelServer

TRANSCRIPTS = Path(__file__).parent / "engines" / "transcripts"


def test_a_reported_blocker_blocks_until_it_is_resolved(world):
    def script(seen):
        if seen.turn == 0:
            return Move("", (("report_blocker", {"text": "The API key is missing"}),))
        return "I cannot go on."

    here = world(script)
    result = here.spawn("Work", "eng-a", project="web")
    assert result.status == "blocked"
    entry = here.mem.as_agent("boss").get(result.entry)
    assert (entry.namespace, entry.priority, entry.author) == ("blockers/web", "critical", "eng-a")
    assert len(here.mem.as_agent("operator").read(namespace="blockers/*")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Blocked users can log in again.",
        "I was blocked but solved it.",
        "The build is green. Blocked: nothing any more.",
        "All is done.\n\nBlocked: the second page, which was not asked for.",
        "Blocked requests: 12 of 4,000.",
        "`Blocked: 403` stands on the page now, as asked.",
        '"Blocked: x" is what it prints.',
        "## Unblocked: the login",
        "Blocked: none\nDone: all of it",
        "Blocked: none. All is done.",
        "Blocked: nothing; the page is drawn.",
    ],
)
def test_prose_about_blockers_blocks_nothing(world, text):
    assert world(lambda seen: text).spawn("Work", "eng-a").status == "done"


@pytest.mark.parametrize(
    "text",
    [
        "Blocked: no access to the images",
        "**Blocked:** no access to the images",
        "**Blocked**: no access to the images",
        "**Blocked: no access to the images**",
        "# BLOCKED: no access to the images",
        "blocked: no access\nto the images",
        "`Blocked:` no access to the images",
        "\n\n---\n## Blocked:\n\nno access to the images\n\nI looked in the usual places.",
        "Blocked: no access to the images\n\nI looked in the usual places.",
    ],
)
@pytest.mark.parametrize("tools", ["never", "always"])
def test_who_says_that_it_is_blocked_is_blocked(world, text, tools):
    """With the tool that reports it or without: the words alone do."""
    here = world(lambda seen: text, memory_tools=tools)
    result = here.spawn("Draw the page", "eng-a", project="web")
    assert (result.status, result.why, result.text) == ("blocked", "no access to the images", text)
    (entry,) = here.mem.as_agent("operator").read()
    assert (entry.id, entry.namespace, entry.priority) == (result.entry, "blockers/web", "critical")
    assert entry.body == "Blocked: no access to the images"
    assert here.run(result).status == "blocked"


def ends_blocked(root, engine):
    """Whether a run on this engine, without tools for the memory, ends blocked by its own words, on
    record."""
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("eng-a"))
        with Supervisor(memory, engine=engine) as supervisor:
            result = supervisor.run(Task("Work", "eng-a", project="web", folder=str(root)))
            (entry,) = memory.as_agent("operator").read(
                namespace="blockers/web", priority="critical"
            )
            recorded = supervisor.run_store.known(result.run).status
            return (result.status, recorded, result.entry) == ("blocked", "blocked", entry.id)


@pytest.mark.parametrize("name", ["anthropic", "openai", "openai-chat"])
def test_on_every_engine_with_a_model(tmp_path, name):
    with ModelServer(lambda seen: "Blocked: no key") as server:
        url = server.url if name == "anthropic" else f"{server.url}/v1"
        assert ends_blocked(tmp_path / "ws", load(name, base_url=url, api_key="k", model="m"))


@pytest.mark.parametrize(
    "client", [clients.CLAUDE_CODE, clients.CODEX, clients.GEMINI, clients.OPENCLAW, None]
)
def test_on_every_engine_with_a_client(tmp_path, client):
    """It prints what the real one did, with other words; a plain command prints the words."""
    said = "Blocked: no key, seen "
    if client is not None:
        ends = "json" if client.form == "json" else "jsonl"
        text = (TRANSCRIPTS / f"{client.name}-{client.verified}-first.{ends}").read_text()
        said = text.replace("Said after ", said)
        assert said != text
    (tmp_path / "said").write_text(said)
    script = "import sys; sys.stdout.write(open(sys.argv[1]).read())"
    command = [sys.executable, "-c", script, str(tmp_path / "said")]
    assert ends_blocked(
        tmp_path / "ws", Process(command, client=client, env={"HOME": str(tmp_path)})
    )


def test_a_blocker_is_reported_once_however_often_it_is_said(world):
    """By the tool, whose words begin with `Blocked:` too, and again as the last message."""

    def script(seen):
        if seen.turn == 0:
            return Move("", (("report_blocker", {"text": "**Blocked:** no key"}),))
        return "Blocked: no key."

    here = world(script)
    result = here.spawn("Work", "eng-a", project="web")
    (entry,) = here.mem.as_agent("operator").read()
    assert (result.status, result.entry, entry.body) == ("blocked", entry.id, "Blocked: no key")


def test_what_blocks_an_agent_wakes_who_reads_it(world):
    def script(seen):
        if " eng-a" in seen.system.split("\n")[0]:
            return Move("Blocked: no key", takes=20)
        return (
            "heard"
            if any(message.label == "wake" for message in seen.messages)
            else Move("Working", takes=600)
        )

    here = world(script, memory_tools="never")
    spawned = []

    async def other():
        spawned.append(await here.supervisor.spawn(Task("Other work", "eng-b", project="web")))

    assert here.spawn("Work", "eng-a", project="web", also=[other()]).status == "blocked"
    assert [result.text for result in spawned] == ["heard"]
    assert here.time.elapsed < 60


def test_every_prompt_says_how_to_report_that_one_is_blocked(world):
    for tools, words in (
        ("never", "end with `Blocked:` and what is missing"),
        ("always", "call report_blocker"),
    ):
        seen = []
        world(lambda found, seen=seen: seen.append(found) or "ok", memory_tools=tools).spawn(
            "Work", "eng-a"
        )
        assert words in seen[0].system


# -- parents and children --------------------------------------------------------------


def test_a_lead_that_waits_hears_at_once_of_a_child_that_is_blocked(world, cast):
    """While another one still works; nothing wakes it."""
    seen = []

    def lead(found):
        seen.append(found)
        if found.turn == 0:
            return Move(
                "",
                tuple(
                    ("spawn_agent", {"agent": name, "task": "Part"}) for name in ("eng-a", "eng-b")
                ),
            )
        return Move("", (("wait", {}),)) if found.turn < 3 else "Both have ended."

    works = {
        "eng_a": lambda found: "Blocked: no key",
        "eng_b": lambda found: Move("B is done.", takes=1_000),
    }
    here = world(cast(lead=lead, **works), memory_tools="never")
    here.mem.register(synapse.Agent("lead", role="project-lead", notify=()))
    result = here.spawn("Both", "lead", project="web")
    told = seen[2].messages[-1].text
    a, b = (
        next(run.id for run in here.supervisor.run_store.runs.all() if run.agent == name)
        for name in ("eng-a", "eng-b")
    )
    assert f"- run {a} (eng-a): blocked, syn-" in told
    assert f"Still at work: {b}." in told
    assert seen[3].messages[-1].text.count("B is done.") == 1
    assert "no key" not in seen[3].messages[-1].text
    assert (result.status, result.text) == ("blocked", "Both have ended.")


def test_a_lead_at_work_hears_of_a_child_that_is_blocked_before_its_next_turn(world, cast):
    seen = []

    def lead(found):
        seen.append(found)
        calls = {0: (("spawn_agent", {"agent": "eng-a", "task": "Part"}),), 1: (("busy", {}),)}
        return (
            Move("", calls.get(found.turn, ()), takes=10)
            if found.turn < 2
            else "Blocked: eng-a has no key"
        )

    here = world(cast(lead=lead, eng_a=lambda found: "Blocked: no key"), memory_tools="never")
    here.mem.register(synapse.Agent("lead", role="project-lead", notify=()))
    result = here.spawn("Both", "lead", project="web")
    texts = [message.text for message in seen[2].messages if message.label == "plan"]
    assert any(
        "Work that you gave to others is blocked:" in text and "no key" in text for text in texts
    )
    assert seen[-1].text.count("(eng-a): blocked") == 1
    assert result.status == "blocked"


def test_a_lead_is_not_done_while_a_blocker_below_it_stands(world, cast):
    """Its word alone does not settle it; an entry that supersedes the blocker does, at any
    level."""

    def lead(settles):
        def script(found):
            blockers = [
                entry.id for entry in here.mem.as_agent("operator").read(namespace="blockers/web")
            ]
            if found.turn == 2 and settles:
                note = {
                    "namespace": "blockers/web",
                    "body": "It has a key now",
                    "supersedes": blockers[0],
                }
                return Move("", (("append", note),))
            calls = {0: (("spawn_agent", {"agent": "eng-a", "task": "Part"}),), 1: (("wait", {}),)}
            return Move("", calls[found.turn]) if found.turn in calls else "All is done."

        return script

    def supervisor(found):
        calls = {0: (("spawn_agent", {"agent": "lead", "task": "All"}),), 1: (("wait", {}),)}
        return Move("", calls[found.turn]) if found.turn in calls else "The project is done."

    def engineer(found):
        return "Done: with its key" if "It has a key now" in found.text else "Blocked: no key"

    for settles, status in ((False, "blocked"), (True, "done")):
        here = world(cast(boss=supervisor, lead=lead(settles), eng_a=engineer))
        result = here.spawn("Build it", "boss", project="web")
        runs = {run.agent: run for run in here.supervisor.run_store.runs.all()}
        assert {name: run.status for name, run in runs.items()} == dict.fromkeys(
            ("boss", "lead", "eng-a"), status
        )
        assert result.status == status
        critical = here.mem.as_agent("operator").read(namespace="blockers/*", priority="critical")
        assert len(critical) == (0 if settles else 1)
        if not settles:
            assert result.entry == critical[0].id
            assert runs["eng-a"].id in runs["lead"].fields["why"]
            (told,) = here.mem.as_agent("operator").read(namespace="status/web", author="lead")
            assert (told.priority, told.body[:40]) == (
                "info",
                "Blocked: work that it gave out is blocke",
            )


def test_a_tool_that_was_not_offered_reports_all_the_same(world):
    """Nothing of it is sent, and whoever calls it has said that it is blocked."""
    seen = []

    def script(found):
        seen.append(found)
        return (
            Move("", (("report_blocker", {"text": "no access"}),))
            if found.turn == 0
            else "I stopped."
        )

    here = world(script, memory_tools="never")
    result = here.spawn("Work", "eng-a", project="web")
    assert (result.status, seen[0].tools) == ("blocked", ())
    assert here.mem.as_agent("operator").get(result.entry).body == "Blocked: no access"
