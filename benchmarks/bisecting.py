"""An attacker that asks: it bisects the price of a lot through every channel that answers, and
names stocks by the price it learns.

It plays episodes with the harness of a run. Prices are shown rebased to 100, and a lot is 100 of
the true shares, so whatever depends on lots tells the level: how many a plan has in `risk_check`,
which orders are rejected as less than a lot or filled, what a holding has in shares and is worth,
what a fill costs and takes off the cash, how much of a buy the cash covers. Each answer bounds the
close of day_+0. The attacker knows the rules and the options of the mask.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ktdeval.harness.chat_messages import CallParams, ModelRequest, Reply
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.aliases_and_noise import round_significant
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.runner.episodes.shown_account import SeenBooks
from ktdeval.trading.market_tape import MarketTape
from ktdeval.values import derive_seed
from ktdeval_builtin.react import ReactAgent
from ktdeval_ktdfin.step_view import EpisodeStage
from ktdeval_ktdfin.task import KtdfinScene

CHANNELS = (
    "risk_check",
    "rejections",
    "filled shares",
    "holdings",
    "costs",
    "cash",
    "NAV",
    "partial fills",
)
ASKING_DAYS = 3  #: enough for risk_check, which answers eleven times a day
NAMES = 11  #: looked at in an episode: one call for all, one for each
LOT, BUY_FEE, MIN_FEE = 100, 5e-4, 5.0
SHOWN_DIGITS = 6  #: of numbers that a mask does not round
FEN = 0.005  #: half of the smallest step of a price


class Span(NamedTuple):
    """What a number can be."""

    low: float
    high: float

    @classmethod
    def of(cls, shown: float, digits: int) -> Span:
        """What a number at so many digits stands for."""
        half = 0.5 * 10.0 ** (math.floor(math.log10(abs(shown))) - digits + 1) if shown else 0.0
        return cls(shown - half, shown + half)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2.0

    def times(self, other: Span) -> Span:
        return Span(self.low * other.low, self.high * other.high)

    def over(self, other: Span) -> Span:
        return Span(self.low / other.high, self.high / other.low)

    def within(self, other: Span) -> Span:
        """Both at once; this one where they contradict each other."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Span(low, high) if low <= high else self


ANY = Span(0.5, 4000.0)


