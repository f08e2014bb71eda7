"""Figures with one value per system: Figure 3 in KTD-Fin, Figure 7 in DeepFund, and Figure 3 in
InvestorBench.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import label_word
from ktdeval.errors import CardError, UsageError
from ktdeval_compare.pairs.compared_cards import (
    label,
    load_cards,
)
from ktdeval_compare.pairs.shared_facts import (
    check_same,
    check_same_config,
    facets,
)
from ktdeval_compare.papers.figures.definitions import FigureChoices, PaperFigure
from ktdeval_compare.papers.figures.figure_runs import (
    check_one_task,
    figure_entrants,
    mean_ends,
    origin_notes,
    warn_of_cards,
)
from ktdeval_compare.papers.paper_tables import find_paper_table, paper_frame

_FOREST = ("panel", "row", "value", "low", "high", "reference", "n")


def attacker_frame(
    paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices
) -> pd.DataFrame:
    """Return recovery rates by [measure and attacker], with Wilson intervals and the chance level
    on the same probes (`reference`).
    """
    measures: Mapping[str, str] = figure.settings["measures"]
    _, scored = load_cards(paths, tasks=choices.tasks)
    entrants = label([one for one in scored if set(measures) <= set(one.card.scores)])
    if not entrants:
        raise UsageError(
            f"{paths[0]}: no card of a de-anonymization probe here; run --tasks deanon_probe"
        )

    check_same(entrants, facets("masks", "snapshots"), "give cards of one probe")
    check_same_config(entrants, "give cards of one probe")
    rows = []
    for measure, words in measures.items():
        for entrant in entrants:
            score = entrant.card.scores[measure]
            interval = score.interval
            rows.append(
                {
                    "panel": words,
                    "row": entrant.label,
                    "value": score.value,
                    "low": None if interval is None else interval.low,
                    "high": None if interval is None else interval.high,
                    "reference": score.baseline,
                    "n": score.n,
                }
            )

    frame = pd.DataFrame(rows, columns=list(_FOREST))
    frame.attrs["reference"] = "chance"
    card = entrants[0].card
    runs = [f"run {one.run_folder.name}: {one.card.model.name}" for one in entrants]
    labels = dict.fromkeys(each for one in entrants for each in one.card.labels)
    if labels:
        runs.append(f"labels: {', '.join(map(label_word, labels))}")
    frame.attrs["notes"] = (*figure.notes, f"{card.task.name} behind mask {card.task.mask}", *runs)
    return frame


def cost_frame(paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices) -> pd.DataFrame:
    """Return, by [system], the cost per episode in USD, and the mean return over episodes with its
    interval.
    """
    entrants = figure_entrants(paths, figure, choices)
    check_one_task(entrants, figure)
    rows = []
    unpriced = []
    for entrant in entrants:
        card = entrant.card
        cost = card.cost.per_episode
        usd = None if cost is None else cost.value
        if usd is None:
            unpriced.append(entrant.label)
            continue

        returns = []
        for episode in card.pooled:
            line = episode.metrics.get("total_return")
            if line is not None and line.value is not None:
                returns.append(line.value)
        if not returns:
            continue

        values = np.array(returns)
        low, high = mean_ends(values)
        rows.append(
            {
                "line": entrant.label,
                "x": float(usd),
                "value": float(values.mean()),
                "low": low,
                "high": high,
                "n": len(values),
                "per_usd": float(values.mean()) / usd if usd else None,
            }
        )

    if not rows:
        raise CardError(
            f"{figure.name}: no card here has a return and a cost; name the price of the model at"
            " the run"
        )

    warn_of_cards(entrants)
    frame = pd.DataFrame(rows)
    notes = list(figure.notes)
    if unpriced:
        notes.append(f"without a known price, so not drawn: {', '.join(unpriced)}")
    if any(row["x"] == 0 for row in rows):
        notes.append("a model on this machine costs nothing: its return per dollar is not defined")
    frame.attrs["notes"] = (*notes, *origin_notes(entrants))
    return frame


_IB = {
    "ib_cumulative_return": "CR",
    "ib_sharpe": "SR",
    "ib_volatility": "AV",
    "ib_max_drawdown": "MDD",
}


def class_frame(paths: Sequence[Path], figure: PaperFigure, choices: FigureChoices) -> pd.DataFrame:
    """Return, by [metric and class], the figures for model classes relative to Buy & Hold, as
    fractions. If all models in a class have the same assets, the figures have t intervals over
    these models.
    """
    models = paper_frame(find_paper_table("investorbench-2", choices.plugins), paths, choices)
    rows: list[dict[str, Any]] = []
    notes: dict[str, None] = {}
    for name, by in figure.settings["classes"].items():
        try:
            frame = paper_frame(find_paper_table(name, choices.plugins), paths, choices)
        except UsageError as error:
            # only open-source models have known sizes
            notes[f"no part by {by}: {error}"] = None
            continue

        notes.update(dict.fromkeys(frame.attrs["notes"]))
        for row in frame.to_dict("records"):
            rows += _class_rows(row, by, models)

    if not rows:
        raise CardError(f"{figure.name}: {'; '.join(notes)}")

    order = list(_IB.values())
    rows.sort(key=lambda row: order.index(row["panel"]))
    shown = pd.DataFrame(rows, columns=list(_FOREST))
    shown.attrs["reference"] = "Buy & Hold"
    shown.attrs["notes"] = (*figure.notes, *notes, *_class_notes(models, paths))
    return shown


def _class_notes(models: pd.DataFrame, paths: Sequence[Path]) -> Iterator[str]:
    """Yield the models in each class, and the runs in which they were used."""
    for kind, members in models.groupby("type", sort=False):
        if kind != "buy_and_hold":
            yield f"{str(kind).replace('_', ' ')}: {', '.join(sorted(set(members['model'])))}"

    yield f"runs: {', '.join(path.name for path in paths)}"


def _class_rows(row: Mapping[Any, Any], by: str, models: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows for one class, one for each metric that is defined."""
    of_class = models[models[by] == row["class"]]
    if by == "size":
        of_class = of_class[of_class["type"] == "open_source"]

    rows = []
    for metric, head in _IB.items():
        value = row[metric]
        if value is None or pd.isna(value):
            continue

        low, high = _class_ends(of_class, models, metric)
        rows.append(
            {
                "panel": head,
                "row": f"{row['class'].replace('_', ' ')} (n {row['models']})",
                "value": value / 100.0,
                "low": low,
                "high": high,
                "reference": 1.0,
                "n": row["models"],
            }
        )

    return rows


def _class_ends(
    members: pd.DataFrame, models: pd.DataFrame, metric: str
) -> tuple[float | None, float | None]:
    """Return both ends of the interval over a class's models, each relative to Buy & Hold on the
    model's assets. Return None if the models have different assets, because the mean over models
    then differs from the figure for the class.
    """
    held = models[models["type"] == "buy_and_hold"].set_index(["task", "window"])[metric]
    assets = set()
    shares = []
    for _, own in members.groupby("model", sort=True):
        own = own.set_index(["task", "window"])
        assets.add(tuple(sorted(own.index)))
        on_same = held.reindex(own.index).astype(float)
        shares.append(float(own[metric].astype(float).sum() / on_same.sum()))

    if len(assets) != 1 or not np.isfinite(shares).all():
        return None, None
    return mean_ends(np.array(shares))
