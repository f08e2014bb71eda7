"""News of the synthetic markets of `twins`: the items, the returns that follow them, and their words (`twin_news.yaml`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace as Group
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import yaml

from ktdeval.market import BoolArray, Document, Entity, FloatArray

NEWS = yaml.safe_load(Path(__file__).with_name("twin_news.yaml").read_text(encoding="utf-8"))
DAY_MINUTES = 23 * 60 - 10  #: Before a session's close, when its items are known: after the last close, even on the shortest day


class Named(NamedTuple):
    """Words of an asset, all invented; each belongs to one asset, those of the sector to one sector."""

    code: str
    name: str
    short: str
    sector: str
    product: str
    person: str


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
