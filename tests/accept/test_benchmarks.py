"""The benchmarks run and print their figures. How large these are is no test's business: it depends on the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ktdeval.market.storage import save_snapshot
from ktdfin_market import small_market
from paths import REPOSITORY

WINDOW = "2024-03-01:2024-03-29"


def run(script: str, *arguments: str, cwd: Path) -> str:
    """What `benchmarks/SCRIPT ARGUMENTS` prints."""
    path = REPOSITORY / "benchmarks" / script
    done = subprocess.run([sys.executable, str(path), *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_simulator_benchmark_prints_days_per_second(tmp_path: Path) -> None:
    printed = run("bench_simulator.py", "--repeats", "1", cwd=tmp_path)
    assert re.search(r"^ktdeval +[\d,]+ days/s .* orders, .* rejected, final NAV ", printed, re.MULTILINE)


def test_the_start_up_benchmark_prints_ratios_to_click(tmp_path: Path) -> None:
    printed = run("bench_startup.py", "--rounds", "1", cwd=tmp_path)
    for command in ("ktdeval --help", "ktdeval tasks", 'python -c "import ktdeval"'):
        assert re.search(rf"^{re.escape(command)} .* ms +\d+\.\d\d x +CPU .* ms +\d+\.\d\d x$", printed, re.MULTILINE)


def test_the_attribution_benchmark_prints_ratios_to_statsmodels(tmp_path: Path) -> None:
    printed = run("bench_attribution.py", "--days", "810", "--repeats", "1", cwd=tmp_path)
    assert re.search(r"^  statsmodels loop, one trajectory .*\n(  ktdeval, .* x\n)+", printed, re.MULTILINE)


def test_the_broker_benchmark_prints_ticks_per_second_and_that_the_logs_are_identical(tmp_path: Path) -> None:
    printed = run("bench_qfinzero_broker.py", "--symbols", "3", "--days", "2", "--orders", "20", cwd=tmp_path)
    assert re.search(r"first run, invariants at each tick .* ticks/s", printed)
    assert "logs identical: True; folded state identical: True" in printed


def test_the_coverage_table_has_a_line_for_each_kind_of_interval(tmp_path: Path) -> None:
    printed = run("coverage_intervals.py", "--samples", "2", "--days", "20", cwd=tmp_path)
    assert [line.split()[0] for line in printed.splitlines()[1:4]] == ["mean", "ratio", "drawdown"]


@pytest.fixture(scope="module")
def episode(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The episode benchmark's report on two steps of two models."""
    folder = tmp_path_factory.mktemp("environment")
    save_snapshot(small_market(), folder / "market")
    words = ("--data", "market", "--windows", WINDOW, "--limit", "2", "--models", "builtin/momentum,builtin/hold")
    printed = run("bench_episode.py", *words, cwd=folder)
    assert [path.name for path in folder.iterdir()] == ["market"]  # runs go elsewhere and are removed
    return printed


def test_the_episode_benchmark_reports_each_model(episode: str) -> None:
    assert [line.split(",")[0] for line in episode.splitlines() if line.startswith("builtin/")] == [
        "builtin/momentum",
        "builtin/hold",
    ]
    for figure in ("steps/s", "peak memory", "durable record: write, fdatasync", "harness overhead", "ledger.parquet", "3.0 calls"):
        assert figure in episode


def test_the_parts_of_a_step_add_up_to_the_whole(episode: str) -> None:
    report = episode.split("builtin/hold")[0]
    spent = {match[1].strip(): float(match[2]) for match in re.finditer(r"^  (\S.*?) +([\d.]+) ms +[\d.]+ %", report, re.MULTILINE)}
    inside = {
        match[1].strip(): float(match[2]) for match in re.finditer(r"^    (\S.*?) +([\d.]+) ms +[\d.]+ %", report, re.MULTILINE)
    }
    whole, overhead = spent.pop("whole"), spent["harness overhead"]
    assert sum(spent.values()) == pytest.approx(whole, abs=0.005)
    assert sum(inside.values()) == pytest.approx(overhead, abs=0.005)


def test_the_benchmark_of_calls_prints_ratios_to_the_bare_sdk(tmp_path: Path) -> None:
    printed = run(
        "bench_calls.py", "--calls", "8", "--concurrency", "4", "--repeats", "1", "--peer-calls", "4", "--skip-growth", cwd=tmp_path
    )
    for caller in ("bare SDK on threads", "ktdeval calls, durable", "ktdeval whole episodes, durable"):
        assert re.search(rf"^  {caller}.* s +\d+\.\d\d x ideal", printed, re.MULTILINE)
