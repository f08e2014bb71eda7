"""Bad submissions, each made of the good one: what is done, the rule that refuses it, and the file that is named.

Those that differ from it by one value, or by one file that has no place there, are rows of the YAML file beside this module.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from board_bad import BadBoard, Change, Value
from card_cases import derived_fields
from json_places import put
from ktdeval.jsonio import dumps_pretty, sha256_hex
from tables import beside

Build = Callable[[BadBoard], object]
CASES: dict[str, tuple[Build, str, str]] = {}
"""By name: what is done to a board, the rule, and the file: `card`, `submission`, `list`, `records`, or a path."""


def bad(name: str, rule: str, named: str, *steps: Build) -> None:
    """Note what is done to an empty board."""
    CASES[name] = (lambda board: [step(board) for step in steps]), rule, named


def full(name: str, rule: str, named: str, *steps: Build) -> None:
    """Note what is done to a board with the good submission."""
    bad(name, rule, named, BadBoard.add, *steps)


def forged(name: str, rule: str, change: Change, renew: bool = True) -> None:
    """Note a card with a change after which every hash, id and total was renewed."""
    bad(name, rule, "card", forge(change, renew=renew))


def edited(name: str, rule: str, named: str, change: Change) -> None:
    """Note the good submission with a change of its submission or its list."""
    part = "submission" if named == "submission" else "records"
    full(name, rule, named, lambda board: board.edit(getattr(board.files, part), change))


def setting(*path: str | int, to: Any) -> Change:
    """A change of one value."""
    return lambda value: put(value, path, to)


# -- steps -----------------------------------------------------------------------------------------------------------------


def forge(change: Change, **where: Any) -> Build:
    return lambda board: board.forge(change, **where)


def rules(**fields: Any) -> Build:
    return lambda board: board.change_rules(lambda value: value.update(fields))


def division(**fields: Any) -> Build:
    return lambda board: board.change_rules(lambda value: value["divisions"][0].update(fields))


def path_in(board: BadBoard, path: str) -> Path:
    """A path of the board; below `records/` it is one of the card's records."""
    made = board.folder / path.replace("records/", f"records/{board.card_id}/", 1)
    made.parent.mkdir(parents=True, exist_ok=True)
    return made


def file_with(path: str, text: str) -> Build:
    return lambda board: path_in(board, path).write_text(text)


def folder(path: str) -> Build:
    return lambda board: (board.folder / path).mkdir(parents=True)


def linked(path: str, to: str = "/etc/passwd") -> Build:
    """A link, in the place of the file that is there."""
    return lambda board: [path_in(board, path).unlink(missing_ok=True), path_in(board, path).symlink_to(to)]


def moved_out(path: str) -> Build:
    """A link in the place of a folder, which lies outside of the board now."""

    def build(board: BadBoard) -> None:
        outside = board.folder.parent / "outside"
        path_in(board, path).rename(outside)
        path_in(board, path).symlink_to(outside)

    return build


def rewritten(old: str, new: str) -> Build:
    """Other words in the text of the good card; it gets the name that its bytes ask for."""
    return lambda board: rewrite(board, board.files.card.read_text().replace(old, new, 1).encode("utf-8", "surrogatepass"))


def rewrite(board: BadBoard, data: bytes, card_id: str = "") -> None:
    """Put other bytes in the place of the good card, under the name that they ask for or another one."""
    old, card_id = board.files.card, card_id or sha256_hex(data)
    for path in (board.files.submission, board.files.records):
        board.edit(path, setting("card", to=card_id))
        path.rename(path.with_name(path.name.replace(board.card_id, card_id)))
    board.records_folder.rename(board.records_folder.with_name(card_id))
    old.unlink()
    old.with_name(f"{card_id}.json").write_bytes(data)
    board.card_id = card_id


def verdict(**fields: Any) -> Build:
    return lambda board: board.add_verdict(**fields)


# -- one value, or one file ------------------------------------------------------------------------------------------------

for document, rows in beside(__file__).items():
    for name, (rule, where, what) in rows.items():
        if document == "file":
            full(name, rule, where, file_with(where, what))
        elif document in ("submission", "list"):
            edited(name, rule, document, setting(*where, to=what))
        else:
            forged(name, rule, setting(*where, to=what), renew=document == "card")

# -- figures and hashes ----------------------------------------------------------------------------------------------------


def artefact_of_another_hash(value: Value) -> None:
    next(entry for entry in value["files"] if entry["path"].endswith("ledger.parquet"))["sha256"] = "0" * 64


