"""Generate the JSON Schemas of recipes and reports. `python -m ktdeval_published.schemas` writes
the files.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.values import dumps_pretty, json_schema, write_atomic
from ktdeval_published.recipe import RECIPE_VERSION, BoardRecipe
from ktdeval_published.report import REPORT_VERSION, BoardReport

FOLDER = Path(__file__).parent / "schema"
RECIPE_SCHEMA = FOLDER / f"recipe-v{RECIPE_VERSION}.json"
REPORT_SCHEMA = FOLDER / f"report-v{REPORT_VERSION}.json"


def schema_texts() -> dict[Path, str]:
    """Return the text of each schema by its file."""
    recipe = json_schema(
        BoardRecipe, f"urn:ktdeval:recipe:{RECIPE_VERSION}", "recipe of a public board of agents"
    )
    report = json_schema(
        BoardReport, f"urn:ktdeval:published:{REPORT_VERSION}", "what a public board shows"
    )
    return {RECIPE_SCHEMA: dumps_pretty(recipe), REPORT_SCHEMA: dumps_pretty(report)}


if __name__ == "__main__":
    for file, text in schema_texts().items():
        write_atomic(file, text)
