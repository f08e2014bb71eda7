"""Page that shows two episodes of a run, chosen by the reader, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.runner import RunFolder
from ktdeval.values import JsonValue
from ktdeval_view.document import EnvironmentRedactor, pack_value, render
from ktdeval_view.episode_pages import day_rows
from ktdeval_view.episode_records import EpisodeRecords, episode_label

PAIR = "side-by-side.html"
_SCRIPTS = ("base.js", "chart.js", "days.js", "orders.js", "pair.js")


@dataclass(frozen=True)
class PairedEpisode:
    """Data about an episode on the page."""

    label: str
    page: str  #: file name of the episode's page
    window: str  #: its window; empty if it has none
    sentence: str  #: where its return came from
    days: JsonValue  #: initial cash of the episode, and a row for each day


def pair_episode(records: EpisodeRecords, page: str, sentence: str) -> PairedEpisode:
    """Return the page data for an episode with at least one step. `sentence` says where its return
    came from.
    """
    spec = records.spec
    start = float(records.ledger.nav[0])
    days: JsonValue = {"initial_cash": start, "rows": day_rows(records)}
    return PairedEpisode(episode_label(spec), page, spec.window_name or "", sentence, days)


def make_pair_page(
    run: RunFolder, episodes: Sequence[PairedEpisode], redactor: EnvironmentRedactor
) -> str:
    """Return a self-contained HTML page. `episodes` must contain at least two."""
    name = run.path.resolve().name
    names = ("label", "page", "window", "sentence")
    listed: list[JsonValue] = []
    for episode in episodes:
        listed.append({name: getattr(episode, name) for name in names})

    data = {"head": pack_value(redactor.value({"run": name, "episodes": listed}))}
    for place, episode in enumerate(episodes):
        data[f"episode-{place}"] = pack_value(redactor.value(episode.days))

    return render(redactor.text(f"Side by side · {name}"), "pair.html", _SCRIPTS, data)
