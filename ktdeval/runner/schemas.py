"""JSON Schemas for the records in a run folder, generated from their types. `python -m
ktdeval.runner.schemas` rewrites them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_origin

import msgspec

from ktdeval.cards.schema import field_docs, struct_types
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.runner.records.anchor_chain import ChainLink
from ktdeval.runner.records.completion_marks import EpisodeMark
from ktdeval.runner.records.episode_journal import JournalEntry
from ktdeval.runner.records.fork_document import ForkedDecision, ForkFile
from ktdeval.runner.records.run_manifest import ManifestFile
from ktdeval.runner.records.transplant_document import TransplantFile
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.trading.ledger import StepRecord
from ktdeval.values.disk.files import write_atomic
from ktdeval.values.documents.strict_json import dumps_pretty
from ktdeval.values.documents.typed_json import Value, json_schema

_FOLDER = Path(__file__).parent / "schema"
_TYPES: tuple[tuple[str, int, Any, str], ...] = (  # name, version, type, title
    ("run-manifest", 1, ManifestFile, "manifest.json: the plan of a run"),
    ("step-record", 3, StepRecord, "one step of a ledger, as journalled"),
    ("answer-record", 1, AnswerRecord, "one line of answers.jsonl.zst"),
    ("transcript-entry", 1, TranscriptEntry, "one line of transcript.jsonl.zst"),
    ("journal-step", 3, JournalEntry[StepRecord], "one line of journal.jsonl of a trading episode"),
    (
        "journal-answer",
        1,
        JournalEntry[AnswerRecord],
        "one line of journal.jsonl of a scoring episode",
    ),
    ("episode-mark", 1, EpisodeMark, "episode.json: the mark of a complete episode"),
    ("anchor-link", 1, ChainLink, "one line of anchors.jsonl"),
    ("transplant", 2, TransplantFile, "transplant.json: decisions with other capital"),
    ("fork", 1, ForkFile, "fork.json: results of a fork"),
    ("fork-decision", 1, ForkedDecision, "one line of decisions.jsonl of a fork"),
)


def schema_files() -> dict[Path, str]:
    """Return the text of each schema, keyed by file path."""
    texts: dict[Path, str] = {}
    for name, version, type_, title in _TYPES:
        schema = json_schema(type_, f"urn:ktdeval:{name}:{version}", title)
        texts[_FOLDER / f"{name}-v{version}.json"] = dumps_pretty(_add_comments(type_, schema))

    return texts


def _add_comments(type_: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Add the field comments in the source of a type and its bases to the type's schema."""
    types = struct_types(get_origin(type_) or type_) | struct_types(type_)
    for key, part in schema["$defs"].items():
        struct = types[key.partition("_")[0]]
        docs: dict[str, str] = {}
        for base in reversed(struct.__mro__):  # comments in a subclass override those in its bases
            if issubclass(base, Value) and base is not Value:
                docs |= field_docs(base)

        for field in msgspec.structs.fields(struct):
            if field.name in docs:
                part["properties"][field.encode_name] = {
                    "description": docs[field.name],
                    **part["properties"][field.encode_name],
                }

    return schema


if __name__ == "__main__":
    for path, text in schema_files().items():
        write_atomic(path, text)
