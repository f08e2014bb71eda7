"""Recipes of fetched snapshots: vendor, query and checksums of the result, so that anybody can make the same snapshot and see
where theirs differs.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ktdeval.errors import DataError, UsageError
from ktdeval.fields import build, to_mapping
from ktdeval.market.snapshot import BAR_FIELDS, FloatArray, MarketSnapshot
from ktdeval.market.storage import save_snapshot, with_id
from ktdeval.registry import Plugins
from ktdeval.yamlio import load_yaml

RECIPE = "recipe.yaml"
_HEAD = "# Make this market with `ktdeval data fetch --recipe FILE --out DIR`; checksums are CRC-32, one for each field.\n"
_DIGITS = 8
_GRIDS = (*BAR_FIELDS, "member")
_MOST_NAMED = 5


@dataclass(frozen=True)
class Recipe:
    """How a snapshot was made, and checksums that say where another one differs."""

    recipe: int  #: version of this form
    market: str  #: the data provider
    query: Mapping[str, Any]  #: its parameters
    snapshot: str  #: id of the snapshot that it made
    day_fields: tuple[str, ...]  #: fields of the checksums of a day
    days: Mapping[str, str]  #: day -> checksums over its assets
    code_fields: tuple[str, ...]  #: fields of the checksums of a code
    codes: Mapping[str, str]  #: code -> checksums over its days


def load_recipe(path: Path, plugins: Plugins) -> Recipe:
    """Read a recipe, which may come from anybody. Raises ConfigError: it is unreadable or malformed; DataError: it is of another
    version; UsageError: it sets what only the user may set, such as the address that a token is sent to.
    """
    recipe = build(Recipe, load_yaml(path), str(path))
    if recipe.recipe != 1:
        raise DataError(f"{path}: recipe of version {recipe.recipe}, expected 1; upgrade ktdeval")
    for name in recipe.query:
        if name in _local_params(plugins, recipe.market):
            raise UsageError(f"{path}: query.{name} is for the user to set, not for a recipe; remove it")
    return recipe


def _local_params(plugins: Plugins, market: str) -> tuple[str, ...]:
    """Parameters of a fetched market that are no part of its recipe."""
    extra = plugins.spec("data", market).extra
    if "fetch" not in extra:
        raise UsageError(f"{market!r} is not a market that can be fetched; `ktdeval data fetch --help` lists those")
    return tuple(extra["fetch"])


def fetch_snapshot(
    plugins: Plugins, market: str, query: Mapping[str, Any], folder: Path, expected: tuple[Path, Recipe] | None = None
) -> MarketSnapshot:
    """Fetch a market and store it with its recipe. Raises UsageError, DataError or StoreError; with a recipe that was `expected`
    (and its file), DataError that names the first differences where the snapshot is another one, and then stores nothing.
    """
    snapshot = with_id(plugins.make_snapshot(market, query))
    if expected is not None and expected[1].snapshot != snapshot.id:
        differences = revisions(expected[1], snapshot)
        more = f" (and {len(differences) - _MOST_NAMED} more)" if len(differences) > _MOST_NAMED else ""
        raise DataError(
            f"{expected[0]}: made snapshot {snapshot.id[:12]}…, not {expected[1].snapshot[:12]}…:"
            f" {'; '.join(differences[:_MOST_NAMED])}{more}; fetch without --recipe to keep what the vendor says now"
        )
    public = {name: value for name, value in query.items() if name not in _local_params(plugins, market)}
    return save_snapshot(snapshot, folder, {RECIPE: recipe_text(market, public, snapshot).encode()})


def recipe_text(market: str, query: Mapping[str, Any], snapshot: MarketSnapshot) -> str:
    """Return the recipe of a snapshot as YAML."""
    recipe = to_mapping(_recipe(market, query, snapshot))
    return _HEAD + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=1000)


def _recipe(market: str, query: Mapping[str, Any], snapshot: MarketSnapshot) -> Recipe:
    grids = {name: _plain(getattr(snapshot, name)) for name in _GRIDS}
    levels = {code: _plain(snapshot.indices[code]) for code in sorted(snapshot.indices)}
    spells: dict[str, list[str]] = {code: [] for code in snapshot.codes}
    for spell in snapshot.spells:
        spells[spell.code].append(repr(spell))
    texts = {"name": snapshot.names, "industry": snapshot.industries, "names": ["".join(each) for each in spells.values()]}
    days = {
        str(day): "".join(_sum(array[row].tobytes()) for array in (*grids.values(), *levels.values()))
        for row, day in enumerate(snapshot.days)
    }
    codes = {
        code: "".join(
            [
                *(_sum(grid[:, column].tobytes()) for grid in grids.values()),
                *(_sum(each[column].encode()) for each in texts.values()),
            ]
        )
        for column, code in enumerate(snapshot.codes)
    }
    return Recipe(1, market, query, snapshot.id, (*grids, *levels), days, (*grids, *texts), codes)


def _plain(array: Any) -> FloatArray:
    """Little-endian numbers that are equal for equal values: one NaN, no negative zero."""
    values = np.asarray(array, dtype="<f8") + 0.0
    values[np.isnan(values)] = np.nan
    return values


def _sum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"


def revisions(recipe: Recipe, snapshot: MarketSnapshot) -> list[str]:
    """Return where a snapshot differs from that of a recipe, such as `bars.parquet: close differs, first on 2024-05-06, of
    600519.SH`.
    """
    own = _recipe(recipe.market, recipe.query, snapshot)
    differences = [
        f"{table}: {what} {_listed(keys)} {'is' if len(keys) == 1 else 'are'} {word}"
        for table, what, old, new in (
            ("bars.parquet", "day", recipe.days, own.days),
            ("assets.parquet", "code", recipe.codes, own.codes),
        )
        for keys, word in (([key for key in old if key not in new], "absent"), ([key for key in new if key not in old], "new"))
        if keys
    ]
    same_days, same_codes = recipe.days.keys() == own.days.keys(), recipe.codes.keys() == own.codes.keys()
    days = _changes(recipe.day_fields, recipe.days, own.day_fields, own.days)
    codes = _changes(recipe.code_fields, recipe.codes, own.code_fields, own.codes)
    for field in dict.fromkeys((*own.day_fields, *own.code_fields)):
        changed_days = days.get(field, []) if same_codes or field in snapshot.indices else []
        changed_codes = codes.get(field, []) if same_days or field not in _GRIDS else []
        if changed_days or changed_codes:
            words = (f"first on {changed_days[0]}" if changed_days else "", f"of {_listed(changed_codes)}" if changed_codes else "")
            differences.append(f"{_table(field, snapshot)}: {field} differs, {', '.join(filter(None, words))}")
    return differences or ["manifest.json: meta differs (source, notes or repairs)"]


def _changes(
    old_fields: Sequence[str], old: Mapping[str, str], new_fields: Sequence[str], new: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return by field the keys (days or codes) that both have, and whose checksums differ."""
    changed: dict[str, list[str]] = {}
    for key in (key for key in new if key in old):
        before, after = _by_field(old_fields, old[key]), _by_field(new_fields, new[key])
        for field in after:
            if before.get(field) != after[field]:
                changed.setdefault(field, []).append(key)
    return changed


def _by_field(fields: Sequence[str], sums: str) -> dict[str, str]:
    return {field: sums[index * _DIGITS : (index + 1) * _DIGITS] for index, field in enumerate(fields)}


def _table(field: str, snapshot: MarketSnapshot) -> str:
    tables = {"name": "assets.parquet", "industry": "assets.parquet", "names": "names.parquet"}
    return "indices.parquet" if field in snapshot.indices else tables.get(field, "bars.parquet")


def _listed(keys: Sequence[str]) -> str:
    return f"{', '.join(keys[:3])}{f' and {len(keys) - 3} more' if len(keys) > 3 else ''}"