SHARPE = setting("metrics", "sharpe", "value", to=9.9)
full("tampered_metric_under_the_old_name", "hash", "card", lambda board: board.edit(board.files.card, SHARPE))
edited("artefact_of_another_hash", "hash", "list", artefact_of_another_hash)
full("card_under_a_name_that_is_not_its_hash", "hash", "card", lambda b: rewrite(b, b.files.card.read_bytes(), "a" * 64))

# -- JSON ------------------------------------------------------------------------------------------------------------------

LIMIT = '"limit": null'
LIMITS = {name: rules(limits={name: 1}) for name in ("card_mb", "file_mb", "records_mb")}
full("card_that_is_no_json", "json", "card", lambda board: rewrite(board, b"{"))
full("field_twice", "json", "card", rewritten('{\n "agent"', '{\n "kind": "trading",\n "agent"'))
full("not_a_number", "json", "card", rewritten(LIMIT, '"limit": NaN'))
full("number_out_of_range", "json", "card", rewritten(LIMIT, '"limit": 1e400'))
full("integer_of_ten_thousand_digits", "json", "card", rewritten(LIMIT, f'"limit": {"9" * 10_000}'))
full("json_nested_a_hundred_thousand_deep", "json", "card", lambda board: rewrite(board, b"[" * 100_000))
full("open_object_nested_deep", "depth", "card", rewritten(LIMIT, f'"limit": {"[" * 400}{"]" * 400}'))
full("card_that_is_a_list", "json", "card", lambda board: rewrite(board, b"[]"))
full("card_that_is_not_utf8", "json", "card", lambda b: rewrite(b, b.files.card.read_bytes().replace(b"react", b"rea\xff", 1)))
full("lone_surrogate", "text", "card", rewritten('"source": "', '"source": "\\ud800'))
full("prototype_as_a_field", "key", "card", rewritten('"environment": {', '"environment": {"__proto__": {"ranked": true},'))
full("huge_card", "size", "card", LIMITS["card_mb"], lambda b: rewrite(b, b.files.card.read_bytes() + b" " * 1_100_000))
full("huge_submission", "size", "submission", lambda board: os.truncate(board.files.submission, 300_000))
full("submission_nested_deep", "json", "submission", lambda board: board.files.submission.write_text('{"a":' * 30_000))
full("list_with_a_field_twice", "json", "list", lambda board: board.files.records.write_text('{"card": 1, "card": 2}'))

# -- what is compared with what --------------------------------------------------------------------------------------------


def keep(card: Value, holds: Callable[[Value], bool]) -> None:
    """Drop episodes, and with them their artefacts, windows and seeds."""
    card["episodes"] = [episode for episode in card["episodes"] if holds(episode)]
    ids = {episode["id"] for episode in card["episodes"]}
    card["artefacts"] = {path: digest for path, digest in card["artefacts"].items() if path.split("/")[1] in ids}


def only_seed(card: Value) -> None:
    keep(card, lambda episode: episode["seed"] == 0)
    card["seeds"] = [0]


def only_window(card: Value) -> None:
    keep(card, lambda episode: episode["window"] == "W1")
    card["windows"] = card["windows"][:1]
    card["reference"]["benchmark_buy_and_hold"].pop("W2")


def doubled_seed(card: Value) -> None:
    """The better of two seeds under both numbers: 0 and 0.0 are equal, but not to the hash of an episode."""
    card["seeds"] = [0, 1]
    for episode in card["episodes"]:
        episode["seed"] = 0.0 if episode["seed"] == 0 else 1


def of_task(**fields: Any) -> Change:
    return lambda card: [part.update(fields) for part in (card["task"], card["task"]["config"])]


def as_scoring(card: Value) -> None:
    """Turn a trading card into a valid scoring one, whose score is called as the metric that the rank goes by."""
    for name in ("rules", "metrics", "orders", "calibration", "reference", "attribution", "certificate"):
        del card[name]
    kept = ("id", "window", "seed", "steps", "decisions", "failures", "usage")
    card["episodes"] = [{name: episode[name] for name in kept} | {"answered": episode["steps"]} for episode in card["episodes"]]
    score = {"value": 9.9, "n": 4, "interval": None, "baseline": None, "detail": {}, "unit": "fraction", "range": [None, None]}
    score |= {"better": "higher", "formula": "luck/1", "headline": True, "source": "a stranger"}
    card.update(kind="scoring", subject=None, scores={"total_return": score}, score_order=["total_return"], labels=[])
    card["cost"].pop("return_per_usd", None)
    card.update(derived_fields(card))


