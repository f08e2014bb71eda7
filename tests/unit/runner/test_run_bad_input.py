"""Bad input of every kind, through the whole command: one clear line on stderr, an exit code, no
traceback, and nothing lost.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.testing import on_each_row, wait_for
from ktdeval.values import dumps_pretty
from support.runs.run_support import (
    DAYS_IN_WINDOW,
    MIXED_RUN,
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    assert_same,
    card_of,
    copy_run,
    episodes,
    error_line,
    finished_steps,
    ktdeval,
    records,
    start,
)

MOMENTUM = ("--model", "builtin/momentum", "--tasks", TASK)
WHOLE = (*MIXED_RUN, "--limit", "6", "--quiet", *SAME_MASK)


def refused(cwd: Path, *words: object, **settings: Any) -> str:
    """Run a command that must fail before it makes anything; its error line."""
    before = sorted(cwd.rglob("*"))
    done = ktdeval(*words, cwd=cwd, **settings)

    assert done.code == 2
    assert sorted(cwd.rglob("*")) == before

    return error_line(done)


# -- names
# -----------------------------------------------------------------------------------------------------------


# MOMENTUM is that model on that task, both of which there are.
@on_each_row(
    "words, message",
    (
        "--model builtin/momentun --tasks blinded_open_research",
        "unknown model 'builtin/momentun'; did you mean 'builtin/momentum'",
    ),
    (
        "--model openay/gpt-5 --tasks blinded_open_research",
        "unknown provider 'openay'; did you mean 'openai'",
    ),
    (
        "--model builtin/momentum --tasks blinded_open_reserch",
        "'blinded_open_reserch'; did you mean 'blinded_open_re",
    ),
    (
        "--model builtin/momentum --tasks xyz*",
        "no task or group matches 'xyz*'; see `ktdeval list tasks`",
    ),
    ("MOMENTUM --agent reac", "unknown agent 'reac'; did you mean 'react'"),
    ("MOMENTUM --metrics sharp", "unknown metric 'sharp'; did you mean 'sharpe'"),
    ("MOMENTUM --runner locale", "unknown runner 'locale'; did you mean 'local'?"),
    ("MOMENTUM --windows W11", "has no window 'W11'; did you mean 'W1"),
    (
        "MOMENTUM --windows 2024-04-01:2024-06-05,W1",
        "windows 2024-04-01:2024-06-05 and W1 cover the same days",
    ),
    ("MOMENTUM --windows 2024-04-01:2024-03-01", "the first day is after the last"),
    (
        "MOMENTUM --data synthetc",
        "'synthetc' is neither a folder nor a data provider; did you mean 'synthetic'",
    ),
    (
        "MOMENTUM --rules stict",
        "expected one of strict, paper, was 'stict'; did you mean 'strict'?",
    ),
    (
        "MOMENTUM --model-args position=5",
        "model builtin/momentum: unknown field 'position'; did you mean 'positions'?",
    ),
    ("MOMENTUM --model-args positions=many", "positions: expected an integer, was 'many'"),
    (
        "MOMENTUM --model_args positions",
        "--model-args: expected key=value,key=value, was 'positions'",
    ),
    ("MOMENTUM --model-args '{\"broken\": '", "--model-args: not a JSON object"),
    (
        "--model builtin/hold --tasks blinded_open_research --model-args a=1",
        "model builtin/hold takes no arguments",
    ),
    ("MOMENTUM --agent-args depth=2", "agent react takes no arguments"),
    (
        'MOMENTUM --model-args \'{"rule": "\\ud800"}\'',
        "--model-args: can't be recorded as JSON: 'utf-8' codec can't encode",
    ),
    (
        "MOMENTUM --data-args seed=1e999",
        "--data-args: can't be recorded as JSON: Out of range float values",
    ),
    (
        "card verify nowhere.json --data-args seed=1e999",
        "--data-args: can't be recorded as JSON: Out of range float values",
    ),
    ("MOMENTUM --limit 0", "limit: expected a value of at least 1, was 0"),
    ("MOMENTUM --seeds 0", "seeds: expected a value from 1 to "),
    (
        "MOMENTUM --limit 99999999999999999999",
        "limit: expected an integer of 64 bits, was a number of 67 bits",
    ),
    (
        "MOMENTUM --max-output-tokens 99999999999999999999",
        "--max-output-tokens: expected an integer of 64 bits, was a number of 67 bits",
    ),
    ("MOMENTUM --seeds five", "'five' is not a valid int"),
    ("MOMENTUM --concurrency 0", "concurrency: expected a value from 1 to "),
    ("MOMENTUM --temperature nan", "temperature: expected a finite number, was nan"),
    ("MOMENTUM --windws W1", "No such option"),
    ("--modle x", "No such option"),
    ("list tasks --jsn", "No such option"),
    (
        "list tasks blindd_open_research",
        "no task or group matches 'blindd_open_research'; did you mean 'blinded_open_research'",
    ),
    (
        "list models --plugin no_such_plugin",
        "--plugin no_such_plugin: can't be imported: ModuleNotFoundError",
    ),
    (
        "--tasks blinded_open_research",
        "no model given; choose one with --model builtin/momentum (see `ktdeval list models`)",
    ),
    (
        "--model builtin/momentum",
        "no task given; choose one with --tasks blinded_open_research (see `ktdeval list tasks`)",
    ),
    ("runn", "no command 'runn'; did you mean 'run'?"),
    (
        "MOMENTUM --timeout-s 1e12",
        "--timeout-s: expected a value from 0.001 to 1000000, was 1000000000000.0",
    ),
    (
        'MOMENTUM --windows ""',
        "--windows: expected one or more names, was ''; give some, or omit the option",
    ),
    ("MOMENTUM --metrics ,", "--metrics: expected one or more names, was ','"),
    ('MOMENTUM --out ""', "--out: expected text, was ''; omit the option for its default"),
    ('MOMENTUM --config ""', "'--config': the path is empty"),
    ('score ""', "'RUN': the path is empty"),
    (
        "MOMENTUM --data ~nobody-of-this-name/market",
        "'~nobody-of-this-name/market' is neither a folder nor a data provider",
    ),
    ("view LONG", "/manifest.json: File name too long; fix that, or name another path"),
    ("score nowhere", "nowhere: no run here (manifest.json is missing)"),
    (
        "score nowhere --rules stict",
        "expected one of strict, paper, was 'stict'; did you mean 'strict'?",
    ),
    ("card verify nowhere.json", "nowhere.json: can't read the card: No such file or directory"),
)
def test_an_unknown_name_or_value_gets_a_suggestion(
    market: Path, tmp_path: Path, words: str, message: str
) -> None:
    given = shlex.split(words.replace("MOMENTUM", shlex.join(MOMENTUM)).replace("LONG", "x" * 300))
    # On the small market, so that nothing is generated; what the case says of the data counts.
    data = () if "--data" in given or given[0] not in ("--model", "--tasks") else ("--data", market)
    assert message in refused(tmp_path, *given, *data)


# -- data
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "window",
    [
        "2020-01-01:2020-03-01",
        "2024-04-01:2025-01-31",
        "2022-12-12:2022-12-20",
        "2024-03-02:2024-03-03",
        "W1",
        "long",
    ],
)
def test_a_window_outside_the_data_is_refused_with_what_the_data_cover(
    market: Path, tmp_path: Path, window: str
) -> None:
    line = refused(tmp_path, *MOMENTUM, "--data", market, "--windows", window)
    assert "which allow 2022-12-13…2024-04-19" in line or "no trading day" in line


UNREADABLE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "no manifest": ("manifest.json", Path.unlink),
    "no table": ("bars.parquet", Path.unlink),
    "cut table": ("bars.parquet", lambda path: path.write_bytes(path.read_bytes()[:-100])),
    "not parquet": ("bars.parquet", lambda path: path.write_text("date,code,close\n")),
    "manifest cut": ("manifest.json", lambda path: path.write_bytes(path.read_bytes()[:300])),
    "manifest of something else": (
        "manifest.json",
        lambda path: path.write_text('{"name": "a web application"}'),
    ),
}


@pytest.mark.parametrize(("name", "damage"), UNREADABLE.values(), ids=UNREADABLE)
def test_data_that_can_not_be_read_are_refused(
    own_market: Path, tmp_path: Path, name: str, damage: Callable[[Path], Any]
) -> None:
    damage(own_market / name)
    line = refused(tmp_path, *MOMENTUM, "--data", own_market, "--windows", WINDOW)
    assert str(own_market) in line


def test_a_file_or_an_empty_folder_is_no_market(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert "file is not a snapshot" in refused(tmp_path, *MOMENTUM, "--data", "file")
    assert "folder is not a snapshot" in refused(tmp_path, *MOMENTUM, "--data", "folder")


def test_a_folder_with_the_name_of_a_provider_is_refused_until_it_is_spelled_as_a_path(
    market: Path, tmp_path: Path
) -> None:
    (tmp_path / "synthetic").symlink_to(market)

    line = refused(tmp_path, *MOMENTUM, "--data", "synthetic")
    assert "--data synthetic is both a data provider and a folder here; write ./synthetic" in line

    assert (
        ktdeval("plan", *MOMENTUM, "--data", "./synthetic", "--windows", WINDOW, cwd=tmp_path).code
        == 0
    )


def test_a_stored_market_takes_no_arguments(market: Path, tmp_path: Path) -> None:
    line = refused(tmp_path, *MOMENTUM, "--data", market, "--data-args", "seed=1")
    assert "is a stored snapshot and takes no arguments, was given seed" in line


# -- config files
# ----------------------------------------------------------------------------------------------------


@on_each_row(
    "text, message",
    (("model: [builtin/momentum\ntasks: x\n"), "run.yaml: line 2, column 6: not YAML"),
    ("modle: builtin/momentum\n", "run.yaml: unknown field 'modle'; did you mean 'model'"),
    ("seeds: many\n", "run.yaml: seeds: expected an integer, was 'many'"),
    ("windows: ''\n", "run.yaml: windows: expected one or more names, was ''"),
    ("seeds: 0\n", "run.yaml: seeds: expected a value from 1 to "),
    (("seeds: 2\nseeds: 3\n"), "run.yaml: line 2: key 'seeds' was already given on line 1"),
    ("windows: {W1: true}\n", "run.yaml: windows: expected a list, was an object"),
    ("model_args: 5\n", "run.yaml: model_args: expected an object, was 5"),
    (
        "data_args: {seed: .nan}\n",
        "--data-args: can't be recorded as JSON: Out of range float values",
    ),
    ("limit: 2.5\n", "run.yaml: limit: expected an integer, was 2.5"),
    ("quiet: 1\n", "run.yaml: quiet: expected true or false, was 1"),
    (
        "rules: papr\n",
        "run.yaml: rules: expected one of strict, paper, was 'papr'; did you mean 'paper'?",
    ),
    ("a: &a [*a]\n", "run.yaml: "),
)
def test_a_config_file_that_is_wrong_is_named_with_its_line_or_field(
    market: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "run.yaml").write_text(text)
    assert message in refused(tmp_path, "--config", "run.yaml", *MOMENTUM, "--data", market)


# -- folders
# ---------------------------------------------------------------------------------------------------------


OTHERS = (
    (("--model", "builtin/hold"), "(model: builtin/momentum {}; now builtin/hold {})"),
    (("--tasks", "bright_open_research"), f"(task: {TASK}; now {TASK}, bright_open_research)"),
    (("--seed", "5"), "(seed: 0; now 5)"),
    (("--windows", "2024-03-04:2024-03-08"), "(window: "),
    (("--limit", "3"), "(limit: 2; now 3)"),
    (("--metrics", "turnover,sharpe"), "(metrics: no further metrics; now turnover, sharpe; "),
    (
        ("--model-args", "positions=3"),
        '(model: builtin/momentum {}; now builtin/momentum {"positions":3})',
    ),
    (("--temperature", "0"), "(call parameters: "),
    (("--agent", "remembering", "--plugin", PLUGIN), "(agent: react {}; now remembering {})"),
    # Nobody is at that address: it is refused before the model is asked how it takes tools.
    (("--model", "vllm/x", "--base-url", "http://127.0.0.1:9/v1"), "(of a local model)"),
)


def test_a_run_whose_paths_are_absolute_needs_no_working_folder(
    market: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    out = tmp_path / "run"

    assert (
        main(
            [
                *MOMENTUM,
                "--data",
                str(market),
                "--windows",
                WINDOW,
                "--limit",
                "1",
                "--out",
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    assert f"score   ktdeval score {out}" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_printed_commands_can_be_pasted_if_the_folder_has_spaces(
    market: Path, tmp_path: Path
) -> None:
    done = ktdeval(
        *MOMENTUM,
        "--data",
        market,
        "--windows",
        WINDOW,
        "--limit",
        "1",
        "--out",
        "a run; b",
        cwd=tmp_path,
    )
    printed = [
        shlex.split(line)[2:]
        for line in done.out.splitlines()
        if line.startswith(("all ", "verify ", "score "))
    ]

    assert len(printed) == 3

    for words in printed:
        assert ktdeval(*words, cwd=tmp_path).code == 0, words


@pytest.mark.exhaustive
def test_the_folder_of_another_run_is_left_alone(market: Path, tmp_path: Path) -> None:
    base = (*MOMENTUM, "--data", market, "--windows", WINDOW, "--limit", "2", "--out", "run")
    assert ktdeval(*base, cwd=tmp_path).code == 0

    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}

    for words, message in OTHERS:
        line = refused(tmp_path, *base, *words)
        assert message in line
        assert "choose another --out" in line
        assert {
            path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()
        } == before


@pytest.mark.slow
def test_a_folder_with_anything_else_in_it_is_left_alone(market: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1.tex").write_text("years of work")
    line = refused(tmp_path, *MOMENTUM, "--data", market, "--windows", WINDOW, "--out", "thesis")

    assert "the folder is not empty and is not a run" in line

    shutil.copytree(market, tmp_path / "market")
    line = refused(tmp_path, *MOMENTUM, "--data", market, "--windows", WINDOW, "--out", "market")

    assert (
        "is not the manifest of a run; give a folder created by `ktdeval run`, or a new one" in line
    )

    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".git").write_text("")
    refused(tmp_path, *MOMENTUM, "--data", market, "--windows", WINDOW, "--out", "hidden")


@pytest.mark.parametrize(
    "out",
    [
        "file",
        "file/run",
        "/dev/null/run",
        "/proc/ktdeval-run",
        pytest.param("x" * 300, id="a name of 300 characters"),
    ],
)
def test_a_folder_that_can_not_be_made_is_refused(market: Path, tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("in the way")
    line = refused(tmp_path, *MOMENTUM, "--data", market, "--windows", WINDOW, "--out", out)
    assert "choose another --out" in line
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(market: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    words = (*MOMENTUM, "--data", market, "--windows", WINDOW, "--out", "locked/run")
    expected = "locked/run: can't be written: Permission denied; choose another --out"
    assert expected in refused(tmp_path, *words)


def test_a_cache_folder_that_can_not_be_made_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = {"KTDEVAL_CACHE_DIR": str(tmp_path / "file")}
    line = refused(tmp_path, *MOMENTUM, "--limit", "1", environment=environment)
    assert "set KTDEVAL_CACHE_DIR to a writable folder" in line


@pytest.mark.slow
def test_two_processes_never_run_one_folder_at_once(
    market: Path, whole: Path, tmp_path: Path
) -> None:
    words = (*WHOLE, "--data", market, "--out", "run")
    hold = tmp_path / "hold"
    hold.touch()
    first = start(*words, cwd=tmp_path, environment={"RUN_PLUGIN_HOLD": str(hold)})

    wait_for((tmp_path / "run" / "cards").exists, first.is_alive)

    line = error_line(ktdeval(*words, cwd=tmp_path))
    assert first.is_alive()
    assert (
        line
        == f"{tmp_path}/run: another process is running this run; wait for it or choose another --out"
    )

    hold.unlink()
    assert first.wait().code == 0
    assert records(tmp_path / "run") == records(whole)


def test_hidden_files_of_other_programs_stay_and_do_not_prevent_resuming(
    market: Path, run: Path, tmp_path: Path
) -> None:
    episode = next((run / "episodes").iterdir())
    ours = episode / ".ledger.parquet.x1y2"
    foreign = (run / "cards" / ".ipynb_checkpoints", episode / ".DS_Store")

    for path in (ours, foreign[1]):
        path.write_bytes(b"x")

    foreign[0].mkdir()

    assert ktdeval(*WHOLE, "--data", market, "--out", run, cwd=tmp_path).code == 0
    assert [path.exists() for path in (ours, *foreign)] == [False, True, True]


# -- disk full
# -------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_full_disk_is_reported_and_nothing_is_lost(
    market: Path, whole: Path, tmp_path: Path
) -> None:
    """A process whose files may not grow past a size stands for a full disk; at each size another
    write is the one that fails.
    """
    failed_at = set()

    for size in (0, 2_000, 20_000, 50_000, 90_000, 130_000):
        run = tmp_path / f"run-{size}"
        steps = 0
        words = (*WHOLE, "--data", market, "--out", run)
        for most in (size, size + 30_000):  # a little space becomes free in between
            done = ktdeval(*words, cwd=tmp_path, max_file_bytes=most)
            if done.code == 0:
                break

            line = error_line(done)
            assert "File too large" in line
            assert "free space" in line
            assert steps <= finished_steps(run)
            steps = finished_steps(run)
            failed_at.add((steps, "journal" in line))
            if "journal" in line:
                assert f"all {steps} finished records are kept" in line
                assert "run the same command again to resume" in line

        assert ktdeval(*words, cwd=tmp_path).code == 0
        assert_same(run, whole)

    assert len(failed_at) >= 4
    assert any(of_journal for _, of_journal in failed_at)


def test_a_card_that_does_not_fit_on_the_disk_leaves_the_old_one(run: Path, tmp_path: Path) -> None:
    before = (run / "cards" / f"{TASK}.json").read_bytes()
    line = error_line(ktdeval("score", run, cwd=tmp_path, max_file_bytes=3_000))

    assert f"{TASK}.json: can't write: File too large; free space or choose another folder" in line
    assert [path.name for path in (run / "cards").iterdir()] == [f"{TASK}.json"]
    assert (run / "cards" / f"{TASK}.json").read_bytes() == before


# -- records that are broken
# -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interrupted(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three episodes, killed after the fourth step of the first."""
    words = (*WHOLE, "--seeds", "3", "--data", market, "--out", "run")
    folder = tmp_path_factory.mktemp("interrupted")

    assert (
        ktdeval(*words, cwd=folder, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "3"}).code
        == -signal.SIGKILL
    )

    return folder / "run"


