"""A grinder on a board that draws keys: over keys, parameters, attempts, names of one's own model,
abandoned registrations.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from ktdeval.errors import ConfigError, StoreError, UsageError
from ktdeval.runner import Registrant, RunFolder, load_config
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_pretty, loads_strict, to_plain
from ktdeval_board.attempts import attempts_of
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, check_board, check_changes
from ktdeval_board.layout import BoardFolder
from ktdeval_board.register import draw_keys
from ktdeval_board.site.build import build_site
from support.board.board_cards import made_on
from support.board.board_keys import (
    OTHER,
    WHO,
    claim_registration,
    confirm,
    draw,
    entry_of,
    findings,
    first,
    force,
    key_of,
    own_system,
    registered,
    run_under,
    submit,
    try_register,
    why,
    write_by_hand,
)
from support.board.board_repository import commit, propose
from support.board.board_runs import (
    DIVISION,
    TODAY,
    begin,
    change_rules,
    make_run,
    plugins,
    printed,
)
from support.pages.site_pages import read_data, read_data_file

pytestmark = pytest.mark.slow

MOMENTUM = "builtin/momentum"
VOLATILITY = "builtin/low_volatility"
REVERSAL = "builtin/reversal"


@pytest.fixture
def board(governed: Path, tmp_path: Path) -> Path:
    """That board, to be changed."""
    return Path(shutil.copytree(governed / "board", tmp_path / "board"))


@pytest.fixture
def run(governed: Path) -> Path:
    """A run under the drawn key, to be read."""
    return governed / "runs" / "run"


@pytest.fixture
def own_run(governed: Path, tmp_path: Path) -> Path:
    """That run, to be changed."""
    return Path(shutil.copytree(governed / "runs" / "run", tmp_path / "own" / "run"))


def rules_of(board: Path) -> set[str]:
    """Rules that a board breaks, the absence of baselines aside, which is none of the check's."""
    return {rule for rule, _ in findings(board)}


def messages(board: Path, rule: str) -> list[str]:
    """What is said of a rule."""
    return [message for broken, message in findings(board) if broken == rule]


# -- the honest way


@pytest.mark.exhaustive
def test_a_registered_system_under_its_drawn_key_is_taken_and_ranked(
    board: Path, run: Path
) -> None:
    assert submit(board, run).missing == ()
    assert findings(board) == []

    loaded = confirm(board)
    assert why(loaded, MOMENTUM) == []

    entry = entry_of(loaded, MOMENTUM)
    registration = first(board)

    assert (entry.card.registration, entry.card.mask_key) == (
        registration.id,
        key_of(board, registration).mask_key,
    )
    assert "own key" not in entry.labels


@pytest.mark.parametrize(
    ("day", "words"),
    [
        ("2026-03-01", "2026-03-01 is before the key of its run was drawn (2026-03-02)"),
        ("2026-03-03", "2026-03-03 is in the future (today is 2026-03-02)"),
    ],
)
def test_a_card_was_made_between_the_drawing_of_its_key_and_today(
    board: Path, own_run: Path, day: str, words: str
) -> None:
    force(board, made_on(own_run, day))
    assert findings(board) == [("provenance", f"created_at of the card: {words}")]


@pytest.mark.exhaustive
def test_check_executes_a_registered_card_and_its_baseline_again(board: Path, run: Path) -> None:
    assert submit(board, run).missing == ()

    printed("--on", TODAY, "baselines", board)
    report = check_board(board, plugins(), CheckOptions(today=TODAY))

    assert report.findings == ()
    assert sorted(each.tier for each in report.checked) == ["re-executed", "re-run"]
    assert why(load_board(board), MOMENTUM) == []

    baseline = entry_of(load_board(board), "builtin/equal_weight")
    filed = load_board(board).registrations.by_id[baseline.card.registration or ""]

    assert (filed.registration.submitter.name, filed.registration.submitter.contact) == (
        "the board",
        "board@example.org",
    )


@pytest.mark.exhaustive
def test_every_window_and_seed_of_a_registration_has_handles_of_its_own(
    board: Path, market: Path, tmp_path: Path
) -> None:
    change_rules(board, ("seeds: [0]", "seeds: [0, 1]"))
    registration = registered(board, REVERSAL)
    draw(board)
    card = run_under(board, registration, tmp_path / "two", market)
    manifest = loads_strict((card / "manifest.json").read_bytes())

    assert manifest["registration"] == registration.id
    assert [spec["seed"] for spec in manifest["episodes"]] == [0, 1]

    specs = RunFolder.load(card).manifest.specs
    assert len({spec.mask_key for spec in specs}) == 1
    assert len({spec.mask_seed for spec in specs}) == 2


