"""Labels of a card: what a reader must know before looking at any figure."""

from __future__ import annotations

from typing import Literal

from ktdeval.cards.fields.activity import derive_decisions, is_untraded, total_orders
from ktdeval.cards.fields.coverage import Coverage, derive_coverage
from ktdeval.cards.fields.episode_parts import Orders
from ktdeval.cards.fields.knowledge.cutoff import cutoff_labels
from ktdeval.cards.fields.knowledge.deciders import is_not_isolated
from ktdeval.cards.fields.origin.fact_types import SnapshotPart
from ktdeval.cards.fields.origin.plan import is_declared, is_person
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts, DerivationBasis, TradingFacts
from ktdeval.cards.fields.origin.software_versions import is_of_mixed_code
from ktdeval.cards.fields.origin.task import BY_ACCOUNT, TRANSPLANTED, is_identifiable_by_prices
from ktdeval.cards.fields.replies.roles import episode_turns
from ktdeval.cards.fields.replies.served import is_of_another_model, lacks_own_settings
from ktdeval.cards.fields.returns.rank_correlation import is_beyond_skill
from ktdeval.cards.fields.words import read_words
from ktdeval.trading.stale_values import most_stale

Label = Literal[
    "synthetic",
    "placebo",
    "limited",
    "incomplete",
    "low coverage",
    "roles silent",
    "before cutoff",
    "spans cutoff",
    "no adjustment factor",
    "no entity list",
    "script without names",
    "another model answered",
    "own settings not applied",
    "elected",
    "not isolated",
    "public key",
    "human",
    "mixed code",
    "transplanted",
    "declared",
]  # labels on evaluation cards
TradingLabel = Literal[
    "never decided",
    "never traded",
    "mask not certified",
    "certificate claimed",
    "identifiable by its account",
    "identifiable by its prices",
    "fills at a known price",
    "stale value",
    "mostly rejected",
    "beyond skill",
]
"""Further labels of trading cards."""


def derive_labels(basis: DerivationBasis[AnyFacts]) -> list[str]:
    """Return the labels of a card, in display order."""
    facts = basis.facts
    coverage = derive_coverage(basis)
    conditions = {
        **_market_conditions(facts.snapshot),
        "limited": facts.limit is not None,
        "incomplete": coverage.missing > 0,
        "low coverage": coverage.is_low,
        "roles silent": any(role.is_silent for role in episode_turns(facts.episodes)),
        **cutoff_labels(facts.knowledge_cutoff),
        **_authorship(basis),
    }
    if isinstance(facts, TradingFacts):
        conditions |= _trading_conditions(facts, coverage)
        conditions |= _account_conditions(facts, total_orders(facts))

    return [label for label in read_words().labels if conditions.get(label)]


def hides_something(facts: AnyFacts) -> bool:
    """Return whether the task hides assets or days."""
    return facts.task.mask not in (None, "bright")


def _market_conditions(snapshot: SnapshotPart | None) -> dict[str, bool]:
    """Return the labels that concern the market, and whether each label applies."""
    if snapshot is None:
        return {}
    return {
        "synthetic": snapshot.synthetic,
        "placebo": snapshot.is_placebo,
        "no adjustment factor": not snapshot.has_factor,
    }


def _authorship(basis: DerivationBasis[AnyFacts]) -> dict[str, bool]:
    """Return the labels that concern who made the decisions, if not the model named on the card,
    and the labels that concern the code that ran them, and whether each label applies.
    """
    facts = basis.facts
    models = [facts.model.name, *(each.name for each in facts.further_models)]
    has_market = facts.snapshot is not None
    makers = [(episode.steps, episode.made_by) for episode in facts.episodes]
    return {
        "another model answered": is_of_another_model(facts),
        "own settings not applied": lacks_own_settings(facts.episodes),
        "elected": derive_decisions(basis).elected > 0,
        "not isolated": bool(facts.foreign)
        or (has_market and is_not_isolated(facts.deciders, facts.episodes)),
        "public key": hides_something(facts) and bool(facts.key_source),
        "human": any(map(is_person, models)),
        "mixed code": is_of_mixed_code(makers),
        "transplanted": bool(facts.task.config.get(TRANSPLANTED)),
        "declared": any(map(is_declared, models)),
    }


def _trading_conditions(facts: TradingFacts, coverage: Coverage) -> dict[str, bool]:
    """Return the labels that only a trading card can have, and whether each label applies."""
    mask = facts.task.mask
    hides_assets = mask in ("stock_blind", "blinded")
    is_certified = facts.certificate.certifies(mask)
    is_claimed = facts.certificate.value is not None
    no_fill = is_untraded([episode.orders for episode in facts.episodes])
    return {
        "never decided": coverage.is_undecided,
        "never traded": no_fill and not coverage.is_undecided,
        "mask not certified": not is_certified,
        "certificate claimed": is_claimed and is_certified,
        "identifiable by its account": bool(facts.task.config.get(BY_ACCOUNT)),
        "identifiable by its prices": is_identifiable_by_prices(facts.task),
        "beyond skill": is_beyond_skill(facts.rank_correlation),
        "no entity list": hides_assets and facts.snapshot.has_plain_texts,
        "script without names": hides_assets and facts.snapshot.has_unnamed_scripts,
    }


def _account_conditions(facts: TradingFacts, orders: Orders) -> dict[str, bool]:
    """Return the labels on what the account's figures rest on, and whether each label applies. A
    card without `assumptions` was written before these labels existed.
    """
    if not facts.assumptions:
        return {}

    stale = most_stale(episode.stale for episode in facts.episodes)
    return {
        "fills at a known price": facts.assumptions.looks_ahead,
        "stale value": stale is not None and stale.is_large,
        "mostly rejected": orders.main_rejection is not None,
    }
