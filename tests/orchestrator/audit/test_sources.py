"""Files of all kinds: of every client, broken ones, and what is no session."""

import json
import os
import random
import socket
from collections import Counter
from pathlib import Path

import pytest

import synapse
from orchestrator.audit import reading, sources
from orchestrator.audit.conversations import Conversations
from orchestrator.audit.figures import figures
from orchestrator.engines.protocol import Call, Turn, Usage
from orchestrator.plugin.transcripts.transcript import spent
from orchestrator.runs.files import ledger
from orchestrator.runs.files import steps as own_steps

SAMPLES = Path(__file__).parents[1] / "plugin/samples"
FILE = "x" * 400


def read(path):
    count, conversations = Counter(), Conversations()
    for client, step in reading.steps(sources.find([str(path)]), count):
        conversations.add(client, step)
    return conversations, count


# -- what real clients wrote -----------------------------------------------------------------------

RECORDED = {
    "claude-code": ("transcript.jsonl", "transcript-agent.jsonl"),
    "codex": ("transcript.jsonl", "transcript-agent.jsonl"),
    "gemini": ("session.jsonl", "subagent.jsonl"),
    "openclaw": ("usage.jsonl",),
}


@pytest.mark.parametrize("client", RECORDED)
def test_what_a_real_client_wrote_is_paid_as_its_hooks_count_it(client):
    for name in RECORDED[client]:
        path = SAMPLES / client / name
        conversations, count = read(path)
        turns = [turn for one in conversations.all.values() for turn in one.turns.values()]
        known = spent(client, str(path))
        assert {one.client for one in conversations.all.values()} == {client}
        assert count["lines broken"] == 0
        assert sum((turn.usage for turn in turns), Usage())[:4] == known.usage[:4]
        assert {turn.model for turn in turns} == {known.model}
        assert len(turns) == known.turns


def test_the_sub_agents_of_real_clients_belong_to_their_sessions():
    for client in ("claude-code", "codex"):
        conversations, _ = read(SAMPLES / client)
        sessions = {one.session for one in conversations.all.values()}
        assert (client, len(sessions)) == (client, 1)
        assert sorted(bool(one.agent) for one in conversations.all.values()) == [False, True]


