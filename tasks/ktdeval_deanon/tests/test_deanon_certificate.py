"""The certificate of a mask: attackers on the actual payloads, the bound, which cards it covers,
and its verification.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click import BadParameter
from click.testing import CliRunner
from inline_snapshot import snapshot
from statsmodels.stats.proportion import proportion_confint

from ktdeval import errors
from ktdeval.cards.card_reading import (
    attached_block,
    load_card,
    load_evaluation,
    validate_card,
)
from ktdeval.cards.fields.knowledge.certificate import NOTHING_HIDDEN
from ktdeval.cards.fields.origin.fact_types import NOT_GIVEN
from ktdeval.cards.show import card_lines, plain_text
from ktdeval.errors import CardError, KtdevalError, StoreError, UsageError, VerificationError
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate, rescore, verify_card
from ktdeval.runner.estimate import estimate_run
from ktdeval.runner.records.episode_journal import pack_lines
from ktdeval.runner.records.run_file_names import ANSWERS, TRANSCRIPT
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.trading_task import describe_task
from ktdeval.testing import not_empty, on_each_row, small_market, text_of
from ktdeval.values import dumps_pretty, file_sha256, from_plain, sha256_hex, to_plain
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.commands.import_external import import_file as on_board
from ktdeval_board.init import NewBoard, init_board
from ktdeval_deanon.certificate import certificate_tables
from ktdeval_deanon.certificate.card import (
    EXACT_MATCHER,
    NO_ANSWER,
    NO_CONTROL,
    NO_MODEL,
    build_certificate,
    covered_by,
)
from ktdeval_deanon.certificate.certificate_tables import certificate_rows
from ktdeval_deanon.certificate.certify import CertifyConfig, certify
from ktdeval_deanon.certificate.command import certify as command
from ktdeval_deanon.certificate.positive_control import control_share
from ktdeval_deanon.certificate.questions import (
    ProbeChoice,
    blank_answer,
    find_scoring_task,
    open_questions,
)
from ktdeval_deanon.certificate.types import Certificate
from ktdeval_deanon.certificate.unmasked_probes import control_tally
from support.json_places import with_value
from support.paths import SUPPORT
from support.runs.forging import change_transcript, edit_json

TASK = "blinded_open_research"
PROBE_TASK = "deanon_probe"
MARCH = "2024-03-01:2024-03-29"
PROBES = 8
BRIGHT = "deanon_probe_bright"
# of which no day and no industry is asked about more than twice: 8 right answers show reading
KEY = "0" * 31 + "4"

Card = dict[str, Any]


def tupled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with lists of a table made tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }


class Environment:
    """A stored market, the plugins of an attack, and folders for what is made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "market"
        save_snapshot(replace(small_market(), id=""), self.data)
        self.snapshot = load_snapshot(self.data)
        self.plugins = load_plugins(
            ["ktdeval_deanon", str(SUPPORT / "masking" / "deanon_plugin.py")]
        )
        self.attack = cache(self._attack)

    def config(self, **changes: Any) -> CertifyConfig:
        return replace(
            CertifyConfig(TASK, data=str(self.data), windows=(MARCH,), probes=PROBES, mask_key=KEY),
            **changes,
        )

    def certify(self, **changes: Any) -> Card:
        return certify(
            self.config(**tupled(changes)), self.plugins, lambda *_: None
        ).certificate.plain

    def block(self, certificate: Card | None, task: Card | None = None, snapshot: str = "") -> Card:
        """What a trading card says of a certificate."""
        task = self.card_task() if task is None else task
        attached = None if certificate is None else validate_card(certificate)
        block = attached_block(
            task["mask"], task["config"], snapshot or self.snapshot.id, attached, self.plugins
        )

        return to_plain(block)

    def _attack(
        self,
        model: str = "reader",
        probe_task: str = PROBE_TASK,
        until: int | None = None,
        **changes: Any,
    ) -> Path:
        """A run of the scoring task; `until` leaves out the episodes from that place on."""
        out = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        given = {
            "tasks": tuple(dict.fromkeys((probe_task, BRIGHT))),
            "windows": (MARCH,),
            "limit": PROBES,
            "mask_key": KEY,
            "data": str(self.data),
            "quiet": True,
        }
        done = evaluate(
            RunConfig(model=f"attacker/{model}", out=str(out), **(given | changes)), self.plugins
        )
        folder = RunFolder.load(done.folder)

        for spec in folder.manifest.specs[until:] if until is not None else ():
            shutil.rmtree(folder.episode_path(spec))

        return folder.path

    def card_task(self, name: str = TASK) -> Card:
        """A trading card's `task`."""
        task = self.plugins.make_task(name)
        config = json.loads(json.dumps(describe_task(task, self.plugins.tools(task.tools))))

        return {
            "name": name,
            "version": task.version,
            "mask": task.mask,
            "mode": task.mode,
            "config": config,
        }


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def reader(environment: Environment) -> Path:
    return environment.attack()


@pytest.fixture(scope="module")
def bare(environment: Environment) -> Card:
    """Attacked by no model."""
    return environment.certify()


@pytest.fixture(scope="module")
def attacked(environment: Environment, reader: Path) -> Card:
    """Attacked by a model that reads."""
    return environment.certify(runs=(reader,))


def typed(certificate: Card) -> Certificate:
    return from_plain(certificate, Certificate, "certificate")


def rebuilt(certificate: Mapping[str, Any], **changes: Any) -> Certificate:
    """The certificate that follows from these parts."""
    derived = ("kind", "schema_version", "bound", "labels")
    return build_certificate(
        {field: value for field, value in (certificate | changes).items() if field not in derived}
    )


