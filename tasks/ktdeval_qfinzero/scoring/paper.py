"""Rules of the paper (section 4, appendix A.3) for both suites: fair, one call for one step, nothing for nothing.

`docs/qfinzero-scoring.md` says them all, and marks what A.3 leaves open and is decided here. The alignment has the largest
total TM, among those the largest total PA, then TA. A verbatim repeat of a call counts only as often as there are steps that it
meets in full, or identical steps of its tool, and serves only those. Where nothing of a step can be compared, PA or TA is its
TM, so an empty answer earns exactly 0 and a perfect one 100. Surplus calls and ids of the run cost nothing; `detail` counts
them. Failure modes are those of the aligned calls, and the document lists them.

The alignment is exact: the respects of a pair are folded into one whole number with digits so far apart that no sum of the later
ones outweighs a unit of an earlier one. Source of the solver: shortest augmenting paths with potentials (Jonker and Volgenant 1987,
Computing 38; Crouse 2016, IEEE Transactions on Aerospace and Electronic Systems 52(4)).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import nlargest
from math import lcm
from typing import Final

from ktdeval.errors import DataError
from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.scoring.types import (
    FURTHER_TOOLS,
    METRICS,
    REGISTRY,
    GoldCall,
    GoldTask,
    PredictedCall,
    Scores,
    expected_ids,
    given_ids,
    known_family,
    read_calls,
)
from ktdeval_qfinzero.scoring.values import (
    ONE,
    TOLERANCE_SECONDS,
    ZERO,
    compare_objects,
    is_placeholder,
    is_within,
    time_fields,
    tolerance_of,
)

Pair = tuple[int, int]
Merits = Sequence[Fraction]


def align(rows: int, merits: Mapping[Pair, Merits]) -> dict[int, int]:
    """Align each of `rows` rows with at most one column, and each column with at most one row.
    `merits`: (row, column) -> merits of the pair, all of one length and at least 0; pairs that are absent can't be aligned. Of all
    alignments the one with the largest sum of first merits is taken, among those the one with the largest sum of second merits, and
    so on; among equals rows take columns of low number, row 0 before row 1. Returns row -> column for the rows that are aligned.
    """
    columns = sorted({column for _, column in merits})
    if not columns:
        return {}
    weights = _weights(rows, columns, merits)
    kept = _kept_columns(rows, weights)
    table = [[weights.get((row, column), 0) for column in kept] for row in range(rows)]
    chosen = assign(table)
    return {row: kept[index] for row, index in enumerate(chosen) if index is not None and (row, kept[index]) in merits}


def _weights(rows: int, columns: Sequence[int], merits: Mapping[Pair, Merits]) -> dict[Pair, int]:
    """Each pair's merits and its rank among equals as one whole number."""
    length = len(next(iter(merits.values())))
    scales = [lcm(*(pair[index].denominator for pair in merits.values())) for index in range(length)]
    largest = [max(int(pair[index] * scale) for pair in merits.values()) for index, scale in enumerate(scales)]
    base = len(columns) + 1
    rank = {column: len(columns) - index for index, column in enumerate(columns)}
    weights = {}
    for (row, column), pair in merits.items():
        weight = 0
        for value, scale, most in zip(pair, scales, largest, strict=True):
            weight = weight * (rows * most + 1) + int(value * scale)
        weights[row, column] = weight * base**rows + rank[column] * base ** (rows - 1 - row)
    return weights


def _kept_columns(rows: int, weights: Mapping[Pair, int]) -> list[int]:
    """Columns that can matter: of each row the best `rows`, since the other rows take at most one less."""
    by_row: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for (row, column), weight in weights.items():
        by_row[row].append((weight, column))
    return sorted({column for of_row in by_row for _, column in nlargest(rows, of_row)})


