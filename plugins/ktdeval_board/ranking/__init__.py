"""Ranking of a board's cards, and everything that pages say of them together: pure functions of a board and of daily series.

Imported where it is used: `rank_division` (table), `pairing` (pairing), `history` (history), `model_pages` (models),
`describe_metrics`, `division_columns`, `default_columns`, `division_scopes`, `division_kind` (describe), `system_labels` (order).
"""

from __future__ import annotations

from ktdeval_board.ranking.describe import (
    default_columns as default_columns,
    describe_metrics as describe_metrics,
    division_columns as division_columns,
    division_kind as division_kind,
    division_scopes as division_scopes,
)
from ktdeval_board.ranking.history import Rankings as Rankings, history as history
from ktdeval_board.ranking.models import model_page as model_page, model_pages as model_pages
from ktdeval_board.ranking.order import settings_of as settings_of, system_labels as system_labels
from ktdeval_board.ranking.pairing import pairing as pairing
from ktdeval_board.ranking.series_facts import LoadSeries as LoadSeries
from ktdeval_board.ranking.table import (
    missing_baselines as missing_baselines,
    rank_division as rank_division,
    require_baselines as require_baselines,
)
