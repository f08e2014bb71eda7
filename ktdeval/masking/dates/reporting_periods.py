"""Rules of `ktdeval.masking.dates.free_dates` for reporting periods: years in brokers' notation
(`FY25E`), quarters, halves and seasonal events.

Only the rules for documents find a period without a year, such as `third quarter`. These rules are
not applied to answers, because the model's market data do not contain such periods.
"""

from __future__ import annotations

import re
from pathlib import Path

from ktdeval.masking.dates.date_rules import (
    ANY_YEAR,
    END,
    LATE,
    LETTER,
    MARK,
    MONTH,
    NAME,
    PLURAL,
    SHORT,
    SHORT_NAMES,
    START,
    TENS,
    YEAR,
    YEARS,
    DateRule,
    date_rule,
    document_rule,
    has_beginnings,
    has_marked_words,
    has_shapes,
    has_words,
)
from ktdeval.values.disk.files import csv_rows

_PART = r"(?:[FC]?Q[1-4]|[FC]?[1-4]Q|H[12](?!00(?![0-9]))|[12]H|[369]M|1[28]M)"
_SPAN = r"(?:[FC]Y(?:[1-4]Q|Q[1-4])?|FYE|CYE|YE|YTD|LTM|NTM|TTM|MRQ|EOY|MY)"
_METRIC = (
    r"(?:EPS|DPS|BPS|BVPS|CFPS|PER?|P/E|P/BV?|PBR?|PEG|EV/(?:EBITDA|sales|S|IC)|EBITDAR?|EBITA?|PBT|"
    r"PAT|NPAT(?:MI)?|FCF[FE]?|OCF|RO[AE]|ROCE|ROIC|NAV|RNAV|GMV|ASP|revenues?|sales|earnings|profits?|"
    r"dividends?|estimates?|consensus|capex)"
)
_AFTER_YEAR = (
    b"E",
    b"A",
    b"F",
    b"P",
    b"e",
    b"a",
    b"f",
    b"p",
    b"(",
    b" (",
    b" E",
    b" e",
    b"-0",
    b"-'",
    b"~",
)
_MARKED_YEAR = has_shapes(*(b"0000" + after for after in _AFTER_YEAR))
_FISCAL_YEAR = (
    r"(?:the (?:(?:fiscal|financial|calendar|current|last|coming|next) )?year"
    r"|(?:its|their|our|this|last|next)(?: fiscal| financial| calendar)? year|fiscal|calendar|FY|CY"
    rf"|'?{ANY_YEAR}(?![0-9A-Za-z%])(?! {PLURAL}))"
)
# `third quarter of its fiscal year` is a date, `third quarter of falling orders` is not.
_NO_COUNT = (
    rf"(?! (?:in a row|running|straight|consecutive|as an? |on the trot|after|on the job))(?! of (?!{_FISCAL_YEAR}))"
    r"(?!-(?!end|year|over|on)|[ -]?(?:dozen|hours?|time|mile|marathon)(?![a-z]))"
)
_NO_ARTICLE = r"(?<![a-z])(?<![^a-z]a )(?<!^a )(?<!another )(?<!one )(?<!per )(?<!each )"
_ORDINAL = "(?:first|second|third|fourth|1st|2nd|3rd|4th)"
_ORDINALS = rf"{_ORDINAL}(?:(?:,| and| or| to|/) ?(?:the )?{_ORDINAL})*"
_FISCAL = "(?:(?:fiscal|financial|calendar|reporting|business)[ -])?"
_NO_GAS = (
    r"(?! (?:fuel|gas|station|electro|prod|truck|stor|pipe|plant|suppl|hub|power|engine|turbine|blend|"
    r"valve|project|infra|refuel|receptor|antag))"
)
_ORDINAL_ELSEWHERE = (
    "premier|deuxieme|troisieme|quatrieme|primer|segundo|tercer|cuarto|primo|secondo|terzo|quarto|"
    "primeiro|terceiro|erste[ns]?|zweite[ns]?|dritte[ns]?|vierte[ns]?|eerste|tweede|derde|vierde|"
    r"forsta|andra|tredje|fjarde|[1-4](?:er|e|o|\.)?"
)
_PERIOD_ELSEWHERE = (
    "trimestre semestre quartal quartals halbjahr halbjahre halbjahrs halbjahres"
    " kwartaal kvartal kvartalet"
)