# -- over keys


@pytest.mark.exhaustive
def test_a_card_under_a_key_of_ones_own_is_shown_as_such_without_a_rank(
    board: Path, market: Path, tmp_path: Path
) -> None:
    ground = make_run(tmp_path / "runs" / "ground", market, model=VOLATILITY, mask_key="5" * 32)
    outcome = submit(board, ground)

    assert outcome.missing == ()
    assert [note.partition(": own key: ")[0] for note in outcome.notes] == [
        "blinded_open_research.json"
    ]
    assert findings(board) == []

    loaded = confirm(board)
    assert entry_of(loaded, VOLATILITY).labels[-1] == "own key"
    assert why(loaded, VOLATILITY)[0].startswith("own key: ")


def test_a_run_under_a_registration_takes_no_other_key(
    board: Path, market: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        UsageError,
        match="--mask-key: the registration already contains the key that the board drew",
    ):
        run_under(board, first(board), tmp_path / "run", market, mask_key="5" * 32)


@pytest.mark.exhaustive
def test_a_registration_after_the_run_gets_a_key_that_the_run_did_not_have(
    board: Path, market: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "runs" / "r", market, model=VOLATILITY)
    registration = registered(board, VOLATILITY)
    claim_registration(run, registration.id)

    assert any("has no key yet" in problem for problem in submit(board, run).missing)

    draw(board)
    assert any(
        "mask_key: is not the key drawn" in problem for problem in submit(board, run).missing
    )


def test_a_key_is_drawn_once_from_the_boards_own_randomness(board: Path, tmp_path: Path) -> None:
    before = key_of(board, first(board))
    assert draw(board) == []
    assert key_of(board, first(board)) == before

    twin = Path(shutil.copytree(board, tmp_path / "twin"))
    one = registered(board, VOLATILITY)
    other = registered(twin, VOLATILITY)

    assert one == other
    assert draw(board) == draw(twin) == [one.id]
    assert key_of(board, one).mask_key != key_of(twin, other).mask_key


def test_a_key_that_was_written_by_hand_or_moved_is_refused(board: Path) -> None:
    registration = registered(board, VOLATILITY)
    drawn = key_of(board, first(board))
    forged = msgspec.structs.replace(drawn, id=registration.id, registration=registration)
    BoardFolder(board).key(registration.id).write_text(dumps_pretty(to_plain(forged)))
    (message,) = messages(board, "drawn-key")

    assert message.startswith("has the key of keys/")

    BoardFolder(board).key(registration.id).write_text(dumps_pretty(to_plain(drawn)))
    assert any("its name is not the id" in message for message in messages(board, "drawn-key"))

    with pytest.raises(StoreError, match="exists but is invalid"):
        draw(board)


# -- over parameters


@pytest.mark.parametrize(
    "parameter",
    [{"temperature": 0.7000001}, {"max_output_tokens": 4095}, {"reasoning_tokens": 1}],
    ids=["temperature", "max_output_tokens", "reasoning_tokens"],
)
def test_a_parameter_makes_no_second_registration(
    board: Path, parameter: dict[str, object]
) -> None:
    (problem,) = try_register(board, MOMENTUM, **parameter).problems
    assert "is already registered in division" in problem

    call = {**first(board).system.call, **parameter}
    write_by_hand(board, first(board), system=own_system(board, call=call))

    assert rules_of(board) == {"registration"}
    assert draw(board) == []


def test_a_system_that_the_task_refuses_is_not_registered_and_gets_no_key(board: Path) -> None:
    """Its unused key would cost the submitter every rank. A run makes the same check."""
    with pytest.raises(UsageError, match="builtin/macd decides BUY, SELL or HOLD, and the task"):
        try_register(board, "builtin/macd")

    refused = write_by_hand(board, first(board), system=own_system(board, model="builtin/macd"))
    drawn = draw_keys(board, TODAY, plugins())
    assert drawn.drawn == ()
    (finding,) = [each for each in drawn.findings if refused.id in each.path]
    assert "the division's task refuses its system: builtin/macd decides BUY" in finding.message

    assert try_register(board, REVERSAL).filed is not None
    assert len(draw_keys(board, TODAY, plugins()).drawn) == 1