def attacker(certificate: Mapping[str, Any], name: str) -> Any:
    return next(entry for entry in certificate["attackers"] if entry["name"] == name)


def remark(episode: Path, file: str) -> None:
    """Let an episode's mark agree with a file that was changed."""
    edit_json(
        episode / "episode.json",
        lambda mark: mark["sha256"].update({file: file_sha256(episode / file)}),
    )


def saved(folder: Path, certificate: Mapping[str, Any]) -> Path:
    file = folder / "certificate.json"
    file.write_text(dumps_pretty(certificate))
    return file


def run_command(*words: str | Path) -> None:
    command.main(
        [*map(str, words), "--plugin", "ktdeval_deanon"],
        prog_name="ktdeval certify",
        standalone_mode=False,
    )


# ---- what attackers recover


@pytest.mark.slow
def test_database_finds_every_masked_stock_and_day_and_ablation_shows_how(
    bare: Card,
) -> None:
    exact, dates = (attacker(bare, name)["scores"] for name in (EXACT_MATCHER, "date matcher"))
    assert {
        exact[name]["value"]
        for name in ("ticker_top1", "ticker_top5", "date_within_5", "joint", "sector")
    } == {1.0}
    assert set(dates) == {"date_within_5", "date_within_20", "date_within_60"}
    assert dates["date_within_5"]["value"] == 1.0

    ablation = {entry["name"]: entry for entry in bare["identifiability"]["ablation"]}
    assert "labels" not in ablation  # nothing is labelled behind this mask
    assert ablation["all"]["scores"]["joint"] == exact["joint"]
    assert ablation["all"]["k"] == {"mean": 1.0, "median": 1.0, "least": 1, "most": 1, "alone": 1.0}
    assert (
        ablation["returns"]["scores"]["ticker_top1"]["value"]
        == ablation["index"]["scores"]["date_within_5"]["value"]
        == 1.0
    )
    assert ablation["board"]["scores"]["ticker_top1"]["value"] < 1.0
    assert ablation["board"]["k"]["least"] > 100
    assert ablation["all but index"]["fields"] == [
        name for name in ablation["all"]["fields"] if name != "index"
    ]
    # Factors are compared in the units in which they are shown.
    assert bare["identifiability"]["factors_not_compared"] == []
    assert {"MOM_12_1", "ILLIQ", "CV_VOL"} < set(bare["identifiability"]["factors"])
    assert ablation["factors"]["scores"]["ticker_top1"]["value"] == 1.0


@pytest.mark.exhaustive
def test_each_score_has_wilson_interval_exact_bound_and_chance_baseline(
    attacked: Card,
) -> None:
    scores = chain.from_iterable(entry["scores"].values() for entry in attacked["attackers"])
    for score in not_empty(scores):
        k = score["successes"]
        n = score["n"]
        interval = score["interval"]
        assert (interval["low"], interval["high"]) == pytest.approx(
            proportion_confint(k, n, 0.05, "wilson"), abs=1e-12
        )
        assert score["upper"] == pytest.approx(proportion_confint(k, n, 0.1, "beta")[1])
        assert 0.0 <= score["baseline"] <= 1.0

    assert attacker(attacked, "random")["scores"]["board"]["value"] == 1.0


# ---- the bound


@pytest.mark.exhaustive
def test_bound_is_exact_for_an_answering_model_and_absent_without_one(
    environment: Environment, bare: Card, attacked: Card, reader: Path
) -> None:
    assert bare["bound"] == {"value": None, "reason": NO_MODEL}
    assert bare["labels"] == ["synthetic", "limited", "day found", "no model attacked"]

    joint = attacked["bound"]["value"]["joint"]
    assert joint["upper"] == pytest.approx(1 - 0.05 ** (1 / PROBES))
    assert (joint["attacker"], joint["value"], joint["n"], joint["level"]) == (
        "attacker/reader",
        0.0,
        PROBES,
        0.95,
    )
    assert "board" not in attacked["bound"]["value"]  # shown under every mask
    assert attacker(attacked, "attacker/reader")["named"] == {"tickers": 0, "date": 0}
    assert attacked["labels"] == ["synthetic", "limited", "day found", "few guesses"]

    folder = RunFolder.load(reader)
    assert folder.artefacts(folder.manifest.specs).items() <= attacked["artefacts"].items()

    silent = environment.certify(runs=(environment.attack("turncoat"),))
    mumbler = attacker(silent, "attacker/turncoat")

    assert (mumbler["answered"], mumbler["probes"]) == (0, PROBES)
    assert (mumbler["scores"]["joint"]["value"], mumbler["scores"]["joint"]["upper"]) == (None, 1.0)
    assert mumbler["scores"]["sector"]["reason"] == "no valid answer with a known truth"
    assert silent["bound"] == {"value": None, "reason": NO_ANSWER}
    assert "few answers" in silent["labels"]


@pytest.mark.slow
def test_behind_no_mask_the_reader_recovers_all_and_nothing_is_excluded(
    environment: Environment,
) -> None:
    bright = environment.certify(
        task="bright_open_research", runs=(environment.attack(probe_task="deanon_probe_bright"),)
    )

    assert (
        bright["bound"]["value"]["joint"]["value"]
        == bright["bound"]["value"]["joint"]["upper"]
        == 1.0
    )

    labels = next(
        entry for entry in bright["identifiability"]["ablation"] if entry["name"] == "labels"
    )

    assert (labels["scores"]["joint"]["value"], labels["k"]["most"]) == (1.0, 1)


