"""The ledger of one episode: what was decided, what was filled, what it was worth. Values only; files are elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import JsonValue

StepRecord = Mapping[str, JsonValue]
"""One step, as a JSON object with these fields (`STEP_FIELDS`), in true (unmasked) identities:

    step                0, 1, 2 …
    decided_on          ISO day of the decision (its close was the last thing known)
    filled_on           ISO day of the fills and of the NAV; always later than decided_on
    provenance          model | model_after_retry | fallback | error
    failures            {failure kind: count}; empty when nothing failed
    tool_calls          number of research tool calls
    tool_calls_valid    of these, how many parsed and dispatched
    submissions         how many times the model was asked to submit
    unmask_attempts     real identities offered under a mask that hides them
    input_tokens, output_tokens         all of them; of these, reasoning_tokens of the output, cache_read_tokens and
                        cache_write_tokens of the input
    overall_reason      the model's text, "" on a fallback
    orders              list of {code (null if the stock_id is no asset), stock_id (as submitted when code is null, with hidden
                        identities withheld; else null), side, confidence, reason, target_weight, shares, status, rule,
                        message, filled_shares, price_ticks, notional_fen, fee_fen}
    corporate_actions   list of {code, ratio, shares_before, shares_after, cash_fen}
    positions           list of {code, shares, locked, price_ticks, value_fen} at the close of filled_on, by code
    cash_fen, holdings_fen, nav_fen     at the close of filled_on
    open_nav_fen        NAV marked at the fills' opens before any fill of the step
"""

STEP_FIELDS = (
    "step", "decided_on", "filled_on", "provenance", "failures", "tool_calls", "tool_calls_valid", "submissions",
    "unmask_attempts", "input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens",
    "overall_reason", "orders", "corporate_actions", "positions", "cash_fen", "holdings_fen", "nav_fen", "open_nav_fen",
)  # fmt: skip


@dataclass(frozen=True)
class Ledger:
    """All steps of an episode, with the columns that metrics need as arrays.

    Attributes:
        spec: the JSON of the episode's spec (task, mask, window, seed, …).
        initial_cash_fen: base of the NAV series.
        steps: step records in order.
    """

    spec: Mapping[str, JsonValue]
    initial_cash_fen: int
    steps: Sequence[StepRecord]

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """[steps] int64 values of one integer field of the step records."""
        return np.array([step[name] for step in self.steps], dtype=np.int64)

    @cached_property
    def nav(self) -> npt.NDArray[np.float64]:
        """[steps + 1] CNY: the initial cash, then the NAV at the close of each fill day."""
        fen = np.concatenate([[self.initial_cash_fen], self.column("nav_fen")])
        return fen / 100.0

    @cached_property
    def returns(self) -> npt.NDArray[np.float64]:
        """[steps] simple daily returns of the NAV."""
        return self.nav[1:] / self.nav[:-1] - 1.0

    @cached_property
    def days(self) -> npt.NDArray[np.datetime64]:
        """[steps] fill days."""
        return np.array([step["filled_on"] for step in self.steps], dtype="datetime64[D]")

    @property
    def base_day(self) -> np.datetime64:
        """The day of the first decision, whose close is the base of benchmark returns."""
        return np.datetime64(self.steps[0]["decided_on"], "D")
