"""Comparisons of a reason, judged by what was shown: between assets, with a threshold, with another
figure of the asset, with all candidates, and with 0.
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
    LINK,
    NEGATED,
    OF_ASSET,
    OVER,
    PAST,
    PLAN,
    UNDER,
    UNSTATED,
    N,
    Q,
    W,
    compile_patterns,
)
from ktdeval_rationale.claims.marked_text import Sentence, mark
from ktdeval_rationale.claims.plain_statements import is_plain_statement
from ktdeval_rationale.claims.quantities import Quantity, quantity_named, return_over
from ktdeval_rationale.claims.shown_facts import ShownFacts
from ktdeval_rationale.claims.subjects import ACCOUNT, subjects_at
from ktdeval_rationale.claims.text_figures import TextFigure

Kind = Literal["assets", "threshold", "own figures", "candidates", "sign"]

_L1 = mark("L", "l1")
_L2 = mark("L", "l2")
_Q2 = mark("Q", "q2")
_MORE = r"(?:higher|larger|greater|stronger|more|bigger|better)"
_FEWER = r"(?:lower|smaller|less|weaker|fewer|worse)"
_ORDER = rf"(?:(?P<more>{_MORE})|(?P<less>{_FEWER}))"
_HAS = r"(?:has|have|shows|offers|carries|with|had|showing)"
_POSSESSIVE = r"(?:'s|'|的)?"

_ASSETS = compile_patterns(
    rf"{_L1}\s*{_HAS}\s*(?:a |an |the |much |far |slightly )*{_ORDER}\s*{Q}\s*than\s*{_L2}",
    rf"{_L1}{_POSSESSIVE}\s*{Q}\s*(?:is|was)?\s*(?:much |far |slightly "
    rf"|\(?⟦N\d+⟧\)? )*{_ORDER}\s*than\s*(?:that of )?{_L2}",
    rf"{Q}\s*of\s*{_L1}\s*(?:is|was)?\s*(?:much |far |slightly )*{_ORDER}\s*than\s*(?:that of )?{_L2}",
    rf"{_L1}{_POSSESSIVE}{Q}\s*(?:(?P<more>明显高于|高于|大于|强于|超过)|(?P<less>明显低于|低于|小于|弱于))\s*{_L2}",
    rf"{_L1}\s*比\s*{_L2}\s*(?:的)?\s*{Q}(?:更|要)?(?:(?P<more>高|大|强)|(?P<less>低|小|弱))",
    rf"{_L1}(?:的)?{Q}比\s*{_L2}(?:的)?(?:更|要)?(?:(?P<more>高|大|强)|(?P<less>低|小|弱))",
    rf"compared (?:with|to)\s*{_L2},?\s*{_L1}\s*{_HAS}\s*(?:a |an |the |much |far |slightly )*{_ORDER}\s*{Q}",
    rf"(?:prefer|choose|pick|favou?r)\s*{_L1}\s*(?:to|over)\s*{_L2}\s*(?:since|because|as|for|given)\s*(?:it|its)?\s*"
    rf"(?:{_HAS})?\s*(?:a |an |the |much |far |slightly )*{_ORDER}\s*{Q}",
    rf"{_HAS}?\s*(?:a |an |the |much )*{_ORDER}\s*{Q}\s*than\s*{_L2}",
)
_RACE = compile_patterns(
    rf"{_L1}\s*(?:has |have )?(?:(?P<more>outperformed|beat|beaten)|(?P<less>underperformed|lagged|trailed))\s*{_L2}"
    rf"\s*(?:over|in|during)\s*(?:the )?(?:last |past )?{W}",
    rf"{_L1}近?{W}(?:(?P<more>跑赢)|(?P<less>跑输)){_L2}",
)
_THRESHOLDS = compile_patterns(
    rf"{Q}{OF_ASSET}\s*{LINK}(?:well |far |just |slightly |still )?(?:(?P<more>{OVER})|(?P<less>{UNDER}))\s*{N}",
)
_OWN = compile_patterns(
    rf"{Q}{OF_ASSET}\s*(?:is|was|remains|stays|sits|stands|closed|trades|trading|now|still|well|far|\s)*"
    rf"(?:(?P<more>above|over|higher than|exceeds|高于|大于)|(?P<less>below|under|lower than|beneath|低于|小于))"
    rf"\s*(?:its|the)?\s*{_Q2}",
    rf"(?:trades|trading|traded|closed|closing|finished|ended|sits|stands|is|remains|stays|it is|holds"
    rf"|holding|moved|broke)\s*(?:the day |the session )?(?:well |far |just |still )?"
    rf"(?:(?P<more>above|over)|(?P<less>below|under|beneath))\s*(?:its|the)\s*{_Q2}",
    rf"(?:(?P<more>站上|高于|突破|位于(?=.{{0,14}}上方))|(?P<less>跌破|低于|位于(?=.{{0,14}}下方)))\s*{_Q2}",
)
_SET = (
    r"(?:(?:of|among|in|across|within)\s*(?:all |the |these |our |of )*(?:\w+ )?(?:candidates?|table|list|stocks"
    r"|names|assets|screen|group|pool|coins|universe))"
)
_HIGHEST = r"(?:highest|largest|greatest|biggest)"
_LOWEST = r"(?:lowest|smallest|least)"
_BEST = compile_patterns(
    rf"(?:(?P<more>{_HIGHEST})|(?P<less>{_LOWEST})|(?P<strong>strongest|best)|(?P<weak>weakest"
    rf"|worst))\s*{Q}\s*{_SET}",
    rf"{Q}\s*(?:is|was)\s*the\s*(?:(?P<more>{_HIGHEST})|(?P<less>{_LOWEST})|(?P<strong>strongest|best)"
    rf"|(?P<weak>weakest|worst))\s*{_SET}",
    rf"{_SET},?\s*{_L1}\s*{_HAS}\s*the\s*(?:(?P<more>{_HIGHEST})|(?P<less>{_LOWEST})"
    rf"|(?P<strong>strongest|best)|(?P<weak>weakest|worst))\s*{Q}",
    rf"(?:候选|所有|全部|列表|表)[^⟦,，]{{0,8}}[,，]?(?:⟦L\d+⟧的?)?{Q}(?:(?P<more>最高|最大|最强)|(?P<less>最低|最小|最弱))",
    rf"{Q}(?:为|是|在)?(?:候选|所有|全部|列表)[^⟦,，]{{0,8}}(?:(?P<more>最高|最大|最强)|(?P<less>最低|最小|最弱))",
)
_CHEAPEST = compile_patterns(rf"(?P<less>cheapest)\s*{_SET}", rf"(?P<more>most expensive)\s*{_SET}")
_RANK = compile_patterns(
    rf"(?:ranks?|ranked|is|among the)?\s*(?:in the )?top\s*{N}\s*(?:\w+ )?(?:by|in|on|for)\s*{Q}",
    rf"{Q}(?:排名)?(?:位于|居|处于)?前{N}",
)
_SIGNS = compile_patterns(
    rf"(?:(?P<more>positive)|(?P<less>negative))\s*{Q}",
    rf"{Q}{OF_ASSET}\s*(?:is|was|remains|turned|stays|has been)\s*(?:still |now "
    rf"|clearly )?(?:(?P<more>positive)|(?P<less>negative))(?!\s*⟦)",
    rf"{Q}(?:仍|均|都)?为?(?:(?P<more>正)|(?P<less>负))(?:值|数)?(?![⟦\d])",
)
_NEAR_AVERAGE = 0.02  # of a mean of closes, which a vendor may correct otherwise
_MIN_IN_SET = 2


@dataclass(frozen=True, slots=True)
class ComparisonClaim:
    """A comparison with its verdict."""

    kind: Kind
    text: str  #: with the parts as they were written
    verdict: ClaimVerdict


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence with what it is judged by."""

    sentence: Sentence
    facts: ShownFacts
    about: str | None

    def numbers(self, subject: str, quantity: Quantity) -> list[float]:
        """Return the shown numbers of an asset; of an average, also that of its closes."""
        found = self.facts.values(subject, quantity.fields)
        if quantity.name == "average" and quantity.days and not found:
            closes = self.facts.closes.get(subject, ())
            if len(closes) >= quantity.days:
                found = [fmean(closes[-quantity.days :])]
        return found

    def subject(self, at: tuple[int, int], quantity: Quantity) -> str | None:
        """Return the one subject of a place; None if the sentence leaves it open."""
        found = subjects_at(self.sentence, at, quantity, self.about)
        return found[0] if len(found) == 1 else None

    def quantity(self, match: re.Match[str], group: str = "q") -> Quantity:
        """Return the quantity that a match names."""
        quantity: Quantity = self.sentence.part(match, group).value
        return quantity


