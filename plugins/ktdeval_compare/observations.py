"""Runs as rows of a factorial design: agent, model, asset, window, seed and a figure, from cards or from a table file."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.cards import TradingEpisode
from ktdeval.errors import CardError, UsageError
from ktdeval.jsonio import read_plain
from ktdeval_compare.compare import TASK_FACETS
from ktdeval_compare.entrants import (
    Entrant,
    by_task,
    check_same,
    chosen_metrics,
    flag_notes,
    full_name,
    label,
    left_out_notes,
    paired_cells,
    recorded_ledger,
)

FACTORS = ("agent", "model", "asset", "window", "seed")
TABLES = Path(__file__).with_name("tables")
_ENSEMBLE = "ensemble"
_LARGEST = 4_000_000  #: Bytes of a table


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a design."""

    levels: Mapping[str, str]  #: factor -> level
    value: float | None  #: the figure; None where it is undefined
    path: Hashable  #: what two runs with identical trajectories have in common
    is_flat: bool  #: it never moved: nothing was traded
    is_ensemble: bool = False  #: made of the decisions of other rows, so no level of its own


@dataclass(frozen=True, slots=True)
class Observations:
    """Runs of a design, and what they are."""

    runs: Sequence[Run]
    metric: str
    compared: str  #: what `Run.path` is made of, in words
    source: Sequence[str] = ()
    notes: Sequence[str] = ()


def read_table(name: str, metric: str | None) -> Observations:
    """Read a table: CSV with columns among `FACTORS`, an optional column `ensemble` (yes or empty), and one of numbers for each
    metric (empty: undefined); lines of its head that start with # are its source. `name`: a path, or a table that ships, such as
    `ama-1`. `metric`: the first of the table by default.

    Raises UsageError: there is no such file or metric, or the file is too large; CardError: the file is no such table; names its
    first bad line.
    """
    shipped = {path.stem: path for path in sorted(TABLES.glob("*.csv"))}
    path = shipped.get(name, Path(name))
    try:
        text = read_plain(path, _LARGEST).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise UsageError(f"--table {name}: {reason}; give a CSV file, or one of {', '.join(shipped)}") from None
    source = list(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))
    try:
        frame = pd.read_csv(io.StringIO(text), skiprows=len(source), dtype=str, keep_default_na=False, skip_blank_lines=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise CardError(f"{path}: is no CSV table: {str(error).strip()}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise CardError(f"{path}: is no CSV table: rows have more fields than the head")
    factors = [column for column in map(str, frame) if column in FACTORS]
    metrics = [column for column in map(str, frame) if column not in (*FACTORS, _ENSEMBLE)]
    if not factors or not metrics or frame.empty:
        raise CardError(f"{path}: needs columns of factors ({', '.join(FACTORS)}) and of figures, and a row for each run")
    if (wanted := metric or metrics[0]) not in metrics:
        raise UsageError(f"{path}: no metric {wanted!r} in this table; it has {', '.join(metrics)}")
    figures = frame[metrics].apply(pd.to_numeric, errors="coerce")
    is_ensemble = frame.get(_ENSEMBLE, pd.Series("", frame.index))
    for wrong, said in (
        ((frame[factors] == "").any(axis=1), f"has an empty {' or '.join(factors)}"),
        (((frame[metrics] != "") & ~np.isfinite(figures)).any(axis=1), "has a figure that is not a finite number"),
        (~is_ensemble.isin(["", "yes"]), f"has an {_ENSEMBLE} other than yes or nothing"),
        (frame.duplicated(factors), f"is a second row of one {' × '.join(factors)}; a column seed tells replicates apart"),
    ):
        if wrong.any():
            raise CardError(f"{path} line {len(source) + 2 + int(np.argmax(wrong))}: {said}")
    runs = []
    for level, values, ensemble in zip(frame[factors].to_numpy(), figures.to_numpy(), is_ensemble, strict=True):
        row = [None if math.isnan(value) else float(value) for value in values]
        levels = dict(zip(factors, map(str, level), strict=True))
        runs.append(Run(levels, row[metrics.index(wanted)], tuple(row), not values.any(), ensemble == "yes"))
    return Observations(runs, wanted, "all figures of the row", [line.lstrip("# ") for line in source])


def read_cards(entrants: Sequence[Entrant], metrics: Sequence[str], common: bool) -> Observations:
    """Runs of trading cards, one for each episode that cards of a task have in common; the asset is the task, which has one card
    of each agent and model.

    Raises CardError: cards of a task can't be compared or paired, or two are of one agent and model; UsageError: a metric is on no
    card.
    """
    runs, notes, navs = [], [], True
    names: list[str] = []
    for task, members in by_task(entrants).items():
        check_same(members, TASK_FACETS, "they can't be compared")
        if len(members) < 2:
            raise CardError(f"{members[0].path}: is the only card of task {task}; a split needs several agents or models")
        names += chosen_metrics(members, metrics)
        members = label(members)
        cells, seen = paired_cells(members, common), dict[tuple[str, str], Entrant]()
        notes += [*left_out_notes(members), *flag_notes(members)]
        for member in members:
            agent, model = full_name(member.card.agent), full_name(member.card.model)
            if other := seen.get((agent, model)):
                raise CardError(f"{member.path} and {other.path} are both of agent {agent} with model {model}; give one of them")
            seen[agent, model] = member
            for window, seed in cells:
                episode = member.episodes()[window, seed]
                path, is_flat, of_nav = _trajectory(member, episode)
                navs &= of_nav
                levels = {"agent": agent, "model": model, "asset": task, "window": window, "seed": str(seed)}
                runs.append(Run(levels, episode.metrics[names[-1]].value, path, is_flat))
    compared = "daily NAV" if navs else "daily NAV, or all figures of the card where no ledger is beside it"
    return Observations(runs, names[-1], compared, notes=list(dict.fromkeys(notes)))


def _trajectory(entrant: Entrant, episode: TradingEpisode) -> tuple[Hashable, bool, bool]:
    """What identical runs share, whether it never moved, and whether it is of the daily NAVs."""
    ledger = recorded_ledger(entrant, episode.id)
    if isinstance(ledger, str):
        figures = {name: each.value for name, each in episode.metrics.items()}
        return tuple(sorted(figures.items())), figures.get("total_return") == 0, False
    path = ledger.nav.astype("<f8").tobytes()
    return hashlib.sha256(path).hexdigest(), not ledger.returns.any(), True
