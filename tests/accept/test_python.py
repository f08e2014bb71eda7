"""ktdeval from Python: the same runs, cards and comparisons as from the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import ktdeval
from ktdeval import errors
from ktdeval.api import ModelRequest, QATask, Reply, UsageError, metric
from ktdeval.cli.main import cli
from ktdeval.cli.python_api import command_function_names
from ktdeval.testing import not_empty, on_each_row
from support.docs.docstring_examples import example_of, run_example
from support.pages import notebook
from support.paths import REPOSITORY
from support.runs.run_support import records

BOOK = REPOSITORY / "examples" / "evaluate.ipynb"
TASK = "blinded_open_research"


def evaluated(out: Path, model: Any, task: Any = TASK, **options: Any) -> ktdeval.Evaluation:
    return ktdeval.evaluate(model, task, out=out, quiet=True, **options)


def of_four_episodes(out: Path, model: str, task: str = TASK) -> ktdeval.Evaluation:
    return evaluated(out, model, task, windows=["W1", "W4"], seeds=2, limit=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ktdeval.Evaluation:
    out = tmp_path_factory.mktemp("python") / "run"
    return evaluated(out, "builtin/momentum", windows="W1, W4", seeds=2, limit=4)


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
        run = evaluated(tmp_path / name, model, windows="W1", limit=1)
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
def test_python_without_assertions_gives_the_same_and_needs_docstrings(
    tmp_path: Path,
) -> None:
    """Assertions guard no input; but the model is told the docstrings of tools, and a board's
    schemas hold those of types.
    """

    def called(words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words.split()]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    task = f"--model builtin/momentum --tasks {TASK} --windows W1 --limit 1 --quiet"
    fixed = f"--mask-key {'0' * 32}"

    for switch, out in (("-O", "lean"), ("-B", "plain")):
        done = called(f"{switch} -m ktdeval run {task} {fixed} --out {out}")
        assert done.returncode == 0, done.stderr

    assert records(tmp_path / "lean") == records(tmp_path / "plain")
    assert called("-O -m ktdeval card verify plain").returncode == 0

    done = called("-OO -m ktdeval list tasks")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "python -OO removes the docstrings" in done.stderr


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

    run = evaluated(tmp_path / "sums", "builtin/chaos", questions)
    assert run.metrics().index.tolist() == [("sums", "accuracy"), ("sums", "unanswered")]

    run = evaluated(tmp_path / "steps", "builtin/hold", windows="W1", limit=2, metrics=steps)
    assert run.metrics().value[TASK, "steps"] == 2.0


@pytest.mark.exhaustive
def test_comparisons_match_the_command_line(run: ktdeval.Evaluation, tmp_path: Path) -> None:
    other = of_four_episodes(tmp_path / "o", "builtin/random")
    runs = [str(run.folder), str(other.folder)]

    for made, words in (
        (
            ktdeval.compare_tables(run, runs[1:], metrics="turnover", unit="episode"),
            "agents --metric turnover --pairs episode",
        ),
        (ktdeval.luck(run, runs[1:]), "luck"),
    ):
        command = ["compare", *words.split(), *runs]
        printed = CliRunner().invoke(cli, command).stdout
        report = CliRunner().invoke(cli, [*command, "--json"]).stdout

        assert repr(made) == printed.rstrip("\n")
        assert made.report == json.loads(report)

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
    monkeypatch.chdir(tmp_path)
    words = {
        "ktdeval": ktdeval,
        "run": run,
        "other": of_four_episodes(tmp_path / "other", "builtin/random"),
        "blinded": run,
        "bright": of_four_episodes(tmp_path / "bright", "builtin/momentum", "bright_open_research"),
    }
    for name in not_empty(command_function_names()):
        example = example_of(getattr(ktdeval, name).__doc__ or "")
        assert example, f"end the docstring of {name} with an example"
        run_example(example, dict(words))


@pytest.mark.exhaustive
def test_a_process_is_left_as_it_was(tmp_path: Path) -> None:
    def state() -> list[object]:
        return [signal.getsignal(signal.SIGINT), sys.excepthook, Path.cwd()]

    before = state()
    evaluated(tmp_path / "run", "builtin/hold", windows="W1", limit=1)

    assert state() == before


@on_each_row(
    "task, options, kind, words",
    (
        "blinded_open_research",
        {"window": "W1"},
        "ConfigError",
        "unknown field 'window'; did you mean 'windows'",
    ),
    (
        "blinded_open_research",
        {"windows": ""},
        "ConfigError",
        "windows: expected one or more names, was ''",
    ),
    ("blinded_open_research", {"dry_run": True}, "UsageError", "--dry-run only estimates a run"),
    ("blinded_open_research", {"plugin": ["no.py"]}, "PluginError", "no.py: no such file"),
    (
        "blinded_open_research",
        {"out": "a\x00b"},
        "ConfigError",
        "--out: expected text, was 'a\\x00b'",
    ),
    (
        "blinded_open_research",
        {"metrics": 3},
        "UsageError",
        "metrics: each must be a name or a decorated metric",
    ),
    (
        ["blinded_open_research", 3],
        {},
        "UsageError",
        "tasks: each must be a name or a task with spec(), as a QATask",
    ),
    ([], {}, "UsageError", "no task given"),
)
def test_an_impossible_run_is_refused_in_one_line(
    task: Any, options: dict[str, Any], kind: str, words: str
) -> None:
    with pytest.raises(getattr(errors, kind), match=re.escape(words)):
        ktdeval.evaluate("builtin/hold", task, **options)


@on_each_row(
    "function, arguments, options, words",
    (
        "evaluate",
        [3, "blinded_open_research"],
        {},
        "a model must be a name, an object with reply(request) or a function, was int",
    ),
    ("compare", [], {}, "no run is given; name at least one"),
    ("compare", ["runs/one"], {"metric": "x"}, "did you mean 'metrics'"),
    ("compare", ["runs/one"], {"metrics": 3}, "metrics: expected a list, was 3"),
    ("effects", ["runs/one", 3], {}, "expected a path, was 3"),
    ("load_run", [3], {}, "expected a path, was 3"),
    ("report", [None], {}, "expected a path, was null"),
)
def test_impossible_arguments_are_refused_in_one_line(
    function: str, arguments: list[Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(errors.KtdevalError, match=re.escape(words)):
        getattr(ktdeval, function)(*arguments, **options)


def test_names_that_are_none_are_refused(run: ktdeval.Evaluation) -> None:
    with pytest.raises(UsageError, match="no finished episode with window='W9'"):
        run.ledger(window="W9")

    with pytest.raises(UsageError, match="selected by task, window, seed, not by 'day'"):
        run.ledger(day="W9")

    with pytest.raises(errors.StoreError, match="File name too long; fix that"):
        ktdeval.load_run("x" * 5000)

    with pytest.raises(UsageError, match="can't be a file name"):
        ktdeval.evaluate("builtin/hold", TASK, out="a\ud800b")

    with pytest.raises(AttributeError, match="did you mean 'compare'"):
        _ = ktdeval.compar


@pytest.mark.exhaustive
def test_the_notebook_shows_what_its_cells_give_today() -> None:
    shown = json.loads(BOOK.read_text(encoding="utf-8"))
    now = notebook.executed(BOOK)
    for was, cell in not_empty(zip(shown["cells"], now["cells"], strict=True)):
        assert cell.get("outputs") == was.get("outputs"), "".join(cell["source"])
