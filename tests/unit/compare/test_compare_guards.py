"""Edges of commands on several cards: conditions from both sides, constants that a figure rests on,
neighbours of refusals.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compare_cards import CardTerminal, make_card, save_run
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values.hashes import file_sha256
from ktdeval.values.typed_json import from_plain
from ktdeval_compare import cutoff, power, sharpe_difference as sharpe
from ktdeval_compare.compared_cards import load_entrants, recorded_ledger
from ktdeval_compare.episode_distance import course_of, distances
from ktdeval_compare.power import DifferenceSpread, PowerPlan, plan_report, spreads_of_cards
from metric_cases import CODES, step

# -- plans


def test_a_plan_has_the_papers_windows_and_the_usual_level_and_power_by_default() -> None:
    plan = PowerPlan()
    assert (plan.windows, plan.seeds, plan.window_days, plan.days_per_year) == (10, 1, 43, 252)
    assert (plan.alpha, plan.wanted, plan.comparisons, plan.seed, plan.unit) == (
        0.05,
        0.8,
        1,
        0,
        "fraction",
    )
    assert (plan.effect, plan.window_sd, plan.seed_sd, plan.tracking_error, plan.overlap) == (
        None,
    ) * 5
    assert (power._REACH, power._SEEDS) == ((5, 6, 8, 10, 11, 15, 20, 40, 60), (1, 2, 3, 5, 10))


def test_a_plan_knows_its_noise_by_windows_or_by_tracking_error_and_a_length() -> None:
    assert PowerPlan().spread() is None
    assert PowerPlan(seed_sd=0.1).spread() is None
    assert PowerPlan(window_sd=0.02).spread() == DifferenceSpread(0.02, 0.0)
    assert PowerPlan(window_sd=0.02, seed_sd=0.03).spread() == DifferenceSpread(0.02, 0.03)
    assert PowerPlan(window_sd=0.0).spread() == DifferenceSpread(0.0, 0.0)
    by_error = PowerPlan(tracking_error=0.2, window_days=63, days_per_year=252).spread()
    assert by_error is not None
    assert by_error.window_sd == pytest.approx(0.2 * math.sqrt(63 / 252))
    assert PowerPlan(tracking_error=0.2, window_days=None).spread() is None
    assert PowerPlan(
        tracking_error=0.2, window_days=None, window_sd=0.02
    ).spread() == DifferenceSpread(0.02, 0.0)


@pytest.mark.parametrize(
    ("windows", "effect", "expected"),
    [(5, 0.02, 0.0), (6, 0.02, 1.0), (6, -0.02, 1.0), (6, 0.0, 0.0), (6, None, None)],
)
def test_without_noise_any_difference_is_found_once_a_result_is_possible(
    windows: int, effect: float | None, expected: float | None
) -> None:
    """The smallest p of five windows is 0.0625, of six 0.03125."""
    assert PowerPlan(windows=windows, effect=effect).power_at(0.0) == expected


def test_windows_are_needed_only_for_an_effect_and_more_of_them_with_noise() -> None:
    def needed(**fields: Any) -> int | None:
        (row,) = plan_report(PowerPlan(windows=6, **fields)).by_seeds
        return row.windows_needed

    assert needed(window_sd=0.0) is None
    assert needed(window_sd=0.02) is None
    assert needed(window_sd=0.0, effect=0.02) == 6
    assert needed(window_sd=0.02, effect=0.02) > 6


def test_figures_of_a_plan_are_annualised_by_the_length_of_a_window() -> None:
    (row,) = plan_report(
        PowerPlan(windows=8, window_sd=0.02, window_days=21, days_per_year=252)
    ).by_seeds
    assert row.effect_per_year == pytest.approx(12 * row.effect)
    assert row.effect_normal_per_year == pytest.approx(12 * row.effect_normal)
    (row,) = plan_report(PowerPlan(windows=8, window_sd=0.02, window_days=None)).by_seeds
    assert (row.effect_per_year, row.effect_normal_per_year) == (None, None)
    (row,) = plan_report(PowerPlan(windows=5, window_sd=0.02)).by_seeds
    assert (row.effect, row.effect_per_year) == (
        None,
        None,
    ), "five windows find nothing at the level"
    assert row.effect_normal_per_year is not None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            {("A1", 0): 0.1},
            {("A1", 0): 0.04},
            {"seeds": 1, "problem": "one window does not show how much windows differ"},
        ),
        (
            {("A1", 0): 0.1, ("A1", 1): 0.1},
            {("A1", 0): 0.04, ("A1", 1): 0.0},
            {"seeds": 2, "problem": "one window does not show how much windows differ"},
        ),
        (
            {("A1", 0): None, ("A2", 0): 0.1},
            {("A1", 0): 0.1, ("A2", 0): 0.1},
            {"seeds": 1, "problem": "total_return is not defined on both cards in some window"},
        ),
        (
            {("A1", 0): None, ("A1", 1): 0.1, ("A2", 0): 0.1, ("A2", 1): 0.1},
            {(window, seed): 0.0 for window in ("A1", "A2") for seed in (0, 1)},
            {
                "seeds": 1,
                "problem": (
                    "windows have different numbers of seeds: noise of seeds and of windows can't"
                    " be told apart"
                ),
            },
        ),
        # By hand: differences 0.1 and 0.3, one seed: SD over windows 0.1 √2, and none over seeds.
        (
            {("A1", 0): 0.1, ("A2", 0): 0.3},
            {("A1", 0): 0.0, ("A2", 0): 0.0},
            {
                "seeds": 1,
                "problem": None,
                "seed_sd": None,
                "window_sd": pytest.approx(0.1 * math.sqrt(2)),
                "window_variance": pytest.approx(0.02),
            },
        ),
        # By hand: means 0.2 and 0.6 with 0.02 within each: 0.08 - 0.02 / 2 over windows, 0.02 / 2
        # of a seed.
        (
            {("A1", 0): 0.1, ("A1", 1): 0.3, ("A2", 0): 0.5, ("A2", 1): 0.7},
            {(window, seed): 0.0 for window in ("A1", "A2") for seed in (0, 1)},
            {
                "seeds": 2,
                "problem": None,
                "seed_sd": pytest.approx(0.1),
                "window_sd": pytest.approx(math.sqrt(0.07)),
                "window_variance": pytest.approx(0.07),
            },
        ),
    ],
)
def test_the_noise_of_two_cards_is_estimated_or_its_absence_reported(
    terminal: CardTerminal, one: Any, other: Any, expected: dict[str, Any]
) -> None:
    ((name, fields),) = spreads_of_cards(terminal.pair(one, other), "total_return")
    assert name == "house/one, house/two"
    assert {field: fields.get(field) for field in expected} == expected
    assert "window_sd" not in fields or fields["problem"] is None


# -- ledgers beside cards

DAYS = {("A1", 0): (0.01, 0.02, -0.01, 0.0, 0.01)}


def saved(folder: Path, agent: str = "direct", returns: Any = None, total: float = 0.1) -> Path:
    """A run of one episode, and the path of its ledger."""
    card = make_card({("A1", 0): total}, agent=(agent and {"name": agent, "args": {}}))
    return save_run(folder, card, returns or DAYS)


def ledger_of(path: Path) -> Path:
    """The one ledger of a run."""
    (ledger,) = path.parent.parent.rglob("ledger.parquet")
    return ledger


def test_a_ledger_counts_as_the_card_was_made_from_it(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (entrant,) = load_entrants([path])
    episode = entrant.card.episodes[0].id
    assert isinstance(recorded_ledger(entrant, episode), Ledger)
    ledger_of(path).write_bytes(b"no ledger")
    assert (
        recorded_ledger(entrant, episode)
        == f"episodes/{episode}/ledger.parquet is not the ledger that the card was made from"
    )
    entrant.card.artefacts[f"episodes/{episode}/ledger.parquet"] = file_sha256(ledger_of(path))
    broken = recorded_ledger(entrant, episode)
    assert isinstance(broken, str)
    assert str(ledger_of(path)) in broken
    ledger_of(path).unlink()
    assert recorded_ledger(entrant, episode) == "no ledgers beside the card"


@pytest.mark.parametrize(
    ("returns", "has_ledgers", "totals", "flat", "compared"),
    [
        ([DAYS, DAYS], True, (0.1, 0.1), False, "daily NAV"),
        ([{("A1", 0): (0.0,) * 5}] * 2, True, (0.1, 0.1), True, "daily NAV"),
        ([DAYS, {("A1", 0): (0.01, 0.02, -0.01, 0.0, 0.02)}], True, (0.1, 0.1), None, "daily NAV"),
        (
            [DAYS, DAYS],
            False,
            (0.1, 0.1),
            False,
            "daily NAV, or all figures of the card where no ledger is beside it",
        ),
        (
            [DAYS, DAYS],
            False,
            (0.0, 0.0),
            True,
            "daily NAV, or all figures of the card where no ledger is beside it",
        ),
        (
            [DAYS, DAYS],
            False,
            (0.1, 0.2),
            None,
            "daily NAV, or all figures of the card where no ledger is beside it",
        ),
    ],
)
def test_identical_runs_are_those_of_one_path_and_flat_ones_never_moved(
    tmp_path: Path,
    terminal: CardTerminal,
    returns: Any,
    has_ledgers: bool,
    totals: tuple[float, float],
    flat: bool | None,
    compared: str,
) -> None:
    """Runs of another model differ from both, for a split needs a second factor."""
    paths = []
    for number, (agent, daily, total) in enumerate(
        zip(("echo", "loud"), returns, totals, strict=True)
    ):
        for model, extra in (("house/one", 0.0), ("house/two", 0.05 * (number + 1))):
            moved = {
                cell: tuple(value + extra for value in values) for cell, values in daily.items()
            }
            card = make_card({("A1", 0): total + extra}, model, agent={"name": agent, "args": {}})
            paths.append(save_run(tmp_path / "runs" / f"{number}-{model[6:]}", card, moved))
            if not has_ledgers:
                ledger_of(paths[-1]).unlink()
    report = terminal.report(
        "compare", "--factor", "agent,model", *[path.parent.parent for path in paths]
    )
    assert report["compared"] == compared
    rows = [(row["runs"], row["is_flat"]) for row in report["identical"]]
    assert rows == (
        [] if flat is None else [([["echo", "house/one", "0"], ["loud", "house/one", "0"]], flat)]
    )


# -- courses of two episodes


def course(*orders: dict[str, Any], open_nav: int = 1000) -> Any:
    """The course of one step with these orders."""
    frame = {
        "code": CODES[0],
        "stock_id": None,
        "side": "buy",
        "confidence": 0.5,
        "reason": "",
        "target_weight": 0.5,
        "shares": None,
        "status": "filled",
        "rule": None,
        "message": "",
        "filled_shares": 100,
        "price_ticks": 50_000,
        "notional_minor": 500,
        "fee_minor": 0,
    }
    made = step(0, 1000, open_nav_minor=open_nav, orders=[{**frame, **order} for order in orders])
    return course_of(Ledger({}, 1000, from_plain([made], list[StepRecord], "steps")))


def test_trades_count_where_something_was_filled_and_there_was_an_account_to_fill_it_from() -> None:
    assert course().trades[0] == {}
    assert dict(course({}).trades[0]) == {(CODES[0], "buy"): 0.5}
    assert dict(course({}, {"side": "sell", "notional_minor": 100}).trades[0]) == {
        (CODES[0], "buy"): 0.5,
        (CODES[0], "sell"): 0.1,
    }
    assert dict(course({}, {"notional_minor": 100}).trades[0]) == {(CODES[0], "buy"): 0.6}
    assert course({"filled_shares": 0, "notional_minor": 0}).trades[0] == {}
    assert course({"code": None, "stock_id": "S9"}).trades[0] == {}
    assert course({}, open_nav=0).trades[0] == {}
    assert course({}, open_nav=-5).trades[0] == {}


def test_two_runs_without_orders_are_reported_as_such() -> None:
    nothing = distances(course(), course())
    assert (nothing["orders"], nothing["turnover"]) == ("neither gave an order", "neither traded")
    one = distances(course({}), course())
    assert (one["decisions"], one["orders"], one["turnover"]) == (1.0, 1.0, 1.0)
    same = distances(course({}), course({}))
    assert (same["decisions"], same["orders"], same["turnover"]) == (0.0, 0.0, 0.0)


# -- daily series


def test_jensens_alpha_is_what_beta_leaves_of_each_day() -> None:
    """Planted: 0.1 % a day above one and a half times the benchmark."""
    market = {"d1": 0.01, "d2": -0.02, "d3": 0.004}
    own = {day: 0.001 + 1.5 * value for day, value in market.items()}
    excess = {day: own[day] - market[day] for day in market}
    assert cutoff._alpha(own, excess) == {day: pytest.approx(0.001) for day in market}
    two = {day: own[day] for day in ("d1", "d2")}
    assert cutoff._alpha(two, excess) == {}
    assert cutoff._alpha(own, {day: excess[day] for day in ("d1", "d2")}) == {}


def test_a_day_in_twenty_is_the_least_for_a_sharpe_difference() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.001, 0.01, (2, 20))
    assert sharpe.sharpe_difference(first, second).p is not None
    few = sharpe.sharpe_difference(first[:19], second[:19])
    assert (few.p, few.n) == (None, 19)
    assert sharpe.MINIMUM_DAYS == 20
