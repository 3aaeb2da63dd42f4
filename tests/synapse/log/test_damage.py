"""Which lines of a journal are what was written, and what stood in the place of the others."""

import json

import pytest

from synapse.log import damage
from synapse.log.chain import assemble, chain_of, encode, link, quoted, split
from synapse.log.damage import restored, stretches, walk
from synapse.model.placement import GENESIS, Tail
from synapse.model.records import Record
from synapse.system.digest import sha256

COUNT = 6


def written(count=COUNT, start=None, name="body"):
    """Lines of records that follow from each other: every second one has a text."""
    tail = start or Tail(0, GENESIS, 0, "", 0, 0)
    lines = []
    for number in range(count):
        record = Record.new("shown", "eng", {"cursor": number, "of": name.upper()})
        if number % 2:
            record = record._replace(kind="entry", text=f"{name} {number} — “ü” \\ A")
        raw, _, tail = encode(tail, 10**15 + number, record)
        lines.append(raw)
    return lines


LINES = written()


def placed(lines):
    end, result = 0, []
    for raw in lines:
        end += len(raw)
        result.append((raw, (1, end)))
    return result


def believed(lines, seq=0, chain=GENESIS):
    """Return the numbers of the records that are believed, and of those that are told as lost."""
    steps = list(walk(placed(lines), seq, chain))
    assert [step.raw for step in steps] == lines
    return (
        [step.record.seq for step in steps if step.record is not None],
        [seq for step in steps for seq in step.lost],
    )


def changed(raw, old, new):
    assert raw.count(old) == 1
    return raw.replace(old, new)


def without(*seqs):
    return [raw for seq, raw in enumerate(LINES, 1) if seq not in seqs]


def instead(seq, *raws):
    """The lines with these in the place of one."""
    return [*LINES[: seq - 1], *raws, *LINES[seq:]]


ALL = [1, 2, 3, 4, 5, 6]
GARBAGE = b"{garbage}\n"
SEQ_OF_3 = b'"seq":3,', b'"seq":8,'


@pytest.mark.parametrize(
    ("lines", "good", "lost"),
    [
        (LINES, ALL, []),
        (instead(4, GARBAGE, LINES[3]), ALL, []),
        (instead(4, LINES[3], LINES[3]), [1, 2, 3, 4, 4, 5, 6], []),
        (instead(4, LINES[3], LINES[1]), [1, 2, 3, 4, 2, 5, 6], []),
        ([*LINES, LINES[0][:-1]], ALL, []),
        ([*LINES, LINES[5][:-1]], ALL, []),
        (without(3), [1, 2, 4, 5, 6], [3]),
        (without(3, 4), [1, 2, 5, 6], [3, 4]),
        (without(1), [2, 3, 4, 5, 6], [1]),
        (without(5), [1, 2, 3, 4, 6], [5]),
        (instead(3, GARBAGE), [1, 2, 4, 5, 6], [3]),
        # a changed text, head, chain, number
        (instead(4, changed(LINES[3], b"body", b"boda")), [1, 2, 3, 5, 6], [4]),
        (instead(3, changed(LINES[2], b"eng", b"enh")), [1, 2, 4, 5, 6], [3]),
        (instead(3, LINES[2][:10] + b"0" * 64 + LINES[2][74:]), [1, 2, 4, 5, 6], [3]),
        (instead(3, changed(LINES[2], *SEQ_OF_3)), [1, 2, 4, 5, 6], [3]),
        (instead(2, changed(LINES[1], b"body", b"boda"))[:2], [1], [2]),
        # a number at the end that is too high: nobody can tell it from a gap
        ([*LINES[:2], changed(LINES[2], *SEQ_OF_3)], [1, 2, 8], [3, 4, 5, 6, 7]),
        # behind a gap the line counts that the next follows from
        ([*LINES[:1], LINES[2], GARBAGE, *LINES[3:]], [1, 4, 5, 6], [2, 3]),
        ([*LINES[:1], LINES[2], *LINES[4:]], [1, 5, 6], [2, 3, 4]),
    ],
)
def test_what_is_believed_of_the_lines(lines, good, lost):
    assert believed(lines) == (good, lost)


