"""The token ledger: what a line says, and what follows from the lines."""

from orchestrator.engines.protocol import Usage
from orchestrator.runs.files import ledger
from orchestrator.runs.files.ledger import Line, Segment


def line(step=0, sent=(), got=(), **more):
    return Line("run", step, "eng", "m", "o200k_base", "exact", tuple(sent), tuple(got), **more)


def test_a_line_survives_its_text():
    full = line(
        3,
        [Segment("view", 7, False)],
        [Segment("work_out", 2)],
        usage=Usage(9, 2, 4, 0, 0.5),
        cost=0.5,
    )
    bare = line(4, [Segment("task", 1)], stop="refusal")
    assert [ledger.load(ledger.dump(each)) for each in (full, bare)] == [full, bare]
    assert ledger.dump(full).count("\n") == 1


def test_a_torn_last_line_is_not_read():
    text = ledger.dump(line(0, [Segment("task", 1)]))
    assert ledger.read([text, text[:-1]]) == [ledger.load(text)]


def test_a_call_that_was_booked_twice_counts_once():
    texts = [ledger.dump(line(step, [Segment("task", 1)], usage=Usage(5, 1))) for step in (0, 1, 0)]
    assert [each.step for each in ledger.read(texts)] == [0, 1]


def test_a_call_is_unanswered_until_its_process_says_how_it_ended():
    """A process that hung for so long that it was taken for dead comes back, with the reply or
    without; another call of another step is another one."""
    sent = [Segment("task", 9, False)]
    unanswered = [
        line(step, sent, usage=Usage(9, estimated=True), cost=0.5, stop=ledger.UNANSWERED)
        for step in (0, 1, 2)
    ]
    came = [line(1, sent, usage=Usage(9, 2)), line(2, sent, usage=Usage(9), stop=ledger.LOST)]
    found = ledger.read(map(ledger.dump, [*unanswered, *unanswered, *came]))
    assert [(each.step, each.stop) for each in found] == [
        (0, "unanswered"),
        (1, "done"),
        (2, "lost"),
    ]
    assert ledger.unanswered(found) == ledger.Unanswered(2, 18, 0.5)
    assert ledger.unanswered(came[:1]) == ledger.Unanswered()


def test_overhead_bills_what_is_sent_again():
    first = line(0, [Segment("task", 100), Segment("view", 10)], [Segment("work_out", 50)])
    again = line(
        1,
        [
            Segment("task", 100, False),
            Segment("view", 10, False),
            Segment("history", 50, False),
            Segment("wake", 5),
        ],
        [Segment("plan", 20)],
    )
    found = ledger.overhead([first, again])
    assert (found.coordination, found.planning, found.work) == (25, 20, 300)
    assert (found.coordination_unique, found.planning_unique, found.work_unique) == (15, 20, 150)
    assert found.billed == 25 / 300
    assert found.unique == 0.1


def test_nothing_was_spent_on_nothing():
    assert ledger.overhead([]).billed == 0.0
    assert ledger.spent([line()]) == (Usage(), None)


def test_what_nobody_reported_is_our_own_count():
    lines = [line(0, [Segment("task", 100)], [Segment("work_out", 5)]), line(1, usage=Usage(7, 2))]
    assert ledger.spent(lines) == (Usage(107, 7, estimated=True), None)


def test_overhead_says_how_its_tokens_were_counted():
    exact = line(0, [Segment("task", 100)])
    assert ledger.overhead([exact]).counting == "exact"
    assert (
        ledger.overhead([exact, exact._replace(counting="estimate"), exact]).counting == "estimate"
    )


def test_costs_add_up_and_unknown_ones_are_not_zero():
    lines = [line(usage=Usage(5, 1), cost=0.25), line(usage=Usage(7, 2)), line(cost=0.5)]
    assert ledger.spent(lines) == (Usage(12, 3), 0.75)
