"""Claims of a plain backtest at four prices of fills and six fees: look-ahead is found where it was
planted, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ktdeval.market import MarketSnapshot
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig
from ktdeval_judge.counterfactual import Counterfactuals
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.nav_parts import LOOK_AHEAD, NavComparison, compare_navs, is_told_apart
from ktdeval_judge.readers import ReadOptions, read_declared

CODES = ["000002.SZ", "000021.SZ", "300003.SZ", "600001.SH", "600009.SH", "601318.SH"]
DAYS = 70
FEES = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)  #: bps of what is traded
HONEST = ("next_open", "sized_at_decision", "next_close")
Weights = Mapping[int, np.ndarray]


class File(NamedTuple):
    """A file of weights, as strangers write them."""

    seed: int
    step: int  #: days from one decision to the next
    kind: str
    venue: str | None = None  #: None: A-shares, with lots, limits, T+1 and costs


FILES = (
    File(1, 1, "random"),
    File(2, 2, "momentum"),
    File(3, 5, "random"),
    File(4, 5, "equal", "unrestricted_cny"),
    File(5, 10, "random", "unrestricted_cny"),
    File(6, 21, "momentum"),
)


def a_market(seed: int) -> MarketSnapshot:
    """Random walks whose opens lie away from the close before, and from that of the day."""
    chance = np.random.default_rng(seed)
    shape = (DAYS, len(CODES))
    closes = np.array([8.0, 15.0, 23.0, 61.0, 35.0, 47.0]) * np.exp(
        np.cumsum(chance.normal(0.0, 0.018, shape), axis=0)
    )
    opens = closes * np.exp(chance.normal(0.0, 0.009, shape))
    return snapshot_of_days(
        CODES, np.round(opens, 2).tolist(), np.round(closes, 2).tolist(), first="2024-01-01"
    )


def decided(file: File, market: MarketSnapshot) -> Weights:
    """Weights by the row of their decision."""
    chance = np.random.default_rng(100 + file.seed)
    weights = {}
    for row in range(5, DAYS - 3, file.step):
        if file.kind == "random":
            weights[row] = chance.dirichlet(np.ones(len(CODES))) * 0.95
        elif file.kind == "momentum":
            best = np.argsort(-market.close[row] / market.close[row - 5])[:3]
            weights[row] = np.zeros(len(CODES))
            weights[row][best] = 0.95 / 3
        else:
            weights[row] = np.full(len(CODES), 0.9 / len(CODES))

    return weights


def claimed_nav(
    market: MarketSnapshot, weights: Weights, fill: str, bps: float, minimum: float = 0.0
) -> np.ndarray:
    """NAV of fractional shares, from the first decision on. Independent of the executor: floats, no
    account, no orders. `minimum`: smallest fee of an order.
    """
    cash = 1_000_000.0
    shares = np.zeros(len(CODES))
    early = 1 if fill == "before_decision" else 0
    first = min(weights)
    navs = []
    for row in range(first - early, DAYS - 1):
        navs.append(cash + float(shares @ market.close[row]))
        goal = weights.get(row + early)
        if goal is None:
            continue

        prices = {
            "next_open": market.open[row + 1],
            "sized_at_decision": market.open[row + 1],
            "next_close": market.close[row + 1],
            "middle": (market.open[row + 1] + market.close[row + 1]) / 2,
        }.get(fill, market.close[row])
        target = goal * (cash + float(shares @ prices)) / prices
        if fill == "sized_at_decision":
            target = goal * navs[-1] / market.close[row]

        traded = np.abs(target - shares) * prices
        fees = np.where(traded > 1.0, np.maximum(traded * bps / 1e4, minimum), 0.0)
        cash -= float((target - shares) @ prices) + float(fees.sum())
        shares = target

    return np.array([*navs, cash + float(shares @ market.close[DAYS - 1])])[early:]


class Judged:
    """A file of weights on its market; accounts are simulated once for all claims."""

    def __init__(self, file: File, folder: Path) -> None:
        self.market = a_market(file.seed)
        self.weights = decided(file, self.market)
        lines = ["date,code,weight"]
        for row, own in self.weights.items():
            day = self.market.days[row]
            lines += [f"{day},{code},{own[i]:.17g}" for i, code in enumerate(CODES)]

        path = folder / "weights.csv"
        path.write_text("\n".join(lines))
        more: dict[str, Any] = {} if file.venue is None else {"venue": file.venue}
        account = AccountConfig(max_weight=1.0, max_positions=10, **more)
        trading = account.rules("test")
        declared = read_declared(path, ReadOptions())
        self.made = market_plan(declared, self.market, trading)
        self.runs = Counterfactuals(self.made, self.market, trading)
        self.run = cache(self.runs.run)

    def compare(self, claimed: np.ndarray) -> NavComparison:
        own = claimed[: len(self.run(frozenset()).path)]
        return compare_navs(np.round(own, 2), self.run, self.runs.possible)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[File, Judged]:
    return {file: Judged(file, tmp_path_factory.mktemp("file")) for file in FILES}


@pytest.mark.slow
@pytest.mark.parametrize("bps", FEES)
@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_honest_claim_is_accused_and_its_fee_is_found(
    file: File, bps: float, judged: dict[File, Judged]
) -> None:
    own = judged[file]
    for fill in HONEST:
        found = own.compare(claimed_nav(own.market, own.weights, fill, bps))

        assert not found.looks_ahead, fill
        assert frozenset(LOOK_AHEAD).isdisjoint(found.found), fill
        assert found.is_explained or not found.fee, fill


@pytest.mark.slow
@pytest.mark.parametrize("bps", FEES)
@pytest.mark.parametrize("file", FILES, ids=str)
@pytest.mark.parametrize("fill", ["same_close", "before_decision"])
def test_look_ahead_is_found_at_any_fee(
    file: File, fill: str, bps: float, judged: dict[File, Judged]
) -> None:
    own = judged[file]
    found = own.compare(claimed_nav(own.market, own.weights, fill, bps))

    assert found.looks_ahead
    cause = "fill_at_decision" if fill == "same_close" else "fill_before_decision"
    assert cause in found.found
    assert found.error < found.error_elsewhere / 2


def test_one_claim_of_each_kind_is_told_apart(judged: dict[File, Judged]) -> None:
    """The quick part of the grid."""
    own = judged[FILES[5]]
    honest = own.compare(claimed_nav(own.market, own.weights, "next_open", 10.0))
    ahead = own.compare(claimed_nav(own.market, own.weights, "same_close", 10.0))

    assert (honest.looks_ahead, ahead.looks_ahead) == (False, True)
    assert honest.found[:2] == ("costs", "fitted_fee")
    assert honest.fee * 1e4 == pytest.approx(10.0, rel=0.02)
    assert ahead.fee * 1e4 == pytest.approx(10.0, rel=0.02)


@pytest.mark.parametrize(
    ("fill", "cause"),
    [("same_close", "fill_at_decision"), ("before_decision", "fill_before_decision")],
)
def test_a_fill_at_the_close_of_the_decision_is_told_from_one_a_day_earlier(
    fill: str, cause: str, judged: dict[File, Judged]
) -> None:
    """And its account is that of the claim, to what rounding to whole lots leaves."""
    own = judged[FILES[5]]
    claimed = claimed_nav(own.market, own.weights, fill, 0.0)
    found = own.compare(claimed)
    executed = own.runs.run(frozenset({"costs", "lots", "limits", cause})).path

    assert [each for each in found.found if each in LOOK_AHEAD] == [cause]
    # the claim has ten times the cash
    assert executed * 10 == pytest.approx(claimed[: len(executed)], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES[:3], ids=str)
@pytest.mark.parametrize("fill", [*HONEST, "middle"])
def test_an_honest_claim_is_not_accused_whatever_else_differs(
    file: File, fill: str, judged: dict[File, Judged]
) -> None:
    """A smallest fee, noise of five basis points a day, interest on the account."""
    own = judged[file]
    chance = np.random.default_rng(9)
    claimed = claimed_nav(own.market, own.weights, fill, 3.0, minimum=5.0)
    days = np.arange(len(claimed))
    noise = np.cumsum(chance.normal(0.0, 5e-4, len(claimed)))
    for other in (claimed, claimed * np.exp(noise), claimed * 1.0002**days):
        assert not own.compare(other).looks_ahead


@pytest.mark.slow
def test_a_nav_of_chance_is_not_accused(judged: dict[File, Judged]) -> None:
    own = judged[FILES[3]]
    chance = np.random.default_rng(10)
    days = len(own.run(frozenset()).path)
    for _ in range(40):
        found = own.compare(1e6 * np.exp(np.cumsum(chance.normal(0.0, 0.01, days))))
        assert not found.looks_ahead


# ---- the rule, worked by hand

DAYS_APART = np.array([0.01, -0.01, 0.01, -0.01] * 5)
NOISE = np.array([0.001, 0.001, -0.001, -0.001] * 5)


@pytest.mark.parametrize(
    ("weaker", "stronger", "expected"),
    [
        (DAYS_APART + NOISE, NOISE, True),  # 20 days, log(1.01e-4 / 1e-6) = 4.6: 92
        (NOISE, NOISE, False),  # nothing differs
        (1.5 * NOISE, NOISE, False),  # the error is not halved
        (DAYS_APART[:2], DAYS_APART[:2] / 4, False),  # 2 days, log(16) = 2.8: 5.5
        (np.array([0.05, *NOISE]), np.array([0.0, *NOISE]), False),  # one day, within the noise
        (np.array([0.05, 0.0]), np.array([0.0, 0.0]), True),  # one day, to the last digit
        (np.full(20, 1e-6), np.zeros(20), False),  # 1e-12 is less than three times 2e-6 squared
    ],
)
def test_models_are_told_apart_by_the_days_on_which_they_differ(
    weaker: np.ndarray, stronger: np.ndarray, expected: bool
) -> None:
    assert is_told_apart(weaker, stronger, 2e-6) == expected
