"""Grids on two nodes of a Ray cluster: the same bytes as one worker makes, also where a node is lost.

Skips where the extra `ray` is not installed; `make test-ray` installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="needs the extra ray: pip install '.[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402

from ktdeval.registry import load_plugins  # noqa: E402
from ktdeval.task_api import RunningWorkers, WorkerJob  # noqa: E402
from ktdeval_grid.launch.launch_workers import start_workers, wait_for  # noqa: E402
from support.grid.grid_runs import done_records, episodes_by_worker, words_of, worked, write_plan  # noqa: E402
from support.runs.run_support import TASK, WINDOW, assert_same  # noqa: E402

MODELS = ("builtin/momentum", "builtin/reversal")
SLUGS = ("builtin-momentum_react", "builtin-reversal_react")
NODE = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A head and another node, on this machine."""
    made = Cluster(initialize_head=True, head_node_args=NODE)
    made.add_node(**NODE)
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    ray.shutdown()
    made.shutdown()


def plan_of(market: Path, path: Path, **changes: Any) -> Path:
    fields: dict[str, Any] = {
        "models": list(MODELS),
        "tasks": [TASK],
        "windows": [WINDOW],
        "seeds": 3,
        "data": str(market),
        "options": {"limit": 5},
    }
    return write_plan(path, **{**fields, **changes})


def started(plan: Path, out: Path) -> RunningWorkers:
    words = tuple(map(str, words_of(plan, out)))
    return start_workers(load_plugins(), "ray", WorkerJob(words, workers=2, logs=f"{out}.logs"))


def logs(out: Path) -> list[str]:
    return [path.read_text() for path in sorted(Path(f"{out}.logs").iterdir())]


def assert_equals_one_worker(plan: Path, out: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    assert worked(plan, alone).code == 0
    assert done_records(out).keys() == done_records(alone).keys()

    for slug in SLUGS:
        assert_same(out / "runs" / slug, alone / "runs" / slug)


def test_two_nodes_make_what_one_worker_makes(
    cluster: Cluster, market: Path, tmp_path: Path
) -> None:
    plan = plan_of(market, tmp_path / "plan.yaml")
    out = tmp_path / "grid"
    codes = wait_for(started(plan, out))

    assert codes == [0, 0], logs(out)
    assert len(list((out / "beats").iterdir())) == 2  # one may have finished before the other began

    assert_equals_one_worker(plan, out, tmp_path)


def test_what_a_lost_node_had_begun_is_done_by_the_other(
    cluster: Cluster, market: Path, tmp_path: Path
) -> None:
    plan = plan_of(market, tmp_path / "plan.yaml", seeds=6)
    out = tmp_path / "grid"
    workers = started(plan, out)
    lost: list[bool] = []

    def lose_a_node() -> None:
        if not lost and len(done_records(out)) >= 2:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            cluster.add_node(**NODE)  # as an autoscaler would
            lost.append(True)

    codes = wait_for(workers, lose_a_node)

    assert lost
    assert codes == [0, 0], logs(out)

    finished = list(chain.from_iterable(episodes_by_worker(out).values()))
    assert sorted(finished) == sorted(done_records(out))  # none was finished twice

    assert_equals_one_worker(plan, out, tmp_path)


def test_a_run_of_one_folder_is_refused(market: Path) -> None:
    from ktdeval.errors import UsageError
    from ktdeval_ray.runner import RayRunner

    with pytest.raises(UsageError, match="ktdeval grid"):
        RayRunner().run([], lambda spec: None, 1)  # type: ignore[arg-type, return-value]
