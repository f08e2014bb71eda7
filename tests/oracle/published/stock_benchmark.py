"""agent-stock-benchmark again: 16 strategies that rank some 503 US stocks each day."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from . import common

TOP = 250.0
YEAR = 252.0
COSTS_BP = (0, 1, 5, 10)
SPLIT = ("KLAC", "20260611", 10.0)
RENAMED = ("BK", "BNY")


@dataclass
class Board:
    """Closes [day, name] with 0 for missing, ranks by strategy and day, what the board states."""

    days: list[str]
    names: list[str]
    closes: np.ndarray
    volumes: np.ndarray
    ranks: dict[str, dict[str, list[str]]]
    stated: dict[str, pd.DataFrame]
    leaderboard: pd.DataFrame
    metas: dict[tuple[str, str], dict[str, Any]]


def read(folder: Path) -> Board:
    """Read the unpacked archive."""
    closes = pd.read_parquet(folder / "data/parquet/close.parquet")
    volumes = pd.read_parquet(folder / "data/parquet/volume.parquet")
    ranks: dict[str, dict[str, list[str]]] = {}
    metas = {}
    for path in sorted(folder.glob("rankings/*/*.csv")):
        with path.open() as file:
            rows = sorted(csv.DictReader(file), key=lambda row: int(row["strategy_rank"]))
        strategy = path.stem
        ranks.setdefault(strategy, {})[path.parent.name] = [row["ticker"] for row in rows]
        metas[strategy, path.parent.name] = json.loads(path.with_suffix(".meta.json").read_text())
    text = {"ranking_date": str, "entry_date": str, "exit_date": str}
    stated = {
        name: pd.read_csv(folder / f"accounting/daily_pnl/{name}.csv", dtype=text) for name in ranks
    }
    return Board(
        [day.strftime("%Y%m%d") for day in closes.index],
        list(closes.columns),
        closes.to_numpy(),
        volumes.to_numpy(),
        ranks,
        stated,
        pd.read_csv(folder / "leaderboard/leaderboard.csv").set_index("strategy_id"),
        metas,
    )


def split_repaired(board: Board) -> np.ndarray:
    """Closes with the split undone: earlier closes divided by its ratio."""
    name, day, ratio = SPLIT
    closes = board.closes.copy()
    closes[: board.days.index(day), board.names.index(name)] /= ratio
    return closes


def rename_repaired(board: Board, closes: np.ndarray) -> np.ndarray:
    """Closes where the old name goes on under the new one's prices."""
    old, new = (board.names.index(name) for name in RENAMED)
    closes = closes.copy()
    missing = closes[:, old] == 0
    closes[missing, old] = closes[missing, new]
    return closes


def ladder(size: int) -> np.ndarray:
    """USD by rank: 250 for the first, -250 for the last, even steps."""
    return np.linspace(TOP, -TOP, size)


def holdings(board: Board, closes: np.ndarray, strategy: str, day: str, rule: str) -> np.ndarray:
    """USD by name at entry [name].

    rule "both": names priced at entry and at exit (as the board does); "entry": priced at entry.
    """
    entry = board.days.index(day) + 1
    place = {name: index for index, name in enumerate(board.names)}
    columns = [place[name] for name in board.ranks[strategy][day] if name in place]
    columns = [column for column in columns if closes[entry, column] > 0]
    if rule == "both":
        columns = [column for column in columns if closes[entry + 1, column] > 0]
    dollars = np.zeros(len(board.names))
    dollars[columns] = ladder(len(columns))
    return dollars


def moves(board: Board, closes: np.ndarray, day: str, missing: str = "flat") -> np.ndarray:
    """Return of each name from entry to exit; a missing exit is 0 ("flat") or -1 ("loss")."""
    entry = board.days.index(day) + 1
    before, after = closes[entry], closes[entry + 1]
    moved = np.zeros(len(before))
    priced = before > 0
    moved[priced] = after[priced] / before[priced] - 1.0
    if missing == "flat":
        moved[priced & (after == 0)] = 0.0
    return moved


def scored_days(board: Board, strategy: str) -> list[str]:
    """Ranking days whose entry and exit closes are in the files."""
    last = len(board.days) - 2
    return [day for day in sorted(board.ranks[strategy]) if board.days.index(day) + 1 <= last]


def gains(
    board: Board, closes: np.ndarray, strategy: str, rule: str = "both", missing: str = "flat"
) -> pd.Series:
    """USD gained on each scored ranking day, no costs."""
    found = {}
    for day in scored_days(board, strategy):
        dollars = holdings(board, closes, strategy, day, rule)
        found[day] = float(dollars @ moves(board, closes, day, missing))
    return pd.Series(found)


