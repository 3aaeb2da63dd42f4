"""How the cast goes about its work: as its tools ask, no more often than its policy says."""

import pytest

from orchestrator.engines.protocol import Call, Message, Tool
from orchestrator.engines.scripted import Seen
from scenarios.play.agents.cast import Player
from scenarios.play.agents.part import Policy
from scenarios.play.agents.worker import ASKS
from synapse.tools import TOOLS

TASK = (
    "Bring it up to date.\nTask: part-1\nNeeds: {needs}\nFindings go to: projects/survey"
    " (important)\nSteps: {steps}"
)
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
    tools = [
        Tool("append", asked, {}),
        *(Tool(name, "", {}) for name in ("work", "investigate", "submit", "claim")),
    ]
    return Seen("You are eng-1, an engineer", (*told, *then), tuple(tools))


def called(move):
    return [name for name, _ in move.calls]


def test_a_note_is_written_beside_the_next_call():
    move = Player(Policy(), 1)(seen())
    assert called(move) == ["append", "work"]
    assert move.calls[0][1]["body"] == FOUND
    other = Player(Policy(claims=False), 1)(
        seen(needs="the port of service 1; the port of service 2")
    )
    assert called(other) == ["append", "investigate"]


def test_where_the_tool_does_not_ask_for_that_it_takes_a_turn_of_its_own():
    assert called(Player(Policy(), 1)(seen("Write memory"))) == ["append"]


def test_who_has_to_wait_writes_it_down_before():
    """Another is finding out the second port, and nothing else is left to do."""
    taken = (
        Message(
            "assistant",
            "",
            "work_out",
            (Call("call-1", "claim", {"work": "find out the port of service 2"}),),
        ),
        Message("tool", "eng-2 is at it.", "capsule", answers="call-1"),
    )
    move = Player(Policy(), 1)(
        seen(ASKED, "the port of service 1; the port of service 2", 0, *taken)
    )
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


# -- What degraded agents do -----------------------------------------------------------

NEED = "the port of service 1"
TOOLS_OF_MEMORY = ("work", "investigate", "submit", "claim", "memory_search")


def at_work(*then, needs=NEED, steps=0, tools=TOOLS_OF_MEMORY, view=""):
    """What a worker sees that has found out nothing yet."""
    shown = (Message("user", view, "view"),) if view else ()
    task = Message("user", TASK.format(needs=needs, steps=steps), "task")
    return Seen(
        "You are eng-1, an engineer",
        (*shown, task, *then),
        tuple(Tool(name, "", {}) for name in tools),
    )


def answered(number, name, arguments, text, label):
    call = Call(f"call-{number}", name, arguments)
    return Message("assistant", "", "work_out", (call,)), Message(
        "tool", text, label, answers=call.id
    )


def refused(times, work=f"find out {NEED}"):
    return [
        message
        for n in range(times)
        for message in answered(n, "claim", {"work": work}, "eng-2 is at it.", "capsule")
    ]


def test_an_answer_that_does_not_come_is_not_waited_for():
    """Whoever was told again and again that another is at it does it itself: it never polls."""
    for asked in range(ASKS):
        move = Player(Policy(), 1)(at_work(*refused(asked)))
        assert called(move) == ["claim", "memory_search"]
    assert called(Player(Policy(), 1)(at_work(*refused(ASKS)))) == ["investigate"]


def test_who_reads_nothing_of_a_memory_does_not_ask_it():
    assert called(Player(Policy(p_read=0.0), 1)(at_work())) == ["investigate"]
    assert called(Player(Policy(p_read=0.0), 1)(at_work(view=f"- {FOUND}"))) == ["investigate"]


def test_what_answers_its_own_call_of_the_world_is_its_own_observation():
    """Also where another found it out, and whatever it is billed as; it stands above what has more
    authority.
    """
    told = f"- decisions/x syn-2026-02-01-001 (lead, authority 80)\n  > {FOUND}\n"
    for label in ("work_obs", "capsule"):
        given = answered(
            0,
            "investigate",
            {"subject": NEED},
            "eng-2 found: The port of service 1 is b2c3d4e.",
            label,
        )
        move = Player(Policy(p_read=0.0), 1)(at_work(*given))
        assert move.calls[0][1]["using"] == f"{NEED} = b2c3d4e"
        move = Player(Policy(), 1)(at_work(*given, view=told))
        assert move.calls[0][1]["using"] == f"{NEED} = b2c3d4e"
    searched = answered(0, "memory_search", {"query": NEED}, f"- {FOUND}", "capsule")
    assert called(Player(Policy(p_read=0.0), 1)(at_work(*searched))) == ["investigate"]


