"""Questions of one window and seed: which facts are asked, and in which words."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from string import Template
from typing import Literal, TypeVar

import numpy as np

from ktdeval.harness import ToolSpec
from ktdeval.market import MarketSnapshot
from ktdeval.masking import AssetName, Lens, MaskConfig, MaskKind, Price
from ktdeval.values import JsonValue, derive_seed, load_yaml, sha256_hex
from ktdeval_memory_floor.market_facts import (
    OPTIONS,
    CloseFact,
    CodeFact,
    MonthFact,
    best_constant_share,
    close_facts,
    code_facts,
    is_close_right,
    month_facts,
    spelled_alike,
)

Kind = Literal["code", "month", "close"]
KINDS: tuple[Kind, ...] = ("code", "month", "close")
LETTERS = "ABCD"
DIRECTIONS = {True: "rise", False: "fall"}
_FOLDER = Path(__file__).parent
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(\s*%)?")
_ROUND = 10
"""Questions of one kind in a row. Kinds take turns, so that a run that is cut short has all kinds,
and questions with the same beginning follow each other.
"""
_MAX_DISTANCE = 20  # days between day_+0 and the day asked about

Fact = CodeFact | MonthFact | CloseFact
AnyFact = TypeVar("AnyFact", CodeFact, MonthFact, CloseFact)

FORMS: Mapping[str, ToolSpec] = {
    kind: ToolSpec(**fields) for kind, fields in load_yaml(_FOLDER / "answer_forms.yaml").items()
}
"""Form of an answer, keyed by kind."""


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file without its last line break."""
    return (_FOLDER / "prompts" / f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")


def prompt_hashes() -> dict[str, str]:
    """Return the SHA-256 of each prompt file, keyed by file name."""
    names = sorted(path.stem for path in (_FOLDER / "prompts").glob("*.md"))
    return {f"{name}.md": sha256_hex(prompt_text(name)) for name in names}


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """One question. A control has the same fact as its question, and shows the answer."""

    kind: Kind
    number: int  #: number among the questions of its kind; that of its question for a control
    is_control: bool
    fact: Fact
    #: assets of the options in the order shown, for the kind code; else empty
    options: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """Id of the question's sample."""
        control = "_control" if self.is_control else ""
        return f"{self.kind}_{self.number:04d}{control}"


@dataclass(frozen=True, slots=True)
class Chances:
    """Shares of the facts of a window that a model is right about without knowing any of them."""

    rising: float | None  #: share of months in which the price rose; None without months
    rising_in: Mapping[str, float]  #: the same by month, such as `2024-10`
    constant_close: float | None  #: share of closes for which the best constant answer is right


# ---- which facts are asked


def deal(
    facts: Sequence[AnyFact], count: int, seed: int, snapshot: MarketSnapshot
) -> list[AnyFact]:
    """Return at most `count` facts in the order dealt. Assets take turns, in a seeded order, each
    with a random fact of its own. The draw depends on codes and dates, not on columns and rows.
    """
    facts_of: dict[int, list[AnyFact]] = {}
    for fact in sorted(facts, key=lambda each: (each.asset, each.row)):
        facts_of.setdefault(fact.asset, []).append(fact)

    assets = sorted(facts_of, key=lambda asset: derive_seed(seed, "asset", snapshot.codes[asset]))
    dealt: list[AnyFact] = []
    turn = 0
    while len(dealt) < count and any(facts_of.values()):
        for asset in assets:
            left = facts_of[asset]
            if left and len(dealt) < count:
                dealt.append(left.pop(derive_seed(seed, snapshot.codes[asset], turn) % len(left)))

        turn += 1

    return dealt


def deal_months(
    facts: Sequence[MonthFact], count: int, seed: int, snapshot: MarketSnapshot
) -> list[MonthFact]:
    """Return at most `count` months, of which as large a share rose as among all facts."""
    if not facts:
        return []

    count = min(count, len(facts))
    rising = [fact for fact in facts if fact.rises]
    falling = [fact for fact in facts if not fact.rises]
    n_rising = round(count * len(rising) / len(facts))
    rises = deal(rising, n_rising, derive_seed(seed, "rise"), snapshot)
    falls = deal(falling, count - n_rising, derive_seed(seed, "fall"), snapshot)
    return _evenly_mixed(rises, falls)


def _evenly_mixed(first: Sequence[MonthFact], second: Sequence[MonthFact]) -> list[MonthFact]:
    """Return two lists as one, of which each beginning has about the same mixture."""
    placed = []
    for order, facts in enumerate((first, second)):
        for index, fact in enumerate(facts):
            placed.append(((index + 0.5) / len(facts), order, fact))

    placed.sort(key=lambda each: each[:2])
    return [fact for _, _, fact in placed]


def draw_questions(
    snapshot: MarketSnapshot, rows: tuple[int, int], counts: tuple[int, int], seed: int
) -> tuple[list[MemoryQuestion], Chances]:
    """Return the questions of a window in the order asked, and its chances. `rows`: first row of
    the window, and the row after its last; `counts`: questions of each kind, and how many of them
    have a control.
    """
    codes = code_facts(snapshot, *rows)
    months = month_facts(snapshot, *rows)
    rows_of = close_facts(snapshot, *rows)
    closes = [CloseFact(asset, row) for asset, days in rows_of.items() for row in days]
    count, controls = counts
    asked: dict[Kind, list[MemoryQuestion]] = {
        "code": _code_questions(deal(codes, count, derive_seed(seed, "code"), snapshot), seed),
        "month": _questions("month", deal_months(months, count, seed, snapshot)),
        "close": _questions("close", deal(closes, count, derive_seed(seed, "close"), snapshot)),
    }
    return _in_turns(asked, count, controls), _chances(snapshot, months, rows_of)


def _questions(kind: Kind, facts: Sequence[Fact]) -> list[MemoryQuestion]:
    return [MemoryQuestion(kind, number, False, fact) for number, fact in enumerate(facts)]


def _code_questions(facts: Sequence[CodeFact], seed: int) -> list[MemoryQuestion]:
    """Return questions with four options each. Each four questions have the right option once in each
    place.
    """
    questions = []
    for number, fact in enumerate(facts):
        peers = sorted(fact.peers, key=lambda peer: derive_seed(seed, "peer", number, peer))
        options = peers[: OPTIONS - 1]
        options.insert(_place(number, seed), fact.asset)
        questions.append(MemoryQuestion("code", number, False, fact, tuple(options)))

    return questions


def _place(number: int, seed: int) -> int:
    """Return the place of the right option."""
    block, turn = divmod(number, OPTIONS)
    places = sorted(range(OPTIONS), key=lambda place: derive_seed(seed, "place", block, place))
    return places[turn]


def _in_turns(
    asked: Mapping[Kind, Sequence[MemoryQuestion]], count: int, controls: int
) -> list[MemoryQuestion]:
    """Return all questions with their controls. A round has `_ROUND` questions of each kind, and in
    proportion their controls.
    """
    ordered: list[MemoryQuestion] = []
    for begin in range(0, count, _ROUND):
        end = min(begin + _ROUND, count)
        first_control = begin * controls // count
        last_control = end * controls // count
        for kind in KINDS:
            ordered += asked[kind][begin:end]
            for question in asked[kind][first_control:last_control]:
                ordered.append(_control_of(question))

    return ordered


def _control_of(question: MemoryQuestion) -> MemoryQuestion:
    return MemoryQuestion(question.kind, question.number, True, question.fact, question.options)


def _chances(
    snapshot: MarketSnapshot, months: Sequence[MonthFact], rows_of: Mapping[int, Sequence[int]]
) -> Chances:
    directions: dict[str, list[bool]] = {}
    for fact in months:
        directions.setdefault(month_of(snapshot, fact.row), []).append(fact.rises)

    rising = None
    if months:
        rising = sum(fact.rises for fact in months) / len(months)

    constant = None
    if rows_of:
        # An asset is asked as often as any other, however many days it has.
        closes = [snapshot.close[rows, asset] for asset, rows in rows_of.items()]
        weights = [np.full(len(rows), 1.0 / len(rows)) for rows in rows_of.values()]
        constant = best_constant_share(np.concatenate(closes), np.concatenate(weights))

    shares = {month: sum(rises) / len(rises) for month, rises in directions.items()}
    return Chances(rising, shares, constant)


def month_of(snapshot: MarketSnapshot, row: int) -> str:
    """Return the month of a day, such as `2024-10`."""
    return str(snapshot.days[row])[:7]


# ---- facts of a question: its answer and its chance


def question_facts(
    snapshot: MarketSnapshot, question: MemoryQuestion, chances: Chances, rows: tuple[int, int]
) -> dict[str, JsonValue]:
    """Return what is recorded beside an answer: the fact, the right answer and its chance."""
    fact = question.fact
    common: dict[str, JsonValue] = {
        "kind": question.kind,
        "control": question.is_control,
        "code": snapshot.codes[fact.asset],
    }
    if isinstance(fact, CodeFact):
        return {**common, **_facts_of_code(snapshot, question, fact)}
    if isinstance(fact, MonthFact):
        month = month_of(snapshot, fact.row)
        return {
            **common,
            "month": month,
            "right": DIRECTIONS[fact.rises],
            "rising_share": chances.rising,
            "rising_share_of_month": chances.rising_in[month],
        }

    closes = snapshot.close[rows[0] : rows[1], fact.asset]
    close = float(snapshot.close[fact.row, fact.asset])
    return {
        **common,
        "day": str(snapshot.days[fact.row]),
        "right": close,
        "constant_share": chances.constant_close,
        "level_is_right": is_close_right(float(np.nanmedian(closes)), close),
    }


def _facts_of_code(
    snapshot: MarketSnapshot, question: MemoryQuestion, fact: CodeFact
) -> dict[str, JsonValue]:
    _, name = snapshot.name_asset(fact.asset, fact.row)
    codes = [snapshot.name_asset(asset, fact.row)[0] for asset in question.options]
    alike = [spelled_alike(code, name) for code in codes]
    place = question.options.index(fact.asset)
    best = max(alike)
    spelled = 0.0
    if alike[place] == best:
        spelled = 1.0 / alike.count(best)

    options: list[JsonValue] = list(codes)
    return {
        "name": name,
        "industry": snapshot.industries[fact.asset],
        "options": options,
        "right": LETTERS[place],
        # chance of a reader who chooses the code whose letters occur in the name
        "spelled_share": spelled,
    }


# ---- words


class QuestionWriter:
    """Writes the questions of an episode, each through a mask with labels of its own."""

    def __init__(self, snapshot: MarketSnapshot, mask: MaskKind, seed: int) -> None:
        self._snapshot = snapshot
        self._mask = MaskConfig(mask)
        self._seed = seed

    def lens(self, question: MemoryQuestion) -> Lens:
        """Return the mask of a question. `day_+0` is a random day shortly before the one asked
        about, since a distance from the window's first day would be a date. Questions that hide
        nothing share one mask.
        """
        if self._mask.kind == "bright":
            return self._bright

        seed = derive_seed(self._seed, "question", question.id, bits=128)
        row = question.fact.row
        distance = derive_seed(seed, "base") % (min(row, _MAX_DISTANCE) + 1)
        return Lens(self._mask, seed, self._snapshot, row - distance)

    @cached_property
    def _bright(self) -> Lens:
        return Lens(self._mask, self._seed, self._snapshot, 0)

    def text(self, question: MemoryQuestion, lens: Lens) -> str:
        """Return the words of a question. What all questions of a kind share comes first."""
        words = self._words(question, lens)
        names = [question.kind + self._variant(question.kind)]
        if question.is_control:
            names.append(f"{question.kind}_control")

        return "\n".join(Template(prompt_text(name)).substitute(words) for name in names)

    def _variant(self, kind: Kind) -> str:
        """Return the ending of the prompt file that a mask needs."""
        return "_masked" if self._mask.hides_dates and kind != "close" else ""

    def _words(self, question: MemoryQuestion, lens: Lens) -> dict[str, str]:
        fact = question.fact
        lens.move_to(fact.row)
        if isinstance(fact, CodeFact):
            return self._words_of_code(question, fact, lens)

        asset = lens.asset_handle(fact.asset)
        name = lens.render(AssetName(fact.asset))
        if name is not None and name != asset:
            asset = f"{asset} ({name})"

        day = lens.day_handle(fact.row)
        words = {"asset": asset, "end": self._price(lens, fact.asset, fact.row)}
        if isinstance(fact, MonthFact):
            month = day if lens.hides_dates else _month_words(self._snapshot, fact.row)
            return {**words, "month": month, "before": self._price(lens, fact.asset, fact.before)}

        has_factor = self._snapshot.meta.has_factor
        basis = "as traded on it" if has_factor else "as the data record it"
        currency = self._snapshot.currency
        return {**words, "day": day, "close": words["end"], "basis": basis, "currency": currency}

    def _words_of_code(
        self, question: MemoryQuestion, fact: CodeFact, lens: Lens
    ) -> dict[str, str]:
        """Return the words of a question about a code. Behind a mask, names are the labels of
        another list.
        """
        others = self._names(question, lens)
        handles = [lens.asset_handle(asset) for asset in question.options]
        options = [f"{letter}: {handle}" for letter, handle in zip(LETTERS, handles, strict=True)]
        names = [others[asset] for asset in question.options]
        table = [f"{handle}: {name}" for handle, name in zip(handles, names, strict=True)]
        return {
            "name": others[fact.asset],
            "codes": "\n".join(options),
            "table": "\n".join(table),
        }

    def _names(self, question: MemoryQuestion, lens: Lens) -> dict[int, str]:
        names: dict[int, str] = {}
        if not lens.hides_assets:
            for asset in question.options:
                names[asset] = str(lens.render(AssetName(asset)))

            return names

        seed = derive_seed(self._seed, "other list", question.id, bits=128)
        other = Lens(self._mask, seed, self._snapshot, lens.base_row)
        for asset in question.options:
            names[asset] = other.asset_handle(asset)

        return names

    def _price(self, lens: Lens, asset: int, row: int) -> str:
        """Return a close as the mask shows it."""
        return lens.render_text(Price(asset, float(self._snapshot.close[row, asset]), row))


def _month_words(snapshot: MarketSnapshot, row: int) -> str:
    """Return a month such as `October 2024`."""
    day = date.fromisoformat(str(snapshot.days[row]))
    return f"{month_name[day.month]} {day.year}"


def is_copied(probability: float, text: str) -> bool:
    """Return whether a probability equals a figure of a text, also as per cent. The ends 0 and 1
    are never copied, since every probability lies between them.
    """
    if probability in (0.0, 1.0):
        return False

    for digits, per_cent in _NUMBER.findall(text):
        figure = float(digits) / 100.0 if per_cent else float(digits)
        if figure == probability:
            return True

    return False
