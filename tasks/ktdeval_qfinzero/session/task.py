"""Task of a traded session: config in, one question out, its figures summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from ktdeval.tasks import (
    UNANSWERED,
    AnswerRecord,
    EpisodeSpec,
    Score,
    ScoreDefinition,
    TargetTask,
    Window,
    unanswered_score,
)
from ktdeval.values.fields import to_mapping
from ktdeval.values.jsonio import JsonValue, sha256_hex
from ktdeval.values.typed import from_plain
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.session.config import SessionConfig
from ktdeval_qfinzero.session.samples import FORM, PROMPTS, Earned, SessionSamples, prompt_text
from ktdeval_qfinzero.suite.brief import tool_hashes
from ktdeval_qfinzero.suite.one_question import mean_of_all, read_definitions, share_score
from ktdeval_qfinzero.suite.samples import embedded_dataset

_NO_SESSION = "no session was finished"


@cache
def definitions() -> Mapping[str, ScoreDefinition]:
    """Define the scores of a session, in the order shown."""
    return read_definitions(Path(__file__).with_name("scores.yaml"))


class SessionTask:
    """One traded session. Implements `ktdeval.api.ScoringTask`."""

    tools: tuple[str, ...] = ()  # none; the sample brings its own
    target_task: str | None = None
    mask = None
    mode = "session_native_live"
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()

    def __init__(self, name: str, config: SessionConfig) -> None:
        self.name = name
        self.version = config.version
        self.harness = config.harness
        self.scores = definitions()
        self._config = config

    @cached_property
    def dataset(self) -> Dataset:
        """Data that the session is about."""
        return embedded_dataset(self._config.data_seed)

    def describe(self) -> Mapping[str, JsonValue]:
        """Whole config, the form, and hashes of data, prompts and tools."""
        info = self.dataset.info
        return {
            "name": self.name,
            "mode": self.mode,
            **to_mapping(self._config),
            "dataset": {"name": info.name, "content_id": info.content_id},
            "form": {"name": FORM.name, "parameters": FORM.parameters},
            "prompts": {f"{name}.md": sha256_hex(prompt_text(name)) for name in PROMPTS},
            "service_tools": tool_hashes(),
        }

    def samples(
        self,
        spec: EpisodeSpec,  # noqa: ARG002
        snapshot: None,  # noqa: ARG002
        target_task: TargetTask | None,  # noqa: ARG002
    ) -> SessionSamples:
        """Return the question of the session."""
        return SessionSamples(self.name, self._config, self.dataset)

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
