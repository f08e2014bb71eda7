"""`ktdeval cohort`: how cohorts of models differ in style, and each model's figures over seeds (KTD-Fin §5.3, Tables 8 and 9).

Models are the units: an exposure is averaged over the days of a model first, so that the dependence of its days needs no model, and
the difference of two cohorts has Welch's (1947) interval over models. Cohorts are small and of unequal spread; resampling models
covers less (docs/cohort.md has both, measured).
"""

from __future__ import annotations

import itertools
import math
import os.path
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit
from scipy.stats import binomtest

from ktdeval import stats
from ktdeval.attribution import FACTOR_NAMES
from ktdeval.cards import System, TradingEpisode, episode_excess, system_labels
from ktdeval.errors import CardError, UsageError
from ktdeval.fields import option
from ktdeval.yamlio import load_yaml
from ktdeval_compare.compare import TASK_FACETS
from ktdeval_compare.definitions import Definitions, check_items, cohort_definitions, is_of, item_path
from ktdeval_compare.effects import check_counterparts, check_variants
from ktdeval_compare.entrants import (
    Entrant,
    Row,
    Values,
    check_same,
    check_windows,
    flag_notes,
    load_entrants,
    training_seed,
)
from ktdeval_compare.luck import cohort_means, mean_exposures
from ktdeval_compare.paper_tables import benchmark_held

TEXTS: Mapping[str, Any] = load_yaml(Path(__file__).with_name("cohort.yaml"))
_REASONS: Mapping[str, str] = TEXTS["reasons"]
_BOUNDS = {metric: bounds for _, metric, _, *bounds in TEXTS["baseline"]}

Tables = Mapping[str, Mapping[str, Mapping[str, float | None]]]  #: cohort -> model -> factor -> mean exposure


@dataclass(frozen=True)
class Options:
    """Settings of a report."""

    cohorts: tuple[str, ...] = ()  #: NAME=ITEM,…, see `definitions`; empty: all are one cohort
    task: str | None = None  #: task of exposures and figures; None: that of most models, see `_common_task`
    alpha: float = option(0.05, help="level of verdicts, and of the intervals (1 - alpha)", minimum=0.0001, maximum=0.5)
    common: bool = False  #: where models or seeds differ in windows, use those that all have


@dataclass
class Member:
    """One model with an agent, and its cards; `cohort` is empty where it is in none."""

    label: str
    cohort: str
    entrants: list[Entrant]
    #: training seed and seed -> window -> episode of the task, with its card
    runs: dict[tuple[str, int], dict[str, tuple[Entrant, TradingEpisode]]] = field(default_factory=dict)

    def of_task(self, task: str) -> Member:
        """Its cards of one task, with their episodes. Raises CardError: two cards have one window and seed."""
        selected = Member(self.label, self.cohort, [entrant for entrant in self.entrants if entrant.card.task.name == task])
        for entrant, episode in [(card, episode) for card in selected.entrants for episode in card.card.episodes]:
            run = selected.runs.setdefault((training_seed(entrant), episode.seed), {})
            if other := run.get(episode.window):
                where = f"window {episode.window} seed {episode.seed} of {self.label}"
                raise CardError(f"{entrant.path} and {other[0].path} both have {where}; give one of them")
            run[episode.window] = (entrant, episode)
        return selected

    def figures(self, metric: str, windows: Sequence[str]) -> list[Values]:
        """Figures of each seed over windows, where they are defined."""
        by_seed = self._by_seed(metric, windows)
        return [np.array([value for value in values if value is not None], dtype=np.float64) for values in by_seed]

    def defined(self, metric: str, windows: Sequence[str]) -> tuple[int, int]:
        """Number of (seed, window) in which a figure is defined, and of all."""
        cells = [value for values in self._by_seed(metric, windows) for value in values]
        return sum(value is not None for value in cells), len(cells)

    def _by_seed(self, metric: str, windows: Sequence[str]) -> list[list[float | None]]:
        def figure(entrant: Entrant, episode: TradingEpisode) -> float | None:
            if metric == "excess":
                return episode_excess(entrant.card, episode)
            return episode.metrics[metric].value if metric in episode.metrics else None

        return [[figure(*run[window]) for window in windows] for run in self.runs.values()]


