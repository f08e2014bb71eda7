"""Routes of the broker terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ktdeval_pages.assets import charts_script, vendor_files
from ktdeval_qfinzero.access.endpoints import operation_endpoint
from ktdeval_qfinzero.access.pages.http_answers import (
    TYPES,
    asset_answer,
    html_answer,
    shared_asset,
)
from ktdeval_qfinzero.access.terminal.market_calendar import (
    closed_days,
    market_zone,
    session_moment,
)
from ktdeval_qfinzero.access.terminal.operations import terminal_operations
from ktdeval_qfinzero.access.workspaces import Workspaces
from ktdeval_qfinzero.errors import not_found
from ktdeval_qfinzero.timestamps import moment_text

_FOLDER: Final = Path(__file__).with_name("assets")


def terminal_routes(workspaces: Workspaces) -> list[BaseRoute]:
    """Return the routes of the page, of what it loads, and of its calls. `workspaces`: those of the
    server.
    """
    assets = "/terminal/assets"

    async def give_page(_: Request) -> Response:
        info = workspaces.dataset.info
        facts = {
            "zone": market_zone(info.calendar),
            "closed": " ".join(closed_days(info.hours, info.first_day, info.last_day)),
            "start": moment_text(session_moment(info.hours, workspaces.default_start_ns)),
        }
        return html_answer(_page_text(facts))

    return [
        Route("/terminal", _redirect, methods=["GET"]),
        Route("/terminal/", give_page, methods=["GET"]),
        Route(f"{assets}/{{name}}", _give_asset, methods=["GET"]),
        Route(f"{assets}/vendor/{{name}}", _give_vendor_file, methods=["GET"]),
        *(
            Route(each.path, operation_endpoint(workspaces, each, status), methods=[each.method])
            for each, status in terminal_operations(workspaces)
        ),
    ]


async def _redirect(_: Request) -> Response:
    return RedirectResponse("/terminal/", headers={"cache-control": "no-store"})


def _page_text(facts: Mapping[str, str]) -> str:
    """Return the page with facts of the market as `data-NAME` of its body."""
    text = (_FOLDER / "terminal.html").read_text(encoding="utf-8")
    for name, value in facts.items():
        text = re.sub(f'data-{name}="[^"]*"', f'data-{name}="{value}"', text, count=1)

    return text


async def _give_asset(request: Request) -> Response:
    """Answer with a style or a script; raises ServiceError `not_found`."""
    name = str(request.path_params["name"])
    return asset_answer(name, _asset_text(name))


@cache
def _asset_text(name: str) -> str:
    if name == "charts.js":
        return charts_script()

    own = {path.name: path for path in _FOLDER.iterdir() if path.suffix in TYPES}
    if name in own:
        return own[name].read_text(encoding="utf-8")
    return shared_asset(name)


async def _give_vendor_file(request: Request) -> Response:
    """Answer with a file of a library of others; raises ServiceError `not_found`."""
    name = str(request.path_params["name"])
    files = _vendor_files()
    if name not in files:
        raise not_found("name", "there is no such file")
    return asset_answer(name, files[name])


@cache
def _vendor_files() -> dict[str, str]:
    return dict(vendor_files())
