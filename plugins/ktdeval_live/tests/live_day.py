"""The shortest live test: one decision of one entrant, stamped by an authority, with its card."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ktdeval.registry import Plugins
from ktdeval_live.days.clock import of_text
from ktdeval_live.days.day_sources import StoredDays
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.past_replay import SetClock
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import settle_test, write_cards
from support.live.live_plans import plan_of
from support.live.live_week import BEFORE, drop_increment, take_step
from support.live.time_authority import Authority

DECIDED_ON = "2024-05-31"
FILLED_ON = "2024-06-03"
CLOSES = {DECIDED_ON: "2024-05-31T20:15:00Z", FILLED_ON: "2024-06-03T20:15:00Z"}


def kept_day(path: Path, plugins: Plugins, clock: SetClock, running: Authority) -> LiveFolder:
    """Keep a test whose days are long past, by a clock that says otherwise, as does the authority's."""
    incoming = path.with_name(f"{path.name}-incoming")
    incoming.mkdir()
    market = {
        "data": "synthetic_us",
        "task": "market_bright",
        "source": "drop",
        "source_args": {"folder": str(incoming)},
    }
    stamp = {"url": running.url, "certificate": running.certificate.read_text("ascii")}
    plan = plan_of(
        kind="live",
        first=FILLED_ON,
        last=FILLED_ON,
        markets={"us": market},
        publish={"stamp": stamp},
    )
    clock.time = of_text(BEFORE)
    begin(plan, path, plugins, clock)
    stored = StoredDays(plugins.make_snapshot("synthetic_us", {}))

    for day, time in CLOSES.items():
        clock.time = of_text(time)
        increment = stored.day("us", day, clock.time - timedelta(minutes=15))
        assert increment is not None
        drop_increment(incoming, increment, 1.0)
        take_step(path, plugins, clock)

    folder = LiveFolder(path)
    write_cards(folder, settle_test(folder, plugins, clock.time).cards)

    return folder
