"""A run folder as pages: one for each episode with a recorded step, and an index of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.jsonio import JsonValue, write_atomic
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, open_recorded_snapshot
from ktdeval_view.episode_page import Surroundings, make_episode_page
from ktdeval_view.index_page import make_entry, make_index_page
from ktdeval_view.labels import episode_label, page_name
from ktdeval_view.names import Names, find_names
from ktdeval_view.payload import Redactor
from ktdeval_view.records import EpisodeRecords, read_episode


@dataclass(frozen=True)
class Written:
    """Files that were written."""

    index: Path  # path of the index
    pages: Sequence[Path]  # paths of the episodes' pages, in the order of the run
    size: int  # bytes of all of them
    problems: Sequence[str]  # what a reader must know of the records, a sentence each


def open_market(run: RunFolder, plugins: Plugins, data: str | None) -> MarketSnapshot | str:
    """Return the market of a run, or why it is not at hand; to name a wrong one is an error, to have none is not. Raises DataError:
    `data` is not the market of the run.
    """
    if data is not None:
        return open_recorded_snapshot(run, plugins, {"data": data})
    try:
        return open_recorded_snapshot(run, plugins, {})
    except DataError as error:
        return f"Without the market there is no benchmark, no price around an order and no true name beside a handle: {error}"


class RunView:
    """Writes the pages of one run, of which it only reads. `plugins`: the loaded plugins, for the tasks' masks. `market`: the
    snapshot that the run used, or why it is not at hand. `redactor`: takes secrets out of everything that is written.
    """

    def __init__(self, run: RunFolder, plugins: Plugins, market: MarketSnapshot | str, redactor: Redactor) -> None:
        self._run = run
        self._plugins = plugins
        self._market = None if isinstance(market, str) else market
        self._no_market = market if isinstance(market, str) else ""
        self._redactor = redactor
        self._days = set() if self._market is None else {str(day) for day in self._market.days}

    def write(self, out: Path, chosen: Sequence[EpisodeSpec], tell: Callable[[EpisodeSpec], None]) -> Written:
        """Write the pages of the chosen episodes and the index of all. `out`: the folder; made where there is none. `tell`: told of
        each episode before its page is made. Raises StoreError: the folder can't be written. Raises UsageError: none of the chosen
        episodes has a finished step.
        """
        _make_folder(out)
        pages: list[Path] = []
        problems = [self._no_market] if self._no_market else []
        entries: list[JsonValue] = []
        size = 0
        for spec in self._run.manifest.specs:
            records = self._fitted(read_episode(self._run, spec))
            problems += [records.problem] if records.problem else []
            path = out / page_name(spec)
            if spec in chosen and records.steps:
                tell(spec)
                size += _write(path, self._page(records, out, chosen))
                pages.append(path)
            entries.append(make_entry(records, self._market, path.name if records.steps and path.is_file() else None))
        if not pages:
            raise UsageError(
                f"{self._run.path}: none of these episodes has a finished step; {'; '.join(problems) or 'wait for one'}"
            )
        index = out / "index.html"
        size += _write(index, make_index_page(self._run, self._market, entries, self._redactor))
        return Written(index, pages, size, list(map(self._redactor.text, dict.fromkeys(problems))))

    def _fitted(self, records: EpisodeRecords) -> EpisodeRecords:
        """Return the records, or word that they are not of this market: nothing can be said then of what prices did."""
        days = {day for step in records.steps for day in (step.decided_on, step.filled_on)}
        if self._market is not None and not days <= self._days:
            odd = sorted(days - self._days)[0]
            where = self._run.episode_path(records.spec)
            return EpisodeRecords(records.spec, "unreadable", problem=f"{where}: {odd} is no day of the market")
        return records

    def _page(self, records: EpisodeRecords, out: Path, chosen: Sequence[EpisodeSpec]) -> str:
        names = Names() if self._market is None else find_names(records, self._plugins, self._market)
        around = Surroundings(self._market, self._no_market, names, self._neighbours(records.spec, out, chosen))
        return make_episode_page(records, around, self._redactor)

    def _neighbours(self, spec: EpisodeSpec, out: Path, chosen: Sequence[EpisodeSpec]) -> Mapping[str, tuple[str, str]]:
        """Return the nearest episodes before and after in the plan that have a page, or are about to."""
        specs = self._run.manifest.specs
        place = specs.index(spec)
        found = {}
        for where, others in (("previous", reversed(specs[:place])), ("next", specs[place + 1 :])):
            near = next((other for other in others if self._has_page(other, out, chosen)), None)
            if near is not None:
                found[where] = (page_name(near), episode_label(near))
        return found

    def _has_page(self, spec: EpisodeSpec, out: Path, chosen: Sequence[EpisodeSpec]) -> bool:
        has_steps = self._run.is_complete(spec) or (self._run.episode_path(spec) / "journal.jsonl").is_file()
        return (spec in chosen and has_steps) or (out / page_name(spec)).is_file()


def _write(path: Path, text: str) -> int:
    """Write a page; returns its bytes."""
    data = text.encode()
    write_atomic(path, data)
    return len(data)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: can't make the folder: {error.strerror or error}; choose another --out") from error
