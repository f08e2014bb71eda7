"""Parameters of the data providers. This module has no heavy imports, since listings and `--help`
read the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ktdeval.values import Address, option

#: How a source stores volumes: as traded, or divided by the factor
VolumeAs = Literal["auto", "raw", "divided"]
_VOLUME_HELP = (
    "raw: volumes are shares as traded; divided: volumes were divided by the factor, as in "
    "Qlib's own data, and are multiplied by it; auto: the one that gives whole shares (error if "
    "both or neither do)"
)
_VOLUME_UNIT_HELP = (
    "share, lot (100 shares), a number of shares, or value (traded value over the typical price);"
    " other units of codes, boards or days follow it:"
    " lot,688981.SH=share,star=share,2024-03-01..=share"
)
_AMOUNT_UNIT_HELP = (
    "CNY, thousand_CNY, ten_thousand_CNY, or a number of units of currency; other units follow it"
    " as in --volume-unit"
)
_NAMES_HELP = (
    "former names: a file with code, name, in_date, out_date (both included; empty: open), and "
    "optionally code_then, the code on these days if it has changed since"
)
_DOCUMENTS_HELP = (
    "news, filings, macro releases: a .jsonl, .csv or .parquet file with published_at, source,"
    " kind, assets, title, text, and optionally known_at; times have a time zone"
)
_ENTITIES_HELP = (
    "words that reveal an asset in documents: a file with code, kind (name, former, ticker, "
    "product, person, place), text"
)
_DELISTING_HELP = (
    "value of a holding after the last bar of a code that ends before the market's last day, as the"
    " return of CRSP's delistings: one figure, such as -0.3, or a file with code, return; without it"
    " such a holding keeps its last price for ever"
)
_CLOSE_HELP = (
    "time of day, with an IANA zone, up to which documents count as known at that day's close"
)


@dataclass(frozen=True, kw_only=True)
class DocumentParams:
    """Location of the documents."""

    documents: str | None = option(None, help=_DOCUMENTS_HELP)
    entities: str | None = option(None, help=_ENTITIES_HELP)
    documents_close: str = option("15:00 Asia/Shanghai", help=_CLOSE_HELP)


@dataclass(frozen=True)
class LongParams(DocumentParams):
    """Location of the tables, and how to read them."""

    bars: str = option(
        help=(
            "daily bars: a .csv, .tsv, .txt (also .gz), .xlsx or .parquet file, or a folder of them"
            " (one per code or per period)"
        )
    )
    venue: str = option(
        "a_share",
        help=(
            "trading rules for codes without a venue in the industry file: a_share, us_equity, "
            "crypto_spot, frictionless …"
        ),
    )
    kind: str | None = option(
        None,
        help=(
            "kind of codes without one in the industry file, such as stock, etf or crypto; by "
            "default crypto at crypto_spot, else stock"
        ),
    )
    benchmark: str | None = option(
        None,
        help=(
            "index levels: a file with date, close and, for several indices, code; the bars' own"
            " file for one of its codes; without it the market has no index"
        ),
    )
    benchmark_code: str = option("000300.SH", help="code of the benchmark index")
    members: str | None = option(
        None,
        help=(
            "index membership: a file of intervals (code, in_date, out_date; both ends included) "
            "or of dated lists (date, code), each holding until the next; without it an asset is "
            "a member from its first bar until 60 trading days after its last"
        ),
    )
    industry: str | None = option(
        None, help="a file with code, and optionally name, industry, venue, kind, currency"
    )
    splits: str | None = option(
        None,
        help=(
            "splits, to make the factor of prices without one: a file with code, date (first day"
            " after), ratio (15 for 15:1)"
        ),
    )
    factors: str | None = option(
        None,
        help=(
            "adjustment factors: a file with date, code, factor, each held until the next; for bars"
            " without a factor"
        ),
    )
    adjusted_close: Literal["factor", "ignore"] = option(
        "factor",
        help=(
            "a column such as Adj Close next to the close gives the factor if nothing else does; "
            "ignore: do not read it"
        ),
    )
    fx: str | None = option(
        None, help="exchange rates: a file with date, currency, rate (of one unit, in --currency)"
    )
    currency: str | None = option(
        None,
        help="currency of the account, with --fx; prices in other currencies are converted to it",
    )
    names: str | None = option(None, help=_NAMES_HELP)
    minutes: str | None = option(
        None, help="bars within days: a file with time, code, open, high, low, close, volume"
    )
    minutes_zone: str | None = option(
        None,
        help="IANA time zone of minute times without a zone; without it such times are refused",
    )
    minutes_length: int = option(
        0,
        help="length of a bar in minutes if its time is its start; 0: the time is its end",
        minimum=0,
        maximum=1440,
    )
    map: Mapping[str, str] = option(
        factory=dict,
        help=(
            "which column of the file is a field, such as open=raw_open; fields of the other files"
            " have their option as prefix, such as benchmark.close=level"
        ),
    )
    columns: tuple[str, ...] = option(
        (),
        help=(
            "names of the columns of bars without a header, in order, such as"
            " date,code,open,high,low,close,-; `-` is not read"
        ),
    )
    code: str | None = option(
        None, help="code of bars of one asset, in a file without a column of codes"
    )
    keep: Mapping[str, str | int] = option(
        factory=dict,
        help=(
            "read only rows of the bars in which a column has this value, such as "
            "publisher_id=2, for a file with bars of several venues"
        ),
    )
    code_width: int = option(
        0,
        help=(
            "digits of codes: shorter codes get leading zeros, which programs may have dropped "
            "(with 6, 1 becomes 000001); 0: as they are"
        ),
        minimum=0,
        maximum=8,
    )
    date_format: str | None = option(
        None,
        help=(
            "how days are written, such as %d/%m/%Y; or excel, roc, unix_s, unix_ms, unix_us,"
            " unix_ns; times of day are left out"
        ),
    )
    date_zone: str | None = option(
        None,
        help=(
            "IANA time zone in which the times of days with a zone, or unix times, are midnight,"
            " such as America/New_York"
        ),
    )
    decimal: Literal["auto", "point", "comma"] = option(
        "auto",
        help="decimal mark: point or comma; auto: detected from the cells",
    )
    prices: Literal["unadjusted", "adjusted"] = option(
        "unadjusted",
        help=(
            "adjusted prices are divided by the factor, those of A-shares rounded to fen; without a"
            " factor they stay as they are"
        ),
    )
    volume: VolumeAs = option("raw", help=_VOLUME_HELP)
    volume_unit: str = option("share", help=_VOLUME_UNIT_HELP)
    amount_unit: str = option("CNY", help=_AMOUNT_UNIT_HELP)
    assets: Literal["members", "all"] = option(
        "members", help="keep only codes that were members at some time, or all"
    )
    delisting_return: str | None = option(None, help=_DELISTING_HELP)
    first: str | None = option(None, help="first day to read")
    last: str | None = option(None, help="last day to read")
    name: str | None = option(None, help="name of the market; by default the name of the bars file")
    source: Address | None = option(
        None, help="source of the data, as text; by default the names of the files"
    )
    repair: tuple[str, ...] = option(
        (), help="repairs to apply; --check-only lists the repairs that fix its findings"
    )

    @property
    def index_is_asset(self) -> bool:
        """True if the index is one of the codes in the bars file, however the two paths are
        written.
        """
        return (
            bool(self.benchmark)
            and Path(self.benchmark or "").resolve() == Path(self.bars).resolve()
        )


@dataclass(frozen=True)
class QlibParams(DocumentParams):
    """Location of the folder, and how to read it."""

    folder: str = option(help="folder with calendars/, instruments/ and features/")
    universe: str = option("csi300", help="name of the file in instruments/ with the membership")
    benchmark_code: str = option("000300.SH", help="code of the benchmark index, one of features/")
    industry: str | None = option(None, help="a file with code, name, industry")
    names: str | None = option(None, help=_NAMES_HELP)
    prices: Literal["unadjusted", "adjusted"] = option(
        "adjusted",
        help="adjusted (as Qlib's own data): prices are divided by the factor and rounded to fen",
    )
    volume: VolumeAs = option("auto", help=_VOLUME_HELP)
    volume_unit: str = option("share", help=_VOLUME_UNIT_HELP)
    amount_unit: str = option("CNY", help=_AMOUNT_UNIT_HELP)
    delisting_return: str | None = option(None, help=_DELISTING_HELP)
    first: str | None = option(None, help="first day to read")
    last: str | None = option(None, help="last day to read")
    name: str | None = option(None, help="name of the market; by default the folder's")
    source: Address | None = option(
        None, help="source of the data, as text; by default the folder's name"
    )
    repair: tuple[str, ...] = option(
        (), help="repairs to apply; --check-only lists the repairs that fix its findings"
    )


_GAPS_HELP = "accept missing days of the vendor; a note of the snapshot names them"
_FX_HELP = "exchange rates, as for the provider long, for assets quoted in another currency"
_FROM = {"help": "the vendor to ask", "flag": "--from"}
_SYMBOLS_HELP = (
    "assets to fetch; each is in the universe from its first bar until it has had none for 60 days"
)


@dataclass(frozen=True, kw_only=True)
class FetchParams:
    """Request to any vendor."""

    vendor: str = field(metadata=_FROM)
    first: str = option(help="first day (ISO date)")
    last: str = option(help="last day (ISO date), in the past")
    map: Mapping[str, str] = option(
        factory=dict, help="column of the vendor's answers that is a field, such as bars.volume=vol"
    )
    name: str | None = option(None, help="name of the market; by default the provider's")
    repair: tuple[str, ...] = option(
        (), help="repairs to apply; --check-only lists the repairs that fix its findings"
    )
    accept_gaps: bool = option(False, help=_GAPS_HELP)
    answers: str | None = option(
        None,
        help=("folder for the vendor's raw answers; by default --out with .answers added"),
    )
    endpoint: Address | None = option(
        None, help="address of a mirror of the vendor's HTTP interface"
    )
    per_minute: int | None = option(
        None, help="maximum requests per minute; by default below the vendor's limit", minimum=1
    )


@dataclass(frozen=True, kw_only=True)
class FetchIndexParams(FetchParams):
    """Request for an index's members."""

    vendor: Literal["baostock", "akshare", "tushare"] = field(metadata=_FROM)
    members: str | None = option(
        None,
        help=(
            "your own file of index membership, as for the provider long; needed for akshare, "
            "which has no past membership"
        ),
    )


