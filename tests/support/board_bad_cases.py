"""Bad submissions, each made of the good one: what is done, the rule that refuses it, and the file that is named."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from board_bad import BadBoard, Change, Value
from ktdeval.cards import derived_fields
from ktdeval.jsonio import dumps_pretty, sha256_hex

Build = Callable[[BadBoard], object]
CASES: dict[str, tuple[Build, str, str]] = {}
"""By name: what is done to a board, the rule, and the file: `card`, `submission`, `list`, `records`, or a path."""

SCRIPT = "<script>alert(1)</script>"


def bad(rule: str, named: str = "card") -> Callable[[Build], Build]:
    """Note what a function does to an empty board."""

    def note(build: Build) -> Build:
        CASES[build.__name__] = build, rule, named
        return build

    return note


def full(rule: str, named: str = "card") -> Callable[[Build], Build]:
    """Note what a function does to a board with the good submission."""

    def note(build: Build) -> Build:
        def begin(board: BadBoard) -> None:
            board.add()
            build(board)

        CASES[build.__name__] = begin, rule, named
        return build

    return note


def forged(name: str, rule: str, change: Change, renew: bool = True) -> None:
    """Note a card with a change after which every hash, id and total was renewed."""
    CASES[name] = (lambda board: board.forge(change, renew=renew)), rule, "card"


def edited(name: str, rule: str, named: str, change: Change) -> None:
    """Note the good submission with a change of its submission or its list."""

    def build(board: BadBoard) -> None:
        board.add()
        board.edit(board.submission_path if named == "submission" else board.list_path, change)

    CASES[name] = build, rule, named


def setting(*path: str | int, to: Any) -> Change:
    """A change of one value."""

    def change(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return change


def rewrite(board: BadBoard, text: str) -> None:
    """Put another text in the place of the good card, under the name that its bytes ask for."""
    old, card_id = board.card_path, sha256_hex(text.encode("utf-8", "surrogatepass"))
    for path in (board.submission_path, board.list_path):
        board.edit(path, setting("card", to=card_id))
        path.rename(path.with_name(path.name.replace(board.card_id, card_id)))
    board.records_folder.rename(board.records_folder.with_name(card_id))
    old.unlink()
    old.with_name(f"{card_id}.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    board.card_id = card_id


# -- figures and hashes ----------------------------------------------------------------------------------------------------


@full("hash")
def tampered_metric_under_the_old_name(board: BadBoard) -> None:
    board.edit(board.card_path, setting("metrics", "sharpe", "value", to=9.9))


@bad("card")
def tampered_headline_with_renewed_hash(board: BadBoard) -> None:
    board.forge(setting("metrics", "total_return", "value", to=0.5), renew=False)


@bad("card")
def episode_id_of_another_spec(board: BadBoard) -> None:
    board.forge(setting("model", "name", to="openai/gpt-4.1"), renew=False)


forged("unknown_field", "card", setting("extra", to=1), renew=False)
forged("task_hash_of_another_config", "card", setting("task", "config", "noise_pct", to=1.0), renew=False)
forged("figure_of_the_wrong_type", "card", setting("episodes", 0, "final_nav_fen", to="all of it"), renew=False)
forged("coverage_that_does_not_follow", "card", setting("coverage", "steps_decided", to=10**6), renew=False)
forged("label_left_out", "card", setting("labels", to=[]), renew=False)


@full("hash", "list")
def artefact_of_another_hash(board: BadBoard) -> None:
    def change(value: Value) -> None:
        next(entry for entry in value["files"] if entry["path"].endswith("ledger.parquet"))["sha256"] = "0" * 64

    board.edit(board.list_path, change)


@full("hash")
def card_under_a_name_that_is_not_its_hash(board: BadBoard) -> None:
    for path in (board.submission_path, board.list_path, board.card_path):
        path.rename(path.with_name(path.name.replace(board.card_id, "a" * 64)))
    board.records_folder.rename(board.records_folder.with_name("a" * 64))
    board.card_id = "a" * 64


# -- JSON ------------------------------------------------------------------------------------------------------------------


@full("json")
def card_that_is_no_json(board: BadBoard) -> None:
    rewrite(board, "{")


@full("json")
def field_twice(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('{\n "agent"', '{\n "kind": "trading",\n "agent"', 1))


@full("json")
def not_a_number(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('"mask_draw": 0', '"mask_draw": NaN'))


@full("json")
def number_out_of_range(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('"mask_draw": 0', '"mask_draw": 1e400'))


@full("json")
def integer_of_ten_thousand_digits(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('"mask_draw": 0', f'"mask_draw": {"9" * 10_000}'))


@full("json")
def json_nested_a_hundred_thousand_deep(board: BadBoard) -> None:
    rewrite(board, "[" * 100_000)


@full("depth")
def open_object_nested_deep(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('"mask_draw": 0', f'"mask_draw": {"[" * 400}{"]" * 400}'))


@full("json")
def card_that_is_a_list(board: BadBoard) -> None:
    rewrite(board, "[]")


@full("json")
def card_that_is_not_utf8(board: BadBoard) -> None:
    data = board.card_path.read_bytes().replace(b"react", b"rea\xff\xfect", 1)
    board.card_path.write_bytes(data)
    board.card_path.rename(board.card_path.with_name(f"{sha256_hex(data)}.json"))
    for path in board.folder.rglob(f"{board.card_id}.*.json"):
        path.rename(path.with_name(path.name.replace(board.card_id, sha256_hex(data))))
    board.records_folder.rename(board.records_folder.with_name(sha256_hex(data)))
    board.card_id = sha256_hex(data)


@full("text")
def lone_surrogate(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('"CSI', '"CSI').replace('"source": "', '"source": "\\ud800', 1))


@full("key")
def prototype_as_a_field(board: BadBoard) -> None:
    rewrite(board, board.card_path.read_text().replace('"environment": {', '"environment": {"__proto__": {"ranked": true},', 1))


@full("size")
def huge_card(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(limits={"card_mb": 1}))
    rewrite(board, board.card_path.read_text() + " " * 1_100_000)


@full("size", "submission")
def huge_submission(board: BadBoard) -> None:
    board.submission_path.write_text(board.submission_path.read_text() + " " * 300_000)


@full("json", "submission")
def submission_nested_deep(board: BadBoard) -> None:
    board.submission_path.write_text('{"a":' * 30_000)


@full("json", "list")
def list_with_a_field_twice(board: BadBoard) -> None:
    board.list_path.write_text('{"card": 1, "card": 2}')


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


forged("cherry_picked_seeds", "seeds", only_seed)
forged("cherry_picked_seeds_with_all_of_them_named", "episodes", lambda card: keep(card, lambda episode: episode["seed"] == 0))
forged("missing_window", "windows", only_window)
forged("one_window_left_out", "episodes", lambda card: keep(card, lambda e: (e["window"], e["seed"]) != ("W2", 1)))
forged("seed_written_as_a_fraction", "card", doubled_seed, renew=False)
forged("other_days_of_a_window", "windows", setting("windows", 0, "last", to="2024-06-04"))
forged("other_seeds", "seeds", lambda c: [c.update(seeds=[2, 3]), *(e.update(seed=e["seed"] + 2) for e in c["episodes"])])
forged("other_task", "task", lambda c: [part.update(name="bright_open_research") for part in (c["task"], c["task"]["config"])])
forged("other_task_version", "task-version", lambda c: [part.update(version="0") for part in (c["task"], c["task"]["config"])])
forged("other_task_config", "task-config", setting("task", "config", "trading", "initial_cash_cny", to=10_000_000))
forged("mask_that_the_config_does_not_have", "task-config", setting("task", "mask", to="bright"))
forged("mode_that_the_config_does_not_have", "task-config", setting("task", "mode", to="fixed_candidate"))
forged("other_snapshot", "snapshot", setting("snapshot", "id", to="0" * 64))
forged("other_rule_set", "rules", setting("rules", to="paper"))
forged("other_mask_draw", "mask-draw", setting("mask_draw", to=3))
forged("real_said_of_a_synthetic_market", "synthetic", setting("snapshot", "synthetic", to=False))
forged("placebo", "placebo", setting("snapshot", "source", to="placebo of snapshot 0123456789ab"))
forged("unknown_parameter_of_calls", "call", setting("call", "reasoning_luck", to=7))


@bad("snapshot")
def snapshot_of_equal_first_digits(board: BadBoard) -> None:
    real = board.good.card["snapshot"]["id"]
    board.forge(setting("snapshot", "id", to=real[:12] + "0" * 52))


@bad("snapshot")
def card_without_a_market(board: BadBoard) -> None:
    board.forge(without_market, stored="elsewhere")


def without_market(card: Value) -> None:
    """Turn a trading card into that of a scoring task that asks about no market."""
    as_scoring(card)
    window = card["windows"][0]["name"]
    card["episodes"] = [{**episode, "window": None} for episode in card["episodes"] if episode["window"] == window]
    card.update(snapshot=None, windows=[])
    card["task"].update(mask=None, mode=None)


@bad("synthetic")
def synthetic_passed_off_as_real(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(market="real"))
    board.forge(setting("snapshot", "synthetic", to=False))


@bad("synthetic")
def synthetic_on_a_real_board(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(market="real"))
    board.add()


@bad("kind")
def certificate_in_the_place_of_a_card(board: BadBoard) -> None:
    board.add()
    card = {**board.good.card, "kind": "certificate"}
    board.add_verdict()
    rewrite(board, dumps_pretty(card))
    board.add_verdict()


def cut(card: Value) -> None:
    card["limit"] = 5
    for episode in card["episodes"]:
        episode["steps"] = 5
        episode["decisions"] = {"model": 5, "model_after_retry": 0, "fallback": 0, "error": 0}


def undecided(card: Value) -> None:
    for episode in card["episodes"]:
        steps = episode["steps"]
        episode["decisions"] = {"model": steps - 10, "model_after_retry": 0, "fallback": 10, "error": 0}


def unfinished(card: Value) -> None:
    gone = card["episodes"].pop()
    entry = {name: gone[name] for name in ("id", "window", "seed")} | {"error": "not run to its end"}
    card["missing_episodes"] = [entry]
    card["artefacts"] = {path: digest for path, digest in card["artefacts"].items() if gone["id"] not in path}


forged("limited_run", "limit", cut)
forged("low_coverage", "coverage", undecided)
forged("missing_episode", "coverage", unfinished)


@bad("size")
def more_episodes_than_are_taken(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(limits={"episodes": 3}))
    board.add()


@bad("certificate")
def no_certificate_where_one_is_asked_for(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules["divisions"][0].update(certificate="required"))
    board.add()


@bad("certificate")
def certificate_that_rests_on_nothing(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules["divisions"][0].update(certificate="required"))
    board.forge(setting("certificate", to={"value": {"labels": ["few answers"], "bound": {"value": None, "reason": "none"}}}))


@bad("records", "list")
def certificate_without_its_file(board: BadBoard) -> None:
    board.forge(setting("certificate", to={"value": {"labels": [], "bound": {"value": None, "reason": "none"}}}))


@full("certificate", "list")
def certificate_file_of_a_card_without_one(board: BadBoard) -> None:
    (board.records_folder / "certificate.json").write_text("{}")
    entry = {"path": "certificate.json", "sha256": sha256_hex("{}"), "bytes": 2}
    board.edit(board.list_path, lambda value: value["files"].append(entry))


@bad("metric")
def metric_of_the_rank_left_out(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules["divisions"][0].update(rank_by="luck"))
    board.add()


def drop_reference(card: Value) -> None:
    card["reference"]["benchmark_buy_and_hold"].pop("W2")


def rename_metric(card: Value) -> None:
    for holder in (card, *card["episodes"]):
        holder["metrics"]["Best Return Ever"] = holder["metrics"].pop("hhi")


forged("benchmark_left_out", "reference", drop_reference)
forged("metric_of_a_free_name", "metric", rename_metric)

# -- names -----------------------------------------------------------------------------------------------------------------

forged("model_name_with_another_alphabet", "name", setting("model", "name", to="\u043epenai/gpt-4.1"))
forged("model_name_with_a_space_at_its_end", "name", setting("model", "name", to="openai/gpt-4.1 "))
forged("agent_name_that_is_a_formula", "name", setting("agent", "name", to="=cmd|' /C calc'!A0"))
forged("model_name_of_a_thousand_signs", "name", setting("model", "name", to="m" * 1000))
forged("model_name_that_climbs", "name", setting("model", "name", to="../../../etc/passwd"))
forged("agent_name_that_climbs", "name", setting("agent", "name", to="../.."))
forged(
    "task_name_that_climbs", "task", lambda c: [p.update(name="../../.github/workflows") for p in (c["task"], c["task"]["config"])]
)
forged("model_name_with_markup", "markup", setting("model", "name", to=f"m{SCRIPT}"))
forged("agent_name_with_a_reversal", "text", setting("agent", "name", to="react\u202etxt"))
forged("model_name_with_an_escape", "text", setting("model", "name", to="m\x1b[2Jx"))


def climbing_artefact(card: Value) -> None:
    card["artefacts"]["../../../etc/passwd"] = "0" * 64


def second_window_of_one_name(card: Value) -> None:
    card["windows"].insert(0, {**card["windows"][0], "days": 1})


forged("episode_id_that_climbs", "card", setting("episodes", 0, "id", to="../../../../etc/pass"), renew=False)
forged("window_twice", "episodes", second_window_of_one_name)


@bad("records", "list")
def artefact_that_climbs(board: BadBoard) -> None:
    board.forge(climbing_artefact, renew=False)


@full("path")
def card_in_another_models_folder(board: BadBoard) -> None:
    target = board.folder / "cards" / "blinded_open_research" / "openai--gpt-4.1" / "react"
    target.mkdir(parents=True)
    for path in list(board.card_path.parent.iterdir()):
        path.rename(target / path.name)


# -- submission ------------------------------------------------------------------------------------------------------------

edited("submission_of_another_card", "submission", "submission", setting("card", to="0" * 64))
edited("submission_of_another_model", "submission", "submission", setting("model", "name", to="openai/gpt-4.1"))
edited("submission_of_another_agent", "submission", "submission", setting("agent", "name", to="planner"))
edited("statement_that_is_not_made", "schema", "submission", setting("statement", to=False))
edited("contact_that_can_not_be_written_to", "schema", "submission", setting("submitter", "contact", to="at home"))
edited("submission_with_a_field_of_its_own", "schema", "submission", setting("verdict", to="re-run"))
edited("contact_by_http", "url", "submission", setting("submitter", "contact", to="http://example.org/a"))
edited("note_that_is_a_formula", "formula", "submission", setting("note", to='=HYPERLINK("https://example.org","x")'))
edited("day_that_does_not_exist", "schema", "submission", setting("submitted_on", to="2026-02-30"))
edited("future_day", "date", "submission", setting("submitted_on", to="2026-12-02"))
edited("release_in_the_future", "date", "submission", setting("model", "released_on", to="2027-01-01"))
edited("day_before_the_board_began", "date", "submission", setting("submitted_on", to="2025-12-31"))
edited("cut_off_after_the_submission", "cutoff", "submission", setting("model", "cutoff_date", to="2026-12-01"))
edited("cut_off_after_the_release", "cutoff", "submission", setting("model", "cutoff_date", to="2024-06-01"))
edited("no_attempt", "schema", "submission", setting("attempts", "runs", to=0))


@full("missing", "submission")
def no_submission(board: BadBoard) -> None:
    board.submission_path.unlink()


@full("missing", "list")
def no_list(board: BadBoard) -> None:
    board.list_path.unlink()


@full("foreign-file", "submission")
def submission_without_a_card(board: BadBoard) -> None:
    board.card_path.unlink()
    board.list_path.unlink()
    shutil.rmtree(board.records_folder)


# -- list of records -------------------------------------------------------------------------------------------------------


def list_path(path: str) -> Change:
    return setting("files", 0, "path", to=path)


edited("record_that_climbs", "schema", "list", list_path("../../../etc/passwd"))
edited("record_that_is_absolute", "schema", "list", list_path("/etc/passwd"))
edited("record_of_an_episode_that_climbs", "schema", "list", list_path("episodes/../../../../x/ledger.parquet"))
edited("record_with_a_line_break_at_its_end", "text", "list", list_path("manifest.json\n"))
edited("record_of_another_name", "schema", "list", list_path("episodes/00000000000000000000/model.pkl"))
edited("record_of_an_episode_that_the_card_does_not_have", "records", "list", list_path(f"episodes/{'0' * 20}/ledger.parquet"))
edited("record_listed_twice", "records", "list", lambda value: value["files"].append(value["files"][0]))
edited("list_without_the_manifest", "records", "list", lambda v: v.update(files=[e for e in v["files"] if "mani" not in e["path"]]))
edited(
    "list_without_an_artefact", "records", "list", lambda v: v.update(files=[e for e in v["files"] if "ledger" not in e["path"]])
)
edited("list_of_another_card", "records", "list", setting("card", to="0" * 64))
edited("records_elsewhere_that_are_here", "records", "list", setting("stored", to="elsewhere"))
edited("records_at_a_file_address", "url", "list", setting("url", to="file:///etc/passwd"))
edited("records_larger_than_is_taken", "size", "list", setting("files", 0, "bytes", to=10**12))


@full("records", "list")
def records_here_that_are_not(board: BadBoard) -> None:
    shutil.rmtree(board.records_folder)


# -- files -----------------------------------------------------------------------------------------------------------------


@full("link")
def card_that_is_a_link(board: BadBoard) -> None:
    board.card_path.unlink()
    board.card_path.with_name(f"{board.card_id}.json").symlink_to("/etc/passwd")


@full("link", "records/manifest.json")
def record_that_is_a_link(board: BadBoard) -> None:
    path = board.records_folder / "manifest.json"
    path.unlink()
    path.symlink_to("/etc/passwd")


@full("link", "cards/loop")
def link_loop(board: BadBoard) -> None:
    (board.folder / "cards" / "loop").symlink_to(board.folder / "cards")


@full("link", "records/episodes")
def records_behind_a_link(board: BadBoard) -> None:
    outside = board.folder.parent / "outside"
    (board.records_folder / "episodes").rename(outside)
    (board.records_folder / "episodes").symlink_to(outside)


@full("link", "cards")
def cards_behind_a_link(board: BadBoard) -> None:
    (board.folder / "cards").rename(board.folder.parent / "outside")
    (board.folder / "cards").symlink_to(board.folder.parent / "outside")


@full("link", "site")
def link_at_the_root(board: BadBoard) -> None:
    (board.folder / "site").symlink_to("/")


@full("link", "series/x.json")
def link_among_what_the_board_wrote(board: BadBoard) -> None:
    (board.folder / "series").mkdir()
    (board.folder / "series" / "x.json").symlink_to("/etc/passwd")


@full("link", ".gitmodules")
def submodules(board: BadBoard) -> None:
    (board.folder / ".gitmodules").write_text('[submodule "cards/x"]\n\tpath = cards/x\n\turl = https://example.org/x\n')


@full("special", "records/manifest.json")
def record_that_is_a_pipe(board: BadBoard) -> None:
    path = board.records_folder / "manifest.json"
    path.unlink()
    os.mkfifo(path)


@full("special", "submission")
def submission_that_is_a_socket(board: BadBoard) -> None:
    path = board.submission_path
    path.unlink()
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # the path of a socket is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


@full("executable", "records/manifest.json")
def executable_record(board: BadBoard) -> None:
    (board.records_folder / "manifest.json").chmod(0o755)


@full("executable")
def executable_card(board: BadBoard) -> None:
    board.card_path.chmod(0o755)


@full("foreign-file", "cards/.gitattributes")
def attributes_among_cards(board: BadBoard) -> None:
    (board.folder / "cards" / ".gitattributes").write_text("* linguist-generated -diff\n")


@full("foreign-file", "records/payload.pkl")
def pickle_among_records(board: BadBoard) -> None:
    (board.records_folder / "payload.pkl").write_bytes(b"cos\nsystem\n(S'touch canary'\ntR.")


@full("foreign-file", "records/conftest.py")
def module_among_records(board: BadBoard) -> None:
    (board.records_folder / "conftest.py").write_text("open('canary', 'w')\n")


@full("foreign-file", "cards/deep/er/and/deeper")
def folders_too_deep(board: BadBoard) -> None:
    (board.folder / "cards" / "deep" / "er" / "and" / "deeper" / "still").mkdir(parents=True)


@full("foreign-file", "cards/page.html")
def page_among_cards(board: BadBoard) -> None:
    (board.folder / "cards" / "page.html").write_text(SCRIPT)


@full("foreign-file", "imported/page.html")
def page_among_imports(board: BadBoard) -> None:
    (board.folder / "imported").mkdir()
    (board.folder / "imported" / "page.html").write_text(SCRIPT)


@full("markup", "imported/x.json")
def markup_in_imported_results(board: BadBoard) -> None:
    (board.folder / "imported").mkdir()
    (board.folder / "imported" / "x.json").write_text(json.dumps({"model": SCRIPT}))


@full("schema", "imported/x.json")
def imported_results_of_no_schema(board: BadBoard) -> None:
    (board.folder / "imported").mkdir()
    (board.folder / "imported" / "x.json").write_text("{}")


@full("path", "cards/\\udcff")
def name_that_is_not_utf8(board: BadBoard) -> None:
    os.mkdir(os.fsencode(board.folder / "cards") + b"/\xff")  # noqa: PTH102 - a path of bytes


@full("path", "cards/na\u00efve")
def name_that_is_not_ascii(board: BadBoard) -> None:
    (board.folder / "cards" / "na\u00efve").mkdir()


@full("path", "cards/a\\nb")
def name_with_a_line_break(board: BadBoard) -> None:
    (board.folder / "cards" / "a\nb").mkdir()


@full("path", "cards/-rf")
def name_that_is_an_option(board: BadBoard) -> None:
    (board.folder / "cards" / "-rf").mkdir()


@full("path", "cards/nul.json")
def name_that_one_system_reserves(board: BadBoard) -> None:
    (board.folder / "cards" / "nul.json").write_text("{}")


@full("case", "cards/Blinded_Open_Research")
def name_that_differs_by_case_alone(board: BadBoard) -> None:
    (board.folder / "cards" / "Blinded_Open_Research").mkdir()


@full("records", "records/" + "b" * 64)
def records_of_no_card(board: BadBoard) -> None:
    (board.folder / "records" / ("b" * 64)).mkdir()


@full("size", "records/manifest.json")
def record_larger_than_is_taken(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(limits={"file_mb": 1}))
    with (board.records_folder / "manifest.json").open("r+b") as stream:
        stream.truncate(1_100_000)  # a hole: nothing is stored


@full("size", "records")
def records_larger_together_than_is_taken(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(limits={"records_mb": 1}))
    for path in board.records_folder.rglob("*.parquet"):
        os.truncate(path, 600_000)


@full("size", "records")
def more_folders_of_episodes_than_are_taken(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(limits={"episodes": 4}))
    (board.records_folder / "episodes" / ("c" * 20)).mkdir()


@full("verdict", "verdicts")
def verdict_on_another_card(board: BadBoard) -> None:
    board.add_verdict(card="0" * 64)


@full("verdict", "verdicts")
def verdict_of_no_schema(board: BadBoard) -> None:
    board.add_verdict(tier="the best")


# -- cards beside others ---------------------------------------------------------------------------------------------------


def two(rule: str, change: Change, name: str, named: str = "card", attempts: int = 2) -> None:
    """Note a second card beside the good one, on which the board has its verdict."""

    def build(board: BadBoard) -> None:
        board.add()
        board.add_verdict()
        board.forge(change, stored="elsewhere")
        board.edit(board.submission_path, setting("attempts", "runs", to=attempts))

    CASES[name] = build, rule, named


def other_records(card: Value) -> None:
    """Give a card records of its own, as another run would have."""
    card["artefacts"] = {path: sha256_hex(path + digest) for path, digest in card["artefacts"].items()}


def renamed(name: str, agent: str = "react") -> Change:
    def change(card: Value) -> None:
        card["model"]["name"], card["agent"]["name"] = name, agent
        other_records(card)

    return change


def second_attempt(card: Value) -> None:
    card["model"]["args"] = {"temperature": 0.1}
    other_records(card)


def forged_benchmark(card: Value) -> None:
    renamed("openai/gpt-4.1")(card)
    card["reference"]["benchmark_buy_and_hold"]["W1"]["metrics"]["total_return"]["value"] = -0.9


def turned_metric(card: Value) -> None:
    renamed("openai/gpt-4.1")(card)
    card["metrics"]["total_return"]["better"] = "lower"


def with_market(**fields: Any) -> Change:
    def change(card: Value) -> None:
        renamed("openai/gpt-4.1")(card)
        card["snapshot"].update(fields)

    return change


two("duplicate", second_attempt, "second_attempt_of_one_system")
two("duplicate", lambda c: [second_attempt(c), c["call"].update(reasoning_effort=None)], "second_attempt_with_an_unset_setting")
two("copy", setting("model", "name", to="openai/gpt-4.1"), "records_of_another_card")
two("copy", lambda c: [other_records(c), c["provenance"].update(wall_time_s=1.0)], "episodes_of_another_card")
two("name", renamed("BUILTIN/momentum"), "model_name_that_differs_by_case_alone")
two("name", renamed("builtin--momentum"), "model_name_that_files_alike")
two("reference", forged_benchmark, "forged_benchmark")
two("metric", turned_metric, "metric_turned_round")
two("snapshot", with_market(name="another market"), "market_of_another_name")
two("snapshot", with_market(benchmark_name="SYN 500"), "benchmark_of_another_name")
two(
    "attempts",
    lambda c: [second_attempt(c), c["call"].update(reasoning_effort="high")],
    "fewer_attempts_than_cards",
    "submission",
    1,
)


@bad("attempts", "submission")
def attempts_without_the_withdrawn_card(board: BadBoard) -> None:
    first = board.add()
    board.withdraw(first)
    board.forge(second_attempt, stored="elsewhere")


@full("copy")
def baseline_under_a_name_of_its_own(board: BadBoard) -> None:
    board.change_rules(lambda rules: rules.update(baselines=[{"model": "builtin/momentum"}]))
    board.add_verdict()
    board.forge(setting("model", "name", to="acme/genius"))


@bad("kind")
def scoring_card_of_a_trading_task(board: BadBoard) -> None:
    board.forge(as_scoring, renew=False, stored="elsewhere")


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
