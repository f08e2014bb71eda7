"""Schemas of records: committed as their types give them, and fit for what a run writes."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from ktdeval.runner.journal import JournalEntry
from ktdeval.runner.schemas import schema_files
from ktdeval.runner.store import RunFolder
from ktdeval.typed import to_plain
from run_support import PLUGIN, TASK, WINDOW, ktdeval


def test_the_committed_schemas_are_those_of_the_types() -> None:
    files = schema_files()
    assert {path: path.read_text() for path in files} == files, "run `python -m ktdeval.runner.schemas`"
    assert set(next(iter(files)).parent.glob("*.json")) == set(files)


def test_what_a_run_writes_follows_its_schemas(market: Path, tmp_path: Path) -> None:
    words = ("--plugin", PLUGIN, "--model", "test/mixed", "--tasks", TASK, "--windows", WINDOW, "--limit", 3)
    assert ktdeval(*words, "--data", market, "--out", tmp_path / "run", cwd=tmp_path).code == 0
    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    steps, transcript = folder.load_ledger(spec).steps, folder.load_transcript(spec)
    journal = [JournalEntry(step=step, transcript=entry, memory=None) for step, entry in zip(steps, transcript, strict=True)]
    written = {
        "run-manifest": [json.loads((folder.path / "manifest.json").read_text())],
        "episode-mark": [json.loads((folder.episode_path(spec) / "episode.json").read_text())],
        "step-record": to_plain(steps),
        "transcript-entry": to_plain(transcript),
        "journal-step": to_plain(journal),
    }
    schemas = {path.name.rpartition("-v")[0]: json.loads(text) for path, text in schema_files().items()}
    for name, values in written.items():
        for value in values:
            Draft202012Validator(schemas[name]).validate(value)
