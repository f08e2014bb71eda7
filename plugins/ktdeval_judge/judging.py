"""Judge a file of decisions, trades or values: read the file, execute it, compare, and write the
findings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import count
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.market import MarketSnapshot, parse_day
from ktdeval.registry import Plugins
from ktdeval.runner import DEFAULT_RUNS_FOLDER, JUDGEMENT, MANIFEST, TEAR_SHEET, open_snapshot
from ktdeval.values import (
    Address,
    Parameters,
    check_output,
    dumps_pretty,
    later,
    make_folder,
    to_plain,
    write_atomic,
)
from ktdeval_judge.declared import Declared, Doubt
from ktdeval_judge.document import (
    JUDGE_VERSION,
    JudgeFile,
    load_judgement,
)
from ktdeval_judge.evidence import JudgedSource, LuckSettings, evidence_fields
from ktdeval_judge.executed_document import as_int, executed_document, executed_track
from ktdeval_judge.execution import JudgeRules, execute_plan
from ktdeval_judge.held_splits import check_held_splits
from ktdeval_judge.market_hours import earliest_opens
from ktdeval_judge.market_plan import MarketPlan, iso_day, market_plan
from ktdeval_judge.nav_only import (
    NO_MARKET,
    Days,
    NavTrack,
    benchmark_return,
    check_values,
    day_before,
    doubts_of,
    levels_of,
    nav_figures,
    returns_a_year,
    track_notes,
)
from ktdeval_judge.readers import ReadOptions, read_declared, source_sha256, values_in
from ktdeval_judge.readers.frames import RETURNS_ONLY

USUAL_CASH = 1_000_000
_ASSUMED_CASH = (
    f"The file does not state the initial cash: {USUAL_CASH:,} is assumed, and returns are "
    "relative to it; give the amount with --cash N"
)
MAX_UNFILLED = 10_000  #: maximum number of entries in a document; the counts include all entries


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """Input of a judgement: files, market and rules."""

    decisions: Path | None = None
    nav: Path | None = None
    #: what the user says of the files; for a NAV beside decisions, all but the program holds, too
    reader: ReadOptions = field(default_factory=ReadOptions)
    #: number of returns of a NAV per year; if None, it comes from the market or from the NAV's days
    periods: float | None = None
    data: Address | None = None  #: market; if None, a NAV is judged by its returns only
    data_args: Parameters = field(default_factory=dict)
    venue: str | None = None
    execution: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: last day, ISO; if None, the day of the last fill or the NAV's last day
    until: str | None = None
    #: folder for the run, or for a NAV's files; if None, a NAV gets no folder
    out: Path | None = None
    luck: LuckSettings = field(default_factory=LuckSettings)


def load_again(path: Path | None) -> JudgeFile | None:
    """Return the document in a judged run's folder, or None for any other path."""
    if path is None or not (path / JUDGEMENT).exists():
        return None
    return load_judgement(path)


def judge_files(settings: JudgeSettings, plugins: Plugins) -> tuple[JudgeFile, Path | None]:
    """Judge a file of decisions or trades, or a NAV. Return the document and its folder; a NAV has
    a folder only if `out` is given.

    Raises DataError if a file can't be read or does not fit the market. Raises UsageError if there
    is nothing to judge, or if an option does not apply.
    """
    settings.luck.check()
    snapshot = None
    if settings.data is not None:
        snapshot = open_snapshot(plugins, settings.data, settings.data_args)

    declared = _read_declared(settings, snapshot)
    if declared.decisions is None and declared.trades is None:
        track = _track(declared, settings, snapshot)
        document = _judge_nav(declared, track, settings, snapshot)
        if settings.out is not None:
            make_folder(settings.out)
            _write_files(document, track, snapshot, settings.out, None)
        return document, settings.out

    if snapshot is None:
        raise UsageError(
            f"{declared.source}: decisions need a market: give --data with a folder of `ktdeval "
            "data make`, or --data synthetic for the embedded market"
        )

    # the user's, the file's, or else `USUAL_CASH`
    cash = settings.reader.cash or _whole(declared.cash)
    is_cash_assumed = cash is None
    if cash is None:
        cash = USUAL_CASH
    rules = JudgeRules(
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
        keeps_others=settings.reader.keeps_others,
        dated=settings.reader.dated,
    )
    if settings.until is not None:
        made = _held_until(made, settings.until, snapshot)
    check_held_splits(declared, made, snapshot)
    # with weights, returns do not depend on the account's size
    if is_cash_assumed and made.plan.form != "weight":
        made = replace(made, notes=(*made.notes, _ASSUMED_CASH))

    config: dict[str, Any] = {"data": settings.data, "data_args": dict(settings.data_args)}
    if settings.out is not None:
        config["out"] = str(settings.out)

    executed = execute_plan(made, rules, config, snapshot, plugins)
    track = executed_track(executed.ledger, levels_of(made.first_row, made.last_row, snapshot))
    source = settings.decisions or settings.nav
    assert source is not None, "a file was read"
    judged = JudgedSource(
        name=declared.source,
        sha256=source_sha256(source),
        plan_sha256=made.plan.sha256,
        folder=executed.folder.parent,
    )
    further = _shared_fields(track, judged, settings.luck, declared)
    document = executed_document(declared, made, executed, snapshot, trading, further)
    _write_files(document, track, snapshot, executed.folder, declared.values)
    return document, executed.folder


