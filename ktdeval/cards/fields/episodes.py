"""Finished and missing episodes of a card, and the check that together they make up the run's whole
plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ktdeval.cards.fields.activity import gather_decisions, gather_orders, gather_usage
from ktdeval.cards.fields.base_types import Problem, add_counts
from ktdeval.cards.fields.card_inputs import (
    EvaluationInputs,
    ScoringSources,
    TradingSources,
    samples_of,
)
from ktdeval.cards.fields.episode_parts import (
    Finished,
    MissingEpisode,
    MissingScoringEpisode,
    MissingTradingEpisode,
    ScoringEpisode,
    TradingEpisode,
)
from ktdeval.cards.fields.knowledge.deciders import isolation_problems
from ktdeval.cards.fields.origin.recorded_facts import (
    AnyFacts,
    Evaluation,
    ScoringFacts,
    TradingFacts,
)
from ktdeval.cards.fields.origin.software_versions import maker_problems, maker_rows
from ktdeval.cards.fields.replies.served import served_problems, served_words
from ktdeval.cards.fields.returns.assumptions import gather_stale
from ktdeval.cards.fields.returns.metrics import gather_metrics, metrics_of
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.json_paths import JsonPath
from ktdeval.cards.table_types import Row
from ktdeval.task_api.episode_spec import EpisodeSpec, FurtherModel, Window
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.trading.ledger import StepRecord
from ktdeval.values.options.config_options import near_matches

# ---- gathered from the records


def gather_trading_episodes(sources: TradingSources) -> list[TradingEpisode]:
    """Return the card entry for each finished episode, including its metrics."""
    inputs = sources.inputs
    episodes = []
    for done, spec in enumerate(sources.finished):
        sources.tell(spec.label, done, len(sources.finished))
        ledger = sources.ledgers[spec.id]
        steps = ledger.steps
        metrics = gather_metrics(
            metrics_of(inputs.metrics, inputs.transcripts.get(spec.id)),
            inputs.plugins,
            ledger,
            inputs.snapshot,
            inputs.rules,
            inputs.resampling,
        )
        episode = TradingEpisode(
            **_recorded_parts(spec, steps, inputs),
            first_day=steps[0].filled_on,
            last_day=steps[-1].filled_on,
            final_nav_minor=steps[-1].nav_minor,
            orders=gather_orders(steps),
            stale=gather_stale(ledger, inputs.snapshot),
            metrics=metrics,
        )
        episodes.append(episode)

    return episodes


def gather_scoring_episodes(sources: ScoringSources) -> list[ScoringEpisode]:
    """Return the card entry for each finished episode."""
    episodes = []
    for spec in sources.finished:
        records = sources.answers[spec.id]
        answered = sum(record.answer is not None for record in records)
        parts = _recorded_parts(spec, records, sources.inputs)
        episodes.append(ScoringEpisode(**parts, answered=answered))

    return episodes


def _recorded_parts(
    spec: EpisodeSpec,
    records: Sequence[StepRecord] | Sequence[AnswerRecord],
    inputs: EvaluationInputs,
) -> dict[str, Any]:
    """Return the fields that finished trading and scoring episodes have in common."""
    return {
        "id": spec.id,
        "window": spec.window_name,
        "seed": spec.seed,
        "steps": len(records),
        "decisions": gather_decisions(record.provenance for record in records),
        "failures": add_counts(record.failures for record in records),
        "usage": gather_usage(records),
        "uncounted": inputs.uncounted.get(spec.id, 0),
        "roles": list(inputs.roles.get(spec.id, ())),
        "served": list(inputs.served.get(spec.id, ())),
        "made_by": list(inputs.makers.get(spec.id, ())),
    }


def gather_missing_trading(sources: TradingSources) -> list[MissingTradingEpisode]:
    """Return the card entry for each episode that did not finish."""
    return [
        MissingTradingEpisode(id=spec.id, window=spec.span.name, seed=spec.seed, error=error)
        for spec, error in sources.missing
    ]


def gather_missing_scoring(sources: ScoringSources) -> list[MissingScoringEpisode]:
    """Return the card entry for each episode that did not finish, with its number of samples."""
    return [
        MissingScoringEpisode(
            id=spec.id,
            window=spec.window_name,
            seed=spec.seed,
            error=error,
            steps=samples_of(sources.inputs, spec.id),
        )
        for spec, error in sources.missing
    ]


# ---- checks


#: A planned episode with its path on the card
PlannedEpisode = tuple[JsonPath, Finished | MissingEpisode]


def _cell_words(window: str | None, seed: int) -> str:
    """Return a description of a planned episode, without a window if the task has no market."""
    return f"seed {seed}" if window is None else f"seed {seed} of window {window}"


def plan_of(facts: Evaluation) -> EpisodeSpec:
    """Return the part of the episode specs that all of a card's episodes share."""
    further = []
    for model in facts.further_models:
        further.append(FurtherModel(model.asked_as, model.name, model.args, model.tool_protocol))

    return EpisodeSpec(
        task=facts.task.name,
        task_version=facts.task.version,
        task_hash=facts.task.hash,
        snapshot=None if facts.snapshot is None else facts.snapshot.id,
        mask=facts.task.mask,
        mode=facts.task.mode,
        window=None,
        model=facts.model.name,
        model_args=facts.model.args,
        agent=facts.agent.name,
        agent_args=facts.agent.args,
        call=facts.call,
        limit=facts.limit,
        mask_key=facts.mask_key or None,
        further_models=tuple(further),
    )


