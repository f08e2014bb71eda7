"""Leaks that are planted into clean logs, each with the rule that should find it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from audit_logs import LoggedDecision

from ktdeval.market import Document, MarketSnapshot
from ktdeval.values import Level
from ktdeval_audit.findings import Rule
from ktdeval_audit.log_types import Role

ASSET = "TSLA"


@dataclass(frozen=True)
class LeakPlace:
    """Decision that gets a leak, and what the market does after it."""

    decision: LoggedDecision
    market: MarketSnapshot

    @property
    def row(self) -> int:
        """Last row that is known."""
        return int(np.searchsorted(self.market.days, np.datetime64(self.day), side="right")) - 1

    @property
    def day(self) -> date:
        """Day of the decision."""
        return date.fromisoformat(self.decision.day)

    @property
    def asset(self) -> int:
        """Row of the traded asset."""
        return self.market.codes.index(ASSET)

    def ahead(self, days: int) -> int:
        """Row of the asset's bar so many of its trading days after the decision."""
        close = self.market.close[:, self.asset]
        traded = np.flatnonzero(np.isfinite(close))
        known = int(np.searchsorted(traded, self.row, side="right")) - 1
        return int(traded[known + days])

    def later(self, days: int) -> date:
        """Trading day so many after the decision."""
        return date.fromisoformat(str(self.market.days[self.ahead(days)]))

    def value(self, name: str, days: int) -> float:
        """Field of the traded asset so many trading days after the decision."""
        return float(getattr(self.market, name)[self.ahead(days), self.asset])

    def document(self, days: int = 3) -> Document:
        """Planted document of so many trading days after the decision."""
        return planted_document(self.later(days))


def planted_document(day: date) -> Document:
    """Return the document of a day: the embedded market repeats its titles, which quotes nothing."""
    number = day.toordinal()
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    title = f"Plant {number} of {ASSET} stops its second shift for {number % 9 + 2} weeks"
    text = (
        f"Managers of plant {number} told workers that a shortage of castings from supplier"
        f" {number % 83} ends the second shift; orders of {number % 97} dealers move to next spring."
    )
    return Document(at, at, "Benchmark", "news", (ASSET,), title, text)


def with_documents(market: MarketSnapshot) -> MarketSnapshot:
    """Return the market with a planted document for each of its days."""
    days = [date.fromisoformat(str(day)) for day in market.days]
    documents = market.documents.with_items(map(planted_document, days))
    return replace(market, documents=documents)


Plant = Callable[[LeakPlace], LoggedDecision]


@dataclass(frozen=True)
class Leak:
    """A kind of leak."""

    name: str
    rule: Rule
    plant: Plant
    least: Level = "error"  #: level at which it counts as found
    masked: str = ""  #: what a mask is claimed to hide; then the log is of a masked run
    is_hard: bool = False  #: beyond what the rule claims to find
    over_log: bool = False  #: shown by all decisions together


def _with(place: LeakPlace, role: Role, text: str) -> LoggedDecision:
    """Insert a text before the last reply, or add it to the reply."""
    texts = list(place.decision.texts)
    if role == "reply":
        last = texts.pop()
        texts.append((last[0], f"{last[1]}\n{text}"))
    else:
        texts.insert(len(texts) - 1, (role, text))
    return replace(place.decision, texts=tuple(texts))


def _says(role: Role, words: Callable[[LeakPlace], str]) -> Plant:
    return lambda place: _with(place, role, words(place))


def _ordinal(day: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day not in (11, 12, 13) else 0, "th")
    return f"{day}{suffix}"


def _next_month(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=8)).replace(day=1)


