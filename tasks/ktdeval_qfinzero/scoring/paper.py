"""The paper's rules (section 4, appendix A.3) for both suites: one call per step, and no credit for
an empty answer.

`docs/qfinzero-scoring.md` lists all rules, and marks what A.3 leaves open and is decided here. The
alignment maximises total TM, then total PA, then total TA. A verbatim repeat of a call counts only
as often as there are steps that it fully meets, or identical steps of its tool, and can match only
these steps. If nothing in a step can be compared, PA or TA equals its TM, so an empty answer earns
exactly 0 and a perfect answer 100. Surplus calls and run ids cost nothing; `detail` counts them.
Failure modes, which the document lists, are those of the aligned calls.

The alignment is exact: the merits of a pair are packed into one integer with digits so far apart
that no sum of later merits outweighs one unit of an earlier merit. Source of the solver: shortest
augmenting paths with potentials (Jonker and Volgenant 1987, Computing 38; Crouse 2016, IEEE
Transactions on Aerospace and Electronic Systems 52(4)).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import nlargest
from math import lcm
from typing import Final

from ktdeval.errors import DataError
from ktdeval.values import JsonValue
from ktdeval_qfinzero.scoring.types import (
    FURTHER_TOOLS,
    REGISTRY,
    AnswerScores,
    GoldCall,
    GoldTask,
    PredictedCall,
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

    `merits`: (row, column) -> merits of the pair, all of the same length and at least 0; absent
    pairs can't be aligned. The alignment has the largest sum of first merits. Ties are broken by
    the largest sum of second merits, and so on; remaining ties give rows low column numbers, row 0
    before row 1. Returns row -> column for the aligned rows.
    """
    columns = sorted({column for _, column in merits})
    if not columns:
        return {}

    weights = _pair_weights(rows, columns, merits)
    useful = _useful_columns(rows, weights)
    table = [[weights.get((row, column), 0) for column in useful] for row in range(rows)]

    aligned: dict[int, int] = {}
    for row, index in enumerate(assign(table)):
        if index is not None and (row, useful[index]) in merits:
            aligned[row] = useful[index]

    return aligned


def _pair_weights(
    rows: int, columns: Sequence[int], merits: Mapping[Pair, Merits]
) -> dict[Pair, int]:
    """Pack each pair's merits and its tie-break rank into one integer."""
    places = [_place(of_pairs) for of_pairs in zip(*merits.values(), strict=True)]
    base = len(columns) + 1
    rank = {column: len(columns) - index for index, column in enumerate(columns)}
    weights: dict[Pair, int] = {}

    for (row, column), values in merits.items():
        weight = 0
        for value, (scale, most) in zip(values, places, strict=True):
            # no sum of later merits over all rows reaches one unit of this merit
            weight = weight * (rows * most + 1) + int(value * scale)

        weights[row, column] = weight * base**rows + rank[column] * base ** (rows - 1 - row)

    return weights


def _place(values: Sequence[Fraction]) -> tuple[int, int]:
    """Return the factor that makes all values of one merit integers, and the largest of these
    integers.
    """
    scale = lcm(*(value.denominator for value in values))
    return scale, max(int(value * scale) for value in values)


def _useful_columns(rows: int, weights: Mapping[Pair, int]) -> list[int]:
    """Return the columns that can matter: the best `rows` columns of each row, since the other rows
    take at most `rows` − 1 of them.
    """
    by_row: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for (row, column), weight in weights.items():
        by_row[row].append((weight, column))

    useful: set[int] = set()
    for of_row in by_row:
        useful |= {column for _, column in nlargest(rows, of_row)}

    return sorted(useful)


