"""A judgement as plain text that fits on one screen: a sentence to act on, then figures, then the
next step.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path

from ktdeval.cards import PARTS, count, percent
from ktdeval.runner import TEAR_SHEET
from ktdeval.stats import MIN_RETURNS, annualisation_problem
from ktdeval_judge.declared_texts import CAUSE_WORDS, declared_lines
from ktdeval_judge.document import CleanPart, Figure, JudgeFile, NavReport, Unfilled
from ktdeval_judge.evidence import ASSUMED
from ktdeval_judge.nav_parts import PARTING, REMAINDER
from ktdeval_judge.printed_figure import JudgedFigure, is_daily
from ktdeval_judge.printed_figure_texts import share_against, share_words
from ktdeval_judge.proof import file_objections, returns_for_evidence
from ktdeval_judge.shown_alpha import shown_alpha
from ktdeval_judge.unfilled import REASONS

_SHOWN = 5  #: maximum number of unfilled orders to show
_FORMS = {
    "weight": "target weights",
    "shares": "target holdings",
    "orders": "orders",
    "trades": "trades",
    "nav": "a NAV only",
}
_ROUNDING = 1e-11  #: a relative gap below this value is a float rounding error


_WIDE = 20  #: width of the column with the figures' names
_SPACINGS = {52.0: "weekly return", 12.0: "monthly return"}


def judge_lines(file: JudgeFile, folder: Path | None) -> Iterator[str]:
    """Yield the lines of a judgement. `folder` is the folder for its run, or for a NAV's files;
    None if nothing was written.
    """
    yield " ".join(headline(file))
    yield ""
    yield from _subject(file)
    yield ""
    if file.form == "nav":
        yield from _returns(file)
        yield from _luck(file)
    else:
        yield from _execution_lines(file)

    if file.clean is not None:
        yield ""
        yield from _clean(file.clean, file)

    notes = [*file.notes, *_missing(file)]
    if notes:
        yield ""
        yield from (f"note: {note}" for note in notes)
    yield ""
    yield from _next(file, folder)


def _subject(file: JudgeFile) -> Iterator[str]:
    what = _FORMS.get(file.form, file.form)
    if file.form != "nav":
        what += f" ({file.program}), {count(file.decisions, 'row')}, {count(file.codes, 'code')}"
    yield f"Judged: {file.source}: {what}"

    span = f"{file.first} … {file.last}"
    if file.returns is not None:
        span += f", {_returns_words(file)}"
    if file.market is None:
        yield f"  {span}, without a market"
    else:
        yield f"  on {file.market}, {span}, {file.currency} {file.cash:,.0f}"
    if file.form != "nav":
        yield f"  rules: {file.rules}"
        yield "  declared: how the decisions were made is not recorded, so no board ranks them"


def _returns_words(file: JudgeFile) -> str:
    """Return the number of returns as text, such as `80 daily returns`."""
    noun = _SPACINGS.get(file.returns_a_year or 0.0, "return")
    if file.returns_a_year is not None and is_daily(file.returns_a_year):
        noun = "daily return"
    return count(file.returns or 0, noun)


# ---- the sentence to act on


def headline(file: JudgeFile) -> Iterator[str]:
    """Yield the sentences that interpret the result."""
    if file.form != "nav" and file.executed_return is not None:
        yield _execution_sentence(file, file.executed_return)
    yield from _skill_sentences(file)


def _execution_sentence(file: JudgeFile, executed: Figure) -> str:
    if executed.value is None:
        return f"The executed decisions have no return: {executed.reason}."

    earned = percent(executed.value, "+.2f")
    if _is_look_ahead_chosen(file):
        return (
            f"The {earned} is not a valid result: the chosen rules fill at the close of the "
            "decision, a price that nobody can trade at."
        )

    nav = file.nav
    if nav is None and file.declared is not None:
        own = percent(file.declared.declared_value / file.cash - 1.0, "+.2f")
        return f"Executed, the decisions earn {earned}; the account in the file earns {own}."
    if nav is None:
        return f"Executed, the decisions earn {earned}."
    if nav.first_parting is None:
        return f"The claim holds: executed, the decisions earn {earned}, as claimed."

    both = f"Executed, the decisions earn {earned}, not the claimed {percent(nav.claimed_return, '+.2f')}"
    if nav.looks_ahead:
        return (
            f"{both}: the claim trades at prices from before its decisions (a look-ahead)."
            f" Quote {earned}."
        )
    if nav.is_explained and nav.parting_cause == REMAINDER:
        return (
            f"{both}. They differ by at most {percent(nav.largest_gap, '.2g')} of the account on any day,"
            " which no known cause explains."
        )
    if nav.is_explained:
        return f"{both}. The largest cause: {_cause_words(nav.parting_cause or '', nav)}."
    return f"{both}, and the known causes do not explain why."


def _is_look_ahead_chosen(file: JudgeFile) -> bool:
    return "(a look-ahead)" in file.rules


def _skill_sentences(file: JudgeFile) -> Iterator[str]:
    """Yield sentences on whether the returns are evidence of skill, and on how many would be
    needed.
    """
    if _is_too_short(file):
        yield (
            f"{_returns_words(file)} don't allow a statement about skill: at least {MIN_RETURNS} "
            "are needed, or half a year of them."
        )
        return

    found = file.evidence
    if found is None:
        if file.no_evidence is not None:
            yield f"No statement about skill is possible: {file.no_evidence}."
        return

    if found.sharpe <= 0:
        yield (
            "The Sharpe ratio is not above zero: that is not evidence of skill, however long the "
            "record."
        )
        yield from _doubt(file)
        return

    yield from _proof(file, found)


def _proof(file: JudgeFile, found: JudgedFigure) -> Iterator[str]:
    bar = found.luck
    above = "zero"
    if found.trials > 1:
        above = f"luck's ceiling of {bar.sharpe:.2f}"

    chance = (
        f"the one-sided probability that the true Sharpe ratio is above {above} is"
        f" {share_against(bar.probability, found.confidence)}"
    )
    against = file_objections(file, found, _is_look_ahead_chosen(file))
    if bar.probability >= found.confidence:
        conditions = []
        if file.trials_from == ASSUMED:
            conditions.append("no other strategy was tried")
        if file.form == "nav":
            conditions.append("its trades were possible")
        only = ""
        if conditions:
            only = f", if {' and '.join(conditions)}"
        if against:
            yield f"This is not evidence of skill: {'; '.join(against)}, although {chance}."
        else:
            yield f"This is evidence of skill{only}: {chance}."
        return

    yield f"This is not evidence of skill: {chance}, and {share_words(found.confidence)} is required."
    yield from _doubt(file)
    yield from _needed(found)


def _doubt(file: JudgeFile) -> Iterator[str]:
    if file.doubts:
        yield f"The data are in doubt, too: {'; '.join(file.doubts)}."


def _needed(found: JudgedFigure) -> Iterator[str]:
    """Yield the sentence on how many returns would be evidence."""
    record = returns_for_evidence(found)
    if record is None:
        yield "The ratio is below the ceiling, so a longer record like it would not be evidence either."
        return

    needed = f"{record / found.periods:.1f}"
    given = f"{found.days / found.periods:.1f}"
    if needed != given:
        yield f"It takes {needed} years of such returns; there are {given} years."
    else:
        yield f"It takes {math.ceil(record):,} such returns; there are {found.days:,}."


def _is_too_short(file: JudgeFile) -> bool:
    return (
        file.returns is not None
        and annualisation_problem(file.returns, file.returns_a_year) is not None
    )


# ---- figures


def _returns(file: JudgeFile) -> Iterator[str]:
    """Yield lines on the returns and risks of an account."""
    if file.claimed_return is not None:
        yield _line("Return claimed", _percent(file.claimed_return))
    yield from _drawdown(file)
    if file.market is not None:
        yield _line("Benchmark", _percent(file.benchmark_return))
        if file.alpha_a_year is not None:
            alpha = shown_alpha(file, file.alpha_a_year)
            yield _line(alpha.name, _percent(alpha.figure))
            if alpha.no_year:
                yield f"  {alpha.no_year}"
        if file.beta is not None:
            yield _line("Beta", _number(file.beta))


def _drawdown(file: JudgeFile) -> Iterator[str]:
    if file.max_drawdown is not None:
        yield _line("Maximum drawdown", _percent(file.max_drawdown).removeprefix("+"))


def _luck(file: JudgeFile) -> Iterator[str]:
    """Yield lines on the Sharpe ratio and its comparison with luck."""
    if _is_too_short(file):
        yield _line("Sharpe ratio", f"undefined: {_too_few(file.returns or 0)}")
        return

    yield _line("Sharpe ratio", _number(file.sharpe))
    if file.returns_a_year is not None:
        yield f"  annualised with {file.returns_a_year:g} returns a year (--periods)"
    if file.market is not None:
        yield _line("Information ratio", _number(file.excess_sharpe))
    if file.evidence is None and file.no_evidence is not None:
        yield _line("PSR", f"undefined: {file.no_evidence}")
        return

    psr = _number(file.psr).removeprefix("+")
    if file.psr.value is not None:
        psr += "  one-sided probability that the true Sharpe ratio is above 0"
    yield _line("PSR", psr)
    if file.evidence is not None:
        yield from _ceiling(file, file.evidence)


def _ceiling(file: JudgeFile, found: JudgedFigure) -> Iterator[str]:
    """Yield lines on the ratio that can be expected, by chance, from the best of the strategies
    tried.
    """
    if found.trials == 1:
        said = "one try is assumed (--trials N, or --study NAME to count them)"
        if file.trials_from != ASSUMED:
            said = f"one try ({file.trials_from})"
        yield _line("Deflated (DSR)", f"as PSR: {said}")
        return

    bar = found.luck
    yield _line(
        "Deflated (DSR)",
        f"{bar.probability:.2f}  one-sided probability that it is above luck's ceiling",
    )
    yield _line(
        "Luck's ceiling",
        f"{bar.sharpe:.2f}  Sharpe ratio of the best of {found.trials:,} tries without skill, on"
        " average",
    )
    spread = "as chance alone gives"
    if found.is_trial_sd_given:
        spread = (
            "as given (--trial-sd)" if file.trials_from == "--trials" else "as measured or given"
        )
    yield (
        f"  tries: {file.trials_from}; their Sharpe ratios have a standard deviation of"
        f" {found.trial_sd:.2f}, {spread}"
    )


def _line(name: str, text: str) -> str:
    return f"{name:<{_WIDE}}{text}"


def _percent(figure: Figure) -> str:
    return _show_figure(figure, 100.0, " %")


def _number(figure: Figure) -> str:
    return _show_figure(figure, 1.0, "")


def _show_figure(figure: Figure, times: float, unit: str) -> str:
    if figure.value is None:
        return f"undefined: {figure.reason}"

    text = f"{figure.value * times:+.2f}{unit}"
    if figure.low is None or figure.high is None:
        if figure.no_interval is not None:
            text += f"  (no interval: {figure.no_interval})"
        return text
    low = f"{figure.low * times:+.2f}"
    high = f"{figure.high * times:+.2f}"
    return f"{text}  (two-sided 95 % interval {low} … {high})"


# ---- decisions: executed against claimed, look-ahead, costs, luck


def _execution_lines(file: JudgeFile) -> Iterator[str]:
    if file.executed_return is not None:
        yield _line("Return as executed", _percent(file.executed_return))
    if file.claimed_return is not None:
        yield _line("Return claimed", _percent(file.claimed_return))
    yield _line("Benchmark", _percent(file.benchmark_return))
    if file.declared is not None:
        yield from declared_lines(file.declared)
    if file.nav is not None:
        yield from _nav(file.nav)
        if not _is_look_ahead_chosen(file):
            yield ""
            yield _of_look_ahead(file.nav)

    yield ""
    if file.costs is not None:
        paid = _percent(file.costs).removeprefix("+")
        yield _line("Costs", f"{paid} of the first account value: commission, duties, interest")
    yield from _describe_unfilled(file)
    if file.stale is not None:
        yield f"Assumed: {file.stale.words}."

    yield ""
    yield from _luck(file)
    yield from _drawdown(file)
    if file.selection is not None:
        yield _line("Selection", _percent(file.selection))
        yield f"  {_of_skill('selection', file.selection)}"
    if file.return_parts:
        names = [metric.partition("_")[0] for metric in PARTS]
        parts = [f"{name} {100 * file.return_parts[name]:+.2f}" for name in names]
        yield f"  parts of the return, %: {', '.join(parts)}"


def _of_look_ahead(nav: NavReport) -> str:
    fills = "fills at the same close as the decision"
    if any(part.cause == "fill_before_decision" for part in nav.parts):
        fills = "fills at the close before the decision"

    if nav.looks_ahead:
        return (
            f"LOOK-AHEAD: the claimed NAV uses {fills}: with these its daily error is "
            f"{_gap(nav.daily_error)}, with achievable fills and their best fee "
            f"{_gap(nav.achievable_error)} (root mean square). Quote the executed return. (If the "
            "file's days are the days of the fills, give --dated fill.)"
        )

    if nav.is_explained:
        return (
            "No look-ahead found in the fills: the claimed NAV requires no price that was known "
            "when deciding."
        )
    return "No look-ahead found in the fills, but the known causes do not explain the claimed NAV."


def _of_skill(name: str, figure: Figure) -> str:
    if figure.value is None:
        return f"Nothing on {name}: {figure.reason}."
    if figure.low is None or figure.high is None:
        return f"{name.capitalize()} has no interval, so it can't be distinguished from luck."
    if figure.low > 0:
        return f"The interval of {name} lies above zero."
    if figure.high < 0:
        return f"The interval of {name} lies below zero."
    return f"The interval of {name} includes zero: skill can't be distinguished from luck here."


# ---- unfilled


def _describe_unfilled(file: JudgeFile) -> Iterator[str]:
    total = sum(file.unfilled_counts.values())
    if not total:
        yield "Not filled: nothing; every decision was filled within rounding."
        return

    counts = []
    # sorted again, because a document that was read has its keys in alphabetical order
    by_count = sorted(file.unfilled_counts.items(), key=lambda item: (-item[1], item[0]))
    for reason, number in by_count:
        counts.append(f"{number:,} {REASONS.get(reason, reason)}")

    yield f"Not filled as declared: {total:,}: {'; '.join(counts)}"
    for each in largest(file.unfilled):
        part = "" if each.missing is None else f", {percent(each.missing, '.2f')} of the account"
        side = f" {each.side}" if each.side else ""
        days = each.day
        if each.until is not None:
            days = f"{each.day} … {each.until} ({each.times} times)"
        yield f"  {days} {each.code}{side}: {each.detail}{part}"


def largest(unfilled: tuple[Unfilled, ...]) -> list[Unfilled]:
    """Return the unfilled orders to show: impossible claims and unread orders first, then the
    largest orders.
    """

    def by_size(each: Unfilled) -> tuple[bool, float, str, str]:
        is_claim = each.reason in ("impossible_price", "before_decision", "short", "unknown")
        return not is_claim, -(each.missing or 0.0), each.day, each.code

    return sorted(unfilled, key=by_size)[:_SHOWN]


# ---- the claimed NAV


def _nav(nav: NavReport) -> Iterator[str]:
    claimed = percent(nav.claimed_return, "+.2f")
    executed = percent(nav.executed_return, "+.2f")
    if nav.first_parting is None:
        yield (
            f"Claimed NAV: agrees with the executed one on all {nav.days:,} days (largest gap"
            f" {percent(nav.largest_gap, '.2g')})."
        )
        return

    cause = _cause_words(nav.parting_cause or "", nav)
    yield (
        f"Claimed NAV: {claimed} against {executed} executed. They first differ by more than"
        f" {percent(PARTING, 'g')} on {nav.first_parting}. The largest part of the difference: {cause}."
    )
    total = nav.claimed_return - nav.executed_return
    for part in nav.parts:
        yield f"  {percent(part.value, '+9.3f')}  {_cause_words(part.cause, nav)}"
    yield f"  {percent(total, '+9.3f')}  in all"

    gap = percent(nav.largest_gap, ".2f")
    left = _gap(nav.remaining_gap)
    if nav.is_explained:
        yield f"  With all causes found, the largest daily gap falls from {gap} to {left}."
    else:
        yield (
            f"  The known causes leave {left} of a largest gap of {gap}; they are the nearest "
            "fit, not an explanation."
        )


def _cause_words(cause: str, nav: NavReport) -> str:
    return CAUSE_WORDS.get(cause, cause).format(fee=nav.fee_bps)


# ---- after the end of a model's training data


def _clean(clean: CleanPart, file: JudgeFile) -> Iterator[str]:
    if clean.cutoff == "none":
        yield f"Clean months: all. {clean.model} is {clean.origin}."
        return

    total = clean.before + clean.across + clean.after
    if clean.is_lower_bound:
        yield (
            f"Clean months: none for certain. {clean.model} was trained on data up to "
            f"{clean.cutoff} or later ({clean.origin}); give the day with --cutoff DAY if you "
            "know it."
        )
    else:
        yield (
            f"Clean months: {_months(clean.months)}. {clean.after:,} of {count(total, 'return')} "
            f"lie after {clean.cutoff}, the end of the training data of {clean.model} "
            f"({clean.origin})."
        )
    if clean.after:
        yield from _clean_figures(clean, file)
    yield f"  {_further_months(clean)}"


def _clean_figures(clean: CleanPart, file: JudgeFile) -> Iterator[str]:
    yield f"  from {clean.first} on:"
    yield "  " + _line("Return", _percent(clean.total_return))
    yield "  " + _line("Maximum drawdown", _percent(clean.max_drawdown).removeprefix("+"))
    if annualisation_problem(clean.after, file.returns_a_year) is not None:
        yield "  " + _line("Sharpe ratio", f"undefined: {_too_few(clean.after)}")
        return
    yield "  " + _line("Sharpe ratio", _number(clean.sharpe))
    yield "  " + _line("PSR", _number(clean.psr).removeprefix("+"))


def _too_few(returns: int) -> str:
    verb = "is" if returns == 1 else "are"
    return f"{count(returns, 'return')} {verb} too few"


def _months(months: float | None) -> str:
    return "unknown" if months is None else f"{months:.1f}"


def _further_months(clean: CleanPart) -> str:
    """Return a sentence on how many more clean months are needed until the Sharpe ratio is
    significantly above zero.
    """
    ratio = "their Sharpe ratio"
    if clean.months_needed_by == "whole":
        ratio = "the Sharpe ratio of the whole period"

    needed = clean.months_needed
    if needed.value is None:
        if needed.reason and "never" in needed.reason:
            return f"No number of further months is enough: {ratio} is not above zero."
        return f"How many further months are needed is unknown: {needed.reason}."
    if needed.value == 0:
        return f"These months are enough: {ratio} is above zero at 95 % (one-sided)."
    return (
        f"{count(math.ceil(needed.value), 'further month')} are needed until {ratio} is above zero"
        " at 95 % (one-sided)."
    )


# ---- what is missing, and what to do next


def _missing(file: JudgeFile) -> Iterator[str]:
    """Yield lines on the figures that would need decisions or a market."""
    if file.form == "nav":
        yield "A NAV has no holdings: selection, costs and look-ahead need the decisions"
    if file.market is None:
        yield "No benchmark, alpha or beta: name the market with --data"


def _next(file: JudgeFile, folder: Path | None) -> Iterator[str]:
    if folder is not None:
        yield f"folder  {folder}"
    if folder is not None:
        page = str(folder / TEAR_SHEET)
        if not Path(page).exists():
            page = f"none: a tear sheet needs {MIN_RETURNS} daily returns or more"
        yield f"page    {page}"
    yield f"next    {_next_step(file, folder)}"


def _next_step(file: JudgeFile, folder: Path | None) -> str:
    """Return the next step for the user."""
    if _is_look_ahead_chosen(file):
        return "judge it again with an achievable fill, such as --set fill=next_open"
    if file.nav is not None and file.nav.looks_ahead:
        return (
            "fill one session after the decision in your program, and judge the new NAV (if the "
            "file's days are the days of the fills: --dated fill)"
        )
    if _is_too_short(file):
        return "judge a longer record"
    if file.form == "nav" and any("a deposit" in doubt for doubt in file.doubts):
        return "name deposits and withdrawals with --flows, or correct the days named above"
    if file.form != "nav" and folder is not None:
        return f"ktdeval compare luck {shlex.quote(str(folder))} --players 10000"
    if file.trials_from == ASSUMED:
        return (
            "give the number of strategies tried with --trials N, or count them with --study NAME"
        )
    return "judge the decisions behind it: ktdeval judge DECISIONS --nav NAV --data MARKET"


def _gap(share: float | None) -> str:
    """Return a gap between two NAVs in per cent. A gap that is only a rounding error is shown as
    0.
    """
    if share is None:
        return "an unknown part"
    if share < _ROUNDING:
        return "0 %"
    return percent(share, ".2g")
