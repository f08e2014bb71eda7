"""Generate synthetic markets of US stocks, of crypto assets, and of both, with news that carries a
known signal.

`twins.yaml` holds a market's parameters, `twin_news.yaml` the text of its news. Assets are
generated on their own venue's sessions, then aligned to the days of all venues. A price is the
exponential of a sum of unrounded shocks, rounded once, so that rounding errors do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Group
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from ktdeval.errors import DataError
from ktdeval.market import (
    BoolArray,
    Close,
    Document,
    Documents,
    Entity,
    FloatArray,
    Instrument,
    MarketSnapshot,
    MinuteBars,
    SnapshotMeta,
    find_venue,
    sessions,
)
from ktdeval.values import derive_seed
from ktdeval_data.params import TWIN_VERSION, TwinParams, ViewParams


def _load(name: str) -> dict[str, Any]:
    return cast(
        "dict[str, Any]",
        yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8")),
    )


def _group(fields: Mapping[str, Any]) -> Group:
    return Group(**fields, days_a_year=find_venue(fields["venue"]).days_a_year)


_TWINS = _load("twins.yaml")
_SYLLABLES = _load("synthetic_names.yaml")
NEWS = _load("twin_news.yaml")
#: maximum time between a news item's becoming known and its session's close: 23 hours less 10
#: minutes is after the previous close even when a clock change makes a day an hour shorter
DAY_MINUTES = 23 * 60 - 10
#: minimum number of sessions per venue, to leave room for listings, halts and splits
MIN_SESSIONS = 40
GROUPS = {name: _group(fields) for name, fields in _TWINS["groups"].items()}

Draw = Callable[[str], np.random.Generator]  #: purpose -> random stream


# a tuple: names are sorted
class InventedNames(NamedTuple):
    """Invented words for an asset. No two assets share a word, except their sector's name."""

    code: str
    name: str
    short: str
    sector: str
    product: str
    person: str


def make_twin(twin: str, params: TwinParams) -> MarketSnapshot:
    """Generate a market and return only its snapshot, without an id. `twin`: a name in
    `twins.yaml`.
    """
    return make_with_files(twin, params)[0]


def make_with_files(twin: str, params: TwinParams) -> tuple[MarketSnapshot, Mapping[str, bytes]]:
    """Generate a market, and tables of its planted effects (docs/synthetic-market.md).

    Equal parameters give equal bytes. The snapshot, without an id, has [T] days of all its venues ×
    N assets. Raises DataError if a date is not an ISO date, if the date range lies outside a
    venue's calendar, or if it has fewer than `MIN_SESSIONS` of a venue's sessions.
    """
    plan = _TWINS["twins"][twin]
    draw = partial(_stream, params.seed, twin)
    calendars = _calendars(plan["assets"], params)

    days = np.unique(np.concatenate(list(calendars.values())))
    vocabulary = []
    for onset in _SYLLABLES["onsets"]:
        vocabulary += [onset + ending for ending in _SYLLABLES["endings"]]

    words = iter(draw("words").permutation(np.array(vocabulary)).tolist())
    common = pd.Series(draw("common").standard_normal(len(days)), days)
    parts = []

    for name, count in plan["assets"].items():
        own = {
            "label": name,
            "news_effect": GROUPS[name].news_effect * params.effect,
            "close": Close.parse(plan["close"]),
            "minute_days": params.minute_days,
            "same_view": _has_same_view(params),
        }
        group = Group(**vars(GROUPS[name]) | own)
        named = _name_assets(group, count, words)
        group_shocks = common.reindex(calendars[name])
        parts.append(_make_part(partial(draw, name), group, named, group_shocks))

    source = f"ktdeval synthetic {twin} market, {_recipe(params)}"
    meta = SnapshotMeta(f"synthetic-{twin}-{params.seed}", source, True, True, plan["index"])

    return _join(meta, parts), _truth_files(parts)


