"""A card as a table for people: with colours in a terminal, the same lines as plain text in a file or a pipe."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ktdeval.cards.episodes import STATUSES
from ktdeval.cards.medians import aggregate
from ktdeval.cards.words import call_rows, cost_words, drift_words, price_words, ranking_words, token_words
from ktdeval.jsonio import JsonValue
from ktdeval.stats.panel import DIAGNOSTICS, PANEL_FAMILIES

Card = Mapping[str, JsonValue]

_UNDEFINED = "-"
_PARTS = ("common_return", "style_return", "selection_alpha", "trading_effect")
_SIGNED = frozenset({"total_return", *_PARTS})
_UNITS = {"fraction": "%", "ratio": "", "index": "", "probability": "", "score": "", "count": ""}
_LEFT_OUT = ("no_fill", "no_next_open")
_DECIMALS = {"ratio": 3, "per year": 2}
_LONGEST_TEXT, _LONGEST_POLICY = 64, 22  # characters; tables fit 80 columns


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
    ranking: str
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
    _print(_lines(make_report(card)), console)


def print_summary(cards: Sequence[Card], console: Console | None = None) -> None:
    """Print one row for each card, for runs of several tasks. Arguments as in `print_card`."""
    _print(_summary_lines(cards), console)


def plain_summary(cards: Sequence[Card]) -> str:
    """What `print_summary` prints, without colours."""
    return _plain(_summary_lines(cards))


def _print(lines: Iterable[Text], console: Console | None) -> None:
    console = Console() if console is None else console
    for line in lines:
        console.print(line, soft_wrap=True)


def make_report(card: Card) -> Report:
    """Lay the figures of a card out as words."""
    task, model = card["task"], card["model"]
    return Report(
        title=_clean(f"{task['name']} · {model['name']}"),
        labels=tuple(card["labels"]),
        ranking=_clean(ranking_words(card)),
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
        ("calls", ", ".join(f"{name} {value}" for name, value in sorted(card["call"].items()))),
        *([("not sent", f"{', '.join(unsent)}: the provider does not take it")] if (unsent := _unsent(card)) else []),
        ("market", f"{snapshot['name']}, {snapshot['assets']} assets, id {snapshot['id'][:12]}"),
        ("windows", shown + (f", the first {_count(limit, 'step')} of each" if limit is not None else "")),
        ("seeds", ", ".join(map(str, card["seeds"]))),
        ("rules", card["rules"]),
    ]
    return _word_grid("", rows)


def _unsent(card: Card) -> list[str]:
    """Fields of `call` that the model was not sent."""
    sent_as = card["sent_as"] or {}
    return [_clean(str(name)) for field in ("not_sent", "omit") for name in sent_as.get(field) or ()]


def _word_grid(title: str, rows: Iterable[tuple[str, str]]) -> Grid:
    """Names and what is to say of them; long texts take several lines."""
    return Grid(
        title,
        ("", ""),
        tuple(
            ("" if place else name, part)
            for name, value in rows
            for place, part in enumerate(
                textwrap.wrap(_clean(value), _LONGEST_TEXT, break_long_words=False, break_on_hyphens=False)
            )
        ),
        left=2,
    )


def _with_args(entry: Card) -> str:
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry["args"].items()))
    return f"{entry['name']} ({args})" if args else str(entry["name"])


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
        rows.append(
            (_clean(name), _short(_clean(card["model"]["name"])), days, str(len(episodes)), gain, _excess(own, held), *risk)
        )
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
    headlines = ("total_return", "sharpe", "max_drawdown", "information_ratio", "decision_coverage")
    rows = []
    for card in cards:
        figures = []
        for name in headlines:
            metric = card["metrics"].get(name)
            figures.append(_UNDEFINED if metric is None else _number(name, metric["unit"], metric["value"]))
        rows.append((_clean(card["task"]["name"]), *figures))
    yield Text("\nAll tasks (medians; return, drawdown and decided steps in %)", style="bold")
    yield from _grid_lines(Grid("", ("task", "return", "sharpe", "drawdown", "info ratio", "decided"), tuple(rows)))


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
    if coverage["steps"] < coverage["steps_planned"]:
        share += f"; {_count(coverage['steps_planned'], 'step')} planned"
    rows = [
        ("episodes", f"{coverage['episodes_finished']:,} of {coverage['episodes_planned']:,} finished"),
        ("coverage", f"{coverage['steps_decided']:,} of {_count(coverage['steps'], 'step')} decided by the model{share}"),
        ("decisions", _tally(decisions)),
        ("orders", f"{orders['submitted']:,} submitted: {_tally({name: orders[name] for name in STATUSES})}"),
        ("order rules", _tally(orders["rules"])),
        ("calibration", f"{_count(judged['n'], 'order')} judged; left out: {_tally({name: judged[name] for name in _LEFT_OUT})}"),
        ("failures", _tally(card["failures"])),
        ("tool calls", f"{usage['tool_calls']:,}, {usage['tool_calls_valid']:,} valid"),
        ("tokens", token_words(usage)),
        *_cost_rows(card),
    ]
    return _word_grid("Activity", rows)


def _cost_rows(card: Card) -> Iterable[tuple[str, str]]:
    """What the tokens cost and bought, whether the model stayed the same, and what was asked of its provider."""
    cost, drift, calls = card["cost"], card["drift"], card["provenance"]["calls"]
    yield "cost", cost_words(cost)
    if cost["value"]:
        yield "price", price_words(cost["price"])
        gain = cost["return_per_usd"]
        median = " (median over episodes)" if gain["n"] > 1 else ""
        yield (
            "return per USD",
            f"not defined: {gain['reason']}" if gain["value"] is None else f"{100 * gain['value']:+,.4g} %{median}",
        )
    if drift["value"] is not None:
        yield "drift", drift_words(drift)
    if calls is not None:
        yield from call_rows(calls)


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
    # Of a model of this machine nobody asks whether its provider changed it.
    asked = () if card["provenance"]["calls"] is None else ("drift",)
    for name in ("attribution", "certificate", *asked):
        if card[name]["value"] is None:
            yield _clean(f"no {name}: {card[name]['reason']}")


def _clean(text: object) -> str:
    """One line without control characters: a card may come from a stranger, and a terminal obeys what it prints."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") else letter for letter in str(text))


def plain_text(report: Report) -> str:
    """The report as aligned text, without colours or box characters."""
    return _plain(_lines(report))


def _plain(lines: Iterable[Text]) -> str:
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def _lines(report: Report) -> Iterable[Text]:
    """The report line by line; its plain text is complete without the styles."""
    yield Text(report.title, style="bold")
    if report.labels:
        yield Text(" ").join(Text(f"[{label}]", style="black on yellow") for label in report.labels)
    yield Text(report.ranking, style="green" if report.ranking == "rankable" else "bold red")
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
