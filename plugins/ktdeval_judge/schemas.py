"""Generate the JSON Schema for `judge.json` from its type. `python -m ktdeval_judge.schemas` writes
the file.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.values import dumps_pretty, json_schema, write_atomic
from ktdeval_judge.document import JUDGE_VERSION, JudgeFile

SCHEMA = Path(__file__).parent / "schema" / f"judge-v{JUDGE_VERSION}.json"


def schema_text() -> str:
    """Return the text of the schema."""
    identity = f"urn:ktdeval:judge:{JUDGE_VERSION}"
    schema = json_schema(JudgeFile, identity, "judge.json: decisions that were made elsewhere")
    return dumps_pretty(schema)


if __name__ == "__main__":
    write_atomic(SCHEMA, schema_text())
