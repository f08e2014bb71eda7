"""A Ray that can't be imported is refused in one line, with the import's own reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ktdeval.errors import UsageError
from ktdeval.task_api import WorkerJob
from ktdeval.values import install_command
from ktdeval_ray.runner import RayRunner


def refusal() -> str:
    with pytest.raises(UsageError) as refused:
        RayRunner().start_workers(WorkerJob(("PLAN",), workers=2, logs=None))
    return str(refused.value)


def test_a_missing_ray_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    assert refusal() == f"--runner ray: ray is not installed: {install_command('ray')}"


def test_a_ray_without_its_own_dependency_names_the_dependency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray.py").write_text("import a_package_that_ray_needs\n")
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.syspath_prepend(tmp_path)

    reason = "No module named 'a_package_that_ray_needs'"
    advice = install_command("ray")
    assert refusal() == f"--runner ray: ray can't be imported ({reason}): {advice}"
