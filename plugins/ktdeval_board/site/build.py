"""Build a board's static site from nothing but its repository, without network or clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ktdeval.cards import count
from ktdeval.cli import ForkedCall
from ktdeval.errors import CardError, KtdevalError
from ktdeval.values import (
    JsonValue,
    cores,
    dumps_canonical,
    install_command,
    sha256_hex,
    to_object,
    to_plain,
)
from ktdeval_board.atomic_moves import replacing
from ktdeval_board.attempts import state_of
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.document_types import Decisions, Imported, Series
from ktdeval_board.errata import ERRATA_FILE, load_errata
from ktdeval_board.layout import path_segment
from ktdeval_board.market_document import Market
from ktdeval_board.ranking.head_to_head import pair_tests, paired_cards, pairs_index, windows_of
from ktdeval_board.ranking.model_pages import history, model_pages
from ktdeval_board.ranking.rows import Table, Tables
from ktdeval_board.ranking.table import rank_division, require_baselines
from ktdeval_board.read_documents import decode_own, read_bytes, read_own, read_untrusted
from ktdeval_board.registrations import registrations_text
from ktdeval_board.rules import Division, load_rules
from ktdeval_board.site.card_documents import (
    CardDocument,
    CardDocuments,
    card_documents,
    decode_document,
    file_document,
)
from ktdeval_board.site.data import (
    board_data,
    card_data,
    cards_index,
    ranks_of,
    registrations_data,
    standings_of,
)
from ktdeval_board.site.files import MARKER, SiteWriter, render_pages
from ktdeval_board.site.front import PREVIEW, front_of, preview_svg
from ktdeval_board.site.return_curves import curves, has_curves
from ktdeval_pages.rendering import renderer
from ktdeval_pages.share_pictures import share_png

Progress = Callable[[str], None]
"""Called with a short description of the next build step."""

_CHUNK = 20
"""Cards per job: few enough for processes to finish at about the same time, but enough to make the
overhead of starting a job negligible.
"""


@dataclass(frozen=True)
class BuildReport:
    """Report on a build."""

    out: Path
    cards: int
    divisions: int
    files: int
    size: int
    notes: tuple[str, ...]


def build_site(
    board_path: Path, out: Path, progress: Progress | None = None, workers: int | None = None
) -> BuildReport:
    """Write the site of a board. Equal boards give equal bytes.

    The site is written to a folder next to `out`, which replaces `out` at the end. If the build
    fails, `out` is unchanged. Raises ConfigError if there is no board, or if its rules or errata
    are invalid. Raises CardError if a file on the board can't be read, or if a division lacks the
    board's baselines. Raises UsageError if `out` contains anything but a site, and StoreError if
    the site can't be written.
    """
    tell = progress or (lambda _: None)
    load_rules(board_path)  # so that a mistyped board path creates no folder
    with replacing(out, MARKER) as folder:
        tell("reading the board")
        board = load_board(board_path)
        require_baselines(board)
        site = SiteWriter(folder)
        processes = usable_workers() if workers is None else workers
        divisions = count(len(board.rules.divisions), "division")
        tell(f"ranking {count(len(board.entries), 'card')} in {divisions}")
        parts = _Parts(
            series=card_documents(
                board, site, "series", partial(_derived_document, board.folder.series)
            ),
            decisions=card_documents(
                board, site, "decisions", partial(_derived_document, board.folder.decisions)
            ),
        )
        tables = _write_parts(board, site, parts, processes)
        tell("writing cards and pages")
        _write_pages(board, site, tables, processes)
        _write_shared(board, site, tables)
        columns: set[str] = set()
        for scopes in tables.values():
            columns.update(scopes["all"]["columns"])

        site.add_static(board.rules, columns)
        drawn = _write_preview(board, site, tables)
        front = front_of(board, tables, drawn.is_there)
        for name, page in render_pages(board.rules, columns, front).items():
            site.write(name, page)

        files, size = site.count()

    notes = (*_board_notes(board), *drawn.notes)
    return BuildReport(out, len(board.entries), len(board.rules.divisions), files, size, notes)


@dataclass(frozen=True)
class _Parts:
    """Writers for the documents that the board's check derives."""

    series: CardDocuments
    decisions: CardDocuments


