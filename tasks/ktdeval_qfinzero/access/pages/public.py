"""Requests that need no token: pages and what they are drawn with, which hold no data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from ktdeval_qfinzero.access.pages.http_answers import wants_html

if TYPE_CHECKING:
    from starlette.types import Scope

#: some of them answer with data to clients other than browsers
_PAGES: Final = frozenset({"/", "/health", "/playground"})
_ASSET: Final = re.compile(r"/playground/assets/[A-Za-z0-9_.-]+")


def is_public(scope: Scope) -> bool:
    """Whether a request is for a page or for a style or script of one. A browser can send no token
    with these; scripts send it with what they ask.
    """
    if scope["method"] not in ("GET", "HEAD"):
        return False
    if _ASSET.fullmatch(scope["path"]):
        return True
    return scope["path"] in _PAGES and wants_html(Headers(scope=scope))
