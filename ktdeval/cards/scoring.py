"""Card of a scoring task: a pure function of recorded answers and of the scores that the task made
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict, replace

from ktdeval.calls.prices import PriceEntry
from ktdeval.cards.card import ScoringCard, ScoringFacts
from ktdeval.cards.derive import derive_common
from ktdeval.cards.fields.basics import Problem, add_counts
from ktdeval.cards.fields.cost import card_prices, token_cost
from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.cutoff import cutoff_problems
from ktdeval.cards.fields.decisions import gather_decisions
from ktdeval.cards.fields.episode_parts import MissingScoringEpisode, ScoringEpisode
from ktdeval.cards.fields.episodes import missing_specs, scoring_episode_problems
from ktdeval.cards.fields.roles import role_costs
from ktdeval.cards.fields.scores import gather_scores, score_problems
from ktdeval.cards.fields.task import gather_task, target_task
from ktdeval.cards.fields.tokens import gather_usage
from ktdeval.cards.fields.windows import planned_days
from ktdeval.cards.inputs import EvaluationInputs, common_facts, ordered_plan
from ktdeval.errors import CardError
from ktdeval.tasks.scoring import AnswerRecord, Score, ScoreDefinition
from ktdeval.tasks.spec import EpisodeSpec
from ktdeval.trading.types import DECIDED


@dataclass(frozen=True, kw_only=True)
class ScoringInputs(EvaluationInputs):
    """Inputs of the card of a scoring task."""

    #: the finished episodes, with all records in order of samples
    answers: Sequence[tuple[EpisodeSpec, Sequence[AnswerRecord]]]
    #: spec.id -> samples of the episode (of its sample set, or its limit where less), for every
    #: spec
    samples: Mapping[str, int]
    #: what the task's `summarise` gives over the records of all finished episodes together
    scores: Mapping[str, Score]
    #: what each score means (`ScoringTask.scores`), in the order shown
    definitions: Mapping[str, ScoreDefinition]


def build_scoring_card(inputs: ScoringInputs) -> ScoringCard:
    """Build the result card of one evaluation on a scoring task (one task, model and agent over
    windows and seeds).

    Two calls with equal inputs give equal cards whatever the order of specs, episodes and missing
    episodes; only `provenance` is passed through as it is. Raises CardError: the inputs contradict
    each other (a spec of another task or snapshot, a planned episode that is neither finished nor
    missing, an episode whose answers are not all its samples', a value that is not strict JSON);
    PluginError: the task's scores are not those that it defines, or no scores.
    """
    planned = ordered_plan(inputs)
    answers = _answers_by_id(inputs, planned)
    days = planned_days(planned, inputs.snapshot)
    missing = missing_specs(planned, answers.keys(), inputs.missing_episodes, "answers")
    finished = [spec for spec in planned if spec.id in answers]

    facts = ScoringFacts(
        kind="scoring",
        task=gather_task(planned[0], inputs.task),
        **common_facts(inputs, planned, days),
        episodes=[_gather_episode(spec, answers[spec.id], inputs) for spec in finished],
        missing_episodes=[_gather_missing(spec, error, inputs) for spec, error in missing],
        scores=gather_scores(planned[0].task, inputs.scores, inputs.definitions),
        score_order=list(inputs.definitions),
    )
    return ScoringCard(**asdict(facts), **_derived(facts, inputs.price))


def derive_scoring(card: ScoringCard) -> ScoringCard:
    """Recompute the fields that follow from the episodes of a card and its price."""
    return replace(card, **_derived(card, card.cost.price or None))


def _derived(card: ScoringFacts, price: PriceEntry | None) -> dict[str, Any]:
    """Return the fields of a card that follow from others."""
    tokens = [episode.tokens for episode in card.episodes]
    return {
        **derive_common(card, _coverage(card), "sample"),
        "cost": token_cost(tokens, tokens, card_prices(card, price)),
        "roles": role_costs(card.episodes, price, card.further_models),
        "target_task": target_task(card.task.config),
    }


def _coverage(card: ScoringFacts) -> Coverage:
    steps = sum(episode.steps for episode in card.episodes)
    missing = sum(episode.steps for episode in card.missing_episodes)
    return Coverage(
        episodes_planned=len(card.episodes) + len(card.missing_episodes),
        episodes_finished=len(card.episodes),
        steps_planned=steps + missing,
        steps=steps,
        steps_decided=sum(episode.answered for episode in card.episodes),
    )


def scoring_problems(card: ScoringCard) -> Iterator[Problem]:
    """Yield counts or scores that contradict the rest of the card: its episodes' counts, and each
    score's own detail.
    """
    yield from cutoff_problems(card.knowledge_cutoff, card.windows)
    yield from _limit_problems(card)
    for index, episode in enumerate(card.episodes):
        yield from scoring_episode_problems(index, episode)

    if sorted(card.score_order) != sorted(card.scores):
        yield ("score_order",), "must name every score once, and nothing else"

    yield from score_problems(card.scores, sum(episode.steps for episode in card.episodes))


def _limit_problems(card: ScoringCard) -> Iterator[Problem]:
    if card.limit is None:
        return

    for field in ("episodes", "missing_episodes"):
        for index, episode in enumerate(getattr(card, field)):
            if episode.steps > card.limit:
                yield (field, index, "steps"), f"the limit is {card.limit}"


# ---- from answers


def _answers_by_id(
    inputs: ScoringInputs, planned: Sequence[EpisodeSpec]
) -> dict[str, Sequence[AnswerRecord]]:
    """Return answers by the id of their episode. Raises CardError: a sample has no answer, since a
    part must not pass for the whole.
    """
    planned_ids = {spec.id for spec in planned}
    answers: dict[str, Sequence[AnswerRecord]] = {}
    for spec, records in inputs.answers:
        if spec.id not in planned_ids:
            raise CardError(f"answers belong to episode {spec.id}, which the plan does not have")
        if spec.id in answers:
            raise CardError(f"episode {spec.id} has two sets of answers")

        where = f"episode {spec.id} ({spec.label})"
        samples = _samples(inputs, spec.id)
        for record in records:
            if record.answer is not None and record.provenance not in DECIDED:
                raise CardError(
                    f"{where}: step {record.step} has an answer though the model gave none"
                    f" ({record.provenance})"
                )

        if [record.step for record in records] != list(range(samples)):
            raise CardError(
                f"{where}: the {len(records)} answers are not those of its {samples} samples in"
                " order; resume the run, or list the episode as missing"
            )

        answers[spec.id] = records

    return answers


def _samples(inputs: ScoringInputs, identity: str) -> int:
    if identity not in inputs.samples:
        raise CardError(f"episode {identity}: how many samples it has is not given")
    return inputs.samples[identity]


def _gather_episode(
    spec: EpisodeSpec, records: Sequence[AnswerRecord], inputs: ScoringInputs
) -> ScoringEpisode:
    """Return the card's entry of one finished episode."""
    return ScoringEpisode(
        id=spec.id,
        window=spec.window_name,
        seed=spec.seed,
        steps=len(records),
        answered=sum(record.answer is not None for record in records),
        decisions=gather_decisions(record.provenance for record in records),
        failures=add_counts(record.failures for record in records),
        usage=gather_usage(records),
        uncounted=inputs.uncounted.get(spec.id, 0),
        roles=list(inputs.roles.get(spec.id, ())),
        made_by=list(inputs.makers.get(spec.id, ())),
    )


def _gather_missing(spec: EpisodeSpec, error: str, inputs: ScoringInputs) -> MissingScoringEpisode:
    return MissingScoringEpisode(
        id=spec.id,
        window=spec.window_name,
        seed=spec.seed,
        error=error,
        steps=_samples(inputs, spec.id),
    )
