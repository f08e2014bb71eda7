"""Built-in models, keyed by name: hold, random, models that buy the top of a ranking, and chaos.

All except chaos behave well: they look things up, check the plan, and submit. They compare only
figures, so labels don't affect their trades. Names are ordered by figures that no mask changes, and
names with identical figures are treated alike. `builtin/random` draws among labels only if a task
shows nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any, cast

from ktdeval.attribution import FACTORS
from ktdeval.errors import ConfigError, UsageError
from ktdeval.harness import Model, ModelRequest, Reply
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
    holdable,
    is_affordable,
    is_offered,
    largest_weight,
    places_of,
    rebalance,
    sell_short,
    standing,
    table_columns,
)
from ktdeval.values import near_matches, whole_groups
from ktdeval_models.chaos import ChaosModel
from ktdeval_models.params import (
    ChaosParams,
    EqualWeightParams,
    FirstListedParams,
    LinearFactorParams,
    RandomParams,
    RankParams,
)
from ktdeval_models.question_answers import first_answer, question_form
from ktdeval_models.random_model import (
    RandomModel,
    names_are_shown,
    screened_places,
    stock_ids,
)

MAX_FACTORS = 6  # maximum number of factors in one screen
_NEAREST = {"MOM_12_1": "return_60d_pct", "RV_60": "volatility_20d_pct"}


def _row_figure(row: Row, name: str) -> float | None:
    """Return a figure from a row. If the table shows no style factors, return the closest
    substitute.
    """
    if name in row:
        return cast("float | None", row[name])
    if name == "ILLIQ" and "close" in row:
        # A table omits a column that has no values: then all names are treated as equally liquid.
        return -float(row["close"] or 0.0) * float(row.get("volume") or 0.0)
    return cast("float | None", row.get(_NEAREST.get(name, "")))


def _is_shown(columns: Collection[str], name: str) -> bool:
    """Return whether `_row_figure` finds this figure in a table with these columns."""
    nearest = "close" if name == "ILLIQ" else _NEAREST.get(name)
    return name in columns or nearest in columns


class Hold(KeylessModel):
    """Model that looks at the market and the account but never trades."""

    def lookups(self, conversation: Conversation) -> Sequence[Call]:  # noqa: ARG002 - the same two calls
        """Return the calls for the market and the portfolio."""
        return [("get_market_context", {}), ("portfolio_state", {})]

    def plan(self, conversation: Conversation) -> Sequence[Intent]:  # noqa: ARG002 - the same for any prompt
        """Return no orders."""
        return []


class BuyAndHold(Hold):
    """Model that buys the names shown in the prompt in equal weights, the most liquid first, and
    never sells.
    """

    needs = "a table of candidates in the prompt"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether the prompt shows candidates."""
        return bool(table_columns(conversations, "candidates"))

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Buy names that are not held, within the task's limits.

        In a portfolio that the task rebuilds from decisions, decide BUY for every asset.
        """
        state = conversation.state
        rows = conversation.rows(state.get("candidates"))
        if not rows:
            return []

        limits = state["constraints"]
        if "weights" in limits:
            return _buy_to_hold(stock_ids(rows), 1.0 / len(rows))

        held = set(stock_ids(conversation.rows(state["positions"])))
        vacant = int(limits["max_positions"]) - len(held)
        if vacant <= 0:
            return []

        names = max(1, min(holdable(conversation), int(limits["max_positions"])))
        part = min(float(limits["max_weight"]), 1.0 / names)
        fresh = []
        for row in buyable(rows):
            if row["stock_id"] not in held and is_affordable(row, state, part):
                fresh.append(row)

        illiquidity = [-(_row_figure(row, "ILLIQ") or 0.0) for row in fresh]
        groups = standing(fresh, illiquidity)
        certain = Certain(conversation)
        cash = state["account"]["cash_weight"]
        bought = []
        for group in whole_groups(groups, vacant):
            weight = part if len(group) == 1 else certain.share(part, len(group))
            if weight > 0.0 and cash >= part / 2:
                bought.append(_buy_to_hold(stock_ids(group), weight))
                cash -= weight * len(group)

        return equal_first(bought)


def _buy_to_hold(stocks: Iterable[str], weight: float) -> list[Intent]:
    return [Intent(stock, "BUY", weight, 0.5, "bought to be held") for stock in stocks]


class FirstListed(Hold):
    """Model that buys the first names listed in its prompt, in equal weights, and never sells.

    It reads only the list and the positions. The mask key decides the order of the list, so this
    model's results are the baseline for the effect of list order (`ktdeval compare labels --keys`).
    """

    needs = "a list of names in the prompt: candidates or a universe"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether the prompt lists names."""
        return names_are_shown(conversations)

    def __init__(self, params: FirstListedParams) -> None:
        self.params = params

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. A question gets its first choice."""
        form = question_form(request)
        if form is None:
            return super().reply(request)
        return Conversation(request).call([(form.name, first_answer(form))])

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return the parent's problem; a question needs no account."""
        if any(question_form(request) is not None for request in requests):
            return None
        return super()._step_problem(requests)

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Buy if nothing is held yet and the prompt lists names."""
        state = conversation.state
        if conversation.rows(state["positions"]):
            return []

        candidates = stock_ids(conversation.rows(state.get("candidates")))
        listed = candidates or state.get("universe", ())
        limits = state["constraints"]
        count = min(self.params.positions, int(limits["max_positions"]), len(listed))
        if not count:
            return []

        part = min(self.params.invested / count, float(limits["max_weight"]))
        reason = "among the first listed"
        return [Intent(stock, "BUY", part, 0.5, reason) for stock in listed[:count]]


class RankModel(KeylessModel):
    """Model that buys the names ranked best by one figure, in equal weights.

    A buffer avoids needless trading: a name is sold only when it falls below `keep_rank`.
    """

    def __init__(self, figure: str, lowest_first: bool, params: RankParams) -> None:
        ranked_by = params.by or figure
        self.label = ranked_by
        self.weights: Mapping[str, float] = {ranked_by: -1.0 if lowest_first else 1.0}
        self.params = params
        # A holding is rebalanced if its weight is outside these multiples of its target.
        self.band = (0.0, params.trim_above)
        # Latest plan, with everything that it depends on: the state and the tool results. Each step
        # requests the plan twice, first to check it and then to submit it. A subclass's `ranking`
        # must depend on nothing else.
        self._latest: tuple[object, Sequence[Intent]] | None = None

    @property
    def needs(self) -> str:  # type: ignore[override]  # follows from the figures
        """Figures by which names are ranked."""
        return (
            f"candidates in the prompt with {', '.join(self.weights)}, or the tool"
            " screen_candidates"
        )

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether the model's figures are shown, or can be looked up."""
        if is_offered(conversations, "screen_candidates"):
            return True
        columns = table_columns(conversations, "candidates")
        return all(_is_shown(columns, figure) for figure in self.weights)

    def lookups(self, conversation: Conversation) -> Sequence[Call]:
        """Return the calls for the market, for the ranking, and for the ranking figures of the
        holdings.

        Holdings need a separate call, because a ranking omits stocks at a price limit.
        """
        signed = [figure if weight > 0 else f"-{figure}" for figure, weight in self.weights.items()]
        depth = max(self.params.positions, self.params.keep_rank)
        calls: list[Call] = [
            ("get_market_context", {}),
            ("screen_candidates", {"factors": signed, "k": depth}),
        ]
        held = stock_ids(conversation.rows(conversation.state["positions"]))
        if held:
            calls.append(("compare_candidates", {"stock_ids": held, "dims": list(self.weights)}))

        return calls

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Sell names that dropped out of the ranking, and buy the best names that are not held."""
        results = dict(conversation.results)
        results.pop("risk_check", None)
        shown = (conversation.observed.text, results)
        latest = self._latest
        if latest is None or latest[0] != shown:
            latest = (shown, self._plan(conversation))
            self._latest = latest

        return latest[1]

    def _plan(self, conversation: Conversation) -> Sequence[Intent]:
        ranking = self.ranking(conversation)
        if ranking is None:
            return []

        if conversation.state["constraints"].get("short_sales"):
            # In a small market at most half of the names are sold short, so that no name is on both
            # sides.
            shorts = min(self.params.shorts or 0, holdable(conversation) // 2)
            if shorts:
                return self._long_and_short(conversation, ranking, shorts)

        invested = self.params.invested
        sizing = Sizing.equal(conversation, self.params.positions, invested, self.band)
        return rebalance(conversation, ranking, sizing)

    def _long_and_short(
        self, conversation: Conversation, ranking: Ranking, shorts: int
    ) -> Sequence[Intent]:
        """Buy the best names, and sell short the `shorts` worst of the remaining names."""
        # Half of the invested capital backs the short positions: their margin can't be spent.
        invested = self.params.invested / 2
        positions = min(self.params.positions, holdable(conversation) - shorts)
        worst = list(whole_groups(reversed(_groups_from(ranking.groups, positions)), shorts))
        still_short = frozenset(stock_ids(chain.from_iterable(worst)))
        if ranking.kept is not None:
            ranking = replace(ranking, kept=ranking.kept - still_short)

        sizing = Sizing.equal(conversation, positions, invested, self.band)
        weight = min(invested / shorts, largest_weight(conversation))
        return [
            *rebalance(conversation, ranking, sizing),
            *sell_short(conversation, worst, still_short, weight),
        ]

    def ranking(self, conversation: Conversation) -> Ranking | None:
        """Return the ranking from the screen, or from the prompt's table; None if there is neither."""
        screened = conversation.result_rows("screen_candidates", "candidates")
        if screened:
            equal = screened_places(conversation.result("screen_candidates"))
            held = conversation.result_rows("compare_candidates", "grid")
            return self._screened_ranking(screened, equal, held)

        candidates = conversation.rows(conversation.state.get("candidates"))
        if not candidates:
            return None

        holdings = conversation.rows(conversation.state.get("holdings"))
        return self._shown_ranking(candidates, holdings)

    def _screened_ranking(
        self, screened: Sequence[Row], equal: Mapping[str, int], held: Sequence[Row]
    ) -> Ranking:
        """Rank by the screen. Holdings that score below the screen's row `keep_rank` are sold."""
        groups = self.order_groups(Ranking(screened, None, "", equal).groups)
        rows = list(chain.from_iterable(groups))
        places = places_of(groups)
        # If nothing is held or the look-up failed, holdings can't be ranked and are kept.
        if not held:
            return Ranking(buyable(rows), None, self.label, places)

        last = min(self.params.keep_rank, len(rows)) - 1
        bar = self._score(rows[last])
        above = [row for row in held if self._is_scored(row) and self._score(row) >= bar]
        return Ranking(buyable(rows), frozenset(stock_ids(above)), self.label, places)

    def _shown_ranking(self, candidates: Sequence[Row], holdings: Sequence[Row]) -> Ranking:
        """Rank the prompt's candidates and holdings together; only candidates can be bought."""
        scored = [row for row in (*candidates, *holdings) if self._is_scored(row)]
        groups = standing(scored, [self._score(row) for row in scored])
        first_groups = _groups_before(groups, self.params.keep_rank)
        in_first = frozenset(stock_ids(chain.from_iterable(first_groups)))

        offered = set(stock_ids(candidates))
        rows = chain.from_iterable(groups)
        on_offer = buyable([row for row in rows if row["stock_id"] in offered])
        return Ranking(on_offer, in_first, self.label, places_of(groups))

    def order_groups(self, groups: Sequence[Sequence[Row]]) -> Sequence[Sequence[Row]]:
        """Return the groups of screened rows, best first. With a single figure, the screen's order
        is kept.
        """
        return groups

    def _is_scored(self, row: Row) -> bool:
        return all(_row_figure(row, figure) is not None for figure in self.weights)

    def _score(self, row: Row) -> float:
        return math.fsum(
            weight * (_row_figure(row, figure) or 0.0) for figure, weight in self.weights.items()
        )