def odd_record(line: bytes) -> bytes:
    fields = json.loads(line)
    fields["step"]["positions"] = 5
    return json.dumps(fields).encode() + b"\n"


CORRUPT: dict[str, tuple[int, Callable[[list[bytes]], list[bytes]]]] = {
    "bytes": (2, lambda lines: [lines[0], b"\xff\xfe\x00\n", *lines[2:]]),
    "not json": (2, lambda lines: [lines[0], lines[1][: len(lines[1]) // 2] + b"\n", *lines[2:]]),
    "nan": (2, lambda lines: [lines[0], b'{"step":NaN}\n', *lines[2:]]),
    "not an object": (2, lambda lines: [lines[0], b"[1,2]\n", *lines[2:]]),
    "fields missing": (2, lambda lines: [lines[0], b'{"step":{"step":1}}\n', *lines[2:]]),
    "lost": (2, lambda lines: [lines[0], *lines[2:]]),
    "doubled": (3, lambda lines: [lines[0], lines[1], *lines[1:]]),
    "too many": (5, lambda lines: lines * (DAYS_IN_WINDOW // 2)),
    "odd record": (4, lambda lines: [*lines[:-1], odd_record(lines[-1])]),
}


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("how", CORRUPT)
def test_a_corrupt_journal_is_named_with_its_line_and_left_as_it_is(
    interrupted: Path, market: Path, tmp_path: Path, how: str
) -> None:
    place, damage = CORRUPT[how]
    run = copy_run(interrupted, tmp_path / "run")
    (journal,) = run.glob("episodes/*/journal.jsonl")
    journal.write_bytes(b"".join(damage(journal.read_bytes().splitlines(keepends=True))))
    before = journal.read_bytes()
    line = error_line(ktdeval(*WHOLE, "--seeds", "3", "--data", market, "--out", run, cwd=tmp_path))

    assert line.startswith("1 episode did not finish")
    assert (
        f"{journal}:{place}: the journal is corrupt here; delete the episode's folder to run it"
        " again" in line
    )
    assert journal.read_bytes() == before

    card = card_of(run)  # the others came to their end
    assert card["coverage"]["episodes_finished"] == 2
    assert "incomplete" in card["labels"]
    assert "the journal is corrupt here" in card["missing_episodes"][0]["error"]
    assert (
        how != "nan" or ktdeval("card", "verify", run, "--plugin", PLUGIN, cwd=tmp_path).code == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ledger.parquet", "transcript.jsonl.zst", "episode.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "folder"])
def test_a_broken_record_of_a_finished_run_is_one_line_for_every_command(
    run: Path, whole: Path, market: Path, tmp_path: Path, name: str, damage: str
) -> None:
    path = episodes(run)[0] / name
    path.unlink()

    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "folder":
        path.mkdir()

    for words in (("card", "verify", run), ("score", run)):
        done = ktdeval(*words, cwd=tmp_path)
        said = done.out if done.err == "" else error_line(done)
        assert done.code != 0
        # the reason, for it need not be the file that is wrong
        assert damage != "folder" or "Is a directory" in said

    if damage == "gone":
        done = ktdeval(*WHOLE, "--data", market, "--out", run, cwd=tmp_path)
        if name == "episode.json":  # not known to be complete: run anew
            assert done.code == 0
            assert records(run) == records(whole)
        else:
            error_line(done)


@pytest.mark.exhaustive
def test_a_broken_manifest_is_one_line_for_every_command(
    run: Path, whole: Path, market: Path, tmp_path: Path
) -> None:
    without_market = dumps_pretty(
        {**json.loads((run / "manifest.json").read_text()), "snapshot": ""}
    )

    for text in (
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 99, "episodes": []}',
        "\x00",
        without_market,
    ):
        (run / "manifest.json").write_text(text)
        for words in (
            ("score", run),
            ("card", "verify", run),
            (*WHOLE, "--data", market, "--out", run),
        ):
            assert "manifest.json" in error_line(ktdeval(*words, cwd=tmp_path))

    assert records(run) == records(whole)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": NaN}',
        "null",
        "\x00",
        '{"schema_version": 1}',
        pytest.param("[" * 100_000, id="100,000 levels"),
    ],
)
@pytest.mark.parametrize("words", ["show", "verify --card-only", "verify"])
def test_a_file_that_is_no_card_is_one_line_for_every_command(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "card.json").write_text(text)
    assert "card.json" in error_line(ktdeval("card", *words.split(), "card.json", cwd=tmp_path))


# -- plugins
# ---------------------------------------------------------------------------------------------------------

HEAD = (
    "from ktdeval.api import Spec, hookimpl, MetricValue\nfrom ktdeval.errors import StoreError\n"
)


MAKER = "def make(name):\n    raise RuntimeError('no\\nkey')\n"


def remote(changed: str) -> str:
    """Return remote model, one member of which is changed."""
    members = f"""
    provider = name = endpoint = "odd"
    protocols, price_table = ("native",), None
    reply = connect = lambda *_: None
    settings, secrets = lambda self: {{}}, lambda self: ()
    {changed}
"""
    return (
        f"{HEAD}class Odd:{members}@hookimpl\ndef ktdeval_models():\n    return [Spec('odd/one',"
        " lambda name: Odd(), 'odd')]\n"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "no such file; give a .py file, a package folder or a module name"),
        ("def broken(:\n", "can't be imported: SyntaxError"),
        (
            f"{HEAD}@hookimpl\ndef ktdeval_models():\n    return 1 / 0\n",
            "ktdeval_models: ZeroDivisionError: division by zero",
        ),
        (
            f"{HEAD}def tasks():\n    return []\n",
            "offers nothing: it has no hook; give it one, such as ktdeval_tasks marked with @hookimpl",
        ),
        (
            (
                f"{HEAD}{MAKER}@hookimpl\ndef ktdeval_models():\n    return [Spec('odd/one', make,"
                " 'odd')]\n"
            ),
            "RuntimeError: no key",
        ),
        (
            remote("connect = lambda self: open('/nowhere')"),
            "model odd/one of plugin broken: FileNotFoundError: [Errno 2]",
        ),
        (
            remote("settings = lambda self: {'a': float('nan')}"),
            "settings() must be a mapping of plain JSON: ValueError",
        ),
        (remote("secrets = lambda self: 'one key'"), "secrets() must be a tuple of texts, was str"),
        (
            remote("unit = property(lambda self: 1 / 0); name = unit"),
            "broken: name of Odd: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_plugin_that_is_broken_is_named(
    market: Path, tmp_path: Path, source: str | None, message: str
) -> None:
    if source is not None:
        (tmp_path / "broken.py").write_text(source)

    words = (
        "--plugin",
        "./broken.py",
        "--model",
        "odd/one",
        "--tasks",
        TASK,
        "--data",
        market,
        "--windows",
        WINDOW,
    )
    line = refused(tmp_path, *words)

    assert message in line
    assert "broken" in line


@pytest.mark.slow
def test_model_defect_fails_its_episode_in_one_line_and_resumes_once_fixed(
    market: Path, whole: Path, tmp_path: Path
) -> None:
    words = (*WHOLE, "--data", market, "--out", tmp_path / "run")
    done = ktdeval(*words, cwd=tmp_path, environment={"RUN_PLUGIN_DEFECT_AT_CALL": "9"})
    line = error_line(done)

    assert done.code == 1
    assert "ZeroDivisionError: a defect of the model (run_plugin.py:" in line
    assert "); correct that code, and resume" in line
    assert "run the same command again" not in line
    assert finished_steps(tmp_path / "run") > 0
    assert ktdeval(*words, cwd=tmp_path).code == 0
    assert records(tmp_path / "run") == records(whole)


@pytest.mark.slow
@pytest.mark.sampled(4)
@on_each_row(
    "body, ends, message",
    (
        "1 / 0",
        [None, None],
        "metric 'odd' of plugin odd can't be computed: ZeroDivisionError: division by zero",
    ),
    ("float('nan')", [0.0, 1.0], "can't be computed: ValueError: a metric's value must be finite"),
    (
        "1.0, -1",
        [None, None],
        "metric 'odd' of plugin odd: n must be a count of observations, was -1",
    ),
    (
        "None, 1, ''",
        [None, None],
        (
            "can't be computed: ValueError: a metric needs either a value or the reason why it "
            "has none"
        ),
    ),
    (
        "1.0, 1, None, {1, 2}",
        [None, None],
        "plugin odd: its reason and detail must be plain JSON: TypeError: Object of type set",
    ),
    (
        "ledger.nav.sort() or ledger.nav[0], 1",
        [None, None],
        "can't be computed: ValueError: sort array is read-only",
    ),
    (
        "1.25",
        [0.0, 1.0],
        (
            "metric 'odd' of plugin odd: 1.25 lies outside its range 0.0 … 1.0; fix the "
            "metric, or the range"
        ),
    ),
    ("-2", [-1, None], "metric 'odd' of plugin odd: -2 lies outside its range -1 … inf"),
    (
        "ledger.steps.pop()",
        [None, None],
        "can't be computed: AttributeError: 'tuple' object has no attribute 'pop'",
    ),
)
def test_a_defect_of_a_metric_is_one_line_and_loses_no_record(
    market: Path, whole: Path, tmp_path: Path, body: str, ends: list[object], message: str
) -> None:
    (tmp_path / "odd.py").write_text(
        f"{HEAD}class Odd:\n    name = formula = unit = source = 'odd'\n    better = 'higher'\n   "
        f" headline = False\n    range = {tuple(ends)}\n    def compute(self, ledger, market,"
        " rules):\n        return"
        f" MetricValue({body}{'' if ',' in body else ', 1'})\n@hookimpl\ndef ktdeval_metrics():\n  "
        "  return [Spec('odd', Odd, 'odd')]\n"
    )
    words = (
        *WHOLE,
        "--data",
        market,
        "--out",
        tmp_path / "run",
        "--plugin",
        "./odd.py",
        "--metrics",
        "odd",
    )

    assert message in error_line(ktdeval(*words, cwd=tmp_path))
    assert records(tmp_path / "run") == records(whole)
    assert ktdeval(*WHOLE, "--data", market, "--out", tmp_path / "run", cwd=tmp_path).code == 0

    assert_same(tmp_path / "run", whole)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("None", "run() must return the results of execute() for all episodes,"),
        ("[]", "run() must return the results of execute() for all episodes,"),
        ("[one] * 2", "run() must return the results of execute() for all episodes,"),
    ],
)
def test_a_backend_that_fails_or_gives_other_outcomes_is_named(
    market: Path, tmp_path: Path, given: str, message: str
) -> None:
    (tmp_path / "odd.py").write_text(
        f"{HEAD}class Odd:\n    def run(self, specs, execute, concurrency):\n        one ="
        f" execute(specs[0])\n        return {given}\n@hookimpl\ndef ktdeval_runners():\n   "
        " return [Spec('odd', Odd, 'odd')]\n"
    )
    words = (*MOMENTUM, "--limit", "1", "--windows", WINDOW, "--data", market)
    words += ("--plugin", "odd.py", "--runner", "odd", "--out", "run", "--quiet")
    done = ktdeval(*words, cwd=tmp_path)

    assert done.code == 2
    assert f"runner odd of plugin odd: {message}" in error_line(done)


