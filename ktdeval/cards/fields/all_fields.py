"""All fields of evaluation cards, one table row per field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET
from msgspec.structs import asdict

from ktdeval.cards.fields.activity import (
    calibration_text,
    derive_decisions,
    derive_failures,
    derive_orders,
    derive_usage,
    drift_text,
    gather_calibration,
    order_rows,
    usage_rows,
)
from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.coverage import coverage_rows, derive_coverage
from ktdeval.cards.fields.episodes import (
    agent_rows,
    gather_missing_scoring,
    gather_missing_trading,
    gather_scoring_episodes,
    gather_trading_episodes,
    scoring_problems,
    trading_problems,
)
from ktdeval.cards.fields.knowledge.certificate import attached_rows
from ktdeval.cards.fields.knowledge.cutoff import cutoff_problems, cutoff_words, gather_cutoff
from ktdeval.cards.fields.knowledge.deciders import decider_rows, foreign_rows
from ktdeval.cards.fields.knowledge.rank_eligibility import derive_rankable
from ktdeval.cards.fields.knowledge.warning_labels import derive_labels
from ktdeval.cards.fields.origin.plan import (
    call_text,
    derive_target,
    further_problems,
    further_rows,
    gather_agent,
    gather_call,
    gather_key_source,
    gather_market,
    gather_mask_key,
    gather_model,
    gather_registration,
    gather_request_settings,
    gather_seeds,
    gather_windows,
    key_source_text,
    market_text,
    registration_text,
    repair_rows,
    rule_rows,
    target_rows,
    unsent_rows,
    window_problems,
    window_rows,
    with_args,
)
from ktdeval.cards.fields.origin.provenance import provenance_problems, provenance_rows
from ktdeval.cards.fields.origin.task import gather_task, identity_problems, task_rows
from ktdeval.cards.fields.replies.cost import cost_problems, cost_rows, derive_cost
from ktdeval.cards.fields.replies.roles import derive_roles, role_problems, role_rows
from ktdeval.cards.fields.returns.assumptions import assumption_rows, gather_assumptions
from ktdeval.cards.fields.returns.attribution import derive_attribution
from ktdeval.cards.fields.returns.metrics import derive_metrics, metric_problems
from ktdeval.cards.fields.returns.rank_correlation import correlation_rows, gather_rank_correlation
from ktdeval.cards.fields.returns.reference_policies import gather_references, reference_problems
from ktdeval.cards.fields.scores import gather_scores, order_problems, score_problems
from ktdeval.cards.table_types import Row, tally

Kind = Literal["trading", "scoring"]


def _nothing(value: object, facts: object) -> tuple[()]:
    return ()


def _no_text(value: object, facts: object) -> str:
    return ""


@dataclass(frozen=True, eq=False)
class CardField:
    """One field of a card, which is either gathered from a run's records or derived from the card's
    own facts. Its type is declared in `ktdeval.cards.card`, and its wording in `words.json`.

    The functions below take the field's value and the card's facts.
    """

    name: str  #: name of the attribute in the card class
    gather: Callable[[Any], Any] | None = None  #: computes the value from `CardSources`
    derive: Callable[[Any], Any] | None = None  #: computes the value from a `DerivationBasis`
    only: Kind | None = None  #: the only kind of card that has the field; None: both kinds
    #: text shown next to the field's label; empty: no row
    text: Callable[[Any, Any], str] = _no_text
    rows: Callable[[Any, Any], Iterable[Row]] = _nothing  #: additional rows on a printed card
    #: table that contains the rows: what ran, or what happened
    table: Literal["run", "activity"] = "run"
    #: yields contradictions within the value, or between the value and the facts; may rely on
    #: fields that come earlier in `FIELDS`
    problems: Callable[[Any, Any], Iterable[Problem]] = _nothing


FIELDS: tuple[CardField, ...] = (
    CardField("kind", gather=lambda sources: sources.KIND),
    CardField("schema_version", gather=lambda sources: 1),
    # what ran
    CardField("task", gather=gather_task, rows=task_rows, problems=identity_problems),
    CardField("target_task", derive=derive_target, only="scoring", rows=target_rows),
    CardField("model", gather=gather_model, text=with_args),
    CardField("agent", gather=gather_agent, text=with_args),
    CardField(
        "further_models",
        gather=lambda sources: list(sources.inputs.further_models),
        rows=further_rows,
        problems=further_problems,
    ),
    CardField("deciders", gather=lambda sources: list(sources.inputs.deciders), rows=decider_rows),
    CardField("foreign", gather=lambda sources: list(sources.inputs.foreign), rows=foreign_rows),
    CardField("call", gather=gather_call, text=call_text),
    CardField("request_settings", gather=gather_request_settings, rows=unsent_rows),
    CardField(
        "knowledge_cutoff",
        gather=gather_cutoff,
        text=lambda block, facts: cutoff_words(facts),
        problems=cutoff_problems,
    ),
    CardField("snapshot", gather=gather_market, text=market_text, rows=repair_rows),
    CardField("windows", gather=gather_windows, rows=window_rows, problems=window_problems),
    CardField("limit", gather=lambda sources: sources.planned[0].limit),
    CardField("seeds", gather=gather_seeds, text=lambda seeds, facts: ", ".join(map(str, seeds))),
    CardField("mask_key", gather=gather_mask_key, text=lambda key, facts: key or ""),
    CardField("key_source", gather=gather_key_source, text=key_source_text),
    CardField("registration", gather=gather_registration, text=registration_text),
    CardField(
        "assumptions",
        gather=gather_assumptions,
        only="trading",
        rows=assumption_rows,
    ),
    CardField("rules", gather=lambda sources: sources.inputs.rules, only="trading", rows=rule_rows),
    CardField(
        "certificate",
        gather=lambda sources: sources.inputs.certificate,
        only="trading",
        rows=attached_rows,
    ),
    # what was recorded
    CardField("missing_episodes", gather=gather_missing_trading, only="trading"),
    CardField("missing_episodes", gather=gather_missing_scoring, only="scoring"),
    CardField(
        "episodes",
        gather=gather_trading_episodes,
        only="trading",
        rows=agent_rows,
        problems=trading_problems,
    ),
    CardField(
        "episodes",
        gather=gather_scoring_episodes,
        only="scoring",
        rows=agent_rows,
        problems=scoring_problems,
    ),
    CardField("reference", gather=gather_references, only="trading", problems=reference_problems),
    CardField(
        "rank_correlation",
        gather=gather_rank_correlation,
        only="trading",
        rows=correlation_rows,
        table="activity",
    ),
    CardField(
        "score_order",
        gather=lambda sources: list(sources.inputs.definitions),
        only="scoring",
        problems=order_problems,
    ),
    CardField("scores", gather=gather_scores, only="scoring", problems=score_problems),
    CardField("artefacts", gather=lambda sources: dict(sources.inputs.artefacts)),
    # what follows
    CardField("labels", derive=derive_labels),
    CardField("rankable", derive=derive_rankable),
    CardField("metrics", derive=derive_metrics, only="trading", problems=metric_problems),
    CardField("attribution", derive=derive_attribution, only="trading"),
    CardField("left_out", derive=lambda basis: basis.facts.excluded or UNSET, only="trading"),
    # what happened
    CardField("coverage", derive=derive_coverage, rows=coverage_rows, table="activity"),
    CardField(
        "decisions",
        derive=derive_decisions,
        text=lambda decisions, facts: tally(asdict(decisions)),
        table="activity",
    ),
    CardField("orders", derive=derive_orders, only="trading", rows=order_rows, table="activity"),
    CardField(
        "calibration",
        gather=gather_calibration,
        only="trading",
        text=calibration_text,
        table="activity",
    ),
    CardField(
        "failures",
        derive=derive_failures,
        text=lambda failures, facts: tally(failures),
        table="activity",
    ),
    CardField("usage", derive=derive_usage, rows=usage_rows, table="activity"),
    CardField("cost", derive=derive_cost, rows=cost_rows, table="activity", problems=cost_problems),
    CardField(
        "roles", derive=derive_roles, rows=role_rows, table="activity", problems=role_problems
    ),
    CardField(
        "drift",
        gather=lambda sources: sources.inputs.drift,
        text=drift_text,
        table="activity",
    ),
    CardField(
        "provenance",
        gather=lambda sources: sources.inputs.provenance,
        rows=provenance_rows,
        table="activity",
        problems=provenance_problems,
    ),
)
"""Fields in the order in which a card is gathered, checked and shown."""


def fields_of(kind: str) -> list[CardField]:
    """Return the fields of a kind of card: `trading` or `scoring`."""
    return [field for field in FIELDS if field.only in (None, kind)]
