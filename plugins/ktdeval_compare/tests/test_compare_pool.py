"""`ktdeval compare --pool`: one estimate over windows of several markets, and refusals of cards
that ask different questions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from msgspec import structs
from statsmodels.regression.linear_model import OLS

import ktdeval
from ktdeval.cards import load_card
from ktdeval.errors import CardError, UsageError
from ktdeval_compare.pairs.compare import CompareOptions
from ktdeval_compare.pairs.compared_cards import EntrantCard
from ktdeval_compare.pools.pool import ZEROS, pool
from support.figures.card_cases import typed
from support.figures.compare_cards import CardTerminal, Cell, Figures, make_card, save_run

US = {"id": "a" * 64, "name": "us", "venues": ["us_equity"]}
COINS = {"id": "b" * 64, "name": "coins", "venues": ["crypto"]}
WINDOWS = {
    "W1": ("2020-01-01", "2020-02-28"),
    "W2": ("2020-02-03", "2020-03-31"),
    "W3": ("2021-01-01", "2021-02-26"),
    "W4": ("2022-01-03", "2022-03-01"),
    "long": ("2010-01-01", "2012-12-31"),
}


def figures(windows: str, *seeds: list[float]) -> dict[Cell, float | None]:
    """Figures of each seed by window."""
    return {
        (window, seed): value
        for seed, values in enumerate(seeds)
        for window, value in zip(windows.split(), values, strict=True)
    }


def cards(markets: Mapping[str, tuple[Any, Figures]], **changes: Any) -> list[dict[str, Any]]:
    """A card of house/one with the figures, and one of house/two with zeros, on each market."""
    made = []
    for market, own in markets.values():
        zeros = dict.fromkeys(own, 0.0)
        for model, values in (("house/one", own), ("house/two", zeros)):
            made.append(
                make_card(values, model, windows=WINDOWS, **{"snapshot": market, **changes})
            )

    return made


def two_markets() -> dict[str, tuple[Any, Figures]]:
    """By hand: means 0.03, 0.01, 0.05 and 0.02, with seeds 0.01 or 0.02 away from the mean."""
    return {
        "us": (US, figures("W1 W3", [0.02, 0.0], [0.04, 0.02])),
        "coins": (COINS, figures("W3 W4", [0.03, 0.01], [0.07, 0.03])),
    }


def entrants(*made: dict[str, Any]) -> list[EntrantCard]:
    """Cards as entrants of a comparison."""
    return [EntrantCard(Path(f"{index}.json"), typed(card)) for index, card in enumerate(made)]


# -- estimates


def test_the_text_shows_each_cell_as_found_and_shrunk(terminal: CardTerminal) -> None:
    paths = terminal.cards(*cards(two_markets()))
    assert terminal.text("compare", "--pool", *paths) == snapshot("""\
Pooled over the windows of all markets, first - second, random effects
  metric        first      second     cells  pooled       95 % interval       p  Holm p  verdict
  total_return  house/one  house/two      4  +2.296  %  +0.121 … +4.471  0.0437  0.0437  house/one better
  interval and p: Hartung-Knapp over cells; verdict: by Holm p

How much cells differ
  metric        first      second       tau       I²     Q     Q p  a further window, 95 % interval
  total_return  house/one  house/two  0.683  %  26 %  4.08  0.2533                  -1.862 … +6.454
  tau: standard deviation of true figures between windows (DerSimonian-Laird); I²: share of the spread that is not errors

Over markets, each pooled over its own windows first
  metric        first      second     markets  pooled       95 % interval       p    tau     Q p  of each
  total_return  house/one  house/two        2  +2.378  %  -3.297 … +8.053  0.1182  0.000  0.5842  us +2.000, coins +2.906

Cells of total_return, house/one - house/two
  cell       found  error  shrunk     weight
  us W1     +3.000  1.000  +2.520  %  30.0 %
  us W3     +1.000  1.000  +1.884  %  30.0 %
  coins W3  +5.000  2.000  +2.578  %   9.9 %
  coins W4  +2.000  1.000  +2.202  %  30.0 %
  error: standard error, of seeds; shrunk: empirical Bayes, drawn towards the pooled figure

Notes
  synthetic: every card
  pairs of windows with common days at different venues: 1; they are treated as independent, and if the markets move together, the interval is too short
  total_return: not all cells have daily series, so errors of cells measure variation over seeds only; variation over a market's days is in tau
