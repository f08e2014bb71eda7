"""Markets on which the compared cards were made, as recorded by their runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktdeval.errors import CardError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunFolder, recorded_market
from ktdeval.values import Address
from ktdeval_compare.pairs.compared_cards import EntrantCard


@dataclass(frozen=True)
class CardMarkets:
    """Opens the markets of cards. Each market is opened only once."""

    #: what can't be computed without a market, for the error message if the market is missing
    without: str
    data: Address | None = None  #: folder or provider of the market, if the market has moved
    plugins: Plugins = field(default_factory=load_plugins)
    #: opened markets by snapshot id
    opened: dict[str, MarketSnapshot] = field(default_factory=dict)

    def find(self, entrant: EntrantCard) -> MarketSnapshot | str:
        """Return the market of a card's run, or the reason why the market can't be read. Raises
        DataError if `data` contains a different market.
        """
        wanted = entrant.card.snapshot.id
        if wanted in self.opened:
            return self.opened[wanted]
        if not entrant.is_in_run:
            return f"{self.without}: the card is not in a run folder that names its market"

        folder = RunFolder.load(entrant.run_folder)
        market = recorded_market(folder, self.plugins, self.data, self.without)
        if isinstance(market, str):
            return market
        if market.id != wanted:
            return f"{self.without}: its run is of snapshot {market.id[:12]}, the card of {wanted[:12]}"

        self.opened[wanted] = market
        return market

    def need(self, entrant: EntrantCard) -> MarketSnapshot:
        """Return the market of a card's run. Raises CardError if the market can't be read."""
        market = self.find(entrant)
        if isinstance(market, str):
            raise CardError(f"{entrant.path}: {market}")
        return market
