"""Results of attackers on a probe set, with positive controls.

Attackers without a language model get the same questions as models, and also get single fields of
those questions. Models are scored by their answers in finished runs of the scoring task, which must
have asked exactly these questions. The positive control for each attacker is the set of unmasked
questions about the same windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from jsonschema import Draft202012Validator

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry, as_object
from ktdeval.masking import MaskConfig
from ktdeval.runner import RunFolder, read_exchanges
from ktdeval.task_api import AnswerRecord, EpisodeSpec
from ktdeval.values import JsonValue, dumps_canonical, file_sha256
from ktdeval_deanon.certificate.card import ALL_FIELDS, DATE_MATCHER, EXACT_MATCHER, RANDOM
from ktdeval_deanon.certificate.lookup_attackers import (
    AttackerGuess,
    Evidence,
    RandomAttacker,
    field_sets,
    weigh,
)
from ktdeval_deanon.certificate.payload_matching import FIELDS, Field, read_payload
from ktdeval_deanon.certificate.public_history import PublicHistory
from ktdeval_deanon.certificate.questions import (
    Entry,
    ProbeQuestion,
    ProbeSet,
    attacker_entry,
    blank_answer,
    tally,
)
from ktdeval_deanon.certificate.types import MECHANICAL, MODEL
from ktdeval_deanon.certificate.unmasked_probes import control_tally

Answer = dict[str, JsonValue]  #: answer in the form used by the de-anonymization probes

_HEADLINE = ("ticker_top1", "ticker_top5", "date_within_5", "joint")
_UNITS = (1.0, 100.0)
# decades: noise from the mask moves a median by less than this, a different unit by more
_NEAR = 0.3


def attack_questions(
    questions: ProbeSet, control: ProbeSet, on_probe: Callable[[int], None]
) -> tuple[list[Entry], Entry]:
    """Put every question to the exact matcher, the date matcher and the random attacker. Then put
    every unmasked control question to them, without its labels.

    The exact matcher answers from all fields, from each single field, and from all fields but one.
    `on_probe` is called with the number of probes done so far. Returns the certificate's
    `attackers` entries and its `identifiability`. Raises ConfigError if these attackers can't read
    or answer the questions; DataError if a payload is not what the research tools return.
    """
    asked = questions.all
    market = questions.snapshot
    factors = factor_panel(market, range(len(market.days)))
    panel = dict(zip(FACTOR_NAMES, factors, strict=True))
    units, shown = _units(questions, panel)
    history = PublicHistory(market, {name: panel[name] * unit for name, unit in units.items()})
    random = RandomAttacker(history, questions.period)

    sets = field_sets(_shown_fields(asked[0].sample.lens.mask))
    by_set: dict[str, list[Answer]] = {name: [] for name in sets}
    counts: dict[str, list[int]] = {name: [] for name in sets}
    dates: list[Answer] = []
    drawn: list[Answer] = []
    for number, question in enumerate(asked):
        evidence = weigh(question.payload, history, FIELDS, question.sample.lens.mask)
        for name, fields in sets.items():
            by_set[name].append(_answer(EXACT_MATCHER, evidence.guess(fields, number)))
            counts[name].append(evidence.anonymity(fields))

        dates.append(_date_answer(evidence, number))
        drawn.append(_answer(RANDOM, random.guess(question.payload, number)))
        on_probe(number + 1)

    recorded = {name: _records(questions, answers) for name, answers in by_set.items()}
    read = _attack_control(control, history, random, lambda done: on_probe(len(asked) + done))
    attacks = {
        EXACT_MATCHER: recorded[ALL_FIELDS],
        DATE_MATCHER: _records(questions, dates),
        RANDOM: _records(questions, drawn),
    }
    entries: list[Entry] = []
    for name, records in attacks.items():
        facts: Entry = {"kind": MECHANICAL, "control": {"value": read[name]}}
        entry = attacker_entry(questions, name, records, facts)
        if name == DATE_MATCHER:
            scores = as_object(entry["scores"])
            entry["scores"] = {key: scores[key] for key in scores if key.startswith("date_")}

        entries.append(entry)

    ablation: list[JsonValue] = []
    for name, fields in sets.items():
        tallies = tally(questions, recorded[name])
        ablation.append(
            {
                "name": name,
                "fields": list(fields),
                "scores": {key: tallies[key] for key in tallies if key in _HEADLINE},
                "k": _anonymity(counts[name]),
            }
        )

    others = sorted((shown & set(FACTOR_NAMES)) - set(units))
    return entries, {
        "ablation": ablation,
        "factors": sorted(units),
        "factors_not_compared": others,
    }


def _shown_fields(mask: MaskConfig) -> list[Field]:
    """Return the payload fields that a mask shows: blinded payloads have no labels."""
    return [field for field in FIELDS if field != "labels" or mask.kind != "blinded"]


def _attack_control(
    control: ProbeSet,
    history: PublicHistory,
    random: RandomAttacker,
    on_probe: Callable[[int], None],
) -> dict[str, Entry]:
    """Return, keyed by attacker, what each one reads from the unmasked questions. The matchers use
    only numbers, since labels reveal the stock and the day.
    """
    numbers = [field for field in FIELDS if field != "labels"]
    answers: dict[str, list[Answer]] = {
        EXACT_MATCHER: [],
        DATE_MATCHER: [],
        RANDOM: [],
    }
    for number, question in enumerate(control.all):
        evidence = weigh(question.payload, history, numbers, question.sample.lens.mask)
        answers[EXACT_MATCHER].append(_answer(EXACT_MATCHER, evidence.guess(numbers, number)))
        answers[DATE_MATCHER].append(_date_answer(evidence, number))
        answers[RANDOM].append(_answer(RANDOM, random.guess(question.payload, number)))
        on_probe(number + 1)

    read: dict[str, Entry] = {}
    for name, given in answers.items():
        read[name] = dict(control_tally(control, _records(control, given)))

    return read


def _answer(attacker: str, guess: AttackerGuess) -> Answer:
    return {
        **blank_answer(attacker),
        "tickers": list(guess.tickers),
        "date": guess.day,
        "sector": guess.sector,
        "board": guess.board,
    }


def _date_answer(evidence: Evidence, number: int) -> Answer:
    """Return the date matcher's answer: the day on which the market moved most like the shown
    market.
    """
    day = evidence.guess(("index", "breadth"), number).day
    return {**blank_answer(DATE_MATCHER), "date": day}


def _records(questions: ProbeSet, answers: Sequence[Answer]) -> list[AnswerRecord]:
    pairs = zip(questions.all, answers, strict=True)
    return [question.record(answer) for question, answer in pairs]


def _anonymity(counts: Sequence[int]) -> Entry:
    """Summarise how many asset-day pairs agree with each payload. `alone` is the fraction of
    payloads that only their own pair agrees with.
    """
    values = np.array(counts)
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "least": int(values.min()),
        "most": int(values.max()),
        "alone": float((values <= 1).mean()),
    }


def _units(
    questions: ProbeSet, panel: Mapping[str, np.ndarray]
) -> tuple[dict[str, float], set[str]]:
    """Return the unit in which payloads show each factor (1, or 100 for per cent), and the names of
    all shown figures.

    Units are public, since tool descriptions state them, but only the tools define them. Here they
    are derived from the median ratio of shown to raw values, which noise and rounding hardly
    affect. A factor that matches no unit is not one of the factors computed here and is omitted.
    """
    market = questions.snapshot
    shown = set[str]()
    days = np.datetime_as_string(market.days, unit="D").tolist()
    rows = {day: row for row, day in enumerate(days)}
    ratios: dict[str, list[float]] = {name: [] for name in FACTOR_NAMES}

    for question in questions.all:
        asset = market.asset_index[question.fact("code")]
        row = rows[question.fact("day")]
        figures = read_payload(question.payload, rows).figures
        shown |= figures.keys()

        for name in FACTOR_NAMES:
            raw = float(panel[name][row, asset])
            if name in figures and math.isfinite(raw) and raw * figures[name] > 0.0:
                ratios[name].append(math.log10(figures[name] / raw))

    units: dict[str, float] = {}
    for name, logs in ratios.items():
        if not logs:
            continue

        middle = float(np.median(logs))
        near = [unit for unit in _UNITS if abs(middle - math.log10(unit)) < _NEAR]
        if near:
            units[name] = near[0]

    return units, shown


# ---- models


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
"""Facts that must be equal in the plans of a run and the probe set."""


def read_attacks(
    paths: Sequence[Path], questions: ProbeSet, control: ProbeSet
) -> tuple[list[Entry], dict[str, str]]:
    """Return each model's entry in a certificate's `attackers`, under a unique name, and the
    SHA-256 of each file of answers or transcripts, keyed by path.

    Transcripts must show that a model was asked these questions word for word. Answers are scored
    again. The control for a model is the unmasked questions in the same run, so that the model and
    its settings are the same. Raises StoreError if a run is absent, unfinished or given twice, if a
    record is unreadable, or if the run asked something else, which the message names.
    """
    entries: list[Entry] = []
    artefacts: dict[str, str] = {}
    models: list[str] = []
    for path in paths:
        folder = RunFolder.load(path)
        specs = _match_episodes(folder, questions)
        control_specs = _control_specs(folder, control)
        # A task without a mask is its own control, so its episodes are in both lists.
        others = [spec for spec in control_specs if spec not in specs]
        digests = folder.artefacts([*specs, *others])
        if not artefacts.keys().isdisjoint(digests):
            raise StoreError(f"{path}: the same run was given twice; give each run once")

        entry = {
            **_model_entry(folder, specs, questions),
            "control": _model_control(folder, control_specs, control),
        }
        artefacts |= digests
        model = specs[0].model
        models.append(model)
        same = models.count(model)
        if same > 1:
            entry["name"] = f"{model} ({same})"

        entries.append(entry)

    return entries, artefacts


def _model_entry(folder: RunFolder, specs: Sequence[EpisodeSpec], questions: ProbeSet) -> Entry:
    records: list[AnswerRecord] = []
    for spec in specs:
        records += _checked_records(folder, spec, questions)

    first = specs[0]
    card = folder.card_path(questions.task.name)
    facts: Entry = {
        "kind": MODEL,
        "card": file_sha256(card) if card.is_file() else None,
        "model": {"name": first.model, "args": dict(first.model_args)},
        "agent": {"name": first.agent, "args": dict(first.agent_args)},
        "call": dict(first.call),
    }

    return attacker_entry(questions, first.model, records, facts)


def _control_specs(folder: RunFolder, control: ProbeSet) -> list[EpisodeSpec]:
    """Return the episodes of a run that ask the control questions, in the control's order; empty if
    the run does not ask them.
    """
    if all(spec.task != control.task.name for spec in folder.manifest.specs):
        return []
    return _match_episodes(folder, control)


def _model_control(folder: RunFolder, specs: Sequence[EpisodeSpec], control: ProbeSet) -> Entry:
    """Return a model's positive control as counts, before its rates are computed."""
    if not specs:
        return {"value": None, "reason": f"the run did not ask {control.task.name}"}

    records: list[AnswerRecord] = []
    for spec in specs:
        records += _checked_records(folder, spec, control)

    return {"value": dict(control_tally(control, records))}


