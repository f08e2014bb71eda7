"""Public names of the market: snapshots, calendars, boards, storage."""

from ktdeval.market.assembly import assemble as assemble, listed_codes as listed_codes
from ktdeval.market.checks.duplicates import place as place, with_places as with_places
from ktdeval.market.checks.quality import RawMarket as RawMarket
from ktdeval.market.checks.unit_inference import stored_volume as stored_volume
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
from ktdeval.market.snapshots.minutes import NO_MINUTES as NO_MINUTES, MinuteBars as MinuteBars
from ktdeval.market.snapshots.no_market import NO_MARKET as NO_MARKET
from ktdeval.market.snapshots.quotes import QUOTE_COLUMNS as QUOTE_COLUMNS, Quotes as Quotes
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
from ktdeval.market.snapshots.storage import (
    load_snapshot as load_snapshot,
    save_snapshot as save_snapshot,
)
from ktdeval.market.snapshots.vendor_price_limits import PriceLimits as PriceLimits
from ktdeval.market.sources.column_units import (
    AMOUNT_UNITS as AMOUNT_UNITS,
    VALUE as VALUE,
    VOLUME_UNITS as VOLUME_UNITS,
    Conventions as Conventions,
    Unit as Unit,
)
from ktdeval.market.sources.document_files import (
    document_code as document_code,
    entity_of as entity_of,
    read_documents as read_documents,
    read_entities as read_entities,
)
from ktdeval.market.sources.raw_tables import (
    EVERY_ASSET as EVERY_ASSET,
    LIMIT_COLUMNS as LIMIT_COLUMNS,
    NO_INDEX as NO_INDEX,
    UNTIL_SILENT as UNTIL_SILENT,
    categories as categories,
    members_by_bars as members_by_bars,
)
from ktdeval.market.sources.sentiment import split_sentiment as split_sentiment
from ktdeval.market.venues.close_times import Close as Close
from ktdeval.market.venues.exchange_hours import close_instants as close_instants
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
    Fees as Fees,
    FillRule as FillRule,
    Shorting as Shorting,
    Venue as Venue,
    built_in_venues as built_in_venues,
    find_venue as find_venue,
    parse_venue as parse_venue,
)
