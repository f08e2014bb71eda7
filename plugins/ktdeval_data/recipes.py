"""Recipes for fetched snapshots: vendor, query, and checksums of the result.

With a recipe, anyone can fetch the same snapshot again and see how the result differs, if it does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from ktdeval.errors import DataError, UsageError
from ktdeval.market import BAR_FIELDS, FloatArray, MarketSnapshot, save_snapshot, with_id
from ktdeval.registry import Plugins
from ktdeval.values import build, load_yaml, to_mapping

RECIPE = "recipe.yaml"
_HEAD = (
    "# Make this market with `ktdeval data make --recipe FILE --out DIR`; checksums are CRC-32,"
    " one for each field.\n"
)
_DIGITS = 8
_GRIDS = (*BAR_FIELDS, "member")
_MAX_NAMED = 5


@dataclass(frozen=True)
class Recipe:
    """Query that fetches a snapshot, with checksums that show where another snapshot differs."""

    recipe: int  #: format version
    market: str  #: the data provider
    query: Mapping[str, Any]  #: its parameters
    snapshot: str  #: id of the resulting snapshot
    day_fields: tuple[str, ...]  #: fields covered by each day's checksums
    days: Mapping[str, str]  #: day -> checksums over all assets
    code_fields: tuple[str, ...]  #: fields covered by each code's checksums
    codes: Mapping[str, str]  #: code -> checksums over all days


def load_recipe(path: Path, plugins: Plugins) -> Recipe:
    """Read an untrusted recipe.

    Raises ConfigError if the recipe is unreadable or malformed. Raises DataError if it has an
    unsupported version. Raises UsageError if it sets a parameter that only the user may set, such
    as the address to which a token is sent.
    """
    recipe = build(Recipe, load_yaml(path), str(path))
    if recipe.recipe != 1:
        raise DataError(f"{path}: recipe of version {recipe.recipe}, expected 1; upgrade ktdeval")

    for name in recipe.query:
        if name in _local_params(plugins, recipe.market):
            raise UsageError(
                f"{path}: query.{name} must be set by the user, not by a recipe; remove it"
            )

    return recipe


def _local_params(plugins: Plugins, market: str) -> tuple[str, ...]:
    """Return the parameters of a data provider that are not part of its recipe."""
    extra = plugins.spec("data", market).extra
    if "fetch" not in extra:
        raise UsageError(
            f"{market!r} was not fetched from a vendor; `ktdeval data` lists the providers that"
            " fetch data"
        )
    return tuple(extra["fetch"])


def fetch_snapshot(
    plugins: Plugins,
    market: str,
    query: Mapping[str, Any],
    folder: Path,
    expected: tuple[Path, Recipe] | None = None,
) -> MarketSnapshot:
    """Fetch a market and store it with its recipe.

    `expected`: the path of a recipe, and the recipe itself. If the snapshot does not match it,
    DataError reports the first differences, and nothing is stored. Also raises UsageError or
    StoreError.
    """
    snapshot = with_id(plugins.make_snapshot(market, query))
    if expected is not None:
        _check_expected(snapshot, *expected)

    local = _local_params(plugins, market)
    public = {name: value for name, value in query.items() if name not in local}
    text = recipe_text(market, public, snapshot)
    return save_snapshot(snapshot, folder, {RECIPE: text.encode()})


def _check_expected(snapshot: MarketSnapshot, path: Path, recipe: Recipe) -> None:
    """Raise DataError if a snapshot does not match a recipe."""
    if recipe.snapshot == snapshot.id:
        return

    differences = revisions(recipe, snapshot)
    named = "; ".join(differences[:_MAX_NAMED])
    if len(differences) > _MAX_NAMED:
        named += f" (and {len(differences) - _MAX_NAMED} more)"

    raise DataError(
        f"{path}: made snapshot {snapshot.id[:12]}…, not {recipe.snapshot[:12]}…: {named}; fetch"
        " without --recipe to store the vendor's current data"
    )


def recipe_text(market: str, query: Mapping[str, Any], snapshot: MarketSnapshot) -> str:
    """Return a snapshot's recipe as YAML."""
    recipe = to_mapping(_recipe(market, query, snapshot))
    return _HEAD + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=1000)


