"""A run whose conversations outgrow the model's context: one refusal is paid with a call, and no
further one.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.runner.records.run_folder import RunFolder
from support.providers.adapter_server import Prepared, prepared
from support.providers.stub_provider import skip_without_sdks
from support.runs.run_support import card_of

skip_without_sdks()

STEPS = 3
TASK = "blinded_open_research"
BYTES_A_TOKEN = 3


class Curious:
    """A model that researches as long as it may, on a server with a short context."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.outcomes: Counter[str] = Counter()

    def answer(self, body: Any) -> Prepared:
        text = json.dumps([body["messages"], body.get("tools")], ensure_ascii=False)
        tokens = len(text.encode()) // BYTES_A_TOKEN
        if tokens + body["max_tokens"] > self.limit:
            self.outcomes["refused"] += 1
            words = (
                f"This model's maximum context length is {self.limit} tokens. However, you"
                " requested "
            )
            words += (
                f"{tokens + body['max_tokens']} tokens ({tokens} in the messages,"
                f" {body['max_tokens']} in the completion)."
            )
            return Prepared(
                {"object": "error", "message": words, "type": "BadRequestError", "code": 400}, 400
            )

        self.outcomes["answered"] += 1
        forced = body.get("tool_choice") not in (None, "auto")
        name = "submit_action"
        arguments = {"orders": [], "overall_reason": "Nothing to do."}

        if not forced:
            name = "get_market_context"
            arguments = {}

        function = {"name": name, "arguments": json.dumps(arguments)}
        message = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}

        return Prepared(
            {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}
        )


def run(folder: Path, address: str, *words: str) -> int:
    fixed = [
        "--model",
        "openai_compatible/q",
        "--base-url",
        f"{address}/v1",
        "--tasks",
        TASK,
        "--limit",
        str(STEPS),
    ]
    fixed += [
        "--canary",
        "0",
        "--tool-protocol",
        "native",
        "--cache",
        "run",
        "--quiet",
        "--max-output-tokens",
        "500",
    ]
    return main([*fixed, "--out", str(folder), "--max-failures", "100", *words])


@pytest.mark.parametrize(("words", "refused"), [([], 1), (["--context-tokens", "6000"], 0)])
def test_the_call_that_does_not_fit_is_refused_once_at_most(
    words: list[str], refused: int, tmp_path: Path
) -> None:
    server = Curious(6000)
    with prepared(server.answer) as listening:
        assert run(tmp_path, listening.address, *words) == 0

    assert server.outcomes["refused"] == refused
    assert server.outcomes["answered"] >= STEPS

    folder = RunFolder.load(tmp_path)
    (spec,) = folder.manifest.specs
    steps = folder.load_ledger(spec).steps

    assert [step.provenance for step in steps] == ["error"] * STEPS
    assert [dict(step.failures) for step in steps] == [{"model_context_exceeded": 1}] * STEPS
    assert card_of(tmp_path, TASK)["decisions"]["error"] == STEPS
    assert main(["card", "verify", str(tmp_path)]) == 0


def test_plan_of_a_run_that_was_begun_tells_of_prompts_that_did_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with prepared(Curious(6000).answer) as listening:
        assert run(tmp_path, listening.address) == 0
        capsys.readouterr()
        assert run(tmp_path, listening.address, "--dry-run") == 0
        printed = capsys.readouterr().out

    assert (
        f"warning: {STEPS} calls so far had a prompt that did not fit the model's context"
        in printed
    )
    assert "give it with --context-tokens" in printed


def test_a_context_that_is_long_enough_holds_nothing_back(tmp_path: Path) -> None:
    server = Curious(100_000)
    with prepared(server.answer) as listening:
        assert run(tmp_path, listening.address, "--context-tokens", "100000") == 0

    assert server.outcomes["refused"] == 0
    assert card_of(tmp_path, TASK)["decisions"]["error"] == 0