def cohort(paths: Sequence[Path], options: Options) -> Row:
    """Report cohorts of models from their cards and run folders.

    Returns `task`; `cohorts`: the members of each, and how many share the sign of every factor; `exposures`: a row a factor;
    `agreement`: factors on which cohorts agree; `differences`: a row a factor and pair of cohorts; `baseline`: a row a model, and
    the benchmark; `declines`: a row a model and mode with bright and blinded cards; `notes`. Raises UsageError: an item
    matches nothing, or a model has two cohorts; CardError: cards can't be put together, and why.
    """
    definitions: Definitions = cohort_definitions(options.cohorts) or {"all": ["*"]}
    everyone = _members(paths, definitions)
    declined = [{"model": member.label, "cohort": member.cohort, **row}
                for member in everyone for row in declines(member.entrants, options.alpha)]  # fmt: skip
    task = options.task or _common_task(everyone, list(definitions))
    members = [selected for member in everyone if (selected := member.of_task(task)).runs]
    _check_task(definitions, members, task)
    cards = [entrant for member in members for entrant in member.entrants]
    check_same(cards, TASK_FACETS, "they can't be put together")
    formulas = {f"formulas of {metric}": lambda entrant, of=metric: (line := entrant.card.metrics.get(of)) and line.formula
                for metric in _BOUNDS}  # fmt: skip
    check_same(cards, formulas, "score all runs with one version")
    windows, notes = _windows(members, options.common)
    if others := sorted({card.card.task.name for member in everyone for card in member.entrants} - {task}):
        notes.append(f"figures are of {task}; also given: {', '.join(others)} (--task chooses)")
    for member in members:
        for metric in _BOUNDS:
            known, planned = member.defined(metric, windows)
            if known < planned:
                notes.append(
                    f"{metric} of {member.label} is defined in {known} of {planned} (seed, window): medians are over these"
                )
    tables: dict[str, dict[str, dict[str, float | None]]] = {name: {} for name in definitions}
    for member in members:
        episodes = [run[window][1] for run in member.runs.values() for window in windows]
        table = mean_exposures(episodes)
        has_exposures = any(value is not None for value in table.values())
        if not member.cohort or not has_exposures:
            notes.append(f"{member.label}: {_REASONS['no_exposures'] if member.cohort else 'is in no cohort'}")
        else:
            tables[member.cohort][member.label] = table
    exposures = _exposures(tables, options.alpha)
    notes += _unmeasured(tables, exposures["exposures"])
    kept = {member.label for member in members}
    notes += [f"{member.label}: no finished card of {task}, so it has no row" for member in everyone if member.label not in kept]
    return {
        "alpha": options.alpha, "task": task, "cards": [{"model": card.label, "path": str(card.path)} for card in cards],
        **exposures, "baseline": _baseline(members, windows, 1.0 - options.alpha), "declines": declined,
        "notes": list(dict.fromkeys([*notes, *flag_notes(cards)])),
    }  # fmt: skip


def _members(paths: Sequence[Path], definitions: Definitions) -> list[Member]:
    """Models of all cards, by label. Whatever the order of the cards, the result is the same."""
    items = [item for items in definitions.values() for item in items]
    files = [file for item in items if (file := item_path(item)) is not None]
    listed = {os.path.realpath(file) for file in files}
    all_paths = [*files, *(path for path in paths if os.path.realpath(path) not in listed)]
    if not all_paths:
        raise UsageError("give run folders or cards, and --cohort NAME=SYSTEMS for each cohort")
    entrants = sorted(load_entrants(all_paths), key=lambda entrant: str(entrant.path))
    check_items(definitions, entrants)
    repeats: dict[System, list[Entrant]] = {}
    for entrant in entrants:
        repeats.setdefault(entrant.system.without_seed(), []).append(entrant)
    check_counterparts(repeats, "declines would mix that with the mask")
    names = system_labels(repeats)
    members = []
    for system, cards in repeats.items():
        name = names[system]
        cohorts = [of for of, items in definitions.items() if any(is_of(card, item) for card in cards for item in items)]
        if len(cohorts) > 1:
            raise UsageError(f"--cohort: {name} is in {' and '.join(cohorts)}; a model is in one cohort")
        members.append(Member(name, "".join(cohorts), [replace(card, label=name) for card in cards]))
    return sorted(members, key=lambda member: member.label)


