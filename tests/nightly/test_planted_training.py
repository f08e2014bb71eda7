"""Training of language models with a known memory: equal bytes from a seed, NumPy's answers those of
torch, and a memory that masks hide. Skips where the extra `planted` is not installed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[planted]'")

from planted_memory import main as print_tables  # noqa: E402

from ktdeval.registry import load_plugins  # noqa: E402
from ktdeval.testing import Terminal  # noqa: E402
from ktdeval_models.planted.facts import FactSource, PlantedFacts, gather_facts  # noqa: E402
from ktdeval_models.planted.params import model_folder  # noqa: E402
from ktdeval_models.planted.planted_files import DESCRIPTION, WEIGHTS, read_planted  # noqa: E402
from ktdeval_models.planted.recall import recall_of  # noqa: E402
from ktdeval_models.planted.reduced_text import (  # noqa: E402
    FIRST_ANSWER,
    LINE,
    Sizes,
    tokens_of,
)
from ktdeval_models.planted.training import Settings, _Network, snapshots  # noqa: E402
from ktdeval_models.planted.transformer import Shape, Transformer  # noqa: E402

PLUGINS = load_plugins()
WINDOW = "2024-03-01:2024-03-29"
SHAPE = Shape(width=64, layers=2, heads=4)
MOST = 128


def facts_of(task: str, market: Path) -> PlantedFacts:
    return gather_facts(FactSource(task, (WINDOW,), days=3, data=str(market)), PLUGINS)


def trained(
    facts: PlantedFacts, exposures: tuple[int, ...], seed: int = 0
) -> dict[int, Transformer]:
    sizes = Sizes.of(facts.returns)
    settings = Settings(exposures, seed, shape=SHAPE)
    return dict(snapshots(tokens_of(facts.lines), sizes.answers(facts.returns), settings))


def test_numpy_completes_lines_as_torch_does() -> None:
    torch.manual_seed(1)
    network = _Network(Shape())
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.1)

    lines = torch.randint(0, FIRST_ANSWER, (300, LINE))
    answers = network(lines)[:, FIRST_ANSWER:].softmax(dim=-1).detach().numpy()
    own = network.transformer().answers(lines.numpy())

    assert answers.std() > 0.01
    np.testing.assert_allclose(own, answers, atol=1e-6)


def test_one_seed_gives_equal_bytes_and_another_one_others(market: Path) -> None:
    facts = facts_of("bright_fixed_candidate", market)
    first, again, other = (trained(facts, (2,), seed)[2].to_bytes() for seed in (5, 5, 6))

    assert first == again
    assert first != other


def test_what_is_known_after_few_exposures_is_what_a_short_training_knows(market: Path) -> None:
    facts = facts_of("bright_fixed_candidate", market)
    long = trained(facts, (0, 1, 2))
    short = trained(facts, (1,))

    assert list(long) == [0, 1, 2]
    assert long[1].to_bytes() == short[1].to_bytes() != long[2].to_bytes()


def test_threads_and_chance_of_the_process_stay_as_they_were(market: Path) -> None:
    before = (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled())
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    trained(facts_of("bright_fixed_candidate", market), (1,))

    assert torch.equal(torch.rand(3), expected)
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_what_was_read_often_is_remembered_and_a_mask_hides_it(market: Path) -> None:
    """Three standard errors of a coin: nobody who knows nothing is right so often."""
    bright = facts_of("bright_fixed_candidate", market)
    blinded = facts_of("blinded_fixed_candidate", market)
    networks = trained(bright, (0, MOST))
    chance = max(recall_of(networks[0], bright).risen / len(bright.lines), 0.5)
    far = chance + 3 * 0.5 / len(bright.lines) ** 0.5

    assert recall_of(networks[0], bright).share < far
    assert recall_of(networks[MOST], bright).share > 0.9 > far
    assert recall_of(networks[MOST], blinded).share < far


def test_the_command_trains_stores_and_goes_on(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    words = ("train", "memory", "--data", market, "--windows", WINDOW, "--days", 2, "--width", 16)
    words = (*words, "--layers", 1, "--exposures", "0,3", "--seeds", 2, "--out", tmp_path / "out")
    first = terminal.out(*words)
    folders = [model_folder(tmp_path / "out", *each) for each in ((0, 0), (3, 0), (0, 1), (3, 1))]
    written = {folder: (folder / WEIGHTS).read_bytes() for folder in folders}

    assert len(set(written.values())) == 4
    assert [str(folder) in first for folder in folders] == [True] * 4
    assert read_planted(folders[1]).content.exposures == 3

    (folders[3] / DESCRIPTION).unlink()
    again = terminal.out(*words)

    assert {folder: (folder / WEIGHTS).read_bytes() for folder in folders} == written
    assert [line.split()[:4] for line in again.splitlines()] == [
        line.split()[:4] for line in first.splitlines()
    ]


def test_a_run_of_a_trained_model_is_verified_without_it(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    out = tmp_path / "out"
    words = ("--data", market, "--windows", WINDOW)
    terminal.out(
        *("train", "memory", *words, "--days", 2, "--width", 16, "--layers", 1),
        *("--exposures", "2", "--out", out),
    )
    run = tmp_path / "run"
    terminal.out(
        *("--model", "planted/memory", "--model-args", f"trained={out},exposures=2", *words),
        *("--tasks", "blinded_fixed_candidate", "--limit", 2, "--out", run, "--quiet"),
    )
    for path in model_folder(out, 2, 0).iterdir():
        path.unlink()

    card = run / "cards" / "blinded_fixed_candidate.json"
    terminal.out("card", "verify", card)


def test_the_benchmark_prints_recall_by_mask_and_the_premium(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(capsys)
    out = tmp_path / "out"
    terminal.out(
        *("train", "memory", "--windows", "W1", "--days", 1, "--width", 16, "--layers", 1),
        *("--exposures", "0,1", "--seeds", 2, "--out", out),
    )
    monkeypatch.setattr("sys.argv", ["planted_memory.py", str(out)])
    print_tables()
    printed = capsys.readouterr().out

    assert "2 seeds" in printed
    assert "| exposures | bright | date_blind | stock_blind | blinded | no key |" in printed
    assert "| exposures | signs right | bright | blinded | premium |" in printed
    assert [
        line[:4] for line in printed.splitlines() if line[:2] == "| " and line[2].isdigit()
    ] == [
        "| 0 ",
        "| 1 ",
        "| 0 ",
        "| 1 ",
    ]
