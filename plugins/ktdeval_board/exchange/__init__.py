"""A board's rows for other tools: data frames, Parquet, datasets, `.eval_results`, every_eval_ever; and other tools' results.

In a notebook:

    from ktdeval_board.exchange import load_frame
    cards = load_frame("path/to/board")

`load_frame` has one row for each card, `load_episodes_frame` for each episode, `load_daily_frame` for each day of each episode, and
`load_imported_frame` for each result that was imported from another harness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ktdeval_board.exchange.columns import Column as Column, columns_of as columns_of
    from ktdeval_board.exchange.frame import (
        load_daily_frame as load_daily_frame,
        load_episodes_frame as load_episodes_frame,
        load_frame as load_frame,
        load_imported_frame as load_imported_frame,
    )

_MODULE_OF = {
    "Column": "columns",
    "columns_of": "columns",
    "load_daily_frame": "frame",
    "load_episodes_frame": "frame",
    "load_frame": "frame",
    "load_imported_frame": "frame",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that `import` and `export` to text formats do not pay for data frames."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
