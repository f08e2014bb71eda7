"""Attackers without a language model on the very questions that models get: what each recovers, and by which field."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.contracts import AnswerRecord
from ktdeval.jsonio import JsonValue
from ktdeval_deanon.certificate.card import ALL_FIELDS, DATE_MATCHER, EXACT_MATCHER, RANDOM
from ktdeval_deanon.certificate.evidence import FIELDS, read_payload
from ktdeval_deanon.certificate.history import PublicHistory
from ktdeval_deanon.certificate.matching import Guess, RandomAttacker, field_sets, weigh
from ktdeval_deanon.certificate.questions import Entry, Questions, attacker_entry, blank_answer, tally
from ktdeval_deanon.certificate.types import MECHANICAL

_HEADLINE = ("ticker_top1", "ticker_top5", "date_within_5", "joint")
_UNITS = (1.0, 100.0)
_NEAR = 0.3  # decades: noise of the mask moves a median by less, and another unit by more


def attack_questions(questions: Questions, on_probe: Callable[[int], None]) -> tuple[list[Entry], Entry]:
    """Put every question to the exact matcher (by all fields, each alone, and all but each), the date matcher and chance.

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
        dates.append(evidence.day(seed=number))
        guesses[RANDOM].append(random.guess(question.payload, number))
        on_probe(number + 1)
    records = {name: _records(questions, [_answer(RANDOM if name == RANDOM else EXACT_MATCHER, guess) for guess in of])
               for name, of in guesses.items()}  # fmt: skip
    records[DATE_MATCHER] = _records(questions, [{**blank_answer(DATE_MATCHER), "date": day} for day in dates])
    exact, days, chance = (attacker_entry(questions, name, records[key], {"kind": MECHANICAL}) for name, key in (
        (EXACT_MATCHER, ALL_FIELDS), (DATE_MATCHER, DATE_MATCHER), (RANDOM, RANDOM)))  # fmt: skip
    days["scores"] = {name: score for name, score in days["scores"].items() if name.startswith("date_")}
    ablation = []
    for name, fields in sets.items():
        scores = {score: share for score, share in tally(questions, records[name]).items() if score in _HEADLINE}
        ablation.append({"name": name, "fields": list(fields), "scores": scores, "k": _anonymity(counts[name])})
    others = sorted((shown & set(FACTOR_NAMES)) - set(units))
    return [exact, days, chance], {"ablation": ablation, "factors": sorted(units), "factors_not_compared": others}


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
