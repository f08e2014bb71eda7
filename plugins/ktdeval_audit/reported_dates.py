"""Verbs in the past tense whose adverb is the date: what they report had happened on that day.

They outrank all words of plans in their sentence, as in `reported on DATE, beating the consensus`.
The verbs are those of `reported_words.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

MARK = "\ue000"  #: placeholder for the date in a sentence

# words after which a date belongs to what is still to come, or to another clause
_STOPS = (
    "for|until|till|by(?! [0-9])|before|ahead|into|due|payable|that|which|who|what|whether|how|if"
    "|when|where|unless|while|as|because|since|from|through|than|after|following|and|but|having"
    "|will|would|shall|should|could|may|might|can|must|is|are|be|gets?|scheduled|set|slated"
    "|planned|expected|effective|ending|starting|beginning|next|last|upcoming|plans?|learn|see"
    r"|hear|find|know|await\w*|expir\w+|matur\w+|reports|releases|posts|publishes|holds|hosts"
    r"|meets|speaks|announces|decides|says|to(?! [$€£¥0-9]| an? )"
)
_WORD = rf"(?!(?:{_STOPS})\b)[^\s,;:()—–{MARK}]+ "
# what is announced in advance: in `announced a call on DATE` the date is that of the call
_SCHEDULED = (
    "call|meeting|conference|webcast|hearing|event|symposium|summit|election|auction|launch|date"
    "|day|expiry|expiration|deadline|presentation"
)
_OCCASION = (
    "print|report|release|call|update|guide|guidance|outlook|results?|numbers?|meeting|remarks"
    "|speech|comments|statement|decision|auction|data"
)
_SAID = (
    r"said|told (?:[a-z]+ )?|wrote|stated|noted|warned|announced|reported|posted|published"
    "|released|issued|filed|disclosed|unveiled"
)
_NO_NOUN = "".join(
    rf"(?<!\b{word} )" for word in ("a", "an", "the", "be", "to", "is", "are", "if", "once", "when")
)
_NOT_YET = "".join(rf"(?<!\b{word} the )" for word in ("for", "into", "of", "before", "to"))
_ON = r"(?:(?:late |early |back )?on (?:the )?|the (?:day|morning|afternoon|evening|night) of )"


def reported_at(sentence: str) -> Iterator[int]:
    """Yield the offsets of verbs, or of the date before them, if the date is the verb's adverb.

    The date in the sentence is replaced by `MARK`.
    """
    for pattern in _patterns():
        for match in pattern.finditer(sentence):
            yield match.start()


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    lines = Path(__file__).with_name("reported_words.txt").read_text(encoding="utf-8").splitlines()
    verbs = "|".join(line for line in lines if line and not line.startswith("#"))
    verb = rf"(?<![-\w]){_NO_NOUN}(?:{verbs})(?:(?<=\s)|(?!\w))"
    said = rf"(?<![-\w]){_NO_NOUN}(?:{_SAID})(?:(?<=\s)|(?!\w))"
    is_not_held = rf"(?![^.;{MARK}]*\b(?:{_SCHEDULED}),? {_ON}{MARK})"
    opening = r"(?:\A|[,:.\n\"“(*-])\s*"

    forms = (
        # raised its outlook on DATE
        rf"{verb},? ?{is_not_held}(?:{_WORD}){{0,10}}{_ON}{MARK}",
        # said in a statement late on DATE
        rf"{said}(?: in an? \w+(?: \w+)?)?,? ?(?:{_ON})?{MARK}",
        # On DATE the company raised; on the DATE call, management said
        rf"{opening}(?:on|at|during) (?:the |its |their )?{MARK}(?:\W{{1,2}}(?:{_OCCASION}))?,?"
        rf" (?:{_WORD}){{1,6}}?(?:{verb}|{said})",
        # the guidance call of DATE disappointed; the DATE report beat estimates
        rf"\b(?:{_OCCASION}) (?:of|from|on) {MARK} {verb}",
        rf"{_NOT_YET}{MARK}\W{{1,2}}(?:{_OCCASION}) {verb}",
    )
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)