def test_from_the_middle_on():
    assert believed(LINES[3:], 3, chain_of(LINES[2])) == ([4, 5, 6], [])
    assert believed(LINES, 3, chain_of(LINES[2])) == (ALL, [])
    assert believed(LINES[3:], 3, None) == ([4, 5, 6], [])
    assert believed(LINES[3:], 3, "0" * 64) == ([5, 6], [4])


def test_a_text_without_its_digest_is_no_text_of_the_line():
    record = Record.new("shown", "eng", {})
    assert damage.has_text(record) is True
    assert damage.has_text(record._replace(text="a")) is False
    assert damage.has_text(record._replace(sha=sha256(b"a"))) is False
    assert damage.has_text(record._replace(text="a", sha=sha256(b"a"))) is True
    assert damage.has_text(record._replace(text="b", sha=sha256(b"a"))) is False


def found(lines):
    """Return the stretches, and check that each is where it says."""
    result = list(stretches(placed(lines)))
    whole = b"".join(lines)
    for one in result:
        assert whole[one.start : one.start + len(one.raw)] == one.raw
        behind = whole[one.start + len(one.raw) :]
        assert behind.startswith(one.following)
        assert bool(one.following) == bool(behind)
        assert one.segment == 1
    return [(one.raw, list(one.seqs)) for one in result]


def test_a_whole_journal_has_no_stretch():
    assert found(LINES) == []


@pytest.mark.parametrize("seq", ALL)
def test_a_line_that_changed_is_one_stretch(seq):
    bad = LINES[seq - 1].replace(b'"by":"eng"', b'"by":"enh"')
    assert found(instead(seq, bad)) == [(bad, [seq])]
    one = next(stretches(placed(instead(seq, bad))))
    assert one.before == (GENESIS if seq == 1 else chain_of(LINES[seq - 2]))
    assert one.where == f"record {seq}"


def test_lines_side_by_side_are_one_stretch_and_others_are_two():
    bad = [changed(raw, b'"by":"eng"', b'"by":"enh"') for raw in LINES]
    assert found([LINES[0], bad[1], bad[2], *LINES[3:]]) == [(bad[1] + bad[2], [2, 3])]
    assert found([LINES[0], bad[1], LINES[2], bad[3], *LINES[4:]]) == [(bad[1], [2]), (bad[3], [4])]
    assert found(bad) == [(b"".join(bad), ALL)]
    assert next(stretches(placed(bad))).where == "records 1 to 6"


@pytest.mark.parametrize("seqs", [(1,), (3,), (2, 3), (5,)])
def test_lines_that_are_gone_are_an_empty_stretch(seqs):
    assert found(without(*seqs)) == [(b"", list(seqs))]


def test_lines_put_in_between_are_a_stretch_of_no_record():
    assert found(instead(3, GARBAGE, LINES[2])) == [(GARBAGE, [])]
    one = next(stretches(placed(instead(3, GARBAGE, LINES[2]))))
    assert one.where == "between the records 2 and 3"


@pytest.mark.parametrize("torn", [b'{"chain', b"\0\0\n", b"~\n", b"half~\n"])
def test_a_torn_end_is_no_damage(torn):
    assert found([*LINES, torn]) == []


def test_an_end_that_was_whole_once_is_damage():
    assert found([*LINES, GARBAGE]) == [(GARBAGE, [7])]


def test_what_a_seal_tells_of_is_no_damage():
    torn = b'{"chain":"half~\n'
    tail = Tail(COUNT, chain_of(LINES[-1]), 0, "", 0, 0)
    for told, seqs in ((torn, None), (b"other", [])):
        seal = Record.new("seal", "synapse", {"sha": sha256(told)})
        line, *_ = encode(tail, 10**15, seal)
        assert found([*LINES, torn, line]) == ([] if seqs is None else [(torn, seqs)])
    other, *_ = encode(tail, 10**15, Record.new("shown", "synapse", {"sha": sha256(torn)}))
    assert found([*LINES, torn, other]) == [(torn, [])]


