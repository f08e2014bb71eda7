"""Labels of InvestorBench's warm-up: what inverted ones do to a model that learns."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import ktdeval
from ktdeval.stats import mean_with_interval

SYMBOLS = ("msft", "jnj", "uvv", "hon")


def cards(tasks: str, out: Path, **more: Any) -> list[Any]:
    made = ktdeval.evaluate(
        "builtin/recall", tasks, agent="finmem", out=str(out), quiet=True, **more
    )
    return [card.plain for card in made.typed_cards]


def test_a_model_that_learns_earns_by_right_labels_and_loses_by_inverted(
    tmp_path: Path,
) -> None:
    names = [
        f"investorbench_{symbol}{labels}"
        for symbol, labels in product(SYMBOLS, ("", "_inverted_labels"))
    ]
    intervals = {}

    for effect in (2.0, 0.0):
        found = []
        for seed in range(2):
            data = {
                "data": "synthetic_investorbench",
                "data_args": {"seed": seed, "effect": effect},
            }
            made = cards(",".join(names), tmp_path / f"{effect}-{seed}", limit=80, **data)
            by_name = {
                card["task"]["name"]: card["metrics"]["ib_cumulative_return"]["value"]
                for card in made
            }
            found += [
                by_name[f"investorbench_{symbol}"]
                - by_name[f"investorbench_{symbol}_inverted_labels"]
                for symbol in SYMBOLS
            ]

        mean = mean_with_interval(np.array(found))
        intervals[effect] = (mean.detail["low"], mean.detail["high"])
        print(
            f"news effect {effect}: right less inverted {mean.value:+.3f}, 95 %"
            f" {intervals[effect]}, n = {mean.n}"
        )

    assert intervals[2.0][0] > 0
    assert intervals[0.0][0] < 0 < intervals[0.0][1]  # news that say nothing teach nothing
