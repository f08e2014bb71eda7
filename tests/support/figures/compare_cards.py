"""Result cards with given figures, and run folders with given daily returns, for the tests of
commands on several cards.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ktdeval.cards import validate_card
from ktdeval.runner.records.ledger_file import encode_ledger
from ktdeval.task_api.episode_spec import Window
from ktdeval.testing import Terminal
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values import content_hash, dumps_pretty, file_sha256, from_plain
from support.figures import card_cases
from support.figures.metric_cases import TASK, step
from support.figures.renewed_cards import derived_fields

Cell = tuple[str, int]
"""A window and a seed."""

Figures = Mapping[Cell, float | None]

APART = {f"A{k}": (f"20{10 + k}-03-01", f"20{10 + k}-03-05") for k in range(1, 13)}
"""Twelve windows a year apart."""


SELECTION_ALPHA: Mapping[str, Any] = {
    "better": "higher",
    "formula": "selection_alpha/2: here",
    "headline": True,
    "range": [None, None],
    "source": "here",
    "unit": "fraction",
    "value": None,
    "n": 0,
    "undefined": {},
    "reason": "to be derived",
}
"""The entry of a metric that a card does not have yet."""


def make_card(
    figures: Figures,
    model: str = "house/one",
    windows: Mapping[str, tuple[str, str]] = APART,
    **changes: Any,
) -> dict[str, Any]:
    """A valid card with these total returns by window and seed; None is undefined. Every episode
    has five steps.
    """
    card = copy.deepcopy(card_cases.card())
    mask = changes.pop("mask", "blinded")
    mode = changes.pop("mode", "open_research")
    config = {
        **TASK,
        "name": f"{mask}_{mode}",
        "mask": mask,
        "mode": mode,
        **changes.pop("config", {}),
    }
    card["model"] = {"name": model, "args": changes.pop("args", {})}
    card["task"] = {
        "name": config["name"],
        "version": config["version"],
        "mask": mask,
        "mode": mode,
        "hash": content_hash(config),
        "config": config,
    }
    card |= {name: value for name, value in changes.items() if name != "snapshot"}
    card["snapshot"] |= changes.get("snapshot", {})
    names = dict.fromkeys(window for window, _ in figures)
    card["windows"] = [
        {"name": name, "first": windows[name][0], "last": windows[name][1], "days": 5}
        for name in names
    ]
    card["seeds"] = sorted({seed for _, seed in figures})
    template = card["episodes"][0]
    reference = next(iter(card["reference"]["benchmark_buy_and_hold"].values()))
    card["reference"]["benchmark_buy_and_hold"] = dict.fromkeys(names, reference)
    card["episodes"] = [
        _episode(template, card, windows, cell, value) for cell, value in figures.items()
    ]
    lacking = [cell for cell in product(names, card["seeds"]) if cell not in figures]
    card["missing_episodes"] = [_missing(card, windows, cell) for cell in lacking]
    card["artefacts"] = {}
    card |= derived_fields(card)
    validate_card(card)

    return card


def _missing(card: Any, windows: Any, cell: tuple[str, int]) -> dict[str, Any]:
    window, seed = cell
    identity = card_cases.spec_of(card, Window(window, *windows[window]), seed).id
    return {"id": identity, "window": window, "seed": seed, "error": "not run to its end"}


def _episode(
    template: Any, card: Any, windows: Any, cell: tuple[str, int], value: float | None
) -> dict[str, Any]:
    episode = copy.deepcopy(template)
    window, seed = cell
    first, last = windows[window]
    entry = (
        {"value": None, "n": 5, "reason": "no steps"} if value is None else {"value": value, "n": 5}
    )
    episode |= {
        "window": window,
        "seed": seed,
        "first_day": first,
        "last_day": last,
        "id": card_cases.spec_of(card, Window(window, first, last), seed).id,
    }
    episode["metrics"]["total_return"] = entry

    return episode


def save_card(folder: Path, card: Mapping[str, Any]) -> Path:
    """Write a card as `folder/cards/<task>.json`."""
    (folder / "cards").mkdir(parents=True, exist_ok=True)
    path = folder / "cards" / f"{card['task']['name']}.json"
    path.write_text(dumps_pretty(card))

    return path


def save_run(
    folder: Path,
    card: dict[str, Any],
    returns: Mapping[Cell, Sequence[float]],
    years: Mapping[str, int] = MappingProxyType({}),
    orders: Mapping[Cell, Mapping[int, Sequence[Mapping[str, Any]]]] = MappingProxyType({}),
) -> Path:
    """Write a card with ledgers beside it, whose NAVs have these daily returns on consecutive days
    of each window, with 252 days a year unless `years` gives others; `orders`: those of some steps,
    by number.
    """
    for episode in card["episodes"]:
        cell = episode["window"], episode["seed"]
        navs = np.rint(1e8 * np.cumprod(1.0 + np.asarray(returns[cell]))).astype(int)
        days = np.datetime64(episode["first_day"], "D") + np.arange(-1, len(navs)).astype("m8[D]")
        # ledgers of other markets than A-shares have them, and their days a year
        charges = {"charges": []} if years else {}
        steps = []
        for number, nav in enumerate(navs.tolist()):
            dates = {"decided_on": str(days[number]), "filled_on": str(days[number + 1])}
            given = {"orders": list(orders.get(cell, {}).get(number, ()))}
            steps.append(step(0, nav) | charges | {"step": number} | dates | given)

        year = years.get(episode["window"], 252)
        ledger = Ledger(
            {}, 100_000_000, from_plain(steps, list[StepRecord], "steps"), days_a_year=year
        )
        name = f"episodes/{episode['id']}/ledger.parquet"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode_ledger(ledger))
        card["artefacts"][name] = file_sha256(folder / name)

    return save_card(folder, card)


class CardTerminal(Terminal):
    """Commands on cards that are written for them."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        super().__init__(capsys)
        self.folder = folder

    def cards(self, *made: dict[str, Any]) -> list[Path]:
        count = len(list(self.folder.iterdir()))
        return [
            save_card(self.folder / str(count + index), card) for index, card in enumerate(made)
        ]

    def refusals(self, *commands: Sequence[object]) -> str:
        """The lines of commands that refuse what they were given; the folder of the cards is
        written as FOLDER, and a hash as HASH.
        """
        lines = "".join(self.refusal(*words) for words in commands)
        return re.sub("[0-9a-f]{40,}", "HASH", lines.replace(str(self.folder), "FOLDER"))

    def pair(self, one: Figures, other: Figures, shared: Any = APART, **changes: Any) -> list[Path]:
        """Cards of two models; `changes` are of the second."""
        return self.cards(
            make_card(one, windows=shared),
            make_card(other, "house/two", **{"windows": shared, **changes}),
        )
