"""A command as an engine: what it is given, what is made of what it says, and how it ends."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest

from orchestrator.engines import protocol
from orchestrator.engines.process import ClaudeCode, Process
from orchestrator.engines.protocol import (
    Broken,
    Message,
    Place,
    Rejected,
    Request,
    Unavailable,
    Usage,
)

CLIENT = [sys.executable, str(Path(__file__).with_name("client.py"))]
RULES = (
    {"when": {"type": "begin"}, "session": "session"},
    {
        "when": {"type": "end"},
        "text": "text",
        "cost": "cost",
        "input": ["used.in"],
        "output": ["used.out"],
        "cached": ["used.cached"],
        "blocked": "blocked",
    },
)


def user(text, label="task"):
    return Message("user", text, label)


def said(text):
    return Message("assistant", text, "work_out")


def take(request, **options):
    options = {
        "command": CLIENT,
        "form": "lines",
        "rules": RULES,
        "resume": ["--resume", "{session}"],
        **options,
    }
    command = options.pop("command")
    if isinstance(request, str):
        request = Request("", (user(request),))
    return asyncio.run(Process(command, **options).step(request, asyncio.Event()))


def test_a_step_is_a_session():
    turn = take("say this")
    assert (turn.text, turn.stop, turn.session, turn.blocked) == ("say this", "done", "s-1", None)
    assert turn.usage == Usage(100, 7, 40, cost=0.25)


def test_any_command_is_an_engine():
    turn = take("one\ntwo", command=["cat"], form="text", rules=(), resume=())
    assert (turn.text, turn.session, turn.usage) == ("one\ntwo", None, Usage(estimated=True))
    turn = take("one two", command=["echo", "[{prompt}]"], form="text", rules=(), resume=())
    assert turn.text == "[one two]"
    assert take("", command=["cat"], form="text", rules=(), resume=()).stop == "empty"


def test_it_is_found_by_name():
    made = protocol.load("process", command=["cat"])
    assert (made.name, made.interrupt, made.takes_tools, made.resumes) == (
        "process",
        "turn",
        False,
        False,
    )
    assert protocol.load("codex").name == "codex"
    for options in (
        {},
        {"command": ["cat"], "permissions": "some"},
        {"command": ["cat"], "report": True},
    ):
        with pytest.raises(Rejected):
            protocol.load("process", **options)


def test_the_prompt_is_all_that_was_said():
    request = Request(
        "You are X.", (user("memory", "view"), user("do it"), said("half done"), user("go on"))
    )
    assert (
        take(request).text
        == "You are X.\n\nmemory\n\ndo it\n\n## Your Earlier Output\n\nhalf done\n\ngo on"
    )


def test_a_resumed_session_is_told_what_it_does_not_know():
    request = Request(
        "You are X.", (user("do it"), said("half done"), user("go on")), session="s-9"
    )
    turn = take(request)
    assert (turn.text, turn.session) == ("go on", "s-9")
    assert "do it" in take(request, resume=()).text


def test_a_lost_session_starts_again():
    client = protocol.load("claude-code").client._replace(
        lost="no such session", resume=("--resume", "{session}")
    )
    request = Request("", (user("do it"), said("half done"), user("go on")), session="lost")
    made = Process(
        CLIENT,
        client=client._replace(
            start=(), system=(), model=(), rules=(*Process(["x"], rules=RULES).client.rules,)
        ),
    )
    turn = asyncio.run(made.step(request, asyncio.Event()))
    assert turn.text.startswith("do it\n\n## Your Earlier Output")
    assert turn.anew
    kept = asyncio.run(made.step(request._replace(session="s-9"), asyncio.Event()))
    assert (kept.text, kept.anew) == ("go on", False)


def test_totals_become_what_the_step_used():
    totals = Process(CLIENT, rules=RULES, form="lines", resume=["--resume", "{session}"])
    totals.client = totals.client._replace(totals=True)
    first = asyncio.run(totals.step(Request("", (user("say"),)), asyncio.Event()))
    assert (first.session, first.usage.input_tokens) == ("s-1 100,7,40,0", 100)
    second = asyncio.run(
        totals.step(Request("", (user("say"),), session="s-1 90,5,40,0"), asyncio.Event())
    )
    assert (second.usage, second.session) == (Usage(10, 2, 0, cost=0.25), "s-1 100,7,40,0")


def test_a_prompt_of_any_length_goes_by_standard_input():
    text = "say " + "word " * 400_000
    assert take(text).text == text
    with pytest.raises(Rejected, match="too long for an argument"):
        take(text, command=["echo", "{prompt}"])


def test_what_is_filled_in_is_not_filled_again():
    assert (
        take("{session} {root}", command=["echo", "{prompt}"], form="text").text
        == "{session} {root}"
    )


def test_its_environment_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNAPSE_AGENT", "another")
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("MY_PROVIDER_KEY", "mine")
    place = Place(
        str(tmp_path), {"SYNAPSE_ROOT": "/memory", "SYNAPSE_AGENT": "eng-a", "SYNAPSE_RUN": "r:1"}
    )
    request = Request("", (user("env"),), place=place)
    env = json.loads(take(request, keep=["MY_PROVIDER_*"], env={"SET": "it"}).text)
    assert {name: value for name, value in env.items() if name.startswith("SYNAPSE")} == dict(
        place.env
    )
    assert (env["MY_PROVIDER_KEY"], env["SET"]) == ("mine", "it")
    assert {"CLAUDECODE", "SOME_TOKEN"} & set(env) == set()
    assert os.path.exists(os.path.join(env["PATH"].split(os.pathsep)[0], "synapse"))


def test_garbage_is_passed_over():
    assert take("garbage and more").text == "garbage and more"


def test_a_huge_line_is_no_message():
    assert take("huge").text == "huge"


@pytest.mark.parametrize(
    ("prompt", "options", "kind", "told"),
    [
        ("fail", {}, Broken, "failed with exit code 3: .*it broke"),
        ("fail busy", {}, Unavailable, "slow down"),
        ("nothing", {"rules": ({"when": {"type": "end"}},)}, Broken, "nothing that can be read"),
        ("say", {"command": ["no-such-client"]}, Rejected, "no-such-client is not there to be run"),
        ("flood", {"limit": 1_000_000, "grace": 0.1}, Broken, "said over 1000000 bytes"),
        ("hang", {"timeout": 0.5, "grace": 0.1}, Broken, "did not end within 0.5 s"),
    ],
    ids=["exit", "busy", "nothing", "missing", "flood", "timeout"],
)
def test_what_goes_wrong_is_said(prompt, options, kind, told):
    with pytest.raises(kind, match="(?s)" + told):
        take(prompt, **options)


def test_a_missing_preset_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    made = ClaudeCode(command=["claude-that-is-not-there"])
    with pytest.raises(Rejected, match="npm install -g @anthropic-ai/claude-code"):
        asyncio.run(made.step(Request("", (user("hello"),)), asyncio.Event()))


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(Rejected, match="cannot be started"):
        take(Request("", (user("say"),), place=Place(str(tmp_path / "none"))))


def test_cancelled_it_leaves_its_output_and_nothing_else(tmp_path):
    place = Place(str(tmp_path), output=str(tmp_path / "output"))
    output = tmp_path / "output"
    output.write_text('{"type": "to')  # an earlier one, torn

    async def cancelled():
        made = Process(CLIENT, form="lines", rules=RULES, grace=0.5)
        step = asyncio.create_task(
            made.step(Request("", (user("hang"),), place=place), asyncio.Event())
        )
        while b'"begin"' not in output.read_bytes():
            await asyncio.sleep(0.01)
        since = time.monotonic()
        step.cancel()
        await asyncio.wait([step])
        return step.cancelled(), time.monotonic() - since

    was, took = asyncio.run(asyncio.wait_for(cancelled(), 20))
    assert was
    assert took < 15  # of 20: it does not hang
    assert [line[:14] for line in output.read_text().splitlines()] == [
        '{"type": "to',
        '{"type": "begi',
    ]
    turn = take(Request("", (user("say"),), place=place))
    assert turn.text == "say"


def test_thirty_at_once():
    async def together():
        made = Process(["cat"])
        requests = [Request("", (user(f"number {number}"),)) for number in range(30)]
        return await asyncio.gather(*(made.step(request, asyncio.Event()) for request in requests))

    before = len(os.listdir("/dev/fd"))
    assert [turn.text for turn in asyncio.run(together())] == [
        f"number {number}" for number in range(30)
    ]
    assert len(os.listdir("/dev/fd")) == before
