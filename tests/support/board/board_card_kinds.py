"""Kinds of forged cards: figures, JSON, differences from the division, and conflicts with other cards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

from msgspec import structs

from ktdeval.cards import ScoringCard
from ktdeval.harness import RemoteModel
from ktdeval.registry import load_plugins
from ktdeval.values import dumps_pretty, load_yaml, sha256_hex
from ktdeval_board.rules import load_rules
from support.board.board_kinds import (
    bad,
    change_model,
    edited,
    file_with,
    forge,
    forged,
    full,
    of_task,
    rewritten,
    verdict,
    withdraw_card,
)
from support.board.forged_board import (
    Change,
    ForgedBoard,
    NotApplicableError,
    Value,
    setting,
)
from support.figures.renewed_cards import derived_fields


def in_turn(*changes: Change) -> Change:
    """Return changes that are made one after the other."""

    def change(value: Value) -> None:
        for each in changes:
            each(value)

    return change


def no_calls() -> Value:
    """Return the counts of calls on the card a remote model that was never asked."""
    paid = {"paid_usd": 0.0, "possibly_paid_usd": 0.0}
    counts = dict.fromkeys(("requests", "attempts", "answered", "cached", "repeated", "unused"), 0)
    by_name: Value = {"failed_attempts": {}, "tokens": {}, "episodes": {}}
    return {
        **counts,
        **paid,
        **by_name,
        "latency_s": dict.fromkeys(("median", "p90", "p99", "longest")),
        "lost_s": 0.0,
        "checks": {"requests": 0, "attempts": 0, **paid},
    }


# -- one value, or one file
# ------------------------------------------------------------------------------------------------

for document, rows in load_yaml(Path(__file__).with_name("board_kinds.yaml")).items():
    for name, (rule, where, what) in rows.items():
        if document == "file":
            full(name, rule, where, file_with(where, what))
        elif document in ("submission", "list"):
            edited(name, rule, document, setting(*where, to=what))
        else:
            forged(name, rule, setting(*where, to=what), renew=document == "card")

# -- figures and hashes
# --------------------------------------------------------------------------------------------------


def _artefact_of_another_hash(value: Value) -> None:
    next(entry for entry in value["files"] if entry["path"].endswith("ledger.parquet"))[
        "sha256"
    ] = "0" * 64


SHARPE = setting("metrics", "sharpe", "value", to=9.9)
full(
    "tampered_metric_under_the_old_name",
    "hash",
    "card",
    lambda board: board.edit(board.files.card, SHARPE),
)
edited("artefact_of_another_hash", "hash", "list", _artefact_of_another_hash)
full(
    "card_under_a_name_that_is_not_its_hash",
    "hash",
    "card",
    lambda b: b.rewrite(b.files.card.read_bytes(), "a" * 64),
)

# -- JSON
# --------------------------------------------------------------------------------------------------

LIMIT = '"limit": null'
full("card_that_is_no_json", "json", "card", lambda board: board.rewrite(b"{"))
full("field_twice", "json", "card", rewritten('{\n "agent"', '{\n "kind": "trading",\n "agent"'))
full("not_a_number", "json", "card", rewritten(LIMIT, '"limit": NaN'))
full("number_out_of_range", "json", "card", rewritten(LIMIT, '"limit": 1e400'))
full("integer_of_ten_thousand_digits", "json", "card", rewritten(LIMIT, f'"limit": {"9" * 10_000}'))
full(
    "json_nested_a_hundred_thousand_deep",
    "json",
    "card",
    lambda board: board.rewrite(b"[" * 100_000),
)
full(
    "open_object_nested_deep", "depth", "card", rewritten(LIMIT, f'"limit": {"[" * 400}{"]" * 400}')
)
full("card_that_is_a_list", "json", "card", lambda board: board.rewrite(b"[]"))
full(
    "card_that_is_not_utf8",
    "json",
    "card",
    lambda b: b.rewrite(b.files.card.read_bytes().replace(b'"kind"', b'"k\xffnd"', 1)),
)
full("lone_surrogate", "text", "card", rewritten('"source": "', '"source": "\\ud800'))
full(
    "prototype_as_a_field",
    "key",
    "card",
    rewritten('"environment": {', '"environment": {"__proto__": {"ranked": true},'),
)
full(
    "huge_card",
    "size",
    "card",
    lambda b: b.rewrite(
        b.files.card.read_bytes() + b" " * load_rules(b.folder).limits.bytes_of("card_mb")
    ),
)
full(
    "huge_submission",
    "size",
    "submission",
    lambda board: os.truncate(board.files.submission, 300_000),
)
full(
    "submission_nested_deep",
    "json",
    "submission",
    lambda board: board.files.submission.write_text('{"a":' * 30_000),
)
full(
    "list_with_a_field_twice",
    "json",
    "list",
    lambda board: board.files.records.write_text('{"card": 1, "card": 2}'),
)

# -- differences from the division
# --------------------------------------------------------------------------------------------


def _keep(card: Value, holds: Callable[[Value], bool]) -> None:
    """Drop episodes, and with them their artefacts, windows and seeds."""
    card["episodes"] = [episode for episode in card["episodes"] if holds(episode)]
    ids = {episode["id"] for episode in card["episodes"]}
    card["artefacts"] = {
        path: digest for path, digest in card["artefacts"].items() if path.split("/")[1] in ids
    }


def _only_seed(card: Value) -> None:
    first = card["seeds"][0]
    _keep(card, lambda episode: episode["seed"] == first)
    card["seeds"] = [first]


def only_window(card: Value) -> None:
    """Leave the first window alone on a card."""
    first = card["windows"][0]["name"]
    _keep(card, lambda episode: episode["window"] == first)
    card["windows"] = card["windows"][:1]
    reference = card["reference"]["benchmark_buy_and_hold"]
    card["reference"]["benchmark_buy_and_hold"] = {first: reference[first]}


def _one_episode_less(card: Value) -> None:
    last = card["episodes"][-1]["id"]
    _keep(card, lambda episode: episode["id"] != last)


def _doubled_seed(card: Value) -> None:
    """The better of _two seeds under both numbers: 0 and 0.0 are equal, but not to the hash of an
    episode.
    """
    first = card["seeds"][0]
    card["seeds"] = [first, first + 1]
    for episode in card["episodes"]:
        episode["seed"] = float(first) if episode["seed"] == first else first + 1


def _as_scoring(card: Value) -> None:
    """Turn a trading card into a valid scoring one, whose score is called as the metric that the
    rank goes by.
    """
    shared_fields = {each.encode_name for each in structs.fields(ScoringCard)}
    for name in card.keys() - shared_fields:
        del card[name]

    shared = ("id", "window", "seed", "steps", "decisions", "failures", "usage")
    card["episodes"] = [
        {name: episode[name] for name in shared} | {"answered": episode["steps"]}
        for episode in card["episodes"]
    ]
    score: Value = {
        "value": 9.9,
        "n": 4,
        "interval": None,
        "baseline": None,
        "detail": {},
        "unit": "fraction",
        "range": [None, None],
    }
    score |= {"better": "higher", "formula": "luck/1", "headline": True, "source": "a stranger"}
    card.update(
        kind="scoring",
        subject=None,
        scores={"total_return": score},
        score_order=["total_return"],
        labels=[],
    )
    card["cost"].pop("return_per_usd", None)
    card.update(derived_fields(card))


def _without_market(card: Value) -> None:
    """Turn a trading card into that of a scoring task that asks about no market."""
    _as_scoring(card)
    window = card["windows"][0]["name"]
    card["episodes"] = [episode for episode in card["episodes"] if episode.pop("window") == window]
    del card["snapshot"], card["windows"], card["mask_key"]
    config = {
        name: value
        for name, value in card["task"]["config"].items()
        if name not in ("mask", "mode", "windows")
    }
    del card["task"]["mask"], card["task"]["mode"]
    card["task"]["config"] = config


def _limit_steps(card: Value) -> None:
    card["limit"] = 5
    for episode in card["episodes"]:
        episode.update(
            steps=5, decisions={"model": 5, "model_after_retry": 0, "fallback": 0, "error": 0}
        )
        # Cards of before have no makers.
        for maker in episode.get("made_by", ())[:1]:
            maker["steps"] = 5


def _undecided(card: Value) -> None:
    for episode in card["episodes"]:
        held = episode["steps"] // 5
        episode["decisions"] = {
            "model": episode["steps"] - held,
            "model_after_retry": 0,
            "fallback": held,
            "error": 0,
        }


def _unfinished(card: Value) -> None:
    gone = card["episodes"].pop()
    card["missing_episodes"] = [
        {name: gone[name] for name in ("id", "window", "seed")} | {"error": "not run to its end"}
    ]
    card["artefacts"] = {
        path: digest for path, digest in card["artefacts"].items() if gone["id"] not in path
    }

    # a window without a finished episode has no reference
    finished = {episode["window"] for episode in card["episodes"]}
    reference = card["reference"]["benchmark_buy_and_hold"]
    card["reference"]["benchmark_buy_and_hold"] = {
        window: entry for window, entry in reference.items() if window in finished
    }


_ATTACKER = {
    "kind": "model",
    "name": "openai/gpt-4.1",
    "model": "openai/gpt-4.1",
    "counts_for": ["joint"],
}


def certified(*labels: str) -> Change:
    """Return the change to a card that claims a certificate with these labels."""
    claimed = {"labels": list(labels), "attackers": [_ATTACKER], "bound": {"joint": {}}}
    return setting("certificate", to={"value": claimed})


def _drop_reference(card: Value) -> None:
    reference = card["reference"]["benchmark_buy_and_hold"]
    del reference[max(reference)]


def _other_kind_of_market(card: Value) -> None:
    card["snapshot"]["synthetic"] = not card["snapshot"]["synthetic"]


def _seeds_further_on(card: Value) -> None:
    card["seeds"] = [seed + 2 for seed in card["seeds"]]
    for episode in card["episodes"]:
        episode["seed"] += 2


def _without_the_ranked_metric(board: ForgedBoard) -> None:
    name = load_rules(board.folder).division(board.original.division).rank_by

    def drop(card: Value) -> None:
        for holder in (card, *card["episodes"]):
            del holder["metrics"][name]

    board.forge(drop)


def _asked_for_a_certificate(board: ForgedBoard) -> None:
    """Go on only where the division asks for a certificate of the mask."""
    if load_rules(board.folder).division(board.original.division).certificate != "required":
        raise NotApplicableError("the division asks for no certificate")


def _rename_metric(card: Value) -> None:
    for holder in (card, *card["episodes"]):
        holder["metrics"]["Best Return Ever"] = holder["metrics"].pop("hhi")


def _certificate_of_nothing(board: ForgedBoard) -> None:
    (board.records_folder / "certificate.json").write_text("{}")
    entry = {"path": "certificate.json", "sha256": sha256_hex("{}"), "bytes": 2}
    board.edit(board.files.records, lambda value: value["files"].append(entry))


forged("cherry_picked_seeds", "seeds", _only_seed)
forged(
    "cherry_picked_seeds_with_all_of_them_named",
    "card",
    lambda c: _keep(c, lambda episode: episode["seed"] == c["seeds"][0]),
)
forged("missing_window", "windows", only_window)
forged("one_window_left_out", "card", _one_episode_less)
forged("seed_written_as_a_fraction", "card", _doubled_seed, renew=False)
forged("other_seeds", "seeds", _seeds_further_on)
forged("other_task", "task", of_task(name="a_task_that_no_board_has"))
forged("other_task_version", "task-version", of_task(version="0"))
forged(
    "snapshot_of_equal_first_digits",
    "snapshot",
    lambda c: c["snapshot"].update(id=c["snapshot"]["id"][:12] + "0" * 52),
)
forged("no_mask_key", "mask-key", lambda card: card.pop("mask_key"))
forged("synthetic_market_as_real_or_real_as_synthetic", "synthetic", _other_kind_of_market)
bad("card_without_a_market", "snapshot", "card", forge(_without_market, stored="elsewhere"))
bad(
    "scoring_card_of_a_trading_task",
    "kind",
    "card",
    forge(_as_scoring, renew=False, stored="elsewhere"),
)
full(
    "certificate_in_the_place_of_a_card",
    "kind",
    "card",
    verdict(),
    lambda b: b.rewrite(dumps_pretty({**b.original.card, "kind": "certificate"}).encode()),
    verdict(),
)
forged("limited_run", "limit", _limit_steps)
forged("low_coverage", "coverage", _undecided)
forged("missing_episode", "coverage", _unfinished)
bad(
    "no_certificate_where_one_is_asked_for",
    "certificate",
    "card",
    _asked_for_a_certificate,
    ForgedBoard.add,
)
bad(
    "certificate_that_rests_on_nothing",
    "certificate",
    "card",
    _asked_for_a_certificate,
    forge(certified("few answers")),
)
bad(
    "certificate_that_nobody_verified",
    "certificate",
    "card",
    _asked_for_a_certificate,
    forge(certified()),
)
bad("certificate_without_its_file", "records", "list", forge(certified()))
full("certificate_file_of_a_card_without_one", "certificate", "list", _certificate_of_nothing)
bad("metric_of_the_rank_left_out", "metric", "card", _without_the_ranked_metric)
forged("benchmark_left_out", "card", _drop_reference)
forged("metric_of_a_free_name", "metric", _rename_metric)

# -- cards beside others
# --------------------------------------------------------------------------------------------------


def _two(rule: str, change: Change, name: str, named: str = "card", attempts: int = 2) -> None:
    """Note a second card beside the good one, on which the board has its verdict."""
    runs = setting("attempts", "runs", to=attempts)
    second = (
        forge(change, stored="elsewhere"),
        lambda board: board.edit(board.files.submission, runs),
    )
    full(name, rule, named, verdict(), *second)


def _other_files(card: Value) -> None:
    """Give a card files of other bytes, as a run of its model and agent would have."""
    system = _system_key(card)
    card["artefacts"] = {
        path: sha256_hex(system + path + digest) for path, digest in card["artefacts"].items()
    }


def _other_records(card: Value) -> None:
    """Give a card records of its own, as another run would have."""
    _other_files(card)
    if "mask_key" in card:
        card["mask_key"] = sha256_hex(_system_key(card))[:32]


def _system_key(card: Value) -> str:
    return repr((card["model"], card["agent"]))


def second_attempt(card: Value) -> None:
    """Turn a card into one of another run of its system."""
    card["model"]["args"] = {"temperature": 0.1}
    _other_records(card)


def _of_other_model(change: Change) -> Change:
    """The card of another model, with records of its own and a change."""
    return in_turn(change_model, _other_records, change)


def _of_provider(name: str) -> Change:
    """Return the change of a card to one a remote model, with records of its own.
    Providers take any name, so that the installed plugins know look-alikes, too.
    """

    def change(card: Value) -> None:
        model = cast(RemoteModel, load_plugins().make_model(name, {}))
        card["model"] = {"name": name, "args": {}}
        card["sent_as"] = model.settings()
        card["provenance"]["calls"] = no_calls()
        card["cost"] = {"value": None, "reason": "no price of the model is known"}
        _other_records(card)

    return change


def _alike(name: str, model: str, other: str) -> None:
    """Register two cards of models of a provider whose names can be taken for each other."""
    first = forge(_of_provider(model), stored="elsewhere")
    second = forge(_of_provider(other), stored="elsewhere")
    bad(name, "name", "card", first, verdict(), second)


def _agent_in_other_case(card: Value) -> None:
    card["agent"]["name"] = card["agent"]["name"].swapcase()
    _other_records(card)


def _other_benchmark(card: Value) -> None:
    first = card["windows"][0]["name"]
    card["reference"]["benchmark_buy_and_hold"][first]["metrics"]["total_return"] = {
        "value": -0.9,
        "n": 1,
    }


def _same_mask_key(board: ForgedBoard) -> None:
    """The key of the sound card on the card of another model."""
    board.forge(
        _of_other_model(setting("mask_key", to=board.original.card["mask_key"])), stored="elsewhere"
    )


_two("duplicate", second_attempt, "second_attempt_of_one_system")
_two(
    "duplicate",
    in_turn(second_attempt, setting("call", "reasoning_effort", to=None)),
    "second_attempt_with_an_unset_setting",
)
_two("copy", _other_files, "episodes_of_another_card")
full("mask_key_of_another_run", "mask-key", "card", verdict(), _same_mask_key)
_alike("model_name_that_differs_by_case_alone", "openai/look-alike", "openai/Look-Alike")
_alike("model_name_that_files_alike", "openai/look-alike", "openai/look:alike")
_two("name", _agent_in_other_case, "agent_name_that_differs_by_case_alone")
_two("reference", _of_other_model(_other_benchmark), "forged_benchmark")
_two(
    "metric",
    _of_other_model(setting("metrics", "total_return", "better", to="lower")),
    "metric_turned_round",
)
_two(
    "snapshot",
    _of_other_model(setting("snapshot", "name", to="another market")),
    "market_of_another_name",
)
for _name, _field, _claim in (
    ("market_by_the_name_of_a_real_one", "name", "CSI300 real prices"),
    ("market_of_another_source", "source", "the exchange"),
    ("market_with_repairs_that_were_not_made", "repairs", ["12 splits were put right"]),
    ("market_with_other_assets", "assets", 1),
):
    forged(_name, "snapshot", setting("snapshot", _field, to=_claim))

_two(
    "snapshot",
    _of_other_model(setting("snapshot", "benchmark_name", to="SYN 500")),
    "benchmark_of_another_name",
)
HIGH = setting("call", "reasoning_effort", to="high")
_two("attempts", in_turn(second_attempt, HIGH), "fewer_attempts_than_cards", "submission", 1)
bad(
    "attempts_without_the_withdrawn_card", "attempts", "submission",
    lambda board: withdraw_card(board, board.add()), forge(second_attempt, stored="elsewhere"),
    lambda board: board.edit(board.files.submission, setting("attempts", "runs", to=1)),
)  # fmt: skip
