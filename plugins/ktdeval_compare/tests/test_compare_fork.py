"""`ktdeval fork` on runs of builtin models with known dependence, and its tests on simulated
runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.registry import load_plugins
from ktdeval.runner import (
    ForkedDecision,
    ForkPlace,
    RunConfig,
    RunFolder,
    VariantFigures,
    evaluate,
    load_fork,
)
from ktdeval.testing import Terminal
from ktdeval_compare.forks.fork_statistics import (
    LEVEL,
    Asked,
    Variant,
    family_of,
    p_beyond,
    p_of_difference,
    turnover,
    variant_figures,
)
from ktdeval_compare.forks.forker import AGAIN

pytestmark = pytest.mark.needs("ktdeval_builtin", "ktdeval_ktdfin")

TASK = "blinded_fixed_candidate"
TRIALS = 400
MAX_ALARMS = 30  # of 400 at 5 %; exceeded by chance in 1 of 100 cases


def run_of(out: Path, model: str, **changes: Any) -> Path:
    settings: dict[str, Any] = {
        "model": f"builtin/{model}",
        "tasks": (TASK,),
        "windows": ("W1",),
        "limit": 2,
        "mask_key": "0" * 32,
        "out": str(out / model),
    }
    result = evaluate(RunConfig(**(settings | changes)), load_plugins())
    assert not result.failed
    return result.folder


@pytest.fixture(scope="module")
def momentum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("runs"), "momentum")


def forked(terminal: Terminal, run: Path, *words: object, out: Path | None = None) -> Any:
    where = ("--out", out) if out is not None else ()
    return json.loads(terminal.out("fork", run, *words, *where, "--json"))


def read_in(report: Any) -> dict[str, float]:
    """Direction of each input that is read."""
    found = {}
    for row in report["variants"]:
        if row["is_read"]:
            found[row["variant"].partition("=")[0]] = row["direction"]
    return found


# ---- rules of known dependence


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("model", "args", "expected"),
    [
        ("momentum", {}, {"MOM_12_1": 1}),
        ("reversal", {}, {"return_20d_pct": -1}),
        ("low_volatility", {}, {"RV_60": -1}),
        ("momentum", {"by": "SKEW"}, {"SKEW": 1}),
        (
            "linear_factor",
            {"coefficients": "MOM_12_1:0.02 RV_60:-0.1"},
            {"MOM_12_1": 1, "RV_60": -1},
        ),
        ("equal_weight", {}, {"ILLIQ": -1}),  # it buys the most liquid of more names than it holds
        ("hold", {}, {}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_rule_is_found_to_read_what_it_is_made_of_and_nothing_else(
    model: str,
    args: dict[str, Any],
    expected: dict[str, int],
    seed: int,
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    run = run_of(tmp_path, model, model_args=args, seed=seed)
    report = forked(terminal, run)

    found = {name: np.sign(direction) for name, direction in read_in(report).items()}
    assert found == expected
    assert sum(row["shown"] for row in report["families"]) >= 20
    assert report["as_recorded"] == 1.0


@pytest.mark.exhaustive
@pytest.mark.needs("ktdeval_markets")
def test_equal_weight_rule_is_found_to_read_no_figures_or_news(
    tmp_path: Path, terminal: Terminal
) -> None:
    run = run_of(
        tmp_path,
        "equal_weight",
        tasks=("market_news_blinded",),
        data="synthetic_crypto",
        windows=("2024-06-03:2024-06-10",),
    )
    report = forked(terminal, run)
    assert read_in(report) == {}
    families = {row["family"] for row in report["families"]}
    assert families == {"price", "volume", "return", "risk", "news"}


@pytest.mark.exhaustive
def test_an_order_that_a_model_follows_is_a_bias_and_no_input(
    tmp_path: Path, terminal: Terminal
) -> None:
    run = run_of(tmp_path, "first_listed")
    report = forked(terminal, run, "--change", "MOM_12_1=reversed,order=reversed")
    found = {row["variant"]: row["is_read"] for row in report["variants"]}
    assert found == {
        "order=shuffled": True,
        "order=reversed": True,
        "labels=shuffled": False,
        "MOM_12_1=reversed": False,
    }
    assert "moves: a bias" in terminal.text("fork", f"{run}-fork")


@pytest.mark.exhaustive
def test_a_model_that_draws_is_not_found_to_read_anything(
    tmp_path: Path, terminal: Terminal
) -> None:
    run = run_of(tmp_path, "random")
    report = forked(terminal, run, "--step", "0,1")
    assert report["draws"]
    assert len(report["variants"]) >= 20
    assert read_in(report) == {}
    assert all(row["moved_share"] > 0.5 for row in report["variants"])


# ---- one input


@pytest.mark.exhaustive
def test_one_stock_s_figure_moves_the_order_of_that_stock(
    momentum: Path, terminal: Terminal, tmp_path: Path
) -> None:
    state = json.loads(_prompt_state(momentum))
    columns = state["candidates"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in state["candidates"]["rows"]]
    worst = min(rows, key=lambda row: row["MOM_12_1"])["stock_id"]

    change = f"MOM_12_1 of {worst}=9.5"
    report = forked(terminal, momentum, "--change", change, out=tmp_path / "f")
    (row,) = [row for row in report["variants"] if not row["is_placebo"]]
    assert row["is_read"]
    assert row["cells"] == 1
    assert row["turnover"] == pytest.approx(0.049)  # one of 20 names at 0.98 / 20

    lines = [json.loads(line) for line in (tmp_path / "f" / "decisions.jsonl").open()]
    weights = {line["variant"]: line["weights"] for line in lines}
    gained = weights[f"{change}"].keys() - weights[AGAIN].keys()
    assert len(gained) == 1
    assert lines[-1]["differences"].keys() == gained


def _prompt_state(run: Path) -> str:
    """The JSON block of the first prompt on record."""
    folder = RunFolder.load(run)
    (spec,) = folder.manifest.specs
    sent: Any = folder.load_transcript(spec)[0].exchanges[0]["sent"]
    (state,) = [text for message in sent if (text := state_in(message["content"]))]
    return state


def state_in(prompt: str) -> str | None:
    """The line of a prompt that contains its state."""
    lines = [line for line in prompt.splitlines() if line.startswith('{"day"')]
    return lines[0] if lines else None


@pytest.mark.slow
def test_a_fork_is_resumed_and_shown_again(
    momentum: Path, terminal: Terminal, tmp_path: Path
) -> None:
    out = tmp_path / "f"
    first = forked(terminal, momentum, "--change", "RV_60=reversed", out=out)
    lines = (out / "decisions.jsonl").read_bytes()

    # as if the process had been killed while writing the last line
    (out / "decisions.jsonl").write_bytes(lines[:-20])
    (out / "fork.json").unlink()
    code, _, err = terminal.call("fork", momentum, "--change", "RV_60=reversed", "--out", out)
    assert code == 0
    assert "1 decision to ask, 3 on record" in err
    assert (out / "decisions.jsonl").read_bytes() == lines

    assert forked(terminal, out) == first
    assert load_fork(out).variants[-1].variant == "RV_60=reversed"
    shown = terminal.text("fork", out)
    assert "1 step of builtin/momentum (momentum), asked again" in shown
    assert "never ranked" in shown


def test_what_can_t_be_asked_is_one_line_before_anything_is(
    momentum: Path, terminal: Terminal, tmp_path: Path
) -> None:
    said = ""
    for words in (
        ("--step", "2"),
        ("--step", "-1"),
        ("--change", "MOM_12=1"),
        ("--change", "MOM_12_1 of 600519.SH=1"),
        ("--change", "sector=600519"),
        ("--change", "MOM_12_1=609001"),
        ("--change", "MOM_12_1=2024-01-05"),
        ("--change", "status=trading"),
        ("--windows", "W7"),
        ("--tasks", "nothing"),
    ):
        said += terminal.refusal("fork", momentum, *words, "--out", tmp_path / "f")

    assert not (tmp_path / "f").exists()
    assert said.replace(str(momentum), "RUN") == snapshot("""\
