"""The certificate of a mask: attackers on the very payloads, the bound, whom it covers, and that it can be checked."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from statsmodels.stats.proportion import proportion_confint

from ktdeval.calls.stop import StopSignal
from ktdeval.cards.check import NOTHING_HIDDEN, attached_block, load_card, load_evaluation, validate_card
from ktdeval.cards.show import make_report, plain_text
from ktdeval.cards.trading import NOT_GIVEN
from ktdeval.config import RunConfig
from ktdeval.contracts.task import describe_task
from ktdeval.errors import CardError, ConfigError, KtdevalError, UsageError, VerificationError
from ktdeval.jsonio import dumps_pretty, file_sha256, sha256_hex
from ktdeval.market.storage import load_snapshot, save_snapshot
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner.execute import EpisodeContext, EpisodeFactory, run_episode
from ktdeval.runner.plan import choose_tasks, make_plan
from ktdeval.runner.store import RunFolder, RunManifest
from ktdeval.typed import from_plain, to_plain
from ktdeval_deanon.certificate.card import (
    EXACT_MATCHER,
    KEYED,
    NO_ANSWER,
    NO_MODEL,
    build_certificate,
    certificate_sha256,
    covered_by,
)
from ktdeval_deanon.certificate.certify import CertifyConfig, certify
from ktdeval_deanon.certificate.command import certify as command
from ktdeval_deanon.certificate.show import certificate_rows
from ktdeval_deanon.certificate.types import Certificate
from ktdfin_market import small_market

TASK = "blinded_open_research"
EXAM = "deanon_probe"
MARCH = "2024-03-01:2024-03-29"
PROBES = 4

PLUGIN = '''
import json
import re
from dataclasses import replace

from deanon_play import task_of
from ktdeval.masking import MaskConfig
from ktdeval.api import Lens, Reply, Spec, ToolCall, ToolSpec, hookimpl

NOTHING = {"tickers": [], "date": None, "sector": None, "board": None, "confidence": 0.0, "reasoning": "nothing"}


class Reader:
    """Answers with the codes and dates that stand in the text."""

    def reply(self, request):
        text = "\\n".join(message.content for message in request.messages)
        shown = json.loads(text.partition("```json\\n")[2].partition("\\n```")[0])["snapshot"]
        codes = re.findall(r"[0-9]{6}[.](?:SH|SZ|BJ)", json.dumps(shown))
        dates = re.findall(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", shown["day"])
        answer = {**NOTHING, "tickers": codes[:5], "date": dates[0] if dates else None, "board": shown["board"]}
        return Reply(tool_calls=(ToolCall("c", "submit_answer", json.dumps(answer)),), finish_reason="tool_calls")


class Mute:
    """Never answers."""

    def reply(self, request):
        return Reply(content="I would rather not.", finish_reason="stop")


class Flawed:
    """A probe task whose samples are changed."""

    def __init__(self, name, change):
        self.name, self._change, self._task = name, change, task_of("stock_blind")

    def __getattr__(self, name):
        return getattr(self._task, name)

    def samples(self, spec, snapshot, target_task):
        return FlawedExam(self._task.samples(spec, snapshot, target_task), lambda sample: self._change(sample, snapshot))


class FlawedExam:
    def __init__(self, exam, change):
        self._exam, self._change = exam, change

    def __len__(self):
        return len(self._exam)

    def sample(self, number):
        return self._change(self._exam.sample(number))

    def score(self, number, answer):
        return self._exam.score(number, answer)


FLAWS = {
    "no_json": lambda sample, _: replace(sample, user="Which stock is it?"),
    "two_json": lambda sample, _: replace(sample, user=sample.user + "\\n```json\\n{}\\n```"),
    "no_code": lambda sample, _: replace(sample, facts={"day": sample.facts["day"], "board": "main"}),
    "other_form": lambda sample, _: replace(sample, form=ToolSpec("guess", "", {"type": "object", "required": ["stock"]})),
    "other_mask": lambda sample, market: replace(sample, lens=Lens(MaskConfig("stock_blind", noise_pct=1.0), 1, market, 99)),
}


@hookimpl
def ktdeval_tasks():
    return [Spec(name, lambda name=name: Flawed(name, FLAWS[name]), "flawed") for name in FLAWS]


@hookimpl
def ktdeval_models():
    return [Spec("attack/reader", lambda _: Reader(), "reads"), Spec("attack/mute", lambda _: Mute(), "is silent")]
'''


class Environment:
    """A stored market, the plugins of an attack, and folders for what is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        plugin = folder / "attack_plugin.py"
        plugin.write_text(PLUGIN)
        self.data = folder / "market"
        save_snapshot(replace(small_market(), id=""), self.data)
        self.snapshot = load_snapshot(self.data)
        self.plugins: Plugins = load_plugins(["ktdeval_deanon", str(plugin)])

    def config(self, **changes: Any) -> CertifyConfig:
        return replace(CertifyConfig(TASK, data=str(self.data), windows=(MARCH,), probes=PROBES), **changes)

    def certify(self, **changes: Any) -> dict[str, Any]:
        return certify(self.config(**changes), self.plugins, lambda *_: None).certificate.plain

    def block(self, certificate: dict[str, Any] | None, task: dict[str, Any] | None = None, snapshot: str = "") -> dict[str, Any]:
        """What a trading card says of a certificate."""
        task = self.card_task() if task is None else task
        attached = None if certificate is None else validate_card(certificate)
        return attached_block(task["mask"], task["config"], snapshot or self.snapshot.id, attached, self.plugins)

    def attack(self, model: str, name: str, exam: str = EXAM, until: int | None = None, **changes: Any) -> Path:
        """A run of the scoring task; `until` leaves out the episodes from that place on."""
        asked = RunConfig(model=f"attack/{model}", tasks=(exam,), windows=(MARCH,), limit=PROBES)
        config = replace(asked, **changes)
        plan = make_plan(config, self.plugins, choose_tasks(config, self.plugins), self.snapshot, None)
        manifest = RunManifest({"data": str(self.data), "data_args": {}}, self.snapshot.id, (), "strict", plan.specs)
        folder = RunFolder.create(self.folder / name, manifest)
        opener = EpisodeFactory(plan.tasks, self.plugins, self.snapshot)
        played = self.plugins.make_model(config.model)
        for spec in plan.specs[:until]:
            context = EpisodeContext(lambda spec=spec: opener.open(spec, played), folder, lambda _: None, StopSignal(), str)
            assert run_episode(spec, context).error is None
        folder.release()
        return folder.path

    def card_task(self, name: str = TASK) -> dict[str, Any]:
        """A trading card's `task`."""
        task = self.plugins.make_task(name)
        config = json.loads(json.dumps(describe_task(task, self.plugins.tools(task.tools))))
        return {"name": name, "version": task.version, "mask": task.mask, "mode": task.mode, "config": config}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def reader(environment: Environment) -> Path:
    return environment.attack("reader", "reader")


