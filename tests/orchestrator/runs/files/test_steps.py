"""The recorded conversation: what its lines add up to."""

from orchestrator.engines.protocol import Call, Message, Turn, Usage
from orchestrator.prompts.render import Prompt
from orchestrator.runs.files import steps
from orchestrator.runs.files.steps import Step


def recorded(*lines):
    return [Step(n, 1, kind, fields) for n, (kind, fields) in enumerate(lines)]


ASKED = Turn(
    "I look.",
    (Call("a", "read", {"limit": 1}), Call("b", "append", {})),
    "tools",
    Usage(9, 3),
    "m",
    [1],
    "s",
)
BEGINNING = (
    ("prompt", Prompt("You are.", "## Shared Memory Context", "## Your Task")._asdict()),
    ("turn", steps.turn(ASKED, "work_out", "{}")),
)


def test_lines_survive_their_text():
    found = recorded(*BEGINNING, ("result", steps.result(ASKED.calls[0], "x\u2028y\n", "capsule")))
    assert steps.read([steps.dump(step) for step in found]) == found
    assert steps.read([*map(steps.dump, found), '{"n": 3, "ki']) == found
    assert steps.turn_of(found[1].fields["turn"]) == ASKED


def test_a_conversation_goes_on_where_it_stopped():
    began = recorded(*BEGINNING, ("call", {"call": "a"}))
    found = steps.conversation(began)
    assert [call.id for call in found.pending] == ["a", "b"]
    assert found.in_flight == {"a"}
    assert (found.session, found.next) == ("s", 3)
    done = steps.conversation(
        [*began, Step(3, 1, "result", steps.result(ASKED.calls[0], "one", "work_obs"))]
    )
    assert [call.id for call in done.pending] == ["b"]
    assert not done.in_flight
    assert done.messages[-1] == Message("tool", "one", "work_obs", answers="a")


def test_an_empty_memory_block_is_no_message():
    found = steps.conversation(recorded(("prompt", Prompt("s", "", "## Your Task")._asdict())))
    assert [message.label for message in found.messages] == ["task"]


def test_nothing_recorded_is_a_conversation_not_begun():
    assert steps.conversation([]).next == 0


def test_what_a_stale_incarnation_wrote_counts_nothing():
    def line(n, epoch, kind, **fields):
        return steps.dump(steps.Step(n, epoch, kind, fields))

    lines = [line(0, 1, "prompt"), line(1, 1, "message", text="a")]
    unseen = line(2, 1, "message", text="written while another took over")
    later = [
        line(2, 2, "attempt"),
        line(3, 1, "message", text="and after"),
        line(3, 2, "message", text="b"),
    ]
    found = steps.read([*lines, unseen, *later])
    assert [(step.n, step.epoch) for step in found] == [(0, 1), (1, 1), (2, 2), (3, 2)]
    assert steps.read([line(0, 1, "prompt"), line(0, 2, "prompt")])[0].epoch == 2
