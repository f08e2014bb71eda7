"""Runs that ask in batches, killed by the system at any moment: each request is paid once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktdeval.runner.records.run_file_names import MARK
from ktdeval.testing import wait_for
from support.providers.repeat_plugin import PLUGIN, SAMPLES
from support.providers.stub_batches import BatchPlan
from support.providers.stub_provider import Stub, running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, environment_of
from support.runs.run_support import episodes, ktdeval, start

skip_without_sdks()

SEEDS = 4


def killed_and_resumed(stub: Stub, wire: str, out: Path, is_there: Callable[[], object]) -> None:
    """A run killed once its batch is there, and the same command again."""
    to = WIRES[wire]
    text = (
        f"--base-url {stub.base_url_of(to.name)} --tool-protocol native --tasks repeat"
        f" --plugin {PLUGIN} --seeds {SEEDS} --batch --canary 0 --cache run"
        f" --price input=2,output=8 --max-cost 5 --quiet --out {out} --model {to.model}"
    )
    words = (*text.split(), *to.words)
    process = start(*words, cwd=out.parent, environment=environment_of(to))
    wait_for(lambda: bool(stub.batches.created and is_there()), process.is_alive)
    process.kill()
    stub.batches.created[0].looks = 10_000
    done = ktdeval(*words, cwd=out.parent, environment=environment_of(to))

    assert done.code == 0, done
    assert len(stub.batches.created) == 1


@pytest.mark.parametrize("wire", ["responses", "anthropic", "google"])
def test_killed_while_its_batch_is_worked_on_a_run_goes_on_with_it(
    wire: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with running_stub() as stub:
        stub.batches.plan = BatchPlan(looks=10_000)
        killed_and_resumed(stub, wire, out, lambda: stub.batches.created[0].looks > 0)
        assert stub.batches.paid.total() == SAMPLES * SEEDS
        # equal questions of several seeds are one content to the stub, and each is asked once
        assert set(stub.batches.paid.values()) == {SEEDS}
        assert all((folder / MARK).exists() for folder in episodes(out))
        assert ktdeval("card", "verify", out, "--plugin", PLUGIN, cwd=tmp_path).code == 0


@pytest.mark.parametrize("wire", ["responses", "anthropic", "google"])
def test_killed_before_the_provider_answered_it_finds_the_batch(wire: str, tmp_path: Path) -> None:
    with running_stub() as stub:
        stub.batches.plan = BatchPlan(lost=10_000)  # nobody is told of it, until it is listed
        killed_and_resumed(stub, wire, tmp_path / "run", lambda: True)
        assert set(stub.batches.paid.values()) == {SEEDS}
