"""A model that knows the whole market in advance: the positive control for masks.

It uses its knowledge only for codes and days that it recognises.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ktdeval.errors import ConfigError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import Conversation, Intent, Ranking, Row, Sizing, rebalance, table_columns
from ktdeval.market import parse_day
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval_models.builtin_models import RankModel
from ktdeval_models.params import MemoryParams
from ktdeval_models.question_answers import question_form, remembered_answer
from ktdeval_models.recognised_figures import identity_answer, identity_form
from ktdeval_models.remembered_facts import RememberedFacts, uniform_of

CONFIDENT = 0.8
REMEMBERED = "what is remembered to have risen"
"""The criterion by which remembered names are ranked, as shown in reasons."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The model's memory of the names on one day."""

    # asset -> growth; NaN if the asset is remembered as having no price
    forecasts: Mapping[int, float]
    order: Sequence[int]  # assets with known growth, largest first
    row: int | None  # row of the day; None if the day is hidden


class MemoryModel(RankModel):
    """Recalls prices for the codes and days that it recognises, and otherwise ranks by momentum.

    * Codes and days recognised: it holds the index members that will rise most over the next
      `horizon` days.
    * Only codes recognised: it holds the shown names that rose most over all days of the market.
    * Only days recognised: it is invested while the market is about to rise.
    * Neither recognised: it acts like `builtin/momentum`.

    With `recall` below 1 it knows only a share of the facts: it buys names that it remembers to
    rise, and ranks the rest by momentum. If asked which stock and day is shown, it searches its
    memory for the figures; when it trades, it uses only labels. If asked for a code, the direction
    of a month or a close, it answers from what the question shows or from its memory, and else
    guesses.
    """

    def __init__(self, _name: str, params: MemoryParams) -> None:
        super().__init__("MOM_12_1", False, params)
        self.params: MemoryParams = params
        if params.until is not None:
            parse_day(params.until, "until: ", ConfigError)

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. The request may also ask which stock and day is shown, or for a fact
        of the market.
        """
        form = identity_form(request)
        if form is not None:
            return Conversation(request).call([(form.name, identity_answer(request, self._facts))])

        form = question_form(request)
        if form is not None:
            answer = remembered_answer(request, form, self.params, self._facts)
            return Conversation(request).call([(form.name, answer)])

        return super().reply(request)

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return the parent's problem; a question needs no account."""
        for request in requests:
            if identity_form(request) is not None or question_form(request) is not None:
                return None

        return super()._step_problem(requests)

    @property
    def needs(self) -> str:  # type: ignore[override]  # as of its parent
        """Labels to recognise, or figures by which to rank."""
        return f"names to recognise: candidates or a universe in the prompt; or {super().needs}"

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether any names are shown that the model might recognise. Masked names count
        too, since whether it recognises them is what the model measures.
        """
        for asked in conversations:
            if asked.is_submission and asked.observed.universe:
                return True

        return bool(table_columns(conversations, "candidates")) or super().can_act(conversations)

    @cached_property
    def _facts(self) -> RememberedFacts:
        market = open_snapshot(load_plugins(), self.params.market, {})
        return RememberedFacts(market, self.params)

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Hold the remembered names if codes are recognised. Otherwise follow the ranking, or hold
        cash if the market is remembered to fall.
        """
        if self.params.invents:
            return self._buy_invented(conversation)

        recognised, row = self._keys(conversation)
        if recognised:
            return self._buy_remembered(conversation, recognised, row)

        if row is None or self._facts.index_rises(row) is not False:
            return super().plan(conversation)

        reason = "the market is remembered to fall from here"
        sales = []
        for position in conversation.observed.positions.values():
            if position.is_sellable:
                sales.append(Intent(position.label, "SELL", 0.0, CONFIDENT, reason))

        return sales

    def _keys(self, conversation: Conversation) -> tuple[list[int], int | None]:
        """Return the assets and the day's row that the model recognises and uses."""
        keyed_by = self.params.keyed_by
        row = None
        if keyed_by != "code":
            row = self._facts.row_of(conversation.observed.day)
            if row is not None and not self._facts.reach(row):
                return [], None

        recognised: list[int] = []
        if keyed_by != "date":
            recognised = self._recognise_assets(conversation)
        if keyed_by == "both" and (row is None or not recognised):
            return [], None

        return recognised, row

    def _recognise_assets(self, conversation: Conversation) -> list[int]:
        """Return the assets whose codes are shown, without duplicates."""
        screened = conversation.result_rows("screen_candidates", "candidates")
        state = conversation.observed
        labels = [row["stock_id"] for row in screened]
        labels += [*state.candidates, *state.universe]
        if labels:  # if only holdings are shown, there is nothing to choose
            labels += state.positions

        index = self._facts.market.asset_index
        return [index[label] for label in dict.fromkeys(labels) if label in index]

    def _buy_remembered(
        self, conversation: Conversation, shown: Sequence[int], row: int | None
    ) -> Sequence[Intent]:
        """Rebalance to the names that are remembered to rise most. If the day is unknown, so are
        the index members; only the names shown are ranked then.
        """
        if row is None:
            members = np.array(shown)
            growth, known = self._facts.over_all_days(members)
        else:
            members = np.flatnonzero(self._facts.market.member[row])
            growth, known = self._facts.on_day(members, row)

        # NaN: the model remembers that the name has no price.
        forecasts = dict(zip(members[known].tolist(), growth[known].tolist(), strict=True))
        priced = [asset for asset, forecast in forecasts.items() if np.isfinite(forecast)]
        order = sorted(priced, key=lambda asset: -forecasts[asset])
        if not known.all():
            return self._mix_intents(conversation, Recalled(forecasts, order, row))

        best = [self._code(asset) for asset in order[: 2 * self.params.positions]]
        ranking = Ranking(self._keep_priced(best, row), frozenset(best), REMEMBERED)
        return rebalance(conversation, ranking, self._sizing(conversation))

    def _mix_intents(self, conversation: Conversation, recalled: Recalled) -> Sequence[Intent]:
        """Buy names that are remembered to rise, then the best names of the ranking; sell names
        that are remembered to fall.

        A holding bought because of an earlier fact is kept until that fact's horizon ends. A
        holding that only the ranking supports is replaced by a name that is remembered to rise.
        """
        held = [row["stock_id"] for row in conversation.holdings]
        forecasts = {self._code(asset): growth for asset, growth in recalled.forecasts.items()}
        still_rising = self._still_rising(held, forecasts, recalled.row)
        if not forecasts and not still_rising:
            return super().plan(conversation)

        rising = [self._code(asset) for asset in recalled.order if recalled.forecasts[asset] > 1.0]
        ranking = self.ranking(conversation) or Ranking([], None, "")
        by_ranking = [row for row in ranking.buyable if row["stock_id"] not in forecasts]

        wanted = {*rising[: 2 * self.params.positions], *still_rising}
        fresh = [code for code in rising if code not in held][: self.params.positions]
        kept = {code for code in held if code in wanted}
        room = self.params.positions - len(kept) - len(fresh)
        on_ranking = []
        for code in held:
            is_ranked = ranking.kept is None or code in ranking.kept
            if code not in kept and code not in forecasts and is_ranked:
                on_ranking.append(code)

        places = {row["stock_id"]: place for place, row in enumerate(by_ranking)}
        on_ranking.sort(key=lambda code: places.get(code, len(places)))
        if fresh:
            on_ranking = on_ranking[: max(0, room)]

        mixed = Ranking(
            [*self._keep_priced(rising, recalled.row), *by_ranking],
            frozenset({*kept, *on_ranking}),
            REMEMBERED,
            ranking.places,
        )
        intents = rebalance(conversation, mixed, self._sizing(conversation))
        return [self._with_reason(intent, forecasts) for intent in intents]

    def _still_rising(
        self, held: Sequence[str], forecasts: Container[str], row: int | None
    ) -> list[str]:
        """Return the holdings that have no fact for today, but for which an earlier fact still
        predicts a rise.
        """
        if row is None:
            return []

        rising = []
        for code in held:
            is_known = code in self._facts.market.asset_index
            if is_known and code not in forecasts and self._facts.said_to_rise(code, row):
                rising.append(code)

        return rising

    def _with_reason(self, intent: Intent, forecasts: Container[str]) -> Intent:
        """Return an order with its reason. The reason for an order that comes from the ranking does
        not claim memory.
        """
        if intent.stock_id in forecasts:
            return intent
        return replace(intent, reason=intent.reason.replace(REMEMBERED, self.label))

    def _buy_invented(self, conversation: Conversation) -> Sequence[Intent]:
        """Buy the shown names whose labels the model prefers on the day, and keep them. The
        preference changes daily, because a lasting preference would earn the same name's return in
        every window.
        """
        ranking = self.ranking(conversation)
        if ranking is None:
            return []

        day = conversation.observed.day

        def invent_figure(row: Row) -> float:
            return uniform_of(self.params.seed, "invented", row["stock_id"], day)

        liked = sorted(ranking.buyable, key=invent_figure)
        own = Ranking(liked, None, REMEMBERED)
        return rebalance(conversation, own, self._sizing(conversation))

    def _sizing(self, conversation: Conversation) -> Sizing:
        params = self.params
        return Sizing.equal(conversation, params.positions, params.invested, self.band)

    def _code(self, asset: int) -> str:
        return self._facts.market.codes[asset]

    def _keep_priced(self, codes: Sequence[str], row: int | None) -> list[Row]:
        """Return the rows of the names that have a price on the day."""
        rows = [self._row(code, row) for code in codes]
        return [each for each in rows if each["close_cny"] is not None]

    def _row(self, code: str, row: int | None) -> Row:
        market = self._facts.market
        asset = market.asset_index[code]
        price = market.close[-1 if row is None else row, asset]
        close = float(price) if np.isfinite(price) else None

        return {"stock_id": code, "close_cny": close, "board": str(market.boards[asset])}
