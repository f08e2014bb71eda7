"""Public names of the market: snapshots, calendars, boards, storage."""

from ktdeval.market.rules.calendar import (
    parse_day as parse_day,
    session_hours as session_hours,
    sessions as sessions,
    window_rows as window_rows,
)
from ktdeval.market.rules.fees import (
    DutyRow as DutyRow,
    duties_id as duties_id,
    duty_rows as duty_rows,
)
from ktdeval.market.rules.own_sessions import (
    bar_rows as bar_rows,
    first_session as first_session,
    session_groups as session_groups,
)
from ktdeval.market.snapshots.array_cache import (
    ArrayCache as ArrayCache,
    Arrays as Arrays,
    code_version as code_version,
)
from ktdeval.market.snapshots.documents import (
    NO_DOCUMENTS as NO_DOCUMENTS,
    Document as Document,
    Documents as Documents,
    DocumentsView as DocumentsView,
    Entity as Entity,
    EntityKind as EntityKind,
)
from ktdeval.market.snapshots.manifest import with_id as with_id
from ktdeval.market.snapshots.minutes import (
    MINUTE_FIELDS as MINUTE_FIELDS,
    NO_MINUTES as NO_MINUTES,
    MinuteBars as MinuteBars,
)
from ktdeval.market.snapshots.no_market import NO_MARKET as NO_MARKET
from ktdeval.market.snapshots.quotes import (
    NO_QUOTES as NO_QUOTES,
    QUOTE_COLUMNS as QUOTE_COLUMNS,
    Quotes as Quotes,
    impossible as impossible,
    two_sided as two_sided,
)
from ktdeval.market.snapshots.snapshot import (
    BAR_FIELDS as BAR_FIELDS,
    DAILY_LIMIT_PCT as DAILY_LIMIT_PCT,
    Board as Board,
    BoolArray as BoolArray,
    DayArray as DayArray,
    FloatArray as FloatArray,
    Instrument as Instrument,
    MarketSnapshot as MarketSnapshot,
    MarketView as MarketView,
    NameSpell as NameSpell,
    SnapshotMeta as SnapshotMeta,
    board_of as board_of,
    parse_code as parse_code,
    parse_symbol as parse_symbol,
)
from ktdeval.market.snapshots.snapshot_facts import DELISTING_REPAIR as DELISTING_REPAIR
from ktdeval.market.snapshots.storage import (
    load_snapshot as load_snapshot,
    save_snapshot as save_snapshot,
)
from ktdeval.market.snapshots.vendor_price_limits import PriceLimits as PriceLimits
from ktdeval.market.venues.close_times import Close as Close
from ktdeval.market.venues.exchange_hours import (
    SessionHours as SessionHours,
    close_instants as close_instants,
)
from ktdeval.market.venues.execution import (
    Execution as Execution,
    ExecutionName as ExecutionName,
    active_execution as active_execution,
    execution_words as execution_words,
    find_execution as find_execution,
    presets as presets,
)
from ktdeval.market.venues.venue import (
    FILL_WORDS as FILL_WORDS,
    FILLS_OF_MINUTES as FILLS_OF_MINUTES,
    MAX_PRICE as MAX_PRICE,
    NEVER_CLOSES as NEVER_CLOSES,
    Fees as Fees,
    FillRule as FillRule,
    Shorting as Shorting,
    Venue as Venue,
    built_in_venues as built_in_venues,
    find_venue as find_venue,
    parse_venue as parse_venue,
)
