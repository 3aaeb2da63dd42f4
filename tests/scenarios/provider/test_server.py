"""The model server: every format, streamed or not, says the same; usage, caches, faults and the
journal are exact.
"""

import http.client
import json

import pytest

from orchestrator.engines.scripted import Move
from orchestrator.testing.contract import Fault
from scenarios.provider.formats import Block, Used, pieces
from scenarios.provider.prompt_cache import PromptCache
from tests.model_server import ModelServer

CALLS = Move("I look.", (("read", {"limit": 3}), ("append", {"text": "é" * 50})))
SCHEMA = {"type": "object", "properties": {"limit": {"type": "integer"}}}
MESSAGES = {
    "model": "m",
    "max_tokens": 99,
    "system": "You are.",
    "messages": [{"role": "user", "content": "## Your Task\n\nFix it"}],
    "tools": [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}],
}
RESPONSES = {
    "model": "m",
    "instructions": "You are.",
    "input": "## Your Task\n\nFix it",
    "tools": [{"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA}],
}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "## Your Task\n\nFix it"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA},
        }
    ],
}
GEMINI = {
    "systemInstruction": {"parts": [{"text": "You are."}]},
    "contents": [{"role": "user", "parts": [{"text": "## Your Task\n\nFix it"}]}],
    "tools": [
        {"functionDeclarations": [{"name": "read", "description": "Reads.", "parameters": SCHEMA}]}
    ],
}
FORMATS = {
    "/v1/messages": MESSAGES,
    "/v1/responses": RESPONSES,
    "/v1/chat/completions": CHAT,
    "/v1beta/models/m:generateContent": GEMINI,
}