""")


@pytest.mark.slow
def test_the_function_gives_the_same_report(terminal: CardTerminal) -> None:
    paths = terminal.cards(*cards(two_markets()))
    report = terminal.report("compare", "--pool", *paths)
    tables = ktdeval.compare_tables(*paths, pool=True)

    assert tables.report == report
    assert tables["pooled"]["k"].tolist() == [4]


def test_every_pair_of_systems_is_pooled_and_corrected(terminal: CardTerminal) -> None:
    made = cards(two_markets())
    for card in cards(two_markets())[::2]:
        card["model"]["name"] = "house/three"
        made.append(card)

    three = entrants(*made)
    report = pool(three, CompareOptions(pool=True))
    pairs = [(row.first, row.second) for row in report.pooled]
    assert pairs == [
        ("house/one", "house/two"),
        ("house/one", "house/three"),
        ("house/two", "house/three"),
    ]

    first, equal, _ = report.pooled
    assert equal.reason is not None
    assert "W1 has no variance" in equal.reason
    assert first.p is not None
    assert first.p_holm == pytest.approx(2 * first.p)

    against_first = pool(three, CompareOptions(pool=True, against_first=True))
    assert len(against_first.pooled) == 2


def test_markets_are_pooled_over_each_other_beside_their_windows() -> None:
    """The windows of each market are alike: k = 6 cells, but 2 markets."""
    markets = {
        "us": (US, figures("W1 W3 W4", [0.09, 0.1, 0.11], [0.11, 0.12, 0.13])),
        "coins": (COINS, figures("W1 W3 W4", [-0.01, 0.0, 0.01], [0.01, 0.02, 0.03])),
    }
    report = pool(entrants(*cards(markets)), CompareOptions(pool=True))
    (row,) = report.pooled
    over = row.over_markets

    assert over is not None
    # Errors 0.01, so Q within is 2 + 2 of 4 degrees of freedom: none. Each mean: 0.01 / √3.
    assert [(each.market, each.k) for each in over.markets] == [("us", 3), ("coins", 3)]
    assert [each.value for each in over.markets] == pytest.approx([0.11, 0.01])
    assert [each.se for each in over.markets] == pytest.approx([0.01 / math.sqrt(3)] * 2)
    assert (over.value, over.tau_within) == (pytest.approx(0.06), 0.0)
    assert over.q == pytest.approx(2 * 0.05**2 / (0.0001 / 3))
    assert over.low is not None
    assert row.low is not None
    assert over.low < 0 < row.low, "two markets say little of a third one"
    assert any("markets differ more than their windows do" in note for note in report.notes)


# -- windows that share days


def test_windows_that_share_days_of_a_venue_are_one_cell() -> None:
    """W1 and W2 share days: their mean, with errors of seeds that are independent, is one cell."""
    of_us = figures("W1 W2 W3", [0.02, 0.03, 0.0], [0.04, 0.07, 0.02])
    (row,) = pool(entrants(*cards({"us": (US, of_us)})), CompareOptions(pool=True)).pooled

    assert [cell.cell for cell in row.cells] == ["us W1 + us W2", "us W3"]
    assert row.cells[0].value == pytest.approx((0.03 + 0.05) / 2)
    assert row.cells[0].se == pytest.approx(math.hypot(0.01, 0.02) / 2)
    assert (row.windows, row.k) == (3, 2)


def test_a_cell_of_several_windows_weighs_more_than_a_cell_of_one() -> None:
    """W1 and W2 share 20 of their 43 and 42 weekdays: as cells of equal spread both weighed about a
    half. Windows differ far more than their errors, so that weights are as 1 / share.
    """
    of_us = figures("W1 W2 W3 W4", [0.5, 0.3, 0.0, -0.4], [0.502, 0.302, 0.002, -0.402])
    (row,) = pool(entrants(*cards({"us": (US, of_us)})), CompareOptions(pool=True)).pooled
    first, *others = [cell.weight for cell in row.cells]

    correlation = 20 / math.sqrt(43 * 42)
    share = (2 + 2 * correlation) / 4
    assert [cell.windows for cell in row.cells] == [2, 1, 1]
    assert first == pytest.approx((1 / share) / (1 / share + 2), rel=1e-3)
    assert others == pytest.approx([1 / (1 / share + 2)] * 2, rel=1e-3)


def test_two_snapshots_of_one_venue_are_no_two_sources_of_the_same_days() -> None:
    markets = two_markets()
    markets["coins"] = ({**COINS, "venues": ["us_equity"]}, markets["coins"][1])
    report = pool(entrants(*cards(markets)), CompareOptions(pool=True))
    (row,) = report.pooled

    assert [cell.cell for cell in row.cells] == ["us W1", "us W3 + coins W3", "coins W4"]
    assert any("share days of one venue: their mean is one cell" in note for note in report.notes)
    assert not any("different venues" in note for note in report.notes)
    assert row.over_markets is None, "a cell of both markets tells neither"


# -- errors of days


@pytest.mark.slow
def test_the_error_of_a_window_is_that_of_its_days(tmp_path: Path) -> None:
    """Of the difference of two total returns, by the delta method, from the days of both: each
    day's log growth less its mean, times the growth of the whole. statsmodels: Newey-West of their
    mean, floor(1.3 √n) lags. Errors of days that windows share are correlated by their weekdays.
    """
    rng = np.random.default_rng(3)
    returns = {
        model: {(window, 0): rng.normal(0.001, 0.01, 42) for window in ("W1", "W2", "W3")}
        for model in ("house/one", "house/two")
    }
    paths = []
    for model, of_model in returns.items():
        total = {cell: float(np.prod(1 + days) - 1) for cell, days in of_model.items()}
        card = make_card(total, model, windows=WINDOWS, snapshot=US)
        paths.append(save_run(tmp_path / model[6:], card, of_model))

    (row,) = ktdeval.compare_tables(*paths, pool=True).report["pooled"]
    errors = []
    for window in ("W1", "W2", "W3"):
        terms = np.zeros(42)
        for sign, model in ((1, "house/one"), (-1, "house/two")):
            growth = np.log1p(returns[model][window, 0])
            terms += sign * math.exp(growth.sum()) * 42 * (growth - growth.mean())

        fit = OLS(terms, np.ones(42)).fit(
            cov_type="HAC", cov_kwds={"maxlags": 8, "use_correction": True}
        )
        errors.append(float(fit.bse[0]))

    assert row["source"] == "days"
    # Weekdays: 43 in W1, 42 in W2, 20 of them in both.
    shared = 20 / math.sqrt(43 * 42)
    together = math.sqrt(errors[0] ** 2 + errors[1] ** 2 + 2 * shared * errors[0] * errors[1]) / 2
    assert [cell["se"] for cell in row["cells"]] == pytest.approx([together, errors[2]], rel=1e-5)


@pytest.mark.slow
def test_a_shift_between_seeds_counts_where_days_do_not_show_it(tmp_path: Path) -> None:
    """Two seeds whose days are quiet and whose totals differ by 0.1: a standard error of 0.05."""
    rng = np.random.default_rng(4)
    noise = {window: rng.normal(0.0, 1e-4, 42) for window in ("W1", "W3")}
    paths = []
    for model, shift in (("one", 0.1), ("two", 0.0)):
        returns = {
            (window, seed): np.expm1(seed * math.log1p(shift) / 42) + days * (1 + (model == "one"))
            for window, days in noise.items()
            for seed in (0, 1)
        }
        total = {(window, seed): shift * seed for window, seed in returns}
        card = make_card(total, f"house/{model}", windows=WINDOWS, snapshot=US)
        paths.append(save_run(tmp_path / model, card, returns))

    (row,) = ktdeval.compare_tables(*paths, pool=True).report["pooled"]
    assert row["source"] == "days"
    assert [cell["se"] for cell in row["cells"]] == pytest.approx([0.05, 0.05])


def test_a_system_that_held_cash_differs_by_the_days_of_the_other(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    paths = []
    for model, spread in (("one", 0.01), ("two", 0.0)):
        returns = {(window, 0): rng.normal(0.0, 1.0, 42) * spread for window in ("W1", "W3")}
        total = {cell: float(np.prod(1 + days) - 1) for cell, days in returns.items()}
        card = make_card(total, f"house/{model}", windows=WINDOWS, snapshot=US)
        paths.append(save_run(tmp_path / model, card, returns))

    (row,) = ktdeval.compare_tables(*paths, pool=True).report["pooled"]
    assert (row["k"], row["source"]) == (2, "days")
    assert all(0.02 < cell["se"] < 0.15 for cell in row["cells"])


@pytest.mark.exhaustive
def test_errors_of_days_are_as_large_as_windows_differ(tmp_path: Path) -> None:
    """Planted: the difference of two systems over 42 days with a deviation of 1 % each, 60 windows;
    their standard deviation is what the errors say, within what 60 windows know (9 %).
    """
    rng = np.random.default_rng(6)
    windows = {f"P{k}": (f"{1950 + k}-01-02", f"{1950 + k}-02-28") for k in range(60)}
    paths = []
    for model in ("one", "two"):
        returns = {(window, 0): rng.normal(0.0, 0.01, 42) for window in windows}
        total = {cell: float(np.prod(1 + days) - 1) for cell, days in returns.items()}
        card = make_card(total, f"house/{model}", windows=windows, snapshot=US)
        paths.append(save_run(tmp_path / model, card, returns))

    (row,) = ktdeval.compare_tables(*paths, pool=True).report["pooled"]
    errors = [cell["se"] for cell in row["cells"]]
    found = float(np.std([cell["value"] for cell in row["cells"]], ddof=1))

    assert row["k"] == 60
    assert found == pytest.approx(0.01 * math.sqrt(2 * 42), rel=0.25)
    # Newey-West with 8 lags on 42 days is biased low by about 10 %.
    assert 0.8 * found < math.sqrt(np.mean(np.square(errors))) < 1.15 * found


# -- no estimate, with a reason


def test_a_cell_without_an_error_is_named_and_nothing_is_pooled(terminal: CardTerminal) -> None:
    one_seed = {"us": (US, figures("W1 W3", [0.02, 0.0]))}
    report = terminal.report("compare", "--pool", *terminal.cards(*cards(one_seed)))
    (row,) = report["pooled"]

    assert (row["value"], row["p"], row["verdict"], row["cells"]) == (None, None, None, [])
    assert row["reason"] == (
        "us W1 has no variance: house/one: no ledgers next to the card, and it has one seed"
    )


def test_one_cell_says_nothing_of_others() -> None:
    alone = {"us": (US, figures("W1", [0.02], [0.04]))}
    (row,) = pool(entrants(*cards(alone)), CompareOptions(pool=True)).pooled

    assert (row.k, row.value, row.reason) == (1, None, "a single cell does not show how cells vary")
    assert [(cell.value, cell.shrunk) for cell in row.cells] == [(pytest.approx(0.03), None)]


def test_a_market_without_a_figure_is_not_left_out_in_silence() -> None:
    markets = two_markets()
    markets["coins"] = (COINS, dict.fromkeys(markets["coins"][1], None))
    (row,) = pool(entrants(*cards(markets)), CompareOptions(pool=True)).pooled

    assert row.value is None
    assert row.reason is not None
    assert row.reason.startswith("coins has no figure: house/one: no steps")
    assert sum(row.left_out.values()) == 4


# -- one question


def test_another_question_is_refused_by_what_differs(terminal: CardTerminal) -> None:
    changes: list[dict[str, Any]] = [
        {"mask": "bright"},
        {"mode": "memory_only"},
        {"config": {"version": "2"}},
        {"config": {"news": 5}},
        {"config": {"history": 64}},
        {"config": {"trading": {"initial_cash": 5}}},
        {"config": {"harness": {"max_tool_calls": 0}}},
        {"rules": "paper"},
        {"limit": 5},
        {"snapshot": {**COINS, "synthetic": False}},
    ]
    markets = two_markets()
    first = terminal.cards(*cards({"us": markets["us"]}))
    commands = []
    for change in changes:
        second = cards({"coins": markets["coins"]}, **change)
        commands.append(("compare", "--pool", *first, *terminal.cards(*second)))

    assert terminal.refusals(*commands) == snapshot("""\