@pytest.fixture(scope="module")
def bare(environment: Environment) -> dict[str, Any]:
    """Attacked by no model."""
    return environment.certify()


@pytest.fixture(scope="module")
def attacked(environment: Environment, reader: Path) -> dict[str, Any]:
    """Attacked by a model that reads."""
    return environment.certify(runs=(reader,))


def typed(certificate: dict[str, Any]) -> Certificate:
    return from_plain(certificate, Certificate, "certificate")


def attacker(certificate: Mapping[str, Any], name: str) -> Any:
    return next(entry for entry in certificate["attackers"] if entry["name"] == name)


# ---- what attackers recover


def test_a_database_finds_every_masked_stock_and_day_and_the_certificate_says_so(bare: dict[str, Any]) -> None:
    exact = attacker(bare, EXACT_MATCHER)["scores"]
    assert {name: exact[name]["value"] for name in ("ticker_top1", "ticker_top5", "date_within_5", "joint", "sector")} == {
        "ticker_top1": 1.0, "ticker_top5": 1.0, "date_within_5": 1.0, "joint": 1.0, "sector": 1.0,
    }  # fmt: skip
    assert set(attacker(bare, "date matcher")["scores"]) == {"date_within_5", "date_within_20", "date_within_60"}
    assert attacker(bare, "date matcher")["scores"]["date_within_5"]["value"] == 1.0


