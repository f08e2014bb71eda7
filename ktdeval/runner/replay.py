"""Re-execution: recorded decisions against the market once more, without any model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.harness.agent import StepCounts
from ktdeval.jsonio import JsonValue
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.records import account_after, first_decision_row, recorded_decision, step_record
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
    account, row = account_after(snapshot, None, config), first_decision_row(snapshot, spec.window.first)
    for number, recorded in enumerate(steps):
        decision = recorded_decision(snapshot, recorded)
        day = tape.day(row + number + 1)
        settlement = settle(account, day, decision.action, config, row + number)
        counts: Mapping[str, JsonValue] = {name: recorded[name] for name in _COUNT_FIELDS}
        yield step_record(snapshot, number, decision, counts, day, settlement)
        account = settlement.after
