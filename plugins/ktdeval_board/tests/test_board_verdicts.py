"""Who is shown to beat the index and random traders: planted truths, and the sentence of a table."""

from __future__ import annotations

import numpy as np
import pytest

from ktdeval.testing import on_each_row
from ktdeval_board.ranking.verdicts import Reference, verdict
from support.board.board_ranks import make_board, make_entry, make_series, ranked_tables

LEVEL = 0.05


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
    sentence = verdict(named, references(index, chance), LEVEL)
    assert (
        sentence
        == f"{expected} (mean daily return over 200 days, at a two-sided level of 5 %, 2.5 % one-sided)."
    )


def test_many_winners_are_counted_and_five_are_named() -> None:
    *systems, index = noise(4, 200, 8)
    named = {f"s{number}": own + 0.01 for number, own in enumerate(systems)}
    sentence = verdict(named, references(index), LEVEL)
    assert sentence.startswith("7 of 7 beat the index (X): s0, s1, s2, s3, s4 and 2 more (")


def test_a_window_too_short_for_the_test_says_so() -> None:
    system, index = noise(5, 20, 2)
    sentence = verdict({"A": system}, references(index), LEVEL)
    assert sentence.startswith("the index (X): not tested, ")
    assert verdict({}, references(index), LEVEL) == verdict({"A": system}, [], LEVEL) == ""


@pytest.mark.slow
def test_six_systems_without_skill_rarely_produce_a_winner() -> None:
    found = 0
    for seed in range(60):
        *systems, index = noise(seed, 90, 7)
        found += not verdict(
            dict(zip("ABCDEF", systems, strict=True)), references(index), LEVEL
        ).startswith("No")

    # 5 % of one side would be 1.5; 6 and more have a chance of 1 % at 3.
    assert found <= 6


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