ktdeval: error: --step '2': blinded_fixed_candidate W1 seed 0 has steps 0 to 1; give some of them, or all
ktdeval: error: --step '-1': blinded_fixed_candidate W1 seed 0 has steps 0 to 1; give some of them, or all
ktdeval: error: --change 'MOM_12=1': the step shows no MOM_12; did you mean 'MOM_12_1' or 'MOM_ID'?
ktdeval: error: --change 'MOM_12_1 of 600519.SH=1': the step does not show this stock; use a label that the mask shows, such as asset_0807
ktdeval: error: --change sector: its value names a stock, an industry or a day that the mask hides
ktdeval: error: --change MOM_12_1: its value names a stock, an industry or a day that the mask hides
ktdeval: error: --change MOM_12_1: its value names a stock, an industry or a day that the mask hides
ktdeval: error: --change 'status=trading': does not change anything that the step shows
ktdeval: error: --windows: no window 'W7' in this run; did you mean 'W1'?
ktdeval: error: --tasks: no trading task 'nothing' in this run
""")


@pytest.mark.exhaustive
def test_a_folder_of_another_run_s_fork_is_refused(
    momentum: Path, terminal: Terminal, tmp_path: Path
) -> None:
    other = run_of(tmp_path, "hold")
    forked(terminal, other, "--change", "RV_60=reversed", out=tmp_path / "f")
    words = ("fork", momentum, "--change", "RV_60=reversed", "--out")
    assert "contains a fork of another run" in terminal.error(*words, tmp_path / "f")
    assert "contains a run" in terminal.error(*words, other)


# ---- statistics


def decision(
    weights: dict[str, float], variant: str = AGAIN, sample: int = 0, step: int = 0
) -> ForkedDecision:
    place = ForkPlace(episode="e", task="t", window="w", seed=0, step=step)
    sides = dict.fromkeys(weights, "BUY")
    return ForkedDecision(
        place=place,
        variant=variant,
        sample=sample,
        manifest_sha256="0" * 64,
        provenance="model",
        weights=weights,
        sides=sides,
        cells=1,
        differences={},
        input_tokens=0,
        output_tokens=0,
        failure=None,
        is_call_failure=False,
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": 0.5}, {"a": 0.5}, 0.0),
        ({"a": 0.5, "b": 0.5}, {"a": 1.0}, 0.5),  # half moves from b to a
        ({"a": 1.0}, {}, 1.0),  # all of it to cash
        ({"a": -0.2}, {"a": 0.2}, 0.4),
    ],
)
def test_turnover_is_half_the_change_of_weights_and_cash(
    one: dict[str, float], other: dict[str, float], expected: float
) -> None:
    assert turnover(decision(one), decision(other)) == pytest.approx(expected)
    assert turnover(decision(other), decision(one)) == pytest.approx(expected)


def drawn(rng: np.random.Generator, variant: str, steps: int, shift: float = 0.0) -> list[Any]:
    """Five decisions per step on one weight, drawn around the step's own level."""
    made = []
    for step in range(steps):
        for sample, noise in enumerate(rng.normal(0.0, 0.05, 5)):
            made.append(decision({"a": 0.3 + 0.1 * step + shift + noise}, variant, sample, step))
    return made


