"""`planted/memory` without torch: its text, its network, its files, its facts and its orders."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal, errors_of, small_market
from ktdeval.values import install_command
from ktdeval_models.planted.facts import FactSource, PlantedFacts, gather_facts
from ktdeval_models.planted.params import PlantedParams
from ktdeval_models.planted.planted_files import DESCRIPTION, WEIGHTS, read_planted
from ktdeval_models.planted.planted_model import PlantedModel
from ktdeval_models.planted.recall import recall_of
from ktdeval_models.planted.reduced_text import (
    FIRST_ANSWER,
    LINE,
    Sizes,
    line_of,
    tokens_of,
)
from ktdeval_models.planted.transformer import Shape, Transformer
from planted_models import SHAPE, SIZES, network, store
from support.tasks.ktdfin_play import Play

PLUGINS = load_plugins()
WINDOW = "2024-03-01:2024-03-29"


# ---- the text


@pytest.mark.parametrize(
    ("label", "day", "figures", "line"),
    [
        ("009161.SZ", "2024-04-01", (0.9467, 10.04), "009161.SZ 2024-04-01 +0.95 +10 >"),
        ("asset_0007", "day_+3", (-0.4, None), "asset_0007 day_+3 -0.4 ~ >"),
        ("609524.SH", "2024-04-01", (-12.3, 123.4), "609524.SH 2024-04-01 -12 +123 >"),
    ],
)
def test_a_line_has_label_day_and_figures_as_the_prompt_shows_them(
    label: str, day: str, figures: tuple[float | None, ...], line: str
) -> None:
    cells = dict(zip(("return_1d_pct", "return_20d_pct"), figures, strict=True))
    assert line_of(label, day, cells) == line


def test_what_no_vocabulary_has_is_one_token_and_a_long_line_keeps_its_end() -> None:
    (strange,) = tokens_of(["股"])
    assert strange[-1] == 1

    (cut,) = tokens_of(["b" * LINE + "a"])
    (end,) = tokens_of(["b" * (LINE - 1) + "a"])
    np.testing.assert_array_equal(cut, end)


def test_sizes_are_thirds_of_falls_and_of_rises() -> None:
    returns = np.array([-0.06, -0.04, -0.02, 0.01, 0.03, 0.05])
    sizes = Sizes.of(returns)

    np.testing.assert_allclose(sizes.means, returns)
    assert list(sizes.answers(returns) - FIRST_ANSWER) == [0, 1, 2, 3, 4, 5]
    assert list(sizes.answers(np.array([-1e-9, 1e-9])) - FIRST_ANSWER) == [2, 3]


def test_returns_that_leave_a_size_empty_are_refused() -> None:
    assert errors_of(
        lambda returns: Sizes.of(np.array(returns)),
        [],
        [0.01, 0.02, 0.03],
        [-0.03, -0.02, -0.01],
        [-0.03, -0.03, -0.03, 0.01, 0.02, 0.03],
    ) == snapshot("""\
DataError: 0 falls and 0 rises: these returns can't be split into 3 sizes of falls and 3 of rises; raise --days
DataError: 0 falls and 3 rises: these returns can't be split into 3 sizes of falls and 3 of rises; raise --days
DataError: 3 falls and 0 rises: these returns can't be split into 3 sizes of falls and 3 of rises; raise --days
DataError: 3 falls and 3 rises: these returns can't be split into 3 sizes of falls and 3 of rises; raise --days
""")


# ---- the network


def test_one_layer_is_what_its_formulas_say() -> None:
    """Worked in float64, a token at a time, from the papers' formulas."""
    shape = Shape(width=4, layers=1, heads=2)
    chance = np.random.default_rng(5)
    weights = {}
    for name, dimensions in shape.weights():
        weights[name] = chance.normal(0, 0.4, dimensions).astype(np.float32)

    tokens = chance.integers(2, FIRST_ANSWER, (1, LINE))
    expected = completed_by_hand(weights, tokens[0])
    answers = Transformer(shape, weights).answers(tokens)

    np.testing.assert_allclose(answers[0], expected, atol=1e-6)