@on_each_row(
    "option",
    ({"temperature": 0.7000001},),
    ({"seeds": 2},),
    ({"model": "builtin/low_volatility"},),
    ({"limit": 3},),
    ({"agent": "vote"},),
)
def test_a_run_under_a_registration_has_what_was_registered(
    board: Path, market: Path, tmp_path: Path, option: dict[str, object]
) -> None:
    (name,) = option
    with pytest.raises(UsageError, match=f"--registration: {name}: registered "):
        run_under(board, first(board), tmp_path / "run", market, **option)


def test_a_run_with_a_registration_needs_no_other_option(
    board: Path, market: Path, tmp_path: Path
) -> None:
    registration = first(board)
    config = load_config(
        None, {"registration": str(BoardFolder(board).key(registration.id)), "data": str(market)}
    )

    assert (config.model, config.tasks, config.windows) == (
        MOMENTUM,
        ("blinded_open_research",),
        ("2024-03-01:2024-03-14",),
    )

    with pytest.raises(ConfigError, match="has no key yet"):
        load_config(None, {"registration": str(BoardFolder(board).registration(registration.id))})


@pytest.mark.exhaustive
def test_a_division_of_several_seeds_takes_no_run_of_fewer(
    board: Path, market: Path, tmp_path: Path
) -> None:
    change_rules(board, ("seeds: [0]", "seeds: [0, 1]"))
    registration = registered(board, REVERSAL)

    assert registration.seeds == (0, 1)

    draw(board)

    with pytest.raises(UsageError, match="--registration: seeds: registered 0, 1, this run has 0"):
        run_under(board, registration, tmp_path / "run", market, seeds=1)

    fewer = make_run(
        tmp_path / "r" / "fewer",
        market,
        model=REVERSAL,
        mask_key=key_of(board, registration).mask_key,
    )
    claim_registration(fewer, registration.id)
    force(board, fewer)

    assert rules_of(board) == {"registered", "seeds"}

    system = own_system(board, model=VOLATILITY)
    write_by_hand(board, registration, seeds=(0,), system=system)

    assert any(
        message.startswith("seeds: differs from that of division")
        for message in messages(board, "registration")
    )


# -- over attempts and names


@pytest.mark.parametrize("model", ["builtin/Momentum", "mine/momentum", "other/sub/mo-men.tum"])
def test_a_name_spelled_differently_is_the_same_system_of_a_submitter(
    board: Path, model: str
) -> None:
    write_by_hand(board, first(board), system=own_system(board, model=model))
    (message,) = messages(board, "registration")
    assert "a submitter may register a system only once" in message


def test_equal_content_is_one_registration_in_any_file_format(board: Path) -> None:
    registration = first(board)
    (problem,) = try_register(board, MOMENTUM).problems

    assert problem.endswith("already exists; equal content is the same registration")

    text = BoardFolder(board).registration(registration.id).read_text()
    spaced = BoardFolder(board).registration("a" * 64)
    spaced.write_text(text.replace("\n", "\n\n"))
    (message,) = messages(board, "registration")

    assert message.startswith(f"its content is registration {registration.id[:12]}")


def test_an_earlier_day_written_by_hand_does_not_go_before_a_drawn_key(board: Path) -> None:
    system = own_system(board, model_args={"x": 1})
    write_by_hand(board, first(board), registered_on="2026-03-01", system=system)

    assert rules_of(board) == {"registration"}
    assert draw(board) == []


@pytest.mark.exhaustive
def test_names_of_ones_own_model_count_together_as_attempts(board: Path, run: Path) -> None:
    for model in (VOLATILITY, REVERSAL):
        registered(board, model)

    (problem,) = submit(board, run).missing

    assert (
        "attempts.runs: 1 declared; 3 registrations and cards of this submitter are on the board"
        in problem
    )

    unasked = Path(shutil.copytree(board, board.with_name("unasked")))
    force(unasked, run)

    assert [message[:23] for message in messages(unasked, "attempts")] == [
        "attempts.runs: 1 declar"
    ]
    assert submit(board, run, attempts=3).missing == ()

    registered(board, "builtin/chaos", Registrant(name="A  TEAM", contact="Team+new@example.org"))
    loaded = confirm(board)

    assert attempts_of(loaded, entry_of(loaded, MOMENTUM)) == 4


