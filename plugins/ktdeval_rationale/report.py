"""Run folders in, one report out: rates by subject and mask, what hiding removes, examples, and notes of what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.jsonio import JsonValue
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, open_recorded_snapshot
from ktdeval.stats import MASK_FACTORS
from ktdeval_rationale.counts import Counter, EpisodeCounts, Example, subject_key, subject_label
from ktdeval_rationale.linter import LEAK_CATEGORIES, RationaleLinter
from ktdeval_rationale.rates import LEVEL, Row, factorial_effects, hiding_effects, mask_rates, share
from ktdeval_rationale.similarity import SimilarityLinter
from ktdeval_rationale.texts import StepTexts, read_steps


@dataclass(frozen=True)
class Options:
    """Options of the report."""

    examples: int = 0  #: how many mentions of each category to show for each mask
    data: str | None = None  #: the market, where it has moved since the run
    redact: Callable[[str], str] = str  #: takes secrets out of a text
    similarity: SimilarityLinter | str | None = None  #: second stage, or why there is none; None where it was not asked for


@dataclass
class Reading:
    """Contents of all runs."""

    counts: list[EpisodeCounts] = field(default_factory=list)  #: of each episode
    #: episode id -> [steps with a sentence that resembles a leak, those where the first stage found nothing]
    resembling: dict[str, list[int]] = field(default_factory=dict)
    resemblances: dict[str, list[Row]] = field(default_factory=dict)  #: examples of the second stage, by mask
    notes: list[str] = field(default_factory=list)  #: what a reader must know of the records


def make_report(runs: Sequence[Path], plugins: Plugins, options: Options) -> Row:
    """Whole report as a JSON object.

    Raises StoreError: a folder holds no run; UsageError: no episode has a text, or two episodes would count in one place;
    DataError: `options.data` is not the market of a run.
    """
    reading = Reading()
    seen: set[str] = set()
    linters: dict[str, RationaleLinter] = {}
    for path in runs:
        folder = RunFolder.load(path)
        if folder.manifest.snapshot not in linters:
            linters[folder.manifest.snapshot] = RationaleLinter(_market(folder, plugins, options.data, reading.notes))
        linter = linters[folder.manifest.snapshot]
        for spec in folder.manifest.specs:
            if spec.id not in seen:
                seen.add(spec.id)
                _read_episode(folder, spec, linter, (options, reading))
    if not any(count.steps for count in reading.counts):
        problems = f": {'; '.join(reading.notes)}" if reading.notes else ""
        raise UsageError(f"{', '.join(map(str, runs))}: no episode has a step with a reason{problems}")
    return {
        "level": LEVEL,
        "categories": dict(LEAK_CATEGORIES),
        "runs": [str(path) for path in runs],
        "subjects": list(_subjects(reading, options)),
        "second_stage": _second_stage(options.similarity),
        "notes": list(dict.fromkeys(reading.notes)),
    }


def _market(folder: RunFolder, plugins: Plugins, data: str | None, notes: list[str]) -> MarketSnapshot | None:
    """Run's market; to name a wrong one is an error, to have none is not."""
    if data is not None:
        return open_recorded_snapshot(folder, plugins, {"data": data})
    try:
        return open_recorded_snapshot(folder, plugins, {})
    except DataError as error:
        notes.append(f"without the market only well-known names and codes in the A-share numbering are found: {error}")
        return None


def _read_episode(folder: RunFolder, spec: EpisodeSpec, linter: RationaleLinter, to: tuple[Options, Reading]) -> None:
    options, reading = to
    try:
        steps = list(read_steps(folder, spec, options.redact))
    except StoreError as error:
        reading.notes.append(f"{spec.task} {spec.window.name} seed {spec.seed} is left out: {error}")
        return
    if not folder.is_complete(spec):
        reading.notes.append(f"{spec.task} {spec.window.name} seed {spec.seed} is unfinished: {len(steps)} steps of it count")
    counter = Counter(linter, options.examples)
    reading.counts.append(counter.count(spec, steps))
    if isinstance(options.similarity, SimilarityLinter):
        _resemble(spec, steps, (options.similarity, linter), (options, reading))


