"""Short names that people use for a company, derived from its official name.

The rule, for a name in Latin letters:

1. Leave out `The` at the start, `.com` and the like, a share class (`Class A`, `Common Stock`, `ADR`), legal forms at the end and
   what stands in brackets.
2. Leave out words of a line of business at the end (`Platforms`, `Wholesale`, `International`): the rest is a short name.
3. The first word of the rest is one, too, if it has five letters and no hyphen.
4. The initials of a name of three words and more (`AMD`), and of two words joined by `and` (`J&J`), are short names.

Refused are a single word that is an ordinary word, a common first or family name, or a place (`Target`, `Applied`, `Texas`), and an
abbreviation in common use (`CEO`); `name_words.csv` lists them. A Chinese name loses its legal form, its line of business and a
place before it; two characters must be left that are no ordinary word (`茅台`, not `平安`); a bank is also its first character
and 行 (`招行`). A text with capitals must have one where a derived name begins. One that several assets share tells no asset,
and is shown as a company.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from ktdeval.jsonio import csv_rows
from ktdeval.masking.entities import COMMON_WORDS, LEGAL_FORMS
from ktdeval.masking.text import normalise

_FIRST_WORD = 5  # letters of a first word that is a name by itself
_LEAST = 3  # letters of a short name
_CLASS = re.compile(
    r"[ ,(-]+(?:(?:class|cl\.?|series|ser\.?) ?[a-z0-9](?![a-z])|"
    r"(?:common|ordinary|preferred|capital|depositary) (?:stock|shares?|units?)|"
    r"american depositary (?:shares?|receipts?)|depositary (?:shares?|receipts?)|"
    r"(?:spons(?:ored)? )?(?:adr|ads|gdr)s?(?![a-z])|new york registry shares?|registered shares?|"
    r"voting|non-voting|[a-z] shares?).*\Z",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[(\[][^)\]]*[)\]]")
_DOMAIN = re.compile(r"\.(?:com|net|org|io|ai|co)(?![A-Za-z])", re.IGNORECASE)
_ARTICLE = re.compile(r"\Athe (?=\S)", re.IGNORECASE)
_COMMON = COMMON_WORDS - {"meta"}  # a word of prompts, and with a capital a company
_SMALL = frozenset({"of", "and", "the", "de", "&", "for", "in", "a", "to", "von", "und", "et", "y"})
_ENDS = ("股份有限公司", "有限责任公司", "集团有限公司", "控股有限公司", "有限公司", "集团公司", "公司")
_HAN = re.compile(r"[\u3400-\u9fff]+")
_SHARE_MARK = re.compile(r"\A(?:\*?st|xd|xr|dr|n|c)(?=[\u3400-\u9fff])|-?(?:uw|ud|wd|[a-z])\Z", re.IGNORECASE)


def short_names(name: str) -> set[str]:
    """Return the short names of an official name, without those that are ordinary words; empty where there is none."""
    plain = normalise(name).strip()
    if _HAN.search(plain) is not None:
        return set(_chinese(plain))
    return {short for short in _latin(plain) if len(short) >= _LEAST and short.lower() != plain.lower()}


def _latin(name: str) -> Iterator[str]:
    name = _ARTICLE.sub("", _CLASS.sub("", _BRACKET.sub(" ", name)))
    with_domain = name.replace(",", " ").split()
    official = _DOMAIN.sub("", name).replace(",", " ").split()
    if not official:
        return
    words = _without_end(official, _is_legal)
    yield from _accepted([" ".join(_without_end(with_domain, _is_legal)), " ".join(words)])
    yield from _initials(words, official)
    while len(words) > 1 and _bare(words[-1]) in _words("generic"):
        words = _without_end(words[:-1], _is_small)
        yield from _accepted([" ".join(words)])
    if _is_rare(words[0]):
        yield from _accepted([words[0]])


def _without_end(words: list[str], is_left_out: Callable[[str], bool]) -> list[str]:
    kept = list(words)
    while len(kept) > 1 and (is_left_out(kept[-1]) or _is_small(kept[-1])):
        kept.pop()
    return kept


def _accepted(names: Iterable[str]) -> Iterator[str]:
    """Those names that are no single ordinary word."""
    for name in names:
        stripped = name.strip(" .,;:&-")
        if " " in stripped or not _is_ordinary(stripped):
            yield stripped


def _is_ordinary(word: str) -> bool:
    lower = _bare(word)
    return lower in _COMMON or any(lower in _words(kind) for kind in ("ordinary", "given", "place", "generic"))


def _is_small(word: str) -> bool:
    return _bare(word) in _SMALL


def _is_rare(word: str) -> bool:
    return len(word) >= _FIRST_WORD and word.isalpha() and word[0].isupper()


def _initials(words: list[str], official: list[str]) -> Iterator[str]:
    joined = [word for word in words if _bare(word) not in _SMALL]
    pair = "".join(word[0] for word in joined).upper()
    if len(words) == 3 and words[1].lower() in ("&", "and") and f"{pair[0]}&{pair[-1]}".lower() not in _words("pair"):
        yield f"{pair[0]}&{pair[-1]}"
    capitals = [word for word in official if _bare(word) not in _SMALL and word[0].isupper()]
    full = [word for word in capitals if not _is_legal(word) or word == "Company"]
    bare = [word for word in full if word != "Company"]
    for chosen in (full, bare):
        letters = "".join(part[0] for word in chosen for part in word.split("-") if part).upper()
        if len(bare) > 2 and letters.isalpha() and letters.lower() not in _words("acronym"):
            yield letters


def _is_legal(word: str) -> bool:
    return word.strip(".,").lower() in _LEGAL_WORDS


def _bare(word: str) -> str:
    return word.strip(".,;:").lower()


def _chinese(name: str) -> Iterator[str]:
    bare = _SHARE_MARK.sub("", re.sub(r"\s|\(.*?\)", "", name))
    end = next((end for end in _ENDS if bare.endswith(end)), "")
    if end:
        bare = bare[: -len(end)]
        yield from _usable(bare, name)
    place = next((place for place in _words("Chinese place") if bare.startswith(place)), "")
    core = bare[len(place) :]
    if bare.endswith("银行") and len(bare) == len("招商银行"):
        yield from (short for short in (f"{bare[0]}行",) if short not in _words("Chinese bank"))
    yield from _usable(core, name)
    while len(core) > len("茅台") and core[-2:] in _words("Chinese generic"):
        core = core[:-2]
        yield from _usable(core, name)


def _usable(short: str, name: str) -> Iterator[str]:
    is_name = len(short) >= len("茅台") and short != name and _HAN.fullmatch(short) is not None
    if is_name and not (
        short in _words("Chinese ordinary") or short in _words("Chinese generic") or short in _words("Chinese place")
    ):
        yield short


@cache
def _words(kind: str) -> frozenset[str]:
    rows = csv_rows(Path(__file__).with_name("name_words.csv"))
    return frozenset(word for row in rows if row["kind"] == kind for word in row["words"].split())


_LEGAL_WORDS = frozenset(form.strip("& .").lower() for form in LEGAL_FORMS) | _words("legal form")
