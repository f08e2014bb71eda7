"""Search chats for dates, publication times and prices later than the decision they belong to.

A tool result is a message of role user that starts with "Tool results" (an assistant that writes
such a text is counted apart). Kinds of a later date, each with its own count of logs:
  publish: after "Publish Time:", "Created:" or "created_at" (news that was shown)
  url: in an address    prose: an ISO date elsewhere    month: "October 30, 2025" elsewhere
  error: in an error of the service ("must be on or after", "available dates", "error")
An error proves when the program ran, not what the model was shown.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Closes = dict[str, dict[str, float]]
ISO = re.compile(r"20\d\d-\d\d-\d\d")
SLASHED = re.compile(r"(?<=/)(20\d\d)/(\d\d)/(\d\d)(?=/)")
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
MONTH = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? (\d{1,2}),? (20\d\d)",
    re.IGNORECASE,
)
PUBLISHED = re.compile(r"(?:Publish Time: ?|Created: ?|\"?created_at\"?: ?\\?\")$")
ERROR = re.compile(
    r"on or after|available dates|dates? after|expects dates|requires dates", re.IGNORECASE
)
ZONED = re.compile(r"Publish Time: ?(20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d))")
RUN_CLOCK = re.compile(r"must be on or after (20\d\d-\d\d-\d\dT\d\d:\d\d)Z")


def documents(path: Path) -> Iterator[dict[str, Any]]:
    """JSON documents of a log, also where several share a line; a broken one is skipped."""
    decoder = json.JSONDecoder()
    text = path.read_text(encoding="utf-8")
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            found, place = decoder.raw_decode(text, place)
            yield found
        except ValueError:
            following = text.find("\n{", place)
            yield {"broken": True}
            place = following if following > 0 else len(text)


def messages(path: Path) -> Iterator[tuple[str | None, str, str]]:
    """Clock (null where the row has none), role and text of each message."""
    for row in documents(path):
        if "broken" in row:
            yield None, "broken", ""
            continue
        listed = row["new_messages"]
        for message in listed if isinstance(listed, list) else [listed]:
            content = message.get("content")
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            yield row.get("timestamp"), message.get("role", ""), text


def moment_of(path: Path) -> str:
    """Moment of the decision, from the log's folder: "2025-10-01 13_00_00" → with colons."""
    name = path.parent.name
    return name[:10] + name[10:].replace("_", ":").replace("-", ":")


def later_dates(text: str, day: str) -> dict[str, list[str]]:
    """Dates after `day` in a tool result, by kind."""
    found: dict[str, list[str]] = {}
    for match in ISO.finditer(text):
        if match.group() > day and match.group() <= "2026-12-31":
            found.setdefault(_kind(text, match.start()), []).append(match.group())
    for match in SLASHED.finditer(text):
        date = "-".join(match.groups())
        if date > day and date <= "2026-12-31":
            found.setdefault("url", []).append(date)
    for match in MONTH.finditer(text):
        month = MONTHS.index(match.group(1)[:3].lower()) + 1
        date = f"{match.group(3)}-{month:02d}-{int(match.group(2)):02d}"
        if day < date <= "2025-12-31":
            found.setdefault("month", []).append(date)
    return found


def published_after(text: str, moment: str) -> bool:
    """True if a publication time with a zone lies after the decision, taken in New York summer time.

    Only stamps with an hour can be compared; a time without a zone is left out.
    """
    if len(moment) < 16:
        return False
    decided = dt.datetime.fromisoformat(moment).replace(tzinfo=dt.timezone(dt.timedelta(hours=-4)))
    for match in ZONED.finditer(text):
        written = match.group(1).replace("Z", "+00:00")
        try:
            published = dt.datetime.fromisoformat(written)
        except ValueError:
            continue
        if published.tzinfo is not None and published > decided:
            return True
    return False


def _kind(text: str, place: int) -> str:
    """Kind of the ISO date at a place of the text."""
    ahead = text[max(0, place - 40) : place]
    if PUBLISHED.search(ahead):
        return "publish"
    if ERROR.search(text[max(0, place - 200) : place]):
        return "error"
    word = re.split(r"\s", text[max(0, place - 200) : place])[-1]
    if "http" in word or word.count("/") >= 2 or re.search(r"\w-$", word):
        return "url"
    return "prose"


def future_prices(text: str, day: str, closes: Closes) -> list[list[Any]]:
    """Prices of later days in prose: within 60 characters after the name of a symbol.

    A number with two decimals that equals (±0.005) a close of the next 30 days of that symbol, but
    no close up to the day. Chance hits are possible: a count of candidates, not of proofs.
    """
    found = []
    for match in re.finditer(r"\b([A-Z]{2,5})\b", text):
        series = closes.get(match.group(1))
        if not series:
            continue
        for number in re.finditer(r"\d+\.\d\d\b", text[match.end() : match.end() + 60]):
            value = float(number.group())
            dates = [date for date, close in series.items() if abs(close - value) < 0.005]
            if dates and min(dates) > day:
                found.append([match.group(1), value, min(dates)])
    return found


@dataclass
class Findings:
    """What the logs of one run hold; moments are those of decisions."""

    moments: list[str] = field(default_factory=list)
    roles: dict[str, int] = field(default_factory=dict)
    with_tool: set[str] = field(default_factory=set)
    by_kind: dict[str, set[str]] = field(default_factory=dict)
    after_moment: set[str] = field(default_factory=set)
    clocks: dict[str, str] = field(default_factory=dict)
    run_clocks: set[str] = field(default_factory=set)
    proven: set[str] = field(default_factory=set)
    prices: list[list[Any]] = field(default_factory=list)

    def kind(self, *names: str) -> set[str]:
        """Moments of logs with a later date of one of these kinds."""
        return set().union(*(self.by_kind.get(name, set()) for name in names))


