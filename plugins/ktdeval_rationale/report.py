"""Report on run folders: rates by subject and mask, effects of hiding, examples, and notes on omitted records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import StoreError, UsageError
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, recorded_market
from ktdeval.stats import MASK_FACTORS
from ktdeval_rationale.counts import Counter, EpisodeCounts, Example, StepTexts, read_steps, subject_key, subject_label
from ktdeval_rationale.linter import LEAK_CATEGORIES, RationaleLinter
from ktdeval_rationale.rates import LEVEL, Row, factorial_effects, hiding_effects, mask_rates, share
from ktdeval_rationale.similarity import SimilarityLinter

_NO_MARKET = "without the market only well-known names and codes in the A-share numbering are found"


@dataclass(frozen=True)
class Options:
    """Options of the report."""

    examples: int = 0  #: how many mentions of each category to show for each mask
    data: str | None = None  #: the market, if it has moved since the run
    redact: Callable[[str], str] = str  #: removes secrets from a text
    similarity: SimilarityLinter | str | None = None  #: second stage, or why there is none; None if not requested


def make_report(runs: Sequence[Path], plugins: Plugins, options: Options) -> Row:
    """Return the whole report on run folders as a JSON object.

    Raises StoreError: a folder holds no run; UsageError: no episode has a text, or two episodes have one mask, window and seed;
    DataError: `options.data` is not the market of a run.
    """
    reading = _Reading(plugins, options)
    for path in runs:
        reading.read_run(RunFolder.load(path))
    if not any(count.steps for count in reading.counts):
        problems = f": {'; '.join(reading.notes)}" if reading.notes else ""
        raise UsageError(f"{', '.join(map(str, runs))}: no episode has a step with a reason{problems}")
    stage: Row | None = None
    if isinstance(options.similarity, str):
        stage = {"encoder": None, "reason": options.similarity}
    elif options.similarity is not None:
        stage = {"encoder": options.similarity.encoder_name, "threshold": options.similarity.threshold}
    head: Row = {"level": LEVEL, "categories": dict(LEAK_CATEGORIES), "runs": [str(path) for path in runs]}
    subjects = list(reading.subjects())
    return {**head, "subjects": subjects, "second_stage": stage, "notes": list(dict.fromkeys(reading.notes))}


@dataclass
class _Reading:
    """Contents of the runs read so far."""

    plugins: Plugins
    options: Options
    counts: list[EpisodeCounts] = field(default_factory=list)
    #: episode id -> [steps with a sentence that resembles a leak, those without a mention in the first stage]
    resembling: dict[str, list[int]] = field(default_factory=dict)
    resemblances: dict[str, list[Row]] = field(default_factory=dict)  #: examples of the second stage, by mask
    notes: list[str] = field(default_factory=list)  #: caveats about the records
    seen: set[str] = field(default_factory=set)  #: ids of episodes
    linters: dict[str, RationaleLinter] = field(default_factory=dict)  #: by snapshot

    def read_run(self, folder: RunFolder) -> None:
        """Count the episodes of a run that were not read before."""
        snapshot = str(folder.manifest.snapshot)
        if snapshot not in self.linters:
            market = recorded_market(folder, self.plugins, self.options.data, _NO_MARKET)
            self.notes += [market] if isinstance(market, str) else []
            self.linters[snapshot] = RationaleLinter(None if isinstance(market, str) else market)
        for spec in folder.manifest.specs:
            if spec.id not in self.seen:
                self.seen.add(spec.id)
                self._read_episode(folder, spec, self.linters[snapshot])

    def _read_episode(self, folder: RunFolder, spec: EpisodeSpec, linter: RationaleLinter) -> None:
        try:
            steps = list(read_steps(folder, spec, self.options.redact))
        except StoreError as error:
            self.notes.append(f"{spec.label} is left out: {error}")
            return
        if not folder.is_complete(spec):
            self.notes.append(f"{spec.label} is unfinished: its {len(steps)} steps count")
        self.counts.append(Counter(linter, self.options.examples).count(spec, steps))
        if isinstance(self.options.similarity, SimilarityLinter):
            self._resemble(spec, steps, self.options.similarity, linter)

    def _resemble(
        self, spec: EpisodeSpec, steps: Sequence[StepTexts], similarity: SimilarityLinter, linter: RationaleLinter
    ) -> None:
        """Run the second stage over an episode; count also its steps without a mention in the first stage."""
        resemblances = similarity.find([(text.text, str(step.step)) for step in steps for text in step.texts])
        resembling = {int(resemblance.where) for resemblance in resemblances}
        plain = {step.step for step in steps if not any(linter.find(text.text) for text in step.texts)}
        self.resembling[spec.id] = [len(resembling), len(resembling & plain)]
        kept = self.resemblances.setdefault(str(spec.mask), [])
        for resemblance in resemblances[: max(0, self.options.examples - len(kept))]:
            at = {"where": f"{spec.label} step {resemblance.where}", "anchor": resemblance.anchor}
            kept.append({"category": resemblance.category, "text": resemblance.text, **at, "similarity": resemblance.similarity})

    def subjects(self) -> Iterator[Row]:
        """Yield the figures of each model with its agent and mode."""
        groups: dict[str, list[EpisodeCounts]] = {}
        for count in self.counts:
            groups.setdefault(subject_key(count.spec), []).append(count)
        firsts = [members[0].spec for members in groups.values()]
        for members in groups.values():
            by_mask = _by_mask(members)
            yield {
                "subject": subject_label(members[0].spec, firsts),
                "masks": {mask: mask_rates(counts) | self._resemblance_rates(counts) for mask, counts in by_mask.items()},
                "hiding": hiding_effects(by_mask),
                "effects": factorial_effects(by_mask),
                "examples": [row for mask, counts in by_mask.items() for row in _examples(mask, counts, self.options.examples)],
                "resemblances": {mask: self.resemblances.get(mask, []) for mask in by_mask} if self.resembling else {},
            }

    def _resemblance_rates(self, counts: Sequence[EpisodeCounts]) -> Row:
        figures = [(*self.resembling[count.spec.id], count.steps) for count in counts if count.spec.id in self.resembling]
        if not figures:
            return {}
        resembling, new, steps = map(sum, zip(*figures, strict=True))
        return {"resembling": share(resembling, steps), "only_resembling": share(new, steps)}


def _by_mask(members: Sequence[EpisodeCounts]) -> dict[str, list[EpisodeCounts]]:
    """Return episodes by mask, masks in the order of tables.

    Raises UsageError: two of them have one mask, window and seed, so they can't be paired.
    """
    cells: dict[tuple[str, str | None, int], EpisodeSpec] = {}
    for count in members:
        spec = count.spec
        first = cells.setdefault((str(spec.mask), spec.window_name, spec.seed), spec)
        if first is not spec:
            raise UsageError(
                f"{spec.task} ({spec.id}) and {first.task} ({first.id}) are both {spec.mask} {spec.mode} {spec.window_name} "
                f"seed {spec.seed} of {spec.model}; give the runs of one of them"
            )
    masks = sorted({str(count.spec.mask) for count in members}, key=lambda mask: ([*MASK_FACTORS, mask].index(mask), mask))
    return {mask: [count for count in members if str(count.spec.mask) == mask] for mask in masks}


def _examples(mask: str, counts: Sequence[EpisodeCounts], most: int) -> Iterator[Row]:
    for category in LEAK_CATEGORIES:
        seen: dict[str, Example] = {}
        for example in (example for count in counts for example in count.examples.get(category, ())):
            seen.setdefault(example.mention.text, example)
        for text, example in list(seen.items())[:most]:
            (before, after), span = example.context, list(example.mention.span)
            origin = {"where": example.where, "decided_on": example.decided_on, "was_sent": example.was_sent}
            yield {"mask": mask, "category": category, "text": text, "span": span, "before": before, "after": after, **origin}
