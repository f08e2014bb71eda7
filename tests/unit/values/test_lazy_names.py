"""Names that a package offers from elsewhere are loaded on first use, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import PluginError
from ktdeval.values.lazy import lazy_exports


def test_a_name_of_a_package_that_is_not_installed_is_refused_with_that_package(
    tmp_path: Path,
) -> None:
    (tmp_path / "front.pyi").write_text("from ktdeval_absent.parts import thing as thing\n")
    load, names = lazy_exports("front", str(tmp_path / "front.py"))

    assert names() == ["thing"]
    with pytest.raises(PluginError) as refused:
        load("thing")

    assert str(refused.value) == (
        "front.thing comes from ktdeval_absent, which this installation lacks; reinstall ktdeval"
    )


def test_a_package_that_lacks_another_one_fails_with_that_import(tmp_path: Path) -> None:
    (tmp_path / "front.pyi").write_text("from ktdeval.absent import thing as thing\n")
    load, _ = lazy_exports("front", str(tmp_path / "front.py"))

    with pytest.raises(ModuleNotFoundError, match=r"ktdeval\.absent"):
        load("thing")
