"""Parts of an episode that do not change from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktdeval.market import MarketSnapshot, bar_rows
from ktdeval.masking import Lens, OwnFigure, Payload, TextMask
from ktdeval.trading import MarketRules, Scale, TradingConfig

#: Parts that a session is shown in; sessions before the first decision whose shortest gives the
#: number
MIN_PARTS = 4
MAX_PARTS = 20
PARTS_DAYS = 252


@dataclass(frozen=True)
class EpisodeStage:
    """Parts that do not change within an episode."""

    lens: Lens
    snapshot: MarketSnapshot
    rules: MarketRules
    trading: TradingConfig
    texts: TextMask
    shown: int  #: most assets in the table
    news: int  #: most documents shown; 0 omits the section
    news_days: int  #: days that they may be old
    news_each: (
        int | None
    )  #: most of them that one asset brings, or the market as a whole; None: any
    news_characters: int  #: most characters of a document's text
    intraday: int = 0  #: most assets whose last session is shown; 0 omits the section
    history: int = 0  #: most bars shown of each asset; 0 omits the section
    older_closes: int = 0  #: of these bars, number of the oldest that show only their close
    length: str = ""  #: length of the episode, as text of the prompt
    only: frozenset[int] = frozenset()  #: columns of the assets that the task is about; empty: all
    _parts: dict[int, int] = field(default_factory=dict)

    @property
    def initial_minor(self) -> int:
        """Cash at the start, in minor units of the currency."""
        return self.trading.initial_cash * self.rules.minor_per_unit

    def money(self, minor: int) -> Payload:
        """Return an amount of the account in units of its currency."""
        return OwnFigure(minor / self.rules.minor_per_unit)

    def session_parts(self, asset: int) -> int:
        """Return the number of parts that an asset's sessions are shown in, one number for the
        episode: the number of bars would tell which days are short.
        """
        if asset not in self._parts:
            fewest = self._min_minutes(asset)
            self._parts[asset] = min(max(fewest, MIN_PARTS), MAX_PARTS)

        return self._parts[asset]

    def _min_minutes(self, asset: int) -> int:
        """Return the bars of the shortest session before the first decision."""
        view = self.snapshot.as_of(self.lens.base_row)
        code = self.snapshot.codes[asset]
        sessions = bar_rows(view, asset)[-PARTS_DAYS:].tolist()

        counts = [len(view.minutes(code, row)) for row in sessions]
        traded = [count for count in counts if count]
        return min(traded, default=MAX_PARTS)

    def rank(self, code: str) -> int:
        """Return the rank of an asset in the episode's own order, which is independent of its
        code.
        """
        return self.lens.rank[self.snapshot.asset_index[code]]

    def scale(self, code: str) -> tuple[int, Scale]:
        """Return column and units of a code."""
        asset = self.snapshot.asset_index[code]
        return asset, self.rules.scales[asset]
