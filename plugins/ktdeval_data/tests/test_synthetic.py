"""The synthetic market: what is planted can be found again, what is promised of a CSI300-like
market holds.
"""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.attribution.style_factors import FACTORS, factor_values
from ktdeval.errors import DataError
from ktdeval.market.rules.calendar import sessions, window_rows
from ktdeval.market.snapshots.manifest import snapshot_id
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.testing import not_empty
from ktdeval_data.params import SyntheticParams
from ktdeval_data.synthetic import BENCHMARK, Truth, build, make_synthetic, review_rows
from ktdeval_data.synthetic_inputs import CONTROL_POINTS, REGIMES, SyntheticRegime, target_levels
from support.searching import examples

pytestmark = pytest.mark.slow

LIMIT = {"main": 0.10, "chinext": 0.20, "star": 0.20, "bse": 0.30}
SHORT = {"first": "2024-03-01", "last": "2024-07-31"}
#: Snapshot of seed 7, as records of boards have it
EMBEDDED = "ad84c7c336fffa3515f28f90b096b3a10ca18289d40d0916a0a638eef9f4aa13"


@pytest.fixture(scope="module")
def built() -> tuple[MarketSnapshot, Truth]:
    return build(SyntheticParams())


@pytest.fixture(scope="module")
def short() -> tuple[MarketSnapshot, Truth]:
    return build(SyntheticParams(seed=3, **SHORT))


@pytest.fixture(scope="module")
def market(built: tuple[MarketSnapshot, Truth]) -> MarketSnapshot:
    return built[0]


@pytest.fixture(scope="module")
def truth(built: tuple[MarketSnapshot, Truth]) -> Truth:
    return built[1]


@pytest.fixture(scope="module")
def returns(market: MarketSnapshot) -> FloatArray:
    """[T, N] adjusted close-to-close returns against the last known close, NaN without a bar."""
    close = pd.DataFrame(market.adjusted_close)
    return (close / close.ffill().shift(1) - 1.0).to_numpy()


@pytest.fixture(scope="module")
def exposures(market: MarketSnapshot) -> dict[int, FloatArray]:
    """Row -> [K, N] exposures known the day before, from the library's factors; every other day
    once styles are defined.
    """
    standard = {}

    for row in range(260, len(market.days), 2):
        standardised = factor_values(market.as_of(row - 1)).standardise_over(market.member[row - 1])
        standard[row] = np.where(np.isfinite(standardised), standardised, 0.0)

    return standard


@pytest.fixture(scope="module")
def residuals(
    market: MarketSnapshot, truth: Truth, returns: FloatArray, exposures: dict[int, FloatArray]
) -> FloatArray:
    """[days, N] returns less everything that was planted."""
    factor = np.array([truth.factor_returns[definition.name] for definition in FACTORS])
    industry = np.array([truth.industry_returns[name] for name in market.industries])

    return np.array(
        [
            returns[t] - truth.market[t] - exposures[t].T @ factor[:, t] - industry[:, t]
            for t in exposures
        ]
    )


def window_levels(market: MarketSnapshot, first: str, last: str) -> FloatArray:
    """Benchmark levels of a window with its base: the close before the first day."""
    start, stop = window_rows(market.days, first, last)
    return market.benchmark[start - 1 : stop]


@pytest.mark.exhaustive
def test_embedded_market_is_reproducible_and_depends_on_the_seed(
    market: MarketSnapshot, short: tuple[MarketSnapshot, Truth]
) -> None:
    assert snapshot_id(market) == EMBEDDED
    other = make_synthetic(SyntheticParams(seed=2, **SHORT))
    assert snapshot_id(short[0]) != snapshot_id(other)
    assert short[0].codes != other.codes


@pytest.mark.exhaustive
def test_embedded_market_has_sessions_a_year_before_its_windows_and_meta(
    market: MarketSnapshot,
) -> None:
    # Days are the sessions of the shanghai exchange.
    np.testing.assert_array_equal(market.days, sessions("2022-06-01", "2026-05-15"))
    # Styles are defined before the long window begins.
    start, stop = window_rows(market.days, "2024-01-01", "2026-04-10")

    assert stop - start == 548
    assert start >= 252 + 60

    members = market.member[start - 1]

    for name, values in factor_values(market.as_of(start - 1)).values.items():
        assert np.isfinite(values[members]).mean() > 0.98, name

    # It says that it is synthetic.
    assert market.meta.synthetic
    assert market.meta.has_factor
    assert market.meta.name == "synthetic-7"
    assert market.meta.benchmark == BENCHMARK


