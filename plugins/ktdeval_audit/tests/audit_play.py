"""Small logs and a market for the tests of `ktdeval audit`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.market import MarketSnapshot
from ktdeval.testing import random_snapshot
from ktdeval.values import Finding
from ktdeval_audit.audit import AuditReport, AuditSettings, audit_log
from ktdeval_audit.readers import read_log

FILES = Path(__file__).with_name("files")
DAY = 100  #: row of the market on which the logs of tests decide


@cache
def market() -> MarketSnapshot:
    return random_snapshot(seed=3, n_assets=4, n_days=200)


def day(offset: int = 0) -> str:
    """ISO day of the decision, or of so many trading days after it."""
    return str(market().days[DAY + offset])


def conversation(prompt: str, tool: str = "", reply: str = "HOLD", **fields: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You trade."},
        {"role": "user", "content": f"Today is {day()}. {prompt}"},
    ]
    if tool:
        messages.append({"role": "tool", "content": tool})
    messages.append({"role": "assistant", "content": reply})
    return {"messages": messages, **fields}


def write_lines(path: Path, records: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def report_of(
    folder: Path, records: Sequence[Any], *, with_market: bool = True, **settings: Any
) -> AuditReport:
    path = write_lines(folder / "log.jsonl", records)
    return audit_log(read_log(path), market() if with_market else None, AuditSettings(**settings))


def findings_of(folder: Path, record: Any, rule: str, **settings: Any) -> list[Finding]:
    found = report_of(folder, [record], **settings).findings
    return [finding for finding in found if finding.rule == rule]