def test_calls_of_codex_are_named_as_its_hooks_name_them(tmp_path):
    begin = {"type": "session_meta", "payload": {"id": "t", "cwd": "/srv/shop"}}
    rows = [begin, {"type": "turn_context", "payload": {"model": "gpt-5", "cwd": "/srv/shop"}}]

    def call(id, name, arguments, output, kind="function_call", field="arguments"):
        payload = {"type": kind, "call_id": id, "name": name, field: arguments}
        given = {"type": f"{kind}_output", "call_id": id, "output": output}
        for item in (payload, given):
            rows.append({"type": "response_item", "payload": item})
        usage = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 5}
        total = {"input_tokens": 100 * len(rows)}
        info = {"last_token_usage": usage, "total_token_usage": total}
        event = {"type": "token_count", "info": info}
        rows.extend([{"type": "event_msg", "payload": event}] * 2)  # it comes twice

    command = json.dumps({"command": ["bash", "-lc", "cat src/a.py"]})
    call("1", "shell", command, json.dumps({"output": FILE, "metadata": {"exit_code": 0}}))
    call("2", "exec_command", json.dumps({"cmd": "cat src/a.py"}), FILE)
    failed = json.dumps({"output": "no", "metadata": {"exit_code": 1}})
    call("3", "shell", json.dumps({"command": ["make", "test"]}), failed)
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** End Patch"
    call("4", "apply_patch", patch, "ok", "custom_tool_call", "input")
    for minute, row in enumerate(rows):
        row["timestamp"] = f"2026-01-05T10:{minute:02}:00Z"
    (tmp_path / "rollout-1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    conversations, count = read(tmp_path)
    (one,) = conversations.all.values()
    assert [(made.kind, made.path) for made in one.calls] == [("read", "/srv/shop/src/a.py")] * 2
    assert [edit.path for edit in one.edits] == ["/srv/shop/src/a.py"]
    assert [turn.usage[:3] for turn in one.turns.values()] == [(100, 5, 60)] * 4
    (row,) = figures(conversations, count, 0, 0).repeats
    assert (row.kind, row.same, row.all.calls, row.edited.calls) == ("read", True, 1, 1)


def test_a_chat_of_gemini_that_is_one_object(tmp_path):
    call = {"id": "c", "name": "read_file", "args": {"file_path": "a.py"}, "status": "success"}
    given = [{"functionResponse": {"response": {"output": FILE}}}]
    tokens = {"input": 1_000, "output": 9, "cached": 800, "thoughts": 1, "tool": 0}
    reply = {"type": "gemini", "content": "", "model": "gemini-2.5-flash", "tokens": tokens}
    messages = [
        {"id": "1", "type": "user", "content": "Look"},
        reply | {"id": "2", "toolCalls": [call | {"result": given}]},
        reply | {"id": "3", "toolCalls": [call | {"id": "d", "result": given}]},
        reply | {"id": "4", "content": "so"},
    ]
    messages = [each | {"timestamp": "2026-01-05T10:00:00Z"} for each in messages]
    chat = {"sessionId": "s", "projectHash": "f00", "messages": messages}
    for name in ("session-1.json", "session-2.jsonl"):
        (tmp_path / name).write_text(json.dumps(chat, indent=2))
        conversations, count = read(tmp_path / name)
        audit = figures(conversations, count, 0, 0)
        assert audit.paid[:5] == (3, 600, 2_400, 0, 30)
        (row,) = audit.repeats
        assert (row.kind, row.same, row.all[:2]) == ("read", True, (1, 100))


def test_a_session_of_openclaw_that_is_kept_in_a_file(tmp_path):
    cost = {"input": 0.1, "output": 0.1, "cacheRead": 0.1, "cacheWrite": 0.2, "total": 0.5}
    usage = {"input": 100, "output": 20, "cacheRead": 800, "cacheWrite": 50, "cost": cost}

    def reply(*content):
        message = {"role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
        return {"type": "message", "message": message | {"content": list(content)}}

    call = {"type": "toolCall", "name": "read", "arguments": {"path": "a.py"}}
    given = {"role": "toolResult", "content": [{"type": "text", "text": FILE}], "isError": False}
    rows = [{"type": "session", "version": 3, "id": "s", "cwd": "/srv/shop"}]
    for n in range(2):
        rows += [
            {"type": "message", "message": {"role": "user", "content": "Look"}},
            reply(call | {"id": f"c{n}"}),
            {"type": "message", "message": given | {"toolCallId": f"c{n}", "toolName": "read"}},
        ]
    rows += [reply({"type": "text", "text": "so"}), {"type": "compaction"}, {"type": "custom"}]
    for minute, row in enumerate(rows):
        row |= {"timestamp": f"2026-01-05T10:{minute:02}:00Z", "id": f"row{minute}"}
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    conversations, count = read(tmp_path)
    audit = figures(conversations, count, 0, 0)
    assert audit.paid == (3, 300, 2_400, 150, 60, 1.5, 0)
    (row,) = audit.repeats
    assert (row.kind, row.same, row.all[:2]) == ("read", True, (1, 100))


def test_a_run_of_ours_is_read_from_its_steps(tmp_path):
    folder = tmp_path / "runs/eng-1"
    folder.mkdir(parents=True)
    call = Call("c1", "look", {"name": "stock"})
    usage = Usage(1_000, 20, 800, 100)
    line = ledger.Line("eng-1", 0, "eng", "claude-sonnet-4-5", "o200k", "exact", (), (), usage, 0.5)
    turn = Turn("I look", (call,), usage)
    made = [
        own_steps.Step(0, 1, "prompt", {"task": "Look"}),
        own_steps.Step(1, 1, "turn", own_steps.turn(turn, "work_out", ledger.dump(line))),
        own_steps.Step(2, 1, "call", {"call": "c1"}),
        own_steps.Step(3, 1, "result", own_steps.result(call, FILE, "work_obs")),
    ]
    (folder / "steps.jsonl").write_text("".join(map(own_steps.dump, made)))
    (folder / "times.jsonl").write_text(
        "".join(own_steps.dump_time(made[n], 7 + n) for n in (1, 3))
    )
    conversations, count = read(tmp_path)
    (one,) = conversations.all.values()
    assert [made[:2] for made in one.calls] == [(10, "tool")]
    assert figures(conversations, count, 0, 0).paid == (1, 100, 800, 100, 20, 0.5, 0)


def test_a_trace_by_the_conventions_for_generative_ai(tmp_path):
    def span(id, end, **about):
        attributes = [
            {"key": f"gen_ai.{key.replace('__', '.')}",
             "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in about.items()
        ]  # fmt: skip
        return {"spanId": id, "traceId": "t", "endTimeUnixNano": str(end), "attributes": attributes}

    tool = {"operation__name": "execute_tool", "tool__name": "look", "conversation__id": "c"}
    tool |= {"tool__call__arguments": '{"name": "stock"}', "tool__call__result": FILE}
    spans = [
        span("4", 4_000, **tool),
        span("1", 1_000, **tool),
        span("2", 2_000, operation__name="chat", conversation__id="c", agent__name="eng",
             request__model="claude-sonnet-4-5", usage__input_tokens=1_000, usage__output_tokens=20,
             usage__cache_read__input_tokens=800),
        span("5", 5_000, operation__name="chat", conversation__id="c",
             request__model="claude-sonnet-4-5", usage__input_tokens=100, usage__output_tokens=1),
    ]  # fmt: skip
    request = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "trace.json").write_text(json.dumps(request, indent=1))
    conversations, count = read(tmp_path)
    audit = figures(conversations, count, 0, 0)
    assert audit.paid[:5] == (2, 300, 800, 0, 21)
    (row,) = audit.repeats
    assert (row.kind, row.same, row.all[:2]) == ("tool", True, (1, 100))


# -- what is broken --------------------------------------------------------------------------------


@pytest.fixture
def planted(tmp_path, transcript):
    one = transcript("one")
    one.prompt("Look")
    one.read("a.py", FILE, fresh=100)
    one.read("a.py", FILE, fresh=200)
    one.turn(fresh=300)
    return one.write(tmp_path / "sessions")


@pytest.mark.parametrize(
    "junk",
    [
        b'{"type": "user", "mess',
        b"\x00\xff\xfe not text at all {\n",
        b"[1, 2, 3]\nnull\n{}\n",
        b'{"type": "assistant", "message": {"id": 7, "usage": "none"}, "uuid": 1, "sessionId": 1}\n',
        b'{"type": "user", "message": {"content": [7, {"type": "tool_result"}]}}\n',
        b'{"a":' * 100_000 + b"\n",
        b'{"type": "progress", "data": 7, "timestamp": 8}\n',
        b'{"timestamp": "no time", "cwd": 7, "type": "user", "message": []}\n',
    ],
)
def test_what_is_broken_is_left_out_and_the_rest_counts(planted, junk):
    conversations, count = read(planted)
    before = figures(conversations, count, 0, 0)
    whole = planted.read_bytes()
    first, _, rest = whole.partition(b"\n")
    for text in (whole + junk, first + b"\n" + junk.rstrip(b"\n") + b"\n" + rest):
        planted.write_bytes(text)
        conversations, count = read(planted)
        after = figures(conversations, count, 0, 0)
        assert (after.paid, after.repeats, after.calls) == (
            before.paid,
            before.repeats,
            before.calls,
        )


def test_damaged_bytes_stop_nothing(planted):
    whole, draw = planted.read_bytes(), random.Random(7)
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 30)):
            damaged[draw.randrange(len(damaged))] = draw.choice(b'{}[]",:\\0\nn')
        planted.write_bytes(damaged)
        conversations, count = read(planted)
        json.dumps(figures(conversations, count, 0, 0).json())


