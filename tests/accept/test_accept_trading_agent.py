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

from ktdeval.cli.main import main
from ktdeval.harness import shown_state, table_rows
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import Terminal, on_each_row
from support.runs.run_support import PLUGIN, SAME_MASK, card_of, ktdeval as ktdeval_process, records

PERL = shutil.which("perl")
# In the order of trading_agent.pl.
FAULTS = [*["bad_response"] * 17, "bad_request"]
OUTAGES = ["server", "bad_response", "connection", "timeout", "server"]
OUTAGES += ["connection", "overloaded", "timeout", "timeout"]
MODEL = "--quiet --model trading_action/any"
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
    task = "investorbench_btc_history"
    words = (
        f"{MODEL} --base-url {address}/trading_action/ --tasks {task}"
        f" --data synthetic_investorbench --out {tmp_path} --limit {2 * len(FAULTS)} --canary 0"
        " --max-retries 0 --max-failures 100 --timeout-s 4"
    )
    assert main(words.split()) == 0
    folder = RunFolder.load(tmp_path)
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

    assert card_of(tmp_path, task)["decisions"]["error"] == len(FAULTS)


@pytest.mark.exhaustive
@needs_perl
@pytest.mark.parametrize("number", range(len(OUTAGES)))
def test_an_external_agent_that_is_down_or_slow_stops_the_run_unrecorded(
    address: str, tmp_path: Path, terminal: Terminal, number: int
) -> None:
    words = (
        f"{MODEL} --tasks investorbench_btc_history --data synthetic_investorbench"
        f" --out {tmp_path} --limit 1 --canary 0 --max-retries 0 --timeout-s 1"
    ).split()
    line = terminal.error(*words, "--base-url", f"{address}/outages/{number}/trading_action/")

    assert OUTAGES[number] in line or "check the address" in line
    assert "again" in line
    (spec,) = RunFolder.load(tmp_path).manifest.specs
    assert RunFolder.load(tmp_path).load_recorded(spec)[0] == []


@needs_perl
def test_its_card_verifies_when_it_is_gone(tmp_path: Path, terminal: Terminal) -> None:
    with agent() as address:
        words = (
            f"{MODEL} --base-url {address} --tasks investorbench_msft_history --limit 1"
            f" --data synthetic_investorbench --out {tmp_path}"
        )
        assert main(words.split()) == 0

    assert "verified" in terminal.out("card", "verify", tmp_path)


@needs_perl
@on_each_row(
    "task, data",
    ("investorbench_btc_history", "synthetic_investorbench"),
    ("ama_btc", "synthetic_arena"),
)
def test_a_killed_run_resumes_without_a_difference(
    task: str, data: str, address: str, tmp_path: Path
) -> None:
    def words(out: Path) -> list[str]:
        command = (
            f"{MODEL} --plugin {PLUGIN} --base-url {address} --tasks {task} --data {data}"
            f" --out {out} --canary 0 --limit 4 --max-retries 0"
        )
        return [*command.split(), *SAME_MASK]

    run = tmp_path / "run"
    whole = tmp_path / "whole"
    died = ktdeval_process(
        *words(run), cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "1"}
    )

    assert died.code == -signal.SIGKILL
    assert [main(words(out)) for out in (run, whole)] == [0, 0]
    assert records(run) == records(whole)
    assert main(["card", "verify", str(run), "--plugin", str(PLUGIN)]) == 0
    assert decided(run, task) == (2, 2)


def decided(run: Path, task: str) -> tuple[int, int]:
    """Decisions of the model, and faults."""
    decisions = card_of(run, task)["decisions"]
    return decisions["model"], decisions["error"]


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
    words = (
        f"{MODEL} --base-url {address} --agent by_asset --tasks {task} --data {data} --limit 2"
        f" --max-retries 0 --max-failures 9 --canary 0 --out {tmp_path}"
    )

    assert main(words.split()) == 0
    assert main(["card", "verify", str(tmp_path)]) == 0
    assert decided(tmp_path, task) == (1, 1)


def test_an_agent_that_is_not_there_ends_the_run_with_one_line(
    tmp_path: Path, terminal: Terminal
) -> None:
    command = (
        f"{MODEL} --out {tmp_path / 'run'} --tasks investorbench_msft --limit 3 --max-retries 0"
        " --data synthetic_investorbench --base-url http://127.0.0.1:9"
    )
    code, _, message = terminal.call(*command.split())
    assert (code != 0, "can't be reached" in message) == (True, True)
