"""Health of data and services: whether the services answer, and the days on which each symbol has
bars.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import numpy as np

from ktdeval.errors import KtdevalError
from ktdeval.values import JsonValue, Value
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.workspaces import Workspaces
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.rows import AssetClass, DayArray
from ktdeval_qfinzero.data.synthetic.cached_dataset import cache_root, generated_folder
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, day_start, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

_PROBES: Final = ("UPQ.health.freshness", "ESP.health.freshness", "PMB.account.list")
_MAX_FINDINGS: Final = 200


class ServiceState(Value, frozen=True):
    """A service: whether it answered a call, with what, and how long the answer took."""

    call: str
    answer: JsonValue
    problem: str  #: empty if the call was answered
    latency_ms: float


class SymbolDays(Value, frozen=True):
    """An instrument's days with bars. `missing`: sessions between the first and last day that have
    no bar.
    """

    symbol: str
    first: date
    last: date
    missing: int


class DayShare(Value, frozen=True):
    """A day: the number of instruments with a bar, and the number of instruments whose first and
    last day enclose it.
    """

    day: date
    have: int
    due: int
    is_session: bool


class DayCoverage(Value, frozen=True):
    """Daily bars of one kind of instrument, compared with the sessions of a calendar."""

    name: str
    calendar: str
    complete: float | None  #: share of sessions with a bar; None without sessions
    behind: int  #: number of sessions after the last day, up to today
    days: tuple[DayShare, ...]
    symbols: tuple[SymbolDays, ...]  #: instruments with the most missing sessions first


class DataHealth(Value, frozen=True):
    """State of one dataset."""

    folder: str
    problems: tuple[str, ...]  #: parts that can't be read
    name: str = ""
    content_id: str = ""
    is_synthetic: bool = False
    as_of_ts: str = ""  #: latest possible time of a clock
    services: tuple[ServiceState, ...] = ()
    coverage: tuple[DayCoverage, ...] = ()


class Health:
    """State of the served dataset and of the watched datasets. `workspaces`: the server's
    workspaces.
    """

    def __init__(self, workspaces: Workspaces, settings: PageSettings) -> None:
        self._workspaces = workspaces
        folder = settings.data
        if folder is None:
            folder = generated_folder(cache_root(), SyntheticMarketParams(seed=settings.seed))
        # without duplicates, since the served dataset may be watched too
        self._folders = list(dict.fromkeys((folder, *settings.watched)))

    def report(self) -> list[DataHealth]:
        """Examine all datasets, the served one first. Problems are reported, not raised."""
        as_of_ns = self._workspaces.limits.as_of_ns
        served = data_health(self._folders[0], self._workspaces.dataset, as_of_ns)
        return [served, *map(_watched_health, self._folders[1:])]

    def check(self, folder: str) -> list[str]:
        """Read a whole dataset, given by its place in the report, and return its problems, errors
        first. Raises ServiceError if the place holds nothing.
        """
        if not folder.isdecimal() or int(folder) >= len(self._folders):
            raise invalid("folder", f"expected a number from 0 to {len(self._folders) - 1}")

        found = check_dataset(self._folders[int(folder)])
        return [f"{finding.level}: {finding}" for finding in found[:_MAX_FINDINGS]]


def _watched_health(folder: Path) -> DataHealth:
    try:
        return data_health(folder, open_dataset(folder), None)
    except KtdevalError as error:
        return DataHealth(folder=str(folder), problems=(str(error),))


def data_health(folder: Path, dataset: Dataset, as_of_ns: int | None) -> DataHealth:
    """Call the services on a dataset and count its days, as of a timestamp (None: its end).
    Unreadable parts are listed, not raised.
    """
    info = dataset.info
    if as_of_ns is None:
        as_of_ns = day_start(info.last_day) + DAY

    workspace = Workspace(dataset, as_of_ns)
    problems: list[str] = []
    coverage: tuple[DayCoverage, ...] = ()
    try:
        coverage = _coverage(workspace.view, info.calendar)
    except KtdevalError as error:
        problems.append(str(error))

    return DataHealth(
        folder=str(folder),
        problems=tuple(problems),
        name=info.name,
        content_id=info.content_id,
        is_synthetic=info.synthetic,
        as_of_ts=moment_text(as_of_ns),
        services=tuple(_probe_service(workspace, name) for name in _PROBES),
        coverage=coverage,
    )


def _probe_service(workspace: Workspace, name: str) -> ServiceState:
    began = time.perf_counter()
    answer: JsonValue = None
    problem = ""
    try:
        answer = catalogue().call(workspace, name, {})
    except KtdevalError as error:
        problem = str(error)

    latency_ms = 1000 * (time.perf_counter() - began)
    return ServiceState(call=name, answer=answer, problem=problem, latency_ms=latency_ms)


def _coverage(view: DatasetView, calendar: str) -> tuple[DayCoverage, ...]:
    """Count the daily bars of stocks and crypto assets."""
    kinds: tuple[tuple[AssetClass, str], ...] = (("stock", calendar), ("crypto", "24/7"))
    coverage = []
    for asset_class, own_calendar in kinds:
        days = view.days_by_symbol(asset_class)
        if days:
            coverage.append(coverage_of(asset_class, own_calendar, days))

    return tuple(coverage)


def coverage_of(name: str, calendar: str, days_by_symbol: Mapping[str, DayArray]) -> DayCoverage:
    """Return the coverage of instruments, each of which has at least one day. Raises DataError if
    the calendar is unknown.
    """
    every = trading_hours(calendar).days
    with_data = np.unique(np.concatenate(list(days_by_symbol.values())))
    first, last = with_data[0], with_data[-1]
    sessions = every[(every >= first) & (every <= last)]
    days = np.union1d(sessions, with_data)
    is_session = np.isin(days, sessions)
    have = np.zeros(len(days), np.int64)
    due = np.zeros(len(days), np.int64)
    symbols = []
    for symbol, own in days_by_symbol.items():
        is_due = (days >= own[0]) & (days <= own[-1])
        is_there = np.isin(days, own)
        have += is_there
        due += is_due
        missing = int((is_due & is_session & ~is_there).sum())
        symbols.append(
            SymbolDays(symbol=symbol, first=_date(own[0]), last=_date(own[-1]), missing=missing)
        )

    due_in_all = int(due[is_session].sum())
    today = np.datetime64(datetime.now(UTC).date())
    return DayCoverage(
        name=name,
        calendar=calendar,
        complete=int(have[is_session].sum()) / due_in_all if due_in_all else None,
        behind=int(((every > last) & (every <= today)).sum()),
        days=tuple(
            DayShare(day=_date(day), have=int(held), due=int(wanted), is_session=bool(regular))
            for day, held, wanted, regular in zip(days, have, due, is_session, strict=True)
        ),
        symbols=tuple(sorted(symbols, key=lambda each: -each.missing)),
    )


def _date(day: np.datetime64) -> date:
    plain: date = day.astype("datetime64[D]").astype(object)
    return plain
