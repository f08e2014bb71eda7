"""From a file of decisions, trades or values to a judgement: read, executed, compared, written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.cards import PARTS, load_card
from ktdeval.errors import DataError, UsageError
from ktdeval.market import MarketSnapshot, parse_day
from ktdeval.registry import Plugins
from ktdeval.runner import open_snapshot
from ktdeval.stats import benchmark_problem
from ktdeval.trading import MarketRules, TradingConfig
from ktdeval.values import Address, Parameters, dumps_pretty, to_plain, write_atomic
from ktdeval_judge.counterfactual import Counterfactuals
from ktdeval_judge.declared import Declared
from ktdeval_judge.document import (
    JUDGE,
    JUDGE_VERSION,
    Figure,
    JudgeFile,
    NavPart,
    NavReport,
    load_judgement,
)
from ktdeval_judge.execution import AccountRules, Executed, execute_plan
from ktdeval_judge.implied_nav import implied_nav
from ktdeval_judge.market_plan import Dated, MarketPlan, iso_day, market_plan
from ktdeval_judge.nav_only import (
    NO_MARKET,
    Days,
    NavTrack,
    benchmark_return,
    check_values,
    nav_figures,
    outlying_days,
    resolution_of,
    returns_a_year,
    track_notes,
)
from ktdeval_judge.nav_parts import Cause, Path as NavPath, Simulated, compare_navs
from ktdeval_judge.readers import ReadOptions, read_declared, source_sha256
from ktdeval_judge.readers.cells import day_of
from ktdeval_judge.unfilled import count_reasons, unfilled_of

USUAL_CASH = 1_000_000
MAX_UNFILLED = 10_000  #: in a document; the counts have all


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """What is judged, on which market, under which rules."""

    decisions: Path | None = None
    nav: Path | None = None
    program: str | None = None
    zone: str = ""  #: IANA time zone, for files with moments; empty: the market's or the program's
    periods: float | None = None  #: returns of a NAV in a year; None: the market's, or by its days
    data: Address | None = None  #: the market; None: none, and a NAV is judged by its returns
    data_args: Parameters = field(default_factory=dict)
    cash: int | None = None  #: None: as the file says, else `USUAL_CASH`
    venue: str | None = None
    execution: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    keeps_others: bool = False
    dated: Dated = "decision"
    until: str | None = None  #: last day, ISO; None: that of the last fill, or of the claimed NAV
    out: Path | None = None


def load_again(path: Path | None) -> JudgeFile | None:
    """Return the document of a judged run folder; None of any other path."""
    if path is None or not (path / JUDGE).exists():
        return None
    return load_judgement(path)


def judge_files(settings: JudgeSettings, plugins: Plugins) -> tuple[JudgeFile, Path | None]:
    """Judge a file of decisions or trades, or a NAV; return the document and the run folder, which
    a NAV has none of. Raises DataError: a file can't be read, or does not fit the market;
    UsageError: nothing to judge, or an option that does not fit.
    """
    snapshot = None
    if settings.data is not None:
        snapshot = open_snapshot(plugins, settings.data, settings.data_args)

    declared = _read_declared(settings, snapshot)
    if declared.decisions is None and declared.trades is None:
        return _judge_nav(declared, settings, snapshot), None

    if snapshot is None:
        raise UsageError(
            f"{declared.source}: decisions are executed on a market, and none is named: give --data,"
            " a folder of `ktdeval data make`, or --data synthetic for the embedded market"
        )

    cash = settings.cash or _whole(declared.cash) or USUAL_CASH
    rules = AccountRules(
        cash=cash,
        venue=settings.venue,
        execution=settings.execution,
        changes=settings.changes,
    )
    trading = rules.trading(plugins)
    made = market_plan(
        declared,
        snapshot,
        trading,
        keeps_others=settings.keeps_others,
        dated=settings.dated,
    )
    if settings.until is not None:
        made = _held_until(made, settings.until, snapshot)

    config: dict[str, Any] = {"data": settings.data, "data_args": dict(settings.data_args)}
    if settings.out is not None:
        config["out"] = str(settings.out)

    executed = execute_plan(made, rules, config, snapshot, plugins)
    document = _document(declared, made, executed, settings, snapshot, trading)
    write_atomic(executed.folder / JUDGE, dumps_pretty(to_plain(document)))
    return document, executed.folder


def _held_until(made: MarketPlan, until: str, snapshot: MarketSnapshot) -> MarketPlan:
    """Return the plan with another last day. Raises UsageError: it is before the last fill, or
    outside the market.
    """
    day = parse_day(until, "--until: ", UsageError)
    earliest = snapshot.days[made.last_row]
    if not earliest <= day <= snapshot.days[-1]:
        raise UsageError(
            f"--until {until}: expected a day from {earliest}, that of the last fill, to"
            f" {snapshot.days[-1]}, the market's last"
        )
    row = int(np.searchsorted(snapshot.days, day, side="right")) - 1
    return replace(made, last_row=row)


def _read_declared(settings: JudgeSettings, snapshot: MarketSnapshot | None) -> Declared:
    """Return what the files declare, the values of `--nav` among it."""
    if settings.decisions is None and settings.nav is None:
        raise UsageError(
            "nothing to judge: name a file of decisions or trades, or a NAV with --nav FILE"
        )

    options = ReadOptions(program=settings.program, zone=settings.zone)
    if snapshot is not None:
        zones = {venue.zone for venue in snapshot.rules.values()}
        options = replace(
            options,
            sessions=tuple(day_of(day) for day in snapshot.days.tolist()),
            market_zone=zones.pop() if len(zones) == 1 else "",
        )

    values = None
    if settings.nav is not None:
        own = options
        if settings.decisions is not None:
            own = replace(options, program=None)
        nav = read_declared(settings.nav, own)
        values = nav.values
        if values is None:
            raise DataError(
                f"--nav {settings.nav}: has no account value; write a day and a nav a row"
            )
        _check_values(nav)
        if settings.decisions is None:
            return nav

    assert settings.decisions is not None, "one of both is there"
    declared = read_declared(settings.decisions, options)
    if values is None:
        _check_values(declared)
        return declared

    return Declared(
        program=declared.program,
        source=declared.source,
        decisions=declared.decisions,
        trades=declared.trades,
        values=values,
        benchmark=declared.benchmark,
        cash=declared.cash,
        notes=declared.notes,
    )


def _check_values(declared: Declared) -> None:
    if declared.values is not None:
        values = declared.values.to_numpy(dtype=np.float64)
        check_values(declared.source, _days_of(declared.values), values)


def _days_of(values: pd.Series) -> Days:
    return np.array([iso_day(int(day)) for day in values.index], dtype="datetime64[D]")


def _whole(cash: float | None) -> int | None:
    """Return cash in whole units of currency, as accounts begin with."""
    return None if cash is None else max(1, round(cash))


# ---- decisions and trades


_IMPLIED = "no NAV is given: the claimed one follows from the trades' own prices and fees"


def _document(
    declared: Declared,
    made: MarketPlan,
    executed: Executed,
    settings: JudgeSettings,
    snapshot: MarketSnapshot,
    trading: TradingConfig,
) -> JudgeFile:
    card = load_card(executed.card).plain
    unfilled = unfilled_of(made, executed.ledger, snapshot)
    nav, claimed, notes = _nav_report(declared, made, snapshot, trading)
    metrics: Any = card["metrics"]
    table = declared.decisions if declared.decisions is not None else declared.trades
    assert table is not None, "a plan was made of it"
    form: str = made.plan.form
    if declared.decisions is None:
        form = "trades"

    return JudgeFile(
        version=JUDGE_VERSION,
        program=declared.program,
        source=declared.source,
        source_sha256=source_sha256(settings.decisions) if settings.decisions else "",
        plan_sha256=made.plan.sha256,
        form=form,
        decisions=len(table),
        codes=len(made.plan.codes),
        market=snapshot.meta.name,
        snapshot=snapshot.id,
        first=executed.ledger.steps[0].filled_on,
        last=executed.ledger.steps[-1].filled_on,
        cash=float(trading.initial_cash),
        currency=executed.ledger.currency,
        task=executed.task,
        rules=rules_words(snapshot, trading, made.plan.codes),
        executed_return=_of_metric(metrics, "total_return"),
        claimed_return=claimed,
        benchmark_return=benchmark_return(_levels(made.first_row, made.last_row, snapshot)),
        sharpe=_of_metric(metrics, "sharpe"),
        excess_sharpe=_of_metric(metrics, "information_ratio"),
        selection=_selection(card),
        alpha_a_year=None,
        beta=None,
        psr=_of_metric(metrics, "psr"),
        years_needed=_of_metric(metrics, "min_track_record"),
        unfilled=tuple(unfilled[:MAX_UNFILLED]),
        unfilled_counts=count_reasons(unfilled),
        nav=nav,
        notes=(*declared.notes, *made.notes, *notes),
        return_parts=_return_parts(metrics),
    )


def rules_words(snapshot: MarketSnapshot, trading: TradingConfig, codes: tuple[str, ...]) -> str:
    """Return the venues of the codes and their fills, in words."""
    rules = MarketRules.of(snapshot, trading)
    columns = [snapshot.asset_index[code] for code in codes]
    venues = {rules.venues[column].name: rules.venues[column] for column in columns}
    words = []
    for name, venue in sorted(venues.items()):
        words.append(f"{name}: {venue.summary}; fills at the {_FILL_WORDS[venue.fill]}")

    if trading.execution is not None:
        name = getattr(trading.execution, "name", "own")
        words.append(f"execution {name}")
    return "; ".join(words)


_FILL_WORDS = {
    "next_open": "next open",
    "next_close": "next close",
    "same_close": "close of the decision (a look-ahead)",
    "vwap_30m": "mean of the next day's first half hour",
    "twap_day": "mean of the next day",
}


def _of_metric(metrics: Mapping[str, Any], name: str) -> Figure:
    entry = metrics.get(name)
    if not entry:
        return Figure(value=None, reason="not computed")

    interval = entry.get("interval") or {}
    return Figure(
        value=entry["value"],
        low=interval.get("low"),
        high=interval.get("high"),
        reason=entry.get("reason"),
    )


def _selection(card: Mapping[str, Any]) -> Figure:
    """Return the linked contribution of selection, with the interval of the attribution."""
    attribution = card.get("attribution") or {}
    lines = (attribution.get("value") or {}).get("lines", {})
    if "selection" in lines:
        return _of_metric(lines, "selection")
    return Figure(value=None, reason=attribution.get("reason") or "no attribution")


def _return_parts(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the linked parts of the return, which add up to it; nothing where one is undefined."""
    parts = {}
    for metric in PARTS:
        value = _of_metric(metrics, metric).value
        if value is None:
            return {}
        parts[metric.partition("_")[0]] = value

    return parts


