"""Two histories of one log as lines: whose each line is, and what is appended to ours."""

import random

import pytest

import synapse
from synapse.errors import StoreCorrupt
from synapse.log.chain import chain_of, decode, encode, follows, tail_of
from synapse.log.merge import Merged, Sides, merge, sides
from synapse.model import kinds
from synapse.model.placement import GENESIS, Tail
from synapse.model.records import Record
from synapse.system.digest import sha256
from synapse.testing import FrozenClock, draft_entry

AT = 10**15  # in 2001-09-09
SECOND = 1_000_000


def record(kind="note", by="eng", fields=None, **more):
    return Record.new(kind, by, {"cursor": 0} if fields is None else fields)._replace(**more)


def entry(number, body="body", **more):
    """An entry as a log of files holds it, in a file of its own."""
    id = f"syn-2001-09-09-{number:03d}"
    with synapse.open("memory:", clock=FrozenClock()) as memory:
        stored = memory.store.commit.append(draft_entry(body))
    return stored._replace(seq=0, id=id, **more)


def grown(before, *records, at=AT):
    """The lines before and these behind them."""
    lines = list(before)
    tail = tail_of(lines[-1], 0) if lines else Tail(0, GENESIS, 0, "", 0, 0)
    for each in records:
        raw, _, tail = encode(tail, max(at, tail.at + 1), each)
        lines.append(raw)
    return lines


def decoded(lines):
    return [decode(raw) for raw in lines]


def merged(ours, *others):
    """Merge other histories into ours, and check that what comes of it is one history."""
    every = [raw for lines in (ours, *others) for raw in lines]
    found = sides(every)
    assert found.ours == ours
    assert found.end == len(ours)
    result = merge(found)
    lines = [*ours, *result.lines]
    assert sides(lines) == Sides(lines, [])
    assert [each.seq for each in decoded(lines)] == list(range(1, len(lines) + 1))
    times = [each.at for each in decoded(lines)]
    assert times == sorted(times)
    again = merge(sides([*lines, *every]))
    assert (again.lines, again.records) == ([], 0)
    return result


BASE = grown([], record(fields={"cursor": 1}), entry(1), record("note"))
OURS = grown(BASE, record(fields={"a": 1}), record(fields={"a": 2}))
THEIRS = grown(BASE, record(fields={"b": 1}), record(fields={"b": 2}))


def test_a_history_alone_is_ours():
    assert sides(OURS) == Sides(OURS, [])
    assert sides([]) == Sides([], [])
    assert merge(sides(OURS)) == Merged([], 0, {}, [], [])


@pytest.mark.parametrize("seed", range(12))
def test_lines_in_any_order_are_put_in_theirs(seed):
    lines = [*OURS[1:], *THEIRS[len(BASE) :], *OURS[2:4], b'{"torn', b"{}\n"]
    random.Random(seed).shuffle(lines)
    found = sides([OURS[0], *lines])
    assert found.ours in (OURS, THEIRS)
    own = {chain_of(raw) for raw in found.ours}
    rest = [raw for raw in (*OURS, *THEIRS) if chain_of(raw) not in own]
    assert [raw for _, raw in found.others] == rest
    assert all(follows(raw, before) for before, raw in found.others)
    assert found.others[0][0] == chain_of(BASE[-1])


def test_branches_of_branches_stand_one_after_another():
    deep = grown(THEIRS[:-1], record(fields={"c": 1}), record(fields={"c": 2}))
    early = grown(BASE[:1], record(fields={"d": 1}))
    other = grown([], record(fields={"e": 1}))
    every = [*OURS, *THEIRS[3:], *deep[4:], *early[1:], *other]
    found = sides(every)
    assert found.ours == OURS
    assert [raw for _, raw in found.others] == [*other, *early[1:], *THEIRS[3:], *deep[4:]]
    assert [before for before, _ in found.others] == [
        GENESIS,
        chain_of(BASE[0]),
        chain_of(BASE[2]),
        chain_of(THEIRS[3]),
        chain_of(THEIRS[3]),
        chain_of(deep[4]),
    ]


def test_a_line_that_follows_from_none_is_damage():
    with pytest.raises(StoreCorrupt, match="record 5 follows from no line"):
        sides([*OURS, THEIRS[-1]])


def test_what_the_others_say_is_appended_once():
    result = merged(OURS, THEIRS)
    added = decoded(result.lines)
    assert [each.kind for each in added] == ["note", "note", "merged"]
    assert [each.fields["b"] for each in added[:2]] == [1, 2]
    assert added[0].fields["origin"] == {"chain": chain_of(THEIRS[3]), "at": AT + 3}
    assert added[2].fields == {"records": 2, "head": chain_of(THEIRS[-1]), "ids": {}}
    assert (result.records, result.ids, result.moved) == (2, {}, [])


def test_times_go_on_behind_ours():
    late = grown(BASE, record(fields={"b": 1}), at=AT + 50)
    added = decoded(merged(OURS, late).lines)
    assert [each.at for each in added] == [AT + 50, AT + 51]
    added = decoded(merged(late, OURS[:4]).lines)
    assert [each.at for each in added] == [AT + 51, AT + 52]