def traded(board: Board, closes: np.ndarray, strategy: str) -> dict[str, Any]:
    """USD traded a day, summed: three ways to run the ladder.

    changed: yesterday's holdings, grown by their returns, are changed into today's; opened on the
    first day, closed on the last. targets: the same without growth. round_trip: everything is
    opened at entry and closed at exit each day.
    """
    grown = np.zeros(len(board.names))
    target = np.zeros(len(board.names))
    rows = []
    for day in scored_days(board, strategy):
        dollars = holdings(board, closes, strategy, day, "both")
        changed = np.abs(dollars - grown).sum()
        by_target = np.abs(dollars - target).sum()
        grown = dollars * (1.0 + moves(board, closes, day))
        target = dollars
        opened_closed = np.abs(dollars).sum() + np.abs(grown).sum()
        rows.append([changed, by_target, opened_closed, np.abs(dollars).sum()])
    rows[-1][0] += np.abs(grown).sum()
    rows[-1][1] += np.abs(target).sum()
    sums = np.asarray(rows).sum(axis=0)
    return {
        "daily": np.asarray(rows),
        "changed": sums[0],
        "targets": sums[1],
        "round_trip": sums[2],
        "mean_gross": sums[3] / len(rows),
    }


def figures_of(series: pd.Series) -> dict[str, Any]:
    """Sum, Sharpe ratio, drawdown, share of days won."""
    return {
        "n_days": len(series),
        "total_usd": series.sum(),
        "sharpe": common.sharpe(series, YEAR),
        "interval95": common.sharpe_interval(series, YEAR),
        "max_drawdown_usd": common.money_drawdown(series),
        "win_rate": float((series > 0).mean()),
    }


def deadline(board: Board, day: str) -> dt.datetime:
    """Close of the entry day, 16:00 in New York = 20:00 UTC in summer time."""
    place = board.days.index(day) + 1
    if place < len(board.days):
        entry = dt.datetime.strptime(board.days[place], "%Y%m%d")
    else:
        entry = (pd.Timestamp(day) + pd.offsets.BDay()).to_pydatetime()
    return entry.replace(hour=20, tzinfo=dt.UTC)


def publications(commits: Path) -> dict[tuple[str, str], dt.datetime]:
    """First commit of each ranking file, by strategy and day."""
    found = {}
    with gzip.open(commits, "rt") as file:
        for row in csv.DictReader(file):
            path = Path(row["path"])
            if path.suffix == ".csv":
                moment = dt.datetime.fromisoformat(row["committed_utc"].replace("Z", "+00:00"))
                found[path.stem, path.parent.name] = moment
    return found


def known_before(board: Board, commits: Path, series: dict[str, pd.Series]) -> dict[str, Any]:
    """Entrant-days published before and after the deadline, with the Sharpe ratio in each."""
    moments = publications(commits)
    state: dict[str, dict[str, str]] = {}
    for strategy, ranks in board.ranks.items():
        for day in ranks:
            moment = moments.get((strategy, day))
            if moment is None:
                kind = "unknown"
            elif moment < deadline(board, day):
                kind = "before"
            else:
                kind = "after"
            state.setdefault(strategy, {})[day] = kind
    entrants = {}
    for strategy, kinds in state.items():
        figures: dict[str, Any] = {}
        for kind in ("before", "after", "unknown"):
            listed = [day for day, found in kinds.items() if found == kind]
            kept = series[strategy].reindex([day for day in listed if day in series[strategy]])
            figures[kind] = {"days": len(listed), "scored": len(kept)}
            if len(kept) > 1:
                figures[kind] |= figures_of(kept)
        figures["first_before"] = min((d for d, k in kinds.items() if k == "before"), default=None)
        entrants[strategy] = figures
    totals = {
        kind: sum(kind == found for kinds in state.values() for found in kinds.values())
        for kind in ("before", "after", "unknown")
    }
    scored = {
        kind: sum(figures[kind]["scored"] for figures in entrants.values())
        for kind in ("before", "after", "unknown")
    }
    days = {
        kind: sorted(
            {day for kinds in state.values() for day, found in kinds.items() if found == kind}
        )
        for kind in ("before", "after")
    }
    return {
        "rule": "first commit of the file < entry day 20:00 UTC",
        "entrant_days": totals,
        "entrant_days_scored": scored,
        "ranking_days_with_any": {kind: len(listed) for kind, listed in days.items()},
        "before_days": days["before"],
        "sensitivity": _other_deadlines(board, moments),
        "entrants": entrants,
    }


