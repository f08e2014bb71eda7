"""Pages for scoring tasks: an episode's samples, each with its transcript, its answer, the expected
answer and its scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from ktdeval.cards import ScoreLine, ScoringCard, load_card, recorded_as
from ktdeval.errors import CardError, StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.runner import JournalEntry, RunFolder, entry_type
from ktdeval.task_api import AnswerRecord, EpisodeSpec
from ktdeval.trading import DECIDED
from ktdeval.values import JsonValue, dumps_canonical, to_plain
from ktdeval_view.conversation import SharedTexts, shown_talk
from ktdeval_view.document import EnvironmentRedactor, PageData, single_page
from ktdeval_view.episode_pages import entry_head
from ktdeval_view.episode_records import episode_label, finished_talks

_SCRIPTS = ("base.js", "json.js", "names.js", "pieces.js", "walk.js", "talk.js", "samples.js")
#: maximum number of values that a fact, such as a category, may have to serve as a filter for
#: samples
_MAX_KINDS = 24


@dataclass(frozen=True)
class SampleRecords:
    """An episode of a scoring task as recorded so far."""

    spec: EpisodeSpec
    state: Literal["finished", "unfinished", "not begun", "unreadable"]
    steps: Sequence[AnswerRecord] = ()  # samples that have been asked so far
    talks: Sequence[TranscriptEntry] = ()
    # headline scores on the card, keyed by their names in the records
    scores: Mapping[str, ScoreLine] = field(default_factory=dict)
    problem: str = ""


def is_scoring(folder: RunFolder, spec: EpisodeSpec) -> bool:
    """Return whether an episode belongs to a scoring task, as far as its records show."""
    path = folder.episode_path(spec)
    try:
        return (path / "answers.jsonl.zst").is_file() or entry_type(
            path / "journal.jsonl"
        ) == JournalEntry[AnswerRecord]
    except (OSError, StoreError):  # no journal, or its first line can't be read
        return False


def read_samples(folder: RunFolder, spec: EpisodeSpec) -> SampleRecords:
    """Return the records of an episode of a scoring task. Read errors are reported in `problem`
    rather than raised.
    """
    try:
        if not folder.is_complete(spec):
            records, talks = folder.load_recorded(spec)
            return SampleRecords(spec, "unfinished", cast("Sequence[AnswerRecord]", records), talks)

        answers = folder.load_answers(spec)
    except StoreError as error:
        return SampleRecords(spec, "unreadable", problem=str(error))

    talks, problem = finished_talks(folder, spec, len(answers))
    return SampleRecords(
        spec, "finished", answers, talks, _headlines(folder, spec, answers), problem
    )


def _headlines(
    folder: RunFolder, spec: EpisodeSpec, answers: Sequence[AnswerRecord]
) -> dict[str, ScoreLine]:
    """Return the headline scores on the run's card, keyed by their names in the answer records.
    Such a name is the score's name, with or without the name of a rule set.
    """
    try:
        card = load_card(folder.card_path(spec.task), "scoring")
    except CardError:
        return {}

    assert isinstance(card, ScoringCard)
    recorded: set[str] = set()
    for answer in answers:
        recorded |= answer.scores.keys()

    headlines = {}
    for name in card.score_order:
        line = card.scores[name]
        if not line.headline:
            continue

        key = recorded_as(card, name, recorded)
        if key is not None:
            headlines[key] = line

    return headlines


def outcome_of(
    answer: AnswerRecord, scores: Mapping[str, ScoreLine]
) -> Literal["right", "failed", "unanswered"]:
    """Return `right` if every headline score has its best value, `unanswered` without a valid
    answer, and `failed` otherwise.
    """
    if answer.answer is None:
        return "unanswered"

    for name, line in scores.items():
        least, greatest = line.range
        best = greatest if line.better == "higher" else least
        value = answer.scores.get(name)
        if best is not None and isinstance(value, int | float) and float(value) != best:
            return "failed"

    return "right"


def make_samples_page(records: SampleRecords, redactor: EnvironmentRedactor) -> str:
    """Return a self-contained HTML page. The output is byte-identical for equal records and
    versions.
    """
    return single_page(samples_data(records, redactor))


def samples_data(records: SampleRecords, redactor: EnvironmentRedactor) -> PageData:
    """Return the contents of the page for an episode's samples."""
    texts = SharedTexts()
    # This must precede `texts.list_texts()`, since a sample adds the texts that it shares with
    # other samples.
    lines = [dumps_canonical(redactor.value(sample)) for sample in _samples(records, texts)]
    kinds = _grouping_facts(records.steps)
    head: dict[str, JsonValue] = {
        "label": episode_label(records.spec),
        "state": records.state,
        "notes": [records.problem] if records.problem else [],
        "spec": {**records.spec.to_json(), "id": records.spec.id},
        "kinds": kinds,
        "scores": list(records.scores),
        "rows": [_sample_row(answer, records.scores, kinds) for answer in records.steps],
    }
    title = f"{episode_label(records.spec)} · {records.spec.model}"
    return PageData(
        title=redactor.text(title),
        template="samples.html",
        scripts=_SCRIPTS,
        head=redactor.record(head),
        values={"texts": redactor.value(texts.list_texts())},
        days=lines,
    )


def _sample_row(
    answer: AnswerRecord, scores: Mapping[str, ScoreLine], kinds: Iterable[str]
) -> dict[str, JsonValue]:
    """Return the fields of an answer that the list of samples shows and filters by."""
    return {
        "sample": answer.sample,
        "outcome": outcome_of(answer, scores),
        "provenance": answer.provenance,
        "failures": answer.failures,
        "kinds": {name: answer.facts.get(name) for name in kinds},
        "scores": [answer.scores.get(name) for name in scores],
    }


def _samples(records: SampleRecords, texts: SharedTexts) -> Iterator[JsonValue]:
    for answer, talk in zip(records.steps, records.talks, strict=True):
        sample = to_plain(answer)
        assert isinstance(sample, dict)  # a struct's JSON is an object
        yield sample | {"talk": shown_talk(talk, texts)}


def _grouping_facts(answers: Sequence[AnswerRecord]) -> dict[str, list[str]]:
    """Return the facts by which samples can be grouped, each with its values in order.

    Such facts are texts and booleans that have few values, some of them repeated. A fact does not
    form groups if it has a single value, or a distinct value for each sample, such as an id.
    """
    counts: dict[str, Counter[str]] = {}
    for answer in answers:
        for name, value in answer.facts.items():
            if isinstance(value, str | bool):
                counts.setdefault(name, Counter())[str(value)] += 1

    most = min(_MAX_KINDS, len(answers) - 1)
    kinds = {}
    for name, values in counts.items():
        if 1 < len(values) <= most:
            kinds[name] = sorted(values)

    return kinds


def make_sample_entry(records: SampleRecords, page: str | None) -> dict[str, JsonValue]:
    """Return an episode's index entry."""
    entry = entry_head(records, page, None)
    answers = records.steps
    if not answers:
        return entry

    decided = sum(answer.provenance in DECIDED for answer in answers)
    entry["decided"] = decided / len(answers)
    entry["failures"] = sum(sum(answer.failures.values()) for answer in answers)
    entry["input_tokens"] = sum(answer.input_tokens for answer in answers)
    entry["output_tokens"] = sum(answer.output_tokens for answer in answers)

    return entry
