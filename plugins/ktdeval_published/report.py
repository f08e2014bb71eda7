"""Report on a board: typed figures, each with its interval or the reason why it is missing."""

from __future__ import annotations

from msgspec import field

from ktdeval.values import Value

REPORT_VERSION = 1


class IntervalEstimate(Value):
    """Figure with its interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0  #: observations
    kind: str = ""  #: method of the interval
    reason: str = ""  #: why the figure or its interval is missing


class AccountTrack(Value):
    """Account over its days."""

    gain: float | None  #: in the currency of the account
    total_return: float | None  #: fraction of the capital; None without a capital
    sharpe: IntervalEstimate  #: annual, rf 0
    days: int
    first: str
    last: str
    max_drawdown: float | None = None  #: fraction, or currency without a capital


class Cause(Value):
    """Part of the gap between the declared and the executed result."""

    name: str
    amount: float  #: in currency; executed less declared


class Live(Value):
    """Days of an entrant by the moment of their publication."""

    before: int
    after: int
    unknown: int
    sharpe_before: IntervalEstimate = IntervalEstimate()
    sharpe_after: IntervalEstimate = IntervalEstimate()


class Fills(Value):
    """Convention of the fills, inferred from cash and quantity."""

    orders: int
    counts: dict[str, int]  #: orders by the prices that equal the fill
    stale_worth: float | None = None  #: worth of prices from before the decision, in currency
    breaches: dict[str, int] = field(
        default_factory=dict
    )  #: declared fills that the venue's rules forbid, by rule
    refused: dict[str, int] = field(
        default_factory=dict
    )  #: orders refused or cut when executed, by rule


class Luck(Value):
    """Tests of skill, one-sided; p-values without and with Holm's correction over entrants."""

    psr: float | None = None
    dsr: float | None = None
    p_index: float | None = None
    p_index_holm: float | None = None
    p_holding: float | None = None
    p_holding_holm: float | None = None
    p_random: float | None = None
    p_random_holm: float | None = None
    random_rank: float | None = None  #: share of the random traders that did worse
    reasons: dict[str, str] = field(default_factory=dict)


class CostStep(Value):
    """Gain at one cost."""

    bps: float  #: cost a side
    gain: float


class CostLadder(Value):
    """Gains at rising costs."""

    name: str  #: how the costs arise
    steps: tuple[CostStep, ...]
    breakeven_bps: float | None = None
    reason: str = ""
    traded: float = 0.0  #: sum of both sides in currency


class CutoffDays(Value):
    """Days after the end of a model's training data."""

    model: str
    date: str = ""
    confidence: str = ""
    source: str = ""
    clean: int = 0  #: days after it for certain
    likely: int = 0  #: days after a lower bound
    no: int = 0  #: days before it
    unknown: int = 0


class LogReport(Value):
    """What logs show that was not known at the decision."""

    logs: int
    with_later: int  #: logs in which a tool's result names a day after the decision
    with_dated: int  #: logs with a document that states to be published after the decision
    silent: int  #: logs that can't tell: nothing but the request and the answer
    days: tuple[str, ...] = ()
    by_part: dict[str, int] = field(default_factory=dict)
    clock_after: int = 0  #: logs whose first clock is after the decision's deadline
    clock_before: int = 0
    clock_none: int = 0
    reason: str = ""


class EntrantReport(Value):
    """One entrant."""

    name: str
    arm: str = ""
    pair: str = ""
    problem: str = ""  #: why it can't be read or executed; the figures are then missing
    declared: AccountTrack | None = None
    executed: AccountTrack | None = None
    unrepaired: AccountTrack | None = None  #: executed without the repairs of the data
    causes: tuple[Cause, ...] = ()
    residual: float | None = None  #: declared less what its own rows yield, in currency
    rank_declared: int | None = None
    rank_executed: int | None = None
    live: Live | None = None
    fills: Fills | None = None
    luck: Luck = Luck()
    costs: tuple[CostLadder, ...] = ()
    selection: IntervalEstimate | None = None  #: gain without market and styles, in currency
    capacity: float | None = None  #: capital in currency at which 95 % of orders are at most 1 %
    cutoff: CutoffDays | None = None
    logs: LogReport | None = None
    tokens: float | None = None
    dollars: float | None = None
    counts: dict[str, int] = field(default_factory=dict)


class DataFinding(Value):
    """Fault of the data."""

    kind: str
    count: int
    detail: str
    effect: str = ""  #: result before and after the repair


class Power(Value):
    """Days that are needed."""

    days: int
    days_for_one: int  #: for an annual Sharpe ratio of 1
    days_for_two: int
    detectable: float | None  #: smallest annual Sharpe ratio that these days detect
    power: float = 0.8
    level: float = 0.05


class ArmEffect(Value):
    """Paired effect of an arm."""

    arm: str
    base: str
    pairs: int
    total_return: IntervalEstimate  #: difference in return
    turnover: IntervalEstimate  #: difference in turnover, in multiples of the capital
    worse: int = 0  #: pairs with a lower return than the base
    look_ahead: str = ""  #: logs with later news in this arm


class CellEffect(Value):
    """Strategy against holding over many windows and assets."""

    name: str
    cells: int
    windows: int
    clusters: int
    mean: IntervalEstimate  #: difference in return a cell
    median: float
    beats: float  #: share of cells that beat holding
    equal: float  #: share of cells whose equity never moved
    mean_without_top: float  #: mean without the best 1 % of cells
    stated_gap: float  #: largest difference between stated and own return
    stated_off: int  #: cells whose stated return is off by more than 0.01 %
    sharpe_own: float | None = None
    sharpe_holding: float | None = None


class Beats(Value):
    """How many entrants beat what, after Holm's correction at 5 %."""

    what: str
    entrants: int
    beat: int
    ahead: int  #: entrants with a higher result, whatever its significance
    name: str = ""


class BoardTotals(Value):
    """Sums over the entrants; None where nothing is known."""

    entrants: int
    unreadable: int
    before: int | None = None  #: entrant-days published before their prices
    after: int | None = None
    unknown: int | None = None
    clean: int | None = None  #: entrant-days after the model's cutoff, for certain
    orders: int | None = None
    breaches: int | None = None  #: declared fills that the venue's rules forbid
    gains: int | None = None  #: entrants with a gain before costs
    gains_at_5bp: int | None = None
    logs: int | None = None


class BoardReport(Value):
    """What a board shows."""

    published: int  #: version of the report
    name: str
    title: str
    repository: str
    commit: str
    commit_state: str
    commit_note: str
    licence: str
    period: str
    currency: str
    claim: str
    claim_figure: str
    claim_where: str
    sentence: str
    findings: tuple[str, ...]
    entrants: tuple[EntrantReport, ...]
    totals: BoardTotals
    kendall_tau: float | None = None
    kendall_n: int = 0
    ceiling: float | None = None  #: expected best annual Sharpe ratio of N without skill
    best: IntervalEstimate = IntervalEstimate()
    best_name: str = ""
    beats: tuple[Beats, ...] = ()
    data: tuple[DataFinding, ...] = ()
    power: Power | None = None
    arms: tuple[ArmEffect, ...] = ()
    cells: tuple[CellEffect, ...] = ()
    published_by: str = ""
    deadline: str = ""
    fill_rule: str = ""
    index: str = ""
    call_costs: str = ""
    limits: tuple[str, ...] = ()  #: what does not follow
    close_gap: tuple[str, ...] = ()
