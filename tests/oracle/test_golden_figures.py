"""Figures of a trading and a scoring card, to eight digits: what moves a published number shows
here, and is meant or mended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ktdeval.cards import load_card
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate

GOLDEN = Path(__file__).with_name("card_figures.json")

RUNS: Mapping[str, Mapping[str, Any]] = {
    "trading": {
        "model": "builtin/chaos",
        "tasks": ("blinded_open_research_paper",),
        "windows": ("W1", "W2"),
        "model_args": {"misbehaviour": 0.3},
        "mask_key": "0" * 32,
    },
    "scoring": {
        "model": "attacker/reader",
        "tasks": ("deanon_probe_date_blind",),
        "windows": ("W1",),
        "limit": 80,
        "mask_key": "0" * 32,
    },
}
"""Models of this machine that are right now and then, so that no figure is 0 or 1 for want of a
case.
"""

#: Has the model that answers the probes
PLUGIN = Path(__file__).parents[1] / "support" / "masking" / "deanon_plugin.py"

RELATIVE = 1e-8  #: Machines differ in the last digits


def card_of(kind: str, folder: Path) -> dict[str, Any]:
    """The card of a run."""
    result = evaluate(
        RunConfig(out=str(folder), quiet=True, **RUNS[kind]), load_plugins((str(PLUGIN),))
    )
    (path,) = result.cards

    return load_card(path).plain


def figure_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Value, interval, count and reason of a figure; of a line of the attribution, too."""
    fields = ("value", "quartiles", "interval", "n", "reason", "undefined", "baseline")
    return {name: entry[name] for name in fields if name in entry}


def figures_of(card: Mapping[str, Any]) -> dict[str, Any]:
    """Every headline figure with its interval, what the attribution adds up, and the counts behind
    them.
    """
    figures = card["metrics"] if card["kind"] == "trading" else card["scores"]
    shown = {name: figure_of(entry) for name, entry in figures.items() if entry["headline"]}
    found: dict[str, Any] = {
        "figures": shown,
        **{
            name: card[name]
            for name in ("labels", "coverage", "rankable", "decisions", "failures", "cost")
        },
    }

    if card["kind"] == "trading":
        lines = card["attribution"]["value"]["lines"]
        found["attribution"] = {name: figure_of(line) for name, line in lines.items()}
        found["orders"], found["calibration"] = card["orders"], card["calibration"]
        found["benchmark"] = {
            window: {name: policy["metrics"][name] for name in sorted(policy["metrics"])}
            for window, policy in card["reference"]["benchmark_buy_and_hold"].items()
        }
        found["episodes"] = [
            {
                "window": episode["window"],
                "final_nav_minor": episode["final_nav_minor"],
                **{
                    name: figure_of(entry)
                    for name, entry in sorted(episode["metrics"].items())
                    if name in shown
                },
            }
            for episode in card["episodes"]
        ]

    return found


def flat(value: Any, where: str = "") -> dict[str, Any]:
    """Each number, text and null of a value by its place."""
    if isinstance(value, Mapping) and value:
        parts = [flat(part, f"{where}/{name}") for name, part in value.items()]
    elif isinstance(value, list) and value:
        parts = [flat(part, f"{where}/{index}") for index, part in enumerate(value)]
    else:
        return {where: value}

    return {place: part for each in parts for place, part in each.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(RUNS))
def test_a_card_gives_the_same_figures_as_ever(kind: str, tmp_path: Path) -> None:
    made = flat(figures_of(card_of(kind, tmp_path / "run")))
    golden = flat(json.loads(GOLDEN.read_text())[kind])

    assert sorted(made) == sorted(golden)

    moved = {
        place: (value, golden[place])
        for place, value in made.items()
        if value
        != (
            pytest.approx(golden[place], rel=RELATIVE, abs=1e-12)
            if isinstance(golden[place], float)
            else golden[place]
        )
    }

    assert moved == {}


def test_the_golden_figures_are_of_cards_that_show_something() -> None:
    golden = json.loads(GOLDEN.read_text())
    trading = golden["trading"]

    assert len(trading["figures"]) >= 10
    assert len(trading["attribution"]) >= 5
    assert len(trading["episodes"]) == 2
    assert any("quartiles" in figure for figure in trading["figures"].values())
    assert any(
        "interval" in figure
        for figure in trading["episodes"][0].values()
        if isinstance(figure, dict)
    )
    assert trading["orders"]["filled"] > 0

    scores = golden["scoring"]["figures"].values()
    assert len({figure["value"] for figure in scores} - {None}) >= 2
    assert any(figure["interval"]["low"] > 0 for figure in scores)
    assert any(0 < figure["baseline"] < 1 for figure in scores)


# python tests/oracle/test_golden_figures.py, after a change that is meant
if __name__ == "__main__":
    sys.path.insert(0, str(PLUGIN.parent))
    with TemporaryDirectory() as scratch:
        made = {kind: figures_of(card_of(kind, Path(scratch) / kind)) for kind in sorted(RUNS)}
    GOLDEN.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
