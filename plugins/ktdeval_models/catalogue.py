"""Built-in models by name: one that holds, one that trades at random, those that hold the best of a ranking, and chaos.

All but chaos behave well: they look things up, check the plan, submit. They compare figures only, so labels don't affect their
trades: names are ordered by figures that no mask changes, and those that are equal in all of them are treated alike. Only where a
task shows nothing but labels, `builtin/random` draws among these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from itertools import accumulate, groupby
from typing import Any, cast

import numpy as np

from ktdeval.attribution import FACTORS
from ktdeval.errors import ConfigError, UsageError
from ktdeval.fields import near_matches
from ktdeval.harness import Model
from ktdeval.keyless import (
    Call,
    Certain,
    Conversation,
    Intent,
    KeylessModel,
    Ranking,
    Row,
    Sizing,
    buyable,
    equal_first,
    is_affordable,
    is_offered,
    places_of,
    rebalance,
    sell_short,
    standing,
    table_columns,
    worth,
)
from ktdeval.seeds import derive_seed
from ktdeval.ties import whole_groups
from ktdeval_models.chaos import ChaosModel
from ktdeval_models.params import ChaosParams, EqualWeightParams, FirstListedParams, LinearFactorParams, RandomParams, RankParams

SCREENS = ("MOM_12_1", "-RV_60", "ILLIQ", "REV_ON", "-MOM_ID", "SKEW", "CORR_PV", "HIGH_52W", "-CV_VOL")
MOST_FACTORS = 6  # that one screen takes
_NEAREST = {"MOM_12_1": "return_60d_pct", "RV_60": "volatility_20d_pct"}


def _figure(row: Row, name: str) -> float | None:
    """Return a figure of a row; if its table shows no style factors, the nearest figure that it shows."""
    if name in row:
        return cast("float | None", row[name])
    if name == "ILLIQ" and {"close", "volume"} <= row.keys():
        return -float(row["close"] or 0.0) * float(row["volume"] or 0.0)
    return row.get(_NEAREST.get(name, ""))


def _is_shown(columns: Collection[str], name: str) -> bool:
    """Whether a table with these columns gives the figure that `_figure` reads."""
    illiquidity = name == "ILLIQ" and {"close", "volume"} <= set(columns)
    return name in columns or illiquidity or _NEAREST.get(name) in columns


class Hold(KeylessModel):
    """Looks at the market and at the account, and never trades."""

    def lookups(self, conversation: Conversation) -> Sequence[Call]:  # noqa: ARG002 - the same two calls
        """Return the calls for the market and the portfolio."""
        return [("get_market_context", {}), ("portfolio_state", {})]

    def plan(self, conversation: Conversation) -> Sequence[Intent]:  # noqa: ARG002 - the same for any prompt
        """Return no orders."""
        return []


class BuyAndHold(Hold):
    """Buys what the prompt shows, in equal parts, the most liquid names first, and sells nothing."""

    needs = "a table of candidates in the prompt"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether the prompt shows candidates."""
        return bool(table_columns(conversations, "candidates"))

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Buy what is not held, within the task's limits; nothing if the prompt shows no market. In a portfolio that the task
        rebuilds from decisions, decide BUY for every asset.
        """
        rows, state = conversation.rows(conversation.state.get("candidates")), conversation.state
        if "weights" in state["constraints"]:
            return [Intent(row["stock_id"], "BUY", 1.0 / len(rows), 0.5, "bought to be held") for row in rows]
        held = {row["stock_id"] for row in conversation.rows(state["positions"])}
        if not rows or len(held) >= int(state["constraints"]["max_positions"]):
            return []
        part = min(float(state["constraints"]["max_weight"]), 1.0 / len(rows))
        fresh = [row for row in buyable(rows) if row["stock_id"] not in held and is_affordable(row, state, part)]
        vacant = int(state["constraints"]["max_positions"]) - len(held)
        groups = standing(fresh, [-(_figure(row, "ILLIQ") or 0.0) for row in fresh])
        bought, certain, cash = [], Certain(conversation), state["account"]["cash_weight"]
        for group in whole_groups(groups, vacant):
            weight = part if len(group) == 1 else certain.share(part, len(group))
            if weight > 0.0 and cash >= part / 2:
                bought.append([Intent(row["stock_id"], "BUY", weight, 0.5, "bought to be held") for row in group])
                cash -= weight * len(group)
        return equal_first(bought)


class FirstListed(Hold):
    """Buys the first names of the list in its prompt, in equal parts, and keeps them: it looks at positions and at nothing else.

    It is the baseline of what the order of a list is worth, which a mask key draws (`ktdeval invariance --keys`).
    """

    needs = "a list of names in the prompt: candidates or a universe"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether the prompt lists names."""
        return _names_are_shown(conversations)

    def __init__(self, params: FirstListedParams) -> None:
        self.params = params

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Buy where nothing is held; nothing where the prompt lists no names."""
        state = conversation.state
        if conversation.rows(state["positions"]):
            return []
        candidates = [row["stock_id"] for row in conversation.rows(state.get("candidates"))]
        listed = candidates or state.get("universe", ())
        limits = state["constraints"]
        count = min(self.params.positions, int(limits["max_positions"]))
        part = min(self.params.invested / count, float(limits["max_weight"]))
        return [Intent(stock, "BUY", part, 0.5, "among the first listed") for stock in listed[:count]]


class RandomModel(KeylessModel):
    """Sells holdings and buys shown names at random, from a seed: the baseline that a strategy has to beat at its own turnover.

    In memory_only the names shown are the universe, so it trades there too: a label is all that there is to draw. Elsewhere it
    draws from names in the order of their figures, and names that are equal in all of them as one. Draws depend on the seed of the
    window's chance (`ModelRequest.chance_seed`) only, one stream per phase of a step; it differs between calls, and so would the
    orders: only the submission counts.
    """

    draws_chance = True
    needs = "names to draw from: candidates or a universe in the prompt, or the tool screen_candidates"

    def __init__(self, params: RandomParams) -> None:
        self.params = params

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether names are shown, or can be looked up."""
        return _names_are_shown(conversations) or is_offered(conversations, "screen_candidates")

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return the market, and a ranking by a factor drawn at random."""
        factor = SCREENS[int(_chance(conversation, "screen").integers(len(SCREENS)))]
        return [("get_market_context", {}), ("screen_candidates", {"factors": [factor], "k": 30})]

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Return a few random sells and buys."""
        if not conversation.is_submission:
            return []
        chance, state = _chance(conversation, "orders"), conversation.state
        held = conversation.rows(state["positions"])
        sells = [group for group in _by_worth(held) if chance.random() < self.params.sell_probability]
        names = self._names(conversation, {row["stock_id"] for row in held})
        limits = state["constraints"]
        vacant = limits["max_positions"] - len(held) + sum(map(len, sells))
        count = max(0, min(int(chance.integers(self.params.max_buys + 1)), len(names), vacant))
        drawn = [names[index] for index in chance.permutation(len(names))[:count]]
        picks = [*whole_groups(drawn, vacant)]
        intents = [
            Intent(row["stock_id"], "SELL" if row["weight"] >= 0 else "BUY", 0.0, confidence, "sold by the toss of a coin")
            for group in sells
            for confidence in [_confidence(chance)]
            for row in group
        ]
        return [*intents, *self._bought(conversation, picks, chance)]

    def _names(self, conversation: Conversation, held: Set[str]) -> list[list[str]]:
        """Return groups of names that are not held and may be bought: in the screen's order, else in that of their figures."""
        result = conversation.result("screen_candidates")
        if screened := conversation.rows(result.get("candidates")):
            placed = _screened_places(result)
            groups = Ranking(buyable(screened), None, "", placed).groups
        elif candidates := conversation.rows(conversation.state.get("candidates")):
            groups = standing(buyable(candidates))
        else:
            return [[stock] for stock in conversation.state.get("universe", ()) if stock not in held]
        shown = [[str(row["stock_id"]) for row in group if row["stock_id"] not in held] for group in groups]
        return [group for group in shown if group]

    def _bought(self, conversation: Conversation, picks: Sequence[Sequence[str]], chance: np.random.Generator) -> list[Intent]:
        """Return the orders that open positions, long or short, at weights drawn at random; equal names share one."""
        limits, certain = conversation.state["constraints"], Certain(conversation)
        limit = min(self.params.largest_weight, limits["max_weight"])
        shorts = (self.params.short_probability or 0.0) if limits.get("short_sales") else 0.0
        bought = []
        for group in picks:
            weight = round(float(chance.uniform(limit / 4, limit)) / len(group), 4)
            is_short = bool(shorts) and chance.random() < shorts
            confidence = _confidence(chance)
            if len(group) > 1 and not certain.takes(weight * len(group), len(group)):
                continue
            if is_short:
                order = Intent("", "SELL", -weight, confidence, "sold short by the toss of a coin")
            else:
                order = Intent("", "BUY", weight, confidence, "bought by the toss of a coin")
            bought.append([order._replace(stock_id=stock) for stock in group])
        return equal_first(bought)


