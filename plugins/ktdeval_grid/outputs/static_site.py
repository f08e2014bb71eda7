"""Static bundle of a grid: an index that links to cards, tables and pages, and works offline."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from ktdeval.cards import clean
from ktdeval.values import write_atomic
from ktdeval_grid.outputs.output_kinds import CardsOutput
from ktdeval_grid.state.printed_status import failure_lines, progress_table
from ktdeval_grid.state.records import GridRecord
from ktdeval_grid.state.status import GridStatus
from ktdeval_pages.assets import source_hash, stylesheet
from ktdeval_pages.page_templates import content_security_policy, make_environment

if TYPE_CHECKING:
    from jinja2 import Environment

INDEX = "index.html"
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class BundleCard:
    """A card as listed in the index. `card` and `view` are paths in the bundle."""

    system: str
    task: str
    episodes: int
    missing: int
    figure: str
    labels: tuple[str, ...]
    card: str
    view: str  #: empty without a page for an episode


@dataclass(frozen=True)
class BundlePage:
    """Contents of the index."""

    record: GridRecord
    status: GridStatus
    cards: tuple[BundleCard, ...]
    report: str  #: path of the report in the bundle; empty without a report
    outputs: tuple[CardsOutput, ...]
    problems: tuple[str, ...]
    sentence: str = ""  #: what the cards show; empty without a trading card


@dataclass(frozen=True)
class SiteTable:
    """A table in the form that the kit's templates expect."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int  #: number of text columns, counted from the left
    note: str = ""

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.heads)


def write_bundle(page: BundlePage, site: Path) -> None:
    """Write the index and the tables to which it links. Raises StoreError."""
    folder = site / "tables"
    folder.mkdir(exist_ok=True)
    for output in page.outputs:
        for form, text in output.texts.items():
            write_atomic(folder / f"{output.name}.{form}", text)

    write_atomic(site / INDEX, index_html(page))


def index_html(page: BundlePage) -> str:
    """Return the index as HTML. Equal pages give equal bytes."""
    layout = files("ktdeval_grid.outputs").joinpath("bundle.css").read_text(encoding="utf-8")
    style = stylesheet() + layout
    plan = page.record.plan
    return (
        _environment()
        .get_template("bundle.html")
        .render(
            title=f"{plan.name}: results by system",
            policy=content_security_policy("'none'", source_hash(style), "data:"),
            style=Markup(style),  # noqa: S704 - files of this package and of the kit
            page=page,
            plan=plan,
            progress=_progress(page.status),
            failures=list(failure_lines(page.status)),
            settled=page.status.settled,
            pruned=_list_pruned(page.record),
            parse_table=parse_table,
            clean_lines=clean_lines,
            marks=_labels(page.cards),
        )
    )


@functools.cache
def _environment() -> Environment:
    return make_environment("ktdeval_grid.outputs", finalize=_clean_texts)


def _clean_texts(value: object) -> object:
    """Return printed text with control characters removed, since cards may be untrusted."""
    return value if isinstance(value, Markup) else clean(value)


def _labels(cards: Sequence[BundleCard]) -> list[tuple[str, str]]:
    """Return the labels on the cards, each with the number of cards that have it."""
    counts: dict[str, int] = {}
    for card in cards:
        for label in card.labels:
            counts[label] = counts.get(label, 0) + 1

    return [(name, f" ({number} of {len(cards)})") for name, number in counts.items()]


def _progress(status: GridStatus) -> SiteTable:
    """Return the table that a launch prints, without its empty columns."""
    heads, *rows = progress_table(status)
    shown = [place for place in range(len(heads)) if any(row[place] for row in rows)]
    cells = [[row[place] for place in shown] for row in (heads, *rows)]
    return SiteTable("Episodes by model", ["model", *cells[0][1:]], cells[1:], 1)


def _list_pruned(record: GridRecord) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the reason and the number of episodes for each rule that pruned any."""
    counts: dict[tuple[str, str], int] = {}
    for system in record.systems:
        for part in system.pruned:
            key = (part.rule, part.reason)
            counts[key] = counts.get(key, 0) + len(part.units)

    for (rule, reason), number in counts.items():
        yield rule, reason, number


def clean_lines(text: str) -> Markup:
    """Return text without control characters other than line breaks."""
    return Markup("\n").join(map(clean, text.splitlines()))


def parse_table(text: str) -> SiteTable | None:
    """Parse a table written by `ktdeval paper table --format markdown`: a caption, rows between
    bars, and a note.

    Returns None if the text contains no table.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rows = [_markdown_cells(line) for line in lines if line.startswith("|")]
    if len(rows) < 2:
        return None

    heads, rule, *body = rows
    words = sum(not cell.endswith(":") for cell in rule)
    others = [line for line in lines if not line.startswith("|")]
    caption = others[0] if others else ""
    return SiteTable(caption, heads, body, words, " ".join(others[1:]))


def _markdown_cells(line: str) -> list[str]:
    inner = line.removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(inner)]
