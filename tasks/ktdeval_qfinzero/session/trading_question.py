"""A trading session as a question: its form, its texts, and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from ktdeval.values import JsonValue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.rows import E4
from ktdeval_qfinzero.live.score_summary import Earned
from ktdeval_qfinzero.live.tool_use_config import LiveConfig, TradedSession
from ktdeval_qfinzero.live.tool_use_question import LiveAnswer, LiveQuestion, read_form
from ktdeval_qfinzero.pmb.account_views import summary_shown
from ktdeval_qfinzero.pmb.answers import SummaryShown

_RETURNS: Final = ("total_return", "sharpe", "max_drawdown")

FORM: Final = read_form(Path(__file__).parent)
"""Form that ends a session."""


class SessionAnswer(LiveAnswer, frozen=True):
    """Recorded answer of a session."""

    summary: str


class SessionEarned(Earned, frozen=True, kw_only=True):
    """What a session earned, as recorded."""

    trades: int
    days: int
    total_return: float | None
    sharpe: float | None
    max_drawdown: float | None


def session_question(config: LiveConfig) -> LiveQuestion:
    """Return the question for a trading session."""
    session = config.session
    assert session is not None
    return LiveQuestion(
        id="session",
        folder=Path(__file__).parent,
        form=FORM,
        answer_type=SessionAnswer,
        earned_type=SessionEarned,
        as_of=session.as_of,
        words={
            "cash": f"{session.cash:,.2f}",
            "stocks": ", ".join(session.stocks),
            "days": str(session.days),
            "calls": str(config.harness.max_tool_calls),
        },
        facts={"stocks": list(session.stocks), "days": session.days, "cash": session.cash},
        max_answer_chars=config.max_answer_chars,
        figures=partial(figures_of, session),
    )


def figures_of(asked: TradedSession, workspace: Workspace) -> Mapping[str, JsonValue]:
    """Return the figures of a workspace's session. Figures based on returns are None unless the
    session was traded as asked, since other amounts of cash, stocks or days would give another
    return.
    """
    problem, summary = _session_of(workspace, asked)
    figures: dict[str, JsonValue] = {"trades": 0, "days": 0, "problem": problem}
    figures |= dict.fromkeys(_RETURNS)
    if summary is not None:
        figures |= {"trades": summary.num_trades, "days": summary.num_days}
        if not problem:
            figures |= {name: getattr(summary, name) for name in _RETURNS}

    return figures


def _session_of(workspace: Workspace, asked: TradedSession) -> tuple[str, SummaryShown | None]:
    """Return how the session differs from the one asked for (an empty string if it does not), and
    its summary.
    """
    engine = workspace.broker.engine
    accounts = list(engine.state.accounts.values())
    sessions = list(engine.state.sessions.values())
    if len(accounts) != 1 or len(sessions) != 1:
        return f"{len(accounts)} accounts and {len(sessions)} sessions, not one of each", None

    session = sessions[0]
    summary = summary_shown(engine, session)
    if accounts[0].initial_cash_e4 != round(asked.cash * E4):
        return "the account was opened with another amount of cash", summary
    if session.options or set(session.stocks) - set(asked.stocks):
        return "the session is on other instruments", summary

    is_ruined = summary.final_equity <= 0
    if summary.num_days != asked.days and not is_ruined:
        return f"{summary.num_days} days were traded, not {asked.days}", summary
    return "", summary