def assign(weights: Sequence[Sequence[int]]) -> list[int | None]:
    """Choose a separate column, or none, for each row, so that the sum of the chosen weights is
    largest.

    `weights`: one list of non-negative integers for each row, all of the same length. Returns the
    column chosen for each row, or None; a row may be given a column of weight 0.
    """
    count = len(weights)
    columns = len(weights[0]) if count else 0
    # Each row also has its own column of weight 0, so that every row can be assigned.
    costs = [[-weight for weight in row] + [0] * count for row in weights]
    owner: list[int | None] = [None] * (columns + count)
    row_price = [0] * count
    column_price = [0] * (columns + count)

    for start in range(count):
        _bring_in(start, costs, owner, row_price, column_price)

    chosen: list[int | None] = [None] * count
    for column, taken_by in enumerate(owner[:columns]):
        if taken_by is not None:
            chosen[taken_by] = column

    return chosen


def _bring_in(
    start: int,
    costs: Sequence[Sequence[int]],
    owner: list[int | None],
    row_price: list[int],
    column_price: list[int],
) -> None:
    """Add one row to the assignment along the shortest augmenting path. Modifies the last three
    lists.
    """
    waiting = set(range(len(owner)))
    closed = list[int]()
    # slack of each column that the path has not yet reached
    slack: dict[int, int] = {}
    # column whose owner would be reassigned; None for the new row itself
    before: dict[int, int | None] = {}
    row = start
    column = None

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
        owned_by = owner[column]
        if owned_by is None:
            break

        row = owned_by

    while column is not None:
        previous = before[column]
        owner[column] = start if previous is None else owner[previous]
        column = previous


_OTHER_TOOL_SCORE: Final = Fraction(1, 2)


@dataclass(frozen=True)
class _StepMatch:
    """Scores of a call on a step, and the reasons for lost points."""

    tm: Fraction
    pa: Fraction
    ta: Fraction
    failures: frozenset[str]

    @property
    def is_full(self) -> bool:
        return self.tm == self.pa == self.ta == 1

    @property
    def merits(self) -> Merits:
        """Merits by which calls are aligned, in order of priority."""
        return self.tm, self.pa, self.ta


@dataclass(frozen=True)
class _CallAlignment:
    """Steps and the calls with which they are aligned: step -> index among `calls`, and the scores
    of each pair.
    """

    golds: tuple[GoldCall, ...]
    calls: tuple[PredictedCall, ...]
    call_indices: Mapping[int, int]
    matches: Mapping[int, _StepMatch]

    @property
    def spare(self) -> tuple[PredictedCall, ...]:
        """Calls with which no step is aligned."""
        taken = set(self.call_indices.values())
        return tuple(call for index, call in enumerate(self.calls) if index not in taken)

    @property
    def means(self) -> tuple[float, float, float]:
        """Means of TM, PA and TA over all steps; a step without a call is scored as 0."""
        steps = len(self.golds)
        matches = self.matches.values()
        tm = sum((match.tm for match in matches), ZERO)
        pa = sum((match.pa for match in matches), ZERO)
        ta = sum((match.ta for match in matches), ZERO)
        return float(tm / steps), float(pa / steps), float(ta / steps)


def score(
    task: GoldTask, predicted: Sequence[JsonValue] | None, run_context: Mapping[str, str]
) -> AnswerScores:
    """Score an answer by the rules above.

    `predicted`: the calls as the model gave them, `{tool_name, params}` or `{tool, args}`; None for
    an unreadable reply. `run_context`: `session_id` and `account_id` of the run, on which only
    reported figures depend. Raises DataError if the task has an undefined tolerance.
    """
    check_tolerances(task)
    if predicted is None:
        return AnswerScores(0.0, 0.0, 0.0, ("unreadable_reply",), _no_steps(extra_calls=0))

    calls, malformed = read_calls(predicted)
    makes_no_call = not malformed and all(call.is_refusal for call in calls)
    if task.refuse or not task.calls:
        if makes_no_call:
            return AnswerScores(1.0, 1.0, 1.0, (), _no_steps(extra_calls=0))

        failures = {"missed_refusal"}
        if malformed:
            failures.add("malformed_call")
        detail = _no_steps(extra_calls=len(predicted))
        return AnswerScores(0.0, 0.0, 0.0, tuple(sorted(failures)), detail)

    alignment = _align_calls(task.calls, calls)
    failures = {"false_refusal"} if makes_no_call else _alignment_failures(alignment, malformed)
    detail = _detail(alignment, len(predicted), run_context)

    return AnswerScores(*alignment.means, tuple(sorted(failures)), detail)


