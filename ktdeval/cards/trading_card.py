"""Card of a trading task: a pure function of recorded episodes, their market and the metrics asked
for.
"""

from __future__ import annotations

from ktdeval.cards.assembly import assemble_card
from ktdeval.cards.card import TradingCard
from ktdeval.cards.fields.card_inputs import CardInputs, trading_sources
from ktdeval.cards.fields.metrics import define_metrics
from ktdeval.cards.fields.recorded_facts import TradingFacts
from ktdeval.values.progress_reports import Tell, tell_nobody


def build_card(inputs: CardInputs, tell: Tell = tell_nobody) -> TradingCard:
    """Build the result card of one evaluation (one task, model and agent over windows and seeds).
    `tell` is told of each episode before its metrics are computed.

    Two calls with equal inputs give equal cards whatever the order of specs, ledgers, metrics and
    missing episodes; only `provenance` is passed through as it is. Raises CardError: the inputs
    contradict each other (a spec of another task or snapshot, a planned episode that is neither
    finished nor missing, a ledger that does not cover its window, two metrics of one name, a value
    that is not strict JSON); PluginError: a metric returned something else than a `MetricValue`, or
    a value outside its range.
    """
    sources = trading_sources(inputs, tell)
    definitions = define_metrics(inputs.metrics, sources.years)
    return assemble_card(TradingCard, TradingFacts, sources, definitions)
