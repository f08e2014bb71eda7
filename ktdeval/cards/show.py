"""Cards as tables for readers: in colour in a terminal, and with the same lines as plain text in a
file or a pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ktdeval.cards.card import Card, ScoringCard, TradingCard
from ktdeval.cards.card_reading import card_kinds
from ktdeval.cards.claims import account_claims
from ktdeval.cards.fields.knowledge.rank_eligibility import MAY_BE_RANKED
from ktdeval.cards.metric_tables import columns_of
from ktdeval.cards.narrow_tables import column_widths, fit_grid, indent_of
from ktdeval.cards.reports import figure_notes, figures_differ_in, scoring_summary, trading_summary
from ktdeval.cards.table_types import UNDEFINED, Grid, Report, clean
from ktdeval.cards.text_wrapping import GAP, pad_cell, wrap_words

_CLAIM_WIDTH = 80  # columns: sentences are wrapped to a readable width


def make_report(card: Card) -> Report:
    """Return the report on a card of any kind."""
    return card_kinds(card.kind)[card.kind].report(card)


def card_lines(card: Card, whole: bool = True, width: int | None = None) -> Iterable[Text]:
    """Return the lines of a valid card: all lines if `whole`, otherwise only the first screen.
    `width` is the maximum line width in columns; None for no limit.
    """
    return _report_lines(make_report(card), whole, width)


def print_lines(lines: Iterable[Text], console: Console | None = None) -> None:
    """Print lines in colour in a terminal, and as plain text elsewhere. The default console is
    standard output.
    """
    console = Console() if console is None else console
    for line in lines:
        console.print(line, soft_wrap=True)


def plain_text(lines: Iterable[Text]) -> str:
    """Return lines as aligned text without colours or box characters."""
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def html_text(lines: Iterable[Text]) -> str:
    """Return lines with their colours as HTML, aligned as in a terminal; all text is escaped."""
    console = Console(record=True, file=StringIO(), force_jupyter=False)
    print_lines(lines, console)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def summary_lines(cards: Sequence[Card], width: int | None = None) -> Iterable[Text]:
    """Yield the lines of summary tables, one table per kind of card, followed by what the cards say
    about ranking. Trading cards are shown as rows, scoring cards as columns. `width`: as in
    `card_lines`.
    """
    trading = [card for card in cards if isinstance(card, TradingCard)]
    if trading:
        yield from _grid_lines(trading_summary(trading), width)
        yield from _ranking_notes(trading, width)

    scoring = [card for card in cards if isinstance(card, ScoringCard)]
    if scoring:
        yield from _grid_lines(scoring_summary(scoring), width)
        yield from _ranking_notes(scoring, width)


def _ranking_notes(cards: Sequence[TradingCard | ScoringCard], width: int | None) -> Iterable[Text]:
    tasks = [card.task.name for card in cards]
    return _note_lines(_notes_with_cards(tasks, cards, with_figures=False), width)


def side_by_side(cards: Sequence[Card], width: int | None = None) -> Iterable[Text]:
    """Yield the lines of tables that compare cards: a column for each card, and a row for every
    figure on any card. Notes on each card follow. `width`: as in `card_lines`.
    """
    for kind in (TradingCard, ScoringCard):
        several = [card for card in cards if isinstance(card, kind)]
        if several:
            grid = columns_of(several)
            yield from _grid_lines(grid, width)
            yield from _note_lines(
                _notes_with_cards(grid.columns[2:], several, with_figures=True), width
            )


def _notes_with_cards(
    heads: Sequence[str], cards: Sequence[TradingCard | ScoringCard], *, with_figures: bool
) -> Iterable[str]:
    """Yield labels, reasons against ranking and, if requested, notes on figures. Each is followed
    by the cards to which it applies.
    """
    columns_by_note: dict[str, list[str]] = {}
    for head, card in zip(heads, cards, strict=True):
        for note in _card_notes(card, with_figures):
            columns_by_note.setdefault(note, []).append(clean(head))

    for note, columns in columns_by_note.items():
        where = "every card" if len(columns) == len(cards) else ", ".join(columns)
        yield f"{where}: {note}"

    difference = figures_differ_in(card for card in cards if isinstance(card, TradingCard))
    if difference:
        yield f"the cards' figures have different {difference}"


def _card_notes(card: TradingCard | ScoringCard, with_figures: bool) -> Iterable[str]:
    report = make_report(card)
    for label in report.labels:
        yield f"[{label}]"

    if not card.rankable.value:
        yield report.ranking

    yield from account_claims(card)
    if not with_figures:
        return

    if isinstance(card, TradingCard):
        yield from map(clean, figure_notes(card))
    else:
        yield from report.claims
        yield from report.notes


def _report_lines(report: Report, whole: bool, width: int | None) -> Iterable[Text]:
    """Yield the lines of a report. Their plain text is complete without the styles."""
    for line in _wrap_text(report.title, width):
        yield Text(line, style="bold")

    if report.labels:
        yield from _label_lines(report.labels, width)

    style = "green" if report.ranking == MAY_BE_RANKED else "bold red"
    for line in _wrap_text(report.ranking, width):
        yield Text(line, style=style)

    if report.claims:
        yield Text("")
        for claim in report.claims:
            yield from map(Text, _wrap_text(claim, min(width or _CLAIM_WIDTH, _CLAIM_WIDTH)))

    grids = report.grids[:1]
    if whole:
        grids = (report.facts, *report.grids, report.activity)

    for grid in grids:
        if grid.rows:
            yield from _grid_lines(grid, width)

    if whole:
        yield from _note_lines(report.notes, width)


def _wrap_text(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return text as indented lines of at most `width` columns."""
    if width is None:
        return [f"{indent}{text}"]

    return wrap_words(text.split(), indent, indent, width)


