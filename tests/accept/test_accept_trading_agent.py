"""An agent in another language's plain server takes part; when it is slow, wrong or dead that is
counted, and never a HOLD.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.harness import shown_state, table_rows
from ktdeval.runner.records.run_folder import RunFolder
from support.runs.run_support import PLUGIN, SAME_MASK, card_of, ktdeval as ktdeval_process, records
from support.tables import on_each_row
from support.terminal import Terminal

PERL = shutil.which("perl")
# In the order of trading_agent.pl.
FAULTS = [
    "server",
    *["bad_response"] * 3,
    "connection",
    "bad_response",
    "timeout",
    "bad_response",
    "bad_response",
]
FAULTS += [
    "server",
    *["bad_response"] * 12,
    "connection",
    "overloaded",
    "bad_request",
    "timeout",
    "timeout",
]
needs_perl = pytest.mark.skipif(
    PERL is None
    or subprocess.run([PERL, "-MJSON::PP", "-e", "1"], capture_output=True).returncode != 0,
    reason="needs perl with its core modules",
)


@contextmanager
def agent() -> Iterator[str]:
    """The address of a running agent."""
    assert PERL is not None

    program = Path(__file__).parents[1] / "support" / "tasks" / "trading_agent.pl"

    with subprocess.Popen([PERL, str(program)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.kill()


@pytest.fixture
def address() -> Iterator[str]:
    with agent() as found:
        yield found


@pytest.mark.exhaustive
@needs_perl
def test_an_external_agent_takes_part_and_its_faults_are_failures(
    address: str, tmp_path: Path
) -> None:
    steps = 2 * len(FAULTS)
    options = {
        "limit": steps,
        "max_retries": 0,
        "max_failures": 100,
        "timeout_s": 4.0,
        "canary": 0,
        "quiet": True,
    }
    (card,) = ktdeval.evaluate(
        "trading_action/any",
        "investorbench_btc_history",
        base_url=f"{address}/trading_action/",
        data="synthetic_investorbench",
        out=str(tmp_path / "run"),
        **options,
    ).typed_cards
    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    records = folder.load_ledger(spec).steps
    talks = folder.load_transcript(spec)
    held = None

    for record, talk in zip(records, talks, strict=True):
        state = shown_state(talk.exchanges[0]["sent"][-1]["content"])  # type: ignore[index,call-overload]
        closes = [bar["close"] for bar in table_rows(state["history"])]
        if record.step % 2 == 0:
            side = 1 if closes[-1] > closes[-2] else -1
            assert record.provenance == "model"
            assert (record.positions[0].shares > 0) == (side > 0)
        else:  # nothing is traded, and the position stays
            kind = FAULTS[record.step // 2]
            assert (record.provenance, record.orders) == ("error", ())
            assert record.failures == {f"model_{kind}": 1}, record.step
            assert [one.shares for one in record.positions] == held

        held = [one.shares for one in record.positions]

    assert card.plain["decisions"]["error"] == len(FAULTS)


@needs_perl
def test_its_card_verifies_when_it_is_gone(tmp_path: Path, terminal: Terminal) -> None:
    with agent() as address:
        words = [
            "--model",
            "trading_action/any",
            "--base-url",
            address,
            "--tasks",
            "investorbench_msft_history",
            "--limit",
            "1",
        ]
        assert (
            main(
                [
                    *words,
                    "--data",
                    "synthetic_investorbench",
                    "--out",
                    str(tmp_path / "run"),
                    "--quiet",
                ]
            )
            == 0
        )

    assert "verified" in terminal.out("card", "verify", tmp_path / "run")


@needs_perl
@on_each_row
def test_a_killed_run_resumes_without_a_difference(
    task: str, data: str, address: str, tmp_path: Path
) -> None:
    def words(out: Path) -> list[str]:
        command = (
            f"--plugin {PLUGIN} --model trading_action/any --base-url {address} --tasks {task}"
            f" --data {data} --out {out}"
        )
        return [*f"{command} --canary 0 --quiet --limit 4 --max-retries 0".split(), *SAME_MASK]

    run = tmp_path / "run"
    whole = tmp_path / "whole"
    died = ktdeval_process(
        *words(run), cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "1"}
    )

    assert died.code == -signal.SIGKILL
    assert [main(words(out)) for out in (run, whole)] == [0, 0]
    assert records(run) == records(whole)
    assert main(["card", "verify", str(run), "--plugin", str(PLUGIN)]) == 0
    assert card_of(run, task)["decisions"] == {
        **card_of(run, task)["decisions"],
        "model": 2,
        "error": 2,
    }


@pytest.mark.exhaustive
@needs_perl
@pytest.mark.parametrize(
    ("task", "data"),
    [("blinded_fixed_candidate", "synthetic"), ("deepfund_berkshire", "synthetic_deepfund")],
)
def test_it_decides_a_portfolio_asset_by_asset_and_one_fault_is_no_hold(
    task: str, data: str, address: str, tmp_path: Path
) -> None:
    """The server answers wrong on every second day."""
    words = [
        "--model",
        "trading_action/any",
        "--base-url",
        address,
        "--agent",
        "by_asset",
        "--tasks",
        task,
        "--data",
        data,
    ]
    words += [
        "--limit",
        "2",
        "--max-retries",
        "0",
        "--max-failures",
        "9",
        "--canary",
        "0",
        "--quiet",
        "--out",
        str(tmp_path),
    ]

    assert main(words) == 0
    assert main(["card", "verify", str(tmp_path)]) == 0

    decisions = card_of(tmp_path, task)["decisions"]
    assert (decisions["model"], decisions["error"]) == (1, 1)


def test_an_agent_that_is_not_there_ends_the_run_with_one_line(
    tmp_path: Path, terminal: Terminal
) -> None:
    words = [
        "--model",
        "trading_action/any",
        "--tasks",
        "investorbench_msft",
        "--data",
        "synthetic_investorbench",
    ]
    out = ["--out", str(tmp_path / "run"), "--quiet", "--max-retries", "0"]

    assert "trading_action needs the agent's address: --base-url" in terminal.refusal(*words, *out)

    code, _, message = terminal.call(
        *words, *out, "--base-url", "http://127.0.0.1:9", "--limit", "3"
    )

    assert (code != 0, "can't be reached" in message) == (True, True)

    for task, data in (
        ("blinded_memory_only", "synthetic"),
        ("deepfund_berkshire", "synthetic_deepfund"),
    ):
        other = [
            "--tasks",
            task,
            "--data",
            data,
            "--base-url",
            "http://127.0.0.1:9",
            "--out",
            str(tmp_path / task),
            "--quiet",
        ]
        code, _, message = terminal.call(*words[:2], *other, "--canary", "0")
        assert (
            code != 0,
            "takes tasks that ask for BUY, SELL or HOLD of one asset" in message,
        ) == (
            True,
            True,
        )
