"""Traders that hold the whole history of the market and try to find out which day and which stocks a
mask shows them: what that is worth, by task, at least; and what perfect foresight earns, at most.

    python benchmarks/informed_traders.py [--data FOLDER] [--tasks …] [--windows …] [--seeds 1]
    python benchmarks/informed_traders.py --data csi300 --write benchmarks/informed_returns.csv
    python benchmarks/informed_traders.py --rows [--data FOLDER] [--windows …]

A trader reads every figure that it is shown and compares it with the same figure of each day and stock
(`looking_up`). The index names the day; closes to the fen and returns name the stocks. Where research
is offered, its twelve calls are the screens that show the labels worth most (`best_screens`). Where
the account alone is shown, it trades, so that fills, values and rejections answer for prices. Then it
holds what earns most at the opens to come (`foresight_trading`), under the task's limits and costs.

`--policies`: how it trades until it knows the day; `windows` reads no figure and knows only that an
episode is one of the task's public windows. Returns are means over windows and seeds, in per cent, with
95 % intervals (Student's t). The last row of a task is the bound of `foresight_bound`. `--write`: the
file of which tables of the documentation are made.

`--rows`: how many rows of a rebased table of candidates name their stock and day by returns alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from best_screens import SHOWN, best_screens
from foresight_bound import foresight_bound
from foresight_trading import Foresight, planned
from informed_returns import Row, student_interval, write_rows
from known_history import DIMS, KnownHistory
from looking_up import LookUp, conversation_tables
from played_episodes import PLUGINS, begin_episode, market_of, total_return
from rows_by_returns import RowsByReturns

from ktdeval.harness import ModelTraits, ToolCall
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.trading.types import TradingConfig

Policy = Literal["one", "ten", "alternating", "cash", "windows"]
#: Policies that go by what they are shown alone
POLICIES: tuple[Policy, ...] = ("one", "ten", "alternating", "cash")
#: KTD-Fin's tasks behind a mask, the headline task first
TASKS = (
    "blinded_open_research",
    "blinded_fixed_candidate",
    "blinded_memory_only",
    "stock_blind_open_research",
    "stock_blind_fixed_candidate",
    "stock_blind_memory_only",
    "date_blind_open_research",
    "date_blind_fixed_candidate",
    "date_blind_memory_only",
    "blinded_rebased_open_research",
    "blinded_rebased_fixed_candidate",
    "blinded_open_research_paper",
    "stock_blind_open_research_paper",
    "date_blind_open_research_paper",
    "blinded_memory_only_paper",
    "stock_blind_memory_only_paper",
    "date_blind_memory_only_paper",
)
RULES = ("first_listed", "momentum", "random")  #: that know nothing
FORESIGHT = "perfect foresight"  #: the bound's row
INITIAL_MINOR = 100_000_000  #: cash that each of these tasks begins with, in fen
NAMES = 10  #: that it holds while it knows nothing
WEIGHT = 0.09
LOT = 100
TRIED_WEIGHT = 0.004  #: what a lot of a label that it does not know yet may cost
IN_STOCKS = 0.999  #: of the NAV: costs come from the rest
PATIENCE = 12  #: steps after which one that has learnt nothing holds the first names listed
LEAST_WANTED = 1e-4  #: worth of a label that nothing is expected of
COMPARED = 50  #: labels in one comparison
REASON = "what comes back tells a price"


class InformedTrader:
    """A model of rules that looks up what it is shown. One episode long."""

    traits = ModelTraits(is_free=True)

    def __init__(
        self,
        history: KnownHistory,
        policy: Policy = "one",
        digits: int | None = None,
        windows: Mapping[int, int] | None = None,
        trading: TradingConfig | None = None,
    ) -> None:
        self._policy = policy
        self._digits = digits  #: of the mask, which a card shows
        self._windows = windows or {}  #: row of day_+0 -> last row, of the task's windows
        self._trading = trading or TradingConfig()
        self.known = LookUp(history, digits)
        self._history = history
        self._foresight = Foresight(history, self._trading, self._windows)
        self._seen: dict[
            str, None
        ] = {}  # labels that can be ordered, in the order of their first day
        self._lots: dict[str, int] = {}  # smallest order of a label, where it is known to be more
        self._tried = 0
        self._attempts = 0  # submissions of this day
        self.refused = 0  #: submissions that came back

    # ---- the day's decision

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request: look up all that tools show, then submit."""
        conversation = Conversation(request)
        if self.known.read(conversation):
            self._attempts = 0

        self._seen.update(dict.fromkeys(self._listed(conversation)))
        if not conversation.is_submission:
            return self._research(conversation)

        self._attempts += 1
        self.refused += self._attempts > 1
        orders: list[Any] = []
        if self._attempts == 1:
            bases = self._bases()
            orders = self._exploit(conversation, bases) if bases else self._probe(conversation)
        return conversation.submit(orders, conversation.reason(REASON))

    def _bases(self) -> Sequence[int]:
        """Rows of the first days that the episode may have; none where nothing is known of it."""
        if self.known.base is not None:
            return [self.known.base]
        if self._policy == "windows":
            return list(self._windows)
        return []

    # ---- research

    def _research(self, conversation: Conversation) -> Reply:
        calls: list[tuple[str, Any]] = []
        if "screen_candidates" in conversation.offered:
            limits = conversation.state["constraints"]
            left = int(limits["max_tool_calls"]) - conversation.calls_made
            calls = self._screens(conversation, left)[:left]
            if not calls and left:
                calls = self._comparisons(conversation)[:left]

        if calls:
            return conversation.call(calls)
        return Reply("Research done.")

    def _screens(self, conversation: Conversation, left: int) -> list[tuple[str, Any]]:
        """Screens that show the labels that are worth most, or one to know the day by."""
        known = self.known
        if known.base is None:
            if conversation.turns:
                return []
            return [_screen(["amount_20d_cny", "return_5d_pct"])]

        screens = [call for call in _calls_made(conversation) if call.name == "screen_candidates"]
        if len(screens) > 1:
            return []

        wanted = self._foresight.wanted(known.base, known.step) + LEAST_WANTED
        wanted[list(known.named.values())] = 0.0
        codes = self._history.market.asset_index
        if any(label in codes for label in self._seen):
            wanted[:] = 0.0  # a code needs no look-up

        if self._digits:
            left = left // 2  # comparisons name the labels
        row = known.base + known.step
        return [_screen(factors) for factors in best_screens(self._history, row, wanted, left)]

    def _comparisons(self, conversation: Conversation) -> list[tuple[str, Any]]:
        """Compare in all figures the labels of the day whose stocks are not known yet."""
        if any(call.name == "compare_candidates" for call in _calls_made(conversation)):
            return []

        shown = dict.fromkeys(row["stock_id"] for row in _rows_of(conversation))
        open_labels = [label for label in shown if label not in self.known.named]
        calls = []
        for first in range(0, len(open_labels), COMPARED):
            labels = open_labels[first : first + COMPARED]
            calls.append(("compare_candidates", {"stock_ids": labels, "dims": list(DIMS)}))
        return calls

    # ---- orders

    def _exploit(self, conversation: Conversation, bases: Sequence[int]) -> list[Any]:
        """Hold what earns most over the next days, among the labels that are known; try others."""
        known = self.known
        named = set(known.named.values())
        members = [self._history.market.member[base + known.step] for base in bases]
        others = [a for a in np.flatnonzero(np.any(members, axis=0)).tolist() if a not in named]
        values = self._foresight.values(bases, known.step, np.array(others, dtype=int))

        unknown = len(values.ratio) - 1
        columns = {}
        for label in self._seen:
            asset = known.asset_of(label)
            columns[label] = unknown if asset is None else asset

        held = _held(conversation)
        tried = self._tries(conversation, columns, unknown)
        in_stocks = IN_STOCKS - TRIED_WEIGHT * min(len(tried), self._trading.max_positions // 2)
        plan = planned(values, columns, held, (self._trading, in_stocks))
        orders = [_order(conversation, label, "SELL", 0.0) for label in plan.sales]
        for label, weight in plan.buys.items():
            orders.append(_order(conversation, label, "BUY", weight))

        kept = [label for label in held if label not in plan.sales]
        room = self._trading.max_positions - len({*kept, *plan.buys})
        room = min(room, self._trading.max_positions // 2)
        tried = [label for label in tried if label not in plan.buys]
        for label in self._next(tried, room):
            order = _order(conversation, label, "BUY", 0.0)
            del order["target_weight"]
            orders.append({**order, "shares": self._lots.get(label, LOT)})
        return orders

    def _tries(
        self, conversation: Conversation, columns: Mapping[str, int], unknown: int
    ) -> list[str]:
        """Labels whose stocks a purchase would tell: none where an account tells no price."""
        if conversation.observed.account.nav is None or self._digits:
            return []

        last = conversation.state.get("last_step") or {}
        for row in conversation.rows(last.get("orders")):
            if row.get("rule") == "lot":
                self._lots[row["stock_id"]] = 2 * LOT  # the STAR board's smallest order

        held = conversation.observed.positions
        return [label for label, at in columns.items() if at == unknown and label not in held]

    def _probe(self, conversation: Conversation) -> list[Any]:
        """Trade to be told something; hold the first names listed where nothing is told."""
        known = self.known
        held = list(conversation.observed.positions)
        listed = [label for label in self._listed(conversation) if label not in held]
        if self._policy in ("cash", "windows"):
            return []

        if known.step >= PATIENCE and not known.figures_read:
            if known.step > PATIENCE:
                return []
            kept = held[:NAMES]
            sales = [_order(conversation, label, "SELL", 0.0) for label in held[NAMES:]]
            fresh = listed[: NAMES - len(kept)]
            return sales + [_order(conversation, label, "BUY", WEIGHT) for label in fresh]

        if held:
            if self._policy == "ten" and known.step % 3:
                return []
            return [_order(conversation, label, "SELL", 0.0) for label in held]

        count = 1 if self._policy == "one" else NAMES
        orders = []
        for number, label in enumerate(self._next(listed, count)):
            weight = WEIGHT if self._policy != "ten" else 0.04 + 0.005 * number
            orders.append(_order(conversation, label, "BUY", weight))
        return orders

    def _next(self, labels: Sequence[str], count: int) -> list[str]:
        """The next labels in turn."""
        if not labels or count <= 0:
            return []
        first = self._tried
        self._tried += count
        return [labels[(first + k) % len(labels)] for k in range(min(count, len(labels)))]

    def _listed(self, conversation: Conversation) -> list[str]:
        """Labels that can be ordered: those shown, and all codes where codes are shown."""
        state = conversation.observed
        shown = [*state.universe, *state.candidates, *state.positions]
        shown += [row["stock_id"] for row in _rows_of(conversation)]
        codes = self._history.market.asset_index
        if not state.universe and any(label in codes for label in shown):
            shown += [code for code in codes if code not in self._seen]
        return shown


def _screen(factors: Sequence[str]) -> tuple[str, Any]:
    return "screen_candidates", {"factors": list(factors), "k": SHOWN}


def _calls_made(conversation: Conversation) -> list[ToolCall]:
    return [call for message in conversation.request.messages for call in message.tool_calls]


def _rows_of(conversation: Conversation) -> list[Mapping[str, Any]]:
    """Rows of stocks that research has shown on this day."""
    rows: list[Mapping[str, Any]] = []
    for message in conversation.request.messages:
        if message.role == "tool":
            for table in conversation_tables(message.content):
                rows += conversation.rows(table)
    return rows


def _held(conversation: Conversation) -> dict[str, float]:
    """Weights of what is held, by label."""
    positions = conversation.observed.positions
    return {label: held.weight or 0.0 for label, held in positions.items()}


def _order(conversation: Conversation, label: str, side: str, weight: float) -> dict[str, Any]:
    return {
        "stock_id": label,
        "side": side,
        "target_weight": round(weight, 4),
        "confidence": 0.5,
        "reason": conversation.reason(REASON),
    }


# ---- episodes


def opened(
    market: MarketSnapshot, name: str, model: Model, window: str, seed: int
) -> TradingEpisodeRun:
    """An episode of a task at its beginning."""
    task = PLUGINS.make_task(name)
    return begin_episode(task, market, model, task.windows[window], seed, seed)


@dataclass
class Result:
    """What one model made of a task, by window and seed."""

    returns: list[float]  #: as fractions
    windows: list[str] = field(default_factory=list)  #: of the returns
    found_at: list[int] = field(default_factory=list)  #: steps at which it knew the day
    right: int = 0  #: of these, with the true day
    labels: int = 0  #: whose figures it read
    named: int = 0  #: of these, those that it named rightly
    refused: int = 0  #: submissions that came back

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % interval of the mean."""
        return student_interval(self.returns)


def attack(
    history: KnownHistory, name: str, policy: Policy, windows: Sequence[str], seeds: int
) -> Result:
    """Trade a task in all windows as a trader that looks up what it is shown."""
    task = PLUGINS.make_task(name)
    market = history.market
    ends = {}
    for window, span in task.windows.items():
        if window != "long" and market.days[0] < np.datetime64(span.first):
            start, stop = window_rows(market.days, span.first, span.last)
            ends[window] = (start - 1, stop - 1)

    result = Result([])
    for window in windows:
        for seed in range(seeds):
            digits = task._config.round_digits
            trader = InformedTrader(history, policy, digits, dict(ends.values()), task.trading)
            episode = opened(market, name, trader, window, seed)
            result.returns.append(total_return(episode, INITIAL_MINOR))
            result.windows.append(window)
            _count(result, trader, episode, ends[window][0])

    return result


def _count(result: Result, trader: InformedTrader, episode: TradingEpisodeRun, start: int) -> None:
    """Add what a trader found out in an episode."""
    known = trader.known
    if known.known_at is not None:
        result.found_at.append(known.known_at)
        result.right += known.base == start

    result.refused += trader.refused
    for label in known.labels:
        result.labels += 1
        asset = known.named.get(label)
        result.named += asset is not None and asset == episode.lens.parse_asset(label)


def baseline(
    market: MarketSnapshot, name: str, model: str, windows: Sequence[str], seeds: int
) -> Result:
    """Trade a task in all windows as a built-in model."""
    result = Result([])
    for window in windows:
        for seed in range(seeds):
            made = PLUGINS.make_model(model, {})
            result.returns.append(
                total_return(opened(market, name, made, window, seed), INITIAL_MINOR)
            )
            result.windows.append(window)

    return result


def at_most(market: MarketSnapshot, name: str, windows: Sequence[str]) -> Result:
    """Bound the return of every account of a task, by window."""
    task = PLUGINS.make_task(name)
    digits = task._config.round_digits
    returns = [
        foresight_bound(market, task.windows[window], task.trading, digits) for window in windows
    ]
    return Result(returns, list(windows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="synthetic", help="a snapshot's folder")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--policies", help="by default those that a task leaves room for")
    parser.add_argument("--windows", default=",".join(f"W{number}" for number in range(1, 11)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--write", type=Path, help="a CSV for the returns of all windows")
    options = parser.parse_args()
    market = market_of(options.data)
    history = KnownHistory(market)
    windows = options.windows.split(",")
    if options.rows:
        print_rows(history, windows)
        return

    columns = ("task", "trader", "episodes", "day found", "latest step", "labels named", "return %")
    print(f"| {' | '.join(columns)} | 95 % interval |")
    print("|---" * (len(columns) + 1) + "|")
    written: list[Row] = []
    for name in options.tasks.split(","):
        policies = policies_of(name)
        if options.policies:
            policies = options.policies.split(",")
        for trader, result in results(history, name, policies, windows, options.seeds):
            print(_line(name, trader, result), flush=True)
            written += rows_of(name, trader, result)

    if options.write:
        write_rows(options.write, written)


def policies_of(name: str) -> tuple[Policy, ...]:
    """The policies that can differ in a task: where figures are shown, none has to trade for them."""
    if "memory_only" not in name:
        return ("cash",)
    if name.endswith("_paper"):
        return ("one",)
    if name.startswith("stock_blind"):
        return ("cash",)
    return (*POLICIES, "windows")


def results(
    history: KnownHistory,
    name: str,
    policies: Sequence[Policy],
    windows: Sequence[str],
    seeds: int,
) -> Iterator[tuple[str, Result]]:
    """Play a task: rules that know nothing, traders that look up, and the bound on all of them."""
    for rule in RULES:
        yield f"builtin/{rule}", baseline(history.market, name, f"builtin/{rule}", windows, seeds)
    for policy in policies:
        yield f"informed, {policy}", attack(history, name, policy, windows, seeds)

    yield FORESIGHT, at_most(history.market, name, windows)


def rows_of(name: str, trader: str, result: Result) -> list[Row]:
    """The returns of a trader, as rows of the file of returns."""
    latest = max(result.found_at, default=None)
    found = ""
    if latest is not None:
        found = f"{result.right} of {len(result.returns)}, by step {latest}"

    named = f"{result.named} of {result.labels}" if result.labels else ""
    rows = []
    for window, value in zip(result.windows, result.returns, strict=True):
        rows.append(Row(name, trader, window, round(100.0 * value, 2), found, named))
    return rows


def print_rows(history: KnownHistory, windows: Sequence[str]) -> None:
    """Print how many rows of candidates returns alone name."""
    name = "blinded_rebased_fixed_candidate"
    digits = PLUGINS.make_task(name)._config.round_digits
    print("| window | rows | named by exact returns | by returns of rounded prices |")
    print("|---|---|---|---|")
    for window in windows:
        model = RowsByReturns(history, digits)
        total_return(opened(history.market, name, model, window, 0), INITIAL_MINOR)
        print(f"| {window} | {model.rows} | {model.by_exact} | {model.by_rounded} |", flush=True)


def _line(name: str, trader: str, result: Result) -> str:
    low, high = (100 * bound for bound in result.interval)
    latest = max(result.found_at, default="")
    return (
        f"| {name} | {trader} | {len(result.returns)} | {result.right} | {latest} |"
        f" {result.named} of {result.labels} | {100 * result.mean:+.2f} |"
        f" {low:+.2f} … {high:+.2f} |"
    )


if __name__ == "__main__":
    main()
