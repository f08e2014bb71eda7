"""A card as a table for people: with colours in a terminal, the same lines as plain text in a file or a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from ktdeval.cards.certificate_show import certificate_report, certificate_rows
from ktdeval.cards.episodes import STATUSES
from ktdeval.cards.facts import absent_notes, cost_rows, coverage_rows, missing_notes, run_rows, task_row, token_row
from ktdeval.cards.medians import aggregate
from ktdeval.cards.scoring_show import scoring_report, scoring_summary
from ktdeval.cards.table import (
    UNDEFINED,
    Grid,
    Report,
    clean,
    count,
    grid_lines,
    plain,
    print_lines,
    report_lines,
    tally,
    word_grid,
)
from ktdeval.cards.words import ranking_words
from ktdeval.jsonio import JsonValue
from ktdeval.stats.panel import DIAGNOSTICS, PANEL_FAMILIES

Card = Mapping[str, JsonValue]

_PARTS = ("common_return", "style_return", "selection_alpha", "trading_effect")
_SIGNED = frozenset({"total_return", *_PARTS})
_UNITS = {"fraction": "%", "ratio": "", "index": "", "probability": "", "score": "", "count": ""}
_LEFT_OUT = ("no_fill", "no_next_open")
_DECIMALS = {"ratio": 3, "per year": 2}
_LONGEST_POLICY = 22  # characters; tables fit 80 columns


def print_card(card: Card, console: Console | None = None) -> None:
    """Print a valid card: with colours in a terminal, plain text elsewhere.

    Args:
        card: a card that `load_card` or `build_card` gave.
        console: where to print; standard output by default.
    """
    print_lines(report_lines(make_report(card)), console)


def print_summary(cards: Sequence[Card], console: Console | None = None) -> None:
    """Print a table over all cards of one kind, for runs of several tasks. Arguments as in `print_card`."""
    print_lines(_summary_lines(cards), console)


def plain_summary(cards: Sequence[Card]) -> str:
    """What `print_summary` prints, without colours."""
    return plain(_summary_lines(cards))


def make_report(card: Card) -> Report:
    """Lay the figures of a card of any kind out as words."""
    return _REPORTS[card["kind"]](card)


def _trading_report(card: Card) -> Report:
    task, model = card["task"], card["model"]
    return Report(
        title=clean(f"{task['name']} · {model['name']}"),
        labels=tuple(card["labels"]),
        ranking=clean(ranking_words(card)),
        facts=_facts(card),
        grids=(_panel(card), _windows(card)),
        activity=_activity(card),
        notes=tuple(_notes(card)),
    )


_REPORTS: Mapping[str, Callable[[Card], Report]] = {
    "trading": _trading_report,
    "scoring": scoring_report,
    "certificate": certificate_report,
}


def _facts(card: Card) -> Grid:
    return word_grid(
        "", [task_row(card), *run_rows(card, "step"), ("rules", card["rules"]), *certificate_rows(card["certificate"])]
    )


def _panel(card: Card) -> Grid:
    metrics = card["metrics"]
    families = {**PANEL_FAMILIES, "parts of the total return (linked)": _PARTS, "diagnostics": DIAGNOSTICS}
    known = {name for names in families.values() for name in names}
    families["further metrics"] = tuple(sorted(set(metrics) - known))
    rows: list[tuple[str, ...]] = []
    for family, names in families.items():
        present = [name for name in names if name in metrics]
        if present:
            rows.append((family,))
            rows.extend(_metric_row(name, metrics[name]) for name in present)
    several = len(card["episodes"]) > 1
    value, spread = ("median", "quartiles") if several else ("value", "95 % interval")
    columns = ("metric", value, "unit", "better", spread, "episodes")
    keep = [place for place, column in enumerate(columns) if several or column != "episodes"]
    return Grid(
        "Metrics",
        tuple(columns[place] for place in keep),
        tuple(row if len(row) == 1 else tuple(row[place] for place in keep) for row in rows),
    )


def _metric_row(name: str, metric: Card) -> tuple[str, ...]:
    unit, interval = metric["unit"], metric.get("interval")
    spread = ""
    if interval is not None and interval["low"] is not None:
        spread = f"{_number(name, unit, interval['low'])} … {_number(name, unit, interval['high'])}"
    total = metric["n"] + sum(metric["undefined"].values())
    coverage = str(total) if metric["n"] == total else f"{metric['n']} of {total}"
    better = "" if metric["better"] == "neither" else metric["better"]
    return (clean(name), _number(name, unit, metric["value"]), clean(_UNITS.get(unit, unit)), better, spread, coverage)


def _number(name: str, unit: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    sign = "+" if name in _SIGNED else ""
    if unit == "fraction":
        return f"{100 * value:{sign},.2f}"
    if unit == "count":
        return f"{value:,.10g}"
    return f"{value:{sign},.{_DECIMALS.get(unit, 4)}f}"


def _windows(card: Card) -> Grid:
    """For each window the model's median over seeds, and the benchmark beneath it."""
    references = card["reference"]["benchmark_buy_and_hold"]
    benchmark = clean(f"{card['snapshot']['benchmark_name']} buy and hold")
    rows: list[tuple[str, ...]] = []
    for window in card["windows"]:
        name = window["name"]
        episodes = [episode for episode in card["episodes"] if episode["window"] == name]
        if not episodes:
            continue
        held = references[name]["metrics"]
        own = {
            metric: aggregate([episode["metrics"][metric] for episode in episodes])
            if metric in card["metrics"]
            else {"value": None}
            for metric in held
        }
        days = str(episodes[0]["steps"])
        gain, *risk = _return_and_risk(own)
        rows.append((clean(name), _short(clean(card["model"]["name"])), days, str(len(episodes)), gain, _excess(own, held), *risk))
        gain, *risk = _return_and_risk(held)
        rows.append(("", benchmark, days, "", gain, "", *risk))
    columns = ("window", "policy", "days", "seeds", "return", "excess", "sharpe", "drawdown")
    return Grid("Against the benchmark (return, excess and drawdown in %)", columns, tuple(rows), left=2)


