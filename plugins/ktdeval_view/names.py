"""True names beside the handles of a mask: which code, day and industry the model meant without knowing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.errors import KtdevalError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import loads_strict
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import Lens
from ktdeval.registry import Plugins
from ktdeval.trading import StepRecord
from ktdeval_view.records import EpisodeRecords

_DAYS_BEFORE, _DAYS_AFTER = 320, 5
"""Days around a window whose handles a model can have seen: look-back bars before it, and a fill after its last decision."""


@dataclass(frozen=True)
class Names:
    """Identities behind one episode's handles."""

    #: handle -> code and company, of every asset; under a mask that shows codes, code -> code and company
    assets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    handles: Mapping[str, str] = field(default_factory=dict)  # code -> handle
    sectors: Mapping[str, str] = field(default_factory=dict)  # handle -> industry; empty where industries are shown
    days: Sequence[str] = ()  # ISO days, the first of which is `day_<first_day>`; empty where dates are shown
    first_day: int = 0  # number of the first of `days`
    problem: str = ""  # why there are none, in a sentence; empty when there are


def find_names(records: EpisodeRecords, plugins: Plugins, market: MarketSnapshot) -> Names:
    """Return the names of one episode, through the lens that its task gave it.

    They are believed only where the ledger agrees: each order of a recorded submission must name the asset that was traded for it.
    """
    spec = records.spec
    try:
        lens = plugins.make_task(spec.task).scene(spec, market).lens
        start, _ = window_rows(market.days, spec.window.first, spec.window.last)
    except KtdevalError as error:
        return Names(problem=f"The handles can't be resolved: {error}")
    if any(_contradicts(lens, market, step, talk) for step, talk in zip(records.steps, records.talks, strict=True)):
        return Names(problem="The installed task gives other handles than the one that ran, so true names are left out.")
    handles = {code: lens.asset_handle(column) for column, code in enumerate(market.codes)}
    assets = {handles[code]: (code, name) for code, name in zip(market.codes, market.names, strict=True)}
    sectors = {lens.sector_handle(industry): industry for industry in sorted(set(market.industries))}
    base = start - 1
    first, last = max(0, base - _DAYS_BEFORE), min(len(market.days), base + len(records.steps) + _DAYS_AFTER)
    days = [str(day) for day in market.days[first:last]] if lens.hides_dates else []
    return Names(assets, handles, sectors if lens.hides_assets else {}, days, first - base)


def _contradicts(lens: Lens, market: MarketSnapshot, step: StepRecord, talk: TranscriptEntry) -> bool:
    """Return whether an order of the ledger is in another asset than the handle of its submission means."""
    used = submitted_handles(talk, len(step.orders))
    for handle, order in zip(used, step.orders, strict=False):
        asset = lens.parse_asset(handle)
        if order.code is not None and (asset is None or market.codes[asset] != order.code):
            return True
    return False


def submitted_handles(talk: TranscriptEntry, orders: int) -> list[str]:
    """Return the stock_id of each order as the model wrote it; empty where no submission was taken as it was."""
    try:
        submitted = loads_strict(talk.submission or "null")
        used = [str(order["stock_id"]) for order in submitted["orders"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return used if len(used) == orders else []
