"""Runs for a variance decomposition, read from cards or a table."""

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

from ktdeval.cards import TradingEpisode, system_labels
from ktdeval.errors import CardError, UsageError, os_reason
from ktdeval.values import read_plain
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    by_task,
    chosen_metrics,
    flag_notes,
    label,
    left_out_notes,
    notes_of_groups,
    paired_cells,
    recorded_ledger,
)
from ktdeval_compare.pairs.shared_facts import (
    check_same_task,
)

FACTORS = ("agent", "model", "asset", "window", "seed")
TABLES = Path(__file__).with_name("tables")
_ENSEMBLE = "ensemble"
_LARGEST = 4_000_000  #: maximum size of a table file in bytes


@dataclass(frozen=True, slots=True)
class DesignRun:
    """One run in a design."""

    levels: Mapping[str, str]  #: level for each factor
    value: float | None  #: the run's figure; None if it is undefined
    path: Hashable  #: value that is equal for runs with identical trajectories
    is_flat: bool  #: whether nothing was traded
    #: whether the run combines the decisions of other rows, so that it is not a separate level
    is_ensemble: bool = False


@dataclass(frozen=True, slots=True)
class Observations:
    """Runs in a design, with a description."""

    runs: Sequence[DesignRun]
    metric: str
    compared: str  #: what `DesignRun.path` contains, as text
    source: Sequence[str] = ()
    notes: Sequence[str] = ()


def read_table(name: str, metric: str | None) -> Observations:
    """Read a CSV table of runs. Its columns are some of `FACTORS`, optionally `ensemble` (yes or
    empty), and one column of numbers per metric (an empty cell is undefined). Lines at the start of
    the file that begin with # give the source. `name` is a path, or the name of a table that is
    shipped with the package, such as `ama-1`. `metric` is by default the first metric in the table.

    Raises UsageError if the file or metric does not exist, or if the file is too large. Raises
    CardError if the file is not a valid table; the message gives the first bad line.
    """
    path, text = _read_text(name)
    source = list(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))
    frame = _parse_table(path, text, skipped=len(source))

    columns = [str(column) for column in frame]
    factors = [column for column in columns if column in FACTORS]
    metrics = [column for column in columns if column not in (*FACTORS, _ENSEMBLE)]
    if not factors or not metrics or frame.empty:
        raise CardError(
            f"{path}: needs columns of factors ({', '.join(FACTORS)}) and of figures, and a row for"
            " each run"
        )

    wanted = metric or metrics[0]
    if wanted not in metrics:
        raise UsageError(f"{path}: no metric {wanted!r} in this table; it has {', '.join(metrics)}")

    figures = frame[metrics].apply(pd.to_numeric, errors="coerce")
    is_ensemble = frame.get(_ENSEMBLE, pd.Series("", frame.index))
    has_bad_figure = (frame[metrics] != "") & ~np.isfinite(figures)
    problems = {
        f"has an empty {' or '.join(factors)}": (frame[factors] == "").any(axis=1),
        "has a figure that is not a finite number": has_bad_figure.any(axis=1),
        f"has an {_ENSEMBLE} other than yes or nothing": ~is_ensemble.isin(["", "yes"]),
        f"repeats one {' × '.join(factors)}; add a column seed to distinguish replicates": (
            frame.duplicated(factors)
        ),
    }
    for problem, wrong in problems.items():
        if wrong.any():
            line = len(source) + 2 + int(np.argmax(wrong))
            raise CardError(f"{path} line {line}: {problem}")

    runs = []
    rows = zip(frame[factors].to_numpy(), figures.to_numpy(), is_ensemble, strict=True)
    for levels, values, ensemble in rows:
        row = [None if math.isnan(value) else float(value) for value in values]
        runs.append(
            DesignRun(
                levels=dict(zip(factors, map(str, levels), strict=True)),
                value=row[metrics.index(wanted)],
                path=tuple(row),
                is_flat=not values.any(),
                is_ensemble=ensemble == "yes",
            )
        )

    head = [line.lstrip("# ") for line in source]
    return Observations(runs, wanted, "all figures of the row", head)