def _check_task(definitions: Definitions, members: Sequence[Member], task: str) -> None:
    """Refuse an item of a cohort all of whose cards are of other tasks. Raises CardError: names it."""
    entrants = [entrant for member in members for entrant in member.entrants]
    for name, items in definitions.items():
        for item in items:
            if not any(is_of(entrant, item) for entrant in entrants):
                raise CardError(f"cohort {name}: {item} has no finished card of task {task}; run it, or name another task")


def _common_task(members: Sequence[Member], names: Sequence[str]) -> str:
    """Task that every cohort has a card of, and most models, a blinded one before others. Raises CardError: there is none."""
    held = {name: {card.card.task.name for one in members if one.cohort == name for card in one.entrants} for name in names}
    if not (shared := set.intersection(*held.values())):
        listed = "; ".join(f"{name}: {', '.join(sorted(tasks))}" for name, tasks in held.items())
        raise CardError(f"no task has cards of every cohort ({listed}); run one task with all of them")
    models = {(card.card.task.name, card.card.task.mask, one.label) for one in members if one.cohort for card in one.entrants}
    counts = Counter((task, mask) for task, mask, _ in models if task in shared)
    return max(counts, key=lambda each: (counts[each], each[1] == "blinded", each))[0]


def _windows(members: Sequence[Member], common: bool) -> tuple[list[str], list[str]]:
    """Windows that every seed of every model has finished and that share a figure, and notes on those left out. Raises CardError:
    one has not finished a window that another has, unless `common`, or none is shared; or a name means two ranges.
    """
    check_windows([entrant for member in members for entrant in member.entrants])
    finished = [(member, seed, set(run)) for member in members for (_, seed), run in member.runs.items()]
    shared = sorted(set.intersection(*(windows for *_, windows in finished)))
    every = set.union(*(windows for *_, windows in finished)) if not common or not shared else set(shared)
    for member, seed, windows in finished:
        for window in sorted(every - windows):
            way = f", or use the {len(shared)} that all have with --common" if shared else ""
            where = f"window {window} seed {seed}, which another card has"
            raise CardError(f"{member.entrants[0].path}: {member.label} has not finished {where}; run it{way}")
    first = next(iter(members[0].runs.values()))
    lacking = set.union(*(windows for *_, windows in finished)) - set(shared)
    out = dict.fromkeys(sorted(lacking), "not every seed of every model has finished it")
    covered = {window: (first[window][1].first_day, first[window][1].last_day) for window in shared}
    out |= stats.left_out_windows(covered, members[0].entrants[0].card.snapshot.year)
    return [window for window in shared if window not in out], [f"window {name} is left out: {why}" for name, why in out.items()]


def _exposures(tables: Tables, alpha: float) -> Row:
    """Exposures of cohorts factor by factor, where they agree in sign, and their differences with Holm's correction."""
    means = {name: {row["factor"]: row for row in cohort_means(table)} for name, table in tables.items()}
    measured = [{factor for factor, row in rows_of.items() if row["mean"] is not None} for rows_of in means.values()]
    factors = [factor for factor in FACTOR_NAMES if all(factor in of_cohort for of_cohort in measured)]
    rows: list[Row] = []
    differences: list[Row] = []
    for factor in factors:
        # A model whose holdings never had a value of the factor is not among those that the mean is of.
        values = {
            name: np.array([table[factor] for table in tables[name].values() if table[factor] is not None]) for name in tables
        }
        cohorts: dict[str, Row] = {}
        for name in tables:
            ends = stats.mean_with_interval(values[name], confidence=1.0 - alpha).detail or {}
            kept = {part: means[name][factor][part] for part in ("mean", "members", "same_sign")}
            cohorts[name] = {**kept, "low": ends["low"], "high": ends["high"]}
        models = {model: value for name in tables for model, value in means[name][factor]["cards"].items()}
        row: Row = {"factor": factor, "unit": "ratio"}
        signs = {"agree": _agree(cohorts, "mean", "mean"), "agreement_shown": _agree(cohorts, "low", "high")}
        rows.append({**row, "cohorts": cohorts, "models": models, **signs})
        for first, second in itertools.combinations(tables, 2):
            tested = difference(values[first], values[second], 1.0 - alpha)
            differences.append({**row, "first": first, "second": second, **tested})
    for row, corrected in zip(differences, stats.holm([row["p"] for row in differences]), strict=True):
        higher = row["first"] if row["value"] > 0 else row["second"]
        row |= {"p_holm": corrected, "verdict": None if corrected is None else higher if corrected <= alpha else "not shown"}
    summaries: list[Row] = []
    for name, table in tables.items():
        alike = [
            all((exposures[row["factor"]] or 0.0) * row["cohorts"][name]["mean"] > 0 for row in rows)
            for exposures in table.values()
        ]
        summaries.append({"cohort": name, "models": list(table), "members": len(table), "same_sign": sum(alike) if rows else None})
    agreement: Row = {name: [row["factor"] for row in rows if row[name]] for name in ("agree", "agreement_shown")}
    agreement["factors"] = len(factors)
    return {"cohorts": summaries, "exposures": rows, "agreement": agreement, "differences": differences}