def _derived_document(path_of: Callable[[str], Path], entry: BoardEntry) -> CardDocument | None:
    """Return a document derived by the check; None if the board lacks it. `path_of` returns the
    document's file for a card id.
    """
    path = path_of(entry.card_id)
    return file_document(path, entry.card_id) if path.is_file() else None


def _write_parts(board: LoadedBoard, site: SiteWriter, parts: _Parts, workers: int) -> Tables:
    """Write the tables and records with the given number of processes; return the tables."""
    divisions = board.rules.divisions
    jobs: list[Callable[[], Any]] = [
        partial(_write_division, board, site, parts, division) for division in divisions
    ]
    jobs += [partial(_write_records, board, parts, chunk) for chunk in _chunks(board.entries)]
    results = run_jobs(jobs, workers)

    # The divisions are the first jobs. Jobs for records return nothing.
    return {division.id: tables for division, tables in zip(divisions, results, strict=False)}


def _chunks(entries: Sequence[BoardEntry]) -> Iterator[Sequence[BoardEntry]]:
    for start in range(0, len(entries), _CHUNK):
        yield entries[start : start + _CHUNK]


def _write_series(board: LoadedBoard, parts: _Parts, entry: BoardEntry) -> Series | None:
    """Write a card's series to the site and return it; None if the board has no series."""
    path = board.folder.series(entry.card_id)
    if not path.is_file():
        return None

    data = path.read_bytes()
    series = decode_own(data, Series, path)
    if series.card != entry.card_id:
        raise _of_another_card(path)

    parts.series.put(entry, decode_document(data, path))
    return series


def _copy_decisions(board: LoadedBoard, parts: _Parts, entry: BoardEntry) -> None:
    """Copy a card's decisions to the site without parsing them, since the build does not need the
    contents.

    The only checks are that the text begins with the card's id and ends like an object. Decisions
    are packed, so they can't act as a script, whatever they contain.
    """
    path = board.folder.decisions(entry.card_id)
    if not path.is_file():
        return

    data = path.read_bytes().strip()
    if not data.startswith(f'{{"card":"{entry.card_id}",'.encode()) or not data.endswith(b"}"):
        raise _of_another_card(path)

    parts.decisions.put(entry, decode_document(data, path))


def _of_another_card(path: Path) -> CardError:
    return CardError(
        f"{path}: belongs to another card; run `ktdeval leaderboard check --all` to write it again"
    )


def _write_division(
    board: LoadedBoard, site: SiteWriter, parts: _Parts, division: Division
) -> Mapping[str, Table]:
    """Write a division's tables and the series of its cards; return the tables."""
    entry_of = {entry.card_id: entry for entry in board.of_division(division)}
    tables = rank_division(
        board, division, lambda card_id: _write_series(board, parts, entry_of[card_id])
    )
    for scope, table in tables.items():
        key = path_segment(scope)
        shown = {**to_object(table), "scope": key}
        site.put(f"division/{division.id}/{key}", shown, is_plain=True)

    if has_curves(tables["all"]["columns"]):
        site.put(
            f"curves/{division.id}", curves(division, _records(board, division)), is_plain=True
        )

    return tables


def _records(board: LoadedBoard, division: Division) -> Iterator[tuple[Series, Decisions]]:
    """Yield the series and decisions of each card in a division that has both."""
    for entry in board.of_division(division):
        series = board.folder.series(entry.card_id)
        decisions = board.folder.decisions(entry.card_id)
        if series.is_file() and decisions.is_file():
            yield read_own(series, Series), read_own(decisions, Decisions)


def _write_records(board: LoadedBoard, parts: _Parts, entries: Sequence[BoardEntry]) -> None:
    """Write the decisions of cards, and the series of cards that appear in no table."""
    for entry in entries:
        _copy_decisions(board, parts, entry)
        if entry.division is None or entry.is_withdrawn:
            _write_series(board, parts, entry)


