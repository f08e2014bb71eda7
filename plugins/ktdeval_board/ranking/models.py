"""What is known of each model over all divisions: its cards with their ranks, what masks do to it, attribution and exposures."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ktdeval.api import MASK_FACTORS, JsonValue, content_hash, mask_contrasts, mean_with_interval, overlap_correlation
from ktdeval_board.entries import Board, Card, Entry
from ktdeval_board.ranking.describe import ALPHA
from ktdeval_board.ranking.history import Rankings
from ktdeval_board.ranking.order import settings_of, system_labels
from ktdeval_board.ranking.series_facts import Cell, Vector

MASK_METRICS = ("total_return", ALPHA)
"""Metrics whose mask effects are shown."""

_MASK_FIELDS = ("name", "mask", "summary", "tool_texts")
"""What task configs of one family may differ in from mask to mask."""
_ROW_FIELDS = ("rank", "alpha_rank", "tie", "alpha_tie", "ranked", "why")

_Rows = Mapping[str, Mapping[str, JsonValue]]


def model_pages(board: Board, rankings: Rankings) -> Iterator[tuple[str, JsonValue]]:
    """Name of each model of the board, in order, with the data of its page.

    Args:
        board: the board.
        rankings: the tables of its divisions.
    """
    labels, rows, ranked = system_labels(board), _rows(rankings), _ranked(rankings)
    by_model: dict[str, list[Entry]] = defaultdict(list)
    for entry in board.entries:
        by_model[entry.model].append(entry)
    for name in sorted(by_model):
        entries = by_model[name]
        cards = [_card(entry, labels[entry.card_id], rows.get(entry.card_id), ranked) for entry in entries]
        yield name, {"name": name, "cards": cards, "mask_effects": mask_effects(entries)}


def model_page(board: Board, name: str, rankings: Rankings) -> JsonValue:
    """The data of one model's page; to make all of them, `model_pages` is quicker.

    Raises:
        KeyError: the board has no card of the model.
    """
    return dict(model_pages(board, rankings))[name]


def _rows(rankings: Rankings) -> _Rows:
    return {row["card"]: row for scopes in rankings.values() for row in scopes["all"]["rows"] if row["card"] is not None}


def _ranked(rankings: Rankings) -> dict[str, int]:
    """Division id -> entrants with a rank."""
    return {division: sum(row["ranked"] for row in scopes["all"]["rows"]) for division, scopes in rankings.items()}


def _card(entry: Entry, label: str, row: Mapping[str, JsonValue] | None, ranked: Mapping[str, int]) -> dict[str, JsonValue]:
    card, model = entry.card, entry.submission["model"]
    division = entry.division.id if entry.division else None
    lines = (card.get("attribution") or {}).get("value") or {"lines": {}}
    return {
        "card": entry.card_id,
        "division": division,
        "task": card["task"]["name"],
        "mask": card["task"]["mask"],
        "mode": card["task"]["mode"],
        "agent": entry.agent,
        "settings": settings_of(card),
        "label": label,
        "tier": entry.tier,
        "baseline": entry.baseline.kind if entry.baseline else None,
        "withdrawn": entry.is_withdrawn,
        "labels": list(card["labels"]),
        "submitter": entry.submission["submitter"]["name"],
        "submitted_on": entry.submission["submitted_on"],
        "cutoff": model["cutoff_date"],
        "cutoff_source": model["cutoff_source"],
        **{field: None if row is None else row[field] for field in _ROW_FIELDS},
        "of": ranked.get(division or "", 0),
        "attribution": {name: _line(line) for name, line in lines["lines"].items()},
        "exposures": mean_exposures(card),
        "cost": {"value": _six(card["cost"]["value"]), "reason": card["cost"].get("reason")},
        "decisions": dict(card["decisions"]),
        "failures": dict(card["failures"]),
    }


def _line(line: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A line of the attribution: the median over episodes of what it adds to the total return."""
    interval = line.get("interval") or {}
    return {"value": _six(line["value"]), "low": _six(interval.get("low")), "high": _six(interval.get("high")), "n": line["n"]}


