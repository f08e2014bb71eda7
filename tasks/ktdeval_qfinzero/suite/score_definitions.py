"""Definitions of a task's scores, from the file that lists them in the order shown."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from ktdeval.task_api import ScoreDefinition
from ktdeval.values import Value, from_plain, load_yaml


class ScoreRow(Value, frozen=True):
    """A score in a file of definitions."""

    formula: str
    unit: str = "fraction"
    least: float | None = 0.0
    most: float | None = 1.0
    better: Literal["higher", "lower", ""] = "higher"
    source: str = "ours"  #: name of a source; `rules` means the source of the variant's rule set
    headline: bool = True
    live_only: bool = False  #: whether only variants that execute calls have the score
    of: Literal["answered", "followed"] = "answered"  #: answers over which figures are averaged
    is_share: bool = False  #: whether the score is the share of these answers, rather than a mean
    undefined: str = ""  #: why the score may have no value, if different from the file's reason


class ScoreFile(Value, frozen=True):
    """Definitions of a task's scores."""

    sources: dict[str, str]
    scores: dict[str, ScoreRow]
    asked: str = ""  #: plural noun for the items
    nothing: str = ""  #: why the score is missing if nothing was answered
    undefined: str = ""  #: why a figure is not defined in any answer

    def define(self, rules: str = "ours", *, is_live: bool = True) -> dict[str, ScoreDefinition]:
        """Define each score of a variant, in the order shown. `rules`: source of the variant's rule
        set.
        """
        defined: dict[str, ScoreDefinition] = {}
        for name, each in self.scores.items():
            if each.live_only and not is_live:
                continue

            source = rules if each.source == "rules" else each.source
            defined[name] = ScoreDefinition(
                formula=each.formula,
                unit=each.unit,
                range=(each.least, each.most),
                better=each.better,
                source=self.sources[source],
                headline=each.headline,
            )

        return defined


@cache
def read_scores(folder: Path) -> ScoreFile:
    """Read `scores.yaml` in a folder."""
    path = folder / "scores.yaml"
    return from_plain(load_yaml(path), ScoreFile, path.name)
