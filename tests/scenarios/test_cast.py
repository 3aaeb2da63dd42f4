"""How the cast goes about its work: as its tools ask, no more often than its policy says."""

import pytest

from orchestrator.engine import Call, Message, Tool
from orchestrator.engines.scripted import Seen
from scenarios.cast import Player, Policy
from synapse.tools import TOOLS

TASK = "Bring it up to date.\nTask: part-1\nNeeds: {needs}\nFindings go to: projects/survey (important)\nSteps: {steps}"
FOUND = "The port of service 1 is a1b2c3d."
ASKED = next(tool.description for tool in TOOLS if tool.name == "append")


def seen(asked=ASKED, needs="the port of service 1", steps=2, *then):
    """What a worker sees that has just found a port out by itself."""
    call = Call("call-0", "investigate", {"subject": "the port of service 1"})
    told = (
        Message("user", TASK.format(needs=needs, steps=steps), "task"),
        Message("assistant", "", "work_out", (call,)),
        Message("tool", f"Looked about.\n{FOUND}", "work_obs", answers="call-0"),
    )
    tools = [Tool("append", asked, {}), *(Tool(name, "", {}) for name in ("work", "investigate", "submit", "claim"))]
    return Seen("You are eng-1, an engineer", (*told, *then), tuple(tools))


def called(move):
    return [name for name, _ in move.calls]


def test_a_note_is_written_beside_the_next_call():
    move = Player(Policy(), 1)(seen())
    assert called(move) == ["append", "work"]
    assert move.calls[0][1]["body"] == FOUND
    other = Player(Policy(claims=False), 1)(seen(needs="the port of service 1; the port of service 2"))
    assert called(other) == ["append", "investigate"]


def test_where_the_tool_does_not_ask_for_that_it_takes_a_turn_of_its_own():
    assert called(Player(Policy(), 1)(seen("Write memory"))) == ["append"]


def test_who_has_to_wait_writes_it_down_before():
    """Another is finding out the second port, and nothing else is left to do."""
    taken = (
        Message("assistant", "", "work_out", (Call("call-1", "claim", {"work": "find out the port of service 2"}),)),
        Message("tool", "eng-2 is at it.", "capsule", answers="call-1"),
    )
    move = Player(Policy(), 1)(seen(ASKED, "the port of service 1; the port of service 2", 0, *taken))
    assert called(move) == ["append"]


@pytest.mark.parametrize("asked", [ASKED, "Write memory"])
def test_what_is_known_is_written_once(asked):
    note = {"namespace": "projects/survey", "body": FOUND, "priority": "important"}
    told = (
        Message("assistant", "", "work_out", (Call("call-1", "append", note),)),
        Message("tool", "Written.", "writeback", answers="call-1"),
    )
    assert called(Player(Policy(), 1)(seen(asked, "the port of service 1", 2, *told))) == ["work"]


def test_how_often_it_does_as_it_is_asked_is_a_chance():
    def moves(**policy):
        return {tuple(called(Player(Policy(**policy), seed)(seen()))) for seed in range(99)}

    assert moves(beside=0.5) == {("append", "work"), ("append",)}
    assert moves(tool_use=0.5) == {("append", "work"), ("work",)}