def _match_episodes(folder: RunFolder, questions: ProbeSet) -> list[EpisodeSpec]:
    """Return a run's episodes in the order of the probe set. Raises StoreError as `read_attacks`
    does.
    """
    manifest = folder.manifest
    task = questions.task
    specs = folder.specs_of(task.name)

    if not specs:
        asked = ", ".join(dict.fromkeys(spec.task for spec in manifest.specs))
        raise StoreError(f"{folder.path}: holds {asked}, not {task.name}; {_ELSEWHERE}")

    for name, facet in _FACETS.items():
        ours = sorted(set(map(facet, questions.specs)))
        theirs = sorted(set(map(facet, specs)))
        if ours != theirs:
            difference = f"{name}: {', '.join(theirs)}; this probe set has {', '.join(ours)}"
            raise StoreError(
                f"{folder.path}: asked different questions ({difference}); {_ELSEWHERE}"
            )

    by_window = {spec.span: spec for spec in specs}
    for spec in specs:
        if not folder.is_complete(spec):
            raise StoreError(
                f"{folder.path}: {spec.span.name} is not finished; run it again to resume"
            )

    return [by_window[spec.span] for spec in questions.specs]


def _checked_records(
    folder: RunFolder, spec: EpisodeSpec, questions: ProbeSet
) -> list[AnswerRecord]:
    """Return the records of one window. Raises StoreError if one does not answer its question."""
    asked = questions.of(spec)
    records = folder.load_answers(spec)
    transcript = folder.load_transcript(spec)
    where = f"{folder.path}: {spec.span.name}"
    if len(records) != len(asked) or len(transcript) != len(asked):
        raise StoreError(
            f"{where}: {len(records)} probes were asked, but this probe set has {len(asked)};"
            f" {_ELSEWHERE}"
        )

    for question, record, entry in zip(asked, records, transcript, strict=True):
        problem = _answer_problem(question, record, entry)
        if problem:
            raise StoreError(f"{where}: {question.sample.id}: {problem}")

    return records


