"""Markets from InvestorBench's public files, and a generated market in the same form.

A file describes one asset: it is a JSON object keyed by day, with `prices`, `news` and, for stocks,
`10k` and `10q`. Prices are adjusted closes. A day's texts are known at the close, when the paper's
agents see them. A label at the end of a text, such as `(Sentiment: positive)`, becomes the
document's sentiment field. Nothing trades on a day without a price, so a single return spans it.
Source: felis33/INVESTOR-BENCH.

The generated market has random-walk closes, news (some of it predictive) and filings. Informative
news moves the next day's close; noise has no effect. Closes are exponentials of cumulative sums of
shocks, rounded once. `twin.yaml` contains the periods, the wording of the news and its effects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import (
    Close,
    Document,
    Documents,
    Entity,
    Instrument,
    MarketSnapshot,
    Venue,
    sessions,
)
from ktdeval.registry import venue_specs
from ktdeval.values import csv_rows, derive_seed, load_yaml, loads_data, near_matches, read_plain
from ktdeval_investorbench.provider_params import TWIN_VERSION, FileParams, InvestorMarketParams
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.sources.document_files import read_entities
from ktdeval_raw_markets.sources.raw_tables import EVERY_ASSET, NO_INDEX, RawMarket
from ktdeval_raw_markets.sources.sentiment import split_sentiment

#: ISO day, price (None if missing), cells
Day = tuple[str, float | None, Mapping[str, Any]]
_HERE = Path(__file__).parent
_KINDS = {"news": "news", "10k": "annual report", "10q": "quarterly report"}


def make_market(params: FileParams) -> MarketSnapshot:
    """Return a market snapshot built from the files."""
    return assemble(read_files(params), params.repair)


def read_files(params: FileParams) -> RawMarket:
    """Read the files that `params` specifies, without checks or repairs. Raises UsageError if a
    symbol is unknown or has no file; DataError if a file is unreadable or malformed, with its name
    and day.
    """
    files = _symbol_files(Path(params.folder), params.symbols, load_yaml(_HERE / "symbols.yaml"))
    days = {code: _read_days(path) for code, path in files.items()}
    if not any(map(_has_price, days.values())):
        raise DataError(f"{params.folder}: no file has a price; check the folder")

    more: Sequence[Entity] = []
    if params.entities is not None:
        more = read_entities(Path(params.entities))

    source = f"InvestorBench's public files of {', '.join(sorted(days))}"
    return market_of(params.name, source, days, more)


def _has_price(days: Sequence[Day]) -> bool:
    return any(price is not None for _, price, _ in days)


def market_of(
    name: str,
    source: str,
    days: Mapping[str, Sequence[Day]],
    more: Iterable[Entity],
    synthetic: bool = False,
) -> RawMarket:
    """Return a market from the days of each symbol, with prices and cells in the public form.

    `more`: additional entities.
    """
    symbols = load_yaml(_HERE / "symbols.yaml")
    venues = {spec.name: spec.make() for spec in venue_specs(_HERE / "venues.yaml")}
    venue_of: dict[str, Venue] = {code: venues[symbols[code]["venue"]] for code in days}
    priced = _price_table(days)
    dates = priced.groupby("code", sort=True)["date"].agg(["min", "max"])
    lives = dates.reset_index().set_axis(["code", "first", "last"], axis=1)
    bars = _every_session(lives, venue_of).merge(priced, how="outer", on=["date", "code"])
    absent = dict.fromkeys(("open", "high", "low", "volume", "amount", "factor"), math.nan)

    assets: list[Mapping[str, str]] = []
    instruments: dict[str, Instrument] = {}
    for code in days:
        asset = symbols[code]
        assets.append({"code": code, "name": asset["name"], "industry": "unknown"})
        instruments[code] = Instrument(asset["kind"], "USD", asset["venue"])

    return RawMarket(
        name=name,
        source=source,
        synthetic=synthetic,
        benchmark="",
        bars=bars.assign(**absent),
        indices=pd.DataFrame({"date": bars["date"][:0], "code": [], "close": []}),
        members=lives,
        assets=pd.DataFrame(assets),
        has_factor=False,
        notes=(EVERY_ASSET, NO_INDEX, "prices are adjusted closes"),
        instruments=instruments,
        rules=venues,
        documents=_documents(days, venue_of, more),
    )


def _price_table(days: Mapping[str, Sequence[Day]]) -> pd.DataFrame:
    """Return the date, code and close of each day that has a price."""
    rows: list[tuple[str, str, float]] = []
    for code, listed in days.items():
        for day, price, _ in listed:
            if price is not None:
                rows.append((day, code, price))

    table = pd.DataFrame(rows, columns=["date", "code", "close"])
    return table.astype({"date": "datetime64[s]"})


def _every_session(lives: pd.DataFrame, venue_of: Mapping[str, Venue]) -> pd.DataFrame:
    """Return the date and code of each session between an asset's first and last price."""
    # A session without a price is still a market day, so that windows begin on the paper's day even
    # if a file has gaps.
    tables: list[pd.DataFrame] = []
    for code, first, last in lives.to_numpy():
        listed = sessions(str(first.date()), str(last.date()), venue_of[code].calendar)
        tables.append(pd.DataFrame({"date": listed.astype("datetime64[s]"), "code": code}))

    return pd.concat(tables)