def check_tolerances(task: GoldTask) -> None:
    """Raise DataError if a task has an undefined tolerance. The message names the task, the tool
    and the tolerance.
    """
    for gold in task.calls:
        tolerance = tolerance_of(gold.times)
        if tolerance not in TOLERANCE_SECONDS:
            known = ", ".join(TOLERANCE_SECONDS)
            raise DataError(
                f"{task.id}: {gold.tool}: unknown tolerance {tolerance[:60]!r}; give one of {known}"
            )


# ---- one step and one call


def _match(gold: GoldCall, call: PredictedCall) -> _StepMatch | None:
    """Return the scores of a call on a step; None if the tool belongs to another family."""
    tm = _tool_score(gold.tool, call.tool)
    if tm == 0:
        return None

    late = _late_fields(gold, call)
    times = _comparable_times(gold)
    ta = Fraction(len(times) - len(late), len(times)) if times else tm

    # a time within tolerance is right, however it is written
    met = {
        name: value for name, value in gold.required.items() if name in times and name not in late
    }
    params = compare_objects({**call.args, **met}, gold.required)
    pa = tm if params.score is None else params.score

    failures = set(_time_failures(late, call))
    if tm < 1:
        failures.add("wrong_tool")
    # A time that is out of tolerance is one failure, although it costs both PA and TA.
    if set(params.wrong) - late:
        failures.add("wrong_value")
    if params.missing:
        failures.add("missing_param")

    return _StepMatch(tm, pa, ta, frozenset(failures))


def _tool_score(expected: str, given: str) -> Fraction:
    if given == expected:
        return ONE

    family = known_family(given)
    if family is not None and family == known_family(expected):
        return _OTHER_TOOL_SCORE

    return ZERO


def _comparable_times(gold: GoldCall) -> dict[str, JsonValue]:
    """Return the expected times that can be compared, keyed by field."""
    return {
        name: value
        for name, value in time_fields(gold.times).items()
        if value is not None and not is_placeholder(value)
    }


def _late_fields(gold: GoldCall, call: PredictedCall) -> set[str]:
    """Return the time fields for which the call gives no time within tolerance."""
    tolerance = tolerance_of(gold.times)
    return {
        name
        for name, value in _comparable_times(gold).items()
        if not is_within(call.args.get(name), value, tolerance)
    }


def _time_failures(late: set[str], call: PredictedCall) -> Iterator[str]:
    for name in late:
        yield "missing_param" if call.args.get(name) is None else "wrong_time"


# ---- all steps and all calls


def _align_calls(golds: tuple[GoldCall, ...], calls: tuple[PredictedCall, ...]) -> _CallAlignment:
    """Return the best alignment. If several are equally good, the contents of steps and calls
    decide, never their order.
    """
    rows = sorted(range(len(golds)), key=lambda step: _gold_content(golds[step]))
    steps_alike = Counter(_expectation(gold) for gold in golds)
    alike = [steps_alike[_expectation(golds[step])] for step in rows]
    columns: list[int] = []  # index of each column's call
    matches: dict[Pair, _StepMatch] = {}

    for copies in _repeats(calls):
        call = calls[copies[0]]
        earned: dict[int, _StepMatch] = {}
        again: dict[int, _StepMatch] = {}
        for row, step in enumerate(rows):
            match = _match(golds[step], call)
            if match is not None:
                earned[row] = match
                if match.is_full or (match.tm == 1 and alike[row] > 1):
                    again[row] = match

        # A repeated call counts as often as steps ask for it; its first occurrence counts wherever
        # it fits.
        met_in_full = sum(match.is_full for match in again.values())
        most = max([1, met_in_full, *(alike[row] for row in again)])
        for number, index in enumerate(copies[:most]):
            served = earned if number == 0 else again
            for row, match in served.items():
                matches[row, len(columns)] = match

            columns.append(index)

    chosen = align(len(golds), {pair: match.merits for pair, match in matches.items()})
    call_indices: dict[int, int] = {}
    best: dict[int, _StepMatch] = {}
    for row, column in sorted(chosen.items()):
        call_indices[rows[row]] = columns[column]
        best[rows[row]] = matches[row, column]

    return _CallAlignment(golds, calls, call_indices, best)


