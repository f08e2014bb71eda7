"""Re-execution without any model: recorded decisions against the market, and recorded replies through agent, tools and mask."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from ktdeval.errors import ModelError, StoreError
from ktdeval.fields import build
from ktdeval.harness.agent import StepCounts
from ktdeval.harness.messages import Model, ModelRequest, Reply
from ktdeval.jsonio import JsonValue
from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.execute import Unit
from ktdeval.runner.records import account_after, recorded_decision, step_record
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.trading.config import TradingConfig
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import StepRecord
from ktdeval.trading.tape import Tape

_COUNT_FIELDS = tuple(StepCounts().to_json())


def replay_episode(
    spec: EpisodeSpec, steps: Sequence[StepRecord], snapshot: MarketSnapshot, tape: Tape, config: TradingConfig
) -> Iterator[StepRecord]:
    """What the records should be: each step's decision, executed on the account that the steps before it give.

    Args:
        spec: the episode.
        steps: recorded steps; only their decisions and counts are believed.
        snapshot: the true market.
        tape: the snapshot under `config`.
        config: the task's trading rules.
    """
    account, row = account_after(snapshot, None, config), window_rows(snapshot.days, spec.window.first, spec.window.last)[0] - 1
    for number, recorded in enumerate(steps):
        decision = recorded_decision(snapshot, recorded)
        day = tape.day(row + number + 1)
        settlement = settle(account, day, decision.action, config, row + number)
        counts: Mapping[str, JsonValue] = {name: recorded[name] for name in _COUNT_FIELDS}
        yield step_record(snapshot, number, decision, counts, day, settlement)
        account = settlement.after


class RecordedModel:
    """Gives a step's recorded replies again, in order, whatever it is asked: what it was asked is for the caller to compare."""

    def __init__(self) -> None:
        self._exchanges: deque[Mapping[str, JsonValue]] = deque()

    def load(self, exchanges: Sequence[Mapping[str, JsonValue]]) -> None:
        """Take up the exchanges of one step, as its transcript entry has them."""
        self._exchanges = deque(exchanges)

    def reply(self, request: ModelRequest) -> Reply:  # noqa: ARG002 - see the class
        """The next recorded reply.

        Raises:
            ModelError: the recorded call failed.
            StoreError: there is no further one.
        """
        if not self._exchanges:
            raise StoreError("the agent asks the model once more than the transcript has replies")
        exchange = self._exchanges.popleft()
        if "error" in exchange:
            raise ModelError(str(exchange["error"]), "recorded")
        return build(Reply, exchange.get("reply", {}), "reply")


def retrace_episode(
    transcript: Sequence[Mapping[str, JsonValue]], open_unit: Callable[[Model], Unit]
) -> Iterator[tuple[JsonValue, JsonValue]]:
    """An episode once more with the recorded replies in the model's place; only these are believed.

    Args:
        transcript: recorded entries, one a step.
        open_unit: opens the episode with a model.

    Yields:
        For each step the record and the transcript entry that the replies give: prompts, tool results, counts, who decided, orders
        or answer.

    Raises:
        KtdevalError: the replies can't have come from such an episode.
    """
    model = RecordedModel()
    unit = open_unit(model)
    for step in range(min(unit.total_steps, len(transcript))):
        model.load(transcript[step]["exchanges"])
        yield unit.run_step(step)
