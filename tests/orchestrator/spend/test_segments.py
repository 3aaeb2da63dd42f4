"""What a call is billed as."""

from orchestrator.engines.protocol import Call, Message, Request, Tool, Turn
from orchestrator.runs.files.ledger import Line, Segment, overhead
from orchestrator.spend import segments as bill


def tool(name):
    return Tool(name, "says", {"type": "object", "properties": {}})


REQUEST = Request(
    "You are.",
    (Message("user", "memory", "view"), Message("user", "do it", "task")),
    (tool("read"), tool("deploy")),
)


def labels(segments):
    return {(segment.label, segment.first) for segment in segments}


def test_only_the_memorys_tools_are_coordination():
    found = {segment.label: segment.tokens for segment in bill.sent(REQUEST, 0, len)}
    assert found["tool_schema"] > 0
    assert found["task"] > len("do it")
    assert bill.sent(REQUEST._replace(tools=(tool("deploy"),)), 0, len)[1].label == "task"


def test_what_a_system_text_says_of_the_memory_is_coordination_at_every_turn():
    text = "You are an engineer.\nWhat others wrote is evidence.\n"
    request = REQUEST._replace(system=text)
    guide = len("What others wrote is evidence.\n")
    sheet = bill.Sheet(len, guide)
    first = sheet.sent(request, 0)
    assert first[:2] == (Segment("system", len(text) - guide), Segment("guide", guide))
    said = Message("assistant", "I go on", "work_out")
    later = sheet.sent(request._replace(messages=(*request.messages, said)), 2)
    assert later[:2] == (
        Segment("system", len(text) - guide, False),
        Segment("guide", guide, False),
    )
    line = Line("r", 1, "a", "m", "o200k_base", "exact", first, ())
    assert overhead([line]).coordination == sum(
        s.tokens for s in first if s.label not in ("system", "task")
    )
    assert sum(s.tokens for s in first) == sum(s.tokens for s in bill.sent(request, 0, len))


def test_what_was_sent_before_is_not_new():
    said = Message("assistant", "I read", "work_out", (Call("a", "read", {"limit": 1}),))
    more = REQUEST._replace(
        messages=(*REQUEST.messages, said, Message("tool", "found", "capsule", answers="a"))
    )
    found = labels(bill.sent(more, 2, len))
    assert ("history", False) in found
    assert ("capsule", False) in found  # the call, which was counted when it was made
    assert ("capsule", True) in found  # its result
    assert ("view", True) not in found


def test_a_sheet_counts_each_message_once_and_says_the_same():
    said = [
        Message("assistant", f"turn {n}", "work_out", (Call("a", "read", {"limit": n}),))
        for n in range(4)
    ]
    asked = []

    def count(text):
        asked.append(text)
        return len(text)

    sheet, messages = bill.Sheet(count), REQUEST.messages
    for n, each in enumerate(said):
        request = REQUEST._replace(messages=messages)
        assert sheet.sent(request, n and len(messages) - 2) == bill.sent(
            request, n and len(messages) - 2, len
        )
        messages = (*messages, each, Message("tool", f"found {n}", "capsule", answers="a"))
    texts = [text for text in asked if text != REQUEST.system]
    assert len(texts) == len(REQUEST.tools) + len(REQUEST.messages) + 3 * 3, "each once"
    other = REQUEST._replace(
        messages=(*messages[:3], Message("user", "no, do this", "task")), tools=REQUEST.tools[:1]
    )
    assert sheet.sent(other, 2) == bill.sent(other, 2, len), "counted anew from where it differs"


def test_a_reply_is_counted_by_what_it_asks_for():
    reply = Turn(
        "I read", (Call("a", "read", {}), Call("b", "append", {}), Call("c", "deploy", {}))
    )
    assert {label for label, _ in labels(bill.got(reply, "plan", len))} == {
        "plan",
        "capsule",
        "writeback",
        "work_out",
    }


def test_a_client_without_a_memory_is_told_again():
    found = bill.begun_again(
        (Segment("task", 5, False), Segment("wake", 3), Segment("history", 2, False))
    )
    assert found == (Segment("retry", 7, False), Segment("wake", 3))


def test_who_plans_and_what_tools_are_for():
    assert [bill.said_label(role) for role in ("cto", "engineer")] == ["plan", "work_out"]
    assert [bill.tool_label(name) for name in ("ack", "wait", "deploy")] == [
        "wake",
        "plan",
        "work_obs",
    ]


def test_a_sheet_whose_conversation_got_shorter_counts_what_is_left():
    sheet = bill.Sheet(len)
    said = Message("assistant", "I read", "work_out", (Call("a", "read", {}),))
    longer = REQUEST._replace(messages=(*REQUEST.messages, said))
    sheet.sent(longer, 2)
    assert sheet.sent(REQUEST, 1) == bill.sent(REQUEST, 1, len)
    assert sheet.sent(longer, 3) == bill.sent(longer, 3, len)


def test_a_sheet_of_another_conversation_of_the_same_length_counts_it_anew():
    sheet = bill.Sheet(len)
    sheet.sent(REQUEST, 2)
    other = REQUEST._replace(
        messages=(REQUEST.messages[0], Message("user", "no, do this instead", "task"))
    )
    assert sheet.sent(other, 1) == bill.sent(other, 1, len)
