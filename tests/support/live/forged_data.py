"""Forgeries of data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from support.live.forgery_kinds import (
    DAY,
    END,
    FIRST,
    ISSUED,
    LAST,
    LATE,
    NEXT,
    Found,
    afterwards,
    forgery,
    other_close,
    scaled,
    set_to,
)
from support.live.live_forger import Forger, Plain


def _bar(name: str, value: float) -> Callable[[Plain], None]:
    return lambda increment: increment["bars"][0].update({name: value})


def _data(name: str, change: Callable[[Plain], None], found: Found | None, **where: Any) -> None:
    day = where.pop("day", NEXT)
    stamped = where.pop("stamped", None)
    forgery(name, found, stamped)(lambda forger: forger.edit_increment(day, change, **where))


def _other_index(increment: Plain) -> None:
    for code in increment["indices"]:
        increment["indices"][code] *= 1.02


def _other_text(increment: Plain) -> None:
    increment["documents"][0]["text"] += " It was to be expected."


def _known_later(increment: Plain) -> None:
    increment["documents"][-1]["known_at"] = "2024-06-09T00:00:00Z"


_data("closes", other_close, ("replies", NEXT))
_data("closes of coins", other_close, ("replies", NEXT), market="coins")
_data("closes of a revision", other_close, ("replies", NEXT), day=DAY, number=1)
_data("volumes", scaled("volume", 1.5), ("replies", NEXT))
_data("adjustment factors", scaled("factor", 1.1), ("replies", NEXT))
_data("an amount", scaled("amount", 2.0), None, stamped=(ISSUED, NEXT))
_data("the text of a document", _other_text, None, stamped=(ISSUED, NEXT))
_data("a document known later", _known_later, ("data", NEXT))
_data("a bar left out", lambda one: one["bars"].clear(), ("replies", NEXT))
_data("a bar twice", lambda one: one["bars"].append(one["bars"][0]), ("data", NEXT))
_data("a bar of another code", _bar("code", "NOBODY"), ("data", NEXT))
_data("a price of nothing", _bar("low", 0.0), ("data", NEXT))
_data("a day's data known later", set_to("known_at", "2024-06-05T00:00:00Z"), ("data", NEXT))
_data("data of another day", set_to("day", "2024-06-06"), ("data", NEXT))
_data("data of another market", set_to("market", "coins"), ("data", NEXT))
_data("a revision of nothing", set_to("revises", "0" * 64), ("data", DAY), day=DAY, number=1)
_data("a first day that revises", set_to("revises", "0" * 64), ("data", NEXT))
_data("data of the last day", other_close, None, day=END, stamped=("card", ""))
_data("levels of an index", _other_index, ("card", ""))


@afterwards("data without their hash", ("data", NEXT))
def _(forger: Forger) -> None:
    forger.edit_json(f"data/us/{NEXT}-0.json", other_close)


@afterwards("data that are missing", ("data", NEXT))
def _(forger: Forger) -> None:
    (forger.path / f"data/us/{NEXT}-0.json").unlink()


@forgery("data frozen before the day was over", ("data", FIRST))
def _(forger: Forger) -> None:
    forger.links[1]["at"] = "2024-05-31T10:00:00Z"


@forgery("a revision left out", ("replies", NEXT))
def _(forger: Forger) -> None:
    revision = forger.link("frozen", market="us", day=DAY, number=1)
    (forger.path / f"data/us/{DAY}-1.json").unlink()
    forger.drop(revision)


@forgery("a revision moved before the decision", ("replies", DAY))
def _(forger: Forger) -> None:
    revision = forger.link("frozen", market="us", day=DAY, number=1)
    forger.edit_increment(DAY, set_to("known_at", "2024-06-03T20:15:00Z"), number=1)
    forger.drop_link_only(revision)
    forger.put(revision, forger.decided(DAY), "2024-06-03T20:15:00Z")

    for entrant in ("chance", "investor"):
        forger.shown[id(forger.decided(DAY, entrant))] = revision


@forgery("a revision that never was", ("replies", LAST))
def _(forger: Forger) -> None:
    _revise(forger, other_close)


@forgery("a revision of what nobody is shown", None, (ISSUED, LAST))
def _(forger: Forger) -> None:
    _revise(forger, scaled("volume", 2.0))


def _revise(forger: Forger, change: Callable[[Plain], None]) -> None:
    """Add a revision of a day that was not revised."""
    name = f"data/us/{NEXT}-1.json"
    shutil.copy(forger.path / f"data/us/{NEXT}-0.json", forger.path / name)
    before = forger.link("frozen", market="us", day=NEXT)["body"]["increment"]
    link = forger.insert(
        forger.link("frozen", market="us", day=LATE),
        "2024-06-06T20:15:00Z",
        {"kind": "frozen", "market": "us", "day": NEXT, "number": 1, "increment": "0" * 64},
    )
    forger.edit_json(name, change)
    forger.edit_increment(NEXT, set_to("revises", before), number=1)

    assert link["body"]["increment"] != "0" * 64


@forgery("increments in another order", ("data", DAY))
def _(forger: Forger) -> None:
    first = forger.link("frozen", market="us", day=DAY, number=0)
    second = forger.link("frozen", market="us", day=DAY, number=1)
    first["body"], second["body"] = second["body"], first["body"]


@forgery("data frozen twice", ("data", NEXT))
def _(forger: Forger) -> None:
    link = forger.link("frozen", market="us", day=NEXT)
    forger.insert(forger.decided(NEXT), link["at"], dict(link["body"]))


@forgery("a decision on data of the day before", ("shown", NEXT))
def _(forger: Forger) -> None:
    forger.shown[id(forger.decided(NEXT))] = forger.link("frozen", market="us", day=DAY)


@forgery("a decision on data of another market", ("shown", NEXT))
def _(forger: Forger) -> None:
    forger.shown[id(forger.decided(NEXT))] = forger.link("frozen", market="coins", day=DAY)


@forgery("data of a day that is no session", ("data", "2024-06-02"))
def _(forger: Forger) -> None:
    link = forger.link("frozen", market="us", day=DAY)
    forger.insert(link, link["at"], {**link["body"], "day": "2024-06-02"})
