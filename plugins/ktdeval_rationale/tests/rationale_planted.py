"""Sentences with marked mentions, and how well a linter finds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
FILES = {
    "dev": "rationale_planted_dev.txt",
    "held": "rationale_planted_held.txt",
    "last": "rationale_planted_last.txt",
}

_MARK = re.compile(r"\{([a-z]+)\|([^{}|]*)\}")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")

Marked = tuple[str, int, int]
"""Category, and the span in the sentence."""


@dataclass(frozen=True)
class Planted:
    """A sentence, and what it names."""

    text: str
    marks: tuple[Marked, ...]


def read_planted(which: str) -> list[Planted]:
    """The sentences of one half of the planted set."""
    lines = (FOLDER / FILES[which]).read_text(encoding="utf-8").splitlines()
    return [parse(line) for line in lines if line.strip() and not line.startswith("#")]


def parse(line: str) -> Planted:
    """A sentence from a line of the file."""
    line = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), line)
    text = ""
    marks = []
    done = 0

    for match in _MARK.finditer(line):
        text += line[done : match.start()]
        marks.append((match[1], len(text), len(text) + len(match[2])))
        text += match[2]
        done = match.end()

    return Planted(text + line[done:], tuple(marks))


@dataclass
class Score:
    """Counts of one category. A mention is right when it overlaps a mark of its category."""

    right: int = 0
    wrong: int = 0
    marks: int = 0
    found: int = 0
    misses: list[str] = field(default_factory=list)

    def count(self, problem: str, meets: bool) -> None:
        """Count a mention (`wrong` where it meets no mark) or a mark (`missed` where no mention
        meets it).
        """
        if problem == "wrong":
            self.right, self.wrong = self.right + meets, self.wrong + (not meets)
        else:
            self.marks, self.found = self.marks + 1, self.found + meets

    @property
    def precision(self) -> float:
        """Share of mentions that are right; 1 where there is none."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Share of marks that a mention overlaps; 1 where there is none."""
        return self.found / self.marks if self.marks else 1.0


def score(
    planted: Iterable[Planted],
    find: Callable[[str], Iterable[Marked]],
    categories: Iterable[str],
    same: Mapping[str, str] | None = None,
) -> dict[str, Score]:
    """Counts by category of what a linter finds in marked sentences; `same`: category -> the one
    that it counts as.
    """

    def renamed(spans: Iterable[Marked]) -> list[Marked]:
        return [((same or {}).get(name, name), start, end) for name, start, end in spans]

    scores = {(same or {}).get(name, name): Score() for name in categories}
    for sentence in planted:
        marks = renamed(sentence.marks)
        found = renamed(find(sentence.text))
        for problem, spans, others in (("wrong", found, marks), ("missed", marks, found)):
            for name, start, end in spans:
                if name in scores:
                    meets = any(
                        name == other and start < stop and begin < end
                        for other, begin, stop in others
                    )
                    scores[name].count(problem, meets)
                    if not meets:
                        scores[name].misses.append(
                            f"{problem}: {sentence.text[start:end]!r} in {sentence.text!r}"
                        )

    return scores
