"""Figures that a page sets beside each other, and libraries of others that a site carries."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import ktdeval_board
from browser_pages import Chromium, needs_browser

ASSETS = Path(ktdeval_board.__file__).parent / "site" / "assets"


@pytest.fixture(scope="module")
def page(chromium: Chromium) -> Any:
    page = chromium.browser.new_page()
    page.add_script_tag(path=str(ASSETS / "stats.js"))
    return page


def episode(window: str, seed: int, value: float | None, reason: str = "") -> dict[str, Any]:
    return {
        "window": window,
        "seed": seed,
        "metrics": {"sharpe": {"value": value, **({"reason": reason} if value is None else {})}},
    }


@needs_browser
def test_a_window_is_one_pair_whatever_its_seeds(page: Any) -> None:
    windows = [{"name": "W1"}, {"name": "W2"}, {"name": "W3"}]
    first = {"windows": windows, "episodes": [
        episode("W2", 0, 1.0), episode("W2", 1, 5.0), episode("W2", 2, 2.0), episode("W1", 0, 1.0), episode("W1", 1, 3.0),
        episode("W3", 0, None, "no trade"),
    ]}  # fmt: skip
    second = {"windows": windows, "episodes": [
        episode("W1", 0, 0.5), episode("W1", 1, 0.5), episode("W1", 7, 9.0), episode("W2", 2, 1.0), episode("W2", 0, 3.0),
        episode("W2", 1, 1.0), episode("W3", 0, 1.0),
    ]}  # fmt: skip
    differences = page.evaluate("([first, second]) => kt.stats.windowDifferences(first, second, 'sharpe')", [first, second])
    assert [(row["window"], row["value"], len(row["pairs"])) for row in differences["rows"]] == [("W1", 1.5, 2), ("W2", 1.0, 3)]
    assert differences["leftOut"] == {"no trade": 1}


# -- what of others the site carries


def test_libraries_of_others_are_what_their_packages_hold() -> None:
    vendor = ASSETS / "vendor"
    versions = json.loads((vendor / "versions.json").read_text())
    listed = {entry["file"]: entry for entry in versions["files"]}
    assert set(listed) == {path.name for path in vendor.glob("*.js")}
    for name, entry in listed.items():
        content = (vendor / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
        assert "Redistribution and use" in (vendor / entry["licence_file"]).read_text()
        if "change" not in entry:
            assert entry["sha256"] == entry["sha256_in_package"]


def test_the_one_change_to_a_library_can_be_undone() -> None:
    vendor = ASSETS / "vendor"
    (entry,) = [entry for entry in json.loads((vendor / "versions.json").read_text())["files"] if "change" in entry]
    text = (vendor / entry["file"]).read_text()
    names = "ascending, isString, DisallowedObjectProperties"
    opening = f"(function (vega) {{ const {{ {names} }} = vega;\n"
    closing = "vega.expressionInterpreter = expression; })(globalThis.vega);\n"
    assert (text.count(opening), text.count(closing)) == (1, 1)
    original = text.replace(opening, f"import {{ {names} }} from 'vega-util';\n").replace(
        closing, "export { expression as expressionInterpreter };\n"
    )
    assert hashlib.sha256(original.encode()).hexdigest() == entry["sha256_in_package"]


def test_licences_of_what_the_libraries_contain_are_there() -> None:
    text = (ASSETS / "vendor" / "THIRD-PARTY.txt").read_text()
    for package in ("d3-array", "d3-ease", "d3-scale-chromatic", "delaunator", "robust-predicates", "topojson-client", "tslib"):
        assert f"\n{package} " in text
