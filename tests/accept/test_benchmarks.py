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


CALLS = ("--calls", "8", "--concurrency", "4", "--repeats", "1", "--peer-calls", "4", "--skip-growth")
PRINTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bench_simulator.py": (("--repeats", "1"), (r"^ktdeval +[\d,]+ days/s .* orders, .* rejected, final NAV ",)),
    "bench_startup.py": (
        ("--rounds", "1"),
        tuple(
            rf"^{re.escape(command)} .* ms +\d+\.\d\d x +CPU .* ms +\d+\.\d\d x$"
            for command in ("ktdeval --help", "ktdeval tasks", 'python -c "import ktdeval"')
        ),
    ),
    "bench_attribution.py": (
        ("--days", "810", "--repeats", "1"),
        (r"^  statsmodels loop, one trajectory .*\n(  ktdeval, .* x\n)+",),
    ),
    "bench_qfinzero_broker.py": (
        ("--symbols", "3", "--days", "2", "--orders", "20"),
        ("first run, invariants at each tick .* ticks/s", "logs identical: True; folded state identical: True"),
    ),
    "bench_memory.py": (
        ("--memories", "300", "--floats", "8", "--texts", "20", "--repeats", "1"),
        (r"^retrieval over 300 memories of 8 floats: [\d.]+ ms, by one score [\d.]+ ms\nmemory of 20 texts: ",),
    ),
    "bench_documents.py": (("--sizes", "300,600"), (r"^ +600 items: import .* peak MiB \d+", "^exponents: import ")),
    "bench_growth.py": (
        ("--sizes", "30,40", "--days", "3"),
        tuple(
            rf"^ +1,600 bars: {step} .* s, peak .* MiB; exponents: time .*, memory "
            for step in ("import", "run builtin/momentum", "run builtin/random")
        ),
    ),
    "coverage_intervals.py": (("--samples", "2", "--days", "20"), (r"\A.*\nmean .*\nratio .*\ndrawdown ",)),
    "bench_calls.py": (
        CALLS,
        tuple(
            rf"^  {caller}.* s +\d+\.\d\d x ideal"
            for caller in ("bare SDK on threads", "ktdeval calls, durable", "ktdeval whole episodes, durable")
        ),
    ),
}


def test_the_planted_signal_prints_a_share_for_each_algorithm_and_noise(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="needs stable-baselines3 and gymnasium: pip install 'ktdeval[rl]'")
    printed = run("planted_signal.py", "1", "100", cwd=tmp_path)
    assert re.findall(r"^noise +(\d+)%  (\w+) +-?[\d.]+% ", printed, re.MULTILINE) == [
        (noise, algorithm) for noise in ("0", "20") for algorithm in ("a2c", "ppo", "dqn")
    ]


@pytest.mark.parametrize("script", PRINTED)
def test_a_benchmark_prints_its_figures(script: str, tmp_path: Path) -> None:
    arguments, patterns = PRINTED[script]
    printed = run(script, *arguments, cwd=tmp_path)
    for pattern in patterns:
        assert re.search(pattern, printed, re.MULTILINE)


def test_the_episode_benchmark_reports_each_model_and_the_parts_of_a_step_add_up(tmp_path: Path) -> None:
    save_snapshot(small_market(), tmp_path / "market")
    words = ("--data", "market", "--windows", WINDOW, "--limit", "2", "--models", "builtin/momentum,builtin/hold")
    printed = run("bench_episode.py", *words, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["market"]  # runs go elsewhere and are removed
    assert re.findall(r"^builtin/\w+", printed, re.MULTILINE) == ["builtin/momentum", "builtin/hold"]
    for figure in ("steps/s", "peak memory", "durable record: write, fdatasync", "harness overhead", "ledger.parquet", "3.0 calls"):
        assert figure in printed
    spent, inside = (
        {name.strip(): float(ms) for name, ms in re.findall(pattern, printed.split("builtin/hold")[0], re.MULTILINE)}
        for pattern in (rf"^{indent}(\S.*?) +([\d.]+) ms +[\d.]+ %" for indent in ("  ", "    "))
    )
    whole, overhead = spent.pop("whole"), spent["harness overhead"]
    assert sum(spent.values()) == pytest.approx(whole, abs=0.005)
    assert sum(inside.values()) == pytest.approx(overhead, abs=0.005)
