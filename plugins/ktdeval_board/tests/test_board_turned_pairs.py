"""Tests of pairs of cards in both directions, against SciPy and averages written out; and which kinds
of differences the draws have met.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import wilcoxon

from ktdeval.values import content_hash
from ktdeval_board.board_entries import BoardEntry
from ktdeval_board.ranking.head_to_head import PairingTest, pair_tests, windows_of
from ktdeval_board.rules import WindowRule
from support.board.board_ranks import entry, make_board
from support.figures.card_cases import typed
from support.figures.compare_cards import make_card

N_WINDOWS = 8
#: windows that share no day
WINDOWS = {f"W{year}": (f"{year}-03-01", f"{year}-05-05") for year in range(2010, 2010 + N_WINDOWS)}
DRAWS = 12
KINDS = ("plain", "ties", "zeros", "one sign")


def drawn(kind: str, rng: np.random.Generator) -> list[float]:
    """Differences of returns, in steps of 2^-10 so that sums of them are exact."""
    steps = rng.choice(np.arange(1, 200), N_WINDOWS, replace=False) * rng.choice((-1, 1), N_WINDOWS)
    if kind == "ties":
        steps = rng.integers(1, 4, N_WINDOWS) * rng.choice((-1, 1), N_WINDOWS)
    elif kind == "zeros":
        steps[:2] = 0
    elif kind == "one sign":
        steps = np.abs(steps)
    return (steps / 1024).tolist()


def card_of(name: str, returns: list[float]) -> BoardEntry:
    by_cell = dict(zip(((window, 0) for window in WINDOWS), returns, strict=True))
    card = make_card(by_cell, name, WINDOWS)
    made = entry(name, 0.0, 0.0)
    return replace(made, card_id=content_hash(card), card=typed(card), baseline=None)


def both_tests(differences: list[float]) -> tuple[PairingTest, PairingTest]:
    """The board's tests of a first card with these returns and one that earns nothing, both ways."""
    entries = [card_of("house/one", differences), card_of("house/two", [0.0] * N_WINDOWS)]
    rules = tuple(WindowRule(name, *days) for name, days in WINDOWS.items())
    board = make_board(entries, windows=rules)
    tests = pair_tests(entries, windows_of(board, board.rules.divisions[0]))
    one, other = (each.card_id for each in entries)
    return tests[one][other]["total_return"], tests[other][one]["total_return"]


def flip_p(differences: list[float]) -> float:
    """Share of all patterns of signs whose sum is as far from zero."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(each >= observed for each in sums) / len(sums)


def averages(differences: list[float]) -> list[float]:
    """Averages of all pairs of differences, each with itself too."""
    pairs = itertools.combinations_with_replacement(differences, 2)
    return sorted((one + other) / 2 for one, other in pairs)


def compare(differences: list[float], test: PairingTest, kind: str) -> None:
    walsh = averages(differences)
    assert test.value == pytest.approx(statistics.median(walsh), rel=1e-5)
    assert test.flip_p == pytest.approx(flip_p(differences), rel=1e-5)
    assert test.n == N_WINDOWS
    assert test.nonzero == sum(each != 0 for each in differences)
    if kind in ("plain", "one sign"):
        exact = wilcoxon(differences, mode="exact")
        assert test.p == pytest.approx(exact.pvalue, rel=1e-5)
        assert test.smallest == pytest.approx(2 / 2**N_WINDOWS)
        # five of 256 patterns of signs have a rank sum of at most 3, seven one of at most 4: 2.5 %
        # lie between
        assert (test.low, test.high) == pytest.approx((walsh[3], walsh[-4]), rel=1e-5)


def test_both_directions_of_a_pair_are_those_of_its_differences() -> None:
    met: Counter[str] = Counter()
    for kind, draw in itertools.product(KINDS, range(DRAWS // len(KINDS))):
        differences = drawn(kind, np.random.default_rng([draw, len(kind)]))
        forth, back = both_tests(differences)
        compare(differences, forth, kind)
        compare([-each for each in differences], back, kind)
        met["interval"] += forth.low is not None and back.low is not None
        met["not its own mirror"] += forth.low is not None and not math.isclose(
            forth.low, -(forth.high or 0.0)
        )
        met["rank ties"] += len({abs(each) for each in differences}) < N_WINDOWS

    assert min(met["interval"], met["not its own mirror"], met["rank ties"]) > 0, met