def test_index_has_300_members_and_changes_a_few_each_june_and_december(
    market: MarketSnapshot,
) -> None:
    # The index has 300 members every day.
    assert set(market.member.sum(axis=1)) == {300}

    # Every board has members every day.
    boards = np.array([board.value for board in market.boards])
    for board in LIMIT:
        assert (market.member & (boards == board)).any(axis=1).all(), board

    # Members change only in june and december and a few at a time.
    joined = (market.member[1:] & ~market.member[:-1]).sum(axis=1)
    left = (~market.member[1:] & market.member[:-1]).sum(axis=1)
    np.testing.assert_array_equal(joined, left)
    changed = np.flatnonzero(joined) + 1

    assert [str(market.days[row])[:7] for row in changed] == [
        "2022-06", "2022-12", "2023-06", "2023-12", "2024-06", "2024-12", "2025-06", "2025-12",
    ]  # fmt: skip
    assert 5 <= joined[joined > 0].min() <= joined.max() <= 9

    # A review takes effect after the second friday.
    days = sessions("2023-01-01", "2024-12-31")
    assert [str(days[row]) for row in sorted(review_rows(days))] == [
        "2023-06-12",
        "2023-12-11",
        "2024-06-17",
        "2024-12-16",
    ]

    # Some names are listed later and join only with a history.
    first_bar = np.isfinite(market.close).argmax(axis=0)
    late = np.flatnonzero(first_bar > 0)

    assert len(late) == 8
    assert np.isnan(market.volume[first_bar[late] - 1, late]).all()

    before = np.arange(len(market.days))[:, None] <= first_bar[late]
    assert not (market.member[:, late] & before).any()


FLAT = (-0.02, 0.02)
WINDOWS = {
    "W1": (43, FLAT),
    "W2": (43, (-0.09, -0.05)),
    "W3": (43, FLAT),
    "W4": (43, (0.20, 0.30)),
    "W5": (40, FLAT),
    "W6": (44, (-0.04, -0.005)),
    "W7": (46, FLAT),
    "W8": (50, (0.10, 0.15)),
    "W9": (50, FLAT),
    "W10": (43, (0.01, 0.05)),
}


def test_every_window_has_a_regime() -> None:
    assert [regime.window for regime in REGIMES] == list(WINDOWS)


@pytest.mark.parametrize("regime", REGIMES, ids=WINDOWS)
def test_every_window_has_the_calendars_days_and_the_return_of_its_regime(
    market: MarketSnapshot, regime: SyntheticRegime
) -> None:
    days, (lowest, highest) = WINDOWS[regime.window]
    levels = window_levels(market, regime.first, regime.last)
    assert len(levels) - 1 == days
    assert lowest < levels[-1] / levels[0] - 1.0 < highest


def test_the_index_meets_every_control_point(market: MarketSnapshot) -> None:
    for point in not_empty(CONTROL_POINTS):
        row = int(np.searchsorted(market.days, np.datetime64(point.day), side="right")) - 1
        assert market.benchmark[row] == pytest.approx(point.level, rel=1e-4), point.day


@pytest.mark.parametrize(
    ("first", "last", "sign"),
    [("2024-05-27", "2024-07-25", -1), ("2025-07-14", "2025-09-19", 1)],
    ids=["W2 falls", "W8 rises"],
)
def test_a_trend_goes_all_the_way(market: MarketSnapshot, first: str, last: str, sign: int) -> None:
    logs = np.log(window_levels(market, first, last))
    assert sign * np.corrcoef(np.arange(len(logs)), logs)[0, 1] > 0.95
    weeks = logs[::10]
    assert (sign * np.diff(weeks) > 0).all()


def test_w4_explodes_and_then_gives_some_back(market: MarketSnapshot) -> None:
    levels = window_levels(market, "2024-09-09", "2024-11-15")
    assert levels.max() / levels[:13].min() > 1.25
    assert np.diff(np.log(levels)).std() * np.sqrt(252) > 0.25


def test_w7_is_a_deep_v(market: MarketSnapshot) -> None:
    levels = window_levels(market, "2025-03-03", "2025-05-09")
    trough = int(levels.argmin())

    assert levels[trough] / levels[0] < 0.92
    assert levels[:trough].max() / levels[0] > 0.99
    assert levels[-1] / levels[0] > 0.97
    assert 10 < trough < len(levels) - 10


