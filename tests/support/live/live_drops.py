"""Forward tests whose days are dropped into a folder one at a time, under a clock in a file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ktdeval.market import BAR_FIELDS, MarketSnapshot, save_snapshot
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.trading import StepRecord
from ktdeval_live.days.clock import FileClock, of_text
from ktdeval_live.days.market_sessions import Session
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.past_replay import InlineAsker, replay_plan
from ktdeval_live.deciding.step import LiveStep, StepReport
from ktdeval_live.plan import load_plan
from ktdeval_live.record.entrant_episode import EntrantMarket, EntryEpisode, answers
from ktdeval_live.record.folder import LiveFolder
from support.market.trading_market import part_of_market

INCOMING = "private/incoming"
"""Drop folder of a market, below the folder of the test."""

COLUMNS = ("code", "open", "high", "low", "close", "volume", "amount", "factor")

Row = dict[str, Any]
Edit = Callable[[list[Row]], list[Row]]
"""Change of the rows of a day."""


@cache
def plugins() -> Plugins:
    """Return the installed plugins."""
    return load_plugins()


@cache
def few_assets(provider: str, count: int = 6, last: str = "2024-12-31") -> MarketSnapshot:
    """Return the first assets of an embedded market, without documents, up to a day."""
    market = open_snapshot(plugins(), provider, {})
    rows = int(np.searchsorted(market.days, np.datetime64(last), side="right"))
    bare = replace(market, documents=market.documents.first(0))

    return part_of_market(bare, rows, range(count))


def rows_of(market: MarketSnapshot, day: str) -> list[Row]:
    """Return the bars of a day as rows of a file, none on a day that the market lacks."""
    rows = []
    for row in np.flatnonzero(market.days == np.datetime64(day, "D")):
        for column, code in enumerate(market.codes):
            if np.isfinite(market.close[row, column]):
                values = {name: float(getattr(market, name)[row, column]) for name in BAR_FIELDS}
                rows.append({"code": code, **values})

    return rows


def as_csv(rows: list[Row]) -> str:
    """Return rows as the text of a file."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)

    return stream.getvalue()


def rename_into(path: Path, text: str) -> None:
    """Write a file elsewhere and rename it into its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    other = path.parent.parent / f".{path.name}.part"
    other.write_text(text, "utf-8")
    other.rename(path)


@dataclass
class Drops:
    """A forward test, the markets whose days it is given, and its clock."""

    path: Path
    markets: Mapping[str, MarketSnapshot]
    clock_file: Path
    incoming: str = INCOMING

    @property
    def folder(self) -> LiveFolder:
        """The test as it is on disk now."""
        return LiveFolder(self.path)

    @property
    def words(self) -> tuple[str, ...]:
        """Words of `ktdeval` for a step."""
        return ("live", "step", str(self.path), "--clock", str(self.clock_file))

    def session(self, day: str, market: str = "us") -> Session:
        """Return a session of a market."""
        sessions = self.folder.schedule(market).sessions
        return next(one for one in sessions if one.day == day)

    def at(self, text: str) -> None:
        """Set the clock: `2024-06-03T20:15:00Z`."""
        temporary = self.clock_file.with_suffix(".new")
        temporary.write_text(of_text(text).isoformat(), "utf-8")
        temporary.rename(self.clock_file)

    def after_close(self, day: str, minutes: float = 20, market: str = "us") -> None:
        """Set the clock to some minutes after the close of a session."""
        self._set(self.session(day, market).complete_at, minutes)

    def _set(self, time: datetime, minutes: float) -> None:
        self.at((time + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def before_cutoff(self, day: str, minutes: float, market: str = "us") -> None:
        """Set the clock to some minutes before the cutoff of a session, after it if negative."""
        cutoff = self.session(day, market).cutoff
        assert cutoff is not None
        self._set(cutoff, -minutes)

    def bars_path(self, day: str, market: str = "us") -> Path:
        """Return the file of a day's bars."""
        return self.path / self.incoming / market / f"bars-{day}.csv"

    def drop(self, day: str, market: str = "us", edit: Edit | None = None) -> None:
        """Drop the files of a day, the bars last, changed by `edit`."""
        snapshot = self.markets[market]
        folder = self.bars_path(day, market).parent
        row = np.flatnonzero(snapshot.days == np.datetime64(day, "D"))

        if snapshot.indices and len(row):
            levels = "".join(
                f"{code},{float(series[row[0]])!r}\n" for code, series in snapshot.indices.items()
            )
            rename_into(folder / f"indices-{day}.csv", f"code,close\n{levels}")

        rows = rows_of(snapshot, day)
        rename_into(self.bars_path(day, market), as_csv(rows if edit is None else edit(rows)))

    def step_here(self) -> StepReport:
        """Take a step within this process."""
        test = self.folder
        clock = FileClock(self.clock_file)

        with test.lock():
            return LiveStep(test, plugins(), clock, InlineAsker(test, plugins(), clock)).run()


