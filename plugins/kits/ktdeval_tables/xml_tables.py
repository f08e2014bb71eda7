"""Tables in XML: elements with the same tag and with attributes are rows, as in a Flex query. A
document with a DTD, which could define entities, is refused.
"""

from __future__ import annotations

from typing import Any, NoReturn
from xml.parsers import expat

from ktdeval_tables.json_tables import FoundTable
from ktdeval_tables.readers.text_encoding import UnreadableError

_MIN_CELLS = 2
MAX_ELEMENTS = 2_000_000


def xml_tables(data: bytes) -> list[FoundTable]:
    """Return a table for each tag. Raises UnreadableError if the XML is not well formed or has a
    DTD.
    """
    tables: dict[str, FoundTable] = {}
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(attributes) < _MIN_CELLS:
            return
        table = tables.setdefault(tag, FoundTable(tag, unit="line"))
        if len(table.rows) >= MAX_ELEMENTS:
            raise UnreadableError("has too many elements", parser.CurrentLineNumber)
        table.rows.append(attributes)
        table.lines.append(parser.CurrentLineNumber)

    def refuse(*_: Any) -> NoReturn:
        raise UnreadableError("has a DTD, which is never read", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UnreadableError(
            f"is not XML: {expat.ErrorString(error.code)}", error.lineno
        ) from error
    return list(tables.values())