def test_a_submitter_has_so_many_registrations_as_the_division_takes(board: Path) -> None:
    change_rules(board, ("most_registrations: 10", "most_registrations: 2"))
    registered(board, VOLATILITY)
    (problem,) = try_register(board, REVERSAL).problems

    assert "has 2 registrations in division" in problem

    registered(board, REVERSAL, OTHER)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "contact",
    ["TEAM@example.org", "team+second@example.org"],
    ids=["case", "tag"],
)
@pytest.mark.parametrize("name", ["a team", "Ａ-Teａm", "\u0410 t\u0435\u0430m", "A tearn"])
def test_a_name_and_contact_written_otherwise_are_the_same_submitter(
    board: Path, run: Path, contact: str, name: str
) -> None:
    abandoned = registered(board, VOLATILITY, Registrant(name=name, contact=contact))
    draw(board)

    assert submit(board, run, attempts=2).missing == ()

    (reason,) = why(confirm(board), MOMENTUM)
    assert abandoned.id[:12] in reason


@pytest.mark.parametrize(
    ("option", "other", "field"),
    [("submitter", "Another", "name"), ("contact", "other@example.org", "contact")],
)
def test_who_registers_submits(board: Path, run: Path, option: str, other: str, field: str) -> None:
    (problem,) = submit(board, run, **{option: other}).missing
    assert f"registered: submitter.{field}: differs from" in problem
    assert "the same submitter must register and submit" in problem


# -- abandoned registrations


@pytest.mark.exhaustive
def test_a_key_that_is_passed_over_takes_all_ranks_of_its_submitter(
    board: Path, run: Path, market: Path, tmp_path: Path
) -> None:
    abandoned = registered(board, VOLATILITY)
    assert submit(board, run, attempts=2).missing == ()
    assert why(confirm(board), MOMENTUM) == []  # nothing is known of a key that is not drawn

    draw(board)
    (reason,) = why(confirm(board), MOMENTUM)
    of_whom = f"registration {abandoned.id[:12]} ({VOLATILITY} with agent react) with the same name and contact (not signed)"

    assert reason == f"{of_whom} has had a key since {TODAY} that was never used"

    used = run_under(board, abandoned, tmp_path / "runs" / "used", market)
    assert submit(board, used, attempts=2).missing == ()

    loaded = confirm(board)
    assert (why(loaded, MOMENTUM), why(loaded, VOLATILITY)) == ([], [])
    assert [attempts_of(loaded, entry) for entry in loaded.entries] == [2, 2]


def test_an_excused_registration_blocks_no_submitter_and_still_counts(
    board: Path, run: Path
) -> None:
    abandoned = registered(board, VOLATILITY)
    draw(board)

    assert submit(board, run, attempts=2).missing == ()

    (board / "errata.yaml").write_text(
        f"registrations:\n  - {{registration: '{abandoned.id}', date: '2026-03-02', what: The model"
        " was taken away.}\n"
    )
    loaded = confirm(board)

    assert why(loaded, MOMENTUM) == []
    assert attempts_of(loaded, entry_of(loaded, MOMENTUM)) == 2
    assert findings(board) == []

    registered(board, VOLATILITY, temperature=0.5)  # its system may register again


def test_an_excuse_before_the_draw_leaves_a_registration_without_a_key(board: Path) -> None:
    twice = write_by_hand(board, first(board), registered_on="2026-03-01")
    assert rules_of(board) == {"registration"}

    (board / "errata.yaml").write_text(
        f"registrations:\n  - {{registration: '{twice.id}', date: '2026-03-02', what: Two were"
        " merged at once.}\n"
    )

    assert findings(board) == []
    assert draw(board) == []


def test_a_registration_of_another_submitter_changes_no_rank(board: Path, run: Path) -> None:
    registered(board, VOLATILITY, OTHER)
    draw(board)
    assert submit(board, run).missing == ()
    assert why(confirm(board), MOMENTUM) == []


def test_a_registration_can_not_be_deleted(board: Path, run: Path) -> None:
    assert submit(board, run).missing == ()

    before = confirm(board)
    assert why(before, MOMENTUM) == []

    BoardFolder(board).registration(first(board).id).unlink()
    assert messages(board, "drawn-key") == [
        "is the key of a registration that is not on the board; registrations are never deleted"
    ]
    assert why(load_board(board), MOMENTUM) == [
        "its registration is not on the board, or has no key"
    ]


