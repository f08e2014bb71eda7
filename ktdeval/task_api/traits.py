"""Traits of tasks: properties that a trading or scoring task may declare in addition to its
contract. Each trait has a default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ktdeval.harness.agent import Lesson
from ktdeval.harness.submissions.submission_form import SubmissionForm
from ktdeval.harness.traits import stated_traits
from ktdeval.market.rules.calendar import Window
from ktdeval.market.snapshots.snapshot import MarketView
from ktdeval.values.options.config_options import option


@dataclass(frozen=True, kw_only=True)
class TaskTraits:
    """Traits that a task may declare.

    A task whose traits depend on its config sets them in `__init__`.

    Example:
        class MinuteTask:
            traits = TaskTraits(needs_minutes=True)
    """

    needs_assets: Collection[str] = option((), help="codes of assets that the market must have")
    needs_minutes: bool = option(False, help="true if it shows bars within days")
    needs_a_shares: bool = option(False, help="true if it is about A-shares and their index only")
    never_ranked: str = option(
        "",
        help=(
            "reason why its results can't be compared, such as that a person steers it; part of"
            " the task's description"
        ),
    )
    usual_tool_calls: Callable[[], int] | None = option(
        None,
        help=(
            "of samples with an environment: calls that an answer usually takes, for `ktdeval plan`"
        ),
    )
    control: str = option(
        "", help="of a scoring task: the task that asks the same questions without a mask"
    )

    submission_form: Callable[[Any], SubmissionForm] | None = option(
        None,
        help="scene → form of its submissions, which turns them into orders; None: a list of orders",
    )
    warm_up_from: Callable[[Window], str | None] | None = option(
        None, help="first day of a window's warm-up, or None"
    )
    lessons: Callable[[Any, MarketView], Iterable[Lesson]] | None = option(
        None,
        help=(
            "scene, view of the first step → days of its warm-up, oldest first, each with what came"
            " after it, for agents that learn; nothing after the day of the view is shown"
        ),
    )
    account_at_book: bool = option(
        False,
        help=(
            "true if the account is shown at book, as the weights that were ordered, because"
            " anything else would reveal hidden prices: orders are then by target weight, and a"
            " model that predicts is given no factors"
        ),
    )
    identifiable_by_account: bool = option(
        False,
        help=(
            "true if it hides prices, and stocks or days, but shows an account that reveals them:"
            " its cards have a label and are never ranked"
        ),
    )
    prescribes_fills: bool = option(
        False,
        help=(
            "true if the paper that it follows fills orders at the close that was decided on: its"
            " cards have a label, but are ranked among themselves"
        ),
    )
    adds_positions: bool | None = option(
        None,
        help=(
            "for a task whose list of candidates does not depend on the holdings, so that many"
            " accounts can share a table: true if positions in other assets are added to the"
            " table; None for other tasks"
        ),
    )


_TASK = TaskTraits()


def task_traits(task: object) -> TaskTraits:
    """Return a task's traits, or the defaults if it declares none. Raises PluginError if `traits`
    is not a `TaskTraits`.
    """
    return stated_traits(task, _TASK)
