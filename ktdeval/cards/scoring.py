"""Card of a scoring task: a pure function of recorded answers and of the scores that the task made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from msgspec.structs import asdict, replace

from ktdeval.cards.card import ScoreLine, ScoringCard, ScoringFacts, TargetTaskPart
from ktdeval.cards.compare import is_close
from ktdeval.cards.cutoff import cutoff_fields, cutoff_problems
from ktdeval.cards.derive import add_counts, derive_common, token_cost
from ktdeval.cards.inputs import EvaluationInputs, Problem, common_fields, decode_strict, ordered_plan, planned_days, price_of
from ktdeval.cards.parts import Definition, PriceEntry, UsageCounts
from ktdeval.contracts.scoring import AnswerRecord, Score, ScoreDefinition
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.errors import CardError, PluginError
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval.plugin_import import call_foreign
from ktdeval.stats.intervals import Interval, clopper_pearson_upper, wilson
from ktdeval.stats.metric import range_problem
from ktdeval.trading.types import DECIDED, PROVENANCES

TARGET_CONFIG = "subject_config"  #: Field of a scoring task's config that holds the config of its target task


@dataclass(frozen=True, kw_only=True)
class ScoringInputs(EvaluationInputs):
    """Inputs of the card of a scoring task."""

    answers: Sequence[tuple[EpisodeSpec, Sequence[AnswerRecord]]]  #: the finished episodes, with all records in order of samples
    samples: Mapping[str, int]  #: spec.id -> samples of the episode (of its sample set, or its limit where less), for every spec
    scores: Mapping[str, Score]  #: what the task's `summarise` gives over the records of all finished episodes together
    definitions: Mapping[str, ScoreDefinition]  #: what each score means (`ScoringTask.scores`), in the order shown


def build_scoring_card(inputs: ScoringInputs) -> ScoringCard:
    """Build the result card of one evaluation on a scoring task (one task, model and agent over windows and seeds). Two calls with
    equal inputs give equal cards whatever the order of specs, episodes and missing episodes; only `provenance` is passed through as
    it is. Raises CardError: the inputs contradict each other (a spec of another task or snapshot, a planned episode that is neither
    finished nor missing, an episode whose answers are not all its samples', a value that is not strict JSON); PluginError: the
    task's scores are not those that it defines, or no scores.
    """
    planned = ordered_plan(inputs)
    finished = _answers_by_id(inputs, planned)
    days = planned_days(planned, inputs.snapshot)
    common = common_fields(inputs, planned, days, finished.keys(), "answers")
    facts = decode_strict(
        {
            "kind": "scoring",
            **common,
            **cutoff_fields(inputs, days),
            "episodes": [
                _episode(spec, finished[spec.id], inputs.uncounted.get(spec.id, 0)) for spec in planned if spec.id in finished
            ],
            "missing_episodes": [{**entry, "steps": _samples(inputs, entry["id"])} for entry in common["missing_episodes"]],
            "scores": _scores(inputs, planned[0].task),
            "score_order": list(inputs.definitions),
        },
        ScoringFacts,
    )
    return ScoringCard(**asdict(facts), **_derived(facts, price_of(inputs)))


def derive_scoring(card: ScoringCard) -> ScoringCard:
    """Recompute the fields that follow from the episodes of a card and its price."""
    return replace(card, **_derived(card, card.cost.price or None))


def _derived(card: ScoringFacts, price: PriceEntry | None) -> dict[str, Any]:
    config = card.task.config.get(TARGET_CONFIG)
    target = TargetTaskPart(name=str(config.get("name")), hash=content_hash(config)) if isinstance(config, Mapping) else None
    return {**derive_common(card), "cost": token_cost(card.episodes, card.episodes, price), "target_task": target}


def _samples(inputs: ScoringInputs, identity: str) -> int:
    if identity not in inputs.samples:
        raise CardError(f"episode {identity}: how many samples it has is not given")
    return inputs.samples[identity]


def _answers_by_id(inputs: ScoringInputs, planned: Sequence[EpisodeSpec]) -> dict[str, Sequence[AnswerRecord]]:
    """Return answers by the id of their episode; CardError unless each sample has one, since a part must not pass for the whole."""
    planned_ids = {spec.id for spec in planned}
    answers: dict[str, Sequence[AnswerRecord]] = {}
    for spec, records in inputs.answers:
        if spec.id not in planned_ids:
            raise CardError(f"answers belong to episode {spec.id}, which the plan does not have")
        if spec.id in answers:
            raise CardError(f"episode {spec.id} has two sets of answers")
        where, samples = f"episode {spec.id} ({spec.label})", _samples(inputs, spec.id)
        for record in records:
            if record.answer is not None and record.provenance not in DECIDED:
                raise CardError(f"{where}: step {record.step} has an answer though the model gave none ({record.provenance})")
        if [record.step for record in records] != list(range(samples)):
            raise CardError(
                f"{where}: the {len(records)} answers are not those of its {samples} samples in order; resume the run, or list the"
                " episode as missing"
            )
        answers[spec.id] = records
    return answers


def _episode(spec: EpisodeSpec, records: Sequence[AnswerRecord], uncounted: int) -> dict[str, JsonValue]:
    """Return the card's entry of one finished episode, with so many replies whose tokens nobody counted."""
    provenances = Counter(record.provenance for record in records)
    return {
        "id": spec.id,
        "window": spec.window_name,
        "seed": spec.seed,
        "steps": len(records),
        "answered": sum(record.answer is not None for record in records),
        "decisions": {provenance: provenances[provenance] for provenance in PROVENANCES},
        "failures": add_counts(record.failures for record in records),
        "usage": {name: sum(getattr(record, name) for record in records) for name in UsageCounts.__struct_fields__},
        "uncounted": uncounted,
    }


def _scores(inputs: ScoringInputs, task: str) -> dict[str, JsonValue]:
    """Return each score with its definition; PluginError if one is missing, unknown, or no `Score` with a value or reason."""
    if not isinstance(inputs.scores, Mapping):
        raise PluginError(f"task {task}: summarise() returned {type(inputs.scores).__name__}, expected a mapping of names to Score")
    if odd := sorted(set(inputs.scores) ^ set(inputs.definitions)):
        problem = "is not defined in its scores" if odd[0] in inputs.scores else "is missing from what summarise() returned"
        raise PluginError(f"task {task}: score {odd[0]!r} {problem}")
    return {name: _score(task, name, inputs.scores[name], definition) for name, definition in inputs.definitions.items()}


def _score(task: str, name: str, score: Score, definition: ScoreDefinition) -> dict[str, JsonValue]:
    if not isinstance(score, Score):
        raise PluginError(f"task {task}: score {name!r} is a {type(score).__name__}; summarise() must return Score objects")
    if (score.value is None) == (not score.reason):
        raise PluginError(f"task {task}: score {name!r} must have either a value or the reason why it has none")
    if not isinstance(score.n, SupportsIndex) or int(score.n) < 0:
        raise PluginError(f"task {task}: score {name!r}: n must be a count of samples, was {score.n!r:.80}")
    if not isinstance(score.interval, Interval | None):
        raise PluginError(f"task {task}: score {name!r}: interval must be a ktdeval.stats.Interval, was {score.interval!r:.80}")
    for value in (score.value, score.baseline):
        if problem := call_foreign(range_problem, f"task {task}: score {name!r}", value, definition.range):
            raise PluginError(f"task {task}: score {name!r}: {problem}; fix the score, or the range that it declares")
    return {
        **{name: getattr(definition, name) for name in Definition.__struct_fields__},
        "better": definition.better or "neither",
        "value": None if score.value is None else float(score.value),
        "n": int(score.n),
        "interval": None if score.interval is None else score.interval.to_json(),
        "baseline": None if score.baseline is None else float(score.baseline),
        "detail": score.detail,
        **({"reason": score.reason} if score.value is None else {}),
    }


def recorded_as(card: ScoringCard, score: str, recorded: Container[str]) -> str | None:
    """Return the name of a score in recorded answers: its own, or with the task's rule set before it (`paper_overall`)."""
    names = (score, f"{card.task.config.get('rules')}_{score}")
    return next((name for name in names if name in recorded), None)


# ---- checks


def scoring_problems(card: ScoringCard) -> Iterator[Problem]:
    """Yield counts or scores that contradict the rest of the card: its episodes' counts, and each score's own detail."""
    yield from cutoff_problems(card)
    for field in ("episodes", "missing_episodes"):
        for index, episode in enumerate(getattr(card, field)):
            if card.limit is not None and episode.steps > card.limit:
                yield (field, index, "steps"), f"the limit is {card.limit}"
    for index, episode in enumerate(card.episodes):
        decisions = episode.decisions
        if sum(asdict(decisions).values()) != episode.steps:
            yield ("episodes", index, "decisions"), f"the episode has {episode.steps} steps, each with one decision"
        if episode.answered > decisions.model + decisions.model_after_retry:
            yield ("episodes", index, "answered"), "more answers than steps that the model decided"
    if sorted(card.score_order) != sorted(card.scores):
        yield ("score_order",), "must name every score once, and nothing else"
    steps = sum(episode.steps for episode in card.episodes)
    for name, score in card.scores.items():
        for path, problem in (*_range_problems(score, steps), *_proportion_problems(score)):
            yield ("scores", name, *path), problem


def _range_problems(score: ScoreLine, steps: int) -> Iterator[Problem]:
    if score.n > steps:
        yield ("n",), f"the finished episodes have {steps} samples"
    for field in ("value", "baseline"):
        if problem := range_problem(getattr(score, field), score.range):
            yield (field,), problem


def _proportion_problems(score: ScoreLine) -> Iterator[Problem]:
    """Yield what does not follow from the number of successes of a share: value, Wilson's interval, the exact bound."""
    n, interval, successes = score.n, score.interval, score.detail.get("successes")
    if score.value is None or type(successes) is not int:
        return
    if not 0 <= successes <= n or n == 0:
        yield ("detail", "successes"), f"of {n} trials"
        return
    if score.value != successes / n:
        yield ("value",), f"recorded {score.value}, {successes} successes of {n} are {successes / n}"
    follows: list[tuple[tuple[str, ...], JsonValue, float | None]] = []
    if interval is not None and interval.kind == "Wilson score":
        exact = wilson(successes, n, interval.level or 0.95)
        follows += [(("interval", "low"), interval.low, exact.low), (("interval", "high"), interval.high, exact.high)]
    if (upper := score.detail.get("upper_95")) is not None:
        follows.append((("detail", "upper_95"), upper, clopper_pearson_upper(successes, n)))
    for path, recorded, expected in follows:
        if not is_close(recorded, expected):
            yield path, f"recorded {recorded}, {successes} successes of {n} give {expected}"