def test_each_score_has_wilsons_interval_the_exact_bound_and_what_chance_gives_on_these_probes(
    attacked: dict[str, Any],
) -> None:
    for entry in attacked["attackers"]:
        for score in entry["scores"].values():
            k, n = score["successes"], score["n"]
            assert (score["interval"]["low"], score["interval"]["high"]) == pytest.approx(
                proportion_confint(k, n, 0.05, "wilson"), abs=1e-12
            )
            assert score["upper"] == pytest.approx(proportion_confint(k, n, 0.1, "beta")[1])
            assert 0.0 <= score["baseline"] <= 1.0
    assert attacker(attacked, "random")["scores"]["board"]["value"] == 1.0


def test_the_ablation_tells_what_each_field_gives_away(bare: dict[str, Any]) -> None:
    found = {entry["name"]: entry for entry in bare["identifiability"]["ablation"]}
    assert "labels" not in found  # nothing is labelled behind this mask
    assert found["all"]["scores"]["joint"] == attacker(bare, EXACT_MATCHER)["scores"]["joint"]
    assert found["all"]["k"] == {"mean": 1.0, "median": 1.0, "least": 1, "most": 1, "alone": 1.0}
    assert found["returns"]["scores"]["ticker_top1"]["value"] == 1.0
    assert found["board"]["scores"]["ticker_top1"]["value"] < 1.0
    assert found["board"]["k"]["least"] > 100
    assert found["index"]["scores"]["date_within_5"]["value"] == 1.0
    assert found["all but index"]["fields"] == [name for name in found["all"]["fields"] if name != "index"]


def test_factors_are_compared_in_the_units_in_which_they_are_shown(bare: dict[str, Any]) -> None:
    assert bare["identifiability"]["factors_not_compared"] == []
    assert {"MOM_12_1", "ILLIQ", "CV_VOL"} < set(bare["identifiability"]["factors"])
    by_factors = next(entry for entry in bare["identifiability"]["ablation"] if entry["name"] == "factors")
    assert by_factors["scores"]["ticker_top1"]["value"] == 1.0


# ---- the bound


def test_without_a_model_nothing_is_bounded(bare: dict[str, Any]) -> None:
    assert bare["bound"] == {"value": None, "reason": NO_MODEL}
    assert bare["labels"] == ["synthetic", "limited", "no model attacked"]


def test_the_bound_of_a_model_that_recovers_nothing_is_the_exact_one(attacked: dict[str, Any], reader: Path) -> None:
    joint = attacked["bound"]["value"]["joint"]
    assert joint["upper"] == pytest.approx(1 - 0.05 ** (1 / PROBES))
    assert (joint["attacker"], joint["value"], joint["n"], joint["level"]) == ("attack/reader", 0.0, PROBES, 0.95)
    assert "board" not in attacked["bound"]["value"]  # shown under every mask
    assert attacker(attacked, "attack/reader")["named"] == {"tickers": 0, "date": 0}
    assert attacked["labels"] == ["synthetic", "limited", "few guesses"]
    folder = RunFolder.load(reader)
    assert folder.artefacts(folder.manifest.specs).items() <= attacked["artefacts"].items()


def test_behind_no_mask_the_reader_recovers_all_and_nothing_is_excluded(environment: Environment) -> None:
    run = environment.attack("reader", "bright", "deanon_probe_bright")
    bright = environment.certify(task="bright_open_research", runs=(run,))
    assert bright["bound"]["value"]["joint"]["value"] == bright["bound"]["value"]["joint"]["upper"] == 1.0
    found = {entry["name"]: entry for entry in bright["identifiability"]["ablation"]}
    assert found["labels"]["scores"]["joint"]["value"] == 1.0
    assert found["labels"]["k"]["most"] == 1