def _calendars(groups: Iterable[str], params: TwinParams) -> dict[str, npt.NDArray[Any]]:
    """Return the sessions of each group's venue. Raises DataError if a venue has too few."""
    calendars = {}
    for name in groups:
        venue = find_venue(GROUPS[name].venue)
        calendars[name] = sessions(params.first, params.last, venue.calendar)

    fewest = min(map(len, calendars.values()))
    if fewest < MIN_SESSIONS:
        raise DataError(
            f"{params.first}…{params.last} has {fewest} sessions, fewer than {MIN_SESSIONS};"
            " choose a longer range"
        )
    return calendars


def _has_same_view(params: TwinParams) -> bool:
    return isinstance(params, ViewParams) and params.same_view


def _recipe(params: TwinParams) -> str:
    recipe = (
        f"generator {TWIN_VERSION}, seed {params.seed}, news effect {params.effect:g},"
        f" {params.first}…{params.last}"
    )
    if _has_same_view(params):
        recipe += ", one view for all desks"
    return recipe


def _truth_files(parts: Sequence[GroupPart]) -> dict[str, bytes]:
    """Return the planted effects of all groups as Parquet files, keyed by name."""
    truth = {}
    for name in ("assets", "news"):
        tables = [part.truth[name] for part in parts]
        truth[name] = pd.concat(tables, ignore_index=True)

    markets = pd.concat([part.truth["markets"] for part in parts], axis=1, sort=True)
    truth["markets"] = markets.rename_axis("date").reset_index()

    return {f"truth_{name}.parquet": table.to_parquet(index=False) for name, table in truth.items()}


def _stream(*parts: str | int) -> np.random.Generator:
    return np.random.default_rng(derive_seed("twin", *parts))