@pytest.mark.slow
def test_failing_observer_plugin_is_dropped_with_a_warning(
    market: Path, whole: Path, tmp_path: Path
) -> None:
    (tmp_path / "watch.py").write_text(
        f"{HEAD}@hookimpl\ndef ktdeval_event(event):\n    raise RuntimeError('blind')\n"
    )
    done = ktdeval(
        *WHOLE, "--plugin", "./watch.py", "--data", market, "--out", tmp_path / "run", cwd=tmp_path
    )

    assert done.code == 0
    assert (
        done.err
        == "ktdeval: warning: plugin watch receives no further events: ktdeval_event: RuntimeError:"
        " blind (watch.py:5)\n"
    )
    assert records(tmp_path / "run") == records(whole)


def test_a_model_that_leaves_the_folder_takes_no_record_with_it(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(
        f"{HEAD}import os\nfrom ktdeval.api import ModelTraits, QATask, Reply\nclass Leaves:\n"
        "    traits = ModelTraits(is_free=True)\n    def reply(self, request):\n        os.chdir('/')\n        return"
        " Reply('?')\n@hookimpl\ndef ktdeval_models():\n    return [Spec('leaves', lambda name:"
        " Leaves(), 'leaves')]\n@hookimpl\ndef ktdeval_tasks():\n    return [QATask([{'question':"
        " '?'}] * 2, lambda *_: 0, name='asked').spec()]\n"
    )
    words = (
        "--model",
        "leaves/x",
        "--tasks",
        "asked",
        "--plugin",
        "./leaves.py",
        "--out",
        "run",
        "--seeds",
        2,
        "--quiet",
    )
    done = ktdeval(*map(str, words), cwd=tmp_path)

    assert (done.code, done.err) == (0, "")

    plugin = " --plugin ./leaves.py\n"  # without which neither knows the task
    assert done.out.endswith(
        f"verify  ktdeval card verify run/cards/asked.json{plugin}score   ktdeval score run{plugin}"
    )
    assert len(list(tmp_path.glob("run/episodes/*/answers.jsonl.zst"))) == 2


@on_each_row(
    "reply, problem",
    ("None", "the model gave None, which is not a ktdeval.api.Reply"),
    (
        "Reply(tool_calls=({'name': 'x'},))",
        "has tool calls that are not a tuple of ToolCall: ({'name': 'x'},)",
    ),
    (
        "Reply(tool_calls=(ToolCall('1', 'x', {}),))",
        "has {} where a text is expected; arguments of a ToolCall are JSON text",
    ),
    (
        "Reply(finish_reason='done')",
        "reply ended with 'done', expected one of stop, tool_calls, length",
    ),
    ("json.loads('{')", "(gives.py:8)"),
    ("sys.exit()", "SystemExit: no message (gives.py:8)"),
    ("(_ for _ in 'x').throw(asyncio.CancelledError('gone'))", "CancelledError: gone (gives.py:8)"),
    (
        "Reply('', ToolCall('1', 'x', '{}'))",
        "has tool calls that are not a tuple of ToolCall: ToolCall(id='1'",
    ),
    ("Reply('', None)", "has tool calls that are not a tuple of ToolCall: None"),
    (
        "Reply(usage={'input_tokens': 3})",
        "has a usage that is not a ktdeval.harness.Usage: {'input_tokens': 3}",
    ),
    ("len(request.messages, 1)", "(gives.py:8)"),
    (
        "__import__('ktdeval.values.documents.strict_json').values.strict_json.loads_untrusted({})",
        "(gives.py:8)",
    ),
)
def test_a_model_that_returns_no_reply_gets_an_error_that_describes_one(
    tmp_path: Path, reply: str, problem: str
) -> None:
    (tmp_path / "gives.py").write_text(
        f"{HEAD}import asyncio, json, sys\nfrom ktdeval.api import ModelTraits, QATask, Reply,"
        " ToolCall\nclass Gives:\n    traits, name = ModelTraits(is_free=True), 'gives/x'\n    def reply(self,"
        f" request):\n        return {reply}\n@hookimpl\ndef ktdeval_models():\n    return"
        " [Spec('gives', lambda name: Gives(), 'gives')]\n@hookimpl\ndef ktdeval_tasks():\n   "
        " return [QATask([{'question': '?'}], lambda *_: 0, name='asked').spec()]\n"
    )
    words = ("--model", "gives/x", "--tasks", "asked", "--plugin", "./gives.py")

    assert problem in error_line(ktdeval(*words, "--out", "run", "--quiet", cwd=tmp_path))
