"""`ktdeval view`: render static pages from a run folder. There is a page for each episode with a
recorded step, a tear sheet for each trading task, and an index of all pages.
"""

from __future__ import annotations

import os
import re
import webbrowser
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from ktdeval.cli import (
    JsonOptions,
    MarketOptions,
    OutputPath,
    PluginOptions,
    RunPath,
    example,
    flag,
    open_plugins,
    options_of,
    print_json,
    warn,
    work_shown,
)
from ktdeval.errors import DataError, KtdevalError, UsageError, wrap_os_error
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, open_run, recorded_market, retrace_memories
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import Ledger, MarketRules
from ktdeval.values import JsonValue, Tell, check_output, filling, tell_nobody, write_atomic
from ktdeval_pages.page_templates import refuse_foreign_page
from ktdeval_view.document import EnvironmentRedactor, PageData, single_page
from ktdeval_view.episode_pages import (
    PageSurroundings,
    capacity_lines,
    episode_data,
    make_entry,
    make_index_page,
)
from ktdeval_view.episode_records import (
    EpisodeRecords,
    choose_episodes,
    episode_label,
    page_name,
    read_episode,
)
from ktdeval_view.market_facts import TrueNames, find_names
from ktdeval_view.pair_pages import (
    PAIR,
    PairedEpisode,
    PairedRun,
    episodes_beside,
    make_pair_page,
)
from ktdeval_view.run_cards import RunCards
from ktdeval_view.sample_pages import (
    SampleRecords,
    is_scoring,
    make_sample_entry,
    read_samples,
    samples_data,
)
from ktdeval_view.shared_pages import SharedPages
from ktdeval_view.tear_sheets import TearSheets

_NO_MARKET = (
    "Without the market there is no benchmark, no price around an order and no true name beside a"
    " handle"
)
INDEX = "index.html"
"""Index of all episodes, written last: if it exists, the pages are complete."""

_DAY = re.compile(r"\d{1,6}|day_\+\d{1,6}|\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, kw_only=True)
class ViewOptions(MarketOptions, PluginOptions, JsonOptions):
    """Options of `view episodes`."""

    out: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help="folder of the pages [default: RUN/view]",
    )
    episode: str | None = flag(
        None,
        metavar="TEXT",
        help="only episodes with these words in task, window, seed (`seed-1`) or id",
    )
    day: str | None = flag(
        None,
        metavar="DAY",
        help="day to begin at: its number, `day_+17`, or its date (of its fills and NAV)",
    )
    is_opened: bool = flag(
        False,
        name="--open",
        help="open the index in the browser, or the page if there is only one",
    )
    memory: bool = flag(
        False,
        help=(
            "show the agent's memory at each day, by running the agent again on the recorded "
            "replies"
        ),
    )
    beside: Path | None = flag(
        None,
        type=RunPath(),
        metavar="RUN",
        help="another run, whose episodes stand beside this one's on the page of two episodes",
    )
    #: for a bundle, which has its own index: no episodes of other tasks are read
    no_index: bool = flag(False, help="")


@example("ktdeval view ktdeval-runs/my-run --open")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(ViewOptions)
def episodes(run: Path, options: ViewOptions) -> None:
    """Walk a run's episodes day by day, or sample by sample, as static pages, with a tear sheet of
    each trading task.

    RUN is a run folder, which is only read; an episode that is still running is shown as far as it
    is. Pages need no server and ask nothing of the network. The page of a single episode is one
    file; pages of several share files next to them. Secrets of the environment are taken out of
    all texts.
    """
    plugins = open_plugins(options.plugin)
    folder = open_run(run, plugins)
    out = options.out or run / "view"
    check_output(out, "folder", "--out")
    chosen = choose_episodes(folder.manifest.specs, options.episode)
    day = options.day
    _check_day(day, len(chosen))
    has_days = not all(is_scoring(folder, spec) for spec in folder.manifest.specs)
    market = recorded_market(folder, plugins, options.data, _NO_MARKET) if has_days else ""
    show = RunView(
        folder,
        plugins,
        market,
        EnvironmentRedactor(os.environ),
        has_memory=options.memory,
        has_index=not options.no_index,
    )
    beside = None
    if options.beside is not None:
        beside = open_run(options.beside, plugins)
    with work_shown() as tell:
        files = show.write(out, chosen, tell, beside)

    for problem in files.problems:
        warn(problem)

    address = (files.pages[0] if len(files.pages) == 1 else files.index).resolve().as_uri()
    if day is not None:
        address = f"{address}#day={day}"

    if options.as_json:
        print_json(_json_outcome(folder, files, address))
    else:
        shown = f"{len(files.pages)} of {len(folder.manifest.specs)} episodes"
        click.echo(f"view    {files.index} ({shown}, {files.size / 1e6:.1f} MB)")
        for sheet in files.sheets:
            click.echo(f"sheet   {sheet}")
        for line in capacity_lines(run):
            click.echo(f"at size {line}")

        if day is not None:
            click.echo(f"day     {address}")

    if options.is_opened and not webbrowser.open(address):
        warn(f"no browser could be started; open {address}")


