"""Planted transcripts, whose figures are computed by hand."""

import pytest

from orchestrator.audit.repeats import OWN, SESSION, SIBLING

FILE = "x" * 400  # a hundred tokens
DAY = 24 * 60  # minutes


def rows(audit):
    """Which calls were made before: by whom, whether the same, how often, and in how many tokens;
    and how many of them were then edited.
    """
    return {
        (row.kind, row.who, row.same): (row.all.calls, row.all.tokens, row.edited.calls)
        for row in audit.repeats
    }


# -- what was paid ---------------------------------------------------------------------------------


def test_each_reply_is_paid_once_as_its_last_line_says(transcript, audited):
    one = transcript("one")
    one.prompt("Look")
    one.read("a.py", FILE, fresh=1_000, written=2_000, output=50)
    one.turn(fresh=10, cached=3_000, output=40)
    paid = audited(one).paid
    assert paid[:5] == (2, 1_010, 3_000, 2_000, 90)
    # claude-sonnet-4-5: $3 and $15 a million, .30 read from the cache, 3.75 written to it
    assert paid.usd == pytest.approx((1_010 * 3 + 3_000 * 0.3 + 2_000 * 3.75 + 90 * 15) / 1e6)
    assert (paid.tokens, paid.unpriced) == (6_100, 0)


def test_a_model_without_a_price_costs_no_dollars_and_is_named(transcript, audited):
    one = transcript("one", model="nobody-knows-it")
    one.turn(fresh=100, output=5)
    paid = audited(one).paid
    assert (paid.usd, paid.unpriced, paid.tokens) == (0, 105, 105)


def test_what_was_paid_by_project_agent_day_and_model(transcript, audited):
    main, other = transcript("one"), transcript("two", begin=DAY, cwd="/srv/blog/.worktrees/2")
    agent = transcript("one", agent="abc")
    main.turn(fresh=10)
    other.turn(fresh=20)
    agent.turn(fresh=40)
    by = audited(main, other, agent).by
    fresh = {name: {key: paid.fresh for key, paid in groups.items()} for name, groups in by.items()}
    assert fresh["project"] == {"shop": 50, "blog": 20}
    assert fresh["agent"] == {"sub-agent": 40, "main": 30}
    assert fresh["day"] == {"2026-01-05": 50, "2026-01-06": 20}
    assert fresh["model"] == {"claude-sonnet-4-5": 70}


def test_a_session_that_goes_on_under_another_name_pays_its_beginning_once(transcript, audited):
    one, on = transcript("one"), transcript("two")
    one.read("a.py", FILE, fresh=100)
    on.rows = [row | {"sessionId": "two"} for row in one.rows]
    on.turn(fresh=7)
    audit = audited(one, on)
    assert (audit.paid.fresh, audit.calls) == (107, 1)


def test_what_a_sub_agent_does_counts_once_where_two_files_tell_of_it(transcript, audited):
    main, agent = transcript("one"), transcript("one", agent="abc")
    agent.prompt("Look at a.py")
    agent.read("a.py", FILE, fresh=100)
    for row in agent.rows:
        kind = {"type": "agent_progress", "agentId": "abc", "prompt": "Look at a.py"}
        main.row("progress", data=kind | {"message": row}, parentToolUseID="toolu-1")
    main.turn(fresh=1)
    audit = audited(main, agent)
    assert (audit.paid.fresh, audit.calls, audit.agents, audit.sessions) == (101, 1, 1, 1)


def test_only_what_is_recent_enough(transcript, audited):
    one = transcript("one")
    one.turn(fresh=10)
    one.minute = DAY
    one.turn(fresh=20)
    since = 1_767_607_200_000_000 + 60 * 60 * 1_000_000  # an hour after the beginning
    assert audited(one, since=since).paid.fresh == 20


# -- what was done twice ---------------------------------------------------------------------------


def test_a_result_is_paid_at_each_turn_that_sends_it(transcript, audited):
    one = transcript("one")
    one.read("a.py", FILE, written=5_000)
    one.read("a.py", FILE)
    one.turn()
    one.turn()
    one.turn()
    audit = audited(one)
    assert rows(audit) == {("read", OWN, True): (1, 300, 0)}
    # written to the cache once, and read from there twice
    assert audit.twice.usd == pytest.approx(100 * (3.75 + 2 * 0.3) / 1e6)


