"""Tables in LaTeX compile: they are pure ASCII, specials are escaped, braces and rows are whole."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ktdeval_compare.papers.latex import escape_text, latex_table

ENGINES = ("pdflatex", "xelatex", "lualatex", "tectonic")
#: A command, an escaped character, a formula, or plain text, as `escape_text` writes them
TOKENS = re.compile(
    r"""\\[a-zA-Z]+\{\}|\\[&%$#_{}]|\\,|\\["'`^~vc]\{[ -~]\}|\$[^$]+\$|~|[^\\&%$#_{}^~]"""
)


def problems(text: str) -> list[str]:
    """What would stop an engine: in order of the lines."""
    found = []
    depth = 0
    for line in text.splitlines():
        if line.startswith("%"):
            continue
        if not line.isascii():
            found.append(f"not ASCII: {line}")

        plain = re.sub(r"\\[\\&%$#_{}]", "", line)
        depth += plain.count("{") - plain.count("}")
        if plain.count("$") % 2:
            found.append(f"formula without end: {line}")
        if re.search(r"(?<!\\)[%#]", line):
            found.append(f"special character: {line}")

        outside = re.sub(r"\$[^$]*\$", "", plain)
        if re.search(r"[_^]", re.sub(r"\\\^\{.\}", "", outside)):
            found.append(f"sub- or superscript outside a formula: {line}")

    if depth:
        found.append(f"{depth} braces are not closed")
    return found


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("α, %", r"$\alpha$, \%"),
        ("R² ≥ 0.5", r"R$^{2}$ $\geq$ 0.5"),
        ("−1.5 … +2.5", r"$-$1.5 \ldots{} +2.5"),
        (
            "a_b & c#1 {x} ~ ^ \\ $5",
            r"a\_b \& c\#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{} \$5",
        ),
        ("Hodges–Lehmann, Carhart’s é", r"Hodges--Lehmann, Carhart's \'{e}"),
        ("p < 0.05 | n > 3", r"p $<$ 0.05 $|$ n $>$ 3"),
        ("千问", "[U+5343][U+95EE]"),
        ("a\tb\nc", "a b c"),
    ],
)
def test_signs_become_commands(text: str, latex: str) -> None:
    assert escape_text(text) == latex


@pytest.mark.exhaustive
@given(st.text(max_size=40))
def test_any_text_becomes_known_commands_and_plain_letters(text: str) -> None:
    assert TOKENS.sub("", escape_text(text)) == ""
    assert problems(escape_text(text)) == []


@pytest.mark.slow
@given(st.lists(st.lists(st.text(max_size=8), min_size=3, max_size=3), max_size=4))
def test_each_row_has_a_cell_for_each_column(rows: list[list[str]]) -> None:
    text = latex_table(["α", "b_c", "95 %"], rows, "lrr", "A caption with 5 % & α")
    body = [line for line in text.splitlines() if line.endswith(r" \\")]

    assert problems(text) == []
    assert len(body) == 1 + len(rows)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {2}


def test_an_engine_compiles_a_table(tmp_path: Path) -> None:
    engine = next((name for name in ENGINES if shutil.which(name)), None)
    if engine is None:
        pytest.skip(f"none of {', '.join(ENGINES)} is installed; the checks above stand in")

    table = latex_table(["α", "R²", "…"], [["−1 %", "千", "a_b"]], "lrr", "é ± 5 % of {x} & $y$")
    words = [
        r"\documentclass{article}\usepackage{booktabs}\begin{document}",
        table,
        r"\end{document}",
    ]
    (tmp_path / "table.tex").write_text("\n".join(words), encoding="ascii")
    done = subprocess.run(
        [engine, "table.tex"], cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout.decode()[-2000:]
