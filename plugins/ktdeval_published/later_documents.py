"""Documents in a tool's result that state a time of publication after the decision."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from ktdeval.values import loads_untrusted

_DOCUMENT = re.compile(r"Publish Time:\s*(.{4,48}?)\s*Content:(.{0,300})", re.DOTALL)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_US = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
#: beginnings of pages that were not served, which show when a page was asked for, not its content
_FAILED = re.compile(
    r"something went wrong|access denied|too many requests|page not found|captcha|error 4\d\d"
    r"|are you a robot|enable javascript",
    re.IGNORECASE,
)


def has_later_document(data: bytes, day: date) -> bool:
    """Return whether a log of JSON lines shows a document that states to be published after a day.
    Pages that were not served don't count.
    """
    for line in data.split(b"\n"):
        if b"Publish Time" not in line:
            continue
        try:
            record = loads_untrusted(line)
        except ValueError:
            continue
        if any(_is_later(text, day) for text in _texts(record)):
            return True
    return False


def _texts(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list):
        return [text for item in part for text in _texts(item)]
    return []


def _is_later(text: str, day: date) -> bool:
    for stated, begin in _DOCUMENT.findall(text):
        published = published_day(stated)
        if published is not None and published > day and not _FAILED.search(begin):
            return True
    return False


def published_day(stated: str) -> date | None:
    """Return the day of a stated time of publication; None if it can't be read.

    A date in the form of HTTP (`Fri, 07 Nov 2025 23:21:12 GMT`) or in seconds is not read: it says
    when a server answered or wrote its copy, which login pages state, too.
    """
    try:
        if found := _ISO.match(stated):
            return date.fromisoformat(found[0])
        if found := _US.search(stated):
            month, day, year = (int(part) for part in found.groups())
            return date(year, month, day)
    except ValueError:
        pass
    return None