def test_several_objects_in_one_line_are_all_read(planted):
    lines = planted.read_bytes().splitlines()
    planted.write_bytes(b"".join(lines) + b'{"type": "user", "cut')
    conversations, count = read(planted)
    assert figures(conversations, count, 0, 0).paid.fresh == 600
    assert count["lines broken"] == 1


def test_what_is_no_session_is_passed_over(planted):
    folder = planted.parent
    (folder / "notes.jsonl").write_text('{"text": "nothing of ours"}\n' * 50)
    (folder / "empty.jsonl").touch()
    (folder / "settings.json").write_text('{"a": 1}')
    (folder / "torn.json").write_text('{"a": ')
    (folder / "picture.png").write_bytes(b"\x89PNG")
    os.mkfifo(folder / "pipe.jsonl")
    os.symlink("/etc", folder / "etc")
    os.symlink("/etc/passwd", folder / "passwd.jsonl")
    _, count = read(folder)
    assert (count["files"], count["files unread"]) == (1, 1)


# -- nothing changes, nothing is sent --------------------------------------------------------------


def test_nothing_is_written_and_nothing_is_sent(planted, tmp_path, monkeypatch):
    def refused(*args, **more):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setenv("HOME", str(tmp_path))
    state = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    conversations, count = read(tmp_path)
    assert figures(conversations, count, 0, 0).calls == 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == state


def test_a_workspace_is_read_without_being_opened(tmp_path):
    synapse.init(str(tmp_path / "memory")).close()
    state = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    read(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == state