def _documents(
    days: Mapping[str, Sequence[Day]], venue_of: Mapping[str, Venue], more: Iterable[Entity]
) -> Documents:
    """Return the texts of all days, with the entities that the texts may mention."""
    documents: list[Document] = []
    for code, listed in days.items():
        for day, _, cells in listed:
            documents.extend(_items(code, day, cells, venue_of[code]))

    entities: list[Entity] = []
    for row in csv_rows(_HERE / "entities.csv"):
        entities.append(Entity(row["code"], row["kind"], row["text"]))  # type: ignore[arg-type]

    entities.extend(more)
    # A market has a single close for its documents: that of the venue that closes last.
    latest = max(venue_of.values(), key=lambda venue: (venue.close, venue.zone))
    close = Close.parse(f"{latest.close} {latest.zone}")
    return Documents.of(documents, close, [one for one in entities if one.code in days])


def _symbol_files(
    folder: Path, symbols: tuple[str, ...], assets: Mapping[str, Any]
) -> dict[str, Path]:
    """Return the file of each requested symbol or, if none is requested, of each symbol that has a
    file.
    """
    requested = [symbol.strip().upper() for symbol in symbols]
    for symbol in requested:
        if symbol not in assets:
            raise UsageError(
                f"symbols: {symbol!r} is not an asset of"
                f" InvestorBench{near_matches(symbol, assets)}"
            )

    paths: dict[str, Path] = {}
    for path in sorted(folder.glob("*.json")):
        symbol = path.stem.upper()
        if symbol in assets:
            paths[symbol] = path

    expected = requested
    if not requested and not paths:
        # For an empty folder, the message gives one expected file name.
        expected = [min(assets)]

    for symbol in expected:
        if symbol not in paths:
            raise UsageError(
                f"folder: {folder} has no {symbol.lower()}.json; give the folder of the public"
                " files"
            )

    return {symbol: paths[symbol] for symbol in sorted(requested or paths)}


def _read_days(path: Path) -> list[Day]:
    """Return the day, price (None if missing) and cells for each day in a file, in
    ascending order.
    """
    try:
        content = loads_data(read_plain(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not a readable JSON file: {' '.join(str(error).split())}"
        ) from error

    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object of days, was {type(content).__name__}")

    days: list[Day] = []
    for text, cells in sorted(content.items()):
        day = _parse_day(text, path)
        price = _price_of_cells(cells, f"{path}: {text}")
        days.append((day, price, cells))

    return days


def _parse_day(text: str, path: Path) -> str:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except ValueError as error:
        raise DataError(
            f"{path}: {text[:40]!r} is not a day; expected a date such as 2020-10-01"
        ) from error


def _price_of_cells(cells: Any, where: str) -> float | None:
    """Return the price in a day's cells. Raises DataError if the cells are malformed."""
    if not isinstance(cells, dict):
        raise DataError(
            f"{where}: expected an object with prices and news, was {type(cells).__name__}"
        )

    price = cells.get("prices")
    if price is not None and (isinstance(price, bool) or not isinstance(price, (int, float))):
        raise DataError(f"{where}: prices: expected a number or null, was {type(price).__name__}")

    for name in _KINDS:
        texts = cells.get(name) or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"{where}: {name}: expected a list of texts")

    if price is None:
        return None
    return float(price)


