"""Small boards in memory, whose cards tell just what a ranking reads, for the tests of rankings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.values import content_hash, from_plain, load_yaml
from ktdeval_board.board_entries import BoardEntry, LoadedBoard
from ktdeval_board.document_types import Envelope, EpisodeSeries, Series, Submission, Verdict
from ktdeval_board.errata import Erratum
from ktdeval_board.layout import BoardFolder
from ktdeval_board.ranking.daily_summaries import EpisodeDays
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.read_documents import read_own
from ktdeval_board.rules import Baseline, Division, Rules, SnapshotRule, WindowRule
from support.board.board_cards import files_of, framed, submission_of
from support.figures.card_cases import typed

WINDOWS = {"W1": ("2024-01-02", "2024-02-26"), "W2": ("2024-03-01", "2024-04-25")}
STEPS = 40
BENCHMARK = {"W1": 0.01, "W2": -0.03}
BASELINES = (Baseline("builtin/equal_weight"), Baseline("builtin/random", "random", (0, 1, 2)))
_FRAMES = load_yaml(Path(__file__).with_suffix(".yaml"))
Cell = tuple[str, int]


def metric(value: float | None, reason: str = "no variance", **more: Any) -> dict[str, Any]:
    """A metric of an episode."""
    return {"value": value, "n": STEPS} | ({"reason": reason} if value is None else {}) | more


def make_division(**changes: Any) -> Division:
    """A division of one trading task."""
    windows = tuple(WindowRule(name, *span) for name, span in WINDOWS.items())
    fields: dict[str, Any] = {
        "id": "main",
        "task": "blinded_open_research",
        "version": "1",
        "hash": "a" * 64,
        "snapshot": "market",
        "windows": windows,
        "seeds": (0,),
    }

    return Division(**(fields | changes))


def make_board(
    entries: Sequence[BoardEntry],
    market: str = "synthetic",
    errata: Sequence[Erratum] = (),
    **changes: Any,
) -> LoadedBoard:
    """A board of these entries, put into its one division; `changes` are of the division."""
    division = make_division(**changes)
    rules = Rules(
        "tiny",
        "A tiny board",
        market,
        (SnapshotRule("market", "b" * 64),),
        (division,),
        baselines=BASELINES,
    )  # type: ignore[arg-type]
    placed = [BoardEntry(**{**vars(entry), "division": division}) for entry in entries]

    return LoadedBoard(BoardFolder(Path("board")), rules, tuple(placed), tuple(errata))


def make_entry(
    board: LoadedBoard, model: str, returns: Mapping[Cell, float | None], **changes: Any
) -> BoardEntry:
    """An entry of a board with these total returns."""
    returns = dict(returns)
    tier = changes.pop("tier", "re-executed")
    agent = changes.pop("agent", "react")
    submission = make_submission(
        model, agent, changes.pop("submitted_on", "2026-01-01"), changes.pop("strategy", None)
    )
    alphas = changes.pop("alphas", {})
    figures = {
        "total_return": returns,
        "sharpe": {},
        "selection_alpha": returns if alphas is True else alphas,
    }
    figures |= changes.pop("metrics", {})
    errata = tuple(changes.pop("errata", ()))
    seeds = sorted({seed for _, seed in returns})
    card = {
        **copy.deepcopy(_FRAMES["card"]),
        "model": {"name": model, "args": {}},
        "agent": {"name": agent, "args": {}},
        "call": {"temperature": 0.7, **changes.pop("call", {})},
        "snapshot": {
            "id": "b" * 64,
            "synthetic": board.rules.market == "synthetic",
            "benchmark_name": "SYN300",
        },
        "windows": [
            {"name": name, "first": first, "last": last, "days": STEPS}
            for name, (first, last) in WINDOWS.items()
        ],
        "seeds": seeds,
        "metrics": {name: {**_FRAMES["metric"], "formula": f"{name}/1"} for name in figures},
        "reference": {
            "benchmark_buy_and_hold": {
                name: {
                    "metrics": {
                        "total_return": metric(value),
                        "sharpe": metric(None),
                        "max_drawdown": metric(None),
                    },
                    "base_day": "2024-01-01",
                    "last_day": "2024-01-31",
                }
                for name, value in BENCHMARK.items()
            }
        },
        "episodes": [make_episode(cell, figures) for cell in returns],
        "decisions": {
            "model": STEPS * len(returns),
            "model_after_retry": 0,
            "fallback": 0,
            "error": 0,
        },
    } | changes
    card_id = content_hash(card)
    verdict = None if tier == "unchecked" else make_verdict(tier)
    files = files_of(board.folder, card, card_id)

    return BoardEntry(
        card_id,
        files,
        typed(framed(card)),
        board.rules.divisions[0],
        submission,
        verdict,
        errata,
        board.rules.baseline_of(model, {}),
    )


def make_episode(cell: Cell, figures: Mapping[str, Mapping[Cell, Any]]) -> dict[str, Any]:
    """An episode of a card: 1,000,000 tokens read and 100,000 written."""
    window, seed = cell
    given = {name: by_cell.get(cell) for name, by_cell in figures.items()}

    return {
        "id": content_hash([window, seed])[:20],
        "window": window,
        "seed": seed,
        "first_day": WINDOWS[window][0],
        "last_day": WINDOWS[window][1],
        "steps": STEPS,
        "decisions": {"model": STEPS - 1, "model_after_retry": 1, "fallback": 0, "error": 0},
        "usage": {
            "input_tokens": 1_000_000,
            "output_tokens": 100_000,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
        },
        "metrics": {
            name: value if isinstance(value, dict) else metric(value)
            for name, value in given.items()
        },
    }


def make_verdict(tier: str = "re-executed", **changes: Any) -> Verdict:
    """A verdict of the board's check."""
    given: dict[str, Any] = {
        "checked_on": "2026-01-02",
        "steps": 80,
        "episodes": 2,
        "rerun": None,
        "notes": (),
    }
    return Verdict(card="c" * 64, division="main", tier=tier, suite_version="0", **given | changes)  # type: ignore[arg-type]


