"""Identifiers of securities, issuers and filings in a normalised text, recognised by their form and
check digit.

ISIN, CUSIP, SEDOL, LEI and FIGI have check digits: a number is accepted if its check digit is
correct. One in ten purely numeric strings passes by chance, so such a number must also not be an
amount. CIK, SEC file numbers and accession numbers, US tax numbers, the German WKN and the Chinese
credit code are accepted by their form or an adjacent word. Vendors' spellings of a ticker with an
exchange (`AMZN.O`, `AMZN US Equity`, `NASDAQ: AMZN`, `0700.HK`) are accepted for any ticker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktdeval.masking.dates.date_detection import is_amount

_LONG_NUMBER = re.compile("[0-9]{5}")
_BY_FORM = re.compile(
    # an accession number, also in a URL
    r"(?<![0-9])(?:[0-9]{10}-[0-9]{2}-[0-9]{6}|000[0-9]{15})(?![0-9])"
    r"|(?<![0-9A-Za-z.])000[0-9]{7}(?![0-9A-Za-z]|[.-][0-9A-Za-z])"  # a CIK alone
    r"|(?<![0-9A-Za-z-])(?:001|000|333|814)-[0-9]{5,6}(?![0-9-])"  # a file number
    r"|(?<![0-9-])[0-9]{2}-[0-9]{7}(?![0-9-])"  # US tax number of a company
)
_BY_WORD = (
    (
        "CIK",
        re.compile(
            r"(?<![A-Za-z])CIK(?: ?(?:no\.?|number|code|key))?[ :#=]{0,3}[0-9]{1,10}(?![0-9])",
            re.IGNORECASE,
        ),
    ),
    (
        "ile ",
        re.compile(
            r"(?<![A-Za-z])(?:commission )?file (?:no\.?|number)["
            r" :#]{0,3}[0-9]{1,3}-[0-9]{4,7}(?:-[0-9]{2})?",
            re.I,
        ),
    ),
    *(
        (
            word,
            re.compile(
                rf"(?<![A-Za-z]){word}(?:en)?(?:[ -]?(?:no\.?|number|code|Nr\.?|nummer))?["
                r" :#=]{0,3}"
                r"(?=[0-9A-Z]{0,8}[0-9])[0-9A-Z]{6,12}(?![0-9A-Za-z])",
                re.IGNORECASE,
            ),
        )
        for word in ("SEDOL", "CUSIP", "ISIN", "WKN", "Valor")
    ),
    (
        "代",
        re.compile(
            r"(?:统一社会信用|组织机构|证券|證券|股票)代[码碼][: ]{0,3}[0-9A-Z]{4,18}(?:-[0-9X])?"
        ),
    ),
)
_BY_WORD_IN_EITHER_CASE = tuple((word, word.lower(), pattern) for word, pattern in _BY_WORD)
# Words of letters and digits that may be an ISIN, LEI, FIGI, CUSIP, SEDOL or credit code. The parts
# of an ISIN may be separated.
_WORD = re.compile(
    r"(?<![0-9A-Za-z.,])(?=[A-Za-z*@#]{0,19}[0-9])[0-9A-Za-z*@#]{7,20}(?![0-9A-Za-z]|[.,][0-9])"
)
_SPLIT_ISIN = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]{2}[ -][0-9A-Za-z]{9}[ -]?[0-9](?![0-9A-Za-z])")
_FIGI = re.compile(r"(?:BBG|KKG)[0-9BCDFGHJKLMNPQRSTVWXYZ]{8}[0-9]")
_SEDOL = re.compile(r"[0-9BCDFGHJKLMNPQRSTVWXYZ]{6}[0-9]")
_CUSIP = re.compile(r"[0-9]{3}[0-9A-Z*@#]{5}[0-9]")
_CREDIT_CODE = re.compile(r"[159][1239][0-9]{6}[0-9A-HJ-NPQRTUWXY]{10}")
_EXCHANGES = (
    "NASDAQ(?:GS|GM|CM)?|NYSE(?:"
    " ?(?:American|Arca|MKT))?|AMEX|OTC(?:QX|QB|MKTS|BB)?|TSX(?:V|-V)?|LSE|LON|HKEX|SEHK|HKG|TSE|TYO|"
    "ETR|FRA|XETRA|EPA|AMS|BIT|SWX|ASX|NSE|BSE|KRX|KOSPI|KOSDAQ|TWSE|SGX|JSE|"
    "CPH|STO|HEL|BME|SSE|SZSE|SHA|SHE"
)
_SUFFIXES = (
    "OQ|PK|OB|SS|SZ|SH|HK|PA|DE|AS|MI|SW|TO|AX|KS|KQ|TW|SI|NS|BO|MC|BR|CO|ST|HE|OL|VX|SA|MX|JK|BK"
)
_COLON_CODE = re.compile(r": ?(?P<code>[A-Z0-9][A-Z0-9.-]{0,6})(?<![.-])(?![0-9A-Za-z])")
_EXCHANGE_BEFORE = re.compile(rf"(?<![0-9A-Za-z])(?:{_EXCHANGES}) ?\Z", re.IGNORECASE)
_SUFFIX = re.compile(rf"\.(?:(?P<long>{_SUFFIXES})|[ONKAPLT])(?![0-9A-Za-z]|\.[0-9A-Za-z])")
_CODE_BEFORE_SUFFIX = re.compile(r"(?<![0-9A-Za-z.])(?:[A-Z]{1,6}|[0-9]{4,6})\Z")
# characters that a text must contain, and the pattern that finds the ticker or code
_VENDOR = (
    (
        "quity",
        re.compile(
            r"(?<![0-9A-Za-z.])(?P<code>[A-Z]{1,6}(?:/[A-Z])?|[0-9]{1,6})"
            r" (?:U[SNWQRPAV]|C[1-2HGSN]|HK|LN|JP|JT|G[RYF]|FP|NA|SW"
            r"|SE|IM|SM|CN|AU|KS|TT|IN|SP|BZ) ?[Ee]quity(?![A-Za-z])"
        ),
    ),
    (
        "EQUITY",
        re.compile(r"(?<![0-9A-Za-z.])(?P<code>[A-Z0-9/]{1,6}) [A-Z][A-Z0-9] EQUITY(?![A-Za-z])"),
    ),
    ("HK", re.compile(r"(?<![0-9A-Za-z.])(?P<code>[0-9]{1,5})[. ]?HK(?![A-Za-z])")),
    (" U", re.compile(r"(?<![0-9A-Za-z.])(?P<code>[A-Z]{1,6}) (?:US|UQ|UN|UW)(?=[),;])")),
)


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier in a text, with the ticker or code that it contains, if any."""

    start: int
    end: int
    code: str = ""