def _short(name: str) -> str:
    """A model's name that leaves room for figures; its whole name stands above."""
    if len(name) > _LONGEST_POLICY:
        name = name.rpartition("/")[2]
    return name if len(name) <= _LONGEST_POLICY else f"{name[: _LONGEST_POLICY - 1]}…"


def _summary_lines(cards: Sequence[Card]) -> Iterable[Text]:
    for kind, table in (("trading", _trading_summary), ("scoring", scoring_summary)):
        if own := [card for card in cards if card["kind"] == kind]:
            grid = table(own)
            yield Text(f"\n{grid.title}", style="bold")
            yield from grid_lines(grid)


def _trading_summary(cards: Sequence[Card]) -> Grid:
    headlines = ("total_return", "sharpe", "max_drawdown", "information_ratio", "decision_coverage")
    rows = []
    for card in cards:
        figures = []
        for name in headlines:
            metric = card["metrics"].get(name)
            figures.append(UNDEFINED if metric is None else _number(name, metric["unit"], metric["value"]))
        rows.append((clean(card["task"]["name"]), *figures))
    title = "All tasks (medians; return, drawdown and decided steps in %)"
    return Grid(title, ("task", "return", "sharpe", "drawdown", "info ratio", "decided"), tuple(rows))


def _excess(own: Card, held: Card) -> str:
    ours, theirs = own["total_return"]["value"], held["total_return"]["value"]
    return UNDEFINED if ours is None or theirs is None else _number("total_return", "fraction", ours - theirs)


def _return_and_risk(values: Card) -> tuple[str, str, str]:
    return (
        _number("total_return", "fraction", values["total_return"]["value"]),
        _number("sharpe", "ratio", values["sharpe"]["value"]),
        _number("max_drawdown", "fraction", values["max_drawdown"]["value"]),
    )


def _activity(card: Card) -> Grid:
    """Who decided, what became of the orders, what failed, what it took."""
    orders, usage, judged = card["orders"], card["usage"], card["calibration"]
    rows = [
        *coverage_rows(card, "step"),
        ("orders", f"{orders['submitted']:,} submitted: {tally({name: orders[name] for name in STATUSES})}"),
        ("order rules", tally(orders["rules"])),
        ("calibration", f"{count(judged['n'], 'order')} judged; left out: {tally({name: judged[name] for name in _LEFT_OUT})}"),
        ("failures", tally(card["failures"])),
        ("tool calls", f"{usage['tool_calls']:,}, {usage['tool_calls_valid']:,} valid"),
        token_row(card),
        *cost_rows(card),
    ]
    return word_grid("Activity", rows)


def _notes(card: Card) -> Iterable[str]:
    for name, metric in card["metrics"].items():
        for reason, times in metric["undefined"].items():
            where = f" in {times} of {len(card['episodes'])} episodes" if len(card["episodes"]) > 1 else ""
            yield clean(f"{name} is not defined{where}: {reason}")
    yield from missing_notes(card)
    yield from absent_notes(card, "attribution", "certificate")


def plain_text(report: Report) -> str:
    """The report as aligned text, without colours or box characters."""
    return plain(report_lines(report))
