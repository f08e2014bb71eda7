"""Public names of attribution: exposures, cross-sectional regressions, decomposition of returns."""

from ktdeval.attribution.asset_exposures import vif_screen as vif_screen
from ktdeval.attribution.declared_account import (
    GAP_CAUSES as GAP_CAUSES,
    AccountFill as AccountFill,
    AccountGap as AccountGap,
    AccountPath as AccountPath,
    GapCause as GapCause,
    account_gap as account_gap,
    book_fills as book_fills,
    declared_nav as declared_nav,
)
from ktdeval.attribution.decompose import (
    TRADING_LINES as TRADING_LINES,
    LedgerAttribution as LedgerAttribution,
    attribute as attribute,
    attribution_problem as attribution_problem,
)
from ktdeval.attribution.factor_returns import (
    FEW_ASSETS as FEW_ASSETS,
    Fit as Fit,
    Goodness as Goodness,
    Scheme as Scheme,
    fit_factors as fit_factors,
    has_few_assets as has_few_assets,
    market_levels as market_levels,
)
from ktdeval.attribution.style_factor_panel import (
    FACTOR_NAMES as FACTOR_NAMES,
    factor_history as factor_history,
    factor_panel as factor_panel,
)
from ktdeval.attribution.style_factors import (
    FACTORS as FACTORS,
    FactorDefinition as FactorDefinition,
    FactorTable as FactorTable,
    PriceHistory as PriceHistory,
    factor_values as factor_values,
    filled_forward as filled_forward,
    last_known as last_known,
    standardise as standardise,
)
