"""What tokens cost: the arithmetic, the tables, which price a model has, and the figures of a run's
calls that a card shows.
"""

from __future__ import annotations

import datetime
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls.costs import packaged_prices
from ktdeval.calls.costs.prices import (
    Price,
    PriceTier,
    choose_price,
    read_price_table,
)
from ktdeval.calls.records.call_counts import call_figures
from ktdeval.calls.records.record import ANSWERED, CACHED, REFUSED, CallRecord
from ktdeval.errors import ConfigError
from ktdeval.harness.chat_messages import Usage
from ktdeval.testing import on_each_row
from ktdeval.values import facts_file
from support.searching import examples
from support.tables import beside

BUILT_IN = facts_file("prices.yaml")

TABLE = beside(__file__)["table"]


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "table.yaml"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    # reasoning is part of the reply; without prices of their own, tokens of the prompt cache cost
    # what others do
    [
        (
            Price(2.0, 10.0, 0.5, 2.5),
            Usage(1_000_000, 100_000, 60_000, 500_000, 200_000),
            0.3 * 2 + 0.5 * 0.5 + 0.2 * 2.5 + 0.1 * 10,
        ),
        (Price(2.0, 10.0), Usage(1_000_000, 0, 0, 400_000, 300_000), 2.0),
        (Price(2.0, 10.0, cache_read=0.0), Usage(1_000_000, 0, 0, 1_000_000), 0.0),
    ],
)
def test_each_kind_of_token_has_its_own_price(price, usage, cost):
    assert price.cost(usage) == pytest.approx(cost)


# --- arithmetic


amounts = st.floats(0, 1000)


@examples(40)
@given(
    st.builds(Price, amounts, amounts, st.none() | amounts, st.none() | amounts),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.data(),
)
def test_no_usage_costs_more_than_the_most_for_as_many_tokens(price, inputs, outputs, data):
    reads = data.draw(st.integers(0, inputs))
    usage = Usage(inputs, outputs, 0, reads, data.draw(st.integers(0, inputs - reads)))
    assert 0 <= price.cost(usage) <= price.most(inputs, outputs) * (1 + 1e-9)


@examples(40)
@given(st.lists(st.builds(Usage, st.integers(0, 10**6), st.integers(0, 10**6)), max_size=5))
def test_costs_add_up(usages):
    price = Price(2.0, 10.0)
    assert sum(map(price.cost, usages)) == pytest.approx(price.cost(sum(usages, Usage())))


def test_a_price_as_json_names_day_and_source():
    shown = {"input": 2.0, "output": 10.0, "cache_read": 0.5, "cache_write": None}
    assert Price(2.0, 10.0, 0.5, None, "2026-10-01", "x").to_json() == shown | {
        "as_of": "2026-10-01",
        "source": "x",
    }


# --- tables


@on_each_row(
    "old, new, problem",
    ("input: 1,", "inputs: 1,", "models\\[0\\]: unknown field 'inputs'; did you mean 'input'"),
    ("input: 1,", "", "models\\[0\\]: field 'input' is missing"),
    ("input: 1,", "input: -1,", "models\\[0\\]: input: expected a value of at least 0"),
    ("input: 1,", "input: cheap,", "models\\[0\\]: input: expected a number, was 'cheap'"),
    ("input: 1,", "input: .nan,", "models\\[0\\]: input: expected a finite number"),
    ("input: 1,", "input: true,", "models\\[0\\]: input: expected a number"),
    (
        "match: acme/big-*",
        "match: acme/*",
        "models\\[1\\]: match 'acme/\\*' was already given in models\\[0\\]",
    ),
    ("match: acme/big-*,", "", "models\\[1\\]: field 'match' is missing"),
    ("match: acme/big-*", "match: big", "models\\[1\\]: match: expected PROVIDER/NAME, was 'big'"),
    (
        "[acme/small,",
        "[acme/small, acme/small,",
        "models\\[3\\]: match 'acme/small' was already given in models\\[3\\]",
    ),
    ('as_of: "2025-01-01"', "as_of: spring", "models\\[2\\]: as_of: 'spring' is not a date"),
    (
        'as_of: "2026-10-01"',
        'as_of: "2026-13-01"',
        "table\\.yaml: as_of: '2026-13-01' is not a date; write it as 2024-01-02",
    ),
    ('as_of: "2026-10-01"\n', "", "table\\.yaml: field 'as_of' is missing"),
    (
        "source: https://example.com/pricing",
        ("currency: CNY\nsource: x"),
        "currency: expected one of USD, was 'CNY'",
    ),
    ("models:", "prices:", "unknown field 'prices'"),
    ("models:", ("as_of: x\nmodels:"), "line 3: key 'as_of' was already given on line 1"),
)
def test_a_mistake_in_a_table_is_named_with_its_place(table, old, new, problem):
    assert old in TABLE

    table.write_text(TABLE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=problem) as caught:
        read_price_table(table)

    assert "\n" not in str(caught.value)

    with pytest.raises(ConfigError, match=r"missing\.yaml: can't read"):
        read_price_table(table.with_name("missing.yaml"))


