"""A real language model of 135 million parameters, behind llama.cpp's own server on this machine:
`make test-llm` for the quick cases, `make test-llm LLM=` for all. It knows nothing of markets. What
is tested is all around it: tool protocols, constrained replies, records, resuming, cards and pages.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ModelError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import wait_for
from ktdeval.testing.markets import random_snapshot
from ktdeval_models.remote.params import CompatibleParams
from ktdeval_models.remote.vendors.openai import make_compatible
from support.llm.forced_replies import calls_of, forced_replies, row_of
from support.llm.llm_server import CONTEXT, MODEL, ServedModel
from support.runs.run_support import SAME_MASK, finished_steps, ktdeval, start
from support.schemas.sent_schemas import sent_schemas

if "KTDEVAL_LLM_VENV" not in os.environ:
    pytest.skip(
        "needs a language model in an environment of its own: run make test-llm",
        allow_module_level=True,
    )

pytestmark = pytest.mark.timeout(3600)

SUPPORT = Path(__file__).parents[1] / "support" / "llm"
BOUNDS = "longest_text=60,longest_list=4"
# the longest submission within these bounds, at one token a character
LONGEST_REPLY = 900
ONE_ASSET = ("--tasks", "investorbench_msft", "--data", "synthetic_investorbench")
FOUR_NAMES = ("--tasks", "market_blinded", "--windows", "2024-03-11:2024-03-15")


@dataclass(frozen=True)
class Case:
    """A run: its task and words, and the number of its steps."""

    task: str
    words: tuple[str, ...]
    steps: int
    has_few_names: bool = False
    is_masked: bool = True


CASES = {
    "detected": Case("investorbench_msft", (*ONE_ASSET, "--limit", "1"), 1),
    "questions": Case(
        "three_questions",
        ("--tasks", "three_questions", "--plugin", str(SUPPORT / "questions_plugin.py")),
        3,
        is_masked=False,
    ),
    "twenty": Case(
        "investorbench_msft",
        (
            *(*ONE_ASSET, "--limit", "20", "--tool-protocol", "json_schema"),
            *("--temperature", "0.7"),  # the last one given counts
        ),
        20,
    ),
    "four names": Case(
        "market_blinded",
        (*FOUR_NAMES, "--limit", "3", "--tool-protocol", "native"),
        3,
        has_few_names=True,
    ),
    "investor": Case(
        "market_blinded",
        (*FOUR_NAMES, "--limit", "1", "--agent", "investor", "--tool-protocol", "json_schema"),
        1,
        has_few_names=True,
    ),
    "deepfund": Case(
        "investorbench_msft",
        (
            *(*ONE_ASSET, "--limit", "1", "--agent", "deepfund", "--tool-protocol", "native"),
            *("--agent-args", "warmup=0"),  # of 64 days, a call each
        ),
        1,
    ),
}
QUICK = ("detected", "questions")
BY_NAME = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow, id=name) for name in CASES
]
MAX_CALLS = 30  # of one step, with all its retries


class Runs:
    """Runs of the cases, each made when it is first asked for."""

    def __init__(self, base_url: str, folder: Path, rows: list[list[str]]) -> None:
        self._base_url = base_url
        self._rows = rows
        self._made: dict[str, Path] = {}
        self.folder = folder

    @cached_property
    def few_names(self) -> Path:
        """A market of four names."""
        folder = self.folder / "market"
        save_snapshot(random_snapshot(seed=3, n_assets=4), folder)
        return folder

    def words(self, name: str, out: Path) -> tuple[object, ...]:
        """Return the command of a case."""
        case = CASES[name]
        market: tuple[object, ...] = ()

        if case.has_few_names:
            market = ("--data", self.few_names)

        key: tuple[str, ...] = ()
        if case.is_masked:
            key = SAME_MASK

        return (
            *("--model", f"openai_compatible/{MODEL}", "--base-url", self._base_url),
            *("--model-args", BOUNDS, "--temperature", "0"),
            *("--max-output-tokens", LONGEST_REPLY),
            *("--timeout-s", "1200", "--canary", "0", "--cache", "run", "--quiet", *key),
            *case.words,
            *market,
            *("--out", out),
        )

    def of(self, name: str) -> Path:
        """Return the folder of a case's run."""
        if name not in self._made:
            out = self.folder / name.replace(" ", "_")
            done = ktdeval(*self.words(name, out), cwd=self.folder)
            assert done.code == 0, done
            self._made[name] = out
            self._rows.append(row_of(name, out))

        return self._made[name]

    def card(self, name: str) -> Mapping[str, Any]:
        """Return the card of a case's run."""
        path = self.card_path(name)
        card: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return card

    def card_path(self, name: str) -> Path:
        """Return the path of that card."""
        return self.of(name) / "cards" / f"{CASES[name].task}.json"


