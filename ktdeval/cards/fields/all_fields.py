"""All fields of the cards of evaluations."""

from __future__ import annotations

from typing import Any

from ktdeval.cards.fields.attribution import ATTRIBUTION
from ktdeval.cards.fields.calibration import CALIBRATION
from ktdeval.cards.fields.call_settings import CALL, REQUEST_SETTINGS
from ktdeval.cards.fields.certificate import CERTIFICATE
from ktdeval.cards.fields.cost import COST
from ktdeval.cards.fields.coverage import COVERAGE
from ktdeval.cards.fields.cutoff import KNOWLEDGE_CUTOFF
from ktdeval.cards.fields.deciders import DECIDERS_FIELD
from ktdeval.cards.fields.decision_provenance import DECISIONS
from ktdeval.cards.fields.drift import DRIFT
from ktdeval.cards.fields.episodes import (
    MISSING_SCORING,
    MISSING_TRADING,
    SCORING_EPISODES,
    TRADING_EPISODES,
)
from ktdeval.cards.fields.excluded_windows import LEFT_OUT
from ktdeval.cards.fields.failures import FAILURES
from ktdeval.cards.fields.field import CardField
from ktdeval.cards.fields.market import SNAPSHOT
from ktdeval.cards.fields.metric_rules import RULES
from ktdeval.cards.fields.metrics import METRICS
from ktdeval.cards.fields.models import AGENT, FURTHER_MODELS, MODEL
from ktdeval.cards.fields.orders import ORDERS
from ktdeval.cards.fields.plan import (
    ARTEFACTS,
    KIND,
    LIMIT,
    MASK_KEY,
    REGISTRATION,
    SCHEMA_VERSION,
    SEEDS,
)
from ktdeval.cards.fields.provenance import PROVENANCE
from ktdeval.cards.fields.rank_eligibility import RANKABLE
from ktdeval.cards.fields.reference_policies import REFERENCE
from ktdeval.cards.fields.roles import ROLES
from ktdeval.cards.fields.scores import SCORE_ORDER, SCORES
from ktdeval.cards.fields.target_task import TARGET_TASK
from ktdeval.cards.fields.task import TASK
from ktdeval.cards.fields.tokens import USAGE
from ktdeval.cards.fields.warning_labels import LABELS
from ktdeval.cards.fields.windows import WINDOWS

AnyField = CardField[Any, Any, Any]

FIELDS: tuple[AnyField, ...] = (
    KIND,
    SCHEMA_VERSION,
    # what ran
    TASK,
    TARGET_TASK,
    MODEL,
    AGENT,
    FURTHER_MODELS,
    DECIDERS_FIELD,
    CALL,
    REQUEST_SETTINGS,
    KNOWLEDGE_CUTOFF,
    SNAPSHOT,
    WINDOWS,
    LIMIT,
    SEEDS,
    MASK_KEY,
    REGISTRATION,
    RULES,
    CERTIFICATE,
    # what was recorded
    MISSING_TRADING,
    MISSING_SCORING,
    TRADING_EPISODES,
    SCORING_EPISODES,
    REFERENCE,
    SCORE_ORDER,
    SCORES,
    ARTEFACTS,
    # what follows
    LABELS,
    RANKABLE,
    METRICS,
    ATTRIBUTION,
    LEFT_OUT,
    # what happened
    COVERAGE,
    DECISIONS,
    ORDERS,
    CALIBRATION,
    FAILURES,
    USAGE,
    COST,
    ROLES,
    DRIFT,
    PROVENANCE,
)
"""Fields in the order in which a card is gathered, checked and shown."""


def fields_of(kind: str) -> list[AnyField]:
    """Return the fields of cards of a kind: `trading` or `scoring`."""
    return [field for field in FIELDS if kind in field.KINDS]