@pytest.mark.parametrize(("authority", "looks"), [(40, True), (60, False), (80, False)])
def test_what_a_lower_authority_says_is_looked_up_first(authority, looks):
    head = f"- decisions/x syn-2026-02-01-001 (mallory, authority {authority})"
    seen = at_work(view=f"{head}\n  > {FOUND}\n", tools=("work", "investigate", "submit"))
    assert called(Player(Policy(), 1)(seen)) == (["investigate"] if looks else ["submit"])
    assert called(Player(Policy(heeds=0.0), 1)(seen)) == ["submit"]


def test_what_is_in_dispute_is_looked_up_first_and_used_where_that_is_not_possible():
    about = "a, authority 60, 09:00Z, disputed with syn-2026-02-01-002"
    head = f"- decisions/x syn-2026-02-01-001 ({about})"
    view, tools = f"{head}\n  > {FOUND}\n", ("work", "investigate", "submit")
    assert called(Player(Policy(), 1)(at_work(view=view, tools=tools))) == ["investigate"]
    supervisor = answered(
        0, "investigate", {"subject": NEED}, f"Only lead can decide on {NEED}.", "work_obs"
    )
    assert called(Player(Policy(), 1)(at_work(*supervisor, view=view, tools=tools))) == ["submit"]


def test_what_cannot_be_found_out_is_given_up_after_a_second_try():
    failed = [
        answered(
            n, "investigate", {"subject": NEED}, "Error: it could not be found out.", "work_obs"
        )
        for n in (0, 1)
    ]
    tools = ("work", "investigate", "submit")
    assert called(Player(Policy(), 1)(at_work(*failed[0], tools=tools))) == ["investigate"]
    assert called(Player(Policy(), 1)(at_work(*failed[0], *failed[1], tools=tools))) == ["submit"]


def test_claims_and_queries_are_worded_by_chance():
    def moved(**policy):
        return Player(Policy(**policy), 1)(at_work()).calls

    assert moved()[0] == ("claim", {"work": f"find out {NEED}"})
    assert moved(claims_otherwise=1.0)[0] == ("claim", {"work": f"looking into {NEED}"})
    assert moved()[1] == ("memory_search", {"query": NEED})
    assert moved(bare_queries=1.0)[1] == ("memory_search", {"query": "the port of service"})
    words = {
        Player(Policy(claims_otherwise=0.5), seed)(at_work()).calls[0][1]["work"]
        for seed in range(30)
    }
    assert len(words) == 2


def test_chatter_stands_beside_a_call_and_holds_no_value():
    def notes(**policy):
        moves = [Player(Policy(**policy), seed)(seen()) for seed in range(200)]
        return [
            move for move in moves if any(call[1].get("priority") == "info" for call in move.calls)
        ]

    assert notes() == []
    chats = notes(chatter=0.3)
    assert 30 < len(chats) < 90
    for move in chats:
        note = move.calls[0][1]
        assert len(move.calls) > 1
        assert 35 <= len(note["body"].split()) <= 45
        assert not any(letter.isdigit() for letter in note["body"])


def test_a_note_can_be_wrong_and_its_author_knows_better():
    told = Message("assistant", "", "work_out", (Call("call-1", "submit", {"task": "part-1"}),))
    player = Player(Policy(wrong_notes=1.0), 1)
    note = player(seen()).calls[0][1]["body"]
    assert note != FOUND
    assert note.startswith("The port of service 1 is a1b2c3")
    done = answered(1, "append", {"body": note}, "Written.", "writeback")
    assert (
        player(seen(ASKED, "the port of service 1", 0, *done))
        .calls[0][1]["using"]
        .endswith("= a1b2c3d")
    )
    handed = (*done, told, Message("tool", "Handed in.", "work_obs", answers="call-1"))
    assert note in player(seen(ASKED, "the port of service 1", 0, *handed)).text
