"""A week of a live test as an honest maintainer keeps it: two markets, two entrants, one with a
memory, data that come through a drop folder, one revision and one gap, under a clock of the test's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.values import encode_canonical
from ktdeval_live.days.clock import of_text
from ktdeval_live.days.day_sources import StoredDays
from ktdeval_live.days.market_increments import Increment
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import LiveStep
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import settle_test, write_cards
from support.live.live_drops import COLUMNS, as_csv
from support.live.live_plans import plan_of
from support.live.time_authority import Authority, authority

BEFORE = "2024-05-30T00:00:00Z"
AFTER = "2024-06-10T00:00:00Z"
REVISED_DAY = "2024-06-03"
LATE_DAY = "2024-06-05"
"""Its data of US stocks come after its cutoff: a gap of both entrants."""
MARKETS = {
    "us": ("synthetic_us", "market_bright"),
    "coins": ("synthetic_crypto", "market_coins_bright"),
}
ENTRANTS = (
    {"name": "chance", "model": "builtin/random"},
    {"name": "investor", "model": "builtin/momentum", "agent": "investor"},
)
FRACTION = timedelta(microseconds=123_456)
"""Of a second, which no link of the chain has."""
STEPS = (
    "2024-05-31T20:15:00Z",
    "2024-06-03T00:15:00Z",
    "2024-06-03T20:15:00Z",
    "2024-06-04T00:15:00Z",
    "2024-06-04T20:15:00Z",
    "2024-06-05T00:15:00Z",
    "2024-06-06T00:15:00Z",
    "2024-06-06T13:30:00Z",  # the cutoff of 5 June is past, and its data come afterwards
    "2024-06-06T20:15:00Z",
    "2024-06-07T00:15:00Z",
    "2024-06-07T20:15:00Z",
    "2024-06-08T00:15:00Z",
)


@dataclass(frozen=True)
class Week:
    """A finished test with all that a maintainer has."""

    folder: LiveFolder
    clock: SetClock  #: of the authority, too
    authority: Authority | None


@contextmanager
def live_week(path: Path, plugins: Plugins, stamps: bool = False, **changes: Any) -> Iterator[Week]:
    """Keep a test for a week; `changes` are fields of its plan. With `stamps` each publication needs
    one, by an authority that runs until the end of the block.
    """
    clock = SetClock(of_text(BEFORE))

    if not stamps:
        yield Week(kept_week(path, plugins, clock, None, **changes), clock, None)
        return

    with authority(path.with_name(f"{path.name}-authority"), lambda: clock.time) as running:
        yield Week(kept_week(path, plugins, clock, running, **changes), clock, running)


def kept_week(
    path: Path, plugins: Plugins, clock: SetClock, running: Authority | None, **changes: Any
) -> LiveFolder:
    """Begin a test, take its steps, and settle it; the clock then stands after its end."""
    incoming = path.with_name(f"{path.name}-incoming")
    markets = {}

    for name, (data, task) in MARKETS.items():
        (incoming / name).mkdir(parents=True)
        args = {"folder": str(incoming / name)}
        markets[name] = {"data": data, "task": task, "source": "drop", "source_args": args}

    publish: dict[str, Any] = {}
    if running is not None:
        certificate = running.certificate.read_text("ascii")
        publish = {"stamp": {"url": running.url, "certificate": certificate}}

    fields = {"kind": "live", "markets": markets, "entrants": ENTRANTS, "publish": publish}
    clock.time = of_text(BEFORE) + FRACTION
    folder = begin(plan_of(**{**fields, **changes}), path, plugins, clock)
    stored = {name: plugins.make_snapshot(data, {}) for name, (data, _) in MARKETS.items()}

    for time in STEPS:
        clock.time = of_text(time) + FRACTION
        _drop(incoming, stored, folder, time)
        take_step(folder.path, plugins, clock)

    clock.time = of_text(AFTER)
    folder = LiveFolder(path)
    write_cards(folder, settle_test(folder, plugins, clock.now()).cards)

    return folder


def take_step(path: Path, plugins: Plugins, clock: SetClock) -> None:
    """Take one step by the clock, whose problems are errors."""
    folder = LiveFolder(path)
    with folder.lock():
        report = LiveStep(folder, plugins, clock, InlineAsker(folder, plugins, clock)).run()

    assert report.problems == []


def _drop(incoming: Path, stored: dict[str, MarketSnapshot], folder: LiveFolder, time: str) -> None:
    """Put the days that are over into the drop folders; the revision comes a day later."""
    for name, market in stored.items():
        for session in folder.schedule(name).sessions:
            if session.complete_at > of_text(time) or _is_held_back(name, session.day, time):
                continue

            increment = StoredDays(market).day(name, session.day, session.complete_at)
            assert increment is not None
            is_revised = session.day == REVISED_DAY and time >= "2024-06-04T20:00:00Z"
            drop_increment(incoming / name, increment, 1.01 if is_revised else 1.0)


def _is_held_back(market: str, day: str, time: str) -> bool:
    return market == "us" and day == LATE_DAY and time < "2024-06-06T20:00:00Z"


def drop_increment(folder: Path, increment: Increment, scale: float) -> None:
    """Write a day as files of a drop folder, with its prices times a scale."""
    rows = []
    for bar in increment.bars:
        row = {name: getattr(bar, name) for name in COLUMNS}
        for name in ("open", "high", "low", "close"):
            row[name] *= scale

        rows.append(row)

    levels = "".join(f"{code},{level}\n" for code, level in increment.indices.items())
    items = "".join(f"{encode_canonical(item)}\n" for item in increment.documents)
    (folder / f"indices-{increment.day}.csv").write_text(f"code,close\n{levels}", "utf-8")
    (folder / f"documents-{increment.day}.jsonl").write_text(items, "utf-8")
    (folder / f"bars-{increment.day}.csv").write_text(as_csv(rows), "utf-8")