# ---- the positive control


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("model", ["constant", "refuser", "shrugger", "mumbler"])
def test_a_model_that_does_not_read_unmasked_probes_certifies_nothing(
    environment: Environment, tmp_path: Path, model: str
) -> None:
    certificate = environment.certify(runs=(environment.attack(model),))
    entry = attacker(certificate, f"attacker/{model}")

    assert entry["counts_for"] == []
    assert not any(read["passed"] for read in entry["control"]["value"].values())
    assert certificate["bound"] == {"value": None, "reason": NO_CONTROL}
    assert certificate["labels"] == ["synthetic", "limited", "day found", "control failed"]
    assert environment.block(certificate) == {
        "value": None,
        "reason": f"the certificate certifies nothing: {NO_CONTROL}",
    }

    text = plain_text(card_lines(load_card(saved(tmp_path, certificate))))
    assert text.splitlines()[2] == f"certifies nothing: {NO_CONTROL}"
    assert f"attacker/{model}: control failed, so its misses certify nothing" in text


@pytest.mark.exhaustive
def test_run_without_the_control_certifies_nothing_and_names_it(
    environment: Environment, tmp_path: Path
) -> None:
    certificate = environment.certify(runs=(environment.attack(tasks=(PROBE_TASK,)),))
    reason = "the run did not ask deanon_probe_bright"

    assert attacker(certificate, "attacker/reader")["control"] == {"value": None, "reason": reason}
    assert certificate["bound"]["reason"] == NO_CONTROL
    assert f"failed: {reason}" in plain_text(card_lines(load_card(saved(tmp_path, certificate))))


@pytest.mark.exhaustive
def test_a_model_that_reads_days_alone_counts_for_days_alone(environment: Environment) -> None:
    certificate = environment.certify(runs=(environment.attack("dater"),))
    assert set(certificate["bound"]["value"]) == {
        "date_within_5",
        "date_within_20",
        "date_within_60",
    }
    assert "control incomplete" in certificate["labels"]

    both = environment.certify(
        runs=(
            environment.attack("dater"),
            environment.attack("reader"),
            environment.attack("constant"),
        )
    )

    assert {"ticker_top1", "joint"} < set(both["bound"]["value"])
    assert "control incomplete" not in both["labels"]
    assert both["bound"]["value"]["joint"]["attacker"] == "attacker/reader"
    assert [entry["counts_for"] for entry in both["attackers"]][-1] == []


def test_attackers_without_a_language_model_have_a_control_too(bare: Card) -> None:
    read = {
        name: attacker(bare, name)["control"]["value"]
        for name in (EXACT_MATCHER, "date matcher", "random")
    }

    assert read[EXACT_MATCHER]["stock_and_day"]["value"] == 1.0
    assert read["date matcher"]["day"]["passed"]
    assert not read["date matcher"]["stock"]["passed"]
    assert attacker(bare, "random")["counts_for"] == []


@pytest.mark.parametrize(
    ("successes", "n", "baseline", "passed"),
    [
        (200, 200, 0.03, True),
        (118, 200, 0.03, True),
        (117, 200, 0.03, False),
        (5, 200, 0.0, False),
        (0, 200, 0.0, False),
        (5, 5, 0.0, False),
        (6, 6, 0.0, True),
        (200, 200, 1.0, False),
        (190, 200, 0.9, False),
    ],
)
def test_the_control_asks_for_half_of_the_probes_read_beyond_guessing(
    successes: int, n: int, baseline: float, passed: bool
) -> None:
    share = control_share(successes, n, baseline)
    low, high = proportion_confint(successes, n, 0.05, "beta")

    assert (share.interval.low, share.interval.high) == pytest.approx((low, high))
    assert share.needed == pytest.approx(baseline + (1 - baseline) / 2)
    assert share.passed is passed


def test_reading_is_held_against_the_best_constant_answer(
    environment: Environment, bare: Card
) -> None:
    probe_task = environment.plugins.make_task(BRIGHT)
    control = open_questions(
        probe_task, environment.plugins, environment.snapshot, ProbeChoice((MARCH,), 0, PROBES, KEY)
    )
    codes = Counter(question.fact("code") for question in control.all)
    days = Counter(question.fact("day") for question in control.all)
    (code, n_code), (day, n_day) = codes.most_common(1)[0], days.most_common(1)[0]
    constant = {**blank_answer("always"), "tickers": [code], "date": day}
    tally = control_tally(control, [question.record(constant) for question in control.all])

    assert (tally["stock"]["successes"], tally["day"]["successes"]) == (n_code, n_day)
    assert tally["stock"]["baseline"] >= n_code / PROBES
    assert tally["day"]["baseline"] >= n_day / PROBES


def with_model(certificate: Mapping[str, Any], name: str, successes: int) -> Certificate:
    """The certificate of the same attacks and one model more, which answers all."""
    scores = {"joint": {"successes": successes, "n": PROBES, "baseline": 0.01}}
    named = {"answered": PROBES, "named": {"tickers": PROBES, "date": PROBES}}
    model = {**attacker(certificate, "attacker/reader"), "name": name, **named, "scores": scores}

    return rebuilt(certificate, attackers=[*certificate["attackers"], model])


