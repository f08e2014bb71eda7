"""Places of a company in a text: the region after a city, and words that make a city a company's
seat.

`Redmond, Washington` and `Redmond, Wash.` are one place. A city is a seat in `headquartered in
Redmond`, `Redmond-based`, `its Redmond campus` and `总部位于宁德`.
"""

from __future__ import annotations

import re
from functools import cache

from ktdeval.masking.names.ordinary_words import listed_words

_SEAT = r"headquarter(?:s|ed|ing)?|head ?offices?|HQ|home ?base|campus|based"
_BEFORE = re.compile(
    rf"(?:(?<![A-Za-z])(?:{_SEAT})(?: (?:is|are|was|were|located|situated|building|complex))?"
    r"(?: (?:in|at|near|to|from|of|outside))?(?: (?:the|downtown|suburban|nearby))?[ :,-]{1,2}"
    r"|总部(?:基地|大楼|园区)?(?:位于|设在|设于|坐落于|坐落在|在|迁至|迁往|搬至|落户)?)\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"(?:[ ,.-]{{1,3}}(?:{_SEAT})(?![A-Za-z])|(?:市)?(?:的)?(?:总部|园区))", re.IGNORECASE
)
_REACH = 48  # number of characters examined before a place


def is_seat(text: str, start: int, end: int) -> bool:
    """Return whether the words next to a place at [start, end) make it a company's seat."""
    if _AFTER.match(text, end):
        return True
    return _BEFORE.search(text, max(0, start - _REACH), start) is not None


def end_of_region(text: str, end: int) -> int:
    """Return the end of the region that follows a place that ends at `end`; `end` if none does."""
    region = _region_after().match(text, end)
    return end if region is None else region.end()


@cache
def _region_after() -> re.Pattern[str]:
    regions = sorted(listed_words("region"), key=len, reverse=True)
    spelled = "|".join(re.escape(region).replace(r"\-", " ") for region in regions)
    # Abbreviations of two letters are words (`in`, `or`) unless they are capitals.
    return re.compile(rf",? (?:{spelled})(?![A-Za-z])(?:\.(?=,|-| [a-z]))?")