def _by_worth(held: Sequence[Row]) -> list[list[Row]]:
    """Return holdings in the order shown, those of one weight and value as a group."""
    return [[*group] for _, group in groupby(held, key=worth)]


def _screened_places(result: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the place of names that the screen calls equal in all figures; others have places of their own."""
    return places_of(({"stock_id": stock} for stock in group) for group in result.get("equal", ()))


def _names_are_shown(conversations: Sequence[Conversation]) -> bool:
    universes = [asked.state.get("universe") for asked in conversations if asked.is_submission]
    return bool(table_columns(conversations, "candidates")) or any(universes)


def _confidence(chance: np.random.Generator) -> float:
    return round(float(chance.uniform(0.4, 0.6)), 3)


def _chance(conversation: Conversation, purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive_seed(conversation.request.chance_seed, "random", purpose))


class RankModel(KeylessModel):
    """Holds the names that rank best by one figure, in equal weights, with a buffer against needless trading."""

    def __init__(self, figure: str, lowest_first: bool, params: RankParams) -> None:
        self.label = figure = params.by or figure
        self.weights: Mapping[str, float] = {figure: -1.0 if lowest_first else 1.0}
        self.params = params
        self.band = (0.0, params.trim_above)  # multiples of the target weight beyond which a holding is corrected

    @property
    def needs(self) -> str:  # type: ignore[override]  # follows from the figures
        """Figures to rank by."""
        return f"candidates in the prompt with {', '.join(self.weights)}, or the tool screen_candidates"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Whether the figures that it ranks by are shown, or can be looked up."""
        columns = table_columns(conversations, "candidates")
        return is_offered(conversations, "screen_candidates") or all(_is_shown(columns, figure) for figure in self.weights)

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return calls for the market, the ranking, and the same figures of the holdings: a ranking leaves out those at a limit."""
        held = [row["stock_id"] for row in conversation.rows(conversation.state["positions"])]
        signed = [figure if weight > 0 else f"-{figure}" for figure, weight in self.weights.items()]
        depth = max(self.params.positions, self.params.keep_rank)
        calls: list[Call] = [("get_market_context", {}), ("screen_candidates", {"factors": signed, "k": depth})]
        return [*calls, ("compare_candidates", {"stock_ids": held, "dims": list(self.weights)})] if held else calls

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Sell what fell out of the ranking, buy the best names not held; hold if nothing is shown to rank."""
        ranking = self.ranking(conversation)
        if ranking is None:
            return []
        shorts = self.params.shorts if conversation.state["constraints"].get("short_sales") else None
        # Half of what is invested backs the shorts: their margin can't be spent.
        invested = self.params.invested / 2 if shorts else self.params.invested
        sizing = Sizing.equal(conversation.state, self.params.positions, invested, self.band)
        intents = rebalance(conversation, ranking, sizing)
        if shorts is None:
            return intents
        worst = [*whole_groups(reversed(_after(ranking.groups, self.params.positions)), shorts)]
        kept = frozenset(row["stock_id"] for group in worst for row in group)
        return [*intents, *sell_short(conversation, worst, kept, invested / shorts)]

    def ranking(self, conversation: Conversation) -> Ranking | None:
        """Return the ranking by the tools' results, else by the table of the prompt; None if neither shows anything."""
        result = conversation.result("screen_candidates")
        if screened := conversation.rows(result.get("candidates")):
            groups = self.ordered(Ranking(screened, None, "", _screened_places(result)).groups)
            rows, placed = [row for group in groups for row in group], places_of(groups)
            held = conversation.rows(conversation.result("compare_candidates").get("grid"))
            if not held:  # nothing is held, or the look-up failed: holdings that can't be ranked are kept
                return Ranking(buyable(rows), None, self.label, placed)
            bar = self._score(rows[min(self.params.keep_rank, len(rows)) - 1])
            kept = frozenset(row["stock_id"] for row in held if self._is_scored(row) and self._score(row) >= bar)
            return Ranking(buyable(rows), kept, self.label, placed)
        candidates = conversation.rows(conversation.state.get("candidates"))
        if not candidates:
            return None
        holdings = conversation.rows(conversation.state.get("holdings"))
        scored = [row for row in (*candidates, *holdings) if self._is_scored(row)]
        groups = standing(scored, [self._score(row) for row in scored])
        rows = [row for group in groups for row in group]
        begins = accumulate(map(len, groups), initial=0)
        kept = frozenset(
            row["stock_id"] for begin, group in zip(begins, groups, strict=False) if begin < self.params.keep_rank for row in group
        )
        offered = {row["stock_id"] for row in candidates}
        return Ranking(buyable([row for row in rows if row["stock_id"] in offered]), kept, self.label, places_of(groups))

    def ordered(self, groups: Sequence[Sequence[Row]]) -> Sequence[Sequence[Row]]:
        """Return groups of the screen's rows, best first: with one figure, in the screen's own order."""
        return groups

    def _is_scored(self, row: Row) -> bool:
        return all(_figure(row, figure) is not None for figure in self.weights)

    def _score(self, row: Row) -> float:
        return math.fsum(weight * (_figure(row, figure) or 0.0) for figure, weight in self.weights.items())


def _after(groups: Sequence[Sequence[Row]], count: int) -> list[Sequence[Row]]:
    """Return the groups that begin after the first `count` rows."""
    begins = accumulate(map(len, groups), initial=0)
    return [group for begin, group in zip(begins, groups, strict=False) if begin >= count]


class LinearFactor(RankModel):
    """Holds the names with the highest weighted sum of style factors, as a trained linear model does.

    The screen offers the names with the best mean rank over the factors, each in the direction of its coefficient; the weighted
    sum ranks these, and decides which holdings are kept.
    """

    def __init__(self, params: LinearFactorParams) -> None:
        super().__init__("a weighted sum of factors", False, params)
        self.weights = parse_coefficients(params.coefficients)

    def ordered(self, groups: Sequence[Sequence[Row]]) -> Sequence[Sequence[Row]]:
        """Return groups by their weighted sums; the screen's order breaks ties."""
        return sorted(groups, key=lambda group: -self._score(group[0]))


def parse_coefficients(text: str) -> Mapping[str, float]:
    """`MOM_12_1:0.02 RV_60:-0.1` as factor -> coefficient; a coefficient of 0 leaves its factor out.

    Raises ConfigError: it has another form, names no factor, or names one twice.
    """
    names = [factor.name for factor in FACTORS]
    weights: dict[str, float] = {}
    for part in text.split():
        name, _, number = part.partition(":")
        if name not in names:
            raise ConfigError(f"coefficients: no factor {name!r}{near_matches(name, names) or '; names are ' + ', '.join(names)}")
        try:
            weight = float(number)
        except ValueError as error:
            raise ConfigError(f"coefficients: {part!r} is not of the form NAME:NUMBER, such as MOM_12_1:0.02") from error
        if name in weights or not math.isfinite(weight):
            raise ConfigError(f"coefficients: {name} is named twice, or its coefficient is not finite")
        weights[name] = weight
    used = {name: weight for name, weight in weights.items() if weight}
    if not 0 < len(used) <= MOST_FACTORS:
        raise ConfigError(
            f"coefficients: at least one and at most {MOST_FACTORS} factors need a coefficient that is not 0, such as MOM_12_1:0.02"
        )
    return used


class EqualWeight(RankModel):
    """Holds the most liquid names in equal weights and rebalances them; a name is sold only when it has left the index."""

    def __init__(self, params: EqualWeightParams) -> None:
        super().__init__("ILLIQ", True, RankParams(positions=params.positions, invested=params.invested))
        self.band = (1.0 - params.band, 1.0 + params.band)

    def ranking(self, conversation: Conversation) -> Ranking | None:
        """Return a ranking by liquidity, which keeps every holding."""
        ranking = super().ranking(conversation)
        return None if ranking is None else ranking._replace(kept=None, label="liquidity")


_MAKERS: dict[str, Callable[[Any], Model]] = {
    "hold": lambda params: Hold(),  # noqa: ARG005 - it has no parameters
    "buy_and_hold": lambda params: BuyAndHold(),  # noqa: ARG005 - it has no parameters
    "first_listed": lambda params: FirstListed(params or FirstListedParams()),
    "random": lambda params: RandomModel(params or RandomParams()),
    "equal_weight": lambda params: EqualWeight(params or EqualWeightParams()),
    "momentum": lambda params: RankModel("MOM_12_1", False, params or RankParams()),
    "reversal": lambda params: RankModel("return_20d_pct", True, params or RankParams()),
    "low_volatility": lambda params: RankModel("RV_60", True, params or RankParams()),
    "linear_factor": lambda params: LinearFactor(params or LinearFactorParams(coefficients="")),
    "chaos": lambda params: ChaosModel(params or ChaosParams()),
}


def make_builtin(name: str, params: Any = None) -> Model:
    """Return a built-in model, with defaults where there are no parameters. `name`: without `builtin/`; UsageError: unknown."""
    if name not in _MAKERS:
        raise UsageError(f"no built-in model {name!r}{near_matches(name, _MAKERS)}")
    return _MAKERS[name](params)