def test_the_strongest_attacker_makes_the_bound(attacked: Card) -> None:
    stronger = with_model(attacked, "attack/rememberer", 2).plain
    validate_card(stronger)
    joint = stronger["bound"]["value"]["joint"]

    assert (joint["attacker"], joint["value"]) == ("attack/rememberer", 0.25)
    assert joint["upper"] > attacked["bound"]["value"]["joint"]["upper"]
    assert stronger["bound"]["value"]["ticker_top1"]["attacker"] == "attacker/reader"
    assert (
        with_model(attacked, "attack/equal", 0).plain["bound"]["value"]["joint"]["attacker"]
        == "attacker/reader"
    )


# ---- the probe set


@pytest.mark.exhaustive
def test_shown_values_are_separate_from_true_values(environment: Environment) -> None:
    made = certify(environment.config(), environment.plugins, lambda *_: None)
    shown = made.files["payloads.jsonl"]
    gold = made.files["gold.jsonl"]

    assert len(shown.splitlines()) == len(gold.splitlines()) == PROBES

    for fact in map(json.loads, gold.splitlines()):
        assert not any(
            secret in shown
            for secret in (fact["code"], fact["code"][:6], fact["day"], fact["sector"])
        )

    assert made.certificate.artefacts == {
        name: sha256_hex(text) for name, text in made.files.items()
    }
    assert made.certificate.probes.sha256 == sha256_hex(shown)


@pytest.mark.exhaustive
def test_seed_and_limit_determine_the_questions(environment: Environment, bare: Card) -> None:
    assert environment.certify() | {"provenance": None} == bare | {"provenance": None}

    other = environment.certify(seed=1)
    assert other["probes"]["sha256"] != bare["probes"]["sha256"]
    assert other["covers"] == bare["covers"]

    probe_task = find_scoring_task(PROBE_TASK, TASK, environment.plugins)
    whole = open_questions(
        probe_task, environment.plugins, environment.snapshot, ProbeChoice((MARCH,), 0, 40, KEY)
    ).describe()

    assert whole["limit"] is None  # all probes of a window are no limit
    assert rebuilt(bare, probes=bare["probes"] | {"limit": None}).labels == [
        "synthetic",
        "day found",
        "no model attacked",
    ]


@pytest.mark.exhaustive
@on_each_row(
    "changes, error, message",
    ({"probes": 41}, "UsageError", "has 40 probes, but 41 were requested"),
    (
        {"probes": 3, "windows": ["W1", "2024-03-01:2024-03-29"]},
        "UsageError",
        "not divisible by 2 windows; use 2",
    ),
    ({"task": "blinded_memory_only"}, "UsageError", "no task asks about blinded_memory_only"),
    ({"task": "deanon_probe"}, "UsageError", "scores answers and has no mask of its own"),
    ({"exam": "deanon_probe_bright"}, "UsageError", "asks nothing about blinded_open_research"),
    ({"exam": "deanon_prob"}, "UsageError", "did you mean"),
    (
        {"task": "stock_blind_open_research"},
        "UsageError",
        "several tasks ask about stock_blind_open_research (deanon_probe_stock_blind, ",
    ),
    (
        {"task": "stock_blind_open_research", "exam": "no_json"},
        "ConfigError",
        "probe_0000: its question must contain exactly one fenced JSON",
    ),
    (
        {"task": "stock_blind_open_research", "exam": "two_json"},
        "ConfigError",
        "its question must contain exactly one fenced JSON object",
    ),
    (
        {"task": "stock_blind_open_research", "exam": "no_code"},
        "ConfigError",
        "its facts have no 'code'",
    ),
    (
        {"task": "stock_blind_open_research", "exam": "other_form"},
        "ConfigError",
        "tool guess: its answers lack tickers, date, sector, board, confidence or reasoning",
    ),
    (
        {"task": "stock_blind_open_research", "exam": "other_mask"},
        "ConfigError",
        "masked with noise_pct 1.0, its config says 0.0",
    ),
)
def test_what_cannot_be_asked_or_certified_is_refused(
    environment: Environment, changes: dict[str, Any], error: str, message: str
) -> None:
    with pytest.raises(getattr(errors, error), match=re.escape(message)):
        environment.certify(**changes)


# ---- runs of models


@pytest.mark.exhaustive
@on_each_row(
    "made, message",
    ({"seed": 1}, "seed: 1; this probe set has 0"),
    (
        {"mask_key": "11111111111111111111111111111111"},
        (
            "mask key: 11111111111111111111111111111111; this probe set has "
            "00000000000000000000000000000004"
        ),
    ),
    ({"windows": ["2024-03-04:2024-03-29"]}, "windows: 2024-03-04:2024-03-29"),
    ({"limit": 2}, "2 probes were asked, but this probe set has 8"),
    ({"probe_task": "deanon_probe_bright"}, "holds deanon_probe_bright, not deanon_probe"),
    ({"until": 0}, "is not finished"),
    ({"seeds": 2, "until": 1}, "seed: 0, 1; this probe set has 0"),
)
def test_a_run_that_asked_something_else_is_refused_with_what_differs(
    environment: Environment, made: dict[str, Any], message: str
) -> None:
    with pytest.raises(KtdevalError, match=re.escape(message)):
        environment.certify(runs=(environment.attack(**tupled(made)),))


@pytest.mark.exhaustive
def test_a_run_counts_once_and_on_its_own_market(
    environment: Environment, reader: Path, tmp_path: Path
) -> None:
    with pytest.raises(KtdevalError, match="give each run once"):
        environment.certify(runs=(reader, reader))

    save_snapshot(replace(small_market(seed=12), id=""), tmp_path / "other")
    with pytest.raises(KtdevalError, match="asked different questions \\(snapshot: "):
        environment.certify(data=str(tmp_path / "other"), runs=(reader,))


