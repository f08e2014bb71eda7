"""Forgeries of days: left out, filled in, moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.live.forgery_kinds import (
    DAY,
    END,
    FIRST,
    ISSUED,
    LAST,
    LATE,
    NEXT,
    afterwards,
    forgery,
)
from support.live.live_forger import Forger, Plain


@forgery("a decision left out", ("omitted", DAY))
def _(forger: Forger) -> None:
    forger.drop(forger.decided(DAY))


@forgery("a bad day turned into a gap", ("replies", NEXT))
def _(forger: Forger) -> None:
    link = forger.decided(DAY)
    forger.insert(
        forger.link("frozen", market="us", day=NEXT), "2024-06-04T20:15:00Z", _gap(DAY, "failed")
    )
    forger.drop(link)


def _gap(day: str, cause: str) -> Plain:
    return {
        "kind": "gap", "entrant": "chance", "market": "us", "day": day, "cause": cause,
        "detail": "nothing came",
    }  # fmt: skip


@forgery("the last day turned into a gap", None, ("card", ""))
def _(forger: Forger) -> None:
    forger.insert(
        forger.link("frozen", market="us", day=END), "2024-06-07T20:15:00Z", _gap(LAST, "failed")
    )
    forger.drop(forger.decided(LAST))


@forgery("a gap beside a decision", ("gap", DAY))
def _(forger: Forger) -> None:
    later = forger.link("frozen", market="us", day=NEXT)
    forger.insert(later, "2024-06-04T20:15:00Z", _gap(DAY, "failed"))


@forgery("a public decision called unpublished", ("gap", DAY))
def _(forger: Forger) -> None:
    later = forger.link("frozen", market="us", day=NEXT)
    forger.insert(later, "2024-06-04T20:15:00Z", _gap(DAY, "unpublished"))


@forgery("a decision left out as if its data had been unpublished", ("gap", DAY))
def _(forger: Forger) -> None:
    link = forger.decided(DAY)
    later = forger.link("frozen", market="us", day=NEXT)
    forger.insert(later, "2024-06-04T20:15:00Z", _gap(DAY, "unpublished"))
    forger.drop(link)


@forgery("a gap before its cutoff", ("gap", LATE))
def _(forger: Forger) -> None:
    for link in forger.links[24:26]:
        link["at"] = "2024-06-06T01:00:00Z"


@forgery("a gap left out", ("omitted", LATE))
def _(forger: Forger) -> None:
    forger.drop(forger.link("gap", entrant="chance", day=LATE))


@forgery("a cause that the data contradict", ("gap", LATE))
def _(forger: Forger) -> None:
    forger.link("gap", entrant="chance", day=LATE)["body"].update(cause="failed")


@forgery("a gap filled in afterwards", ("shown", LATE))
def _(forger: Forger) -> None:
    gap = forger.link("gap", entrant="chance", day=LATE)
    forger.copy_record("chance", NEXT, LATE, step=3)
    link = forger.insert(gap, "2024-06-06T13:00:00Z", {**forger.decided(NEXT)["body"], "day": LATE})
    forger.shown[id(link)] = forger.link("frozen", market="us", day=NEXT)
    forger.drop(gap)


@forgery("a gap filled in from data that came late", ("late", LATE))
def _(forger: Forger) -> None:
    gap = forger.link("gap", entrant="chance", day=LATE)
    forger.copy_record("chance", NEXT, LATE, step=3)
    later = forger.link("frozen", market="us", day=LAST)
    link = forger.insert(
        later, "2024-06-06T20:15:00Z", {**forger.decided(NEXT)["body"], "day": LATE}
    )
    forger.shown[id(link)] = forger.link("frozen", market="us", day=LATE)
    forger.drop(gap)


@forgery("a day decided twice", ("twice", DAY))
def _(forger: Forger) -> None:
    link = forger.decided(DAY)
    again = forger.insert(forger.decided(DAY, "investor"), link["at"], dict(link["body"]))
    forger.shown[id(again)] = forger.shown[id(link)]


@forgery("days in another order", ("order", DAY))
def _(forger: Forger) -> None:
    first = forger.decided(DAY)
    second = forger.decided(NEXT)
    first["body"], second["body"] = second["body"], first["body"]
    shown = forger.shown
    shown[id(first)], shown[id(second)] = shown[id(second)], shown[id(first)]


@forgery("the last days left out", ("omitted", LAST))
def _(forger: Forger) -> None:
    forger.drop(*forger.links[24:])
    for name in (f"us/{LATE}", f"us/{LAST}", f"us/{END}", f"coins/{LAST}", f"coins/{END}"):
        (forger.path / f"data/{name}-0.json").unlink()


@forgery("a decision of nobody", ("entrant", DAY))
def _(forger: Forger) -> None:
    link = forger.decided(DAY)
    forger.insert(link, link["at"], {**link["body"], "entrant": "nobody"})


@forgery("a decision on the last day", ("session", END))
def _(forger: Forger) -> None:
    link = forger.decided(LAST)
    later = forger.links[-1]
    forger.insert(later, later["at"], {**link["body"], "day": END})


@afterwards("a chain that begins again", ("chain", ""))
def _(forger: Forger) -> None:
    forger.links.insert(10, {**forger.links[0], "at": forger.links[9]["at"]})
    forger.rechain()


@forgery("a test that began when its days were past", ("begun", FIRST))
def _(forger: Forger) -> None:
    for link in forger.links:
        link["at"] = max(link["at"], "2024-06-04T00:15:00Z")


@afterwards("lines of the chain swapped", ("chain", ""))
def _(forger: Forger) -> None:
    _edit_lines(forger.path, lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]])


@afterwards("a line of the chain left out", ("chain", ""))
def _(forger: Forger) -> None:
    _edit_lines(forger.path, lambda lines: [*lines[:5], *lines[6:]])


@afterwards("a chain that lacks its end", (ISSUED, ""))
def _(forger: Forger) -> None:
    _edit_lines(forger.path, lambda lines: lines[:20])


@afterwards("a line of the chain written otherwise", ("chain", ""))
def _(forger: Forger) -> None:
    _edit_lines(forger.path, lambda lines: [lines[0].replace(b'":', b'": ', 1), *lines[1:]])


def _edit_lines(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    chain = path / "chain.jsonl"
    chain.write_bytes(b"".join(change(chain.read_bytes().splitlines(keepends=True))))
