"""A judgement in words, on one screen: what was judged, what it earned, what one may say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from ktdeval.cards import PARTS
from ktdeval_judge.document import Figure, JudgeFile, NavReport, Unfilled
from ktdeval_judge.nav_parts import PARTING
from ktdeval_judge.unfilled import REASONS

_SHOWN = 5  #: unfilled orders
_FORMS = {
    "weight": "target weights",
    "shares": "target holdings",
    "orders": "orders",
    "trades": "trades",
    "nav": "a NAV only",
}
CAUSE_WORDS = {
    "costs": "costs not charged",
    "fitted_fee": "a fee of {fee:.3g} bps of what is traded, fitted to the claim",
    "declared_fees": "fees of the file charged instead",
    "rebalancing": "weights reached anew every day",
    "sizing": "shares sized at the close of the decision",
    "fill_at_declared": "the declared prices of fills",
    "fill_at_open": "fills at the next open",
    "fill_at_close": "fills at the next close",
    "fill_at_decision": "fills at the close of the decision",
    "fill_before_decision": "fills at the close before the decision",
    "limits": "T+1, price limits, halts, universe and cash ignored",
    "lots": "lots, whole shares and sides of orders ignored",
    "dividends": "splits and dividends not booked",
    "remainder": "remainder",
}
"""Cause of `ktdeval_judge.nav_parts` -> words."""
_ROUNDING = 1e-11  #: relative gap that sums of binary fractions make


def judge_lines(file: JudgeFile, folder: Path | None) -> Iterator[str]:
    """Yield the lines of a judgement; `folder`: of its run, None of a NAV."""
    yield f"Judged: {_subject(file)}"
    if file.market is None:
        yield f"  {file.first} … {file.last}, without a market"
    else:
        yield f"  on {file.market}, {file.first} … {file.last}, {file.currency} {file.cash:,.0f}"
    yield f"  rules: {file.rules}"
    yield "  declared: made elsewhere, how is not recorded; never ranked where models are recorded"
    yield ""
    yield from _results(file)
    yield ""
    yield "What one may say"
    yield from (f"  {line}" for line in _verdicts(file))

    if file.form != "nav":
        yield ""
        yield from _describe_unfilled(file)
    if file.nav is not None:
        yield ""
        yield from _nav(file.nav)

    if file.notes:
        yield ""
        yield from (f"note: {note}" for note in file.notes)
    if folder is not None:
        yield ""
        yield from _next(folder)


def _subject(file: JudgeFile) -> str:
    if file.form == "nav":
        return f"{file.source}: {_FORMS[file.form]}"

    return (
        f"{file.source}: {_FORMS.get(file.form, file.form)} ({file.program}),"
        f" {file.decisions:,} rows, {_count(file.codes, 'code')}"
    )


# ---- results


def _results(file: JudgeFile) -> Iterator[str]:
    if file.executed_return is not None:
        yield f"Return as executed  {_percent(file.executed_return)}"
    if file.claimed_return is not None:
        yield f"Return claimed      {_percent(file.claimed_return)}"

    if file.market is not None:
        yield f"Benchmark           {_percent(file.benchmark_return)}"
    if file.selection is not None:
        yield f"Selection           {_percent(file.selection)}"
    if file.return_parts:
        names = [metric.partition("_")[0] for metric in PARTS]
        parts = [f"{name} {100 * file.return_parts[name]:+.2f}" for name in names]
        yield f"  of the return, %: {', '.join(parts)}"
    if file.market is not None and file.alpha_a_year is not None:
        yield f"Alpha a year        {_percent(file.alpha_a_year)}"
    if file.market is not None and file.beta is not None:
        yield f"Beta                {_number(file.beta)}"

    yield f"Sharpe ratio        {_number(file.sharpe)}"
    if file.market is not None:
        yield f"Information ratio   {_number(file.excess_sharpe)}"
    yield f"PSR                 {_number(file.psr).removeprefix('+')}"
    if file.returns_a_year is not None:
        yield f"  annualised with {file.returns_a_year:g} returns a year (--periods)"


def _percent(figure: Figure) -> str:
    return _show_figure(figure, 100.0, " %")


def _number(figure: Figure) -> str:
    return _show_figure(figure, 1.0, "")


def _show_figure(figure: Figure, times: float, unit: str) -> str:
    if figure.value is None:
        return f"undefined: {figure.reason}"

    text = f"{figure.value * times:+.2f}{unit}"
    if figure.low is None or figure.high is None:
        return text
    low = f"{figure.low * times:+.2f}"
    high = f"{figure.high * times:+.2f}"
    return f"{text}  (95 % interval {low} … {high})"


# ---- verdicts


def _verdicts(file: JudgeFile) -> Iterator[str]:
    is_chosen = "(a look-ahead)" in file.rules
    if file.nav is not None and not is_chosen:
        yield _of_look_ahead(file.nav)

    if is_chosen:
        yield (
            "The chosen rules fill at the close of the decision, which nobody can trade: the executed"
            " return repeats the claim and does not test it."
        )

    skill = file.selection if file.selection is not None else file.alpha_a_year
    name = "selection" if file.selection is not None else "alpha"
    if skill is not None and file.market is not None:
        yield _of_skill(name, skill)

    yield from _of_length(file)
    if file.form == "nav":
        yield (
            "A NAV has no holdings: selection, style, trading costs and random players can't be"
            " computed. Give decisions or trades for these."
        )
    if file.market is None:
        yield "No benchmark, alpha, beta or information ratio: name the market with --data."


def _of_look_ahead(nav: NavReport) -> str:
    fills = "fills at the same close as the decision"
    if any(part.cause == "fill_before_decision" for part in nav.parts):
        fills = "fills at the close before the decision"

    if nav.looks_ahead:
        return (
            f"LOOK-AHEAD: the claimed NAV uses {fills}: with these its days are off by"
            f" {_gap(nav.daily_error)}, with fills that a trader can have and their best fee by"
            f" {_gap(nav.achievable_error)} (root mean square). The executed return is the one to"
            " quote. (If the file's days are those of the fills, say --dated fill.)"
        )

    if nav.is_explained:
        return (
            "No look-ahead found in the fills: the claimed NAV needs no price known when deciding."
        )
    return (
        "No look-ahead found in the fills, but the causes that are known do not explain the claimed"
        " NAV."
    )


def _of_skill(name: str, figure: Figure) -> str:
    if figure.value is None:
        return f"Nothing on {name}: {figure.reason}."
    if figure.low is None or figure.high is None:
        return f"{name.capitalize()} has no interval, so it can't be distinguished from luck."
    if figure.low > 0:
        return f"The interval of {name} lies above zero."
    if figure.high < 0:
        return f"The interval of {name} lies below zero."
    return f"The interval of {name} includes zero: skill can't be told from luck here."


def _of_length(file: JudgeFile) -> Iterator[str]:
    needed = file.years_needed
    if needed.value is not None:
        yield (
            f"Such a Sharpe ratio needs {needed.value:.1f} years to be above zero at 95 %, if this"
            " was the only trial; more trials need more."
        )
    elif needed.reason and "never" in needed.reason:
        yield "The Sharpe ratio is not positive: no length of record makes it so."


# ---- unfilled


def _describe_unfilled(file: JudgeFile) -> Iterator[str]:
    total = sum(file.unfilled_counts.values())
    if not total:
        yield "Not filled: nothing; every decision was filled within rounding."
        return

    counts = []
    for reason, count in file.unfilled_counts.items():
        counts.append(f"{count:,} {REASONS.get(reason, reason)}")

    yield f"Not filled as declared: {total:,}: {'; '.join(counts)}"
    for each in largest(file.unfilled):
        part = "" if each.missing is None else f", {100 * each.missing:.2f} % of the account"
        side = f" {each.side}" if each.side else ""
        yield f"  {each.day} {each.code}{side}: {each.detail}{part}"


def largest(unfilled: tuple[Unfilled, ...]) -> list[Unfilled]:
    """Return those to show: what no market gives first, then the largest."""

    def by_size(each: Unfilled) -> tuple[bool, float, str, str]:
        is_claim = each.reason in ("impossible_price", "before_decision", "short")
        return not is_claim, -(each.missing or 0.0), each.day, each.code

    return sorted(unfilled, key=by_size)[:_SHOWN]


# ---- the claimed NAV


def _nav(nav: NavReport) -> Iterator[str]:
    claimed = f"{100 * nav.claimed_return:+.2f} %"
    executed = f"{100 * nav.executed_return:+.2f} %"
    if nav.first_parting is None:
        yield (
            f"Claimed NAV: agrees with the executed one on all {nav.days:,} days (largest gap"
            f" {100 * nav.largest_gap:.2g} %)."
        )
        return

    cause = _cause_words(nav.parting_cause or "", nav)
    yield (
        f"Claimed NAV: {claimed} against {executed} executed. They first differ by more than"
        f" {100 * PARTING:g} % on {nav.first_parting}. The largest part of the difference: {cause}."
    )
    total = nav.claimed_return - nav.executed_return
    for part in nav.parts:
        yield f"  {100 * part.value:+9.3f} %  {_cause_words(part.cause, nav)}"
    yield f"  {100 * total:+9.3f} %  in all"

    gap = f"{100 * nav.largest_gap:.2f} %"
    left = _gap(nav.remaining_gap)
    if nav.is_explained:
        yield f"  With these the largest gap of a day falls from {gap} to {left}."
    else:
        yield (
            f"  The causes that are known leave {left} of a largest gap of {gap}: they are the"
            " nearest, not an explanation."
        )


def _cause_words(cause: str, nav: NavReport) -> str:
    return CAUSE_WORDS.get(cause, cause).format(fee=nav.fee_bps)


# ---- what to run next


def _next(folder: Path) -> Iterator[str]:
    run = shlex.quote(str(folder))
    yield f"run     {folder}"
    yield f"luck    ktdeval compare luck {run} --players 10000"
    yield f"size    ktdeval transplant {run}"
    yield f"verify  ktdeval card verify {run}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _gap(share: float | None) -> str:
    """Return a gap between two NAVs in per cent; one of rounding errors alone is 0."""
    if share is None:
        return "an unknown part"
    if share < _ROUNDING:
        return "0 %"
    return f"{100 * share:.2g} %"