def _groups_from(groups: Sequence[Sequence[Row]], count: int) -> list[Sequence[Row]]:
    """Return the groups that begin after the first `count` rows."""
    begins = accumulate(map(len, groups), initial=0)
    return [group for begin, group in zip(begins, groups, strict=False) if begin >= count]


def _groups_before(groups: Sequence[Sequence[Row]], count: int) -> list[Sequence[Row]]:
    """Return the groups that begin within the first `count` rows."""
    begins = accumulate(map(len, groups), initial=0)
    return [group for begin, group in zip(begins, groups, strict=False) if begin < count]


class LinearFactor(RankModel):
    """Model that buys the names with the highest weighted sum of style factors.

    It trades as a trained linear model would. The screen returns the names with the best mean rank
    over the factors, each factor ranked in the direction of its coefficient. The weighted sum then
    ranks these names and decides which holdings are kept.
    """

    def __init__(self, params: LinearFactorParams) -> None:
        super().__init__("a weighted sum of factors", False, params)
        self.weights = parse_coefficients(params.coefficients)

    def order_groups(self, groups: Sequence[Sequence[Row]]) -> Sequence[Sequence[Row]]:
        """Return the groups ordered by weighted sum; ties keep the screen's order."""
        return sorted(groups, key=lambda group: -self._score(group[0]))


