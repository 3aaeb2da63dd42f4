"""Counting: the right encoding, each text once, and what is learnt from what providers report."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.engines.protocol import Call, Message, Request, Tool
from orchestrator.engines.scripted import Scripted
from orchestrator.spend.counting import (
    ENOUGH,
    REMEMBERED,
    UNLEARNT,
    Checked,
    Counter,
    Ratios,
    check,
    encoding_of,
    is_own,
)
from synapse.errors import InvalidQuery
from synapse.system import tokens


@pytest.mark.parametrize(
    ("model", "encoding", "own"),
    [
        ("gpt-4o-mini", "o200k_base", True),
        ("gpt-4.1", "o200k_base", True),
        ("gpt-5", "o200k_base", True),
        ("openai/GPT-5-mini", "o200k_base", True),
        ("o3", "o200k_base", True),
        ("gpt-4", "cl100k_base", True),
        ("gpt-4-turbo-2024-04-09", "cl100k_base", True),
        ("gpt-3.5-turbo", "cl100k_base", True),
        ("claude-sonnet-4-5", "o200k_base", False),
        ("gemini-2.5-pro", "o200k_base", False),
        ("qwen3:8b", "o200k_base", False),
        (None, "o200k_base", False),
    ],
)
def test_the_encoding_is_the_models(model, encoding, own):
    assert (encoding_of(model), is_own(model)) == (encoding, own)
    assert Counter(model).encoding == encoding


def test_an_encoding_may_be_asked_for():
    assert Counter("gpt-5", encoding="cl100k_base").encoding == "cl100k_base"
    with pytest.raises(InvalidQuery):
        Counter(encoding="nonsense")


def counted(monkeypatch):
    """What the tokenizer was asked to encode."""
    asked = []
    monkeypatch.setattr(
        tokens, "_opened", lambda _: (lambda text: asked.append(text) or text.split(), None)
    )
    return asked


def test_a_text_is_counted_once(monkeypatch):
    asked, counter = counted(monkeypatch), Counter("gpt-5")
    assert [counter.count("a b c") for _ in range(3)] == [3, 3, 3]
    assert counter.measure(["a b c", "d"]) == ([3, 1], False)
    assert asked == ["a b c", "d"]


def test_counts_kept_elsewhere_are_asked_first_and_given_new_ones(monkeypatch):
    asked, below = counted(monkeypatch), {tokens.digest("known"): 7}
    counter = Counter(
        "gpt-5",
        stored=lambda keys: {key: below[key] for key in keys if key in below},
        keep=below.update,
    )
    assert (counter.count("known"), counter.count("new one"), counter.count("known")) == (7, 2, 7)
    assert asked == ["new one"]
    assert below[tokens.digest("new one")] == 2


def test_no_more_counts_are_kept_than_said(monkeypatch):
    asked, counter = counted(monkeypatch), Counter("gpt-5", most=3)
    for text in "abcad":
        counter.count(text)
    assert asked == ["a", "b", "c", "d"]
    counter.count("a")
    counter.count("b")
    assert asked == ["a", "b", "c", "d", "b"]
    assert len(counter._counts) == 3


def test_many_threads_count_the_same():
    counter = Counter("gpt-5", most=10)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: counter.count(f"text number {n % 30}"), range(600)))
    assert found == [Counter("gpt-5").count(f"text number {n % 30}") for n in range(600)]


def test_without_a_tokenizer_reports_are_estimates_and_budgets_are_bounds(monkeypatch):
    monkeypatch.setattr(tokens, "_opened", lambda _: (None, "gone"))
    counter = Counter("gpt-5")
    assert counter.counting == "exact"
    assert counter.count("12345678é") == 3
    assert counter.counting == "estimate"
    assert counter.measure(["12345678é"]) == ([10], True)
    assert counter.bound("12345678é") == 10


def test_a_request_is_counted_by_label(monkeypatch):
    counted(monkeypatch)
    request = Request(
        "you are x",
        (
            Message("user", "## Shared", "view"),
            Message("user", "do it", "task"),
            Message("assistant", "", "work_out", (Call("1", "read", {"id": "syn 1"}),)),
            Message("tool", "a b c", "capsule", answers="1"),
        ),
        (Tool("read", "Show an entry.", {"type": "object"}),),
    )
    counter = Counter("gpt-5")
    assert list(counter.segments(request)) == [
        ("system", 3),
        ("tool_schema", 5),
        ("view", 2),
        ("task", 2),
        ("work_out", 2),
        ("capsule", 3),
    ]
    assert list(counter.segments(Request("", ()))) == []


class Providing(Scripted):
    async def count(self, request):
        return 110


def test_the_providers_own_count_stands_beside_ours(monkeypatch):
    counted(monkeypatch)
    request = Request("w " * 100, ())
    found = asyncio.run(check(Counter("gpt-5"), Providing(), request))
    assert found == Checked(100, 110, 1.0)
    assert found.within
    assert not found._replace(theirs=130).within
    assert found._replace(theirs=130, ratio=1.25).within
    assert asyncio.run(check(Counter("gpt-5"), Scripted(), request)) is None


# -- What is learnt --------------------------------------------------------------------


def test_the_ratio_is_stated_until_it_is_learnt(tmp_path):
    ratios = Ratios(str(tmp_path))
    assert (ratios.of("gpt-5"), ratios.of("claude-x")) == (1.0, UNLEARNT)
    ratios.learn("claude-x", 1_300, ENOUGH - 1_000)
    assert ratios.of("claude-x") == UNLEARNT
    ratios.learn("anthropic/Claude-X", 1_300, 1_000)
    assert ratios.of("claude-x") == 2_600 / ENOUGH
    assert ratios.of("claude-y") == UNLEARNT


def test_what_is_senseless_is_not_learnt_or_bounded(tmp_path):
    ratios = Ratios(str(tmp_path))
    ratios.learn("m", 0, 5_000)
    ratios.learn("m", 5_000, 0)
    assert not (tmp_path / "runs").exists()
    ratios.learn("m", 10, 5_000)
    assert ratios.of("m") == 0.5
    ratios.learn("n", 10**9, 5_000)
    assert ratios.of("n") == 3.0


def test_a_changed_tokenizer_is_noticed_in_time(tmp_path):
    ratios = Ratios(str(tmp_path))
    for ratio in (1.0, 1.4):
        for _ in range(12):
            ratios.learn("m", int(REMEMBERED / 2 * ratio), REMEMBERED // 2)
    assert 1.35 < ratios.of("m") <= 1.4


@pytest.mark.parametrize(
    ("more", "kept"), [(0, REMEMBERED), (1, REMEMBERED // 2), (2, REMEMBERED // 2 + 1)]
)
def test_what_is_remembered_is_halved_when_it_is_too_much(tmp_path, more, kept):
    ratios = Ratios(str(tmp_path))
    ratios.learn("m", REMEMBERED, REMEMBERED - 1)
    ratios.learn("m", 1 + more, 1 + more)
    found = json.loads((tmp_path / "runs/ratios.json").read_text())["m"]
    assert found["counted"] == kept


def test_any_number_of_processes_add_to_it(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: Ratios(str(tmp_path)).learn("m", 130, 100), range(200)))
    assert json.loads((tmp_path / "runs/ratios.json").read_text()) == {
        "m": {"counted": 20_000, "reported": 26_000}
    }


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"m": 1}', '{"m": {"reported": 1}}', '{"m": {"reported": [], "counted": 2}}'],
)
def test_a_damaged_file_is_learnt_again(tmp_path, text):
    ratios = Ratios(str(tmp_path))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/ratios.json").write_text(text)
    assert ratios.of("m") == UNLEARNT
    ratios.learn("m", 3_000, 2_000)
    assert ratios.of("m") == 1.5


def test_a_budget_is_scaled_there_and_back():
    counter = Counter("claude-x", ratio=1.25)
    assert (counter.ours(1_000), counter.theirs(800)) == (800, 1_000)
    for tokens_ in range(1, 2_000, 7):
        assert counter.theirs(counter.ours(tokens_)) <= tokens_
