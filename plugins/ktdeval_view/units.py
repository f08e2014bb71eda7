"""Steps of an episode in units: pages show currency and shares, never minor units, ticks and steps."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.jsonio import JsonValue
from ktdeval.trading import Ledger, StepRecord
from ktdeval.typed import to_plain

_MONEY = "_minor"  #: End of the names of money in a step record's JSON
_QUANTITIES = frozenset({"shares", "filled_shares", "shares_before", "shares_after", "locked"})


def step_in_units(ledger: Ledger, step: StepRecord) -> dict[str, JsonValue]:
    """Return a ledger's step as JSON: `nav_minor` is `nav`, in units of currency, `price_ticks` is `price`; shares are shares."""
    return _shown(ledger, to_plain(step))


def _shown(ledger: Ledger, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    ticks, steps, _ = ledger.scale(str(record.get("code")))
    shown: dict[str, JsonValue] = {}
    for name, value in record.items():
        if isinstance(value, list):
            shown[name] = [_shown(ledger, item) if isinstance(item, Mapping) else item for item in value]
        elif isinstance(value, int) and name.endswith(_MONEY):
            shown[name.removesuffix(_MONEY)] = value / ledger.minor_per_unit
        elif isinstance(value, int) and name == "price_ticks":
            shown["price"] = value / ticks
        elif isinstance(value, int) and name in _QUANTITIES and steps > 1:
            shown[name] = value / steps
        else:
            shown[name] = value
    return shown
