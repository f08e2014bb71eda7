"""The one question of a traded session: how it is put, the tools, and the figures that it earned."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Final

from msgspec import structs

from ktdeval.harness import ToolSpec
from ktdeval.masking import UNMASKED
from ktdeval.tasks import Sample
from ktdeval.values.jsonio import JsonValue
from ktdeval.values.typed import Value, from_plain, to_plain
from ktdeval_qfinzero.benchmark.items import end_state
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import E4
from ktdeval_qfinzero.moments import moment_text, parse_moment
from ktdeval_qfinzero.pmb.answers import SummaryShown
from ktdeval_qfinzero.pmb.shown import summary_shown
from ktdeval_qfinzero.session.config import SessionConfig, TradedSession
from ktdeval_qfinzero.suite.brief import clock_words
from ktdeval_qfinzero.suite.environment import LiveEnvironment, encodable
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.suite.one_question import accepted_again, market_words
from ktdeval_qfinzero.workspace import Workspace

PROMPTS: Final = ("system", "user")
_MOST_SUMMARY_CHARS: Final = 2_000

FORM: Final = ToolSpec(
    "finish_session",
    "Finish, having traded all days.",
    {
        "type": "object",
        "properties": {
            "summary": {
                "type": "string",
                "maxLength": _MOST_SUMMARY_CHARS,
                "description": "what was done and why, in plain text",
            }
        },
        "required": ["summary"],
        "additionalProperties": False,
    },
)
"""Form that ends a session."""


class SessionAnswer(Value, frozen=True):
    """Recorded answer: the calls, and the state that they left."""

    summary: str
    calls: tuple[RecordedCall, ...]
    end_state: Any


class Earned(Value, frozen=True):
    """What a session earned, as recorded. A figure that is not defined is None."""

    calls: int
    accepted: int
    trades: int
    days: int
    problem: str  #: why the session was not traded as asked; empty where it was
    total_return: float | None
    sharpe: float | None
    max_drawdown: float | None


class SessionEnvironment(LiveEnvironment):
    """Tools of a session, in a workspace of its own."""

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return what was submitted, together with the calls and the state that they left."""
        recorded = SessionAnswer(
            summary=encodable(str(submitted["summary"])),
            calls=tuple(self.calls),
            end_state=to_plain(end_state(self.workspace)),
        )
        plain = to_plain(recorded)
        assert isinstance(plain, dict)
        return plain


class SessionSamples:
    """The question of a session."""

    def __init__(self, name: str, config: SessionConfig, dataset: Dataset) -> None:
        self._name = name
        self._config = config
        self._dataset = dataset

    def __len__(self) -> int:
        """Return how many there are."""
        return 1

    def sample(self, number: int) -> Sample:  # noqa: ARG002 - there is one
        """Return the question. Raises DataError: the clock can't stand where the session begins."""
        session = self._config.session
        clock_ns = self._open().clock.as_of_ns
        user = Template(prompt_text("user")).substitute(
            clock=clock_words(clock_ns),
            cash=f"{session.cash:,.2f}",
            stocks=", ".join(session.stocks),
            days=session.days,
        )
        facts: dict[str, JsonValue] = {
            "as_of": moment_text(clock_ns),
            "stocks": list(session.stocks),
            "days": session.days,
            "cash": session.cash,
        }
        environment = SessionEnvironment(self._open, self._config.max_answer_chars)
        return Sample("session", UNMASKED, self._system(), user, FORM, facts, environment)

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:  # noqa: ARG002 - there is one
        """Make the calls of an answer again and return what they earned (`Earned`). Raises
        InvariantError: they leave another state than the recorded one.
        """
        recorded = from_plain(dict(answer), SessionAnswer, self._name)
        workspace = self._open()
        accepted = accepted_again(workspace, recorded.calls, recorded.end_state, self._name)
        earned = to_plain(earned_by(workspace, self._config.session, recorded.calls, accepted))
        assert isinstance(earned, dict)
        return earned

    def _open(self) -> Workspace:
        return Workspace(self._dataset, parse_moment(self._config.session.as_of, "as_of"))

    def _system(self) -> str:
        info = self._dataset.info
        return Template(prompt_text("system")).substitute(
            market=market_words(info),
            calendar=info.calendar,
            currency=info.currency,
            calls=self._config.harness.max_tool_calls,
        )


def earned_by(
    workspace: Workspace, asked: TradedSession, calls: tuple[RecordedCall, ...], accepted: int
) -> Earned:
    """Return what a workspace's session earned; no figures where it was not traded as asked, since
    other money, stocks or days would earn another return.
    """
    problem, summary = _session_of(workspace, asked)
    earned = Earned(
        calls=len(calls),
        accepted=accepted,
        trades=0,
        days=0,
        problem=problem,
        total_return=None,
        sharpe=None,
        max_drawdown=None,
    )
    if summary is None:
        return earned

    earned = structs.replace(earned, trades=summary.num_trades, days=summary.num_days)
    if problem:
        return earned
    return structs.replace(
        earned,
        total_return=summary.total_return,
        sharpe=summary.sharpe,
        max_drawdown=summary.max_drawdown,
    )


def _session_of(workspace: Workspace, asked: TradedSession) -> tuple[str, SummaryShown | None]:
    """Return why there is no session as it was asked for (empty if there is one), and its summary."""
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


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file that ships with the package."""
    return (Path(__file__).with_name(f"{name}.md")).read_text(encoding="utf-8").rstrip("\n")
