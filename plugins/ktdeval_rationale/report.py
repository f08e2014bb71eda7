"""Report on run folders: rates by subject and mask, effects of hiding, examples, and notes on
omitted records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import UNSET, UnsetType

from ktdeval.errors import StoreError, UsageError
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, open_run, recorded_market
from ktdeval.stats import MASK_FACTORS
from ktdeval.task_api import EpisodeSpec
from ktdeval_rationale.category_counts import (
    CategoryCounter,
    EpisodeCounts,
    ExampleRow,
    StepTexts,
    read_steps,
    subject_key,
    subject_label,
)
from ktdeval_rationale.category_rates import (
    LEVEL,
    HidingRow,
    IdentityEffectRow,
    MaskRates,
    factorial_effects,
    hiding_effects,
    mask_rates,
    share,
)
from ktdeval_rationale.leak_linter import LEAK_CATEGORIES, RationaleLinter
from ktdeval_rationale.paraphrased_leaks import Resemblance, SimilarityLinter

_NO_MARKET = (
    "without the market, only well-known names and codes in the A-share numbering are found"
)


@dataclass(frozen=True)
class ReportSettings:
    """Settings for the report."""

    examples: int = 0  #: number of mentions shown for each category and mask
    data: str | None = None  #: new location of the market, if it has moved since the run
    redact: Callable[[str], str] = str  #: function that removes secrets from a text
    #: linter for the second stage, or the reason why it can't run; None if not requested
    similarity: SimilarityLinter | str | None = None


@dataclass(frozen=True)
class SecondStage:
    """The second stage of the linter, or the reason why it did not run."""

    encoder: str | None
    #: threshold for the lead of a leak over harmless sentences
    threshold: float | UnsetType = UNSET
    reason: str | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class ModelSubject:
    """Figures for a model together with its agent and mode."""

    subject: str
    masks: Mapping[str, MaskRates]
    hiding: Sequence[HidingRow]
    effects: Sequence[IdentityEffectRow]
    examples: Sequence[ExampleRow]
    #: results of the second stage, keyed by mask; empty if not requested
    resemblances: Mapping[str, Sequence[Resemblance]]


@dataclass(frozen=True, kw_only=True)
class RationaleReport:
    """Report of `ktdeval compare rationale`."""

    level: float
    categories: Mapping[str, str]
    runs: Sequence[str]
    subjects: Sequence[ModelSubject]
    second_stage: SecondStage | None  #: None if not requested
    notes: Sequence[str]


def make_report(runs: Sequence[Path], plugins: Plugins, options: ReportSettings) -> RationaleReport:
    """Return the whole report on run folders.

    Raises StoreError if a folder has no run, UsageError if no episode has a text or if two episodes
    share mask, window and seed, and DataError if `options.data` is not the market of a run.
    """
    reading = _ReadRuns(plugins, options)
    for path in runs:
        reading.read_run(open_run(path, plugins))

    if not any(count.steps for count in reading.counts):
        folders = ", ".join(map(str, runs))
        problems = f": {'; '.join(reading.notes)}" if reading.notes else ""
        raise UsageError(f"{folders}: no episode has a step with a reason{problems}")

    return RationaleReport(
        level=LEVEL,
        categories={str(name): text for name, text in LEAK_CATEGORIES.items()},
        runs=[str(path) for path in runs],
        subjects=list(reading.subjects()),
        second_stage=_second_stage(options.similarity),
        notes=list(dict.fromkeys(reading.notes)),
    )


def _second_stage(similarity: SimilarityLinter | str | None) -> SecondStage | None:
    if similarity is None:
        return None
    if isinstance(similarity, str):
        return SecondStage(None, reason=similarity)
    return SecondStage(similarity.encoder_name, threshold=similarity.threshold)


@dataclass(frozen=True, slots=True)
class _ResemblingSteps:
    """Number of an episode's steps with a sentence that resembles a leak."""

    steps: int
    without_mention: int  #: number of these steps without a mention in the first stage


