"""A model that knows the whole market in advance: the positive control of masks. It uses what it knows
only of codes and days that it recognises.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from ktdeval.keyless import Conversation, Intent, Ranking, Row, Sizing, rebalance, table_columns
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval_models.builtin_models import RankModel
from ktdeval_models.params import MemoryParams

CONFIDENT = 0.8


class MemoryModel(RankModel):
    """Recalls prices of codes and days that it recognises, and otherwise ranks by momentum.

    Codes and days: it holds what will rise most over the next `horizon` days, of the names that it
    remembers to be in the index. Codes alone: what rose most over all days of the market, of the
    names that it is shown. Days alone: it is invested while the market will rise. Neither:
    `builtin/momentum`.
    """

    def __init__(self, _name: str, params: MemoryParams) -> None:
        super().__init__("MOM_12_1", False, params)
        self._source = params.market
        self._horizon = params.horizon
        self._positions = params.positions

    @property
    def needs(self) -> str:  # type: ignore[override]  # as of its parent
        """Labels to recognise, or figures to rank by."""
        return f"names to recognise: candidates or a universe in the prompt; or {super().needs}"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether names are shown that it might recognise. Masked names count too: that it does not
        recognise them is what it measures.
        """
        for asked in conversations:
            if asked.is_submission and asked.observed.universe:
                return True

        return bool(table_columns(conversations, "candidates")) or super().can_act(conversations)

    @cached_property
    def _market(self) -> MarketSnapshot:
        return open_snapshot(load_plugins(), self._source, {})

    @cached_property
    def _adjusted(self) -> FloatArray:
        """Adjusted closes, [days, assets]; a day without a bar has the previous close."""
        return pd.DataFrame(self._market.adjusted_close).ffill().to_numpy()

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Hold the remembered names if codes are recognised; else the ranking, or cash if a fall of
        the market is remembered.
        """
        row = self._row_of(conversation.observed.day)
        recognised = self._recognised(conversation)
        if recognised:
            return self._buy_remembered(conversation, recognised, row)

        levels = self._market.benchmark
        if row is None or levels[min(row + self._horizon, len(levels) - 1)] > levels[row]:
            return super().plan(conversation)

        reason = "the market is remembered to fall from here"
        sales = []
        for position in conversation.observed.positions.values():
            if (position.shares or 0) > (position.locked_shares or 0):
                sales.append(Intent(position.label, "SELL", 0.0, CONFIDENT, reason))

        return sales

    def _row_of(self, day: str) -> int | None:
        """Return the row of a real day; None for a masked one."""
        rows = np.flatnonzero(self._market.days.astype(str) == day)
        return int(rows[0]) if rows.size else None

    def _recognised(self, conversation: Conversation) -> list[int]:
        """Return the assets of the market whose codes are shown, each once."""
        screened = conversation.rows(conversation.result("screen_candidates").get("candidates"))
        state = conversation.observed
        labels = [row["stock_id"] for row in screened]
        labels += [*state.candidates, *state.universe]
        if labels:  # holdings alone are nothing to choose from
            labels += state.positions

        index = self._market.asset_index
        return [index[label] for label in dict.fromkeys(labels) if label in index]

    def _buy_remembered(
        self, conversation: Conversation, shown: Sequence[int], row: int | None
    ) -> Sequence[Intent]:
        """Rebalance to the names that are remembered to rise most. Who is in the index on an unknown
        day can't be remembered, so that only shown names are ranked then.
        """
        last_row = len(self._adjusted) - 1
        if row is None:
            start = 0
            end = last_row
            members = np.array(shown)
        else:
            start = row
            end = min(row + self._horizon, last_row)
            members = np.flatnonzero(self._market.member[row])

        growth = self._adjusted[end, members] / self._adjusted[start, members]
        ranked = members[np.argsort(-growth, kind="stable")]  # NaN comes last
        known = ranked[: np.isfinite(growth).sum()]
        best = [self._market.codes[asset] for asset in known[: 2 * self._positions]]
        sizing = Sizing.equal(conversation, self._positions, self.params.invested, self.band)
        rows = [self._row(code, row) for code in best]
        priced = [each for each in rows if each["close_cny"] is not None]

        return rebalance(
            conversation,
            Ranking(priced, frozenset(best), "what is remembered to have risen"),
            sizing,
        )

    def _row(self, code: str, row: int | None) -> Row:
        asset = self._market.asset_index[code]
        price = self._market.close[-1 if row is None else row, asset]
        close = float(price) if np.isfinite(price) else None

        return {"stock_id": code, "close_cny": close, "board": str(self._market.boards[asset])}