def without_market(card: Value) -> None:
    """Turn a trading card into that of a scoring task that asks about no market."""
    as_scoring(card)
    window = card["windows"][0]["name"]
    card["episodes"] = [episode for episode in card["episodes"] if episode.pop("window") == window]
    del card["snapshot"], card["windows"], card["mask_key"]
    config = {name: value for name, value in card["task"]["config"].items() if name not in ("mask", "mode", "windows")}
    del card["task"]["mask"], card["task"]["mode"]
    card["task"]["config"] = config


def cut(card: Value) -> None:
    card["limit"] = 5
    for episode in card["episodes"]:
        episode.update(steps=5, decisions={"model": 5, "model_after_retry": 0, "fallback": 0, "error": 0})


def undecided(card: Value) -> None:
    for episode in card["episodes"]:
        episode["decisions"] = {"model": episode["steps"] - 10, "model_after_retry": 0, "fallback": 10, "error": 0}


def unfinished(card: Value) -> None:
    gone = card["episodes"].pop()
    card["missing_episodes"] = [{name: gone[name] for name in ("id", "window", "seed")} | {"error": "not run to its end"}]
    card["artefacts"] = {path: digest for path, digest in card["artefacts"].items() if gone["id"] not in path}


ATTACKER = {"kind": "model", "name": "openai/gpt-4.1", "model": "openai/gpt-4.1", "counts_for": ["joint"]}


def certified(*labels: str) -> Change:
    return setting("certificate", to={"value": {"labels": list(labels), "attackers": [ATTACKER], "bound": {"joint": {}}}})


def drop_reference(card: Value) -> None:
    card["reference"]["benchmark_buy_and_hold"].pop("W2")


def rename_metric(card: Value) -> None:
    for holder in (card, *card["episodes"]):
        holder["metrics"]["Best Return Ever"] = holder["metrics"].pop("hhi")


def certificate_of_nothing(board: BadBoard) -> None:
    (board.records_folder / "certificate.json").write_text("{}")
    entry = {"path": "certificate.json", "sha256": sha256_hex("{}"), "bytes": 2}
    board.edit(board.files.records, lambda value: value["files"].append(entry))


REAL, FALSE = rules(market="real"), setting("snapshot", "synthetic", to=False)
forged("cherry_picked_seeds", "seeds", only_seed)
forged("cherry_picked_seeds_with_all_of_them_named", "card", lambda card: keep(card, lambda episode: episode["seed"] == 0))
forged("missing_window", "windows", only_window)
forged("one_window_left_out", "card", lambda card: keep(card, lambda e: (e["window"], e["seed"]) != ("W2", 1)))
forged("seed_written_as_a_fraction", "card", doubled_seed, renew=False)
forged("other_seeds", "seeds", lambda c: [c.update(seeds=[2, 3]), *(e.update(seed=e["seed"] + 2) for e in c["episodes"])])
forged("other_task", "task", of_task(name="bright_open_research"))
forged("other_task_version", "task-version", of_task(version="0"))
forged("snapshot_of_equal_first_digits", "snapshot", lambda c: c["snapshot"].update(id=c["snapshot"]["id"][:12] + "0" * 52))
forged("no_mask_key", "mask-key", lambda card: card.pop("mask_key"))
forged("real_said_of_a_synthetic_market", "synthetic", FALSE)
bad("synthetic_passed_off_as_real", "synthetic", "card", REAL, forge(FALSE))
bad("synthetic_on_a_real_board", "synthetic", "card", REAL, BadBoard.add)
bad("card_without_a_market", "snapshot", "card", forge(without_market, stored="elsewhere"))
bad("scoring_card_of_a_trading_task", "kind", "card", forge(as_scoring, renew=False, stored="elsewhere"))
full(
    "certificate_in_the_place_of_a_card", "kind", "card",
    verdict(), lambda b: rewrite(b, dumps_pretty({**b.good.card, "kind": "certificate"}).encode()), verdict(),
)  # fmt: skip
forged("limited_run", "limit", cut)
forged("low_coverage", "coverage", undecided)
forged("missing_episode", "coverage", unfinished)
bad("more_episodes_than_are_taken", "size", "card", rules(limits={"episodes": 3}), BadBoard.add)
ASKED = division(certificate="required", attackers=["openai/gpt-4.1"])
bad("no_certificate_where_one_is_asked_for", "certificate", "card", ASKED, BadBoard.add)
bad("certificate_that_rests_on_nothing", "certificate", "card", ASKED, forge(certified("few answers")))
bad("certificate_that_nobody_verified", "certificate", "card", ASKED, forge(certified()))
OTHERS = division(certificate="required", attackers=["openai/o3"])
bad("certificate_of_attackers_that_the_board_does_not_name", "certificate", "card", OTHERS, forge(certified()))
bad("certificate_without_its_file", "records", "list", forge(certified()))
full("certificate_file_of_a_card_without_one", "certificate", "list", certificate_of_nothing)
bad("metric_of_the_rank_left_out", "metric", "card", division(rank_by="luck"), BadBoard.add)
forged("benchmark_left_out", "card", drop_reference)
forged("metric_of_a_free_name", "metric", rename_metric)