def _name_assets(group: Group, count: int, words: Iterator[str]) -> list[InventedNames]:
    """Draw the names of a group's assets, and return them by ascending code. Sectors are assigned
    in turn. Codes are taken from the group's list or made from the names.
    """
    sectors = [f"{next(words)} {trade}" for trade in group.sectors]
    named = []
    codes = vars(group).get("codes")

    for number in range(count):
        first, second, product, forename, surname = (next(words) for _ in range(5))
        if codes:
            code = codes[number]
        else:
            code = group.code.format(letters=first[:4].upper(), number=number)

        name = group.name.format(first=first, second=second)
        sector = sectors[number % len(sectors)]
        named.append(InventedNames(code, name, first, sector, product, f"{forename} {surname}"))

    return sorted(named)


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Assets of a group on its S sessions."""

    group: Group
    named: Sequence[InventedNames]
    bars: Mapping[str, pd.DataFrame]  # name -> [S, n], by day and code
    truth: Mapping[str, pd.DataFrame]  # as in `make_with_files`, markets by day
    items: Sequence[Document]  # the news as documents
    minutes: pd.DataFrame  # one-minute bars of the last days, as in `MinuteBars.of`


def _make_part(
    draw: Draw, group: Group, named: Sequence[InventedNames], common: pd.Series
) -> GroupPart:
    """Generate a group's assets. `common`: shocks shared by all groups, by day of the group's
    sessions.
    """
    days = common.index
    shape = (len(common), len(named))
    codes = [asset.code for asset in named]
    listed, traded = _listings(draw("listings"), group, shape)
    own = draw("own volatility").uniform(group.own_volatility[0], group.own_volatility[1], shape[1])
    beta = draw("beta").uniform(group.beta[0], group.beta[1], shape[1])

    # The market's shocks have variance 1 and correlation `group.common` with the common shocks.
    alone = draw("market").standard_normal(shape[0])
    shocks = group.common * common.to_numpy() + np.sqrt(1.0 - group.common**2) * alone
    common_volatility = clustered_volatility(
        draw("market clusters"), group.market_clusters, (shape[0], 1)
    )
    daily_volatility = group.market_volatility / np.sqrt(group.days_a_year)
    market = group.mean_a_year / group.days_a_year
    market += daily_volatility * common_volatility[:, 0] * shocks
    sectors = [asset.sector for asset in named]
    returns = market[:, None] * beta
    returns += _noise(draw, group, sectors, own, common_volatility)

    news, drift = draw_news(draw("news"), traded, group)
    news["date"] = days[news["session"]]
    news["code"] = np.array(codes)[news["asset"]]
    items = list(write_news(draw("words"), spread_views(draw, news, group), group, named))

    bars = _bars(draw, group, returns, drift, traded)
    # A halted asset has a bar without trading; before its listing and after its delisting it has
    # none.
    bars["volume"] = np.where(listed & ~traded, 0.0, bars["volume"])

    truth = {
        "markets": pd.DataFrame({group.label: market}, days),
        "assets": pd.DataFrame(
            {"code": codes, "group": group.label, "beta": beta, "own_volatility": own}
        ),
        "news": news[["code", "date", "class", "direction", "effect", "days"]],
    }
    minutes = _minutes(draw("minutes"), group, bars, days.to_numpy(), np.array(codes, dtype=object))
    tables = {name: pd.DataFrame(grid, days, codes) for name, grid in bars.items()}

    return GroupPart(group, named, tables, truth, items, minutes)


def _listings(
    rng: np.random.Generator, group: Group, shape: tuple[int, int]
) -> tuple[BoolArray, BoolArray]:
    """Draw the days on which an asset is listed, and the days on which it trades, both [S, n]."""
    days, count = shape
    # Each event takes the next asset in a random order, so that no asset has two events.
    order = iter(rng.permutation(count).tolist())
    listed = np.ones(shape, dtype=np.bool_)

    for _ in range(group.late):
        listed[: rng.integers(days // 10, days // 2), next(order)] = False

    for _ in range(group.delisted):
        listed[rng.integers(days // 2, days * 9 // 10) :, next(order)] = False

    traded = listed.copy()
    for _ in range(group.halted):
        start = rng.integers(days // 10, days - 2 * group.halt_days[1])
        end = start + rng.integers(group.halt_days[0], group.halt_days[1] + 1)
        traded[start:end, next(order)] = False

    return listed, traded


def clustered_volatility(
    rng: np.random.Generator, clusters: tuple[float, float], shape: tuple[int, int]
) -> FloatArray:
    """Draw volatility multipliers, [S, n], whose mean square is 1 in each column. Their logarithm
    is a first-order autoregression.

    `clusters`: standard deviation of the logarithm, and its daily persistence (Taylor 1986). The
    multipliers do not depend on the day's shocks, so they have no information on the sign of a
    return.
    """
    spread, memory = clusters
    steps = rng.standard_normal(shape)
    level = np.empty(shape)
    level[0] = steps[0]
    for row in range(1, shape[0]):
        level[row] = memory * level[row - 1] + np.sqrt(1.0 - memory**2) * steps[row]

    # The multipliers are scaled so that the planted volatility holds in the sample: in four years,
    # chance would make it differ by 15 %.
    multipliers = np.exp(spread * level)
    return np.asarray(multipliers / np.sqrt(np.mean(multipliers**2, axis=0)))


def _noise(
    draw: Draw,
    group: Group,
    sectors: Sequence[str],
    own: FloatArray,
    common_volatility: FloatArray,
) -> FloatArray:
    """Draw the sum of sector and asset log returns, including jumps, [S, n]. `own`: annual
    volatility of the individual assets, [n]. `common_volatility`: multipliers for the shocks of the
    market and the sectors, [S, 1].
    """
    shape = (len(common_volatility), len(own))
    # The factor scales Student's t, whose variance is d / (d - 2), to unit variance.
    tails = np.sqrt((group.tail_degrees - 2.0) / group.tail_degrees)
    names, sector_of = np.unique(sectors, return_inverse=True)
    sector_shocks = draw("sectors").standard_t(group.tail_degrees, (shape[0], len(names)))
    of_sectors = sector_shocks * tails * group.sector_volatility * common_volatility
    own_volatility = clustered_volatility(draw("own clusters"), group.own_clusters, shape) * own
    of_assets = draw("assets").standard_t(group.tail_degrees, shape) * tails * own_volatility
    jumps = draw("jumps")
    chance = group.jumps_a_year / group.days_a_year
    sizes = np.where(
        jumps.random(shape) < chance, jumps.standard_normal(shape) * group.jump_size, 0.0
    )

    return np.asarray((of_sectors[:, sector_of] + of_assets) / np.sqrt(group.days_a_year) + sizes)


def _bars(
    draw: Draw, group: Group, returns: FloatArray, drift: FloatArray, traded: BoolArray
) -> dict[str, FloatArray]:
    """Draw the assets' bars, [S, n] each. `returns`: log returns without `drift`, the part that
    news adds between open and close.
    """
    rng = draw("bars")
    shape = returns.shape
    start = np.log(group.price[0]) + group.price[1] * rng.standard_normal(shape[1])
    path = start + np.cumsum(returns + drift, axis=0)
    width = 0.4 * returns.std(axis=0)
    close = np.exp(path)
    opened = np.exp(path - drift - (1.0 - group.overnight) * returns)
    high = np.maximum(opened, close) * np.exp(width * np.abs(rng.standard_normal(shape)))
    low = np.minimum(opened, close) * np.exp(-width * np.abs(rng.standard_normal(shape)))
    factor = _split_factors(draw("splits"), group, traded)

    # Prices are rounded to ticks and volumes to whole units. Neither may be rounded to 0.
    tick = 10.0**-group.price_decimals
    bars = {}
    for name, values in (("open", opened), ("high", high), ("low", low), ("close", close)):
        prices = np.maximum(np.round(values / factor, group.price_decimals), tick)
        bars[name] = np.where(traded, prices, np.nan)

    size = np.log(group.turnover[0]) + group.turnover[1] * rng.standard_normal(shape[1])
    relative_move = np.abs(returns) / returns.std(axis=0)
    noise = group.turnover_noise * rng.standard_normal(shape)
    money = np.exp(size + noise + 0.3 * relative_move)
    unit = 10.0**-group.volume_decimals
    volume = np.maximum(np.round(money / bars["close"], group.volume_decimals), unit)
    amount = np.round(volume * (bars["high"] + bars["low"] + bars["close"]) / 3.0, 2)

    return bars | {"volume": volume, "amount": amount, "factor": factor}


def _split_factors(rng: np.random.Generator, group: Group, traded: BoolArray) -> FloatArray:
    """Draw at most one split per asset, on a trading day after its first; return the adjustment
    factors, [S, n].
    """
    ratios = np.ones(traded.shape)
    options = np.array(group.split_ratios)

    for asset in rng.permutation(traded.shape[1])[: group.split].tolist():
        # The ratio is drawn before the day, since another order would change the market of a given
        # seed.
        ratio = rng.choice(options)
        day = rng.choice(np.flatnonzero(traded[:, asset])[1:])
        ratios[day, asset] = ratio

    return np.asarray(np.cumprod(ratios, axis=0))


def _minutes(
    rng: np.random.Generator,
    group: Group,
    bars: Mapping[str, FloatArray],
    days: npt.NDArray[np.datetime64],
    codes: npt.NDArray[np.object_],
) -> pd.DataFrame:
    """Draw one-minute bars for the last sessions from a random bridge. Together they make up the
    daily bars.
    """
    is_last = np.arange(len(days)) >= len(days) - group.minute_days
    session, asset = np.nonzero(np.isfinite(bars["close"]) & is_last[:, None])
    first, high, low, last, volume = (
        bars[name][session, asset][:, None] for name in ("open", "high", "low", "close", "volume")
    )
    count = group.session_minutes
    rows = np.arange(len(session))
    span = np.maximum(high - low, 1e-12)
    gone = np.arange(1, count + 1) / count
    walk = np.cumsum(rng.standard_normal((len(rows), count)), axis=1)
    # A Brownian bridge from open to close is scaled to the day's range. A path that leaves the
    # range is reflected at low and high.
    bridge = walk - gone * walk[:, -1:]
    path = np.log(last / first) * gone + np.log(high / low) / np.sqrt(count) * bridge
    reflected = high - np.abs((first * np.exp(path) - low) % (2.0 * span) - span)
    closes = np.clip(np.round(reflected, group.price_decimals), low, high)
    closes[:, -1:] = last
    opens = np.concatenate([first, closes[:, :-1]], axis=1)
    highs = np.maximum(opens, closes)
    lows = np.minimum(opens, closes)
    # The path need not reach the day's high and low, so its extremes are set to them.
    highs[rows, highs.argmax(axis=1)] = high[:, 0]
    lows[rows, lows.argmin(axis=1)] = low[:, 0]

    # Differences of a rounded cumulative volume are used, so that the minutes sum to the day's
    # volume.
    sold_so_far = np.round(volume * gone, group.volume_decimals)
    traded = np.round(np.diff(sold_so_far, axis=1, prepend=0.0), group.volume_decimals)

    venue = find_venue(group.venue)
    close = Close.parse(f"{venue.close} {venue.zone}")
    session_ends = np.array([close.instant(day) for day in days[session]], "M8[us]")[:, None]
    ends = session_ends - np.arange(count)[::-1].astype("m8[m]")
    grids = {
        "ends_at": ends,
        "open": opens,
        "high": highs,
        "low": lows,
        "close": closes,
        "volume": traded,
    }

    columns = {name: grid.ravel() for name, grid in grids.items()}
    return pd.DataFrame({"code": np.repeat(codes[asset], count), **columns})


def _join(meta: SnapshotMeta, parts: Sequence[GroupPart]) -> MarketSnapshot:
    """Align the groups to the market's days, with assets by ascending code."""
    group_of: dict[InventedNames, Group] = {}
    items: list[Document] = []
    for part in parts:
        group_of |= dict.fromkeys(part.named, part.group)
        items += part.items

    named = sorted(group_of)
    codes = [asset.code for asset in named]
    tables = {}
    for name in parts[0].bars:
        aligned = pd.concat([part.bars[name] for part in parts], axis=1, sort=True)
        tables[name] = aligned[codes]

    closes = tables["close"]
    tables["factor"] = tables["factor"].ffill().fillna(1.0)
    grids: dict[str, Any] = {name: table.to_numpy(copy=True) for name, table in tables.items()}

    # The index is the mean return of the assets that have a close before and after a day.
    member = closes.ffill().notna().to_numpy() & closes.bfill().notna().to_numpy()
    change = (closes.ffill() * tables["factor"]).pct_change(fill_method=None).to_numpy()
    change = np.where(member & np.isfinite(change), change, 0.0).sum(axis=1) / member.sum(axis=1)
    indices = {}
    if meta.benchmark:
        indices[meta.benchmark] = np.round(1000.0 * np.cumprod(1.0 + change), 4)

    instruments = []
    for asset in named:
        group = group_of[asset]
        currency = find_venue(group.venue).currency
        instruments.append(Instrument(group.kind, currency, group.venue))

    return MarketSnapshot(
        meta,
        closes.index.to_numpy().astype("datetime64[D]"),
        codes=tuple(codes),
        names=tuple(asset.name for asset in named),
        industries=tuple(asset.sector for asset in named),
        member=member,
        indices=indices,
        index_names={code: code for code in indices},
        instruments=tuple(instruments),
        minutes=MinuteBars.of(pd.concat([part.minutes for part in parts])),
        documents=Documents.of(items, parts[0].group.close, entities(named)),
        **grids,
    )


