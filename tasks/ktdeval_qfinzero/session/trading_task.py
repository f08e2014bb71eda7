"""Task for a trading session."""

from __future__ import annotations

from ktdeval.values import JsonValue
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_task import LiveTask
from ktdeval_qfinzero.session.trading_question import session_question


class SessionTask(LiveTask):
    """One trading session. Implements `ktdeval.api.ScoringTask`."""

    mode = "session_native_live"

    def __init__(self, name: str, config: LiveConfig) -> None:
        super().__init__(name, config, session_question(config))

    def describe(self) -> dict[str, JsonValue]:
        """Return the description from `LiveTask.describe`, with the dataset's hash."""
        info = self.dataset.info
        dataset = {"name": info.name, "content_id": info.content_id}
        return {**super().describe(), "dataset": dataset}
