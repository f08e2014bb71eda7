"""Sentences about a board, made last from its figures.

An interval that holds zero is no evidence of skill, nor are days that are not shown to have been
published before their prices. A sentence never says more than its figure.
"""

from __future__ import annotations

from ktdeval_published.report import BoardReport, CellEffect, EntrantReport, IntervalEstimate
from ktdeval_published.words import count_words, list_words, money, number, percent

_KEPT_BPS = 5.0
_MAX_SHOWN = 3  #: entrants that a sentence lists


def sentence_of(report: BoardReport) -> str:
    """Return the one sentence on top of a board."""
    if report.cells:
        return _cells_sentence(report)
    if not _readable(report):
        return "No entrant could be read, so nothing is shown."

    rival = next((one for one in report.beats if one.what == "index"), None)
    rival = rival or next((one for one in report.beats if one.what == "holding"), None)
    if rival is None:
        return (
            "No entrant is shown to have skill, as these days allow no comparison;"
            f" {_live_clause(report)}."
        )
    if not rival.beat:
        subject = "No entrant is" if rival.entrants > 1 else "The account is not"
        return (
            f"{subject} shown to beat {rival.name}{_power_clause(report)}; {_live_clause(report)}."
        )

    before = sum(one.live.before for one in report.entrants if one.live is not None)
    if not before or _is_doubtful(report):
        return (
            f"{rival.beat} of {rival.entrants} entrants are ahead of {rival.name} after Holm's"
            f" correction, but {_live_clause(report)}, so this is no evidence of skill."
        )
    return (
        f"{rival.beat} of {rival.entrants} entrants are ahead of {rival.name} after Holm's"
        f" correction; {_live_clause(report)}."
    )


def _is_doubtful(report: BoardReport) -> bool:
    """Return whether most days are not shown to be published before their prices."""
    lives = [one.live for one in report.entrants if one.live is not None]
    before = sum(live.before for live in lives)
    return before < sum(live.after + live.unknown for live in lives)


def _cells_sentence(report: BoardReport) -> str:
    ahead = [one.name for one in report.cells if _side(one.mean) > 0]
    behind = [one.name for one in report.cells if _side(one.mean) < 0]
    means = list_words([f"{one.name} {_cell_words(one)}" for one in report.cells])
    if ahead:
        return (
            f"In a backtest whose days were all known, {list_words(ahead)} ended ahead of holding the"
            f" same stock: {means}."
        )
    if len(behind) == len(report.cells):
        verb = "falls" if len(behind) == 1 else "fall"
        names = list_words([one.name for one in report.cells])
        return f"On average {names} {verb} short of holding the same stock: {means}."
    return f"No strategy is shown to beat holding the same stock: {means}."


def _cell_words(one: CellEffect) -> str:
    low, high = one.mean.low, one.mean.high
    return (
        f"{percent(one.mean.value, signed=True)} a window on average"
        f" ({percent(low, signed=True)} to {percent(high, signed=True)})"
    )


def _side(estimate: IntervalEstimate) -> int:
    """Return 1 for an interval above zero, -1 below, 0 if it holds zero or is missing."""
    if estimate.low is None or estimate.high is None:
        return 0
    if estimate.low > 0:
        return 1
    return -1 if estimate.high < 0 else 0


def _power_clause(report: BoardReport) -> str:
    if report.power is None or report.power.detectable is None:
        return ""
    return (
        f" in {report.power.days} days, which can show only a Sharpe ratio of about"
        f" {report.power.detectable:.1f} or more"
    )


def _live_clause(report: BoardReport) -> str:
    lives = [one.live for one in report.entrants if one.live is not None]
    before = sum(live.before for live in lives)
    after = sum(live.after for live in lives)
    unknown = sum(live.unknown for live in lives)
    total = before + after + unknown
    if not total:
        return "when it was published is unknown"
    if before:
        return f"{before} of {total} entrant-days are shown to be published before their prices"
    if after > unknown:
        return f"{after} of {total} entrant-days are dated after their prices, none is shown before"
    return f"no entrant-day of {total} is shown to be published before its prices"


