"""`ktdeval compare --by regime|venue|year`: rules checked by hand, no look-ahead, cell estimates,
refusals, and a momentum rule that earns in only one regime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inline_snapshot import snapshot
from scipy import stats
from statsmodels.regression.linear_model import OLS

import ktdeval
from ktdeval.market import Instrument, MarketSnapshot, save_snapshot
from ktdeval.market.snapshots.manifest import with_id
from ktdeval.stats.series import automatic_lags
from ktdeval.testing.markets import SnapshotDetails, random_snapshot, tiny_snapshot
from ktdeval_compare.cells.cell_estimates import mean_of_days
from ktdeval_compare.cells.regimes import RULES, Regime, RegimeRule, regime_of
from ktdeval_compare.pairs.compared_cards import DailyTable
from support.figures.compare_cards import CardTerminal, make_card, save_run

CODE = "609001.SH"
LONG = random_snapshot(seed=5, n_assets=20, n_days=420)
Rows = dict[str, list[float | None]]


def short(rule: str, **changes: Any) -> RegimeRule:
    """A shipped rule with a short lookback."""
    return replace(RULES[rule], **changes)


def market_of(levels: Sequence[float]) -> MarketSnapshot:
    """A market whose index has these levels."""
    closes: Rows = {CODE: [10.0] * len(levels)}
    return tiny_snapshot(closes, SnapshotDetails(benchmark=list(levels)))


def last(market: MarketSnapshot, rule: RegimeRule) -> Regime:
    return regime_of(market.as_of(len(market.days) - 1), rule)


BREADTH = short("breadth", days=2, members=2)


def test_breadth_counts_members_of_the_day_with_a_close_on_each_day() -> None:
    """Of four names, one left the index and one was suspended; a two-for-one split is not a
    decline.
    """
    closes: Rows = {
        "609000.SH": [10.0, 11.0],
        "609001.SH": [10.0, 5.5],
        "609002.SH": [10.0, 9.0],
        "609003.SH": [None, 9.0],
    }
    details = SnapshotDetails(
        factors={"609001.SH": [1.0, 2.0]}, members={"609002.SH": [True, False]}
    )

    assert last(tiny_snapshot(closes, details), BREADTH) == Regime("broad", 1.0)


def test_days_on_which_the_index_has_no_level_do_not_count() -> None:
    """In a mixed market, coins trade while the index's exchange is closed."""
    levels = [50.0, 100.0, math.nan, 110.0, math.nan]
    assert last(market_of(levels), short("trend", days=2)) == Regime("up", 110 / 105)


# ==== rules by hand


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("trend", "needs 200 levels of the index, but has 180 up to 2024-09-09"),
        ("volatility", "needs 180 returns of the index, but has 179 up to 2024-09-09"),
        (
            "breadth",
            "1 of 1 members have a close on each of 50 days up to 2024-09-09; needs 10, and half of"
            " them",
        ),
    ],
)
def test_a_market_that_is_too_short_or_too_small_has_no_regime(rule: str, reason: str) -> None:
    assert last(market_of([1000.0 + k for k in range(180)]), RULES[rule]) == Regime(
        None, reason=reason
    )


def test_a_market_without_an_index_has_no_trend_but_breadth() -> None:
    market = random_snapshot(seed=2, n_assets=12, n_days=60)
    bare = replace(market, meta=replace(market.meta, benchmark=""), indices={}, index_names={})

    assert last(bare, RULES["trend"]) == Regime(None, reason="the market has no index")
    assert last(bare, RULES["breadth"]) == last(market, RULES["breadth"])


def test_each_rule_says_where_it_is_from() -> None:
    assert list(RULES) == ["trend", "volatility", "breadth"]
    assert all(rule.source for rule in RULES.values())