def _check_day(day: str | None, episodes: int) -> None:
    if day is not None and not _DAY.fullmatch(day):
        raise UsageError(
            f"--day {day!r}: give the day's number such as 17, day_+17, or a date such as"
            " 2024-11-18"
        )
    if day is not None and episodes != 1:
        raise UsageError(
            f"--day {day}: the run has {episodes} such episodes; name one of them with --episode"
        )


def _json_outcome(run: RunFolder, files: PageFiles, address: str) -> dict[str, JsonValue]:
    """Return the output of `view --json`: the files written, and the figures of each episode."""
    return {
        "run": str(run.path),
        "index": str(files.index),
        "address": address,
        "pages": [str(path) for path in files.pages],
        "tear_sheets": [str(path) for path in files.sheets],
        "bytes": files.size,
        "episodes": list(files.entries),
        "problems": list(files.problems),
    }


@dataclass(frozen=True)
class PageFiles:
    """Pages of a run as files."""

    index: Path  # path of the index, or of the first page if no index was requested
    pages: Sequence[Path]  # pages of the episodes, in the order of the run
    size: int  # total size in bytes
    problems: Sequence[str]  # problems with the records, one sentence each
    entries: Sequence[JsonValue] = ()  # figures of every episode, as the index shows them
    sheets: Sequence[Path] = ()  # tear sheets, one for each selected trading task


@dataclass(frozen=True)
class _Episodes:
    """Facts about the episodes of a run, collected while their pages are written and keyed by
    episode id.
    """

    sheets: TearSheets
    pages: dict[str, Path] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    #: index entries, keyed by episode id
    entries: dict[str, JsonValue] = field(default_factory=dict)
    #: data for the page that compares two episodes, in the order of windows
    pairs: list[PairedEpisode] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  #: size of each file in bytes