@pytest.mark.slow
@on_each_row(
    "file, path, value, message",
    ("answers.jsonl.zst", [0, "scores", "joint"], True, "its scores do not follow from its answer"),
    ("answers.jsonl.zst", [0, "facts", "code"], "600000.SH", "asked about another stock or day"),
    ("answers.jsonl.zst", [0, "answer", "date"], "(removed)", "does not have the requested form"),
    ("answers.jsonl.zst", [0, "sample"], "probe_0099", "its record does not answer this probe"),
    ("answers.jsonl.zst", [0, "answer"], None, "has scores but no answer"),
    (
        "transcript.jsonl.zst",
        [1, "exchanges", 0, "sent", 1, "content"],
        "Which stock is it?",
        "probe_0001: the transcript does not contain this question",
    ),
)
def test_tampered_records_are_refused_even_if_their_marks_agree(
    environment: Environment,
    reader: Path,
    tmp_path: Path,
    file: str,
    path: list[str | int],
    value: Any,
    message: str,
) -> None:
    folder = RunFolder.load(shutil.copytree(reader, tmp_path / "run"))
    spec = folder.manifest.specs[0]
    records = to_plain(
        folder.load_answers(spec) if file == ANSWERS else folder.load_transcript(spec)
    )
    records = with_value(records, tuple(path), value)
    (folder.episode_path(spec) / file).write_bytes(pack_lines(records))
    remark(folder.episode_path(spec), file)

    with pytest.raises(KtdevalError, match=message):
        environment.certify(runs=(folder.path,))


# ---- whom it covers


def test_a_trading_card_of_the_same_channel_is_covered(
    environment: Environment, attacked: Card
) -> None:
    value = environment.block(attacked)["value"]
    assert value["sha256"] == sha256_hex(dumps_pretty(attacked))
    assert (value["key"], value["bound"]) == (attacked["covers"]["key"], attacked["bound"]["value"])
    assert value["exact_matcher"]["joint"] == 1.0
    assert [entry["name"] for entry in value["attackers"]] == [
        "exact matcher",
        "date matcher",
        "random",
        "attacker/reader",
    ]


@pytest.mark.parametrize(
    "field", ["name", "windows", "metrics", "trading", "prompts", "sources", "data_card"]
)
def test_a_field_that_leaves_the_channel_as_it_is_may_differ(
    environment: Environment, attacked: Card, field: str
) -> None:
    task = environment.card_task()
    assert field in task["config"]

    task["config"][field] = {"another": "thing"}
    assert environment.block(attacked, task)["value"] is not None

    covered = covered_by(task["config"], environment.snapshot.id)
    assert covered["key"] == attacked["covers"]["key"]


@on_each_row(
    "field, value, reason",
    ("rebase_prices", True, "another mask (rebase_prices is False, the card's is True)"),
    ("noise_pct", 0.5, "another mask (noise_pct is 0.0, the card's is 0.5)"),
    ("round_digits", 3, "another mask (round_digits is none, the card's is 3)"),
    ("mask", "stock_blind", "another mask (kind is blinded, the card's is stock_blind)"),
    ("mode", "fixed_candidate", "another mode (open_research, the card's is fixed_candidate)"),
    ("version", "999", "another task version ({version}, the card's is 999)"),
    ("family", "mine", "another task family (ktdfin, the card's is mine)"),
    ("harness", {}, "other limits (max_candidates is 30, the card's is none)"),
    (
        "tool_texts",
        {"look": "0000000000000000000000000000000000000000000000000000000000000000"},
        "other tools (compare_candidates is",
    ),
    (
        "snapshot",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "another snapshot (",
    ),
)
def test_another_channel_is_not_covered_and_the_card_gives_the_reason(
    environment: Environment, attacked: Card, field: str, value: Any, reason: str
) -> None:
    task = environment.card_task()
    snapshot = value if field == "snapshot" else environment.snapshot.id
    key = covered_by(task["config"], environment.snapshot.id)["key"]
    reason = reason.replace("{version}", task["version"])

    if field != "snapshot":
        task["config"][field] = value

    block = environment.block(attacked, task, snapshot)

    assert block["value"] is None
    assert block["reason"].startswith(f"the certificate covers {reason}")
    assert covered_by(task["config"], snapshot)["key"] != key


@pytest.mark.slow
def test_the_rebased_mask_has_a_probe_and_a_certificate_of_its_own(
    environment: Environment, attacked: Card
) -> None:
    name = "blinded_rebased_open_research"
    probe_task = "deanon_probe_rebased"
    certificate = environment.certify(task=name, runs=(environment.attack(probe_task=probe_task),))

    assert certificate["exam"]["name"] == probe_task

    options = {"kind": "blinded", "rebase_prices": True, "round_digits": 3, "noise_pct": 0.0}
    assert certificate["covers"]["mask"] == options

    plain = environment.card_task()
    rebased = environment.card_task(name)

    assert environment.block(certificate, rebased)["value"]["key"] == certificate["covers"]["key"]

    for given, task in ((certificate, plain), (attacked, rebased)):
        block = environment.block(given, task)
        assert block["value"] is None
        assert block["reason"].startswith("the certificate covers another mask (rebase_prices is ")


def test_a_card_without_a_bound_stays_uncertified(environment: Environment, bare: Card) -> None:
    assert environment.block(None) == {"value": None, "reason": NOT_GIVEN}
    assert environment.block(bare) == {
        "value": None,
        "reason": f"the certificate certifies nothing: {NO_MODEL}",
    }
    assert environment.block(bare, environment.card_task("bright_open_research")) == {
        "value": None,
        "reason": NOTHING_HIDDEN,
    }


