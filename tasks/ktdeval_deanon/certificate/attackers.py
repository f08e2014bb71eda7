"""What attackers recovered of a probe set: those without a language model, put to the very questions that models get, and by which
field; and models, by their answers in finished runs of the scoring task, accepted only to these questions. Each with its positive
control, the unmasked questions about the same windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from jsonschema import Draft202012Validator

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.contracts import AnswerRecord, EpisodeSpec
from ktdeval.errors import StoreError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import JsonValue, dumps_canonical, file_sha256
from ktdeval.runner import RunFolder
from ktdeval_deanon.certificate.card import ALL_FIELDS, DATE_MATCHER, EXACT_MATCHER, RANDOM
from ktdeval_deanon.certificate.control import control_tally
from ktdeval_deanon.certificate.evidence import FIELDS, read_payload
from ktdeval_deanon.certificate.history import PublicHistory
from ktdeval_deanon.certificate.matching import Guess, RandomAttacker, field_sets, weigh
from ktdeval_deanon.certificate.questions import Entry, Question, Questions, attacker_entry, blank_answer, tally
from ktdeval_deanon.certificate.types import MECHANICAL, MODEL

_HEADLINE = ("ticker_top1", "ticker_top5", "date_within_5", "joint")
_UNITS = (1.0, 100.0)
_NEAR = 0.3  # decades: noise of the mask moves a median by less, and another unit by more


def attack_questions(questions: Questions, control: Questions, on_probe: Callable[[int], None]) -> tuple[list[Entry], Entry]:
    """Put every question to the exact matcher (by all fields, each alone, and all but each), the date matcher and chance; and every
    unmasked question of the control, without its labels.

    `on_probe` is called with the number done. Returns the entries of a certificate's `attackers`, and its `identifiability`.
    Raises ConfigError: the questions are not of the kind that these attackers read and answer; DataError: a payload is not what
    the research tools give.
    """
    asked = questions.all
    panel = dict(zip(FACTOR_NAMES, factor_panel(questions.snapshot, range(len(questions.snapshot.days))), strict=True))
    units, shown = _units(questions, panel)
    history = PublicHistory(questions.snapshot, {name: panel[name] * unit for name, unit in units.items()})
    random = RandomAttacker(history, questions.period)
    mask = asked[0].sample.lens.mask
    sets = field_sets([field for field in FIELDS if field != "labels" or mask.kind != "blinded"])  # no labels are shown then
    guesses: dict[str, list[Guess]] = {name: [] for name in (*sets, RANDOM)}
    counts: dict[str, list[int]] = {name: [] for name in sets}
    dates: list[str] = []
    for number, question in enumerate(asked):
        evidence = weigh(question.payload, history, FIELDS, question.sample.lens.mask)
        for name, fields in sets.items():
            guesses[name].append(evidence.guess(fields, number))
            counts[name].append(evidence.anonymity(fields))
        dates.append(evidence.guess(("index", "breadth"), number).day)  # whose market moved most like the shown one
        guesses[RANDOM].append(random.guess(question.payload, number))
        on_probe(number + 1)
    records = {name: _records(questions, [_answer(RANDOM if name == RANDOM else EXACT_MATCHER, guess) for guess in of])
               for name, of in guesses.items()}  # fmt: skip
    records[DATE_MATCHER] = _records(questions, [{**blank_answer(DATE_MATCHER), "date": day} for day in dates])
    read = _attack_control(control, history, random, lambda done: on_probe(len(asked) + done))
    exact, days, chance = (
        attacker_entry(questions, name, records[key], {"kind": MECHANICAL, "control": {"value": read[name]}})
        for name, key in ((EXACT_MATCHER, ALL_FIELDS), (DATE_MATCHER, DATE_MATCHER), (RANDOM, RANDOM))
    )
    days["scores"] = {name: score for name, score in days["scores"].items() if name.startswith("date_")}
    ablation = []
    for name, fields in sets.items():
        scores = {score: share for score, share in tally(questions, records[name]).items() if score in _HEADLINE}
        ablation.append({"name": name, "fields": list(fields), "scores": scores, "k": _anonymity(counts[name])})
    others = sorted((shown & set(FACTOR_NAMES)) - set(units))
    return [exact, days, chance], {"ablation": ablation, "factors": sorted(units), "factors_not_compared": others}


def _attack_control(
    control: Questions, history: PublicHistory, random: RandomAttacker, on_probe: Callable[[int], None]
) -> dict[str, Entry]:
    """Return by attacker what it reads off the unmasked questions; the matchers by numbers alone, since labels give all away."""
    numbers = [field for field in FIELDS if field != "labels"]
    answers: dict[str, list[dict[str, JsonValue]]] = {EXACT_MATCHER: [], DATE_MATCHER: [], RANDOM: []}
    for number, question in enumerate(control.all):
        evidence = weigh(question.payload, history, numbers, question.sample.lens.mask)
        day = evidence.guess(("index", "breadth"), number).day
        answers[EXACT_MATCHER].append(_answer(EXACT_MATCHER, evidence.guess(numbers, number)))
        answers[DATE_MATCHER].append({**blank_answer(DATE_MATCHER), "date": day})
        answers[RANDOM].append(_answer(RANDOM, random.guess(question.payload, number)))
        on_probe(number + 1)
    return {name: dict(control_tally(control, _records(control, given))) for name, given in answers.items()}


def _answer(attacker: str, guess: Guess) -> dict[str, JsonValue]:
    guessed = {"tickers": list(guess.tickers), "date": guess.day, "sector": guess.sector, "board": guess.board}
    return {**blank_answer(attacker), **guessed}


def _records(questions: Questions, answers: Sequence[Mapping[str, JsonValue]]) -> list[AnswerRecord]:
    return [question.record(answer) for question, answer in zip(questions.all, answers, strict=True)]


def _anonymity(counts: Sequence[int]) -> Entry:
    """How many pairs of asset and day agree with a payload, over all payloads; `alone` is the share with no other than its own."""
    values = np.array(counts)
    middle = {"mean": float(values.mean()), "median": float(np.median(values))}
    return {**middle, "least": int(values.min()), "most": int(values.max()), "alone": float((values <= 1).mean())}


def _units(questions: Questions, panel: Mapping[str, np.ndarray]) -> tuple[dict[str, float], set[str]]:
    """Unit in which payloads show each factor: 1, or 100 where it is shown in per cent; and the names of all shown figures.

    Units are no secret (tool descriptions state them), but only the tools know them; they are read off the median ratio of shown to
    raw values, which noise and rounding hardly move. A factor that fits no unit is not one of ours and is left out.
    """
    market, shown = questions.snapshot, set[str]()
    rows = {day: row for row, day in enumerate(np.datetime_as_string(market.days, unit="D").tolist())}
    ratios: dict[str, list[float]] = {name: [] for name in FACTOR_NAMES}
    for question in questions.all:
        asset, row = market.asset_index[question.fact("code")], rows[question.fact("day")]
        figures = read_payload(question.payload, rows).figures
        shown |= figures.keys()
        for name in FACTOR_NAMES:
            raw = float(panel[name][row, asset])
            if name in figures and math.isfinite(raw) and raw * figures[name] > 0.0:
                ratios[name].append(math.log10(figures[name] / raw))
    units = {}
    for name, logs in ratios.items():
        near = [unit for unit in _UNITS if logs and abs(float(np.median(logs)) - math.log10(unit)) < _NEAR]
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
"""Facts in which a run's plan must be that of the probe set."""