def simulated(rng: np.random.Generator, steps: int, shift: float, placebo: float) -> VariantFigures:
    decisions = [
        *drawn(rng, AGAIN, steps),
        *drawn(rng, "order=shuffled", steps, placebo),
        *drawn(rng, "x=1", steps, shift),
    ]
    variants = [Variant("order=shuffled", "order", True), Variant("x=1", "x", False)]
    return variant_figures(Asked.of(decisions, draws=True), variants)[-1]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("steps", "placebo"), [(1, 0.0), (3, 0.1)], ids=["no bias", "a bias of order"]
)
def test_an_input_that_moves_nothing_is_called_read_in_at_most_5_percent(
    steps: int, placebo: float
) -> None:
    rng = np.random.default_rng(steps)
    alarms = sum(bool(simulated(rng, steps, 0.0, placebo).is_read) for _ in range(TRIALS))
    assert alarms <= MAX_ALARMS


@pytest.mark.exhaustive
def test_the_test_of_difference_alone_holds_its_level_and_no_less() -> None:
    rng = np.random.default_rng(5)
    p_values = []
    for _ in range(TRIALS):
        again = Asked.of([*drawn(rng, AGAIN, 2), *drawn(rng, "x=1", 2)], draws=True)
        p_values.append(p_of_difference(again.usable("x=1"), again.decisions[AGAIN]))

    share = float(np.mean(np.array(p_values) <= LEVEL))
    assert 0.025 <= share <= 0.08  # 99 % of trials at 5 %