def _unmeasured(tables: Tables, rows: Sequence[Row]) -> list[str]:
    """Notes on style factors that some model has exposures to, but not every cohort."""
    given = {factor for table in tables.values() for exposures in table.values() for factor in exposures}
    missing = given - {row["factor"] for row in rows}
    return [f"no row of {factor}: a cohort has no holding with a value of it" for factor in sorted(missing)]


def _agree(cohorts: Mapping[str, Row], low: str, high: str) -> bool:
    """Whether both figures of all cohorts, of which there are two or more, lie on one side of zero."""
    figures = [row[end] or 0.0 for row in cohorts.values() for end in (low, high)]
    return len(cohorts) > 1 and (min(figures) > 0 or max(figures) < 0)


def difference(first: Values, second: Values, level: float = 0.95) -> Row:
    """Mean of [models] exposures less that of others, with Welch's t interval and p; without these the `reason`."""
    row: Row = {"value": math.fsum(first) / len(first) - math.fsum(second) / len(second)}
    reason = "one_model" if min(len(first), len(second)) < 2 else None
    if reason or not max(np.ptp(first), np.ptp(second)) > 1e-12:  # the rounding of equal exposures
        return row | {"low": None, "high": None, "p": None, "reason": _REASONS[reason or "alike"]}
    one, other = (float(values.var(ddof=1)) / len(values) for values in (first, second))
    freedom = (one + other) ** 2 / (one**2 / (len(first) - 1) + other**2 / (len(second) - 1))
    error, value = math.sqrt(one + other), float(row["value"])
    reach, p = -float(stdtrit(freedom, (1.0 - level) / 2)) * error, 2.0 * float(stdtr(freedom, -abs(value) / error))
    return row | {"low": value - reach, "high": value + reach, "p": p, "reason": None}


def _baseline(members: Sequence[Member], windows: Sequence[str], level: float) -> list[Row]:
    """Rows of models and of the benchmark, bought and held, by total return."""
    run = next(iter(members[0].runs.values()))
    cards = {window: run[window][0].card for window in windows}
    rows: list[Row] = [{"model": member.label, "cohort": member.cohort, "seeds": len(member.runs),
                        "figures": {metric: _over_episodes(member.figures(metric, windows), level, *bounds)
                                    for metric, bounds in _BOUNDS.items()}} for member in members]  # fmt: skip
    held = {metric: {"value": benchmark_held(cards, metric), "low": None, "high": None} for metric in _BOUNDS}
    if held["total_return"]["value"] is not None:
        name = members[0].entrants[0].card.snapshot.benchmark_name
        rows.append({"model": f"{name} buy-and-hold", "cohort": "", "seeds": None, "figures": held})
    returns = {row["model"]: row["figures"]["total_return"]["value"] for row in rows}
    return sorted(rows, key=lambda row: (math.inf if (value := returns[row["model"]]) is None else -value, row["model"]))


