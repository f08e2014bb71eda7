"""Synthetic markets of other venues than the A-shares: US stocks, coins, and both in one, with news that carry a known signal.

`twins.yaml` holds the parameters of a market, `twin_news.yaml` the words of its news. Assets are made on the sessions of their
venue, then aligned to the days of all. Prices are sums of shocks, rounded once: rounding noise does not grow from day to day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Group
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
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
from ktdeval.seeds import derive_seed
from ktdeval_data.params import TWIN_VERSION, TwinParams, ViewParams

_FILES = (Path(__file__).with_name(name) for name in ("twins.yaml", "synthetic_names.yaml", "twin_news.yaml"))
_TWINS, _SYLLABLES, NEWS = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in _FILES)
DAY_MINUTES = 23 * 60 - 10  #: Before a session's close, when its items are known: after the last close, even on the shortest day
LEAST_SESSIONS = 40  #: Of each venue: room for listings, halts and splits
GROUPS = {name: Group(**fields, days_a_year=find_venue(fields["venue"]).days_a_year) for name, fields in _TWINS["groups"].items()}

Draw = Callable[[str], np.random.Generator]  #: purpose -> random stream


class Named(NamedTuple):
    """Words of an asset, all invented; each belongs to one asset, those of the sector to one sector."""

    code: str
    name: str
    short: str
    sector: str
    product: str
    person: str


def make_twin(twin: str, params: TwinParams) -> MarketSnapshot:
    """Return the snapshot alone, without an id. `twin`: a name of `twins.yaml`."""
    return make_with_files(twin, params)[0]


def make_with_files(twin: str, params: TwinParams) -> tuple[MarketSnapshot, Mapping[str, bytes]]:
    """Generate a market, and tables of its planted effects (docs/synthetic-market.md); equal parameters give equal bytes.

    The snapshot, without an id, has [T] days of all its venues × N assets. Raises DataError: the range has fewer than
    `LEAST_SESSIONS` sessions of a venue or lies outside its calendar, or a date is not an ISO date.
    """
    plan, draw = _TWINS["twins"][twin], partial(_stream, params.seed, twin)
    same_view = isinstance(params, ViewParams) and params.same_view
    calendars = {name: sessions(params.first, params.last, find_venue(GROUPS[name].venue).calendar) for name in plan["assets"]}
    if (few := min(map(len, calendars.values()))) < LEAST_SESSIONS:
        raise DataError(f"{params.first}…{params.last} has {few} sessions, fewer than {LEAST_SESSIONS}; choose a longer range")
    days = np.unique(np.concatenate(list(calendars.values())))
    vocabulary = np.array([onset + ending for onset in _SYLLABLES["onsets"] for ending in _SYLLABLES["endings"]])
    words, common = iter(draw("words").permutation(vocabulary).tolist()), pd.Series(draw("common").standard_normal(len(days)), days)
    parts = []
    for name, count in plan["assets"].items():
        own = {"label": name, "news_effect": GROUPS[name].news_effect * params.effect, "close": Close.parse(plan["close"])}
        group = Group(**vars(GROUPS[name]) | own, minute_days=params.minute_days, same_view=same_view)
        parts.append(_make_part(partial(draw, name), group, _name_assets(group, count, words), common.reindex(calendars[name])))
    truth = {name: pd.concat([part.truth[name] for part in parts], ignore_index=True) for name in ("assets", "news")}
    truth["markets"] = pd.concat([part.truth["markets"] for part in parts], axis=1, sort=True).rename_axis("date").reset_index()
    recipe = f"generator {TWIN_VERSION}, seed {params.seed}, news effect {params.effect:g}, {params.first}…{params.last}"
    recipe += ", one view for all desks" if same_view else ""
    meta = SnapshotMeta(f"synthetic-{twin}-{params.seed}", f"ktdeval synthetic {twin} market, {recipe}", True, True, plan["index"])
    files = {f"truth_{name}.parquet": table.to_parquet(index=False) for name, table in truth.items()}
    return _join(meta, parts), files


def _stream(*parts: str | int) -> np.random.Generator:
    return np.random.default_rng(derive_seed("twin", *parts))


def _name_assets(group: Group, count: int, words: Iterator[str]) -> list[Named]:
    """Draw the names of a group's assets, by ascending code; the sectors in turn. A group may list its codes."""
    sectors = [f"{next(words)} {trade}" for trade in group.sectors]
    named, codes = [], vars(group).get("codes")
    for number in range(count):
        first, second, product, forename, surname = (next(words) for _ in range(5))
        code = codes[number] if codes else group.code.format(letters=first[:4].upper(), number=number)
        name, sector = group.name.format(first=first, second=second), sectors[number % len(sectors)]
        named.append(Named(code, name, first, sector, product, f"{forename} {surname}"))
    return sorted(named)