def _answer_problem(
    question: ProbeQuestion, record: AnswerRecord, entry: TranscriptEntry
) -> str | None:
    """Return why a record does not answer a question; None if it does."""
    if (record.step, record.sample) != (question.number, question.sample.id):
        return "its record does not answer this probe"
    if dumps_canonical(record.facts) != dumps_canonical(dict(question.sample.facts)):
        return "asked about another stock or day"
    if not _was_asked(question, entry):
        return "the transcript does not contain this question; the tools or prompts were different"

    answer = record.answer
    if answer is None:
        if record.scores:
            return "has scores but no answer"
        return None

    if not Draft202012Validator(dict(question.sample.form.parameters)).is_valid(answer):
        return "its answer does not have the requested form"

    scores = dict(question.samples.score(question.number, answer))
    if dumps_canonical(record.scores) != dumps_canonical(scores):
        return "its scores do not follow from its answer"
    return None


def _was_asked(question: ProbeQuestion, entry: TranscriptEntry) -> bool:
    """Return whether the first call in a transcript contains the question unchanged."""
    try:
        call = read_exchanges(entry, "transcript")[0]
    except (IndexError, StoreError):
        return False

    sent = {message.role: message.content for message in call.sent}
    sample = question.sample
    return sample.system in sent.get("system", "") and sample.user in sent.get("user", "")
