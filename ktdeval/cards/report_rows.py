"""Rows of a card's report that trading and scoring cards share, assembled from its fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktdeval.cards.card import Evaluation, ScoringCard, TradingCard
from ktdeval.cards.fields.calls import Calls, ModelCalls, call_count_rows
from ktdeval.cards.fields.cost import cost_rows
from ktdeval.cards.fields.coverage import coverage_rows
from ktdeval.cards.fields.cutoff import cutoff_row
from ktdeval.cards.fields.decisions import decision_row
from ktdeval.cards.fields.drift import drift_rows
from ktdeval.cards.fields.episodes import key_rows, missing_notes
from ktdeval.cards.fields.makers import maker_rows
from ktdeval.cards.fields.market import market_row
from ktdeval.cards.fields.roles import further_rows, model_cost_rows
from ktdeval.cards.fields.task import call_rows, system_rows
from ktdeval.cards.fields.tokens import token_row
from ktdeval.cards.fields.windows import window_row
from ktdeval.cards.table import Grid, Report, Row, clean, word_grid
from ktdeval.harness.messages import USAGE_FIELDS, Usage

AnyCard = TradingCard | ScoringCard

_ROUNDING = 1 + 1e-9  # above which a sum is larger than another, whatever the order of adding


def assemble_report(
    card: AnyCard,
    facts: Iterable[Row],
    grids: tuple[Grid, ...],
    activity: Iterable[Row],
    notes: Iterable[str],
) -> Report:
    """Return the report of a card; `activity`: rows that only its kind has on decisions, failures
    and use.
    """
    step = "step" if isinstance(card, TradingCard) else "sample"
    makers = maker_rows(episode.made_by for episode in card.episodes)
    rows = [
        *coverage_rows(card.coverage, step),
        decision_row(card.decisions),
        *activity,
        *_spending_rows(card),
    ]
    return Report(
        title=clean(f"{card.task.name} · {card.model.name}"),
        labels=tuple(card.labels),
        ranking=clean(card.rankable.words),
        facts=word_grid("", [*facts, *makers]),
        grids=grids,
        activity=word_grid("Activity", rows),
        notes=tuple(map(clean, notes)),
    )


def run_rows(card: Evaluation, step: str) -> Iterator[Row]:
    """Yield model, agent, calls, market, windows and seeds; `step` is the name of a step."""
    yield from system_rows(card.model, card.agent)
    yield from further_rows(card.further_models)
    yield from call_rows(card.call, card.request_settings)
    yield cutoff_row(card)
    if card.snapshot is not None:
        yield market_row(card.snapshot)

    windows = window_row(card.windows, card.limit, step)
    if windows is not None:
        yield windows

    yield "seeds", ", ".join(map(str, card.seeds))
    yield from key_rows(card.mask_key or None, card.registration or None)


def _spending_rows(card: AnyCard) -> Iterator[Row]:
    """Yield tokens in and out, their cost and return, the drift of the model, and the calls of its
    provider.
    """
    uncounted = sum(episode.uncounted for episode in card.episodes)
    yield token_row(card.usage, uncounted)
    yield from cost_rows(card.cost, uncounted_tokens(card) or long_prompts(card))
    yield from model_cost_rows(card.roles, card.model.name)
    yield from drift_rows(card.drift)
    if card.provenance.calls is not None:
        yield from call_count_rows(card.provenance.calls)


def uncounted_tokens(card: AnyCard) -> str:
    """Return why a card's cost is less than what was paid: the price is known, the amount is not;
    empty if all tokens were counted.
    """
    calls = card.provenance.calls
    is_partial = card.cost.value is not None and calls is not None and calls.paid_usd is None
    return "the provider did not count the tokens of every reply" if is_partial else ""


def long_prompts(card: AnyCard) -> str:
    """Return why a card's cost, which takes all tokens at the rates of short prompts, is less than
    what was paid: some prompts were long. Empty if none was, as far as calls were paid.
    """
    calls = card.provenance.calls
    price = card.cost.price
    if calls is None or not price or not price.tiers:
        return ""

    own: Calls | ModelCalls = calls.models.get(card.model.name, calls)
    tokens = Usage(*(own.tokens.get(name, 0) for name in USAGE_FIELDS))
    if own.paid_usd is None or own.paid_usd <= price.cost(tokens) * _ROUNDING:
        return ""
    return f"prompts of over {price.tiers[0].above:,} tokens cost more"


def absence_notes(card: AnyCard, *fields: str) -> Iterator[str]:
    """Yield a line for each planned episode that did not finish, and for each of these fields that
    the card does not have.
    """
    yield from missing_notes(card.missing_episodes)

    # A model of this machine has no provider that could change it.
    asked = () if card.provenance.calls is None else ("drift",)
    for name in (*fields, *asked):
        part = getattr(card, name)
        if part.value is None:
            yield f"no {name}: {part.reason}"