# --- which price counts


def test_given_price_precedes_a_given_table_and_that_the_plugins_table(table, tmp_path):
    default = tmp_path / "default.yaml"
    default.write_text(TABLE.replace("input: 1,", "input: 77,").replace("acme/*", '"*/*"'))
    given_price = choose_price(
        "acme/tiny", {"input": 3, "output": 4, "cache_read": 0.3}, table, default
    )

    assert given_price == Price(3.0, 4.0, 0.3, None, "", "--price")
    assert (choose_price("acme/tiny", {}, table, default) or Price(0, 0)).input == 1.0
    assert (choose_price("acme/tiny", {}, None, default) or Price(0, 0)).input == 77.0
    # a given table takes the place of the other
    assert choose_price("unknown/tiny", {}, table, default) is None
    assert choose_price("acme/tiny", {}, None, None) is None


@on_each_row(
    "given_fields, problem",
    ({"input": 1}, "--price: field 'output' is missing"),
    ({"input": 1, "outputs": 2}, "--price: unknown field 'outputs'; did you mean 'output'"),
    ({"input": 1, "output": -2}, "--price: output: expected a value of at least 0"),
    ({"input": "free", "output": 0}, "--price: input: expected a number, was 'free'"),
    ({"match": "a/b", "input": 1, "output": 1}, "--price: unknown field 'match'"),
)
def test_a_mistake_in_a_given_price_is_named(given_fields, problem):
    with pytest.raises(ConfigError, match=problem):
        choose_price("acme/tiny", given_fields)


# --- the table of the built-in models


TODAY = datetime.date(2026, 11, 26)


def built_in(name: str, day: datetime.date = TODAY) -> Price | None:
    address = ""
    if name.startswith("minimax/"):  # which bills yuan elsewhere
        address = "https://api.minimax.io/v1"
    return choose_price(name, {}, None, BUILT_IN, day, address)


@on_each_row(
    "name, read, written, cached, cache_write",
    ("openai/gpt-4.1", 2.0, 8.0, 0.5, None),
    ("openai/gpt-4.1-2025-04-14", 2.0, 8.0, 0.5, None),
    ("openai/gpt-6-astra", 10.0, 50.0, 1.0, 12.5),
    ("azure/gpt-4.1", 2.0, 8.0, 0.5, None),
    ("anthropic/claude-opus-4-7", 5.0, 25.0, 0.5, 6.25),
    ("anthropic/claude-sonnet-4-5-20250929", 3.0, 15.0, 0.3, 3.75),
    ("google/gemini-2.5-pro", 1.25, 10.0, 0.125, None),
    ("vertex/claude-sonnet-4-5@20250929", 3.0, 15.0, 0.3, 3.75),
    ("deepseek/deepseek-v4-pro", 1.32, 3.96, 0.044, None),
    ("minimax/MiniMax-M3", 0.3, 1.2, 0.06, None),
)
def test_a_price_of_the_package_has_the_rates_of_the_vendors_page(
    name: str, read: float, written: float, cached: float, cache_write: float | None
) -> None:
    """Rates as they stood on the vendors' own pages."""
    price = built_in(name)

    assert price is not None
    assert (price.input, price.output, price.cache_read, price.cache_write) == (
        read,
        written,
        cached,
        cache_write,
    )
    assert re.fullmatch(r"genai-prices [0-9.]+, [\w-]+/\S+", price.source)


