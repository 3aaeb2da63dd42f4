"""What was found as text: within the limit to the byte, with provenance that costs little."""

from hypothesis import example, given
from hypothesis import strategies as st

from synapse.knowledge.capsule import LEAST, capsule, digest, short
from synapse.model.entry import Entry
from synapse.model.kinds import More
from synapse.model.results import Hit

AT = 1_769_936_400_000_000  # 2026-02-01T09:00Z


def item(n, body, author="eng-backend", **more):
    base = Entry(f"fact_{n:08x}0000", author, "", "groups/backend", "info", body, "never", authority=60, at=AT,
                 kind="fact", more=More(confidence=1.0))  # fmt: skip
    return Hit(base._replace(**more), 1.0, "")


def told(*hits, limit=2_048, found=None, query="x"):
    return capsule(hits, found or len(hits), query, limit, 7)


def test_what_is_shared_is_said_once():
    one = item(1, "the gate is red")
    other = item(2, "so is the door", more=More(confidence=0.5), trust="unverified")
    third = item(3, "older", at=AT - 86_400_000_000 * 40, authority=80)
    entry = item(4, "kept", id="syn-2026-02-01-004", kind="entry", more=More())
    assert told(one, other, third, entry).text == (
        "(version 7; [groups/backend], authority 60, confidence 1, local; 2026 UTC)\n"
        f"- fact_00000001@{digest(one.entry)[:5]} eng-backend 02-01T09:00\n  > the gate is red\n"
        f"- fact_00000002@{digest(other.entry)[:5]} eng-backend 02-01T09:00"
        f" (confidence 0.5, unverified)\n"
        "  > so is the door\n"
        f"- fact_00000003@{digest(third.entry)[:5]} eng-backend 2025-12-23T09:00"
        f" (authority 80)\n  > older\n"
        f"- syn-2026-02-01-004@{digest(entry.entry)[:5]} eng-backend 09:00\n  > kept\n"
    )
    assert short(one.entry) == f"fact_00000001@{digest(one.entry)[:5]}"


def test_provenance_costs_at_most_55_bytes_a_fact():
    """All that a fact takes beside its own words, whoever has said it; of names as people have
    them, the head too.
    """
    for author, with_head in (("eng-backend", False), ("caroline", True)):
        for kind in ("fact", "entry"):
            ids = {
                n: {"id": f"syn-2026-02-01-{n:03}"} if kind == "entry" else {} for n in range(1, 13)
            }
            hits = [item(n, f"fact number {n}", author, kind=kind, **ids[n]) for n in ids]
            text = told(*hits).text
            spent = len(text.encode()) - sum(len(hit.body.encode()) for hit in hits)
            assert spent - (0 if with_head else text.index("\n") + 1) <= 55 * len(hits)


def test_nothing_found_says_as_of_when():
    assert told().text == "Nothing that you may see here matches these words (version 7).\n"


def test_what_is_missing_is_counted():
    made = told(*(item(n, "word " * 40) for n in range(12)), found=31, limit=700)
    assert made.text.endswith(f"({len(made.shown)} of 31 shown; raise top_k, or `read` an id)\n")
    assert 0 < len(made.shown) < 12


def test_a_shorter_one_takes_the_room_that_a_longer_one_has_no_use_for():
    made = told(item(1, "a" * 100), item(2, "b" * 300), item(3, "c"), limit=420)
    assert [entry.body[0] for entry in made.shown] == ["a", "c"]


def test_of_the_best_one_a_part_is_shown():
    made = told(item(1, "é" * 300), limit=300)
    assert "é…\n" in made.text
    assert 290 < len(made.text.encode()) <= 300


TEXT = st.text(st.sampled_from("aé😀\u202e\n <|[x]\u0301漢"), min_size=1, max_size=400)


@example([("<", "é" * 64, "a" * 63), ("<", "eng", "api/x"), ("<", "eng", "api/x")], 375, 0)
@given(st.lists(st.tuples(TEXT, st.sampled_from(("eng", "é" * 64, "a" * 63)), st.sampled_from(("api/x", "a" * 63))),
                max_size=8), st.integers(LEAST, 3_000), st.integers(0, 100))  # fmt: skip
def test_no_capsule_exceeds_its_limit(items, limit, more):
    hits = [item(n, body, author, namespace=where, disputed=("syn-2026-02-01-001",) * (n % 3))
            for n, (body, author, where) in enumerate(items)]  # fmt: skip
    made = capsule(hits, len(hits) + more, "a 漢", limit, 7)
    assert len(made.text.encode()) <= limit
    assert made.text.count("\n- ") == len(made.shown)
    assert all(
        line.startswith(("(", "- fact_", "  > ", "Nothing")) for line in made.text.splitlines()
    )
    assert made.found == len(hits) + more or not hits


def test_one_byte_more_would_have_been_used():
    """The limit is kept to the byte: what just fits is shown, and what is one byte too long is
    not.
    """
    hits = [item(n, "x" * 50) for n in range(1, 6)]
    whole = len(told(*hits).text.encode())
    assert len(told(*hits, limit=whole).shown) == 5
    assert len(told(*hits, limit=whole - 1).shown) < 5
