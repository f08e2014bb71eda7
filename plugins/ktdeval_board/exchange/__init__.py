"""A board's rows for other tools: data frames, Parquet, datasets, `.eval_results`, every_eval_ever;
and other tools' results.

In a notebook:

    from ktdeval_board.exchange import load_frame
    cards = load_frame("path/to/board")

`load_frame` has one row for each card, `load_episodes_frame` for each episode, `load_daily_frame`
for each day of each episode, and `load_imported_frame` for each result that was imported from
another harness. `load_published` reads them from a dataset.
"""

from __future__ import annotations

from ktdeval.values import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
