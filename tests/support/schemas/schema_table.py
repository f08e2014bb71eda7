"""Table of every schema that is sent to a model and every engine: `PYTHONPATH=tests python
tests/support/schemas/schema_table.py [--write]`.

It prints what the engines of this machine do now; `--write` puts that into
`tests/contract/test_schema_engines.yaml`, where the cells of engines that are not here stay as they
are, and into `benchmarks/schemas.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from support.paths import REPOSITORY
from support.schemas.schema_documents import Broken, breakers, followers
from support.schemas.schema_engines import AJV, ENGINES, Engine, ajv_refusals, has_ajv
from support.schemas.schema_rules import RULES
from support.schemas.sent_schemas import sent_schemas

DATA = REPOSITORY / "tests" / "contract" / "test_schema_engines.yaml"
PAGE = REPOSITORY / "benchmarks" / "schemas.md"
GOOD = 20
BAD = 40
COLUMNS = (*(engine.name for engine in ENGINES), AJV, *RULES)
BEGIN = "<!-- table: begin -->\n\n"
END = "\n<!-- table: end -->\n"

# schema -> column -> families of rules that are not held
Cells = Mapping[str, Mapping[str, Sequence[str]]]


def stated() -> dict[str, Any]:
    """Cells and reasons as they are written down."""
    return dict(yaml.safe_load(DATA.read_text("utf-8")))


def judged(engine: Engine, schema: Mapping[str, Any]) -> list[str]:
    """Families of which the engine admits a bad document; `refused`: the schema, `good`: it refuses
    a good document.
    """
    try:
        judge = engine.compile(schema)
    except ValueError:
        return ["refused"]

    good = [json.dumps(document) for document in followers(schema, GOOD)]
    admitted = {broken.family for broken in bad_documents(schema) if judge(broken.text)}

    return sorted(admitted | ({"good"} if not all(map(judge, good)) else set()))


def bad_documents(schema: Mapping[str, Any]) -> list[Broken]:
    """Bad documents of a schema."""
    return breakers(schema, BAD)


def measured(names: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Results of the engines of this machine, and of the rules of providers."""
    schemas = {name: sent_schemas()[name] for name in names}
    cells: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    refusals = ajv_refusals(schemas) if has_ajv() else None

    for name, schema in schemas.items():
        for engine in ENGINES:
            if engine.is_here():
                cells[name][engine.name] = judged(engine, schema)

        if refusals is not None:
            cells[name][AJV] = ["refused"] if name in refusals else []

        cells[name] |= {rule: problems(schema) for rule, problems in RULES.items()}

    return cells


def table(cells: Cells) -> str:
    """Markdown of the table."""
    head = " | ".join(("schema", *COLUMNS))
    lines = [f"| {head} |", f"|{'---|' * (len(COLUMNS) + 1)}"]

    for name, row in cells.items():
        words = [_words(row[column]) for column in COLUMNS]
        lines.append(f"| {' | '.join((f'`{name}`', *words))} |")

    return "".join(f"{line}\n" for line in lines)


def _words(families: Sequence[str]) -> str:
    plain = [family for family in families if not family.startswith("word ")]
    words = [
        f"`{family.removeprefix('word ')}`" for family in families if family.startswith("word ")
    ]
    return ", ".join([*plain, *words]) or "ok"


def main() -> None:
    """Print the table, and write it where that is asked for."""
    now = measured(list(sent_schemas()))
    before = stated() if DATA.exists() else {}
    known = before.get("cells", {})
    cells = {}

    for name, row in now.items():
        families = {**known.get(name, {}), **row}
        cells[name] = {column: families.get(column, ["unmeasured"]) for column in COLUMNS}

    print(table(cells), end="")
    if "--write" not in sys.argv:
        return

    text = DATA.read_text("utf-8")
    head = text[: text.index("cells:")]
    body = yaml.safe_dump({"cells": cells}, sort_keys=False, width=200, default_flow_style=None)
    DATA.write_text(head + body, "utf-8")
    write_page(PAGE, table(cells))


def write_page(page: Path, lines: str) -> None:
    """Put the table between its marks on the page."""
    text = page.read_text("utf-8")
    before = text.partition(BEGIN)[0]
    after = text.partition(END)[2]
    page.write_text(f"{before}{BEGIN}{lines}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
