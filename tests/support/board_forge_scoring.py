"""A forged division of a scoring task: small cards whose answers are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from board_cards import division_of
from ktdeval.cards.scoring import build_scoring_card
from ktdeval.jsonio import content_hash
from metric_cases import market
from scoring_cases import SAMPLES, TASK, record, score_spec, scoring_inputs, summarise

DIVISION = "name-probe"
SEEDS = (0, 1)
_FILES = ("answers.jsonl.zst", "transcript.jsonl.zst")
WINDOW = {"name": "long", "first": "2024-01-03", "last": "2024-01-09"}


def scoring_snapshot(is_synthetic: bool) -> dict[str, Any]:
    """The board's rule on the market of the division."""
    return {"name": "tiny", "id": market(synthetic=is_synthetic).id, "data": ""}


def scoring_division() -> dict[str, Any]:
    """The board's rule on the division."""
    task = {"name": TASK["name"], "version": "1", "hash": content_hash(TASK)}
    summary = "who can tell a name from its prices"
    return division_of({"task": task, "windows": [WINDOW], "seeds": SEEDS}, DIVISION, "tiny", rank_by="right_name", summary=summary)


def scoring_card(model: str, agent: str, settings: dict[str, Any], is_synthetic: bool, rng: np.random.Generator) -> dict[str, Any]:
    """A valid card of one model; `settings` are further fields of its calls."""
    snapshot = market(synthetic=is_synthetic)
    call = {"temperature": 0.7, "tool_protocol": "native", **settings}
    specs = [score_spec(seed, snapshot=snapshot.id, model=model, agent=agent, call=call) for seed in SEEDS]
    skill = rng.uniform(0, 0.6)
    answers = [(spec, [record(step, right=bool(rng.random() < skill)) for step in range(SAMPLES)]) for spec in specs]
    scores = summarise([each for _, records in answers for each in records])
    artefacts = {f"episodes/{spec.id}/{name}": "a" * 64 for spec in specs for name in _FILES}
    return build_scoring_card(
        scoring_inputs(specs=specs, answers=answers, scores=scores, snapshot=snapshot, artefacts=artefacts)
    ).plain