def test_a_model_that_does_not_answer_bounds_nothing(environment: Environment) -> None:
    certificate = environment.certify(runs=(environment.attack("mute", "mute"),))
    mute = attacker(certificate, "attack/mute")
    assert (mute["answered"], mute["probes"]) == (0, PROBES)
    assert mute["scores"]["joint"]["value"] is None
    assert mute["scores"]["joint"]["upper"] == 1.0
    assert certificate["bound"] == {"value": None, "reason": NO_ANSWER}
    assert "few answers" in certificate["labels"]


def with_model(certificate: Mapping[str, Any], name: str, successes: int, n: int) -> dict[str, Any]:
    """The certificate of the same attacks and one model more."""
    parts = {field: value for field, value in certificate.items() if field not in ("kind", "schema_version", "bound", "labels")}
    model = {
        **attacker(certificate, "attack/reader"),
        "name": name,
        "answered": n,
        "named": {"tickers": n, "date": n},
        "scores": {"joint": {"successes": successes, "n": n, "baseline": 0.01}},
    }
    return build_certificate({**parts, "attackers": [*certificate["attackers"], model]}).plain


def test_the_strongest_attacker_makes_the_bound(attacked: dict[str, Any]) -> None:
    stronger = with_model(attacked, "attack/rememberer", 2, PROBES)
    validate_card(stronger)
    joint = stronger["bound"]["value"]["joint"]
    assert (joint["attacker"], joint["value"]) == ("attack/rememberer", 0.5)
    assert joint["upper"] > attacked["bound"]["value"]["joint"]["upper"]
    assert stronger["bound"]["value"]["ticker_top1"]["attacker"] == "attack/reader"
    weaker = with_model(attacked, "attack/equal", 0, PROBES)
    assert weaker["bound"]["value"]["joint"]["attacker"] == "attack/reader"


# ---- the probe set


def test_what_is_shown_lies_apart_from_what_is_true(environment: Environment) -> None:
    made = certify(environment.config(), environment.plugins, lambda *_: None)
    shown, gold = made.files["payloads.jsonl"], made.files["gold.jsonl"]
    assert len(shown.splitlines()) == len(gold.splitlines()) == PROBES
    for line in gold.splitlines():
        fact = json.loads(line)
        for secret in (fact["code"], fact["code"][:6], fact["day"], fact["sector"]):
            assert secret not in shown
    assert made.certificate.artefacts == {name: sha256_hex(text) for name, text in made.files.items()}
    assert made.certificate.probes.sha256 == sha256_hex(shown)


def test_two_certificates_of_one_probe_set_differ_in_provenance_alone(environment: Environment, bare: dict[str, Any]) -> None:
    again = environment.certify()
    assert {name: value for name, value in again.items() if name != "provenance"} == {
        name: value for name, value in bare.items() if name != "provenance"
    }


def test_another_seed_asks_other_probes(environment: Environment, bare: dict[str, Any]) -> None:
    other = environment.certify(seed=1)
    assert other["probes"]["sha256"] != bare["probes"]["sha256"]
    assert other["covers"] == bare["covers"]


