"""Task of a traded session: config in, one question out, its figures summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.task_api import UNANSWERED, AnswerRecord, Score, unanswered_score
from ktdeval.values import JsonValue, from_plain
from ktdeval_qfinzero.live.score_summary import mean_of_all, share_score
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_task import LiveTask
from ktdeval_qfinzero.session.trading_question import Earned, session_question

_NO_SESSION = "no session was finished"


class SessionTask(LiveTask):
    """One traded session. Implements `ktdeval.api.ScoringTask`."""

    mode = "session_native_live"

    def __init__(self, name: str, config: LiveConfig) -> None:
        super().__init__(name, config, session_question(config))

    def describe(self) -> dict[str, JsonValue]:
        """As of `LiveTask`, with the dataset's hash."""
        info = self.dataset.info
        dataset = {"name": info.name, "content_id": info.content_id}
        return {**super().describe(), "dataset": dataset}

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Compute the figures over all records together; pure."""
        asked = [record for record in records if record.provenance != "error"]
        earned = [
            from_plain(dict(record.scores), Earned, self.name)
            for record in asked
            if record.answer is not None
        ]
        followed = [each for each in earned if not each.problem]
        failed = len(records) - len(asked)

        # A session that was not traded as asked has no figures: it earns as little as silence.
        def mean(name: str, of: Sequence[Earned], figures: Sequence[float | None]) -> Score:
            silent = len(asked) - len(of)
            return mean_of_all(figures, silent, failed, self.scores[name], _reason(of, asked))

        shares = [each.accepted / each.calls if each.calls else None for each in earned]
        return {
            "total_return": mean("total_return", followed, [one.total_return for one in followed]),
            "sharpe": mean("sharpe", followed, [one.sharpe for one in followed]),
            "max_drawdown": mean("max_drawdown", followed, [one.max_drawdown for one in followed]),
            "followed": share_score(len(followed), len(asked), _NO_SESSION),
            "accepted": mean("accepted", earned, shares),
            "trades": mean("trades", earned, [float(one.trades) for one in earned]),
            UNANSWERED: unanswered_score(records, "sessions"),
        }


def _reason(of: Sequence[Earned], asked: Sequence[AnswerRecord]) -> str:
    """Return why a figure is not defined in any of some sessions."""
    if not asked or not of:
        return _NO_SESSION
    return "not defined in any session: too few days, no call, or returns that do not vary"
