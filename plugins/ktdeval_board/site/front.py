"""What a board's first page says without its scripts: the sentence and the first rows of each
division, and the texts and the picture of link previews.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from ktdeval.cards import clean, count, is_fraction
from ktdeval.values import Address
from ktdeval_board.board_entries import LoadedBoard
from ktdeval_board.ranking import column_texts
from ktdeval_board.ranking.mean_tests import RANDOM
from ktdeval_board.ranking.rows import Row, Table, Tables
from ktdeval_board.rules import Division, Rules
from ktdeval_pages.share_pictures import (
    SharedTexts,
    SharePoint,
    points,
    share_svg,
)
from ktdeval_pages.value_formatting import figure, percent

PREVIEW = "assets/preview.png"
"""File of the picture for link previews, relative to the site."""

_ROWS = 10  #: first rows of a division in the page
_DRAWN = 6  #: best systems in the picture
_BASELINES = 3


@dataclass(frozen=True)
class FrontRow:
    """A row as text."""

    rank: str
    label: str
    value: str


@dataclass(frozen=True)
class FrontTable:
    """The first rows of a division."""

    division: str
    verdict: str
    figures: str
    heading: str  #: title of the figure that ranks
    rows: Sequence[FrontRow]
    entrants: str  #: how many entrants the division has


@dataclass(frozen=True)
class Front:
    """What the first page says without its scripts."""

    tables: Sequence[FrontTable]
    description: str  #: for link previews
    address: Address  #: where the site is; empty if that is not known
    image: Address  #: address of the picture; empty without a picture


def front_of(board: LoadedBoard, tables: Tables, has_image: bool) -> Front:
    """Return the texts of a board's first page. `has_image`: whether the site has a picture."""
    shown = []
    for division in board.rules.divisions:
        table = tables[division.id]["all"]
        if table["rows"]:
            shown.append(_front_table(board, division, table))

    sentences = [table.verdict for table in shown if table.verdict]
    description = sentences[0] if sentences else board.rules.summary
    address = site_address(board.rules)
    image = urljoin(address, PREVIEW) if has_image and address else ""
    return Front(shown, description, address, image)


def site_address(rules: Rules) -> str:
    """Return the address of a site's folder, which ends in a slash; empty if it is not known."""
    if not rules.url:
        return ""

    last = rules.url.rsplit("/", 1)[-1]
    is_page = last.endswith((".html", ".htm"))
    is_folder = rules.url.endswith("/")
    return urljoin(rules.url, ".") if is_page or is_folder else f"{rules.url}/"


def _front_table(board: LoadedBoard, division: Division, table: Table) -> FrontTable:
    name = division.rank_by
    definition = column_texts.column_definitions(board, division)[name]
    column = table["columns"].index(name)
    ranked = [row for row in table["rows"] if row["ranked"]][:_ROWS]
    beside = [row for row in table["rows"] if row["baseline"] is not None]
    rows = [_front_row(row, column, definition.unit) for row in [*ranked, *beside]]
    entrants = sum(row["baseline"] is None for row in table["rows"])
    return FrontTable(
        division=division.id,
        verdict=clean(table["verdict"]),
        figures=clean(table["verdict_figures"]),
        heading=definition.title,
        rows=rows,
        entrants=f"the first {len(ranked)} of {count(entrants, 'entrant')}, and all baselines",
    )


def _front_row(row: Row, column: int, unit: str) -> FrontRow:
    value = row["values"][column]
    shown = figure(value, unit)
    if is_fraction(unit):
        shown = percent(value, signed=False)

    rank = row["group_ranks"] or f"baseline: {row['baseline']}"
    return FrontRow(rank, clean(row["label"]), shown)


# -- the picture


def preview_svg(board: LoadedBoard, tables: Tables) -> str | None:
    """Return the picture of the first division whose means were tested, as SVG; None if there is
    no such division.
    """
    for division in board.rules.divisions:
        table = tables[division.id]["all"]
        for place, test in enumerate(table["tests"]):
            is_last = place == len(table["tests"]) - 1
            if test["reason"] is None and (test["reference"] == RANDOM or is_last):
                return _drawn(board.rules, table, place)

    return None


def _drawn(rules: Rules, table: Table, place: int) -> str:
    test = table["tests"][place]
    rows = sorted(_points(table, place), key=lambda row: -row.value)
    systems = [row for row in rows if not row.is_baseline]
    baselines = [row for row in rows if row.is_baseline][:_BASELINES]
    drawn = systems[:_DRAWN]
    shown = sorted([*drawn, *baselines], key=lambda row: -row.value)
    band = None
    ends = test["band"]
    if ends is not None and None not in ends:
        band = (ends[0] or 0.0, ends[1] or 0.0)

    title = (
        f"Mean daily return over {test['reference']}, simultaneous "
        f"{100 * (1 - test['level']):g} % intervals: the best {len(drawn)} of {len(systems):,}"
    )
    if band is not None:
        title += f"; grey: {test['systems']:,} random traders"

    marks = ["synthetic"] if rules.market == "synthetic" else []
    texts = SharedTexts(
        name=rules.title,
        line=f"Leaderboard · {table['division']} · {count(len(systems), 'ranked system')}",
        sentence=table["verdict"],
        marks=marks,
        origin=site_address(rules),
    )
    return share_svg(texts, points(title, shown, band))


def _points(table: Table, place: int) -> Iterator[SharePoint]:
    for row in table["rows"]:
        excess = row["excess"][place] if row["excess"] else None
        if excess is None or excess[0] is None:
            continue

        yield SharePoint(row["label"], excess[0], excess[1], excess[2], row["baseline"] is not None)