def nothing(record):
    return ()


def only(lines):
    (one,) = stretches(placed(lines))
    return one


def test_a_line_that_was_put_in_is_taken_out():
    assert restored(only(instead(3, GARBAGE, LINES[2])), nothing, {}) == (
        b"",
        "lines that were put in between",
    )


@pytest.mark.parametrize("seqs", [(3,), (2, 3), (1, 2, 3, 4)])
def test_lines_come_back_from_another_copy(seqs):
    copies = {seq: [GARBAGE, LINES[seq - 1]] for seq in ALL}
    lines = b"".join(LINES[seq - 1] for seq in seqs)
    assert restored(only(without(*seqs)), nothing, copies) == (lines, "from the other copy")
    del copies[seqs[-1]]
    assert restored(only(without(*seqs)), nothing, copies) is None


def test_a_line_of_another_history_is_not_put_in():
    others = written(1, Tail(3, chain_of(LINES[2]), 0, "", 0, 0), name="other")
    assert restored(only(without(4)), nothing, {4: others}) is None


def remade(seq, head=None, text=None):
    """A line whose chain follows from the one before, and that the next does not follow from."""
    _, own_head, own_text = split(LINES[seq - 1])
    head, text = head or own_head, own_text if text is None else text
    return assemble(link(chain_of(LINES[seq - 2]), head), head, text)


def test_a_line_that_says_the_same_in_other_bytes_is_not_what_was_written():
    text = split(LINES[3])[2]
    escaped = text.replace(b"A", b"\\u0041")
    assert json.loads(escaped) == json.loads(text)
    for odd in (remade(4, text=escaped), remade(4).replace(b"}\n", b" }\n")):
        assert restored(only(without(4)), nothing, {4: [odd]}) is None
    assert restored(only(without(4)), nothing, {4: [remade(4)]})[0] == LINES[3]


def test_a_line_with_another_number_is_not_what_was_written():
    head = split(LINES[3])[1]
    last = LINES[:3]
    lines = [*last, changed(LINES[3], b'"by":"eng"', b'"by":"enh"')]
    raised = remade(4, head=head.replace(b'"seq":4', b'"seq":5'))
    assert restored(only(lines), nothing, {4: [raised]}) is None


def test_a_text_comes_back_from_the_entrys_file():
    bad = changed(LINES[3], "— “ü”".encode(), b"-- other, longer, so that no bit does")
    one = only(instead(4, bad))
    body = json.loads(split(LINES[3])[2])
    asked = []

    def texts(record):
        asked.append(record.seq)
        return [b"something else", body.encode()]

    assert restored(one, texts, {}) == (LINES[3], "by the text of its file")
    assert asked == [4]
    assert quoted(body) == split(LINES[3])[2]
    assert restored(one, lambda record: [b"something else"], {}) is None


def test_a_chain_comes_back_from_the_bytes_that_it_covers():
    bad = LINES[2][:10] + b"0" * 64 + LINES[2][74:]
    assert restored(only(instead(3, bad)), nothing, {}) == (
        LINES[2],
        "its chain follows from its bytes",
    )


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_is_found_wherever_it_is(bit):
    raw = LINES[3]
    start = raw.index(b'"text"') + 9
    for place in (76, start - 20, start, start + 5, len(raw) - 4):
        bad = raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]
        if b"\n" in bad[:-1]:
            continue
        assert restored(only(instead(4, bad)), nothing, {})[0] == raw


def test_two_lines_are_not_guessed():
    bad = [changed(raw, b'"by":"eng"', b'"by":"enh"') for raw in LINES[2:4]]
    assert restored(only([*LINES[:2], *bad, *LINES[4:]]), nothing, {}) is None


def test_a_damaged_end_comes_back_only_under_the_chain_that_it_kept():
    bad = changed(LINES[5], b'"by":"eng"', b'"by":"enf"')
    assert restored(only([*LINES[:5], bad]), nothing, {})[0] == LINES[5]
    other = LINES[5][:10] + b"0" * 64 + bad[74:]
    assert restored(only([*LINES[:5], other]), nothing, {}) is None