def post(server, path, body):
    connection = http.client.HTTPConnection(
        "127.0.0.1", int(server.url.rpartition(":")[2]), timeout=10
    )
    try:
        connection.request("POST", path, json.dumps(body), {"X-Mine": "1"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def asked(server, path, body):
    status, text, _ = post(server, path, body)
    assert status == 200, text
    return json.loads(text)


def streamed(text):
    """The data of the events."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("path", FORMATS)
def test_a_script_sees_the_same_in_every_format(path):
    seen = []
    with ModelServer(lambda found: seen.append(found) or "Done.", count=len) as server:
        asked(server, path, FORMATS[path])
    found = seen[0]
    assert (found.system, [message.label for message in found.messages]) == ("You are.", ["task"])
    assert [(tool.name, tool.description, tool.schema) for tool in found.tools] == [
        ("read", "Reads.", SCHEMA)
    ]


def test_every_format_calls_several_tools_streamed_or_not():
    arguments = [json.dumps(arguments) for _, arguments in CALLS.calls]
    with ModelServer(lambda seen: CALLS, count=len) as server:
        whole = asked(server, "/v1/messages", MESSAGES)
        assert [part["type"] for part in whole["content"]] == ["text", "tool_use", "tool_use"]
        events = streamed(post(server, "/v1/messages", {**MESSAGES, "stream": True})[1])
        found = [
            e["delta"].get("partial_json", "") for e in events if e["type"] == "content_block_delta"
        ]
        assert json.loads("".join(found).partition("}")[0] + "}") == json.loads(arguments[0])
        assert events[-1]["type"] == "message_stop"

        output = asked(server, "/v1/responses", RESPONSES)["output"]
        assert [json.loads(item["arguments"]) for item in output[1:]] == [
            json.loads(each) for each in arguments
        ]
        events = streamed(post(server, "/v1/responses", {**RESPONSES, "stream": True})[1])
        again = events[-1]["response"]["output"]
        assert [item.get("arguments") for item in again] == [
            item.get("arguments") for item in output
        ]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))

        choice = asked(server, "/v1/chat/completions", CHAT)["choices"][0]
        assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == [
            "read",
            "append",
        ]
        text = post(server, "/v1/chat/completions", {**CHAT, "stream": True})[1]
        assert text.endswith("data: [DONE]\n\n")

        path = "/v1beta/models/m:streamGenerateContent"
        last = streamed(post(server, f"{path}?alt=sse", GEMINI)[1])
        assert (
            sum(
                "functionCall" in part
                for each in last
                for part in each["candidates"][0]["content"]["parts"]
            )
            == 2
        )
        assert asked(server, path, GEMINI)[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("path", FORMATS)
def test_usage_is_what_was_sent_and_said(path):
    with ModelServer(lambda seen: "Done.", count=len) as server:
        found = asked(server, path, FORMATS[path])
    schema = json.dumps(
        {"name": "read", "description": "Reads.", "schema": SCHEMA}, separators=(",", ":")
    )
    sent = len(schema) + len("You are.") + len("## Your Task\n\nFix it")
    usage = found.get("usage") or found["usageMetadata"]
    assert [value for value in usage.values() if value in (sent, 5)][:2] == [sent, 5]


def test_counting_says_what_using_it_takes():
    with ModelServer() as server:
        counted = asked(server, "/v1/messages/count_tokens", MESSAGES)["input_tokens"]
        assert asked(server, "/v1/messages", MESSAGES)["usage"]["input_tokens"] == counted
        assert asked(server, "/v1/responses/input_tokens", RESPONSES)["input_tokens"] == counted
        assert asked(
            server, "/v1beta/models/m:countTokens", {"generateContentRequest": GEMINI}
        ) == {"totalTokens": counted}


def test_a_namespaced_tool_is_called_by_its_name_and_its_namespace():
    tools = [
        {
            "type": "namespace",
            "name": "mcp__synapse",
            "tools": [{"type": "function", "name": "read"}],
        }
    ]
    with ModelServer(lambda seen: Move("", ((seen.tools[0].name, {}),)), count=len) as server:
        item = asked(server, "/v1/responses", {**RESPONSES, "tools": tools})["output"][0]
        assert (item["namespace"], item["name"]) == ("mcp__synapse", "read")
        said = {"type": "function_call_output", "call_id": item["call_id"], "output": "nothing"}
        asked(server, "/v1/responses", {**RESPONSES, "tools": tools, "input": [item, said]})


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_stands_in_the_input_takes_a_text(stream):
    tools = [
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    ]
    given = [{"type": "additional_tools", "role": "developer", "tools": tools}]
    script = "text(await tools.read({}))"

    def runs(seen):
        return (
            Move("", ((seen.tools[0].name, {"input": script}),))
            if seen.turn == 0
            else seen.messages[-1].text
        )

    with ModelServer(runs, count=len) as server:
        asked_for = {
            "model": "m",
            "input": [*given, {"role": "user", "content": "run it"}],
            "stream": stream,
        }
        status, text, _ = post(server, "/v1/responses", asked_for)
        assert status == 200
        item = json.loads(text)["output"][0] if not stream else _items(text)[0]
        assert (item["type"], item["name"], item["namespace"]) == (
            "custom_tool_call",
            "exec",
            "functions",
        )
        assert item["input"] == script
        answer = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "42"}
        last = asked(
            server, "/v1/responses", {**asked_for, "stream": False, "input": [*given, item, answer]}
        )
        assert last["output"][0]["content"][0]["text"] == "42"


def _items(stream):
    events = [
        json.loads(line.removeprefix("data: "))
        for line in stream.splitlines()
        if line.startswith("data: ")
    ]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def test_what_one_agent_writes_to_another_is_a_message():
    sealed = [
        {"type": "input_text", "text": "Payload:"},
        {"type": "encrypted_content", "encrypted_content": "Read a."},
    ]
    with ModelServer(lambda seen: seen.messages[-1].text, count=len) as server:
        given = [
            {"type": "agent_message", "author": "lead", "recipient": "reader", "content": sealed}
        ]
        reply = asked(server, "/v1/responses", {"model": "m", "input": given})
    assert reply["output"][0]["content"][0]["text"] == "Payload:\nRead a."


def test_the_journal_has_whole_requests():
    with ModelServer(count=len) as server:
        body = {**CHAT, "messages": [{"role": "user", "content": "x" * 200_000}]}
        asked(server, "/v1/chat/completions", body)
        taken = server.journal[0]
    assert (taken.path, taken.body, taken.headers["x-mine"]) == ("/v1/chat/completions", body, "1")


@pytest.mark.parametrize("path", FORMATS)
def test_a_fault_meets_one_request(path):
    with ModelServer(lambda seen: "Done.", count=len) as server:
        server.fail(Fault("status", 429, retry_after=2), Fault("context"), Fault("status", 529))
        found = [post(server, path, FORMATS[path]) for _ in range(4)]
    assert [status for status, _, _ in found] == [429, 400, 529, 200]
    assert found[0][2]["retry-after"] == "2"


def test_a_fault_that_there_is_not_is_told():
    with ModelServer(count=len) as server, pytest.raises(ValueError, match="no fault 'drpo'"):
        server.fail(Fault("drpo"))


def test_what_is_wrong_is_told():
    with ModelServer(lambda seen: seen.nothing, count=len) as server:
        assert post(server, "/v1/messages", MESSAGES)[0] == 400
        assert post(server, "/v1/messages", {"model": "m"})[0] == 400
        assert post(server, "/v1/nowhere", {})[0] == 404


WRONG = (
    [{"type": "text", "text": " "}],
    [{"type": "tool_result", "tool_use_id": "nobody's"}],
    [{"type": "thinking", "thinking": "mine", "signature": "forged"}],
    [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5,
)


@pytest.mark.parametrize("content", WRONG)
def test_the_messages_are_checked_as_the_provider_does(content):
    with ModelServer(count=len) as server:
        status, text, _ = post(
            server, "/v1/messages", {**MESSAGES, "messages": [{"role": "user", "content": content}]}
        )
    assert (status, json.loads(text)["error"]["type"]) == (400, "invalid_request_error")


def test_a_cache_is_read_up_to_an_earlier_mark():
    cache = PromptCache(len, 4)
    first = (Block("system", "12345", True), Block("user", "678", True))
    assert cache.use("m", first, "ab", marked=True) == Used(0, 0, 8, 2)
    more = (
        *first[:1],
        Block("user", "678"),
        Block("assistant", "9"),
        Block("user", "0", True),
        Block("user", "!"),
    )
    assert cache.use("m", more, "", marked=True) == Used(1, 8, 2, 0)
    assert cache.use("other", more, "", marked=True).read == 0
    assert cache.use("m", (Block("user", "123", True),), "", marked=True) == Used(3, 0, 0, 0)


def test_a_mark_finds_nothing_more_than_twenty_blocks_back():
    cache = PromptCache(len, 0)
    start = Block("user", "start", True)
    cache.use("m", (start,), "", marked=True)
    for between, read in ((18, 5), (19, 0)):
        rest = [Block("user", f"{between}") for _ in range(between)]
        found = cache.use(
            "m", (start._replace(mark=False), *rest, Block("user", "end", True)), "", marked=True
        )
        assert found.read == read


def test_what_nobody_marks_is_cached_in_steps():
    cache = PromptCache(len, 0)
    prompt = (Block("system", "x" * 300), Block("user", "y"))
    assert cache.use("m", prompt, "", marked=False) == Used(301, 0, 0, 0)
    assert cache.use("m", (*prompt, Block("user", "z")), "", marked=False) == Used(46, 256, 0, 0)


@pytest.mark.parametrize("text", ["", "x", "xy", "x" * 33, "é" * 5_000])
def test_pieces_make_the_text_again(text):
    found = list(pieces(text))
    assert "".join(found) == text
    assert len(found) <= 41
    assert len(found) > 1 or len(text) < 2