def assign(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """Choose for each row a column of its own, or none, so that the sum of the chosen weights is largest.
    `weights`: one row of whole numbers, at least 0, for each row of the problem; all rows of one length. Returns the column chosen
    for each row, or None; a row may be given a column of weight 0.
    """
    count = len(weights)
    columns = len(weights[0]) if count else 0
    # Each row has a column of weight 0 to itself in addition, so that all rows always find one.
    costs = [[-weight for weight in row] + [0] * count for row in weights]
    owner: list[int | None] = [None] * (columns + count)
    row_price, column_price = [0] * count, [0] * (columns + count)
    for start in range(count):
        _bring_in(start, costs, owner, row_price, column_price)
    chosen: list[int | None] = [None] * count
    for column, taken_by in enumerate(owner[:columns]):
        if taken_by is not None:
            chosen[taken_by] = column
    return chosen


def _bring_in(
    start: int, costs: Sequence[Sequence[int]], owner: list[int | None], row_price: list[int], column_price: list[int]
) -> None:
    """Bring one more row into the assignment along the cheapest chain of exchanges; changes the last three lists."""
    waiting, closed = set(range(len(owner))), list[int]()
    slack: dict[int, int] = {}  # of each waiting column: how much dearer it is than what the chain has reached
    before: dict[int, int | None] = {}  # column whose owner would take it; None for the new row itself
    row, column = start, None
    while True:
        for other in waiting:
            dearer = costs[row][other] - row_price[row] - column_price[other]
            if other not in slack or dearer < slack[other]:
                slack[other], before[other] = dearer, column
        rise, column = min((slack[other], other) for other in waiting)
        row_price[start] += rise
        for other in closed:
            row_price[owner[other] or 0] += rise
            column_price[other] -= rise
        waiting.remove(column)
        closed.append(column)
        slack = {other: slack[other] - rise for other in waiting}
        held_by = owner[column]
        if held_by is None:
            break
        row = held_by
    while column is not None:
        previous = before[column]
        owner[column] = start if previous is None else owner[previous]
        column = previous


_OTHER_TOOL_SCORE: Final = Fraction(1, 2)


@dataclass(frozen=True)
class _Match:
    """Scores of a call on a step, and why not more."""

    tm: Fraction
    pa: Fraction
    ta: Fraction
    failures: frozenset[str]

    @property
    def is_full(self) -> bool:
        return self.tm == self.pa == self.ta == 1


@dataclass(frozen=True)
class _Alignment:
    """Steps and the calls they are aligned with: step -> index among `calls`, and what that earns."""

    golds: tuple[GoldCall, ...]
    calls: tuple[PredictedCall, ...]
    call_indices: Mapping[int, int]
    matches: Mapping[int, _Match]

    @property
    def spare(self) -> tuple[PredictedCall, ...]:
        taken = set(self.call_indices.values())
        return tuple(call for index, call in enumerate(self.calls) if index not in taken)

    def mean(self, metric: str) -> float:
        """Mean of a metric over all steps, those without a call as 0."""
        return float(sum((getattr(match, metric) for match in self.matches.values()), ZERO) / len(self.golds))


def score(task: GoldTask, predicted: Sequence[JsonValue] | None, run_context: Mapping[str, str]) -> Scores:
    """Score an answer by the rules above.
    `predicted`: the calls as the model gave them, `{tool_name, params}` or `{tool, args}`; None for an unreadable reply;
    `run_context`: `session_id` and `account_id` of the run; only reported figures depend on it. Raises DataError if the task has a
    tolerance that is not defined.
    """
    check_tolerances(task)
    if predicted is None:
        return Scores(0.0, 0.0, 0.0, ("unreadable_reply",), _detail(None, 0, run_context))
    calls, malformed = read_calls(predicted)
    makes_no_call = not malformed and all(call.is_refusal for call in calls)
    if task.refuse or not task.calls:
        return _refusal(makes_no_call, malformed, len(predicted), run_context)
    alignment = _aligned(task.calls, calls)
    failures = {"false_refusal"} if makes_no_call else _failures(alignment, malformed)
    tm, pa, ta = (alignment.mean(metric) for metric in METRICS)
    return Scores(tm, pa, ta, tuple(sorted(failures)), _detail(alignment, len(predicted), run_context))


def check_tolerances(task: GoldTask) -> None:
    """Refuse a task whose tolerance has no meaning; raises DataError if names the task, the tool and the tolerance."""
    for gold in task.calls:
        if tolerance_of(gold.times) not in TOLERANCE_SECONDS:
            known = ", ".join(TOLERANCE_SECONDS)
            raise DataError(f"{task.id}: {gold.tool}: unknown tolerance {tolerance_of(gold.times)[:60]!r}; give one of {known}")


def _refusal(makes_no_call: bool, malformed: int, predicted: int, run_context: Mapping[str, str]) -> Scores:
    earned = float(makes_no_call)
    failures = [] if makes_no_call else ["missed_refusal", *(["malformed_call"] if malformed else [])]
    return Scores(earned, earned, earned, tuple(sorted(failures)), _detail(None, 0 if makes_no_call else predicted, run_context))


# ---- one step and one call


def _match(gold: GoldCall, call: PredictedCall) -> _Match | None:
    """Scores of a call on a step; None for a tool of another family."""
    tm = _tool(gold.tool, call.tool)
    if tm == 0:
        return None
    met = {name: is_within(call.args.get(name), value, tolerance_of(gold.times)) for name, value in _fields(gold).items()}
    late = {name for name, is_met in met.items() if not is_met}
    accepted = {name: value for name, value in gold.required.items() if met.get(name)}
    params = compare_objects({**call.args, **accepted}, gold.required)
    given = {name for name, value in call.args.items() if value is not None}
    ta = Fraction(len(met) - len(late), len(met)) if met else tm
    failures = {"wrong_tool"} if tm < 1 else set()
    # A time that is out of tolerance is one failure, though it costs PA and TA.
    failures |= {"wrong_value"} if set(params.wrong) - late else set()
    failures |= {"wrong_time"} if late & given else set()
    failures |= {"missing_param"} if params.missing or late - given else set()
    return _Match(tm, tm if params.score is None else params.score, ta, frozenset(failures))


def _tool(expected: str, given: str) -> Fraction:
    if given == expected:
        return ONE
    family = known_family(given)
    return _OTHER_TOOL_SCORE if family is not None and family == known_family(expected) else ZERO


def _fields(gold: GoldCall) -> dict[str, JsonValue]:
    """Time fields that can be compared."""
    return {name: value for name, value in time_fields(gold.times).items() if value is not None and not is_placeholder(value)}


# ---- all steps and all calls


def _aligned(golds: tuple[GoldCall, ...], calls: tuple[PredictedCall, ...]) -> _Alignment:
    """Best alignment. Among equally good ones the content of steps and calls decides, never their order."""
    rows = sorted(range(len(golds)), key=lambda step: _content(golds[step]))
    expected = Counter(_expectation(gold) for gold in golds)
    alike = [expected[_expectation(golds[step])] for step in rows]
    columns: list[int] = []
    matches: dict[tuple[int, int], _Match] = {}
    for copies in _repeats(calls):
        earned = {row: match for row, step in enumerate(rows) if (match := _match(golds[step], calls[copies[0]])) is not None}
        again = {row: match for row, match in earned.items() if match.is_full or (match.tm == 1 and alike[row] > 1)}
        most = max([1, sum(match.is_full for match in again.values()), *(alike[row] for row in again)])
        # Of a call that stands there more than once as many count as steps ask for it, the first wherever it fits.
        for copy, index in enumerate(copies[:most]):
            matches.update({(row, len(columns)): match for row, match in (again if copy else earned).items()})
            columns.append(index)
    chosen = align(len(golds), {pair: (match.tm, match.pa, match.ta) for pair, match in matches.items()})
    call_indices = {rows[row]: columns[column] for row, column in sorted(chosen.items())}
    return _Alignment(golds, calls, call_indices, {rows[row]: matches[row, column] for row, column in chosen.items()})


def _repeats(calls: Sequence[PredictedCall]) -> list[list[int]]:
    """Indices of calls with the same content, contents in order."""
    indices: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        indices.setdefault(call.content, []).append(index)
    return [indices[content] for content in sorted(indices)]


def _content(gold: GoldCall) -> str:
    return json.dumps([gold.tool, gold.required, gold.times, gold.optional, gold.endpoint], sort_keys=True, default=dict)


def _expectation(gold: GoldCall) -> str:
    """Expectation of a step; equal for identical steps, whatever else is noted of them."""
    return json.dumps([gold.tool, gold.required, gold.times], sort_keys=True, default=dict)


def _failures(alignment: _Alignment, malformed: int) -> set[str]:
    failures = {name for match in alignment.matches.values() for name in match.failures}
    known_tools = REGISTRY.keys() | FURTHER_TOOLS | {gold.tool for gold in alignment.golds}
    serving = {alignment.calls[index].content for index in alignment.call_indices.values()}
    of_known_tools = [call for call in alignment.spare if call.tool in known_tools or call.is_refusal]
    unknown = len(alignment.spare) - len(of_known_tools)
    repeats = sum(call.content in serving for call in of_known_tools)
    others = len(of_known_tools) - repeats
    open_steps = len(alignment.golds) - len(alignment.call_indices)
    failures |= {"malformed_call"} if malformed else set()
    failures |= {"unknown_tool"} if unknown else set()
    failures |= {"wrong_family"} if open_steps and others else set()
    failures |= {"missing_call"} if open_steps > others + unknown + malformed else set()
    failures |= {"extra_call"} if repeats or others > open_steps else set()
    return failures


# ---- reported, not scored


def _detail(alignment: _Alignment | None, predicted: int, run_context: Mapping[str, str]) -> dict[str, JsonValue]:
    if alignment is None:
        return {"steps": [], "extra_calls": predicted, "call_precision": None, "ids_expected": 0, "ids_right": 0}
    right = {step for step, match in alignment.matches.items() if match.tm == 1}
    expected = [expected_ids(gold, run_context) for gold in alignment.golds]
    called = {step: alignment.calls[alignment.call_indices[step]] for step in right}
    carried = [expected[step].items() & given_ids(alignment.golds[step], call).items() for step, call in called.items()]
    return {
        "steps": [_step_detail(alignment, step) for step in range(len(alignment.golds))],
        "extra_calls": predicted - len(alignment.call_indices),
        "call_precision": len(right) / predicted if predicted else None,
        "ids_expected": sum(len(ids) for ids in expected),
        "ids_right": sum(len(ids) for ids in carried),
    }


def _step_detail(alignment: _Alignment, step: int) -> dict[str, JsonValue]:
    """Which predicted call serves a step (`call`, from 0, or None), and what it earns."""
    match = alignment.matches.get(step)
    call = None if match is None else alignment.calls[alignment.call_indices[step]].index
    earned = {metric: 0.0 if match is None else float(getattr(match, metric)) for metric in METRICS}
    return {"tool": alignment.golds[step].tool, "call": call, **earned}
