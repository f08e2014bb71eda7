"""Recipe of a public board: where its files are and what they mean, as data.

A recipe is one YAML file. It names files of one repository at one commit; it holds no code, no
formula and no address to fetch. `RECIPE_VERSION` rises with its form.
"""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import field

from ktdeval.errors import ConfigError, UsageError
from ktdeval.values import Address, Value, from_plain, load_yaml, near_matches

RECIPE_VERSION = 1
RECIPES = Path(__file__).with_name("recipes")
_SHA = re.compile(r"[0-9a-f]{7,40}")
_PLACES = re.compile(r"\{([a-z_]+)\}")

FormName = Literal["positions", "ranks", "series", "cells", "closed_trades"]
PriceForm = Literal["alpha_vantage", "csv", "wide_parquet"]


class BoardSource(Value):
    """Repository of a board."""

    repository: str  #: owner/name
    commit: str  #: commit whose files are read
    licence: str
    address: Address = ""  #: page of the repository


class BoardClaim(Value):
    """Claim of a board, in a sentence of ours, with its figure and its place."""

    text: str
    figure: str = ""
    where: str = ""


class NamedEntrant(Value):
    """Entrant whose path follows no pattern."""

    name: str
    path: str
    arm: str = ""
    model: str = ""
    logs: str = ""  #: glob of its logs
    pair: str = ""  #: name that its runs share in all arms


class Entrants(Value):
    """Entrants of a board: a glob with `{entrant}` (and `{arm}`), or a list."""

    glob: str = ""
    logs: str = ""  #: glob of the logs of an entrant, with `{entrant}`
    named: tuple[NamedEntrant, ...] = ()
    #: model by entrant, for the end of its training data; default: the entrant's name
    models: dict[str, str] = field(default_factory=dict)
    #: files that look like runs and are not among the entrants, with the reason
    left_out: dict[str, str] = field(default_factory=dict)


class Split(Value):
    """Split of a share that the prices do not correct."""

    symbol: str
    day: str
    ratio: float
    source: str


class Prices(Value):
    """Files of bars."""

    form: PriceForm
    #: path with `{symbol}` (alpha_vantage), or with `{field}` (wide_parquet), or of one table (csv)
    path: str
    #: columns of a csv by role: symbol, stamp, open, high, low, close, volume
    columns: dict[str, str] = field(default_factory=dict)
    symbol_suffix: str = ""  #: text added to the symbol in a file's name
    volume_unit: float = 1.0  #: shares or coins in one unit of the volume


class Index(Value):
    """Index to compare with."""

    name: str
    prices: Prices
    symbol: str
    further: Prices | None = None  #: a longer table, in the folder of `--prices`


class BoardMarket(Value):
    """Market of a board."""

    venue: str
    prices: Prices
    bar: Literal["day", "hour"]
    #: whether the stamp of a bar is its begin or its end
    stamp: Literal["begin", "end"] = "begin"
    index: Index | None = None
    no_index: str = ""  #: why there is no index
    splits: tuple[Split, ...] = ()
    #: daily bars that the clone lacks, in the folder of `--prices`
    daily: Prices | None = None
    #: second table of the same prices, to compare
    beside: Prices | None = None
    star_lot: int = 1  #: smallest buy of a STAR share, in shares


class RecipeAccount(Value):
    """Account of an entrant."""

    cash: float | None = None
    currency: str = "USD"
    cash_key: str = "CASH"  #: key of cash among the positions


class Ladder(Value):
    """Weights by rank: from `top` for the first to `bottom` for the last, in currency units."""

    top: float
    bottom: float


class Columns(Value):
    """Columns and keys of the form."""

    day: str = ""
    value: str = ""
    symbol: str = ""
    rank: str = ""
    select: dict[str, str] = field(default_factory=dict)  #: rows to read: column and value
    other: dict[str, str] = field(default_factory=dict)  #: further columns by role


class Stated(Value):
    """Figures that a board states, by entrant."""

    path: str
    entrant: str = ""  #: column of the entrant
    entrant_form: str = "{entrant}"  #: how that column spells an entrant
    columns: dict[str, str] = field(
        default_factory=dict
    )  #: column by figure: sharpe, gain, max_drawdown, days
    daily: str = ""  #: path with `{entrant}` of stated daily gains
    daily_columns: dict[str, str] = field(default_factory=dict)


class Published(Value):
    """Moment of publication."""

    by: Literal["commits", "log_clocks", "backtest", "unknown", "git"]
    path: str = ""  #: file of commits, or files in git, with `{day}` and `{entrant}`
    clock: str = ""  #: field with the clock of a log
    deadline: Literal["stamp", "day_open", "entry_close"] = "stamp"
    note: str = ""


class CallCosts(Value):
    """Costs of a model's calls that a board gives."""

    tokens: dict[str, float] = field(default_factory=dict)
    dollars: dict[str, float] = field(default_factory=dict)
    note: str = "The files give neither tokens nor dollars of calls."


class Arms(Value):
    """Arms of a run, the first being the base."""

    base: str
    others: tuple[str, ...]


class RecipeCells(Value):
    """Cells of a table of equity: one account for each selection, window and asset."""

    base: float  #: equity at the start
    entrants: tuple[str, ...]  #: strategies that models decided
    holding: str  #: strategy that buys and holds
    claims: str  #: table of stated figures


