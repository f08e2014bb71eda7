"""Answers of the pages: JSON, files of the pages, and headers that keep a page to this server."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from ktdeval.values import JsonValue, loads_strict, to_plain
from ktdeval_pages.assets import shared_script, stylesheet
from ktdeval_qfinzero.access.guarded_dispatch import answer_of, check_json, is_json
from ktdeval_qfinzero.errors import invalid, not_found

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
"""Content security policy of a page: it loads and asks nothing but this server, and no image."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_FOLDER: Final = Path(__file__).with_name("assets")
_TYPES: Final = {".js": "text/javascript", ".css": "text/css"}
_OWN_FILES: Final = ("pages.js", "health.js", "playground.js", "pages.css")


def json_answer(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Return a typed value or plain JSON as an answer."""
    return answer_of(status, to_plain(value)).response(
        {"cross-origin-resource-policy": "same-origin"}
    )


def page(name: str) -> Response:
    """Return one of the pages, under the policy of all."""
    text = (_FOLDER / f"{name}.html").read_text(encoding="utf-8")
    return Response(text, headers=_HEADERS, media_type="text/html")


def download(text: str, media_type: str, file_name: str) -> Response:
    """Return a file to be saved."""
    headers = {**_HEADERS, "content-disposition": f'attachment; filename="{file_name}"'}
    return Response(text, headers=headers, media_type=media_type)


@cache
def _asset_text(name: str) -> str:
    """Return a style or a script by its name. Raises ServiceError `not_found`."""
    if name == "kit.css":
        return stylesheet()
    if name == "kit.js":
        return shared_script()
    if name not in _OWN_FILES:
        raise not_found("name", "there is no such file")
    return (_FOLDER / name).read_text(encoding="utf-8")


async def give_asset(request: Request) -> Response:
    """Answer with a style or a script; raises ServiceError `not_found`."""
    name = str(request.path_params["name"])
    text = _asset_text(name)
    return Response(text, headers=_HEADERS, media_type=_TYPES[Path(name).suffix])


def wants_html(headers: Headers) -> bool:
    """Whether a browser asks for a page: it names HTML among what it accepts."""
    return "text/html" in headers.get("accept", "")


async def body_of(request: Request, *names: str) -> dict[str, JsonValue]:
    """Return the JSON object of a POST. Raises ServiceError: it is none, or has other fields than
    `names`. A form of another site can't send it: it has no such content type.
    """
    if not is_json(request.headers):
        raise invalid("Content-Type", "expected application/json")

    body = await request.body() or b"{}"
    check_json(body)
    given = loads_strict(body)
    if not isinstance(given, dict):
        raise invalid("body", "expected one JSON object")

    for name in given:
        if name not in names:
            raise invalid(name[:40], f"expected {' or '.join(names) or 'no field'}")

    return given


def text_in(given: dict[str, JsonValue], name: str, longest: int, default: str = "") -> str:
    """Return a text of a body. Raises ServiceError: it is no text, or longer than `longest`."""
    value = given.get(name, default)
    if not isinstance(value, str) or len(value) > longest:
        raise invalid(name, f"expected a text of at most {longest} characters")
    if value.encode(errors="replace").decode() != value or "\0" in value:
        raise invalid(name, "expected text without halves of surrogate pairs and NUL")
    return value
