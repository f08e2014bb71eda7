"""Which (stock, day) pairs are asked about: a seeded draw that is as equal over the boards as the universe allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.contracts import Window
from ktdeval.errors import ConfigError, DataError
from ktdeval.market import Board, BoolArray, MarketSnapshot, window_rows
from ktdeval.seeds import derive_seed


@dataclass(frozen=True)
class Probe:
    """One stock at the close of one day."""

    asset: int  #: column in the snapshot
    row: int  #: row of the day in the snapshot
    board: Board  #: the stock's board, the stratum of the draw


@dataclass(frozen=True)
class DrawLimits:
    """How many probes a window gives."""

    count: int  #: probes of a window
    most_per_stock: int  #: most of these that ask about one stock


def decision_rows(snapshot: MarketSnapshot, window: Window) -> tuple[int, int]:
    """Rows [start, stop) of the days inside a window at whose close a trading episode over this window decides.

    An episode also decides at the close before the window, which is no day of it, and decides no more at its last close. Raises
    DataError: the window reaches outside the data, or has fewer than two trading days.
    """
    start, stop = window_rows(snapshot.days, window.first, window.last)
    if stop - start < 2:
        raise DataError(f"window {window.name}: no decision falls on its only trading day; choose a longer window")
    return start, stop - 1


def draw_probes(snapshot: MarketSnapshot, window: Window, limits: DrawLimits, seed: int) -> tuple[Probe, ...]:
    """Draw a window's probes; equal arguments give equal probes, and no pair of stock and day comes twice.

    A pair can be drawn when the stock is a member of the index and trades that day. Boards take turns, in a seeded order, until all
    probes are dealt; a board that has no more to give (too few members) is passed over, and the others get its share. Within a
    board each stock is asked about once, on a day drawn among its own, before any is asked about twice. Draws go by code and date,
    so that columns and rows of a snapshot don't enter. Returns the probes in the order dealt: any first part of them is about as
    evenly stratified as the whole. Raises DataError: the window reaches outside the data, or has fewer than two trading days;
    ConfigError: the window has fewer pairs than are asked for.
    """
    start, stop = decision_rows(snapshot, window)
    traded = np.isfinite(snapshot.close[start:stop]) & (snapshot.volume[start:stop] > 0)
    eligible: BoolArray = snapshot.member[start:stop] & traded
    queues = {board: _queue(snapshot, board, (start, eligible), limits.most_per_stock, seed) for board in Board}
    order = sorted(Board, key=lambda board: derive_seed(seed, "board", str(board)))
    probes = tuple(_deal(queues, order, limits.count))
    if len(probes) < limits.count:
        raise ConfigError(
            f"window {window.name}: probes_per_window is {limits.count}, but at most {limits.most_per_stock} for each stock gives "
            f"{len(probes)}; lower probes_per_window or raise max_probes_per_stock"
        )
    return probes


def _deal(queues: Mapping[Board, Iterator[Probe]], order: Sequence[Board], count: int) -> Iterator[Probe]:
    """Probes board by board in turn, until `count` are dealt or no board has any left."""
    dealt, open_boards = 0, list(order)
    while open_boards:
        for board in tuple(open_boards):
            if dealt == count:
                return
            probe = next(queues[board], None)
            if probe is None:
                open_boards.remove(board)
            else:
                dealt += 1
                yield probe


def _queue(snapshot: MarketSnapshot, board: Board, days: tuple[int, BoolArray], most_per_stock: int, seed: int) -> Iterator[Probe]:
    """Probes of one board in the order in which they are dealt: each stock once, then each a second time, …"""
    start, eligible = days
    assets = [int(asset) for asset in np.flatnonzero(eligible.any(axis=0)) if snapshot.boards[asset] is board]
    assets.sort(key=lambda asset: derive_seed(seed, "stock", snapshot.codes[asset]))
    shuffled: dict[int, list[int]] = {}
    for turn in range(most_per_stock):
        for asset in assets:
            if asset not in shuffled:
                rows = [start + int(row) for row in np.flatnonzero(eligible[:, asset])]
                code = snapshot.codes[asset]
                shuffled[asset] = sorted(rows, key=lambda row, code=code: derive_seed(seed, "day", code, str(snapshot.days[row])))  # type: ignore[misc]
            if turn < len(shuffled[asset]):
                yield Probe(asset, shuffled[asset][turn], board)
