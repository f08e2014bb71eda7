"""A server's pages as one small app built on the page kit: the health of data and services, and a
chat playground.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ktdeval.errors import KtdevalError
from ktdeval.values import to_plain
from ktdeval_pages.assets import shared_script, stylesheet
from ktdeval_qfinzero.access.endpoints import Endpoint, json_body
from ktdeval_qfinzero.access.guarded_dispatch import answer_of
from ktdeval_qfinzero.access.pages.health import Health
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.pages.playground import Playground
from ktdeval_qfinzero.access.workspaces import Workspaces
from ktdeval_qfinzero.errors import ServiceError, conflict, invalid, not_found
from ktdeval_qfinzero.live.tool_use_config import MAX_INSTRUCTION_CHARS

if TYPE_CHECKING:
    from starlette.types import Scope

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content security policy of a page, which loads data only from this server, and no images."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_FOLDER: Final = Path(__file__).with_name("assets")
_ASSETS: Final = "/assets/"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css"}
_OWN_FILES: Final = ("pages.js", "health.js", "chats.js", "pages.css")
#: Addresses of the page; some of them answer with data to clients other than browsers
_PAGES: Final = ("/", "/health", "/playground")
#: Maximum number of characters in each text that a page sends
_MAX_CHARS: Final = {
    "model": 500,
    "as_of": 40,
    "instruction": MAX_INSTRUCTION_CHARS,
    "turn": 4,
    "suite": 20,
    "item_id": 64,
    "folder": 4,
}


def is_public(scope: Scope) -> bool:
    """Return whether a request is for the page or for one of its styles or scripts, which contain
    no data. A browser can't send a token with such requests; the scripts send it with their own
    requests.
    """
    if scope["method"] not in ("GET", "HEAD"):
        return False
    if scope["path"].startswith(_ASSETS):
        return True
    return scope["path"] in _PAGES and _wants_html(Headers(scope=scope))


def _wants_html(headers: Headers) -> bool:
    """Return whether a browser asks for a page, that is, whether HTML is among the types that it
    accepts.
    """
    return "text/html" in headers.get("accept", "")


def page_routes(
    workspaces: Workspaces, settings: PageSettings, playground: Playground
) -> list[Route]:
    """Return the routes of the page and of the data that it requests. `workspaces`: the server's
    workspaces.
    """
    health = Health(workspaces, settings)
    info = workspaces.dataset.info

    def index() -> dict[str, Any]:
        return {
            "name": "QFinZero services",
            "dataset": {"name": info.name, "content_id": info.content_id},
            "pages": ["/health", "/playground"],
            "openapi": "/openapi.json",
            "mcp": "/mcp",
        }

    every_chat = "/playground/chats"
    chat = f"{every_chat}/{{chat}}"
    return [
        Route("/", _page_or(index)),
        Route("/health", _page_or(health.report)),
        Route("/playground", _page_or(playground.choices)),
        Route(f"{_ASSETS}{{name}}", _give_asset),
        Route("/health/report", _endpoint(health.report)),
        Route("/health/check", _endpoint(health.check, "folder"), methods=["POST"]),
        Route("/playground/choices", _endpoint(playground.choices)),
        Route(every_chat, _endpoint(playground.chats)),
        Route(every_chat, _endpoint(playground.create, "model", "as_of"), methods=["POST"]),
        Route(chat, _endpoint(playground.show)),
        Route(chat, _endpoint(playground.delete), methods=["DELETE"]),
        Route(f"{chat}/turns", _endpoint(playground.ask, "instruction"), methods=["POST"]),
        Route(f"{chat}/resume", _endpoint(playground.resume), methods=["POST"]),
        Route(f"{chat}/stop", _endpoint(playground.stop), methods=["POST"]),
        Route(
            f"{chat}/samples",
            _endpoint(playground.keep_sample, "turn", "suite", "item_id", "instruction"),
            methods=["POST"],
        ),
    ]


def _page_or(function: Callable[[], Any]) -> Endpoint:
    """Return an endpoint that serves the page to browsers, and a function's value to other
    clients.
    """
    give_value = _endpoint(function)

    async def endpoint(request: Request) -> Response:
        if _wants_html(request.headers):
            return Response(_asset_text("index.html"), headers=_HEADERS, media_type="text/html")
        return await give_value(request)

    return endpoint


async def _give_asset(request: Request) -> Response:
    name = str(request.path_params["name"])
    if name not in (*_OWN_FILES, "kit.css", "kit.js"):
        raise not_found("name", "there is no such file")
    return Response(_asset_text(name), headers=_HEADERS, media_type=_TYPES[Path(name).suffix])


@cache
def _asset_text(name: str) -> str:
    if name == "kit.css":
        return stylesheet()
    if name == "kit.js":
        return shared_script()
    return (_FOLDER / name).read_text(encoding="utf-8")


def _endpoint(function: Callable[..., Any], *texts: str) -> Endpoint:
    """Return an endpoint that calls a function on a thread, with the path's parameters and texts
    from the body, and answers with the function's value. Any ktdeval error that is not a
    ServiceError becomes a conflict.
    """

    async def endpoint(request: Request) -> Response:
        given = await read_texts(request, *texts) if request.method == "POST" else {}
        call = partial(function, **request.path_params, **given)
        try:
            value = await to_thread.run_sync(call)
        except ServiceError:
            raise
        except KtdevalError as error:
            raise conflict(error.line[:1000]) from error

        headers = {"cross-origin-resource-policy": "same-origin"}
        return answer_of(HTTPStatus.OK, to_plain(value)).response(headers)

    return endpoint


async def read_texts(request: Request, *names: str) -> dict[str, str]:
    """Return texts from the JSON object in a POST; absent texts are empty. Raises ServiceError if
    the object has another field or a value that is not a string, or if a text is too long.
    """
    given = await json_body(request)
    for name, value in given.items():
        if name not in names:
            raise invalid(name[:40], f"expected {' or '.join(names) or 'no field'}")
        if not isinstance(value, str) or len(value) > _MAX_CHARS[name]:
            raise invalid(name, f"expected a text of at most {_MAX_CHARS[name]} characters")
        if value.encode(errors="replace").decode() != value or "\0" in value:
            raise invalid(name, "expected text without halves of surrogate pairs and NUL")

    return {name: str(given.get(name, "")) for name in names}
