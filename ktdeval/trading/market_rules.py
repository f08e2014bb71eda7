"""Rules under which the assets of a market trade: venues, terms, scales and limits of an account."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from ktdeval.errors import DataError
from ktdeval.market.rules.board_rules import order_sizes
from ktdeval.market.snapshots.snapshot import Board, MarketSnapshot, board_of
from ktdeval.market.venues.venue import Venue
from ktdeval.trading.execution_costs import check_quotes, execution_terms
from ktdeval.trading.types import Scale, TradingConfig
from ktdeval.trading.venue_terms import AccountLimits, Terms, duties_on, limits_of, terms_of


@dataclass(frozen=True)
class MarketRules:
    """Rules and units under which a snapshot's assets trade; they do not depend on prices."""

    #: [assets] the config's venue or, if it has none, each asset's own venue
    venues: tuple[Venue, ...]
    terms: tuple[Terms, ...]  #: [assets]
    #: [assets] ticks per currency unit, steps per share or coin, price of fills
    scales: tuple[Scale, ...]
    limits: AccountLimits
    #: the market's trading days per year, by which annual interest is divided
    days_a_year: int = 252

    @classmethod
    def of(cls, snapshot: MarketSnapshot, config: TradingConfig) -> MarketRules:
        """Return the rules for a snapshot under a config. Duties that depend on the day are not
        included (see `on`). Raises DataError if a venue's currency differs from the prices'
        currency, or if a spread is taken from quotes but the market has no quotes.
        """
        venues = _venues(snapshot, config)
        usual: dict[str, Terms] = {}
        of_board: dict[tuple[str, Board], Terms] = {}
        scale_of: dict[str, Scale] = {}

        # Computed once per venue and board, since a snapshot has thousands of assets.
        for name, venue in venues.items():
            execution = execution_terms(venue, config)
            usual[name] = replace(terms_of(venue, config), execution=execution)
            check_quotes(snapshot, execution, name)
            scale_of[name] = Scale(venue.ticks_per_unit, venue.steps_per_unit, venue.fill)
            if venue.has_boards:
                for board in Board:
                    of_board[name, board] = _board_terms(usual[name], board, config)

        terms = []
        for name, code in zip(snapshot.venues, snapshot.codes, strict=True):
            if venues[name].has_boards:
                terms.append(of_board[name, board_of(code)])
            else:
                terms.append(usual[name])

        return cls(
            venues=tuple(venues[name] for name in snapshot.venues),
            terms=tuple(terms),
            scales=tuple(scale_of[name] for name in snapshot.venues),
            limits=limits_of(config),
            days_a_year=snapshot.days_a_year,
        )

    def on(self, day: np.datetime64, codes: Sequence[str]) -> MarketRules:
        """Return the rules, including the duties on a day. `codes`: codes of the assets."""
        terms = []
        known: dict[tuple[str, Board | None], Terms] = {}
        for code, venue, undated in zip(codes, self.venues, self.terms, strict=True):
            if undated.duties is not None:
                terms.append(undated)
                continue

            board = board_of(code) if venue.has_boards else None
            if (venue.name, board) not in known:
                dated = replace(undated, duties=duties_on(venue, board, day))
                known[venue.name, board] = dated

            terms.append(known[venue.name, board])

        return dataclasses.replace(self, terms=tuple(terms))

    @property
    def currency(self) -> str:
        """Currency of the account."""
        if not self.venues:
            return "CNY"
        return self.venues[0].currency

    @property
    def minor_per_unit(self) -> int:
        """Minor units per currency unit."""
        if not self.venues:
            return 100
        return self.venues[0].minor_per_unit

    @cached_property
    def has_boards(self) -> bool:
        """True if all assets are A-shares."""
        return all(venue.has_boards for venue in self.venues)

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Ticks of one step's price per minor unit. Shape: [assets]."""
        return tuple(terms.unit for terms in self.terms)

    @cached_property
    def shorts(self) -> bool:
        """True if any asset can be sold short."""
        return any(terms.margin for terms in self.terms)


def _venues(snapshot: MarketSnapshot, config: TradingConfig) -> dict[str, Venue]:
    """Map each venue name in the snapshot to the venue to trade at: the config's venue if it has
    one, else the snapshot's venue. Raises DataError if a venue's currency differs from the prices'
    currency, or if two venues have different minor units.
    """
    venues = {name: config.venue or snapshot.rules[name] for name in dict.fromkeys(snapshot.venues)}
    if not venues:
        return venues

    first = next(iter(venues.values()))
    expected = (snapshot.currency, first.minor_per_unit)
    for venue in venues.values():
        if (venue.currency, venue.minor_per_unit) != expected:
            raise DataError(
                f"snapshot {snapshot.meta.name}: prices are in {snapshot.currency}, but venue"
                f" {venue.name} uses 1/{venue.minor_per_unit} {venue.currency}; an account has one"
                f" currency: choose a venue with {snapshot.currency}"
            )
    return venues


def _board_terms(terms: Terms, board: Board, config: TradingConfig) -> Terms:
    """Return a venue's terms with a board's order sizes."""
    if config.board_rules == "exchange":
        sizes = order_sizes(board)
        # STAR and Beijing trade single shares; a holding below the minimum order is sold whole.
        min_sell = sizes.smallest if sizes.step < sizes.smallest else 0
        return replace(terms, lot=sizes.step, min_buy=sizes.smallest, min_sell=min_sell)

    if board is Board.STAR:
        # SSE Special Provisions on Trading on the STAR Market (2019)
        return replace(terms, min_buy=max(config.star_min_shares, config.lot_shares))

    return terms