class Part(NamedTuple):
    """Assets of a group on its S sessions."""

    group: Group
    named: Sequence[Named]
    bars: Mapping[str, pd.DataFrame]  # name -> [S, n], by day and code
    truth: Mapping[str, pd.DataFrame]  # as of `make_with_files`, markets by day
    items: Sequence[Any]  # the news in words, as `Document`
    minutes: pd.DataFrame  # of the last days, as of `MinuteBars.of`


def _make_part(draw: Draw, group: Group, named: Sequence[Named], common: pd.Series) -> Part:
    """Generate a group. `common`: shocks that all groups share, by the days of its sessions."""
    days, shape, codes = common.index, (len(common), len(named)), [asset.code for asset in named]
    listed, traded = _listings(draw("listings"), group, shape)
    own = draw("own volatility").uniform(group.own_volatility[0], group.own_volatility[1], shape[1])
    beta = draw("beta").uniform(group.beta[0], group.beta[1], shape[1])
    shocks = group.common * common.to_numpy() + np.sqrt(1.0 - group.common**2) * draw("market").standard_normal(shape[0])
    market = group.mean_a_year / group.days_a_year + group.market_volatility / np.sqrt(group.days_a_year) * shocks
    returns = market[:, None] * beta + _noise(draw, group, [asset.sector for asset in named], own, shape)
    news, drift = draw_news(draw("news"), traded, group)
    news["date"], news["code"] = days[news["session"]], np.array(codes)[news["asset"]]
    items = list(write_news(draw("words"), spread_views(draw, news, group), group, named))
    bars = _bars(draw, group, returns, drift, traded)
    bars["volume"] = np.where(listed & ~traded, 0.0, bars["volume"])
    truth = {
        "markets": pd.DataFrame({group.label: market}, days),
        "assets": pd.DataFrame({"code": codes, "group": group.label, "beta": beta, "own_volatility": own}),
        "news": news[["code", "date", "class", "direction", "effect", "days"]],
    }
    minutes = _minutes(draw("minutes"), group, bars, days.to_numpy(), np.array(codes, dtype=object))
    return Part(group, named, {name: pd.DataFrame(grid, days, codes) for name, grid in bars.items()}, truth, items, minutes)


