"""What a browser needs to test any two cards of a division on windows, as `ktdeval compare` tests them."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval.api import JsonValue, RankNull, blocks_of, correlated_null, effective_count, overlap_correlation
from ktdeval_board.entries import Board
from ktdeval_board.ranking.describe import by_trust, division_kind
from ktdeval_board.rules import Division, WindowRule

NULL_DRAWS = 100_000
"""Samples of the signed-rank distribution where windows share days, as `ktdeval compare` takes them: p is known to 0.0005."""
_SEED = 0
_DIGITS = 6


def pairing(board: Board, division: Division, scope: str) -> JsonValue:
    """Windows of a scope, how much they have in common, and the null distribution of the signed-rank statistic.

    `null` is there where windows share days: the two-sided p-value for each value of the sum of positive ranks. It is that of all
    windows of the scope, so it holds for two cards none of whose differences is zero and all of whose figures are defined. Where
    windows do not overlap the distribution is exact and needs no table; of one window there is nothing to test. A scoring task has
    scores of all answers together and none by window: no windows are given, and nothing is paired.

    Args:
        board: the board.
        division: one of its divisions.
        scope: `all` or the name of a window.

    Returns:
        `windows`, `correlation`, `overlap`, `null`, `blocks` (windows that change signs together) and `effective_windows`.
    """
    windows = [window for window in division.windows if scope in ("all", window.name)]
    if division_kind(board, division) == "scoring":
        windows = []
    correlation = overlap_correlation(_covered(board, division, windows))
    overlap = bool(windows) and float(correlation.sum()) != len(windows)
    null = correlated_null(correlation, NULL_DRAWS, _SEED) if overlap else None
    return {
        "windows": [{"name": window.name, "first": window.first, "last": window.last} for window in windows],
        "correlation": [[round(float(value), _DIGITS) for value in row] for row in correlation],
        "overlap": overlap,
        "null": None if null is None else _table(null, len(windows)),
        "blocks": blocks_of(correlation).tolist() if windows else [],
        "effective_windows": round(effective_count(correlation), _DIGITS),
    }


def _covered(board: Board, division: Division, windows: Sequence[WindowRule]) -> list[tuple[str, str]]:
    """First and last trading day of each window as episodes covered it; the rule's days where no card has it."""
    covered = {
        episode["window"]: (episode["first_day"], episode["last_day"])
        for entry in reversed(by_trust(board.of_division(division)))
        if entry.card["kind"] == "trading" and entry.card["limit"] is None
        for episode in entry.card["episodes"]
    }
    return [covered.get(window.name, (window.first, window.last)) for window in windows]


def _table(null: RankNull, windows: int) -> JsonValue:
    return {
        "n": windows,
        "statistic": [float(value) for value in null.support],
        "p": [round(null.two_sided(float(value)), _DIGITS) for value in null.support],
    }
