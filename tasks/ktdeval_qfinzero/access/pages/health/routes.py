"""Routes of the health page."""

from __future__ import annotations

from datetime import UTC, date, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ktdeval.values import Value
from ktdeval_qfinzero.access.pages.health.calendar_export import to_csv, to_ics
from ktdeval_qfinzero.access.pages.health.checks import FolderChecks
from ktdeval_qfinzero.access.pages.health.coverage import sessions_after
from ktdeval_qfinzero.access.pages.health.file_days import DayCache
from ktdeval_qfinzero.access.pages.health.folders import FolderState, folder_state
from ktdeval_qfinzero.access.pages.health.probes import Probe, not_probed, probe_all
from ktdeval_qfinzero.access.pages.http_answers import (
    body_of,
    download,
    json_answer,
    page,
    wants_html,
)
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.workspaces import Workspaces
from ktdeval_qfinzero.data.synthetic.cached_dataset import cache_root, generated_folder
from ktdeval_qfinzero.data.synthetic.params import SyntheticParams
from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.esp.answers import EventShown, EventsPage
from ktdeval_qfinzero.esp.arguments import EconomicCalendar, NewsQuery
from ktdeval_qfinzero.esp.queries import economic_calendar, search_news
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, day_start, moment_text

_MAX_EVENTS: Final = 5_000
_NEWS_SHOWN: Final = 50
_LONGEST_QUERY: Final = 200


class Freshness(Value, frozen=True):
    """Age of a group of data: sessions of its calendar after its last day, up to today."""

    dataset: str
    group: str
    last: date | None
    sessions_behind: int | None  #: None without data, and of an invented market
    note: str = ""


class HealthReport(Value, frozen=True):
    """State of all folders, the served dataset first."""

    served: str  #: folder of the served dataset
    as_of_ts: str  #: latest moment that a clock may stand at
    folders: tuple[FolderState, ...]
    freshness: tuple[Freshness, ...]
    today: date


