"""Documents that a board's check writes, as typed values: verdicts, and what it derives from records and markets."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ktdeval.typed import Value
from ktdeval_board.documents import Count, Day, EpisodeId, Sha256, Version1

Reason = Annotated[str | None, Meta(description="Why there is no value; null where there is one.")]
Line4 = Annotated[
    list[float] | None, Meta(description="[n] linked contribution since the base day; the four lines add up to the return.")
]


class Figure(Value, frozen=True, kw_only=False):
    """Headline figure, submitted and found again."""

    submitted: float | None
    rerun: float | None


class Rerun(Value, frozen=True, kw_only=True):
    """Run of the same plan by the board's maintainers."""

    by: str
    on: Day
    card: Annotated[Sha256, Meta(description="SHA-256 of the card of the maintainers' run.")]
    figures: Annotated[dict[str, Figure], Meta(description="Headline figures: submitted and found again.")]


class Verdict(Value, frozen=True, kw_only=True):
    """Verdict of a board's check on a submitted card, version 1."""

    schema_version: Version1 = 1
    card: Sha256
    division: str
    tier: Literal["self-reported", "re-executed", "re-run"]
    checked_on: Day
    suite_version: str
    episodes: Annotated[Count, Meta(description="Episodes that were executed again.")]
    steps: Annotated[Count, Meta(description="Steps that were executed again.")]
    notes: Annotated[tuple[str, ...], Meta(description="Why the tier is not higher, and what a reader should know.")]
    rerun: Rerun | None

    @property
    def is_executed(self) -> bool:
        """Whether the board executed the card's replies, or its plan, itself."""
        return self.tier != "self-reported"


class Envelope(Value, frozen=True, kw_only=True):
    """Random traders of an episode's activity."""

    levels: Annotated[list[float], Meta(description="Quantile levels of the bands.")]
    bands: Annotated[list[list[float]], Meta(description="For each level [n + 1] NAV over the initial cash.")]
    rank: Annotated[float, Meta(description="Share of the random traders that the episode beats, ties half.", ge=0, le=1)]
    p_value: Annotated[float, Meta(ge=0, le=1)]
    paths: Annotated[int, Meta(ge=1)]


class EpisodeSeries(Value, frozen=True, kw_only=True):
    """Days of one episode."""

    id: EpisodeId
    window: str
    seed: int
    base_day: Annotated[Day, Meta(description="Day of the first decision, whose close is the base of all levels.")]
    days: Annotated[list[Day], Meta(description="[n] days of fills, at whose closes all other figures are.", min_length=1)]
    nav: Annotated[list[float], Meta(description="[n + 1] NAV over the initial cash; the first is 1.")]
    gross_nav: Annotated[list[float], Meta(description="[n + 1] the daily returns before fees, compounded.")]
    benchmark: Annotated[list[float] | None, Meta(description="[n + 1] level of the benchmark over that of the base day.")]
    benchmark_reason: Reason
    invested: Annotated[list[float], Meta(description="[n] holdings at the close, as a fraction of the NAV.")]
    names: Annotated[list[Count], Meta(description="[n] names held at the close.")]
    turnover: Annotated[list[float], Meta(description="[n] notional bought and sold, as a fraction of the NAV at the open.")]
    common: Line4
    style: Line4
    selection: Line4
    trading: Line4
    selection_daily: Annotated[list[float] | None, Meta(description="[n] selection of each day, not linked.")]
    exposures: Annotated[
        dict[str, float | None] | None,
        Meta(description="Factor to mean exposure over the days on which something was held; null where nothing ever was."),
    ]
    attribution_reason: Reason
    envelope: Envelope | None
    envelope_reason: Reason

    def __post_init__(self) -> None:
        n = len(self.days)
        per_day = (self.invested, self.names, self.turnover, self.common, self.style, self.selection, self.trading)
        if any(levels is not None and len(levels) != n + 1 for levels in (self.nav, self.gross_nav, self.benchmark)) or any(
            line is not None and len(line) != n for line in (*per_day, self.selection_daily)
        ):
            raise ValueError("its lists do not fit its days")