def test_an_id_that_is_taken_becomes_the_next_one_and_so_do_all_its_names():
    ours = grown(BASE, entry(2, "ours", path="entries/a.md"))
    theirs = grown(
        BASE,
        entry(2, "theirs", path="entries/a.md"),
        record("note", fields={"target": "syn-2001-09-09-002", "note": "x"}),
        record(fields={"of": ["syn-2001-09-09-002", "syn-2001-09-09-001"]}),
        record(fields={"by": {"syn-2001-09-09-002": 1}}),
        record(key="item:syn-2001-09-09-002", fields={}),
        record(key="item:syn-2001-09-09-001", fields={}),
        record(fields={"note": "syn-2001-09-09-002"}),
        entry(7, "later"),
    )
    result = merged(ours, theirs)
    new = "syn-2001-09-09-008"
    assert result.ids == {"syn-2001-09-09-002": new}
    added = decoded(result.lines)
    assert (added[0].id, added[0].path) == (new, None)
    assert added[0].fields["origin"]["id"] == "syn-2001-09-09-002"
    assert added[1].fields["target"] == new
    assert added[2].fields["of"] == [new, "syn-2001-09-09-001"]
    assert added[3].fields["by"] == {new: 1}
    assert [each.key for each in added[4:6]] == [f"item:{new}", "item:syn-2001-09-09-001"]
    # what was said is not changed
    assert added[6].fields["note"] == "syn-2001-09-09-002"
    assert added[7].id == "syn-2001-09-09-007"
    assert [(each.id, each.path) for each in result.moved] == [
        ("syn-2001-09-09-002", "entries/a.md")
    ]
    assert added[-1].fields["ids"] == result.ids


def test_two_others_that_took_the_same_id_are_told_apart():
    ours = grown(BASE, entry(2, "ours"))
    sides_of = [
        grown(
            BASE, entry(2, name), record("note", by=name, fields={"target": "syn-2001-09-09-002"})
        )
        for name in ("one", "two")
    ]
    added = decoded(merged(ours, *sides_of).lines)
    ids = [each.id for each in added if each.kind == "entry"]
    assert ids == ["syn-2001-09-09-003", "syn-2001-09-09-004"]
    for each in added:
        if each.kind == "entry":  # its text names it as it is called now
            assert f"id: {each.id}" in each.text
            assert each.text[each.fields["start"] :].strip() in ("one", "two")
    targets = {each.by: each.fields["target"] for each in added if each.kind == "note"}
    assert targets == dict(zip(("one", "two"), ids, strict=True))


def test_what_one_way_learnt_is_not_the_other_ones():
    theirs = grown(BASE, entry(2, "theirs"))
    left = grown(theirs, record("note", fields={"target": "syn-2001-09-09-002"}))
    right = grown(BASE, record("note", by="r", fields={"at": "syn-2001-09-09-002"}))
    ours = grown(BASE, entry(2, "ours"))
    added = decoded(merged(ours, left, right).lines)
    assert added[1].fields["target"] == added[0].id == "syn-2001-09-09-003"
    assert added[2].fields["at"] == "syn-2001-09-09-002"


def test_what_a_branch_of_theirs_learnt_is_not_the_other_branches():
    theirs = grown(BASE, record(fields={"b": 1}))
    left = grown(theirs, entry(2, "left"))
    right = grown(theirs, record("note", fields={"at": "syn-2001-09-09-002"}))
    ours = grown(BASE, entry(2, "ours"))
    added = decoded(merged(ours, left, right).lines)
    assert added[1].id == "syn-2001-09-09-003"
    assert added[2].fields["at"] == "syn-2001-09-09-002"


def test_places_in_their_log_become_places_in_ours():
    theirs = grown(
        BASE,
        record(fields={"b": 1}),  # 4 there, 6 in ours
        record(fields={"cursor": 4}),
        record(fields={"cursor": 2}),
        record(fields={"reviews": [[4, True], [1, False]], "holds": [[4, True]]}),
        record(fields={"acts": [4, 2]}),
        record("undo", fields={"what": "4"}),
        record("undo", fields={"what": "a night"}),
        record(fields={"count": 99}),
    )
    added = decoded(merged(OURS, theirs).lines)
    fields = [each.fields for each in added]
    assert added[0].seq == 6
    # no further than both saw
    assert [each["cursor"] for each in fields[1:3]] == [3, 2]
    assert fields[3]["reviews"] == [[6, True], [1, False]]
    assert fields[3]["holds"] == [[6, 1]]
    assert fields[4]["acts"] == [6, 2]
    assert [each["what"] for each in fields[5:7]] == ["6", "a night"]
    assert fields[7]["count"] == 99


