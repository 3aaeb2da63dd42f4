import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.errors import InvalidEntry
from synapse.model.entry import (
    MAX_TTL,
    NEVER,
    SECOND,
    TAINTED,
    Draft,
    Entry,
    addressees,
    check_priority,
    expiry,
    is_id,
    mint,
    minted,
    one_or_many,
    parse_ttl,
    words,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1_800),
        ("24h", 86_400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        (" 7D ", 604_800),
        ("0s", 0),
    ],
)
def test_ttl(text, seconds):
    assert parse_ttl(text) == seconds * SECOND
    assert expiry(text, 5) == 5 + seconds * SECOND


def test_times_are_microseconds_and_a_life_is_ten_years_at_most():
    assert expiry("90s", 5) == 90_000_005
    assert parse_ttl("3649d") == 3_649 * 86_400_000_000
    assert parse_ttl("522w") == parse_ttl("9999999999999999w") == 315_360_000_000_000


def test_what_is_for_ever_is_a_number_that_a_database_holds():
    """A tainted entry is hidden for longer than anything lives."""
    assert 4_000_000_000 * SECOND + MAX_TTL < NEVER < TAINTED < 2**63


def test_what_nobody_said_of_an_entry_claims_nothing():
    draft = Draft("Use v2", "api", "eng-a")
    assert (draft.addressees, draft.scope, draft.pii) == (("all",), "public", False)
    entry = Entry("syn-1", "eng-a", "", "api", "info", "Use v2", "7d")
    assert (entry.authority, entry.seq, entry.at) == (0, 0, 0)
    assert (entry.archived, entry.staged, entry.expires) == (False, False, NEVER)


@pytest.mark.parametrize("text", ["never", "permanent", "null", "None", "~", "NEVER "])
def test_for_ever(text):
    assert parse_ttl(text) is None
    assert expiry(text, 5) == NEVER


@pytest.mark.parametrize(
    "text", ["", "7", "d", "-7d", "+7d", "7 d", "1.5d", "7y", "12:30:45", "1e3s", "٧d", "7dd", "²d"]
)
def test_no_ttl(text):
    with pytest.raises(InvalidEntry, match="ttl"):
        parse_ttl(text)


@given(st.integers(0, 10**40), st.sampled_from("smhdw"))
def test_no_ttl_reaches_for_ever(number, unit):
    found = parse_ttl(f"{number}{unit}")
    assert 0 <= found <= MAX_TTL
    assert expiry(f"{number}{unit}", 4_000_000_000 * SECOND) < NEVER


@given(st.text(max_size=20))
def test_any_other_text_is_refused_and_nothing_else_happens(text):
    try:
        found = parse_ttl(text)
    except InvalidEntry:
        return
    assert found is None or 0 <= found <= MAX_TTL


def test_priorities_are_three():
    assert [check_priority(name) for name in ("critical", "important", "info")] == [
        "critical",
        "important",
        "info",
    ]
    for text in ("", "Critical", "warn", "info "):
        with pytest.raises(InvalidEntry, match="priority"):
            check_priority(text)


@pytest.mark.parametrize(
    "text", ["syn-2026-02-01-001", "syn-65b2f0c4a1d3e5f607182930", "syn-x", "syn-2026-02-01-1000"]
)
def test_ids(text):
    assert is_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "syn-",
        "syn",
        "sync-1",
        "SYN-1",
        "syn-a/b",
        "syn-..",
        "syn-a.md",
        "syn-é",
        "syn-a b",
        "syn-" + "x" * 77,
    ],
)
def test_no_ids(text):
    assert not is_id(text)


@given(st.dates(), st.integers(1, 10**9))
def test_a_minted_id_says_which_it_was(day, number):
    id = mint(day.isoformat(), number)
    assert is_id(id)
    assert minted(id) == (day.isoformat(), number)


@pytest.mark.parametrize(
    "text",
    [
        "syn-2026-02-01-01",
        "syn-2026-02-01-0001",
        "syn-2026-2-1-001",
        "syn-x",
        "syn-2026-02-01-x",
        "syn-abcdefghij-001",
        "syn-2026-02-01-1234567890123",
    ],
)
def test_what_was_not_minted_here(text):
    assert minted(text) is None


@pytest.mark.parametrize(
    ("to", "found"),
    [
        (None, ("all",)),
        ("all", ("all",)),
        ("*", ("all",)),
        ("eng-a", ("agent:eng-a",)),
        ("agent:eng-a", ("agent:eng-a",)),
        ("team:red, eng-a", ("agent:eng-a", "team:red")),
        (["team:red", "team:red", " eng-a "], ("agent:eng-a", "team:red")),
        (["eng-a", "all"], ("all",)),
    ],
)
def test_addressees(to, found):
    assert addressees(to) == found
    assert addressees(found) == found


@pytest.mark.parametrize(
    "to", ["group:x", "team:", "agent:A", "team:a/b", ":x", "a b", "team:x:y", "../x"]
)
def test_no_addressees(to):
    with pytest.raises(InvalidEntry, match="to "):
        addressees(to)


@pytest.mark.parametrize("to", ["", " , ", (), [""]])
def test_a_list_of_nobody_is_not_everybody(to):
    with pytest.raises(InvalidEntry, match="to whom"):
        addressees(to)


def test_words_are_stripped_and_said_once():
    assert words(" a, b ,,a") == ("a", "b")
    assert words(["a,b", " c "]) == ("a,b", "c")
    assert words(None) == words("") == words([]) == ()


def test_one_or_many():
    assert (one_or_many(()), one_or_many(("a",)), one_or_many(("a", "b"))) == (
        None,
        "a",
        ("a", "b"),
    )
    entry = Entry(
        "syn-1", "a", "", "api", "info", "", "7d", ("agent:b", "team:c"), replaces=("syn-0",)
    )
    assert (entry.to, entry.supersedes) == (("agent:b", "team:c"), "syn-0")
    assert entry._replace(addressees=("agent:b",)).to == "agent:b"
