"""A card whose account stood still says so before any figure, and asks for no rank: the model never
traded, or never decided.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ktdeval.cards.card_reading import load_evaluation, validate_card
from ktdeval.cards.claims import silence_claim
from ktdeval.cards.fields.activity import is_untraded
from ktdeval.cards.fields.knowledge.rank_eligibility import NEVER_TRADED
from ktdeval.cards.show import card_lines, plain_text, summary_lines
from ktdeval.cards.table_types import tally
from ktdeval.errors import CardError
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from support.runs.run_support import TASK, WINDOW


def card_of(market: Path, out: Path, model: str, **more: Any) -> Any:
    config = RunConfig(
        model=model,
        tasks=(TASK,),
        windows=(WINDOW,),
        data=str(market),
        out=str(out),
        quiet=True,
        **more,
    )
    return load_evaluation(evaluate(config, load_plugins()).cards[0])


@pytest.mark.exhaustive
def test_a_model_that_never_traded_has_a_label_and_no_rank(market: Path, tmp_path: Path) -> None:
    card = card_of(market, tmp_path / "hold", "builtin/hold")
    assert "never traded" in card.labels
    assert (card.rankable.value, card.rankable.reasons) == (False, [NEVER_TRADED])

    lines = plain_text(card_lines(card, whole=False)).splitlines()
    assert "[never traded]" in lines[1]
    assert lines[2].startswith("may not be ranked: the model never traded")
    steps = card.coverage.steps
    assert (
        lines[4] == f"No trade: no order in {steps} decisions. `ktdeval view RUN` shows each step."
    )

    forged = {**card.plain, "labels": [label for label in card.labels if label != "never traded"]}

    with pytest.raises(CardError, match="labels"):
        validate_card(forged)


@pytest.mark.slow
def test_orders_of_which_none_was_filled_are_no_trades(market: Path, tmp_path: Path) -> None:
    card = card_of(market, tmp_path / "run", "builtin/momentum", limit=2)
    assert "never traded" not in card.labels
    assert not is_untraded([episode.orders for episode in card.episodes])

    (episode,) = card.episodes
    assert episode.orders.filled > 0

    refused = replace(
        episode.orders, filled=0, partially_filled=0, rejected=episode.orders.submitted
    )

    assert is_untraded([refused])
    rules = {"cash": 2, "lot": episode.orders.submitted - 2}
    untraded = replace(
        card, labels=["never traded"], orders=replace(card.orders, filled=0, rules=rules)
    )
    assert silence_claim(card) == ""
    assert silence_claim(untraded) == (
        f"No trade of {card.orders.submitted} orders: {tally(rules)}. `ktdeval view RUN` shows each"
        " step."
    )

    partly = replace(refused, partially_filled=1, rejected=episode.orders.submitted - 1)
    assert not is_untraded([partly])
    assert not is_untraded([])  # nothing is known of it


SCRIPTS = {
    "all invalid": "{submit: {orders: [{stock_id: asset_0001}], overall_reason: as it is}}",
    "text only": "I would hold today.",
    "every call fails": "{fail: timeout}",
}
WHY = {"all invalid": "schema 8", "text only": "no submission 8", "every call fails": "timeout 2"}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_model_that_never_decided_has_no_behaviour_and_is_not_never_traded(
    market: Path, tmp_path: Path, kind: str
) -> None:
    """Its card says why, by class of failure, and where to look; its ratios are null."""
    script = tmp_path / "script.yaml"
    script.write_text(f"otherwise: {SCRIPTS[kind]}\n")
    arguments = {"file": str(script)}
    card = card_of(market, tmp_path / "run", "builtin/script", model_args=arguments, limit=2)

    assert card.coverage.steps_decided == 0
    assert "never decided" in card.labels
    assert "never traded" not in card.labels
    assert not card.rankable.value
    assert NEVER_TRADED not in card.rankable.reasons

    for name in ("turnover", "hhi", "cash_ratio", "abstention_rate"):
        line = card.metrics[name]
        assert (line.value, line.reason) == (None, "the model decided no step"), name

    for name in ("sharpe", "information_ratio"):
        line = card.metrics[name]
        assert (line.value, line.reason) == (None, "returns have no variance"), name

    words = f"No decision in 2 steps: {WHY[kind]}. `ktdeval view RUN` shows each step."
    assert words in plain_text(card_lines(card, whole=False))
    assert words in plain_text(summary_lines([card]))

    failed = card.metrics["parse_failure_rate"]
    if kind == "every call fails":
        assert (failed.value, failed.reason) == (None, "every model call failed")
    else:
        assert failed.value == 1.0