# ---- checking


@on_each_row(
    "path, value, message",
    ("bound.value.joint.upper", 0.01, "bound.value.joint.upper: recorded 0.01"),
    ("labels", [], "labels"),
    ("covers.mask.noise_pct", 1.0, "covers.key: is not the hash of snapshot"),
    (
        "covers.snapshot",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "covers.key: is not the hash",
    ),
    (
        "snapshot.id",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "covers.snapshot: is not the snapshot's id",
    ),
    (
        "attackers.3.scores.joint.successes",
        1,
        "attackers[3].scores.joint.value: recorded 0.0, 1 successes of 8",
    ),
    ("attackers.3.scores.joint.upper", 0.2, "attackers[3].scores.joint.upper: recorded 0.2"),
    ("attackers.3.scores.joint.interval.high", 0.2, "attackers[3].scores.joint.interval.high"),
    (
        "attackers.3.scores.joint.n",
        9,
        "attackers[3].scores.joint.successes: 0 of 9, with 8 answers",
    ),
    ("attackers.3.probes", 9, "attackers[3].probes: the probe set has 8"),
    ("attackers.3.answered", 9, "attackers[3].answered: is more than 8 probes"),
    ("attackers.3.named.date", 9, "attackers[3].named.date: is more than 8 answers"),
    ("attackers.3.name", "random", "attackers[3].name: appears twice"),
    ("attackers.0.name", "a matcher", "attackers: the exact matcher is missing"),
    ("probes.count", 5, "probes.windows: adds up to 8 probes, not 5"),
    ("probes.boards", {"main": 3}, "probes.boards: adds up to 3 probes"),
    ("score_order", ["joint"], "score_order: must list every defined score"),
    ("kind", "diploma", "kind: expected trading or scoring or certificate"),
    ("schema_version", 2, "made by a later ktdeval"),
    ("attackers.3.card", "none", "attackers[3].card"),
    ("probes.sead", 1, "probes.sead: unknown field; did you mean 'seed'?"),
)
def test_contradictory_certificate_is_refused_by_file_line_and_field(
    attacked: Card, tmp_path: Path, path: str, value: Any, message: str
) -> None:
    file = saved(
        tmp_path,
        with_value(
            attacked,
            tuple(int(part) if part.isdigit() else part for part in path.split(".")),
            value,
        ),
    )

    with pytest.raises(CardError, match=f"^{re.escape(str(file))}: line .*{re.escape(message)}"):
        load_card(file)


