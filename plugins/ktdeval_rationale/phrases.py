"""Ways of speaking that give a memory away: recognising what the mask hides, and knowing what came after.

Both are grammar rather than vocabulary. `This looks like` claims something only before an identity (`… a bank`, `… Moutai`, not
`… a good entry`), so identities found before are put into the text as one character each, and patterns ask for that character.
A claim that is denied (`I do not recognise this stock`) is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

Span = tuple[int, int]

NAME, SECTOR, TIME = "\ue000", "\ue001", "\ue002"
"""What stands in a text for every character of a code, company or brand; of a sector; of a date or event."""


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


# --- recognition

_ANY = f"(?=[{NAME}{SECTOR}{TIME}])"
_NAMED = f"(?={NAME})"
_TIMED = f"(?={TIME})"
_STOCK = (
    r"(?:stock|company|firm|ticker|issuer|security|asset|name|chart|price (?:path|series|history|action)|episode|period|window)"
)
_WHO = (
    r"(?:asset_[0-9]+|it|which|(?:this|that|the)(?: (?:one|stock|name|asset|handle|chart|price path|path|profile|pattern|series"
    r"|company|window|period))?)"
)
_SURELY = (
    r"(?:probably|(?:most |very )?likely|almost certainly|certainly|clearly|obviously|surely|presumably|definitely|undoubtedly"
    r"|really|actually|in fact)"
)
_A = r"(?:(?:an?|the|late|early|mid|some|one of the)[ -])?(?:[A-Za-z-]+ ){0,2}?"
"""What may stand between a claim and the identity claimed: `a`, `late`, `a large state-owned`."""
_CHINESE_A = r"[^,。,;\n]{0,4}?"

_KNOWING = (
    rf"\bI(?:'ve| have| do| can| immediately| clearly| already)* (?:recogni[sz]ed?|remember|recall) "
    rf"(?:asset_[0-9]+|it as|(?:this|the|these)(?: particular| same| exact| kind of)? {_STOCK})\b",
    rf"\bI(?: do| already)? know (?:this (?:company|issuer|firm|brand|{_STOCK} well)"
    rf"|(?:which|what) {_STOCK} (?:this|it|asset_[0-9]+|is behind))",
    rf"\bI(?:'ve| have) (?:seen|traded|met) (?:this|that|the same) (?:exact )?{_STOCK}(?: before)?",
    rf"\bI(?:'ve| have) (?:identified|recogni[sz]ed) (?:the|this|its) {_STOCK}",
    r"\bI(?: think I| believe I)? know who (?:this|it|asset_[0-9]+) is\b",
    r"(?<!no )\b(?:from|in) (?:my )?(?:own )?memory\b|\b(?:from )?my training(?: data| corpus| set)?\b",
    r"\bmy (?:memory|knowledge|recollection) of (?:this|the|that)\b",
    r"\b(?:guess|infer|deduce|figure out|work out|identify|determine|recover|reconstruct|de-?anonymi[sz]e|unmask)(?:ed|d|s|ing)? "
    r"(?:the |its |this |asset_[0-9]+'s )?(?:(?:real|true|actual|underlying|original) "
    r"(?:ticker|name|company|identity|code|stock|date|year|period)|(?:ticker|company|identity|issuer)\b)",
    r"我(?:已经)?知道(?:这|它|那)(?:只股票)?是(?:哪|什么|谁)|印象(?:中|里)",
    r"我?(?:认出|认得出|识别出|辨认出)(?:了)?",
    r"(?:根据|凭|凭借)(?:我的?)?(?:记忆|训练数据|印象)|训练(?:数据|语料)(?:中|里|显示)",
    r"(?:推断|猜出|猜测|还原|推测|反推)(?:出)?(?:其|它的|该股的?)?(?:真实)?(?:代码|公司|身份|股票名|名称|年份|日期)",
)

_LIKENING = (
    rf"\bif I am not mistaken,? {_WHO} (?:is|was|must be) {_A}{_ANY}",
    rf"\bI (?:believe|think|suspect|guess|bet|assume)(?: that)? {_WHO} (?:is|was|to be) {_A}{_ANY}",
    rf"\b{_WHO} (?:behaves?|moves?|trades?|acts?|swings?)(?: exactly| just| much| very much)? like {_A}{_NAMED}",
    rf"(?:\b{_WHO} |\b)(?:looks?|sounds?|seems?|appears?|feels?)(?: very| a lot| much| exactly| suspiciously)? "
    rf"(?:like|to be|as if it were) {_A}{_ANY}",
    rf"\b(?:reminds me of|resembles the real|is reminiscent of|could only be|can only be) {_A}{_ANY}",
    rf"\b{_WHO} (?:must|has to|could|might|may|should|is going to) be {_A}{_ANY}",
    rf"\b{_WHO} (?:is|was|are) {_SURELY} {_A}{_ANY}",
    rf"\bthe only [\w -]{{3,50}} (?:is|are|was) {_A}{_NAMED}",
    rf"\b(?:asset_[0-9]+|(?:this|the) handle)"
    rf"(?: is| was|'s| ?=| ?≈| ?->| ?→| corresponds to| matches| maps to| stands for) ?{_A}{_ANY}",
    rf"\b{_WHO} (?:corresponds to|maps to|stands for) {_A}{_NAMED}",
    rf"\bmy (?:best )?guess (?:for|at|about) {_WHO} (?:is|would be) {_A}{_ANY}",
    rf"\bwe(?: are|'re)(?: {_SURELY})? (?:in|at|near|around|somewhere in) {_A}{_TIMED}",
    rf"\b{_SURELY} (?:the )?{_NAMED}",
    rf"\b(?:price(?: level)?|volume|chart|pattern|profile|path|level)s? "
    rf"(?:suggests?|points? to|implies|imply|betrays?|gives? away|match(?:es)?|fits?|is that of) {_A}{_ANY}",
    rf"(?:asset_[0-9]+ ?)?(?:看起来|看上去|看着|似乎|好像|很像|疑似)(?:是|像|就是)?{_CHINESE_A}{_ANY}",
    rf"(?:asset_[0-9]+ ?|这只股票|这个标的|该股|它|这)?(?:应该|应当|可能|大概率|大概|很可能|多半|一定|肯定|估计|其实|显然)(?:就)?是"
    rf"{_CHINESE_A}{_ANY}",
    rf"asset_[0-9]+ ?(?:就)?是{_CHINESE_A}{_ANY}",
)

# --- hindsight

_MOVE = (
    r"(?:surge|soar|rall(?:y|ie)|double|triple|crash|collapse|plunge|default|rebound|multipl(?:y|ie)|skyrocket|halve|recover|bottom"
    r"|peak|rise|fall|drop|gain|lose)"
)
_MOVED = r"(?:surged|soared|rallied|doubled|tripled|crashed|collapsed|plunged|defaulted|skyrocketed|halved|exploded|took off)"
_MOVED_AT_ALL = rf"(?:{_MOVED}|fell|rose|lost|gained|dropped|climbed|recovered)"
_TURN = r"(?:crash|rally|collapse|surge|bull market|bear market|rebound|sell-?off|crisis|meltdown|boom|slump|recovery|move)"

_SAID_AFTER = (
    r"\b(?:as )?we now know\b|\bas is now known\b|\bnow known to\b",
    r"\bwe (?:all )?know how (?:this|it|that) (?:ended|ends|turned out)\b",
    r"\b(?:in|with) hindsight\b|\bwith the benefit of hindsight\b|\bin retrospect\b",
    r"\blater that (?:year|month|week|day|summer|autumn|fall|winter|spring|quarter)\b",
    r"\b(?:weeks|months|years|a (?:week|month|year)) later,? (?:it|the)\b",
    rf"\bwould (?:later|eventually|subsequently|soon|ultimately|go on to|then)(?: go on to)? {_MOVE}\w*",
    rf"\b(?:subsequently|eventually|ultimately|later|afterwards|soon after,? (?:it|prices?|the \w+)) {_MOVED}\b",
    rf"\bwent on to {_MOVE}\b",
    rf"\bthe {_TURN} (?:that|which) (?:followed|came|ensued|was (?:coming|to come|about to))\b",
    rf"\b(?:ahead of|before) the (?:known|famous|well-known|coming|upcoming|historic|well-documented|great|infamous) {_TURN}\b",
    r"\b(?:little|hardly) did (?:the market|anyone|anybody|investors|they) know\b",
    r"\bit would (?:be|take) (?:days|weeks|months|years) (?:before|until)\b",
    r"\b(?:since|because|as) the (?:coming|next|following) (?:days|weeks|months) (?:bring|will bring|see|are going to)\b",
    r"\b(?:what|which) happened (?:next|afterwards|later)\b|\bwhat came (?:next|after)\b",
    r"\bthe (?:following|next) (?:year|month|quarter|spring|summer|autumn|winter|season),? "
    rf"(?:it|they|prices?|the \w+|this \w+) {_MOVED_AT_ALL}\b",
    r"\bI(?: already)? know (?:that |how |what )?(?:it|this|prices?|they|the (?:stock|price|market|index|name)|asset_[0-9]+)"
    r"(?: story)? (?:will|is going to|ends?|ended|rises?|falls?|doubles?|happens?|happened)\b",
    r"\bI(?: already)? know the (?:outcome|result|ending)\b",
    r"\bhistory (?:shows|showed|tells us|proves|proved) (?:that )?(?:this|it)\b",
    r"\b(?:it|this|that|which) (?:later )?(?:turned out|proved) to be\b|\bit turned out that\b",
    r"\bknowing (?:what|how|that) (?:it|the \w+|this|happened|came)\b",
    r"\bgiven what (?:happened|came) (?:next|later|after)\w*\b",
    r"\bwell known to have \w+\b|\bdestined to (?:rally|crash|double|collapse)\b",
    r"事后(?:来)?看|事后证明|事后(?:我们)?知道",
    r"(?:后来|随后|之后|日后|最终)(?:的?走势)?(?:果然)?"
    r"(?:证明|大涨|暴涨|翻倍|翻番|翻了|暴跌|崩盘|腰斩|见底|反转|退市|暴雷|会有一波)",
    r"(?:我们|如今|现在|今天)(?:已经|现在|如今|都)?知道|(?:结果|后来)?大家都知道|众所周知|历史(?:已经)?(?:证明|告诉我们)",
    r"回头看(?!\d)|回过头(?:来)?看",
)


def _from_file(kind: str) -> Iterator[str]:
    """Patterns of one kind in `phrases.txt`."""
    text = resources.files(__package__).joinpath("phrases.txt").read_text("utf-8")
    for line in text.splitlines():
        name, _, pattern = line.partition(": ")
        if name == kind:
            yield pattern.replace("{turn}", _TURN).replace("{moved}", _MOVED_AT_ALL).replace("{thing}", _STOCK)


_RECOGNITION = _compiled((*_KNOWING, *_LIKENING, *_from_file("recognition")))
_HINDSIGHT = _compiled((*_SAID_AFTER, *_from_file("hindsight")))
_PAST_BAR = re.compile(r"day_-[0-9]")
_CLAUSE_END = re.compile(r"[.;!?。;!\n]")

# --- denial

_DENIED = re.compile(
    r"(?:\b(?:not|no|never|nor|neither|cannot|without|avoid(?:s|ing|ed)?|refrain\w*|unable|impossible|refuse\w*|forbidden|"
    r"rather than|instead of|nothing|nobody|hard|difficult)\b|n't\b)[^.;:!?\n]{0,30}\Z",
    re.IGNORECASE,
)
_DENIED_IN_CHINESE = re.compile(
    r"(?:没有|没能|没|未能|未|无法|不能|不会|不要|不可|不试图|不去|避免|禁止|勿|不存在|难以|不)[^,。;,;!!\n]{0,6}\Z"
)
_REACH = 60
_CLAUSE = 160  # characters; without an end to the search, a long text without a full stop would take quadratic time


def find_recognition(text: str) -> Iterator[Span]:
    """Spans of claims to recognise a stock or a time, without the identity claimed."""
    yield from ((start, start + len(text[start:end].rstrip(" -"))) for start, end in _claims(text, _RECOGNITION))


def find_hindsight(text: str) -> Iterator[Span]:
    """Spans of words that only somebody can say who knows what came after; same text as `find_recognition`.

    What is told of bars in the look-back (`day_-5`) is past, and no hindsight.
    """
    for start, end in _claims(text, _HINDSIGHT):
        if not _PAST_BAR.search(_clause_around(text, start, end)):
            yield start, end


def _claims(text: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            start, end = match.span()
            back = max(0, start - _REACH)
            if end > start and not _DENIED.search(text, back, start) and not _DENIED_IN_CHINESE.search(text, back, start):
                yield start, end


def _clause_around(text: str, start: int, end: int) -> str:
    """Clause of a span, as far as it reaches a few words to either side."""
    first, last = max(0, start - _CLAUSE), min(len(text), end + _CLAUSE)
    begin = max((match.end() for match in _CLAUSE_END.finditer(text, first, start)), default=first)
    stop = _CLAUSE_END.search(text, end, last)
    return text[begin : stop.start() if stop else last]
