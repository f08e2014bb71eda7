"""Outputs at the end of a grid: the paper's tables, reports and a static bundle, made from the
gathered runs.

    tables/ktdfin-3.txt .md .csv, compare.txt .json …
    site/index.html, cards/, report.html, views/ where the plan asks for them

The outputs can be rebuilt from finished units at any time. Nothing else depends on them.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from ktdeval.cards import (
    MetricLine,
    ScoreLine,
    ScoringCard,
    TradingCard,
    card_files,
    is_fraction,
    load_evaluation,
    nearest_to_median,
)
from ktdeval.cli import ForkedCall
from ktdeval.errors import UsageError
from ktdeval.registry import Plugins
from ktdeval.values import make_folder, temporary_folder, write_atomic
from ktdeval_grid.outputs.output_kinds import (
    CardFacts,
    CardsOutput,
    call_command,
    planned_outputs,
)
from ktdeval_grid.outputs.static_site import INDEX, BundleCard, BundlePage, write_bundle
from ktdeval_grid.planning.plan import Page
from ktdeval_grid.state.records import GridRecord
from ktdeval_grid.state.status import GridStatus
from ktdeval_pages.card_sentences import cards_sentence

T = TypeVar("T")

TABLES = "tables"
SITE = "site"
RUNS = "runs"

_RETURN = "total_return"


@dataclass(frozen=True)
class CardOf:
    """A card of one of a grid's systems."""

    system: str  #: slug
    path: Path
    card: TradingCard | ScoringCard

    @property
    def run(self) -> Path:
        """Folder of the gathered run."""
        return self.path.parent.parent


@dataclass(frozen=True)
class GridEnding:
    """Outputs made at the end of a grid."""

    index: Path  #: index page of the bundle
    tables: list[Path] = field(default_factory=list)
    problems: list[str] = field(
        default_factory=list
    )  #: outputs that could not be made, one line each


def make_ending(
    root: Path, record: GridRecord, status: GridStatus, plugins: Plugins, *, may_fork: bool = False
) -> GridEnding:
    """Make the tables and the bundle from finished units. Must be called in a process's main
    thread.

    With `may_fork`, the report and the views are drawn in parallel by forks of this process. Raises
    UsageError if no card exists yet; StoreError if a file can't be written.
    """
    cards = list(_cards(root, record))
    if not cards:
        raise UsageError(f"{root}: no episode is gathered yet; tables follow the first card")

    ending = GridEnding(root / SITE / INDEX)
    paths = [each.path for each in cards]
    systems = {each.system for each in cards}
    facts = CardFacts.of([each.card for each in cards], len(systems))
    pages = record.plan.pages
    begin = _begin_call if may_fork else _put_off
    make_folder(root)
    with temporary_folder(".site-", root) as fresh:
        site = fresh / SITE
        site.mkdir()
        drawn_report = begin(partial(_draw_report, site, paths, pages, plugins))
        written_cards = begin(partial(_bundle_cards, site, cards, pages, plugins))

        outputs = _make_outputs(paths, facts, record, plugins, begin)
        _write_tables(root / TABLES, outputs, ending)
        bundled, problems = written_cards()
        ending.problems.extend(problems)
        report, problems = drawn_report()
        ending.problems.extend(problems)

        page = BundlePage(
            record=record,
            status=status,
            sentence=_sentence(cards),
            cards=bundled,
            report=report,
            outputs=tuple(outputs),
            problems=tuple(ending.problems),
        )
        write_bundle(page, site)
        _replace(site, root / SITE)

    return ending


def _sentence(cards: Sequence[CardOf]) -> str:
    """Return the sentence over all cards. A system is named with its task if there are several."""
    has_tasks = len({each.card.task.name for each in cards}) > 1
    named = []
    for each in cards:
        name = f"{each.system} on {each.card.task.name}" if has_tasks else each.system
        named.append((name, each.card))
    return cards_sentence(named)


def _make_outputs(
    cards: Sequence[Path],
    facts: CardFacts,
    record: GridRecord,
    plugins: Plugins,
    begin: Callable[[Callable[[], CardsOutput]], Callable[[], CardsOutput]],
) -> list[CardsOutput]:
    """Return the tables and reports. The first one is made in this process, so that calls that
    `begin` forks share the modules that it imports.
    """
    planned = list(planned_outputs(cards, facts, record.plan.tables, plugins))
    first = [make() for make in planned[:1]]
    begun = [begin(make) for make in planned[1:]]
    return [*first, *(result() for result in begun)]


def _begin_call(function: Callable[[], T]) -> Callable[[], T]:
    """Start a function call in a forked child process. Return a function that waits for its
    result.
    """
    return ForkedCall(function).result