@pytest.fixture(scope="module")
def runs(
    served: ServedModel, rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Runs:
    return Runs(served.base_url, tmp_path_factory.mktemp("llm"), rows)


# --- schemas and context


def test_the_server_takes_every_schema_that_is_sent(served: ServedModel) -> None:
    schemas = sent_schemas()
    refused = {name: status for name in schemas if (status := asked(served, schemas[name])) != 200}

    assert schemas
    assert refused == {}


def asked(served: ServedModel, schema: Mapping[str, Any]) -> int:
    """Ask for the first token of a reply that a schema constrains. Returns the status."""
    form = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 1,
        "response_format": form,
    }
    request = urllib.request.Request(
        f"{served.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_oversized_prompt_is_refused_with_context_and_token_count(
    served: ServedModel,
) -> None:
    model = make_compatible("openai_compatible", MODEL, CompatibleParams(base_url=served.base_url))
    request = ModelRequest((Message("user", "price " * (CONTEXT + 100)),), (), None, CallParams())
    with pytest.raises(ModelError) as refused:
        model.reply(request)

    assert refused.value.kind == "context_exceeded"
    assert refused.value.context.tokens == CONTEXT  # type: ignore[attr-defined]
    assert refused.value.prompt_tokens > CONTEXT  # type: ignore[attr-defined]


# --- runs


def test_the_tool_protocol_that_works_is_found(runs: Runs) -> None:
    # The model's chat template does not show tools, so that it never calls one by itself.
    assert runs.card("detected")["call"]["tool_protocol"] == "json_schema"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_forced_submission_is_valid_json(runs: Runs, name: str) -> None:
    forced = forced_replies(runs.of(name))
    assert len(forced) >= CASES[name].steps
    assert [each for each in forced if each.value() is None] == []


@pytest.mark.slow
def test_at_least_sixteen_of_twenty_first_submissions_are_valid(
    runs: Runs,
) -> None:
    run = RunFolder.load(runs.of("twenty"))
    (spec,) = run.manifest.specs
    steps = run.load_ledger(spec).steps

    assert sum(step.submissions == 1 and not step.failures for step in steps) >= 16

    assert sum(each.is_valid() for each in forced_replies(runs.of("twenty"))) >= 16


@pytest.mark.parametrize("name", BY_NAME)
def test_every_step_is_decided_and_no_call_fails(runs: Runs, name: str) -> None:
    run = runs.of(name)
    calls = calls_of(run)

    assert calls.failed == 0
    assert calls.steps == CASES[name].steps
    assert calls.count <= CASES[name].steps * MAX_CALLS

    decisions = runs.card(name)["decisions"]
    assert decisions["error"] == 0
    assert sum(decisions.values()) == CASES[name].steps


@pytest.mark.parametrize("name", BY_NAME)
def test_a_model_without_a_price_has_no_cost(runs: Runs, name: str) -> None:
    card = runs.card(name)
    assert card["cost"]["value"] is None
    assert "no price" in card["cost"]["reason"]
    assert card["provenance"]["calls"]["paid_usd"] is None


@pytest.mark.parametrize("name", BY_NAME)
def test_card_verifies_without_the_model_and_its_pages_show_replies(
    runs: Runs, name: str, tmp_path: Path
) -> None:
    plugin = tuple(word for word in CASES[name].words if word.endswith("plugin.py"))
    words = ("--plugin", *plugin) if plugin else ()
    verified = ktdeval("card", "verify", runs.card_path(name), *words, cwd=tmp_path)

    assert verified.code == 0, verified

    viewed = ktdeval("view", runs.of(name), "--out", tmp_path / "view", *words, cwd=tmp_path)
    assert viewed.code == 0, viewed

    pages = "".join(path.read_text("utf-8") for path in (tmp_path / "view").rglob("*.html"))
    assert CASES[name].task in pages


@pytest.mark.slow
def test_killed_after_a_step_and_resumed_no_answered_call_is_asked_again(runs: Runs) -> None:
    out = runs.folder / "killed"
    words = (*runs.words("four names", out), "--limit", "2")
    process = start(*words, cwd=runs.folder)

    wait_for(lambda: finished_steps(out) >= 1, process.is_alive)

    process.signal(signal.SIGKILL)
    assert process.wait().code == -signal.SIGKILL

    before = calls_of(out)

    done = ktdeval(*words, cwd=runs.folder)

    assert done.code == 0, done

    calls = calls_of(out)
    assert calls.count == calls.keys > before.count >= 1

    store = RunFolder.load(out)
    (spec,) = store.manifest.specs

    assert [step.step for step in store.load_ledger(spec).steps] == [0, 1]

    verified = ktdeval("card", "verify", out / "cards/market_blinded.json", cwd=runs.folder)
    assert verified.code == 0, verified