class HealthPage:
    """What the health page shows. `workspaces`: those of the server."""

    def __init__(self, workspaces: Workspaces, settings: PageSettings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self._cache = DayCache()
        self.checks = FolderChecks()

    @property
    def served_folder(self) -> Path:
        """Folder of the served dataset."""
        if self._settings.data is not None:
            return self._settings.data
        return generated_folder(cache_root(), SyntheticParams(seed=self._settings.seed))

    @property
    def view(self) -> DatasetView:
        """Served data at the latest moment that a client may see."""
        dataset = self._workspaces.dataset
        as_of_ns = self._workspaces.limits.as_of_ns
        if as_of_ns is None:
            as_of_ns = day_start(dataset.info.last_day) + DAY
        return DatasetView(dataset, as_of_ns)

    def report(self) -> HealthReport:
        """Look at all folders; nothing is raised for what is wrong in them."""
        today = datetime.now(UTC).date()
        folders: list[FolderState] = []
        ages: list[Freshness] = []
        for path in self._paths():
            folder = folder_state(path, self._cache)
            folders.append(folder)
            ages.extend(_ages(folder, today))

        return HealthReport(
            served=str(self.served_folder),
            as_of_ts=moment_text(self.view.as_of_ns),
            folders=tuple(folders),
            freshness=tuple(ages),
            today=today,
        )

    def folder_at(self, number: int) -> Path:
        """Return one of the folders, by its place in the report. Raises ServiceError."""
        paths = self._paths()
        if not 0 <= number < len(paths):
            raise invalid("folder", f"expected a number from 0 to {len(paths) - 1}")
        return paths[number]

    def _paths(self) -> list[Path]:
        """Return the folders in the order shown, each once: the served one may be watched too."""
        return list(dict.fromkeys((self.served_folder, *self._settings.watched)))

    def news(self, words: str, first: str, last: str) -> EventsPage:
        """Search the articles. Raises ServiceError: an argument is malformed."""
        info = self._workspaces.dataset.info
        given = NewsQuery(
            keyword=words or None,
            start_utc=first or str(info.first_day),
            end_utc=last or None,
            limit=_NEWS_SHOWN,
        )
        return search_news(self.view, given)

    def calendar(self, first: str, last: str) -> list[EventShown]:
        """Return the releases of some days, all pages of them, at most 5,000. Raises ServiceError:
        an argument is malformed.
        """
        info = self._workspaces.dataset.info
        given = EconomicCalendar(
            start_date=first or str(info.first_day),
            end_date=last or str(info.last_day),
            limit=500,
        )
        events: list[EventShown] = []
        while len(events) < _MAX_EVENTS:
            answer = economic_calendar(self.view, given)
            events += answer.events
            if answer.next_cursor is None:
                break

            given = _further(given, answer.next_cursor)

        return events[:_MAX_EVENTS]

    async def probes(self, request: Request) -> tuple[Probe, ...]:
        """Probe all components; where all workspaces are taken, none is taken from its owner."""
        if len(self._workspaces) >= self._workspaces.limits.most:
            return not_probed("all workspaces are in use")
        return await probe_all(request.app, request.headers)


def _further(given: EconomicCalendar, cursor: str) -> EconomicCalendar:
    return EconomicCalendar(
        start_date=given.start_date, end_date=given.end_date, limit=given.limit, cursor=cursor
    )


def _ages(folder: FolderState, today: date) -> list[Freshness]:
    ages = []
    for group in folder.groups:
        behind = None
        note = ""
        if folder.synthetic:
            note = "an invented market ends where it was made to end"
        elif group.last is not None:
            behind = sessions_after(group.calendar, group.last, today)

        ages.append(
            Freshness(
                dataset=folder.name,
                group=group.name,
                last=group.last,
                sessions_behind=behind,
                note=note,
            )
        )

    return ages


class _HealthEndpoints:
    """Handlers of requests."""

    def __init__(self, health: HealthPage, dataset_name: str) -> None:
        self._health = health
        self._dataset_name = dataset_name

    async def page(self, request: Request) -> Response:
        """Give the page to a browser, and the report to any other client."""
        if wants_html(request.headers):
            return page("health")
        return await self.report(request)

    async def report(self, _: Request) -> Response:
        """Give the state of all folders."""
        return json_answer(await to_thread.run_sync(self._health.report))

    async def probes(self, request: Request) -> Response:
        """Probe the components."""
        return json_answer(await self._health.probes(request))

    async def check(self, request: Request) -> Response:
        """Give the state of a check."""
        folder = self._health.folder_at(_whole(request, "folder"))
        return json_answer(self._health.checks.state_of(folder))

    async def begin_check(self, request: Request) -> Response:
        """Begin a check."""
        given = await body_of(request, "folder")
        number = given.get("folder", 0)
        if not isinstance(number, int):
            raise invalid("folder", "expected a number")
        state = self._health.checks.begin(self._health.folder_at(number))
        return json_answer(state, HTTPStatus.ACCEPTED)

    async def news(self, request: Request) -> Response:
        """Search the articles."""
        words = _query(request, "q")
        first = _query(request, "start")
        last = _query(request, "end")
        return json_answer(await to_thread.run_sync(self._health.news, words, first, last))

    async def calendar(self, request: Request) -> Response:
        """Give the economic calendar as JSON, CSV or ICS."""
        first = _query(request, "start")
        last = _query(request, "end")
        events = await to_thread.run_sync(self._health.calendar, first, last)
        form = _query(request, "format") or "json"
        if form == "csv":
            return download(to_csv(events), "text/csv", "economic-calendar.csv")
        if form == "ics":
            text = to_ics(events, f"Economic calendar: {self._dataset_name}")
            return download(text, "text/calendar", "economic-calendar.ics")
        if form != "json":
            raise invalid("format", "expected json, csv or ics")
        return json_answer(events)


def health_routes(workspaces: Workspaces, settings: PageSettings) -> list[Route]:
    """Return the routes of the page and of what it asks for."""
    own = _HealthEndpoints(HealthPage(workspaces, settings), workspaces.dataset.info.name)
    return [
        Route("/health", own.page, methods=["GET"]),
        Route("/health/report", own.report, methods=["GET"]),
        Route("/health/probes", own.probes, methods=["GET"]),
        Route("/health/check", own.check, methods=["GET"]),
        Route("/health/check", own.begin_check, methods=["POST"]),
        Route("/health/news", own.news, methods=["GET"]),
        Route("/health/calendar", own.calendar, methods=["GET"]),
    ]


def _query(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if len(text) > _LONGEST_QUERY:
        raise invalid(name, f"expected at most {_LONGEST_QUERY} characters")
    return text


def _whole(request: Request, name: str) -> int:
    text = _query(request, name) or "0"
    if not text.isdecimal():
        raise invalid(name, "expected a whole number")
    return int(text[:9])