@pytest.mark.slow
def test_the_command_writes_shows_and_verifies(
    environment: Environment, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "certificate.json"
    probes = tmp_path / "probes"
    run_command(
        "--task",
        TASK,
        "--data",
        environment.data,
        "--windows",
        MARCH,
        "--probes",
        str(PROBES),
        "--attackers",
        reader,
        "--out",
        file,
        "--save-probes",
        probes,
    )
    printed = capsys.readouterr().out

    assert "certifies the channel to a model, not to a database" in printed
    assert re.search(r"joint +attacker/reader +31\.23 +0\.00 +\S+ +100\.00 +8\n", printed)
    assert f"verify       ktdeval certify --verify {file}" in printed

    certificate = load_card(file, "certificate").plain
    assert file_sha256(file) == sha256_hex(dumps_pretty(certificate))

    with pytest.raises(
        CardError, match="is a certificate card; this command takes trading or scoring cards"
    ):
        load_evaluation(file)

    for name in ("payloads.jsonl", "gold.jsonl"):
        assert file_sha256(probes / name) == certificate["artefacts"][name]

    run_command("--verify", file)

    assert (
        "claimed (probes attacked again; give the models' runs with --attackers"
        in capsys.readouterr().out
    )

    run_command("--verify", file, "--attackers", reader, "--data", environment.data)
    assert ": verified (probes attacked again, models' answers follow" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_certificate_given_to_a_run_or_rescore_reaches_the_card(
    environment: Environment, attacked: Card, tmp_path: Path
) -> None:
    file = saved(tmp_path, attacked)
    given = {
        "tasks": (TASK,),
        "windows": (MARCH,),
        "limit": 1,
        "data": str(environment.data),
        "quiet": True,
    }
    config = RunConfig(model="builtin/hold", out=str(tmp_path / "run"), **given)
    card = evaluate(config, environment.plugins).cards[0]

    assert load_evaluation(card).plain["certificate"]["value"] is None

    (scored,) = rescore(tmp_path / "run", environment.plugins, {"certificate": str(file)})
    (run,) = evaluate(
        replace(config, out=str(tmp_path / "given"), certificate=str(file)), environment.plugins
    ).cards

    for path in (scored, run):
        made = load_evaluation(path).plain
        assert made["certificate"]["value"]["sha256"] == file_sha256(file)
        assert verify_card(path, environment.plugins, {}).findings == ()

    plan = partial(estimate_run, plugins=environment.plugins)
    other = saved(tmp_path / "given" / "cards", environment.certify())
    config_with_card = replace(config, out=str(tmp_path / "given"))

    assert not any(
        "certificate" in warning
        for warning in plan(replace(config_with_card, certificate=str(file))).warnings
    )

    refused = replace(config_with_card, certificate=str(other))

    with pytest.raises(StoreError, match="the run has another certificate") as error:
        evaluate(refused, environment.plugins)

    # and what is left is shown all the same
    assert plan(refused).warnings[-1] == f"{error.value}; the planned run would be refused"

    other.unlink()
    (tmp_path / "run" / "certificate.json").unlink()
    edit_json(
        tmp_path / "given" / "manifest.json", lambda old: old.update(metrics=["no_such_metric"])
    )

    with pytest.raises(KtdevalError, match="no_such_metric"):
        rescore(tmp_path / "given", environment.plugins, {})


@pytest.mark.exhaustive
def test_certificate_is_a_claim_until_a_board_verifies_its_attack_runs(
    environment: Environment, reader: Path, attacked: Card, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    forged = Path(shutil.copytree(reader, tmp_path / "run"))
    init_board(
        board,
        NewBoard("b", "B", (TASK,), "2026-01-01", str(environment.data), windows=(MARCH,)),
        environment.plugins,
    )

    def certify_on_board(certificate: Mapping[str, Any], run: Path) -> Any:
        words = [
            saved(tmp_path, certificate),
            "--board",
            board,
            "--attackers",
            run,
            "--plugin",
            SUPPORT / "masking" / "deanon_plugin.py",
        ]
        return CliRunner().invoke(on_board, [str(word) for word in words])

    # An invented model, and records whose answers its replies do not give: consistent, and refused.
    invented = with_model(attacked, "acme/harmless", 0).plain

    assert "attackers[4]: recorded " in str(certify_on_board(invented, reader).exception)

    spec = next(spec for spec in RunFolder.load(forged).manifest.specs if spec.task == PROBE_TASK)
    change_transcript(
        forged / "episodes" / spec.id,
        lambda entries: entries[0]["exchanges"][-1].update(reply={"content": "no idea"}),
    )
    remark(forged / "episodes" / spec.id, TRANSCRIPT)
    claimed = environment.certify(runs=(forged,))

    assert "transcript.jsonl.zst: line 1: can't be retraced: " in str(
        certify_on_board(claimed, forged).exception
    )
    assert not list((board / "certificates").glob("*/verdict.json"))

    # The runs themselves: kept with a verdict, which the cards that carry this certificate are then
    # shown by.
    done = certify_on_board(attacked, reader)
    assert done.exit_code == 0, done

    value = environment.block(attacked)["value"]
    folder = board / "certificates" / value["sha256"]

    assert {path.name for path in folder.iterdir()} == {
        "certificate.json",
        "verdict.json",
        "attack-1",
    }
    assert (
        check_board(board, environment.plugins, CheckOptions("2026-03-02", record=False)).findings
        == ()
    )


@pytest.mark.slow
def test_certificate_verification_needs_the_same_probes_market_and_tasks(
    bare: Card, tmp_path: Path
) -> None:
    forged = copy.deepcopy(bare)
    for scores in (
        attacker(forged, EXACT_MATCHER)["scores"],
        forged["identifiability"]["ablation"][-1]["scores"],
    ):
        for score in scores.values():
            score["successes"] = 0

    file = saved(tmp_path, rebuilt(forged).plain)
    load_card(file)  # it agrees with itself
    with pytest.raises(
        VerificationError, match=r"does not verify: line \d+: attackers\[0\]\.scores\..*recomputed"
    ):
        run_command("--verify", file)

    save_snapshot(replace(small_market(seed=12), id=""), tmp_path / "other")
    with pytest.raises(CardError, match="name the right one with --data"):
        run_command("--verify", saved(tmp_path, bare), "--data", tmp_path / "other")

    changed = copy.deepcopy(bare)
    changed["exam"]["hash"] = "0" * 64
    with pytest.raises(KtdevalError, match="install the version that asked"):
        run_command("--verify", saved(tmp_path, changed))


@pytest.mark.slow
def test_another_import_of_the_same_content_verifies_a_certificate(
    bare: Card,
    environment: Environment,
    tmp_path: Path,
) -> None:
    market = load_snapshot(environment.data)
    relabelled = replace(market, meta=replace(market.meta, name="mine", source="another vendor"))
    save_snapshot(relabelled, tmp_path / "other")
    run_command("--verify", saved(tmp_path, bare), "--data", tmp_path / "other")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--task", TASK), "--out FILE is missing"),
        (("--out", "x.json"), "--task NAME is missing"),
        (("--verify", "x.json", "--task", TASK), "leave out --task and --out"),
    ],
)
def test_the_command_names_what_is_missing(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_command(*words)


def test_a_seed_that_no_run_can_have_and_no_certificate_hold_is_refused() -> None:
    with pytest.raises(BadParameter, match="is not in the range"):
        run_command("--seed", str(10**22))


# ---- showing


def shown(certificate: Certificate, *paragraphs: str) -> str:
    """What is printed of a certificate in paragraphs that begin so."""
    text = plain_text(card_lines(certificate))
    return text_of(each for each in text.split("\n\n") if each.startswith(paragraphs))


def test_the_printed_certificate_claims_no_more_than_was_measured(
    attacked: Card, bare: Card
) -> None:
    assert shown(typed(attacked), "mask of", "Bound", "Notes") == snapshot("""\
mask of blinded_open_research on small
[synthetic] [limited] [day found] [few guesses]
certifies the channel to a model, not to a database
Bound (95 %, one-sided, exact; in %)
  recovered       by the strongest  at most  found  chance  database  n
  ticker_top1     attacker/reader     31.23   0.00   10.88    100.00  8
  ticker_top5     attacker/reader     31.23   0.00   54.41    100.00  8
  sector          attacker/reader     31.23   0.00   16.09    100.00  8
  date_within_5   attacker/reader     31.23   0.00   31.25    100.00  8
  date_within_20  attacker/reader     31.23   0.00   88.24    100.00  8
  date_within_60  attacker/reader     31.23   0.00  100.00    100.00  8
  joint           attacker/reader     31.23   0.00   17.05    100.00  8
Notes
  bounds hold for the attackers that are named, each at its own 95 %; they say nothing of models to come
  a control shows that an attacker can read, not that it tried: an attacker that answers unmasked probes and pretends behind the mask passes it
  whole episodes: after 5 days the index's closes alone name the first day in 100.00 % (67.6 … 100.0) of 8 episodes (chance 0.31 %)
  the market is generated: nobody can remember it, so the bounds only show that the text leaks nothing
  ticker_top5, date_within_5, date_within_20, date_within_60: the attackers guessed less well than chance does, so read chance as the bound
""")
    assert shown(typed(bare), "mask of", "Bound") == snapshot("""\
mask of blinded_open_research on small
[synthetic] [limited] [day found] [no model attacked]
certifies nothing: no model has attacked the mask yet
""")
    assert "0 with a stock, 0 with a day" in shown(typed(attacked), "Attackers")

    shy = copy.deepcopy(attacked)

    for score in ("ticker_top5", "joint"):
        shy["attackers"][3]["scores"][score]["baseline"] = 0.9

    merit = ", joint: the attackers guessed less well than chance does, so read chance as the bound"

    assert merit in shown(rebuilt(shy), "Notes")
    # A name from a stranger cannot command the terminal.
    assert "\x1b" not in plain_text(card_lines(with_model(attacked, "evil/\x1b[2Jmodel", 4)))


def test_trading_card_prints_its_bound_beside_the_database_result(
    environment: Environment, attacked: Card
) -> None:
    rows = certificate_rows(environment.block(attacked)["value"])
    certificate = sha256_hex(dumps_pretty(attacked))[:12]
    text = text_of(f"{name}: {value}" for name, value in rows)

    assert text.replace(certificate, "CERTIFICATE") == snapshot("""\
certificate: CERTIFICATE (synthetic, limited, day found, few guesses), claimed: 8 probes, attacked by attacker/reader
mask bound: ticker_top1 at most 31.23 % (chance 10.88 %); ticker_top5 at most 31.23 % (chance 54.41 %); date_within_5 at most 31.23 % (chance 31.25 %); joint at most 31.23 % (chance 17.05 %)
: bounds a model, not a database: with the price history at hand ticker_top1 100.00 %, ticker_top5 100.00 %, date_within_5 100.00 %, joint 100.00 %
: the index's closes alone name the day of 100.00 % of episodes after 5 days
""")


def test_a_certificate_shows_what_it_covers_with_its_tools_in_order(attacked: Card) -> None:
    """The words of each fact, from the certificate's own fields."""
    covers = attacked["covers"]
    probes = attacked["probes"]
    turned = dict(sorted(covers["tool_texts"].items(), reverse=True))

    assert len(turned) > 1

    certificate = rebuilt(attacked)
    facts = dict(
        certificate_tables._certificate_facts(
            msgspec.structs.replace(
                certificate, covers=msgspec.structs.replace(certificate.covers, tool_texts=turned)
            )
        )
    )
    (window,) = probes["windows"]

    assert facts == {
        "covers": f"{covers['mode']}, version {covers['task_version']}, key {covers['key'][:12]}",
        "mask": "blinded, original prices",
        "tools": ", ".join(sorted(covers["tool_texts"])),
        "market": (
            f"small, {len(small_market().codes)} assets, id {attacked['snapshot']['id'][:12]}"
        ),
        "probes": f"{PROBES} of {PROBE_TASK}, seed 0: {window['name']} ({PROBES})",
        "boards": ", ".join(f"{board} {number}" for board, number in probes["boards"].items()),
    }

    toolless = msgspec.structs.replace(
        certificate, covers=msgspec.structs.replace(certificate.covers, tool_texts={})
    )

    assert dict(certificate_tables._certificate_facts(toolless))["tools"] == "none"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "blinded, original prices"),
        ({"rebase_prices": True}, "blinded, prices rebased"),
        ({"round_digits": 3}, "blinded, original prices, 3 significant digits"),
        (
            {"round_digits": 1, "noise_pct": 0.5},
            "blinded, original prices, 1 significant digit, noise of 0.5 %",
        ),
    ],
)
def test_a_mask_is_described_in_words(attacked: Card, changes: dict[str, Any], words: str) -> None:
    mask = msgspec.structs.replace(rebuilt(attacked).covers.mask, **changes)
    assert certificate_tables._mask_words(mask) == words


TWO = '''
from support.masking.deanon_play import task_of
from ktdeval.hookspecs import Spec, hookimpl


def make(_=None):
    """Make a second task about what the shipped one asks about."""
    task = task_of("blinded")
    task.name = "second"
    return task


@hookimpl
def ktdeval_tasks():
    """Offer the task."""
    return [Spec("second", make, "asks the same")]
'''


@pytest.mark.slow
def test_of_two_tasks_that_ask_about_a_task_one_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "two_plugin.py").write_text(TWO)
    plugins = load_plugins(["ktdeval_deanon", str(tmp_path / "two_plugin.py")])
    with pytest.raises(
        errors.UsageError,
        match=rf"several tasks ask about {TASK} \({PROBE_TASK}, second\); name one with --exam",
    ):
        find_scoring_task("", TASK, plugins)

    assert find_scoring_task("second", TASK, plugins).name == "second"
    assert find_scoring_task("", TASK, load_plugins()).name == PROBE_TASK
