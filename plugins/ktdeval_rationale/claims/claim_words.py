"""Words of claims in English and Chinese, as parts of patterns over marked sentences."""

from __future__ import annotations

import re

from ktdeval_rationale.claims.marked_text import mark

Q = mark("Q", "q")
N = mark("N", "n")
W = mark("W", "w")

RISE = (
    r"(?:up|rose|risen|rising|gained|gaining|rallied|climbed|advanced|increased|jumped|surged|added"
    r"|(?:a |an )?(?:gain|rise|advance|rally|increase)(?: of)?|累计上涨|上涨|上升|涨)"
)
FALL = (
    r"(?:down|fell|fallen|falling|lost|losing|dropped|declined|declining|slid|shed|slipped|tumbled"
    r"|decreased|(?:a )?(?:loss|fall|drop|decline|decrease|slide)(?: of)?|累计下跌|下跌|下降|跌)"
)
HEDGE = r"(?:about|around|roughly|approximately|approx\.?|nearly|almost|close to|some|~|≈|约|大约|接近|将近|近)"
OVER = (
    r"(?:above|over|more than|greater than|higher than|exceeds|exceeding|in excess of|north of|>=?|≥"
    r"|高于|超过|大于|高出|不低于)"
)
UNDER = r"(?:below|under|less than|lower than|smaller than|beneath|south of|<=?|≤|低于|小于|不足|少于|不到)"
_LINK_WORDS = (
    "of|is|at|was|are|stands|sits|reads|reading|value|level|score|currently|now|still|only|just|a|an"
    "|the|has been|comes in|equals|measures|today|strong|weak|high|low|solid|healthy|robust|elevated"
    "|remains?|remained|came in|printed|closed|ended|after all"
    "|modest|very|quite|already|impressive|attractive|positive|negative|moderate|large|small"
)
_LINK_WORDS_ZH = (
    "已|为|是|达到|达|在|有|仅为|仅|只有|高达|目前|当前|现为|现|处于|仍然|仍|依然|明显|略|远"
)
#: What may stand between a quantity and its figure
LINK = rf"(?:[\s:=(]|,\s*(?=now|at|currently|⟦N)|\b(?:{_LINK_WORDS})\b|{_LINK_WORDS_ZH})*"
#: `of ABC` after a quantity
OF_ASSET = r"(?:\s*(?:of|for|in|at)\s*⟦L\d+⟧)?"

#: Words that make a figure a plan or a condition, not a fact
PLAN = re.compile(
    r"\b(?:if|should|could|would|might|may|until|unless|target(?:s|ing|ed)?|stop|take[- ]profit|expect"
    r"(?:s|ed|ing)?|forecast|project(?:s|ed)|aim(?:s|ing)?|plan(?:s|ned)?|assum(?:e|es|ing)|once|when"
    r"|towards?|trigger|threshold|cap(?:ped)?|confidence|conviction|probability|ideally)\b"
    r"|目标|止损|止盈|如果|若|一旦|预计|预期|计划|假设|有望|信心|置信|通常|当.{0,12}时",
    re.IGNORECASE,
)
#: Words anywhere in a sentence that keep it from stating what is
UNSTATED = re.compile(
    r"\b(?:would|need(?:s|ed)?|requir(?:e|es|ed|ing)|must|whether|doubt(?:s|ful)?|wrong|false|untrue"
    r"|incorrect|nobody|no one|den(?:y|ies|ied)|question(?:s|ed)?|unless|suppose|imagine|hypothetical"
    r"|noted|recall(?:s|ed)?|remember(?:ed)?|ask(?:s|ed)? for|look(?:s|ing)? for|wait(?:s|ing)? for"
    r"|screen(?:s|ed|ing)? for|qualif(?:y|ies)|rule of thumb|maybe|perhaps|possibly)\b"
    r"|等.{0,24}再|是否|怀疑|假如|倘若|并不认为|要求|也许|可能|错误",
    re.IGNORECASE,
)
#: Words that make a figure that of another day
PAST = re.compile(
    r"\b(?:yesterday|previous(?:ly)?|prior|earlier|ago|formerly|before|last (?:week|month|year|step)"
    r"|initially|then|had been|used to)\b|昨日|昨天|此前|之前|上周|上月|去年|原来|曾",
    re.IGNORECASE,
)
#: Words that make a sentence about assets in general
GENERAL = re.compile(
    r"\b(?:historically|typically|usually|normally|generally|in general|on average|tend to|often"
    r"|(?:stocks|names|assets|companies|shares|those|candidates) (?:with|whose|that|have|had|show"
    r"|trade))\b|通常|一般|历史上|往往",
    re.IGNORECASE,
)
#: Words that put a claim in doubt or turn it round
NEGATED = re.compile(
    r"\b(?:not|no longer|n't|never|neither|without|isn't|hardly|barely|nor|unlikely|rather than)\b"
    r"|n't\b|不再|没有|并非|不是|未能|未|并不",
    re.IGNORECASE,
)
FALLING = re.compile(
    rf"{FALL}|\b(?:negative|minus|pullback|dip|retreat|below|under|off)\b|负|亏|低于", re.IGNORECASE
)
CLAUSE_END = re.compile(
    r"[,;:]\s|\b(?:and|but|while|whereas|although|though|yet|because|since|as)\b|,|，|但|而|且|因为|因"
)


def compile_patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Compile patterns that ignore case."""
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)
