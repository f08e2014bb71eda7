"""Re-execution without any model: recorded decisions against the market, and recorded replies through agent, tools and mask."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from ktdeval.errors import ModelError, StoreError
from ktdeval.fields import build
from ktdeval.harness.messages import Model, ModelRequest, Reply
from ktdeval.harness.session import TranscriptEntry
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.execute import Episode
from ktdeval.runner.journal import Entry
from ktdeval.runner.records import Bookkeeper, recorded_decision
from ktdeval.trading.ledger import StepRecord


def replay_steps(steps: Sequence[StepRecord], snapshot: MarketSnapshot, books: Bookkeeper) -> Iterator[StepRecord]:
    """Execute recorded decisions again, each on the account that the steps before it give."""
    for number, recorded in enumerate(steps):
        yield books.book(number, recorded_decision(snapshot, recorded), recorded)


class RecordedModel:
    """Gives a step's recorded replies again, in order, whatever it is asked: the caller compares what it was asked."""

    def __init__(self) -> None:
        self._exchanges: deque[Mapping[str, JsonValue]] = deque()

    def load(self, entry: TranscriptEntry) -> None:
        """Take up the exchanges of one step."""
        self._exchanges = deque(entry.exchanges)

    def reply(self, request: ModelRequest) -> Reply:  # noqa: ARG002 - see the class
        """Return the next recorded reply. Raises ModelError: the recorded call failed; StoreError: there is no further one."""
        if not self._exchanges:
            raise StoreError("the agent asks the model once more than the transcript has replies")
        exchange = self._exchanges.popleft()
        if "error" in exchange:
            raise ModelError(str(exchange["error"]), "recorded")
        return build(Reply, exchange.get("reply", {}), "reply")


def retrace_episode(transcript: Sequence[TranscriptEntry], open_episode: Callable[[Model], Episode]) -> Iterator[Entry]:
    """Run an episode once more with the recorded replies instead of the model; only these are believed. For each step the entry
    that the replies give: prompts, tool results, counts, who decided, orders or answer. Raises KtdevalError: the replies can't have
    come from such an episode.
    """
    model = RecordedModel()
    episode = open_episode(model)
    for step in range(min(episode.total_steps, len(transcript))):
        model.load(transcript[step])
        yield episode.run_step(step)