def plan_text(markets: Mapping[str, Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return the fields of a rehearsal with one entrant on some markets, with some changed."""
    return {
        "name": "drops",
        "kind": "rehearsal",
        "mask_key": "5eed" * 8,
        "markets": markets,
        "entrants": [{"name": "momentum", "model": "builtin/momentum"}],
        **fields,
    }


TASKS = {"us": "market_bright", "coins": "market_coins_bright"}
PROVIDERS = {"us": "synthetic_us", "coins": "synthetic_crypto"}


def store_markets(folder: Path, names: tuple[str, ...] = ("us",)) -> dict[str, MarketSnapshot]:
    """Store small markets into a folder, each under its name."""
    markets = {name: few_assets(PROVIDERS[name]) for name in names}
    for name, market in markets.items():
        save_snapshot(market, folder / name)

    return markets


def _market(folder: Path, name: str) -> dict[str, str]:
    return {"data": str(folder / "markets" / name), "task": TASKS[name]}


def begin_drops(
    folder: Path, names: tuple[str, ...] = ("us",), incoming: str = INCOMING, **fields: Any
) -> Drops:
    """Begin a rehearsal in `folder/test` whose days will be dropped."""
    markets = store_markets(folder / "markets", names)
    planned = {}

    for name in names:
        args = {"folder": f"{incoming}/{name}"}
        planned[name] = {**_market(folder, name), "source": "drop", "source_args": args}

    plan = folder / "plan.yaml"
    plan.write_text(yaml.safe_dump(plan_text(planned, **fields)), "utf-8")
    drops = Drops(folder / "test", markets, folder / "clock.txt", incoming)
    drops.at("2024-01-02T12:00:00Z")
    begin(load_plan(plan), drops.path, plugins(), FileClock(drops.clock_file))

    for name in names:
        (drops.path / incoming / name).mkdir(parents=True)

    return drops


def replayed(folder: Path, names: tuple[str, ...] = ("us",), **fields: Any) -> LiveFolder:
    """Replay the plan of `begin_drops` on the markets that it stored."""
    planned = {name: {**_market(folder, name), "source": "stored"} for name in names}
    plan = folder / "replay.yaml"
    plan.write_text(yaml.safe_dump(plan_text(planned, **fields)), "utf-8")
    lines: list[str] = []

    return replay_plan(load_plan(plan), folder / "replay", plugins(), lines.append)


def ledger(folder: LiveFolder, entrant: str, market: str = "us") -> list[StepRecord]:
    """Return the settled days of an entry on the data as known now."""
    entry = EntrantMarket(folder.plan, folder.plan.entrant(entrant), market)
    episode = EntryEpisode(entry, folder, plugins(), folder.market(market))
    frozen = len(folder.schedule(market).deciding)
    episode.settle(folder.chain(), frozen)

    return episode.records


def environment(**changes: str) -> dict[str, str]:
    """Return variables of a process of a test."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **changes}


def ends(test: LiveFolder, entrant: str = "momentum", market: str = "us") -> dict[str, str]:
    """Return how each day of an entry ended: `decided`, or the cause of its gap."""
    entry = EntrantMarket(test.plan, test.plan.entrant(entrant), market)
    found = {}

    for day, answer in answers(test.chain(), entry).items():
        found[day] = "decided" if answer.gap is None else answer.gap.cause

    return dict(sorted(found.items()))