def test_each_day_of_a_market_has_the_figures_that_pandas_finds() -> None:
    """Checked against rolling and expanding windows of pandas, on 220 days."""
    index = pd.Series(LONG.benchmark)
    trend = index / index.rolling(200).mean()
    deviation = np.log(index).diff().rolling(60).std()
    volatility = deviation / deviation.shift(1).expanding().median()
    closes = pd.DataFrame(LONG.adjusted_close)
    usual = closes.rolling(50).mean()
    breadth = (closes > usual).sum(axis=1) / usual.notna().sum(axis=1)

    for row in range(200, 420):
        view = LONG.as_of(row)
        found = [regime_of(view, rule).figure for rule in RULES.values()]
        assert found == pytest.approx([trend[row], volatility[row], breadth[row]], rel=1e-9), row


# ==== nothing after the decision counts


def changed_from(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """The market with different levels, closes and members from a row on."""
    levels = market.benchmark.copy()
    levels[row:] *= np.linspace(0.5, 3.0, len(levels) - row)
    close = market.close.copy()
    close[row:] *= np.linspace(3.0, 0.2, len(close) - row)[:, None]
    member = market.member.copy()
    member[row:, ::2] = False
    return replace(market, indices={market.meta.benchmark: levels}, close=close, member=member)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("row", [200, 260, 333])
def test_a_regime_is_that_of_days_up_to_its_own(rule: str, row: int) -> None:
    known = regime_of(LONG.as_of(row), RULES[rule])

    assert known.name is not None
    assert regime_of(changed_from(LONG, row + 1).as_of(row), RULES[rule]) == known
    assert regime_of(changed_from(LONG, row).as_of(row), RULES[rule]) != known


# ==== reports


def waving(market: MarketSnapshot, wave: int = 120) -> MarketSnapshot:
    """The market with an index that rises and falls alternately, `wave` days each time."""
    turns = np.arange(len(market.days)) * 2.0 * math.pi / wave
    noise = np.random.default_rng(3).normal(0.0, 0.005, len(turns))
    levels = np.round(4000.0 * np.exp(0.15 * np.sin(turns) + noise), 2)
    return replace(market, indices={market.meta.benchmark: levels}, id="")


MARKET = with_id(waving(random_snapshot(seed=5, n_assets=12, n_days=420)))
ROWS = range(215, 411, 15)
WINDOWS = {
    f"V{k}": (str(MARKET.days[row]), str(MARKET.days[row + 4])) for k, row in enumerate(ROWS)
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("market") / "one"
    save_snapshot(MARKET, folder)
    return folder


def card_of(
    figures: Sequence[float | None],
    model: str = "house/one",
    market: MarketSnapshot = MARKET,
    **more: Any,
) -> dict[str, Any]:
    """A card with one seed per window."""
    by_cell = {(window, 0): value for window, value in zip(WINDOWS, figures, strict=True)}
    snapshot = {"id": market.id, "name": market.meta.name}
    return make_card(by_cell, model, WINDOWS, snapshot=snapshot, **more)


def regimes_of(market: MarketSnapshot, rule: str) -> list[str | None]:
    """Regime at the close before the first fill of each window."""
    return [regime_of(market.as_of(row - 1), RULES[rule]).name for row in ROWS]


def rows_of(report: dict[str, Any], table: str, by: str) -> dict[str, dict[str, Any]]:
    return {row["cell"]: row for row in report[table] if row["by"] == by}


ONE = np.random.default_rng(1).normal(0.01, 0.03, len(WINDOWS))
TWO = np.random.default_rng(2).normal(0.0, 0.03, len(WINDOWS))


@pytest.mark.slow
def test_a_cell_has_the_mean_and_the_t_interval_of_its_windows(
    terminal: CardTerminal, stored: Path
) -> None:
    cards = terminal.cards(card_of(ONE.tolist()), card_of(TWO.tolist(), "house/two"))
    report = terminal.report("compare", *cards, "--by", "regime", "--data", str(stored))
    is_up = np.array(regimes_of(MARKET, "trend")) == "up"
    up = (ONE - TWO)[is_up]
    down = (ONE - TWO)[~is_up]
    rows = rows_of(report, "tests", "trend")

    assert (len(up) > 3, len(down) > 3) == (True, True)
    for name, sample in (("up", up), ("down", down)):
        expected = stats.ttest_1samp(sample, 0.0)
        ends = expected.confidence_interval(0.95)
        row = rows[name]
        assert row["n"] == len(sample)
        assert [row["value"], row["low"], row["high"], row["p"]] == pytest.approx(
            [sample.mean(), ends.low, ends.high, expected.pvalue], rel=1e-9
        )

    welch = stats.ttest_ind(up, down, equal_var=False)
    both = rows["up less down"]
    assert [both["value"], both["low"], both["high"], both["p"]] == pytest.approx(
        [up.mean() - down.mean(), *welch.confidence_interval(0.95), welch.pvalue], rel=1e-9
    )
    own, other = (row for row in report["cards"] if (row["by"], row["cell"]) == ("trend", "up"))
    assert [own["value"], other["value"]] == pytest.approx([ONE[is_up].mean(), TWO[is_up].mean()])
    assert "p" not in own


def test_each_window_says_what_put_it_into_its_cell(terminal: CardTerminal, stored: Path) -> None:
    cards = terminal.cards(card_of(ONE.tolist()))
    report = terminal.report("compare", *cards, "--by", "regime", "--data", str(stored))

    for rule in RULES:
        windows = [row for row in report["windows"] if row["by"] == rule]
        assert [row["cell"] for row in windows] == regimes_of(MARKET, rule)
        assert [row["decided_on"] for row in windows] == [str(MARKET.days[row - 1]) for row in ROWS]

    first = report["windows"][0]
    index = MARKET.benchmark[: ROWS[0]]
    assert first["figure"] == pytest.approx(index[-1] / index[-200:].mean())


@pytest.mark.slow
def test_prices_of_the_days_of_a_window_do_not_move_it(
    terminal: CardTerminal, tmp_path: Path
) -> None:
    """The last window has different days; the window before it keeps its cell."""
    market = with_id(changed_from(MARKET, ROWS[-1]))
    save_snapshot(market, tmp_path / "changed")
    cards = terminal.cards(card_of(ONE.tolist(), market=market))
    report = terminal.report(
        "compare", *cards, "--by", "regime", "--data", str(tmp_path / "changed")
    )

    assert market.id != MARKET.id
    for rule in RULES:
        windows = [row["cell"] for row in report["windows"] if row["by"] == rule]
        assert windows == regimes_of(MARKET, rule)


def eight_names() -> MarketSnapshot:
    """A market without suspensions."""
    market = waving(random_snapshot(seed=5, n_assets=8, n_days=420))
    prices = {name: np.full((420, 8), 10.0) for name in ("open", "high", "low", "close")}
    return replace(market, **prices, volume=np.full((420, 8), 100.0), amount=np.full((420, 8), 1e3))


@pytest.mark.exhaustive
def test_the_text_says_the_rules_and_what_is_null(terminal: CardTerminal, stored: Path) -> None:
    cards = terminal.cards(card_of(ONE.tolist()), card_of(TWO.tolist(), "house/two"))
    text = terminal.text("compare", *cards, "--by", "regime", "--data", str(stored))
    first = regime_of(MARKET.as_of(ROWS[0] - 1), RULES["trend"])

    assert f"{first.name} {first.figure:.3f}" in text
    assert "trend: up where the level over its mean, of 200 days, is above 1" in text
    assert "up less down" in text

    market = with_id(eight_names())
    small = terminal.cards(card_of(ONE.tolist(), market=market))
    save_snapshot(market, stored.parent / "small")
    text = terminal.text("compare", *small, "--by", "regime", "--data", stored.parent / "small")
    assert "V13: not in any cell of breadth; V0: 8 of 8 members have a close on each of 50" in text
    assert "fewer than 3 windows" in text


def test_a_figure_that_is_undefined_stands_in_no_cell(terminal: CardTerminal) -> None:
    card = card_of([*ONE[:-1].tolist(), None])
    report = terminal.report("compare", *terminal.cards(card), "--by", "year")

    assert sum(row["n"] for row in report["cards"]) == len(WINDOWS) - 1
    assert "house/one: total_return: 1 (window, seed) left out: no steps" in report["notes"]


# ==== days


def with_ledgers(folder: Path, daily: dict[str, np.ndarray], model: str) -> Path:
    """A run whose windows have 40 calendar days, all of which are market days."""
    windows = {
        name: (str(DAILY.days[row]), str(DAILY.days[row + 39])) for name, row in DAYS.items()
    }
    card = make_card(
        dict.fromkeys(((name, 0) for name in DAYS), 0.1),
        model,
        windows,
        snapshot={"id": DAILY.id, "name": DAILY.meta.name},
    )
    return save_run(folder, card, {(name, 0): values for name, values in daily.items()})


DAILY = with_id(
    replace(MARKET, days=np.datetime64("2023-01-02") + np.arange(420).astype("m8[D]"), id="")
)
DAYS = {"D0": 210, "D1": 260, "D2": 320, "D3": 370}


@pytest.mark.exhaustive
def test_days_are_those_of_the_decision_and_have_newey_west_errors(
    terminal: CardTerminal, tmp_path: Path
) -> None:
    save_snapshot(DAILY, tmp_path / "market")
    rng = np.random.default_rng(4)
    daily = {
        model: {name: np.round(rng.normal(0.001, 0.01, 40), 4) for name in DAYS}
        for model in ("house/one", "house/two")
    }
    cards = [with_ledgers(tmp_path / model[-3:], values, model) for model, values in daily.items()]
    report = terminal.report(
        "compare", *cards, "--by", "regime", "--pairs", "day", "--data", str(tmp_path / "market")
    )

    rows = [row + k for row in DAYS.values() for k in range(40)]
    is_up = np.array([regime_of(DAILY.as_of(row - 1), RULES["trend"]).name == "up" for row in rows])
    one, two = (np.concatenate(list(values.values())) for values in daily.values())
    difference = 252 * (one - two)
    lags = automatic_lags(len(rows))
    design = np.column_stack([is_up, ~is_up]).astype(float)
    fit = OLS(difference, design).fit(
        cov_type="HAC", cov_kwds={"maxlags": lags, "use_correction": False}
    )
    cells = rows_of(report, "tests", "trend")
    n = len(rows)
    sizes = np.array([is_up.sum(), (~is_up).sum()])
    scale = np.sqrt(n / (n - 1) / (1.0 - (lags + 1) / sizes))
    errors = scale * fit.bse

    for k, name in enumerate(("up", "down")):
        row = cells[name]
        half = stats.t.ppf(0.975, 1.5 * sizes[k] / (lags + 1)) * errors[k]
        assert row["n"] == sizes[k]
        assert [row["value"], row["high"] - row["value"]] == pytest.approx(
            [fit.params[k], half], rel=1e-4
        )

    signed = scale * [1.0, -1.0]
    error = math.sqrt(signed @ fit.cov_params() @ signed)
    both = cells["up less down"]
    half = stats.t.ppf(0.975, 1.5 * 2 * min(sizes) / (lags + 1)) * error
    assert [both["value"], both["high"] - both["value"]] == pytest.approx(
        [fit.params[0] - fit.params[1], half], rel=1e-4
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("days", [120, 430])
def test_days_without_a_difference_are_called_one_in_five_per_cent(days: int) -> None:
    """Heavy-tailed days, and regimes that last fifty days on average."""
    rng = np.random.default_rng(days)
    table = DailyTable([], np.empty(0), 252, 0.0)
    found = []

    for _ in range(2000):
        is_up = np.cumsum(rng.random(days) < 0.02) % 2 == rng.integers(2)
        estimate = mean_of_days(table, 0.005 * rng.standard_t(9, days), is_up, ~is_up)
        p = estimate.p()
        if p is not None:
            found.append(p <= 0.05)

    assert len(found) > 1000
    assert np.mean(found) == pytest.approx(0.05, abs=0.015)


@pytest.mark.exhaustive
def test_few_days_are_null(terminal: CardTerminal, stored: Path, tmp_path: Path) -> None:
    card = card_of(ONE.tolist())
    run = save_run(tmp_path / "run", card, {(name, 0): [0.01] * 5 for name in WINDOWS})
    problem = terminal.refusal("compare", run, "--by", "year", "--pairs", "day", "--data", stored)
    assert "--data applies to regimes and venues" in problem

    report = terminal.report("compare", run, "--by", "year", "--pairs", "day")
    for row in report["cards"]:
        assert row["metric"] == "daily_return"
        assert (row["value"] is None) == (row["n"] < 20)


# ==== venues


@pytest.mark.exhaustive
def test_cards_of_two_markets_stand_in_the_cells_of_their_venues(
    terminal: CardTerminal, stored: Path, tmp_path: Path
) -> None:
    coins = with_id(coin_market())
    save_snapshot(coins, tmp_path / "coins")
    cards = []
    for market in (MARKET, coins):
        cards += terminal.cards(
            card_of(ONE.tolist(), market=market), card_of(TWO.tolist(), "house/two", market)
        )

    words = ("--by", "venue", "--data", stored, "--data", tmp_path / "coins")
    report = terminal.report("compare", *cards, *words)
    tests = [(row["market"], row["cell"], row["n"]) for row in report["tests"]]

    assert tests == [
        (MARKET.meta.name, "a_share", len(WINDOWS)),
        ("coins", "crypto_spot", len(WINDOWS)),
    ]
    assert "coins" in terminal.text("compare", *cards, *words)


def coin_market() -> MarketSnapshot:
    market = random_snapshot(seed=5, n_assets=12, n_days=420)
    instrument = Instrument("crypto", "USDT", "crypto_spot")
    return replace(
        market, meta=replace(market.meta, name="coins"), instruments=(instrument,) * 12, id=""
    )


# ==== what is refused


def test_what_can_not_be_answered_is_refused_in_one_line(terminal: CardTerminal) -> None:
    cards = terminal.cards(card_of(ONE.tolist()), card_of(TWO.tolist(), "house/two"))
    compare = ("compare", *cards)
    year = (*compare, "--by", "year")

    assert terminal.refusals(
        (*compare, "--by", "regime"),
        (*compare, "--by", "regime", "--data", "nowhere"),
        (*compare, "--by", "venue", "--data", "https://me:secret@host/x"),
        (*year, "--data", "synthetic"),
        (*year, "--pairs", "episode"),
        (*year, "--seed", "3"),
        (*year, "--factor", "agent,model"),
        (*year, "--pairs", "day", "--metric", "sharpe"),
        (*year, "--pairs", "day"),
        (*compare, "--pairs", "day"),
        (*compare, "--data", "synthetic"),
    ) == snapshot("""\
ktdeval: error: FOLDER/1/cards/blinded_open_research.json: cells are facts about the market: the card is not in a run folder that names its market; give it with --data FOLDER
ktdeval: error: --data 'nowhere' is neither a folder nor a data provider (see `ktdeval data`)
ktdeval: error: compare: data[0]: expected an address without a password, since it is recorded; give that through the environment, or where it is for git, a credential helper or an ssh key
ktdeval: error: --data applies to regimes and venues; years are on the cards
ktdeval: error: --by counts windows or days; use --pairs window or --pairs day
ktdeval: error: --by involves no random draws; leave --seed out
ktdeval: error: --factor splits a variance; leave it out with --by
ktdeval: error: --metric applies to windows; --pairs day compares daily returns
ktdeval: error: FOLDER/0/cards/blinded_open_research.json: house/one: no ledgers next to the card; --pairs day needs run folders with the ledgers
ktdeval: error: --data and --pairs day apply with --by only
ktdeval: error: --data and --pairs day apply with --by only
""")


def test_another_market_is_refused(terminal: CardTerminal, tmp_path: Path) -> None:
    other = with_id(replace(random_snapshot(seed=6, n_assets=12, n_days=60), id=""))
    save_snapshot(other, tmp_path / "other")
    cards = terminal.cards(card_of(ONE.tolist()))
    problem = terminal.refusal("compare", *cards, "--by", "venue", "--data", tmp_path / "other")

    assert f"is snapshot {other.id[:12]}; the cards are of {MARKET.id[:12]}" in problem


@pytest.mark.slow
def test_the_function_is_the_command(terminal: CardTerminal, stored: Path) -> None:
    cards = terminal.cards(card_of(ONE.tolist()), card_of(TWO.tolist(), "house/two"))
    tables = ktdeval.compare_tables(*cards, by="regime", data=[str(stored)])

    assert tables.report == terminal.report(
        "compare", *cards, "--by", "regime", "--data", str(stored)
    )
    assert set(tables["tests"]["by"]) == set(RULES)


# ==== a planted market

UP, DOWN = 200, 80
PHASES = (320, DOWN, UP, DOWN, UP, DOWN, UP)
"""Days of the index's rises and falls, in turn."""


def planted_market() -> MarketSnapshot:
    """Forty names, each with its own drift while the index rises, and the opposite drift while the
    index falls.
    """
    days = sum(PHASES)
    market = random_snapshot(seed=8, n_assets=40, n_days=days, first_day="2020-01-02")
    rises = np.repeat([1.0 if k % 2 == 0 else -1.0 for k in range(len(PHASES))], PHASES)
    rng = np.random.default_rng(9)
    drifts = np.linspace(-0.003, 0.003, 40)
    common = np.where(rises > 0, 0.001, -0.003)
    noise = rng.normal(0.0, 0.006, (days, 40))
    returns = common[:, None] + rises[:, None] * drifts[rng.permutation(40)] + noise
    close = np.round(20.0 * np.exp(np.cumsum(returns, axis=0)), 2)
    prices = {"open": close, "high": close, "low": close, "close": close}
    # Turnover is unrelated to drift: the other rule holds the most liquid names.
    volume = np.round(rng.uniform(1e7, 2e7, 40) / close)
    levels = np.round(4000.0 * np.exp(np.cumsum(returns.mean(axis=1))), 2)
    return with_id(
        replace(
            market,
            **prices,
            volume=volume,
            amount=volume * close,
            indices={market.meta.benchmark: levels},
            id="",
        )
    )


@pytest.mark.exhaustive
def test_a_rule_of_momentum_that_earns_in_one_regime_only_is_seen_to(
    terminal: CardTerminal, tmp_path: Path
) -> None:
    market = planted_market()
    save_snapshot(market, tmp_path / "planted")
    starts = np.cumsum((0, *PHASES))
    first_rows = [starts[k] + after for k in (2, 4, 6) for after in (130, 150, 170)]
    first_rows += [starts[k] + after for k in (1, 3, 5) for after in (40, 54, 68)]
    windows = ",".join(f"{market.days[row]}:{market.days[row + 9]}" for row in sorted(first_rows))

    for model in ("momentum", "equal_weight"):
        plan = ("--model", f"builtin/{model}", "--tasks", "blinded_open_research")
        plan += ("--data", str(tmp_path / "planted"), "--windows", windows, "--quiet")
        terminal.out("run", *plan, "--out", str(tmp_path / model))

    runs = tmp_path / "momentum", tmp_path / "equal_weight"
    for unit in ("window", "day"):
        report = terminal.report("compare", *runs, "--by", "regime", "--pairs", unit)
        rows = rows_of(report, "tests", "trend")
        assert rows["up"]["verdict"] == "builtin/momentum better"
        assert rows["down"]["verdict"] == "builtin/equal_weight better"
        assert rows["up less down"]["low"] > 0.0
        assert rows["up"]["n"] == rows["down"]["n"]
        assert rows["up"]["n"] == {"window": 9, "day": 90}[unit]

    # The market is where the run found it; otherwise the message says how to specify it.
    (tmp_path / "planted").rename(tmp_path / "moved")
    problem = terminal.refusal("compare", *runs, "--by", "regime")
    assert "give its location with --data" in problem
    moved = terminal.report(
        "compare", *runs, "--by", "regime", "--pairs", "day", "--data", tmp_path / "moved"
    )
    assert moved == report
