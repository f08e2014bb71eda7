"""Check that the steps of a judged run follow from its stored plan, by executing the plan again."""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import DataError, StoreError, VerificationError, os_reason
from ktdeval.registry import Plugins
from ktdeval.runner import DECLARED_FILE, EpisodeFactory, open_run, recorded_market
from ktdeval.values import read_plain, sha256_hex
from ktdeval_judge.decisions_model import MODEL, keep_plan
from ktdeval_judge.plan import MAX_BYTES, read_plan


def check_plan(path: Path, plugins: Plugins, data: str | None) -> int:
    """Execute a judged run's plan again, and return the number of steps that were reproduced.

    Raises VerificationError if the plan is not the run's plan, or if a step differs. Raises
    StoreError if the folder is not a judged run. Raises DataError if the run's market is not
    available.
    """
    folder = open_run(path, plugins)
    specs = [spec for spec in folder.manifest.specs if spec.model == MODEL]
    if not specs:
        raise StoreError(f"{path}: is not a judged run")

    try:
        kept = read_plain(path / DECLARED_FILE, MAX_BYTES)
    except OSError as error:
        raise StoreError(f"{path / DECLARED_FILE}: can't read: {os_reason(error)}") from error

    market = recorded_market(folder, plugins, data, "so there is nothing to execute again")
    if isinstance(market, str):
        raise DataError(f"{path}: {market}")

    steps = 0
    for spec in specs:
        if sha256_hex(kept) != spec.model_args.get("sha256"):
            raise VerificationError(f"{path / DECLARED_FILE}: is not the plan named by the run")

        keep_plan(read_plan(kept, DECLARED_FILE))
        model = plugins.make_model(spec.model, spec.model_args)
        factory = EpisodeFactory({spec.task: plugins.make_task(spec.task)}, plugins, market)
        episode = factory.open(spec, model)
        recorded = folder.load_ledger(spec).steps
        for number, own in enumerate(recorded):
            if episode.run_step(number).step != own:
                raise VerificationError(
                    f"{path}: step {number}, decided on {own.decided_on}: differs from what the "
                    "plan gives"
                )
        steps += len(recorded)

    return steps
