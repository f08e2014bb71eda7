"""Labels of a card: what a reader must see before any figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ktdeval.cards.fields.coverage import Coverage, derive_coverage
from ktdeval.cards.fields.cutoff import cutoff_labels
from ktdeval.cards.fields.deciders import is_not_isolated
from ktdeval.cards.fields.decision_provenance import derive_decisions
from ktdeval.cards.fields.fact_types import SnapshotPart
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.models import is_declared, is_person
from ktdeval.cards.fields.orders import is_untraded
from ktdeval.cards.fields.recorded_facts import AnyFacts, DerivationBasis, TradingFacts
from ktdeval.cards.fields.served import is_of_another_model, lacks_own_settings
from ktdeval.cards.fields.software_versions import is_of_mixed_code
from ktdeval.cards.fields.task import BY_ACCOUNT, TRANSPLANTED
from ktdeval.cards.fields.words import FieldWords

Label = Literal[
    "synthetic",
    "placebo",
    "limited",
    "incomplete",
    "low coverage",
    "before cutoff",
    "spans cutoff",
    "no adjustment factor",
    "no entity list",
    "script without names",
    "another model answered",
    "own settings not applied",
    "elected",
    "not isolated",
    "human",
    "mixed code",
    "transplanted",
    "declared",
]  # of cards of evaluations
TradingLabel = Literal[
    "never decided",
    "never traded",
    "mask not certified",
    "certificate claimed",
    "identifiable by its account",
]
"""Further labels of trading cards."""


def derive_labels(basis: DerivationBasis[AnyFacts]) -> list[str]:
    """Return the labels of a card, in their order."""
    facts = basis.facts
    coverage = derive_coverage(basis)
    conditions = {
        **_market_conditions(facts.snapshot),
        "limited": facts.limit is not None,
        "incomplete": coverage.missing > 0,
        "low coverage": coverage.is_low,
        **cutoff_labels(facts.knowledge_cutoff),
        **_authorship(basis),
    }
    if isinstance(facts, TradingFacts):
        conditions |= _trading_conditions(facts, coverage)

    return [label for label in LABEL_WORDS if conditions.get(label)]


def _market_conditions(snapshot: SnapshotPart | None) -> dict[str, bool]:
    """Return the labels on a market, and whether each holds."""
    if snapshot is None:
        return {}
    return {
        "synthetic": snapshot.synthetic,
        "placebo": snapshot.is_placebo,
        "no adjustment factor": not snapshot.has_factor,
    }


def _authorship(basis: DerivationBasis[AnyFacts]) -> dict[str, bool]:
    """Return the labels on who made the decisions, other than the model that the card names, and on
    what computed them; and whether each holds.
    """
    facts = basis.facts
    models = [facts.model.name, *(each.name for each in facts.further_models)]
    has_market = facts.snapshot is not None
    makers = [(episode.steps, episode.made_by) for episode in facts.episodes]
    return {
        "another model answered": is_of_another_model(facts),
        "own settings not applied": lacks_own_settings(facts.episodes),
        "elected": derive_decisions(basis).elected > 0,
        "not isolated": has_market and is_not_isolated(facts.deciders, facts.episodes),
        "human": any(map(is_person, models)),
        "mixed code": is_of_mixed_code(makers),
        "transplanted": bool(facts.task.config.get(TRANSPLANTED)),
        "declared": any(map(is_declared, models)),
    }


def _trading_conditions(facts: TradingFacts, coverage: Coverage) -> dict[str, bool]:
    """Return the labels that only a trading card can have, and whether each holds."""
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
        "no entity list": hides_assets and facts.snapshot.has_plain_texts,
        "script without names": hides_assets and facts.snapshot.has_unnamed_scripts,
    }


WORDS = {
    "labels": FieldWords("labels", "", "caveats, shown before any figure", "cards.md#labels"),
}

LABELS = SharedField("labels", derive=derive_labels, words=WORDS)

LABEL_WORDS: Mapping[Label | TradingLabel, FieldWords] = {
    "synthetic": FieldWords(
        "synthetic",
        "",
        "The market is generated, not real; `ktdeval data check DATA --facts` compares it with"
        " real ones.",
        "synthetic-market.md#stylised-facts-how-real-it-is",
    ),
    "placebo": FieldWords(
        "placebo",
        "",
        "The market was made so that selection alpha is zero by construction; never ranked.",
    ),
    "limited": FieldWords("limited", "", "Episodes were cut (`--limit`)."),
    "incomplete": FieldWords("incomplete", "", "Planned episodes are missing."),
    "low coverage": FieldWords(
        "low coverage", "", "The model decided fewer than 95 % of the planned steps."
    ),
    "never decided": FieldWords(
        "never decided",
        "",
        "No submission of the model was valid at any step, or no call of it worked: the account is"
        " the engine's, not the model's; it may not be ranked.",
    ),
    "never traded": FieldWords(
        "never traded",
        "",
        "No order was filled in any episode, so the figures are those of cash; it may not be ranked.",
    ),
    "before cutoff": FieldWords(
        "before cutoff", "", "All windows lie in the model's training time.", "cutoff.md"
    ),
    "spans cutoff": FieldWords(
        "spans cutoff", "", "Some days lie in the model's training time, others after.", "cutoff.md"
    ),
    "mask not certified": FieldWords(
        "mask not tested for this model",
        "",
        "Identities are hidden, but no certificate covers the card, or its certificate has too"
        " few probes, controls, answers or guesses.",
        "certificate.md",
    ),
    "certificate claimed": FieldWords(
        "certificate claimed",
        "",
        "The card carries a certificate of its mask; only the attacks' runs can verify it.",
        "certificate.md",
    ),
    "identifiable by its account": FieldWords(
        "identifiable by its account",
        "",
        "Prices are hidden, and the account is shown in money, from which they follow: whoever has"
        " the price history can name stocks and days; never ranked.",
        "masks.md#what-a-mode-hides",
    ),
    "no entity list": FieldWords(
        "no entity list",
        "",
        "Stocks are hidden, but the market has documents without `--entities`: products, persons"
        " and nicknames stay.",
        "masks.md#how-names-and-dates-in-news-are-masked",
    ),
    "script without names": FieldWords(
        "script without names",
        "",
        "Stocks are hidden, but documents hold a script in which most of them have no name"
        " (`snapshot.unnamed_scripts`): a name in it stays unless `--entities` lists it.",
        "masks.md#how-names-and-dates-in-news-are-masked",
    ),
    "no adjustment factor": FieldWords(
        "no adjustment factor", "", "Adjusted prices were traded as they are."
    ),
    "another model answered": FieldWords(
        "another model answered",
        "",
        "The provider named another model than the one asked for in at least one answer (a dated"
        " version of an alias is the same model); `served` of each episode has the names, with the"
        " provider behind a gateway.",
    ),
    "own settings not applied": FieldWords(
        "own settings not applied",
        "",
        "An agent's own program sent settings that the model of the run could not get, such as its"
        " reasoning or effort; `served` of each episode lists them.",
        "agents.md#a-programs-own-settings",
    ),
    "elected": FieldWords(
        "elected",
        "",
        "A majority of several voters decided, not one model: the card is that of a vote.",
    ),
    "not isolated": FieldWords(
        "not isolated",
        "",
        "Who decided could look the market up: a program without a sandbox, a function or plugin in"
        " the process, a model that can search, an agent elsewhere, or a file of decisions"
        " (`deciders`); never ranked where the task hides something.",
        "cards.md#who-could-look-it-up",
    ),
    "human": FieldWords(
        "human",
        "",
        "A person decided (`human/…`), not a model: what a person knows of the market, or looked"
        " up, is not recorded. A board ranks people only in divisions that say so.",
        "models.md#a-person-as-the-model",
    ),
    "mixed code": FieldWords(
        "mixed code",
        "",
        "The episodes were made by different versions of ktdeval, of its plugins or of Python, such"
        " as before and after an upgrade, or what made a part is not recorded; `made_by` of each"
        " episode has its steps.",
    ),
    "transplanted": FieldWords(
        "transplanted",
        "",
        "The decisions of a run were executed again at another capital or cost, without the model,"
        " which saw the fills of its run and not these; never ranked.",
        "capacity.md",
    ),
    "declared": FieldWords(
        "declared",
        "",
        "The decisions came from a file (`declared/…`) and were made elsewhere: how, by which model"
        " and with what information is not recorded; never ranked.",
        "judge.md",
    ),
}
"""Words of the labels, in the order in which a card shows them."""


def label_word(label: str) -> str:
    """Return a label of a card as readers see it; one that is not known here as it is."""
    for known, words in LABEL_WORDS.items():
        if known == label:
            return words.label
    return label