def _epoch(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _next_quarter(day: date) -> str:
    following = day + timedelta(days=92)
    return f"Q{(following.month + 2) // 3} {following.year}"


def _bar(place: LeakPlace, days: int) -> str:
    prices = [place.value(name, days) for name in ("open", "high", "low", "close")]
    spelled = ",".join(f'"{name}":{price:.2f}' for name, price in zip("ohlc", prices, strict=True))
    return f'{{"symbol":"{ASSET}",{spelled}}}'


def _closes(place: LeakPlace, days: int) -> str:
    return ",".join(f"{place.value('close', ahead):.2f}" for ahead in range(1, days + 1))


def _return(place: LeakPlace) -> str:
    adjusted = place.market.adjusted_close[:, place.asset]
    change = adjusted[place.ahead(1)] / adjusted[place.ahead(0)] - 1.0
    return f"{ASSET}: expected move {100.0 * change:+.5f}%"


def _paraphrase(text: str) -> str:
    words = text.split()
    return " ".join(word for number, word in enumerate(words) if number % 4 != 3)


def _fill(place: LeakPlace, *, with_day: bool) -> LoggedDecision:
    fill: dict[str, Any] = {
        "code": ASSET,
        "side": "buy",
        "price": round(place.value("close", 0), 2),
    }
    if with_day:
        fill["day"] = place.decision.day
    return replace(place.decision, fills=(fill,))


def _name(place: LeakPlace) -> str:
    return place.market.names[place.asset]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_DATES: Mapping[str, tuple[str, Callable[[LeakPlace], str]]] = {
    "ISO date in a tool result": ("tool", lambda at: f'{{"as_of": "{at.later(3)}", "rows": 12}}'),
    "English date in a prompt": (
        "prompt",
        lambda at: (
            f"Shares closed higher on {at.later(3):%B} {at.later(3).day}, {at.later(3).year}."
        ),
    ),
    "date with an ordinal": (
        "prompt",
        lambda at: (
            f"Since {at.later(4):%b} {_ordinal(at.later(4).day)}, {at.later(4).year} it fell."
        ),
    ),
    "day and month's name joined": (
        "tool",
        lambda at: f"last update {at.later(4):%d-%b-%Y}".lower(),
    ),
    "slashed US date": ("tool", lambda at: f"updated {at.later(5):%m/%d/%Y}"),
    "compact date in a file name": ("tool", lambda at: f"loaded prices_{at.later(3):%Y%m%d}.csv"),
    "Chinese date": (
        "tool",
        lambda at: f"{at.later(3).year}年{at.later(3).month}月{at.later(3).day}日收盘上涨",
    ),
    "later month": ("prompt", lambda at: f"Deliveries rose in {_next_month(at.day):%B %Y}."),
    "epoch in milliseconds": ("tool", lambda at: f'{{"t": {_epoch(at.later(2))}, "n": 5}}'),
    "ISO week": ("tool", lambda at: f"report of week {(at.day + timedelta(days=14)):%G-W%V}"),
}


def _date_leaks() -> list[Leak]:
    leaks = []
    for name, (role, words) in _DATES.items():
        leaks.append(Leak(name, "date-after", _says(role, words)))  # type: ignore[arg-type]
    return leaks


LEAKS: tuple[Leak, ...] = (
    *_date_leaks(),
    Leak(
        "bare later year",
        "date-after",
        _says("prompt", lambda at: f"The rally of {at.day.year + 1} was led by cars."),
        least="warning",
    ),
    Leak(
        "later quarter",
        "date-after",
        _says("prompt", lambda at: f"Revenue beat estimates in {_next_quarter(at.day)}."),
        least="warning",
    ),
    Leak(
        "date without a year",
        "date-after",
        _says("prompt", lambda at: f"On {at.later(3):%B} {at.later(3).day} it jumped."),
    ),
    Leak(
        "year in words",
        "date-after",
        _says("prompt", lambda _: "The rally of twenty twenty-six was led by cars."),
        is_hard=True,
    ),
    Leak(
        "date in base64",
        "date-after",
        _says("tool", lambda at: _encoded(f"as of {at.later(3)}")),
    ),
    Leak(
        "next close in a sentence",
        "price-after",
        _says("tool", lambda at: f"{ASSET} last price {at.value('close', 1):.2f}"),
        least="warning",
        is_hard=True,
    ),
    Leak("next bar in JSON", "price-after", _says("tool", lambda at: _bar(at, 1))),
    Leak(
        "five later closes",
        "price-after",
        _says("tool", lambda at: f'{{"code":"{ASSET}","path":[{_closes(at, 5)}]}}'),
    ),
    Leak(
        "twenty later closes",
        "price-after",
        _says("tool", lambda at: f'{{"code":"{ASSET}","path":[{_closes(at, 20)}]}}'),
    ),
    Leak(
        "next volume in full",
        "price-after",
        _says("tool", lambda at: f"{ASSET} volume {at.value('volume', 1):.0f}"),
        least="warning",
    ),
    Leak(
        "next return, six digits",
        "price-after",
        _says("tool", _return),
        least="warning",
        is_hard=True,
    ),
    Leak(
        "next close on each day",
        "price-after",
        _says("tool", lambda at: f"{ASSET} signal level {at.value('close', 1):.2f}"),
        over_log=True,
    ),
    Leak(
        "next close, two digits",
        "price-after",
        _says("tool", lambda at: f"{ASSET} is seen at about {at.value('close', 1):.2g}"),
        least="warning",
        is_hard=True,
    ),
    Leak(
        "later closes, scaled by 1.1",
        "price-after",
        _says(
            "tool",
            lambda at: (
                f"{ASSET} " + ", ".join(f"{1.1 * at.value('close', k):.2f}" for k in (1, 2, 3))
            ),
        ),
        is_hard=True,
    ),
    Leak("title of a later document", "event-after", _says("tool", lambda at: at.document().title)),
    Leak("text of a later document", "event-after", _says("tool", lambda at: at.document().text)),
    Leak(
        "later document, every fourth word dropped",
        "event-after",
        _says("tool", lambda at: _paraphrase(at.document().text)),
        is_hard=True,
    ),
    Leak(
        "company's name under a mask",
        "identity",
        _says("tool", lambda at: f"Profile of {_name(at)}: a maker of cars."),
        masked="both",
    ),
    Leak(
        "ticker under a mask",
        "identity",
        _says("tool", lambda _: f'{{"symbol": "{ASSET}", "n": 3}}'),
        masked="both",
    ),
    Leak(
        "date under a mask",
        "identity",
        _says("tool", lambda at: f"Prices up to {at.day:%d %B %Y}."),
        masked="both",
    ),
    Leak(
        "name in base64 under a mask",
        "identity",
        _says("tool", lambda at: f"id {_encoded(_name(at))}"),
        masked="both",
    ),
    Leak(
        "reason with hindsight",
        "hindsight-words",
        _says("reply", lambda _: "As we now know, this was the bottom."),
        least="warning",
    ),
    Leak(
        "reason with a later move",
        "hindsight-words",
        _says("reply", lambda _: "The stock later rallied, so I buy here."),
        least="warning",
    ),
    Leak("fill at the close it saw, dated", "same-bar", lambda at: _fill(at, with_day=True)),
    Leak(
        "fill at the close it saw, undated",
        "same-bar",
        lambda at: _fill(at, with_day=False),
        is_hard=True,
    ),
    Leak(
        "model trained on the window",
        "cutoff",
        lambda at: replace(at.decision, model="openai/gpt-5.2"),
        least="warning",
        over_log=True,
    ),
)
"""All kinds."""

BENIGN: tuple[tuple[Role, str], ...] = (
    ("prompt", "The company will report its results on {later}. The next FOMC is due on {later}."),
    ("tool", '{{"next_earnings_date": "{later}", "dividend": {{"payable": "{later}"}}}}'),
    ("tool", "Options expire on {later}; the strike is {near:.2f}, the target {far:.0f}."),
    ("tool", "TSLA sma20 {mean:.2f}, support {low:.1f}, resistance {high:.1f}, RSI 54.31"),
    ("tool", "order 20391 of account 4417-2039 took 1873 ms; request id 7c9e6679f3b1"),
    (
        "prompt",
        "Guidance for FY{year} is expected to rise; analysts forecast {year} sales of 2.1bn.",
    ),
    ("reply", "I plan to hold until {later} unless the stop at {near:.2f} is hit."),
)
"""Texts of a clean log that look like leaks: what is scheduled, levels near the price, ids."""


def with_benign(place: LeakPlace, number: int) -> LoggedDecision:
    """Return a decision with one of the benign texts."""
    role, form = BENIGN[number % len(BENIGN)]
    close = place.value("close", 0)
    window = [place.value("close", -days) for days in range(20)]
    words = form.format(
        later=place.later(10),
        year=place.day.year + 1,
        near=close * 0.97,
        far=close * 1.2,
        mean=float(np.mean(window)),
        low=float(np.min(window)),
        high=float(np.max(window)),
    )
    return _with(place, role, words)
