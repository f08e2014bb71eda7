"""Simulate portfolios in a task's window for many accounts at once. What is listed at a close is
computed once and shared, and accounts are settled by the executor.

Unlike an episode of a run, a simulation has no prompts, transcripts or parsed submissions.
Observations and settlements are the same, which tests check by comparison with `TaskEnv`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import Decision as Decided, SubmissionForm
from ktdeval.market import window_rows
from ktdeval.observation import ObservedLimits, ObservedState
from ktdeval.runner import EpisodeFactory
from ktdeval.task_api import Window, task_traits
from ktdeval.trading import Action, CountsRecord, Order, StepRecord, known_breaches
from ktdeval.values import dumps_canonical
from ktdeval_gym.action_submissions import (
    Decision,
    bound_weights,
    make_submission,
    moves,
    tradables,
)
from ktdeval_gym.arrays import Observed, cut_weight, form_of, observe_state, write_figures
from ktdeval_gym.open_task import NoModel, OpenedTask

_REASON = "action of the environment's agent"
_DIGITS = 4  #: number of decimals in weights shown by a task
_NOTHING_COUNTED = CountsRecord(
    failures={},
    tool_calls=0,
    tool_calls_valid=0,
    submissions=0,
    unmask_attempts=0,
    input_tokens=0,
    output_tokens=0,
    reasoning_tokens=0,
    cache_read_tokens=0,
    cache_write_tokens=0,
)


#: [F] figures, and whether each is known
_Figures = tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]


@dataclass(frozen=True)
class _CloseListing:
    """Assets listed at a close, with their figures and limits."""

    labels: tuple[str, ...]
    assets: tuple[int, ...]  #: indices of the assets in the market
    figures: npt.NDArray[np.float32]  #: figures, [listed, F]
    known: npt.NDArray[np.int8]  #: whether each figure is known, [listed, F]
    limits: ObservedLimits


class TaskWindow:
    """One window of a multi-asset task, as its scene shows it."""

    def __init__(self, opened: OpenedTask, window: Window) -> None:
        """Raises UsageError if the task lists no candidates; DataError if the window has no
        days.
        """
        self.opened = opened
        self.spec = opened.spec(window)
        factory = EpisodeFactory({opened.task.name: opened.task}, opened.plugins, opened.snapshot)
        self.parts = factory.trading_parts(self.spec, NoModel())
        span = self.spec.span
        start, stop = window_rows(opened.snapshot.days, span.first, span.last)
        self.base_row = start - 1
        self.total_steps = stop - start
        self.scene = opened.task.scene(self.spec, opened.snapshot)
        self._labels: dict[int, str] = {}
        self._others: dict[tuple[int, int], _Figures] = {}
        self._listings: dict[tuple[int, frozenset[int]], _CloseListing] = {}
        self._cash_only = _AccountBooks(self)
        traits = task_traits(opened.task)
        self._adds_positions = traits.adds_positions
        #: the task's own form for decisions; None if the task asks for orders
        self.submission_form: SubmissionForm | None = None
        if traits.submission_form is not None:
            self.submission_form = traits.submission_form(self.scene)
        self.form = form_of(opened, self.state(0, self._cash_only))

    @property
    def has_form(self) -> bool:
        """Return whether the task has its own form and asks for decisions."""
        return self.submission_form is not None

    def state(self, step: int, books: _AccountBooks) -> ObservedState:
        """Return the state that the task shows to an account at a close."""
        view = self.opened.snapshot.as_of(self.base_row + step)
        state = self.scene.observe(step, view, books.account, books.last).state
        if state is None:
            raise UsageError(f"task {self.opened.task.name} shows no state; choose another task")
        return state

    def listing(self, step: int, books: _AccountBooks) -> _CloseListing:
        """Return the assets listed for an account at a close."""
        held = frozenset(books.account.positions)
        if self._adds_positions is None:
            return self._list_at_close(step, held, books)

        of_market = self._list_at_close(step, frozenset(), self._cash_only)
        others = held.difference(of_market.assets)
        if others and self._adds_positions:
            return self._list_at_close(step, others, books)
        return of_market

    def _list_at_close(
        self, step: int, held: frozenset[int], books: _AccountBooks
    ) -> _CloseListing:
        """Return the assets listed at a close for accounts that hold these positions."""
        key = (step, held)
        if key not in self._listings:
            self._listings[key] = self._new_listing(self.state(step, books))
        return self._listings[key]

    def _new_listing(self, state: ObservedState) -> _CloseListing:
        candidates = tuple(state.candidates.values())
        shape = (len(candidates), len(self.form.columns))
        figures = np.zeros(shape, dtype=np.float32)
        known = np.zeros(shape, dtype=np.int8)
        write_figures(candidates, self.form.columns, figures, known)
        assets: list[int] = []
        for candidate in candidates:
            asset = self.scene.lens.parse_asset(candidate.label)
            assert asset is not None  # the scene has just shown the state
            assets.append(asset)
            self._labels[asset] = candidate.label

        labels = tuple(candidate.label for candidate in candidates)
        return _CloseListing(labels, tuple(assets), figures, known, state.limits)

    def slots(self, listing: _CloseListing, books: _AccountBooks) -> list[int]:
        """Return the assets in an account's slots, as `tradables` does."""
        listed = set(listing.assets)
        others = [asset for asset in books.account.positions if asset not in listed]
        return [*listing.assets, *sorted(others, key=self._labels.__getitem__)]

    def figures_of(self, step: int, assets: Sequence[int], books: _AccountBooks) -> list[_Figures]:
        """Return the figures at a close for positions that are not listed. Like those of
        candidates, they come only from the market.
        """
        if any((step, asset) not in self._others for asset in assets):
            shown = self.state(step, books).assets
            for asset in assets:
                figures = np.zeros((1, len(self.form.columns)), dtype=np.float32)
                known = np.zeros(figures.shape, dtype=np.int8)
                write_figures([shown[self._labels[asset]]], self.form.columns, figures, known)
                self._others[step, asset] = (figures[0], known[0])
        return [self._others[step, asset] for asset in assets]