def _label_lines(labels: Iterable[str], width: int | None) -> Iterable[Text]:
    """Yield labels in brackets, with as many on each line as fit."""
    line = Text()
    for label in labels:
        mark = Text(f"[{label}]", style="reverse yellow")
        if line and width is not None and cell_len(line.plain) + 1 + cell_len(mark.plain) > width:
            yield line
            line = Text()

        if line:
            line.append(" ")

        line.append_text(mark)

    yield line


def _note_lines(notes: Iterable[str], width: int | None = None) -> Iterable[Text]:
    lines = []
    for note in notes:
        lines += [Text(line, style="dim") for line in _wrap_text(note, width, GAP)]

    if lines:
        yield Text("\nNotes", style="bold")
        yield from lines


def _grid_lines(grid: Grid, width: int | None = None) -> Iterable[Text]:
    """Yield a table's title, column heads and rows. A table that is too wide becomes several."""
    grids = [grid] if width is None else fit_grid(grid, width)
    for each in grids:
        yield from _table_lines(each)


def _table_lines(grid: Grid) -> Iterable[Text]:
    yield Text(f"\n{grid.title}" if grid.title else "", style="bold")
    # A rich Table would fold names in a narrow terminal, and does not let a heading span columns.
    widths = column_widths(grid)
    indent = indent_of(grid)
    if any(grid.columns):
        heads = [head.split("\n") for head in grid.columns]
        for line in zip_longest(*heads, fillvalue=""):
            yield _row_line(line, widths, grid.left, indent, is_head=True)

    for row in grid.rows:
        if len(row) == 1:
            yield Text(f"{GAP}{row[0]}", style="bold cyan")
        else:
            yield _row_line(row, widths, grid.left, indent)


def _row_line(
    row: Sequence[str],
    widths: Sequence[int],
    left: int,
    indent: str,
    *,
    is_head: bool = False,
) -> Text:
    """Return a row with its first `left` cells left-aligned and the others right-aligned."""
    line = Text(indent)
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        is_number = column >= left
        style = ""
        if is_head:
            style = "dim"
        elif is_number and cell.startswith("-") and cell != UNDEFINED:
            style = "red"  # a loss

        line.append(pad_cell(cell, width, not is_number), style=style)
        line.append(GAP)

    line.rstrip()
    return line
