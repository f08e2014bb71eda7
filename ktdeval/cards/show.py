"""A card as a table for people: with colours in a terminal, the same lines as plain text in a file or a pipe."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ktdeval.cards.aggregate import aggregate
from ktdeval.cards.episodes import STATUSES
from ktdeval.jsonio import JsonValue
from ktdeval.stats.panel import DIAGNOSTICS, PANEL_FAMILIES

Card = Mapping[str, JsonValue]

_UNDEFINED = "-"
_SIGNED = frozenset({"total_return"})
_UNITS = {"fraction": "%", "ratio": "", "index": "", "probability": "", "score": "", "count": ""}
_LEFT_OUT = ("no_fill", "no_next_open")
_DECIMALS = {"ratio": 3, "per year": 2}


@dataclass(frozen=True)
class Grid:
    """A small table: the first `left` columns are words, the others numbers. A row of one cell is a heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True)
class Report:
    """What `card show` prints, before any layout."""

    title: str
    labels: tuple[str, ...]
    facts: Grid
    grids: tuple[Grid, ...]
    activity: Grid
    notes: tuple[str, ...]


def print_card(card: Card, console: Console | None = None) -> None:
    """Print a valid card: with colours in a terminal, plain text elsewhere.

    Args:
        card: a card that `load_card` or `build_card` gave.
        console: where to print; standard output by default.
    """
    console = Console() if console is None else console
    for line in _lines(make_report(card)):
        console.print(line, soft_wrap=True)


def make_report(card: Card) -> Report:
    """Lay the figures of a card out as words."""
    task, model = card["task"], card["model"]
    return Report(
        title=_clean(f"{task['name']} · {model['name']}"),
        labels=tuple(card["labels"]),
        facts=_facts(card),
        grids=(_panel(card), _windows(card)),
        activity=_activity(card),
        notes=tuple(_notes(card)),
    )


def _facts(card: Card) -> Grid:
    snapshot, limit = card["snapshot"], card["limit"]
    windows = [f"{window['name']} {window['first']}…{window['last']}" for window in card["windows"]]
    shown = ", ".join(windows[:2]) + (f" and {len(windows) - 2} more" if len(windows) > 2 else "")
    rows = [
        ("task", f"{card['task']['name']}, version {card['task']['version']} ({card['task']['mask']}, {card['task']['mode']})"),
        ("model", _with_args(card["model"])),
        ("agent", _with_args(card["agent"])),
        ("market", f"{snapshot['name']}, {snapshot['assets']} assets, id {snapshot['id'][:12]}"),
        ("windows", shown + (f", the first {_count(limit, 'step')} of each" if limit is not None else "")),
        ("seeds", ", ".join(map(str, card["seeds"]))),
        ("rules", card["rules"]),
    ]
    return Grid("", ("", ""), tuple((name, _clean(value)) for name, value in rows), left=2)


def _with_args(entry: Card) -> str:
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry["args"].items()))
    return f"{entry['name']} ({args})" if args else str(entry["name"])


def _panel(card: Card) -> Grid:
    metrics = card["metrics"]
    families = {**PANEL_FAMILIES, "diagnostics": DIAGNOSTICS}
    known = {name for names in families.values() for name in names}
    families["further metrics"] = tuple(sorted(set(metrics) - known))
    rows: list[tuple[str, ...]] = []
    for family, names in families.items():
        present = [name for name in names if name in metrics]
        if present:
            rows.append((family,))
            rows.extend(_metric_row(name, metrics[name]) for name in present)
    several = len(card["episodes"]) > 1
    columns = ("metric", "median" if several else "value", "unit", "better", "interquartile range", "episodes")
    keep = [place for place, column in enumerate(columns) if several or column not in ("interquartile range", "episodes")]
    return Grid(
        "Metrics",
        tuple(columns[place] for place in keep),
        tuple(row if len(row) == 1 else tuple(row[place] for place in keep) for row in rows),
    )


def _metric_row(name: str, metric: Card) -> tuple[str, ...]:
    unit, interval = metric["unit"], metric.get("interval")
    spread = f"{_number(name, unit, interval['low'])} … {_number(name, unit, interval['high'])}" if interval else ""
    total = metric["n"] + sum(metric["undefined"].values())
    coverage = str(total) if metric["n"] == total else f"{metric['n']} of {total}"
    better = "" if metric["better"] == "neither" else metric["better"]
    return (_clean(name), _number(name, unit, metric["value"]), _clean(_UNITS.get(unit, unit)), better, spread, coverage)


def _number(name: str, unit: str, value: float | None) -> str:
    if value is None:
        return _UNDEFINED
    sign = "+" if name in _SIGNED else ""
    if unit == "fraction":
        return f"{100 * value:{sign},.2f}"
    if unit == "count":
        return f"{value:,.10g}"
    return f"{value:{sign},.{_DECIMALS.get(unit, 4)}f}"


def _windows(card: Card) -> Grid:
    """For each window the model's median over seeds, and the benchmark beneath it."""
    references = card["reference"]["benchmark_buy_and_hold"]
    benchmark = _clean(f"{card['snapshot']['benchmark_name']} buy and hold")
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
        rows.append((_clean(name), _clean(card["model"]["name"]), days, str(len(episodes)), gain, _excess(own, held), *risk))
        gain, *risk = _return_and_risk(held)
        rows.append(("", benchmark, days, "", gain, "", *risk))
    columns = ("window", "policy", "days", "seeds", "return %", "excess %", "sharpe", "drawdown %")
    return Grid("Against the benchmark", columns, tuple(rows), left=2)