# -- names -----------------------------------------------------------------------------------------------------------------


def into_another_models_folder(board: BadBoard) -> None:
    target = board.folder / "cards" / "blinded_open_research" / "openai--gpt-4.1" / "react"
    target.mkdir(parents=True)
    for path in list(board.files.card.parent.iterdir()):
        path.rename(target / path.name)


forged("model_name_of_a_thousand_signs", "name", setting("model", "name", to="m" * 1000))
forged("task_name_that_climbs", "task", of_task(name="../../.github/workflows"))
forged("window_twice", "card", lambda card: card["windows"].append({**card["windows"][0], "days": 1}))
PASSWD = setting("artefacts", "../../../etc/passwd", to="0" * 64)
bad("artefact_that_climbs", "records", "list", forge(PASSWD, renew=False))
full("card_in_another_models_folder", "path", "card", into_another_models_folder)

# -- submission ------------------------------------------------------------------------------------------------------------


def with_an_early_cutoff(card: Value) -> None:
    days = {window["name"]: {"before": 0, "across": 0, "after": window["days"]} for window in card["windows"]}
    card["knowledge_cutoff"] = {"date": "2010-06", "confidence": "given", "source": "--knowledge-cutoff", "windows": days}


full("cut_off_that_the_card_does_not_say", "cutoff", "submission", forge(with_an_early_cutoff))
full("no_submission", "missing", "submission", lambda board: board.files.submission.unlink())
full("no_list", "missing", "list", lambda board: board.files.records.unlink())
full(
    "submission_without_a_card", "foreign-file", "submission",
    lambda b: [b.files.card.unlink(), b.files.records.unlink(), shutil.rmtree(b.records_folder)],
)  # fmt: skip

# -- list of records -------------------------------------------------------------------------------------------------------


def without(part: str) -> Change:
    return lambda value: value.update(files=[entry for entry in value["files"] if part not in entry["path"]])


edited("record_listed_twice", "records", "list", lambda value: value["files"].append(value["files"][0]))
edited("list_without_the_manifest", "records", "list", without("mani"))
edited("list_without_an_artefact", "records", "list", without("ledger"))
full("records_here_that_are_not", "records", "list", lambda board: shutil.rmtree(board.records_folder))

# -- files -----------------------------------------------------------------------------------------------------------------


def socket_in_its_place(board: BadBoard) -> None:
    path, here = board.files.submission, Path.cwd()
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # the path of a socket is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def truncated(pattern: str, size: int) -> Build:
    """Files of another size: holes, of which nothing is stored."""
    return lambda board: [os.truncate(path, size) for path in board.records_folder.rglob(pattern)]


MANIFEST = "records/manifest.json"
full("card_that_is_a_link", "link", "card", lambda b: [b.files.card.unlink(), b.files.card.symlink_to("/etc/passwd")])
full("record_that_is_a_link", "link", MANIFEST, linked(MANIFEST))
full("link_loop", "link", "cards/loop", lambda b: (b.folder / "cards" / "loop").symlink_to(b.folder / "cards"))
full("records_behind_a_link", "link", "records/episodes", moved_out("records/episodes"))
full("cards_behind_a_link", "link", "cards", moved_out("cards"))
full("link_at_the_root", "link", "site", linked("site", "/"))
full("link_among_what_the_board_wrote", "link", "series/x.json", linked("series/x.json"))
full("record_that_is_a_pipe", "special", MANIFEST, lambda b: [path_in(b, MANIFEST).unlink(), os.mkfifo(path_in(b, MANIFEST))])
full("submission_that_is_a_socket", "special", "submission", socket_in_its_place)
full("executable_record", "executable", MANIFEST, lambda board: path_in(board, MANIFEST).chmod(0o755))
full("executable_card", "executable", "card", lambda board: board.files.card.chmod(0o755))
for name, rule, path, said in (
    ("folders_too_deep", "foreign-file", "cards/deep/er/and/deeper/still", "cards/deep/er/and/deeper"),
    ("name_that_is_not_ascii", "path", "cards/na\u00efve", ""),
    ("name_that_is_not_utf8", "path", "cards/\udcff", "cards/\\udcff"),
    ("name_with_a_line_break", "path", "cards/a\nb", "cards/a\\nb"),
    ("name_that_is_an_option", "path", "cards/-rf", ""),
    ("name_that_differs_by_case_alone", "case", "cards/Blinded_Open_Research", ""),
    ("records_of_no_card", "records", "records/" + "b" * 64, ""),
):
    full(name, rule, said or path, folder(path))
