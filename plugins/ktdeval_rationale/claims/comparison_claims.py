"""Comparisons in a reason, judged by what was shown. An asset's figure may be compared with other
assets, a threshold, another figure of the asset, all candidates, or 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Literal

from ktdeval_rationale.claims.agreement import ClaimVerdict, in_figure_units, slack
from ktdeval_rationale.claims.claim_words import (
    CLAUSE_END,
    GENERAL,
    NEGATED,
    PAST,
    PATTERNS,
    PLAN,
    UNSTATED,
)
from ktdeval_rationale.claims.marked_text import Sentence
from ktdeval_rationale.claims.plain_statements import is_plain_statement
from ktdeval_rationale.claims.quantities import Quantity, quantity_named, return_over
from ktdeval_rationale.claims.shown_facts import ShownFacts
from ktdeval_rationale.claims.subjects import ACCOUNT, subjects_at
from ktdeval_rationale.claims.text_figures import TextFigure

Kind = Literal["assets", "threshold", "own figures", "candidates", "sign"]

_NEAR_AVERAGE = 0.02  # tolerance for a mean of closes, since vendors may adjust prices differently


@dataclass(frozen=True, slots=True)
class ComparisonClaim:
    """A comparison, with its verdict."""

    kind: Kind
    text: str  #: text of the comparison, as written
    verdict: ClaimVerdict


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence, with the facts by which it is judged."""

    sentence: Sentence
    facts: ShownFacts
    about: str | None

    def numbers(self, subject: str, quantity: Quantity) -> list[float]:
        """Return the numbers shown for an asset. For an average that was not shown, return the mean
        of the asset's closes.
        """
        found = self.facts.values(subject, quantity.fields)
        if quantity.name == "average" and quantity.days and not found:
            closes = self.facts.closes.get(subject, ())
            if len(closes) >= quantity.days:
                found = [fmean(closes[-quantity.days :])]
        return found

    def subject(self, at: tuple[int, int], quantity: Quantity) -> str | None:
        """Return the only possible subject at an offset; None if the sentence is ambiguous."""
        found = subjects_at(self.sentence, at, quantity, self.about)
        return found[0] if len(found) == 1 else None

    def quantity(self, match: re.Match[str], group: str = "q") -> Quantity:
        """Return the quantity that a match names."""
        quantity: Quantity = self.sentence.part(match, group).value
        return quantity


def comparison_claims(
    sentence: Sentence, facts: ShownFacts, about: str | None
) -> Iterator[ComparisonClaim]:
    """Yield the comparisons in a sentence. `about` is defined as in `figure_claims`."""
    place = _Place(sentence, facts, about)
    taken: list[tuple[int, int]] = []
    for kind, name, judge in _JUDGES:
        for pattern in PATTERNS[name]:
            for match in pattern.finditer(sentence.text):
                start, end = match.span()
                if any(start < last and first < end for first, last in taken):
                    continue

                taken.append((start, end))
                verdict = ClaimVerdict.UNPLACED
                if not _is_in_doubt(sentence.text, start, end):
                    verdict = judge(place, match)
                if verdict is ClaimVerdict.WRONG and not is_plain_statement(
                    sentence.text, start, end
                ):
                    verdict = ClaimVerdict.UNPLACED
                yield ComparisonClaim(kind, _quote_match(sentence, match), verdict)


def _is_in_doubt(text: str, start: int, end: int) -> bool:
    """Return whether a comparison is conditional, about another day, or denied."""
    first = 0
    for ending in CLAUSE_END.finditer(text, 0, start):
        first = ending.start()

    if GENERAL.search(text) or UNSTATED.search(text):
        return True

    clause = text[first:end]
    return any(words.search(clause) for words in (PLAN, NEGATED, PAST))


def _quote_match(sentence: Sentence, match: re.Match[str]) -> str:
    def own(found: re.Match[str]) -> str:
        return sentence.parts[int(found[1])].text

    return re.sub(r"⟦[A-Z](\d+)⟧", own, match[0]).strip()


