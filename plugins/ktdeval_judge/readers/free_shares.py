"""Rows of shares without a price, such as bonus shares and splits among the trades of a broker."""

from __future__ import annotations

from ktdeval.cards import count
from ktdeval_judge.readers.role_table import RoleTable

_ADVICE = (
    "as of bonus shares or a split, which is no trade: leave out all rows of these events, also"
    " sales and purchases in which old shares become new ones, and import the splits with the"
    " market: `ktdeval data make --splits FILE`"
)


def check_free_shares(table: RoleTable, price: str) -> None:
    """Raise DataError if some rows, but not all, have a price of 0. `price`: role of the price.

    Without these rows a later sale of the shares is a short sale; with them and with the splits of
    a market, the shares count twice.
    """
    is_free = table.numbers(price) == 0
    if not is_free.any() or is_free.all():
        return
    row = int(is_free.to_numpy().argmax())
    rows = count(int(is_free.sum()), "row")
    table.refuse(row, table.column(price), f"{rows} with a price of 0, {_ADVICE}")
