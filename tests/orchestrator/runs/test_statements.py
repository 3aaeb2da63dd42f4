"""Which entries are given instead of a call: those that state the value of its very subject."""

import pytest

import synapse
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs.statements import states_value, without
from orchestrator.runs.task import Task
from orchestrator.tools.functions import tool_of

SUBJECT = "retry limit of service 7"

NO_ANSWERS = """
The retry limit of service 3 is 7.
I could not find the retry limit of service 7 in repo42.
@bob42: what is the retry limit of service 7?
T-12: raise the retry limit of service 7 next week.
The wiki page v2 about the retry limit of service 7 is outdated.
Service 7 has a 30 s limit before the retry queue drops.
The retry limit of service 7 is not 5.
Until v3 the retry limit of service 7 was 5.

Is the retry limit of service 7 5?
Is the retry limit of service 7 5? I think so.
The retry limit of service 7 is 5?
Who knows whether the retry limit of service 7 is 5
What is the retry limit of service 7? Ask T-44.
Q3: retry limit of service 7
Does anybody know the retry limit of service 7 since v2?
The retry limit of service 7 isn't 5.
The retry limit of service 7 is no longer 5.
The retry limit of service 7 is never 5.
The retry limit of service 7: not 5
The retry limit of service 7 is anything but 5.
Nobody set the retry limit of service 7 in v2.
There is no retry limit of service 7 before v4.
T-7: somebody has to look into the retry limit of service 7 before R2.
To do, 4: set the retry limit of service 7 to 9.
We will set the retry limit of service 7 to 9.
Next week the retry limit of service 7 is 9.
From v5 on the retry limit of service 7 is 9.
The retry limit of service 7 will be 9.
The retry limit of service 7 should be 9.
The retry limit of service 7 is going to be 9.
The planned retry limit of service 7 is 9.
Plan 2: the retry limit of service 7 is 9.
The retry limit of service 70 is 5.
The retry limit of service 17 is 5.
The retry limit of services 7 and 8 is 5.
The retry limit of service 7.1 is 5.
The retry limit of service 7b is 5.
The retry limit of service 7 in staging is 5.
The retry limit of service seven is 5, of service 7 nobody knows.
The retry delay of service 7 is 5 s, its limit is open.
The retry limit of the queue of service 7 is 5.
The queue limit of service 7 is 5, the retry is T-3.
The soft retry limit of service 7 is 5.
The retry limit of service 7 in milliseconds is 5000.
The retry limit of service 7, in minutes, is 5.
Alice says the retry limit of service 7 is 5.
I heard that the retry limit of service 7 is 5.
According to wiki2 the retry limit of service 7 is 5.
The retry limit of service 7 is 5, says Bob.
The retry limit of service 7 is 5, I think.
The retry limit of service 7 is probably 5.
The retry limit of service 7 is supposedly 5.
The retry limit of service 7 is 5 or 6.
The retry limit of service 7 is 5-10.
The retry limit of service 7 is 5ish.
The retry limit of service 7 is about 5.
The retry limit of service 7 is ~5.
The retry limit of service 7 is more than 5.
The retry limit of service 7 is at least 5.
The retry limit of service 7 is between 5 and 9.
The retry limit of service 7 is < 9.
If v2 is on, the retry limit of service 7 is 5.
The retry limit of service 7 is 5 if v2 is on.
The retry limit of service 7 is 5 unless the queue is full.
The retry limit of service 7 is 5 on Mondays.
Assume that the retry limit of service 7 is 5.
Say the retry limit of service 7 is 5: what breaks?
The retry limit of service 7 was 5.
The retry limit of service 7 used to be 5.
The retry limit of service 7 had been 5.
The old retry limit of service 7 is 5.
In 2024 the retry limit of service 7 is 5.
The retry limit of service 7 is 5. This is no longer true.
The retry limit of service 7 is 5. Not confirmed by v3.
The retry limit of service 7 is 5. Or is it 6?
The retry limit of service 7 is 5. The retry limit of service 7 is 6.
Wrong: the retry limit of service 7 is 5.
RETRACTED 3: the retry limit of service 7 is 5.
~~The retry limit of service 7 is 5.~~
> The retry limit of service 7 is 5.
This is a lie. The retry limit of service 7 is 5.
The retry limit of service 7 is 5 (retracted).
The retry limit of service 7 is outdated in wiki2.
The retry limit of service 7 is in config7.
The retry limit of service 7: see T-12
The retry limit of service 7: T-12
The retry limit of service 7: #12
The retry limit of service 7: https://wiki/limits7
The retry limit of service 7: config/retry7.yaml
The retry limit of service 7 is 2026-03-01.
The retry limit of service 7 is being raised, 5 of 9 hosts are done.
The retry limit of service 7 begins with 5.
The retry limit of service 7 is the same as in v2.
The retry limit of service 7 is unknown in v2.
The retry limit of service 7 is TBD 2.
The retry limit of service 7 is 5 times too low.
The retry limit of service 7 is the 3rd thing to look at.
Use 5 for the retry limit of service 8.
Do not use 5 for the retry limit of service 7.
Use 5 for now for the retry limit of service 7.
Use 5 for the retry limit of service 7?
Never use 5 for the retry limit of service 7.
Looking into the retry limit of service 7, 2 of 4 calls made.
- [ ] The retry limit of service 7 is 5
The retry limit of service 7 is 5. My confidence is 10 %.
The retry limit of service 7 is 5. The truth is 6.
The retry limit of service 7 is 5. T-9 is done.
Done: I could not verify anything. The retry limit of service 7 is 5.
Done: T-9 is done. The retry limit of service 7 is 5. Bob doubts that.
""".strip().splitlines()

