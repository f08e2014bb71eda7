"""Names of months and weekdays in other languages, from the Unicode CLDR: the table that text masks
read. No speed.

    pip install babel
    python benchmarks/date_names.py > ktdeval/masking/dates/date_names.csv

Names are facts of CLDR, as `babel` ships them (Unicode License V3). English has a table of its own,
`date_words.csv`, with what is doubtful in it; Chinese, Japanese and Korean count months, which
`date_words.csv` has as patterns.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator

from babel.dates import get_day_names, get_month_names

LANGUAGES = (
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
    "pl",
    "cs",
    "sk",
    "sl",
    "hr",
    "bs",
    "sr_Latn",
    "hu",
    "ro",
    "sv",
    "da",
    "nb",
    "is",
    "fi",
    "et",
    "lv",
    "lt",
    "el",
    "tr",
    "az",
    "id",
    "ms",
    "fil",
    "sw",
    "ca",
    "gl",
    "eu",
    "ru",
    "uk",
    "be",
    "bg",
    "mk",
    "sr",
    "kk",
    "ka",
    "hy",
    "ar",
    "he",
    "fa",
    "ur",
    "hi",
    "bn",
    "th",
    "vi",
)
# Case forms that CLDR lacks, of languages that decline these names: `в среду`, `we wrześniu`.
DECLINED = {
    "weekday": (
        "2 среду, 4 пятницу, 5 субботу, 2 середу, 5 суботу, 2 środę, 5 sobotę, 2 středu, 5 sobotu,"
        " 6 neděli, 2 stredu"
    ),
    "month": (
        "1 январе, 2 феврале, 3 марте, 4 апреле, 6 июне, 7 июле, 8 августе, 9 сентябре, 10 октябре,"
        " 11 ноябре, 12 декабре,1 styczniu, 2 lutym, 3 marcu, 4 kwietniu, 6 czerwcu, 7 lipcu, 8"
        " sierpniu, 9 wrześniu, 10 październiku, 11 listopadzie,12 grudniu,1 lednu, 2 únoru, 3"
        " březnu, 4 dubnu, 5 květnu, 6 červnu, 7 červenci, 8 srpnu, 10 říjnu, 11 listopadu, 12"
        " prosinci"
    ),
}
FORMS = {"wide": "full", "abbreviated": "short"}


def names(language: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield unit, number (of weekdays from Monday, 0), form and name, without the dot of an
    abbreviation.
    """
    for width, form in FORMS.items():
        for context in ("format", "stand-alone"):
            months = get_month_names(width, context, language)
            days = get_day_names(width, context, language)
            for unit, by_number in (("month", months), ("weekday", days)):
                for number, name in by_number.items():
                    yield unit, number, form, name.strip().rstrip(".").lower()


def main() -> None:
    """Print the table, each name once in its longest form."""
    rows = {row for language in LANGUAGES for row in names(language)}
    for unit, listed in DECLINED.items():
        pairs = (each.split() for each in listed.split(","))
        rows |= {(unit, int(number), "full", name) for number, name in pairs}
    full = {(unit, number, name) for unit, number, form, name in rows if form == "full"}
    kept = sorted(row for row in rows if row[2] == "full" or (row[0], row[1], row[3]) not in full)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("unit", "number", "form", "name"))
    table.writerows(row for row in kept if len(row[3]) > 1 and not row[3].isdigit())


if __name__ == "__main__":
    main()
