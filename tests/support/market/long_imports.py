"""Imports of long tables by the command, each into the same folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.testing import Terminal

Bars = Path | str | pd.DataFrame  #: a file, its text, or its table


class Imports:
    """What is made of bars, and what is printed of them."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.folder = folder
        self.printed = ""  #: by the last import
        self._terminal = terminal

    def written(self, bars: Bars) -> Path:
        """The file of some bars."""
        path = self.folder / "bars.csv"
        if isinstance(bars, Path):
            return bars

        if isinstance(bars, str):
            path.write_text(bars)
        else:
            bars.to_csv(path, index=False)

        return path

    def made(self, bars: Bars, *options: object) -> MarketSnapshot:
        """The market of some bars."""
        shutil.rmtree(self.folder / "market", ignore_errors=True)
        self.printed = self._terminal.out(*self._words(bars, options))
        return load_snapshot(self.folder / "market")

    def refused(self, bars: Bars, *options: object) -> str:
        """The one line by which bars are refused."""
        return self._terminal.refusal(*self._words(bars, options))

    def _words(self, bars: Bars, options: tuple[object, ...]) -> list[object]:
        words = ["data", "make", "long", "--bars", self.written(bars), *options]
        return [*words, "--out", self.folder / "market"]