@dataclass(frozen=True, kw_only=True)
class FetchSymbolsParams(FetchParams):
    """Request for assets that the user specifies."""

    fx: str | None = option(None, help=_FX_HELP)
    currency: str | None = option(None, help="currency of the account, with --fx: USD")


@dataclass(frozen=True, kw_only=True)
class FetchStocksParams(FetchSymbolsParams):
    """Request for US stocks and ETFs."""

    vendor: Literal["alpaca", "yfinance"] = field(metadata=_FROM)
    symbols: tuple[str, ...] = option(help=_SYMBOLS_HELP)


@dataclass(frozen=True, kw_only=True)
class FetchCoinsParams(FetchSymbolsParams):
    """Request for crypto assets."""

    vendor: Literal["binance", "ccxt"] = field(metadata=_FROM)
    exchange: str = option("binance", help="exchange that ccxt asks, such as kraken")
    symbols: tuple[str, ...] = option(help=f"pairs such as BTCUSDT or BTC/USDT; {_SYMBOLS_HELP}")


@dataclass(frozen=True)
class FetchHubParams(LongParams):
    """A dataset of daily bars on the Hugging Face Hub, and how to read it."""

    bars: str = field(metadata={"help": "a dataset of the Hugging Face Hub", "flag": "ORG/NAME"})
    config: str | None = option(None, help="configuration of the dataset, if it has several")
    split: str | None = option(None, help="split of the configuration, if it has several")
    files: str | None = option(
        None, help="pattern of the files to read, such as daily/*.csv, instead of the card's files"
    )
    licence: str | None = option(
        None, help="terms under which you use the data, if the dataset's card states no licence"
    )
    revision: str = option("main", help="branch, tag or commit; the recipe keeps the commit")
    answers: str | None = option(
        None, help="folder for the files; by default --out with .answers added"
    )
    endpoint: Address | None = option(None, help="address of a mirror of the hub")
    per_minute: int | None = option(
        None, help="maximum requests per minute; 300 by default", minimum=1
    )


