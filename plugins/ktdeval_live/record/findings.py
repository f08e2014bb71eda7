"""What a verification finds."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.cards import clean


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    rule: str  #: short name of the rule that it breaks
    day: str  #: ISO day that it concerns; empty of the whole test
    text: str  #: one line

    def line(self) -> str:
        """Return the finding as it is printed: names in it may come from a stranger's files."""
        where = f" {self.day}" if self.day else ""
        return clean(f"{self.rule}{where}: {self.text}")
