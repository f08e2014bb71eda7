"""Models as attackers: their answers from finished runs of a scoring task, accepted only to the very questions of the probe set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jsonschema import Draft202012Validator

from ktdeval.contracts import AnswerRecord, EpisodeSpec
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import dumps_canonical, file_sha256
from ktdeval.runner import RunFolder
from ktdeval_deanon.certificate.questions import Entry, Question, Questions, attacker_entry
from ktdeval_deanon.certificate.types import MODEL

_ELSEWHERE = "ask the same questions to certify with it"
_FACETS: Mapping[str, Callable[[EpisodeSpec], str]] = {
    "snapshot": lambda spec: str(spec.snapshot)[:12],
    "mask": lambda spec: str(spec.mask),
    "task version": lambda spec: spec.task_version,
    "config of the task or its subject": lambda spec: spec.task_hash[:12],
    "windows": lambda spec: f"{spec.span.name} {spec.span.first}…{spec.span.last}",
    "seed": lambda spec: str(spec.seed),
    "mask key": lambda spec: str(spec.mask_key),
}
"""Facts in which a run's plan must be that of the probe set."""


def read_attacks(paths: Sequence[Path], questions: Questions) -> tuple[list[Entry], dict[str, str]]:
    """Entries of a certificate's `attackers`, each under a name of its own, and SHA-256 of answers and transcripts by path.

    That a model was asked these questions is read off the transcripts, word for word; answers are scored again. Raises StoreError:
    no such run, not finished, given twice, records that are not readable, or it asked something else, which the message names.
    """
    entries: list[Entry] = []
    artefacts: dict[str, str] = {}
    for path in paths:
        folder = RunFolder.load(path)
        specs = _matched(folder, questions)
        digests = folder.artefacts(specs)
        if not artefacts.keys().isdisjoint(digests):
            raise StoreError(f"{path}: its answers are already there; give each run once")
        entry = _entry(folder, specs, questions)
        artefacts |= digests
        same = sum(other["model"]["name"] == entry["name"] for other in entries)
        entries.append({**entry, "name": f"{entry['name']} ({same + 1})" if same else entry["name"]})
    return entries, artefacts


def _entry(folder: RunFolder, specs: Sequence[EpisodeSpec], questions: Questions) -> Entry:
    records = [record for spec in specs for record in _records(folder, spec, questions)]
    first, card = specs[0], folder.card_path(questions.task.name)
    facts: Entry = {
        "kind": MODEL,
        "card": file_sha256(card) if card.is_file() else None,
        "model": {"name": first.model, "args": dict(first.model_args)},
        "agent": {"name": first.agent, "args": dict(first.agent_args)},
        "call": dict(first.call),
    }
    return attacker_entry(questions, first.model, records, facts)


def _matched(folder: RunFolder, questions: Questions) -> list[EpisodeSpec]:
    """Run's episodes in the order of the probe set."""
    manifest, task = folder.manifest, questions.task
    specs = [spec for spec in manifest.specs if spec.task == task.name]
    if not specs:
        asked = ", ".join(dict.fromkeys(spec.task for spec in manifest.specs))
        raise StoreError(f"{folder.path}: holds {asked}, not {task.name}; {_ELSEWHERE}")
    for name, facet in _FACETS.items():
        ours, theirs = sorted(set(map(facet, questions.specs))), sorted(set(map(facet, specs)))
        if ours != theirs:
            difference = f"{name}: {', '.join(theirs)}; this probe set has {', '.join(ours)}"
            raise StoreError(f"{folder.path}: asked other questions ({difference}); {_ELSEWHERE}")
    by_window = {spec.span: spec for spec in specs}
    for spec in specs:
        if not folder.is_complete(spec):
            raise StoreError(f"{folder.path}: {spec.span.name} is not finished; run it again to resume")
    return [by_window[spec.span] for spec in questions.specs]


def _records(folder: RunFolder, spec: EpisodeSpec, questions: Questions) -> list[AnswerRecord]:
    """Checked records of one window."""
    asked = questions.of(spec)
    records, transcript = folder.load_answers(spec), folder.load_transcript(spec)
    where = f"{folder.path}: {spec.span.name}"
    if len(records) != len(asked) or len(transcript) != len(asked):
        raise StoreError(f"{where}: {len(records)} probes were asked, this probe set has {len(asked)} there; {_ELSEWHERE}")
    for question, record, entry in zip(asked, records, transcript, strict=True):
        if problem := _problem(question, record, entry):
            raise StoreError(f"{where}: {question.sample.id}: {problem}")
    return records


def _problem(question: Question, record: AnswerRecord, entry: TranscriptEntry) -> str | None:
    """Return why a record is not an answer to a question; None when it is."""
    if (record.step, record.sample) != (question.number, question.sample.id):
        return "its record is not that of an answer to this probe"
    if dumps_canonical(record.facts) != dumps_canonical(dict(question.sample.facts)):
        return "asked about another stock or day"
    if not _was_asked(question, entry):
        return "the transcript does not show that it was asked this; the tools, or the prompts, were others"
    answer = record.answer
    if answer is None:
        return None if record.scores == {} else "has scores without an answer"
    if not Draft202012Validator(dict(question.sample.form.parameters)).is_valid(answer):
        return "its answer does not have the form that is asked for"
    scores = question.samples.score(question.number, answer)
    return None if dumps_canonical(record.scores) == dumps_canonical(dict(scores)) else "its scores are not those of its answer"


def _was_asked(question: Question, entry: TranscriptEntry) -> bool:
    """Whether the first call of a transcript holds the question as it stands."""
    try:
        sent = {message["role"]: message["content"] for message in entry.exchanges[0]["sent"]}
    except (KeyError, IndexError, TypeError):
        return False
    return question.sample.system in sent.get("system", "") and question.sample.user in sent.get("user", "")