def _recipe(market: str, query: Mapping[str, Any], snapshot: MarketSnapshot) -> Recipe:
    grids = {name: _canonical_numbers(getattr(snapshot, name)) for name in _GRIDS}
    levels = {code: _canonical_numbers(snapshot.indices[code]) for code in sorted(snapshot.indices)}
    spells: dict[str, list[str]] = {code: [] for code in snapshot.codes}

    for spell in snapshot.spells:
        spells[spell.code].append(repr(spell))

    texts = {
        "name": snapshot.names,
        "industry": snapshot.industries,
        "names": ["".join(dated) for dated in spells.values()],
    }
    arrays = [*grids.values(), *levels.values()]
    days = {}
    for row, day in enumerate(snapshot.days):
        days[str(day)] = "".join(_content_checksum(array[row].tobytes()) for array in arrays)

    codes = {}
    for column, code in enumerate(snapshot.codes):
        sums = [_content_checksum(grid[:, column].tobytes()) for grid in grids.values()]
        sums += [
            _content_checksum(column_texts[column].encode()) for column_texts in texts.values()
        ]
        codes[code] = "".join(sums)

    return Recipe(
        recipe=1,
        market=market,
        query=query,
        snapshot=snapshot.id,
        day_fields=(*grids, *levels),
        days=days,
        code_fields=(*grids, *texts),
        codes=codes,
    )


def _canonical_numbers(array: npt.ArrayLike) -> FloatArray:
    """Return little-endian numbers in which equal values have equal bytes: a single NaN, no
    negative zero.
    """
    values = np.asarray(array, dtype="<f8") + 0.0
    values[np.isnan(values)] = np.nan
    return values


def _content_checksum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"


def revisions(recipe: Recipe, snapshot: MarketSnapshot) -> list[str]:
    """Return the differences between a snapshot and the snapshot that a recipe describes.

    For example: `bars.parquet: close differs, first on 2024-05-06, of 600519.SH`.
    """
    own = _recipe(recipe.market, recipe.query, snapshot)
    differences = [
        *_key_differences("bars.parquet: day", recipe.days, own.days),
        *_key_differences("assets.parquet: code", recipe.codes, own.codes),
    ]
    same_days = recipe.days.keys() == own.days.keys()
    same_codes = recipe.codes.keys() == own.codes.keys()
    days = _changed_keys(recipe.day_fields, recipe.days, own.day_fields, own.days)
    codes = _changed_keys(recipe.code_fields, recipe.codes, own.code_fields, own.codes)

    for field in dict.fromkeys((*own.day_fields, *own.code_fields)):
        parts = []
        # If the codes differ, every day's checksum differs; if the days differ, every code's
        # checksum does.
        if field in days and (same_codes or field in snapshot.indices):
            parts.append(f"first on {days[field][0]}")

        if field in codes and (same_days or field not in _GRIDS):
            parts.append(f"of {_listed_keys(codes[field])}")

        if parts:
            differences.append(
                f"{_table_of_field(field, snapshot)}: {field} differs, {', '.join(parts)}"
            )

    return differences or ["manifest.json: facts, venues or names of indices differ"]


def _key_differences(label: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield a message about the days or codes that only one of two snapshots contains."""
    absent = [key for key in old if key not in new]
    added = [key for key in new if key not in old]
    for keys, state in ((absent, "absent"), (added, "new")):
        if keys:
            verb = "is" if len(keys) == 1 else "are"
            yield f"{label} {_listed_keys(keys)} {verb} {state}"


def _changed_keys(
    old_fields: Sequence[str],
    old: Mapping[str, str],
    new_fields: Sequence[str],
    new: Mapping[str, str],
) -> dict[str, list[str]]:
    """Return, for each field, the keys (days or codes) in both snapshots whose checksums differ."""
    changed: dict[str, list[str]] = {}
    for key in new:
        if key not in old:
            continue

        before = _by_field(old_fields, old[key])
        after = _by_field(new_fields, new[key])
        for field in after:
            if before.get(field) != after[field]:
                changed.setdefault(field, []).append(key)

    return changed


def _by_field(fields: Sequence[str], sums: str) -> dict[str, str]:
    """Split concatenated checksums by field."""
    by_field = {}
    for index, field in enumerate(fields):
        by_field[field] = sums[index * _DIGITS : (index + 1) * _DIGITS]

    return by_field


def _table_of_field(field: str, snapshot: MarketSnapshot) -> str:
    """Return the file that contains a field."""
    if field in snapshot.indices:
        return "indices.parquet"

    tables = {"name": "assets.parquet", "industry": "assets.parquet", "names": "names.parquet"}
    return tables.get(field, "bars.parquet")


def _listed_keys(keys: Sequence[str]) -> str:
    listed = ", ".join(keys[:3])
    if len(keys) > 3:
        listed += f" and {len(keys) - 3} more"
    return listed
