"""Parts of an episode that do not change from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktdeval.market import MarketSnapshot, bar_rows
from ktdeval.masking import Lens, OwnFigure, Payload, TextMask
from ktdeval.trading import MarketRules, Scale, TradingConfig

#: Bounds on the number of parts in which a session is shown, and the number of sessions before the
#: first decision whose shortest determines the number of parts
MIN_PARTS = 4
MAX_PARTS = 20
PARTS_DAYS = 252


@dataclass(frozen=True)
class MarketStage:
    """Parts of an episode that do not change from step to step."""

    lens: Lens
    snapshot: MarketSnapshot
    rules: MarketRules
    trading: TradingConfig
    texts: TextMask
    shown: int  #: maximum number of assets in the table
    news: int  #: maximum number of documents shown; 0 omits the section
    news_days: int  #: maximum age of documents, in days
    news_each: int | None  #: maximum number per asset, and for the whole market; None: no limit
    news_characters: int  #: maximum number of characters in a document's text
    intraday: int = 0  #: maximum number of assets whose last session is shown; 0 omits the section
    history: int = 0  #: maximum number of bars shown per asset; 0 omits the section
    older_closes: int = 0  #: number of the oldest of these bars that show only their close
    length: str = ""  #: length of the episode, as prompt text
    only: frozenset[int] = frozenset()  #: columns of the assets that the task is about; empty: all
    _parts: dict[int, int] = field(default_factory=dict)

    @property
    def initial_minor(self) -> int:
        """Cash at the start, in minor units of the currency."""
        return self.trading.initial_cash * self.rules.minor_per_unit

    def money(self, minor: int) -> Payload:
        """Convert an amount from minor units to units of the account's currency."""
        return OwnFigure(minor / self.rules.minor_per_unit)

    def session_parts(self, asset: int) -> int:
        """Return the number of parts into which an asset's sessions are split. The number is
        constant over the episode, since a number that followed the bars would reveal which days are
        short.
        """
        if asset not in self._parts:
            fewest = self._min_minutes(asset)
            self._parts[asset] = min(max(fewest, MIN_PARTS), MAX_PARTS)

        return self._parts[asset]

    def _min_minutes(self, asset: int) -> int:
        """Return the number of bars in the asset's shortest session before the first decision."""
        view = self.snapshot.as_of(self.lens.base_row)
        code = self.snapshot.codes[asset]
        sessions = bar_rows(view, asset)[-PARTS_DAYS:].tolist()

        counts = [len(view.minutes(code, row)) for row in sessions]
        traded = [count for count in counts if count]
        return min(traded, default=MAX_PARTS)

    def rank(self, code: str) -> int:
        """Return an asset's rank in the episode's own order, which is independent of codes."""
        return self.lens.rank[self.snapshot.asset_index[code]]

    def scale(self, code: str) -> tuple[int, Scale]:
        """Return the column of a code and the units of its asset."""
        asset = self.snapshot.asset_index[code]
        return asset, self.rules.scales[asset]