def find_identifiers(text: str) -> Iterator[Identifier]:
    """Yield every identifier in a normalised text; identifiers may overlap."""
    yield from _with_exchange(text)
    for needed, pattern in _VENDOR:
        if needed in text:
            yield from (
                Identifier(*match.span(), match["code"]) for match in pattern.finditer(text)
            )

    if _LONG_NUMBER.search(text) is not None:
        yield from (Identifier(*match.span()) for match in _BY_FORM.finditer(text))

    for needed, in_lower_case, pattern in _BY_WORD_IN_EITHER_CASE:
        if needed in text or in_lower_case in text:
            yield from (Identifier(*match.span()) for match in pattern.finditer(text))

    for match in (*_WORD.finditer(text), *_SPLIT_ISIN.finditer(text)):
        if _is_identifier(re.sub("[ -]", "", match[0]).upper()) and not _is_amount(text, match):
            yield Identifier(*match.span())


def _with_exchange(text: str) -> Iterator[Identifier]:
    """Yield tickers and numbers that follow an exchange's name and a colon, or that have an
    exchange's suffix. A ticker before a one-letter suffix must have three letters.
    """
    for after in _COLON_CODE.finditer(text):
        # An exchange's name ends with a letter, whereas in JSON a quotation mark precedes the
        # colon. Testing this character is faster than the search.
        if not text[max(0, after.start() - 2) : after.start()].removesuffix(" ")[-1:].isalpha():
            continue

        exchange = _EXCHANGE_BEFORE.search(text, max(0, after.start() - 16), after.start())
        if exchange is not None:
            yield Identifier(exchange.start(), after.end(), after["code"])

    for suffix in _SUFFIX.finditer(text):
        before = _CODE_BEFORE_SUFFIX.search(text, max(0, suffix.start() - 7), suffix.start())
        if before is not None and (suffix["long"] is not None or len(before[0]) >= len("IBM")):
            yield Identifier(before.start(), suffix.end(), before[0])


def _is_amount(text: str, match: re.Match[str]) -> bool:
    return match[0].isdigit() and is_amount(text, *match.span())


def _is_identifier(characters: str) -> bool:
    """Return whether a word in capitals has the form and check digit of an identifier."""
    check = _CHECKS.get(len(characters))
    return check is not None and check(characters)


def _is_isin_or_figi(characters: str) -> bool:
    if _FIGI.fullmatch(characters) is not None:
        return True

    is_form = characters.isalnum() and characters[:2].isalpha() and characters[-1].isdigit()
    if not is_form or sum(map(str.isdigit, characters)) < len("123"):
        return False

    return _luhn("".join(str(int(character, 36)) for character in characters)) % 10 == 0


def _luhn(digits: str) -> int:
    """Return the sum of the digits without the check digit, with every second digit from the right
    doubled.
    """
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value // 10 + value % 10
    return total


def _is_cusip(characters: str) -> bool:
    if _CUSIP.fullmatch(characters) is None or len(set(characters)) == 1:
        return False

    total = 0
    for index, character in enumerate(characters[:8]):
        value = _CUSIP_SIGNS[character] if character in _CUSIP_SIGNS else int(character, 36)
        value *= 1 + index % 2
        total += value // 10 + value % 10

    return (10 - total % 10) % 10 == int(characters[8])


def _is_sedol(characters: str) -> bool:
    if (
        _SEDOL.fullmatch(characters) is None
        or characters.isdigit()
        or sum(map(str.isdigit, characters)) < len("12")
    ):
        return False
    weights = (1, 3, 1, 7, 3, 9, 1)
    return (
        sum(
            weight * int(character, 36)
            for weight, character in zip(weights, characters, strict=True)
        )
        % 10
        == 0
    )


def _is_lei(characters: str) -> bool:
    is_form = characters.isalnum() and characters[18:].isdigit()
    return is_form and int("".join(str(int(character, 36)) for character in characters)) % 97 == 1


def _is_credit_code(characters: str) -> bool:
    if _CREDIT_CODE.fullmatch(characters) is None:
        return False
    total = sum(
        _CREDIT_ALPHABET.index(character) * pow(3, index, 31)
        for index, character in enumerate(characters[:17])
    )
    return _CREDIT_ALPHABET[(31 - total % 31) % 31] == characters[17]


_CUSIP_SIGNS = {"*": 36, "@": 37, "#": 38}
_CREDIT_ALPHABET = "0123456789ABCDEFGHJKLMNPQRTUWXY"
_CHECKS: dict[int, Callable[[str], bool]] = {
    7: _is_sedol, 9: _is_cusip, 12: _is_isin_or_figi, 18: _is_credit_code, 20: _is_lei,
}  # fmt: skip
