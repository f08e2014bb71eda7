"""Renders figures as files: Vega-Lite specs become SVG and PNG, drawn by vl-convert.

Equal specs and versions of vl-convert give equal bytes. No network is used.
"""

from __future__ import annotations

import functools
import os
import re
from types import ModuleType

from markupsafe import escape

from ktdeval.errors import UsageError
from ktdeval.values import import_problem, install_command
from ktdeval_pages.marks import Spec

_ROLES = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
_SCALE = 2.2  #: pixels of a PNG per pixel of the spec


def renderer() -> ModuleType | None:
    """Return vl-convert; None if it is not installed. Raises UsageError if it is, and can't be
    imported.
    """
    try:
        import vl_convert  # noqa: PLC0415 - heavy, and an extra
    except ImportError as error:
        if error.name == "vl_convert" and isinstance(error, ModuleNotFoundError):
            return None

        problem = import_problem(error, "vl_convert")
        raise UsageError(f"{problem}: {install_command('report')}") from error

    module: ModuleType = vl_convert
    return module


def require_renderer(what: str) -> ModuleType:
    """Return vl-convert. `what` says what is drawn with it, such as `a report`, for error messages.

    Raises UsageError if vl-convert is not installed. Also raises UsageError if this process is a
    fork of a process that has drawn figures, since it would wait forever for threads that a fork
    does not inherit.
    """
    module = renderer()
    if module is None:
        raise UsageError(
            f"{what} is drawn with vl-convert, which is not installed: {install_command('report')}"
        )
    if _first_process() != os.getpid():
        raise UsageError(f"{what} can't be drawn in a fork of a process that has drawn figures")
    return module


@functools.cache
def _first_process() -> int:
    """Return the id of the process that first drew a figure. Forks inherit the id."""
    return os.getpid()


def svg_of(spec: Spec) -> str:
    """Return a figure as an SVG element. Its text alternative is the spec's `description`.

    Letters are kept as text. Raises UsageError if vl-convert is missing.
    """
    drawn = require_renderer("a figure").vegalite_to_svg(spec)
    head, _, inner = drawn.partition(">")
    size = re.search(r'width="(\d+)" height="(\d+)"', head)
    if size is None:
        raise ValueError("vl-convert wrote an SVG without a size")

    width, height = size.groups()
    # Change only tags, since the characters between them are visible text.
    inner = re.sub(r"<[^>]+>", _shorten_tag, inner)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" overflow="visible"'  # a reader's font may be wider
        f' aria-label="{escape(spec["description"])}">{inner}'
    )


def png_of(spec: Spec) -> bytes:
    """Return a figure as PNG. Raises UsageError if vl-convert is missing."""
    drawn: bytes = require_renderer("a figure").vegalite_to_png(spec, scale=_SCALE)
    return drawn


def _shorten_tag(tag: re.Match[str]) -> str:
    """Return a tag with short numbers and without a role, since the figure's description is its
    only text alternative.
    """
    silent = _ROLES.sub("", tag[0])
    return re.sub(r"-?\d+\.\d{3,}(e-\d+)?", _short_number, silent)


def _short_number(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}"
    return text.rstrip("0").rstrip(".")
