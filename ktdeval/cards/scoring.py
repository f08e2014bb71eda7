"""Build the result card of a scoring task: a pure function of recorded answers and of the scores that the task made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktdeval.cards.aggregate import DEFINITION_FIELDS, coverage_of, labels, sums
from ktdeval.cards.common import EvaluationInputs, common_fields, missing_entries, ordered_plan, strict_card, to_plain
from ktdeval.cards.cost import token_cost
from ktdeval.cards.episodes import PROVENANCES, USAGE_COUNTS
from ktdeval.cards.ranking import rankable
from ktdeval.errors import CardError, PluginError
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical
from ktdeval.runner.scoring import ANSWER_FIELDS, AnswerRecord, Score, ScoreDefinition
from ktdeval.runner.spec import EpisodeSpec

KIND = "scoring"
"""`kind` of the cards that `build_scoring_card` makes."""

SCHEMA_VERSION = 1
"""Version of `schema/scoring-card-v1.json` that `build_scoring_card` writes."""

SUBJECT_CONFIG = "subject_config"
"""Field of a scoring task's config that holds the config of its subject."""

DERIVED = ("cost", "coverage", "decisions", "failures", "labels", "rankable", "subject", "usage")
"""The fields of a scoring card that `derived_fields` gives."""

Entry = Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class ScoringInputs(EvaluationInputs):
    """Everything the card of a scoring task is made of.

    Attributes:
        answers: the finished episodes with all their answer records, in order of their samples.
        samples: spec.id -> how many samples the episode has (its exam's, or its limit where that is less), for every spec.
        scores: what the task's `summarise` gives over the records of all finished episodes together.
        definitions: what each score means (`ScoringTask.scores`), in the order shown.
        subject: description of the subject task, as it stands in `task` under `SUBJECT_CONFIG`; None where it has none.
    """

    answers: Sequence[tuple[EpisodeSpec, Sequence[AnswerRecord]]]
    samples: Mapping[str, int]
    scores: Mapping[str, Score]
    definitions: Mapping[str, ScoreDefinition]
    subject: Mapping[str, JsonValue] | None = None


def build_scoring_card(inputs: ScoringInputs) -> dict[str, JsonValue]:
    """The result card of one evaluation on a scoring task (one task, model and agent over windows and seeds).

    Two calls with equal inputs give equal cards whatever the order of specs, episodes and missing episodes; only `provenance` is
    passed through as it is.

    Returns:
        A JSON object that follows `schema/scoring-card-v1.json`; `ktdeval.jsonio.dumps_pretty` gives its file.

    Raises:
        CardError: the inputs contradict each other (a spec of another task or snapshot, a planned episode that is neither finished
            nor missing, an episode whose answers are not all its samples', a value that is not strict JSON).
        PluginError: the task's scores are not those that it defines, or no scores.
    """
    planned = ordered_plan(inputs)
    _check_subject(inputs)
    finished = _answers_by_id(inputs, planned)
    missing = missing_entries(inputs, planned, finished.keys(), "answers")
    card: dict[str, JsonValue] = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        **common_fields(inputs, planned),
        "episodes": [_episode(spec, finished[spec.id]) for spec in planned if spec.id in finished],
        "missing_episodes": [{**entry, "steps": _samples(inputs, entry["id"])} for entry in missing],
        "scores": _scores(inputs, planned[0].task),
        "score_order": list(inputs.definitions),
    }
    card |= derived_fields(card)
    return strict_card(card)


def derived_fields(card: Entry) -> dict[str, JsonValue]:
    """The fields named in `DERIVED`, from the other fields of the card. Of `cost`, its price is an input."""
    episodes: Sequence[Entry] = card["episodes"]
    planned = sum(episode["steps"] for episode in (*episodes, *card["missing_episodes"]))
    coverage = coverage_of(card, planned, sum(episode["answered"] for episode in episodes))
    return {
        "cost": token_cost(episodes, card["cost"].get("price")),
        "coverage": coverage,
        "decisions": sums((episode["decisions"] for episode in episodes), PROVENANCES),
        "failures": sums(episode["failures"] for episode in episodes),
        "labels": labels(card, coverage),
        "rankable": rankable(card, coverage, "sample"),
        "subject": _subject(card["task"]["config"].get(SUBJECT_CONFIG)),
        "usage": sums((episode["usage"] for episode in episodes), USAGE_COUNTS),
    }