PERIODS: tuple[DateRule, ...] = (
    # Q1/24, 1Q'24, Q3 FY24, FY24Q3, FY25E, 9M25, FY2025-27E, fiscal '24, full year 25
    date_rule(
        has_marked_words(
            "q h m fq cq f c fy cy fye cye ye ytd ltm ntm ttm mrq eoy my fiscal calendar cal year"
            " qfy hfy mfy qcy hcy mcy fyq cyq"
        ),
        rf"{START}(?:{_PART}(?:[ /.'_-]{{0,2}}(?:FY|CY)|[ /.'_-](?:of )?(?:FY|CY|fiscal|calendar)(?: year)?)?"
        rf"|{_SPAN}|(?:fiscal|calendar)(?:[ -]year)?|cal\.?|full[ -]year)(?:[ /.'_-]{{0,3}}|:){YEARS}"
        rf"(?:[ -]?(?:Q[1-4]|H[12]))?{END}",
    ),
    # F25E, FY3/26, FYMar26
    date_rule(has_words("f"), rf"{START}F{LATE}[EF]{END}", 0),
    date_rule(
        has_beginnings("fy"), rf"{START}FYE?[ -]?(?:{MONTH}/|{NAME}[ '-]?){ANY_YEAR}{MARK}?{END}"
    ),
    # 2025e, 2025-27E, 2025/26/27
    date_rule(
        _MARKED_YEAR,
        rf"(?<![0-9A-Za-z.,$€£¥]){YEAR}(?:{MARK}|(?=[/~-]'?{SHORT}{MARK}?(?:{END}|[/-])))"
        rf"(?:[/~-]'?{SHORT}{MARK}?)*(?![0-9A-Za-z+]|[.-][0-9])",
    ),
    # 26E, 24A/25E, 24-27E; 25/26A, vs 24A
    date_rule(
        has_words("e"),
        rf"(?<![0-9A-Za-z.,$€£¥#+-])'?(?:{LATE}[EAF]?[/-])*{LATE}(?:E|\(E\))(?![0-9A-Za-z+]|[.-][0-9])",
        0,
    ),
    date_rule(
        has_words("a e f"),
        rf"(?:(?<![0-9A-Za-z.,$€£¥#+-])'?(?:{LATE}[EAFe]?[/-])+|vs\.? '?){LATE}[EAFe]{END}",
        0,
    ),
    # EPS25E, P/E (25E), EPS 25/26, EPS25
    date_rule(
        has_beginnings(
            "eps dps bps bvps cfps per pe p pb peg ev ebit eba ebt pbt pat npat fcf ocf roa roe roc roi"
            " nav rnav gmv asp rev sales earnings profit dividend est consensus capex"
        ),
        rf"{START}{_METRIC}['_/ (-]{{0,3}}(?!20F)(?:{LATE}(?:[EAF]|est|\([EAF]\))|{YEAR}{MARK}?"
        rf"|{LATE}(?=/|-'?{LATE}(?:{LETTER}|\()))(?:[/-]'?{LATE}{MARK}?)*{END}",
    ),
    date_rule(
        has_words("eps dps fcf ebitda ebit npat pbt pat"),
        rf"{START}(?:EPS|DPS|FCF|EBITDA|EBIT|NPAT|PBT|PAT){LATE}{END}",
        0,
    ),
    # 24Q1, 25H2
    date_rule(
        has_marked_words("q h"),
        rf"(?<![0-9A-Za-z.,]){ANY_YEAR}[ '/-]?(?:Q[1-4]|[1-4]Q|H[12]|[12]H){MARK}?(?![0-9A-Za-z])",
    ),
    # end-26, mid-25
    date_rule(
        has_words("end mid early late"),
        rf"(?<![a-z])(?:(?:year-)?end|mid|early|late)-'?2[4-9]{END}(?! {PLURAL})",
    ),
    # since year 24, model year 25
    date_rule(
        has_words("year"),
        rf"(?<![a-z])(?:since|in|by|of|model|tax|plan) year '?2[0-9](?! (?:of|in)(?![a-z])){END}",
    ),
    # T3 2025, 3T25, S1 2025, in Romance languages
    date_rule(
        has_words("t s"),
        rf"{START}(?:(?:[1-4]T|[12]S) ?'?{ANY_YEAR}|[TS][1-4] (?:{YEAR}|'{SHORT})){END}",
        0,
    ),
    # H2 of 25, second half of 25; not Q2 of 25 companies
    date_rule(
        has_words("q h quarter half"),
        rf"{START}(?:[QH][1-4]|[1-4][QH]|(?:{_ORDINAL}|last) (?:quarter|half)) (?:of|in) '?{LATE}"
        rf"(?![0-9A-Za-z%]|[.,][0-9])(?! {PLURAL})",
    ),
    # Q3, 3-Q, FQ1, Q4E; quarter 3
    document_rule(
        has_words("q fq cq fyq cyq qe fqe cqe fyqe cyqe"),
        r"(?<![0-9A-Za-z$])(?:(?:F|C|FY|CY)?Q-?[1-4]|[FC]?[1-4]-?Q)E?"
        r"(?![0-9A-Za-z%]|[.,][0-9]|-(?![FC]?Q[1-4]|[1-4]Q)[A-Z0-9])",
    ),
    document_rule(
        has_words("quarter qtr"),
        rf"{_NO_ARTICLE}(?:quarter|qtr)[ -][1-4](?![0-9A-Za-z%]|[.,/-][0-9])",
    ),
    # 1H, H2, unless it is hydrogen
    document_rule(
        has_words("h"),
        r"(?<![0-9A-Za-z$-])(?<!green )(?<!blue )(?<!gr[ae]y )(?<!clean )(?<!liquid )(?:[12]H|H[12])"
        rf"(?![0-9A-Za-z%]|[.,][0-9]|-[A-Z0-9]){_NO_GAS}",
        0,
    ),
    # first 9 months
    document_rule(
        has_words("months"),
        rf"(?<![a-z])(?:first|opening|1st) (?:[2-9]|1[01]) months(?![a-z]){_NO_COUNT}",
    ),
)
PERIODS_IN_WORDS: tuple[DateRule, ...] = (
    # FY twenty-five
    date_rule(
        has_words("fy cy fiscal calendar year"),
        rf"(?<![a-z])(?:FY|CY|(?:fiscal|calendar)(?:[ -]year)?)[ -]{TENS}(?![a-z])",
    ),
    # SepQ, JunQ'25
    date_rule(
        has_words(" ".join(f"{name}q" for name in SHORT_NAMES)),
        rf"(?<![A-Za-z]){NAME}Q['-]?(?:{ANY_YEAR}{MARK}?)?(?![0-9A-Za-z])",
    ),
    # third quarter, 3rd qtr, second-half, third and fourth quarters, first three quarters;
    # quarter three, final quarter of the year
    document_rule(
        has_words("quarter quarters qtr qtrs half halves"),
        rf"{_NO_ARTICLE}(?:{_ORDINALS}|first (?:two|three|2|3))[ -]"
        rf"{_FISCAL}(?:quarters?|qtrs?|half|halves)(?:[ -]year)?(?![a-z]){_NO_COUNT}",
    ),
    document_rule(
        has_words("quarter qtr half"),
        rf"{_NO_ARTICLE}(?:(?:quarter|qtr)[ -](?:one|two|three|four)(?![a-z-])"
        rf"|(?:final|closing|opening) (?:quarter|half) of {_FISCAL_YEAR})",
    ),
    # first nine months
    document_rule(
        has_words("months"),
        r"(?<![a-z])(?:first|opening) (?:two|three|four|five|six|seven|eight|nine|ten|eleven) months"
        rf"(?![a-z]){_NO_COUNT}",
    ),
    document_rule(
        has_words("holiday festive"),
        r"(?<![a-z])(?:holiday|festive)[ -](?:quarter|season|shopping|sales)(?![a-z])",
    ),
    # troisième trimestre, drittes Quartal
    document_rule(
        has_words(_PERIOD_ELSEWHERE),
        rf"(?<![a-z])(?:{_ORDINAL_ELSEWHERE}) (?:{_PERIOD_ELSEWHERE.replace(' ', '|')})(?![a-z])",
    ),
    *(
        document_rule(
            has_words(row["word"]),
            rf"(?<![A-Za-z0-9])#?(?:{row['pattern']})(?:[ '_-]{{0,2}}{ANY_YEAR})?(?![0-9A-Za-z])",
            0,
        )
        for row in csv_rows(Path(__file__).with_name("date_words.csv"))
        if row["kind"] == "event"
    ),
)

# Year of an event: WWDC25, Computex24
EVENT_YEAR = re.compile(
    r"(?<=[A-Za-z]{3})(?:1[89]|2[0-9]|30)(?![0-9A-Za-z%倍]|[.,-][0-9]|-[A-Za-z])"
)
EVENT_NAME = re.compile(
    r"(?<![A-Za-z0-9$])(?P<tag>#?)(?P<word>[A-Z]{3,8}|[A-Z][a-z]{3,11}|(?<=#)[a-z]{3,11})\Z"
)
BEFORE_EVENT = re.compile(
    r"(?<![A-Za-z])(?:at|from|after|before|since|during|until|pre|post|following|ahead of|attended|"
    r"attend|hosted?|presented|into)[ -](?:the |this |our )?\Z",
    re.IGNORECASE,
)
