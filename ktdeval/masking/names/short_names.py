"""Short names that people use for a company, derived from its official name.

The rule, for a name in Latin letters:

1. Remove `The` at the start, domains such as `.com`, a share class (`Class A`, `Common Stock`,
   `ADR`), legal forms at the end, and brackets with their content.
2. Remove words for a line of business at the end (`Platforms`, `Wholesale`, `International`). The
   rest is a short name.
3. The first word of the rest is also a short name, if it has at least five letters and no hyphen.
4. The initials of a name of three or more words (`AMD`), or of two words joined by `and` (`J&J`),
   are short names.
5. If the name begins with a common first name, the last name is a short name (`Lilly` for `Eli
   Lilly`).

A single word is refused if it is an ordinary word, a common first or family name, or a place
(`Target`, `Applied`, `Texas`), and so is a common abbreviation (`CEO`). These words are listed in
`name_words.csv`.

From a Chinese name, the legal form, the line of business and a place at the start are removed. The
rest must have at least two characters and must not be an ordinary word (`茅台`, not `平安`). An
ordinary word needs 集团 or 股份 after it, or 中 before it (`平安集团`, `中石油`). If four characters remain,
the first two and the last two are short names unless they are words (`宁德`, `讯飞`). The first
character of a bank and 行 (`招行`) are also a short name.

In a text with capitals, a derived name must begin with a capital. A short name shared by several
assets identifies none of them; masks show it as a company.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ktdeval.market.snapshots.documents import Entity
from ktdeval.masking.names.entity_detection import LEGAL_FORMS, AliasKind, EntityIndex
from ktdeval.masking.names.ordinary_words import (
    COMMON_WORDS,
    is_chinese_word,
    is_listed,
    listed_words,
)
from ktdeval.masking.text_normalisation import normalise

_FIRST_WORD = 5  # minimum letters of a first word that is a name by itself
_LEAST = 3  # minimum letters of a short name
_MIN_ALONE = 4  # minimum letters of an ordinary first word
_CLASS = re.compile(
    r"[ ,(-]+(?:(?:class|cl\.?|series|ser\.?) ?[a-z0-9](?![a-z])|"
    r"(?:common|ordinary|preferred|capital|depositary) (?:stock|shares?|units?)|"
    r"american depositary (?:shares?|receipts?)|depositary (?:shares?|receipts?)|"
    r"(?:spons(?:ored)? )?(?:adr|ads|gdr)s?(?![a-z])|new york registry shares?|registered shares?|"
    r"voting|non-voting|[a-z] shares?).*\Z",
    re.IGNORECASE,
)
_MEMORY_ID = re.compile(r"M[0-9]+")  # form in which prompts number memories
_BRACKET = re.compile(r"[(\[][^)\]]*[)\]]")
_DOMAIN = re.compile(r"\.(?:com|net|org|io|ai|co)(?![A-Za-z])", re.IGNORECASE)
_ARTICLE = re.compile(r"\Athe (?=\S)", re.IGNORECASE)
_SMALL = frozenset({"of", "and", "the", "de", "&", "for", "in", "a", "to", "von", "und", "et", "y"})
_ENDS = (
    "股份有限公司",
    "有限责任公司",
    "集团有限公司",
    "控股有限公司",
    "有限公司",
    "集团公司",
    "公司",
)
_HAN = re.compile(r"[\u3400-\u9fff]+")
_SHARE_MARK = re.compile(
    r"\A(?:\*?st|xd|xr|dr|n|c)(?=[\u3400-\u9fff])|-?(?:uw|ud|wd|[a-z])\Z", re.IGNORECASE
)


def short_names(name: str) -> set[str]:
    """Return the short names of an official name, without ordinary words; may be empty."""
    plain = normalise(name).strip()
    if _HAN.search(plain) is not None:
        return set(_chinese(plain))

    own = plain.lower()
    return {short for short in _latin(plain) if len(short) >= _LEAST and short.lower() != own}


def spoken_names(
    names: Iterable[str], symbols: Iterable[str], entities: Iterable[Entity]
) -> EntityIndex:
    """Return an index of official names that are not common words, of their short names, of
    symbols, and of the entities in documents. The index does not distinguish between assets. An
    entity spelled like a memory's id (the fund M12) is omitted, because a model repeats ids that it
    was shown.
    """
    spoken: list[tuple[int, AliasKind, str]] = []
    for name in names:
        if name.lower() not in COMMON_WORDS:
            spoken.append((0, "name", name))

        spoken.extend((0, "short", short) for short in short_names(name))

    spoken.extend((0, "ticker", symbol) for symbol in symbols)
    for entity in entities:
        is_memory = _MEMORY_ID.fullmatch(entity.text) is not None
        if entity.text.lower() not in COMMON_WORDS and not is_memory:
            spoken.append((0, entity.kind, entity.text))

    return EntityIndex(spoken)


def _latin(name: str) -> Iterator[str]:
    name = _BRACKET.sub(" ", name)
    name = _CLASS.sub("", name)
    name = _ARTICLE.sub("", name)

    with_domain = name.replace(",", " ").split()
    official = _DOMAIN.sub("", name).replace(",", " ").split()
    if not official:
        return

    words = _without_end(official, _is_legal)
    yield from _keep_rare_names([" ".join(_without_end(with_domain, _is_legal)), " ".join(words)])
    yield from _initials(words, official)

    while len(words) > 1 and _bare(words[-1]) in listed_words("generic"):
        words = _without_end(words[:-1], _is_small)
        yield from _keep_rare_names([" ".join(words)])

    if _is_rare(words[0]):
        yield from _keep_rare_names([words[0]])

    # Eli Lilly is called Lilly.
    is_person = len(words) == 2 and _bare(words[0]) in listed_words("given")
    if is_person and _is_rare(words[1]):
        yield from _keep_rare_names([words[1]])


def first_word(name: str) -> str:
    """Return the first word of an official name in Latin letters if it is an ordinary word or a
    place (`Delta`). Empty if the first word is not such a word or could not mean the company.
    """
    words = _ARTICLE.sub("", normalise(name).strip()).split()
    first = words[0].strip(",.") if words else ""
    is_usable = len(words) > 1 and len(first) >= _MIN_ALONE and first.istitle()
    if not (is_usable and first.isascii() and first.isalpha() and is_listed(first.lower())):
        return ""
    is_other = any(first.lower() in listed_words(kind) for kind in ("not alone", "given"))
    return "" if is_other else first


def _without_end(words: list[str], is_dropped: Callable[[str], bool]) -> list[str]:
    """Drop short words, and words that `is_dropped` accepts, from the end. The first word
    is kept.
    """
    shorter = list(words)
    while len(shorter) > 1 and (is_dropped(shorter[-1]) or _is_small(shorter[-1])):
        shorter.pop()
    return shorter


def _keep_rare_names(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that are not a single ordinary word."""
    for name in names:
        stripped = name.strip(" .,;:&-")
        if " " in stripped or not is_listed(_bare(stripped)):
            yield stripped


