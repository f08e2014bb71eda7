"""Runs in Weights & Biases, by its own package, offline."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.task_api.events import Event
from tracked_run import PROMPT, REPLY, RUN_ID, STEPS, step, whole_run

pytest.importorskip("wandb", reason="needs the extra wandb: pip install '.[wandb]'")

import wandb

pytestmark = pytest.mark.slow  # wandb starts a process of its own
BLOCK = 32_768  # bytes of a block of its log
KEY = "blinded_open_research/long/seed 0"


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR", "ARTIFACT_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path / "wandb-files"))

    (tmp_path / "wandb-files").mkdir()


class Kept:
    """Begins runs of wandb, and keeps them."""

    def __init__(self) -> None:
        self.run: Any = None
        self.given: dict[str, Any] = {}

    def begin(self, **given: Any) -> Any:
        self.given = given
        self.run = wandb.init(**given)
        return self.run


def tracked(events: Iterator[Event]) -> Kept:
    from ktdeval_trackers.wandb import WandbTracker

    kept = Kept()
    tracker = WandbTracker(kept.begin)
    for event in events:
        tracker.ktdeval_event(event)

    wandb.teardown()  # its process writes the rest of the file when it ends
    return kept


def records(folder: Path) -> Iterator[Any]:
    """Yield the records of the offline file: a log as LevelDB writes it, of protocol buffers."""
    from wandb.proto import wandb_internal_pb2 as proto

    (path,) = folder.rglob("*.wandb")
    data = path.read_bytes()
    position = 7  # behind `:W&B`, two bytes of magic and one of the version
    parts = b""
    while position + 7 <= len(data):
        room = BLOCK - position % BLOCK
        if room < 7:  # no header fits the rest of the block
            position += room
            continue

        _checksum, length, kind = struct.unpack_from("<IHB", data, position)
        position += 7 + length
        parts += data[position - length : position]
        if kind in (1, 4):  # whole, or the last part
            record = proto.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def test_a_run_is_written_offline_with_config_history_summary_and_card(tmp_path: Path) -> None:
    kept = tracked(whole_run(tmp_path / "my-run"))
    navs = {}
    artefacts = []
    summary = {}
    for record in records(tmp_path / "wandb-files"):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            row = {
                "/".join(item.nested_key) or item.key: item.value_json
                for item in record.history.item
            }
            if f"{KEY}/nav" in row:
                navs[int(row[f"{KEY}/step"])] = float(row[f"{KEY}/nav"])
        elif kind == "summary":
            for item in record.summary.update:
                summary["/".join(item.nested_key) or item.key] = item.value_json
        elif kind == "artifact":
            artefacts.append(record.artifact.type)

    assert kept.given["id"] == RUN_ID[:32]
    assert kept.given["config"]["model"] == "builtin/momentum"
    assert navs == {number: step(number).nav for number in range(STEPS)}
    assert summary["state"] == '"failed"'
    assert summary[f"{KEY}/state"] == '"finished"'
    assert float(summary[f"{KEY}/calls"]) == STEPS - 1
    assert "blinded_open_research/total_return" in summary
    assert f"{KEY}/sharpe" in summary
    assert artefacts == ["result-card"]


def test_no_text_of_a_prompt_nor_the_machine_is_written(tmp_path: Path) -> None:
    tracked(whole_run(tmp_path / "my-run"))
    written = b"".join(
        path.read_bytes() for path in (tmp_path / "wandb-files").rglob("*") if path.is_file()
    )

    assert PROMPT.encode() not in written
    assert REPLY.encode() not in written
    assert not list((tmp_path / "wandb-files").rglob("wandb-metadata.json"))
    assert not list((tmp_path / "wandb-files").rglob("output.log"))
    assert not list((tmp_path / "wandb-files").rglob("requirements.txt"))


def test_events_outside_of_a_run_are_ignored() -> None:
    kept = tracked(iter([step(0)]))

    assert kept.run is None
