"""`compare luck --players`: the rank of an entrant among random players of the same game."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from ktdeval.cli.main import main
from ktdeval.stats import EnvelopeSettings, random_envelope
from ktdeval.testing import Terminal
from ktdeval.testing.markets import random_snapshot
from ktdeval.trading import Account, Action, MarketTape, Order, TradingConfig
from ktdeval_compare.ranking.random_players import standing_of
from support.figures.stats_play import Strategy, play

MARKET = random_snapshot(seed=4, n_assets=40, n_days=30)
ROWS = range(5, 17)

WHOLE = (
    *("--model", "builtin/random", "--tasks", "blinded_open_research", "--data", "synthetic"),
    *("--windows", "W5,W9", "--limit", "6", "--quiet"),
)


# ==== the standing


def test_a_standing_by_hand() -> None:
    """Four players, of which two did worse and one did the same: 2.5 of 4 are beaten, and 2 of 4
    did at least as well.
    """
    returns = np.array([-0.1, 0.0, 0.1, 0.2])

    standing = standing_of(0.1, returns)

    assert standing.rank == 2.5 / 4
    assert standing.p_value == (1 + 2) / (1 + 4)
    assert (standing.q5, standing.q50, standing.q95) == pytest.approx((-0.085, 0.05, 0.185))
    lowest, _ = proportion_confint(2, 4, method="wilson")
    _, highest = proportion_confint(3, 4, method="wilson")
    assert (standing.low, standing.high) == pytest.approx((lowest, highest), abs=1e-12)


@pytest.mark.parametrize("decile", range(1, 10))
def test_who_is_at_a_decile_beats_that_share(decile: int) -> None:
    returns = np.random.default_rng(3).permutation(1000) / 1000.0

    standing = standing_of(decile / 10 - 0.0005, returns)

    assert standing.rank == decile / 10
    assert standing.low < decile / 10 < standing.high


@pytest.mark.parametrize(("own", "rank", "p_value"), [(-1.0, 0.0, 1.0), (1.0, 1.0, 1 / 101)])
def test_who_is_last_or_first_has_an_interval_and_a_p_value_above_zero(
    own: float, rank: float, p_value: float
) -> None:
    standing = standing_of(own, np.linspace(-0.5, 0.5, 100))

    assert (standing.rank, standing.p_value) == (rank, pytest.approx(p_value))
    assert standing.high - standing.low == pytest.approx(0.037, abs=0.001)


def bought_once(asset: int) -> Strategy:
    """Buys one name on the first day and holds it."""

    def decide(_account: Account, row: int) -> Action:
        order = Order(asset, "BUY", 0.6, "the only one", 0.09, None)
        return (order,) if row == ROWS[0] else ()

    return decide


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_of_one_purchase_the_rank_is_that_of_the_name_among_all(place: float) -> None:
    """A player of an entrant that buys one name once can buy any of them, so all outcomes can be
    enumerated: the return of each name.
    """
    day = MarketTape.from_snapshot(MARKET, TradingConfig()).day(ROWS[0] + 1)
    names = [
        asset
        for asset in range(len(MARKET.codes))
        if day.member[asset] and day.tradable[asset] and not day.limit_up[asset]
    ]
    ledgers = {asset: play(MARKET, bought_once(asset), ROWS) for asset in names}
    by_return = sorted(names, key=lambda asset: ledgers[asset].nav[-1])
    number = int(place * len(names))
    own = ledgers[by_return[number]]

    envelope = random_envelope(own, MARKET, TradingConfig(), EnvelopeSettings(2_000, 1))

    standing = standing_of(envelope.agent_return, envelope.returns)
    share = number / len(names)  # names with a lower return
    assert standing.low - 0.01 <= share <= standing.high
    assert standing.rank == pytest.approx((number + 0.5) / len(names), abs=0.025)


# ==== the command


def players_of(terminal: Terminal, run: Path, *options: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = terminal.report("compare", "luck", str(run), *options)[
        "players"
    ]
    return rows


@pytest.mark.exhaustive
def test_a_row_an_episode_and_one_over_all(whole: Path, terminal: Terminal) -> None:
    rows = players_of(terminal, whole, "--players", "200")

    assert [(row["window"], row["seed"], row["n"]) for row in rows] == [
        ("W5", 0, 200),
        ("W9", 0, 200),
        ("all", None, 200),
    ]
    first, second, pooled = (row["standing"] for row in rows)
    card = json.loads((whole / "cards/blinded_open_research.json").read_text())
    own = [episode["metrics"]["total_return"]["value"] for episode in card["episodes"]]
    assert [first["own"], second["own"]] == pytest.approx(own, abs=1e-12)
    assert pooled["own"] == pytest.approx(sum(own) / 2, abs=1e-12)
    for row in rows[:2]:
        assert row["players_names"] == pytest.approx(row["names"], rel=0.02)
        assert row["players_turnover"] == pytest.approx(row["turnover"], rel=0.1)


@pytest.mark.exhaustive
def test_players_are_those_of_their_seed(whole: Path, terminal: Terminal) -> None:
    once = players_of(terminal, whole, "--players", "100")

    assert players_of(terminal, whole, "--players", "100", "--seed", "0") == once
    assert players_of(terminal, whole, "--players", "100", "--seed", "1") != once


@pytest.mark.exhaustive
def test_the_table_says_how_many_players_an_entrant_beats(whole: Path, terminal: Terminal) -> None:
    rows = players_of(terminal, whole, "--players", "100")

    lines = terminal.text("compare", "luck", str(whole), "--players", "100").splitlines()

    title = next(line for line in lines if line.startswith("Random players"))
    assert title.startswith("Random players, 100 an episode")
    shown = next(line for line in lines if " W9 " in line)
    assert f"{100 * rows[1]['standing']['rank']:.2f}" in shown.split()


@pytest.mark.exhaustive
def test_without_fills_there_is_no_standing_and_the_reason(
    tmp_path: Path, terminal: Terminal
) -> None:
    folder = tmp_path / "idle"
    words = ["--model", "builtin/hold", "--tasks", "blinded_open_research", "--quiet"]
    assert main([*words, "--windows", "W5", "--limit", "2", "--out", str(folder)]) == 0

    (row,) = players_of(terminal, folder, "--players", "100")

    assert (row["standing"], row["reason"]) == (None, "no order was filled")


def test_a_seed_without_players_is_refused(tmp_path: Path, terminal: Terminal) -> None:
    line = terminal.refusal("compare", "luck", str(tmp_path), "--seed", "1")

    assert "--seed goes with --players" in line