def _items(code: str, day: str, cells: Mapping[str, Any], venue: Venue) -> Iterator[Document]:
    """Yield a day's texts as documents, timestamped at noon or at the close, whichever is
    earlier.
    """
    hour, minute = map(int, venue.close.split(":"))
    if hour > 12:
        hour = 12
        minute = 0

    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(venue.zone))
    moment = midnight.replace(hour=hour, minute=minute)
    for name, kind in _KINDS.items():
        for text in cells.get(name) or []:
            labelled = split_sentiment(text)
            yield Document(
                published_at=moment,
                known_at=moment,
                source="feed",
                kind=kind,
                assets=(code,),
                title="",
                text=labelled.text,
                sentiment=labelled.sentiment,
            )


# ---- the generated market


def make_twin(params: InvestorMarketParams) -> MarketSnapshot:
    """Return a generated snapshot without an id. Equal parameters give equal bytes."""
    plan = load_yaml(_HERE / "twin.yaml")
    symbols = load_yaml(_HERE / "symbols.yaml")
    days: dict[str, list[Day]] = {}
    for group in plan["groups"].values():
        for code in group["symbols"]:
            rng = np.random.default_rng(derive_seed(params.seed, "investorbench", code))
            days[code] = _walk(group, symbols[code]["name"], plan, rng, params)

    source = (
        f"ktdeval synthetic InvestorBench, generator {TWIN_VERSION}, seed {params.seed}, news"
        f" effect {params.effect:g}"
    )

    return assemble(
        market_of(f"synthetic-investorbench-{params.seed}", source, days, [], synthetic=True)
    )


def _walk(
    group: Mapping[str, Any],
    name: str,
    plan: Mapping[str, Any],
    rng: np.random.Generator,
    params: InvestorMarketParams,
) -> list[Day]:
    """Return one asset's days in the public form."""
    listed = sessions(group["first"], group["last"], group["calendar"])
    dates = np.datetime_as_string(listed, unit="D").tolist()
    count = len(dates)
    tells = rng.random(count) < plan["tell_share"]
    side = rng.choice([-1, 1], count)
    has_news = rng.random(count) < plan["news_share"]
    # A day's news moves the next day's price.
    drift = np.zeros(count)
    drift[1:] = np.where(has_news & tells, side, 0)[:-1] * plan["effect"] * params.effect
    start = np.log(rng.uniform(*group["price"]))
    moves = group["volatility"] * rng.standard_normal(count) + drift
    closes = np.exp(start + np.cumsum(moves))
    words = plan["words"]
    days: list[Day] = []

    for row, date in enumerate(dates):
        kind = "talk"
        if tells[row]:
            kind = "good" if side[row] > 0 else "bad"

        text = str(rng.choice(words[kind])).format(name=name, figure=int(rng.integers(11, 100)))
        cells: dict[str, list[str]] = {"news": [], "10k": [], "10q": []}
        if has_news[row]:
            cells["news"].append(text)

        quarter, day_of_quarter = divmod(row, plan["filing_days"])
        is_last_day = day_of_quarter == plan["filing_days"] - 1
        if group["filings"] and is_last_day:
            filing = words["filing"].format(name=name, date=date)
            is_annual = quarter % 4 == 3
            cells["10k" if is_annual else "10q"].append(filing)

        days.append((date, round(float(closes[row]), 6), cells))

    return days