def _is_small(word: str) -> bool:
    return _bare(word) in _SMALL


def _is_rare(word: str) -> bool:
    return len(word) >= _FIRST_WORD and word.isalpha() and word[0].isupper()


def _initials(words: list[str], official: list[str]) -> Iterator[str]:
    """Yield `J&J` for a name such as `Johnson & Johnson`, and acronyms of three letters or more,
    with and without a C for `Company`.
    """
    joined = [word for word in words if _bare(word) not in _SMALL]
    letters = "".join(word[0] for word in joined).upper()
    if len(words) == 3 and words[1].lower() in ("&", "and"):
        pair = f"{letters[0]}&{letters[-1]}"
        if pair.lower() not in listed_words("pair"):
            yield pair

    capitals = [word for word in official if _bare(word) not in _SMALL and word[0].isupper()]
    with_company = [word for word in capitals if not _is_legal(word) or word == "Company"]
    without_company = [word for word in with_company if word != "Company"]
    if len(without_company) <= 2:
        return

    for chosen in (with_company, without_company):
        acronym = _acronym(chosen)
        if acronym.isalpha() and acronym.lower() not in listed_words("acronym"):
            yield acronym


def _acronym(words: list[str]) -> str:
    """Return the first letters of the words. Each part of a hyphenated word contributes a
    letter.
    """
    letters = ""
    for word in words:
        letters += "".join(part[0] for part in word.split("-") if part)
    return letters.upper()