@pytest.mark.parametrize(
    "name",
    [
        "openai/gpt-4.1-super",
        "openai_compatible/gpt-4.1",
        "anthropic/claude-opus-5-6",
        "moonshot/kimi-k2",  # billed in yuan at its usual address
        "ollama/llama3",
        "builtin/momentum",
        "openai",
    ],
)
def test_a_model_has_no_price_of_its_neighbours(name: str) -> None:
    assert built_in(name) is None


@pytest.mark.parametrize(("name", "address", "source"), beside(__file__)["by_address"])
def test_dollars_are_those_of_the_address(name: str, address: str, source: str | None) -> None:
    """Moonshot, Zhipu (Z.ai) and MiniMax bill dollars abroad and yuan in China."""
    price = choose_price(name, {}, None, BUILT_IN, TODAY, address)

    if source is None:
        assert price is None
        return

    assert price is not None
    assert f"{price.input:g} {price.output:g} {price.source.split()[-1]}" == source


@on_each_row(
    "name, day, rate",
    ("google/gemini-3.8-flash", "2026-12-31", 0.75),
    ("google/gemini-3.8-flash", "2027-01-01", 1.5),
    ("deepseek/deepseek-flash", "2026-11-26", 0.3),  # 0.15 outside of the dear hours
)
def test_a_price_is_that_of_the_day_and_of_its_dearest_hour(
    name: str, day: str, rate: float
) -> None:
    price = built_in(name, datetime.date.fromisoformat(day))
    assert price is not None
    assert price.input == rate


