"""Prompt texts: the files that make up a task's prompts, and the text about venues, boards and
decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from ktdeval.harness import join_parts
from ktdeval.market import (
    FILLS_OF_MINUTES,
    Execution,
    Venue,
    active_execution,
    duty_rows,
    execution_words,
)
from ktdeval.trading import BoardRuleSet, MarketRules, TradingConfig, has_dated_duties
from ktdeval.values import load_yaml
from ktdeval_markets.config import MarketConfig

_FOLDER = Path(__file__).parent
_WORDS = "wording.yaml"
_WEIGHTS = "weights.yaml"
_DUTIES = "duties.yaml"
_WITHIN_DAY = "fills_within_day.yaml"
_USER = "prompts/user.md"
_OLDER = "prompts/older_closes.md"
_LESSON = "prompts/lesson.md"
_COARSE = "prompts/coarse.md"
_COMPACT = "prompts/compact.md"
_CLOSE = "prompts/sell_close.md"
_EXIT = "prompts/exit.md"
_EXECUTION = "prompts/execution.md"
_LIMIT = "prompts/limit.md"
_LIMIT_COSTS = "prompts/limit_costs.md"
# tables that an option adds, with their descriptions
_TABLES = {"intraday": "prompts/intraday.md", "history": "prompts/history.md"}


# ---- files


@cache
def text(name: str) -> str:
    """Return the text of a file that ships with the package (a constant, so it is read once)."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _read_words() -> dict[str, Any]:
    return load_yaml(_FOLDER / _WORDS)


def files_of(config: MarketConfig) -> tuple[str, ...]:
    """Return the names of the files that make up a task's prompts, rules first. Cards record the
    hashes of these files.
    """
    files = [_rules_file(config)]
    if config.weights:
        files.append(_WEIGHTS)
    files += [_submission_file(config), _USER, _WORDS]

    further = {
        _DUTIES: may_pay_duties(config),
        _WITHIN_DAY: config.trading.fill in FILLS_OF_MINUTES,
        **{name: getattr(config, option) for option, name in _TABLES.items()},
        _OLDER: config.older_closes > 0,
        _COARSE: config.mask_config.is_coarse,
        _COMPACT: config.is_compact,
        _LESSON: config.warm_up,
        _CLOSE: config.sell,
        _EXIT: config.exit,
        _LIMIT: config.trading.limit_orders,
        _LIMIT_COSTS: config.trading.limit_orders,
        _EXECUTION: bool(_executions(config.trading.rules("trading"), ())),
    }
    return (*files, *(name for name, is_used in further.items() if is_used))


def _executions(trading: TradingConfig, venues: Iterable[Venue]) -> dict[Execution, None]:
    """Return the distinct execution models in force on these venues: the task's own, or else those
    of the venues.
    """
    chosen = [trading.execution]
    if trading.execution is None:
        known = [trading.venue] if trading.venue is not None else venues
        chosen = [venue.execution for venue in known]

    active = filter(None, map(active_execution, chosen))
    return dict.fromkeys(active)


def may_pay_duties(config: MarketConfig) -> bool:
    """Return whether a task's fills may pay duties at the rates of the day on which they happen."""
    if config.trading.venue is None:  # each asset trades under the rules of its own venue
        return True

    rules = config.trading.rules("trading")
    return rules.venue is not None and has_dated_duties(rules.venue, rules)


def _rules_file(config: MarketConfig) -> str:
    return "prompts/portfolio.md" if config.weights else f"prompts/{config.answers}.md"


def _submission_file(config: MarketConfig) -> str:
    return f"prompts/submit_{config.answers}.md"


# ---- prompts


def day_prompt(day: str, step: int, state: str) -> str:
    """Return the prompt that shows a day."""
    return Template(text(_USER)).substitute(date_label=day, step=step, state=state)


def lesson_prompt(day: str, state: str) -> str:
    """Return the question about a warm-up day."""
    return Template(text(_LESSON)).substitute(date_label=day, state=state)


def request_prompt(config: MarketConfig) -> str:
    """Return the closing request of a step."""
    return str(_read_words()["request"][config.answers])


def submission_prompt(config: MarketConfig, rules: MarketRules) -> str:
    """Return the instructions for submitting decisions or orders."""
    submission = Template(text(_submission_file(config))).substitute(
        hold_confidence=_hold_confidence(config),
        known_rules=_known_rules(config, rules),
        least_weight=-1 if rules.shorts else 0,
        schema_retries=config.harness.schema_retries,
        min_reason_chars=config.harness.min_reason_chars,
    )
    if not config.trading.limit_orders:
        return submission

    limits = text(_LIMIT)
    if any(terms.execution for terms in rules.terms):
        limits += text(_LIMIT_COSTS)
    return join_parts(submission, limits)


def _hold_confidence(config: MarketConfig) -> str:
    """Describe what the confidence of a HOLD means, and which confidences are scored."""
    words = _read_words()
    scored = words["not_scored" if config.weights else "scored"]
    return f"{words['hold_confidence'][config.hold]} {scored}"


def _known_rules(config: MarketConfig, rules: MarketRules) -> str:
    """Describe which rules a submission must meet as a whole at the close shown; empty if orders
    are checked only when they execute.
    """
    if not config.trading.constraint_feedback:
        return ""

    or_short = " and can't be sold short" if rules.shorts else ""
    return f" {Template(_read_words()['known_rules']).substitute(or_short=or_short)}"


def rules_prompt(
    config: MarketConfig,
    trading: TradingConfig,
    rules: MarketRules,
    venues: Mapping[str, Venue],
    length: str,
) -> str:
    """Return a task's rules on these venues.

    The rules name no asset and no cost that depends on the day, so every mask may show them.
    `length`: the episode's length, as far as the mask may reveal it.
    """
    words = _read_words()
    shows_days = not config.mask_config.hides_dates
    lines = [venue_line(venue, trading, shows_days) for venue in venues.values()]
    lines += board_lines(config.trading.board_rules, venues.values())

    weights = ""
    if config.weights:
        weights = load_yaml(_FOLDER / _WEIGHTS)[config.weights]

    rules_text = Template(text(_rules_file(config))).substitute(
        currency=rules.currency,
        initial_cash=f"{trading.initial_cash:,}",
        length=length,
        row_order=_row_order(config),
        fill=_fill(venues.values(), trading),
        shorts=words["shorts" if rules.shorts else "long_only"],
        or_short=" or sold short" if rules.shorts else "",
        cover="; what was sold short is bought back before" if rules.shorts else "",
        news=_state_words(config),
        hold=words["hold"][config.hold],
        weights=weights,
        sell=_sell(config, rules.shorts),
        venues="\n".join(lines),
        max_positions=trading.max_positions,
        max_weight_pct=f"{trading.max_weight * 100:g}",
    )
    executions = _executions(trading, venues.values())
    if not executions:
        return rules_text

    fills = "\n".join(map(execution_words, executions))
    return f"{rules_text.rstrip()}\n\n{Template(text(_EXECUTION)).substitute(execution=fills)}"


def _row_order(config: MarketConfig) -> str:
    """Describe the row order of each table in the task, as prompt text."""
    orders = _read_words()["row_order"]
    options = [name for name in ("news", "history", "intraday") if getattr(config, name)]
    parts = [orders[name] for name in ("positions", *options, "last_step", "rest")]
    listed = f"{', '.join(parts[:-1])}; {parts[-1]}."
    return listed[0].upper() + listed[1:]


def _fill(venues: Collection[Venue], trading: TradingConfig) -> str:
    """Describe when orders fill, as prompt text."""
    fills = {venue.fill for venue in venues}
    key = "mixed" if len(fills) > 1 else next(iter(fills))
    if not fills & FILLS_OF_MINUTES:
        return str(_read_words()["fill"][key])

    words = load_yaml(_FOLDER / _WITHIN_DAY)
    caps = [each.max_participation for each in _executions(trading, venues)]
    if any(caps):
        return f"{words[key]} {words['cap']}"
    return str(words[key])


def _state_words(config: MarketConfig) -> str:
    """Describe what the state shows in addition to the account and the assets and, if the mask
    changes figures, how orders are counted.
    """
    parts: list[str] = []
    if config.news:
        parts.append(_read_words()["news"])

    for option, name in _TABLES.items():
        if getattr(config, option):
            parts.append(text(name).rstrip("\n"))
    if config.older_closes:
        older = Template(text(_OLDER)).substitute(full_bars=config.full_bars)
        parts.append(older.rstrip("\n"))

    if config.mask_config.is_coarse:
        coarse = Template(text(_COARSE)).substitute(config.coarse_words)
        parts.append(coarse.rstrip("\n"))
    if config.is_compact:
        parts.append(text(_COMPACT).rstrip("\n"))

    return "".join(parts)


