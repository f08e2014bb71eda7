"""Page that shows two episodes of one run or of two, chosen by the reader, side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.runner import RunFolder
from ktdeval.values import JsonValue
from ktdeval_view.document import EnvironmentRedactor, pack_value, render
from ktdeval_view.episode_pages import day_rows, return_summary
from ktdeval_view.episode_records import EpisodeRecords, episode_label, page_name, read_episode
from ktdeval_view.run_cards import RunCards
from ktdeval_view.sample_pages import is_scoring

PAIR = "side-by-side.html"
_SCRIPTS = ("base.js", "chart.js", "days.js", "orders.js", "pair.js")


@dataclass(frozen=True)
class PairedEpisode:
    """Data about an episode on the page."""

    run: str  #: name of its run
    task: str
    window: str  #: its window; empty if it has none
    label: str
    page: str  #: address of the episode's page; empty if it has none
    sentence: str  #: where its return came from
    days: JsonValue  #: initial cash of the episode, and a row for each day


@dataclass(frozen=True)
class PairedRun:
    """A run whose episodes are on the page: its name, its cards and its market."""

    name: str
    cards: RunCards
    market: MarketSnapshot | None  #: None if it is not at hand, or is another one

    def episode(self, records: EpisodeRecords, page: str) -> PairedEpisode:
        """Return the page data for an episode with at least one step. `page` is the address of its
        own page, or empty.
        """
        spec = records.spec
        parts = self.cards.return_parts(records)
        start = float(records.ledger.nav[0])
        return PairedEpisode(
            run=self.name,
            task=spec.task,
            window=spec.window_name or "",
            label=episode_label(spec),
            page=page,
            sentence=return_summary(records, self.market, parts).sentence,
            days={"initial_cash": start, "rows": day_rows(records)},
        )


def episodes_beside(run: RunFolder, paired: PairedRun, out: Path) -> list[PairedEpisode]:
    """Return the page data for the finished trading episodes of another run than the one that is
    shown, for a page in the folder `out`.

    Raises UsageError if it has no such episode.
    """
    found = []
    for spec in run.manifest.specs:
        if is_scoring(run, spec):
            continue

        records = read_episode(run, spec)
        if records.state != "finished" or not records.steps:
            continue

        own_page = run.path / "view" / page_name(spec)
        address = ""
        if own_page.is_file():
            address = Path(os.path.relpath(own_page.resolve(), out.resolve())).as_posix()
        found.append(paired.episode(records, address))

    if not found:
        raise UsageError(f"{run.path}: --beside needs a run with a finished trading episode")
    return found


def make_pair_page(
    run: RunFolder, episodes: Sequence[PairedEpisode], redactor: EnvironmentRedactor
) -> str:
    """Return a self-contained HTML page. `episodes` must contain at least two."""
    name = run.path.resolve().name
    names = ("run", "task", "window", "label", "page", "sentence")
    listed: list[JsonValue] = []
    for episode in episodes:
        listed.append({name: getattr(episode, name) for name in names})

    data = {"head": pack_value(redactor.value({"run": name, "episodes": listed}))}
    for place, episode in enumerate(episodes):
        data[f"episode-{place}"] = pack_value(redactor.value(episode.days))

    return render(redactor.text(f"Side by side · {name}"), "pair.html", _SCRIPTS, data)
