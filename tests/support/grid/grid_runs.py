"""Grids through the real command line: their plans, their workers, and what they leave behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.records.record import ANSWERED, CallRecord
from ktdeval.values import dumps_pretty
from support.providers.stub_provider import Stub
from support.providers.stub_runs import WIRES
from support.runs.run_support import MASK_KEY, Done, Running, ktdeval, start


def write_plan(path: Path, **fields: Any) -> Path:
    """Write a plan as JSON, which is YAML, with the mask key of all tests."""
    path.write_text(dumps_pretty({"mask_key": MASK_KEY, **fields}))
    return path


def stub_model(base_url: str, wire: str = "chat", label: str = "stub") -> dict[str, Any]:
    """A model of a plan, at a stub over a wire."""
    return {
        "name": WIRES[wire].model,
        "args": {"api": "chat"} if wire == "chat" else {},
        "base_url": base_url,
        "price": {"input": 2, "output": 8, "cache_read": 0.5},
        "label": label,
    }


def write_stub_plan(
    folder: Path, stub: Stub, market: Path, apart: Sequence[object], **changes: Any
) -> Path:
    """Write a plan of one model at a stub, over Chat Completions; `apart`: words for episodes that
    never ask the same; `changes`: other fields of the plan.
    """
    option = dict(zip(apart[::2], apart[1::2], strict=True))
    fields = {
        "models": [stub_model(stub.base_url)],
        "tasks": [option["--tasks"]],
        "windows": str(option["--windows"]).split(","),
        "data": str(market),
        "options": {"limit": option["--limit"], "cache": "run", "canary": 1},
        "tables": [],
        "pages": [],
    }
    folder.mkdir(exist_ok=True)

    return write_plan(folder / "plan.yaml", **{**fields, **changes})


def words_of(plan: Path, out: Path, *words: object) -> tuple[object, ...]:
    """Words of a worker; a dead one is replaced within seconds."""
    return ("grid", "worker", plan, "--out", out, "--lease", 2, "--no-tables", *words)


def start_worker(
    plan: Path, out: Path, *words: object, environment: Mapping[str, str] | None = None
) -> Running:
    """A worker that has just begun."""
    return start(*words_of(plan, out, *words), cwd=plan.parent, environment=environment)


def worked(
    plan: Path, out: Path, *words: object, environment: Mapping[str, str] | None = None
) -> Done:
    """A worker that has ended."""
    return ktdeval(*words_of(plan, out, *words), cwd=plan.parent, environment=environment)


def parts_of(out: Path) -> list[Path]:
    """Run folders of all parts of a grid."""
    return sorted(path.parent for path in out.glob("parts/*/*/manifest.json"))


def episodes_by_worker(out: Path) -> dict[str, set[str]]:
    """Episodes that each worker finished, by its name."""
    finished: dict[str, set[str]] = {}
    for mark in out.glob("parts/*/*/episodes/*/episode.json"):
        worker = mark.relative_to(out).parts[1]
        finished.setdefault(worker, set()).add(mark.parent.name)

    return finished


def done_records(out: Path) -> dict[str, bytes]:
    """Records of finished units, by their ids."""
    paths = [path for path in (out / "done").glob("*.json") if len(path.stem) == 20]
    return {path.stem: path.read_bytes() for path in paths}


def done_of(out: Path) -> Iterator[dict[str, Any]]:
    """Records of finished units, decoded."""
    for data in done_records(out).values():
        yield json.loads(data)


def recorded_answers(out: Path) -> set[tuple[Any, ...]]:
    """Answered attempts that any part has on disk; copies count once."""
    calls = chain.from_iterable(map(_calls, parts_of(out)))
    return {_identity(call) for call in calls}


def _calls(part: Path) -> list[CallRecord]:
    return [call for call in read_calls(part) if call.outcome == ANSWERED]


def _identity(call: CallRecord) -> tuple[Any, ...]:
    return (call.at, call.episode, call.key, call.opening, call.attempt, call.latency_s)


def cost_usd(out: Path) -> float:
    """US dollars that all parts of a grid record together."""
    costs = {}
    for part in parts_of(out):
        for call in _calls(part):
            costs[_identity(call)] = (call.cost_usd or 0.0) + call.held_usd

    return sum(costs.values())
