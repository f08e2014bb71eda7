"""Python functions as models that answer in text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ktdeval
from ktdeval.errors import UsageError
from ktdeval.harness.chat_messages import ModelRequest

DECISION = {"orders": [], "overall_reason": "nothing to do today"}
CALL = {"tool": "submit_action", "arguments": DECISION}


def in_a_block(_: ModelRequest) -> str:
    return f"I hold.\n```json\n{json.dumps(CALL)}\n```"


def alone(_: ModelRequest) -> str:
    return json.dumps(DECISION)


def in_an_envelope(request: ModelRequest) -> str:
    assert not request.tools
    assert request.response_schema is not None
    return json.dumps({"content": "", "calls": [{"name": "submit_action", "arguments": DECISION}]})


@pytest.mark.parametrize(
    ("model", "protocol"),
    [(in_a_block, "auto"), (alone, "auto"), (in_a_block, "text"), (in_an_envelope, "json_schema")],
)
def test_a_submission_in_a_text_decides(model: object, protocol: str, tmp_path: Path) -> None:
    run = ktdeval.evaluate(
        model,
        "blinded_fixed_candidate",
        windows="W1",
        limit=1,
        data="synthetic",
        tool_protocol=protocol,
        quiet=True,
        out=tmp_path / "run",
    )

    assert list(run.ledger(window="W1")["provenance"]) == ["model"]


def test_a_model_of_ktdevals_own_refuses_another_tool_protocol(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="--tool-protocol text: builtin/momentum uses tools directly"
    ):
        ktdeval.evaluate(
            "builtin/momentum",
            "blinded_fixed_candidate",
            windows="W1",
            limit=1,
            data="synthetic",
            tool_protocol="text",
            quiet=True,
            out=tmp_path / "run",
        )