# ---- the claimed NAV


def _nav_report(
    declared: Declared,
    made: MarketPlan,
    snapshot: MarketSnapshot,
    trading: TradingConfig,
) -> tuple[NavReport | None, Figure | None, tuple[str, ...]]:
    """Return the comparison with the claimed NAV, the claimed return, and notes; nothing where
    nothing is claimed.
    """
    if declared.values is not None:
        rows, claimed, notes = claimed_path(declared, made.first_row, made.last_row, snapshot)
    elif made.trades is not None:
        rows = list(range(made.first_row, made.last_row + 1))
        cash = float(trading.initial_cash)
        claimed = implied_nav(made.trades, snapshot, cash, made.first_row, made.last_row)
        notes = (_IMPLIED,)
        if claimed.min() <= 0:
            return None, None, ("at its own prices the account of the trades falls to nothing",)
    else:
        return None, None, ()

    notes = (*notes, *outlying_days(snapshot.days[rows], claimed))
    chosen = np.array(rows) - made.first_row
    runs = Counterfactuals(made, snapshot, trading)

    def simulate(causes: frozenset[Cause], fee: float) -> Simulated:
        path, traded = runs.run(causes, fee)
        return Simulated(path[chosen], traded[chosen])

    if simulate(frozenset(), 0.0).path.min() <= 0:
        note = "the executed account falls to nothing, so that the NAVs are not compared"
        return None, Figure(value=float(claimed[-1] / claimed[0] - 1.0)), (*notes, note)

    found = compare_navs(claimed, simulate, runs.possible, resolution_of(claimed))
    first = None
    if found.first_parting is not None:
        first = str(snapshot.days[rows[found.first_parting]])

    report = NavReport(
        days=found.days,
        claimed_return=found.claimed_return,
        executed_return=found.executed_return,
        parts=tuple(NavPart(cause=part.cause, value=part.value) for part in found.parts),
        first_parting=first,
        parting_cause=found.parting_cause,
        largest_gap=found.largest_gap,
        remaining_gap=found.remaining_gap,
        is_explained=found.is_explained,
        looks_ahead=found.looks_ahead,
        fee_bps=found.fee * 1e4,
        daily_error=found.error,
        achievable_error=found.error_elsewhere,
    )
    return report, Figure(value=found.claimed_return), notes