def _put_off(function: Callable[[], T]) -> Callable[[], T]:
    """Return the function itself, for use where it can't run in parallel."""
    return function


def _cards(root: Path, record: GridRecord) -> Iterator[CardOf]:
    """Yield the cards of the systems and tasks in the current plan, in plan order."""
    for system in record.systems:
        run = root / RUNS / system.slug
        if not any((run / "cards").glob("*.json")):
            continue

        planned = {unit.task for unit in system.units}
        for path in card_files([run]):
            card = load_evaluation(path)
            if card.task.name in planned:
                yield CardOf(system.slug, path, card)


def _write_tables(folder: Path, outputs: Sequence[CardsOutput], ending: GridEnding) -> None:
    """Write each table and report, and delete those left over from an earlier plan."""
    make_folder(folder)
    written = set()
    for output in outputs:
        if output.problem:
            ending.problems.append(f"{output.name}: {output.problem}")

        for form, text in output.texts.items():
            path = folder / f"{output.name}.{form}"
            write_atomic(path, text)
            written.add(path)
            if form == "txt":
                ending.tables.append(path)

    for path in folder.iterdir():
        if path.is_file() and path not in written:
            path.unlink()


def _bundle_cards(
    site: Path, cards: Sequence[CardOf], pages: Sequence[Page], plugins: Plugins
) -> tuple[tuple[BundleCard, ...], list[str]]:
    """Return the bundle's entry for each card, and the problems.

    Each card's file, and a page for one of its episodes, are written to the bundle.
    """
    bundled = []
    problems: list[str] = []
    for each in cards:
        name = f"cards/{each.system}/{each.path.name}"
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(each.path, site / name)

        view = ""
        if "views" in pages:
            view = _view(site, each, plugins, problems)

        card = BundleCard(
            system=each.system,
            task=each.card.task.name,
            episodes=len(each.card.episodes),
            missing=len(each.card.missing_episodes),
            figure=_headline_figure(each.card),
            labels=tuple(each.card.labels),
            card=name,
            view=view,
        )
        bundled.append(card)

    return tuple(bundled), problems


def _view(site: Path, each: CardOf, plugins: Plugins, problems: list[str]) -> str:
    """Write a page for the episode whose result is closest to the median, and return the page's
    name.
    """
    episode = _typical(each.card)
    folder = site / "views" / each.system / each.path.stem
    words = ["view", "episodes", str(each.run), "--out", str(folder), "--episode", episode]
    words.append("--no-index")  # the bundle has its own index, and other tasks need not be read
    if not _call_command(words, f"view of {each.system} {each.path.stem}", plugins, problems):
        return ""

    pages = sorted(folder.glob("*.html"))
    return pages[0].relative_to(site).as_posix() if pages else ""


def _typical(card: TradingCard | ScoringCard) -> str:
    """Return the id of the episode whose return is closest to the median; for a card without
    returns, the id of the first episode.
    """
    if not isinstance(card, TradingCard):
        return card.episodes[0].id

    known = []
    for episode in card.pooled:  # the episodes over which the card's median is taken
        line = episode.metrics.get(_RETURN)
        if line is not None and line.value is not None and math.isfinite(line.value):
            known.append((episode.id, line.value))

    if not known:
        return card.episodes[0].id
    return known[nearest_to_median([value for _, value in known])][0]


def _draw_report(
    site: Path, cards: Sequence[Path], pages: Sequence[Page], plugins: Plugins
) -> tuple[str, list[str]]:
    """Draw all cards on one page. Return its name (empty without a report) and the problems."""
    problems: list[str] = []
    if "report" not in pages:
        return "", problems

    words = ["view", "report", *map(str, cards), "--out", str(site / "report.html")]
    name = "report.html" if _call_command(words, "report", plugins, problems) else ""
    return name, problems


def _call_command(words: Sequence[str], what: str, plugins: Plugins, problems: list[str]) -> bool:
    """Run a command that writes a page. If it fails, record the reason."""
    problem = call_command(words, plugins).problem
    if problem:
        problems.append(f"{what}: {problem}")
    return not problem


def _headline_figure(card: TradingCard | ScoringCard) -> str:
    """Return a card's first figure as text: the median return or the first score."""
    line: MetricLine | ScoreLine | None
    if isinstance(card, TradingCard):
        name = _RETURN
        line = card.metrics.get(_RETURN)
    else:
        name = card.score_order[0] if card.score_order else ""
        line = card.scores.get(name)

    if line is None or line.value is None:
        return ""
    if is_fraction(line.unit):
        return f"{name} {line.value * 100:+.2f} %"
    return f"{name} {line.value:.4g}"


def _replace(fresh: Path, target: Path) -> None:
    """Replace a folder with another."""
    old = fresh.with_name("old")
    if target.exists():
        target.rename(old)

    fresh.rename(target)
