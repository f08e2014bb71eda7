"""Facts from a task: what its prompts show about each candidate, and the subsequent return.

The task is run with a model that only holds, so that the prompts match the prompts of a real run.
The lens maps masked labels and days back to the true asset and day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.keyless import Conversation
from ktdeval.market import FloatArray, MarketSnapshot, bar_rows
from ktdeval.observation import ObservedState
from ktdeval.registry import Plugins
from ktdeval.runner import EpisodeFactory, RunConfig, choose_tasks, make_plan, open_snapshot
from ktdeval.task_api import EpisodeSpec, Task, is_scoring
from ktdeval.values import Address, Arguments
from ktdeval_models.planted.reduced_text import line_of

#: Mask key for the prompts that are read; fixed, so that the same command always reads the same
#: lines
MASK_KEY = "0" * 32
_FILL = 1  # days from an order to the open at which it fills


@dataclass(frozen=True)
class FactSource:
    """Source of facts: a task, its windows and data."""

    task: str
    windows: tuple[str, ...] = ()  #: empty: the task's own windows
    days: int = 5  #: maximum number of days per window
    horizon: int = 1  #: trading sessions of the asset that a return spans, from open to open
    data: Address = "synthetic"
    data_args: Arguments | None = None


@dataclass(frozen=True)
class PlantedFacts:
    """Facts in the order in which prompts show them."""

    lines: tuple[str, ...]
    keys: tuple[tuple[int, int], ...]  #: true asset and row of the day for each fact
    returns: FloatArray  #: [N] fractions, none of them 0 or NaN
    spans: tuple[str, ...]  #: FIRST:LAST for each window
    snapshot: str  #: id of the market snapshot


def gather_facts(source: FactSource, plugins: Plugins) -> PlantedFacts:
    """Run a task's windows and return the facts about its candidates.

    Candidates are skipped if the return is unknown, or is 0 and so has no sign. The same asset and
    day in two windows give one fact. Raises KtdevalError if the task shows no candidates, or if no
    returns follow.
    """
    config = RunConfig(
        model="builtin/hold",
        tasks=(source.task,),
        data=source.data,
        data_args=dict(source.data_args or {}),
        windows=source.windows,
        limit=source.days,
        mask_key=MASK_KEY,
    )
    tasks = choose_tasks(config, plugins)
    task = tasks[source.task]
    if is_scoring(task):
        raise UsageError(f"task {source.task} asks questions; choose one that shows candidates")

    snapshot = open_snapshot(plugins, source.data, dict(source.data_args or {}))
    specs = make_plan(config, plugins, tasks, snapshot, None).specs
    factory = EpisodeFactory(tasks, plugins, snapshot)
    found: dict[tuple[int, int], str] = {}
    for spec in specs:
        found |= _shown_lines(spec, task, factory, snapshot)

    if not found:
        raise UsageError(
            f"task {source.task} shows no candidates; choose one with a table of them, such as"
            " bright_fixed_candidate"
        )

    returns = _returns(list(found), snapshot, source.horizon)
    has_sign = np.isfinite(returns) & (returns != 0)
    if not (returns[has_sign] > 0).any() or not (returns[has_sign] < 0).any():
        raise DataError(
            f"{snapshot.meta.name}: the returns after these days are not known, or all of one sign;"
            " choose other --windows"
        )

    kept = np.flatnonzero(has_sign)
    keys = list(found)
    lines = list(found.values())
    return PlantedFacts(
        tuple(lines[place] for place in kept),
        tuple(keys[place] for place in kept),
        returns[has_sign],
        tuple(f"{spec.span.first}:{spec.span.last}" for spec in specs),
        snapshot.id,
    )


def _shown_lines(
    spec: EpisodeSpec, task: Task, factory: EpisodeFactory, snapshot: MarketSnapshot
) -> dict[tuple[int, int], str]:
    """Return the line for each candidate that an episode shows, keyed by true asset and row."""
    reader = _Reader()
    episode = factory.open(spec, reader)
    for step in range(episode.total_steps):
        episode.run_step(step)

    lens = task.scene(spec, snapshot).lens
    for asset in range(len(snapshot.codes)):
        lens.asset_handle(asset)  # a lens maps back only the handles that it has shown

    lines = {}
    for step, state in enumerate(reader.states):
        row = lens.base_row + step
        lens.move_to(row)
        for label, candidate in state.candidates.items():
            column = lens.parse_asset(label)
            if column is None:
                raise DataError(f"{spec.task}: {label} is not an asset of {snapshot.meta.name}")
            lines[column, row] = line_of(label, state.day, candidate.cells)

    return lines


def _returns(keys: Sequence[tuple[int, int]], snapshot: MarketSnapshot, horizon: int) -> FloatArray:
    """Return the return on an order placed on each day, measured from its fill, [N]; NaN if
    unknown.
    """
    opens = snapshot.adjusted_open
    returns = np.full(len(keys), np.nan)
    for place, (asset, row) in enumerate(keys):
        bought = row + _FILL
        sessions = bar_rows(snapshot, asset)
        sold = int(np.searchsorted(sessions, bought)) + horizon
        if sold < len(sessions):
            returns[place] = opens[sessions[sold], asset] / opens[bought, asset] - 1

    return returns


class _Reader:
    """Model that only holds, and records the states that it is shown."""

    traits = ModelTraits(is_free=True)

    def __init__(self) -> None:
        self.states: list[ObservedState] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Submit no orders."""
        conversation = Conversation(request)
        if not conversation.is_submission:
            return Reply("Nothing to look up.")

        self.states.append(conversation.observed)
        return conversation.submit([], conversation.reason("reads only"))
