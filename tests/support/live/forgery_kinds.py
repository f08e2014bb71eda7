"""Kinds of forgeries of a finished test, and what several of them change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.live.live_forger import Forger, Plain

Found = tuple[str, str]
"""Rule and ISO day of a finding; no day of the whole test."""


@dataclass(frozen=True)
class Forgery:
    """One forgery."""

    name: str
    make: Callable[[Forger], None]
    #: what is found without stamps; None: only outside evidence shows it
    found: Found | None
    #: what is found where stamps are required; None: the same
    stamped: Found | None = None


FIRST = "2024-05-31"
DAY = "2024-06-03"
NEXT = "2024-06-04"
LATE = "2024-06-05"
LAST = "2024-06-06"
END = "2024-06-07"
ISSUED = "published"

ALL: list[Forgery] = []


Maker = Callable[[Forger], None]


def forgery(
    name: str, found: Found | None, stamped: Found | None = None
) -> Callable[[Maker], None]:
    """Add a forgery whose maker changes the test; everything that depends on it is made anew."""

    def add(change: Maker) -> None:
        def make(forger: Forger) -> None:
            change(forger)
            forger.rebuild()

        ALL.append(Forgery(name, make, found, stamped))

    return add


def afterwards(name: str, found: Found | None) -> Callable[[Maker], None]:
    """Add a forgery that changes files and makes nothing anew."""
    return lambda change: ALL.append(Forgery(name, change, found))


def first_reply(record: Plain) -> Plain:
    reply: Plain = record["transcript"]["exchanges"][0]["reply"]
    return reply


def set_to(name: str, value: object) -> Callable[[Plain], None]:
    return lambda plain: plain.update({name: value})


def swap(path: Path, one: str, other: str) -> None:
    (path / one).rename(path / "swapped")
    (path / other).rename(path / one)
    (path / "swapped").rename(path / other)


def scaled(name: str, factor: float) -> Callable[[Plain], None]:
    def change(increment: Plain) -> None:
        for bar in increment["bars"]:
            bar[name] *= factor

    return change


def other_close(increment: Plain) -> None:
    for bar in increment["bars"]:
        bar["close"] = bar["low"]
