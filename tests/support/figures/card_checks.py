"""Every figure of a card held against one worked out again from ledgers and prices with plain
pandas.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.testing import not_empty
from support.accept.accept_figures import (
    TOLERANCE,
    Episode,
    Prices,
    annual_ratio,
    benchmark_of,
    bill,
    bins,
    counts,
    drawdown,
    episodes,
    forecasts,
    metrics,
)
from support.accept.accept_runs import silently


def card_of(run: Path, rules: str = "strict") -> dict[str, Any]:
    (path,) = (run / "cards" / ("" if rules == "strict" else rules)).glob("*.json")
    card: dict[str, Any] = json.loads(path.read_text())
    return card


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE)


def check_card(run: Path, prices: Prices, rules: str, scratch: Path) -> None:
    """Hold every figure of the card of a run, scored by a rule set, against that of its ledgers and
    prices.
    """
    copy = shutil.copytree(run, scratch / "run")

    assert silently(["score", str(copy), "--rules", rules]) == 0

    card = card_of(copy, rules)
    assert card["rules"] == rules

    found = not_empty(episodes(copy, card))
    expected = [metrics(episode, prices, rules) for episode in found]

    for episode, figures_of_it in zip(found, expected, strict=True):
        check_episode(episode, figures_of_it, card, prices)

    for name in not_empty(expected[0]):
        entry = card["metrics"][name]
        found_values = [of[name][0] for of in expected]
        values = [value for value in found_values if value is not None]
        assert entry["value"] == near(float(np.median(values)) if values else None), name
        assert (entry["n"], sum(entry["undefined"].values())) == (
            len(values),
            len(found) - len(values),
        )
        assert (entry["value"] is None) == ("reason" in entry)
        if len(values) > 1:
            assert [entry["quartiles"]["low"], entry["quartiles"]["high"]] == near(
                list(np.percentile(values, [25, 75]))
            )

    check_totals(card, found, prices)


def check_episode(
    episode: Episode,
    expected: dict[str, tuple[float | None, int]],
    card: dict[str, Any],
    prices: Prices,
) -> None:
    entry = episode.entry
    steps = episode.steps
    (window,) = (window for window in card["windows"] if window["name"] == entry["window"])
    days = [day for day in prices.days if window["first"] <= day <= window["last"]]

    assert [step["filled_on"] for step in steps] == days
    assert (entry["steps"], window["days"]) == (len(days), len(days))
    assert entry["final_nav_minor"] == steps[-1]["nav_minor"]

    for name, (value, n) in expected.items():
        got = entry["metrics"][name]
        assert (got["value"], got["n"]) == (near(value), n), (name, entry["window"], entry["seed"])
        assert (got["value"] is None) == ("reason" in got)

    check_counts(entry, counts(steps))
    judged, no_fill, no_next_open = forecasts(episode, prices)
    check_calibration(entry["metrics"]["ece"]["detail"], judged, (no_fill, no_next_open))
    levels = benchmark_of(episode, prices)
    reference = card["reference"]["benchmark_buy_and_hold"][entry["window"]]["metrics"]

    assert reference["total_return"]["value"] == near(levels.iloc[-1] / levels.iloc[0] - 1)
    assert reference["sharpe"]["value"] == near(annual_ratio(levels.pct_change().dropna()))
    assert reference["max_drawdown"]["value"] == near(drawdown(levels))


def check_counts(entry: dict[str, Any], expected: dict[str, Counter[str]]) -> None:
    for name in ("decisions", "failures", "usage"):
        assert Counter(entry[name]) == expected[name], name

    assert (
        Counter({name: count for name, count in entry["orders"].items() if name != "rules"})
        == expected["orders"]
    )
    assert Counter(entry["orders"]["rules"]) == expected["rules"]


def check_calibration(
    table: dict[str, Any], judged: pd.DataFrame, left_out: tuple[int, int]
) -> None:
    assert (table["n"], table["no_fill"], table["no_next_open"]) == (len(judged), *left_out)

    expected = bins(judged)
    assert [row["low"] for row in table["bins"]] == [number / 10 for number in expected.index]

    for name in ("n", "mean_confidence", "accuracy"):
        assert [row[name] for row in table["bins"]] == near(list(expected[name]))


def check_totals(card: dict[str, Any], found: list[Episode], prices: Prices) -> None:
    per_episode = [counts(episode.steps) for episode in found]
    totals: dict[str, Counter[str]] = {}
    for name in per_episode[0]:
        totals[name] = sum((count[name] for count in per_episode), Counter())

    check_counts(card, totals)
    decided = totals["decisions"]["model"] + totals["decisions"]["model_after_retry"]
    steps = totals["decisions"].total()
    planned = len(found)
    coverage = {
        "episodes_planned": planned,
        "episodes_finished": planned,
        "steps_planned": steps,
        "steps": steps,
    }

    assert card["coverage"] == coverage | {"steps_decided": decided}
    assert ("low coverage" in card["labels"]) == (decided < 0.95 * steps)
    assert card["cost"]["value"] == bill(totals["usage"], card["cost"]["price"])

    judged = [forecasts(episode, prices) for episode in found]
    pooled = pd.concat([table for table, _, _ in judged])
    check_calibration(
        card["calibration"],
        pooled,
        (sum(no_fill for _, no_fill, _ in judged), sum(last for *_, last in judged)),
    )