def test_without_a_cache_every_first_sending_is_new(transcript, audited):
    one = transcript("one")
    one.read("a.py", FILE, fresh=5_000)
    one.read("a.py", FILE)
    one.turn()
    assert audited(one).twice.usd == pytest.approx(100 * 3 / 1e6)


def test_nothing_is_carried_beyond_a_compaction(transcript, audited):
    one = transcript("one")
    one.read("a.py", FILE)
    one.read("a.py", FILE)
    one.turn()
    one.compact()
    one.turn()
    one.read("a.py", FILE)
    one.turn()
    one.turn()
    assert rows(audited(one)) == {("read", OWN, True): (2, 100 + 200, 0)}


def test_who_made_a_call_before(transcript, audited):
    one, agent = transcript("one"), transcript("one", agent="abc", begin=20)
    week, later = transcript("two", begin=6 * DAY), transcript("three", begin=14 * DAY)
    for each in (one, agent, week, later):
        each.read("a.py", FILE)
        each.turn()
    assert rows(audited(one, agent, week, later)) == {
        ("read", SIBLING, True): (1, 100, 0),
        ("read", SESSION, True): (1, 100, 0),
    }


def test_a_call_is_the_same_by_its_file_and_lines_command_address_or_search(transcript, audited):
    one = transcript("one")
    for ending in ("", "!"):
        one.read("a.py", f"{FILE}{ending}")
        one.read("a.py", FILE, offset=10, limit=5)
        one.bash("make test", f"{'y' * 80}{ending}", failed=False)
        one.call("Grep", {"pattern": "def f", "path": "src"}, f"{'z' * 40}{ending}")
        one.call("WebFetch", {"url": "https://example.org/a", "prompt": f"p{ending}"}, "w" * 40)
        one.call("WebSearch", {"query": "how to"}, "v" * 40)
        one.call("TodoWrite", {"todos": []}, "ok")
    one.read("a.py", FILE, offset=20, limit=5)
    one.bash("make tests", "y" * 80)
    one.turn()
    found = {key: calls for key, (calls, _, _) in rows(audited(one)).items()}
    assert found == {
        ("read", OWN, False): 1,
        ("read", OWN, True): 1,
        ("run", OWN, False): 1,
        ("grep", OWN, False): 1,
        ("fetch", OWN, True): 1,
        ("search", OWN, True): 1,
    }


def test_a_command_in_another_folder_is_another_one(transcript, audited):
    one, two = transcript("one"), transcript("two", begin=30, cwd="/srv/blog")
    for each in (one, two):
        each.bash("make test", "y" * 80)
        each.turn()
    assert rows(audited(one, two)) == {}


def test_a_call_that_failed_is_no_result(transcript, audited):
    one = transcript("one")
    one.bash("make", "no rule", failed=True)
    one.bash("make", "no rule", failed=True)
    one.turn()
    assert rows(audited(one)) == {}


def test_a_file_that_is_then_edited_was_needed(transcript, audited):
    one = transcript("one")
    one.read("a.py", FILE)
    one.read("b.py", FILE)
    one.read("a.py", FILE)
    one.read("b.py", FILE)
    one.edit("a.py", "x", "y")
    one.turn()
    audit = audited(one)
    assert rows(audit) == {("read", OWN, True): (2, 100 * 3 + 100 * 2, 1)}
    assert audit.twice_edited[:2] == (1, 300)


def test_what_the_client_adds_to_a_result_makes_no_difference(transcript, audited):
    one = transcript("one")
    one.read("a.py", FILE)
    one.read("a.py", f"{FILE}<system-reminder>be careful</system-reminder>\n")
    one.read("a.py", "File unchanged since last read. The content is above.")
    one.turn()
    assert list(rows(audited(one))) == [("read", OWN, True)]