full("record_larger_than_is_taken", "size", MANIFEST, LIMITS["file_mb"], truncated("manifest.json", 1_100_000))
full("records_larger_together_than_is_taken", "size", "records", LIMITS["records_mb"], truncated("*.parquet", 600_000))
full(
    "more_folders_of_episodes_than_are_taken", "size", "records",
    rules(limits={"episodes": 4}), lambda b: (b.records_folder / "episodes" / ("c" * 20)).mkdir(),
)  # fmt: skip
full("verdict_on_another_card", "verdict", "verdicts", verdict(card="0" * 64))
full("verdict_of_no_schema", "verdict", "verdicts", verdict(tier="the best"))

# -- cards beside others ---------------------------------------------------------------------------------------------------


def two(rule: str, change: Change, name: str, named: str = "card", attempts: int = 2) -> None:
    """Note a second card beside the good one, on which the board has its verdict."""
    runs = setting("attempts", "runs", to=attempts)
    second = (forge(change, stored="elsewhere"), lambda board: board.edit(board.files.submission, runs))
    full(name, rule, named, verdict(), *second)


def other_files(card: Value) -> None:
    """Give a card files of other bytes."""
    card["artefacts"] = {path: sha256_hex(path + digest) for path, digest in card["artefacts"].items()}


def other_records(card: Value) -> None:
    """Give a card records of its own, as another run would have."""
    other_files(card)
    if "mask_key" in card:
        card["mask_key"] = sha256_hex(repr(card["model"]))[:32]


def second_attempt(card: Value) -> None:
    card["model"]["args"] = {"temperature": 0.1}
    other_records(card)


def renamed(name: str, change: Change = lambda _: None) -> Change:
    """The card of another model, with records of its own and a change."""
    return lambda card: [card["model"].update(name=name), other_records(card), change(card)]


GPT = "openai/gpt-4.1"
BENCHMARK = ("reference", "benchmark_buy_and_hold", "W1", "metrics", "total_return", "value")
two("duplicate", second_attempt, "second_attempt_of_one_system")
two("duplicate", lambda c: [second_attempt(c), c["call"].update(reasoning_effort=None)], "second_attempt_with_an_unset_setting")
two("copy", setting("model", "name", to=GPT), "records_of_another_card")
two("copy", other_files, "episodes_of_another_card")
two("mask-key", renamed(GPT, setting("mask_key", to="0" * 32)), "mask_key_of_another_run")
two("name", renamed("BUILTIN/momentum"), "model_name_that_differs_by_case_alone")
two("name", renamed("builtin--momentum"), "model_name_that_files_alike")
two("reference", renamed(GPT, setting(*BENCHMARK, to=-0.9)), "forged_benchmark")
two("metric", renamed(GPT, setting("metrics", "total_return", "better", to="lower")), "metric_turned_round")
two("snapshot", renamed(GPT, setting("snapshot", "name", to="another market")), "market_of_another_name")
two("snapshot", renamed(GPT, setting("snapshot", "benchmark_name", to="SYN 500")), "benchmark_of_another_name")
HIGH = setting("call", "reasoning_effort", to="high")
two("attempts", lambda c: [second_attempt(c), HIGH(c)], "fewer_attempts_than_cards", "submission", 1)
bad(
    "attempts_without_the_withdrawn_card", "attempts", "submission",
    lambda board: board.withdraw(board.add()), forge(second_attempt, stored="elsewhere"),
)  # fmt: skip
OWN = rules(baselines=[{"model": "builtin/momentum"}])
full("baseline_under_a_name_of_its_own", "copy", "card", OWN, verdict(), forge(setting("model", "name", to="acme/genius")))