def parse_coefficients(text: str) -> Mapping[str, float]:
    """Parse `MOM_12_1:0.02 RV_60:-0.1` into a mapping from factor to coefficient. Coefficients of 0
    are omitted.

    Raises ConfigError if the text is malformed, names an unknown factor, or names a factor twice.
    """
    names = [factor.name for factor in FACTORS]
    weights: dict[str, float] = {}
    for part in text.split():
        name, _, number = part.partition(":")
        if name not in names:
            advice = near_matches(name, names) or f"; names are {', '.join(names)}"
            raise ConfigError(f"coefficients: no factor {name!r}{advice}")

        try:
            weight = float(number)
        except ValueError as error:
            raise ConfigError(
                f"coefficients: {part!r} is not of the form NAME:NUMBER, such as MOM_12_1:0.02"
            ) from error

        if name in weights or not math.isfinite(weight):
            raise ConfigError(
                f"coefficients: {name} is named twice, or its coefficient is not finite"
            )

        weights[name] = weight

    used = {name: weight for name, weight in weights.items() if weight}
    if not 0 < len(used) <= MAX_FACTORS:
        raise ConfigError(
            f"coefficients: at least one and at most {MAX_FACTORS} factors need a coefficient that"
            " is not 0, such as MOM_12_1:0.02"
        )

    return used


class EqualWeight(RankModel):
    """Model that buys the most liquid names in equal weights and rebalances them.

    It sells a name only after the name has left the index.
    """

    def __init__(self, params: EqualWeightParams) -> None:
        rank_params = RankParams(positions=params.positions, invested=params.invested)
        super().__init__("ILLIQ", True, rank_params)
        self.band = (1.0 - params.band, 1.0 + params.band)

    def ranking(self, conversation: Conversation) -> Ranking | None:
        """Return a ranking by liquidity that keeps every holding."""
        ranking = super().ranking(conversation)
        if ranking is None:
            return None
        return replace(ranking, kept=None, label="liquidity")


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
    """Return a built-in model, with its default parameters unless `params` is given. `name` comes
    without the prefix `builtin/`.

    Raises UsageError if the name is unknown.
    """
    if name not in _MAKERS:
        raise UsageError(f"no built-in model {name!r}{near_matches(name, _MAKERS)}")
    return _MAKERS[name](params)