def _rises(match: re.Match[str]) -> bool:
    return match.groupdict().get("more") is not None


# ---- judges


def _assets(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = place.quantity(match)
    right = str(place.sentence.part(match, "l2").value)
    left = _left_label(place, match)
    if left is None or left == right:
        return ClaimVerdict.UNPLACED
    return _order(place, (left, right), quantity, rises=_rises(match))


def _left_label(place: _Place, match: re.Match[str]) -> str | None:
    if match.groupdict().get("l1") is not None:
        return str(place.sentence.part(match, "l1").value)

    before = [mark for mark in place.sentence.marks("L") if mark[1] <= match.start()]
    if len(before) > 1:
        return None
    if before:
        return str(before[0][2].value)
    return place.about


def _race(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = return_over(int(place.sentence.part(match, "w").value))
    labels = (
        str(place.sentence.part(match, "l1").value),
        str(place.sentence.part(match, "l2").value),
    )
    return _order(place, labels, quantity, rises=_rises(match))


def _order(
    place: _Place, labels: tuple[str, str], quantity: Quantity, *, rises: bool
) -> ClaimVerdict:
    """Judge whether the first asset has the larger (or smaller) number."""
    first = place.numbers(labels[0], quantity)
    second = place.numbers(labels[1], quantity)
    if quantity.unit == "loss":
        first = [abs(number) for number in first]
        second = [abs(number) for number in second]
    return _compare_figures(first, second, rises=rises)


def _compare_figures(
    first: Sequence[float], second: Sequence[float], *, rises: bool
) -> ClaimVerdict:
    if not first or not second:
        return ClaimVerdict.UNPLACED

    sign = 1.0 if rises else -1.0
    leads = [sign * (one - other) for one, other in product(first, second)]
    if all(lead > 0 for lead in leads):
        return ClaimVerdict.RIGHT
    if all(lead < 0 for lead in leads):
        return ClaimVerdict.WRONG
    return ClaimVerdict.UNPLACED


def _threshold(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = place.quantity(match)
    figure: TextFigure = place.sentence.part(match, "n").value
    subject = place.subject((match.start(), match.end()), quantity)
    if subject is None or figure.high is not None or quantity.unit == "fall":
        return ClaimVerdict.UNPLACED

    rises = _rises(match)
    verdicts: list[ClaimVerdict] = []
    for name in quantity.fields:
        for number in place.facts.values(subject, (name,)):
            for own in in_figure_units(figure, quantity, name, number):
                verdicts.append(
                    _over(abs(own) if quantity.unit == "loss" else own, figure, rises=rises)
                )

    return _agree_verdicts(verdicts)


def _over(number: float, figure: TextFigure, *, rises: bool) -> ClaimVerdict:
    lead = number - figure.value
    if abs(lead) <= slack(number):
        return ClaimVerdict.UNPLACED
    return ClaimVerdict.RIGHT if (lead > 0) is rises else ClaimVerdict.WRONG


def _agree_verdicts(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict on which all readings agree; "not placed" if they differ."""
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return ClaimVerdict.UNPLACED


def _own(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    other = place.quantity(match, "q2")
    first = quantity_named("close")
    if match.groupdict().get("q") is not None:
        first = place.quantity(match)
    if first.unit != other.unit or first == other:
        return ClaimVerdict.UNPLACED

    subject = place.subject((match.start(), match.start()), first)
    if subject is None or subject == ACCOUNT:
        return ClaimVerdict.UNPLACED

    ours = place.numbers(subject, first)
    theirs = place.numbers(subject, other)
    is_computed = other.name == "average" and not place.facts.values(subject, other.fields)
    if is_computed and ours and theirs and abs(ours[0] / theirs[0] - 1.0) < _NEAR_AVERAGE:
        return ClaimVerdict.UNPLACED
    return _compare_figures(ours, theirs, rises=_rises(match))


def _best(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = place.quantity(match)
    groups = match.groupdict()
    if quantity.unit not in ("change",) and (groups.get("strong") or groups.get("weak")):
        return ClaimVerdict.UNPLACED

    rises = groups.get("more") is not None or groups.get("strong") is not None
    at = match.start("q")
    subject = place.subject((at, at), quantity)
    if subject is None or quantity.is_of_account:
        return ClaimVerdict.UNPLACED
    return _among_first(place, subject, quantity, 1, rises=rises)


def _among_first(
    place: _Place, subject: str, quantity: Quantity, most: float, *, rises: bool
) -> ClaimVerdict:
    """Judge whether an asset is among the first `most` of the candidates, or of all assets shown.
    The claim is right if it holds in either group, and wrong if it holds in neither.
    """
    verdicts: list[ClaimVerdict] = []
    shown = set(filter(None, place.facts.facts))
    for group in (place.facts.candidates, shown):
        ranked = _rank_subjects(place, group | {subject}, quantity, rises=rises)
        if subject in ranked and len(ranked) > most:
            better = sum(number > ranked[subject] for number in ranked.values())
            verdicts.append(ClaimVerdict.RIGHT if better < most else ClaimVerdict.WRONG)
    return _right_or_agreed(verdicts)


def _right_or_agreed(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return right if any verdict is right, otherwise the verdict common to all."""
    if ClaimVerdict.RIGHT in verdicts:
        return ClaimVerdict.RIGHT
    return _agree_verdicts(verdicts)


def _rank_subjects(
    place: _Place, subjects: frozenset[str] | set[str], quantity: Quantity, *, rises: bool
) -> dict[str, float]:
    """Return the numbers of assets, with signs such that larger numbers are nearer to the extreme.
    Assets with several different numbers are omitted.
    """
    sign = 1.0 if rises else -1.0
    ranked: dict[str, float] = {}
    for subject in sorted(subjects):
        numbers = place.numbers(subject, quantity)
        if numbers and len(set(numbers)) == 1:
            number = abs(numbers[0]) if quantity.unit == "loss" else numbers[0]
            ranked[subject] = sign * number
    return ranked


def _cheapest(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    verdicts: list[ClaimVerdict] = []
    for name in ("price_earnings", "price_book", "close"):
        quantity = quantity_named(name)
        subject = place.subject((match.start(), match.start()), quantity)
        if subject is not None and place.numbers(subject, quantity):
            verdicts.append(_among_first(place, subject, quantity, 1, rises=_rises(match)))
    return _right_or_agreed(verdicts)


def _rank(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = place.quantity(match)
    figure: TextFigure = place.sentence.part(match, "n").value
    subject = place.subject((match.start(), match.start()), quantity)
    if subject is None or figure.is_percent or figure.high is not None:
        return ClaimVerdict.UNPLACED

    # For a volatility or a price, the words do not say which end of the ranking is the top.
    if quantity.unit != "change":
        return ClaimVerdict.UNPLACED

    return _among_first(place, subject, quantity, figure.value, rises=True)


def _sign(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = place.quantity(match)
    subject = place.subject((match.start(), match.end()), quantity)
    if subject is None or quantity.unit not in ("change", "ratio"):
        return ClaimVerdict.UNPLACED

    rises = _rises(match)
    verdicts: list[ClaimVerdict] = []
    for number in place.numbers(subject, quantity):
        if number == 0:
            verdicts.append(ClaimVerdict.UNPLACED)
        else:
            verdicts.append(ClaimVerdict.RIGHT if (number > 0) is rises else ClaimVerdict.WRONG)
    return _agree_verdicts(verdicts)


_Judge = Callable[[_Place, re.Match[str]], ClaimVerdict]
_JUDGES: tuple[tuple[Kind, str, _Judge], ...] = (
    ("assets", "assets", _assets),
    ("assets", "race", _race),
    ("threshold", "thresholds", _threshold),
    ("candidates", "best", _best),
    ("candidates", "cheapest", _cheapest),
    ("candidates", "rank", _rank),
    ("own figures", "own", _own),
    ("sign", "signs", _sign),
)