def _write_pairs(board: LoadedBoard, site: SiteWriter, division: Division, tables: Tables) -> None:
    """Write the head-to-head tests, with one file for each card that is tested against others in
    its division.
    """
    windows = windows_of(board, division)
    index = pairs_index(windows, paired_cards(tables[division.id]["all"]["rows"]))
    site.put(f"pairs/{division.id}/all", to_object(index))

    entry_of = {entry.card_id: entry for entry in board.of_division(division)}
    tested = [entry_of[card_id] for card_id in index["cards"]]
    for card_id, tests in pair_tests(tested, windows).items():
        site.put(f"pairs/{division.id}/{card_id}", {"card": card_id, "tests": tests})


def _card_bytes(board: LoadedBoard, entry: BoardEntry) -> bytes:
    data = read_bytes(entry.files.card, board.rules.limits.bytes_of("card_mb"))
    if sha256_hex(data) != entry.card_id:
        raise CardError(
            f"{entry.files.card}: changed while the site was built; build the site again"
        )
    return data


def _write_pages(board: LoadedBoard, site: SiteWriter, tables: Tables, workers: int) -> None:
    """Write the model pages, the card pages, which show ranks, and the head-to-head tests."""
    text_of = partial(_card_text, board, ranks_of(tables), standings_of(board, tables))
    cards = card_documents(board, site, "card", partial(_card_document, text_of))

    jobs: list[Callable[[], None]] = [partial(_write_models, board, site, tables)]
    for division in board.rules.divisions:
        jobs.append(partial(_write_pairs, board, site, division, tables))
    for chunk in _chunks(board.entries):
        jobs.append(partial(_write_cards, cards, text_of, chunk))

    run_jobs(jobs, workers)


def _write_models(board: LoadedBoard, site: SiteWriter, tables: Tables) -> None:
    for name, page in model_pages(board, tables):
        site.put(f"model/{sha256_hex(name)[:16]}", page)


def _write_cards(
    cards: CardDocuments, text_of: Callable[[BoardEntry], str], entries: Sequence[BoardEntry]
) -> None:
    for entry in entries:
        cards.put(entry, text_of(entry))


def _card_text(
    board: LoadedBoard,
    ranks: Mapping[str, Mapping[str, JsonValue]],
    standings: Mapping[str, tuple[bool, list[str]]],
    entry: BoardEntry,
) -> str:
    """Return the value of `card/<id>` as JSON text. The card's own text is copied byte for byte,
    since the reader's browser offers it for download as the submitted file.
    """
    facts = card_data(board, entry, standings[entry.card_id], ranks.get(entry.card_id, {}))
    card = decode_document(_card_bytes(board, entry), entry.files.card)
    facts["card_length"] = len(card.encode("utf-16-le")) // 2  # length as browsers count it
    return f'{{"card":{card},{dumps_canonical(facts)[1:]}'


def _card_document(text_of: Callable[[BoardEntry], str], entry: BoardEntry) -> CardDocument:
    size = entry.files.card.stat().st_size
    return CardDocument(size, entry.card_id, partial(text_of, entry))


def _write_shared(board: LoadedBoard, site: SiteWriter, tables: Tables) -> None:
    """Write the files that exist once per site: the board, the list of cards, the markets, the
    history, the registrations and the imported results.
    """
    markets: dict[str, Market] = {}
    for snapshot in board.rules.snapshots:
        path = board.folder.market(snapshot.name)
        if path.is_file():
            markets[snapshot.name] = read_own(path, Market)
            site.put(f"market/{snapshot.name}", to_plain(markets[snapshot.name]))

    site.put("board", board_data(board, tables, markets), is_plain=True)
    site.put("cards-index", cards_index(board), is_plain=True)
    site.put("history", history(board, tables), is_plain=True)

    if board.rules.draws_keys:
        site.put("registrations", {"registrations": registrations_data(board)}, is_plain=True)

    most = board.rules.limits.bytes_of("card_mb")
    imported = [
        to_plain(read_untrusted(path, Imported, most)) for path in board.folder.list_imports()
    ]
    site.put("imported", {"results": imported}, is_plain=True)


