"""Codes and names of assets by day: an asset that was renumbered has several codes, one after the
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from ktdeval.market.snapshots.snapshot_facts import NameSpell


@dataclass(frozen=True)
class AssetCodes:
    """Codes and names of a market's assets on each day."""

    codes: Sequence[str]  #: [N] codes of the columns
    names: Sequence[str]  #: [N] names, if they are not dated
    spells: Sequence[NameSpell]  #: dated names, by code and first day

    @cached_property
    def _spells_of(self) -> Mapping[str, Sequence[NameSpell]]:
        return {
            code: tuple(spells)
            for code, spells in groupby(self.spells, key=lambda spell: spell.code)
        }

    @cached_property
    def _columns_of(self) -> Mapping[str, tuple[int, ...]]:
        """Code -> columns of the assets that have it on any day."""
        column = {code: index for index, code in enumerate(self.codes)}
        columns = {code: {index} for code, index in column.items()}
        for spell in self.spells:
            columns.setdefault(spell.code_then, set()).add(column[spell.code])

        return {code: tuple(sorted(owners)) for code, owners in columns.items()}

    @cached_property
    def former(self) -> dict[str, str]:
        """Former code of a renumbered asset -> code of its column. A code that another column has
        today is left out.
        """
        current = set(self.codes)
        return {
            spell.code_then: spell.code for spell in self.spells if spell.code_then not in current
        }

    def name_on(self, asset: int, day: str) -> tuple[str, str]:
        """Return the code and name of an asset on a day, as `MarketSnapshot.name_asset` does."""
        code = self.codes[asset]
        if not self.spells:
            return code, self.names[asset]

        spells = self._spells_of.get(code)
        if spells is None:
            return code, code

        spell = next((spell for spell in reversed(spells) if spell.first <= day), spells[0])
        if spell.first <= day <= spell.last:
            return spell.code_then, spell.name
        return spell.code_then, spell.code_then

    def columns_of(self, code: str) -> tuple[int, ...]:
        """Return the columns of all assets that have a code on any day."""
        return self._columns_of.get(code, ())

    def column_on(self, code: str, day: str) -> int | None:
        """Return the column of the asset that has a code on a day, or else of the asset that had it
        last before that day. None if there is no such asset, or if two assets have the code on that
        day.
        """
        columns = self.columns_of(code)
        having = [column for column in columns if self.name_on(column, day)[0] == code]
        if len(having) > 1:
            # an asset without dated names has one code only because no other one is known
            having = [column for column in having if self._is_dated(column, code, day)]
        if having:
            return having[0] if len(having) == 1 else None

        earlier = []
        for column in columns:
            for spell in self._spells_of.get(self.codes[column], ()):
                if spell.code_then == code and spell.first <= day:
                    earlier.append((spell.first, column))

        return max(earlier)[1] if earlier else None

    def _is_dated(self, column: int, code: str, day: str) -> bool:
        """Return whether a dated name gives an asset this code on a day."""
        spells = self._spells_of.get(self.codes[column], ())
        return any(spell.code_then == code and spell.first <= day <= spell.last for spell in spells)