class Series(Value, frozen=True, kw_only=True):
    """Daily series of a checked ktdeval result card, version 1: derived from the records; six significant digits."""

    schema_version: Version1
    card: Sha256
    episodes: Annotated[list[EpisodeSeries], Meta(description="In the order of the card.")]


class Order(Value, frozen=True, kw_only=True):
    """Order of a day."""

    code: Annotated[str, Meta(description="The stock; where there is none of that name, what the model wrote.", max_length=40)]
    side: Literal["BUY", "SELL"]
    asked: Annotated[str, Meta(description="The target weight, such as `8 %`, or `300 shares`.", max_length=40)]
    filled: Annotated[Count, Meta(description="Shares.")]
    price: Annotated[float | None, Meta(description="CNY a share; null where nothing was filled.")]
    status: Literal["filled", "partially_filled", "rejected"]
    rule: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="The trading rule that rejected or cut the order; null where it was filled whole."),
    ]
    reason: Annotated[str, Meta(description="The model's reason, cut to 160 characters.", max_length=160)]


class DecisionStep(Value, frozen=True, kw_only=True):
    """Decision of a day."""

    day: Annotated[Day, Meta(description="Day of the fills.")]
    decided_on: Annotated[Day, Meta(description="Day of the decision; its close was the last thing known.")]
    by: Annotated[
        Literal["model", "model_after_retry", "fallback", "error"],
        Meta(description="Who decided: the model, or the engine, which then holds."),
    ]
    why: Annotated[str, Meta(description="The model's overall reason, cut to 300 characters.", max_length=300)]
    orders: tuple[Order, ...]
    holdings: Annotated[
        tuple[tuple[str, float], ...],
        Meta(description="[code, weight] at the close, largest first; a weight is a fraction of the NAV."),
    ]


class EpisodeDecisions(Value, frozen=True, kw_only=True):
    """Decisions of one episode."""

    id: EpisodeId
    window: str
    seed: int
    steps: tuple[DecisionStep, ...]


class Decisions(Value, frozen=True, kw_only=True):
    """Orders and holdings by day of a checked ktdeval result card, version 1. Reasons are the model's words, never markup."""

    schema_version: Version1
    card: Sha256
    episodes: Annotated[tuple[EpisodeDecisions, ...], Meta(description="In the order of the card.")]


class MarketFacts(Value, frozen=True, kw_only=True):
    """Snapshot."""

    name: Annotated[str, Meta(description="What the board calls it.")]
    id: Sha256
    benchmark: str
    benchmark_name: str
    synthetic: bool
    source: str
    assets: Count
    first_day: Day
    last_day: Day


Regime = Literal["bull", "bear", "volatile", "flat", "unknown"]


class MarketWindow(Value, frozen=True, kw_only=True):
    """Benchmark over a window."""

    name: str
    first: Day
    last: Day
    days: Annotated[int, Meta(ge=1)]
    total_return: Annotated[float | None, Meta(description="From the close before the first day to the last close, as a fraction.")]
    volatility: Annotated[float | None, Meta(description="Standard deviation of daily returns (ddof 1), times √252.")]
    sharpe: Annotated[
        float | None, Meta(description="Mean over standard deviation of daily returns, times √252; no risk-free rate.")
    ]
    max_drawdown: Annotated[float | None, Meta(description="Largest fall from a peak, as a positive fraction of the peak.")]
    regime: Regime


class Market(Value, frozen=True, kw_only=True):
    """Market of a board over its windows, version 1: derived from the snapshot; figures have six significant digits."""

    schema_version: Version1
    snapshot: MarketFacts
    days: Annotated[tuple[Day, ...], Meta(description="[n] trading days from the one before the first window to the last of all.")]
    benchmark: Annotated[tuple[float | None, ...], Meta(description="[n] closing levels; null where the market has none.")]
    regime_rule: Annotated[str, Meta(description="How `regime` is told, in a sentence.")]
    windows: Annotated[tuple[MarketWindow, ...], Meta(description="Figures of the benchmark, by first day.")]
