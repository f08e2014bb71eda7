"""Scripts in which a market's documents are written and its assets are named."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

    from ktdeval.market.snapshots.snapshot import MarketSnapshot

Script = Literal[
    "Latin",
    "Han",
    "Katakana",
    "Hangul",
    "Cyrillic",
    "Greek",
    "Arabic",
    "Hebrew",
    "Devanagari",
    "Thai",
]
_WORD = r"\p{Latin}{2,}"
_PROSE = {"Latin": rf"(?:{_WORD},? ){{3}}{_WORD}", "Han": r"\p{Han}{2}", "Hangul": r"\p{Hangul}{2}"}
_NAME = {"Han": r"\p{Han}", "Latin": _WORD}
_NAMED = 0.5  # a script is covered if at least this fraction of the assets have a name in it


def unnamed_scripts(snapshot: MarketSnapshot) -> list[Script]:
    """Return the scripts of the documents in which most assets have no name, neither an official
    one nor one from the entity file. A script with only a few letters in a text is ignored.
    """
    table = snapshot.documents.table
    if table is None:
        return []

    codes, names = _codes_and_names(snapshot)
    unnamed: list[Script] = []
    for script in get_args(Script):
        named = set(itertools.compress(codes, _matches(names, script, _NAME).to_pylist()))
        is_known = len(named) >= _NAMED * len(snapshot.codes)
        if not is_known and any(_holds(table[cell], script) for cell in ("title", "text")):
            unnamed.append(script)

    return unnamed


def _codes_and_names(snapshot: MarketSnapshot) -> tuple[list[str], pa.Array]:
    """Return codes and, in parallel, names of their assets. A code with digits is not taken as a
    name.
    """
    import pyarrow as pa  # noqa: PLC0415 - most markets have no documents

    names = list(zip(snapshot.codes, snapshot.names, strict=True))
    names += [(spell.code, spell.name) for spell in snapshot.spells]
    names += [
        (entity.code, entity.text)
        for entity in snapshot.documents.entities
        if entity.code in snapshot.asset_index and entity.kind in ("name", "former")
    ]
    names = [(code, name) for code, name in names if name != code or code.isalpha()]
    return [code for code, _ in names], pa.array([name for _, name in names], pa.string())


def _holds(column: pa.ChunkedArray, script: Script) -> bool:
    """Return whether any text in a column is in a given script."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if script != "Latin":
        column = column.filter(pc.invert(pc.string_is_ascii(column)))
    return bool(pc.any(_matches(column, script, _PROSE)).as_py())


def _matches(
    texts: pa.Array | pa.ChunkedArray, script: Script, patterns: dict[str, str]
) -> pa.Array | pa.ChunkedArray:
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    pattern = patterns.get(script, rf"\p{{{script}}}{{3}}")
    return pc.match_substring_regex(texts, pattern)