ktdeval: error: FOLDER/2/cards/bright_open_research.json and FOLDER/0/cards/blinded_open_research.json have different masks: bright and blinded; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/4/cards/blinded_memory_only.json and FOLDER/0/cards/blinded_open_research.json have different modes: memory_only and open_research; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/6/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task versions: 2 and 1; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/8/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task configs (news): 5 and null; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/10/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task configs (history): 64 and null; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/12/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task configs (trading): {"initial_cash":5} and null; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/14/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task configs (harness): {"max_tool_calls":0} and {"max_tool_calls":12}; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/16/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different metric rules: paper and strict; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/18/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different limits of steps: 5 and null; they measure different things and can't be pooled (choose cards of one task with --tasks)
ktdeval: error: FOLDER/20/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different kinds of markets: real and synthetic; they measure different things and can't be pooled (choose cards of one task with --tasks)
""")


def test_windows_of_other_lengths_are_refused(terminal: CardTerminal) -> None:
    markets = {
        "us": (US, figures("W1 W3", [0.02, 0.0], [0.04, 0.02])),
        "coins": (COINS, figures("long", [0.3], [0.2])),
    }
    paths = terminal.cards(*cards(markets))
    assert terminal.refusals(("compare", "--pool", *paths)) == snapshot(
        "ktdeval: error: FOLDER/0/cards/blinded_open_research.json: coins long has 782 weekdays, us W3 41: figures over such different lengths are not comparable; pool markets with windows of similar lengths\n"
    )


@pytest.mark.parametrize(("currency", "is_refused"), [("USD", False), ("CNY", True)])
def test_amounts_of_different_currencies_are_refused(currency: str, is_refused: bool) -> None:
    changed = []
    for entrant in entrants(*cards(two_markets())):
        card = entrant.card
        own = currency if card.snapshot.name == "coins" else "USD"
        metric = structs.replace(card.metrics["total_return"], unit="money")
        card = structs.replace(
            card,
            metrics={**card.metrics, "total_return": metric},
            snapshot=structs.replace(card.snapshot, currency=own),
        )
        changed.append(EntrantCard(entrant.path, card))

    if is_refused:
        problem = "total_return is in money, and the markets count in USD and CNY"
        with pytest.raises(CardError, match=problem):
            pool(changed, CompareOptions(pool=True))
    else:
        assert pool(changed, CompareOptions(pool=True)).pooled[0].k == 4


@pytest.mark.slow
def test_every_market_has_each_system_once(terminal: CardTerminal) -> None:
    *without, fourth = terminal.cards(*cards(two_markets()))
    again = terminal.cards(cards(two_markets())[0])

    assert terminal.refusals(
        ("compare", "--pool", *without), ("compare", "--pool", *without, fourth, *again)
    ) == snapshot("""\
