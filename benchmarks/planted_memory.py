"""A language model with a known memory under each mask: the tables of docs/detection.md.

    python benchmarks/planted_memory.py TRAINED [--runs DIR]

TRAINED is a folder of `ktdeval train memory` with several seeds. Recall is the share of facts whose
sign a model gives when it reads the line of the same candidate and day as each mask shows it. The
premium is the return of a run with codes and dates in sight less that of the blinded run of the same
model, on the windows and days that it was trained on. *no key* is the control: the blinded line with
the figures of another fact, so that neither label, day nor figures tell the fact. Intervals are of
the mean over seeds (t, 95 %).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval_models.planted.facts import FactSource, PlantedFacts, gather_facts
from ktdeval_models.planted.planted_files import DESCRIPTION, PlantedMemory, read_planted
from ktdeval_models.planted.recall import recall_of

PLUGINS = load_plugins()
MASKS = ("bright", "date_blind", "stock_blind", "blinded")
NO_KEY = "no key"
PLAYED = ("bright", "blinded")
MASK_KEY = "7" * 32  # another than that of the facts: labels are none that were ever read


@dataclass(frozen=True)
class Measured:
    """One model: its recall and its mean return over windows, by mask."""

    exposures: int
    seed: int
    facts: int
    recall: Mapping[str, float]
    returns: Mapping[str, float]

    @property
    def premium(self) -> float:
        """Return with names and days in sight, less that without."""
        return self.returns["bright"] - self.returns["blinded"]


def planted_models(trained: Path) -> Iterator[PlantedMemory]:
    """The models of a folder of trainings, by exposures and seed."""
    paths = sorted(trained.glob(f"exposures-*/seed-*/{DESCRIPTION}"))
    models = [read_planted(path.parent) for path in paths]
    yield from sorted(models, key=lambda each: (each.content.exposures, each.content.seed))


def task_of(task: str, mask: str) -> str:
    """The same task under another mask."""
    return f"{mask}_{task.removeprefix('bright_')}"


def facts_by_mask(planted: PlantedMemory) -> Mapping[str, PlantedFacts]:
    """The facts that a model was trained on, as each mask shows them."""
    content = planted.content
    facts = {}
    for mask in MASKS:
        name = task_of(content.task, mask)
        source = FactSource(name, content.windows, content.days, content.horizon)
        facts[mask] = gather_facts(source, PLUGINS)

    facts[NO_KEY] = with_figures_of_others(facts["blinded"])
    return facts


def with_figures_of_others(facts: PlantedFacts) -> PlantedFacts:
    """The same labels, days and returns; the figures of the fact half the list away."""
    half = len(facts.lines) // 2
    lines = []
    for place, line in enumerate(facts.lines):
        label, day, *_ = line.split()
        figures = facts.lines[place - half].split()[2:]
        lines.append(" ".join([label, day, *figures]))

    return replace(facts, lines=tuple(lines))


def returns_of(planted: PlantedMemory, trained: Path, runs: Path) -> dict[str, float]:
    """Mean return over the windows of a run, by mask."""
    content = planted.content
    names = {task_of(content.task, mask): mask for mask in PLAYED}
    config = RunConfig(
        model="planted/memory",
        model_args={
            "trained": str(trained),
            "exposures": content.exposures,
            "training_seed": content.seed,
        },
        tasks=tuple(names),
        windows=content.windows,
        limit=content.days,
        mask_key=MASK_KEY,
        out=str(runs / f"exposures-{content.exposures}" / f"seed-{content.seed}"),
    )
    returns = {}
    for path in evaluate(config, PLUGINS).cards:
        card = json.loads(path.read_bytes())
        figures = [each["metrics"]["total_return"]["value"] for each in card["episodes"]]
        returns[names[card["task"]["name"]]] = float(np.mean(figures))

    return returns


def measured(trained: Path, runs: Path) -> list[Measured]:
    """Measure each model of a folder."""
    models = list(planted_models(trained))
    facts = facts_by_mask(models[0])
    found = []
    for planted in models:
        recall = {}
        for mask, shown in facts.items():
            recall[mask] = recall_of(planted.network, shown).share

        returns = returns_of(planted, trained, runs)
        content = planted.content
        found.append(Measured(content.exposures, content.seed, content.facts, recall, returns))

    return found


def with_interval(values: Sequence[float]) -> str:
    """Mean and 95 % interval, per cent."""
    mean = 100 * float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.1f}"

    error = 100 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return f"{mean:.1f} ({mean - reach:.1f} … {mean + reach:.1f})"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [columns, ["---:"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trained", type=Path)
    parser.add_argument("--runs", type=Path, help="folder that keeps the runs")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        models = measured(options.trained, options.runs or Path(scratch))

    by_exposures: dict[int, list[Measured]] = {}
    for each in models:
        by_exposures.setdefault(each.exposures, []).append(each)

    columns = [*MASKS, NO_KEY]
    recalls = []
    premiums = []
    for exposures, group in by_exposures.items():
        shares = [with_interval([each.recall[mask] for each in group]) for mask in columns]
        recalls.append([str(exposures), *shares])
        returns = [with_interval([each.returns[mask] for each in group]) for mask in PLAYED]
        premium = with_interval([each.premium for each in group])
        recall = with_interval([each.recall["bright"] for each in group])
        premiums.append([str(exposures), recall, *returns, premium])

    seeds = len({each.seed for each in models})
    print(f"{models[0].facts:,} facts, {seeds} seeds\n")
    print("Signs right, %\n")
    print(table(["exposures", *columns], recalls))
    print("\nReturn of a window, %\n")
    print(table(["exposures", "signs right", *PLAYED, "premium"], premiums))

    order = stats.spearmanr(
        [each.recall["bright"] for each in models], [each.premium for each in models]
    )
    print(f"\nRank correlation of recall and premium, {len(models)} models: {order.statistic:.2f}")


if __name__ == "__main__":
    main()
