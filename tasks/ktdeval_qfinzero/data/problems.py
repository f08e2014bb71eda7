"""Problems with rows, collected up to a limit and reported together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ktdeval.errors import DataError

SHOWN = 100  #: Number of problems listed in full; further ones are only counted
MAX_PROBLEMS = 100_000  #: Maximum number counted; reading stops when it is reached


class DatasetRefused(DataError):
    """Malformed rows of a dataset: the number of problems, and the first problems in full. Nothing
    was written.
    """

    def __init__(self, problems: Sequence[str], count: int) -> None:
        self.problems = tuple(problems)
        self.count = count
        if count == 1:
            found = f"1 problem: {problems[0]}"
        elif count < MAX_PROBLEMS:
            found = f"{count} problems, the first: {problems[0]}"
        else:
            found = f"{count} problems or more, the first: {problems[0]}"
        super().__init__(f"nothing was written: {found}")


@dataclass(slots=True)
class ProblemList:
    """Collector of problems, which keeps the first ones in full and counts up to `MAX_PROBLEMS`."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, line: str) -> None:
        """Add a problem. Raises DatasetRefused once `MAX_PROBLEMS` are counted."""
        self.count += 1
        if len(self.lines) < SHOWN:
            self.lines.append(line)
        if self.count >= MAX_PROBLEMS:
            self.refuse()

    def add_all(self, where: str, lines: Sequence[str]) -> None:
        """Add problems with one file or table."""
        for line in lines:
            self.add(f"{where}: {line}")

    def refuse(self) -> None:
        """Raise DatasetRefused if any problem was added."""
        if self.count:
            raise DatasetRefused(self.lines, self.count)
