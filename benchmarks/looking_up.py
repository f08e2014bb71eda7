"""Which day and which stocks a mask shows, found by whoever holds the market's history."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from known_history import CLOSES, KnownHistory, log_likelihood

from ktdeval.harness import json_object
from ktdeval.keyless.request_and_reply import Conversation

CERTAIN = 12.0  #: log likelihood by which a day, or a stock, is ahead of all others
WORST = 12.5  #: most log likelihood that one odd figure can take
SPREAD_CNY = 0.003  #: of a price to the fen
AT_ONCE = 5  #: rows after which a day that is not known yet is looked for
DATE = re.compile(r"\d{4}-\d\d-\d\d")


class LookUp:
    """What is known of an episode: its first day, and the stock of each label."""

    def __init__(self, history: KnownHistory, digits: int | None) -> None:
        self.history = history
        self._digits = digits  #: of the mask, which a card shows
        self.step = -1
        self._day = ""
        self.base: int | None = None  #: row of day_+0, once it is known
        self.known_at: int | None = None  #: the step at which the day was known
        self.figures_read = 0
        self._score = np.zeros(len(history.market.days))  # log likelihood of each first day
        self._of_label: dict[str, np.ndarray] = {}  # label -> [T, N], or [N] once the day is known
        self.named: dict[str, int] = {}  #: label -> column
        self._read: set[str] = set()  # ids of results of this day

    # ---- what is read

    def read(self, conversation: Conversation) -> bool:
        """Read what a request shows for the first time; True at the first request of a day."""
        day = conversation.observed.day
        is_new = day != self._day
        if is_new:
            self._day = day
            self.step += 1
            self._read.clear()
            self._read_day(day)
            self._read_state(conversation)

        self._read_results(conversation)
        return is_new

    def _read_day(self, day: str) -> None:
        """A date that is shown is known."""
        if self.base is None and DATE.fullmatch(day):
            row = int(np.searchsorted(self.history.market.days, np.datetime64(day)))
            self._settle_on(row - self.step)

    def _read_state(self, conversation: Conversation) -> None:
        state = conversation.state
        performance = state.get("performance") or {}
        self._compare_index(performance.get("benchmark_return_1d_pct"))
        if self.base is None:
            self._look_for_a_day()

        market = self.history.market
        if self._digits is None:
            last = state.get("last_step") or {}
            for row in conversation.rows(last.get("orders")):
                if row["stock_id"] is not None and row.get("filled_shares"):
                    self._compare(row["stock_id"], market.open, row["fill_price_cny"], SPREAD_CNY)

        for table in ("positions", "candidates", "holdings"):
            self._read_rows(conversation.rows(state.get(table)))

    def _read_results(self, conversation: Conversation) -> None:
        """Read the tables of stocks of all research tools."""
        for message in conversation.request.messages:
            call = message.tool_call_id
            if message.role != "tool" or call is None or call in self._read:
                continue

            self._read.add(call)
            for table in conversation_tables(message.content):
                self._read_rows(conversation.rows(table))

    def _read_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for number, row in enumerate(rows, start=1):
            if row["stock_id"] in self.named:
                continue

            for name, shown in row.items():
                values = self._figure(name)
                if values is not None and isinstance(shown, int | float):
                    self._compare(row["stock_id"], values, float(shown), self._spread(name, shown))
            if self.base is None and number % AT_ONCE == 0:
                self._look_for_a_day()

        if self.base is None:
            self._look_for_a_day()

    def _figure(self, name: str) -> np.ndarray | None:
        """A level is no figure where prices are rounded or start at 100."""
        if self._digits and name in CLOSES:
            return None
        return self.history.figure(name)

    def _spread(self, name: str, shown: float) -> float:
        """How exactly a column is shown: to the digits that it has, or that its inputs have."""
        if name in CLOSES:
            return SPREAD_CNY
        if name.startswith("amount_"):
            return (0.006 if self._digits else 0.0001) * max(abs(shown), 1e-9)
        if self._digits:
            return 0.4 + 0.03 * abs(shown)
        return 1e-5 + 1e-4 * abs(shown)

    # ---- what figures tell

    def _compare(self, label: str, values: np.ndarray, shown: float, spread: float) -> None:
        """Weigh the days and stocks whose figure a label may show."""
        self.figures_read += 1
        if self.base is not None:
            fit = log_likelihood(values[self.base + self.step], shown, spread, WORST)
        else:
            fit = np.full(values.shape, -WORST)
            rows = len(values) - self.step
            fit[:rows] = log_likelihood(values[self.step :], shown, spread, WORST)

        self._of_label[label] = self._of_label.get(label, self._prior(label)) + fit
        if self.base is not None:
            self._name(label)

    def _prior(self, label: str) -> np.ndarray:
        """A label that is a code is that stock."""
        shape = self.history.market.close.shape
        prior = np.zeros(shape if self.base is None else shape[1])
        asset = self.history.market.asset_index.get(label)
        if asset is not None:
            prior -= 1e6
            prior[..., asset] = 0.0
        return prior

    def _compare_index(self, shown: float | None) -> None:
        if shown is None or self.base is not None:
            return

        self.figures_read += 1
        spread = 4e-4
        if self._digits:
            spread = max(spread, 0.003 * abs(shown))
        returns = self.history.index_returns_pct[self.step :, 0]
        fit = np.full(len(self._score), -WORST)
        fit[: len(returns)] = log_likelihood(returns, shown, spread, WORST)
        self._score += fit

    def _look_for_a_day(self) -> None:
        score = self._score.copy()
        for fit in self._of_label.values():
            score += fit.max(axis=1)

        best = int(score.argmax())
        ahead = score[best] - np.delete(score, best).max()
        if ahead >= CERTAIN:
            self._settle_on(best)

    def _settle_on(self, base: int) -> None:
        self.base = base
        self.known_at = self.step
        self._of_label = {label: fit[base] for label, fit in self._of_label.items()}
        for label in self._of_label:
            self._name(label)

    def _name(self, label: str) -> None:
        """Take the stock that is ahead of all others."""
        fit = self._of_label[label]
        best = int(fit.argmax())
        if fit[best] - np.delete(fit, best).max() > CERTAIN / 2:
            self.named[label] = best

    # ---- what is known

    @property
    def labels(self) -> Sequence[str]:
        """Labels whose figures it has read."""
        return list(self._of_label)

    def asset_of(self, label: str) -> int | None:
        """Column of the stock that a label is known to stand for."""
        return self.named.get(label, self.history.market.asset_index.get(label))


def conversation_tables(text: str) -> Sequence[Any]:
    """The tables of stocks in a tool's result."""
    result = json_object(text)
    return [result[name] for name in ("candidates", "grid") if name in result]
