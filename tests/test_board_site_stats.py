"""The paired tests that the site computes in the reader's browser give what the library gives, figure by figure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from board_browser import needs_browser, open_browser

import ktdeval_board
from ktdeval.api import (
    RankNull,
    blocks_of,
    correlated_null,
    hodges_lehmann,
    overlap_correlation,
    sign_flip,
    signed_rank,
)

ASSETS = Path(ktdeval_board.__file__).parent / "site" / "assets"
SPANS = {
    "W1": ("2024-04-01", "2024-06-05"), "W2": ("2024-05-27", "2024-07-25"), "W3": ("2024-07-25", "2024-09-25"),
    "W4": ("2024-09-09", "2024-11-15"), "W5": ("2024-10-21", "2024-12-13"), "W6": ("2024-12-06", "2025-02-14"),
    "W7": ("2025-03-03", "2025-05-09"), "W8": ("2025-07-14", "2025-09-19"),
}  # fmt: skip

Values = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with open_browser() as browser:
        page = browser.new_page()
        page.add_script_tag(path=str(ASSETS / "stats.js"))
        yield page


def samples() -> list[Values]:
    """Differences of all kinds: smooth, with ties, with zeros, all equal, of one sign, few and many."""
    generator = np.random.default_rng(5)
    found = [
        np.array(values, dtype=np.float64) for values in ([], [0.0], [0.0, 0.0, 0.0], [0.3], [-0.2] * 7, [1e-300, -1e300, 0.1])
    ]
    for n in (1, 2, 3, 5, 6, 8, 10, 13, 16):
        for _ in range(8):
            found.append(generator.normal(0.01, 0.05, n))
            found.append(np.round(generator.normal(0.0, 0.02, n), 2))
            found.append(generator.integers(-2, 4, n).astype(np.float64))
            found.append(np.where(generator.random(n) < 0.3, 0.0, generator.standard_t(3, n)))
    for n in (25, 60, 300):
        found += [generator.normal(0.01, 0.05, n), np.round(generator.normal(0.0, 0.02, n), 2)]
    return found


def same(left: float | None, right: float | None) -> bool:
    """Equal to 1e-12, relative and absolute; None only to None."""
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-12)


@needs_browser
def test_signed_rank_and_shift_equal_the_library(page: Any) -> None:
    vectors = samples()
    found = page.evaluate(
        "(vectors) => vectors.map((values) => [kt.stats.signedRank(values), kt.stats.hodgesLehmann(values, 0.95), "
        "kt.stats.hodgesLehmann(values, 0.9)])",
        [values.tolist() for values in vectors],
    )
    assert len(found) > 250
    for values, (ranks, wide, narrow) in zip(vectors, found, strict=True):
        expected = signed_rank(values)
        assert (ranks["n"], ranks["nonzero"], ranks["reason"]) == (expected.n, expected.n_nonzero, expected.reason), values
        for name, wanted in (
            ("positive", expected.positive_ranks), ("negative", expected.negative_ranks), ("effect", expected.rank_biserial),
            ("p", expected.p), ("smallest", expected.smallest_p),
        ):  # fmt: skip
            assert same(ranks[name], wanted), (name, values, ranks, expected)
        for shift, confidence in ((wide, 0.95), (narrow, 0.9)):
            wanted_shift = hodges_lehmann(values, confidence)
            for name in ("value", "low", "high", "confidence"):
                assert same(shift[name], getattr(wanted_shift, name)), (name, values, shift, wanted_shift)
            assert shift["reason"] == wanted_shift.reason


@needs_browser
def test_sign_flips_equal_the_library_for_any_blocks(page: Any) -> None:
    generator = np.random.default_rng(6)
    cases = [(values, None) for values in samples() if len(values) <= 16]
    cases += [(values, generator.integers(0, 5, len(values))) for values in samples() if len(values)]
    found = page.evaluate(
        "(cases) => cases.map(([values, blocks]) => kt.stats.signFlip(values, blocks))",
        [[values.tolist(), None if blocks is None else blocks.tolist()] for values, blocks in cases],
    )
    for (values, blocks), flips in zip(cases, found, strict=True):
        expected = sign_flip(values, blocks)
        assert expected.method == "exact"
        assert flips["blocks"] == expected.blocks
        assert same(flips["p"], expected.p), (values, blocks, flips, expected)
        assert same(flips["smallest"], expected.smallest_p)


@needs_browser
def test_sign_flips_of_many_blocks_are_not_approximated(page: Any) -> None:
    flips = page.evaluate("kt.stats.signFlip(Array.from({length: 17}, (_, place) => place + 1))")
    assert flips["p"] is None
    assert "ktdeval compare" in flips["reason"]


@needs_browser
def test_more_pairs_than_are_enumerated_have_no_p(page: Any) -> None:
    ranks, shift = page.evaluate(
        "((values) => [kt.stats.signedRank(values), kt.stats.hodgesLehmann(values)])("
        "Array.from({length: 301}, (_, place) => place - 9.5))"
    )
    assert ranks["p"] is None
    assert "300" in ranks["reason"]
    assert (shift["low"], shift["high"]) == (None, None)
    assert shift["value"] == 140.5


def pairing(names: list[str], null: RankNull | None) -> dict[str, Any]:
    """The data of a site for the windows of a division, as the board writes them."""
    spans = [SPANS[name] for name in names]
    table = None if null is None else {
        "n": len(names), "statistic": null.support.tolist(), "p": [null.two_sided(value) for value in null.support],
    }  # fmt: skip
    correlation = overlap_correlation(spans)
    return {
        "windows": [{"name": name, "first": first, "last": last} for name, (first, last) in zip(names, spans, strict=True)],
        "correlation": correlation.tolist(), "overlap": null is not None, "null": table, "blocks": blocks_of(correlation).tolist(),
    }  # fmt: skip


@needs_browser
def test_windows_that_share_days_are_tested_as_the_library_does(page: Any) -> None:
    generator = np.random.default_rng(7)
    names = list(SPANS)
    correlation = overlap_correlation(list(SPANS.values()))
    null = correlated_null(correlation, 20_000, 0)
    vectors = [generator.normal(0.02, 0.05, len(names)) for _ in range(60)]
    vectors += [np.round(generator.normal(0.03, 0.02, len(names)), 2) + 0.001 for _ in range(60)]  # ties, no zeros
    found = page.evaluate(
        "([vectors, pairing]) => vectors.map((values) => kt.stats.pairedTest("
        "values.map((value, place) => ({window: pairing.windows[place].name, value})), pairing))",
        [[values.tolist() for values in vectors], pairing(names, null)],
    )
    for values, test in zip(vectors, found, strict=True):
        ranks, shift = signed_rank(values, null=null), hodges_lehmann(values, 0.95, null)
        flips = sign_flip(values, blocks_of(correlation))
        assert same(test["ranks"]["p"], ranks.p), (values, test, ranks)
        assert same(test["ranks"]["smallest"], ranks.smallest_p)
        assert test["ranks"]["method"] == "simulated"
        for name in ("value", "low", "high", "confidence"):
            assert same(test["shift"][name], getattr(shift, name)), (name, test, shift)
        assert (test["flips"]["blocks"], test["overlap"]) == (flips.blocks, True)
        assert same(test["flips"]["p"], flips.p)


@needs_browser
def test_the_lower_half_of_a_null_is_enough(page: Any) -> None:
    names = list(SPANS)
    null = correlated_null(overlap_correlation(list(SPANS.values())), 20_000, 0)
    data = pairing(names, null)
    half = len(null.support) // 2 + 1
    data["null"] = {name: part[:half] if isinstance(part, list) else part for name, part in data["null"].items()}
    values = [0.1, 0.2, 0.3, 0.4, -0.05, 0.6, 0.7, 0.8]
    test = page.evaluate(
        "([values, pairing]) => kt.stats.pairedTest("
        "values.map((value, place) => ({window: pairing.windows[place].name, value})), pairing)",
        [values, data],
    )
    assert same(test["ranks"]["p"], signed_rank(np.array(values), null=null).p)


@needs_browser
def test_without_the_right_null_there_is_no_p_and_its_reason(page: Any) -> None:
    names = list(SPANS)
    data = pairing(names, correlated_null(overlap_correlation(list(SPANS.values())), 5_000, 0))
    run = (
        "([rows, pairing]) => kt.stats.pairedTest(rows.map(([window, value]) => ({window, value})), pairing)"
    )  # fmt: skip
    values = [0.0, 0.2, 0.3, 0.4, -0.05, 0.6, 0.7, 0.8]
    tied = page.evaluate(run, [list(zip(names, values, strict=True)), data])
    assert tied["ranks"]["p"] is None
    assert "share days" in tied["ranks"]["reason"]
    assert tied["shift"]["low"] is not None  # the interval is of all pairs, zeros included
    assert same(tied["ranks"]["effect"], signed_rank(np.array(values)).rank_biserial)
    # Those that differ share no day with each other: the exact distribution holds, as in the library.
    apart = dict.fromkeys(names, 0.0) | {"W1": 0.1, "W3": -0.2, "W7": 0.3, "W8": 0.25}
    exact = page.evaluate(run, [list(apart.items()), data])
    assert same(exact["ranks"]["p"], signed_rank(np.array(list(apart.values()))).p)
    assert exact["ranks"]["method"] == "exact"
    # Windows that were left out leave no null for the others.
    some = page.evaluate(run, [list(zip(names[:5], values[1:6], strict=True)), data])
    assert (some["ranks"]["p"], some["shift"]["low"]) == (None, None)


@needs_browser
def test_windows_apart_are_tested_exactly(page: Any) -> None:
    names = ["W1", "W3", "W7", "W8"]
    values = [0.1, 0.2, -0.05, 0.3]
    test = page.evaluate(
        "([rows, pairing]) => kt.stats.pairedTest(rows.map(([window, value]) => ({window, value})), pairing, 0.8)",
        [list(zip(names, values, strict=True)), pairing(names, None)],
    )
    expected, shift = signed_rank(np.array(values)), hodges_lehmann(np.array(values), 0.8)
    assert (test["overlap"], test["ranks"]["method"]) == (False, "exact")
    assert same(test["ranks"]["p"], expected.p)
    assert same(test["shift"]["low"], shift.low)
    assert same(test["shift"]["confidence"], shift.confidence)


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
    found = page.evaluate("([first, second]) => kt.stats.windowDifferences(first, second, 'sharpe')", [first, second])
    assert [(row["window"], row["value"], len(row["pairs"])) for row in found["rows"]] == [("W1", 1.5, 2), ("W2", 1.0, 3)]
    assert found["leftOut"] == {"no trade": 1}


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