def test_a_baseline_is_registered_by_the_board_alone(board: Path) -> None:
    (problem,) = try_register(board, "builtin/equal_weight").problems
    assert problem.startswith("builtin/equal_weight is a baseline")


@on_each_row(
    "field, value",
    ("board", "other"),
    ("division", "none"),
    ("snapshot", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
    ("registered_on", "2031-01-01"),
)
def test_a_registration_names_this_board_and_a_division_of_its_own(
    board: Path, field: str, value: str
) -> None:
    system = own_system(board, model=VOLATILITY, call={})
    write_by_hand(board, first(board), system=system, **{field: value})
    (message,) = messages(board, "registration")

    assert message.startswith(f"{field}: ")


def test_a_hostile_registration_is_refused_as_any_document(board: Path) -> None:
    who = Registrant(name="=HYPERLINK(1)", contact="x@example.org")
    system = own_system(board, model=VOLATILITY)
    write_by_hand(board, first(board), submitter=who, system=system)

    assert rules_of(board) == {"formula"}


# -- pull requests


@pytest.fixture
def proposal(board: Path) -> Path:
    """The board in a repository, on a branch beside `main`."""
    propose(board)
    return board


def test_a_pull_request_may_add_a_registration(proposal: Path) -> None:
    registered(proposal, VOLATILITY)
    assert check_changes(proposal, "main") == []


def test_a_pull_request_may_add_no_key(proposal: Path) -> None:
    registered(proposal, VOLATILITY)
    draw(proposal)
    commit(proposal)
    (finding,) = check_changes(proposal, "main")

    assert (finding.rule, finding.path[:5]) == ("drawn-key", "keys/")


@pytest.mark.parametrize("folder", ["registrations", "keys"])
@pytest.mark.parametrize("how", ["edit", "delete"])
def test_a_pull_request_may_change_no_registration_and_no_key(
    proposal: Path, folder: str, how: str
) -> None:
    (path,) = (proposal / folder).glob("*.json")
    if how == "edit":
        path.write_text(path.read_text().replace("A team", "B team"))
    else:
        path.unlink()

    (finding,) = check_changes(proposal, "main")

    assert (finding.rule, finding.path) == ("foreign-file", f"{folder}/{path.name}")


# -- what readers see


@pytest.mark.exhaustive
def test_the_site_shows_open_unused_and_used_registrations(
    board: Path, run: Path, tmp_path: Path
) -> None:
    assert submit(board, run, attempts=2).missing == ()

    unused = registered(board, VOLATILITY)
    draw(board)
    waiting = registered(board, REVERSAL)
    change_rules(
        board,
        ('  - {model: "builtin/equal_weight", kind: rule}\n', ""),
        ("baselines:\n", "baselines: []\n"),
    )
    confirm(board)
    build_site(board, tmp_path / "site")
    rows = read_data_file((tmp_path / "site" / "data" / "registrations.js").read_bytes())[
        "registrations"
    ]

    assert {row["id"]: row["state"] for row in rows} == {
        first(board).id: "used",
        unused.id: "drawn",
        waiting.id: "open",
    }
    assert {row["submitter"] for row in rows} == {"A team"}

    (row,) = [
        row
        for row in read_data_file(
            (tmp_path / f"site/data/division/{DIVISION}/all.js").read_bytes()
        )["rows"]
        if row["card"]
    ]

    assert (row["ranked"], row["attempts"], row["registration"]) == (False, 3, first(board).id)

    card = read_data(tmp_path / "site", f"card/{row['card']}")
    assert card["registration"] == {
        "id": first(board).id,
        "submitter": "A team",
        "registered_on": TODAY,
        "drawn_on": TODAY,
        "signed": False,
        "question": None,
    }
    assert (tmp_path / "site" / "registrations.html").is_file()

    events = read_data_file((tmp_path / "site" / "data" / "history.js").read_bytes())["events"]
    kinds = [event["kind"] for event in events if event["date"] == TODAY]

    assert kinds == ["registered"] * 3 + ["drawn"] * 2 + ["submitted"]


def test_a_board_that_leaves_keys_to_submitters_takes_no_registration(
    board: Path, market: Path, tmp_path: Path
) -> None:
    begin(tmp_path / "free", market, keys="own")
    with pytest.raises(UsageError, match="submitters use their own keys"):
        try_register(tmp_path / "free", MOMENTUM)

    assert WHO.name == "A team"
