"""What the FinMem agent reveals about an asset under each mask: a model that keeps naming
identities, with every prompt checked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ktdeval.runner.records.episode_journal import unpack_lines
from ktdeval.testing import on_each_row
from support.runs.run_support import PLUGIN, SAME_MASK, episodes, ktdeval

_IDENTITY = re.compile(r"microsoft|\bMSFT\b|\bTSLA\b", re.IGNORECASE)
_DATE = re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b")


def sent(run: Path) -> str:
    """Return all that was sent to the model but its own words."""
    (episode,) = episodes(run)
    texts = []

    for step in unpack_lines(episode / "transcript.jsonl.zst", dict[str, Any], "transcript"):
        for call in step["exchanges"]:
            texts += [message["content"] for message in call["sent"]]

    return "\n".join(texts)


@pytest.mark.sampled(2)
@pytest.mark.slow
@on_each_row(
    "task, hides_assets, hides_days, texts",
    ("investorbench_msft", True, True, "recalled"),
    ("investorbench_msft", True, True, "full"),
    ("investorbench_msft_stock_blind", True, False, "recalled"),
    ("investorbench_msft_date_blind", False, True, "recalled"),
    ("investorbench_msft_bright", False, False, "recalled"),
)
def test_a_mask_hides_what_it_hides_from_memories_and_profile(
    task: str, hides_assets: bool, hides_days: bool, texts: str, tmp_path: Path
) -> None:
    words = ("--plugin", PLUGIN, "--model", "test/member", "--agent", "finmem", *SAME_MASK)
    where = ("--tasks", task, "--data", "synthetic_investorbench", "--limit", "5")
    args = ("--agent-args", f"parameters=investorbench,texts={texts}")
    done = ktdeval(*words, *args, *where, "--out", tmp_path / "run", cwd=tmp_path)

    assert done.code == 0, done

    prompts = sent(tmp_path / "run")

    assert "# What you remember" in prompts
    assert "your decision (" in prompts
    assert bool(_IDENTITY.search(prompts)) != hides_assets
    assert bool(_DATE.search(prompts)) != hides_days
    # the profile of the asset is known by its name, and told where the name is shown
    assert ("cloud services" in prompts) != hides_assets
    assert ("- asset_" in prompts.partition("# What you trade")[2]) == hides_assets
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0
