"""Forgeries of what a test is: plan, entrants, sessions, market."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable

from ktdeval.market import load_snapshot, save_snapshot, with_id
from support.live.forgery_kinds import (
    DAY,
    FIRST,
    ISSUED,
    LATE,
    NEXT,
    Found,
    afterwards,
    forgery,
    set_to,
)
from support.live.live_forger import Forger, Plain


@afterwards("a plan without its hash", ("plan", ""))
def _(forger: Forger) -> None:
    forger.edit_json("plan.json", set_to("shadow_days", 2))


def _plan(name: str, change: Callable[[Plain], None], found: Found | None) -> None:
    stamped = (ISSUED, FIRST) if found is None else None
    forgery(name, found, stamped)(lambda forger: forger.edit_plan(change))


def _entrant(name: str, value: object) -> Callable[[Plain], None]:
    return lambda plan: plan["entrants"][0].update({name: value})


_plan("the seed of a plan", set_to("seed", 7), ("replies", FIRST))
_plan("shadow days", set_to("shadow_days", 2), None)
_plan("the least activity", set_to("least_activity", 0.0), None)
_plan("the tracking error", set_to("tracking_error_pct", 1.0), None)
_plan("the mask key", set_to("mask_key", "0" * 32), ("replies", FIRST))
_plan("a margin after the fact", set_to("margin_minutes", 60.0), ("schedule", FIRST))
_plan("the last day", set_to("last", "2024-06-28"), ("schedule", "2024-06-10"))
_plan("another agent", _entrant("agent", "investor"), ("replies", FIRST))
_plan("another model", _entrant("model", "builtin/momentum"), None)
_plan(
    "another task",
    lambda plan: plan["markets"]["us"].update(task="market_blinded"),
    ("replies", FIRST),
)


@forgery("an entrant renamed in its plan alone", ("entrant", FIRST))
def _(forger: Forger) -> None:
    forger.edit_plan(_entrant("name", "genius"))


@forgery("an entrant renamed everywhere", None, (ISSUED, FIRST))
def _(forger: Forger) -> None:
    forger.edit_plan(_entrant("name", "genius"))
    (forger.path / "records/chance").rename(forger.path / "records/genius")
    for path in (forger.path / "records/genius").rglob("*.json"):
        name = path.relative_to(forger.path).as_posix()
        forger.edit_json(name, lambda one: one["question"].update(entrant="genius"))

    for link in forger.links:
        if link["body"].get("entrant") == "chance":
            link["body"]["entrant"] = "genius"


@forgery("a bad entrant left out", None, (ISSUED, FIRST))
def _(forger: Forger) -> None:
    forger.edit_plan(lambda plan: plan["entrants"].pop(0))
    own = [link for link in forger.links if link["body"].get("entrant") == "chance"]
    forger.drop(*own)
    shutil.rmtree(forger.path / "records/chance")

    for path in (forger.path / "cards").glob("chance-*"):
        path.unlink()


@forgery("an identity of a system", ("system", ""))
def _(forger: Forger) -> None:
    forger.links[0]["body"]["systems"]["chance/us"] = "0" * 20


@forgery("a system that nobody has", ("system", ""))
def _(forger: Forger) -> None:
    forger.links[0]["body"]["systems"]["nobody/us"] = "0" * 20


@forgery("an entrant that joins days late", ("joined", FIRST))
def _(forger: Forger) -> None:
    forger.move_to_joined("investor", first="2024-06-03", before=forger.decided(NEXT))


@forgery("decisions from before an entrant joined", ("backfill", FIRST))
def _(forger: Forger) -> None:
    forger.move_to_joined("investor", first="2024-06-05", before=forger.links[1])


def _schedule(name: str, change: Callable[[Plain], None], found: Found) -> None:
    forgery(name, found)(lambda forger: forger.edit_schedule("us", change))


def _session(number: int, name: str, value: object) -> Callable[[Plain], None]:
    return lambda schedule: schedule["sessions"][number].update({name: value})


_schedule("a cutoff", _session(1, "cutoff", "2024-06-04T21:00:00Z"), ("schedule", DAY))
_schedule("a close", _session(1, "complete_at", "2024-06-03T12:00:00Z"), ("schedule", DAY))
_schedule("a session left out", lambda one: one["sessions"].pop(3), ("schedule", LATE))
_schedule("sessions in another order", lambda one: one["sessions"].reverse(), ("schedule", ""))


@afterwards("sessions without their hash", ("schedule", ""))
def _(forger: Forger) -> None:
    forger.edit_json("schedules/us.json", _session(1, "cutoff", "2024-06-04T21:00:00Z"))


@forgery("the market before the test", ("replies", FIRST))
def _(forger: Forger) -> None:
    path = forger.path / "base/us"
    market = load_snapshot(path)
    close = market.close.copy()
    close[-30:] *= 1.5
    high = market.high.copy()
    high[-30:] *= 1.5
    shutil.rmtree(path)
    save_snapshot(with_id(dataclasses.replace(market, id="", close=close, high=high)), path)
    forger.renew_beginning()


@afterwards("the market before the test without its hash", ("base", ""))
def _(forger: Forger) -> None:
    shutil.rmtree(forger.path / "base/us")
    shutil.copytree(forger.path / "base/coins", forger.path / "base/us")
