"""Episodes of a card, finished and missing, and that they are a run's whole plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from ktdeval.cards.fields.basics import Problem
from ktdeval.cards.fields.episode_parts import (
    MissingEpisode,
    ScoringEpisode,
    TradingEpisode,
)
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row
from ktdeval.errors import CardError
from ktdeval.tasks.spec import EpisodeSpec, Window
from ktdeval.values.fields import near_matches

# ---- gathered from the plan


def missing_specs(
    planned: Sequence[EpisodeSpec],
    finished: Collection[str],
    errors: Mapping[str, str],
    record: str,
) -> list[tuple[EpisodeSpec, str]]:
    """Return the planned episodes that did not finish, each with its error on one line.
    `finished`: ids; `errors`: by id; `record`: what an unfinished episode lacks, such as `a
    ledger`. Raises CardError: an unfinished episode has no error, or a finished or foreign one has.
    """
    unfinished = [spec for spec in planned if spec.id not in finished]
    for spec in unfinished:
        if spec.id not in errors:
            raise CardError(
                f"episode {spec.id} ({spec.label}) has neither {record} nor an error; finish"
                " the run"
            )

    surplus = sorted(set(errors) - {spec.id for spec in unfinished})
    if surplus:
        raise CardError(
            f"episode {surplus[0]} is listed as missing but is finished or was never planned"
        )

    return [(spec, " ".join(errors[spec.id].split())) for spec in unfinished]


# ---- checked


class PlanCell(NamedTuple):
    """Place of an episode in the plan of a card."""

    field: str  #: `episodes` or `missing_episodes`
    number: int  #: its place in that field
    window: str | None
    seed: int
    id: str


def _cell_words(window: str | None, seed: int) -> str:
    """Return words on an episode of the plan; a task without a market has no windows."""
    return f"seed {seed}" if window is None else f"seed {seed} of window {window}"


def id_problems(
    cells: Iterable[PlanCell], windows: Mapping[str | None, Window | None], spec: EpisodeSpec
) -> Iterator[Problem]:
    """Yield windows that the card does not have, and ids of episodes that do not follow from the
    card's own fields. `spec`: what the specs of all its episodes share.
    """
    seen: set[str] = set()
    for cell in cells:
        where = (cell.field, cell.number)
        if cell.window not in windows:
            near = near_matches(str(cell.window), map(str, windows))
            yield (*where, "window"), f"no window of that name{near}"
            return

        own = replace(spec, window=windows[cell.window], seed=cell.seed)
        if cell.id != own.id:
            yield (*where, "id"), "is not the hash of the episode's spec"

        if cell.id in seen:
            yield (*where, "id"), "stands twice"

        seen.add(cell.id)


def plan_problems(
    cells: Iterable[PlanCell], windows: Iterable[str | None], seeds: Sequence[int]
) -> Iterator[Problem]:
    """Yield where the episodes are not a run's plan, each window with each seed of a range:
    episodes were removed.
    """
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        yield ("seeds",), "do not follow each other, as those of a run do"

    planned = dict.fromkeys((cell.window, cell.seed) for cell in cells)
    for window, seed in product(windows, seeds):
        if (window, seed) not in planned:
            yield ("seeds",), f"{_cell_words(window, seed)} is neither finished nor missing"

    expected = set(seeds)
    for window, seed in planned:
        if seed not in expected:
            yield ("seeds",), f"{_cell_words(window, seed)} is not one of the seeds"


def trading_episode_problems(index: int, episode: TradingEpisode, steps: int) -> Iterator[Problem]:
    """Yield contradictions of an episode of a trading task with its planned number of steps."""
    if episode.steps != steps or episode.decisions.steps != steps:
        yield (
            ("episodes", index, "steps"),
            f"the window and limit give {steps} steps, each with one decision",
        )


def scoring_episode_problems(index: int, episode: ScoringEpisode) -> Iterator[Problem]:
    """Yield contradictions in the counts of an episode of a scoring task."""
    decisions = episode.decisions
    if decisions.steps != episode.steps:
        yield (
            ("episodes", index, "decisions"),
            f"the episode has {episode.steps} steps, each with one decision",
        )

    if episode.answered > decisions.by_model:
        yield ("episodes", index, "answered"), "more answers than steps that the model decided"


# ---- words


def missing_notes(episodes: Iterable[MissingEpisode]) -> Iterator[str]:
    """Yield a line for each planned episode that did not finish."""
    for episode in episodes:
        yield f"missing: window {episode.window or 'none'}, seed {episode.seed}: {episode.error}"


def key_rows(mask_key: str | None, registration: str | None) -> Iterator[Row]:
    """Yield the mask key, and the registration whose board drew it."""
    if mask_key:
        yield WORDS["mask_key"].label, mask_key

    if registration:
        yield WORDS["registration"].label, f"{registration[:12]}: its board drew the mask key"


WORDS = {
    "kind": Words("kind", "", "`trading`, or `scoring` for the card of a scoring task"),
    "schema_version": Words("schema version", "", "1"),
    "seeds": Words("seeds", "", "seeds of the plan"),
    "mask_key": Words(
        "mask key",
        "",
        "key from which handles, orders, noise and the seeds of calls were drawn; absent where a"
        " task needs no market",
        "masks.md",
    ),
    "registration": Words(
        "registration",
        "",
        "id of the registration with a leaderboard whose board drew the key; absent where the run"
        " has a key of its own",
        "leaderboard.md#keys-that-the-board-draws",
    ),
    "episodes": Words(
        "episodes",
        "",
        "for each finished episode: id, window, seed, steps, decisions, failures, usage; of a"
        " trading task also days, last NAV, orders, metrics with `detail`; of a scoring task valid"
        " answers (`answered`)",
    ),
    "episodes.final_nav_minor": Words(
        "final NAV", "minor units", "NAV at the last close, in minor units of the currency"
    ),
    "episodes.uncounted": Words(
        "uncounted replies", "replies", "replies whose tokens the provider did not count"
    ),
    "missing_episodes": Words(
        "missing episodes",
        "",
        "planned episodes without a complete record, with the error; of a scoring task also the"
        " samples that each would have",
    ),
}