@dataclass(frozen=True)
class _ReadRuns:
    """Contents of the runs read so far."""

    plugins: Plugins
    options: ReportSettings
    counts: list[EpisodeCounts] = field(default_factory=list)
    resembling: dict[str, _ResemblingSteps] = field(default_factory=dict)  #: keyed by episode id
    #: examples from the second stage, keyed by mask
    resemblances: dict[str, list[Resemblance]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  #: caveats about the records
    seen: set[str] = field(default_factory=set)  #: ids of the episodes read so far
    linters: dict[str, RationaleLinter] = field(default_factory=dict)  #: keyed by snapshot

    def read_run(self, folder: RunFolder) -> None:
        """Count the episodes of a run that have not been read before."""
        linter = self._linter_of(folder)
        for spec in folder.manifest.specs:
            if spec.id not in self.seen:
                self.seen.add(spec.id)
                self._read_episode(folder, spec, linter)

    def _linter_of(self, folder: RunFolder) -> RationaleLinter:
        snapshot = str(folder.manifest.snapshot)
        if snapshot not in self.linters:
            market = recorded_market(folder, self.plugins, self.options.data, _NO_MARKET)
            if isinstance(market, str):
                self.notes.append(market)
                self.linters[snapshot] = RationaleLinter(None)
            else:
                self.linters[snapshot] = RationaleLinter(market)

        return self.linters[snapshot]

    def _read_episode(self, folder: RunFolder, spec: EpisodeSpec, linter: RationaleLinter) -> None:
        try:
            steps = list(read_steps(folder, spec, self.options.redact))
        except StoreError as error:
            self.notes.append(f"{spec.label} is left out: {error}")
            return

        if not folder.is_complete(spec):
            self.notes.append(f"{spec.label} is unfinished; its {len(steps)} steps are counted")

        self.counts.append(CategoryCounter(linter, self.options.examples).count(spec, steps))
        if isinstance(self.options.similarity, SimilarityLinter):
            self._resemble(spec, steps, self.options.similarity, linter)

    def _resemble(
        self,
        spec: EpisodeSpec,
        steps: Sequence[StepTexts],
        similarity: SimilarityLinter,
        linter: RationaleLinter,
    ) -> None:
        """Run the second stage over an episode. Count the steps that resemble a leak, and how many
        of these have no mention in the first stage.
        """
        texts: list[tuple[str, str]] = []
        without_mention: set[int] = set()
        for step in steps:
            texts += [(text.text, str(step.step)) for text in step.texts]
            if not any(linter.find(text.text) for text in step.texts):
                without_mention.add(step.step)

        resemblances = similarity.find(texts)
        resembling = {int(resemblance.where) for resemblance in resemblances}
        self.resembling[spec.id] = _ResemblingSteps(
            len(resembling), len(resembling & without_mention)
        )

        examples = self.resemblances.setdefault(str(spec.mask), [])
        missing = max(0, self.options.examples - len(examples))
        for resemblance in resemblances[:missing]:
            where = f"{spec.label} step {resemblance.where}"
            examples.append(replace(resemblance, where=where))

    def subjects(self) -> Iterator[ModelSubject]:
        """Yield the figures for each model together with its agent and mode."""
        groups: dict[str, list[EpisodeCounts]] = {}
        for count in self.counts:
            groups.setdefault(subject_key(count.spec), []).append(count)

        firsts = [members[0].spec for members in groups.values()]
        for members in groups.values():
            by_mask = _by_mask(members)
            examples: list[ExampleRow] = []
            for counts in by_mask.values():
                examples += _examples(counts, self.options.examples)

            resemblances: dict[str, Sequence[Resemblance]] = {}
            if self.resembling:
                resemblances = {mask: self.resemblances.get(mask, []) for mask in by_mask}

            yield ModelSubject(
                subject=subject_label(members[0].spec, firsts),
                masks={mask: self._rates(counts) for mask, counts in by_mask.items()},
                hiding=hiding_effects(by_mask),
                effects=factorial_effects(by_mask),
                examples=examples,
                resemblances=resemblances,
            )

    def _rates(self, counts: Sequence[EpisodeCounts]) -> MaskRates:
        rates = mask_rates(counts)
        found = [count for count in counts if count.spec.id in self.resembling]
        if not found:
            return rates

        steps = sum(count.steps for count in found)
        resembling = [self.resembling[count.spec.id] for count in found]
        return replace(
            rates,
            resembling=share(sum(each.steps for each in resembling), steps),
            only_resembling=share(sum(each.without_mention for each in resembling), steps),
        )


def _by_mask(members: Sequence[EpisodeCounts]) -> dict[str, list[EpisodeCounts]]:
    """Return episodes keyed by mask, with the masks in the order of the tables.

    Raises UsageError if two episodes have the same mask, window and seed, since they could then not
    be paired.
    """
    cells: dict[tuple[str, str | None, int], EpisodeSpec] = {}
    by_mask: dict[str, list[EpisodeCounts]] = {}
    for count in members:
        spec = count.spec
        first = cells.setdefault((str(spec.mask), spec.window_name, spec.seed), spec)
        if first is not spec:
            raise UsageError(
                f"{spec.task} ({spec.id}) and {first.task} ({first.id}) are both {spec.mask} "
                f"{spec.mode} {spec.window_name} seed {spec.seed} of {spec.model}; give only one "
                "of these runs"
            )

        by_mask.setdefault(str(spec.mask), []).append(count)

    # Masks from other packages come last, sorted by name.
    order = {mask: index for index, mask in enumerate(MASK_FACTORS)}
    masks = sorted(by_mask, key=lambda mask: (order.get(mask, len(order)), mask))
    return {mask: by_mask[mask] for mask in masks}


def _examples(counts: Sequence[EpisodeCounts], most: int) -> Iterator[ExampleRow]:
    """Yield the first `most` different mentions of each category."""
    for category in LEAK_CATEGORIES:
        first: dict[str, ExampleRow] = {}
        for count in counts:
            for example in count.examples.get(category, ()):
                first.setdefault(example.text, example)

        yield from list(first.values())[:most]
