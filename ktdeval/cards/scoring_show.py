"""The card of a scoring task as a table: each score with its interval, its bound, and what chance alone gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards.facts import absent_notes, cost_rows, coverage_rows, missing_notes, run_rows, task_row, token_row
from ktdeval.cards.table import UNDEFINED, Grid, Report, clean, tally, word_grid
from ktdeval.cards.words import ranking_words
from ktdeval.jsonio import JsonValue

Card = Mapping[str, JsonValue]

_LONGEST_UNIT = 6  # characters; tables fit 80 columns


def scoring_report(card: Card) -> Report:
    """Lay the figures of a scoring card out as words."""
    return Report(
        title=clean(f"{card['task']['name']} · {card['model']['name']}"),
        labels=tuple(card["labels"]),
        ranking=clean(ranking_words(card)),
        facts=word_grid("", [task_row(card), *_subject_row(card), *run_rows(card, "sample")]),
        grids=(_scores(card),),
        activity=_activity(card),
        notes=tuple(_notes(card)),
    )


def scoring_summary(cards: Sequence[Card]) -> Grid:
    """The headline scores of several cards side by side, a column for each task."""
    columns = _short_names([clean(card["task"]["name"]) for card in cards])
    scores = dict.fromkeys(name for card in cards for name in card["score_order"] if card["scores"][name]["headline"])
    rows = [(clean(name), *(_own_value(card["scores"].get(name)) for card in cards)) for name in scores]
    return Grid("All scoring tasks (fractions in %)", ("score", *columns), tuple(rows))


def _short_names(names: Sequence[str]) -> list[str]:
    """The names without the words that all begin with, but for the first: `a_probe, a_probe_bright` are `a_probe, …bright`."""
    words = [name.split("_") for name in names]
    shared = 0
    while all(word[shared : shared + 1] == words[0][shared : shared + 1] != [] for word in words):
        shared += 1
    rest = ["_".join(word[shared:]) for word in words]
    return [f"…{end}" if place and shared and end else name for place, (name, end) in enumerate(zip(names, rest, strict=True))]


def _own_value(score: Card | None) -> str:
    return UNDEFINED if score is None else _number(score["unit"], score["value"])


def _subject_row(card: Card) -> Iterator[tuple[str, str]]:
    if card["subject"] is not None:
        yield "subject", f"{card['subject']['name']} ({card['subject']['hash'][:12]})"


def _scores(card: Card) -> Grid:
    """A row for each score: the headlines first, the others below a heading of their own."""
    scores = card["scores"]
    groups = [[name for name in card["score_order"] if scores[name]["headline"] is headline] for headline in (True, False)]
    rows: list[tuple[str, ...]] = []
    for title, names in zip(("scores", "diagnostics"), groups, strict=True):
        if names and all(groups):
            rows.append((title,))
        rows.extend(_score_row(name, scores[name]) for name in names)
    levels = {interval["level"] for score in scores.values() if (interval := score["interval"]) and "level" in interval}
    interval = f"{100 * levels.pop():g} % interval" if len(levels) == 1 else "interval"
    columns = ("score", "value", "unit", interval, "upper 95 %", "baseline", "n")
    full = [row for row in rows if len(row) > 1]
    keep = [place for place, column in enumerate(columns) if column in ("score", "value", "n") or any(row[place] for row in full)]
    return Grid(
        "Scores",
        tuple(columns[place] for place in keep),
        tuple(row if len(row) == 1 else tuple(row[place] for place in keep) for row in rows),
    )


def _score_row(name: str, score: Card) -> tuple[str, ...]:
    unit, interval, upper = score["unit"], score["interval"], score["detail"].get("upper_95")
    spread = ""
    if interval is not None and interval["low"] is not None:
        spread = f"{_number(unit, interval['low'])} … {_number(unit, interval['high'])}"
    return (
        clean(name),
        _number(unit, score["value"]),
        _short_unit(unit),
        spread,
        _number(unit, upper) if type(upper) in (int, float) else "",
        "" if score["baseline"] is None else _number(unit, score["baseline"]),
        f"{score['n']:,}",
    )


def _short_unit(unit: str) -> str:
    """The unit where there is room for it; a longer one stands in a note."""
    if _is_fraction(unit):
        return "%"
    return clean(unit) if len(unit) <= _LONGEST_UNIT else ""


def _is_fraction(unit: str) -> bool:
    """Whether values are shown in per cent: `fraction`, or a fraction of something, as `fraction of answers`."""
    return unit == "fraction" or unit.startswith("fraction of ")


def _number(unit: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return f"{100 * value:,.2f}" if _is_fraction(unit) else f"{value:,.4g}"


def _activity(card: Card) -> Grid:
    """Who answered, what failed, what it took."""
    rows = [
        *coverage_rows(card, "sample"),
        ("failures", tally(card["failures"])),
        ("submissions", f"{card['usage']['submissions']:,}"),
        token_row(card),
        *cost_rows(card),
    ]
    return word_grid("Activity", rows)


def _notes(card: Card) -> Iterator[str]:
    for name in card["score_order"]:
        score = card["scores"][name]
        if score["value"] is None:
            yield clean(f"{name} is not defined: {score['reason']}")
        elif not _short_unit(score["unit"]):
            yield clean(f"{name} is given in {score['unit']}")
    if card["missing_episodes"]:
        yield "the scores are of the finished episodes alone"
    yield from missing_notes(card)
    yield from absent_notes(card)