def _is_legal(word: str) -> bool:
    return word.strip(".,").lower() in _LEGAL_WORDS


def _bare(word: str) -> str:
    return word.strip(".,;:").lower()


def _chinese(name: str) -> Iterator[str]:
    core, bare, place = _chinese_core(name)
    if bare.endswith("银行") and len(bare) == len("招商银行"):
        short = f"{bare[0]}行"  # 招商银行 is called 招行
        if short not in listed_words("Chinese bank"):
            yield short

    for short in (bare, *_shorter(core)):
        yield from _usable(short, name)

    # 宁德时代 is called 宁德, 科大讯飞 is called 讯飞, and 中国石油 is called 中石油.
    if len(core) == len("宁德时代"):
        halves = list(_halves(core, name))
        yield from halves[:1]
    # An ordinary word is a name only with an addition that companies have, such as 中石油 for 中国石油 and
    # 平安集团 for 中国平安.
    is_word = len(core) == len("平安") and core != name and not any(_usable(core, name))
    if is_word and place == "中国":
        yield f"中{core}"
    if is_word and core not in listed_words("Chinese generic"):
        yield from (f"{core}集团", f"{core}股份")


def _halves(core: str, name: str) -> Iterator[str]:
    """Yield the first two and the last two characters of a name, unless they are a word."""
    for half in (core[:2], core[2:]):
        if not is_chinese_word(half):
            yield from _usable(half, name)


def subject_cores(name: str) -> Iterator[str]:
    """Yield a Chinese name without its legal form, line of business and place, even if the rest is
    an ordinary word. Also yield its first and third characters. For documents about the company.
    """
    plain = normalise(name).strip()
    if _HAN.search(plain) is None:
        return

    core, bare, place = _chinese_core(plain)
    shorts = [*_shorter(core), core[:2]]
    if place == "中国":
        shorts.append(f"中{core[:1]}")  # 中建
    if len(bare) == len("东方财富"):
        initials = bare[0] + bare[2]
        if not is_chinese_word(initials):
            shorts.append(initials)

    for short in shorts:
        kinds = ("Chinese generic", "Chinese place", "not alone")
        is_known = any(short in listed_words(kind) for kind in kinds)
        if _HAN.fullmatch(short) is not None and len(short) > 1 and not is_known:
            yield short


def _chinese_core(name: str) -> tuple[str, str, str]:
    """Return three parts of a name: the name without place, legal form and marks; the name without
    only marks and legal form; and the place.
    """
    without_brackets = re.sub(r"\s|\(.*?\)", "", name)
    bare = _SHARE_MARK.sub("", without_brackets)
    end = next((end for end in _ENDS if bare.endswith(end)), "")
    bare = bare.removesuffix(end)
    place = next((place for place in listed_words("Chinese place") if bare.startswith(place)), "")
    return bare.removeprefix(place), bare, place


def _shorter(core: str) -> Iterator[str]:
    """Yield a name, and the shorter names obtained by dropping generic words from its end one at a
    time.
    """
    yield core
    while len(core) > len("茅台") and core[-2:] in listed_words("Chinese generic"):
        core = core[:-2]
        yield core


def _usable(short: str, name: str) -> Iterator[str]:
    """Yield a short name, unless it is too short, the whole name or an ordinary word."""
    if len(short) < len("茅台") or short == name or _HAN.fullmatch(short) is None:
        return
    if is_chinese_word(short):
        return

    kinds = ("Chinese ordinary", "Chinese generic", "Chinese place")
    if not any(short in listed_words(kind) for kind in kinds):
        yield short


_LEGAL_WORDS = frozenset(form.strip("& .").lower() for form in LEGAL_FORMS) | listed_words(
    "legal form"
)
