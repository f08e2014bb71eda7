"""How many rows of a table of candidates name their stock and day by their returns alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from known_history import KnownHistory

from ktdeval.attribution import filled_forward
from ktdeval.harness import ModelTraits
from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.masking.aliases_and_noise import round_each


class RowsByReturns:
    """A model that holds cash and looks each candidate up by its returns over 1, 5 and 20 days, each
    fourth day: in exact returns, and in those of prices with the digits of the mask.
    """

    traits = ModelTraits(is_free=True)
    days = (1, 5, 20)

    def __init__(self, history: KnownHistory, digits: int) -> None:
        self._history = history
        self._digits = digits
        self._step = -1
        self.rows = 0
        self.by_exact = 0  #: rows that agree with one stock and day
        self.by_rounded = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        self._step += 1
        if self._step % 4 == 0:
            exact = {days: self._history.figure(f"return_{days}d_pct") for days in self.days}
            rounded = {days: self._rounded(days) for days in self.days}
            for row in conversation.rows(conversation.state["candidates"]):
                self.rows += 1
                self.by_exact += self._agreeing(row, exact) == 1
                self.by_rounded += self._agreeing(row, rounded) == 1

        return conversation.submit([], conversation.reason("it only looks"))

    def _rounded(self, days: int) -> np.ndarray:
        """[T, N] returns of a day, as a mask shows them in an episode that began `step` days before:
        each asset's close of that day is 100.
        """
        market = self._history.market
        closes = filled_forward(market.close)
        rows = np.arange(len(closes))
        scale = 100.0 / closes[np.maximum(rows - self._step, 0)]
        before = np.maximum(rows - days, 0)
        now = round_each(closes * scale, self._digits) * market.factor
        then = round_each(closes[before] * scale, self._digits) * market.factor[before]
        returns: np.ndarray = (now / then - 1.0) * 100.0
        returns[: max(days, self._step)] = np.nan
        return returns

    def _agreeing(self, row: Mapping[str, Any], returns: Mapping[int, Any]) -> int:
        agrees = np.ones(self._history.market.close.shape, dtype=bool)
        for days, values in returns.items():
            shown = row[f"return_{days}d_pct"]
            if shown is not None:
                unit = 10.0 ** (math.floor(math.log10(abs(shown) or 1e-3)) - self._digits + 1)
                agrees &= np.abs(values - shown) <= 0.56 * unit + 1e-5
        return int(agrees.sum())