FETCHED = (  #: markets that are fetched from vendors: name, summary, parameters, and the arguments of an example
    (
        "csi300",
        (
            "the CSI300's members and their bars, factors, names and industries, fetched from"
            " baostock, akshare or tushare"
        ),
        FetchIndexParams,
        "--from baostock --first 2022-01-04 --last 2025-12-31",
    ),
    (
        "us",
        "US stocks and ETFs, their bars, splits and dividends, fetched from alpaca or yfinance",
        FetchStocksParams,
        "--from yfinance --symbols TSLA,SPY --first 2022-01-03 --last 2025-12-31",
    ),
    (
        "crypto",
        "coins, fetched from binance, or by ccxt from one of its exchanges",
        FetchCoinsParams,
        "--from binance --symbols BTCUSDT --first 2024-01-01 --last 2025-10-31",
    ),
)
FETCH_LOCAL = ("answers", "endpoint", "per_minute")  #: parameters that recipes omit


GENERATOR_VERSION = 1
"""Part of the snapshot's source line. It is raised whenever the generator's output changes."""


@dataclass(frozen=True)
class SyntheticParams:
    """Everything that a synthetic market depends on."""

    seed: int = option(
        7,
        help="seed of the generator; each seed gives another market with the same regimes",
        minimum=0,
    )
    first: str = option(
        "2022-06-01",
        help="first day (ISO date); styles need 252 trading days before the first window",
    )
    last: str = option("2026-05-15", help="last day (ISO date)")


