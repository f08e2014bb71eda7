"""Local copies are shown in output as the URLs that the user knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _ShownUrl:
    folder: str
    url: str


_SHOWN: list[_ShownUrl] = []


def show_as(folder: str, url: str) -> None:
    """Show a URL in output instead of the folder that contains its local copy."""
    _SHOWN.append(_ShownUrl(folder, url))


def with_urls(text: str) -> str:
    """Return text in which the folders of local copies are replaced by their URLs."""
    for shown in _SHOWN:
        text = text.replace(shown.folder, shown.url)
    return text
