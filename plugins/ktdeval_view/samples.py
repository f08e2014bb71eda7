"""Pages of scoring tasks: an episode's samples, each with what was said, its answer, what was expected, and its scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from ktdeval.cards import ScoreLine, ScoringCard, load_card, recorded_as
from ktdeval.contracts import AnswerRecord, EpisodeSpec
from ktdeval.errors import CardError, StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import JsonValue
from ktdeval.runner import JournalEntry, RunFolder, entry_type
from ktdeval.trading import DECIDED
from ktdeval.typed import to_plain
from ktdeval_view.document import Redactor, pack_days, pack_value, render
from ktdeval_view.pages import entry_head, with_shared
from ktdeval_view.records import episode_label, finished_talks

_SCRIPTS = ("base.js", "json.js", "names.js", "pieces.js", "talk.js", "samples.js")
_MOST_KINDS = 24  #: Values of a fact, such as a category, by which samples can still be chosen


@dataclass(frozen=True)
class SampleRecords:
    """One episode of a scoring task as recorded so far."""

    spec: EpisodeSpec
    state: Literal["finished", "unfinished", "not begun", "unreadable"]
    steps: Sequence[AnswerRecord] = ()  # samples that were asked
    talks: Sequence[TranscriptEntry] = ()
    scores: Mapping[str, ScoreLine] = field(default_factory=dict)  # headline scores of the card, by their name in records
    problem: str = ""


def is_scoring(folder: RunFolder, spec: EpisodeSpec) -> bool:
    """Return whether an episode is one of a scoring task, as far as its records tell."""
    path = folder.episode_path(spec)
    try:
        return (path / "answers.jsonl.zst").is_file() or entry_type(path / "journal.jsonl") == JournalEntry[AnswerRecord]
    except (OSError, StoreError):  # no journal, or none whose first line tells
        return False


def read_samples(folder: RunFolder, spec: EpisodeSpec) -> SampleRecords:
    """Return the records of one episode of a scoring task; what can't be read is reported in `problem`, not raised."""
    try:
        if not folder.is_complete(spec):
            records, talks = folder.load_recorded(spec)
            return SampleRecords(spec, "unfinished", cast("Sequence[AnswerRecord]", records), talks)
        answers = folder.load_answers(spec)
    except StoreError as error:
        return SampleRecords(spec, "unreadable", problem=str(error))
    talks, problem = finished_talks(folder, spec, len(answers))
    return SampleRecords(spec, "finished", answers, talks, _headlines(folder, spec, answers), problem)


def _headlines(folder: RunFolder, spec: EpisodeSpec, answers: Sequence[AnswerRecord]) -> dict[str, ScoreLine]:
    """Headline scores of the run's card that each answer has too: under their name, or that of a rule set and their name."""
    try:
        card = load_card(folder.card_path(spec.task), "scoring")
    except CardError:
        return {}
    assert isinstance(card, ScoringCard)
    recorded = {name for answer in answers for name in answer.scores}
    lines = {name: card.scores[name] for name in card.score_order if card.scores[name].headline}
    spelled = {name: recorded_as(card, name, recorded) for name in lines}
    return {key: lines[name] for name, key in spelled.items() if key is not None}


def outcome_of(answer: AnswerRecord, scores: Mapping[str, ScoreLine]) -> Literal["right", "failed", "unanswered"]:
    """`right` where every headline score is at its best, `unanswered` without a valid answer."""
    if answer.answer is None:
        return "unanswered"
    for name, line in scores.items():
        best = line.range[line.better == "higher"]
        value = answer.scores.get(name)
        if best is not None and value is not None and float(value) != best:
            return "failed"
    return "right"


def make_samples_page(records: SampleRecords, redactor: Redactor) -> str:
    """Return the page as HTML. Equal records and versions give equal bytes."""
    texts: dict[str, int] = {}  # system prompts, which samples share, by their index
    counts, pieces = pack_days(redactor.value(sample) for sample in _samples(records, texts))
    kinds = _kinds(records.steps)
    head = {
        "label": episode_label(records.spec),
        "state": records.state,
        "notes": [records.problem] if records.problem else [],
        "spec": {**records.spec.to_json(), "id": records.spec.id},
        "kinds": kinds,
        "scores": list(records.scores),
        "pieces": counts,
        "rows": [
            {
                "sample": answer.sample,
                "outcome": outcome_of(answer, records.scores),
                "provenance": answer.provenance,
                "failures": answer.failures,
                "kinds": {name: answer.facts.get(name) for name in kinds},
                "scores": [answer.scores.get(name) for name in records.scores],
            }
            for answer in records.steps
        ],
    }
    data = {"head": pack_value(redactor.value(head)), "texts": pack_value(redactor.value(list(texts)))}
    data |= {f"days-{number}": piece for number, piece in enumerate(pieces)}
    return render(redactor.text(f"{episode_label(records.spec)} · {records.spec.model}"), "samples.html", _SCRIPTS, data)


def _samples(records: SampleRecords, texts: dict[str, int]) -> Iterator[dict[str, JsonValue]]:
    for answer, talk in zip(records.steps, records.talks, strict=True):
        yield {**to_plain(answer), "talk": {"submission": talk.submission, "exchanges": with_shared(talk, texts)}}


def _kinds(answers: Sequence[AnswerRecord]) -> dict[str, list[str]]:
    """Facts that group samples (texts or truths with a few values that repeat) with their values, in order."""
    counts: dict[str, Counter[str]] = {}
    for answer in answers:
        for name, value in answer.facts.items():
            if isinstance(value, str | bool):
                counts.setdefault(name, Counter())[str(value)] += 1
    return {name: sorted(values) for name, values in counts.items() if 1 < len(values) <= min(_MOST_KINDS, len(answers) - 1)}


def make_sample_entry(records: SampleRecords, page: str | None) -> dict[str, JsonValue]:
    """One episode's line of the index."""
    entry, answers = entry_head(records, page, None), records.steps
    if not answers:
        return entry
    decided = sum(answer.provenance in DECIDED for answer in answers)
    failures = sum(sum(answer.failures.values()) for answer in answers)
    tokens = {name: sum(getattr(answer, name) for answer in answers) for name in ("input_tokens", "output_tokens")}
    return {**entry, "decided": decided / len(answers), "failures": failures, **tokens}
