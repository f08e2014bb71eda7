"""Share of a market's documents that a mask withholds, a diagnostic of KTD-Fin's panel."""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig, MaskKind
from ktdeval.masking.prose import TextMask
from ktdeval.stats.metric import MetricValue, built_in
from ktdeval.stats.series import make_value
from ktdeval.trading.ledger import Ledger
from ktdeval.values.documents.typed_json import convert_value


class _Masked(Struct):
    """The part of an episode's spec that determines the mask kind."""

    mask: MaskKind


@built_in
def documents_withheld(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Fraction of the documents that became known by the decision closes which the mask can't show
    safely; the detail counts them. Whether a text can be shown depends only on the market, the kind
    of mask and the day, never on seed, key or model.
    """
    if not len(market.documents):
        return "the market has no documents"

    days = [market.day_index(step.decided_on) for step in ledger.steps]
    if not days:
        return "no steps"

    mask = MaskConfig(convert_value(ledger.spec, _Masked).mask)
    texts = TextMask(Lens(mask, 0, market, days[0]), market)
    known = 0
    withheld = 0
    for day in days:
        documents = market.as_of(day).documents
        rows = documents.rows(1).tolist()
        known += len(rows)
        withheld += sum(texts.show(documents[row], day) is None for row in rows)

    if not known:
        return "no document became known at the closes of the decisions"

    return replace(
        make_value(withheld / known, known), detail={"known": known, "withheld": withheld}
    )
