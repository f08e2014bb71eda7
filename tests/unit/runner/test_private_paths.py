"""Files of this machine that no agent may read: the cache, and whatever a run's options name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.runner.plans.data_source import private_paths
from ktdeval.stores.cache_folder import cache_folder


@pytest.mark.parametrize(
    "wrap",
    [
        lambda path: path,
        lambda path: [None, 3, path],
        lambda path: {"bars": path, "adjust": True},
        lambda path: {"sources": [{"bars": path}, {"bars": path}]},
        lambda path: ("synthetic", {"seed": 1}, {"news": (path,)}),
    ],
)
def test_a_path_is_found_in_whatever_list_or_mapping_it_stands(wrap: Any, tmp_path: Path) -> None:
    named = tmp_path / "bars.csv"
    named.write_text("day,close")

    assert named.resolve() in private_paths(wrap(str(named)))


def test_a_link_counts_with_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "market").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "market")

    assert (tmp_path / "market").resolve() in private_paths(str(tmp_path / "link"))


@pytest.mark.parametrize("text", ["", "synthetic", "x" * 10_000, "s3://bucket/data", "a\0b"])
def test_a_text_that_is_no_path_is_no_error(text: str) -> None:
    found = set(private_paths([text]))
    assert found <= {cache_folder().resolve()}