# ---- news


def entities(named: Iterable[InventedNames]) -> Iterator[Entity]:
    """Yield the words that identify an asset, other than its code, name and sector."""
    for asset in named:
        yield Entity(asset.code, "name", asset.short)
        yield Entity(asset.code, "product", asset.product)
        yield Entity(asset.code, "person", asset.person)


def draw_news(
    rng: np.random.Generator, traded: BoolArray, group: Group
) -> tuple[pd.DataFrame, FloatArray]:
    """Draw a group's news items, and the log returns [S, n] that follow them.

    The table has one row per item, with session and asset (row and column of `traded`, [S, n]),
    class, direction, effect and days. The effect is spread evenly over `days` sessions. They begin
    with the session after the one at whose close the item is first known.
    """
    daily_rate = group.news_a_year / group.days_a_year
    session, asset = np.nonzero(traded & (rng.random(traded.shape) < daily_rate))

    names = vars(group).get("news_classes", NEWS["usual"])
    shares = [NEWS["classes"][name]["share"] for name in names]
    drawn = rng.choice(len(names), len(session), p=shares)

    # A class without text for good news (direction 1) is noise: it moves no price.
    two_sided = np.array(["1" in NEWS["wordings"][group.kind][name] for name in names])
    direction = np.where(two_sided[drawn], rng.choice([-1, 1], len(session)), 0)
    class_effects = np.array([NEWS["classes"][name]["effect"] for name in names])
    effect = direction * class_effects[drawn] * group.news_effect

    planted = np.zeros(traded.shape)
    drift = np.zeros(traded.shape)
    planted[session, asset] = effect / group.news_days

    for lag in range(1, group.news_days + 1):
        drift[lag:] += planted[:-lag]

    items = {
        "class": np.array(names)[drawn],
        "direction": direction,
        "effect": effect,
        "days": group.news_days,
    }
    return pd.DataFrame({"session": session, "asset": asset, **items}), drift


