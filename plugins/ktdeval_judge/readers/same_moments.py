"""Account values that a file repeats at one moment, such as a day's value once per position or run."""

from __future__ import annotations

import pandas as pd

from ktdeval.cards import count
from ktdeval_judge.readers.role_table import RoleTable

_VALUES = ("nav", "benchmark return")


def without_repeats(table: RoleTable, flows: str) -> RoleTable:
    """Return the table with one row per moment, if all rows of a moment have the same account
    value. Otherwise, return it unchanged: then one account can't have all its rows.

    A table with deposits is unchanged, too: two equal deposits may be one deposit or two. `flows`:
    column or file that the user names.
    """
    if flows or "flow" in table.roles:
        return table

    read = {role: table.texts(role) for role in _VALUES if role in table.roles}
    keys = pd.DataFrame({"moment": table.moments(), **read})
    is_repeated = keys.duplicated(keep="last")
    if not is_repeated.any() or keys[~is_repeated]["moment"].duplicated().any():
        return table

    repeated = count(int(is_repeated.sum()), "row")
    table.note(f"Left out: {repeated} with the same moment and account value as another row.")
    return table.where(~is_repeated)
