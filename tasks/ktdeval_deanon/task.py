"""A probe task: config in, samples out, answers summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval.contracts import AnswerRecord, EpisodeSpec, Score, ScoreDefinition, TargetTask, Window, windows_of
from ktdeval.errors import ConfigError
from ktdeval.fields import to_mapping
from ktdeval.jsonio import JsonValue
from ktdeval.market import MarketSnapshot
from ktdeval_deanon.answer import ANSWER_FORM
from ktdeval_deanon.brief import prompt_hashes
from ktdeval_deanon.samples import DeanonConfig, DeanonSamples
from ktdeval_deanon.scores import DEFINITIONS, summarise


class DeanonTask:
    """One variant: a mask, and the trading task that shows it. Implements `ktdeval.api.ScoringTask`."""

    needs_a_shares = True
    mode: str = "deanon_probe"
    tools: tuple[str, ...] = ()  #: none; a probe shows what tools would answer
    scores: Mapping[str, ScoreDefinition] = DEFINITIONS

    def __init__(self, name: str, config: DeanonConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.harness = config.harness
        self.target_task: str | None = config.subject
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config

    def describe(self) -> Mapping[str, JsonValue]:
        """Whole config, the answer form, and the hashes of the prompts."""
        form = {"name": ANSWER_FORM.name, "description": ANSWER_FORM.description, "parameters": ANSWER_FORM.parameters}
        return {"name": self.name, "mode": self.mode, **to_mapping(self._config), "form": form, "prompts": prompt_hashes()}

    def samples(self, spec: EpisodeSpec, snapshot: MarketSnapshot, target_task: TargetTask | None) -> DeanonSamples:
        """Probes of one window and seed.

        Raises ConfigError: the target task is missing or has another mask, or the window has too few stocks; DataError: the window
        lies outside the snapshot.
        """
        if target_task is None:
            raise ConfigError(f"task {self.name}: needs its target_task {self.target_task!r}, a trading task with research tools")
        if target_task.task.mask != self.mask:
            raise ConfigError(
                f"task {self.name}: its mask is {self.mask}, but that of its target task {target_task.task.name} is "
                f"{target_task.task.mask}; name a target task of the same mask"
            )
        defaults = [self.windows[name] for name in self.default_windows]
        return DeanonSamples(self._config, defaults, spec, snapshot, target_task)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Recovery rates over all answered probes together; pure."""
        return summarise(records)
