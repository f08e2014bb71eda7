"""The field of the practice board, as tables of two pages: each system, and each kind of system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from ktdeval.cards import TradingCard
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.ranking.column_texts import system_labels
from ktdeval_board.rules import Division
from support.docs.docs_markdown import code, table
from support.paths import REPOSITORY

PRACTICE = REPOSITORY / "leaderboards" / "practice"
KINDS = {
    "rule": "rule",
    "supervised": "trained on the market's past",
    "memory": "memory, at a dose",
    "random": "random trades",
}
#: Providers of entrants whose systems were trained
TRAINED = ("qlib/", "rl/")


def systems_table() -> str:
    """Return the systems of the practice board: kind, tier, and median return over the windows, with
    quartiles, in each division.
    """
    board = _practice()
    labels = system_labels(board)
    by_label: dict[str, list[BoardEntry]] = {}
    for entry in board.entries:
        by_label.setdefault(labels[entry.card_id], []).append(entry)

    rows = []
    for label, entries in by_label.items():
        kind = _kind_of(entries[0])
        tiers = ", ".join(sorted({entry.tier for entry in entries}))
        returns = [_return_text(_card_of(entries, each)) for each in board.rules.divisions]
        rows.append((code(label), kind, tiers, *returns))

    kinds = list(KINDS.values())
    rows.sort(key=lambda row: (kinds.index(row[1]), row[0]))
    rows.insert(0, ("*SYN300, bought and held*", "benchmark", "", *_benchmark_cells(board)))

    return table(("system", "kind", "tier", *_division_heads(board)), rows)


@cache
def _practice() -> LoadedBoard:
    return load_board(PRACTICE)


def _trading(entry: BoardEntry) -> TradingCard:
    assert isinstance(entry.card, TradingCard)
    return entry.card


def _kind_of(entry: BoardEntry) -> str:
    if entry.baseline is not None:
        return KINDS[entry.baseline.kind]

    is_trained = entry.model.startswith(TRAINED)
    return KINDS["supervised" if is_trained else "rule"]


def _card_of(entries: Iterable[BoardEntry], division: Division) -> TradingCard | None:
    for entry in entries:
        if entry.division == division:
            return _trading(entry)

    return None


def _division_heads(board: LoadedBoard) -> list[str]:
    return [code(division.task) for division in board.rules.divisions]


# ---- figures


def _percent(values: Sequence[float]) -> str:
    return f"{100 * float(np.median(values)):+.1f} %"


def _with_quartiles(values: Sequence[float]) -> str:
    low, high = 100 * np.quantile(values, (0.25, 0.75))
    return f"{_percent(values)} [{low:+.1f}, {high:+.1f}]"


def _window_returns(card: TradingCard) -> list[float]:
    returns = []
    for episode in card.episodes:
        value = episode.metrics["total_return"].value
        assert value is not None
        returns.append(float(value))

    return returns


def _return_text(card: TradingCard | None) -> str:
    return "" if card is None else _with_quartiles(_window_returns(card))


def _benchmark_cells(board: LoadedBoard) -> list[str]:
    """Return the cells of the index, whose returns are on every card of a division."""
    cells = []
    for division in board.rules.divisions:
        card = _card_of(board.entries, division)
        assert card is not None
        windows = card.plain["reference"]["benchmark_buy_and_hold"].values()
        cells.append(
            _with_quartiles([each["metrics"]["total_return"]["value"] for each in windows])
        )

    return cells
