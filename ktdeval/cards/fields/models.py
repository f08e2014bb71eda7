"""Models and agent of a card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.calls.prices import FREE, is_free_price
from ktdeval.cards.fields.base_types import Problem, strict_object
from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.fact_types import FurtherModelPart, Pluggable
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row

PEOPLE = "human/"  #: Begins the names of models that are people
DECLARED = "declared/"  #: Begins the names of models that submit what a file declares
NOT_RECORDED = "the decisions were made elsewhere, so there is no record of a model"
"""Reason against ranking a card of declared decisions."""


def is_person(model: str) -> bool:
    """Whether the model of this full name is a person."""
    return model.startswith(PEOPLE)


def is_declared(model: str) -> bool:
    """Whether the model of this full name submits decisions that were made elsewhere."""
    return model.startswith(DECLARED)


# ---- gathered from the plan


def gather_model(sources: CardSources) -> Pluggable:
    """Return the model of a plan, with its parameters."""
    spec = sources.planned[0]
    return Pluggable(name=spec.model, args=strict_object("model", spec.model_args))


def gather_agent(sources: CardSources) -> Pluggable:
    """Return the agent of a plan, with its parameters."""
    spec = sources.planned[0]
    return Pluggable(name=spec.agent, args=strict_object("agent", spec.agent_args))


# ---- checked


def further_problems(models: Sequence[FurtherModelPart], facts: AnyFacts) -> Iterator[Problem]:
    """Yield models that are asked otherwise than that of the card, and prices that contradict it."""
    for number, model in enumerate(models):
        where = ("further_models", number)
        if (model.request_settings is None) != (facts.request_settings is None):
            yield (*where, "sent_as"), "one model of a run is behind a network, the other is not"
        elif model.request_settings is not None and is_free_price(model.price):
            yield (*where, "price"), f"is that of {FREE.source}, though sent_as says otherwise"


# ---- words


def with_args(entry: Pluggable, facts: object = None) -> str:
    """Return the name of a model or agent with its arguments."""
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry.args.items()))
    return f"{entry.name} ({args})" if args else entry.name


def further_rows(models: Sequence[FurtherModelPart], facts: AnyFacts) -> Iterator[Row]:
    """Yield a row for each further model."""
    for model in models:
        words = model.asked_as
        if model.name != model.asked_as:
            words = f"{model.name}, asked as {model.asked_as}"
        if model.price is None:
            words += "; its price is not known"

        yield field_label("further_models"), words