@dataclass(frozen=True)
class _Preview:
    """The picture for link previews."""

    is_there: bool
    notes: tuple[str, ...] = ()


def _write_preview(board: LoadedBoard, site: SiteWriter, tables: Tables) -> _Preview:
    """Draw the picture for link previews, which only a site with a known address can have."""
    svg = preview_svg(board, tables) if board.rules.url else None
    if svg is None:
        return _Preview(is_there=False)
    if renderer() is None:
        why = f"the picture for link previews needs vl-convert: {install_command('report')}"
        return _Preview(is_there=False, notes=(why,))

    site.write(PREVIEW, share_png(svg))
    return _Preview(is_there=True)


def _board_notes(board: LoadedBoard) -> Iterator[str]:
    unchecked = sum(entry.verdict is None for entry in board.entries)
    if unchecked:
        yield (
            f"{unchecked:,} of {len(board.entries):,} cards have no verdict and are not ranked; run"
            " `ktdeval leaderboard check`"
        )

    strays = [entry for entry in board.entries if entry.division is None and not entry.is_withdrawn]
    for entry in strays[:5]:
        yield (
            f"{board.folder.relative(entry.files.card)}: belongs to no division; run `ktdeval "
            "leaderboard check --all` for the reason"
        )

    if len(strays) > 5:
        yield f"{len(strays) - 5:,} more cards belong to no division"

    yield from _key_notes(board)
    for division in board.rules.divisions:
        if not board.of_division(division):
            yield f"division {division.id} has no cards yet"

    cards = {entry.card_id for entry in board.entries}
    unknown = {erratum.card: erratum for erratum in board.errata if erratum.card not in cards}
    for erratum in unknown.values():
        yield (
            f"{ERRATA_FILE}: no card {erratum.card[:12]}… exists (erratum of {erratum.date}: "
            f"{erratum.effect})"
        )


def _key_notes(board: LoadedBoard) -> Iterator[str]:
    """Yield notes for the maintainers on registrations and keys."""
    answerable = [each for each in board.registrations.filed if each.excuse is None]
    unused = [each for each in answerable if state_of(board, each) == "drawn"]
    if unused:
        yield (
            f"{count(len(unused), 'drawn key')} without a checked card, so their submitters are "
            f"not ranked: {registrations_text(unused)}"
        )

    waiting = [each for each in answerable if each.drawn is None]
    if waiting:
        yield (
            f"{count(len(waiting), 'registration')} without a key ({registrations_text(waiting)});"
            " `ktdeval leaderboard draw` draws them"
        )

    for excuse in load_errata(board.folder.path).registrations:
        if excuse.registration not in board.registrations.by_id:
            yield (
                f"{ERRATA_FILE}: no registration {excuse.registration[:12]}… exists (excused on "
                f"{excuse.date})"
            )


Result = TypeVar("Result")

_MAX_WORKERS = 8


def usable_workers() -> int:
    """Return the number of processes for a build: the number of processors, or 1 on platforms where
    processes can't safely inherit memory.
    """
    if sys.platform != "linux":  # on other platforms, libraries may not be safe to use after a fork
        return 1
    return min(_MAX_WORKERS, cores())


def run_jobs(jobs: Sequence[Callable[[], Result]], workers: int) -> list[Result]:
    """Return the results of jobs, in order. Each process takes every n-th job."""
    processes = min(workers, len(jobs))
    if processes < 2:
        return _run_all(jobs)

    shares = [jobs[first::processes] for first in range(processes)]
    calls = [ForkedCall(partial(_run_share, share)) for share in shares]
    found = []
    outcomes = [call.result() for call in calls]  # all jobs have ended before an error is raised
    for outcome in outcomes:
        if isinstance(outcome, KtdevalError):
            raise outcome

        found.append(iter(outcome))

    return [next(found[number % processes]) for number in range(len(jobs))]


def _run_share(jobs: Sequence[Callable[[], Result]]) -> list[Result] | KtdevalError:
    """Return the results of jobs, or the error that ended them."""
    try:
        return _run_all(jobs)
    except KtdevalError as error:
        return error


def _run_all(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    return [job() for job in jobs]
