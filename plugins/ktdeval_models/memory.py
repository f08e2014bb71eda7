"""A model that knows the market beforehand: the positive control of the masks. It recalls only what it recognises."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from ktdeval.keyless import Conversation, Intent, Ranking, Row, Sizing, rebalance, table_columns
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval_models.catalogue import RankModel
from ktdeval_models.params import MemoryParams

CONFIDENT = 0.8


class MemoryModel(RankModel):
    """Recalls prices of codes and days that it recognises, and otherwise ranks by momentum.

    Codes and days: it holds what will rise most over the next `horizon` days. Codes alone: what rose most over all days of the
    market. Days alone: it is invested while the market will rise. Neither: `builtin/momentum`.
    """

    def __init__(self, _name: str, params: MemoryParams) -> None:
        super().__init__("MOM_12_1", False, params)
        self._source, self._horizon, self._positions = params.market, params.horizon, params.positions

    @property
    def needs(self) -> str:  # type: ignore[override]  # as of its parent
        """Labels to recognise, or figures to rank by."""
        return f"names to recognise: candidates or a universe in the prompt; or {super().needs}"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether names are shown that it might recognise; behind a mask it won't, which is what it is for."""
        universes = [asked.state.get("universe") for asked in conversations if asked.is_submission]
        return any(universes) or bool(table_columns(conversations, "candidates")) or super().can_act(conversations)

    @cached_property
    def _market(self) -> MarketSnapshot:
        return open_snapshot(load_plugins(), self._source, {})

    @cached_property
    def _adjusted(self) -> FloatArray:
        """[days, assets] adjusted closes; a day without a bar has the last one before it."""
        return pd.DataFrame(self._market.adjusted_close).ffill().to_numpy()

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Hold the remembered names if codes are recognised; else the ranking, or cash if a fall of the market is remembered."""
        row = self._row_of(str(conversation.state["day"]))
        if self._recognises(conversation):
            return self._hold(conversation, row)
        levels = self._market.benchmark
        if row is None or levels[min(row + self._horizon, len(levels) - 1)] > levels[row]:
            return super().plan(conversation)
        held = conversation.rows(conversation.state["positions"])
        reason = "the market is remembered to fall from here"
        return [Intent(each["stock_id"], "SELL", 0.0, CONFIDENT, reason) for each in held if each["shares"] > each["locked_shares"]]

    def _row_of(self, day: str) -> int | None:
        """Return the row of a real day; None for a masked one."""
        rows = np.flatnonzero(self._market.days.astype(str) == day)
        return int(rows[0]) if rows.size else None

    def _recognises(self, conversation: Conversation) -> bool:
        """Whether any label shown is a code of the market."""
        shown = [row["stock_id"] for row in conversation.rows(conversation.result("screen_candidates").get("candidates"))]
        shown += [row["stock_id"] for row in conversation.rows(conversation.state.get("candidates"))]
        return any(label in self._market.asset_index for label in (*shown, *conversation.state.get("universe", ())))

    def _hold(self, conversation: Conversation, row: int | None) -> Sequence[Intent]:
        """Rebalance to the names that are remembered to rise most."""
        start, end = (0, len(self._adjusted) - 1) if row is None else (row, min(row + self._horizon, len(self._adjusted) - 1))
        growth = self._adjusted[end] / self._adjusted[start]
        members = self._market.member[end if row is None else row]
        order = np.argsort(np.where(members & np.isfinite(growth), -growth, np.inf), kind="stable")
        best = [self._market.codes[asset] for asset in order[: 2 * self._positions]]
        sizing = Sizing.equal(conversation.state, self._positions, self.params.invested, self.band)
        rows = [self._row(code, row) for code in best]
        priced = [each for each in rows if each["close_cny"] is not None]
        return rebalance(conversation, Ranking(priced, frozenset(best), "what is remembered to have risen"), sizing)

    def _row(self, code: str, row: int | None) -> Row:
        asset = self._market.asset_index[code]
        price = self._market.close[-1 if row is None else row, asset]
        close = float(price) if np.isfinite(price) else None
        return {"stock_id": code, "close_cny": close, "board": str(self._market.boards[asset])}
