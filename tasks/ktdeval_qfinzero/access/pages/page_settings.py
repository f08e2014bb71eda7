"""Settings of a server's pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PageSettings:
    """Settings of the pages. `data`: folder of the served dataset; None for the embedded one."""

    data: Path | None = None
    seed: int = 0  #: of the embedded dataset
    watched: tuple[Path, ...] = ()  #: folders of further datasets that the health page describes
    chats: Path = Path("ktdeval-chats")  #: folder of all chats
    #: models with parameters that are offered, `PROVIDER/NAME(option=value,…)`
    models: tuple[str, ...] = ()
    max_chats: int = 500  #: chats in the folder
    max_running: int = 4  #: chats that a model answers at once
    max_tokens: int = 400_000  #: tokens of one chat, in and out
    max_cost: float | None = None  #: US dollars of one chat; None sets no limit


DEFAULT_PAGES = PageSettings()
