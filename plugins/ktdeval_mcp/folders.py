"""Folders that the server was started for: paths in arguments stay below them, links resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.errors import UsageError, wrap_os_error

# marks between the paths in one text: lists, KEY=VALUE, NAME(KEY=VALUE)
_MARKS = re.compile(r"[,=();]")


@dataclass(frozen=True)
class Folders:
    """Folders that commands may read and write. Relative paths start at the first one."""

    roots: tuple[Path, ...]  #: resolved

    @staticmethod
    def of(roots: tuple[Path, ...]) -> Folders:
        """Return the folders at these paths; without any, the working folder."""
        return Folders(tuple(root.resolve() for root in roots or (Path.cwd(),)))

    @property
    def base(self) -> Path:
        """Folder in which commands run."""
        return self.roots[0]

    def resolve(self, path: str) -> Path:
        """Return a path with its links resolved. Raises UsageError if it is outside the folders,
        is an address, or can't be a path.
        """
        if "://" in path or "\0" in path:
            raise UsageError(f"{path[:80]!r}: give a path below {self.shown}, not an address")

        with wrap_os_error(f"{path[:80]}: can't read"):
            try:
                full = (self.base / Path(path).expanduser()).resolve()
            except RuntimeError as error:  # links in a circle, or an unknown user's home
                raise UsageError(f"{path[:80]}: can't be resolved: {error}") from error

        if not any(full.is_relative_to(root) for root in self.roots):
            raise UsageError(
                f"{path[:80]}: is outside {self.shown}; start the server with --root and its folder"
            )

        return full

    def check(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Raise UsageError if a text among a tool's arguments is, or contains, a path outside the
        folders. Every text is checked, since a name and a path have no different form.
        """
        for name, value in arguments.items():
            for text in _texts_in(value):
                for part in (text, *_MARKS.split(text)):
                    try:
                        self.resolve(part)
                    except UsageError as error:
                        raise UsageError(f"{tool}: {name}: {error}") from error

    @property
    def shown(self) -> str:
        """Return the folders in words."""
        return f"the folders of this server ({', '.join(map(str, self.roots))})"


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (str(key), *_texts_in(item))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)