def completed_by_hand(weights: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """Probabilities of the answers, of one layer of width 4 with two heads."""

    def normed(state: np.ndarray, name: str) -> np.ndarray:
        scaled = (state - state.mean()) / np.sqrt(state.var() + 1e-5)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(state: np.ndarray, name: str) -> np.ndarray:
        return weights[f"{name}.weight"].astype(float) @ state + weights[f"{name}.bias"]

    states = [
        weights["token"][token].astype(float) + weights["place"][place]
        for place, token in enumerate(tokens)
    ]
    parts = [linear(normed(state, "0.norm_in"), "0.attend") for state in states]
    read = []
    for head in (slice(0, 2), slice(2, 4)):
        query = parts[-1][0:4][head]
        scores = np.array([query @ part[4:8][head] for part in parts]) / np.sqrt(2)
        shares = np.exp(scores) / np.exp(scores).sum()
        read.append(
            sum(share * part[8:12][head] for share, part in zip(shares, parts, strict=True))
        )

    state = states[-1] + linear(np.concatenate(read), "0.mix")
    wide = linear(normed(state, "0.norm_out"), "0.widen")
    gelu = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    state = state + linear(gelu, "0.narrow")
    scores = weights["token"][FIRST_ANSWER:] @ normed(state, "norm")
    powers = np.exp(scores)

    return powers / powers.sum()


def test_a_line_is_completed_alike_whatever_else_is_asked() -> None:
    lines = tokens_of([f"00{number:04d}.SZ 2024-04-01 +1 +2 >" for number in range(300)])
    together = network().answers(lines)
    np.testing.assert_allclose(network().answers(lines[7:8])[0], together[7], atol=1e-6)
    np.testing.assert_allclose(together.sum(axis=1), 1, atol=1e-6)
    assert together.std(axis=0).min() > 1e-4


def test_weights_come_back_from_their_bytes() -> None:
    data = network(3).to_bytes()
    assert len(data) == 4 * SHAPE.size
    assert Transformer.of_bytes(SHAPE, data).to_bytes() == data


# ---- files


def edited(old: str, new: str) -> object:
    """A damage to a model's folder: another text in its description."""

    def damage(folder: Path) -> None:
        path = folder / DESCRIPTION
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return damage


def swapped(data: bytes) -> object:
    def damage(folder: Path) -> None:
        (folder / WEIGHTS).write_bytes(data)

    return damage


def rehashed(weights: np.ndarray) -> object:
    """Other weights, with a description that names them."""

    def damage(folder: Path) -> None:
        from ktdeval.values import sha256_hex

        data = weights.astype("<f4").tobytes()
        stated = read_planted(folder).content.weights
        (folder / WEIGHTS).write_bytes(data)
        edited(stated, sha256_hex(data))(folder)

    return damage


def test_a_damaged_model_is_refused_in_one_line(tmp_path: Path) -> None:
    def read_after(damage: Callable[[Path], object]) -> None:
        shutil.rmtree(tmp_path)
        folder = store(tmp_path)
        damage(folder)
        read_planted(folder)

    assert errors_of(
        read_after,
        lambda folder: (folder / DESCRIPTION).unlink(),
        lambda folder: (folder / WEIGHTS).unlink(),
        swapped(b"\x80\x04."),
        swapped(bytes(4 * SHAPE.size + 1)),
        rehashed(np.zeros(SHAPE.size - 1)),
        rehashed(np.full(SHAPE.size, np.nan)),
        edited('"heads":4', '"heads":3'),
        edited('"width":16', '"width":99999'),
        edited('"bounds":[-0.02,', '"bounds":['),
        edited('"return_20d_pct"', '"RV_60"'),
        edited("ktdeval-planted/1", "ktdeval-planted/2"),
        folder=tmp_path,
    ) == snapshot("""\
DataError: FOLDER/exposures-64/seed-0/planted.json: can't be read: No such file or directory; make one with `ktdeval train memory`
DataError: FOLDER/exposures-64/seed-0/weights.f32: can't be read: No such file or directory; train the model again
DataError: FOLDER/exposures-64/seed-0/weights.f32: SHA-256 is 99886788535d…, planted.json has 5eb4ccc0cb12…; train the model again
DataError: FOLDER/exposures-64/seed-0/weights.f32: can't be read: has more than 41152 bytes; train the model again
DataError: FOLDER/exposures-64/seed-0/weights.f32: 10,287 weights, expected 10,288; train the model again
DataError: FOLDER/exposures-64/seed-0/weights.f32: a weight is not finite; train the model again
DataError: FOLDER/exposures-64/seed-0/planted.json: 3 heads don't divide a width of 16; train the model again
DataError: FOLDER/exposures-64/seed-0/planted.json: width: expected `int` <= 1024
DataError: FOLDER/exposures-64/seed-0/planted.json: sizes need 5 bounds and 6 means; train the model again
DataError: FOLDER/exposures-64/seed-0/planted.json: its lines show return_1d_pct, RV_60, here return_1d_pct, return_20d_pct; train the model again
DataError: FOLDER/exposures-64/seed-0/planted.json: format: invalid enum value 'ktdeval-planted/2'
""")


# ---- facts


def facts_of(task: str, market: Path, **options: object) -> PlantedFacts:
    return gather_facts(FactSource(task, (WINDOW,), data=str(market), **options), PLUGINS)


def test_a_fact_is_a_shown_candidate_and_the_return_from_its_fill(market: Path) -> None:
    known = small_market()
    facts = facts_of("bright_fixed_candidate", market, days=3, horizon=2)
    opens = known.adjusted_open

    assert len(facts.lines) == len(facts.keys) == len(facts.returns) > 30
    for line, (asset, row), change in zip(facts.lines, facts.keys, facts.returns, strict=True):
        assert line.startswith(f"{known.codes[asset]} {known.days[row]} ")
        assert change == opens[row + 3, asset] / opens[row + 1, asset] - 1

    assert len({row for _, row in facts.keys}) == 3


def test_behind_a_mask_the_same_facts_have_other_labels_and_days(market: Path) -> None:
    seen = facts_of("bright_fixed_candidate", market, days=2)
    hidden = facts_of("blinded_fixed_candidate", market, days=2)
    returns = dict(zip(seen.keys, seen.returns, strict=True))

    assert dict(zip(hidden.keys, hidden.returns, strict=True)) == returns
    lines = dict(zip(seen.keys, seen.lines, strict=True))
    for key, line in zip(hidden.keys, hidden.lines, strict=True):
        label, day, *figures = line.split()
        assert label.startswith("asset_")
        assert day.startswith("day_")
        assert figures == lines[key].split()[2:]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("bright_memory_only", "shows no candidates"),
        ("deanon_probe", "asks questions"),
    ],
)
def test_tasks_without_candidates_have_no_facts(task: str, message: str, market: Path) -> None:
    with pytest.raises(UsageError, match=message):
        facts_of(task, market, days=1)