def _sell(config: MarketConfig, shorts: bool) -> str:
    """Describe what SELL means."""
    if config.sell and shorts:
        return text(_CLOSE).rstrip("\n")

    meaning = str(_read_words()["sell_short" if shorts else "sell_out"])
    if not config.exit:
        return meaning

    whole = sum(config.exit)
    parts = ", ".join(f"{part}/{whole}" for part in config.exit[:-1])
    exit_words = Template(text(_EXIT)).substitute(parts=parts).rstrip()
    return f"{meaning}\n- {exit_words}"


# ---- trading conditions


def venue_line(venue: Venue, trading: TradingConfig, shows_days: bool) -> str:
    """Return a venue's trading conditions, as prompt text."""
    step = f"{1 / venue.steps_per_unit:.8f}".rstrip("0").rstrip(".")
    lot = ""
    if venue.lot_steps > 1 and not venue.has_boards:  # boards have their own lots
        lot = f", bought in lots of {venue.lot_steps / venue.steps_per_unit:g}"

    smallest = ""
    if venue.minimum_notional:
        smallest = f"; orders of at least {venue.currency} {venue.minimum_notional:g}"

    lock = ""
    if venue.settlement_lock:
        lock = "what was bought on a day can't be sold on it; "

    return Template(_read_words()["venue"]).substitute(
        name=venue.name,
        step=step,
        lot=lot,
        costs=_costs(venue, trading, shows_days),
        smallest=smallest,
        lock=lock,
        short=_short_sales(venue),
    )


def _costs(venue: Venue, trading: TradingConfig, shows_days: bool) -> str:
    fees = venue.fees
    money = venue.currency
    is_dated = has_dated_duties(venue, trading)
    costs: list[str] = []

    sell_bps = fees.sell_bps
    if is_dated and venue.has_boards:  # without the stamp duty
        sell_bps = fees.buy_bps
    if fees.buy_bps or sell_bps:
        costs.append(f"{fees.buy_bps:g} basis points of a buy and {sell_bps:g} of a sell")
    if fees.per_unit:
        costs.append(f"{money} {fees.per_unit:g} for each share or coin")
    if fees.minimum:
        costs.append(f"at least {money} {fees.minimum:g} an order")
    if fees.maximum_bps is not None:
        costs.append(f"at most {fees.maximum_bps:g} basis points")
    if is_dated:
        costs.append(_duties(venue, shows_days))
    elif fees.sell_levy_bps or fees.sell_levy_per_unit:
        costs.append(
            f"levies of {fees.sell_levy_bps:g} basis points and {money} {fees.sell_levy_per_unit:g}"
            " a share on sells"
        )

    if not costs:
        return "no costs"
    return f"costs {', '.join(costs)}"


def _duties(venue: Venue, shows_days: bool) -> str:
    """Return the text that says that duties are due. It omits their rates, which would reveal the
    date.
    """
    words = load_yaml(_FOLDER / _DUTIES)
    kinds = dict.fromkeys(row.kind for row in duty_rows()[venue.name])
    named = " and ".join(words["kinds"][kind] for kind in kinds)
    due = Template(words["due"]).substitute(kinds=named)
    return due + words["shown"] if shows_days else due


def _short_sales(venue: Venue) -> str:
    short = venue.short
    if short is None:
        return "no short sales"
    if not (short.borrow_pct_a_year or short.initial_margin_pct or short.maintenance_margin_pct):
        return "short sales without interest or margin"
    return (
        f"short sales at {short.borrow_pct_a_year:g} % interest a year, initial margin"
        f" {short.initial_margin_pct:g} %, maintenance margin {short.maintenance_margin_pct:g} %"
    )


def board_lines(rules: BoardRuleSet, venues: Iterable[Venue]) -> list[str]:
    """Return the rules of the A-share boards as prompt text, if any asset trades on one."""
    if not any(venue.has_boards for venue in venues):
        return []
    return [str(_read_words()["boards"][rules])]
