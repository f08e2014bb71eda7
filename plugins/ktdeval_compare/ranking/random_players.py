"""Rank of an entrant among random players of the same game (`compare luck --players`).

A random player is a random trader from `ktdeval.stats.random_envelope`. It starts with the
entrant's cash and trades on the episode's own days. The project's executor fills its orders under
the rules, fees and limits on the card. A random player trades only on days on which the entrant's
ledger has fills. On such a day, it buys as many names as the entrant did, for the same shares of
NAV. It holds as many names as the entrant, and adds to and reduces positions in the same way.
Turnover, positions and cash are therefore matched. Only the names are random: each name is drawn
from the members that can be bought on that day. A row shows how well turnover and the number of
names are matched.

The method is that of random portfolios: an entrant's result is compared with the results of
portfolios that could have been held under the same constraints (J. H. Lorie 1965; P. Burns,
"Performance Measurement via Random Portfolios", 2004, revised as "Random Portfolios for Performance
Measurement" in Kontoghiorghes and Gatu (eds.), Optimisation, Econometric and Financial Analysis,
Springer).

On each day, all players are executed together, as arrays. If this is impossible because the price
of a fill depends on its size, players are executed one at a time with the same result, and the
progress line gives the reason.

The rank is the share of players that the entrant beats; ties count half. The players are a sample
of all possible players, so the rank has a 95 % Wilson interval. Its lower end counts no tie as
beaten, and its upper end counts all ties as beaten. The interval covers only the sampling error.
The rank itself measures how much of the outcome in the episode could be due to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from ktdeval.cards import TradingEpisode
from ktdeval.errors import ConfigError
from ktdeval.market import MarketSnapshot
from ktdeval.stats import (
    EnvelopeSettings,
    TraderEnvelope,
    envelope_problem,
    random_envelope,
    rank_among,
    wilson,
)
from ktdeval.trading import MarketTape, TradingConfig, trading_rules
from ktdeval.values import Tell, derive_seed, option, tell_nobody
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compared_cards import EntrantCard, Values, recorded_ledger

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
POOLED = "all"  #: value of `window` in the row for all episodes of a card
_NO_MARKET = "random players trade on the run's market"


@dataclass(frozen=True)
class PlayersOptions:
    """Settings for random traders."""

    players: int = option(
        10_000, help="number of random players per episode", minimum=100, maximum=100_000
    )
    seed: int = option(0, help="seed of their draws", minimum=0, maximum=2**31 - 1)


class PlayersStanding(msgspec.Struct, frozen=True, kw_only=True):
    """Position of an entrant's return among the returns of random traders."""

    own: float  #: the entrant's return
    q5: float  #: 5 % quantile of the players' returns; the other quantiles follow
    q25: float
    q50: float
    q75: float
    q95: float
    rank: float  #: share of players that the entrant beats; ties count half
    low: float  #: lower end of the rank's 95 % interval
    high: float
    #: (1 + players that do at least as well) / (1 + players)
    p_value: float


class PlayersRow(msgspec.Struct, frozen=True, kw_only=True):
    """Rank of a card among random traders in one episode, or over all of the card's episodes.
    The latter is based on mean returns over episodes.
    """

    card: str
    window: str  #: window name, or `POOLED`
    seed: int | None  #: the episode's seed; None in the row for all episodes
    n: int  #: number of players
    standing: PlayersStanding | None
    turnover: float | None = None  #: the entrant's two-way turnover per year
    players_turnover: float | None = None  #: the players' mean turnover
    names: float | None = None  #: mean number of names that the entrant held at each close
    players_names: float | None = None
    reason: str | None = None  #: why the standing is missing


def quantiles_of(returns: Values) -> dict[str, Any]:
    """Return the quantiles of [n] returns at `LEVELS`, by field name: q5, …"""
    names = [f"q{100 * level:g}" for level in LEVELS]
    return dict(zip(names, np.quantile(returns, LEVELS).tolist(), strict=True))


