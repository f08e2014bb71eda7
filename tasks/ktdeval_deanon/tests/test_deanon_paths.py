"""Date attacker over whole episodes: its likelihood by hand, markets in which the day can be found
and in which it can't, and what a certificate says of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.cards.card_reading import validate_card
from ktdeval.errors import CardError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.masking.aliases_and_noise import round_each
from ktdeval.registry import Plugins, load_plugins
from ktdeval.testing import not_empty, small_market
from ktdeval.values import derive_seed
from ktdeval_deanon.certificate.card import day_found
from ktdeval_deanon.certificate.certify import CertifyConfig, certify
from ktdeval_deanon.certificate.date_paths import (
    DAYS_ARE_SHOWN,
    ShownStock,
    attack_paths,
    daily_returns,
    draw_paths,
    log_likelihoods,
    mean_return,
    place_of,
    shown_days,
)
from ktdeval_deanon.certificate.questions import (
    ProbeChoice,
    ProbeSet,
    find_scoring_task,
    open_questions,
)
from ktdeval_deanon.certificate.types import Certificate
from ktdeval_deanon.task import target_spec

MARCH = "2024-03-01:2024-03-29"
REBASED = "blinded_rebased_open_research"
KEY = "0" * 31 + "4"
EPISODES = 6

Card = dict[str, Any]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    """The stocks of this market move with its index."""
    return small_market()


@pytest.fixture(scope="module")
def placebo(market: MarketSnapshot) -> MarketSnapshot:
    """The same stocks beside an index that has nothing to do with them."""
    rng = np.random.default_rng(1)
    level = 3500 * np.exp(np.cumsum(rng.normal(0, 0.01, len(market.days))))
    return replace(market, indices=dict.fromkeys(market.indices, level), id="1" * 64)


Asking = Callable[..., ProbeSet]


@pytest.fixture(scope="module")
def asking(plugins: Plugins, market: MarketSnapshot) -> Asking:
    def ask(task: str = REBASED, on: MarketSnapshot = market, key: str = KEY) -> ProbeSet:
        exam = find_scoring_task("", task, plugins)
        return open_questions(exam, plugins, on, ProbeChoice((MARCH,), 0, EPISODES, key))

    return ask


def attacked(questions: ProbeSet) -> Any:
    return attack_paths(questions, lambda _: None)


def by_days(paths: Mapping[str, Any]) -> dict[int, Any]:
    return {entry["days"]: entry for entry in paths["value"]}


# ---- by hand


def test_likelihood_of_each_first_day_is_the_gaussian_one_at_its_most_likely_spread() -> None:
    index = daily_returns(np.array([100.0, 101.0, 99.99, 101.9898]))
    assert index[1:] == pytest.approx([1.0, -1.0, 2.0])

    fit = log_likelihoods(np.array([1.1, -0.8]), index)
    # Row 1: errors -0.1 and -0.2, mean square 0.025. Row 2: -2.1 and 2.8, mean square 6.125.
    assert fit[0] == -math.inf  # the first day has no return
    assert fit[1] == pytest.approx(-(math.log(2 * math.pi * 0.025) + 1))
    assert fit[1] == pytest.approx(0.851002, abs=1e-6)
    assert fit[2] == pytest.approx(-(math.log(2 * math.pi * 6.125) + 1))
    assert place_of(1, fit) == (1, 2)
    assert place_of(2, fit) == (2, 2)


def test_day_that_shows_nothing_does_not_count_and_a_tie_is_no_find() -> None:
    index = daily_returns(np.array([100.0, 101.0, 102.01, 100.9899]))
    one = log_likelihoods(np.array([1.0, math.nan]), index)
    assert one[1] == pytest.approx(one[2])  # both rows rise by 1 %
    assert place_of(1, one) == (2, 2)

    nothing = log_likelihoods(np.array([math.nan, math.nan]), index)
    assert place_of(1, nothing) == place_of(2, nothing) == (2, 2)


def test_mean_leaves_out_stocks_without_a_return() -> None:
    day = [ShownStock("main", {"return_1d_pct": value}) for value in (1.0, None, 2.0)]
    assert mean_return(day) == 1.5
    assert math.isnan(mean_return(day[1:2]))


# ---- what can be found, and what can't


@pytest.mark.parametrize("days", [1, 3, 8])
def test_chance_level_is_exact_for_a_path_that_has_nothing_to_do_with_the_index(days: int) -> None:
    """Whatever is shown, exactly one of the candidates is first: one in so many by chance."""
    rng = np.random.default_rng(derive_seed(days, "chance"))
    index = daily_returns(3000 * np.exp(np.cumsum(rng.normal(0, 0.01, 200))))
    for _ in range(20):
        fit = log_likelihoods(rng.normal(0, 1, days), index)
        places = [place_of(row, fit)[0] for row in range(1, len(fit))]
        assert sorted(places) == list(range(1, 200 - days + 1))


def test_day_is_found_where_stocks_move_with_the_index_though_no_index_is_shown(
    asking: Asking,
) -> None:
    questions = asking()
    assert "indices" not in questions.all[0].payload["market_context"]

    found = by_days(attacked(questions))
    assert list(found) == [1, 5, 10, 20]  # 40 days don't fit into the snapshot
    assert found[20]["first"]["successes"] == found[20]["first"]["n"] == EPISODES
    assert found[20]["median_place"] == 1.0
    rows = len(questions.snapshot.days)
    for days, entry in not_empty(found.items()):
        assert entry["candidates"] == rows - days  # the first row has no return
        assert entry["first"]["baseline"] == 1 / entry["candidates"]


def test_day_is_not_found_beside_an_unrelated_index(
    asking: Asking, placebo: MarketSnapshot
) -> None:
    for entry in not_empty(attacked(asking(on=placebo))["value"]):
        assert entry["first"]["successes"] == 0
        assert entry["median_place"] > entry["candidates"] / 20


def test_equal_questions_give_equal_attacks_and_another_key_other_episodes(asking: Asking) -> None:
    assert attacked(asking()) == attacked(asking())
    one = draw_paths(asking())
    other = draw_paths(asking(key="0" * 31 + "5"))
    assert one is not None
    assert other is not None
    assert one.firsts != other.firsts
    assert len(set(one.firsts)) == EPISODES


def test_episodes_show_what_the_task_shows_from_their_own_first_day_on(asking: Asking) -> None:
    """On its first day a rebased episode shows each close as 100, so returns of its last day are
    those of prices with three digits around 100.
    """
    questions = asking()
    spec = target_spec(questions.target_task, questions.specs[0], 0)
    market = questions.snapshot
    rows = range(290, 292)
    first, second = shown_days(questions.target_task, spec, market, rows)
    index = daily_returns(market.benchmark)
    for row, day in zip(rows, (first, second), strict=True):
        assert {stock.board for stock in day} <= {str(board) for board in market.boards}
        assert mean_return(day) == pytest.approx(index[row], abs=1.0)


def test_mask_that_shows_days_has_nothing_to_find(asking: Asking) -> None:
    assert attacked(asking("stock_blind_open_research")) == {
        "value": None,
        "reason": DAYS_ARE_SHOWN,
    }


# ---- the certificate


def certified(task: str, market: MarketSnapshot, folder: Path, plugins: Plugins) -> Certificate:
    data = folder / "market"
    save_snapshot(replace(market, id=""), data)
    config = CertifyConfig(task, data=str(data), windows=(MARCH,), probes=EPISODES, mask_key=KEY)
    return certify(config, plugins, lambda *_: None).certificate


@pytest.fixture(scope="module")
def rebased(
    market: MarketSnapshot, plugins: Plugins, tmp_path_factory: pytest.TempPathFactory
) -> Certificate:
    return certified(REBASED, market, tmp_path_factory.mktemp("rebased"), plugins)


def test_certificate_of_a_rebased_task_says_that_the_day_is_found(rebased: Certificate) -> None:
    assert "day found" in rebased.labels
    found = day_found(rebased.paths)
    assert found is not None
    low = found.first.interval.low
    assert low is not None
    assert low >= 0.5


def test_certificate_beside_an_unrelated_index_does_not(
    placebo: MarketSnapshot, plugins: Plugins, tmp_path: Path
) -> None:
    certificate = certified(REBASED, placebo, tmp_path, plugins)
    assert "day found" not in certificate.labels
    assert day_found(certificate.paths) is None


def forged(change: Callable[[Any], None]) -> Callable[[Card], None]:
    """A change of the certificate's last entry of paths."""
    return lambda card: change(card["paths"]["value"][-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.pop("paths"), "paths"),
        (lambda card: card["labels"].remove("day found"), "labels"),
        (forged(lambda entry: entry["first"].update(successes=0)), "0 successes of 6"),
        (forged(lambda entry: entry["first"].update(baseline=0.5)), "not one in"),
        (forged(lambda entry: entry.update(days=1)), "is not more than"),
        (forged(lambda entry: entry.update(median_place=1e6)), "is beyond"),
    ],
)
def test_certificate_whose_paths_do_not_follow_from_their_counts_is_refused(
    rebased: Certificate, change: Callable[[Card], None], message: str
) -> None:
    card = copy.deepcopy(rebased.plain)
    change(card)
    with pytest.raises(CardError, match=message):
        validate_card(card)