def test_all_probes_of_a_window_are_no_limit(environment: Environment) -> None:
    whole = environment.certify(probes=40)
    assert whole["probes"]["limit"] is None
    assert whole["labels"] == ["synthetic", "no model attacked"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probes": 41}, "has 40 probes, 41 were asked for"),
        ({"probes": 3, "windows": ("W1", MARCH)}, "2 windows share them evenly; ask for 2"),
        ({"task": "blinded_memory_only"}, "no task asks about blinded_memory_only"),
        ({"task": EXAM}, "scores answers and has no mask of its own"),
        ({"exam": "deanon_probe_bright"}, "asks nothing about blinded_open_research"),
        ({"exam": "deanon_prob"}, "did you mean"),
        ({"task": "stock_blind_open_research"}, "several tasks ask about stock_blind_open_research (deanon_probe_stock_blind, "),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(environment: Environment, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        environment.certify(**changes)


@pytest.mark.parametrize(
    ("exam", "message"),
    [
        ("no_json", "probe_0000: its question holds no single fenced JSON object to attack"),
        ("two_json", "its question holds no single fenced JSON object"),
        ("no_code", "its facts have no 'code'"),
        ("other_form", "tool guess: is not answered with tickers, date, sector, board, confidence and reasoning"),
        ("other_mask", "its probes are masked with noise_pct 1.0, its config says 0.0"),
    ],
)
def test_an_exam_that_cannot_be_certified_is_refused(environment: Environment, exam: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        environment.certify(task="stock_blind_open_research", exam=exam)


# ---- runs of models


@pytest.mark.parametrize(
    ("made", "changes", "message"),
    [
        ({"seed": 1}, {}, "seed: 1; this probe set has 0"),
        ({"mask_draw": 2}, {}, "mask draw: 2; this probe set has 0"),
        ({"windows": ("2024-03-04:2024-03-29",)}, {}, "windows: 2024-03-04:2024-03-29"),
        ({"limit": 2}, {}, "2 probes were asked, this probe set has 4 there"),
        ({"exam": "deanon_probe_bright"}, {}, "holds deanon_probe_bright, not deanon_probe"),
        ({"until": 0}, {}, "is not finished"),
        ({"seeds": 2, "until": 1}, {}, "seed: 0, 1; this probe set has 0"),
    ],
)
def test_a_run_that_asked_something_else_is_refused_with_what_differs(
    environment: Environment, made: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    name = "other-" + re.sub(r"\W", "", repr(made))
    with pytest.raises(KtdevalError, match=re.escape(message)):
        environment.certify(runs=(environment.attack("reader", name, **made),), **changes)


def test_a_run_on_another_market_is_refused(environment: Environment, reader: Path, tmp_path: Path) -> None:
    save_snapshot(replace(small_market(seed=12), id=""), tmp_path / "other")
    with pytest.raises(KtdevalError, match="asked other questions \\(snapshot: "):
        environment.certify(data=str(tmp_path / "other"), runs=(reader,))


def test_a_run_counts_once(environment: Environment, reader: Path) -> None:
    with pytest.raises(KtdevalError, match="give each run once"):
        environment.certify(runs=(reader, reader))


def _edit_answers(folder: RunFolder, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the first answer on disk, and make the mark of completeness agree."""
    from ktdeval.runner.journal import pack_lines
    from ktdeval.runner.store import ANSWERS

    spec = folder.manifest.specs[0]
    records = to_plain(folder.load_answers(spec))
    change(records[0])
    path = folder.episode_path(spec) / ANSWERS
    path.write_bytes(pack_lines(records))
    mark = folder.episode_path(spec) / "episode.json"
    done = json.loads(mark.read_text())
    done["sha256"][ANSWERS] = file_sha256(path)
    mark.write_text(json.dumps(done))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["scores"].update(joint=True), "its scores are not those of its answer"),
        (lambda record: record["facts"].update(code="600000.SH"), "asked about another stock or day"),
        (lambda record: record["answer"].pop("date"), "does not have the form"),
        (lambda record: record.update(sample="probe_0099"), "not that of an answer to this probe"),
        (lambda record: record.update(answer=None), "has scores without an answer"),
    ],
)
def test_records_that_were_tampered_with_are_refused(
    environment: Environment, reader: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    copied = tmp_path / "run"
    shutil.copytree(reader, copied)
    _edit_answers(RunFolder.load(copied), change)
    with pytest.raises(KtdevalError, match=message):
        environment.certify(runs=(copied,))


def test_a_transcript_that_shows_other_questions_is_refused(environment: Environment, reader: Path, tmp_path: Path) -> None:
    from ktdeval.runner.journal import pack_lines
    from ktdeval.runner.store import TRANSCRIPT

    copied = tmp_path / "run"
    shutil.copytree(reader, copied)
    folder = RunFolder.load(copied)
    spec = folder.manifest.specs[0]
    entries = to_plain(folder.load_transcript(spec))
    entries[1]["exchanges"][0]["sent"][1]["content"] = "Which stock is it?"
    path = folder.episode_path(spec) / TRANSCRIPT
    path.write_bytes(pack_lines(entries))
    mark = folder.episode_path(spec) / "episode.json"
    done = json.loads(mark.read_text())
    done["sha256"][TRANSCRIPT] = file_sha256(path)
    mark.write_text(json.dumps(done))
    with pytest.raises(KtdevalError, match="probe_0001: the transcript does not show that it was asked this"):
        environment.certify(runs=(copied,))


# ---- whom it covers


def test_a_trading_card_of_the_same_channel_is_covered(environment: Environment, attacked: dict[str, Any]) -> None:
    value = environment.block(attacked)["value"]
    assert value["sha256"] == sha256_hex(dumps_pretty(attacked)) == certificate_sha256(typed(attacked))
    assert value["key"] == attacked["covers"]["key"]
    assert value["bound"] == attacked["bound"]["value"]
    assert value["exact_matcher"]["joint"] == 1.0
    assert [entry["name"] for entry in value["attackers"]] == ["exact matcher", "date matcher", "random", "attack/reader"]


@pytest.mark.parametrize("field", ["name", "windows", "metrics", "trading", "prompts", "sources", "data_card"])
def test_what_leaves_the_channel_as_it_is_does_not_matter(environment: Environment, attacked: dict[str, Any], field: str) -> None:
    task = environment.card_task()
    assert field in task["config"]
    task["config"][field] = {"another": "thing"}
    assert environment.block(attacked, task)["value"] is not None


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("rebase_prices", True, "another mask (rebase_prices is False, the card's is True)"),
        ("noise_pct", 0.5, "another mask (noise_pct is 0.0, the card's is 0.5)"),
        ("round_digits", 3, "another mask (round_digits is none, the card's is 3)"),
        ("mask", "stock_blind", "another mask (kind is blinded, the card's is stock_blind)"),
        ("mode", "fixed_candidate", "another mode (open_research, the card's is fixed_candidate)"),
        ("version", "2", "another task version (1, the card's is 2)"),
        ("family", "mine", "another task family (ktdfin, the card's is mine)"),
        ("harness", {}, "other limits (max_candidates is 30, the card's is none)"),
        ("tool_texts", {"look": "0" * 64}, "other tools (compare_candidates is"),
    ],
)
def test_another_channel_is_not_covered_and_the_card_says_why(
    environment: Environment, attacked: dict[str, Any], field: str, value: Any, reason: str
) -> None:
    task = environment.card_task()
    task["config"][field] = value
    block = environment.block(attacked, task)
    assert block["value"] is None
    assert block["reason"].startswith(f"the certificate is of {reason}")


def test_another_market_is_not_covered(environment: Environment, attacked: dict[str, Any]) -> None:
    block = environment.block(attacked, snapshot="f" * 64)
    assert block["value"] is None
    assert block["reason"].startswith("the certificate is of another snapshot (")


def test_a_card_without_a_bound_stays_uncertified(environment: Environment, bare: dict[str, Any]) -> None:
    assert environment.block(None) == {"value": None, "reason": NOT_GIVEN}
    block = environment.block(bare)
    assert block == {"value": None, "reason": f"the certificate bounds nothing: {NO_MODEL}"}
    bright = environment.card_task("bright_open_research")
    assert environment.block(bare, bright) == {"value": None, "reason": NOTHING_HIDDEN}


def test_the_key_is_the_hash_of_what_must_agree_and_of_nothing_else(environment: Environment) -> None:
    config = environment.card_task()["config"]
    key = covered_by(config, environment.snapshot.id)["key"]
    assert covered_by({**config, "name": "another", "prompts": {}}, environment.snapshot.id)["key"] == key
    assert set(KEYED) < set(covered_by(config, environment.snapshot.id))
    for field in ("family", "version", "mode", "mask", "rebase_prices", "round_digits", "noise_pct", "tool_texts", "harness"):
        assert covered_by({**config, field: "another"}, environment.snapshot.id)["key"] != key
    assert covered_by(config, "f" * 64)["key"] != key


# ---- checking


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("bound", "value", "joint", "upper"), 0.01, "bound.value.joint.upper: recorded 0.01"),
        (("labels",), [], "labels"),
        (("covers", "mask", "noise_pct"), 1.0, "covers.key: is not the hash of snapshot"),
        (("covers", "snapshot"), "f" * 64, "covers.key: is not the hash"),
        (("snapshot", "id"), "f" * 64, "covers.snapshot: is not the snapshot's id"),
        (("attackers", 3, "scores", "joint", "successes"), 1, "attackers[3].scores.joint.value: recorded 0.0, 1 successes of 4"),
        (("attackers", 3, "scores", "joint", "upper"), 0.2, "attackers[3].scores.joint.upper: recorded 0.2"),
        (("attackers", 3, "scores", "joint", "interval", "high"), 0.2, "attackers[3].scores.joint.interval.high"),
        (("attackers", 3, "scores", "joint", "n"), 9, "attackers[3].scores.joint.successes: 0 of 9, with 4 answers"),
        (("attackers", 3, "probes"), 9, "attackers[3].probes: the probe set has 4"),
        (("attackers", 3, "answered"), 9, "attackers[3].answered: is more than 4 probes"),
        (("attackers", 3, "named", "date"), 9, "attackers[3].named.date: is more than 4 answers"),
        (("attackers", 3, "name"), "random", "attackers[3].name: stands twice"),
        (("attackers", 0, "name"), "a matcher", "attackers: the exact matcher is missing"),
        (("probes", "count"), 5, "probes.windows: adds up to 4 probes, not 5"),
        (("probes", "boards"), {"main": 3}, "probes.boards: adds up to 3 probes"),
        (("score_order",), ["joint"], "score_order: must name every defined score once"),
        (("kind",), "diploma", "kind: expected trading or scoring or certificate"),
        (("schema_version",), 2, "schema_version: expected 1, was 2"),
        (("attackers", 3, "card"), "none", "attackers[3].card"),
        (("probes", "sead"), 1, "probes.sead: unknown field; did you mean 'seed'?"),
    ],
)
def test_a_certificate_that_contradicts_itself_is_refused_by_file_line_and_field(
    attacked: dict[str, Any], tmp_path: Path, path: tuple[str | int, ...], value: Any, message: str
) -> None:
    changed = copy.deepcopy(attacked)
    place: Any = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    file = tmp_path / "certificate.json"
    file.write_text(dumps_pretty(changed))
    with pytest.raises(CardError) as caught:
        load_card(file)
    assert str(caught.value).startswith(f"{file}: line ")
    assert message in str(caught.value)


def test_a_file_gives_the_certificate_back(attacked: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    file.write_text(dumps_pretty(attacked))
    assert load_card(file, "certificate").plain == attacked
    assert file_sha256(file) == certificate_sha256(typed(attacked))
    with pytest.raises(CardError, match="is a certificate card; this command takes trading or scoring cards"):
        load_evaluation(file)


def run_command(*words: str) -> None:
    command.main([str(word) for word in words], prog_name="ktdeval certify", standalone_mode=False)


def test_the_command_writes_shows_and_verifies(
    environment: Environment, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, plugins = tmp_path / "certificate.json", ("--plugin", "ktdeval_deanon")
    market = ("--data", str(environment.data), "--windows", MARCH)
    probes = tmp_path / "probes"
    run_command("--task", TASK, *market, *plugins, "--probes", str(PROBES), "--attackers", str(reader), "--out", str(file),
                "--save-probes", str(probes))  # fmt: skip
    printed = capsys.readouterr().out
    assert "certifies the channel to a model, not to a database" in printed
    assert re.search(r"joint +attack/reader +52\.71 +0\.00 +\S+ +100\.00 +4\n", printed)
    assert f"verify       ktdeval certify --verify {file}" in printed
    certificate = load_card(file).plain
    for name in ("payloads.jsonl", "gold.jsonl"):
        assert file_sha256(probes / name) == certificate["artefacts"][name]
    run_command("--verify", str(file), *plugins)
    assert "verified (probes attacked again; answers of models as recorded" in capsys.readouterr().out
    run_command("--verify", str(file), *plugins, "--attackers", str(reader), "--data", str(environment.data))
    assert capsys.readouterr().out == f"{file}: verified (probes attacked again)\n"


def test_verification_finds_a_certificate_that_agrees_with_itself_but_not_with_the_probes(
    environment: Environment, bare: dict[str, Any], tmp_path: Path
) -> None:
    forged = copy.deepcopy(bare)
    for scores in (attacker(forged, EXACT_MATCHER)["scores"], forged["identifiability"]["ablation"][-1]["scores"]):
        for score in scores.values():
            score["successes"] = 0
    parts = {field: value for field, value in forged.items() if field not in ("kind", "schema_version", "bound", "labels")}
    file = tmp_path / "forged.json"
    file.write_text(dumps_pretty(build_certificate(parts).plain))
    load_card(file)
    with pytest.raises(VerificationError, match=r"does not verify: line \d+: attackers\[0\]\.scores\..*recomputed"):
        run_command("--verify", str(file), "--plugin", "ktdeval_deanon")


def test_verification_wants_the_market_and_the_tasks_that_were_certified(
    environment: Environment, bare: dict[str, Any], tmp_path: Path
) -> None:
    save_snapshot(replace(small_market(seed=12), id=""), tmp_path / "other")
    file = tmp_path / "certificate.json"
    file.write_text(dumps_pretty(bare))
    with pytest.raises(CardError, match="name the right one with --data"):
        run_command("--verify", str(file), "--plugin", "ktdeval_deanon", "--data", str(tmp_path / "other"))
    changed = copy.deepcopy(bare)
    changed["exam"]["hash"] = "0" * 64
    file.write_text(dumps_pretty(changed))
    with pytest.raises(KtdevalError, match="install the version that asked"):
        run_command("--verify", str(file), "--plugin", "ktdeval_deanon")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--task", TASK), "--out FILE is missing"),
        (("--out", "x.json"), "--task NAME is missing"),
        (("--verify", "x.json", "--task", TASK), "leave --task and --out out"),
    ],
)
def test_the_command_says_what_is_missing(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_command(*words)


# ---- showing


def test_what_is_shown_claims_no_more_than_was_measured(attacked: dict[str, Any], bare: dict[str, Any]) -> None:
    text = plain_text(make_report(typed(attacked)))
    assert "certifies the channel to a model, not to a database" in text
    assert "they say nothing of models to come" in text
    assert "nobody can remember it" in text
    assert "0 with a stock, 0 with a day" in text
    assert "database" in next(line for line in text.splitlines() if "at most" in line)
    silent = plain_text(make_report(typed(bare)))
    assert f"bounds nothing: {NO_MODEL}" in silent
    assert "certifies" not in silent


def test_a_trading_card_prints_its_bound_beside_what_a_database_finds(environment: Environment, attacked: dict[str, Any]) -> None:
    rows = list(certificate_rows(environment.block(attacked)["value"]))
    assert [name for name, _ in rows] == ["certificate", "mask bound", ""]
    assert rows[0][1].startswith(certificate_sha256(typed(attacked))[:12])
    assert rows[0][1].endswith("(synthetic, limited, few guesses): 4 probes, attacked by attack/reader")
    assert "joint at most 52.71 % (chance 13.32 %)" in rows[1][1]
    assert rows[2][1].startswith("bounds a model, not a database: with the price history at hand ticker_top1 100.00 %")


def test_a_bound_below_chance_is_said_to_be_no_merit_of_the_mask(attacked: dict[str, Any]) -> None:
    shy = copy.deepcopy(attacked)
    for score in ("ticker_top5", "joint"):
        shy["attackers"][3]["scores"][score]["baseline"] = 0.9
    parts = {field: value for field, value in shy.items() if field not in ("kind", "schema_version", "bound", "labels")}
    text = plain_text(make_report(build_certificate(parts)))
    said = ", joint: the attackers guessed less well than chance does, so read chance as the bound"
    assert said in text
    assert said not in plain_text(make_report(typed(attacked)))


def test_a_name_from_a_stranger_cannot_command_the_terminal(attacked: dict[str, Any]) -> None:
    foreign = with_model(attacked, "evil/\x1b[2Jmodel", 4, PROBES)
    assert "\x1b" not in plain_text(make_report(typed(foreign)))
