"""Cards of a small scoring task, built from hand-written answers, for the tests of such cards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from ktdeval.calls.costs.prices import FREE
from ktdeval.cards.assembly import build_scoring_card
from ktdeval.cards.fields.card_inputs import ScoringInputs
from ktdeval.stats.intervals import clopper_pearson_upper, wilson
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import AnswerRecord, Score, ScoreDefinition
from ktdeval.values import content_hash, from_plain
from support.figures.card_cases import CALLS, PROVENANCE, card, paid, remote_card, typed_inputs
from support.figures.metric_cases import TASK as SUBJECT, market, spec

TASK: Mapping[str, Any] = {
    "name": "name_probe",
    "version": "1",
    "sources": ["KTD-Fin"],
    "subject_config": SUBJECT,
}
SAMPLES = 20

DEFINITIONS: Mapping[str, ScoreDefinition] = {
    "right_name": ScoreDefinition(
        "the name is right", "fraction of answers", (0.0, 1.0), "lower", "a test"
    ),
    "distance": ScoreDefinition("mean distance of the day", "days", (0.0, None), "", "a test"),
    "unparsable_rate": ScoreDefinition(
        "no valid answer", "fraction of samples", (0.0, 1.0), "lower", "a test", headline=False
    ),
}


def score_spec(seed: int = 0, limit: int | None = None, **changes: Any) -> EpisodeSpec:
    """An episode of the scoring task."""
    own = {"task": TASK["name"], "task_hash": content_hash(TASK), "mode": "name_probe"}
    return spec(seed, limit, **(own | changes))


def record(
    step: int, provenance: str = "model", right: bool = False, **changes: Any
) -> AnswerRecord:
    """An answer record; a fallback or error has no answer."""
    answered = provenance in ("model", "model_after_retry")
    made: dict[str, Any] = {
        "step": step,
        "sample": f"probe_{step:04d}",
        "provenance": provenance,
        "failures": {} if provenance == "model" else {"schema": 1},
        "tool_calls": 1,
        "tool_calls_valid": int(answered),
        "submissions": 1,
        "unmask_attempts": 0,
        "input_tokens": 10,
        "reasoning_tokens": 1,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 2,
        "answer": {"name": "A"} if answered else None,
        "facts": {"name": "A" if right else "B"},
        "scores": {"right_name": right} if answered else {},
    }

    return from_plain(made | changes, AnswerRecord, "answer")


def answers(of: EpisodeSpec, unanswered: int = 1) -> list[AnswerRecord]:
    """Answers to all samples of an episode: the third right, the last ones missing."""
    samples = of.limit or SAMPLES
    answered = samples - unanswered

    return [
        record(step, "model" if step < answered else "fallback", right=step == 2)
        for step in range(samples)
    ]


def share(successes: int, n: int, baseline: float | None = 0.05) -> Score:
    """A share with its interval and exact bound."""
    detail = {
        "successes": successes,
        "upper_95": clopper_pearson_upper(successes, n),
        "by_window": {"long": {"n": n}},
    }
    return Score(successes / n, n, wilson(successes, n), baseline, detail)


def summarise(records: Sequence[AnswerRecord]) -> dict[str, Score]:
    """The scores of the small task."""
    valid = [each for each in records if each.answer is not None]
    if not valid:
        none = Score(None, 0, reason="no probe has a valid answer")
        return {"right_name": none, "distance": none, "unparsable_rate": none}

    right = sum(each.scores["right_name"] for each in valid)

    return {
        "right_name": share(right, len(valid)),
        "distance": Score(12.5, len(valid)),
        "unparsable_rate": share(len(records) - len(valid), len(records), None),
    }


def scoring_inputs(
    seeds: Sequence[int] = (0,),
    failed: Collection[int] = (),
    limit: int | None = None,
    **changes: Any,
) -> ScoringInputs:
    """Inputs of a card over one window; episodes of `failed` seeds have no answers."""
    call = changes.pop("call", {"temperature": 0.7})
    specs = changes.get("specs") or [score_spec(seed, limit, call=call) for seed in seeds]
    given = changes.get("answers") or [
        (each, answers(each)) for each in specs if each.seed not in failed
    ]
    fields: dict[str, Any] = {
        "task": TASK,
        "price": FREE,
        "snapshot": market(),
        "specs": specs,
        "answers": given,
        "samples": {each.id: each.limit or SAMPLES for each in specs},
        "scores": summarise(list(chain.from_iterable(records for _, records in given))),
        "definitions": DEFINITIONS,
        "artefacts": {"episodes/x/answers.jsonl.zst": "a" * 64},
        "missing_episodes": {
            each.id: "the model\ncall failed" for each in specs if each.seed in failed
        },
        "provenance": PROVENANCE,
    }

    return ScoringInputs(**typed_inputs(fields | changes))


def scoring_card(
    seeds: Sequence[int] = (0,),
    failed: Collection[int] = (),
    limit: int | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A card over one window."""
    return build_scoring_card(scoring_inputs(seeds, failed, limit, **changes)).plain


CARDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "trading": card,
    "trading, cut": lambda: card((0, 1), {1}, limit=3),
    "trading, none finished": lambda: card((0,), {0}),
    "trading, real": lambda: card(snapshot=market(synthetic=False)),
    "trading, paid": remote_card,
    "trading, of unknown price": lambda: remote_card(price=None),
    "scoring": scoring_card,
    "scoring, cut": lambda: scoring_card((0, 1), {1}, limit=3),
    "scoring, none finished": lambda: scoring_card((0,), {0}),
    "scoring, paid": lambda: scoring_card(**paid(), calls=CALLS),
}
"""Cards by what is special of them."""