def test_the_benchmark_moves_with_its_members(market: MarketSnapshot, returns: FloatArray) -> None:
    average = np.nanmean(np.where(market.member, returns, np.nan)[1:], axis=1)
    assert np.corrcoef(average, market.benchmark[1:] / market.benchmark[:-1] - 1.0)[0, 1] > 0.95


@pytest.mark.exhaustive
def test_what_remains_of_returns_is_noise_without_alpha_or_memory(residuals: FloatArray) -> None:
    # What remains of returns is noise without alpha.
    count = np.isfinite(residuals).sum(axis=0)
    assert np.nanstd(residuals) < 0.016

    t_values = np.nanmean(residuals, axis=0) / np.nanstd(residuals, axis=0) * np.sqrt(count)
    assert abs(t_values.mean()) < 0.3
    assert 0.8 < t_values.std() < 1.2

    half = len(residuals) // 2
    early = np.nanmean(residuals[:half], axis=0)
    late = np.nanmean(residuals[half:], axis=0)
    settled = np.isfinite(residuals[:half]).sum(axis=0) > half // 2

    assert abs(np.corrcoef(early[settled], late[settled])[0, 1]) < 0.15

    # Past residuals do not predict.
    before = residuals[:-1].ravel()
    after = residuals[1:].ravel()
    both = np.isfinite(before) & np.isfinite(after)

    assert abs(np.corrcoef(before[both], after[both])[0, 1]) < 0.02


def test_codes_and_words_are_fictitious(market: MarketSnapshot, truth: Truth) -> None:
    # Codes belong to no real security.
    unused = re.compile(r"609\d{3}\.SH|009\d{3}\.SZ|309\d{3}\.SZ|6889\d{2}\.SH|889\d{3}\.BJ")
    assert all(unused.fullmatch(code) for code in market.codes)
    assert "688981.SH" not in market.codes
    assert list(market.codes) == sorted(set(market.codes))
    assert not set(market.indices) & {"000300.SH", "000016.SH"}

    # No invented word is shared or an ordinary one.
    words = [*chain.from_iterable(name.split()[:2] for name in market.names)]
    words += [name.split()[0] for name in set(market.industries)]

    assert len(set(words)) == len(words) == 2 * len(market.names) + 24
    assert min(map(len, words)) >= 7

    ordinary = (
        "portfolio momentum position balance candidate quarter volume overall benchmark industry"
    )

    assert set(ordinary.split()).isdisjoint(word.lower() for word in words)
    # Industries move together.
    assert set(truth.industry_returns) == set(market.industries)
    assert len(truth.industry_returns) == 24

    sizes = pd.Series(market.industries).value_counts()
    assert sizes.min() >= 4


@pytest.mark.parametrize(("lag", "least"), [(1, 0.08), (5, 0.05), (20, 0.02)])
def test_volatility_clusters(returns: FloatArray, lag: int, least: float) -> None:
    size = pd.DataFrame(np.abs(returns))
    memory = [size[column].autocorr(lag) for column in range(0, size.shape[1], 5)]
    assert np.nanmean(memory) > least


def test_stocks_are_as_volatile_as_stocks_with_fat_tails(
    returns: FloatArray, market: MarketSnapshot
) -> None:
    finite = returns[np.isfinite(returns)]
    assert pd.Series(finite).kurt() > 1.5
    assert 0.25 < np.nanstd(returns) * np.sqrt(252) < 0.45
    assert 0.10 < np.diff(np.log(market.benchmark)).std() * np.sqrt(252) < 0.25


