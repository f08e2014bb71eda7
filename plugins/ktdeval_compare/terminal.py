"""Helpers of the commands: options, and reports as JSON or as tables of aligned plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from ktdeval.cli import grid_lines
from ktdeval.jsonio import JsonValue, dumps_pretty

UNDEFINED = "-"

cards_argument = click.argument("cards", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CARD…")
metrics_option = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="metric, may be repeated [default: total_return]"
)
alpha_option = click.option(
    "--alpha", type=click.FloatRange(0.0001, 0.5), default=0.05, show_default=True,
    help="level of verdicts; intervals hold with 1 - alpha",
)  # fmt: skip
common_option = click.option("--common", is_flag=True, help="where cards differ in windows or seeds, use those that all have")
seed_option = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="seed of simulations and bootstraps"
)
json_option = click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")


def names_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Names given one by one or separated by commas."""
    return tuple(name for text in texts for name in text.split(",") if name)


def show(report: JsonValue, lines: Iterable[str], as_json: bool) -> None:
    """Print a report as JSON, or as the lines made of it."""
    click.echo(dumps_pretty(report) if as_json else "\n".join(lines), nl=not as_json)


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> list[str]:
    """Indented lines of a table; arguments as of `grid_lines`."""
    return [f"  {line}" for line in grid_lines(columns, rows, left)]


def figure(value: float | None, unit: str) -> str:
    """A signed figure; fractions in per cent."""
    if value is None:
        return UNDEFINED
    scaled = 100.0 * value if unit == "fraction" else value
    text = f"{scaled:+.{3 if abs(scaled) < 10 else 2}f}"
    return text.replace("+", " ").strip() if float(text) == 0 else text


def interval(low: float | None, high: float | None, unit: str) -> str:
    """Both ends, or a dash."""
    return UNDEFINED if low is None or high is None else f"{figure(low, unit)} … {figure(high, unit)}"


def p_value(value: float | None) -> str:
    """A p-value to three significant digits."""
    if value is None:
        return UNDEFINED
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def unit_name(unit: str) -> str:
    """Return the unit as shown beside a figure."""
    return {"fraction": "%", "ratio": ""}.get(unit, unit)
