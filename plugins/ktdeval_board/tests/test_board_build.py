"""The site's files: whole, equal for equal boards, inert whatever stands on the cards, and put in
place all at once.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.errors import CardError, ConfigError, KtdevalError, UsageError
from ktdeval.testing import not_empty
from ktdeval_board.board_entries import load_board
from ktdeval_board.layout import BoardFolder
from ktdeval_board.rules import load_rules
from ktdeval_board.site import card_documents
from ktdeval_board.site.build import build_site, run_jobs
from ktdeval_board.site.card_documents import CardDocument, chosen_base
from ktdeval_board.site.files import CONTENT_SECURITY_POLICY, SiteWriter, data_file
from support.board.board_forge import HOSTILE, SCORING, entry_ids, forge_board
from support.board.board_runs import tree
from support.pages.site_pages import card_file, read_data, read_data_file
from support.paths import REPOSITORY
from support.runs.run_support import error_line, ktdeval

pytestmark = pytest.mark.slow

DIVISION = "blinded-open-research"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve entrants, nine of them odd, in two divisions, and three in one of a scoring task."""
    path = tmp_path_factory.mktemp("forge") / "board"
    return forge_board(path, 12, divisions=2, windows=2, specials=True, scoring=3)


@pytest.fixture(scope="module")
def site(board: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its site."""
    out = tmp_path_factory.mktemp("built") / "site"
    build_site(board, out)
    return out


@pytest.fixture(scope="module")
def two_entrants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of two entrants and one window, which is only copied."""
    return forge_board(tmp_path_factory.mktemp("two") / "board", 2, windows=1)


@pytest.fixture
def small(two_entrants: Path, tmp_path: Path) -> Path:
    """A board of its own for one test."""
    return Path(shutil.copytree(two_entrants, tmp_path / "board"))


def names_of_data(site: Path) -> Iterator[str]:
    for path in sorted((site / "data").rglob("*.js")):
        yield path.relative_to(site / "data").with_suffix("").as_posix()


def card_with(board: Path, effect: str) -> str:
    """The first card that an erratum of an effect names."""
    errata = yaml.safe_load((board / "errata.yaml").read_text())["errata"]
    return next(each["card"] for each in errata if each["effect"] == effect)


def change_division(board: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the first division of a board's rules."""
    rules = yaml.safe_load((board / "board.yaml").read_text())
    change(rules["divisions"][0])
    (board / "board.yaml").write_text(yaml.safe_dump(rules))


def empty_board(path: Path, windows: int = 1) -> Path:
    return forge_board(path / "board", 0, windows=windows, baselines=False)


# -- what is there


@pytest.mark.exhaustive
def test_every_page_asset_and_data_file_is_there(board: Path, site: Path) -> None:
    pages = {"index", "model", "compare", "task", "market", "card", "history", "about", "404"}
    assert {path.stem for path in site.glob("*.html")} == pages

    for page in site.glob("*.html"):
        for asset in re.findall(r'(?:src|href)="(assets/[^"]+)"', page.read_text()):
            assert (site / asset).is_file(), f"{page.name}: {asset}"

    ids = entry_ids(board)
    rules = yaml.safe_load((board / "board.yaml").read_text())
    expected = {"board", "cards-index", "history", "imported", "market/main"}
    expected |= {f"card/{card_id}" for card_id in ids}

    for kind in ("series", "decisions"):
        expected |= {f"{kind}/{path.stem}" for path in (board / kind).glob("*.json")}

    # What documents of a division have in common; cards of scoring tasks have no days.
    for division in rules["divisions"]:
        kinds = ["card"] if division["id"] == SCORING else ["card", "series", "decisions"]
        expected |= {f"base/{division['id']}/{kind}" for kind in kinds}

    expected |= {
        f"model/{hashlib.sha256(model['name'].encode()).hexdigest()[:16]}"
        for model in read_data(site, "board")["models"]
    }

    for division in rules["divisions"]:
        scopes = ["all"] if division["id"] == SCORING else ["all", "W1", "W2"]
        expected |= {f"division/{division['id']}/{scope}" for scope in scopes} | {
            f"pairs/{division['id']}/all"
        }
        expected |= {
            f"pairs/{division['id']}/{card_id}"
            for card_id in read_data(site, f"pairs/{division['id']}/all")["cards"]
        }

    assert set(names_of_data(site)) == expected


@pytest.mark.exhaustive
def test_plain_json_equals_the_scripts_and_raw_cards_the_submitted_bytes(
    board: Path, site: Path
) -> None:
    plain = {
        path.relative_to(site / "data").with_suffix("").as_posix(): path
        for path in (site / "data").rglob("*.json")
    }

    assert {
        "board",
        "cards-index",
        "history",
        "imported",
        f"division/{DIVISION}/all",
        f"division/{SCORING}/all",
    } <= set(plain)
    for name, path in plain.items():
        assert json.loads(path.read_text()) == read_data(site, name)
        receiver = rb'ktdevalReceive(Packed|Delta|)\("%s",' % name.encode()
        assert re.match(receiver, path.with_suffix(".js").read_bytes())

    for card_id in entry_ids(board):
        assert hashlib.sha256(card_file(site, card_id)).hexdigest() == card_id


def test_the_board_counts_its_entrants_and_explains_its_columns(site: Path) -> None:
    facts = read_data(site, "board")
    first = facts["divisions"][0]

    # one withdrawn
    assert (first["id"], first["entrants"], first["baselines"], first["kind"]) == (
        DIVISION,
        11,
        5,
        "trading",
    )
    assert (first["mask"], first["mode"]) == ("blinded", "open_research")
    assert (
        first["ranked"]
        == sum(row["ranked"] for row in read_data(site, f"division/{DIVISION}/all")["rows"])
        > 0
    )
    assert [window["days"] for window in first["windows"]] == [43, 43]
    assert first["task_config"]["data_card"]
    assert set(first["columns"]) <= set(facts["metrics"])
    assert facts["snapshots"][0]["benchmark_name"] == "SYN300"
    # Of the model whose card was withdrawn nothing else is there.
    assert facts["counts"] == {"cards": 35, "models": 14, "submitters": 5}


@pytest.mark.exhaustive
def test_pages_of_cards_show_the_ranks_of_the_tables_and_the_same_label(site: Path) -> None:
    index = read_data(site, "cards-index")
    labels = {row[0]: row[index["columns"].index("label")] for row in index["rows"]}
    tables = [name for name in names_of_data(site) if name.startswith("division/")]
    for name in not_empty(tables):
        rows = read_data(site, name)["rows"]
        assert all(labels[row["card"]] == row["label"] for row in rows if row["card"])
        ranked = [row for row in rows if row["ranked"]]
        for row in not_empty(ranked):
            page = read_data(site, f"card/{row['card']}")
            assert page["labels"] == row["labels"] != []
            rank = page["ranks"][name.split("/")[2]]
            assert rank.pop("of") == len(ranked)
            assert {"rank", "group_ranks", "alpha_rank", "alpha_group_ranks"} < rank.keys()
            assert len(rank) == 11
            assert rank == {field: row[field] for field in rank}


def test_withdrawn_card_leaves_tables_and_lists_but_keeps_its_page(board: Path, site: Path) -> None:
    card_id = card_with(board, "withdrawn")
    page = read_data(site, f"card/{card_id}")

    assert page["ranked"] is False
    assert page["why"] == [
        "withdrawn on 2026-11-01: the submitter found an error in the agent and asked for it"
    ]
    assert page["errata"][0]["effect"] == "withdrawn"
    assert card_id not in {row[0] for row in read_data(site, "cards-index")["rows"]}
    assert card_id not in {
        row["card"] for row in read_data(site, f"division/{DIVISION}/all")["rows"]
    }
    assert card_id in {event["card"] for event in read_data(site, "history")["events"]}


def test_cards_that_may_not_be_ranked_stay_with_their_reason(board: Path, site: Path) -> None:
    rows = {row["card"]: row for row in read_data(site, f"division/{DIVISION}/all")["rows"]}
    unranked = card_with(board, "unranked")

    assert rows[unranked]["rank"] is None
    assert read_data(site, f"card/{unranked}")["why"] == rows[unranked]["why"] != []

    for entry in load_board(board).entries:
        if entry.tier == "unchecked" or not entry.card.rankable.value:
            assert read_data(site, f"card/{entry.card_id}")["ranked"] is False


@pytest.mark.exhaustive
def test_model_text_stays_data_and_headers_allow_only_site_scripts(
    site: Path,
) -> None:
    texts = [
        json.dumps(read_data(site, name))
        for name in names_of_data(site)
        if name.startswith("decisions/")
    ]

    assert any(json.dumps(HOSTILE[1])[1:-1] in text for text in texts)
    assert not any("owned" in page.read_text() for page in site.glob("*.html"))
    served = (site / "_headers").read_text()
    hashed = re.compile(" 'sha256-[^']+'")
    assert len(hashed.findall(served)) == 1  # the script of the page for wrong addresses
    assert (
        f"Content-Security-Policy: {CONTENT_SECURITY_POLICY}; frame-ancestors 'none'"
        in hashed.sub("", served)
    )
    assert (
        "unsafe" in CONTENT_SECURITY_POLICY,
        "script-src 'self'" in CONTENT_SECURITY_POLICY,
    ) == (False, True)
    assert (site / ".nojekyll").read_text() == ""
    assert (site / "robots.txt").read_text().startswith("User-agent: *")


# -- equal boards, equal bytes


@pytest.mark.exhaustive
def test_the_number_of_processes_changes_no_byte(board: Path, site: Path, tmp_path: Path) -> None:
    report = build_site(board, tmp_path / "one", workers=1)
    assert tree(tmp_path / "one") == tree(site)
    assert (report.cards, report.divisions) == (37, 3)
    sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    assert (report.files, report.size) == (len(sizes), sum(sizes))


@pytest.mark.exhaustive
def test_a_second_build_replaces_the_first_and_a_failed_one_nothing(
    small: Path, tmp_path: Path
) -> None:
    out = small / "site"
    before = tree(small)
    (tmp_path / "out").mkdir()
    build_site(small, tmp_path / "out", workers=1)  # an empty folder may become the site

    assert tree(small) == before, "the board is only read"

    build_site(small, out, workers=1)
    built = tree(out)

    assert built == tree(tmp_path / "out")

    (out / "stray.html").write_text("left by somebody")
    build_site(small, out, workers=1)

    assert (tree(out), out.stat().st_mode & 0o777) == (built, 0o755)

    next((small / "series").iterdir()).write_text("<<<<<<< ours")

    with pytest.raises(CardError):
        build_site(small, out, workers=1)

    assert tree(out) == built
    assert [
        path.name for path in small.iterdir() if "site" in path.name or path.name.startswith(".")
    ] == ["site"]


# -- where it is put


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_only_a_built_site_is_replaced(small: Path, tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "folder"
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("years of work")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(elsewhere)
    before = tree(tmp_path)

    for target in (tmp_path / kind, small):  # the board's own repository is none, either
        with pytest.raises(UsageError, match="choose another --out"):
            build_site(small, target)

    assert tree(tmp_path) == before


# -- boards that can't be built


@pytest.mark.parametrize("name", [".", "bord"])
def test_missing_board_error_names_the_init_command_and_creates_no_folder(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError, match=r"not a board.*ktdeval leaderboard init"):
        build_site(tmp_path / name, tmp_path / name / "site")

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("folder", ["series", "decisions"])
def test_a_derived_file_that_is_no_json_is_named(
    small: Path, tmp_path: Path, folder: str, workers: int
) -> None:
    path = sorted((small / folder).iterdir())[0]
    path.write_text('{"card": "x"}); document.title = "owned"; (')
    message = (
        rf"{path.name}: (is not JSON|belongs to another card).* run `ktdeval leaderboard check"
        r" --all`"
    )

    with pytest.raises(CardError, match=message):
        build_site(small, tmp_path / "site", workers=workers)


def test_series_of_another_card_or_missing_baselines_are_refused(
    small: Path, tmp_path: Path
) -> None:
    first, second = sorted((small / "series").iterdir())[:2]
    shutil.copy(first, second)
    with pytest.raises(CardError, match=f"{second.name}: belongs to another card"):
        build_site(small, tmp_path / "site", workers=1)

    for path in small.glob("cards/*/builtin--reversal/*/*.json"):
        path.unlink()

    with pytest.raises(CardError, match=r"builtin/reversal.*ktdeval leaderboard baselines"):
        build_site(small, tmp_path / "site", workers=1)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("submitter", 5, "submitter"),
        ("note", "<script>alert(1)</script>", "note"),
        ("submitted_on", "yesterday", "submitted_on"),
    ],
)
def test_a_submission_without_a_verdict_is_not_trusted(
    small: Path, tmp_path: Path, field: str, value: Any, problem: str
) -> None:
    files = next(BoardFolder(small).list_cards())
    BoardFolder(small).verdict(files.card_id).unlink()
    submission = json.loads(files.submission.read_text())
    files.submission.write_text(json.dumps({**submission, field: value}))

    with pytest.raises(CardError, match=f"submission.json: {problem}"):
        build_site(small, tmp_path / "site", workers=1)


def test_an_unchecked_card_is_validated(small: Path, tmp_path: Path) -> None:
    files = next(BoardFolder(small).list_cards())
    card = json.loads(files.card.read_text())
    card["metrics"]["total_return"]["value"] += 0.5
    text = json.dumps(card)
    changed = files.card.with_name(f"{hashlib.sha256(text.encode()).hexdigest()}.json")
    changed.write_text(text)
    shutil.copy(files.submission, changed.with_suffix(".submission.json"))

    with pytest.raises(CardError, match=r"metrics\.total_return\.value"):
        build_site(small, tmp_path / "site", workers=1)


def test_a_card_from_before_a_label_of_its_task_is_shown_with_it() -> None:
    label = "identifiable by its prices"
    earlier = []
    for entry in load_board(REPOSITORY / "leaderboards/practice").entries:
        if label not in json.loads(entry.files.card.read_bytes())["labels"]:
            earlier.append(entry)

    assert len(earlier) >= 14
    assert all(label in entry.card.labels for entry in earlier)


@pytest.mark.parametrize("names", [("W1", "w1"), ("a/b", "a--b"), ("ALL", "W1"), ("all", "W1")])
def test_windows_that_would_share_an_address_are_refused(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    board = empty_board(tmp_path, windows=2)
    change_division(
        board,
        lambda division: [
            w.update(name=name) for w, name in zip(division["windows"], names, strict=True)
        ],
    )

    # by build, check and all else
    with pytest.raises(ConfigError, match="would have the same address; rename one of them"):
        load_rules(board)


def test_divisions_that_ask_for_the_same_cards_are_refused(tmp_path: Path) -> None:
    board = empty_board(tmp_path, windows=2)
    rules = yaml.safe_load((board / "board.yaml").read_text())
    rules["divisions"].append({**rules["divisions"][0], "id": "again", "rank_by": "sharpe"})
    (board / "board.yaml").write_text(yaml.safe_dump(rules))

    with pytest.raises(ConfigError, match="again matches the same cards as"):
        load_rules(board)


def test_a_snapshot_whose_name_is_no_address_is_refused(tmp_path: Path) -> None:
    path = empty_board(tmp_path) / "board.yaml"
    path.write_text(
        path.read_text()
        .replace("name: main", "name: ../main")
        .replace("snapshot: main", "snapshot: ../main")
    )

    with pytest.raises(ConfigError, match="can't be part of an address"):
        load_rules(path.parent)


# -- odd boards that can be


def test_an_empty_board_has_a_site_with_addresses_of_its_windows(
    tmp_path: Path,
) -> None:
    board = empty_board(tmp_path, windows=2)
    site = tmp_path / "site"
    address = "2024-04-01-2024-06-05"
    change_division(
        board, lambda division: division["windows"][0].update(name="2024-04-01:2024-06-05")
    )
    slip = {
        "card": "0" * 64,
        "date": "2026-02-02",
        "effect": "withdrawn",
        "what": "a slip in the id",
    }
    (board / "errata.yaml").write_text(json.dumps({"errata": [slip]}))

    assert build_site(board, site).notes == (
        f"division {DIVISION} has no cards yet",
        "errata.yaml: no card 000000000000… exists (erratum of 2026-02-02: withdrawn)",
    )

    facts = read_data(site, "board")["divisions"][0]
    # from the market's document
    assert (facts["columns"], [window["days"] for window in facts["windows"]]) == ([], [43, 43])
    assert facts["scopes"] == ["all", address, "W2"]
    assert [
        read_data(site, f"division/{DIVISION}/{scope}")["rows"] for scope in ("all", address)
    ] == [[], []]
    assert read_data(site, f"division/{DIVISION}/{address}")["scope"] == address


def test_a_card_without_a_division_is_reported_and_has_a_page(small: Path, tmp_path: Path) -> None:
    change_division(small, lambda division: division.update(seeds=[0, 1]))
    report = build_site(small, tmp_path / "site", workers=1)

    assert "belongs to no division" in report.notes[0]

    page = read_data(tmp_path / "site", f"card/{entry_ids(small)[0]}")
    assert page["division"] is None
    assert page["why"] == [
        "belongs to no division of the board",
        "seeds 0, the board requires 0, 1",
    ]


def test_a_real_board_is_labelled(tmp_path: Path) -> None:
    board = forge_board(tmp_path / "board", 2, windows=1, market="real", decisions=False)
    build_site(board, tmp_path / "site", workers=1)
    facts = read_data(tmp_path / "site", "board")

    assert (facts["market"], facts["snapshots"][0]["synthetic"]) == ("real", False)
    assert "synthetic" not in (tmp_path / "site/index.html").read_text()


# -- parts


def test_a_data_file_is_one_call_with_one_value_and_nothing_else() -> None:
    assert data_file("a/b", b'{"x":1}\n') == b'ktdevalReceive("a/b",\n{"x":1}\n);\n'

    value = {"text": "</script>" + "alert(1);" * 10_000}
    text = data_file("a", json.dumps(value).encode())

    assert re.fullmatch(rb'ktdevalReceivePacked\("a",\n"[A-Za-z0-9+/=]+"\n\);\n', text)
    assert len(text) < 1_000
    assert read_data_file(text) == value

    with pytest.raises(ValueError, match="no data file"):
        read_data_file(b'alert("a",\n1\n);\n')


@pytest.mark.parametrize(("packed", "is_chosen"), [(8, True), (9, False)])
def test_a_base_is_chosen_if_differences_take_four_fifths_of_it_or_less(
    packed: int, is_chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([10, packed])
    monkeypatch.setattr(card_documents, "_packed_size", lambda _: next(sizes))
    documents = [CardDocument(7, "a", lambda: "a,b,c,d"), CardDocument(5, "b", lambda: "a,b,c")]

    assert (chosen_base(documents) is not None) is is_chosen


def test_scripts_and_styles_of_pages_are_written(small: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    SiteWriter(site).add_static(load_rules(small))

    assert {"pages.css", "pages.js"} <= {path.name for path in (site / "assets").iterdir()}


def test_a_site_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    with pytest.raises(KtdevalError, match="can't write"):
        SiteWriter(tmp_path).put("board", {})


@pytest.mark.exhaustive
def test_jobs_give_their_results_in_order_and_their_errors() -> None:
    def fail() -> int:
        raise CardError("card 3: is not valid")

    assert list(run_jobs([lambda: 1, lambda: 2, lambda: 3], workers=2)) == [1, 2, 3]

    with pytest.raises(CardError, match="card 3: is not valid"):
        list(run_jobs([lambda: 1, fail], workers=2))


# -- the command


@pytest.mark.exhaustive
def test_the_command_builds_next_to_the_board_and_lists_the_files(
    small: Path, tmp_path: Path
) -> None:
    done = ktdeval("leaderboard", "build", cwd=small)
    assert done.code == 0, done.err
    assert re.fullmatch(
        r"site    site/index.html \(7 cards, 1 division, \d+ files, \d+\.\d MB\)\n", done.out
    )
    assert (small / "site/index.html").is_file()
    assert "not a board" in error_line(ktdeval("leaderboard", "build", small / "site", cwd=small))

    lines: list[str] = []
    report = build_site(small, tmp_path / "site", lines.append, workers=1)

    assert (report.cards, report.divisions, report.notes) == (7, 1, ())
    assert lines == [
        "reading the board",
        "ranking 7 cards in 1 division",
        "writing cards and pages",
    ]


@pytest.mark.exhaustive
def test_the_benchmark_prints_what_a_build_takes_and_a_reader_is_sent(
    tmp_path: Path, repository: Path
) -> None:
    words = ("--cards", "2", "--divisions", "1", "--windows", "1")
    script = repository / "benchmarks/bench_board.py"
    done = subprocess.run(
        [sys.executable, str(script), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    for line in (
        r"2 cards: 1 divisions, 1 windows; .* MB",
        r"  build .* s wall .* s CPU .* MiB peak",
        r"    of the floor .* x",
    ):
        assert re.search(f"^{line}", done.stdout, re.MULTILINE), done.stdout

    assert re.search(r"^  board page +[\d.]+ MB, [\d.]+ MB packed$", done.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []
