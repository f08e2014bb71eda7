"""Comparison of cards for scoring tasks (tool calling, probes): the scores of each card, and
differences between cards, paired by sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval import stats
from ktdeval.cards import ScoringCard, count, recorded_as, score_bounds_notes
from ktdeval.errors import CardError, UsageError
from ktdeval.runner import RunFolder, run_file
from ktdeval.task_api import AnswerRecord, EpisodeSpec
from ktdeval.values import file_sha256, near_matches
from ktdeval_compare.pairs.compare import NEEDS_TWO, CompareOptions
from ktdeval_compare.pairs.compared_cards import (
    ScoringEntrant,
    by_task,
    check_windows,
    flag_notes,
    label,
    notes_of_groups,
)
from ktdeval_compare.pairs.shared_facts import (
    check_same,
    check_same_config,
    facets,
)
from ktdeval_compare.pairs.verdicts import with_verdicts


def _drawing_seeds(scored: ScoringEntrant) -> Sequence[int] | None:
    return scored.card.seeds if scored.card.windows else None


_FACETS = facets("task versions", "snapshots", "limits of steps") | {
    # Questions about a market are drawn separately by window and seed.
    "seeds": _drawing_seeds,
}


@dataclass(frozen=True, kw_only=True)
class CardScore:
    """One score on one card."""

    task: str
    score: str
    card: str
    value: float | None
    unit: str
    n: int
    baseline: float | None
    low: float | None
    high: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ScoreTest:
    """Difference between two cards in one score, with observations paired by sample."""

    task: str
    score: str
    unit: str
    better: str
    first: str
    second: str
    n: int  #: number of samples
    differing: int  #: number of samples on which the cards differ
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    reason: str | None
    p_holm: float | None = None
    p_benjamini_hochberg: float | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class ScoreReport:
    """Report of `ktdeval compare` on scoring cards."""

    alpha: float
    scores: Sequence[CardScore]  #: one row per task, score and card
    tests: Sequence[ScoreTest]  #: one row per task, score and pair
    notes: Sequence[str]


def compare_scores(cards: Sequence[ScoringEntrant], options: CompareOptions) -> ScoreReport:
    """Compare the scores of all cards. For each task, test every pair of cards on each score.

    The units of a test are samples: figures for the same sample and window under several seeds are
    averaged.

    Raises CardError if cards of the same task can't be compared. Raises UsageError if no card has a
    requested score.
    """
    if len(cards) < 2:
        raise CardError(NEEDS_TWO)

    scores: list[CardScore] = []
    tests: list[ScoreTest] = []
    notes: dict[str, list[str]] = {}

    for task, group in by_task(cards).items():
        check_same(group, _FACETS, "they can't be compared")
        check_same_config(group, "they can't be compared")
        check_windows(group)
        members = label(group)
        names = _chosen_scores(members, options.metrics)
        notes[task] = list(flag_notes(members))
        answered = [_AnsweredCard(member, _answers(member)) for member in members]

        for member in members:
            notes[task] += [f"{member.label}: {note}" for note in score_bounds_notes(member.card)]

        for name in names:
            scores += [_score_row(task, name, member) for member in members]
            for first, second in options.pairs_of(len(members)):
                test = _test_score(name, answered[first], answered[second], options)
                if isinstance(test, str):
                    notes[task].append(f"{name}: not tested: {test}")
                else:
                    tests.append(test)

    return ScoreReport(
        alpha=options.alpha,
        scores=scores,
        tests=with_verdicts(tests, options.alpha),
        notes=list(notes_of_groups(notes)),
    )


def _chosen_scores(members: Sequence[ScoringEntrant], wanted: Sequence[str]) -> list[str]:
    """Return the requested scores. By default, these are the headline scores."""
    card = members[0].card
    for name in wanted:
        if name not in card.scores:
            raise UsageError(
                f"{members[0].path}: no score {name!r} on this"
                f" card{near_matches(name, card.scores)}"
            )

    names = list(wanted) or [name for name in card.score_order if card.scores[name].headline]
    formulas = {f"formulas of {name}": _formula_of(name) for name in names}
    check_same(members, formulas, "score both runs with one version")

    return names


def _formula_of(name: str) -> Callable[[ScoringEntrant], str | None]:
    def formula(member: ScoringEntrant) -> str | None:
        line = member.card.scores.get(name)
        return None if line is None else line.formula

    return formula


def _score_row(task: str, name: str, member: ScoringEntrant) -> CardScore:
    line = member.card.scores[name]
    interval = line.interval
    return CardScore(
        task=task,
        score=name,
        card=member.label,
        value=line.value,
        unit=line.unit,
        n=line.n,
        baseline=line.baseline,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        reason=line.reason or None,
    )


# ---- answers

#: Figures for each sample, one per seed: score -> sample -> figures
_Figures = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class _CardAnswers:
    """A card's answers: the figures for each sample, and the number of answers without a figure, by
    kind.
    """

    figures: _Figures
    absent: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _AnsweredCard:
    """A card with its answers, or with the reason why they are missing."""

    member: ScoringEntrant
    answers: _CardAnswers | str


def _answers(member: ScoringEntrant) -> _CardAnswers | str:
    """Return the figures for each sample, or the reason why they are missing. A failed call has no
    figure, because it reveals nothing about the model.
    """
    if not member.is_in_run:
        return f"{member.label}: no answers next to the card"

    run = RunFolder.load(member.run_folder)
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in member.card.scores}
    absent: Counter[str] = Counter()
    episodes = {episode.id for episode in member.card.episodes}

    for spec in run.manifest.specs:
        if spec.id not in episodes:
            continue

        name = f"episodes/{spec.id}/answers.jsonl.zst"
        if file_sha256(run_file(run.path, name)) != member.card.artefacts.get(name):
            return f"{member.label}: {name} is not the file that the card was made from"

        answers = run.load_answers(spec)
        absent.update(answer.provenance for answer in answers if answer.answer is None)
        for score, by_sample in _figures_of(member.card, spec, answers).items():
            for sample, values in by_sample.items():
                figures[score].setdefault(sample, []).extend(values)

    return _CardAnswers(figures, absent)


def _figures_of(
    card: ScoringCard, spec: EpisodeSpec, answers: Sequence[AnswerRecord]
) -> dict[str, dict[str, list[float]]]:
    """Return the figures for the samples in one episode."""
    recorded: set[str] = set()
    for answer in answers:
        recorded.update(answer.scores)

    figures: dict[str, dict[str, list[float]]] = {}
    for score, line in card.scores.items():
        key = recorded_as(card, score, recorded)
        # The answers have scores, but not this one: it exists only on the card.
        if key is None and recorded:
            continue

        of_score = figures.setdefault(score, {})
        for answer in answers:
            if answer.provenance == "error":
                continue

            value = line.worst if answer.answer is None else answer.scores.get(key or "")
            if isinstance(value, int | float):
                of_score.setdefault(sample_of(spec, answer.sample), []).append(float(value))

    return figures


def sample_of(spec: EpisodeSpec, sample: str) -> str:
    """Return the id of a sample. If the task has windows, the id includes the window, because
    samples with the same number in different windows are different questions.
    """
    if spec.window_name is None:
        return sample
    return f"{spec.window_name} {sample}"


# ---- tests


def _test_score(
    name: str, first: _AnsweredCard, second: _AnsweredCard, options: CompareOptions
) -> ScoreTest | str:
    """Test the difference between two cards in one score, or return the reason why the test is not
    possible.
    """
    if first.member.card.aliases != second.member.card.aliases:
        return (
            "their mask keys and hence their samples differ; run both models with the same "
            "--mask-key"
        )
    if isinstance(first.answers, str):
        return first.answers
    if isinstance(second.answers, str):
        return second.answers

    left = _points(first.answers.figures[name])
    right = _points(second.answers.figures[name])
    shared = sorted(left.keys() & right.keys())
    if not shared:
        return "single answers do not have this figure"
    if left.keys() != right.keys() and not options.common:
        lacking = (_absence(name, each) for each in (first, second))
        reasons = "; ".join(reason for reason in lacking if reason)
        return (
            f"{first.member.label} and {second.member.label} do not have a figure of the same"
            f" samples ({reasons or 'of some the score is not defined'}); --common compares the"
            f" {len(shared)} that both have"
        )

    differences = stats.level_sizes(np.array([left[sample] - right[sample] for sample in shared]))
    flips = stats.sign_flip(differences, seed=options.seed)
    shift = stats.estimate_mean(differences, confidence=1.0 - options.alpha)
    low = shift.low
    high = shift.high
    # If all differences are equal, they have no variance, so the t interval is undefined.
    if len(set(differences)) == 1:
        low = None
        high = None

    line = first.member.card.scores[name]
    return ScoreTest(
        task=first.member.card.task.name,
        score=name,
        unit=line.unit,
        better=line.better,
        first=first.member.label,
        second=second.member.label,
        n=len(shared),
        differing=int((differences != 0).sum()),
        value=shift.value,
        low=low,
        high=high,
        p=flips.p,
        reason=flips.reason,
    )


def _absence(name: str, answered: _AnsweredCard) -> str:
    """Return, as text, why samples of a card have no figure for a score; empty if no reason is
    known.
    """
    if isinstance(answered.answers, str):
        return ""

    absent = answered.answers.absent
    failed = absent.get("error", 0)
    silent = sum(absent.values()) - failed
    reasons = []
    if failed:
        reasons.append(f"{count(failed, 'model call')} failed")
    if silent and answered.member.card.scores[name].worst is None:
        reasons.append(f"{count(silent, 'answer')} not valid")

    return f"{answered.member.label}: {', '.join(reasons)}" if reasons else ""


def _points(figures: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean figure for each sample."""
    return {sample: stats.mean(values) for sample, values in figures.items()}
