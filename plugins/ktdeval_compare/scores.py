"""Comparison of scoring tasks (tool calling, probes): scores of each card, and differences paired by sample."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from ktdeval import stats
from ktdeval.cards import recorded_as
from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import CardError, UsageError
from ktdeval.fields import near_matches
from ktdeval.jsonio import file_sha256
from ktdeval.runner import RunFolder
from ktdeval_compare.compare import Options, correct
from ktdeval_compare.entrants import Row, Scored, by_task, check_same, check_windows, facets, flag_notes, label, notes_of_groups

_FACETS = facets("task versions", "task configs (hash)", "snapshots", "limits of steps") | {
    # Questions about a market are drawn by window and seed.
    "seeds": lambda scored: scored.card.seeds if scored.card.windows else None,
}
Points = Mapping[str, float]  #: Mean figure of each sample, by its id


def compare_scores(cards: Sequence[Scored], options: Options) -> Row:
    """Compare the scores of all cards, and test every pair of cards of a task on each of them.

    Returns `scores` (one row for each task, score and card), `tests` (one for each task, score and pair), `notes`. Samples are the
    units of a test: an agent's answers to one sample of a window, in several seeds, count as their mean. Raises CardError: cards of
    one task can't be compared; UsageError: a score is on no card.
    """
    scores: list[Row] = []
    tests: list[Row] = []
    notes: dict[str, list[str]] = {}
    if len(cards) < 2:
        raise CardError("a comparison needs at least two cards")
    for task, group in by_task(cards).items():
        check_same(group, _FACETS, "they can't be compared")
        check_windows(group)
        members = label(group)
        names = _chosen(members, options.metrics)
        scores += [_score(task, name, member) for name in names for member in members]
        answers = [_answers(member) for member in members]
        notes[task] = list(flag_notes(members))
        for name, pair in itertools.product(names, options.pairs_of(len(members))):
            first, second = pair
            test = _test(task, name, [members[first], members[second]], [answers[first], answers[second]], options)
            if isinstance(test, str):
                notes[task].append(f"{name}: not tested: {test}")
            else:
                tests.append(test)
    correct(tests, options.alpha)
    return {"alpha": options.alpha, "scores": scores, "tests": tests, "notes": list(notes_of_groups(notes))}


def _chosen(members: Sequence[Scored], wanted: Sequence[str]) -> list[str]:
    card = members[0].card
    for name in wanted:
        if name not in card.scores:
            raise UsageError(f"{members[0].path}: no score {name!r} on this card{near_matches(name, card.scores)}")
    names = list(wanted) or [name for name in card.score_order if card.scores[name].headline]
    formulas = {f"formulas of {name}": lambda member, of=name: (line := member.card.scores.get(of)) and line.formula
                for name in names}  # fmt: skip
    check_same(members, formulas, "score both runs with one version")
    return names


def _score(task: str, name: str, member: Scored) -> Row:
    line = member.card.scores[name]
    interval = {"low": None, "high": None} if line.interval is None else {"low": line.interval.low, "high": line.interval.high}
    figures = {"value": line.value, "unit": line.unit, "n": line.n, "baseline": line.baseline}
    return {"task": task, "score": name, "card": member.label, **figures, **interval, "reason": line.reason or None}


def _answers(member: Scored) -> dict[str, dict[str, list[float]]] | str:
    """Figures of each sample by the score's name, or why there are none; a failed call shows nothing of the model."""
    if not member.is_in_run:
        return f"{member.label}: no answers beside the card"
    run = RunFolder.load(member.run_folder)
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in member.card.scores}
    episodes = {episode.id for episode in member.card.episodes}
    for spec in run.manifest.specs:
        if spec.id not in episodes:
            continue
        name = f"episodes/{spec.id}/answers.jsonl.zst"
        if file_sha256(run.path / name) != member.card.artefacts.get(name):
            return f"{member.label}: {name} is not the file that the card was made from"
        answers = run.load_answers(spec)
        recorded = {key for answer in answers for key in answer.scores}
        spelled = {score: recorded_as(member.card, score, recorded) for score in figures}
        worst = {score: line.range[line.better == "lower"] for score, line in member.card.scores.items()}
        for answer in answers:
            for score, key in spelled.items():
                value = worst[score] if answer.answer is None else answer.scores.get(key or "")
                if (key is not None or not recorded) and value is not None and answer.provenance != "error":
                    figures[score].setdefault(sample_of(spec, answer.sample), []).append(float(value))
    return figures


def sample_of(spec: EpisodeSpec, sample: str) -> str:
    """Return the id of a sample, which is of its window where there are windows: the first probe of another is another question."""
    return sample if spec.window_name is None else f"{spec.window_name} {sample}"


def _test(
    task: str, name: str, members: Sequence[Scored], answers: Sequence[dict[str, dict[str, list[float]]] | str], options: Options
) -> Row | str:
    keys = {member.card.aliases for member in members}
    if len(keys) > 1:
        return "their mask keys differ, and the samples with them; run both models with one --mask-key"
    points: list[Points] = []
    for by_score in answers:
        if isinstance(by_score, str):
            return by_score
        points.append({sample: stats.mean(values) for sample, values in by_score[name].items()})
    shared = sorted(points[0].keys() & points[1].keys())
    if not shared:
        return "answers do not have this figure of their own"
    if points[0].keys() != points[1].keys() and not options.common:
        return (
            f"{members[0].label} and {members[1].label} did not answer the same samples (a failed call is no answer of the model); "
            f"--common compares the {len(shared)} that both have"
        )
    differences = stats.levelled(np.array([points[0][sample] - points[1][sample] for sample in shared]))
    line = members[0].card.scores[name]
    flips = stats.sign_flip(differences, seed=options.seed)
    shift = stats.mean_with_interval(differences, confidence=1.0 - options.alpha)
    varies = len(set(differences)) > 1  # else t has nothing to measure chance by
    detail = {end: (shift.detail or {}).get(end) if varies else None for end in ("low", "high")}
    row: Row = {"task": task, "score": name, "unit": line.unit, "better": line.better, "first": members[0].label}
    row |= {"second": members[1].label, "n": len(shared), "differing": int((differences != 0).sum()), "value": shift.value}
    return {**row, **detail, "p": flips.p, "reason": flips.reason}
