"""What a mask for texts leaves out of an episode's documents, as a metric."""

from __future__ import annotations

from dataclasses import replace

from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens, MaskConfig
from ktdeval.masking.prose import TextMask
from ktdeval.stats.metric import MetricValue, built_in
from ktdeval.stats.series import defined
from ktdeval.trading.ledger import Ledger


@built_in
def documents_withheld(ledger: Ledger, market: MarketSnapshot) -> MetricValue | str:
    """Share of the documents that became known at the closes of the decisions which the mask can't show safely; the detail counts
    them. Whether a text can be shown depends on the market, the kind of mask and the day alone, never on seed, key or model.
    """
    if not len(market.documents):
        return "the market has no documents"
    days = [market.day_index(step.decided_on) for step in ledger.steps]
    if not days:
        return "no steps"
    texts = TextMask(Lens(MaskConfig(ledger.spec["mask"]), 0, market, days[0]), market)
    known = withheld = 0
    for day in days:
        documents = market.as_of(day).documents
        rows = documents.rows(1).tolist()
        known += len(rows)
        withheld += sum(texts.show(documents[row], day) is None for row in rows)
    if not known:
        return "no document became known at the closes of the decisions"
    return replace(defined(withheld / known, known), detail={"known": known, "withheld": withheld})