class RunView:
    """Writes the pages of one run, which is only read.

    `market` is a snapshot, or the reason why the market can't be read. `has_memory` says whether to
    show what the agent remembered. Without `has_index`, only episode pages and tear sheets are
    written.
    """

    def __init__(
        self,
        run: RunFolder,
        plugins: Plugins,
        market: MarketSnapshot | str,
        redactor: EnvironmentRedactor,
        *,
        has_memory: bool = False,
        has_index: bool = True,
    ) -> None:
        self._run = run
        self._plugins = plugins
        self._redactor = redactor
        self._has_memory = has_memory
        self._has_index = has_index
        self._cards = RunCards(run.path)
        self._market: MarketSnapshot | None = None
        self._no_market = ""
        self._days: set[str] = set()
        self._place_of = {spec.id: place for place, spec in enumerate(run.manifest.specs)}

        if isinstance(market, str):
            self._no_market = market
        else:
            self._market = market
            self._days = {str(day) for day in market.days}

        self._paired = PairedRun(run.path.resolve().name, self._cards, self._market)

    def write(
        self,
        out: Path,
        chosen: Sequence[EpisodeSpec],
        tell: Tell = tell_nobody,
        beside: RunFolder | None = None,
    ) -> PageFiles:
        """Write the pages of the chosen episodes, and the index of all episodes. `tell` is called
        with each episode before its page is made. The finished episodes of the run `beside` can be
        compared with those of this one.

        Raises StoreError if the folder can't be written, or if it contains an index that this
        command did not make. Raises UsageError if none of the chosen episodes has a finished step.
        """
        refuse_foreign_page(out / INDEX, "ktdeval view")
        with (
            wrap_os_error(f"{out}: can't write", "choose another --out"),
            filling(out, INDEX) as fresh,
        ):
            others = [] if beside is None else self._episodes_beside(beside, out)
            return self._write_into(fresh, out, chosen, tell, others)

    def _write_into(
        self,
        fresh: Path,
        out: Path,
        chosen: Sequence[EpisodeSpec],
        tell: Tell,
        others: Sequence[PairedEpisode],
    ) -> PageFiles:
        """Write the pages into the folder `fresh`, whose files are then moved to `out`. That folder
        may hold pages from an earlier view. `others` are episodes of another run.
        """
        specs = self._run.manifest.specs
        done = self._write_episodes(fresh, out, chosen, tell)
        of_specs = [done.problems[spec.id] for spec in specs if spec.id in done.problems]
        problems = [self._no_market, *of_specs]
        problems = [problem for problem in dict.fromkeys(problems) if problem]
        if not done.pages:
            why = "; ".join(problems) or "wait for one"
            raise UsageError(f"{self._run.path}: none of these episodes has a finished step; {why}")

        tasks = dict.fromkeys(spec.task for spec in chosen)
        written = done.sheets.pages(tasks, self._redactor)
        size = sum(done.sizes)
        for name, text in written.items():
            size += _write_page(fresh / name, text)

        pages = [done.pages[spec.id] for spec in specs if spec.id in done.pages]
        entries = [done.entries[spec.id] for spec in specs if spec.id in done.entries]
        first = pages[0]
        if self._has_index:
            first = out / INDEX
            links = done.sheets.links(written)
            pair = ""
            pairs = [*done.pairs, *others]
            if len(pairs) > 1:
                pair = PAIR
                text = make_pair_page(self._run, pairs, self._redactor)
                size += _write_page(fresh / PAIR, text)
            index = make_index_page(self._run, self._market, entries, links, pair, self._redactor)
            size += _write_page(fresh / INDEX, index)

        redacted = [self._redactor.text(problem) for problem in problems]
        shown = [self._redactor.value(entry) for entry in entries]
        paths = [out / name for name in written]
        return PageFiles(first, pages, size, redacted, shown, paths)

    def _episodes_beside(self, other: RunFolder, out: Path) -> list[PairedEpisode]:
        name = other.path.resolve().name
        if name == self._paired.name:
            name += " (the other)"

        market = self._market
        if other.manifest.snapshot != self._run.manifest.snapshot:
            market = None
        return episodes_beside(other, PairedRun(name, RunCards(other.path), market), out)

    def _write_episodes(
        self, fresh: Path, out: Path, chosen: Sequence[EpisodeSpec], tell: Tell
    ) -> _Episodes:
        """Write the pages of the chosen episodes and their shared files. The arguments are those of
        `_write_into`.
        """
        done = _Episodes(TearSheets(self._run, self._cards, self._market, self._no_market))
        shared = SharedPages()
        wanted = {spec.id for spec in chosen}
        tasks = {spec.task for spec in chosen}

        for spec in _by_window(self._run.manifest.specs):
            if not self._has_index and spec.task not in tasks:
                continue

            records = self._records(spec)
            done.problems[spec.id] = records.problem
            path = out / page_name(spec)
            has_page = bool(records.steps) and path.is_file()

            if spec.id in wanted and records.steps:
                tell(episode_label(spec), len(done.pages), len(chosen))
                data = self._page(records, out, wanted)
                # a single page is self-contained, so it can be sent as one file
                if len(chosen) == 1:
                    text = single_page(data)
                else:
                    text = shared.page(data, spec.window_name)

                done.sizes.append(_write_page(fresh / path.name, text))
                done.pages[spec.id] = path
                has_page = True

            if isinstance(records, EpisodeRecords):
                done.sheets.add(records, path.name if has_page else "")
                if has_page:
                    done.pairs.append(self._paired.episode(records, path.name))

            done.entries[spec.id] = self._entry(records, path.name if has_page else None)

        for name, text in shared.files.items():
            done.sizes.append(_write_page(fresh / name, text))

        return done

    def _records(self, spec: EpisodeSpec) -> EpisodeRecords | SampleRecords:
        if is_scoring(self._run, spec):
            return read_samples(self._run, spec)
        return self._match_market(read_episode(self._run, spec))

    def _entry(
        self, records: EpisodeRecords | SampleRecords, page: str | None
    ) -> dict[str, JsonValue]:
        if isinstance(records, SampleRecords):
            return make_sample_entry(records, page)
        return make_entry(records, self._market, page)

    def _match_market(self, records: EpisodeRecords) -> EpisodeRecords:
        """Return the records. If they do not belong to this market, no prices can be shown, so
        return them without steps and with the problem.
        """
        days: set[str] = set()
        for step in records.steps:
            days |= {step.decided_on, step.filled_on}

        unknown = days - self._days
        if self._market is not None and unknown:
            return self._unreadable(records.spec, f"{min(unknown)} is not a day of the market")

        if records.state != "unfinished":
            return records

        try:
            return replace(records, ledger=self._in_units(records.spec, records.ledger))
        except KtdevalError as error:
            problem = f"the units of an unfinished episode are those of its market: {error}"
            return self._unreadable(records.spec, problem)

    def _unreadable(self, spec: EpisodeSpec, problem: str) -> EpisodeRecords:
        path = self._run.episode_path(spec)
        return EpisodeRecords(spec, "unreadable", problem=f"{path}: {problem}")

    def _in_units(self, spec: EpisodeSpec, ledger: Ledger) -> Ledger:
        if self._market is None:
            raise DataError("it is not at hand; name it with --data")

        trading = self._plugins.make_task(spec.task).trading
        return ledger.in_units_of(self._market, MarketRules.of(self._market, trading))

    def _page(
        self, records: EpisodeRecords | SampleRecords, out: Path, wanted: Collection[str]
    ) -> PageData:
        if isinstance(records, SampleRecords):
            return samples_data(records, self._redactor)

        records = self._with_memory(records)
        names = TrueNames()
        if self._market is not None:
            names = find_names(records, self._plugins, self._market)

        neighbours = self._neighbours(records.spec, out, wanted)
        parts = self._cards.return_parts(records)
        around = PageSurroundings(self._market, self._no_market, names, parts, neighbours)

        return episode_data(records, around, self._redactor)

    def _with_memory(self, records: EpisodeRecords) -> EpisodeRecords:
        """Return the records with the agent's memory after each day, if it was requested, or with
        the reason why the memory is unknown.
        """
        if not self._has_memory:
            return replace(records, memories=())

        problem = ""
        memories = records.memories
        if records.state == "finished":
            try:
                memories = retrace_memories(self._run, records.spec, self._plugins, self._market)
            except KtdevalError as error:
                problem = f"The agent's memory is not shown: {error}"

        if not problem and all(memory is None for memory in memories):
            problem = f"The agent {records.spec.agent} carries no memory from day to day"

        if not problem:
            return replace(records, memories=memories)

        problems = [records.problem, problem]
        return replace(records, memories=(), problem=". ".join(one for one in problems if one))

    def _neighbours(
        self, spec: EpisodeSpec, out: Path, wanted: Collection[str]
    ) -> Mapping[str, tuple[str, str]]:
        """Return the nearest episodes in the plan, before and after this one, that have or will
        have a page.
        """
        specs = self._run.manifest.specs
        index = self._place_of[spec.id]
        directions = {"previous": reversed(specs[:index]), "next": specs[index + 1 :]}

        neighbours = {}
        for direction, others in directions.items():
            with_page = (other for other in others if self._has_page(other, out, wanted))
            nearest = next(with_page, None)
            if nearest is not None:
                neighbours[direction] = (page_name(nearest), episode_label(nearest))

        return neighbours

    def _has_page(self, spec: EpisodeSpec, out: Path, wanted: Collection[str]) -> bool:
        has_steps = (
            self._run.is_complete(spec)
            or (self._run.episode_path(spec) / "journal.jsonl").is_file()
        )
        return (spec.id in wanted and has_steps) or (out / page_name(spec)).is_file()


def _by_window(specs: Sequence[EpisodeSpec]) -> list[EpisodeSpec]:
    """Return episodes grouped by window, and otherwise in the order of the run."""
    windows = {
        name: place for place, name in enumerate(dict.fromkeys(spec.window_name for spec in specs))
    }
    return sorted(specs, key=lambda spec: windows[spec.window_name])


def _write_page(path: Path, text: str) -> int:
    """Write a page, and return its size in bytes."""
    data = text.encode()
    write_atomic(path, data)
    return len(data)
