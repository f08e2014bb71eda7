"""Location of a failure within a plugin author's own code, as opposed to ktdeval or a library that
the author called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from traceback import walk_tb

from ktdeval.registry.discovery import find_entry_points

_NOT_AUTHORS = frozenset({"ktdeval", "pluggy", "click", "__main__"}) | sys.stdlib_module_names
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class CodePlace:
    """File and line in an author's code; ("", 0) if unknown."""

    path: str = ""  #: path of the file, as Python gives it
    line: int = 0
    shown: str = ""  #: path from the author's package on, such as `my_plugin/model.py`

    def __str__(self) -> str:
        return f"{self.shown}:{self.line}"


def place_of(error: BaseException) -> CodePlace | None:
    """Return where an author's code failed; None if the traceback has no frame in an author's code.

    The location is the last frame in the author's package, since deeper frames are in libraries
    that the author called. If no frame belongs to an external plugin, the last frame in one of
    ktdeval's own plugins is used.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return CodePlace(error.filename, error.lineno or 1, os.path.basename(error.filename))  # noqa: PTH119 - as discovery, without pathlib

    advertised = {entry.module.partition(".")[0]: entry for entry in find_entry_points()}
    place = None
    own = None
    for module, path, line in _frames(error):
        package = module.partition(".")[0]
        entry = advertised.get(package)
        is_library = entry is None and any(folder in path for folder in _INSTALLED)
        if package in _NOT_AUTHORS or is_library:
            continue
        if entry is not None and entry.distribution == "ktdeval":
            own = CodePlace(path, line, _shown_path(path, module))
        else:
            place = CodePlace(path, line, _shown_path(path, module))

    return place or own


def _frames(error: BaseException) -> Iterator[tuple[str, str, int]]:
    """Yield the module, file and line of each traceback frame that has a file, outermost frame
    first.
    """
    for frame, line in walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if not path.startswith("<"):
            yield str(frame.f_globals.get("__name__")), path, line


def _shown_path(path: str, module: str) -> str:
    """Return the part of a path that starts with the folder of the module's outermost package."""
    parts = module.count(".") + 1
    if os.path.basename(path) == "__init__.py":  # noqa: PTH119
        parts += 1

    return "/".join(path.split(os.sep)[-parts:])  # noqa: PTH206
