"""Settings of a server's pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PageSettings:
    """Settings of the pages. `data`: folder of the served dataset; None for the embedded one."""

    data: Path | None = None
    seed: int = 0  #: seed of the embedded dataset
    watched: tuple[Path, ...] = ()  #: folders of additional datasets shown on the health page
    chats: Path = Path("ktdeval-chats")  #: folder of all chats
    #: offered models, with parameters: `PROVIDER/NAME(option=value,…)`
    models: tuple[str, ...] = ()
    max_chats: int = 500  #: maximum number of chats in the folder
    max_running: int = 4  #: maximum number of chats answered at once
    max_tokens: int = 400_000  #: token limit per chat, input and output
    max_cost: float | None = None  #: cost limit per chat in US dollars; None sets no limit


DEFAULT_PAGES = PageSettings()
