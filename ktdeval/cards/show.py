"""Cards as tables for readers: with colours in a terminal, the same lines as plain text in a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.check import card_kinds
from ktdeval.cards.figures import columns_of
from ktdeval.cards.reports import figure_notes, figures_differ_in, scoring_summary, trading_summary
from ktdeval.cards.table import UNDEFINED, Grid, Report, clean


def make_report(card: Card) -> Report:
    """Return the report of a card of any kind."""
    return card_kinds(card.kind)[card.kind].report(card)


def card_lines(card: Card, whole: bool = True) -> Iterable[Text]:
    """Return the lines of a valid card; `whole`: all of it, else its first screen."""
    return _report_lines(make_report(card), whole)


def print_lines(lines: Iterable[Text], console: Console | None = None) -> None:
    """Print lines: with colours in a terminal, plain text elsewhere; to standard output by default."""
    console = Console() if console is None else console
    for line in lines:
        console.print(line, soft_wrap=True)


def plain_text(lines: Iterable[Text]) -> str:
    """Return lines as aligned text, without colours or box characters."""
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def summary_lines(cards: Sequence[Card]) -> Iterable[Text]:
    """Yield the lines of tables over cards, one for each kind, a row for each card of a trading task, a column for each of another;
    and below, what the cards say of ranking.
    """
    if trading := [card for card in cards if isinstance(card, TradingCard)]:
        yield from _grid_lines(trading_summary(trading))
        yield from _note_lines(_notes([card.task.name for card in trading], trading, with_figures=False))
    if scoring := [card for card in cards if isinstance(card, ScoringCard)]:
        yield from _grid_lines(scoring_summary(scoring))
        yield from _note_lines(_notes([card.task.name for card in scoring], scoring, with_figures=False))


def side_by_side(cards: Sequence[Card]) -> Iterable[Text]:
    """Yield the lines of tables with a column for each card: every figure that any has; and below what to know of each."""
    for kind in (TradingCard, ScoringCard):
        if several := [card for card in cards if isinstance(card, kind)]:
            grid = columns_of(several)
            yield from _grid_lines(grid)
            yield from _note_lines(_notes(grid.columns[2:], several, with_figures=True))


def _notes(heads: Sequence[str], cards: Sequence[TradingCard | ScoringCard], *, with_figures: bool) -> Iterable[str]:
    """Yield labels, reasons against ranking and, where asked for, notes on figures, each with the cards that it is of."""
    of: dict[str, list[str]] = {}
    for head, card in zip(heads, cards, strict=True):
        report = make_report(card)
        ranking = () if card.rankable.value else (report.ranking,)
        figures = map(clean, figure_notes(card)) if isinstance(card, TradingCard) else report.notes
        for note in (*(f"[{label}]" for label in report.labels), *ranking, *(figures if with_figures else ())):
            of.setdefault(note, []).append(clean(head))
    for note, columns in of.items():
        yield f"{'every card' if len(columns) == len(cards) else ', '.join(columns)}: {note}"
    if what := figures_differ_in(card for card in cards if isinstance(card, TradingCard)):
        yield f"the cards' figures are of different {what}"


def _report_lines(report: Report, whole: bool) -> Iterable[Text]:
    """Yield the lines of a report; their plain text is complete without the styles."""
    yield Text(report.title, style="bold")
    if report.labels:
        yield Text(" ").join(Text(f"[{label}]", style="black on yellow") for label in report.labels)
    yield Text(report.ranking, style="green" if report.ranking == "rankable" else "bold red")
    yield from (Text(f"\n{claim}" if number == 0 else claim) for number, claim in enumerate(report.claims))
    for grid in (report.facts, *report.grids, report.activity) if whole else report.grids[:1]:
        if grid.rows:
            yield from _grid_lines(grid)
    if whole:
        yield from _note_lines(report.notes)


def _note_lines(notes: Iterable[str]) -> Iterable[Text]:
    lines = [Text(f"  {note}", style="dim") for note in notes]
    yield from (Text("\nNotes", style="bold"), *lines) if lines else ()


def _grid_lines(grid: Grid) -> Iterable[Text]:
    """Yield a table's title, columns and rows."""
    yield Text(f"\n{grid.title}" if grid.title else "", style="bold")
    # Not by a rich Table: it would fold names in a narrow terminal, and a heading can't span its columns.
    full = [row for row in (grid.columns, *grid.rows) if len(row) > 1]
    widths = [max(cell_len(row[column]) for row in full) for column in range(len(grid.columns))]
    indent = "    " if any(len(row) == 1 for row in grid.rows) else "  "
    for row in (*([grid.columns] if any(grid.columns) else ()), *grid.rows):
        if len(row) == 1:
            yield Text(f"  {row[0]}", style="bold cyan")
            continue
        line = Text(indent)
        for column, cell in enumerate(row):
            gap = " " * (widths[column] - cell_len(cell))
            is_loss = column >= grid.left and cell.startswith("-") and cell != UNDEFINED
            style = "dim" if row is grid.columns else "red" if is_loss else ""
            line.append(f"{cell}{gap}" if column < grid.left else f"{gap}{cell}", style=style).append("  ")
        line.rstrip()
        yield line