def mean_exposures(card: Card) -> dict[str, float]:
    """Style factor -> median over episodes of the mean daily exposure, in standard deviations of the market's names."""
    found: dict[str, list[float]] = defaultdict(list)
    for episode in card["episodes"]:
        detail = (episode.get("metrics") or {}).get(ALPHA, {}).get("detail")
        exposures = detail.get("mean_exposures") if isinstance(detail, Mapping) else None
        for name, value in exposures.items() if isinstance(exposures, Mapping) else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name].append(float(value))
    return {name: float(f"{statistics.median(values):.6g}") for name, values in sorted(found.items())}


def mask_effects(entries: Sequence[Entry]) -> list[JsonValue]:
    """What knowing stocks and dates is worth to each agent of one model, in each mode, where cards of several masks are there.

    Contrasts of means over seeds within each window, then their mean over windows with its t interval, widened where windows share
    days: as `ktdeval effects` has it. Cards are set beside each other when mask and the words that belong to it are all they differ
    in. Cards that may not be ranked by themselves, are not checked or were withdrawn are left out.
    """
    rows: list[JsonValue] = []
    for design in _designs(entries).values():
        cards = {mask: members[0] for mask, members in design.items() if len(members) == 1}
        rows += [row for metric in MASK_METRICS for row in _effects(cards, metric)]
    return sorted(rows, key=lambda row: (row["mode"], row["agent"], row["settings"], row["metric"], row["place"]))


def _designs(entries: Sequence[Entry]) -> dict[str, dict[str, list[Card]]]:
    """Cards by all that must be equal, then by mask. Of two cards with one mask neither can be chosen."""
    designs: dict[str, dict[str, list[Card]]] = {}
    for entry in entries:
        card = entry.card
        usable = card["kind"] == "trading" and card["rankable"]["value"] and not entry.is_withdrawn and entry.verdict is not None
        if usable and card["task"]["mask"] in MASK_FACTORS:
            designs.setdefault(_shared(card), {}).setdefault(card["task"]["mask"], []).append(card)
    return designs


def _shared(card: Card) -> str:
    """Hash of all that cards of different masks must have in common."""
    config = {name: value for name, value in card["task"]["config"].items() if name not in _MASK_FIELDS}
    fields = ("model", "agent", "call", "rules", "windows", "seeds", "mask_draw", "limit")
    return content_hash(
        [config, card["task"]["mode"], card["task"]["version"], card["snapshot"]["id"], *(card[name] for name in fields)]
    )


def _effects(cards: Mapping[str, Card], metric: str) -> Iterator[JsonValue]:
    """One row for each effect that the masks can tell."""
    if not {"bright", "blinded"} <= set(cards):
        return
    values, windows, left_out = _paired(cards, metric)
    first = cards["blinded"]
    covered = {episode["window"]: (episode["first_day"], episode["last_day"]) for episode in first["episodes"]}
    correlation = overlap_correlation([covered[window] for window in windows])
    for place, (effect, contrast) in enumerate(mask_contrasts(values).items()):
        mean = mean_with_interval(contrast, correlation)
        detail = mean.detail or {}
        yield {
            "mode": first["task"]["mode"],
            "agent": first["agent"]["name"],
            "settings": settings_of(first),
            "metric": metric,
            "effect": effect,
            "place": place,
            "value": _six(mean.value),
            "low": _six(detail.get("low")),
            "high": _six(detail.get("high")),
            "n": len(contrast),
            "left_out": left_out,
            "reason": mean.reason or detail.get("reason"),
        }


def _paired(cards: Mapping[str, Card], metric: str) -> tuple[dict[str, Vector], list[str], int]:
    """Mask -> mean over seeds by window; the windows; how many (window, seed) were left out because a figure is undefined."""
    found = {mask: _by_cell(card, metric) for mask, card in cards.items()}
    cells = list(found["blinded"])
    whole = [cell for cell in cells if all(values.get(cell) is not None for values in found.values())]
    windows = list(dict.fromkeys(window for window, _ in whole))
    means = {
        mask: np.array([np.mean([values[cell] for cell in whole if cell[0] == window]) for window in windows], dtype=np.float64)
        for mask, values in found.items()
    }
    return means, windows, len(cells) - len(whole)


def _by_cell(card: Card, metric: str) -> dict[Cell, float | None]:
    none = {"value": None}
    return {(episode["window"], episode["seed"]): episode["metrics"].get(metric, none)["value"] for episode in card["episodes"]}


def _six(value: float | None) -> float | None:
    """To six significant digits."""
    return None if value is None else float(f"{value:.6g}")
