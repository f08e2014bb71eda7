"""Who is shown to beat the index and random traders: planted truths, and the sentence of a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, product
from typing import Any

import numpy as np
import pytest

from ktdeval.stats import tie_groups
from ktdeval.testing import on_each_row
from ktdeval_board.ranking.daily_summaries import mean_by_day
from ktdeval_board.ranking.trader_band import band_half_width
from ktdeval_board.ranking.verdicts import (
    Reference,
    ReferenceTest,
    reference_tests,
    verdict,
    verdict_figures,
)
from support.board.board_ranks import (
    by_label,
    daily,
    make_board,
    make_entry,
    make_series,
    ranked_tables,
)

LEVEL = 0.05


def compared(named: Mapping[str, np.ndarray], against: list[Reference]) -> list[ReferenceTest]:
    """Tests of systems, label -> [days] returns."""
    returns = np.column_stack(list(named.values()))
    return reference_tests(list(named), returns, against, LEVEL)


def noise(seed: int, days: int, agents: int) -> np.ndarray:
    """Returns [agents, days] that differ by chance alone."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.0003, 0.01, (1, days)) + rng.normal(0, 0.006, (agents, days))


def references(*returns: np.ndarray) -> list[Reference]:
    names = ("the index (X)", "random traders")
    return [Reference(name, own) for name, own in zip(names, returns, strict=False)]


@on_each_row(
    "gains, expected",
    ([0, 0, 0], "No ranked system is shown to beat the index (X) or random traders"),
    ([0.005, 0, 0], "1 of 3 beat the index (X): A; 1 of 3 beat random traders: A"),
    ([0.005, -0.005, 0.005], "2 of 3 beat the index (X): A, C; 2 of 3 beat random traders: A, C"),
)
def test_a_planted_gain_is_found_and_a_planted_loss_is_no_gain(gains, expected) -> None:
    *systems, index, chance = noise(3, 200, 5)
    named = {name: own + gain for name, own, gain in zip("ABC", systems, gains, strict=True)}
    sentence = verdict(compared(named, references(index, chance)))
    assert (
        sentence
        == f"{expected} (mean daily return over 200 days, at a two-sided level of 5 %, 2.5 % one-sided)."
    )


def test_many_winners_are_counted_and_five_are_named() -> None:
    *systems, index = noise(4, 200, 8)
    named = {f"s{number}": own + 0.01 for number, own in enumerate(systems)}
    sentence = verdict(compared(named, references(index)))
    assert sentence.startswith("7 of 7 beat the index (X): s0, s1, s2, s3, s4 and 2 more (")


def test_a_window_too_short_for_the_test_says_so() -> None:
    system, index = noise(5, 20, 2)
    tests = compared({"A": system}, references(index))
    assert verdict(tests).startswith("the index (X): not tested, fewer than 30 days")
    assert verdict_figures(tests) == ""
    nobody = reference_tests([], np.empty((20, 0)), references(index), LEVEL)
    assert verdict(nobody) == verdict(compared({"A": system}, [])) == ""


def test_the_figures_of_the_best_system_have_its_intervals() -> None:
    days = np.where(np.arange(200) % 2, 0.01, -0.01)
    named = {"A": days + 0.002, "B": days + np.where(np.arange(200) % 4 < 2, 0.006, 0.0)}
    tests = compared(named, references(days * 0.5, days * 0.5 - 0.001))
    ends = [f"{100 * end[1]:+.3f}" for test in tests for end in (test.excess.low, test.excess.high)]
    low, high, chance_low, chance_high = (end.replace("-", "−") for end in ends)
    assert verdict_figures(tests) == (
        f"B, highest mean of 2 ranked: +0.300 % a day over the index (X), {low} … {high} %; "
        f"+0.400 % a day over random traders, {chance_low} … {chance_high} % "
        "(simultaneous 95 % intervals)."
    )
    alone = compared({"A": named["A"]}, references(days * 0.5))
    assert verdict_figures(alone).startswith("A: +0.200 % a day over the index (X), ")
    assert verdict_figures(alone).endswith(" % (95 % intervals).")


def test_one_system_is_shown_where_the_test_of_two_agents_separates_it() -> None:
    met = set()
    for seed in range(40):
        system, index = noise(seed, 120, 2)
        system = system + 0.001
        (test,) = compared({"A": system}, references(index))
        pair = tie_groups(np.column_stack([system, index]), LEVEL)
        is_shown = pair.p[1] <= LEVEL and system.mean() > index.mean()
        assert (test.winners() == ["A"]) == is_shown
        met.add(is_shown)

    assert met == {True, False}


def test_systems_that_hardly_differ_have_no_interval_and_widen_no_other() -> None:
    first, second, index = noise(6, 120, 3)
    once = index.copy()
    once[17] += 0.02
    alone = compared({"A": first, "B": second}, references(index))
    odd = {"same": index, "shifted": index + 0.001, "once": once}
    beside = compared({"A": first, "B": second, **odd}, references(index))
    assert np.isnan(beside[0].excess.low[2:]).all()
    assert beside[0].excess.mean[2:] == pytest.approx([0, 0.001, 0.02 / 120])
    np.testing.assert_allclose(beside[0].excess.low[:2], alone[0].excess.low, rtol=1e-12)
    assert "shifted" not in beside[0].winners()