def test_what_both_did_by_one_key_is_done_once():
    ours = grown(BASE, record(once="o", fields={"a": 1}), record(once="p", fields={}))
    theirs = grown(
        BASE,
        record(once="o", fields={"a": 1}),
        record(once="p", fields={"says": "else"}),
        record(once="o", by="other", fields={"a": 1}),
    )
    added = decoded(merged(ours, theirs).lines)
    assert [(each.by, each.fields.get("says")) for each in added[:-1]] == [
        ("eng", "else"),
        ("other", None),
    ]


def test_a_place_of_what_ours_has_already_is_where_ours_has_it():
    ours = grown(BASE, record(fields={"a": 1}), record(once="o", fields={"a": 2}))
    theirs = grown(
        BASE,
        record(once="o", fields={"a": 2}),  # 4 there, 5 in ours
        record("seal", fields={"bytes": 3}),
        record("undo", fields={"what": "4"}),
        record("undo", fields={"what": "5"}),
    )
    added = decoded(merged(ours, theirs).lines)
    assert [each.fields.get("what") for each in added] == ["5", "5", None]


def test_what_they_took_back_is_not_taken_over():
    theirs = grown(
        BASE,
        record(fields={"b": 1}),
        record(fields={"b": 2}),
        record("void", fields={"seq": 5}),
        record("seal", fields={"bytes": 3}),
        record(fields={"b": 3}),
    )
    added = decoded(merged(OURS, theirs).lines)
    assert [each.fields.get("b") for each in added] == [1, 3, None]
    alone = grown(BASE, record(fields={"b": 2}), record("void", fields={"seq": 4}))
    assert merged(OURS, alone).records == 0


def test_a_declaration_of_both_is_ours():
    def declared(role):
        return record("agent", fields={"agent": {"id": "ann", "role": role}})

    ours = grown(BASE, declared("cto"))
    theirs = grown(BASE, declared("engineer"))
    added = decoded(merged(ours, theirs).lines)
    assert [each.fields["agent"]["role"] for each in added[:2]] == ["engineer", "cto"]
    alone = decoded(merged(OURS, theirs).lines)
    assert [each.kind for each in alone] == ["agent", "merged"]


def test_an_alias_that_is_taken_is_left_out():
    ours = grown(BASE, record(fields={"alias": "plan"}))
    theirs = grown(BASE, record(fields={"alias": "plan", "b": 1}), record(fields={"alias": "b"}))
    added = decoded(merged(ours, theirs).lines)
    assert "alias" not in added[0].fields
    assert added[1].fields["alias"] == "b"


def test_what_came_by_one_merge_comes_by_no_other():
    first = merged(OURS, THEIRS)
    ours = [*OURS, *first.lines]
    more = grown(THEIRS, record(fields={"b": 3}))
    second = merged(ours, more)
    assert [each.fields.get("b") for each in decoded(second.lines)] == [3, None]
    # the other side takes in what we have of ours alone
    back = merged(THEIRS, ours)
    assert [each.fields.get("a") for each in decoded(back.lines)] == [1, 2, None]


def test_a_fact_whose_id_is_taken_gets_one_that_follows_from_its_line():
    def fact(text):
        fields = {"kind": kinds.FACT, "says": text}
        return record("note", fields=fields, id="fact_0123456789ab")

    ours, theirs = grown(BASE, fact("a")), grown(BASE, fact("b"))
    result = merged(ours, theirs)
    (new,) = result.ids.values()
    assert new.startswith("fact_")
    assert new != "fact_0123456789ab"
    seed = sha256(f"{chain_of(theirs[-1])} 0".encode())
    assert new == kinds.new_id(kinds.FACT, bytes.fromhex(seed[:12]))
    assert decoded(result.lines)[0].id == new
    assert merge(sides([*ours, *theirs])).ids == result.ids  # not by chance
    # where that is taken as well, it is the next one
    both = grown(ours, record("note", fields={"kind": kinds.FACT}, id=new))
    (other,) = merge(sides([*both, *theirs])).ids.values()
    assert other not in (new, "fact_0123456789ab")


def test_an_id_of_a_day_that_has_none_yet_is_the_first_of_it():
    """What comes from yesterday is received today: ours was written in between."""
    day = 24 * 3600 * SECOND
    ours = grown(BASE, entry(2, "ours"))
    ours = grown(ours, record(fields={"a": 1}), at=AT + day)
    result = merged(ours, grown(BASE, entry(2, "theirs"), entry(3, "more")))
    assert result.ids == {"syn-2001-09-09-002": "syn-2001-09-10-001"}
    later = grown(grown(BASE, entry(2, "ours")), record(fields={"a": 1}), at=AT + day)
    more = grown(BASE, entry(2, "one"))
    other = grown(BASE, entry(2, "two"), record(fields={"b": 1}))
    ids = [each.id for each in decoded(merged(later, more, other).lines) if each.id]
    assert ids == ["syn-2001-09-10-001", "syn-2001-09-10-002"]


def test_the_text_of_an_entry_stays_where_its_id_and_its_place_stay():
    theirs = grown(BASE, entry(2, "theirs"), record("note", fields={"of": "x"}))
    added = decoded(merged(OURS, theirs).lines)
    assert added[0].text == decode(theirs[3]).text
    assert added[1].text is None