def _excess(own: Card, held: Card) -> str:
    ours, theirs = own["total_return"]["value"], held["total_return"]["value"]
    return _UNDEFINED if ours is None or theirs is None else _number("total_return", "fraction", ours - theirs)


def _return_and_risk(values: Card) -> tuple[str, str, str]:
    return (
        _number("total_return", "fraction", values["total_return"]["value"]),
        _number("sharpe", "ratio", values["sharpe"]["value"]),
        _number("max_drawdown", "fraction", values["max_drawdown"]["value"]),
    )


def _activity(card: Card) -> Grid:
    """Who decided, what became of the orders, what failed, what it took."""
    coverage, decisions, orders, usage = card["coverage"], card["decisions"], card["orders"], card["usage"]
    judged = card["calibration"]
    share = f" = {100 * coverage['steps_decided'] / coverage['steps']:.1f} %" if coverage["steps"] else ""
    rows = [
        ("episodes", f"{coverage['episodes_finished']:,} of {coverage['episodes_planned']:,} finished"),
        ("coverage", f"{coverage['steps_decided']:,} of {_count(coverage['steps'], 'step')} decided by the model{share}"),
        ("decisions", _tally(decisions)),
        ("orders", f"{orders['submitted']:,} submitted: {_tally({name: orders[name] for name in STATUSES})}"),
        ("order rules", _tally(orders["rules"])),
        ("calibration", f"{_count(judged['n'], 'order')} judged; left out: {_tally({name: judged[name] for name in _LEFT_OUT})}"),
        ("failures", _tally(card["failures"])),
        ("tool calls", f"{usage['tool_calls']:,}, {usage['tool_calls_valid']:,} valid"),
        ("tokens", f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out"),
    ]
    return Grid("Activity", ("", ""), tuple((name, _clean(value)) for name, value in rows), left=2)


def _tally(counts: Mapping[str, int]) -> str:
    """`schema 12, bad_json 4`, most frequent first; `none` when all are zero."""
    present = sorted(((count, name) for name, count in counts.items() if count), key=lambda pair: (-pair[0], pair[1]))
    return ", ".join(f"{name} {count:,}" for count, name in present) or "none"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _notes(card: Card) -> Iterable[str]:
    for name, metric in card["metrics"].items():
        for reason, times in metric["undefined"].items():
            where = f" in {times} of {len(card['episodes'])} episodes" if len(card["episodes"]) > 1 else ""
            yield _clean(f"{name} is not defined{where}: {reason}")
    for episode in card["missing_episodes"]:
        yield _clean(f"missing: window {episode['window']}, seed {episode['seed']}: {episode['error']}")
    for name in ("attribution", "certificate", "cost"):
        if card[name]["value"] is None:
            yield _clean(f"no {name}: {card[name]['reason']}")


def _clean(text: object) -> str:
    """One line without control characters: a card may come from a stranger, and a terminal obeys what it prints."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") else letter for letter in str(text))


def plain_text(report: Report) -> str:
    """The report as aligned text, without colours or box characters."""
    return "".join(f"{line.plain.rstrip()}\n" for line in _lines(report))


def _lines(report: Report) -> Iterable[Text]:
    """The report line by line; its plain text is complete without the styles."""
    yield Text(report.title, style="bold")
    if report.labels:
        yield Text(" ").join(Text(f"[{label}]", style="black on yellow") for label in report.labels)
    for grid in (report.facts, *report.grids, report.activity):
        if grid.rows:
            yield Text(f"\n{grid.title}" if grid.title else "", style="bold")
            yield from _grid_lines(grid)
    if report.notes:
        yield Text("\nNotes", style="bold")
    for note in report.notes:
        yield Text(f"  {note}", style="dim")


def _grid_lines(grid: Grid) -> Iterable[Text]:
    # Laid out here and not by a rich Table: a table would fold names in a narrow terminal, and a heading can't span its columns.
    full = [row for row in (grid.columns, *grid.rows) if len(row) > 1]
    widths = [max(cell_len(row[place]) for row in full) for place in range(len(grid.columns))]
    grouped = any(len(row) == 1 for row in grid.rows)
    if any(grid.columns):
        yield _row_text(grid.columns, widths, grid.left, "    " if grouped else "  ", header=True)
    for row in grid.rows:
        yield (
            Text(f"  {row[0]}", style="bold cyan")
            if len(row) == 1
            else _row_text(row, widths, grid.left, "    " if grouped else "  ", header=False)
        )


def _row_text(row: Sequence[str], widths: Sequence[int], left: int, indent: str, header: bool) -> Text:
    line = Text(indent)
    for place, cell in enumerate(row):
        gap = " " * (widths[place] - cell_len(cell))
        loss = place >= left and cell.startswith("-") and cell != _UNDEFINED
        line.append(f"{cell}{gap}" if place < left else f"{gap}{cell}", style="dim" if header else "red" if loss else "")
        line.append("  ")
    line.rstrip()
    return line
