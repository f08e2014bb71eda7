"""Metrics in the group `process`, which rate the reasons behind an episode's decisions without a
judge model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from ktdeval.registry import find_figure, table_metrics
from ktdeval.stats import FunctionMetric, MetricValue, RecordedTranscript
from ktdeval.values import JsonValue
from ktdeval_rationale.claims.agreement import ClaimVerdict
from ktdeval_rationale.claims.copied_figures import copied_figures, instruction_figures
from ktdeval_rationale.claims.figure_claims import FigureClaim
from ktdeval_rationale.claims.heeded_warnings import heeded_warnings
from ktdeval_rationale.claims.reason_scores import ReasonScores, judge_by_facts
from ktdeval_rationale.claims.recorded_reasons import RecordedStep, recorded_steps
from ktdeval_rationale.claims.research_traces import traced_results
from ktdeval_rationale.claims.shown_facts import ShownFacts

GROUP = "process"
TABLE = Path(__file__).parents[1] / "process.csv"
_MAX_EXAMPLES = 5
_COPYABLE = ("confidence", "target_weight")


@dataclass
class ProcessCounts:
    """Counts of an episode's claims."""

    reasons: int = 0
    figures: int = 0
    plans: int = 0  #: number of figures that are targets, conditions or sizes
    shown: int = 0  #: number of figures, other than plans, that were shown
    verdicts: Counter[ClaimVerdict] = field(default_factory=Counter)  #: verdicts on figures
    gaps: Counter[str] = field(default_factory=Counter)  #: reasons why figures are not placed
    comparisons: Counter[ClaimVerdict] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)  #: verdicts on comparisons
    agreeing: Counter[bool] = field(default_factory=Counter)
    warnings: Counter[bool] = field(default_factory=Counter)
    warned_of: Counter[str] = field(default_factory=Counter)
    research: Counter[bool] = field(default_factory=Counter)
    wrong: list[JsonValue] = field(default_factory=list)  #: first wrong figures, as examples
    submitted: Counter[str] = field(default_factory=Counter)  #: values by field
    copied: Counter[str] = field(default_factory=Counter)  #: those that equal a prompt's figure

    def add_step(self, step: RecordedStep) -> None:
        """Count the claims of one step."""
        facts = ShownFacts.of([*step.prompts, *step.results])
        named: set[str] = set()
        for reason in step.reasons:
            scores = judge_by_facts(reason.text, facts, reason.orders)
            self._add_reason(step.step, scores)
            named |= scores.named

        for outcome in heeded_warnings(facts, step.orders, frozenset(named), step.plans):
            self.warnings[outcome.is_heeded] += 1
            self.warned_of[outcome.warning] += 1

        instructions = instruction_figures(step.prompts)
        for name in _COPYABLE:
            figures = copied_figures(step.submitted, name, instructions)
            self.submitted[name] += figures.values
            self.copied[name] += figures.copied

        texts = [reason.text for reason in step.reasons]
        labels = [order.label for order in step.orders]
        self.research.update(traced_results(step.prompts, step.results, texts, labels))

    def _add_reason(self, step: int, scores: ReasonScores) -> None:
        self.reasons += 1
        for claim in scores.figures:
            self._add_figure(step, claim)
        for comparison in scores.comparisons:
            self.comparisons[comparison.verdict] += 1
            if comparison.verdict is not ClaimVerdict.UNPLACED:
                self.kinds[comparison.kind] += 1

        self.agreeing.update(claim.agrees for claim in scores.directions)

    def _add_figure(self, step: int, claim: FigureClaim) -> None:
        self.figures += 1
        self.plans += claim.is_plan
        self.shown += claim.is_shown and not claim.is_plan
        self.verdicts[claim.verdict] += 1
        if claim.verdict is ClaimVerdict.UNPLACED:
            self.gaps[claim.gap] += 1
        if claim.verdict is ClaimVerdict.WRONG and len(self.wrong) < _MAX_EXAMPLES:
            self.wrong.append(
                {
                    "step": step,
                    "figure": claim.text,
                    "asset": claim.subject,
                    "quantity": claim.quantity,
                }
            )