class BoardRecipe(Value):
    """Recipe of a board."""

    recipe: int
    name: str
    title: str
    source: BoardSource
    period: str
    claim: BoardClaim
    form: FormName
    published: Published
    entrants: Entrants = Entrants()
    market: BoardMarket | None = None
    no_market: str = ""  #: why nothing is executed
    account: RecipeAccount = RecipeAccount()
    ladder: Ladder | None = None
    columns: Columns = Columns()
    path: str = ""  #: table of all entrants, or of a rank's facts
    stated: Stated | None = None
    arms: Arms | None = None
    cells: RecipeCells | None = None
    call_costs: CallCosts = CallCosts()
    cut_at: int | None = None  #: number of rows at which a list was cut
    days_a_year: int = 252
    archive: str = ""  #: name of the archive in a folder of archives
    notes: tuple[str, ...] = ()  #: what does not follow from the board's files
    close_gap: tuple[str, ...] = ()  #: how the authors could close the gap


def recipe_names() -> list[str]:
    """Return the names of the bundled recipes, in the order of the page."""
    return [path.stem.split("-", 1)[1] for path in sorted(RECIPES.glob("*.yaml"))]


def find_recipe(name: str) -> BoardRecipe:
    """Return a bundled recipe by name, or the recipe in a YAML file. Raises UsageError for an
    unknown name, ConfigError for a faulty recipe.
    """
    if name.endswith((".yaml", ".yml")):
        return load_recipe(Path(name))

    for path in RECIPES.glob("*.yaml"):
        if path.stem.split("-", 1)[1] == name:
            return load_recipe(path)

    names = recipe_names()
    advice = near_matches(name, names) or f"; known: {', '.join(names)}"
    raise UsageError(f"no recipe is called {name!r}{advice}; a file needs the ending .yaml")


def load_recipe(path: Path) -> BoardRecipe:
    """Read a recipe. Raises ConfigError, with file and field, unless it is complete and safe."""
    recipe = from_plain(load_yaml(path), BoardRecipe, str(path), ConfigError)
    if recipe.recipe != RECIPE_VERSION:
        raise ConfigError(
            f"{path}: recipe: version {recipe.recipe} is not read; this one reads {RECIPE_VERSION}"
        )
    if not _SHA.fullmatch(recipe.source.commit):
        raise ConfigError(f"{path}: source.commit: {recipe.source.commit!r} is not a commit")

    for name, text in _paths_of(recipe):
        _check_path(text, f"{path}: {name}")
    _check_form(recipe, str(path))
    return recipe


def _paths_of(recipe: BoardRecipe) -> list[tuple[str, str]]:
    """Return all paths of a recipe with their fields."""
    found = [("entrants.glob", recipe.entrants.glob), ("entrants.logs", recipe.entrants.logs)]
    found += [("path", recipe.path), ("published.path", recipe.published.path)]
    for one in recipe.entrants.named:
        found += [("entrants.named.path", one.path), ("entrants.named.logs", one.logs)]
    if recipe.stated is not None:
        found += [("stated.path", recipe.stated.path), ("stated.daily", recipe.stated.daily)]
    if recipe.cells is not None:
        found.append(("cells.claims", recipe.cells.claims))
    if recipe.market is not None:
        tables = [recipe.market.prices, recipe.market.daily, recipe.market.beside]
        if recipe.market.index is not None:
            tables.append(recipe.market.index.prices)
        found += [("market", table.path) for table in tables if table is not None]

    return [(name, text) for name, text in found if text]


def _check_path(text: str, where: str) -> None:
    """Raise ConfigError for a path that leaves the clone, or with an unknown place."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or "\\" in text or "\0" in text:
        raise ConfigError(f"{where}: {text!r} must be a path inside the clone")

    known = {"entrant", "arm", "day", "symbol", "field"}
    unknown = set(_PLACES.findall(text)) - known
    if unknown:
        raise ConfigError(
            f"{where}: {{{min(unknown)}}} is no place; known: {', '.join(sorted(known))}"
        )


def _check_form(recipe: BoardRecipe, where: str) -> None:
    """Raise ConfigError if a field that the form needs is missing."""
    needed: dict[FormName, tuple[str, ...]] = {
        "positions": ("market",),
        "ranks": ("market", "ladder"),
        "series": ("columns.day", "columns.value"),
        "cells": ("cells", "path"),
        "closed_trades": ("path",),
    }
    for name in needed[recipe.form]:
        if not attrgetter(name)(recipe):
            raise ConfigError(f"{where}: form {recipe.form} needs the field {name}")

    if recipe.form == "series" and recipe.market is not None and recipe.market.index is not None:
        raise ConfigError(
            f"{where}: market.index: form series is compared with cash alone; remove the index"
        )

    has_dated_files = recipe.form in ("positions", "ranks")
    if not has_dated_files and recipe.published.by not in ("backtest", "unknown"):
        raise ConfigError(
            f"{where}: published.by {recipe.published.by}: form {recipe.form} has no file or log for"
            " each day, so that no day is shown to be published before its prices; write unknown, or"
            " backtest"
        )
    if recipe.form in ("positions", "ranks") and not (
        recipe.entrants.glob or recipe.entrants.named
    ):
        raise ConfigError(f"{where}: entrants needs a glob with {{entrant}}, or a list `named`")
    if recipe.entrants.glob and "{entrant}" not in recipe.entrants.glob:
        raise ConfigError(f"{where}: entrants.glob has no {{entrant}}")