def finding_texts(report: BoardReport) -> tuple[str, ...]:
    """Return what was found, one sentence each, in the order of the questions."""
    texts = [
        *_declared_texts(report),
        *_live_texts(report),
        *_fill_texts(report),
        *_data_texts(report),
        *_log_texts(report),
        *_luck_texts(report),
        *_cost_texts(report),
        *_capacity_texts(report),
        *_cutoff_texts(report),
        *_power_texts(report),
        *_cell_texts(report),
        *_arm_texts(report),
    ]
    return (*texts, f"Cost of the models: {report.call_costs}")


def _readable(report: BoardReport) -> list[EntrantReport]:
    return [one for one in report.entrants if not one.problem]


def _declared_texts(report: BoardReport) -> list[str]:
    texts = [f"{one.name} can't be read: {one.problem}" for one in report.entrants if one.problem]
    both = [
        (one.declared.gain, one.executed.gain)
        for one in report.entrants
        if one.declared is not None and one.executed is not None
        if one.declared.gain is not None and one.executed.gain is not None
    ]
    if both:
        gaps = [executed - declared for declared, executed in both]
        lost = sum(declared > 0 >= executed for declared, executed in both)
        gains = sum(declared > 0 for declared, _ in both)
        text = (
            f"Executed less declared result: {money(min(gaps), signed=True)} to"
            f" {money(max(gaps), signed=True)} {report.currency}"
        )
        if gains:
            text += f"; {gains - lost} of {count_words(gains, 'declared gain')} remain"
        texts.append(f"{text}.")
    if report.kendall_tau is not None:
        texts.append(
            f"Ranks by declared and by executed result agree with Kendall's tau"
            f" {report.kendall_tau:.2f} over {report.kendall_n} entrants."
        )
    residuals = [abs(one.residual) for one in report.entrants if one.residual is not None]
    if residuals:
        texts.append(
            f"The entrants' own rows leave at most {money(max(residuals))} {report.currency} of a"
            " declared result unexplained."
        )
    return texts


def _live_texts(report: BoardReport) -> list[str]:
    lives = [one.live for one in report.entrants if one.live is not None]
    if not lives:
        return [f"Publication: {report.published_by}"] if report.published_by else []
    before, after = (sum(getattr(live, side) for live in lives) for side in ("before", "after"))
    unknown = sum(live.unknown for live in lives)
    source = report.published_by.rstrip(".")
    texts = [
        f"Published before {report.deadline or 'its prices'}: {before} entrant-days; after:"
        f" {after}; unknown: {unknown} ({source})."
    ]
    known = [live.sharpe_before for live in lives if live.sharpe_before.low is not None]
    if known:
        above = sum(_side(one) > 0 for one in known)
        texts.append(
            f"On the days published before, the interval of the Sharpe ratio lies above zero for"
            f" {above} of {len(known)} entrants."
        )
    elif before:
        most = max(live.before for live in lives)
        texts.append(
            f"The days published before are at most {most} an entrant: too few for a Sharpe ratio."
        )
    return texts


def _fill_texts(report: BoardReport) -> list[str]:
    fills = [one.fills for one in report.entrants if one.fills is not None]
    if not fills:
        return []
    counts: dict[str, int] = {}
    breaches: dict[str, int] = {}
    for one in fills:
        for name, count in one.counts.items():
            counts[name] = counts.get(name, 0) + count
        for name, count in one.breaches.items():
            breaches[name] = breaches.get(name, 0) + count

    orders = sum(one.orders for one in fills)
    shares = ", ".join(
        f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1])
    )
    texts = [f"Prices of {orders} fills, inferred from cash and quantity: {shares}."]
    worth = [one.stale_worth for one in fills if one.stale_worth is not None]
    if any(abs(value) >= 0.005 for value in worth):
        texts.append(
            "Fills at other prices than the first one after the decision were worth"
            f" {money(min(worth), signed=True)} to {money(max(worth), signed=True)}"
            f" {report.currency} an entrant."
        )
    if breaches:
        broken = list_words([f"{name} in {count}" for name, count in sorted(breaches.items())])
        texts.append(f"Fills that the venue's rules forbid: {broken} of {orders}.")
    return texts


