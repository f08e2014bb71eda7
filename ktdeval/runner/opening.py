"""Opens the episodes of a plan, whether they trade or answer; what they share is made once."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.harness.messages import Model
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner.episode import Episode, EpisodeParts
from ktdeval.runner.execute import Unit
from ktdeval.runner.scoring import ScoringTask, Subject, is_scoring
from ktdeval.runner.sitting import Sitting, SittingParts
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.subjects import subject_of
from ktdeval.runner.task import Task
from ktdeval.trading.tape import Tape


class Opener:
    """Opens episodes of some tasks on one market.

    Args:
        tasks: the tasks by name, of either sort.
        plugins: where tools and agents are found.
        snapshot: the market.
    """

    def __init__(self, tasks: Mapping[str, Task], plugins: Plugins, snapshot: MarketSnapshot) -> None:
        self._plugins = plugins
        self._snapshot = snapshot
        trading = {name: task for name, task in tasks.items() if not is_scoring(task)}
        tapes = {config: Tape.from_snapshot(snapshot, config) for config in {task.trading for task in trading.values()}}
        self._trading = {name: (task, plugins.tools(task.tools), tapes[task.trading]) for name, task in trading.items()}
        self._scoring: dict[str, tuple[ScoringTask, Subject | None]] = {
            name: (task, subject_of(task, plugins)) for name, task in tasks.items() if is_scoring(task)
        }

    def open(self, spec: EpisodeSpec, model: Model) -> Unit:
        """An episode, ready to be run, taken up again or retraced.

        Raises:
            KtdevalError: task or agent refuse the spec.
        """
        if spec.task not in self._scoring:
            return Episode(spec, self.trading_parts(spec, model))
        agent = self._plugins.make_agent(spec.agent, spec.agent_args)
        return Sitting(spec, SittingParts(*self._scoring[spec.task], self._snapshot, model, agent))

    def trading_parts(self, spec: EpisodeSpec, model: Model) -> EpisodeParts:
        """What a trading episode depends on."""
        task, tools, tape = self._trading[spec.task]
        agent = self._plugins.make_agent(spec.agent, spec.agent_args)
        return EpisodeParts(task, tools, self._snapshot, tape, model, agent)
