"""Leaks found and clean texts accused by `ktdeval audit` in free prose: a table of docs/audit.md.

    PYTHONPATH=benchmarks python benchmarks/audit_prose.py

Eight sets of texts (`audit_prose.yaml`) were each looked at once before a rule was changed for them.
`audit_prose.csv` keeps these first looks, and what the rules of today say, which a test holds. The
last three sets name the kind of author of each group, for which recall and precision are printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from ktdeval.values import load_yaml
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.log_types import LoggedDecision, LogText
from ktdeval_audit.text_rules import later_dates

TEXTS = Path(__file__).with_name("audit_prose.yaml")
TABLE = TEXTS.with_suffix(".csv")
LOOKS = ("errors", "errors or warnings")
ACCUSING = ("error", "warning")


def prose_rows() -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return how many texts of each set and label have a finding of a level, and of how many."""
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}
    for name, label, level in _levels():
        for column, levels in zip(LOOKS, (("error",), ("error", "warning")), strict=True):
            found, of = counts.get((name, label, column), (0, 0))
            counts[name, label, column] = (found + (level in levels), of + 1)
    return counts


def _levels() -> Iterator[tuple[str, str, str]]:
    """Yield set, label and most severe level of each text."""
    for group in load_yaml(TEXTS)["groups"]:
        for label in ("leak", "clean"):
            for level in _levels_of(group, label):
                yield group["set"], label, level


def _levels_of(group: Mapping[str, Any], label: str) -> list[str]:
    """Return the most severe level of each text of a group that has a label."""
    day = date.fromisoformat(str(group["day"]))
    return [most_severe(item, day) for item in group[label]]


def author_lines() -> Iterator[str]:
    """Yield recall and precision of each author, of findings that are errors or warnings."""
    for group in load_yaml(TEXTS)["groups"]:
        if "author" not in group:
            continue

        leaks, clean = (_levels_of(group, label) for label in ("leak", "clean"))
        found, accused = (sum(level in ACCUSING for level in levels) for levels in (leaks, clean))
        yield (
            f"{group['set']}, {group['author']}: recall {found} of {len(leaks)}, precision {found} "
            f"of {found + accused}, accused {accused} of {len(clean)}"
        )


def most_severe(item: str | Mapping[str, str], day: date) -> str:
    """Return the most severe level of the findings in a text; empty without one."""
    role, words = next(iter(item.items())) if isinstance(item, Mapping) else ("tool", item)
    text = LogText(role=role, text=words, place="message 1")  # type: ignore[arg-type]  # of the file
    decision = LoggedDecision(name="one", texts=(text,))
    levels = {finding.level for finding in later_dates(DatedText(decision, text, day))}
    return next((level for level in ("error", "warning", "note") if level in levels), "")


def main() -> None:
    """Print the counts."""
    rows: Any = prose_rows()
    for (name, label, column), (found, of) in rows.items():
        print(f"{name},{label},{column},{found},{of}")
    for line in author_lines():
        print(line)


if __name__ == "__main__":
    main()
