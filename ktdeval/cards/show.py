"""A card as a table for people: with colours in a terminal, the same lines as plain text in a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.check import card_kinds
from ktdeval.cards.reports import scoring_summary, trading_summary
from ktdeval.cards.table import UNDEFINED, Grid, Report


def make_report(card: Card) -> Report:
    """Lay the figures of a card of any kind out as words."""
    return card_kinds(card.kind)[card.kind].report(card)


def print_card(card: Card, console: Console | None = None) -> None:
    """Print a valid card: with colours in a terminal, plain text elsewhere; to standard output by default."""
    _print(_report_lines(make_report(card)), console)


def print_summary(cards: Sequence[Card], console: Console | None = None) -> None:
    """Print a table over all cards of one kind, for runs of several tasks. Arguments as in `print_card`."""
    _print(_summary_lines(cards), console)


def plain_text(report: Report) -> str:
    """Report as aligned text, without colours or box characters."""
    return _plain(_report_lines(report))


def plain_summary(cards: Sequence[Card]) -> str:
    """Text of `print_summary`, without colours."""
    return _plain(_summary_lines(cards))


def _print(lines: Iterable[Text], console: Console | None) -> None:
    console = Console() if console is None else console
    for line in lines:
        console.print(line, soft_wrap=True)


def _plain(lines: Iterable[Text]) -> str:
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def _summary_lines(cards: Sequence[Card]) -> Iterable[Text]:
    grids = []
    if trading := [card for card in cards if isinstance(card, TradingCard)]:
        grids.append(trading_summary(trading))
    if scoring := [card for card in cards if isinstance(card, ScoringCard)]:
        grids.append(scoring_summary(scoring))
    for grid in grids:
        yield Text(f"\n{grid.title}", style="bold")
        yield from _grid_lines(grid)


def _report_lines(report: Report) -> Iterable[Text]:
    """Lines of a report; their plain text is complete without the styles."""
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
    """Rows of a table, with its columns above them."""
    # Laid out here and not by a rich Table: a table would fold names in a narrow terminal, and a heading can't span its columns.
    full = [row for row in (grid.columns, *grid.rows) if len(row) > 1]
    widths = [max(cell_len(row[place]) for row in full) for place in range(len(grid.columns))]
    indent = "    " if any(len(row) == 1 for row in grid.rows) else "  "
    for row in (*([grid.columns] if any(grid.columns) else ()), *grid.rows):
        if len(row) == 1:
            yield Text(f"  {row[0]}", style="bold cyan")
            continue
        line = Text(indent)
        for place, cell in enumerate(row):
            gap = " " * (widths[place] - cell_len(cell))
            is_loss = place >= grid.left and cell.startswith("-") and cell != UNDEFINED
            style = "dim" if row is grid.columns else "red" if is_loss else ""
            line.append(f"{cell}{gap}" if place < grid.left else f"{gap}{cell}", style=style).append("  ")
        line.rstrip()
        yield line
