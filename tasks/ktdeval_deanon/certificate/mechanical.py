"""Attackers that need no language model, put to the very questions that models get: what each finds, and by which field."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.contracts import AnswerRecord
from ktdeval.jsonio import JsonValue
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.masking import MaskConfig
from ktdeval_deanon.certificate.card import ALL_FIELDS, DATE_MATCHER, EXACT_MATCHER, RANDOM
from ktdeval_deanon.certificate.evidence import FIELDS, Field
from ktdeval_deanon.certificate.history import PublicHistory
from ktdeval_deanon.certificate.matching import Evidence, Guess, RandomAttacker, field_sets, weigh
from ktdeval_deanon.certificate.questions import Questions, blank_answer, named, tally
from ktdeval_deanon.certificate.reading import read_payload
from ktdeval_deanon.certificate.types import MECHANICAL

_HEADLINE = ("ticker_top1", "ticker_top5", "date_within_5", "joint")
_DATES = "date_"
_UNITS = (1.0, 100.0)
_NEAR = 0.3  # decades: noise of the mask moves a median by less, and another unit by more

Answer = Mapping[str, JsonValue]


@dataclass(frozen=True)
class Found:
    """Findings of the attackers on all questions."""

    attackers: list[dict[str, JsonValue]]  #: entries of a certificate's `attackers`
    identifiability: dict[str, JsonValue]  #: its `identifiability`


def attack_questions(questions: Questions, on_probe: Callable[[int], None]) -> Found:
    """Put every question to the exact matcher (by all fields, each alone, and all but each), the date matcher and chance.

    Raises ConfigError: the questions are not of the kind that these attackers read and answer; DataError: a payload is not what the
    research tools give.
    """
    market, asked = questions.snapshot, questions.all
    units = _units(market, questions)
    history = public_history(market, units)
    random = RandomAttacker(history, questions.period)
    sets = _sets(asked[0].sample.lens.mask)
    guesses: dict[str, list[Guess]] = {name: [] for name in sets}
    counts: dict[str, list[int]] = {name: [] for name in sets}
    dates: list[str] = []
    lucky: list[Guess] = []
    for number, question in enumerate(asked):
        evidence = weigh(question.payload, history, FIELDS, question.sample.lens.mask)
        _look_up(evidence, sets, number, (guesses, counts))
        dates.append(evidence.day(seed=number))
        lucky.append(random.guess(question.payload, number))
        on_probe(number + 1)
    days = _entry(questions, DATE_MATCHER, [{**_answer(DATE_MATCHER, None), "date": day} for day in dates])
    attackers = [
        _entry(questions, EXACT_MATCHER, [_answer(EXACT_MATCHER, guess) for guess in guesses[ALL_FIELDS]]),
        {**days, "scores": {name: score for name, score in days["scores"].items() if name.startswith(_DATES)}},
        _entry(questions, RANDOM, [_answer(RANDOM, guess) for guess in lucky]),
    ]
    ablation = [
        {
            "name": name,
            "fields": list(fields),
            "scores": _headline(tally(questions, _records(questions, [_answer(EXACT_MATCHER, guess) for guess in guesses[name]]))),
            "k": _anonymity(counts[name]),
        }
        for name, fields in sets.items()
    ]
    others = sorted(_shown_factors(questions) - set(units))
    return Found(attackers, {"ablation": ablation, "factors": sorted(units), "factors_not_compared": others})


def public_history(market: MarketSnapshot, units: Mapping[str, float]) -> PublicHistory:
    """Whole market as the attackers hold it.

    `units`: style factor -> what its raw value is multiplied by to be as payloads show it; others are not compared.
    """
    panel = factor_panel(market, range(len(market.days)))
    factors: dict[str, FloatArray] = {name: panel[place] * units[name] for place, name in enumerate(FACTOR_NAMES) if name in units}
    return PublicHistory(market, factors)


def _sets(mask: MaskConfig) -> dict[str, tuple[Field, ...]]:
    """Field sets of the ablation; labels are a field only where a mask shows some."""
    return field_sets([field for field in FIELDS if field != "labels" or mask.kind != "blinded"])


def _look_up(
    evidence: Evidence,
    sets: Mapping[str, Sequence[Field]],
    seed: int,
    found: tuple[dict[str, list[Guess]], dict[str, list[int]]],
) -> None:
    guesses, counts = found
    for name, fields in sets.items():
        guesses[name].append(evidence.guess(fields, seed))
        counts[name].append(evidence.anonymity(fields))


def _answer(attacker: str, guess: Guess | None) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {} if guess is None else {**guess._asdict(), "date": guess.day, "tickers": list(guess.tickers)}
    return {name: found.get(name, nothing) for name, nothing in blank_answer(attacker).items()}


def _records(questions: Questions, answers: Sequence[Answer]) -> list[AnswerRecord]:
    return [question.record(answer) for question, answer in zip(questions.all, answers, strict=True)]


def _headline(scores: Mapping[str, dict[str, JsonValue]]) -> dict[str, JsonValue]:
    return {name: scores[name] for name in _HEADLINE if name in scores}


def _entry(questions: Questions, name: str, answers: Sequence[Answer]) -> dict[str, JsonValue]:
    """An attacker of a certificate, its answers scored as any other attacker's."""
    records = _records(questions, answers)
    return {
        "name": name,
        "kind": MECHANICAL,
        "card": None,
        "model": None,
        "agent": None,
        "call": None,
        "probes": len(records),
        "answered": len(records),
        "named": named(records),
        "scores": tally(questions, records),
    }


def _anonymity(counts: Sequence[int]) -> dict[str, JsonValue]:
    """How many pairs of asset and day agree with a payload, over all payloads; `alone` is the share with no other than its own."""
    values = np.array(counts)
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "least": int(values.min()),
        "most": int(values.max()),
        "alone": float((values <= 1).mean()),
    }


def _shown_factors(questions: Questions) -> set[str]:
    """Style factors that the payloads show."""
    rows = {day: row for row, day in enumerate(np.datetime_as_string(questions.snapshot.days, unit="D").tolist())}
    return {name for question in questions.all for name in read_payload(question.payload, rows).figures} & set(FACTOR_NAMES)


def _units(market: MarketSnapshot, questions: Questions) -> dict[str, float]:
    """Unit in which payloads show each factor: 1, or 100 where it is shown in per cent.

    Units are no secret (tool descriptions tell them), but only the tools know them; they are read off the median ratio of shown to
    raw values, which noise and rounding hardly move. A factor that fits no unit is not one of ours and is left out.
    """
    panel = factor_panel(market, range(len(market.days)))
    rows = {day: row for row, day in enumerate(np.datetime_as_string(market.days, unit="D").tolist())}
    ratios: dict[str, list[float]] = {name: [] for name in FACTOR_NAMES}
    for question in questions.all:
        asset, row = market.asset_index[question.code], rows[question.day]
        figures = read_payload(question.payload, rows).figures
        for place, name in enumerate(FACTOR_NAMES):
            raw = float(panel[place][row, asset])
            if name in figures and math.isfinite(raw) and raw * figures[name] > 0.0:
                ratios[name].append(math.log10(figures[name] / raw))
    found = {}
    for name, seen in ratios.items():
        near = [unit for unit in _UNITS if seen and abs(float(np.median(seen)) - math.log10(unit)) < _NEAR]
        if near:
            found[name] = near[0]
    return found