def claimed_path(
    declared: Declared, first_row: int, last_row: int, snapshot: MarketSnapshot
) -> tuple[list[int], npt.NDArray[np.float64], tuple[str, ...]]:
    """Return rows and claimed values of the days that both NAVs have, the base first, and notes.
    Raises DataError: fewer than two days in common, or a value that is not above 0.
    """
    assert declared.values is not None, "asked only where a NAV is claimed"
    days = [int(day) for day in declared.values.index]
    by_day = dict(zip(days, map(float, declared.values), strict=True))
    rows = []
    values = []
    for row in range(first_row, last_row + 1):
        value = by_day.get(_as_int(snapshot.days[row]))
        if value is not None:
            rows.append(row)
            values.append(value)

    notes: tuple[str, ...] = ()
    if rows and rows[0] > first_row:
        if declared.cash is not None:
            rows.insert(0, first_row)
            values.insert(0, declared.cash)
        else:
            day = snapshot.days[rows[0]]
            notes = (f"the claimed NAV begins on {day}, so that what came before is not compared",)

    if len(rows) < 2:
        raise DataError(
            f"{declared.source}: the claimed NAV has fewer than two days of"
            f" {snapshot.days[first_row]} … {snapshot.days[last_row]}; give the NAV of these days"
        )

    missing = last_row + 1 - first_row - len(rows)
    if missing and not notes:
        notes = (f"the claimed NAV lacks {missing} days, which are not compared",)
    return rows, np.array(values, dtype=np.float64), notes