def _other_deadlines(board: Board, moments: dict[tuple[str, str], dt.datetime]) -> dict[str, int]:
    """Entrant-days published before other moments: entry day's open, exit's close, ranking close."""
    found = {
        "entry_open_1330": 0,
        "entry_close_2000": 0,
        "entry_close_2100": 0,
        "exit_close_2000": 0,
    }
    for strategy, ranks in board.ranks.items():
        for day in ranks:
            moment = moments[strategy, day]
            entry = deadline(board, day)
            following = (pd.Timestamp(entry) + pd.offsets.BDay()).to_pydatetime()
            place = board.days.index(day) + 2
            if place < len(board.days):
                stamp = dt.datetime.strptime(board.days[place], "%Y%m%d")
                following = stamp.replace(hour=20, tzinfo=dt.UTC)
            found["entry_open_1330"] += moment < entry.replace(hour=13, minute=30)
            found["entry_close_2000"] += moment < entry
            found["entry_close_2100"] += moment < entry.replace(hour=21)
            found["exit_close_2000"] += moment < following
    return found


def data_faults(board: Board) -> dict[str, Any]:
    """Missing closes, split-like moves, lengths of the ranks, missing dates in meta files."""
    zeros = {}
    for column, name in enumerate(board.names):
        places = np.flatnonzero(board.closes[:, column] == 0)
        if len(places):
            zeros[name] = [len(places), board.days[places[0]], board.days[places[-1]]]
    jumps = []
    for column, name in enumerate(board.names):
        prices = board.closes[:, column]
        priced = (prices[1:] > 0) & (prices[:-1] > 0)
        ratios = np.ones(len(prices) - 1)
        ratios[priced] = prices[1:][priced] / prices[:-1][priced]
        for place in np.flatnonzero((ratios < 0.6) | (ratios > 1.6)):
            volume = board.volumes[place + 1, column] / max(board.volumes[place, column], 1)
            pair = [prices[place], prices[place + 1], ratios[place], volume]
            jumps.append([name, board.days[place + 1], *(float(number) for number in pair)])
    lengths: dict[int, int] = {}
    for ranks in board.ranks.values():
        for names in ranks.values():
            lengths[len(names)] = lengths.get(len(names), 0) + 1
    no_dates = sum(meta["entry_date"] is None for meta in board.metas.values())
    return {
        "zero_closes": int((board.closes == 0).sum()),
        "zeros_by_name": zeros,
        "moves_beyond_40_60_pct": jumps,
        "rank_lengths": lengths,
        "metas_without_dates": no_dates,
        "metas_without_dates_days": sorted(
            {day for (_, day), meta in board.metas.items() if meta["entry_date"] is None}
        ),
    }


def name_shuffles(
    board: Board, closes: np.ndarray, series: dict[str, pd.Series], times: int = 999
) -> dict[str, Any]:
    """Chance that a strategy with its names swapped at random does as well, by Sharpe ratio.

    One permutation of the names holds for all days: turnover stays that of the strategy.
    """
    random = np.random.default_rng(20261130)
    chances = {}
    for strategy in board.ranks:
        days = scored_days(board, strategy)
        dollars = np.stack([holdings(board, closes, strategy, day, "both") for day in days])
        moved = np.stack([moves(board, closes, day) for day in days])
        own = common.sharpe(series[strategy], YEAR) or 0.0
        always = np.flatnonzero((dollars != 0).all(axis=0))
        above = 0
        for _ in range(times):
            shuffled = dollars.copy()
            shuffled[:, always] = dollars[:, random.permutation(always)]
            ratio = common.sharpe((shuffled * moved).sum(axis=1), YEAR) or 0.0
            above += ratio >= own
        chances[strategy] = (above + 1) / (times + 1)
    return {"p": chances, "holm": common.holm(chances)}


def equal_weight(board: Board, closes: np.ndarray) -> pd.Series:
    """Mean return of all names priced at entry and exit, each scored day: buy and hold, equal."""
    some = next(iter(board.ranks))
    found = {}
    for day in scored_days(board, some):
        entry = board.days.index(day) + 1
        both = (closes[entry] > 0) & (closes[entry + 1] > 0)
        found[day] = float((closes[entry + 1][both] / closes[entry][both] - 1.0).mean())
    return pd.Series(found)


def costs(board: Board, closes: np.ndarray, series: dict[str, pd.Series]) -> dict[str, Any]:
    """Gains at 0, 1, 5, 10 bp a side and the cost at which nothing is left, three ways to trade."""
    entrants = {}
    left = {
        way: dict.fromkeys(map(str, COSTS_BP), 0) for way in ("changed", "targets", "round_trip")
    }
    for strategy, values in series.items():
        volume = traded(board, closes, strategy)
        total = float(values.sum())
        figures: dict[str, Any] = {"gross_total": total, "mean_gross": volume["mean_gross"]}
        for way, counts in left.items():
            ladder_of_costs = {str(bp): total - volume[way] * bp / 1e4 for bp in COSTS_BP}
            for bp, rest in ladder_of_costs.items():
                counts[bp] += rest > 0
            break_even = total / volume[way] * 1e4 if total > 0 else None
            traded_usd = float(volume[way])
            figures[way] = {
                "traded_usd": traded_usd,
                "net": ladder_of_costs,
                "break_even_bp": break_even,
            }
        entrants[strategy] = figures
    return {"entrants": entrants, "entrants_with_gain_left": left}