def _repeats(calls: Sequence[PredictedCall]) -> list[list[int]]:
    """Return the indices of calls with the same contents, sorted by contents."""
    indices: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        indices.setdefault(call.content, []).append(index)
    return [indices[content] for content in sorted(indices)]


def _gold_content(gold: GoldCall) -> str:
    return json.dumps(
        [gold.tool, gold.required, gold.times, gold.optional, gold.endpoint],
        sort_keys=True,
        default=dict,
    )


def _expectation(gold: GoldCall) -> str:
    """Return a step's expectation as text. The texts of identical steps are equal; notes do not
    matter.
    """
    return json.dumps([gold.tool, gold.required, gold.times], sort_keys=True, default=dict)


def _alignment_failures(alignment: _CallAlignment, malformed: int) -> set[str]:
    """Return the failure modes of the aligned calls, the leftover calls and the unmatched steps."""
    failures: set[str] = set()
    for match in alignment.matches.values():
        failures |= match.failures

    known_tools = REGISTRY.keys() | FURTHER_TOOLS | {gold.tool for gold in alignment.golds}
    serving = {alignment.calls[index].content for index in alignment.call_indices.values()}
    unknown = repeats = others = 0
    for call in alignment.spare:
        if call.tool not in known_tools and not call.is_refusal:
            unknown += 1
        elif call.content in serving:
            repeats += 1
        else:
            others += 1

    open_steps = len(alignment.golds) - len(alignment.call_indices)
    if malformed:
        failures.add("malformed_call")
    if unknown:
        failures.add("unknown_tool")
    if open_steps and others:
        failures.add("wrong_family")
    if open_steps > others + unknown + malformed:
        failures.add("missing_call")
    if repeats or others > open_steps:
        failures.add("extra_call")

    return failures


# ---- reported, not scored


def _no_steps(extra_calls: int) -> dict[str, JsonValue]:
    """Return the additional figures for an answer without steps to align."""
    return {
        "steps": [],
        "extra_calls": extra_calls,
        "call_precision": None,
        "ids_expected": 0,
        "ids_right": 0,
    }


def _detail(
    alignment: _CallAlignment, predicted: int, run_context: Mapping[str, str]
) -> dict[str, JsonValue]:
    right_calls = 0
    ids_expected = 0
    ids_right = 0
    for step, gold in enumerate(alignment.golds):
        ids = expected_ids(gold, run_context)
        ids_expected += len(ids)
        match = alignment.matches.get(step)
        if match is not None and match.tm == 1:
            call = alignment.calls[alignment.call_indices[step]]
            right_calls += 1
            ids_right += len(ids.items() & given_ids(gold, call).items())

    return {
        "steps": [_step_detail(alignment, step) for step in range(len(alignment.golds))],
        "extra_calls": predicted - len(alignment.call_indices),
        "call_precision": right_calls / predicted if predicted else None,
        "ids_expected": ids_expected,
        "ids_right": ids_right,
    }


def _step_detail(alignment: _CallAlignment, step: int) -> dict[str, JsonValue]:
    """Return the call predicted for a step (`call`, counted from 0, or None) and its scores."""
    tool = alignment.golds[step].tool
    match = alignment.matches.get(step)
    if match is None:
        return {"tool": tool, "call": None, "tm": 0.0, "pa": 0.0, "ta": 0.0}

    call = alignment.calls[alignment.call_indices[step]]
    return {
        "tool": tool,
        "call": call.index,
        "tm": float(match.tm),
        "pa": float(match.pa),
        "ta": float(match.ta),
    }
