"""`benchmarks/renew_model_facts.py`: which date of models.dev becomes a row of reported_cutoffs.csv."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cards import listed_cutoff
from support.paths import REPOSITORY

SCRIPT = REPOSITORY / "benchmarks/renew_model_facts.py"
SPEC = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
renewal = importlib.util.module_from_spec(SPEC)
sys.modules[SCRIPT.stem] = renewal  # which its dataclasses look up
SPEC.loader.exec_module(renewal)


def providers(**models: dict[str, Any]) -> dict[str, Any]:
    """A file of models.dev: by provider, name -> (knowledge, release)."""
    content = {}
    for provider, listed in models.items():
        by_name = {}
        for name, (knowledge, released) in listed.items():
            by_name[name] = {"id": name, "knowledge": knowledge, "release_date": released}
        content[provider] = {"id": provider, "models": by_name}

    return content


def table(content: dict[str, Any]) -> dict[str, tuple[str, str]]:
    rows = renewal.rows(renewal.reports(content), "2026-09-28")
    return {row["name"]: (row["cutoff"], row["listed_by"]) for row in rows}


R = "2026-01-29"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # the vendor's word, whatever hosts say
        (
            {"xai": {"grok-9": ("2025-06", R)}, "a": {"x/Grok-9": ("2024-01", R)}},
            {"grok-9": ("2025-06", "xai")},
        ),
        # without it, the date of most hosts, of equals the earliest; one host is no report
        (
            {
                "c": {"m-1": ("2025-06", R)},
                "b": {"m-1": ("2025-01", R)},
                "a": {"m-1": ("2025-06", R)},
            },
            {"m-1": ("2025-06", "a")},
        ),
        (
            {"a": {"m-1": ("2025-06", R)}, "b": {"m.1": ("2025-01", R)}},
            {"m-1": ("2025-01", "b")},
        ),
        ({"a": {"m-1": ("2025-06", R), "x/m-1": ("2025-06", R)}}, {}),
        # no model knows the day of its release
        ({"xai": {"grok-9": (R, R)}}, {}),
        ({"xai": {"grok-9": ("2026-02", R)}}, {}),
        ({"xai": {"grok-9": ("2026-01", R)}}, {}),
        ({"xai": {"grok-9": ("2025-12", R)}}, {"grok-9": ("2025-12", "xai")}),
        ({"xai": {"grok-9": ("2025-12", "")}}, {"grok-9": ("2025-12", "xai")}),
        # no date, and names that move
        ({"xai": {"grok-9": (None, R), "grok-8": ("2025", R), "grok-7": ("2025-13", R)}}, {}),
        ({"xai": {"grok-9-latest": ("2025-06", R), "grok-beta": ("2025-06", R)}}, {}),
    ],
)
def test_a_row_is_the_vendors_date_or_that_of_several_hosts(
    content: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    assert table(providers(**content)) == expected


def test_a_renewal_keeps_rows_of_models_that_are_listed_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reported = tmp_path / "reported.csv"
    reported.write_text(
        "name,cutoff,listed_by,checked\nold-1,2020-01,xai,2026-01-01\ngrok-9,2020-01,xai,2026-01-01\n"
    )
    source = tmp_path / "data.json.gz"
    source.write_bytes(
        gzip.compress(json.dumps(providers(xai={"grok-9": ("2025-06", R)})).encode())
    )
    monkeypatch.setattr(renewal, "REPORTED", reported)
    monkeypatch.setattr("sys.argv", ["renew", str(source), "2026-09-28"])

    renewal.main()

    assert reported.read_text().splitlines() == [
        "name,cutoff,listed_by,checked",
        "grok-9,2025-06,xai,2026-09-28",
        "old-1,2020-01,xai,2026-01-01",
    ]
    printed = capsys.readouterr().out
    assert "with a context" in printed
    assert "xai/grok-3: no cutoff" in printed


def test_names_of_hosts_find_the_row_of_the_vendor() -> None:
    names = (
        "moonshot/kimi-k2.6",
        "openrouter/moonshotai/kimi-k2.6:free",
        "together/moonshotai/Kimi-K2.6",
        "nobody/kimi-k2-6",
    )
    found = {str(listed_cutoff(name, {})) for name in names}

    assert len(found) == 1
    assert "2025-01" in found.pop()