@lru_cache(maxsize=2)  # cached, since the metrics of an episode are computed one after another
def process_counts(transcript: RecordedTranscript) -> ProcessCounts:
    """Return the counts for an episode."""
    counts = ProcessCounts()
    for step in recorded_steps(transcript.read()):
        counts.add_step(step)
    return counts


def reason_shown(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of figures that were shown."""
    counts = process_counts(transcript)
    n = counts.figures - counts.plans
    return _share(counts, counts.shown, n, "no figure in any reason", {"plans": counts.plans})


def reason_right(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of placed figures that are right."""
    counts = process_counts(transcript)
    right = counts.verdicts[ClaimVerdict.RIGHT]
    wrong = counts.verdicts[ClaimVerdict.WRONG]
    detail: dict[str, JsonValue] = {
        "right": right,
        "wrong": wrong,
        "unplaced": counts.verdicts[ClaimVerdict.UNPLACED],
        "examples": counts.wrong,
    }
    return _share(counts, right, right + wrong, "no figure could be placed", detail)


def reason_comparisons(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of comparisons that hold."""
    counts = process_counts(transcript)
    right = counts.comparisons[ClaimVerdict.RIGHT]
    n = right + counts.comparisons[ClaimVerdict.WRONG]
    detail: dict[str, JsonValue] = {
        "unplaced": counts.comparisons[ClaimVerdict.UNPLACED],
        "kinds": _plain(counts.kinds),
    }
    return _share(counts, right, n, "no comparison could be judged", detail)


def reason_unplaced(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of figures that could not be placed."""
    counts = process_counts(transcript)
    unplaced = counts.verdicts[ClaimVerdict.UNPLACED]
    return _share(
        counts, unplaced, counts.figures, "no figure in any reason", {"gaps": _plain(counts.gaps)}
    )


def order_agrees(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of orders that agree with the view that their reason argues."""
    counts = process_counts(transcript)
    return _share(
        counts, counts.agreeing[True], counts.agreeing.total(), "no reason argues a clear view"
    )


def warning_heeded(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of warnings that orders heeded."""
    counts = process_counts(transcript)
    n = counts.warnings.total()
    reason = "no warning on an asset of a decision"
    return _ratio(counts.warnings[True], n, reason, {"warnings": _plain(counts.warned_of)})


def research_used(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of research results that left a trace in the decision."""
    counts = process_counts(transcript)
    return _ratio(counts.research[True], counts.research.total(), "no research result", None)


def confidence_copied(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of confidences that equal a figure of the instructions."""
    return _copied_share(process_counts(transcript), "confidence", "no confidence was submitted")


def weight_copied(transcript: RecordedTranscript) -> MetricValue:
    """Return the share of target weights that equal a figure of the instructions."""
    return _copied_share(
        process_counts(transcript), "target_weight", "no target weight was submitted"
    )


def _copied_share(counts: ProcessCounts, name: str, reason: str) -> MetricValue:
    return _ratio(counts.copied[name], counts.submitted[name], reason, None)


def _share(
    counts: ProcessCounts,
    part: int,
    n: int,
    reason: str,
    detail: dict[str, JsonValue] | None = None,
) -> MetricValue:
    """Return a share over the claims in reasons. Without any reasons, the value is null and the
    cause is `no reason text`.
    """
    if not counts.reasons:
        return MetricValue(None, 0, "no reason text")
    return _ratio(part, n, reason, detail)


def _ratio(part: int, n: int, reason: str, detail: JsonValue) -> MetricValue:
    if n == 0:
        return MetricValue(None, 0, reason, detail)
    return MetricValue(part / n, n, None, detail)


def _plain(counts: Mapping[str, int]) -> dict[str, JsonValue]:
    return {name: counts[name] for name in sorted(counts)}


_FUNCTIONS: tuple[Callable[[RecordedTranscript], MetricValue], ...] = (
    reason_shown,
    reason_right,
    reason_comparisons,
    reason_unplaced,
    order_agrees,
    warning_heeded,
    research_used,
    confidence_copied,
    weight_copied,
)
_BY_NAME = {function.__name__: function for function in _FUNCTIONS}


@cache
def _figures() -> dict[str, FunctionMetric]:
    return table_metrics(TABLE, _BY_NAME.__getitem__)


def figure(name: str) -> FunctionMetric:
    """Return the metric with this name."""
    return find_figure(GROUP, _figures(), name)