def read_tool_result(found: Findings, moment: str, text: str, closes: Closes | None) -> None:
    """Add one tool result."""
    found.with_tool.add(moment)
    errors = set(RUN_CLOCK.findall(text))
    found.run_clocks |= errors
    if any(clock[:10] > moment[:10] for clock in errors):
        found.proven.add(moment)
    for kind in later_dates(text, moment[:10]):
        found.by_kind.setdefault(kind, set()).add(moment)
    if published_after(text, moment):
        found.after_moment.add(moment)
    if closes:
        found.prices += [[moment, *price] for price in future_prices(text, moment[:10], closes)]


def read_logs(folder: Path, closes: Closes | None = None) -> Findings:
    """Read all logs of one run."""
    found = Findings()
    for path in sorted(folder.glob("log/*/log.jsonl")):
        moment = moment_of(path)
        found.moments.append(moment)
        for clock, role, text in messages(path):
            tool = text.startswith("Tool results")
            name = f"{role}:tool" if tool else role
            found.roles[name] = found.roles.get(name, 0) + 1
            if clock is not None:
                found.clocks[moment] = min(clock, found.clocks.get(moment, clock))
            if tool and role == "user":
                read_tool_result(found, moment, text, closes)
    return found


def scan(folder: Path, closes: Closes | None = None) -> dict[str, Any]:
    """Counts of one run's logs."""
    found = read_logs(folder, closes)
    first = {moment: clock.replace("T", " ")[:19] for moment, clock in found.clocks.items()}
    next_day = {moment for moment, clock in first.items() if clock[:10] > moment[:10]}
    late = {moment for moment, clock in first.items() if clock > _full(moment)}
    proven = found.proven | next_day
    shown = found.kind("publish", "url", "prose", "month")
    return {
        "logs": len(found.moments),
        "messages": found.roles,
        "logs_with_tool_results": len(found.with_tool),
        "logs_by_kind": {kind: len(logs) for kind, logs in sorted(found.by_kind.items())},
        "logs_shown_later": len(shown),
        "logs_shown_later_published": len(found.kind("publish")),
        "logs_shown_later_published_or_url": len(found.kind("publish", "url")),
        "logs_published_after_moment": len(found.after_moment),
        "logs_only_error": len(found.kind("error") - shown),
        "price_candidates": len(found.prices),
        "price_candidate_logs": len({row[0] for row in found.prices}),
        "price_examples": found.prices[:5],
        "clocks": {
            "logs_with_clock": len(first),
            "first_clock_on_later_day": len(next_day),
            "first_clock_after_moment": len(late),
            "earliest": min(first.values(), default=None),
            "latest": max(first.values(), default=None),
        },
        "days": len(_days(found.moments)),
        "proven_run_on_later_day": {"logs": len(proven), "days": len(_days(proven))},
        "late_days": _days(proven | late),
        "early_days": _days(set(first) - late),
        "published_days": _days(found.kind("publish")),
        "moments": sorted(found.moments),
        "service_horizon": [min(found.run_clocks), max(found.run_clocks)]
        if found.run_clocks
        else None,
    }


def _days(moments: Iterable[str]) -> list[str]:
    """Different days of moments."""
    return sorted({moment[:10] for moment in moments})


def daily_closes(bars: dict[str, dict[str, tuple[float, float]]]) -> dict[str, dict[str, float]]:
    """Last close of each day, by symbol."""
    found: dict[str, dict[str, float]] = {}
    for symbol, series in bars.items():
        found[symbol] = {stamp[:10]: series[stamp][1] for stamp in sorted(series)}
    return found


def known_before(scans: dict[str, dict[str, Any]], moments: dict[str, list[str]]) -> dict[str, Any]:
    """Entrant-days by what the logs' own clocks prove.

    after: a log of the day was made later than its last moment: its first clock, or an error of the
    service that names the running time's week, lies on a later day, or after the moment on the same
    day. unknown: no log has a clock. before: a first clock at or before the moment.
    with_publication_times also takes news published on a later day for a proof of "after" (planted
    news of the fake arms is no such proof).
    """
    total = {"before": 0, "after": 0, "unknown": 0}
    with_news = {"before": 0, "after": 0, "unknown": 0}
    without_log = {}
    for name, listed in moments.items():
        scan_of = scans[name]
        late, early = set(scan_of["late_days"]), set(scan_of["early_days"])
        for day in {moment[:10] for moment in listed}:
            kind = "before" if day in early else "after" if day in late else "unknown"
            total[kind] += 1
            shown = kind == "unknown" and day in scan_of["published_days"]
            with_news["after" if shown else kind] += 1
        missing = sorted(set(listed) - set(scan_of["moments"]))
        months = {moment[:7]: 0 for moment in missing}
        for moment in missing:
            months[moment[:7]] += 1
        without_log[name] = {
            "stamps": len(set(listed)),
            "without_log": len(missing),
            "months": months,
        }
    return {
        "entrant_days": total,
        "entrant_days_with_publication_times": with_news,
        "stamps_without_log": without_log,
    }


def _full(moment: str) -> str:
    """Moment with a time: a bare date is taken at the open, 09:30."""
    return moment if len(moment) > 10 else f"{moment} 09:30:00"