# ---- the real market


@pytest.mark.shared_data
def test_closes_of_the_real_index_find_the_day_of_thirty_stocks_within_twenty_days(
    shared_data: Path,
) -> None:
    """CSI 300: 30 stocks whose closes have three digits from 100 on, 60 first days."""
    folder = shared_data / "a_share"
    bars = pd.read_parquet(
        folder / "csi300_ever_daily.parquet", columns=["date", "code", "raw_close", "factor"]
    )
    closes, factors = (
        bars.pivot_table(index="date", columns="code", values=name).sort_index().ffill()
        for name in ("raw_close", "factor")
    )
    levels = pd.read_csv(folder / "index_daily.csv.gz").query("code == '000300.SH'")
    levels = levels.set_index("date")["close"].reindex(closes.index.astype(str))
    index = daily_returns(levels.to_numpy(float))
    assert np.isfinite(index[1:]).all()

    rng = np.random.default_rng(5)
    days = 20
    firsts = rng.choice(np.arange(60, len(closes) - days), 60, replace=False).tolist()
    found = dict.fromkeys((1, 10, days), 0)
    for first in firsts:
        rows = slice(first - 1, first + days)
        priced = np.flatnonzero(closes.iloc[first - 1].notna())
        stocks = rng.choice(priced, 30, replace=False)
        scale = 100.0 / closes.to_numpy(float)[first, stocks]
        prices = round_each(closes.to_numpy(float)[rows, stocks] * scale, 3)
        prices *= factors.to_numpy(float)[rows, stocks]
        shown = 100.0 * (prices[1:] / prices[:-1] - 1.0).mean(axis=1)
        for seen in found:
            place, _ = place_of(first, log_likelihoods(shown[:seen], index))
            found[seen] += place == 1

    assert found[1] <= 6
    assert found[10] >= 40
    assert found[days] >= 57