def comparison_claims(
    sentence: Sentence, facts: ShownFacts, about: str | None
) -> Iterator[ComparisonClaim]:
    """Yield the comparisons of a sentence. `about` as of `figure_claims`."""
    place = _Place(sentence, facts, about)
    taken: list[tuple[int, int]] = []
    for kind, patterns, judge in _JUDGES:
        for pattern in patterns:
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
    """Whether a comparison is a condition, of another day, or denied."""
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
    """Return the verdict of all readings; not placed where they differ."""
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
    return _extreme(place, subject, quantity, rises=rises)


def _extreme(place: _Place, subject: str, quantity: Quantity, *, rises: bool) -> ClaimVerdict:
    """Judge whether an asset has the extreme of the candidates, and of all that were shown: right
    if of either, wrong if of none.
    """
    verdicts: list[ClaimVerdict] = []
    shown = set(filter(None, place.facts.facts))
    for group in (place.facts.candidates, shown):
        ranked = _rank_subjects(place, group | {subject}, quantity, rises=rises)
        if len(ranked) >= _MIN_IN_SET and subject in ranked:
            best = max(ranked.values())
            verdicts.append(ClaimVerdict.RIGHT if ranked[subject] >= best else ClaimVerdict.WRONG)

    if ClaimVerdict.RIGHT in verdicts:
        return ClaimVerdict.RIGHT
    return _agree_verdicts(verdicts)


