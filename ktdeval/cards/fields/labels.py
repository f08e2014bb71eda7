"""Labels of a card: what a reader must see before any figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.cutoff import cutoff_labels
from ktdeval.cards.fields.parts import Attachment, KnowledgeCutoff, NoCutoff, SnapshotPart
from ktdeval.cards.fields.words import Words
from ktdeval.masking.lens import MaskKind

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
    "elected",
    "mixed code",
]  # of cards of evaluations
TradingLabel = Literal["never decided", "never traded", "mask not certified", "certificate claimed"]
"""Further labels of trading cards."""


class Authorship(NamedTuple):
    """Who made the decisions of a card, other than the model that it names, and what computed
    them.
    """

    is_other_model: bool  #: another model answered than the one asked
    is_elected: bool  #: a majority of several voters decided a step
    is_of_mixed_code: bool  #: not one code is known to have made all steps


class TradingConditions(NamedTuple):
    """Conditions that only a trading card can have."""

    mask: MaskKind
    certificate: Attachment
    is_untraded: bool  #: no order was filled in any episode


def derive_labels(
    coverage: Coverage,
    limit: int | None,
    snapshot: SnapshotPart | None,
    cutoff: KnowledgeCutoff | NoCutoff,
    authorship: Authorship,
    trading: TradingConditions | None = None,
) -> list[str]:
    """Return the labels of a card, in their order. `trading`: what only a trading card can have."""
    hides_assets = trading is not None and trading.mask in ("stock_blind", "blinded")
    is_claimed = trading is not None and trading.certificate.value is not None
    is_certified = trading is not None and trading.certificate.certifies(trading.mask)
    conditions = {
        "synthetic": snapshot is not None and snapshot.synthetic,
        "placebo": snapshot is not None and snapshot.is_placebo,
        "limited": limit is not None,
        "incomplete": coverage.missing > 0,
        "low coverage": coverage.is_low,
        "never decided": trading is not None and coverage.is_undecided,
        "never traded": trading is not None and trading.is_untraded and not coverage.is_undecided,
        **cutoff_labels(cutoff),
        "mask not certified": trading is not None and not is_certified,
        "certificate claimed": is_claimed and is_certified,
        "no entity list": hides_assets and snapshot is not None and snapshot.has_plain_texts,
        "script without names": hides_assets
        and snapshot is not None
        and snapshot.has_unnamed_scripts,
        "no adjustment factor": snapshot is not None and not snapshot.has_factor,
        "another model answered": authorship.is_other_model,
        "elected": authorship.is_elected,
        "mixed code": authorship.is_of_mixed_code,
    }
    return [label for label, holds in conditions.items() if holds]


WORDS = {
    "labels": Words("labels", "", "caveats, shown before any figure", "cards.md#labels"),
}

LABEL_WORDS: Mapping[Label | TradingLabel, Words] = {
    "synthetic": Words("synthetic", "", "The market is generated, not real."),
    "placebo": Words(
        "placebo",
        "",
        "The market was made so that selection alpha is zero by construction; never ranked.",
    ),
    "limited": Words("limited", "", "Episodes were cut (`--limit`)."),
    "incomplete": Words("incomplete", "", "Planned episodes are missing."),
    "low coverage": Words(
        "low coverage", "", "The model decided fewer than 95 % of the planned steps."
    ),
    "never decided": Words(
        "never decided",
        "",
        "No submission of the model was valid at any step, or no call of it worked: the account is"
        " the engine's, not the model's; not rankable.",
    ),
    "never traded": Words(
        "never traded",
        "",
        "No order was filled in any episode, so the figures are those of cash; not rankable.",
    ),
    "before cutoff": Words(
        "before cutoff", "", "All windows lie in the model's training time.", "cutoff.md"
    ),
    "spans cutoff": Words(
        "spans cutoff", "", "Some days lie in the model's training time, others after.", "cutoff.md"
    ),
    "mask not certified": Words(
        "mask not certified",
        "",
        "Identities are hidden, but no certificate covers the card, or one that rests on too few"
        " probes, controls, answers or guesses.",
        "deanon.md",
    ),
    "certificate claimed": Words(
        "certificate claimed",
        "",
        "The card carries a certificate of its mask; only the attacks' runs can verify it.",
        "deanon.md",
    ),
    "no entity list": Words(
        "no entity list",
        "",
        "Stocks are hidden, but the market has documents without `--entities`: products, persons"
        " and nicknames stay.",
        "masks.md#texts",
    ),
    "script without names": Words(
        "script without names",
        "",
        "Stocks are hidden, but documents hold a script in which most of them have no name"
        " (`snapshot.unnamed_scripts`): a name in it stays unless `--entities` lists it.",
        "masks.md#texts",
    ),
    "no adjustment factor": Words(
        "no adjustment factor", "", "Adjusted prices were traded as they are."
    ),
    "another model answered": Words(
        "another model answered",
        "",
        "The provider named another model than the one asked for in at least one answer (a dated"
        " version of an alias is the same model); `provenance.calls.served_by` has the names, with"
        " the provider behind a gateway.",
    ),
    "elected": Words(
        "elected",
        "",
        "A majority of several voters decided, not one model: the card is that of a vote.",
    ),
    "mixed code": Words(
        "mixed code",
        "",
        "The episodes were made by different versions of ktdeval, of its plugins or of Python, such"
        " as before and after an upgrade, or what made a part is not recorded; `made_by` of each"
        " episode has its steps.",
    ),
}
