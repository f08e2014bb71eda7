"""Where an episode's return came from: what its page begins with.

One sentence, the five parts of the return, the assets and round trips that gained and lost most, and
the worst days. Everything is computed from the ledger, except the parts, which are the card's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import FloatArray
from ktdeval.trading import DECIDED, Ledger
from ktdeval.values import JsonValue, load_yaml
from ktdeval_pages.value_formatting import percent
from ktdeval_view.asset_gains import AssetGains, asset_gains
from ktdeval_view.round_trips import RoundTrip, round_trips
from ktdeval_view.run_cards import ReturnPart

_LISTED = 5  #: assets and trips at each end
_WORST_DAYS = 3
_SMALLEST_SHOWN = 0.00005  #: fraction that two decimals of a per cent show as more than zero

_Key = TypeVar("_Key", str, int)


class PartWords(msgspec.Struct, frozen=True):
    """Label and meaning of a part of the return."""

    label: str
    meaning: str


PART_WORDS = msgspec.convert(
    load_yaml(Path(__file__).with_name("parts.yaml")), dict[str, PartWords]
)
"""Words of each part, keyed by its metric."""


@dataclass(frozen=True)
class Benchmark:
    """Benchmark of an episode: its name and closes."""

    name: str
    levels: FloatArray  #: [steps + 1], from the day of the first decision on

    @property
    def returns(self) -> FloatArray:
        """Daily returns, [steps]."""
        return np.asarray(self.levels[1:] / self.levels[:-1] - 1.0)

    @property
    def total(self) -> float:
        """Return over the episode."""
        return float(self.levels[-1] / self.levels[0] - 1.0)


@dataclass(frozen=True)
class ReturnSummary:
    """What explains the return of an episode with at least one step.

    `parts` are those of the card, or the reason why there are none. Contributions are fractions of
    the initial cash.
    """

    ledger: Ledger
    is_finished: bool
    benchmark: Benchmark | None
    parts: Sequence[ReturnPart] | str
    gains: AssetGains
    trips: Sequence[RoundTrip] | str  #: or the reason why they can't be told apart

    @property
    def total(self) -> float:
        """Total return of the NAV."""
        return float(self.ledger.nav[-1] / self.ledger.nav[0] - 1.0)

    @property
    def has_traded(self) -> bool:
        """Whether anything was bought or sold."""
        return any(step.traded_minor for step in self.ledger.steps)

    def contribution(self, gain_minor: int) -> float:
        """Return a gain as a fraction of the initial cash."""
        return gain_minor / self.ledger.initial_cash_minor

    @property
    def unattributed(self) -> float | None:
        """Total return minus the known parts; None without parts."""
        if isinstance(self.parts, str):
            return None

        known = [part.value for part in self.parts if part.value is not None]
        if not known:
            return None
        return self.total - math.fsum(known)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the summary in the format of the page's scripts."""
        return {
            "sentence": self.sentence,
            "total": self.total,
            "has_traded": self.has_traded,
            **self._parts_json(),
            "assets": self._assets_json(),
            "trips": self._trips_json(),
            "worst_days": self._worst_days(),
        }

    # ---- the sentence

    @property
    def sentence(self) -> str:
        """The return, its parts, the assets at both ends and what failed, in one sentence."""
        clauses = [self._opening()]
        if self.has_traded:
            clauses += self._asset_clauses()
        else:
            clauses.append("nothing was bought or sold")

        held = sum(step.provenance not in DECIDED for step in self.ledger.steps)
        if held:
            clauses.append(f"{_counted(held, 'day')} not decided by the model")

        return "; ".join(clauses) + "."

    def _opening(self) -> str:
        words = f"{percent(self.total)} in {_counted(len(self.ledger.steps), 'day')}"
        if not self.is_finished:
            words += " so far"
        if self.benchmark is not None:
            words += f" ({self.benchmark.name} {percent(self.benchmark.total)})"

        if isinstance(self.parts, str):
            return words

        known = []
        for part in self.parts:
            if part.value is not None:
                known.append(f"{PART_WORDS[part.name].label} {percent(part.value)}")

        if not known:
            return words
        return f"{words}: {', '.join(known)}"

    def _asset_clauses(self) -> list[str]:
        best, worst = _both_ends(self.gains.by_asset)
        clauses = []
        for words, assets in (("largest gain", best), ("largest loss", worst)):
            if assets:
                code, gain = assets[0]
                clauses.append(f"{words} {code} {percent(self.contribution(gain))}")

        return clauses

    # ---- the tables

    def _parts_json(self) -> dict[str, JsonValue]:
        if isinstance(self.parts, str):
            return {"parts": None, "no_parts": self.parts, "unattributed": None}

        rows: list[JsonValue] = []
        for part in self.parts:
            words = PART_WORDS[part.name]
            rows.append(
                {
                    "label": words.label,
                    "meaning": words.meaning,
                    "value": part.value,
                    "reason": part.reason,
                    "interval": None if part.interval is None else list(part.interval),
                }
            )

        rest = self.unattributed
        if rest is not None and abs(rest) < _SMALLEST_SHOWN:
            rest = None
        return {"parts": rows, "no_parts": "", "unattributed": rest}

    def _assets_json(self) -> dict[str, JsonValue]:
        by_asset = self.gains.by_asset
        best, worst = _both_ends(by_asset)
        listed = sum(gain for _, gain in (*best, *worst))
        others = sum(by_asset.values()) - listed
        return {
            "best": [self._asset_row(code, gain) for code, gain in best],
            "worst": [self._asset_row(code, gain) for code, gain in worst],
            "count": len(by_asset),
            "others": len(by_asset) - len(best) - len(worst),
            "others_contribution": self.contribution(others),
            "unexplained": self.contribution(int(self.gains.unexplained.sum())),
        }

    def _asset_row(self, code: str, gain: int) -> JsonValue:
        money = gain / self.ledger.minor_per_unit
        return {"code": code, "contribution": self.contribution(gain), "gain": money}

    def _trips_json(self) -> dict[str, JsonValue]:
        if isinstance(self.trips, str):
            return {"problem": self.trips, "best": [], "worst": [], "closed": 0, "open": 0}

        gains = {place: trip.gain_minor for place, trip in enumerate(self.trips)}
        best, worst = _both_ends(gains)
        closed = sum(trip.exit is not None for trip in self.trips)
        return {
            "problem": "",
            "best": [self._trip_row(self.trips[place]) for place, _ in best],
            "worst": [self._trip_row(self.trips[place]) for place, _ in worst],
            "closed": closed,
            "open": len(self.trips) - closed,
        }

    def _trip_row(self, trip: RoundTrip) -> JsonValue:
        return {
            "code": trip.code,
            "is_short": trip.is_short,
            "entry": trip.entry,
            "exit": trip.exit,
            "days": trip.days,
            "gain": trip.gain_minor / self.ledger.minor_per_unit,
            "return": trip.gain,
        }

    def _worst_days(self) -> list[JsonValue]:
        """Return the days with the largest losses, worst first, each with the asset that lost most.
        Days that begin without a positive NAV have no return.
        """
        nav = self.ledger.nav
        lost = []
        for day in range(len(self.ledger.steps)):
            if nav[day] > 0.0 and nav[day + 1] < nav[day]:
                lost.append((float(nav[day + 1] / nav[day] - 1.0), day))

        return [self._day_row(day, change) for change, day in sorted(lost)[:_WORST_DAYS]]

    def _day_row(self, day: int, change: float) -> JsonValue:
        benchmark = None
        if self.benchmark is not None:
            benchmark = float(self.benchmark.returns[day])

        row: dict[str, JsonValue] = {"day": day, "return": change, "benchmark": benchmark}
        row |= {"code": None, "contribution": None}
        loss = self.gains.largest_loss(day)
        if loss is not None:
            code, gain = loss
            before = float(self.ledger.nav[day]) * self.ledger.minor_per_unit
            row |= {"code": code, "contribution": gain / before}

        return row


def summarise_return(
    ledger: Ledger,
    parts: Sequence[ReturnPart] | str,
    benchmark: Benchmark | None,
    *,
    is_finished: bool,
) -> ReturnSummary:
    """Return the summary of an episode with at least one step."""
    trips: Sequence[RoundTrip] | str
    try:
        trips = round_trips(ledger)
    except DataError as error:  # records of another program
        trips = str(error)

    return ReturnSummary(ledger, is_finished, benchmark, parts, asset_gains(ledger), trips)


def _counted(number: int, word: str) -> str:
    ending = "" if number == 1 else "s"
    return f"{number:,} {word}{ending}"


def _both_ends(
    gains: Mapping[_Key, int],
) -> tuple[list[tuple[_Key, int]], list[tuple[_Key, int]]]:
    """Return the largest gains, largest first, and the largest losses, largest first. Equal ones are
    in the order of their keys. What has neither gained nor lost is at no end.
    """
    rising = sorted(gains.items(), key=lambda item: (-item[1], item[0]))
    falling = sorted(gains.items(), key=lambda item: (item[1], item[0]))
    best = [item for item in rising[:_LISTED] if item[1] > 0]
    worst = [item for item in falling[:_LISTED] if item[1] < 0]
    return best, worst
