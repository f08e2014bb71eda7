"""Markets of the public files, and one of their form from a seed.

A file has an asset: a JSON object of days with `prices`, `news` and, of stocks, `10k` and `10q`. Prices are adjusted closes. Texts
of a day are known at its close, when the paper's agents are shown them. On a day without a price nothing trades: the previous price
and the next one give one return. Source: felis33/INVESTOR-BENCH.

The generated market has random-walk closes, news of which some predict them, and filings. `twin.yaml` holds periods, the words of
the news and their effects. Informative news move the next day's close; talk has no effect. Prices are sums of shocks, rounded once.
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
from ktdeval.fields import near_matches
from ktdeval.jsonio import csv_rows, loads_strict, read_plain
from ktdeval.market import (
    EVERY_ASSET,
    NO_INDEX,
    Close,
    Document,
    Documents,
    Entity,
    Instrument,
    MarketSnapshot,
    RawMarket,
    Venue,
    assemble,
    read_entities,
    sessions,
)
from ktdeval.seeds import derive_seed
from ktdeval.task_files import venue_specs
from ktdeval.yamlio import load_yaml
from ktdeval_investorbench.params import TWIN_VERSION, FileParams, TwinParams

Day = tuple[str, float | None, Mapping[str, Any]]  #: ISO day, price (None where there is none), cells
_HERE = Path(__file__).parent
_KINDS = {"news": "news", "10k": "annual report", "10q": "quarterly report"}


def make_market(params: FileParams) -> MarketSnapshot:
    """Return a snapshot of the files."""
    return assemble(read_files(params), params.repair)


def read_files(params: FileParams) -> RawMarket:
    """Read the files that `params` names; nothing is checked or repaired. Raises UsageError: an unknown symbol, or no file of it;
    DataError: a file is unreadable or has another form, with file and day.
    """
    files = _files(Path(params.folder), params.symbols, load_yaml(_HERE / "symbols.yaml"))
    days = {code: _days(path) for code, path in files.items()}
    if not any(price is not None for listed in days.values() for _, price, _ in listed):
        raise DataError(f"{params.folder}: no file has a price; check the folder")
    more = [] if params.entities is None else read_entities(Path(params.entities))
    return market_of(params.name, f"InvestorBench's public files of {', '.join(sorted(days))}", days, more)


def market_of(
    name: str, source: str, days: Mapping[str, Sequence[Day]], more: Iterable[Entity], synthetic: bool = False
) -> RawMarket:
    """Return the tables of days by symbol, each with its price and cells in the public form; `more`: further entities."""
    symbols = load_yaml(_HERE / "symbols.yaml")
    venues: Mapping[str, Venue] = {spec.name: spec.make() for spec in venue_specs(_HERE / "venues.yaml")}
    zone_of = {code: venues[symbols[code]["venue"]] for code in days}
    rows = [(day, code, price) for code, listed in days.items() for day, price, _ in listed if price is not None]
    priced = pd.DataFrame(rows, columns=["date", "code", "close"]).astype({"date": "datetime64[s]"})
    lives = priced.groupby("code", sort=True)["date"].agg(["min", "max"]).reset_index().set_axis(["code", "first", "last"], axis=1)
    # A session without a price is a day of the market, too: windows begin on the paper's day, whatever a file lacks.
    spans = [
        (code, sessions(str(first.date()), str(last.date()), zone_of[code].calendar)) for code, first, last in lives.to_numpy()
    ]
    every = pd.concat([pd.DataFrame({"date": days.astype("datetime64[s]"), "code": code}) for code, days in spans])
    bars = every.merge(priced, how="outer", on=["date", "code"])
    latest = max(zone_of.values(), key=lambda venue: (venue.close, venue.zone))
    items = [item for code, listed in days.items() for day, _, texts in listed for item in _items(code, day, texts, zone_of[code])]
    named = [Entity(row["code"], row["kind"], row["text"]) for row in csv_rows(_HERE / "entities.csv")]  # type: ignore[arg-type]
    absent = dict.fromkeys(("open", "high", "low", "volume", "amount", "factor"), math.nan)
    return RawMarket(
        name=name,
        source=source,
        synthetic=synthetic,
        benchmark="",
        bars=bars.assign(**absent),
        indices=pd.DataFrame({"date": bars["date"][:0], "code": [], "close": []}),
        members=lives,
        assets=pd.DataFrame([{"code": code, "name": symbols[code]["name"], "industry": "unknown"} for code in days]),
        has_factor=False,
        notes=(EVERY_ASSET, NO_INDEX, "prices are adjusted closes"),
        instruments={code: Instrument(symbols[code]["kind"], "USD", symbols[code]["venue"]) for code in days},
        rules=venues,
        documents=Documents.of(
            items, Close.parse(f"{latest.close} {latest.zone}"), [entity for entity in (*named, *more) if entity.code in days]
        ),
    )


def _files(folder: Path, symbols: tuple[str, ...], assets: Mapping[str, Any]) -> dict[str, Path]:
    """Return the file of each symbol, by symbol."""
    requested = [symbol.strip().upper() for symbol in symbols]
    for symbol in requested:
        if symbol not in assets:
            raise UsageError(f"symbols: {symbol!r} is not an asset of InvestorBench{near_matches(symbol, assets)}")
    paths = {path.stem.upper(): path for path in sorted(folder.glob("*.json")) if path.stem.upper() in assets}
    for symbol in requested or sorted(assets)[: not paths]:
        if symbol not in paths:
            raise UsageError(f"folder: {folder} has no {symbol.lower()}.json; give the folder of the public files")
    return {symbol: paths[symbol] for symbol in sorted(requested or paths)}


def _days(path: Path) -> list[Day]:
    """Return day, price (None if there is none) and cells of each day of a file, ascending."""
    try:
        content = loads_strict(read_plain(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a readable JSON file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object of days, was {type(content).__name__}")
    return [(_day(day, path), *_cells(cells, f"{path}: {day}")) for day, cells in sorted(content.items())]


def _day(text: str, path: Path) -> str:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except ValueError as error:
        raise DataError(f"{path}: {text[:40]!r} is not a day; expected such as 2020-10-01") from error


def _cells(cells: Any, where: str) -> tuple[float | None, Mapping[str, Any]]:
    if not isinstance(cells, dict):
        raise DataError(f"{where}: expected an object with prices and news, was {type(cells).__name__}")
    price = cells.get("prices")
    if price is not None and (isinstance(price, bool) or not isinstance(price, (int, float))):
        raise DataError(f"{where}: prices: expected a number or null, was {type(price).__name__}")
    for name in _KINDS:
        texts = cells.get(name) or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"{where}: {name}: expected a list of texts")
    return (None if price is None else float(price)), cells


def _items(code: str, day: str, cells: Mapping[str, Any], venue: Venue) -> Iterator[Document]:
    hour, minute = map(int, venue.close.split(":"))
    moment = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(venue.zone), hour=min(hour, 12), minute=0 if hour > 12 else minute)
    for name, kind in _KINDS.items():
        for text in cells.get(name) or []:
            yield Document(moment, moment, "feed", kind, (code,), "", text)


# ---- a market from a seed


def make_twin(params: TwinParams) -> MarketSnapshot:
    """Return the snapshot, without an id; equal parameters give equal bytes."""
    plan, symbols = load_yaml(_HERE / "twin.yaml"), load_yaml(_HERE / "symbols.yaml")
    days = {
        code: _walk(
            group, symbols[code]["name"], plan, np.random.default_rng(derive_seed(params.seed, "investorbench", code)), params
        )
        for group in plan["groups"].values()
        for code in group["symbols"]
    }
    source = f"ktdeval synthetic InvestorBench, generator {TWIN_VERSION}, seed {params.seed}, news effect {params.effect:g}"
    return assemble(market_of(f"synthetic-investorbench-{params.seed}", source, days, [], synthetic=True))


def _walk(group: Mapping[str, Any], name: str, plan: Mapping[str, Any], rng: np.random.Generator, params: TwinParams) -> list[Day]:
    """Return the days of one asset in the public form."""
    dates = np.datetime_as_string(sessions(group["first"], group["last"], group["calendar"]), unit="D").tolist()
    count = len(dates)
    tells, side = rng.random(count) < plan["tell_share"], rng.choice([-1, 1], count)
    has_news = rng.random(count) < plan["news_share"]
    drift = np.zeros(count)
    drift[1:] = np.where(has_news & tells, side, 0)[:-1] * plan["effect"] * params.effect
    closes = np.exp(np.log(rng.uniform(*group["price"])) + np.cumsum(group["volatility"] * rng.standard_normal(count) + drift))
    words = plan["words"]
    days: list[Day] = []
    for row, date in enumerate(dates):
        kind = "talk" if not tells[row] else "good" if side[row] > 0 else "bad"
        text = str(rng.choice(words[kind])).format(name=name, figure=int(rng.integers(11, 100)))
        filing = words["filing"].format(name=name, date=date)
        quarter = [filing] if group["filings"] and row % plan["filing_days"] == plan["filing_days"] - 1 else []
        is_year = bool(quarter) and row // plan["filing_days"] % 4 == 3
        cells = {"news": [text] if has_news[row] else [], "10k": quarter if is_year else [], "10q": [] if is_year else quarter}
        days.append((date, round(float(closes[row]), 6), cells))
    return days