def spread_views(draw: Draw, news: pd.DataFrame, group: Group) -> pd.DataFrame:
    """Return the news as reported by each of a group's desks; unchanged if the group has no desks.

    Each item becomes one item per desk, with the desk as `source` and the `direction` that the desk
    believes. A desk is right with probability `desk_accuracy`, independently of the others; with
    `same_view`, all desks believe what the first one does.
    """
    desks = vars(group).get("desks")
    if not desks:
        return news

    is_right = draw("views").random((len(news), len(desks))) < group.desk_accuracy
    if group.same_view:
        is_right[:] = is_right[:, :1]

    believed = np.where(is_right, 1, -1) * news["direction"].to_numpy()[:, None]
    spread = news.loc[news.index.repeat(len(desks))].reset_index(drop=True)
    return spread.assign(source=desks * len(news), direction=believed.ravel())


def write_news(
    rng: np.random.Generator, news: pd.DataFrame, group: Group, named: Sequence[InventedNames]
) -> Iterator[Document]:
    """Yield the news items as documents. `news`: the table from `draw_news`, with the added columns
    `date` (the day of the session) and, if desks report, `source`.
    """
    zone = ZoneInfo(group.zone)
    shortest, longest = NEWS["latency_minutes"]
    minutes = rng.integers(1, DAY_MINUTES, len(news))
    latency = rng.integers(shortest, longest + 1, len(news))
    figures = rng.integers(11, 100, len(news))
    choice = rng.random(len(news))

    for number, row in enumerate(news.to_dict("records")):
        news_class = NEWS["classes"][row["class"]]
        asset = named[row["asset"]]
        wordings = NEWS["wordings"][group.kind][row["class"]][str(row["direction"])]
        title, text = wordings[int(choice[number] * len(wordings))]
        words = asset._asdict() | {"figure": figures[number]}

        end = group.close.instant(np.datetime64(row["date"], "D")) // 10**6
        known = datetime.fromtimestamp(end - 60 * int(minutes[number]), UTC)
        published = (known - timedelta(minutes=int(latency[number]))).astimezone(zone)
        yield Document(
            published,
            known,
            row.get("source", news_class["source"]),
            news_class["kind"],
            (asset.code,),
            title.format(**words),
            text.format(**words),
        )
