"""Pages of a run with several episodes. Styles, scripts, and the data that a window's episodes
share, such as prices, are stored once, in files next to the pages.

Each shared file is named by a hash of its contents, so pages from an earlier view keep their files.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktdeval.values import dumps_canonical, sha256_hex
from ktdeval_pages.assets import shared_script
from ktdeval_pages.text_deltas import BaseText, Delta
from ktdeval_view.document import (
    PageData,
    SharedFiles,
    pack_text,
    render_shared,
    view_script,
    view_style,
)

_MAX_BASES = 4
"""Maximum number of bases in a window, such as one for each way in which it shows the market. Each
base costs memory, and each page a comparison.
"""

_WORTH = 0.8
"""Packed size of the differences, relative to the packed size of the full text, above which a page
becomes a new base.
"""

_SAMPLED = "days-0"  #: part that is used to compare a page with possible bases


@dataclass(frozen=True)
class _Base:
    """Data of a page, against which other pages store differences."""

    file: str
    counts: Sequence[int]  #: number of days in each piece
    texts: Mapping[str, BaseText]


class SharedPages:
    """Makes the pages of a run and their shared files. `files` contains the text of each shared
    file, keyed by name.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._bases: list[_Base] = []
        self._window: str | None = None

    def page(self, data: PageData, window: str | None) -> str:
        """Return a page as HTML. Call it for all pages of a window consecutively, since only the
        bases of one window are kept in memory.
        """
        if window != self._window:
            self._bases = []
            self._window = window

        base = self._matching(data)
        if base is None and len(self._bases) < _MAX_BASES:
            base = self._add_base(data)

        shared = SharedFiles(
            style=self._add("css", view_style()),
            kit=self._add("js", shared_script()),
            script=self._add("js", view_script(data.scripts)),
            base="" if base is None else base.file,
        )
        return render_shared(data.title, data.template, shared, _pack_data(data, base))

    def _matching(self, data: PageData) -> _Base | None:
        """Return the base that a page differs from least; None if no base saves enough space."""
        best: tuple[int, _Base] | None = None
        whole = 0
        for base in self._bases:
            text = data.texts(_fit_counts(base.counts, len(data.days)))[_SAMPLED]
            size = _packed_size(dumps_canonical(base.texts[_SAMPLED].delta(text)))
            whole = _packed_size(text)
            if best is None or size < best[0]:
                best = size, base

        if best is None or best[0] > _WORTH * whole:
            return None

        return best[1]

    def _add_base(self, data: PageData) -> _Base:
        counts = data.even_counts()
        texts = data.texts(counts)
        packed = {name: pack_text(text) for name, text in texts.items()}
        # Packed texts contain no character that could end a script or a string in it.
        file = self._add("js", f"window.ktdevalBase = {dumps_canonical(packed)};\n")
        base = _Base(file, counts, {name: BaseText(text) for name, text in texts.items()})
        self._bases.append(base)
        return base

    def _add(self, kind: str, text: str) -> str:
        """Add a file, and return its name."""
        name = f"shared-{sha256_hex(text)[:12]}.{kind}"
        self.files[name] = text
        return name


def _pack_data(data: PageData, base: _Base | None) -> dict[str, str]:
    """Return the packed data of a page: its texts, or the differences between its texts and those
    of a base.
    """
    if base is None:
        texts = data.texts(data.even_counts())
        return {name: pack_text(text) for name, text in texts.items()}

    packed = {}
    for name, text in data.texts(_fit_counts(base.counts, len(data.days))).items():
        delta: Delta = [text]
        if name in base.texts:
            delta = base.texts[name].delta(text)

        packed[name] = pack_text(dumps_canonical(delta))

    return packed


def _fit_counts(counts: Sequence[int], days: int) -> list[int]:
    """Return the piece sizes for a page with `days` days. They are the base's sizes up to this
    number of days, with any remaining days as one more piece.
    """
    fitted: list[int] = []
    left = days
    for count in counts:
        if left > 0:
            fitted.append(min(count, left))
            left -= fitted[-1]

    if left > 0:
        fitted.append(left)

    return fitted


def _packed_size(text: str) -> int:
    return len(zlib.compress(text.encode(), 6))
