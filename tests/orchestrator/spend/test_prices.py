"""Prices: as the list has them, at their own rates for the cache, never fetched and never
guessed.
"""

import subprocess
import sys
from datetime import UTC, datetime

import genai_prices
import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.spend import prices
from orchestrator.spend.prices import Price, Rate
from synapse.errors import InvalidEntry

AT = 1_769_900_400_000_000  # 2026-01-31T23:00:00Z
MODELS = [
    ("claude-sonnet-4-5", "anthropic"),
    ("claude-opus-4-1", "anthropic"),
    ("gpt-5", "openai"),
    ("gpt-4o-mini", None),
    ("gemini-2.5-pro", "google"),
    ("deepseek-chat", "deepseek"),
]
USAGES = [
    Usage(1_000, 200),
    Usage(120_000, 3_000, cached_tokens=100_000, written_tokens=15_000),
    Usage(250_000, 1, cached_tokens=1),
    Usage(),
]

# Refuses every name lookup and connection, then asks for prices.
OFFLINE = """
import sys, threading
def refuse(event, args):
    if event.startswith("socket."):
        raise SystemExit(f"{event}{args}")
sys.addaudithook(refuse)
from orchestrator.spend import prices
assert "genai_prices" not in sys.modules
assert prices.price("claude-sonnet-4-5", at=0) and not prices.price("none-such", at=0)
print(threading.active_count())
"""


def theirs(usage, model, provider):
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    counts |= {"cache_read_tokens": usage.cached_tokens, "cache_write_tokens": usage.written_tokens}
    when = datetime.fromtimestamp(AT / 1e6, UTC)
    found = genai_prices.calc_price(
        genai_prices.Usage(**counts), model, provider_id=provider, genai_request_timestamp=when
    )
    return float(found.total_price)


@pytest.mark.parametrize(("model", "provider"), MODELS, ids=lambda value: str(value))
@pytest.mark.parametrize("usage", USAGES)
def test_costs_are_the_lists(model, provider, usage):
    price = prices.price(model, provider, at=AT)
    assert prices.cost(price, usage) == pytest.approx(theirs(usage, model, provider), abs=1e-12)
    assert price.source == "list"


@pytest.mark.parametrize(("model", "provider"), MODELS, ids=lambda value: str(value))
@pytest.mark.parametrize("usage", USAGES)
def test_no_call_costs_more_than_the_worst(model, provider, usage):
    price = prices.price(model, provider, at=AT)
    assert (
        prices.cost(price, usage)
        <= prices.worst(price, usage.input_tokens, usage.output_tokens) + 1e-12
    )


def test_the_cache_has_prices_of_its_own():
    price = Price("m", Rate(3), Rate(15), Rate(0.3), Rate(3.75))
    assert prices.cost(price, Usage(1_000_000, 0)) == 3
    assert prices.cost(price, Usage(1_000_000, 0, cached_tokens=1_000_000)) == pytest.approx(0.3)
    assert prices.cost(price, Usage(1_000_000, 0, written_tokens=1_000_000)) == 3.75
    assert prices.worst(price, 1_000_000, 1_000_000) == 18.75


def test_a_long_prompt_pays_its_tier_for_all_of_it():
    rate = Rate(3, ((200_000, 6), (500_000, 9)))
    assert [rate.at(tokens) for tokens in (0, 200_000, 200_001, 500_001)] == [3, 3, 6, 9]


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("none-such", None),
        ("llama3.1", "http://127.0.0.1:11434/v1"),
        ("gpt-5", "scripted"),
        ("whisper-1", "openai"),
    ],
)
def test_what_is_not_listed_has_no_price(model, provider):
    assert prices.price(model, provider, at=AT) is None


def test_what_has_no_price_for_output_has_none():
    listed = genai_prices.calc_price(
        genai_prices.Usage(), "text-embedding-3-small", provider_id="openai"
    )
    assert listed.model_price.input_mtok
    assert listed.model_price.output_mtok is None
    assert prices.price("text-embedding-3-small", provider="openai", at=AT) is None


def test_a_price_for_each_request_is_paid_once_a_call():
    price = prices.price("sonar", provider="perplexity", at=AT)
    listed = genai_prices.calc_price(genai_prices.Usage(), "sonar", provider_id="perplexity")
    assert listed.model_price.requests_kcount
    assert price.call * 1_000 == float(listed.model_price.requests_kcount)


def test_each_kind_of_token_has_its_own_price():
    price = prices.own("own", {"input": 1, "output": 10, "cached": 100, "written": 1000, "call": 5})
    million = prices.MILLION
    usage = Usage(6 * million, 4 * million, million, 2 * million)
    assert prices.cost(price, usage) == 3 * 1 + 4 * 10 + 1 * 100 + 2 * 1000 + 5
    odd = Usage(1, 0, cached_tokens=million)  # more from the cache than there was
    assert prices.cost(price, odd) == 100 + 5
    assert prices.worst(price, million, million) == 1000 + 10 + 5


def test_an_interface_is_known_by_its_address():
    assert prices.price("gpt-5", "https://api.openai.com/v1", at=AT) == prices.price(
        "gpt-5", "openai", at=AT
    )


def test_the_users_price_comes_first():
    given = {
        "gpt-5": {"input": "1", "output": 2},
        "local": {"input": 0, "output": 0, "cached": 0, "call": 0.01},
    }
    assert prices.price("gpt-5", "openai", at=AT, given=given) == Price(
        "gpt-5", Rate(1), Rate(2), Rate(1), Rate(1), source="given"
    )
    assert prices.cost(prices.price("local", at=AT, given=given), Usage(9, 9)) == 0.01


@pytest.mark.parametrize(
    "given",
    [
        {"input": 1},
        {"input": 1, "output": "dear"},
        {"input": 1, "output": -1},
        {"input": 1, "output": 2, "inputs": 3},
    ],
)
def test_a_price_that_cannot_be_read_is_said(given):
    with pytest.raises(InvalidEntry, match="price of m"):
        prices.price("m", at=AT, given={"m": given})


def test_nothing_is_fetched():
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["1"], "")


@pytest.mark.parametrize("value", ["cheap", [1], {"mine": 3.0}])
def test_prices_that_cannot_be_read_are_said(value):
    with pytest.raises(InvalidEntry, match="prices: write a line for each model"):
        prices.declared({"prices": value})
    assert prices.declared({}) == {}
    assert prices.declared({"prices": {"mine": {"input": 1, "output": 2}}}) == {
        "mine": {"input": 1, "output": 2}
    }