@dataclass
class Bisector:
    """A model that attacks through one channel, and keeps for each stock what the level of day_+0
    can be.
    """

    channel: str
    digits: int
    #: those attacked; the first that a screen lists where there are none
    names: tuple[str, ...] = ()
    spans: dict[str, Span] = field(default_factory=dict)
    boards: dict[str, str] = field(default_factory=dict)
    #: name -> lots, price at which they are just bought
    asked: dict[str, tuple[int, float]] = field(default_factory=dict)
    bought: dict[str, int] = field(default_factory=dict)  #: lots held
    others: tuple[str, ...] = ()
    last_cash: Span = field(default_factory=lambda: Span(1e6, 1e6))
    step: int = -1

    def reply(self, request: ModelRequest) -> Reply:
        talk = Conversation(request)
        if not self.names:
            rows = talk.rows(talk.result("screen_candidates").get("candidates", {}))
            if not rows:
                return talk.call([("screen_candidates", {"factors": ["CV_VOL"], "k": 30})])
            self.start(rows)
        if talk.is_submission:
            self.step += 1
            return talk.submit(list(self.orders(talk)), "to learn the price of a lot")
        if self.channel == "risk_check":
            return self.ask(talk)
        if talk.calls_made < NAMES:
            missing = [name for name in self.names if name not in self.bars(talk)]
            if missing:
                return talk.call(
                    [("get_stock_snapshot", {"stock_id": name, "lookback": 2}) for name in missing]
                )
        return Reply("nothing more to ask")

    def start(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.names = tuple(row["stock_id"] for row in rows[:NAMES])
        self.others = tuple(row["stock_id"] for row in rows[NAMES:])
        self.boards = {row["stock_id"]: row["board"] for row in rows}

    def min_lots(self, name: str) -> int:
        return 2 if self.boards[name] == "star" else 1

    # --- what is shown

    def bars(self, talk: Conversation) -> dict[str, list[Mapping[str, Any]]]:
        """Last two bars of the stocks that were looked at in this step."""
        found = {}
        for message in talk.request.messages:
            if message.role == "tool" and '"bars"' in message.content:
                shown = json.loads(message.content)
                found[shown["stock_id"]] = talk.rows(shown["bars"])
        return found

    def level(self, price: Span, shown: float) -> Span:
        """Close of day_+0 of a stock whose price is shown rebased."""
        return price.over(Span.of(shown, self.digits)).times(Span(100.0, 100.0))

    def learn(self, name: str, span: Span) -> None:
        self.spans[name] = self.spans.get(name, ANY).within(span)

    # --- risk_check

    def ask(self, talk: Conversation) -> Reply:
        """Ask for plans in which each stock has a number of lots just at the middle of what its
        price can be.
        """
        closes = {
            row["stock_id"]: row["close_cny"]
            for row in talk.rows(talk.result("compare_candidates").get("grid", {}))
        }
        if not closes:
            return talk.call(
                [("compare_candidates", {"stock_ids": list(self.names), "dims": ["SKEW"]})]
            )
        plan = {
            row["stock_id"]: row for row in talk.rows(talk.result("risk_check").get("plan", {}))
        }
        for name, (lots, price) in self.asked.items():
            amount = plan[name]["amount_cny"] if name in plan else None
            if amount is not None:
                is_dear = amount < (lots - 0.5) * LOT * price
                bound = Span(price, ANY.high * 100) if is_dear else Span(0.0, price)
                self.learn(
                    name, bound.over(Span(closes[name], closes[name])).times(Span(100.0, 100.0))
                )
        self.asked = {}
        if talk.calls_made >= 12:
            return Reply("nothing more to ask")
        weights = {}
        for name in self.names:
            span, close = self.spans.get(name, ANY), closes[name]
            price = math.sqrt(span.low * span.high) * close / 100.0
            most = int(min(span.low / max(span.high - span.low, 1e-9), 70_000.0 / (LOT * price)))
            lots = max(
                self.min_lots(name),
                most - derive_seed(0, name, talk.calls_made, self.step) % max(1, most // 2),
            )
            weights[name] = min(1.0, lots * LOT * price / 1e6)
            self.asked[name] = (lots, price)
        return talk.call([("risk_check", {"target_weights": weights})])

    # --- orders

    def orders(self, talk: Conversation) -> Iterator[dict[str, Any]]:
        if self.channel == "risk_check":
            return
        self.read(talk)
        if self.channel == "partial fills":
            yield from self.orders_that_cash_cuts(talk)
            return
        for name in self.names:
            bars = self.bars(talk).get(name)
            if not bars:
                continue
            if self.channel == "rejections":
                span, lots = (
                    self.spans.get(name, ANY),
                    self.bought.get(name, 0) + self.min_lots(name),
                )
                # No more than what buys this number of lots and no further one.
                level = min(math.sqrt(span.low * span.high), span.low * (1.0 + 0.9 / lots))
                price = level * bars[-1]["close_cny"] / 100.0
                weight = lots * LOT * price / talk.state["account"]["nav_cny"]
                self.asked[name] = (lots, price)
            else:
                weight = 0.03 + 0.0041 * (self.step % 15)
            if weight <= 0.1:
                yield order_of(name, "BUY", weight)

    def orders_that_cash_cuts(self, talk: Conversation) -> Iterator[dict[str, Any]]:
        """Hold nine others at the largest weight, so that cash covers a part of one more, which is
        sold and bought again.
        """
        target = self.names[0]
        if self.step == 0:
            for name in self.others[:9]:
                yield order_of(name, "BUY", 0.1)
        elif target in {row["stock_id"] for row in talk.rows(talk.state["positions"])}:
            yield order_of(target, "SELL", 0.0)
        else:
            self.last_cash = Span.of(talk.state["account"]["cash_cny"] or 1.0, self.digits)
            yield order_of(target, "BUY", 0.1)

    def read(self, talk: Conversation) -> None:
        """Learn from what became of the last orders."""
        state, bars = talk.state, self.bars(talk)
        ends = {
            row["stock_id"]: row
            for row in talk.rows((state.get("last_step") or {}).get("orders") or {})
        }
        held = {row["stock_id"]: row for row in talk.rows(state["positions"])}
        for name in self.names:
            end, own = ends.get(name), bars.get(name)
            if end is None or not own or end["side"] != "BUY":
                continue
            if self.channel == "rejections":
                self.read_rejection(name, end, own)
            elif end["filled_shares"]:
                self.read_fill(name, end, held[name], own[-1], state)

    def read_rejection(
        self, name: str, end: Mapping[str, Any], bars: Sequence[Mapping[str, Any]]
    ) -> None:
        """A buy of a lot more is filled, or rejected as less than one, at the open (of a coarse
        mask: at the last close).
        """
        lots, price = self.asked.get(name, (0, 0.0))
        shown = bars[-1]["open_cny"] if self.digits == SHOWN_DIGITS else bars[0]["close_cny"]
        if not lots or len(bars) < 2:
            return
        if end["filled_shares"]:
            self.bought[name] = lots
            bound = Span(0.0, price)
        elif end.get("rule") == "lot":
            bound = Span(price, ANY.high * 100)
        elif end.get("rule") == "target" and self.bought.get(
            name
        ):  # what is held is worth more than the target
            bound = Span(lots * price / self.bought[name], ANY.high * 100)
        else:
            return
        self.learn(name, bound.over(Span(shown, shown)).times(Span(100.0, 100.0)))

    def read_fill(
        self,
        name: str,
        end: Mapping[str, Any],
        held: Mapping[str, Any],
        bar: Mapping[str, Any],
        state: Any,
    ) -> None:
        """Numbers of a fill over its lots; how many they are follows from the level at three
        digits, which risk_check gives.
        """
        prior, fill = self.spans[name].middle, end["fill_price_cny"]
        lots = round(end["filled_shares"] / prior)
        all_lots = round(held["shares"] / prior)
        digits, account = self.digits, state["account"]
        if not lots or not all_lots:
            return
        if self.channel == "filled shares":
            self.learn(name, Span.of(held["shares"], digits).over(Span(all_lots, all_lots)))
            self.learn(name, Span.of(end["filled_shares"], digits).over(Span(lots, lots)))
        elif self.channel == "holdings":
            size = all_lots * LOT
            self.learn(
                name,
                self.level(
                    Span.of(held["value_cny"], digits).over(Span(size, size)), bar["close_cny"]
                ),
            )
        elif self.channel == "costs" and end["cost_cny"] > MIN_FEE:
            size = lots * LOT * BUY_FEE
            self.learn(
                name, self.level(Span.of(end["cost_cny"], digits).over(Span(size, size)), fill)
            )
        elif self.channel == "cash":
            now, size = Span.of(account["cash_cny"], digits), lots * LOT * (1.0 + BUY_FEE)
            spent = Span(self.last_cash.low - now.high, self.last_cash.high - now.low)
            self.learn(name, self.level(spent.over(Span(size, size)), fill))
        elif self.channel == "NAV":
            cash, nav = Span.of(account["cash_cny"], digits), Span.of(account["nav_cny"], digits)
            size = all_lots * LOT
            worth = Span(nav.low - cash.high, nav.high - cash.low)
            self.learn(name, self.level(worth.over(Span(size, size)), bar["close_cny"]))
        elif self.channel == "partial fills" and end.get("rule") == "cash":
            least, most = lots * LOT * (1.0 + BUY_FEE), (lots + 1) * LOT * (1.0 + BUY_FEE)
            self.learn(
                name, self.level(Span(self.last_cash.low / most, self.last_cash.high / least), fill)
            )


def order_of(name: str, side: str, weight: float) -> dict[str, Any]:
    return {
        "stock_id": name,
        "side": side,
        "target_weight": weight,
        "confidence": 0.5,
        "reason": "what it costs tells its price",
    }


class Learned(NamedTuple):
    """What an attacker believes of one stock."""

    base: int  #: row of day_+0
    asset: int
    span: Span  #: what its close there can be


class Field:
    """A market under a mask on which attackers play."""

    def __init__(
        self, market: MarketSnapshot, task: Any, tools: Any, mask: MaskConfig, seed: int
    ) -> None:
        self.market, self.task, self.tools, self.mask, self.seed = market, task, tools, mask, seed
        self.tape = MarketTape.from_snapshot(market, task.trading)
        self.digits = mask.round_digits or SHOWN_DIGITS

    def attack(self, channel: str, base: int, days: int) -> list[Learned]:
        """Play through one channel from the close of a row on; what was learned of each stock."""
        if channel in ("risk_check", "rejections"):
            return self.play(
                Bisector(channel, self.digits),
                base,
                ASKING_DAYS if channel == "risk_check" else days,
            )
        known = self.play(Bisector("risk_check", self.digits), base, ASKING_DAYS)
        if channel in ("cash", "NAV", "partial fills"):  # of one stock an episode
            days = 9 if channel == "partial fills" else 2
            return [found for one in known for found in self.refine(channel, base, days, [one])]
        return self.refine(channel, base, days, known)

    def refine(self, channel: str, base: int, days: int, known: Sequence[Learned]) -> list[Learned]:
        """Start from levels at three digits and learn the rest."""
        lens = self.lens(base)
        names = tuple(lens.asset_handle(one.asset) for one in known)
        spans = {
            name: Span.of(round_significant(one.span.middle, 3), 3)
            for name, one in zip(names, known, strict=True)
        }
        boards = {
            name: str(self.market.boards[one.asset]) for name, one in zip(names, known, strict=True)
        }
        members = [
            asset
            for asset in lens.order
            if self.market.member[base, asset] and np.isfinite(self.market.close[base, asset])
        ]
        own = {one.asset for one in known}
        others = tuple(lens.asset_handle(asset) for asset in members if asset not in own)[:9]
        return self.play(
            Bisector(channel, self.digits, names, spans, boards, others=others),
            base,
            days,
            (*names, *others),
        )

    def lens(self, base: int) -> Lens:
        return Lens(self.mask, derive_seed(self.seed, base, "mask"), self.market, base)

    def play(
        self, model: Bisector, base: int, days: int, shown: Sequence[str] = ()
    ) -> list[Learned]:
        lens, task = self.lens(base), self.task
        lens.recall(shown)
        stage = EpisodeStage.open(self.market, lens, (task.harness, task.trading))
        scene = KtdfinScene(task._config, lens, stage, f"The episode lasts {days} days.")
        parts = SessionParts(
            model,
            lens,
            LeakGuard(lens, self.market),
            self.tools,
            ActionForm(task.harness, lens),
            task.harness,
            CallParams(),
            0,
        )
        books = Bookkeeper(self.market, self.tape, task.trading, base)
        seen = SeenBooks(lens, self.market, self.tape, task.trading)
        for step in range(days):
            view = self.market.as_of(base + step)
            observation = scene.observe(step, view, seen.account, seen.last)
            session = GuardedSession(
                parts,
                step,
                scene.tool_context(step, view, seen.account),
                breaches=seen.breaches,
            )
            outcome = session.decide(ReactAgent(), observation, None)
            decision = replace(outcome.decision, action=seen.size_orders(outcome.decision.action))
            record = books.book(step, decision, outcome.counts)
            seen.follow(books.account, record)
        found = []
        for name in model.names:
            asset = lens.parse_asset(name)
            assert asset is not None
            found.append(Learned(base, asset, model.spans.get(name, ANY)))
        return found


class Named(NamedTuple):
    """How well levels name stocks."""

    is_exact: np.ndarray  #: [stocks] the level is right to the fen
    error: np.ndarray  #: [stocks] its relative error
    #: [stocks] chance to name it as the stock that had such a close on most days
    by_pairs: np.ndarray
    #: [stocks] chance to name it among the index members of the day, which is known
    by_day: np.ndarray
    k: np.ndarray  #: [stocks] pairs of stock and day with that level


def name_stocks(market: MarketSnapshot, learned: Sequence[Learned], digits: int) -> Named:
    """Name each stock by its level: the one whose close was that level on most days or, where the
    day is known, evenly one of those of that day. Of a mask that rounds prices the attacker knows
    that all answers are those of the level at so many digits.
    """
    made = []
    closes = np.where(market.member, market.close, np.nan)
    for base, asset, span in learned:
        known = market.close[: base + 1, asset]
        level = float(known[np.isfinite(known)][-1])
        guess = span.middle
        if digits < SHOWN_DIGITS:
            guess = round_significant(guess, digits)
            span = Span.of(guess, digits)
        half = max(FEN, (span.high - span.low) / 2.0) + 1e-9
        fits = np.abs(closes - guess) <= half
        today, days = fits[base], fits.sum(axis=0)
        by_day = today[asset] / today.sum() if today.any() else 0.0
        is_best = (days == days.max()) & (days > 0)
        by_pairs = is_best[asset] / is_best.sum() if is_best.any() else 0.0
        made.append(
            (abs(guess - level) <= FEN, abs(guess / level - 1.0), by_pairs, by_day, fits.sum())
        )
    columns = [np.array(column, dtype=float) for column in zip(*made, strict=True)]
    return Named(*columns)
