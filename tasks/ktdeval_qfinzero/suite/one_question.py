"""What tasks of one question share: a turn of a chat, and a traded session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Any, Final, Literal

from ktdeval.errors import InvariantError
from ktdeval.stats import wilson
from ktdeval.tasks import Score, ScoreDefinition, with_bounds
from ktdeval.values.jsonio import JsonValue, dumps_canonical
from ktdeval.values.typed import Value, encode_canonical, from_plain
from ktdeval.values.yamlio import load_yaml
from ktdeval_qfinzero.benchmark.items import end_state, refusal_of
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.workspace import Workspace

_LEVEL: Final = 0.95


# ---- the market, and calls that are made again


def market_words(info: DatasetInfo) -> str:
    """Return what a prompt calls the market."""
    if info.synthetic:
        return "An invented market"
    return f"The market {info.name}"


def make_again(workspace: Workspace, calls: Sequence[RecordedCall]) -> list[JsonValue]:
    """Make recorded calls in order and return their answers, refusals among them."""
    return [catalogue().answer(workspace, call.tool, call.arguments) for call in calls]


def accepted_again(
    workspace: Workspace, calls: Sequence[RecordedCall], recorded_state: Any, name: str
) -> int:
    """Make the recorded calls of a task's answer and return how many the services carried out.
    Raises InvariantError: they leave another state than the recorded one.
    """
    answers = make_again(workspace, calls)
    if encode_canonical(end_state(workspace)) != dumps_canonical(recorded_state):
        raise InvariantError(
            f"{name}: its recorded calls, made again, leave another state than the recorded one;"
            " the dataset or the services changed since, or this is a defect of theirs"
        )
    return sum(not refusal_of(answer) for answer in answers)


# ---- scores


class _Definition(Value, frozen=True):
    formula: str
    unit: str
    most: float | None
    better: Literal["higher", "lower", ""]
    least: float | None = 0.0
    headline: bool = True


class _Definitions(Value, frozen=True):
    source: str
    scores: dict[str, _Definition]


def read_definitions(path: Path) -> Mapping[str, ScoreDefinition]:
    """Read the definitions of a task's scores, in the order shown."""
    read = from_plain(load_yaml(path), _Definitions, path.name)
    defined: dict[str, ScoreDefinition] = {}
    for name, each in read.scores.items():
        defined[name] = ScoreDefinition(
            formula=each.formula,
            unit=each.unit,
            range=(each.least, each.most),
            better=each.better,
            source=read.source,
            headline=each.headline,
        )

    return defined


def mean_score(figures: Sequence[float], reason: str) -> Score:
    """Average figures, without an interval; `reason`: why there is no score without a figure."""
    if not figures:
        return Score(None, 0, reason=reason)
    return Score(fsum(figures) / len(figures), len(figures))


def mean_of_all(
    figures: Sequence[float | None],
    silent: int,
    failed: int,
    definition: ScoreDefinition,
    reason: str,
) -> Score:
    """Average figures of answered samples, None where one is not defined. The `silent` ones, without
    a valid answer, count as the worst figure; `failed` model calls bound the average. A score
    without a direction is of the answered ones alone.
    """
    worst = definition.worst
    if silent and definition.better and worst is None:
        asked = len(figures) + silent
        return Score(
            None,
            0,
            reason=f"{silent} of {asked} have no valid answer, and the score has no worst figure",
        )

    known = [figure for figure in figures if figure is not None]
    if worst is not None:
        known += [worst] * silent

    points: list[tuple[str, float | None]] = []
    for number, figure in enumerate([*known, *[None] * failed]):
        points.append((str(number), figure))

    return with_bounds(mean_score(known, reason), points, definition.range)


def share_score(count: int, total: int, reason: str) -> Score:
    """Return a share with its interval; `reason`: why there is none of nothing."""
    if not total:
        return Score(None, 0, reason=reason)
    return Score(count / total, total, wilson(count, total, _LEVEL))