def table_among(paths: Sequence[Path]) -> str | None:
    """Return the name of the table that is given instead of runs, or None if runs are given. The
    table is a CSV file, or a table that is shipped with the package.

    Raises UsageError if a table is given together with other paths.
    """
    for path in paths:
        is_shipped = path.stem == str(path) and (TABLES / f"{path}.csv").is_file()
        if path.suffix != ".csv" and (not is_shipped or path.exists()):
            continue
        if len(paths) > 1:
            raise UsageError(
                f"{path}: a table of runs can't be combined with other inputs; leave the others out"
            )
        return str(path)

    return None


def _read_text(name: str) -> tuple[Path, str]:
    """Return the path and the text of a file, which may be a table that is shipped with the
    package.
    """
    shipped = {path.stem: path for path in sorted(TABLES.glob("*.csv"))}
    path = shipped.get(name, Path(name))
    try:
        return path, read_plain(path, _LARGEST).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        advice = f"give a CSV file, or one of {', '.join(shipped)}"
        if isinstance(error, OSError):
            reason = os_reason(error, advice)
        else:
            reason = f"is not UTF-8; {advice}"
        raise UsageError(f"{name}: {reason}") from None


def _parse_table(path: Path, text: str, skipped: int) -> pd.DataFrame:
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            skiprows=skipped,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise CardError(f"{path}: is not a CSV table: {str(error).strip()}") from None

    # If rows have too many fields, pandas uses the first fields as an index.
    if not isinstance(frame.index, pd.RangeIndex):
        raise CardError(f"{path}: is not a CSV table: rows have more fields than the head")

    return frame


def read_cards(
    entrants: Sequence[EntrantCard], metrics: Sequence[str], common: bool
) -> Observations:
    """Return the runs on trading cards, one for each episode that all cards of a task have. The
    task is the asset. On each asset, an agent and model have one card.

    Raises CardError if cards of the same task can't be compared or paired, or if two cards have the
    same agent and model. Raises UsageError if no card has a metric.
    """
    runs: list[DesignRun] = []
    notes: dict[str, list[str]] = {}
    metric = ""
    all_of_nav = True
    models = system_labels(entrant.system.of_model for entrant in entrants)

    for task, members in by_task(entrants).items():
        check_same_task(members, "they can't be compared")
        if len(members) < 2:
            raise CardError(
                f"{members[0].path}: is the only card of task {task}; a split needs several agents"
                " or models"
            )

        metric = chosen_metrics(members, metrics)[-1]
        labelled = label(members)
        cells = paired_cells(labelled, common)
        notes[task] = [*left_out_notes(labelled), *flag_notes(labelled)]
        seen: dict[tuple[str, str], EntrantCard] = {}

        for member in labelled:
            agent = member.system.agent_name
            model = models[member.system.of_model]
            other = seen.setdefault((agent, model), member)
            if other is not member:
                raise CardError(
                    f"{member.path} and {other.path} are both of agent {agent} with model {model};"
                    " give one of them"
                )

            episodes = member.episodes()
            for window, seed in cells:
                episode = episodes[window, seed]
                trajectory = _trajectory(member, episode)
                all_of_nav = all_of_nav and trajectory.is_nav
                levels = {
                    "agent": agent,
                    "model": model,
                    "asset": task,
                    "window": window,
                    "seed": str(seed),
                }
                value = episode.metrics[metric].value
                is_elected = episode.decisions.elected > 0
                runs.append(
                    DesignRun(
                        levels, value, trajectory.path, trajectory.is_flat, is_ensemble=is_elected
                    )
                )

    compared = "daily NAV"
    if not all_of_nav:
        compared = "daily NAV, or all figures of the card if no ledger is next to it"

    return Observations(runs, metric, compared, notes=list(notes_of_groups(notes)))


@dataclass(frozen=True, slots=True)
class _Trajectory:
    """Trajectory of an episode, by which identical runs are found."""

    path: Hashable  #: value that is equal for identical trajectories
    is_flat: bool  #: whether the trajectory never changed
    #: whether `path` is computed from the daily NAVs instead of the figures on the card
    is_nav: bool


def _trajectory(entrant: EntrantCard, episode: TradingEpisode) -> _Trajectory:
    ledger = recorded_ledger(entrant, episode.id)
    if isinstance(ledger, str):
        figures = {name: each.value for name, each in episode.metrics.items()}
        is_flat = figures.get("total_return") == 0
        return _Trajectory(tuple(sorted(figures.items())), is_flat, is_nav=False)

    path = hashlib.sha256(ledger.nav.astype("<f8").tobytes()).hexdigest()
    return _Trajectory(path, is_flat=not ledger.returns.any(), is_nav=True)
