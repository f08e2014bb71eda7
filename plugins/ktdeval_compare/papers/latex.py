"""Tables in LaTeX that any engine compiles: pure ASCII, with every special character escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

#: The line above a table; its rules are those of booktabs
PREAMBLE = "% needs \\usepackage{booktabs}"

_SPECIAL: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
}
_SIGNS: Mapping[str, str] = {
    "−": r"$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "√": r"$\surd$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "→": r"$\to$",
    "∑": r"$\sum$",
    "²": r"$^{2}$",
    "³": r"$^{3}$",
    "°": r"$^{\circ}$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "§": r"\S{}",
    "ß": r"\ss{}",
    "\u00a0": "~",
    "\u2009": r"\,",
    "\u202f": r"\,",
}
_GREEK: Mapping[str, str] = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "varepsilon",
    "λ": "lambda",
    "μ": "mu",
    "ν": "nu",
    "π": "pi",
    "ρ": "rho",
    "σ": "sigma",
    "τ": "tau",
    "φ": "varphi",
    "χ": "chi",
    "ω": "omega",
    "Δ": "Delta",
    "Σ": "Sigma",
    "Ω": "Omega",
}
#: Accents that follow a letter (Unicode) and precede it (LaTeX)
_ACCENTS: Mapping[str, str] = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0308": '"',
    "\u030c": "v",
    "\u0327": "c",
}


def escape_text(text: str) -> str:
    r"""Return a text for LaTeX. A character without a command of LaTeX's own, such as a Chinese one,
    becomes its code point, `[U+4E2D]`: a package that shows it is the reader's choice.

    Example:
        escaped("α 5 %")  # $\alpha$ 5 \%
    """
    return "".join(map(_escaped_letter, unicodedata.normalize("NFC", text)))


def _escaped_letter(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    if letter in _SIGNS:
        return _SIGNS[letter]
    if letter in _GREEK:
        return f"$\\{_GREEK[letter]}$"
    if letter.isascii():
        return letter if letter.isprintable() else " "

    decomposed = unicodedata.normalize("NFD", letter)
    base, mark = decomposed[:1], decomposed[1:]
    if mark in _ACCENTS and base.isascii():
        return f"\\{_ACCENTS[mark]}{{{base}}}"
    return f"[U+{ord(letter):04X}]"


def latex_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], layout: str, caption: str
) -> str:
    """Return a table: `layout` has a letter for each column, `l` or `r`."""
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
