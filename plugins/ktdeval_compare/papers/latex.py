"""LaTeX tables that compile with any engine: pure ASCII, with all special characters escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktdeval.values import load_yaml

#: A line that is printed above a table, because the table's rules come from booktabs
PREAMBLE = "% needs \\usepackage{booktabs}"

_COMMANDS: Mapping[str, Mapping[str, str]] = load_yaml(Path(__file__).with_name("latex.yaml"))


def escape_text(text: str) -> str:
    r"""Return a string that is escaped for LaTeX. A character for which LaTeX has no command, such
    as a Chinese character, is replaced by its code point, for example `[U+4E2D]`. The reader can
    choose a package that shows the character.

    Example:
        escape_text("α 5 %")  # $\alpha$ 5 \%
    """
    return "".join(map(_escaped_letter, unicodedata.normalize("NFC", text)))


def _escaped_letter(letter: str) -> str:
    if letter in _COMMANDS["letters"]:
        return _COMMANDS["letters"][letter]
    if letter.isascii():
        return letter if letter.isprintable() else " "

    decomposed = unicodedata.normalize("NFD", letter)
    base, mark = decomposed[:1], decomposed[1:]
    accent = _COMMANDS["accents"].get(mark)
    if accent and base.isascii():
        return f"\\{accent}{{{base}}}"
    return f"[U+{ord(letter):04X}]"


def latex_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], layout: str, caption: str
) -> str:
    """Return a LaTeX table. `layout` has one letter per column, `l` or `r`."""
    lines = [
        PREAMBLE,
        r"\begin{table}",
        rf"\caption{{{escape_text(caption)}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        _row(heads),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return rf"{' & '.join(map(escape_text, cells))} \\"