def rank_agreement(
    ways: dict[str, dict[str, pd.Series]], priced: dict[str, Any]
) -> dict[str, float]:
    """Kendall's tau of total gains with the stated ones, by way, and after 5 bp a side."""
    names = sorted(ways["stated"])
    stated = [ways["stated"][name].sum() for name in names]
    found = {}
    for way, series in ways.items():
        tau = stats.kendalltau(stated, [series[name].sum() for name in names])
        found[way] = float(tau.statistic)
    for way in ("changed", "round_trip"):
        net = [priced["entrants"][name][way]["net"]["5"] for name in names]
        found[f"split_repaired_{way}_5bp"] = float(stats.kendalltau(stated, net).statistic)
    return found


def compute(folder: Path, commits: Path) -> dict[str, Any]:
    """All figures of the board."""
    board = read(folder)
    repaired = split_repaired(board)
    renamed = rename_repaired(board, repaired)
    ways = {
        "stated": {
            name: frame.set_index("ranking_date")["total_pnl"]
            for name, frame in board.stated.items()
        },
        "board_rule": {name: gains(board, board.closes, name) for name in board.ranks},
        "missing_exit_flat": {
            name: gains(board, board.closes, name, "entry") for name in board.ranks
        },
        "missing_exit_loss": {
            name: gains(board, board.closes, name, "entry", "loss") for name in board.ranks
        },
        "split_repaired": {name: gains(board, repaired, name) for name in board.ranks},
        "split_and_rename_repaired": {name: gains(board, renamed, name) for name in board.ranks},
    }
    result: dict[str, dict[str, Any]] = {
        way: {name: figures_of(values) for name, values in series.items()}
        for way, series in ways.items()
    }
    name, day, _ = SPLIT
    klac = {}
    column = board.names.index(name)
    for strategy in board.ranks:
        ranking_day = board.days[board.days.index(day) - 2]
        dollars = holdings(board, board.closes, strategy, ranking_day, "both")[column]
        booked = dollars * moves(board, board.closes, ranking_day)[column]
        real = dollars * moves(board, repaired, ranking_day)[column]
        klac[strategy] = {"position": dollars, "booked": booked, "without_split": real}
    market = equal_weight(board, repaired)
    split = ways["split_repaired"]
    beats = [
        name
        for name in split
        if (common.sharpe(split[name], YEAR) or 0.0) > (common.sharpe(market, YEAR) or 0.0)
    ]
    orders = rank_agreement(ways, costs(board, repaired, split))
    positive = {way: sum(s.sum() > 0 for s in series.values()) for way, series in ways.items()}
    return {
        "entrants": sorted(board.ranks),
        "ranking_days": len({day for ranks in board.ranks.values() for day in ranks}),
        "entrant_days": sum(len(ranks) for ranks in board.ranks.values()),
        "entrant_days_scored": sum(len(scored_days(board, name)) for name in board.ranks),
        "leaderboard": board.leaderboard.to_dict("index"),
        "figures": result,
        "entrants_with_gain": positive,
        "recomputed_minus_stated_usd": {
            name: float(ways["board_rule"][name].sum() - ways["stated"][name].sum())
            for name in board.ranks
        },
        "kendall_tau_with_stated": orders,
        "klac": klac,
        "known_before_split_repaired": known_before(board, commits, split),
        "known_before_stated": known_before(board, commits, ways["stated"]),
        "data": data_faults(board),
        "luck_stated": common.luck(ways["stated"], YEAR),
        "luck_split_repaired": common.luck(split, YEAR),
        "equal_weight": {
            "total_return": float((1 + market).prod() - 1),
            "sharpe": common.sharpe(market, YEAR),
            "entrants_above_in_sharpe": sorted(beats),
        },
        "random_names": name_shuffles(board, repaired, split, 199),
        "costs_stated_gains": costs(board, board.closes, ways["stated"]),
        "costs_split_repaired": costs(board, repaired, split),
        "power": {
            "days_for_1": common.days_needed(1.0, YEAR),
            "days_for_2": common.days_needed(2.0, YEAR),
            "detectable_50_days": common.detectable(50, YEAR),
        },
    }
