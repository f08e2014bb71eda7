"""State of a day as a prompt shows it: labels, prices, holdings, bars, each if it is there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.harness import Observation, as_object, rows_by_asset, shown_state, table_rows

_PRICES = ("close", "close_cny", "last_close", "last_close_cny")
_NAVS = ("nav", "nav_cny")
_CASH = ("cash", "cash_cny")
_NEWS = re.compile(r'"news":\s*(?=\{)')
ACCOUNT = ""
"""Label of the account, for entries about no asset."""


@dataclass(frozen=True)
class Sight:
    """State of a day by asset label; assets come in the order in which they are shown."""

    day: str
    rows: Mapping[str, Mapping[str, Any]]  #: candidates and positions, their fields together
    candidates: tuple[str, ...]
    held: frozenset[str]
    prices: Mapping[str, float]  #: of the close, and the NAV as the price of `ACCOUNT`
    cash: float | None
    bars: Mapping[str, Sequence[Mapping[str, Any]]]  #: the oldest first, where the task shows a `history`
    most_positions: int | None
    asks_stances: bool  #: whether the task asks for BUY, SELL or HOLD of each candidate

    @classmethod
    def of(cls, observation: Observation) -> Sight:
        """Read the JSON block of a prompt; all fields are empty without one."""
        state = shown_state(observation.user)
        candidates, positions = rows_by_asset(state.get("candidates")), rows_by_asset(state.get("positions"))
        rows = {asset: {**positions.get(asset, {}), **candidates.get(asset, {})} for asset in (*candidates, *positions)}
        account, limits = as_object(state.get("account")), as_object(state.get("constraints"))
        prices = {asset: price for asset, row in rows.items() if (price := first_number(row, _PRICES)) is not None}
        if (nav := first_number(account, _NAVS)) is not None:
            prices[ACCOUNT] = nav
        bars: dict[str, list[Mapping[str, Any]]] = {}
        for bar in table_rows(state.get("history")):
            bars.setdefault(str(bar.get("stock_id")), []).append(bar)
        most = first_number(limits, ("max_positions",))
        return cls(
            day=str(state.get("day", f"step {observation.step}")),
            rows=rows,
            candidates=tuple(candidates),
            held=frozenset(positions),
            prices=prices,
            cash=first_number(account, _CASH),
            bars=bars,
            most_positions=None if most is None else int(most),
            asks_stances="hold" in limits,
        )

    @property
    def focus(self) -> frozenset[str]:
        """Assets that today's decision is mainly about: those held, or the only one."""
        return self.held or frozenset(self.candidates if len(self.candidates) == 1 else ())


def first_number(row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """Return the first finite number of some fields; None if there is none."""
    numbers = (value for name in names if isinstance(value := row.get(name), int | float) and not isinstance(value, bool))
    return next((float(value) for value in numbers if abs(value) < sys.float_info.max), None)


def without_documents(prompt: str, sources: Collection[str]) -> str:
    """Return a prompt without the documents of some sources; every other byte of it stays."""
    if not sources or not (matches := list(_NEWS.finditer(prompt))):
        return prompt
    table, end = json.JSONDecoder().raw_decode(prompt, matches[-1].end())
    column = table["columns"].index("source")
    kept = {**table, "rows": [row for row in table["rows"] if row[column] not in sources]}
    return prompt[: matches[-1].end()] + json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + prompt[end:]
