"""The benchmarks run and print their figures. How large these are is no test's business: it depends
on the machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import jsonschema
import pytest
import yaml

from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.testing import on_each_row, small_market
from support.paths import REPOSITORY

WINDOW = "2024-03-01:2024-03-29"


def run(script: str, *arguments: str, cwd: Path) -> str:
    """What `benchmarks/SCRIPT ARGUMENTS` prints."""
    path = REPOSITORY / "benchmarks" / script
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    return done.stdout


def test_the_planted_signal_prints_a_share_for_each_algorithm_and_noise(tmp_path: Path) -> None:
    pytest.importorskip(
        "stable_baselines3",
        reason="needs stable-baselines3 and gymnasium: pip install '.[rl]'",
    )
    printed = run("planted_signal.py", "1", "100", cwd=tmp_path)
    shares = re.findall(r"^noise +(\d+)%  (\w+) +-?[\d.]+% ", printed, re.MULTILINE)

    assert shares == list(product(("0", "20", "50"), ("a2c", "ppo", "dqn")))


@pytest.mark.exhaustive
def test_one_command_measures_beside_each_peer_and_writes_a_valid_report(tmp_path: Path) -> None:
    kept = (REPOSITORY / "benchmarks" / "history.jsonl").read_bytes()
    printed = run(
        "all.py", *["--quick", "--only", "kernels", "--json", "report.json"], cwd=tmp_path
    )
    report = json.loads((tmp_path / "report.json").read_bytes())
    schema = json.loads((REPOSITORY / "benchmarks" / "report.schema.json").read_bytes())
    jsonschema.validate(report, schema)

    assert {figure["group"] for figure in report["figures"]} == {"kernels"}

    for figure in report["figures"]:
        assert f"{figure['name']}: " in printed
        assert (figure["ratio"] is None) == figure["note"].startswith("skipped: ")

    assert (REPOSITORY / "benchmarks" / "history.jsonl").read_bytes() == kept


@pytest.mark.exhaustive
def test_the_grid_on_paper_takes_calls_and_tokens_from_the_plan(tmp_path: Path) -> None:
    constants = yaml.safe_load((REPOSITORY / "benchmarks" / "scale.yaml").read_text())
    measured = json.loads(run("scale.py", "--measure", cwd=tmp_path))
    assert measured.keys() == constants["steps"].keys()

    for mode, cases in constants["steps"].items():
        assert measured[mode].keys() == cases.keys()

        for case, figures in cases.items():
            # A word more in a prompt is no other grid.
            assert figures == pytest.approx(measured[mode][case], rel=0.1), (
                f"{mode}, {case}: copy benchmarks/scale.py --measure to scale.yaml, then --write"
            )


@pytest.mark.exhaustive
@on_each_row(
    "script, words, patterns",
    (
        "bench_simulator.py",
        "--repeats 1",
        ["^ktdeval +[\\d,]+ days/s .* orders, .* rejected, final NAV "],
    ),
    (
        "bench_startup.py",
        "--rounds 1",
        [
            "^ktdeval --help .* ms +\\d+\\.\\d\\d x +CPU .* ms +\\d+\\.\\d\\d x$",
            "^ktdeval list tasks .* ms +\\d+\\.\\d\\d x +CPU .* ms +\\d+\\.\\d\\d x$",
            '^python -c "import ktdeval" .* ms +\\d+\\.\\d\\d x +CPU .* ms +\\d+\\.\\d\\d x$',
        ],
    ),
    (
        "bench_attribution.py",
        "--days 810 --repeats 1",
        ["^  statsmodels loop, one trajectory .*\\n(  ktdeval, .* x\\n)+"],
    ),
    (
        "bench_qfinzero_broker.py",
        "--symbols 3 --days 2 --orders 20",
        ["first run .* ticks/s", "logs identical: True; folded state identical: True"],
    ),
    (
        "bench_memory.py",
        "--memories 300 --floats 8 --texts 20 --repeats 1",
        [
            (
                "^retrieval over 300 memories of 8 floats: [\\d.]+ ms, by one score [\\d.]+ "
                "ms\\nmemory of 20 texts: "
            )
        ],
    ),
    ("settled_grid.py", "--trials 2", ["^\\| no effect \\| obrien-fleming \\| .* \\| 0 of 2 \\| "]),
    (
        "bench_documents.py",
        "--sizes 300,600",
        ["^ +600 items: import .* peak MiB \\d+", "^exponents: import "],
    ),
    (
        "bench_growth.py",
        "--sizes 30,40 --days 3",
        [
            "^ +1,600 bars: import .* s, peak .* MiB; exponents: time .*, memory ",
            "^ +1,600 bars: run builtin/momentum .* s, peak .* MiB; exponents: time .*, memory ",
            "^ +1,600 bars: run builtin/random .* s, peak .* MiB; exponents: time .*, memory ",
        ],
    ),
    ("coverage_intervals.py", "--samples 2 --days 20", ["\\A.*\\nmean .*\\nratio .*\\ndrawdown "]),
    (
        "anytime.py",
        "--years 20 --days 120",
        ["^\\| normal \\| symmetric \\| [\\d.]+ \\|", "^\\| rare crashes \\| fixed \\| "],
    ),
    (
        "bench_calls.py",
        "--calls 8 --concurrency 4 --repeats 1 --peer-calls 4 --skip-growth",
        [
            "^  bare SDK on threads.* s +\\d+\\.\\d\\d x ideal",
            "^  ktdeval calls, durable.* s +\\d+\\.\\d\\d x ideal",
            "^  ktdeval whole episodes, durable.* s +\\d+\\.\\d\\d x ideal",
        ],
    ),
    (
        "bench_command.py",
        "--steps 1 --programs 2",
        [
            "^  react +[\\d.]+ ms +1.00 x react",
            "^  command, none +[\\d.]+ ms +[\\d.]+ x react +[+-][\\d.]+ ms a call",
            "^2 programs at once, command, none: [\\d.]+ s, 2 of 2 decided",
        ],
    ),
    (
        "bench_remote.py",
        "--episodes 40 --only bare,load",
        ["^all keys by boto3 alone ", "^load the marks of one model in one window .* 7 "],
    ),
    (
        "informed_traders.py",
        "--tasks blinded_memory_only --policies one --windows W1,W2",
        [
            "^\\| blinded_memory_only \\| informed, one \\| 2 \\| 0 \\|  \\| 0 of 0 \\| ",
            "^\\| blinded_memory_only \\| perfect foresight \\| 2 \\| ",
        ],
    ),
    (
        "informed_families.py",
        "--tasks ama_bmrn --episodes 2",
        [
            "^ama \\| ama_bmrn \\| synthetic_arena \\| informed \\| 2 \\| [1-9]",
            "^ama \\| ama_bmrn \\| synthetic_arena \\| builtin/random \\| 2 \\| ",
        ],
    ),
    (
        "known_key.py",
        "--windows W1",
        [
            "^\\| `blinded_memory_only` \\| W1 \\| [-+][\\d.]+ % \\| \\+1\\d\\d\\.\\d % \\| \\+1\\d\\d",
            "^blinded_memory_only: ahead in 1 of 1 windows",
        ],
    ),
    (
        "rebased_cost.py",
        "--windows W1 --rules momentum",
        [
            "^\\| open_research: momentum \\| [\\d.-]+ → ",
            "^\\| fixed_candidate: momentum \\| [\\d.-]+ → ",
        ],
    ),
    (
        "rebased_days.py",
        "--episodes 2 --tried 1 --rows 1 --digits 3,1",
        [
            "^\\| 3 digits \\(the task\\) \\| index \\| 2 \\| ",
            "^\\| 3 digits, relative \\| rows \\| 1 \\| ",
            "^\\| the task, in W1 to W10, known to be one of these \\| index \\| 10 \\| ",
            "^\\| 1 digit \\| spread \\| 1 \\| ",
        ],
    ),
)
def test_a_benchmark_prints_its_figures(
    script: str, words: str, patterns: list[str], tmp_path: Path
) -> None:
    printed = run(script, *words.split(), cwd=tmp_path)
    for pattern in patterns:
        assert re.search(pattern, printed, re.MULTILINE)


@pytest.mark.exhaustive
def test_the_asking_attacker_finds_levels_and_reaches_the_documented_rate(
    tmp_path: Path,
) -> None:
    words = "--probes 2 --steps 2 --tables channels"
    printed = run("identifiability.py", *words.split(), cwd=tmp_path)
    lines = [re.split(r" *\| *", line) for line in printed.splitlines()]
    rows = {(cells[1], cells[2]): cells for cells in lines if len(cells) > 8}
    channels = "risk_check|rejections|filled shares|holdings|costs|cash|NAV|partial fills|all"
    assert set(rows) >= set(product(channels.split("|"), ("rebase", "rebase, 3 digits")))

    control, task = (rows["risk_check", mask] for mask in ("rebase", "rebase, 3 digits"))
    assert float(control[4].split()[0]) > 90.0, "the attacker can do what it claims"

    docs = (REPOSITORY / "benchmarks" / "identifiability_tables.md").read_text()
    (line,) = re.findall(r"^\| risk_check \| [\d.]+, .*$", docs, re.MULTILINE)
    names = [cell.strip().split(", ")[0] for cell in line.split("|")]
    found = [control[4].split()[0], control[6], task[4], task[5], task[6], task[7], task[8]]

    assert [names[2], names[3], names[4], *names[6:10]] == found


@pytest.mark.exhaustive
def test_capacity_curves_on_real_prices_show_excess_fills_and_costs(
    shared_data: Path, tmp_path: Path
) -> None:
    words = (
        f"--data {shared_data} --markets us_daily --rules equal_weight --cash 1e6,1e8"
        " --windows 2025-09-02:2025-09-30"
    )
    printed = run("capacity_curves.py", *words.split(), cwd=tmp_path)
    rows = re.findall(r"^\| equal_weight \| (.*) \|$", printed, re.MULTILINE)
    turnover, filled, costs, excess, _ = [row.split(" | ") for row in rows]

    # bought once in a month of 21 days, which is a twelfth of a year
    assert [float(each) for each in turnover] == pytest.approx([11.8, 11.8], abs=1.0)
    assert filled == ["100.0", "100.0"]
    # its twenty names from their opens of 2025-09-02 on: +15.86 %; QQQ from the close before: +5.25 %
    assert float(excess[0]) == pytest.approx(15.86 - 5.25, abs=0.05)
    # a hundred times the size of an order is ten times its impact, and the same half spread
    assert 4.0 < float(costs[1]) / float(costs[0]) < 10.0


def parts_of_a_step(printed: str, indent: str) -> dict[str, float]:
    """Milliseconds by part, of the lines with this indentation."""
    lines = re.findall(rf"^{indent}(\S.*?) +([\d.]+) ms +[\d.]+ %", printed, re.MULTILINE)
    return {name.strip(): float(ms) for name, ms in lines}


@pytest.mark.exhaustive
def test_the_episode_benchmark_reports_parts_of_a_step_that_add_up(
    tmp_path: Path,
) -> None:
    save_snapshot(small_market(), tmp_path / "market")
    words = f"--data market --windows {WINDOW} --limit 2 --models builtin/momentum,builtin/hold"
    printed = run("bench_episode.py", *words.split(), cwd=tmp_path)

    # runs go elsewhere and are removed
    assert [path.name for path in tmp_path.iterdir()] == ["market"]
    models = re.findall(r"^builtin/\w+", printed, re.MULTILINE)
    assert models == ["builtin/momentum", "builtin/hold"]

    for figure in ["steps/s", "peak memory", "durable record", "ledger.parquet", "3.0 calls"]:
        assert figure in printed

    first = printed.split("builtin/hold")[0]
    spent = parts_of_a_step(first, indent="  ")
    inside = parts_of_a_step(first, indent="    ")
    whole = spent.pop("whole")
    overhead = spent["harness overhead"]

    assert sum(spent.values()) == pytest.approx(whole, abs=0.005)
    assert sum(inside.values()) == pytest.approx(overhead, abs=0.005)


@pytest.mark.exhaustive
def test_a_run_of_the_detection_study_has_the_shipped_figures(tmp_path: Path) -> None:
    """The full memory in ten windows: what the package ships is what its own model does."""
    printed = run("detection_limit.py", "--check", "1", cwd=tmp_path)
    assert printed.strip() == "10 episodes of 1 runs have the shipped figures"


@pytest.mark.exhaustive
def test_the_detection_study_prints_limits_and_false_alarms(tmp_path: Path) -> None:
    printed = run("detection_limit.py", cwd=tmp_path)
    assert re.search(r"^  effects +10 windows +[\d.]+ % ", printed, re.MULTILINE)
    assert re.search(r"^False alarms: \d+ of \d+ studies", printed, re.MULTILINE)


@pytest.mark.exhaustive
def test_the_process_scores_tell_planted_claims_apart(tmp_path: Path) -> None:
    words = "--steps 1 --rounds 1 --part final"
    printed = run("process_scores.py", *words.split(), cwd=tmp_path)
    assert re.search(r"^\| all of `final` \| 1\.000 ", printed, re.MULTILINE)


@pytest.mark.exhaustive
def test_the_recorded_tables_of_the_process_scores_are_printed(tmp_path: Path) -> None:
    printed = run("process_scores.py", "--tables", cwd=tmp_path)
    assert printed.count("| all, zh |") == 2
