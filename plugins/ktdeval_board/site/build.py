"""From a board's repository to its static site: every figure from the board's own files, nothing asked of anybody, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ktdeval.api import CardError, JsonValue, dumps_canonical, sha256_hex
from ktdeval_board.documents import load_own, parse_own, read_bytes, read_document
from ktdeval_board.entries import Board, Entry, load_board
from ktdeval_board.layout import IMPORTED
from ktdeval_board.markets import market_path
from ktdeval_board.ranking.history import history
from ktdeval_board.ranking.models import model_pages
from ktdeval_board.ranking.pairing import pairing
from ktdeval_board.ranking.table import rank_division, require_baselines
from ktdeval_board.rules import Division
from ktdeval_board.site.data import Tables, board_data, card_data, cards_index, check_addresses, ranks_of, scope_key, standings_of
from ktdeval_board.site.files import SiteWriter, replacing
from ktdeval_board.site.frame import render_pages
from ktdeval_board.site.pool import run_jobs, usable_workers, without_collection

Progress = Callable[[str], None]
"""Is told in a few words what a build does next."""

_CHUNK = 20
"""Cards of one job: few enough that processes end together, enough that starting a job costs nothing."""


@dataclass(frozen=True)
class BuildReport:
    """What a build wrote.

    Attributes:
        out: the site's folder.
        cards: pages of cards.
        divisions: tables.
        files: how many files.
        size: bytes of them.
        notes: what the board's maintainers should know, one line each.
    """

    out: Path
    cards: int
    divisions: int
    files: int
    size: int
    notes: tuple[str, ...]


def build_site(board_path: Path, out: Path, progress: Progress | None = None, workers: int | None = None) -> BuildReport:
    """Write the site of a board; equal boards give equal bytes.

    The folder is written beside `out` and put in its place at the end; a failure leaves what was there.

    Args:
        board_path: the board's repository.
        out: folder of the site: a new one, an empty one, or one that was built before.
        progress: is told what is done.
        workers: processes; as many as there are processors by default.

    Raises:
        ConfigError: no board here, or its rules or errata are not valid.
        CardError: a file of the board can't be read, or a division lacks the board's baselines; names it.
        UsageError: `out` holds something else.
        StoreError: the site can't be written.
    """
    tell = progress or _be_quiet
    with replacing(out) as folder, without_collection():
        tell("reading the board")
        board = load_board(board_path)
        check_addresses(board.rules)
        require_baselines(board)
        site = SiteWriter(folder)
        processes = usable_workers() if workers is None else workers
        tell(f"ranking {len(board.entries):,} cards in {len(board.rules.divisions)} divisions")
        tables = _write_parts(board, site, processes)
        tell("writing cards and pages")
        _write_pages(board, site, tables, processes)
        _write_shared(board, site, tables)
        site.add_static(board.rules)
        for name, page in render_pages(board.rules).items():
            site.write(name, page)
        files, size = site.count()
    return BuildReport(out, len(board.entries), len(board.rules.divisions), files, size, tuple(_notes(board)))


def _be_quiet(_: str) -> None:
    """Nobody asked."""


def _write_parts(board: Board, site: SiteWriter, workers: int) -> Tables:
    """Tables and records, by as many processes as there are; gives the tables."""
    jobs: list[Callable[[], Mapping[str, JsonValue]]] = [
        partial(_write_division, board, site, division) for division in board.rules.divisions
    ]
    jobs += [partial(_write_records, board, site, chunk) for chunk in _chunks(board.entries)]
    results = list(run_jobs(jobs, workers))
    return {
        division.id: table for division, table in zip(board.rules.divisions, results[: len(board.rules.divisions)], strict=True)
    }


def _chunks(items: Sequence[JsonValue]) -> Iterator[Sequence[JsonValue]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]


class _Series:
    """Daily series of a board's cards, each read once: what the ranking asks for goes to the site on the way."""

    def __init__(self, board: Board, site: SiteWriter) -> None:
        self._board, self._site = board, site
        self._done: set[str] = set()

    def load(self, card_id: str) -> JsonValue | None:
        """A card's series, written to the site; None where the board has none.

        Raises:
            CardError: it can't be read, or is another card's.
        """
        self._done.add(card_id)
        return _copy_document(self._board.folder.series(card_id), f"series/{card_id}", card_id, self._site)

    def write_rest(self, entries: Iterable[Entry]) -> None:
        """Write those that nobody asked for."""
        for entry in entries:
            if entry.card_id not in self._done:
                self.load(entry.card_id)


def _copy_document(path: Path, name: str, card_id: str, site: SiteWriter) -> JsonValue | None:
    """Put what the board's check derived from a card on the site; gives it. None where there is no such file.

    It is parsed although the board wrote it: a file that is no strict JSON, such as one with marks of a merge in it, would be
    another script than the page expects.
    """
    if not path.is_file():
        return None
    data = path.read_bytes()
    value = parse_own(data, path)
    if not isinstance(value, Mapping) or value.get("card") != card_id:
        raise _of_another_card(path)
    site.put_json(name, data)
    return value