def _listings(rng: np.random.Generator, group: Group, shape: tuple[int, int]) -> tuple[BoolArray, BoolArray]:
    """[S, n] days from an asset's first bar to its last, and those of them on which it trades; no asset has two events."""
    days, count = shape
    order = iter(rng.permutation(count).tolist())
    listed = np.ones(shape, dtype=np.bool_)
    for _ in range(group.late):
        listed[: rng.integers(days // 10, days // 2), next(order)] = False
    for _ in range(group.delisted):
        listed[rng.integers(days // 2, days * 9 // 10) :, next(order)] = False
    traded = listed.copy()
    for _ in range(group.halted):
        start = rng.integers(days // 10, days - 2 * group.halt_days[1])
        traded[start : start + rng.integers(group.halt_days[0], group.halt_days[1] + 1), next(order)] = False
    return listed, traded


def _noise(draw: Draw, group: Group, sectors: Sequence[str], own: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """[S, n] log returns of sectors plus those of single assets, jumps included. `own`: [n] annual volatility of the latter."""
    tails = np.sqrt((group.tail_degrees - 2.0) / group.tail_degrees)
    names, sector_of = np.unique(sectors, return_inverse=True)
    of_sectors = draw("sectors").standard_t(group.tail_degrees, (shape[0], len(names))) * tails * group.sector_volatility
    of_assets = draw("assets").standard_t(group.tail_degrees, shape) * tails * own
    jumps, chance = draw("jumps"), group.jumps_a_year / group.days_a_year
    sizes = np.where(jumps.random(shape) < chance, jumps.standard_normal(shape) * group.jump_size, 0.0)
    return np.asarray((of_sectors[:, sector_of] + of_assets) / np.sqrt(group.days_a_year) + sizes)


def _bars(draw: Draw, group: Group, returns: FloatArray, drift: FloatArray, traded: BoolArray) -> dict[str, FloatArray]:
    """Bars of the assets, [S, n] each. `returns`: log returns without `drift`, which news add after the open."""
    rng, shape = draw("bars"), returns.shape
    start = np.log(group.price[0]) + group.price[1] * rng.standard_normal(shape[1])
    path = start + np.cumsum(returns + drift, axis=0)
    width = 0.4 * returns.std(axis=0)
    close, opened = np.exp(path), np.exp(path - drift - (1.0 - group.overnight) * returns)
    high = np.maximum(opened, close) * np.exp(width * np.abs(rng.standard_normal(shape)))
    low = np.minimum(opened, close) * np.exp(-width * np.abs(rng.standard_normal(shape)))
    ratios, splits = np.ones(shape), draw("splits")
    for asset in splits.permutation(shape[1])[: group.split].tolist():
        ratios[splits.choice(np.flatnonzero(traded[:, asset])[1:]), asset] = splits.choice(np.array(group.split_ratios))
    factor = np.cumprod(ratios, axis=0)
    least = 10.0**-group.price_decimals
    bars = {
        name: np.where(traded, np.maximum(np.round(values / factor, group.price_decimals), least), np.nan)
        for name, values in (("open", opened), ("high", high), ("low", low), ("close", close))
    }
    size = np.log(group.turnover[0]) + group.turnover[1] * rng.standard_normal(shape[1])
    money = np.exp(size + 0.4 * rng.standard_normal(shape) + 0.3 * np.abs(returns) / returns.std(axis=0))
    volume = np.maximum(np.round(money / bars["close"], group.volume_decimals), 10.0**-group.volume_decimals)
    amount = np.round(volume * (bars["high"] + bars["low"] + bars["close"]) / 3.0, 2)
    return bars | {"volume": volume, "amount": amount, "factor": factor}


def _minutes(rng: np.random.Generator, group: Group, bars: Mapping[str, FloatArray], days: Any, codes: Any) -> pd.DataFrame:
    """Bars of each minute of the last sessions, by a random bridge between low and high; together they equal the daily bars."""
    session, asset = np.nonzero(np.isfinite(bars["close"]) & (np.arange(len(days)) >= len(days) - group.minute_days)[:, None])
    first, high, low, last, volume = (bars[name][session, asset][:, None] for name in ("open", "high", "low", "close", "volume"))
    count, rows, span = group.session_minutes, np.arange(len(session)), np.maximum(high - low, 1e-12)
    gone, walk = np.arange(1, count + 1) / count, np.cumsum(rng.standard_normal((len(rows), count)), axis=1)
    path = np.log(last / first) * gone + np.log(high / low) / np.sqrt(count) * (walk - gone * walk[:, -1:])
    reflected = high - np.abs((first * np.exp(path) - low) % (2.0 * span) - span)
    closes = np.clip(np.round(reflected, group.price_decimals), low, high)
    closes[:, -1:] = last
    opens = np.concatenate([first, closes[:, :-1]], axis=1)
    highs, lows = np.maximum(opens, closes), np.minimum(opens, closes)
    highs[rows, highs.argmax(axis=1)], lows[rows, lows.argmin(axis=1)] = high[:, 0], low[:, 0]
    traded = np.round(np.diff(np.round(volume * gone, group.volume_decimals), axis=1, prepend=0.0), group.volume_decimals)
    venue = find_venue(group.venue)
    end = np.array([Close.parse(f"{venue.close} {venue.zone}").instant(day) for day in days[session]], "M8[us]")[:, None]
    ends = end - np.arange(count)[::-1].astype("m8[m]")
    grids = {"ends_at": ends, "open": opens, "high": highs, "low": lows, "close": closes, "volume": traded}
    return pd.DataFrame({"code": np.repeat(codes[asset], count), **{name: grid.ravel() for name, grid in grids.items()}})


def _join(meta: SnapshotMeta, parts: Sequence[Part]) -> MarketSnapshot:
    """Align the groups to the days of the market, the assets by ascending code."""
    group_of = {asset: part.group for part in parts for asset in part.named}
    named = sorted(group_of)
    codes = [asset.code for asset in named]
    tables = {name: pd.concat([part.bars[name] for part in parts], axis=1, sort=True)[codes] for name in parts[0].bars}
    closes, tables["factor"] = tables["close"], tables["factor"].ffill().fillna(1.0)
    grids: dict[str, Any] = {name: table.to_numpy(copy=True) for name, table in tables.items()}
    member = closes.ffill().notna().to_numpy() & closes.bfill().notna().to_numpy()
    change = (closes.ffill() * tables["factor"]).pct_change(fill_method=None).to_numpy()
    change = np.where(member & np.isfinite(change), change, 0.0).sum(axis=1) / member.sum(axis=1)
    index = {meta.benchmark: np.round(1000.0 * np.cumprod(1.0 + change), 4)} if meta.benchmark else {}
    return MarketSnapshot(
        meta,
        closes.index.to_numpy().astype("datetime64[D]"),
        codes=tuple(codes),
        names=tuple(asset.name for asset in named),
        industries=tuple(asset.sector for asset in named),
        member=member,
        indices=index,
        index_names={code: code for code in index},
        instruments=tuple(Instrument(at.kind, find_venue(at.venue).currency, at.venue) for at in map(group_of.__getitem__, named)),
        minutes=MinuteBars.of(pd.concat([part.minutes for part in parts])),
        documents=Documents.of((item for part in parts for item in part.items), parts[0].group.close, entities(named)),
        **grids,
    )


# ---- news


def entities(named: Iterable[Named]) -> Iterator[Entity]:
    """Words that identify assets besides their codes, names and sectors."""
    for asset in named:
        yield from (Entity(asset.code, "name", asset.short), Entity(asset.code, "product", asset.product))
        yield Entity(asset.code, "person", asset.person)


def draw_news(rng: np.random.Generator, traded: BoolArray, group: Group) -> tuple[pd.DataFrame, FloatArray]:
    """Draw the items of a group, and the log returns [S, n] that follow them.

    One row an item: session and asset (row and column of `traded`, [S, n]), class, direction, effect, days.
    The effect is spread over the `days` sessions after the one at whose close the item is first known.
    """
    session, asset = np.nonzero(traded & (rng.random(traded.shape) < group.news_a_year / group.days_a_year))
    names = vars(group).get("news_classes", NEWS["usual"])
    drawn = rng.choice(len(names), len(session), p=[NEWS["classes"][name]["share"] for name in names])
    two_sided = np.array(["1" in NEWS["wordings"][group.kind][name] for name in names])
    direction = np.where(two_sided[drawn], rng.choice([-1, 1], len(session)), 0)
    effect = direction * np.array([NEWS["classes"][name]["effect"] for name in names])[drawn] * group.news_effect
    planted, drift = np.zeros((2, *traded.shape))
    planted[session, asset] = effect / group.news_days
    for lag in range(1, group.news_days + 1):
        drift[lag:] += planted[:-lag]
    items = {"class": np.array(names)[drawn], "direction": direction, "effect": effect, "days": group.news_days}
    return pd.DataFrame({"session": session, "asset": asset, **items}), drift


def spread_views(draw: Callable[[str], np.random.Generator], news: pd.DataFrame, group: Group) -> pd.DataFrame:
    """Return the items as the desks of a group report them: one for each desk, with its own `source` and the `direction` that it
    believes: the true one with probability `desk_accuracy`, independently by desk, or with `same_view` that of the first desk.
    Groups without desks keep their items.
    """
    if not (desks := vars(group).get("desks")):
        return news
    is_right = draw("views").random((len(news), len(desks))) < group.desk_accuracy
    if group.same_view:
        is_right[:] = is_right[:, :1]
    believed = np.where(is_right, 1, -1) * news["direction"].to_numpy()[:, None]
    spread = news.loc[news.index.repeat(len(desks))].reset_index(drop=True)
    return spread.assign(source=desks * len(news), direction=believed.ravel())


def write_news(rng: np.random.Generator, news: pd.DataFrame, group: Group, named: Sequence[Named]) -> Iterator[Document]:
    """Yield items in words. `news`: as of `draw_news`, with `date`, the day of the session, and `source` where desks report."""
    zone, (shortest, longest) = ZoneInfo(group.zone), NEWS["latency_minutes"]
    minutes, latency = rng.integers(1, DAY_MINUTES, len(news)), rng.integers(shortest, longest + 1, len(news))
    figures, choice = rng.integers(11, 100, len(news)), rng.random(len(news))
    for number, row in enumerate(news.to_dict("records")):
        news_class, asset = NEWS["classes"][row["class"]], named[row["asset"]]
        wordings = NEWS["wordings"][group.kind][row["class"]][str(row["direction"])]
        words = asset._asdict() | {"figure": figures[number]}
        title, text = (part.format(**words) for part in wordings[int(choice[number] * len(wordings))])
        end = group.close.instant(np.datetime64(row["date"], "D")) // 10**6
        known = datetime.fromtimestamp(end - 60 * int(minutes[number]), UTC)
        published = (known - timedelta(minutes=int(latency[number]))).astimezone(zone)
        source = row.get("source", news_class["source"])
        yield Document(published, known, source, news_class["kind"], (asset.code,), title, text)