def test_files_that_are_read_again_whatever_part_of_them(transcript, audited):
    one, agent = transcript("one"), transcript("one", agent="abc", begin=30)
    one.read("a.py", FILE)
    one.read("a.py", "x" * 40, offset=10, limit=2)
    one.turn()
    agent.read("a.py", FILE, offset=3, limit=9)
    agent.turn()
    again = audited(one, agent).again
    assert (again.reads, again.own[:2], again.sibling[:2]) == (3, (1, 10), (1, 100))


def test_the_team_that_the_suite_can_play(transcript, audited):
    one, agent = transcript("one"), transcript("one", agent="abc", begin=20)
    for each, text in ((one, FILE), (agent, "y" * 200)):
        each.read("a.py", text)
        each.read("b.py", FILE)
        each.turn()
    team = audited(one, agent).team
    assert team == (2 / 4, 1 / 2, (100 * 3 + 50) / 4, 3)


# -- what else was lost ----------------------------------------------------------------------------


def test_an_edit_on_a_stale_read(transcript, audited):
    one, two = transcript("one"), transcript("two", begin=30)
    one.read("a.py", FILE)
    two.read("a.py", FILE)
    two.edit("a.py", "x", "y")
    one.minute = 60
    one.edit("a.py", "x", "z")  # it has not seen what the other one wrote
    one.edit("a.py", "z", "w")
    two.minute = 90
    two.read("a.py", FILE)
    two.edit("a.py", "w", "v")  # it has
    two.edit("b.py", "w", "v", failed=True, result="File has been modified since read")
    stale = audited(one, two).stale
    assert (stale.edits, stale.made, stale.refused) == (5, 1, 1)


@pytest.mark.parametrize(
    ("words", "unused"),
    [("I go on with something else.", 1), ("So fetch_page it is.", 0), ("See db_pool.py", 0)],
)
def test_a_sub_agent_s_result_that_nobody_used(transcript, audited, words, unused):
    main, agent = transcript("one"), transcript("one", agent="abc")
    agent.turn(fresh=1_000)
    result = "Look at fetch_page in db_pool.py, line 1042, and at max_size of load_all."
    details = {"agentId": "abc"}
    main.call("Task", {"prompt": "Look at load_all", "subagent_type": "Explore"}, result,
              details=details)  # fmt: skip
    main.says(words)
    found = audited(main, agent)
    assert (found.unused.judged, found.unused.unused) == (1, unused)
    assert found.unused.paid.fresh == 1_000 * unused
    assert "Explore" in found.by["agent"]


def test_a_result_is_not_used_by_the_words_of_its_task(transcript, audited):
    main = transcript("one")
    result = "It is fetch_page, in db_pool.py and load_all, and nowhere else: see main.py."
    main.call("Task", {"prompt": "Look at load_all"}, result, details={"agentId": "abc"})
    main.says("I asked for load_all.")
    assert audited(main).unused.unused == 1


def test_blockers_and_questions_that_waited_for_a_person(transcript, audited):
    one, two = transcript("one"), transcript("two")
    one.prompt("Deploy it")
    one.says("Blocked: the key for staging is missing.")
    one.minute += 59
    one.prompt("Here it is")
    one.says("Done.")
    two.prompt("Deploy it")
    id = one.call("AskUserQuestion", {"questions": []}, "Yes")
    two.says("Blocked: no disk.")
    waits = audited(one, two).waits
    assert id
    assert (waits.blockers, waits.questions, waits.unanswered) == (2, 1, 1)
    assert waits.longest == 60 * 60 * 1_000_000


# -- the sentence ----------------------------------------------------------------------------------


def test_the_sentence_also_where_there_is_nothing_to_gain(transcript, audited):
    assert audited().sentence() == "No recorded session was found."
    one = transcript("one")
    one.read("a.py", FILE, fresh=100_000)
    one.turn()
    assert audited(one).sentence() == "1 day, 1 session: $0.30, and nothing was looked up twice."
    one.read("a.py", FILE)
    one.turn(fresh=200_000)
    assert audited(one).sentence() == (
        "1 day, 1 session: $0.90, of which 0.0% paid for results that were there before,"
        " unchanged; 0.0% for files among them that were then edited."
    )