def make_submission(model: str, agent: str, submitted_on: str, strategy: str | None) -> Submission:
    """Make the submission of an entrant."""
    card = {
        "model": {"name": model},
        "agent": {"name": agent, **({"strategy": strategy} if strategy else {})},
    }
    description = {"name": model, "cutoff_date": "2023-12-31", "cutoff_source": "model card"}
    value = submission_of(
        card,
        "c" * 64,
        model=description,
        agent=card["agent"],
        attempts={"runs": 2},
        submitted_on=submitted_on,
    )

    return from_plain(value, Submission, "submission")


def make_series(
    entry: BoardEntry,
    returns: Mapping[Cell, Any],
    selection: Mapping[Cell, Any] | None = None,
    rank: float | None = 0.75,
    fees: float = 0.0,
) -> Series:
    """The series of an entry whose NAV has these daily returns; its gross NAV ends higher by
    `fees`.
    """
    episodes = []

    for (window, seed), values in returns.items():
        days = [str(day) for day in np.datetime64(WINDOWS[window][0]) + np.arange(len(values))]
        nav = [1.0, *np.cumprod(1 + np.asarray(values)).tolist()]
        envelope = (
            None
            if rank is None
            else Envelope(levels=[], bands=[], rank=rank, p_value=0.5, paths=200)
        )
        none = dict.fromkeys(
            (
                "benchmark",
                "benchmark_reason",
                "common",
                "style",
                "selection",
                "trading",
                "exposures",
                "attribution_reason",
            )
        )
        episodes.append(
            EpisodeSeries(
                id="e" * 20,
                window=window,
                seed=seed,
                base_day="2024-01-01",
                days=days,
                nav=nav,
                gross_nav=[*nav[:-1], nav[-1] + fees],
                invested=[0.0] * len(days),
                names=[0] * len(days),
                turnover=[0.0] * len(days),
                selection_daily=(
                    None
                    if selection is None
                    else [float(value) for value in selection[window, seed]]
                ),
                envelope=envelope,
                envelope_reason="no order was filled" if rank is None else None,
                **none,
            )
        )

    return Series(schema_version=1, card=entry.card_id, episodes=episodes)


def daily(days: Sequence[str], returns: Sequence[float]) -> EpisodeDays:
    """Days of an episode whose selection is a tenth of its return."""
    values = np.asarray(returns, dtype=np.float64)
    return EpisodeDays(np.array(days, dtype="datetime64[D]"), values, values / 10, values / 20)


def ranked_tables(board: LoadedBoard, series: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The tables of the board's one division."""
    return rank_division(board, board.rules.divisions[0], (series or {}).get)


EMPTY = make_board([])


def two(first: float | None, second: float | None) -> dict:
    """Figures of one seed in both windows."""
    return {("W1", 0): first, ("W2", 0): second}


def entry(model: str, first: float | None, second: float | None, **changes):
    """An entry with these total returns."""
    return make_entry(EMPTY, model, two(first, second), **changes)


def figure(table, row, column: str, part: str = "values"):
    """One figure of a row."""
    return row[part][table["columns"].index(column)]


def by_label(table) -> dict:
    """Label -> row."""
    return {row["label"]: row for row in table["rows"]}


def shown(table, label: str, column: str) -> tuple:
    """Value, ends of the interval, its kind and n of a figure."""
    return tuple(
        figure(table, by_label(table)[label], column, part)
        for part in ("values", "low", "high", "interval", "n")
    )


def tables_of(board):
    """Tables of a board's divisions."""

    def load(card_id: str):
        path = board.folder.series(card_id)
        return read_own(path, Series) if path.is_file() else None

    return {division.id: rank_division(board, division, load) for division in board.rules.divisions}