ANSWERS = """
The retry limit of service 7 is 5.
the retry limit of service 7 is 5
Retry limit of service 7: 5
- The retry limit of service 7 is 5.
The retry limit of service 7 is now 5.
The retry limit of service 7 = 5
The retry limit of service 7 is 30 s.
The retry limit of service 7 is 30s.
The retry limit of service 7 is 1,500 ms.
The retry limit of service 7 is 2.5 %.
The retry limit of service 7 is `a3f9c2`.
The retry limit of service 7 is v1.2.3.
The  retry limit of service 7 is 5f3a9c1.
Use 5 for the retry limit of service 7.
Use 4255 hPa for the retry limit of service 7.
The retry limit of service 7 is 21.5 °C.
Use a3f9c2 for retry limit of service 7.
Done: T-9 is done. The retry limit of service 7 is 5. The owner key of module 4 is b7.
The retry limit of service 3 is 4. The retry limit of service 7 is 5.
""".strip().splitlines()


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Return what an agent is told by its call where a note stands in the memory, with a topic or
    without one."""

    def asked(note, topic=None):
        made = []

        def investigate(subject: str) -> str:
            """Find something out."""
            made.append(subject)
            return "It is 5."

        def play(seen):
            if seen.turn == 0:
                return Move("", (("investigate", {"subject": f"the {SUBJECT}"}),))
            return Move(seen.messages[-1].text)

        tools = [tool_of(investigate, shares=True)]
        from orchestrator import Supervisor

        with synapse.open("memory:") as memory:
            for name in ("peer", "eng"):
                memory.register(synapse.Agent(name, role="engineer"))
            memory.as_agent("peer").append(note, "projects/web", topic=topic)
            options = {"tools": tools, "memory_tools": "never", "inline": True}
            with Supervisor(memory, engine=Scripted(play), **options) as supervisor:
                text = supervisor.run(Task("Look into it", "eng", "web")).text
        return bool(made), text

    return asked


@pytest.mark.parametrize("note", [note for note in NO_ANSWERS if note])
def test_what_is_no_answer_is_not_given_instead_of_a_call(answered, note):
    made, text = answered(note)
    assert made
    assert "Not called" not in text


@pytest.mark.parametrize("note", ANSWERS)
def test_what_states_the_value_of_the_subject_is_given(answered, note):
    made, text = answered(note)
    assert not made
    assert text.startswith("Not called: the memory has it, written by peer ")
    assert note.strip() in text


@pytest.mark.parametrize(
    ("topic", "body", "given"),
    [
        (SUBJECT, "5", True),
        (f"The {SUBJECT}", "It is 5 s.", True),
        (SUBJECT, "I could not find it in repo42.", False),
        (SUBJECT, "It is not 5.", False),
        ("retry limit of service 3", "5", False),
        ("retry limit", "5", False),
    ],
)
def test_an_entry_whose_topic_is_the_subject_has_to_have_a_value(answered, topic, body, given):
    made, _ = answered(body, topic)
    assert made is not given


@pytest.mark.parametrize(
    ("report", "left"),
    [
        ("Done. The retry limit of service 7 is 6.", "Done."),
        ("The retry limit of service 7 is 6. Use 5.", "Use 5."),
        ("- Retry limit of service 7: 6\n- Port of host 2: 80", "- Port of host 2: 80"),
        ("The retry limit of service 7 is 6.", ""),
        ("The retry limit of service 7 is not 5.", None),
        ("The retry limit of service 8 is 5.", None),
        ("It is done:\n\n1. The port is 80.\n2. It works.", None),
    ],
)
def test_of_a_report_what_a_tool_stated_is_left_out(report, left):
    results = ["Looked at 4 files.\nThe retry limit of service 7 is 5."]
    assert without(report, results) == (report if left is None else left)
    assert without(report, ["Nothing was found."]) == report


@pytest.mark.parametrize(
    ("body", "words", "states"),
    [
        ("The limit of service A is 5.", "the limit of service", False),
        ("The limit of service A is 5.", "limit of service A", True),
        ("The limit of service a is 5.", "limit of service B", False),
        ("The type of userID is int8.", "type of userid", False),
        ("The type of userID is int8.", "Type of userID", True),
        ("The limit of C++ is 5.", "limit of C", False),
        ("A LIMIT of Billing is 5.", "the limit of billing", True),
    ],
)
def test_a_name_is_not_another_one(body, words, states):
    assert states_value(body, None, words) is states


def test_a_single_word_names_no_subject():
    assert not states_value("The limit is 5.", None, "limit")
    assert states_value("The limit of 7 is 5.", None, "limit of 7")