def _data_texts(report: BoardReport) -> list[str]:
    texts = []
    for one in report.data:
        text = f"Data, {one.kind} ({one.count:,}): {one.detail}"
        texts.append(f"{text}; {one.effect}." if one.effect else f"{text}.")
    return texts


def _log_texts(report: BoardReport) -> list[str]:
    logs = [one.logs for one in report.entrants if one.logs is not None]
    if not logs:
        return []
    total = sum(one.logs for one in logs)
    silent = sum(one.silent for one in logs)
    dated = sum(one.with_dated for one in logs)
    texts = [
        f"Logs: {dated} of {total} show a document that states to be published after the day of the"
        f" decision; {silent} hold only a request and an answer, so they can't tell."
    ]
    texts += _later_document_texts(report)
    reasons = sorted({one.reason for one in logs if one.reason})
    if reasons:
        return [*texts, f"The logs were not searched for later days: {reasons[0]}."]
    later = sum(one.with_later for one in logs)
    return [*texts, f"In {later} of {total} logs a tool's result names a day after the decision."]


def _later_document_texts(report: BoardReport) -> list[str]:
    """Return which arms and entrants were shown documents of later days."""
    by_arm: dict[str, list[int]] = {}
    shown = []
    for one in report.entrants:
        if one.logs is None:
            continue
        counts = by_arm.setdefault(one.arm, [0, 0])
        counts[0] += one.logs.with_dated
        counts[1] += one.logs.logs
        if one.logs.with_dated:
            shown.append((one.logs.with_dated, f"{one.name} {one.logs.with_dated}"))

    texts = []
    if len(by_arm) > 1:
        arms = list_words([f"{arm} {dated} of {logs}" for arm, (dated, logs) in by_arm.items()])
        texts.append(f"Such logs by arm: {arms}.")
    if shown:
        most = [text for _, text in sorted(shown, key=lambda item: -item[0])[:_MAX_SHOWN]]
        texts.append(f"Most such logs: {list_words(most)}.")
    return texts


def _luck_texts(report: BoardReport) -> list[str]:
    texts = []
    if report.best.value is not None and report.best.low is not None:
        texts.append(
            f"Best: {report.best_name} with a Sharpe ratio of {report.best.value:.2f}"
            f" ({report.best.low:.2f} to {report.best.high:.2f}, 95 %)"
            + (
                f"; the best of {len(_readable(report))} independent tries"
                f" without skill would reach {report.ceiling:.2f} on average."
                if report.ceiling is not None
                else "."
            )
        )
    texts += [*_probability_texts(report), *_selection_texts(report)]
    for one in report.beats:
        if one.what == "random":
            texts.append(_random_text(report))
            continue
        texts.append(
            f"Against {one.name}: {one.ahead} of {one.entrants} ahead, {one.beat} at 5 % after"
            " Holm's correction."
        )
    return texts


def _probability_texts(report: BoardReport) -> list[str]:
    psr = [one.luck.psr for one in report.entrants if one.luck.psr is not None]
    dsr = [one.luck.dsr for one in report.entrants if one.luck.dsr is not None]
    if not psr or len(dsr) < 2:
        return []
    return [
        f"One-sided probability of a positive Sharpe ratio at least 95 %: {_many(psr)} of"
        f" {len(psr)} as an only try (PSR), {_many(dsr)} of {len(dsr)} as one of all entrants (DSR)."
    ]


def _many(values: list[float]) -> int:
    return sum(value >= 0.95 for value in values)


def _selection_texts(report: BoardReport) -> list[str]:
    found = [one.selection for one in report.entrants if one.selection is not None]
    if not found:
        return []
    values = [one.value for one in found if one.value is not None]
    above = sum(_side(one) > 0 for one in found)
    return [
        f"Selection, the gain that neither the market nor nine styles explain:"
        f" {money(min(values), signed=True)} to {money(max(values), signed=True)}"
        f" {report.currency}; its interval lies above zero for {above} of {len(found)} entrants,"
        " without a correction for their number."
    ]


