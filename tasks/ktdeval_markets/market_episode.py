"""One episode of a task for any market: what is shown at each close, and how decisions are
executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ktdeval.errors import DataError
from ktdeval.harness import Lesson, Observation, Rebuild, StanceForm
from ktdeval.market import MarketView, Venue, parse_day
from ktdeval.masking import DayRef, Payload, table
from ktdeval.observation import observe
from ktdeval.trading import Account, StepRecord, has_dated_duties
from ktdeval_markets import documents, price_tables, prompt_texts, shown_state
from ktdeval_markets.config import MarketConfig
from ktdeval_markets.episode_setting import MarketStage
from ktdeval_markets.portfolio import PortfolioRebuild


class MarketScene:
    """One episode. Implements `ktdeval.task_api.Scene`."""

    def __init__(
        self,
        config: MarketConfig,
        stage: MarketStage,
        venues: Mapping[str, Venue],
        warm_up: str | None,
    ) -> None:
        self.lens = stage.lens
        self._stage = stage
        self._warm_up = warm_up
        self._inverted = config.labels == "inverted"
        self._is_compact = config.is_compact
        self._weights = config.weights
        self._rules = prompt_texts.rules_prompt(
            config, stage.trading, stage.rules, venues, stage.length
        )
        self._submission = prompt_texts.submission_prompt(config, stage.rules)
        self._request = prompt_texts.request_prompt(config)
        self._limits = _limits(config, stage)
        self._dated: list[Venue] = []
        if not stage.lens.hides_dates:
            self._dated = [one for one in venues.values() if has_dated_duties(one, stage.trading)]
        self.form: StanceForm | None = None  #: form of decisions; None if the task asks for orders
        if config.stances.are_asked_for:
            rule = config.stances.rule(stage.rules.shorts)
            self.form = StanceForm(config.harness, stage.lens, rule)

    def observe(
        self, step: int, view: MarketView, account: Account, last: StepRecord | None
    ) -> Observation:
        """Return the prompt of one step."""
        self.lens.move_to(view.day)
        listed = shown_state.list_assets(self._stage, view, last, self._stage.shown)
        if self.form is not None:
            self.form.today(
                listed,
                account.positions,
                self._rebuild(step, view, last, listed),
                shown_state.standings(self._stage, last, listed),
                shown_state.find_closed(self._stage, view, listed),
            )

        payload = self._payload(view, last, listed)
        observed = observe(
            self.lens,
            payload,
            is_compact=self._is_compact,
            sets_older_apart=self._stage.older_closes > 0,
        )
        day = self.lens.day_handle(view.day)
        return Observation(
            step,
            rules=self._rules,
            day=prompt_texts.day_prompt(day, step, observed.text),
            state=observed,
            submission=self._submission,
            request=self._request,
        )

    def tool_context(self, step: int, view: MarketView, account: Account) -> None:
        """Return None: the task has no research tools."""

    def _payload(
        self, view: MarketView, last: StepRecord | None, listed: Sequence[int]
    ) -> dict[str, Payload]:
        """Return the state at a close, without the tables that the task does not show."""
        stage = self._stage
        last_step = None
        if last is not None:
            last_step = shown_state.last_step(stage, last, view.day)

        payload = {
            "day": DayRef(view.day),
            "account": shown_state.account(stage, last),
            "positions": shown_state.positions(stage, view, last),
            "last_step": last_step,
            "constraints": self._limits,
            "candidates": price_tables.assets(stage, view, listed),
        }
        if self._dated:
            payload["duties"] = shown_state.duties(self._dated, stage.snapshot.days[view.day])
        if stage.news:
            payload["news"] = documents.news(stage, view, listed)
        if stage.intraday:
            shown_within_day = shown_state.list_assets(stage, view, last, stage.intraday)
            payload["intraday"] = price_tables.intraday(stage, view, shown_within_day)
        if stage.history:
            payload["history"] = price_tables.history(stage, view, listed)

        return payload

    def _rebuild(
        self, step: int, view: MarketView, last: StepRecord | None, listed: Sequence[int]
    ) -> Rebuild | None:
        """Return the rule that rebuilds the portfolio at this close; None if the task does not
        rebuild its portfolio.
        """
        if self._weights is None:
            return None

        rules = self._stage.rules
        nav_minor = self._stage.initial_minor if last is None else last.nav_minor
        return PortfolioRebuild(
            view,
            step,
            listed,
            nav_minor,
            rules,
            self._weights,
            known=self.lens.figures.known_price,
            shown=self.lens.figures.as_shown(view),
        )

    # --- the warm-up

    def lessons(self, view: MarketView) -> Iterator[Lesson]:
        """Yield the days of the window's warm-up, each with the next prices of its assets. Assets
        without a next price are omitted from the day, and days without any such asset are skipped.
        The last prices shown are those on `view`'s day. Raises DataError if the market begins after
        the first day of the warm-up.
        """
        if self._warm_up is None:
            return

        for row in range(self._first_row(self._warm_up), view.day):
            lesson = self._lesson(view, row)
            if lesson is not None:
                yield lesson

        self.lens.move_to(view.day)

    def _first_row(self, first: str) -> int:
        """Return the row of the warm-up's first trading day."""
        snapshot = self._stage.snapshot
        first_day = parse_day(first)
        if snapshot.days[0] > first_day:
            raise DataError(
                f"the warm-up begins on {first}, but {snapshot.meta.name} only on "
                f"{snapshot.days[0]}; import earlier days"
            )
        return int(np.searchsorted(snapshot.days, first_day))

    def _lesson(self, view: MarketView, row: int) -> Lesson | None:
        """Return a warm-up day with its outcomes up to `view`'s day; None if no asset has an
        outcome.
        """
        stage = self._stage
        then = stage.snapshot.as_of(row)
        listed = shown_state.list_assets(stage, then, None, stage.shown)
        shown = stage.lens.figures.as_shown(view)
        outcomes = price_tables.outcomes(shown, row, listed, self._inverted)
        if not outcomes:
            return None

        self.lens.move_to(row)
        payload = {"day": DayRef(row), "candidates": price_tables.assets(stage, then, listed)}
        if stage.news:
            payload["news"] = documents.news(stage, then, listed)
        payload["outcomes"] = table(price_tables.OUTCOME_COLUMNS, outcomes)

        observed = observe(self.lens, payload, is_compact=self._is_compact)
        day = self.lens.day_handle(row)
        return Lesson(day, prompt_texts.lesson_prompt(day, observed.text), observed)


def _limits(config: MarketConfig, stage: MarketStage) -> dict[str, Payload]:
    """Return the task's limits as numbers, which the system prompt explains."""
    limits: dict[str, Payload] = {
        "max_positions": stage.trading.max_positions,
        "max_weight": stage.trading.max_weight,
        "short_sales": stage.rules.shorts,
        "min_reason_chars": config.harness.min_reason_chars,
    }
    if config.stances.are_asked_for:
        limits["hold"] = config.hold
    if config.weights:
        limits["weights"] = config.weights

    return limits
