"""Code of a grid's workers: what differs from the grid's is refused before the first unit."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

import ktdeval
from grid_store import record_of, small_plan
from ktdeval.errors import StoreError
from ktdeval.registry import code_differences, code_hashes, load_plugins
from ktdeval_grid.state.records import GridRecord
from ktdeval_grid.workers.open_grid import check_code
from support.runs.run_support import PLUGIN

PLUGIN_TEXT = '''"""Plugin with one runner."""
from ktdeval.api import hookimpl

FACTOR = {factor}

@hookimpl
def ktdeval_runners():
    return {{}}
'''


def own_record() -> GridRecord:
    """Return a record of this process's own code."""
    record = record_of(small_plan())
    return structs.replace(record, suite=ktdeval.__version__, code=code_hashes(load_plugins()))


def test_the_same_code_is_accepted_and_a_grid_without_hashes_goes_on() -> None:
    record = own_record()
    assert {"ktdeval", "ktdeval_models", "ktdeval_grid"} <= record.code.keys()
    check_code(record, load_plugins())
    check_code(structs.replace(record, code={}), load_plugins())


@pytest.mark.parametrize("name", ["ktdeval", "ktdeval_agents"])
def test_a_worker_whose_plugin_has_other_code_is_refused_by_its_name(name: str) -> None:
    record = own_record()
    record = structs.replace(record, code={**record.code, name: "0" * 16})
    with pytest.raises(StoreError, match=rf"code is not the grid's: {name}; install the same"):
        check_code(record, load_plugins())


def test_another_release_is_refused_by_both_versions() -> None:
    record = structs.replace(own_record(), suite="0.0.9")
    with pytest.raises(StoreError, match=rf"ktdeval 0\.0\.9 there, {ktdeval.__version__} here"):
        check_code(record, load_plugins())


def test_a_task_of_a_file_is_no_code_since_it_has_a_hash_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "family: markets\nversion: '1'\nsummary: Mine\n"
        "variants: {mine: {extends: market_blinded, limit: 3}}\n"
    )
    with_task = load_plugins()
    with_task.add_task_file(str(path))

    assert code_hashes(with_task) == code_hashes(load_plugins())


def test_a_plugin_that_one_side_lacks_is_a_difference() -> None:
    without = load_plugins()
    with_one = load_plugins([str(PLUGIN)])
    assert len(code_differences(code_hashes(without), code_hashes(with_one))) == 1


def test_one_changed_constant_changes_the_hash_and_the_folder_does_not(tmp_path: Path) -> None:
    hashes = []
    for number, factor in enumerate((1, 1, 2)):
        path = tmp_path / f"place{number}" / f"same_name_{number}.py"
        path.parent.mkdir()
        path.write_text(PLUGIN_TEXT.format(factor=factor))
        found = code_hashes(load_plugins([str(path)]))
        hashes.append(found[next(name for name in found if "same_name" in name)])

    assert hashes[0] == hashes[1] != hashes[2]


def test_a_packages_readme_is_no_code_and_its_prompts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    readers = (("say", "For readers"), ("say", "For all readers"), ("ask", "For readers"))
    for number, (prompt, readme) in enumerate(readers):
        package = tmp_path / f"place{number}" / f"own_package_{number}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(PLUGIN_TEXT.format(factor=1))
        (package / "prompt.md").write_text(prompt)
        (package / "README.md").write_text(readme)
        monkeypatch.syspath_prepend(package.parent)
        hashes.append(code_hashes(load_plugins([package.name]))[package.name])

    assert hashes[0] == hashes[1] != hashes[2]
