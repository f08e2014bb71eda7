"""Records of an item: the answer that was given, what it earned, and the facts recorded with it; the flat forms of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktdeval.contracts import AnswerRecord
from ktdeval.jsonio import JsonValue
from ktdeval.typed import Value, from_plain
from ktdeval_qfinzero.scoring.types import Scores

Rules = Literal["paper", "reference"]
RULE_SETS: Final[tuple[Rules, ...]] = ("paper", "reference")
METRICS: Final = ("overall", "tm", "pa", "ta")

_PLAIN: Final = ("exact", "no_call", "call_precision", "ids_expected", "ids_right")

FAILED: Final = "failed_"
"""Begins the names of failure modes in a record, each true."""
DIFFERS: Final = "differs_"
"""Begins the names of parts of the end state that are not those of the gold calls, each true."""


class RecordedCall(Value, frozen=True):
    """A call as it was made or written down; `arguments` are a text where they could not be recorded."""

    tool: str
    arguments: Any


class Answer(Value, frozen=True, omit_defaults=True):
    """An answer: `status` done or refused, a sentence, the calls, and of live items the JSON of the state that they left."""

    status: str
    summary: str
    calls: tuple[RecordedCall, ...]
    end_state: Any = None

    @staticmethod
    def of(recorded: Mapping[str, JsonValue], where: str) -> Answer:
        """Decode an answer as it is recorded."""
        return from_plain(dict(recorded), Answer, where)


class Earned(Value, frozen=True):
    """Figures of one rule set: `overall` from 0 to 100, the others from 0 to 1."""

    overall: float
    tm: float
    pa: float
    ta: float

    @staticmethod
    def of(scores: Scores) -> Earned:
        """Take the figures of scores."""
        return Earned(**{name: getattr(scores, name) for name in METRICS})


class Empty(Earned, frozen=True, omit_defaults=True):
    """Figures of an answer without any call: the floor that scores are read against."""

    exact: float
    end_state_match: float | None = None


class Facts(Value, frozen=True, omit_defaults=True):
    """Facts recorded beside an answer and never shown: the expected calls in the public format, strata, and `empty`.
    `template` and `as_of` are None for a task of a file; `changes_state` is known of live items only.
    """

    task: dict[str, Any]
    category: str
    difficulty: str
    template: str | None
    refusal: bool
    as_of: str | None
    empty: Empty
    changes_state: bool | None = None


@dataclass(frozen=True)
class Graded:
    """Grades of an answer."""

    earned: Mapping[Rules, Earned]
    exact: bool  # whether nothing is wrong, absent or too much
    no_call: bool  # whether no service was called
    call_precision: float | None  # share of the calls that serve a step and are of its very tool; None without any call
    ids_expected: int  # that calls had to carry, and those that they carried, which no metric reads
    ids_right: int
    failure_modes: tuple[str, ...] = ()  # of the headline's rule set
    end_state_match: bool | None = None  # of live items, whether the calls left what the expected ones leave
    differing: tuple[str, ...] = ()  # parts of the end state that differ

    def to_scores(self) -> dict[str, JsonValue]:
        """Return the flat form of records."""
        flat: dict[str, JsonValue] = {
            f"{rules}_{name}": getattr(self.earned[rules], name) for rules in RULE_SETS for name in METRICS
        }
        flat |= {name: getattr(self, name) for name in _PLAIN}
        flat |= {f"{FAILED}{mode}": True for mode in self.failure_modes}
        if self.end_state_match is not None:
            flat["end_state_match"] = self.end_state_match
        return flat | {f"{DIFFERS}{part}": True for part in self.differing}

    @staticmethod
    def of(scores: Mapping[str, JsonValue]) -> Graded:
        """Read the flat form back."""
        return Graded(
            {rules: Earned(**{name: scores[f"{rules}_{name}"] for name in METRICS}) for rules in RULE_SETS},
            **{name: scores[name] for name in _PLAIN},
            failure_modes=tuple(name.removeprefix(FAILED) for name in scores if name.startswith(FAILED)),
            end_state_match=scores.get("end_state_match"),
            differing=tuple(name.removeprefix(DIFFERS) for name in scores if name.startswith(DIFFERS)),
        )


@dataclass(frozen=True)
class Asked:
    """An item that was put to a model; `graded` and `status` are None without a valid submission."""

    item: str
    facts: Facts
    graded: Graded | None
    status: str | None

    @staticmethod
    def of(record: AnswerRecord) -> Asked:
        """Decode a record."""
        facts = from_plain(record.facts, Facts, record.sample)
        if record.answer is None:
            return Asked(record.sample, facts, None, None)
        return Asked(record.sample, facts, Graded.of(record.scores), record.answer["status"])