def _over_episodes(by_seed: Sequence[Values], level: float, least: float, greatest: float) -> Row:
    """Median over episodes, as on cards and in every table; the mean over seeds of their medians over windows, with its t interval,
    cut at the bounds of the figure; or the `reason` for no interval.
    """
    known = [values for values in by_seed if len(values)]
    medians = np.array([np.median(values) for values in known], dtype=np.float64)
    value = float(np.median(np.concatenate(known))) if known else None
    mean = stats.mean_with_interval(medians, confidence=level)
    ends = mean.detail or {"low": None, "high": None}
    low, high = (None if ends[end] is None else float(np.clip(ends[end], least, greatest)) for end in ("low", "high"))
    reason = "no_figure" if not known else "one_seed" if low is None else None
    row: Row = {"value": value, "mean": mean.value, "low": low, "high": high}
    return {**row, "n": len(known), "reason": reason and _REASONS[reason]}


# ---- how often no order was placed while identities were hidden, against when they showed (KTD-Fin §1 and §5.1)

_MASKS = ("bright", "blinded")
_Key = tuple[str, str, int]  #: training seed, window, seed


def _outcome(episode: TradingEpisode) -> str:
    """`traded`; `declined`: no order, and every step is a decision of the model; `not known`: no order, but some step is not."""
    if episode.orders.submitted:
        return "traded"
    return "not known" if episode.decisions.fallback or episode.decisions.error else "declined"


def declines(entrants: Sequence[Entrant], alpha: float) -> Iterator[Row]:
    """Rows of one model, one for each mode with cards under both masks, of tasks whose names differ in the mask alone: in how many
    of the same (window, seed) it placed no order. A cell counts as `not_known` where one mask's outcome is not. Raises CardError:
    cards differ in something else than the mask and the training seed, or two have one cell.
    """
    groups: dict[tuple[str, ...], list[Entrant]] = {}
    for entrant in entrants:
        if (task := entrant.card.task).mask in _MASKS:
            stem = "_".join(part for part in task.name.split("_") if part not in _MASKS)
            groups.setdefault((str(task.config.get("family")), task.mode, stem), []).append(entrant)
    for (_, mode, _), members in sorted(groups.items()):
        if {entrant.card.task.mask for entrant in members} == set(_MASKS):
            check_variants(members, "declines would mix that with the mask")
            check_windows(members)
            yield {"mode": mode, **_declined({mask: _outcomes(members, mask) for mask in _MASKS}, alpha)}


def _outcomes(entrants: Sequence[Entrant], mask: str) -> dict[_Key, str]:
    outcomes: dict[_Key, str] = {}
    for entrant in entrants:
        for episode in entrant.card.episodes if entrant.card.task.mask == mask else ():
            key = (training_seed(entrant), episode.window, episode.seed)
            if key in outcomes:
                raise CardError(
                    f"{entrant.path}: another {mask} card of {entrant.label} has window {key[1]} seed {key[2]}; give one"
                )
            outcomes[key] = _outcome(episode)
    return outcomes


def _declined(cells: Mapping[str, Mapping[_Key, str]], alpha: float) -> Row:
    bright, blinded = (cells[mask] for mask in _MASKS)
    matched = sorted(bright.keys() & blinded.keys())
    known = [key for key in matched if "not known" not in (bright[key], blinded[key])]
    only_bright, only_blinded = (sum((one[key], other[key]) == ("declined", "traded") for key in known)
                                 for one, other in ((bright, blinded), (blinded, bright)))  # fmt: skip
    row: Row = {"n": len(known), "not_known": len(matched) - len(known), "unmatched": len(bright) + len(blinded) - 2 * len(matched)}
    for mask in _MASKS:
        count = sum(cells[mask][key] == "declined" for key in known)
        share = stats.wilson(count, len(known), 1.0 - alpha)
        row[mask] = {"declined": count, "share": count / len(known) if known else None, "low": share.low, "high": share.high}
    # McNemar's exact test: given how many cells differ, either direction has probability 1/2.
    p = float(binomtest(only_blinded, n).pvalue) if (n := only_bright + only_blinded) else 1.0
    listed = [
        {"training_seed": key[0], "window": key[1], "seed": key[2], **{mask: cells[mask][key] for mask in _MASKS}}
        for key in matched
    ]
    row |= {"only_bright": only_bright, "only_blinded": only_blinded, "p": p if known else None}
    return {**row, "reason": None if known else "no window and seed whose outcome is known under both masks", "cells": listed}