def read_attacks(paths: Sequence[Path], questions: Questions, control: Questions) -> tuple[list[Entry], dict[str, str]]:
    """Entries of a certificate's `attackers`, each under a name of its own, and SHA-256 of answers and transcripts by path.

    That a model was asked these questions is read off the transcripts, word for word; answers are scored again. Its control are
    the unmasked questions in the same run, and so of the same model and settings. Raises StoreError: no such run, not finished,
    given twice, records that are not readable, or it asked something else, which the message names.
    """
    entries: list[Entry] = []
    artefacts: dict[str, str] = {}
    for path in paths:
        folder = RunFolder.load(path)
        specs = _matched(folder, questions)
        control_specs = _control_specs(folder, control)
        digests = folder.artefacts([*specs, *(spec for spec in control_specs if spec not in specs)])
        if not artefacts.keys().isdisjoint(digests):
            raise StoreError(f"{path}: its answers are already there; give each run once")
        entry = {**_model_entry(folder, specs, questions), "control": _model_control(folder, control_specs, control)}
        artefacts |= digests
        same = sum(other["model"]["name"] == entry["name"] for other in entries)
        entries.append({**entry, "name": f"{entry['name']} ({same + 1})" if same else entry["name"]})
    return entries, artefacts


def _model_entry(folder: RunFolder, specs: Sequence[EpisodeSpec], questions: Questions) -> Entry:
    records = [record for spec in specs for record in _checked_records(folder, spec, questions)]
    first, card = specs[0], folder.card_path(questions.task.name)
    facts: Entry = {
        "kind": MODEL,
        "card": file_sha256(card) if card.is_file() else None,
        "model": {"name": first.model, "args": dict(first.model_args)},
        "agent": {"name": first.agent, "args": dict(first.agent_args)},
        "call": dict(first.call),
    }
    return attacker_entry(questions, first.model, records, facts)


def _control_specs(folder: RunFolder, control: Questions) -> list[EpisodeSpec]:
    """Episodes of a run that ask the control, in its order; empty where the run asks none of it."""
    is_asked = any(spec.task == control.task.name for spec in folder.manifest.specs)
    return _matched(folder, control) if is_asked else []


def _model_control(folder: RunFolder, specs: Sequence[EpisodeSpec], control: Questions) -> Entry:
    """Positive control of a model, before shares are worked out."""
    if not specs:
        return {"value": None, "reason": f"the run did not ask {control.task.name}"}
    records = [record for spec in specs for record in _checked_records(folder, spec, control)]
    return {"value": dict(control_tally(control, records))}


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


def _checked_records(folder: RunFolder, spec: EpisodeSpec, questions: Questions) -> list[AnswerRecord]:
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