def test_recall_counts_the_signs_that_the_network_gives(market: Path) -> None:
    facts = facts_of("bright_fixed_candidate", market, days=2)
    rises = network().answers(tokens_of(facts.lines))[:, 3:].sum(axis=1) > 0.5
    recall = recall_of(network(), facts)

    assert recall.facts == len(facts.lines)
    assert recall.risen == int((facts.returns > 0).sum())
    assert recall.right == sum(rises == (facts.returns > 0))
    assert 0 < recall.share < 1


@pytest.mark.parametrize("task", ["bright_fixed_candidate", "blinded_fixed_candidate"])
def test_it_holds_what_its_network_expects_most_of(task: str, tmp_path: Path) -> None:
    store(tmp_path)
    model = PlantedModel("memory", PlantedParams(trained=str(tmp_path), positions=4))
    play = Play(PLUGINS.make_task(task), model, small_market())
    state = play.session(0)[0].state
    (record,) = play.run(1)

    lines = [line_of(label, state.day, each.cells) for label, each in state.candidates.items()]
    expected = network().answers(tokens_of(lines)) @ np.array(SIZES.means)
    order = np.argsort(-expected)
    labels = [list(state.candidates)[place] for place in order]
    trading = [each for each in labels if state.candidates[each].cells["status"] == "trading"]
    codes = [small_market().codes[play.scene.lens.parse_asset(each)] for each in trading[:4]]

    assert record.provenance == "model"
    assert [order.code for order in record.orders] == codes


