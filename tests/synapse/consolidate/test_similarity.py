"""Two texts say the same only if no word that carries meaning differs."""

import itertools

import pytest

from synapse.consolidate.plan import near_duplicates
from synapse.consolidate.similarity import fingerprint, similarity
from synapse.model.entry import Entry

SAME = (
    ("The users endpoint returns 404 for deleted users", "the users endpoint returns 404 for deleted users."),
    ("Deploy of web-1 is done", "Deploy of  web-1\nis done."),
    ("Use /v2/users, please, from now on in all of the clients", "Use /v2/users from now on in all of the clients!"),
    ('The build says "no space left" on ci-3', 'the build says "no space left" on ci-3'),
    ("Really: the nightly backup of the main database takes 4 h", "the nightly backup of main database takes 4 h"),
)  # fmt: skip

FRAMES = (
    "The nightly job on the build server was seen with {} in the log, and the team was told of it",
    "{} is what the orders service answers, as measured on the staging cluster by two engineers",
    "We agreed in the meeting with the backend team that the gateway keeps {}",
)
SLOTS = {
    "number": (("100 requests", "1000 requests"), ("3 retries", "4 retries"), ("1.5 seconds", "15 seconds"),
               ("-5 degrees", "5 degrees"), ("1,000 users", "1.000 users"), ("99 %", "99.9 %"), ("two keys", "ten")),
    "date": (("2026-02-01", "2026-02-10"), ("1 March", "1 May"), ("02:30", "14:30"), ("Monday", "Tuesday"),
             ("2026-02-01T02:30Z", "2026-02-01T02:30+01:00"), ("Q1", "Q2"), ("am", "pm")),
    "id": (("syn-2026-02-01-001", "syn-2026-02-01-010"), ("PR #12", "PR #21"), ("commit a1b2c3d", "commit a1b2c3e"),
           ("v1.2.3", "v1.2.4"), ("CVE-2026-1000", "CVE-2026-1001"), ("run_7", "run-7"), ("x86", "x64")),
    "url": (("https://a.example/v1", "https://a.example/v2"), ("http://a.example", "https://a.example"),
            ("/v1/users", "/v1/user"), ("host:80", "host:8080"), ("a.example/x?y=1", "a.example/x?y=2"),
            ("src/app.py", "src/api.py"), ("/V2/users", "/v2/users")),
    "quote": (('"no space left"', '"no space"'), ("`rm -r x`", "`rm -rf x`"), ('"a, b"', '"a b"'),
              ('"Error."', '"Error"'), ("`a  b`", "`a b`"), ('"the key"', '"key"'), ("'It'", "'it'")),
    "name": (("Anna", "Anne"), ("eng-a", "eng-b"), ("Redis", "Riak"), ("US", "us"), ("userId", "userid"),
             ("Postgres", "SQLite"), ("Mark", "mark")),
    "negation": (("a lock", "no lock"), ("being used", "never being used"), ("what is allowed", "what is not allowed"),
                 ("can fail", "can't fail"), ("with TLS", "without TLS"), ("ready", "not ready"),
                 ("some of it", "none of it")),
    "unit": (("5 ms", "5 s"), ("5 MB", "5 MiB"), ("5 Mb", "5 MB"), ("10 %", "10 ‰"), ("3 km", "3 m"),
             ("20 EUR", "20 USD"), ("5 h", "5 d")),
    "polarity": (("up", "down"), ("enabled", "disabled"), ("before noon", "after noon"), ("x > 5", "x < 5"),
                 ("on", "off"), ("must wait", "may wait"), ("done?", "done.")),
}  # fmt: skip
PAIRS = [
    (slot, frame.format(one), frame.format(other))
    for slot, pairs in SLOTS.items()
    for frame, (one, other) in itertools.product((*FRAMES, "{} and " + FRAMES[1]), pairs)
    if frame.count("{}") == 1
] + [(slot, one, other) for slot, pairs in SLOTS.items() for one, other in pairs]


def entry(seq, body, **more):
    return Entry(
        f"syn-2026-02-01-{seq:03d}", "a", "", "api", "info", body, "30d", seq=seq
    )._replace(**more)


def alike(*entries):
    return [[each.seq for each in group] for group in near_duplicates(entries)]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_is_seen_to_be(one, other):
    assert alike(entry(1, one), entry(2, other)) == [[1, 2]]


def test_pairs_that_differ_in_one_slot_are_never_merged():
    assert len(PAIRS) >= 200
    assert [pair for pair in PAIRS if alike(entry(1, pair[1]), entry(2, pair[2]))] == []


def test_a_merger_by_ratio_would_merge_them():
    from difflib import SequenceMatcher

    close = [pair for pair in PAIRS if SequenceMatcher(None, *pair[1:]).ratio() >= 0.85]
    assert len(close) > 200
    assert {slot for slot, _, _ in close} == set(SLOTS)


@pytest.mark.parametrize(
    "more",
    [{"namespace": "api/x"}, {"scope": "team"}, {"addressees": ("team:red",)}, {"priority": "important"},
     {"evidence": "a test"}, {"when": "on Mondays"}, {"topic": "plan"}, {"trust": "unverified"},
     {"disputed": ("syn-2026-02-01-003",)}, {"replaces": ("syn-2026-01-01-001",)}],
    ids=lambda more: next(iter(more)),
)  # fmt: skip
def test_what_differs_in_anything_else_stays_itself(more):
    assert alike(entry(1, "The same text"), entry(2, "the same text", **more)) == []


@pytest.mark.parametrize(
    "more", [{"priority": "critical"}, {"scope": "private"}, {"scope": "encrypted"}], ids=str
)
def test_what_is_critical_or_sealed_stays_itself(more):
    assert alike(entry(1, "The same text", **more), entry(2, "the same text", **more)) == []


def test_few_words_drowned_in_small_ones_are_not_close():
    one = fingerprint("please just really very simply do it")
    other = fingerprint("do it")
    assert one.words == other.words
    assert similarity(one, other) < 0.85
    assert similarity(other, other) == 1.0
    assert alike(entry(1, "please just really very simply do it"), entry(2, "do it")) == []