def test_bars_are_possible_inside_their_limits_and_amounts_inside_the_bars(
    market: MarketSnapshot, returns: FloatArray
) -> None:
    # Prices are whole fen and bars are possible.
    bars = np.isfinite(market.close)
    limit = np.array([LIMIT[board.value] for board in market.boards])
    for name in ("open", "high", "low", "close"):
        prices = getattr(market, name)
        np.testing.assert_array_equal(np.isfinite(prices), bars)
        np.testing.assert_array_equal(np.round(prices[bars], 2), prices[bars])

    assert (market.low[bars] > 0).all()
    assert (market.low[bars] <= np.minimum(market.open, market.close)[bars]).all()
    assert (market.high[bars] >= np.maximum(market.open, market.close)[bars]).all()

    # Amount is volume at a price inside the bar.
    price = market.amount[bars] / market.volume[bars]
    assert (price >= market.low[bars] - 1e-9).all()
    assert (price <= market.high[bars] + 1e-9).all()
    assert (market.volume[bars] % 100 == 0).all()
    assert (market.volume[bars] > 0).all()

    # No bar is beyond its board limit.
    # in the day's own terms
    reference = pd.DataFrame(market.adjusted_close).ffill().shift(1).to_numpy() / market.factor
    known = np.isfinite(reference) & np.isfinite(market.close)

    for name in ("open", "high", "low", "close"):
        move = np.abs(getattr(market, name) / reference - 1.0) - limit
        assert move[known].max() <= 1e-9, name

    # Limit days of both signs and one price days exist.
    up = returns > limit - 0.005
    down = returns < 0.005 - limit

    assert 100 < (up & market.member).sum() < 2000
    assert 100 < (down & market.member).sum() < 2000
    assert ((market.high == market.low) & (up | down)).sum() > 30

    # Suspended days have no prices and no volume.
    suspended = market.volume == 0
    assert 200 < (suspended & market.member).sum() < 2000
    assert np.isnan(market.close[suspended]).all()
    assert (market.amount[suspended] == 0).all()
    assert (suspended & market.member).sum(axis=1).max() <= 15


def test_factor_events_keep_the_adjusted_price_continuous(
    market: MarketSnapshot, returns: FloatArray
) -> None:
    # Factor events keep the adjusted price continuous.
    change = np.ones_like(market.factor)
    change[1:] = market.factor[1:] / market.factor[:-1]
    events = (change > 1.0 + 1e-5) & np.isfinite(returns)
    bonus = events & (change > 1.15)

    assert events.sum() > 800
    assert bonus.sum() > 20
    assert (change >= 1.0).all()

    ordinary = np.isfinite(returns) & ~events
    assert returns[events].std() == pytest.approx(returns[ordinary].std(), rel=0.25)
    assert abs(returns[events].mean()) < 0.004

    last = pd.DataFrame(market.close).ffill().shift(1).to_numpy()
    assert (market.close[bonus] / last[bonus]).mean() < 0.85

    # A suspension can hide a factor change.
    changed = np.abs(np.diff(market.factor, axis=0)) > 1e-5
    assert (changed & (market.volume[:-1] == 0)).any()


def test_the_truth_file_is_stored_next_to_the_snapshot_with_equal_bytes(
    short: tuple[MarketSnapshot, Truth], tmp_path: Path
) -> None:
    snapshot, truth = short
    saved = save_snapshot(snapshot, tmp_path / "market", truth.files())

    assert load_snapshot(tmp_path / "market").id == saved.id

    frame = pd.read_parquet(tmp_path / "market" / "truth.parquet")
    np.testing.assert_array_equal(frame["date"].to_numpy().astype("datetime64[D]"), snapshot.days)
    np.testing.assert_array_equal(frame["factor:ILLIQ"], truth.factor_returns["ILLIQ"])
    np.testing.assert_array_equal(frame["market"], truth.market)
    facts = json.loads((tmp_path / "market" / "truth.json").read_text())

    assert (facts["seed"], facts["alpha"], len(facts["regimes"])) == (3, 0, 10)
    # A short range starts at its control level.
    assert set(snapshot.member.sum(axis=1)) == {300}
    assert snapshot.benchmark[-1] == pytest.approx(820.0, rel=1e-4)
    assert abs(np.diff(np.log(snapshot.benchmark))).max() < 0.06


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"first": "2024-10-01", "last": "2024-10-07"}, "fewer than two trading days"),
        ({"first": "last spring"}, "not a date"),
    ],
)
def test_a_range_that_is_none_is_refused(span: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(SyntheticParams(**span))


def test_premia_are_realised_in_the_sample(truth: Truth) -> None:
    for name, premium in not_empty(truth.facts["annual_factor_premia"].items()):
        assert truth.factor_returns[name].mean() * 252 == pytest.approx(premium, abs=1e-9)


@examples(15)
@given(st.integers(0, 900), st.integers(20, 957), st.integers(0, 2**32))
def test_any_part_of_the_target_path_goes_through_its_control_points(
    market: MarketSnapshot, start: int, length: int, seed: int
) -> None:
    days = market.days[start : start + length]
    levels = target_levels(days, np.random.default_rng(seed).normal(0.0, 0.01, len(days)))

    assert (levels > 0).all()

    for point in CONTROL_POINTS:
        if days[0] <= np.datetime64(point.day) <= days[-1]:
            assert levels[
                np.searchsorted(days, np.datetime64(point.day), side="right") - 1
            ] == pytest.approx(point.level, abs=1e-3)