TWINS = (  #: generated markets with other venues: name, summary
    (
        "us",
        (
            "generated US stocks, with splits, halts, a delisting and news that carry a known"
            " signal, from a seed"
        ),
    ),
    (
        "crypto",
        (
            "generated coins that trade every day, in fractions, with news that carry a known"
            " signal, from a seed"
        ),
    ),
    (
        "mixed",
        (
            "generated US stocks and coins in one market of two calendars, with news that carry a"
            " known signal, from a seed"
        ),
    ),
    (
        "deepfund",
        (
            "generated stocks of DeepFund's funds, with an index, and news that carry a known"
            " signal, from a seed"
        ),
    ),
    (
        "arena",
        (
            "generated TSLA, BMRN, BTC, ETH and DeepFund's stocks, with news that carry a known"
            " signal, from a seed"
        ),
    ),
    (
        "views",
        (
            "generated BTC and ETH whose next day five desks foresee, each with errors of its own"
            " or all with the same, from a seed"
        ),
    ),
)
TWIN_VERSION = 3  #: counterpart of `GENERATOR_VERSION`


@dataclass(frozen=True)
class TwinParams:
    """Everything that a synthetic market with other venues depends on."""

    seed: int = option(7, help="seed of the generator; each seed is another market", minimum=0)
    first: str = option("2022-06-01", help="first day (ISO date)")
    last: str = option("2026-05-15", help="last day (ISO date)")
    minute_days: int = option(
        0, help="number of last days that also have minute bars", minimum=0, maximum=60
    )
    effect: float = option(
        1.0,
        help="multiplies the price move after news reports; 0: news without effect",
        minimum=0,
        maximum=5,
    )


@dataclass(frozen=True)
class ViewParams(TwinParams):
    """Parameters of `synthetic_views`."""

    same_view: bool = option(
        False, help="whether all desks see the same as the first one, including errors"
    )


PLACEBO_VERSION = 1
"""Part of the snapshot's source line. It is raised whenever equal parameters give a different
placebo.
"""

Kind = Literal["sign_flip", "block_bootstrap", "shuffle"]

DEFAULT_BLOCK_DAYS: dict[Kind, int | None] = {
    "sign_flip": 1,
    "block_bootstrap": 20,
    "shuffle": None,
}
"""Default of `block_days`; None if the kind has no blocks."""


@dataclass(frozen=True)
class PlaceboParams:
    """Everything that a placebo market depends on, in addition to the market that it imitates."""

    of: str = option(
        "synthetic",
        help=(
            "the market to be like: synthetic (the embedded one), or the folder of a stored"
            " snapshot"
        ),
    )
    kind: Kind = option(
        "sign_flip",
        help=(
            "how to randomise the part of returns that attribution does not explain: sign_flip "
            "(a random sign for each asset and day), block_bootstrap (whole days drawn in "
            "blocks, a random sign for each), shuffle (among the assets of a board within a day, "
            "a random sign for each day)"
        ),
    )
    seed: int = option(
        0, help="seed of all draws; each seed is another placebo of the same market", minimum=0
    )
    block_days: int | None = option(
        None,
        help=(
            "trading days: of block_bootstrap the mean length of a block (default 20); of "
            "sign_flip the number of days with the same sign (default 1; more keep the "
            "dependence between neighbouring days); not for shuffle"
        ),
        minimum=1,
    )