def _rank_subjects(
    place: _Place, subjects: frozenset[str] | set[str], quantity: Quantity, *, rises: bool
) -> dict[str, float]:
    """Return the numbers of assets, the larger the nearer to the extreme; without those of which
    several differ.
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
            verdicts.append(_extreme(place, subject, quantity, rises=_rises(match)))

    if ClaimVerdict.RIGHT in verdicts:
        return ClaimVerdict.RIGHT
    return _agree_verdicts(verdicts)


def _rank(place: _Place, match: re.Match[str]) -> ClaimVerdict:
    quantity = place.quantity(match)
    figure: TextFigure = place.sentence.part(match, "n").value
    subject = place.subject((match.start(), match.start()), quantity)
    if subject is None or figure.is_percent or figure.high is not None:
        return ClaimVerdict.UNPLACED

    # Which end is the top of a volatility or a price, the words leave open.
    if quantity.unit != "change":
        return ClaimVerdict.UNPLACED

    verdicts: list[ClaimVerdict] = []
    for group in (place.facts.candidates, set(filter(None, place.facts.facts))):
        ranked = _rank_subjects(place, group | {subject}, quantity, rises=True)
        if subject in ranked and len(ranked) > figure.value:
            better = sum(number > ranked[subject] for number in ranked.values())
            verdicts.append(ClaimVerdict.RIGHT if better < figure.value else ClaimVerdict.WRONG)

    if ClaimVerdict.RIGHT in verdicts:
        return ClaimVerdict.RIGHT
    return _agree_verdicts(verdicts)


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
_JUDGES: tuple[tuple[Kind, tuple[re.Pattern[str], ...], _Judge], ...] = (
    ("assets", _ASSETS, _assets),
    ("assets", _RACE, _race),
    ("threshold", _THRESHOLDS, _threshold),
    ("candidates", _BEST, _best),
    ("candidates", _CHEAPEST, _cheapest),
    ("candidates", _RANK, _rank),
    ("own figures", _OWN, _own),
    ("sign", _SIGNS, _sign),
)