def _shared_fields(
    track: NavTrack, judged: JudgedSource, luck: LuckSettings, declared: Declared
) -> dict[str, Any]:
    """Return the fields that all documents have."""
    unread = [str(note).rstrip(".") for note in declared.notes if isinstance(note, Doubt)]
    doubts = doubts_of(track, is_executed=judged.plan_sha256 is not None)
    return {
        "source_sha256": judged.sha256,
        "benchmark_return": benchmark_return(track.benchmark),
        "returns_a_year": track.a_year,
        "doubts": (*unread, *doubts),
        **evidence_fields(track, judged, luck),
    }


def _held_until(made: MarketPlan, until: str, snapshot: MarketSnapshot) -> MarketPlan:
    """Return the plan with a different last day. Raises UsageError if that day is before the last
    fill, or outside the market's days.
    """
    day = parse_day(until, "--until: ", UsageError)
    earliest = snapshot.days[made.last_row]
    if not earliest <= day <= snapshot.days[-1]:
        raise UsageError(
            f"--until {until}: expected a day between {earliest}, the last fill, and "
            f"{snapshot.days[-1]}, the market's last day"
        )
    row = int(np.searchsorted(snapshot.days, day, side="right")) - 1
    return replace(made, last_row=row)


def _read_declared(settings: JudgeSettings, snapshot: MarketSnapshot | None) -> Declared:
    """Return the declarations in the files, including the values given with `--nav`."""
    if settings.decisions is None and settings.nav is None:
        raise UsageError(
            "nothing to judge: name a file of decisions or trades, or a NAV with --nav FILE"
        )

    is_one_of_two = settings.decisions is not None and settings.nav is not None
    options = replace(settings.reader, is_one_of_two=is_one_of_two)
    if snapshot is not None:
        zones = {venue.zone for venue in snapshot.rules.values()}
        options = replace(
            options,
            sessions=tuple(map(as_int, snapshot.days)),
            opens=earliest_opens(snapshot),
            market_zone=zones.pop() if len(zones) == 1 else "",
        )

    values = None
    if settings.nav is not None:
        own = replace(options, is_nav=True)
        if settings.decisions is not None:
            own = replace(own, program=None)
        nav = read_declared(settings.nav, own)
        values = nav.values
        if values is None:
            raise DataError(
                f"--nav {settings.nav}: has no account value; write one day and one nav per row"
            )
        _check_values(nav)
        if settings.decisions is None:
            return nav

    assert settings.decisions is not None, "one of the two is given"
    declared = read_declared(settings.decisions, options)
    if values is None:
        _check_values(declared)
        return declared

    return replace(declared, values=values, fees=None)


def each_value(settings: JudgeSettings, column: str) -> list[JudgeSettings]:
    """Return the settings for each value of a column. The results of `--out` go to one folder for
    each value. Raises DataError if no file has the column; UsageError if no file is given.
    """
    path = settings.decisions or settings.nav
    if path is None:
        raise UsageError(f"--by {column}: name a file of decisions or trades, or give --nav FILE")

    each = []
    values = values_in(path, column, settings.reader)
    for number, value in enumerate(values, start=1):
        out = settings.out
        if out is not None:
            name = re.sub(r"[^\w.-]+", "-", value).strip(".-")[:60]
            out = out / f"{number}-{name}"
        reader = replace(settings.reader, keep={**settings.reader.keep, column: value})
        each.append(replace(settings, reader=reader, out=out))
    return each


def _check_values(declared: Declared) -> None:
    if declared.values is not None:
        values = declared.values.to_numpy(dtype=np.float64)
        check_values(declared.source, _days_of(declared.values), values)


def _days_of(values: pd.Series) -> Days:
    return np.array([iso_day(int(day)) for day in values.index], dtype="datetime64[D]")


def _whole(cash: float | None) -> int | None:
    """Return cash rounded to whole currency units, because an account starts with whole units."""
    return None if cash is None else max(1, round(cash))


# ---- a NAV without decisions


def _judge_nav(
    declared: Declared,
    track: NavTrack,
    settings: JudgeSettings,
    snapshot: MarketSnapshot | None,
) -> JudgeFile:
    """Return the document for a NAV without decisions. Raises StoreError if `out` can't be written,
    or if it is the folder of a run.
    """
    figures = nav_figures(track)
    source = settings.nav or settings.decisions
    assert source is not None, "a NAV was read"
    parent = Path(DEFAULT_RUNS_FOLDER)
    if settings.out is not None:
        check_output(settings.out, "new folder", "--out", JUDGEMENT)
        if (settings.out / MANIFEST).exists():
            raise StoreError(f"{settings.out}: is the folder of a run; choose another --out")
        parent = settings.out.parent

    judged = JudgedSource(name=declared.source, sha256=source_sha256(source), folder=parent)
    return JudgeFile(
        version=JUDGE_VERSION,
        program=declared.program,
        source=declared.source,
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
        rules="none: a NAV is not executed",
        executed_return=None,
        selection=None,
        unfilled=(),
        unfilled_counts={},
        nav=None,
        notes=tuple(map(str, (*declared.notes, *_start_notes(declared), *track_notes(track)))),
        claimed_return=figures["claimed_return"],
        sharpe=figures["sharpe"],
        excess_sharpe=figures["excess_sharpe"],
        alpha_a_year=figures["alpha_a_year"],
        beta=figures["beta"],
        psr=figures["psr"],
        years_needed=figures["years_needed"],
        **_shared_fields(track, judged, settings.luck, declared),
    )


def _write_files(
    document: JudgeFile,
    track: NavTrack,
    snapshot: MarketSnapshot | None,
    out: Path,
    claimed: pd.Series | None,
) -> None:
    """Write a judgement's document into a folder. If the account's returns are daily, also write
    its tear sheet, with the account value that was claimed for executed decisions.
    """
    write_atomic(out / JUDGEMENT, dumps_pretty(to_plain(document)))
    # imported here because only pages need Jinja2
    make_sheet = later("ktdeval_judge.tear_sheet:judged_sheet")()
    page = make_sheet(track, document, snapshot, claimed)
    if page is None:
        (out / TEAR_SHEET).unlink(missing_ok=True)
    else:
        write_atomic(out / TEAR_SHEET, page)


def _track(
    declared: Declared, settings: JudgeSettings, snapshot: MarketSnapshot | None
) -> NavTrack:
    """Return a NAV as a track, with the market's benchmark if a market is given. Raises DataError
    if the NAV's days are not the market's sessions.
    """
    assert declared.values is not None, "only computed if nothing else is declared"
    held = _from_start(declared, snapshot)
    numbers = [int(day) for day in held.index]
    days = _days_of(held)
    values = held.to_numpy(dtype=np.float64)
    if snapshot is None:
        track = NavTrack(days=days, values=values, a_year=returns_a_year(days), benchmark=NO_MARKET)
    else:
        rows = _session_rows(declared.source, numbers, snapshot)
        track = NavTrack(
            days=days,
            values=values,
            a_year=float(snapshot.days_a_year),
            benchmark=levels_of(rows[0], rows[-1], snapshot),
        )

    if settings.periods is None:
        return track
    return replace(track, a_year=settings.periods)


def _from_start(declared: Declared, snapshot: MarketSnapshot | None) -> pd.Series:
    """Return the account values, from the close before the first value on if the account's initial
    value is known, because the first day counts too. Raises DataError if the market has no earlier
    session.
    """
    values = declared.values
    assert values is not None, "only computed if nothing else is declared"
    initial = _initial_value(declared)
    if initial is None:
        return values

    days = _days_of(values)
    start = day_before(days)
    if snapshot is not None:
        earlier = snapshot.days[snapshot.days < days[0]]
        if not len(earlier):
            raise DataError(
                f"{declared.source}: the market has no session before {days[0]}, at whose close the "
                "account starts; import earlier days, or leave out --data"
            )
        start = earlier[-1]
    before = pd.Series([initial], index=pd.Index([as_int(start)], name=values.index.name))
    whole: pd.Series = pd.concat([before, values])
    return whole


def _start_notes(declared: Declared) -> tuple[str, ...]:
    """Return a note on an initial value that is not the value of the first day's close."""
    initial = _initial_value(declared)
    if initial is None or RETURNS_ONLY in declared.notes:
        return ()
    return (f"the account starts from {initial:,.2f}, its value before its first day's close",)


def _initial_value(declared: Declared) -> float | None:
    """Return the account's value before its first day, or None if it starts with its first value."""
    values = declared.values
    assert values is not None, "only computed if nothing else is declared"
    first = float(values.iloc[0])
    initial = declared.cash
    if RETURNS_ONLY in declared.notes:
        initial = 1.0
    return None if initial == first else initial


def _session_rows(source: str, days: list[int], snapshot: MarketSnapshot) -> list[int]:
    """Return the market rows for a NAV's days. Raises DataError if a day is not a session, or if
    sessions are missing, because a return across a gap would be treated as a daily return.
    """
    known = {as_int(day): row for row, day in enumerate(snapshot.days)}
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
            f"{source}: the NAV lacks {count(len(missing), 'session')}, the first"
            f" {snapshot.days[missing[0]]};"
            " give one value a session, or leave out --data"
        )
    return rows