def _copy_unread(path: Path, name: str, card_id: str, site: SiteWriter) -> None:
    """The same for a document that the build itself needs nothing of, and that is too large to be parsed for nothing.

    Packed, it can't be a script whatever is in it. That it begins with its card and ends as an object does is looked at.
    """
    if not path.is_file():
        return
    data = path.read_bytes().strip()
    if not data.startswith(f'{{"card":"{card_id}",'.encode()) or not data.endswith(b"}"):
        raise _of_another_card(path)
    site.put_json(name, data, is_packed=True)


def _of_another_card(path: Path) -> CardError:
    return CardError(f"{path}: belongs to another card; run `ktdeval leaderboard check --all` to write it again")


def _write_division(board: Board, site: SiteWriter, division: Division) -> Mapping[str, JsonValue]:
    """Tables and pairings of a division, and the series of its cards; gives the tables."""
    series = _Series(board, site)
    tables: Mapping[str, JsonValue] = rank_division(board, division, series.load)
    for scope, table in tables.items():
        key = scope_key(scope)
        site.put(f"division/{division.id}/{key}", {**table, "scope": key}, is_plain=True)
        site.put(f"pairs/{division.id}/{key}", pairing(board, division, scope))
    series.write_rest(board.of_division(division))
    return tables


def _write_records(board: Board, site: SiteWriter, entries: Sequence[Entry]) -> Mapping[str, JsonValue]:
    """Raw cards as they were submitted and decisions; series of cards that stand in no table."""
    for entry in entries:
        site.write(f"cards/{entry.card_id}.json", _card_bytes(board, entry))
        _copy_unread(board.folder.decisions(entry.card_id), f"decisions/{entry.card_id}", entry.card_id, site)
    _Series(board, site).write_rest(entry for entry in entries if entry.division is None or entry.is_withdrawn)
    return {}


def _card_bytes(board: Board, entry: Entry) -> bytes:
    """A card's file as it was when the board was read."""
    data = read_bytes(entry.files.card, board.rules.limits.bytes_of("card_mb"))
    if sha256_hex(data) != entry.card_id:
        raise CardError(f"{entry.files.card}: has changed while the site was built; build it again")
    return data


def _write_pages(board: Board, site: SiteWriter, tables: Tables, workers: int) -> None:
    """The pages of cards and models, which say ranks."""
    ranks, standings = ranks_of(tables), standings_of(board, tables)
    jobs: list[Callable[[], None]] = [partial(_write_models, board, site, tables)]
    jobs += [partial(_write_cards, board, site, chunk, ranks, standings) for chunk in _chunks(board.entries)]
    for _ in run_jobs(jobs, workers):
        pass


def _write_models(board: Board, site: SiteWriter, tables: Tables) -> None:
    for name, page in model_pages(board, tables):
        site.put(f"model/{sha256_hex(name)[:16]}", page)


def _write_cards(
    board: Board,
    site: SiteWriter,
    entries: Sequence[Entry],
    ranks: Mapping[str, Mapping[str, JsonValue]],
    standings: Mapping[str, tuple[bool, list[str]]],
) -> None:
    for entry in entries:
        facts = card_data(board, entry, standings[entry.card_id], ranks.get(entry.card_id, {}))
        # The card's own text, which was parsed when the board was read, in the place of another serialisation of the same.
        rest = dumps_canonical(facts).encode()[1:]
        site.put_json(f"card/{entry.card_id}", b'{"card":%s,%s' % (_card_bytes(board, entry).strip(), rest))


def _write_shared(board: Board, site: SiteWriter, tables: Tables) -> None:
    """What is there once: the board itself, the list of its cards, its markets, its history and what was imported."""
    markets: dict[str, JsonValue] = {}
    for snapshot in board.rules.snapshots:
        path = market_path(board.folder.path, snapshot.name)
        if path.is_file():
            markets[snapshot.name] = load_own(path)
            site.put(f"market/{snapshot.name}", markets[snapshot.name])
    site.put("board", board_data(board, tables, markets), is_plain=True)
    site.put("cards-index", cards_index(board), is_plain=True)
    site.put("history", history(board, tables), is_plain=True)
    site.put("imported", {"results": _imported(board)}, is_plain=True)


def _imported(board: Board) -> list[JsonValue]:
    """Results of other harnesses, by the names of their files."""
    limit = board.rules.limits.bytes_of("card_mb")
    return [read_document(path, "imported", limit) for path in sorted((board.folder.path / IMPORTED).glob("*.json"))]


def _notes(board: Board) -> Iterator[str]:
    unchecked = sum(entry.verdict is None for entry in board.entries)
    if unchecked:
        yield f"{unchecked:,} of {len(board.entries):,} cards have no verdict and are not ranked; run `ktdeval leaderboard check`"
    strays = [entry for entry in board.entries if entry.division is None and not entry.is_withdrawn]
    for entry in strays[:5]:
        yield f"{entry.files.card.relative_to(board.folder.path)}: belongs to no division; `ktdeval leaderboard check` says why"
    if len(strays) > 5:
        yield f"{len(strays) - 5:,} more cards belong to no division"
    for division in board.rules.divisions:
        if not board.of_division(division):
            yield f"division {division.id} has no cards yet"
