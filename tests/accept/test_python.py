"""ktdeval from Python: the same runs, cards and comparisons as from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import ktdeval
from ktdeval.api import ConfigError, ModelRequest, QATask, Reply, UsageError, metric
from ktdeval.cli.main import cli
from ktdeval.cli.python_api import command_function_names
from ktdeval.errors import PluginError, StoreError
from support.docs.docstring_examples import example_of, run_example
from support.loops import not_empty
from support.pages import notebook
from support.paths import REPOSITORY

BOOK = REPOSITORY / "examples" / "evaluate.ipynb"
TASK = "blinded_open_research"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ktdeval.Evaluation:
    out = tmp_path_factory.mktemp("python") / "run"
    return ktdeval.evaluate(
        "builtin/momentum", TASK, windows="W1, W4", seeds=2, limit=4, out=str(out), quiet=True
    )


def test_figures_of_a_run_are_those_of_its_card(run: ktdeval.Evaluation) -> None:
    (card,) = run.typed_cards
    shown = run.metrics().loc[TASK]

    assert list(shown.index) == [*card.task.config["metrics"]], "in the order of the panel"

    for name, line in card.metrics.items():
        assert line.value == (None if pd.isna(shown.value[name]) else shown.value[name])
        assert (shown.n[name], shown.unit[name]) == (line.n, line.unit)
        if line.value is None:
            assert pd.isna(shown.bounds[name])
        else:
            assert shown.bounds[name] == "interquartile"

    assert [*run.episodes().index] == [
        (TASK, episode.window, episode.seed) for episode in card.episodes
    ]
    assert ktdeval.load_run(run.folder).metrics().equals(run.metrics())


def test_ledger_orders_and_equity_agree_in_three_ways(run: ktdeval.Evaluation) -> None:
    ledger = run.ledger(window="W4", seed=1)
    orders = run.orders(window="W4", seed=1)
    equity = run.equity(benchmark=True)

    assert len(ledger) == 4
    assert ledger.provenance.eq("model").all()
    assert ledger.nav.iloc[-1] == pytest.approx(ledger.cash.iloc[-1] + ledger.holdings.iloc[-1])
    assert orders.groupby("filled_on").size().sum() == ledger.orders.sum()

    path = equity[TASK, "W4", 1].dropna()
    assert path.iloc[0] == 1.0
    assert path.iloc[-1] - 1 == run.episodes().total_return[TASK, "W4", 1]
    assert (equity[TASK, "W4", "benchmark"].dropna().index == path.index).all()


def test_a_model_may_be_a_function_or_an_object_and_its_errors_are_counted(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def lazy(request: ModelRequest) -> str:
        asked.append(request)
        return "no idea"

    class Model:
        def reply(self, request: ModelRequest) -> Reply:
            return Reply(lazy(request))

    for model, name in ((lazy, "python/lazy"), (Model(), "python/Model")):
        run = ktdeval.evaluate(
            model, TASK, windows="W1", limit=1, out=str(tmp_path / name), quiet=True
        )
        assert run.typed_cards[0].model.name == name
        assert set(run.ledger().provenance) == {"fallback"}, (
            "what is no decision is none of the model's"
        )

    assert len(asked) == 10, "research and four forced submissions, twice"


def test_importing_ktdeval_is_enough_for_names_of_its_modules() -> None:
    words = "import ktdeval; print(ktdeval.api.metric.__name__, ktdeval.errors.UsageError.__name__)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout == "metric UsageError\n"


@pytest.mark.exhaustive
def test_python_without_assertions_gives_the_same_and_without_docstrings_is_refused(
    tmp_path: Path,
) -> None:
    """Assertions guard no input; but the model is told the docstrings of tools, and a board's
    schemas hold those of types.
    """

    def called(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )

    task = (
        "--model",
        "builtin/momentum",
        "--tasks",
        "blinded_open_research",
        "--windows",
        "W1",
        "--limit",
        "1",
        "--quiet",
    )
    fixed = ("--mask-key", "0" * 32)

    for switch, out in (("-O", "lean"), ("-B", "plain")):
        assert called(switch, "-m", "ktdeval", "run", *task, *fixed, "--out", out).returncode == 0

    for name in ("ledger.parquet", "transcript.jsonl.zst"):
        lean, plain = (next((tmp_path / out).rglob(name)).read_bytes() for out in ("lean", "plain"))
        assert lean == plain

    assert called("-O", "-m", "ktdeval", "card", "verify", "plain").returncode == 0

    done = called("-OO", "-m", "ktdeval", "tasks")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert (
        "python -OO removes the docstrings that tools, schemas and help are made of" in done.stderr
    )


def test_tasks_and_metrics_may_be_objects(tmp_path: Path) -> None:
    questions = QATask(
        [{"question": "2 + 2?", "gold": "4"}],
        lambda answer, sample: answer == sample["gold"],
        name="sums",
    )

    @metric("steps", formula="steps/1: n", unit="count", better="neither", source="here")
    def steps(ledger: Any) -> float:
        """Count of steps."""
        return len(ledger.steps)

    run = ktdeval.evaluate("builtin/chaos", questions, out=str(tmp_path / "sums"), quiet=True)

    assert run.metrics().index.tolist() == [("sums", "accuracy"), ("sums", "unanswered")]

    run = ktdeval.evaluate(
        "builtin/hold",
        TASK,
        windows="W1",
        limit=2,
        metrics=steps,
        out=str(tmp_path / "steps"),
        quiet=True,
    )

    assert run.metrics().value[TASK, "steps"] == 2.0


@pytest.mark.exhaustive
def test_comparisons_match_the_command_line(run: ktdeval.Evaluation, tmp_path: Path) -> None:
    other = ktdeval.evaluate(
        "builtin/random",
        TASK,
        windows=["W1", "W4"],
        seeds=2,
        limit=4,
        out=str(tmp_path / "o"),
        quiet=True,
    )

    for name, options, words in (
        (
            "compare",
            {"metrics": "turnover", "unit": "episode"},
            ["agents", "--metric", "turnover", "--pairs", "episode"],
        ),
        ("luck", {}, ["luck"]),
    ):
        function = {"compare": "compare_tables"}.get(name, name)
        made = getattr(ktdeval, function)(run, [str(other.folder)], **options)
        result = CliRunner().invoke(cli, ["compare", *words, str(run.folder), str(other.folder)])
        assert repr(made) == result.stdout.rstrip("\n"), result.output
        result = CliRunner().invoke(
            cli, ["compare", *words, str(run.folder), str(other.folder), "--json"]
        )
        assert made.report == json.loads(result.stdout)

    frame = ktdeval.compare(run, other)
    assert frame["first"].tolist() == ["builtin/momentum"]
    assert frame.equals(ktdeval.compare_tables(run, other)["tests"])
    assert frame.attrs["notes"] == ktdeval.compare_tables(run, other).report["notes"]


def test_cards_are_a_frame_with_a_row_for_each_card(run: ktdeval.Evaluation) -> None:
    (card,) = run.typed_cards
    row = run.cards().loc[TASK]
    assert (row.model, row.windows, row.episodes) == ("builtin/momentum", "W1, W4", 4)
    assert (row.decided, row.may_be_ranked) == (1.0, False)
    assert row.reasons == "every episode was cut after 4 steps"
    assert row.total_return == card.metrics["total_return"].value


def test_the_text_of_a_card_is_short_and_names_what_a_reader_needs(run: ktdeval.Evaluation) -> None:
    lines = repr(run.typed_cards[0]).splitlines()
    names = [line.split()[0] for line in lines[1:]]

    assert len(lines) <= 13
    assert max(map(len, lines)) <= 100
    assert names[:5] == ["system", "task", "windows", "labels", "ranking"]
    assert "quartiles over episodes" in next(line for line in lines if "total_return" in line)
    assert names[-2:] == ["provenance", "verification"]


@pytest.mark.exhaustive
def test_functions_of_commands_have_examples_that_run(
    run: ktdeval.Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(model: str, task: str) -> ktdeval.Evaluation:
        out = str(tmp_path / f"{model.rpartition('/')[2]}-{task}")
        options: dict[str, Any] = {"windows": "W1,W4", "seeds": 2, "limit": 4}
        return ktdeval.evaluate(model, task, out=out, quiet=True, **options)

    monkeypatch.chdir(tmp_path)
    words = {
        "ktdeval": ktdeval,
        "run": run,
        "other": made("builtin/random", TASK),
        "blinded": run,
        "bright": made("builtin/momentum", "bright_open_research"),
    }
    for name in not_empty(command_function_names()):
        example = example_of(getattr(ktdeval, name).__doc__ or "")
        assert example, f"end the docstring of {name} with an example"
        run_example(example, dict(words))


@pytest.mark.exhaustive
def test_a_process_is_left_as_it_was(tmp_path: Path) -> None:
    def state() -> list[object]:
        return [
            signal.getsignal(signal.SIGINT),
            sys.excepthook,
            Path.cwd(),
        ]

    before = state()
    ktdeval.evaluate("builtin/hold", TASK, windows="W1", limit=1, out=tmp_path / "run", quiet=True)

    assert state() == before


def test_impossible_requests_are_reported_in_one_line(run: ktdeval.Evaluation) -> None:
    cases = [
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, window="W1"),
            ConfigError,
            "unknown field 'window'; did you mean 'windows'",
        ),
        (
            lambda: ktdeval.evaluate(3, TASK),
            UsageError,
            "a model must be a name, an object with reply(request) or a function, was int",
        ),
        (lambda: ktdeval.evaluate("builtin/hold", ()), UsageError, "no task given"),
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, windows=""),
            ConfigError,
            "windows: expected one or more names, was ''",
        ),
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, dry_run=True),
            UsageError,
            "--dry-run only estimates a run",
        ),
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, metrics=None, plugin=[Path("no.py")]),
            PluginError,
            "no.py: no such file",
        ),
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, out=Path("a\0b")),
            ConfigError,
            "--out: expected text, was 'a\\x00b'",
        ),
        (
            lambda: ktdeval.evaluate("builtin/hold", [TASK, 3]),
            UsageError,
            "tasks: each must be a name or a task with spec(), as a QATask",
        ),
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, metrics=len),
            UsageError,
            "metrics: each must be a name or a decorated metric",
        ),
        (lambda: run.ledger(window="W9"), UsageError, "no finished episode with window='W9'"),
        (lambda: run.ledger(day="W9"), UsageError, "selected by task, window, seed, not by 'day'"),
        (lambda: ktdeval.compare(run, metric="x"), ConfigError, "did you mean 'metrics'"),
        (lambda: ktdeval.compare(), UsageError, "no run is given; name at least one"),
        (lambda: ktdeval.compare(run, metrics=3), ConfigError, "metrics: expected a list, was 3"),
        (lambda: ktdeval.effects(run, 3), UsageError, "expected a path, was 3"),
        (lambda: ktdeval.load_run(3), UsageError, "expected a path, was 3"),
        (
            lambda: ktdeval.load_run("x" * 5000),
            StoreError,
            "File name too long; fix that, or name another path",
        ),
        (
            lambda: ktdeval.evaluate("builtin/hold", TASK, out="a\ud800b"),
            UsageError,
            "was 'a\\ud800b', which can't be a file name",
        ),
        (lambda: ktdeval.report(None), UsageError, "expected a path, was null"),
        (lambda: ktdeval.compar, AttributeError, "did you mean 'compare'"),
    ]

    for call, kind, words in cases:
        with pytest.raises(kind) as caught:
            call()

        assert words in str(caught.value)


@pytest.mark.exhaustive
def test_the_notebook_shows_what_its_cells_give_today() -> None:
    shown = json.loads(BOOK.read_text(encoding="utf-8"))
    now = notebook.executed(BOOK)
    for was, cell in not_empty(zip(shown["cells"], now["cells"], strict=True)):
        assert cell.get("outputs") == was.get("outputs"), "".join(cell["source"])