ktdeval: error: FOLDER/2/cards/blinded_open_research.json: coins has no card of house/two, agent react, with these parameters, which another market has; pooling needs the same systems on every market
ktdeval: error: FOLDER/4/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json are of one system on us; give one of them, a run of all its windows and seeds
""")


def test_options_of_other_reports_are_refused(terminal: CardTerminal) -> None:
    words = ("compare", "--pool", *terminal.cards(*cards(two_markets())))
    assert terminal.refusals(
        (*words, "--pairs", "episode"), (*words, "--factor", "agent")
    ) == snapshot("""\
ktdeval: error: --pool combines windows; leave out --pairs episode
ktdeval: error: --pool and --factor are different reports; give one of them
""")


# -- one system


def test_one_system_is_pooled_where_its_zero_says_something() -> None:
    made = entrants(*cards(two_markets())[::2])
    with pytest.raises(UsageError, match="with one system, total_return can't be tested"):
        pool(made, CompareOptions(pool=True))

    assert "selection_alpha" in ZEROS


@pytest.mark.exhaustive
def test_selection_of_one_system_is_pooled_with_the_errors_of_its_cards(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    runs = []
    for data in ("synthetic_us", "synthetic_crypto"):
        runs.append(tmp_path / "runs" / data)
        terminal.out(
            "run",
            "--model=builtin/momentum",
            f"--data={data}",
            "--tasks=market_bright",
            "--windows=2025-07-01:2025-08-01,2025-08-04:2025-09-05",
            "--quiet",
            f"--out={runs[-1]}",
        )

    report = terminal.report("compare", "--pool", *runs, "--metric", "selection_alpha")
    (row,) = report["pooled"]
    assert (row["second"], row["source"], row["k"]) == ("no selection", "days", 4)

    expected = []
    for run in runs:
        card = load_card(run / "cards" / "market_bright.json", "trading")
        for episode in card.episodes:
            figure = episode.metrics["selection_alpha"]
            expected.append((figure.value, figure.n * figure.detail["daily"]["se"]))

    found = [(cell["value"], cell["se"]) for cell in row["cells"]]
    assert found == [pytest.approx(pair) for pair in expected]
