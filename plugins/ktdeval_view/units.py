"""Units of an episode's records, and its steps in them: pages show currency and shares, never minor units, ticks and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ktdeval.jsonio import JsonValue
from ktdeval.market import FillRule, MarketSnapshot
from ktdeval.trading import Ledger, MarketRules, Scale, StepRecord, TradingConfig
from ktdeval.typed import to_plain

_A_SHARE = Scale()
_MONEY = "_minor"  #: End of the names of money in a step record's JSON
_QUANTITIES = frozenset({"shares", "filled_shares", "shares_before", "shares_after", "locked"})


@dataclass(frozen=True)
class Units:
    """Units of money, prices and quantities; by default those of A-shares."""

    currency: str = "CNY"
    minor_per_unit: int = 100
    scales: Mapping[str, Scale] | None = None  # of each code; None where all is in A-shares

    @staticmethod
    def of_ledger(ledger: Ledger) -> Units:
        """Units that a ledger states."""
        return Units() if ledger.version == 1 else Units(ledger.currency, ledger.minor_per_unit, ledger.scales)

    @staticmethod
    def of_market(market: MarketSnapshot, trading: TradingConfig) -> Units:
        """Units of the ledger that trading a market comes to. Raises DataError as `MarketRules.of`."""
        rules = MarketRules.of(market, trading)
        scales = None if rules.has_boards else dict(zip(market.codes, rules.scales, strict=True))
        return Units(rules.currency, rules.minor_per_unit, scales)

    def scale(self, code: str | None) -> Scale:
        """Units of the prices and quantities of a code."""
        return (self.scales or {}).get(code or "", _A_SHARE)

    def fill(self, code: str | None) -> FillRule | None:
        """Price that fills of a code are at; None in A-shares, where it is the next open."""
        return None if self.scales is None else self.scale(code).fill

    def money(self, minor: int) -> float:
        """Units of currency."""
        return minor / self.minor_per_unit

    def step(self, step: StepRecord) -> dict[str, JsonValue]:
        """A step record in units: `nav_minor` is `nav`, in units of currency, `price_ticks` is `price`; shares are shares."""
        return self._shown(to_plain(step))

    def _shown(self, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        ticks, steps, _ = self.scale(str(record.get("code")))
        shown: dict[str, JsonValue] = {}
        for name, value in record.items():
            if isinstance(value, list):
                shown[name] = [self._shown(item) if isinstance(item, Mapping) else item for item in value]
            elif isinstance(value, int) and name.endswith(_MONEY):
                shown[name.removesuffix(_MONEY)] = self.money(value)
            elif isinstance(value, int) and name == "price_ticks":
                shown["price"] = value / ticks
            elif isinstance(value, int) and name in _QUANTITIES and steps > 1:
                shown[name] = value / steps
            else:
                shown[name] = value
        return shown