@pytest.mark.slow
def test_six_systems_without_skill_rarely_produce_a_winner() -> None:
    found = 0
    for seed in range(60):
        *systems, index = noise(seed, 90, 7)
        named = dict(zip("ABCDEF", systems, strict=True))
        found += not verdict(compared(named, references(index))).startswith("No")

    # 5 % of one side would be 1.5; 6 and more have a chance of 1 % at 3.
    assert found <= 6


@pytest.mark.slow
def test_the_best_of_two_thousand_without_skill_is_rarely_a_winner() -> None:
    found = 0
    for seed in range(40):
        *systems, index = noise(seed, 120, 2001)
        named = {f"s{number}": own for number, own in enumerate(systems)}
        found += bool(compared(named, references(index))[0].winners())

    # 2.5 % of one side would be 1; 5 and more have a chance below 1 %.
    assert found < 5


def test_a_table_compares_its_ranked_systems_with_its_random_baseline() -> None:
    board = make_board([])
    rng = np.random.default_rng(7)
    entries, series = [], {}
    for name, mean in (("house/best", 0.006), ("house/idle", 0.0), ("builtin/random", 0.0)):
        daily = {(window, 0): rng.normal(mean, 0.006, 40) for window in ("W1", "W2")}
        totals = {cell: float(np.prod(1 + days) - 1) for cell, days in daily.items()}
        entries.append(make_entry(board, name, totals))
        series[entries[-1].card_id] = make_series(entries[-1], daily)

    tables = ranked_tables(make_board(entries), series)
    expected = "1 of 2 beat random traders: house/best (mean daily return over 80 days, at a two-sided level of 5 %, 2.5 % one-sided)."
    assert tables["all"]["verdict"] == expected
    assert ranked_tables(make_board(entries))["all"]["verdict"] == ""


def planted_table(skill: float) -> dict[str, Any]:
    """Rows of thirty systems without skill, one with it, a rule and ten random traders; and the
    table and daily returns, label -> cell -> [days].
    """
    board = make_board([])
    rng = np.random.default_rng(11)
    seeds = {"builtin/random": range(10)}
    means = {f"house/s{number}": 0.0 for number in range(30)}
    means |= {"house/skilled": skill, "builtin/equal_weight": 0.0, "builtin/random": 0.0}
    entries, series, returns = [], {}, {}
    for name, mean in means.items():
        cells = product(("W1", "W2"), seeds.get(name, [0]))
        own = {cell: rng.normal(mean, 0.006, 40) for cell in cells}
        totals = {cell: float(np.prod(1 + days) - 1) for cell, days in own.items()}
        entries.append(make_entry(board, name, totals))
        series[entries[-1].card_id] = make_series(entries[-1], own)
        returns[name] = own

    table = ranked_tables(make_board(entries), series)["all"]
    return {"table": table, "rows": by_label(table), "returns": returns}


def test_a_table_holds_what_its_sentence_tests() -> None:
    planted = planted_table(0.005)
    table, rows, returns = planted["table"], planted["rows"], planted["returns"]
    chance = np.mean([np.mean(days) for days in returns["builtin/random"].values()])
    (test,) = table["tests"]
    assert (test["reference"], test["systems"], test["days"]) == ("random traders", 31, 80)
    for name, own in returns.items():
        (excess,) = rows[name]["excess"]
        assert excess[0] == pytest.approx(np.mean(list(own.values())) - chance, abs=1e-7)
        assert (excess[1] is None) == name.startswith("builtin/")

    low, high = rows["house/skilled"]["excess"][0][1:]
    assert table["verdict"].startswith("1 of 31 beat random traders: house/skilled (")
    assert f"{100 * low:+.3f} … {100 * high:+.3f} %" in table["verdict_figures"]


def test_a_planted_skill_is_outside_the_band_of_random_traders_and_noise_is_inside() -> None:
    planted = planted_table(0.005)
    low, high = planted["table"]["tests"][0]["band"]
    tested = {name: row["excess"][0] for name, row in planted["rows"].items() if row["excess"]}
    means = {name: excess[0] for name, excess in tested.items()}
    assert means.pop("house/skilled") > high
    assert low == -high
    assert all(low < mean < high for mean in means.values())
    winners = [name for name, (_, end, _) in tested.items() if end is not None and end > 0]
    assert winners == ["house/skilled"]


@pytest.mark.slow
def test_the_band_holds_all_random_traders_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    days = {"W1": ["2024-01-02", "2024-01-03", "2024-01-04"], "W2": ["2024-01-04", "2024-01-05"]}
    inside = 0
    for _ in range(400):
        drawn = {window: rng.normal(0, 0.01, (10, len(own))) for window, own in days.items()}
        baseline = {
            window: [daily(days[window], own) for own in returns]
            for window, returns in drawn.items()
        }
        half = band_half_width(baseline, seeds=2, traders=50, level=LEVEL)
        traders = [
            [daily(own, rng.normal(0, 0.01, len(own))) for own in days.values() for _ in range(2)]
            for _ in range(50)
        ]
        centre = mean_by_day([list(chain(*baseline.values()))], "returns").mean()
        means = mean_by_day(traders, "returns").mean(axis=0)
        inside += bool((np.abs(means - centre) <= half).all())

    assert 0.93 <= inside / 400 <= 0.995


def test_random_traders_without_a_spread_have_no_band() -> None:
    days = ["2024-01-02", "2024-01-03"]
    one = [daily(days, [0.01, 0.02])]
    assert band_half_width({"W1": one}, 1, 10, LEVEL) is None
    assert band_half_width({"W1": one * 3}, 1, 10, LEVEL) is None
    assert band_half_width({}, 1, 10, LEVEL) is None