class _AccountBooks:
    """Books of one account."""

    def __init__(self, window: TaskWindow) -> None:
        self._window = window
        self._keeper = window.parts.bookkeeper(window.spec)
        self.step = 0
        self.nav_minor = int(self.account.cash_minor)  #: NAV at the current close

    @property
    def account(self) -> Any:
        """Account at the current close."""
        return self._keeper.account

    @property
    def last(self) -> StepRecord | None:
        """Record of the previous step."""
        return self._keeper.last

    def weight(self, minor: int) -> float:
        """Return an amount as a share of NAV, as tasks show it."""
        if self.nav_minor <= 0:
            return 0.0
        return round(minor / self.nav_minor, _DIGITS)

    def held_minor(self) -> dict[int, int]:
        """Return the value of each position by asset."""
        if self.last is None:
            return {}
        columns = self._window.opened.snapshot.asset_index
        return {columns[held.code]: held.value_minor for held in self.last.positions}

    def book(self, action: Action) -> int:
        """Settle orders. Return the notional of the fills."""
        record = self._keeper.book(self.step, Decided(action, "model"), _NOTHING_COUNTED)
        self.step += 1
        self.nav_minor = record.nav_minor
        return sum(order.notional_minor for order in record.fills)


class SimulatedPortfolio(ABC):
    """An account that trades through a window."""

    traded_minor: int  #: notional of the fills in the last step

    def __init__(self, window: TaskWindow) -> None:
        self._window = window
        self.form = window.form
        self.reset()

    def reset(self) -> None:
        """Restart with cash only."""
        self._books = _AccountBooks(self._window)
        self.traded_minor = 0
        self._look()

    @abstractmethod
    def _look(self) -> None:
        """Update what is shown at the current close."""

    @abstractmethod
    def write(self, arrays: Observed) -> None:
        """Write the current observation into one environment's arrays, which are all zero."""

    @abstractmethod
    def settle(self, taken: Sequence[Decision | float]) -> tuple[bool, bool]:
        """Settle an action. Return whether the account is ruined, and whether this was the last
        step.
        """

    @property
    def row(self) -> int:
        """Row of the current close."""
        return self._window.base_row + self._books.step

    @property
    def nav_minor(self) -> int:
        """NAV at the current close."""
        return self._books.nav_minor

    def _judge_action(self, action: Action) -> Action:
        """Return the orders to settle. There are none if one of them breaks a rule, as far as can
        be known at the time of the decision.
        """
        parts = self._window.parts
        trading = parts.task.trading
        if not trading.constraint_feedback:
            return action

        held = self._books.held_minor()
        terms = parts.tape.rules.terms
        if known_breaches(self._books.account, held, action, trading, terms):
            return ()
        return action

    def _book(self, action: Action) -> tuple[bool, bool]:
        self.traded_minor = self._books.book(self._judge_action(action))
        self._look()
        return self.nav_minor <= 0, self._books.step == self._window.total_steps


