"""Pages of what happened, walked from the newest to the oldest: each row once, in order, whatever
is written between two pages.
"""

from functools import partial
from itertools import count

import pytest

import synapse
from synapse.history import sentences, timeline
from synapse.model.records import Record
from synapse.testing.tools import FrozenClock


@pytest.fixture
def mem():
    mem = synapse.open("memory:", clock=FrozenClock())
    globs = ("projects/*", "status/*", "blockers/*", "api/*")
    for name in ("ann", "bob"):
        mem.register(synapse.Agent(name, role="engineer", read=globs, write=globs))
    mem.register(synapse.Agent("eve", role="engineer", read=("status/*",), write=("api/*",)))
    for n in range(7):
        work(mem, n)
    yield mem
    mem.close()


def work(mem, n):
    """Write what every question tells of, and what only some readers may see."""
    ann, bob, clock = mem.as_agent("ann"), mem.as_agent("bob"), mem.store.clock
    fields = {"run": f"run-{n}", "agent": "ann", "epoch": 1, "project": "site", "state": "running"}
    mem.store.commit.append(Record.new("run", "ann", fields, key=f"run:run-{n}"))
    entry = ann.append(f"step {n}", "status/site")
    ann.append(f"note {n}", "api/site", priority="critical")
    bob.resolve(bob.append(f"late {n}", "blockers/site", priority="critical").id, "fixed")
    clock.advance("1s")
    if n % 3 == 0:
        ann.archive(entry.id)
    ended = {"run": f"run-{n}", "state": "ended", "status": "done"}
    mem.store.commit.append(Record.new("run", "ann", ended, key=f"run:run-{n}"))


QUESTIONS = {
    "acts": lambda me, **page: timeline.agent_acts(me, "ann", **page),
    "project": lambda me, **page: timeline.timeline(me, "site", **page),
    "recent": lambda me, **page: timeline.recent(me, **page),
    "log": sentences.page_of_acts,
}


def walked(ask, limit, meanwhile=lambda: None):
    """Return the pages of a question, each asked for by the `next` of the one before."""
    pages = [ask(limit=limit)]
    while pages[-1].next is not None:
        meanwhile()
        pages.append(ask(limit=limit, before=pages[-1].next))
        assert len(pages) < 1_000
    return pages


@pytest.mark.parametrize("reader", ["ann", "eve"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_walk_meets_each_row_once_and_in_order(mem, question, reader):
    ask, later = partial(QUESTIONS[question], mem.as_agent(reader)), count(100)
    none = None if question == "recent" else 0
    whole = ask(limit=none)
    assert whole.next is None
    assert len(whole) > 3
    for limit in (1, 3, len(whole) - 1, len(whole), len(whole) + 1):
        whole = ask(limit=none)
        pages = walked(ask, limit, lambda: work(mem, next(later)))
        assert all(len(page) == limit for page in pages[:-1])
        assert pages[-1]
        if question != "recent":  # which is newest first
            pages = pages[::-1]
        assert [row for page in pages for row in page] == whole


def test_rows_of_one_time_are_parted_by_their_ids(mem):
    """A clock that is set back gives times for a second time."""
    me, clock = mem.as_agent("ann"), mem.store.clock
    began = clock.advance("2h")
    for n in range(3):
        clock.set(began)
        me.append(f"again {n}", "status/site")
        clock.advance("2h")
        me.append(f"later {n}", "status/site")
    pages = walked(partial(timeline.timeline, me, "site"), 2)
    rows = [row for page in pages[::-1] for row in page]
    assert rows == timeline.timeline(me, "site")
    assert len({row.at for row in rows}) < len(rows)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("before", ["", "x", "-1", "1e3", "٣", "9" * 40, ".a", "7."])
def test_what_no_answer_gave_is_refused(mem, question, before):
    with pytest.raises(synapse.InvalidQuery):
        QUESTIONS[question](mem.as_agent("ann"), limit=3, before=before)


def test_a_page_reads_as_much_of_the_log_as_it_shows(mem):
    """However far back it is, and however long the log."""
    me, asked = mem.as_agent("ann"), []
    acts = mem.store.acts

    def counted(*values):
        records = acts(*values)
        asked.append(len(records))
        return records

    mem.store.acts = counted
    pages = walked(partial(timeline.agent_acts, me, "ann"), 3)
    assert len(pages) > 5
    assert max(asked) <= 4 * 4