def _random_text(report: BoardReport) -> str:
    """Return the sentence about random names. Names that are chosen together move together, so a
    rank at either end shows a common bet, not skill.
    """
    ranks = [one.luck.random_rank for one in report.entrants if one.luck.random_rank is not None]
    high = sum(rank >= 0.975 for rank in ranks)
    low = sum(rank <= 0.025 for rank in ranks)
    return (
        f"Against random names of the same turnover, {high} of {len(ranks)} rank among the best"
        f" 2.5 % and {low} among the worst; names that move together reach both ends without skill."
    )


def _cost_texts(report: BoardReport) -> list[str]:
    texts = []
    names: dict[str, list[EntrantReport]] = {}
    for one in report.entrants:
        for ladder in one.costs:
            names.setdefault(ladder.name, []).append(one)
    for name, entrants in names.items():
        ladders = [ladder for one in entrants for ladder in one.costs if ladder.name == name]
        before = sum(ladder.steps[0].gain > 0 for ladder in ladders)
        after = sum(
            step.gain > 0 for ladder in ladders for step in ladder.steps if step.bps == _KEPT_BPS
        )
        texts.append(
            f"Costs ({name}): {count_words(before, 'gain')} before costs, {after} at"
            f" {_KEPT_BPS:g} basis points a side."
        )
    return texts


def _capacity_texts(report: BoardReport) -> list[str]:
    found = [one.capacity for one in report.entrants if one.capacity is not None]
    if not found:
        return []
    return [
        "Capacity, the size at which 95 % of the fills are at most 1 % of the volume of their bar:"
        f" {min(found):,.0f} to {max(found):,.0f} {report.currency}."
    ]


def _cutoff_texts(report: BoardReport) -> list[str]:
    known = [one.cutoff for one in report.entrants if one.cutoff is not None]
    if not known:
        return []
    clean, likely, no, unknown = (
        sum(getattr(one, name) for one in known) for name in ("clean", "likely", "no", "unknown")
    )
    return [
        f"Entrant-days after the end of the model's training data: {clean} for certain, {likely}"
        f" likely, {no} not, {unknown} unknown."
    ]


def _power_texts(report: BoardReport) -> list[str]:
    power = report.power
    if power is None:
        return []
    return [
        f"A test at 5 % with power 0.8 needs {power.days_for_one:,} days for a Sharpe ratio of 1"
        f" and {power.days_for_two:,} for 2; the longest entrant has {power.days}."
    ]


def _cell_texts(report: BoardReport) -> list[str]:
    return [
        f"{one.name}: {_cell_words(one)}, over {one.cells} cells in {one.windows} windows"
        f" ({one.clusters} start years); median {percent(one.median, signed=True)}, ahead in"
        f" {percent(one.beats)}, equity that never moved in {percent(one.equal)};"
        f" without its best 1 % the mean is {percent(one.mean_without_top, signed=True)}."
        f" Stated returns are off in {one.stated_off} cells, by up to {percent(one.stated_gap)}."
        for one in report.cells
    ]


def _turnover_words(turnover: IntervalEstimate) -> str:
    text = f"{number(turnover.value, 1, signed=True)} times the capital"
    if turnover.low is None:
        return text
    low, high = number(turnover.low, 1, signed=True), number(turnover.high, 1, signed=True)
    return f"{text} ({low} to {high})"


def _arm_texts(report: BoardReport) -> list[str]:
    texts = []
    for one in report.arms:
        side = _side(one.total_return)
        shown = "no effect on it is shown" if not side else "its interval excludes zero"
        low, high = one.total_return.low, one.total_return.high
        interval = "no interval with so few pairs"
        if low is not None:
            interval = f"{percent(low, signed=True)} to {percent(high, signed=True)}"
        else:
            shown = "no effect on it is shown"
        look = f" Look-ahead: {one.look_ahead}." if one.look_ahead else ""
        texts.append(
            f"Arm {one.arm} against {one.base}, {count_words(one.pairs, 'pair')}: return"
            f" {percent(one.total_return.value, signed=True)} ({interval}); {shown}. Traded amount:"
            f" {_turnover_words(one.turnover)}.{look}"
        )
    return texts
