"""Findings from checks of files, records, market data, logs and plugins. One class covers all of
them, with text output, JSON and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import to_plain

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")  #: most severe first, as in SARIF
MAX_EXAMPLES = 5  #: maximum number of examples in a finding that covers several rows or days


@dataclass(frozen=True, kw_only=True, order=True)
class Finding:
    """A single thing that is wrong or worth knowing. Findings sort by location.

    Example:
        Finding(path="notes.csv", line=3, rule="dates", message="a day twice", fix="delete one")
    """

    path: str = ""  #: file, folder, record or table; empty if the finding concerns everything
    line: int = 0  #: line number from 1; 0 if not applicable
    part: str = ""  #: subject within `path`, such as a decision or `model mine/echo`
    place: str = ""  #: place within the part, such as the path of a field
    day: str = ""  #: ISO date to which the finding applies; empty if it applies to all days
    rule: str = ""  #: short name of the rule that is broken
    message: str  #: the problem, on one line
    #: error: a result is wrong; warning: a result may be wrong; note: worth knowing
    level: Level = "error"
    count: int = 1  #: number of rows, codes or days that the finding covers
    examples: tuple[str, ...] = ()  #: the first few examples, or the text itself
    fix: str = ""  #: how to fix the problem
    repairs: tuple[str, ...] = ()  #: values of `--repair` that fix the problem

    def __str__(self) -> str:
        """Return location and problem on one line."""
        return ": ".join(filter(None, (self.where, self.message)))

    @property
    def where(self) -> str:
        """Path, line, part, place and day; empty if the finding concerns everything."""
        line = f"line {self.line}" if self.line else ""
        file = f"{self.path}:{self.line}" if self.path and line else self.path or line
        return ", ".join(filter(None, (file, self.part, self.place, self.day)))

    @property
    def head(self) -> str:
        """Level and rule, with the number of rows or days if the finding covers several."""
        times = f" × {self.count:,}" if self.count > 1 else ""
        return f"{self.level} [{self.rule}{times}]" if self.rule else f"{self.level}{times}"


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield the lines of a finding as text: level, rule, location and problem, followed by examples
    and the fix.
    """
    yield f"{finding.head} {finding}"
    if finding.examples:
        is_cut = finding.count > len(finding.examples) == MAX_EXAMPLES
        more = ", …" if is_cut else ""
        yield f"  » {', '.join(finding.examples)}{more}"
    if finding.fix:
        yield f"  fix: {finding.fix}"


def findings_json(findings: Sequence[Finding], **facts: JsonValue) -> dict[str, JsonValue]:
    """Return the findings and the facts about their check, as printed by `--json`."""
    return {
        **facts,
        "errors": count_level(findings, "error"),
        "warnings": count_level(findings, "warning"),
        "findings": to_plain(list(findings)),
    }


def sort_by_level(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings sorted by severity, most severe first, and otherwise in their original
    order.
    """
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def count_level(findings: Iterable[Finding], level: Level) -> int:
    """Return the number of findings with the given level."""
    return sum(finding.level == level for finding in findings)


def exit_code(findings: Iterable[Finding], least: Level = "error") -> int:
    """Return the exit code of a check: 1 if any finding is at least as severe as `least`, else 0."""
    severe = LEVELS[: LEVELS.index(least) + 1]
    return int(any(finding.level in severe for finding in findings))