def _resemble(
    spec: EpisodeSpec, steps: Sequence[StepTexts], linters: tuple[SimilarityLinter, RationaleLinter], to: tuple[Options, Reading]
) -> None:
    """Run the second stage over an episode; a step is new where the first stage found nothing in it."""
    similarity, linter = linters
    options, reading = to
    texts = [(text.text, str(step.step)) for step in steps for text in step.texts]
    found = similarity.find_all(texts)
    resembling = {int(resemblance.where) for resemblance in found}
    plain = {step.step for step in steps if not any(linter.find(text.text) for text in step.texts)}
    reading.resembling[spec.id] = [len(resembling), len(resembling & plain)]
    kept = reading.resemblances.setdefault(spec.mask, [])
    for resemblance in found:
        if len(kept) < options.examples:
            kept.append(
                {
                    "category": resemblance.category,
                    "text": resemblance.text,
                    "where": f"{spec.task} {spec.window.name} seed {spec.seed} step {resemblance.where}",
                    "anchor": resemblance.anchor,
                    "similarity": resemblance.similarity,
                }
            )


def _subjects(reading: Reading, options: Options) -> Iterator[Row]:
    groups: dict[str, list[EpisodeCounts]] = {}
    for count in reading.counts:
        groups.setdefault(subject_key(count.spec), []).append(count)
    firsts = [members[0].spec for members in groups.values()]
    for members in groups.values():
        by_mask = _by_mask(members)
        yield {
            "subject": subject_label(members[0].spec, firsts),
            "masks": {mask: mask_rates(counts) | _resemblance_rates(counts, reading) for mask, counts in by_mask.items()},
            "hiding": hiding_effects(by_mask),
            "effects": factorial_effects(by_mask),
            "examples": [row for mask, counts in by_mask.items() for row in _examples(mask, counts, options.examples)],
            "resemblances": {mask: reading.resemblances.get(mask, []) for mask in by_mask} if reading.resembling else {},
        }


def _by_mask(members: Sequence[EpisodeCounts]) -> dict[str, list[EpisodeCounts]]:
    """Episodes by mask, masks in the order of tables.

    Raises UsageError: two of them are of one mask, window and seed, so they can't be paired.
    """
    places: dict[tuple[str, str, int], EpisodeSpec] = {}
    for count in members:
        spec = count.spec
        other = places.setdefault((spec.mask, spec.window.name, spec.seed), spec)
        if other is not spec:
            raise UsageError(
                f"{spec.task} ({spec.id}) and {other.task} ({other.id}) are both {spec.mask} {spec.mode} {spec.window.name} "
                f"seed {spec.seed} of {spec.model}; give the runs of one of them"
            )
    masks = sorted({count.spec.mask for count in members}, key=lambda mask: ([*MASK_FACTORS, mask].index(mask), mask))
    return {mask: [count for count in members if count.spec.mask == mask] for mask in masks}


def _resemblance_rates(counts: Sequence[EpisodeCounts], reading: Reading) -> Row:
    known = [reading.resembling[count.spec.id] for count in counts if count.spec.id in reading.resembling]
    if not known:
        return {}
    steps = sum(count.steps for count in counts if count.spec.id in reading.resembling)
    return {
        "resembling": share(sum(found for found, _ in known), steps),
        "only_resembling": share(sum(new for _, new in known), steps),
    }


def _examples(mask: str, counts: Sequence[EpisodeCounts], most: int) -> Iterator[Row]:
    for category in LEAK_CATEGORIES:
        seen: dict[str, Example] = {}
        for count in counts:
            for example in count.examples.get(category, ()):
                seen.setdefault(example.mention.text, example)
        for example in list(seen.values())[:most]:
            yield {
                "mask": mask,
                "category": category,
                "text": example.mention.text,
                "span": list(example.mention.span),
                "before": example.context[0],
                "after": example.context[1],
                "where": example.mention.where,
                "decided_on": example.decided_on,
                "was_sent": example.was_sent,
            }


def _second_stage(similarity: SimilarityLinter | str | None) -> Mapping[str, JsonValue] | None:
    if similarity is None:
        return None
    if isinstance(similarity, str):
        return {"encoder": None, "reason": similarity}
    return {"encoder": similarity.encoder_name, "threshold": similarity.threshold}