def _plan_problems(facts: AnyFacts) -> Iterator[Problem]:
    """Yield a problem if finished and missing episodes together are not the run's whole plan."""
    windows: dict[str | None, Window | None] = {}
    for each in facts.windows:
        windows[each.name] = Window(each.name, each.first, each.last)

    if not windows:  # a task without a market has one episode per seed
        windows[None] = None

    planned: list[PlannedEpisode] = []
    for field in ("episodes", "missing_episodes"):
        for index, episode in enumerate(getattr(facts, field)):
            planned.append(((field, index), episode))

    yield from _id_problems(planned, windows, plan_of(facts))
    yield from _seed_problems([episode for _, episode in planned], windows, facts.seeds)


def _id_problems(
    planned: Iterable[PlannedEpisode],
    windows: Mapping[str | None, Window | None],
    spec: EpisodeSpec,
) -> Iterator[Problem]:
    """Yield a problem for each window that the card does not have, and for each episode id that
    does not follow from the card's own fields. `spec` is the part that the specs of all episodes
    share.
    """
    seen: set[str] = set()
    for where, episode in planned:
        if episode.window not in windows:
            near = near_matches(str(episode.window), map(str, windows))
            yield (*where, "window"), f"no window of that name{near}"
            return

        own = replace(spec, window=windows[episode.window], seed=episode.seed)
        if episode.id != own.id:
            yield (*where, "id"), "is not the hash of the episode's spec"

        if episode.id in seen:
            yield (*where, "id"), "appears twice"

        seen.add(episode.id)


def _seed_problems(
    planned: Iterable[Finished | MissingEpisode],
    windows: Iterable[str | None],
    seeds: Sequence[int],
) -> Iterator[Problem]:
    """Yield problems if episodes were removed, so that the plan no longer pairs each window with
    each seed in a range.
    """
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        yield ("seeds",), "must be consecutive numbers, as those of a run are"

    pairs = dict.fromkeys((episode.window, episode.seed) for episode in planned)
    for window, seed in product(windows, seeds):
        if (window, seed) not in pairs:
            yield ("seeds",), f"{_cell_words(window, seed)} is neither finished nor missing"

    expected = set(seeds)
    for window, seed in pairs:
        if seed not in expected:
            yield ("seeds",), f"{_cell_words(window, seed)} is not one of the seeds"


def trading_problems(episodes: Sequence[TradingEpisode], facts: TradingFacts) -> Iterator[Problem]:
    """Yield problems if the episodes are not the planned ones or contradict themselves."""
    yield from _plan_problems(facts)
    for index, episode in enumerate(episodes):
        steps = facts.steps_of(episode.window)
        if episode.steps != steps or episode.decisions.steps != steps:
            yield (
                ("episodes", index, "steps"),
                f"the window and limit give {steps} steps, each with one decision",
            )

    yield from _maker_problems(episodes, facts)


def scoring_problems(episodes: Sequence[ScoringEpisode], facts: ScoringFacts) -> Iterator[Problem]:
    """Yield problems if the episodes are not the planned ones or contradict themselves."""
    yield from _plan_problems(facts)
    yield from _limit_problems(facts)
    for index, episode in enumerate(episodes):
        decisions = episode.decisions
        if decisions.steps != episode.steps:
            yield (
                ("episodes", index, "decisions"),
                f"the episode has {episode.steps} steps, each with one decision",
            )

        if episode.answered > decisions.by_model:
            yield ("episodes", index, "answered"), "more answers than steps that the model decided"

    yield from _maker_problems(episodes, facts)


def _limit_problems(facts: ScoringFacts) -> Iterator[Problem]:
    if facts.limit is None:
        return

    for field in ("episodes", "missing_episodes"):
        for index, episode in enumerate(getattr(facts, field)):
            if episode.steps > facts.limit:
                yield (field, index, "steps"), f"the limit is {facts.limit}"


def _maker_problems(episodes: Iterable[Finished], facts: AnyFacts) -> Iterator[Problem]:
    known = {model.asked_as for model in facts.further_models}
    for index, episode in enumerate(episodes):
        yield from maker_problems(index, episode.decisions.steps, episode.made_by)
        yield from served_problems(index, episode, known)
        yield from isolation_problems(index, episode)

    calls = facts.provenance.calls
    if facts.deciders and calls is not None and calls != calls.without_served():
        yield ("provenance", "calls", "served_by"), "is counted by episode, in `served`"


# ---- wording


def agent_rows(episodes: Iterable[Finished], facts: object = None) -> Iterator[Row]:
    """Yield rows on which model answered, and which code produced the steps."""
    listed = list(episodes)
    answered = served_words(listed)
    if answered:
        yield field_label("episodes.served"), answered

    yield from maker_rows(listed, facts)


def missing_notes(episodes: Iterable[MissingEpisode]) -> Iterator[str]:
    """Yield a line for each planned episode that did not finish."""
    for episode in episodes:
        yield f"missing: window {episode.window or 'none'}, seed {episode.seed}: {episode.error}"
