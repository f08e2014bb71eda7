"""Entrants of a board: their names, files and models."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.errors import DataError
from ktdeval_published.clone import Clone
from ktdeval_published.recipe import BoardRecipe


@dataclass(frozen=True)
class BoardEntrant:
    """Entrant with its file."""

    name: str
    path: str  #: inside the clone; empty for a row of a table
    arm: str = ""
    pair: str = ""
    model: str = ""
    logs: str = ""  #: pattern of its logs


def find_entrants(recipe: BoardRecipe, clone: Clone) -> list[BoardEntrant]:
    """Return the entrants that a recipe names, sorted by arm and name. Raises DataError if a glob
    matches nothing.
    """
    of = recipe.entrants
    found = [
        BoardEntrant(
            name=one.name,
            path=one.path,
            arm=one.arm,
            pair=one.pair or one.name,
            model=one.model or of.models.get(one.name, one.name),
            logs=one.logs,
        )
        for one in of.named
    ]
    if of.glob:
        matches = clone.matches(of.glob)
        if not matches:
            raise DataError(f"{clone.root}: no file matches {of.glob}, where entrants should be")
        names: dict[tuple[str, str], str] = {}
        for inside, places in matches:
            names.setdefault((places["entrant"], places.get("arm", "")), inside)
        for (name, arm), inside in names.items():
            logs = of.logs.replace("{entrant}", name).replace("{arm}", arm)
            model = of.models.get(name, name)
            found.append(BoardEntrant(name, inside, arm, name, model, logs))

    return found
