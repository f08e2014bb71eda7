"""Cards of a run as a value that prints itself: as text, and as a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.show import (
    card_lines,
    make_report,
    plain_text,
    summaries,
    summary_lines,
)
from ktdeval.cards.table_types import Grid


class Cards(tuple[TradingCard | ScoringCard, ...]):
    """Cards in the order of their tasks: a tuple whose text is what `ktdeval card show` prints, and
    which a notebook shows as a table.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        if len(self) == 1:
            return plain_text(card_lines(self[0], whole=False)).rstrip("\n")

        return plain_text(summary_lines(self)).strip("\n")

    def _repr_html_(self) -> str:
        """Return the same as HTML for a notebook; all text of cards is escaped."""
        if len(self) == 1:
            return "\n".join(_card_html(self[0]))

        parts: list[str] = []
        for grid, notes in summaries(self):
            parts.append(_grid_html(grid))
            parts += _list_html(notes)

        return "\n".join(parts)


def _card_html(card: TradingCard | ScoringCard) -> Iterator[str]:
    """Yield the first screen of a card: title, labels, ranking, claims and its first table."""
    report = make_report(card)
    yield f"<p><strong>{escape(report.title)}</strong></p>"
    labels = [f"[{label}]" for label in report.labels]
    yield f"<p>{escape(' '.join([*labels, report.ranking]))}</p>"
    if report.claims:
        yield f"<p>{escape(' '.join(report.claims))}</p>"

    for grid in report.grids[:1]:
        yield _grid_html(grid)


def _grid_html(grid: Grid) -> str:
    """Return a table; numbers are flush right, and a row of one cell spans all columns."""
    lines = ["<table>", f"<caption>{escape(grid.title)}</caption>"]
    if any(grid.columns):
        heads = "".join(
            _html_cell("th", text, index, grid) for index, text in enumerate(grid.columns)
        )
        lines.append(f"<thead><tr>{heads}</tr></thead>")

    lines.append("<tbody>")
    for row in grid.rows:
        if len(row) == 1:
            span = len(grid.columns)
            cells = f'<th colspan="{span}" style="text-align:left">{escape(row[0])}</th>'
        else:
            cells = "".join(_html_cell("td", text, index, grid) for index, text in enumerate(row))

        lines.append(f"<tr>{cells}</tr>")

    lines += ["</tbody>", "</table>"]
    return "\n".join(lines)


def _html_cell(tag: str, text: str, column: int, grid: Grid) -> str:
    side = "left" if column < grid.left else "right"
    return f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>'


def _list_html(notes: Iterable[str]) -> list[str]:
    items = [f"<li>{escape(note)}</li>" for note in notes]
    return ["<ul>", *items, "</ul>"] if items else []
