"""Figures that the sections of docs/findings.md state, and how each is recomputed: read from
findings.yaml.

A figure stands in braces in a phrase of its section. What it is equal to is a place in a report:
`ama: without[without=TradeAgent,source=agent].p` is the field of the rows that match. `|count`,
`|sum` and `|max_abs` join several, `*100` scales.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.values import load_yaml
from support.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "findings.md"
_SECTION = re.compile(r"(?ms)^## (.*?)$.*?(?=^## |\Z)")
_FIGURE = re.compile(r"\{([^}]*)\}")
_STEP = re.compile(r"(\w+)(?:\[([^\]]*)\])?")
#: What holds digits and states nothing: code, addresses, and places of a paper
_NO_FIGURE = (
    re.compile(r"(?m)^    .*$"),
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"sections? \d(\.\d)?( and \d\.\d)?"),
    re.compile(r"Tables? \d+|Figures? \d+|appendix A\.\d"),
)
_JOINS: Mapping[str, Callable[[Sequence[Any]], float]] = {
    "count": len,
    "sum": math.fsum,
    "max_abs": lambda values: max(map(abs, values)),
}


@dataclass(frozen=True)
class Statement:
    """One phrase of a section, with its figures."""

    section: str  #: its heading
    phrase: str  #: as the page has it, in one line
    figures: tuple[str, ...]  #: as they are printed
    places: tuple[str, ...]  #: where each is recomputed, or the paper that prints it

    @property
    def reports(self) -> set[str]:
        """Names of the reports that its figures are in."""
        return {place.partition(":")[0] for place in self.places}


FINDINGS: dict[str, Any] = load_yaml(Path(__file__).with_suffix(".yaml"))


def sections() -> dict[str, str]:
    """Return the text of each section of the page, with its heading, by its heading."""
    text = PAGE.read_text(encoding="utf-8")
    return {match[1]: match[0] for match in _SECTION.finditer(text)}


def one_line(text: str) -> str:
    return " ".join(text.split())


def recomputed() -> Iterator[Statement]:
    """Phrases whose figures a report has."""
    for section, entry in FINDINGS["sections"].items():
        for phrase, places in entry["figures"].items():
            yield _statement(section, phrase, places)


def printed_by_papers() -> Iterator[Statement]:
    """Phrases whose figures a paper prints."""
    for section, entry in FINDINGS["sections"].items():
        for phrase, paper in entry.get("of_the_paper", {}).items():
            figures = _FIGURE.findall(phrase)
            yield _statement(section, phrase, [paper] * len(figures))


def _statement(section: str, phrase: str, places: Sequence[str] | str) -> Statement:
    """Read a phrase. `places`: one for each figure; or one with `<…>`, which stands for each of the
    words in it.
    """
    if isinstance(places, str):
        before, words, after = re.split(r"[<>]", places)
        places = [before + word.strip() + after for word in words.split(";")]

    figures = tuple(_FIGURE.findall(phrase))
    return Statement(section, re.sub(r"[{}]", "", phrase), figures, tuple(places))


def unregistered(section: str, text: str) -> list[str]:
    """Return what is left of a section around each digit, once phrases that are registered and what
    states no figure are taken out.
    """
    for pattern in _NO_FIGURE:
        text = pattern.sub(" ", text)

    text = one_line(text)
    known = [
        each.phrase for each in (*recomputed(), *printed_by_papers()) if each.section == section
    ]
    known += FINDINGS["sections"].get(section, {}).get("names", [])
    for phrase in sorted(known, key=len, reverse=True):
        text = text.replace(_without_code(phrase), " ")

    return [text[max(0, at.start() - 40) : at.end() + 20] for at in re.finditer(r"\d+", text)]


def _without_code(phrase: str) -> str:
    for pattern in _NO_FIGURE[1:]:
        phrase = pattern.sub(" ", phrase)
    return one_line(phrase)


def number(printed: str) -> float:
    return float(printed.replace("−", "-").replace(",", ""))


def half_unit(printed: str) -> float:
    """Half of the last printed digit."""
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


def value_at(report: Any, place: str) -> float:
    """Value of a place in a report. Raises LookupError: it has several, or none."""
    path, _, scale = place.partition("*")
    path, _, join = path.partition("|")
    found: list[Any] = [report]
    for name, condition in _STEP.findall(path):
        found = [value for each in found for value in _rows(each[name])]
        for pair in filter(None, condition.split(",")):
            key, _, wanted = pair.partition("=")
            found = [row for row in found if str(row.get(key, "")) == wanted]

    if join:
        value = _JOINS[join](found)
    elif len(found) == 1:
        value = found[0]
    else:
        raise LookupError(f"{place} has {len(found)} values")

    return float(value) * float(scale or 1)


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