class OrderPortfolio(SimulatedPortfolio):
    """Account for a task that asks for orders."""

    def _look(self) -> None:
        books = self._books
        self._listing = self._window.listing(books.step, books)
        self._slots = self._window.slots(self._listing, books)
        self.form.check_fits(len(self._slots))
        others = self._slots[len(self._listing.assets) :]
        self._others = self._window.figures_of(books.step, others, books)
        values = books.held_minor()
        self._held: list[float | None] = []
        for asset in self._slots:
            value = values.get(asset)
            self._held.append(None if value is None else books.weight(value))

    def write(self, arrays: Observed) -> None:
        """Write the current observation into one environment's arrays."""
        listed = len(self._listing.assets)
        arrays["figures"][:listed] = self._listing.figures
        arrays["known"][:listed] = self._listing.known
        for slot, (figures, known) in enumerate(self._others, listed):
            arrays["figures"][slot] = figures
            arrays["known"][slot] = known
        for slot, weight in enumerate(self._held):
            arrays["weights"][slot] = cut_weight(weight or 0.0)
        arrays["cash"][0] = cut_weight(self._books.weight(self._books.account.cash_minor))

    def settle(self, taken: Sequence[Decision | float]) -> tuple[bool, bool]:
        """Settle target weights."""
        given = [float(weight) for weight in taken[: len(self._slots)]]
        weights = bound_weights(given, self._listing.limits)
        orders = [
            Order(self._slots[move.slot], move.side, 0.5, "", move.weight)
            for move in moves(self._held, weights)
        ]
        return self._book(tuple(orders))


class DecisionPortfolio(SimulatedPortfolio):
    """Account for a task that asks for BUY, SELL or HOLD for each asset. The scene reads decisions
    for the account that it showed last, so each account has a separate scene.
    """

    state: ObservedState  #: what the task shows at the current close

    def _look(self) -> None:
        self.state = self._window.state(self._books.step, self._books)

    def write(self, arrays: Observed) -> None:
        """Write the current observation into one environment's arrays."""
        for name, values in observe_state(self.state, self.form).items():
            arrays[name][:] = values

    def settle(self, taken: Sequence[Decision | float]) -> tuple[bool, bool]:
        """Settle decisions."""
        labels = [asset.label for asset in tradables(self.state)]
        form = self._window.submission_form
        assert form is not None  # the task asks for decisions
        text = dumps_canonical(make_submission(labels, taken[: len(labels)], _REASON))
        reading = form.read(text)
        submission = reading.submission
        if submission.action is None:
            raise DataError(f"task {self._window.opened.task.name}: {submission.feedback}")
        return self._book(submission.action)


def portfolios(opened: OpenedTask, windows: Sequence[Window]) -> list[SimulatedPortfolio]:
    """Return one account for each window. Accounts in equal windows share what is listed at
    closes.
    """
    shared: dict[Window, TaskWindow] = {}
    accounts: list[SimulatedPortfolio] = []
    for window in windows:
        task_window = shared.get(window) or TaskWindow(opened, window)
        if task_window.has_form:
            accounts.append(DecisionPortfolio(task_window))
        else:
            shared[window] = task_window
            accounts.append(OrderPortfolio(task_window))

    return accounts