def standing_of(own: float, returns: Values) -> PlayersStanding:
    """Return the standing of a return among the returns of [n] players."""
    n = len(returns)
    worse = int((returns < own).sum())
    ties = int((returns == own).sum())
    lower, upper = wilson(worse, n), wilson(worse + ties, n)
    assert lower.low is not None
    assert upper.high is not None
    rank, p_value = rank_among(own, returns)

    return PlayersStanding(
        own=own,
        **quantiles_of(returns),
        rank=rank,
        low=lower.low,
        high=upper.high,
        p_value=p_value,
    )


@dataclass
class PlayersTable:
    """Runs random traders for cards. Each market is opened and converted to a tape only once."""

    options: PlayersOptions
    tell: Tell = tell_nobody
    _markets: CardMarkets = field(default_factory=lambda: CardMarkets(_NO_MARKET))
    _tapes: dict[tuple[str, TradingConfig], MarketTape] = field(default_factory=dict)

    def rows(self, entrants: Sequence[EntrantCard]) -> list[PlayersRow]:
        """Return a row for each episode that is included in a card's figures. If a card has several
        such episodes, and random traders for all of them, also return a row over all episodes.
        """
        rows: list[PlayersRow] = []
        total = sum(len(entrant.card.pooled) for entrant in entrants)
        for entrant in entrants:
            played = []
            for episode in entrant.card.pooled:
                self.tell("random players", len(rows), total)
                envelope = self._play(entrant, episode)
                rows.append(self._row(entrant, episode, envelope))
                if isinstance(envelope, TraderEnvelope):
                    played.append(envelope)

            if 1 < len(played) == len(entrant.card.pooled):
                rows.append(self._pooled_row(entrant, played))

        return rows

    def _play(self, entrant: EntrantCard, episode: TradingEpisode) -> TraderEnvelope | str:
        """Return the random traders for an episode, or the reason why it has no traders."""
        ledger = recorded_ledger(entrant, episode.id)
        if isinstance(ledger, str):
            return ledger

        problem = envelope_problem(ledger)
        if problem is not None:
            return problem

        market = self._markets.find(entrant)
        if isinstance(market, str):
            return market

        try:
            config = trading_rules(
                entrant.card.task.config.get("trading") or {}, "trading rules on the card"
            )
        except ConfigError as error:
            return str(error)

        draws = derive_seed("random players", self.options.seed, episode.window, episode.seed)
        settings = EnvelopeSettings(self.options.players, draws)
        tape = self._tape(market, config)
        envelope = random_envelope(ledger, market, config, settings, tape, self.tell)
        return envelope.reason or envelope

    def _row(
        self, entrant: EntrantCard, episode: TradingEpisode, envelope: TraderEnvelope | str
    ) -> PlayersRow:
        if isinstance(envelope, str):
            return PlayersRow(
                card=entrant.label,
                window=episode.window,
                seed=episode.seed,
                n=0,
                standing=None,
                reason=envelope,
            )

        return PlayersRow(
            card=entrant.label,
            window=episode.window,
            seed=episode.seed,
            n=len(envelope.returns),
            standing=standing_of(envelope.agent_return, envelope.returns),
            turnover=envelope.agent.turnover,
            players_turnover=envelope.random.turnover,
            names=envelope.agent.names,
            players_names=envelope.random.names,
        )

    def _pooled_row(self, entrant: EntrantCard, played: Sequence[TraderEnvelope]) -> PlayersRow:
        """Return the row over all episodes. The n-th players in all episodes are treated as the
        same player.
        """
        own = float(np.mean([envelope.agent_return for envelope in played]))
        means = np.mean([envelope.returns for envelope in played], axis=0)
        return PlayersRow(
            card=entrant.label,
            window=POOLED,
            seed=None,
            n=len(means),
            standing=standing_of(own, means),
        )

    def _tape(self, market: MarketSnapshot, config: TradingConfig) -> MarketTape:
        key = (market.id, config)
        if key not in self._tapes:
            self._tapes[key] = MarketTape.from_snapshot(market, config)

        return self._tapes[key]