def test_without_the_package_a_price_is_not_known_and_it_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    packaged_prices._packaged_snapshot.cache_clear()
    for module in [name for name in sys.modules if name.partition(".")[0] == "genai_prices"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    try:
        assert built_in("openai/gpt-4.1") is None
        assert built_in("openai/gpt-4.1-mini") is None
    finally:
        packaged_prices._packaged_snapshot.cache_clear()

    assert [record.message for record in caplog.records] == [
        "no prices: genai_prices is not installed; get it with `pip install genai-prices`, or give"
        " --price or --price-table"
    ]


def test_no_price_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    packaged_prices._packaged_snapshot.cache_clear()

    assert built_in("openai/gpt-4.1") is not None


def test_a_long_prompt_costs_the_rates_of_its_tier_and_is_reserved_at_them() -> None:
    price = built_in("google/gemini-2.5-pro")
    assert price is not None
    assert price.tiers == (
        PriceTier(above=200_000, input=2.5, output=15.0, cache_read=0.25, cache_write=None),
    )
    # 100,000 × 1.25 + 1,000 × 10, and 300,000 × 2.5 + 1,000 × 15, a million tokens
    assert price.call_cost(Usage(100_000, 1_000)) == pytest.approx(0.135)
    assert price.call_cost(Usage(200_000, 1_000)) == pytest.approx(0.26)
    assert price.call_cost(Usage(300_000, 1_000)) == pytest.approx(0.765)
    assert price.most(300_000, 1_000) == pytest.approx(0.765)
    assert price.most(200_000, 1_000) == pytest.approx(0.26)
    # of several calls together, none of them long
    assert price.cost(Usage(300_000, 3_000)) == pytest.approx(3 * 0.135)
    assert Price(**from_json(price)) == price


def from_json(price: Price) -> dict[str, Any]:
    fields: dict[str, Any] = dict(price.to_json())
    tiers = fields.pop("tiers", None)
    return {**fields, "tiers": tuple(PriceTier(**tier) for tier in tiers)} if tiers else fields


# -- figures of a run's calls on a card


def call(
    key: str, outcome: str = ANSWERED, latency_s: float = 1.0, episode: str = "e1", **changes: Any
) -> CallRecord:
    """A line of the book; an answer took 100 tokens in and 10 out for 0.5 USD."""
    if outcome in (ANSWERED, CACHED):
        changes = {
            "usage": Usage(100, 10),
            "cost_usd": 0.5 if outcome == ANSWERED else None,
            "served_by": "m-2026",
        } | changes

    return CallRecord(
        **{"at": "2026-01-02T03:04:05Z", "attempt": 1} | changes,
        episode=episode,
        key=key,
        outcome=outcome,
        latency_s=latency_s,
    )


def latencies(*seconds: float | None) -> dict[str, float | None]:
    return dict(zip(("median", "p90", "p99", "longest"), seconds, strict=True))


TIMED = [call(str(number), latency_s=float(number)) for number in range(1, 101)]
SUMMARIES: dict[str, tuple[list[CallRecord], dict[str, Any]]] = {
    "each failed attempt is counted under its own kind beside the answer that followed": (
        [
            call("a", "rate_limited"),
            call("a", "server", attempt=2),
            call("a", attempt=3),
            call("b"),
            call("c", REFUSED),
        ],
        {
            "requests": 3,
            "attempts": 5,
            "answered": 2,
            "cached": 0,
            "failed_attempts": {"rate_limited": 1, "refused": 1, "server": 1},
        },
    ),
    "a reply from the cache costs nothing and is no attempt": (
        [call("a"), call("b", CACHED), call("b", CACHED, episode="e2")],
        {
            "requests": 3,
            "attempts": 1,
            "cached": 2,
            "paid_usd": 0.5,
            "tokens": Usage(100, 10).to_json(),
        },
    ),
    "a request that a resumed run asks again is one": (
        [call("a"), call("a", CACHED)],
        {"requests": 1},
    ),
    "what was paid is not known where the price of one answer is not": (
        [call("a"), call("b", cost_usd=None)],
        {"paid_usd": None},
    ),
    "what was paid is a sum": ([call("a"), call("b")], {"paid_usd": 1.0}),
    "money held for attempts without an answer stands apart": (
        [
            call("a", "timeout", 120.0, held_usd=0.25),
            call("a", "bad_response", 3.5004, held_usd=0.125),
            call("a"),
        ],
        {"paid_usd": 0.5, "possibly_paid_usd": 0.375, "lost_s": 123.5},
    ),
    "latencies are those of answers by nearest rank": (
        [*TIMED, call("x", "timeout", 500.0)],
        {"latency_s": latencies(50.0, 90.0, 99.0, 100.0)},
    ),
    "the median latency of two calls is that of one of them": (
        TIMED[:2],
        {"latency_s": latencies(1.0, 2.0, 2.0, 2.0)},
    ),
    "latencies have no order": (
        [TIMED[2], TIMED[0], TIMED[1]],
        {"latency_s": latencies(2.0, 3.0, 3.0, 3.0)},
    ),
    "the latency of one call": ([TIMED[2]], {"latency_s": latencies(3.0, 3.0, 3.0, 3.0)}),
    "without an answer there is no latency": (
        [call("a", "timeout")],
        {"latency_s": latencies(None, None, None, None)},
    ),
    "calls of other cards do not count and those of the run itself stand apart": (
        [
            call("a"),
            call("b", episode="another"),
            call("c", episode="check"),
            call("d", "server", episode="canary"),
        ],
        {
            "requests": 1,
            "checks": {"requests": 2, "attempts": 2, "paid_usd": 0.5, "possibly_paid_usd": 0.0},
        },
    ),
}


@pytest.mark.parametrize(("records", "figures"), SUMMARIES.values(), ids=SUMMARIES)
def test_figures_of_the_calls_of_two_episodes(
    records: list[CallRecord], figures: dict[str, Any]
) -> None:
    made = call_figures(records, {"e1", "e2"})
    assert made is not None
    assert {name: made[name] for name in figures} == figures