def _subject(config: JsonValue) -> dict[str, JsonValue] | None:
    """Name and hash of the subject task; its config stands in that of the task."""
    if not isinstance(config, Mapping):
        return None
    return {"name": str(config.get("name")), "hash": content_hash(to_plain(config))}


def _check_subject(inputs: ScoringInputs) -> None:
    if dumps_canonical(to_plain(inputs.task.get(SUBJECT_CONFIG))) != dumps_canonical(to_plain(inputs.subject)):
        raise CardError(f"the subject is not the one in the task's config under {SUBJECT_CONFIG!r}")


def _samples(inputs: ScoringInputs, identity: str) -> int:
    if identity not in inputs.samples:
        raise CardError(f"episode {identity}: how many samples it has is not given")
    return inputs.samples[identity]


def _answers_by_id(inputs: ScoringInputs, planned: Sequence[EpisodeSpec]) -> dict[str, Sequence[AnswerRecord]]:
    known = {spec.id for spec in planned}
    found: dict[str, Sequence[AnswerRecord]] = {}
    for spec, records in inputs.answers:
        if spec.id not in known:
            raise CardError(f"answers belong to episode {spec.id}, which the plan does not have")
        if spec.id in found:
            raise CardError(f"episode {spec.id} has two sets of answers")
        _check_complete(f"episode {spec.id} ({spec.window.name}, seed {spec.seed})", records, _samples(inputs, spec.id))
        found[spec.id] = records
    return found


def _check_complete(where: str, records: Sequence[AnswerRecord], samples: int) -> None:
    """Refuse answers that are not one to each sample, so that a part is never shown as the whole."""
    for record in records:
        if set(record) != set(ANSWER_FIELDS):
            raise CardError(f"{where}: an answer record does not have the fields {', '.join(ANSWER_FIELDS)}")
        if record["answer"] is not None and record["provenance"] not in ("model", "model_after_retry"):
            raise CardError(f"{where}: step {record['step']} has an answer though the model gave none ({record['provenance']})")
    if [record["step"] for record in records] != list(range(samples)):
        raise CardError(
            f"{where}: the {len(records)} answers are not those of its {samples} samples in order; resume the run, or list the"
            " episode as missing"
        )


def _episode(spec: EpisodeSpec, records: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    """The card's entry of one finished episode."""
    provenances = Counter(record["provenance"] for record in records)
    return {
        "id": spec.id,
        "window": spec.window.name,
        "seed": spec.seed,
        "steps": len(records),
        "answered": sum(record["answer"] is not None for record in records),
        "decisions": {provenance: provenances[provenance] for provenance in PROVENANCES},
        "failures": sums(record["failures"] for record in records),
        "usage": sums(records, USAGE_COUNTS),
    }


def _scores(inputs: ScoringInputs, task: str) -> dict[str, JsonValue]:
    """Each score with what it means.

    Raises:
        PluginError: a score is missing, unknown, or not a `Score` with a value or the reason why it has none.
    """
    if odd := sorted(set(inputs.scores) ^ set(inputs.definitions)):
        problem = "is not defined in its scores" if odd[0] in inputs.scores else "is missing from what summarise() returned"
        raise PluginError(f"task {task}: score {odd[0]!r} {problem}")
    return {name: _score(task, name, inputs.scores[name], definition) for name, definition in inputs.definitions.items()}


def _score(task: str, name: str, score: Score, definition: ScoreDefinition) -> dict[str, JsonValue]:
    if not isinstance(score, Score):
        raise PluginError(f"task {task}: score {name!r} is a {type(score).__name__}; summarise() must return Score objects")
    if (score.value is None) == (not score.reason):
        raise PluginError(f"task {task}: score {name!r} must have either a value or the reason why it has none")
    meaning: dict[str, JsonValue] = {field: getattr(definition, field) for field in DEFINITION_FIELDS}
    return {
        **meaning,
        "better": definition.better or "neither",
        "value": None if score.value is None else float(score.value),
        "n": int(score.n),
        "interval": None if score.interval is None else score.interval.to_json(),
        "baseline": None if score.baseline is None else float(score.baseline),
        "detail": score.detail,
        **({"reason": score.reason} if score.value is None else {}),
    }