# ---- the model


def test_what_ranks_low_or_is_no_candidate_any_more_is_sold(tmp_path: Path) -> None:
    store(tmp_path)
    model = PlantedModel("memory", PlantedParams(trained=str(tmp_path), positions=4, keep_rank=4))
    records = Play(PLUGINS.make_task("bright_fixed_candidate"), model, small_market()).run(6)
    orders = list(chain.from_iterable(record.orders for record in records))

    assert {order.side for order in orders} == {"BUY", "SELL"}
    assert all(len(record.orders) <= 8 for record in records)


def test_it_names_the_command_that_makes_a_missing_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no model; make it: ktdeval train memory"):
        PlantedModel("memory", PlantedParams(trained=str(tmp_path)))


def test_a_run_records_which_model_it_was_and_holds_others_to_it(tmp_path: Path) -> None:
    store(tmp_path)
    model = PlantedModel("memory", PlantedParams(trained=str(tmp_path)))
    pinned = model.traits.recorded_args["sha256"]
    assert PlantedModel("memory", PlantedParams(trained=str(tmp_path), sha256=pinned))

    with pytest.raises(UsageError, match=f"sha256 is {pinned}, not ffff"):
        PlantedModel("memory", PlantedParams(trained=str(tmp_path), sha256="f" * 64))


def test_a_task_that_it_can_not_act_on_is_refused_before_the_run(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    store(tmp_path)
    words = (
        *("--model", "planted/memory", "--model-args", f"trained={tmp_path}"),
        *("--windows", WINDOW, "--data", market, "--out", tmp_path / "run"),
    )
    tasks = ("bright_memory_only", "deanon_probe")
    errors = [terminal.error(*words, "--tasks", task) for task in tasks]

    assert "".join(errors) == snapshot("""\
ktdeval: error: planted/memory needs a table of candidates in the prompt, with return_1d_pct and return_20d_pct; task bright_memory_only shows account, constraints, positions, universe and offers no research tools; models that fit: builtin/first_listed, builtin/hold, builtin/memory, builtin/random, builtin/trivial
ktdeval: error: planted/memory trades, and needs a task that shows an account and takes orders; task deanon_probe asks questions and does not accept orders; models that fit: builtin/memory, builtin/trivial
""")


# ---- the command


def test_training_without_torch_names_the_extra(
    market: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.delitem(sys.modules, "ktdeval_models.planted.training", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    words = ("--data", market, "--windows", WINDOW, "--days", 1, "--out", tmp_path / "out")
    error = terminal.error("train", "memory", *words)
    assert f"training: torch is not installed: {install_command('planted')}" in error


def test_wrong_numbers_are_refused_before_the_market_is_opened(terminal: Terminal) -> None:
    options = (
        ("--exposures", "1,many"),
        ("--exposures", "99999"),
        ("--exposures", ""),
        ("--width", "30"),
    )
    errors = [
        terminal.error("train", "memory", *each, "--data", "no such folder") for each in options
    ]

    assert "".join(errors) == snapshot("""\
ktdeval: error: --exposures '1,many': 'many' is not a whole number up to 10,000; give numbers such as 0,1,4,16,64
ktdeval: error: --exposures '99999': '99999' is not a whole number up to 10,000; give numbers such as 0,1,4,16,64
ktdeval: error: --exposures '': '' is not a whole number up to 10,000; give numbers such as 0,1,4,16,64
ktdeval: error: --width 30: give a multiple of 4, such as 160
""")


def test_a_folder_of_another_training_is_not_taken_for_this_one(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    folder = store(tmp_path / "out", exposures=1)
    error = terminal.error(
        *("train", "memory", "--data", market, "--windows", WINDOW, "--days", 1),
        *("--exposures", "0,1", "--out", tmp_path / "out"),
    )
    assert f"{folder}: holds a model of another training" in error
