"""Public names of trading: orders, accounts, the executor, ledgers."""

from ktdeval.trading.daily_settlement import (
    Settlement as Settlement,
    open_account as open_account,
    value_minor as value_minor,
)
from ktdeval.trading.executor import execute as execute, settle as settle
from ktdeval.trading.ledger import (
    ChargeRecord as ChargeRecord,
    CorporateActionRecord as CorporateActionRecord,
    CountsRecord as CountsRecord,
    Ledger as Ledger,
    OrderRecord as OrderRecord,
    PositionRecord as PositionRecord,
    StepRecord as StepRecord,
)
from ktdeval.trading.market_rules import MarketRules as MarketRules
from ktdeval.trading.market_tape import MarketTape as MarketTape, limit_ppm as limit_ppm
from ktdeval.trading.rule_breaches import known_breaches as known_breaches
from ktdeval.trading.stale_values import (
    StaleHoldings as StaleHoldings,
    most_stale as most_stale,
    stale_holdings as stale_holdings,
)
from ktdeval.trading.trading_day import TradingDay as TradingDay
from ktdeval.trading.types import (
    BOOK_NAV as BOOK_NAV,
    DECIDED as DECIDED,
    Account as Account,
    AccountConfig as AccountConfig,
    Action as Action,
    BoardRuleSet as BoardRuleSet,
    Charge as Charge,
    Order as Order,
    Outcome as Outcome,
    Position as Position,
    Provenance as Provenance,
    Scale as Scale,
    Side as Side,
    TradingConfig as TradingConfig,
    bar_of_fill as bar_of_fill,
    trading_rules as trading_rules,
)
from ktdeval.trading.venue_terms import (
    NO_DUTIES as NO_DUTIES,
    PPB as PPB,
    RATE_SCALE as RATE_SCALE,
    Duty as Duty,
    has_dated_duties as has_dated_duties,
    in_lots as in_lots,
    target_steps as target_steps,
)
from ktdeval.trading.wide_ratios import ceil_ratio as ceil_ratio, floor_ratio as floor_ratio