def _as_int(day: np.datetime64) -> int:
    return int(str(day).replace("-", ""))


# ---- a NAV alone


def _judge_nav(
    declared: Declared, settings: JudgeSettings, snapshot: MarketSnapshot | None
) -> JudgeFile:
    """Return what a NAV alone can say. Raises DataError: its days are not those of the market."""
    assert declared.values is not None, "asked only where nothing else is declared"
    track = _track(declared, settings, snapshot)
    figures = nav_figures(track)
    source = settings.nav or settings.decisions
    assert source is not None, "a NAV was read"

    return JudgeFile(
        version=JUDGE_VERSION,
        program=declared.program,
        source=declared.source,
        source_sha256=source_sha256(source),
        plan_sha256=None,
        form="nav",
        decisions=0,
        codes=0,
        market=None if snapshot is None else snapshot.meta.name,
        snapshot=None if snapshot is None else snapshot.id,
        first=str(track.days[1]),
        last=str(track.days[-1]),
        cash=float(track.values[0]),
        currency=None if snapshot is None else snapshot.currency,
        task=None,
        rules="none: a NAV is taken as it is",
        executed_return=None,
        selection=None,
        unfilled=(),
        unfilled_counts={},
        nav=None,
        notes=(*declared.notes, *track_notes(track)),
        returns_a_year=track.a_year,
        claimed_return=figures["claimed_return"],
        benchmark_return=figures["benchmark_return"],
        sharpe=figures["sharpe"],
        excess_sharpe=figures["excess_sharpe"],
        alpha_a_year=figures["alpha_a_year"],
        beta=figures["beta"],
        psr=figures["psr"],
        years_needed=figures["years_needed"],
    )


def _track(
    declared: Declared, settings: JudgeSettings, snapshot: MarketSnapshot | None
) -> NavTrack:
    """Return the values of a NAV with what a market adds, where one is named."""
    assert declared.values is not None, "asked only where nothing else is declared"
    numbers = [int(day) for day in declared.values.index]
    days = _days_of(declared.values)
    values = declared.values.to_numpy(dtype=np.float64)
    if snapshot is None:
        track = NavTrack(days=days, values=values, a_year=returns_a_year(days), benchmark=NO_MARKET)
    else:
        rows = _session_rows(declared.source, numbers, snapshot)
        track = NavTrack(
            days=days,
            values=values,
            a_year=float(snapshot.days_a_year),
            benchmark=_levels(rows[0], rows[-1], snapshot),
        )

    if settings.periods is None:
        return track
    return replace(track, a_year=settings.periods)


def _levels(first_row: int, last_row: int, snapshot: MarketSnapshot) -> NavPath | str:
    """Return the benchmark's levels at the closes of the rows, or why there are none."""
    levels = np.asarray(snapshot.benchmark[first_row : last_row + 1])
    return benchmark_problem(snapshot, levels) or levels


def _session_rows(source: str, days: list[int], snapshot: MarketSnapshot) -> list[int]:
    """Return the rows of a NAV's days. Raises DataError: one is no session, or sessions between
    them are missing, whose returns would count as those of one day.
    """
    known = {_as_int(day): row for row, day in enumerate(snapshot.days)}
    unknown = [day for day in days if day not in known]
    if unknown:
        raise DataError(
            f"{source}: {len(unknown)} days are not sessions of {snapshot.meta.name}, the first"
            f" {iso_day(unknown[0])}; give the NAV at the closes of {snapshot.days[0]} …"
            f" {snapshot.days[-1]}, or leave out --data"
        )

    rows = [known[day] for day in days]
    missing = sorted(set(range(rows[0], rows[-1])) - set(rows))
    if missing:
        raise DataError(
            f"{source}: the NAV lacks {len(missing)} sessions, the first {snapshot.days[missing[0]]};"
            " give one value a session, or leave out --data"
        )
    return rows
