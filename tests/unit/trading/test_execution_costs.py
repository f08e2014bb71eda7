"""Price of a fill by its size: worked by hand, in bounds, and monotone in what it depends on."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ktdeval.trading.execution_costs import Quote, fill_ticks
from ktdeval.trading.venue_terms import ExecutionTerms
from support.searching import examples

PPB = 10**9
FREE = ExecutionTerms(
    half_spread_ppb=0,
    is_by_liquidity=False,
    reference_activity=0,
    half_tick=0,
    impact_ppb=0,
    permanent_ppb=0,
    participation_ppb=None,
    carries=False,
    inside_bar=False,
    window_days=20,
)


def quote(terms: dict[str, Any], **facts: Any) -> Quote:
    """100 CNY in ticks of 1/10,000, 2 % volatility, a million shares a day, unless told."""
    usual = {
        "reference": 1_000_000,
        "unit": 100,
        "sigma_ppb": 20_000_000,
        "volume": 1_000_000,
        "low": 980_000,
        "high": 1_020_000,
    }
    return Quote(terms=replace(FREE, **terms), **{**usual, **facts})


BY_LIQUIDITY = {
    "half_spread_ppb": 821_000,
    "is_by_liquidity": True,
    "reference_activity": 80_000_000,
}


@pytest.mark.parametrize(
    ("terms", "facts", "steps", "buy", "sell"),
    [
        pytest.param({}, {}, 10_000, 1_000_000, 1_000_000, id="free"),
        pytest.param({"half_spread_ppb": 500_000}, {}, 1, 1_000_500, 999_500, id="5 bps"),
        pytest.param({"half_tick": 50}, {}, 1, 1_000_050, 999_950, id="half a tick"),
        # The reference stock at 40: price * volume * volatility are its activity.
        pytest.param(BY_LIQUIDITY, {"reference": 400_000}, 1, 400_329, 399_671, id="8.21 bps"),
        # 2 % * sqrt(1 %) = 20 bps
        pytest.param({"impact_ppb": PPB}, {}, 10_000, 1_002_000, 998_000, id="20 bps"),
        # 2 % * sqrt(4 %) = 40 bps for 40,000; after 10,000: (40,000 * 40 - 10,000 * 20) / 30,000
        pytest.param(
            {"impact_ppb": PPB}, {"same_side": 10_000}, 30_000, 1_004_667, 995_333, id="second"
        ),
        # half of 2 % * sqrt(1 %), beside 20 bps
        pytest.param(
            {"impact_ppb": PPB, "permanent_ppb": PPB // 2},
            {"held": 10_000},
            10_000,
            1_003_000,
            997_000,
            id="permanent",
        ),
        # 2 % * sqrt(1) = 200 bps is the end of the bar; 3/2 * 2 % * sqrt(x) reaches it at 4/9 of the
        # volume, whose average is 133 bps: (4/9 * 133.3 + 5/9 * 200) = 170.4
        pytest.param(
            {"impact_ppb": PPB, "inside_bar": True},
            {},
            1_000_000,
            1_017_038,
            982_962,
            id="in the bar",
        ),
        pytest.param(
            {"half_spread_ppb": PPB, "inside_bar": True}, {}, 1, 1_020_000, 980_000, id="its end"
        ),
        pytest.param(
            {"half_spread_ppb": 500_000, "inside_bar": True},
            {"low": 0, "high": 0},
            1,
            1_000_500,
            999_500,
            id="no bar",
        ),
        pytest.param(
            {"half_spread_ppb": 500_000, "inside_bar": True},
            {"low": 1_000_001, "high": 999_999},
            1,
            1_000_000,
            1_000_000,
            id="outside the bar",
        ),
        pytest.param({"half_spread_ppb": 500_000}, {"reference": 1}, 1, 2, 1, id="one tick"),
        pytest.param(
            {"impact_ppb": PPB}, {"volume": 1}, 1_000_000, 21_000_000, 1, id="never below a tick"
        ),
        pytest.param(
            {"impact_ppb": PPB},
            {"volume": 1 << 62},
            1 << 60,
            1_010_000,
            990_000,
            id="volumes of 62 bits",
        ),
        pytest.param(
            {"half_spread_ppb": 500_000},
            {"volume": 0, "sigma_ppb": 0},
            1,
            1_000_500,
            999_500,
            id="a fixed spread of an unknown volume",
        ),
    ],
)
def test_fill_prices_are_those_worked_by_hand(
    terms: dict[str, Any], facts: dict[str, Any], steps: int, buy: int, sell: int
) -> None:
    asked = quote(terms, **facts)
    assert (fill_ticks(asked, steps, selling=False), fill_ticks(asked, steps, selling=True)) == (
        buy,
        sell,
    )


def random_quote(chance: random.Random) -> tuple[Quote, int]:
    """A quote with coefficients and facts of all sizes, and the size of an order."""
    volume = int(10 ** chance.uniform(0, 18))
    reference = int(10 ** chance.uniform(0, 12)) + 1
    steps = int(10 ** chance.uniform(0, 12))
    impact = chance.choice([0, 604_000_000, PPB, 37 * PPB])
    terms = replace(
        FREE,
        half_spread_ppb=chance.choice([0, 208_000, 821_000, 90_000_001]),
        is_by_liquidity=chance.random() < 0.5,
        reference_activity=chance.choice([80_000_000, 123]),
        half_tick=chance.choice([0, 50]),
        impact_ppb=impact,
        permanent_ppb=chance.choice([0, PPB // 2, PPB]) if impact else 0,
        inside_bar=chance.random() < 0.4,
    )
    made = Quote(
        reference=reference,
        unit=chance.choice([100, 10**6]),
        terms=terms,
        sigma_ppb=int(10 ** chance.uniform(0, 9)),
        volume=volume,
        low=int(reference * chance.choice([0, 0.9, 1, 1.1])),
        high=int(reference * chance.choice([0, 0.9, 1, 1.1])),
        held=chance.choice([0, steps]),
        same_side=chance.choice([0, steps // 3]),
    )
    return made, steps


def worse_by(asked: Quote, steps: int, selling: bool) -> int:
    """Ticks that a fill is worse than the reference."""
    price = fill_ticks(asked, steps, selling)
    return asked.reference - price if selling else price - asked.reference


def hold_laws(seed: int) -> None:
    """Assert on one random quote what is true of all."""
    chance = random.Random(seed)
    asked, steps = random_quote(chance)
    selling = chance.random() < 0.5
    terms = asked.terms
    cost = worse_by(asked, steps, selling)
    more = 1 + 10 ** chance.uniform(-3, 1)

    assert cost >= 0
    if terms.inside_bar and selling and asked.low:
        assert asked.reference - cost >= min(asked.low, asked.reference)
    if terms.inside_bar and not selling and asked.high:
        assert asked.reference + cost <= max(asked.high, asked.reference)

    dearer = {
        "size": (asked, int(steps * more) + 1),
        "spread": (with_terms(asked, half_spread_ppb=int(terms.half_spread_ppb * more) + 1), steps),
        "sigma": (replace(asked, sigma_ppb=int(asked.sigma_ppb * more) + 1), steps),
        "volume": (replace(asked, volume=max(1, int(asked.volume / more))), steps),
        "tick": (with_terms(asked, half_tick=terms.half_tick + 7), steps),
    }
    dearer["before"] = (replace(asked, same_side=asked.same_side + steps), steps)
    dearer["held"] = (replace(asked, held=asked.held * 2 + 1), steps)
    if terms.impact_ppb:
        dearer["impact"] = (with_terms(asked, impact_ppb=int(terms.impact_ppb * more) + 1), steps)

    # Within the bar a wider spread leaves less room to impact, which is rounded to a billionth of
    # the price.
    rounding = 0
    if terms.inside_bar:
        rounding = 1 + asked.reference // PPB

    for what, (other, size) in dearer.items():
        assert worse_by(other, size, selling) >= cost - rounding, (seed, what)

    split_is_no_cheaper(chance, asked, steps, selling)


def with_terms(asked: Quote, **terms: Any) -> Quote:
    return replace(asked, terms=replace(asked.terms, **terms))


def split_is_no_cheaper(chance: random.Random, asked: Quote, steps: int, selling: bool) -> None:
    """Assert that parts of an order on one day pay together what the whole does, but for the
    rounding of its price: to a billionth of the price, and to a tick.
    """
    parts = []
    left = steps
    for _ in range(3):
        part = min(left, chance.randrange(1, steps + 1))
        parts.append(part)
        left -= part

    parts.append(left)
    costs = []
    same_side = asked.same_side
    for part in filter(None, parts):
        cost = worse_by(replace(asked, same_side=same_side), part, selling)
        # A price of a tick is the least that a sell has: parts of an order that moves a price by
        # all of it pay less than the whole.
        if selling and asked.reference - cost == 1:
            return

        costs.append(part * cost)
        same_side += part

    rounding = steps * (1 + -(-asked.reference // PPB))
    assert sum(costs) > steps * worse_by(asked, steps, selling) - rounding


@examples(200, search=2_000)
@given(seed=st.integers(0, 2**32))
def test_costs_rise_with_size_spread_and_volatility_and_fall_with_volume(seed: int) -> None:
    hold_laws(seed)


@pytest.mark.exhaustive
def test_laws_of_costs_hold_in_a_hundred_thousand_quotes() -> None:
    for seed in range(100_000):
        hold_laws(seed)
