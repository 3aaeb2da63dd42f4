import random
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from tests.examples import examples

parts = st.sampled_from(("a", "b", "c-1", "d_2"))
paths = st.lists(parts, min_size=1, max_size=6).map("/".join)
globs = st.one_of(paths, st.lists(parts | st.just("*"), min_size=1, max_size=7).map("/".join))


def covers(pattern, path):
    """The rule as it is written down, by hand: a last star is any rest, also none; another star is
    one segment.
    """
    if pattern == ["*"]:
        return True
    if not pattern or not path:
        return pattern == path
    return pattern[0] in ("*", path[0]) and covers(pattern[1:], path[1:])


@given(globs, paths)
@examples(1_000)
def test_matching_is_the_written_rule(glob, path):
    assert ns.matches(glob, path) is covers(glob.split("/"), path.split("/"))


@given(paths, paths)
def test_a_subtree_is_its_root_and_all_below(root, path):
    assert ns.matches(f"{root}/*", path) is (f"{path}/".startswith(f"{root}/"))
    assert ns.matches(root, path) is (root == path)


@pytest.mark.parametrize(
    ("glob", "path", "found"),
    [
        ("*", "a/b/c", True),
        ("api/*", "api", True),
        ("api/*", "api/v1/users", True),
        ("api/*", "apis", False),
        ("api/*/v2", "api/x/v2", True),
        ("api/*/v2", "api/v2", False),
        ("api/*/v2", "api/x/y/v2", False),
        ("*/x", "a/x", True),
        ("*/x", "x", False),
        ("*/*", "a", True),
    ],
)
def test_matches(glob, path, found):
    assert ns.matches(glob, path) is found
    assert ns.matches_any((glob,), path) is found
    assert ns.matches_any((), path) is False


@pytest.mark.parametrize("text", ["a", "0", "api/end-points_2", "a/b/c/d/e/f", "x" * 63])
def test_what_a_namespace_is(text):
    assert ns.check(text) == text
    assert ns.is_glob(text)


WRONG = [
    "", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/..", "a/../b", "A", "aB", "a b", "a\n", "a\0", "-a", "_a",
    "a/-b", "~", "a\\b", "a:b", "c:/x", "a.md", ".index", "x" * 64, "/".join("abcdefg"), "é", "ａ",
    "а", "a\u202eb", "a/*", "*", "١", "²", "a%2fb", "con ", "$HOME", "`id`", "a;b", "a/./b", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_no_namespace_is(text):
    with pytest.raises(InvalidEntry, match="not valid"):
        ns.check(text)


@pytest.mark.parametrize(
    "text", [*(t for t in WRONG if t not in ("a/*", "*", "/".join("abcdefg"))), "**", "a*", "a/**"]
)
def test_what_no_pattern_is(text):
    with pytest.raises(InvalidEntry, match="not valid"):
        ns.check_glob(text)


def test_five_thousand_hostile_names_are_refused_quickly():
    chance = random.Random(5)
    bad = [
        "..",
        "",
        ".",
        "A",
        "\0",
        "/",
        "é",
        " ",
        "*" * 3,
        "a" * 64,
        "-",
        "\u202e",
        "%2e",
        "\\",
        "\n",
        "a" * 100_000,
    ]
    names = []
    for _ in range(5_000):
        pieces = [
            chance.choice(("ok", "api", chance.choice(bad))) for _ in range(chance.randint(1, 12))
        ]
        names.append("/".join([*pieces, chance.choice(bad)]))
    started = thread_time()
    assert not any(map(ns.is_namespace, names))
    assert thread_time() - started < 1
    assert not ns.is_namespace("a/" * 1_000_000)
    assert not ns.matches("*/" * 7 + "x", "a/" * 6 + "b")


@given(st.text(max_size=200))
@examples(500)
def test_a_namespace_is_a_path_that_stays_below(text):
    if ns.is_namespace(text):
        assert all(
            part and set(part) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
            for part in text.split("/")
        )
        assert all(part[0] not in "_-." for part in text.split("/"))


def test_the_default_time_to_live_is_the_longest_prefix_s():
    names = ("blockers/x", "api", "decisions/a/b", "team/x", "projects/p", "plans")
    assert [*map(ns.default_ttl, names)] == ["7d", "30d", "90d", "14d", "30d", "90d"]
    assert ns.default_ttl("apis/x") == ns.default_ttl("elsewhere") == "7d"
    declared = (("api/*", "1d"), ("api/v1", "2d"), ("*", "3d"))
    assert [ns.default_ttl(name, declared) for name in ("api/x", "api/v1/users", "team/x")] == [
        "1d",
        "2d",
        "3d",
    ]