def test_an_effect_is_found_and_one_no_larger_than_a_placebo_s_is_not() -> None:
    rng = np.random.default_rng(3)
    assert simulated(rng, 3, 0.3, 0.0).is_read
    assert not simulated(rng, 3, 0.1, 0.3).is_read


def test_a_change_beyond_a_placebo_has_the_p_value_of_its_permutations() -> None:
    """Two steps with one decision each: of four permutations, only the observed one is as
    extreme.
    """
    again = {}
    far = {}
    near = {}
    for step in range(2):
        place = decision({}, step=step).place
        again[place] = [decision({"a": 0.0}, step=step)]
        far[place] = [decision({"a": 0.5}, step=step)]
        near[place] = [decision({"a": 0.1}, step=step)]

    assert p_beyond(far, near, again) == pytest.approx(0.25, abs=0.03)
    assert p_beyond(near, far, again) == pytest.approx(1.0)


def exact_row(moves: Sequence[float]) -> VariantFigures:
    """Figures of a change that moves a deterministic model by these amounts at each step."""
    decisions = []
    for step, move in enumerate(moves):
        decisions.append(decision({"a": 0.0}, AGAIN, step=step))
        decisions.append(decision({"a": move}, "x=1", step=step))

    (row,) = variant_figures(Asked.of(decisions, draws=False), [Variant("x=1", "x", False)])
    return row


@pytest.mark.exhaustive
@pytest.mark.parametrize("steps", [5, 6, 8, 12])
def test_interval_covers_the_mean_if_half_of_the_steps_do_not_move(steps: int) -> None:
    """95 % of 300 forks, minus three standard errors; percentiles of resamples covered 72 to 82
    %.
    """
    rng = np.random.default_rng(steps)
    covered = []
    for _ in range(300):
        row = exact_row(rng.exponential(0.2, steps) * (rng.random(steps) < 0.5))
        if row.low is not None and row.high is not None:
            covered.append(row.low <= 0.1 <= row.high)

    assert len(covered) > 100
    assert np.mean(covered) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(covered))


@pytest.mark.parametrize(
    ("moves", "reason"),
    [
        ([0.1, 0.2, 0.3, 0.4], "exact for these steps; an interval over steps needs 5"),
        ([0.2] * 6, "no interval: all steps have the same figure"),
        ([0.0] * 5 + [0.2], "no interval: too few of 6 steps differ for an interval"),
    ],
)
def test_steps_that_say_too_little_have_no_interval(moves: Sequence[float], reason: str) -> None:
    row = exact_row(moves)
    assert (row.low, row.high, row.reason) == (None, None, reason)
    assert row.beyond == pytest.approx(np.mean(moves))


@pytest.mark.parametrize(
    ("field", "family"),
    [
        ("MOM_12_1", "factor"),
        ("close_cny", "price"),
        ("news.sentiment", "news"),
        ("order", "placebo"),
        ("return_20d_pct", "return"),
        ("performance", "market"),
        ("unheard", "other"),
    ],
)
def test_an_input_belongs_to_a_family(field: str, family: str) -> None:
    assert family_of(field) == family
