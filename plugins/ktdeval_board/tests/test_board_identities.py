"""Identities that nobody proves: what a stranger's registration in another's name may do to a rank,
with and without keys of submitters.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path

import msgspec
import pytest
import yaml
from inline_snapshot import snapshot

from ktdeval.cards import (
    SIGNED_CARD,
    SIGNED_REGISTRATION,
    PrivateKey,
    sign_file,
    signature_path,
    write_key_pair,
)
from ktdeval.errors import ConfigError, KtdevalError, SignatureError
from ktdeval.runner import Registrant, Registration
from ktdeval.testing import on_each_row, text_of
from ktdeval_board.attempts import attempts_of
from ktdeval_board.board_entries import load_board
from ktdeval_board.command import leaderboard
from ktdeval_board.layout import BoardFolder
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.register import RegistrationResult, register
from ktdeval_board.rules import load_rules
from support.board.board_keys import (
    OTHER,
    WHO,
    confirm,
    draw,
    entry_of,
    findings,
    first,
    key_of,
    own_system,
    registered,
    request_of,
    run_under,
    submit,
    try_register,
    why,
    write_by_hand,
)
from support.board.board_runs import DIVISION, TODAY, call, plugins, tree

MOMENTUM = "builtin/momentum"
VOLATILITY = "builtin/low_volatility"
REVERSAL = "builtin/reversal"


@pytest.fixture
def board(governed: Path, tmp_path: Path) -> Path:
    """The board with keys, to be changed."""
    return Path(shutil.copytree(governed / "board", tmp_path / "board"))


@pytest.fixture
def run(governed: Path) -> Path:
    """The run under a drawn key, to be read."""
    return governed / "runs" / "run"


@pytest.mark.slow
@on_each_row(
    "name, contact",
    ("A team", "stranger@example.org"),
    ("A stranger", "team@example.org"),
)
def test_a_strangers_unused_key_in_half_of_a_rivals_name_takes_no_rank(
    board: Path, run: Path, name: str, contact: str
) -> None:
    registered(board, VOLATILITY, Registrant(name=name, contact=contact))
    draw(board)

    assert submit(board, run).missing == ()

    loaded = confirm(board)
    assert why(loaded, MOMENTUM) == []
    assert attempts_of(loaded, entry_of(loaded, MOMENTUM)) == 1


@pytest.mark.exhaustive
def test_another_submitters_registration_does_not_block_the_same_system(
    board: Path, market: Path, tmp_path: Path
) -> None:
    registered(board, REVERSAL, OTHER)
    own = registered(board, REVERSAL)

    assert len(draw(board)) == 2

    run = run_under(board, own, tmp_path / "runs" / "reversal", market)
    unused = run_under(board, first(board), tmp_path / "runs" / "momentum", market)

    assert submit(board, run, attempts=2).missing == ()
    assert submit(board, unused, attempts=2).missing == ()
    assert findings(board) == []

    loaded = confirm(board)
    assert why(loaded, REVERSAL) == []
    assert attempts_of(loaded, entry_of(loaded, REVERSAL)) == 2


# -- keys of submitters


OWN = PrivateKey.from_seed(bytes(range(32)))
NEXT = PrivateKey.from_seed(bytes(range(3, 35)))
THEIRS = PrivateKey.from_seed(bytes(range(1, 33)))
UNKNOWN = PrivateKey.from_seed(bytes(range(2, 34)))
HOLDERS = ((WHO, OWN), (OTHER, THEIRS))


def list_keys(board: Path, *holders: tuple[Registrant, PrivateKey]) -> None:
    """Put these keys of submitters into the rules of a board, in place of others."""
    rules = yaml.safe_load((board / "board.yaml").read_text())
    rules["submitter_keys"] = [
        {"name": who.name, "contact": who.contact, "key": key.public.raw.hex()}
        for who, key in holders
    ]
    (board / "board.yaml").write_text(yaml.safe_dump(rules, sort_keys=False))


def try_signed(
    board: Path, model: str, who: Registrant, key: PrivateKey | None
) -> RegistrationResult:
    """Register a system under a key as the command does."""
    request = replace(request_of(model, who), key=key)
    return register(board, request, plugins(), Redactor({}))


def signed(board: Path, model: str, who: Registrant = WHO, key: PrivateKey = OWN) -> Registration:
    """A registration that its submitter signed."""
    done = try_signed(board, model, who, key)
    assert done.filed is not None, done.problems
    return done.filed.registration


def signature_of(board: Path, registration: Registration) -> Path:
    """The file of a registration's signature."""
    return signature_path(BoardFolder(board).registration(registration.id))


@pytest.fixture
def keyed(board: Path) -> Path:
    """The board with keys of two submitters, whose first registration was not signed."""
    list_keys(board, *HOLDERS)
    return board


@pytest.mark.slow
@on_each_row(
    "name, contact",
    ("A team", "team@example.org"),
    ("A team", "stranger@example.org"),
    ("A stranger", "team@example.org"),
    ("a-TEAM", "x@example.org"),
    ("Ａ team", "full-width@example.org"),
    ("А tеаm", "cyrillic@example.org"),
    ("A tearn", "alike@example.org"),
    ("X", "TEAM@Example.org"),
    ("X", "team+x@example.org"),
)
def test_a_registration_in_a_key_holders_name_or_contact_must_be_signed(
    keyed: Path, run: Path, name: str, contact: str
) -> None:
    who = Registrant(name=name, contact=contact)
    (problem,) = try_register(keyed, VOLATILITY, who).problems
    assert "who did not sign this registration" in problem
    assert "`ktdeval leaderboard register … --key FILE`" in problem

    system = own_system(keyed, model=VOLATILITY)
    forged = write_by_hand(keyed, first(keyed), system=system, submitter=who)

    assert [rule for rule, _ in findings(keyed)] == ["signature"]
    assert draw(keyed) == []

    # Even where its key was drawn by hand, or before the board knew the holder.
    list_keys(keyed)
    assert draw(keyed) == [forged.id]

    list_keys(keyed, *HOLDERS)
    assert submit(keyed, run, key=OWN).missing == ()

    loaded = confirm(keyed)
    assert why(loaded, MOMENTUM) == []
    assert attempts_of(loaded, entry_of(loaded, MOMENTUM)) == 1


@pytest.mark.slow
def test_a_signed_unused_key_takes_the_rank_of_its_signer_and_says_so(
    keyed: Path, run: Path
) -> None:
    abandoned = signed(keyed, VOLATILITY)
    assert findings(keyed) == []
    assert draw(keyed) == [abandoned.id]
    assert key_of(keyed, abandoned).signed_by == OWN.public.raw.hex()
    assert submit(keyed, run, attempts=2, key=OWN).missing == ()

    (reason,) = why(confirm(keyed), MOMENTUM)
    whose = f"registration {abandoned.id[:12]} ({VOLATILITY} with agent react) signed by"

    assert reason == f"{whose} the same submitter has had a key since {TODAY} that was never used"


@pytest.mark.slow
def test_nobody_signs_for_another(keyed: Path) -> None:
    nobody = Registrant(name="Nobody", contact="nobody@example.org")
    mixed = Registrant(name=WHO.name, contact=OTHER.contact)
    pairs = ((WHO, THEIRS), (WHO, UNKNOWN), (nobody, UNKNOWN), (mixed, OWN))
    problems = [try_signed(keyed, VOLATILITY, *pair).problems for pair in pairs]

    text = re.sub("[0-9a-f]{64}[.]json", "NAME.json", text_of(chain.from_iterable(problems)))

    assert text == snapshot("""\
NAME.json.sig: was made by Another team, but A team registers; a registration must be signed by the submitter who registers it
NAME.json.sig: signed by 947561e3eb43, none of which is trusted here; add the signer's public key if you trust it
signature: the board has no key of this submitter to verify it; ask its maintainers to add it to submitter_keys in board.yaml: 43cdc023d22d5f9e107d1a0693457d35d1d10eb7d21c721192f56f5de40665d3
the board has a key of Another team, whose contact it gives and who did not sign this registration; sign it with `ktdeval leaderboard register … --key FILE`
""")


def test_a_signature_of_another_registration_or_kind_of_file_is_refused(keyed: Path) -> None:
    sound = signed(keyed, REVERSAL)
    system = msgspec.structs.replace(sound.system, model=VOLATILITY)
    forged = write_by_hand(keyed, sound, system=system)
    place = signature_of(keyed, forged)
    shutil.copyfile(signature_of(keyed, sound), place)
    ((rule, copied),) = findings(keyed)

    assert rule == "signature"
    assert "signs another file" in copied

    place.unlink()
    sign_file(BoardFolder(keyed).registration(forged.id), SIGNED_CARD, OWN)
    ((rule, as_card),) = findings(keyed)

    assert (rule, "registration" in as_card) == ("signature", True)
    assert draw(keyed) == [sound.id]

    with pytest.raises(SignatureError, match=place.name):
        load_board(keyed)


@pytest.mark.slow
def test_a_signature_can_be_neither_taken_away_nor_added_after_the_draw(keyed: Path) -> None:
    registration = signed(keyed, VOLATILITY)
    draw(keyed)
    place = signature_of(keyed, registration)
    content = place.read_bytes()
    place.unlink()
    ((rule, message),) = findings(keyed)

    assert (rule, message) == (
        "signature",
        f"was signed when its key was drawn; restore {place.name}",
    )

    place.write_bytes(content.replace(b'"sig":"', b'"sig":"A', 1))
    assert [rule for rule, _ in findings(keyed)] == ["signature"]

    place.write_bytes(content)
    assert findings(keyed) == []

    sign_file(BoardFolder(keyed).registration(first(keyed).id), SIGNED_REGISTRATION, OWN)
    ((rule, message),) = findings(keyed)

    assert (rule, message) == (
        "signature",
        "was signed after its key was drawn, which has no effect",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        ((WHO, NEXT),),
        ((WHO, OWN), (WHO, NEXT)),
        ((Registrant(name="The A team", contact=WHO.contact), OWN),),
        (),
    ],
    ids=["rotated", "a second key", "renamed", "withdrawn"],
)
def test_an_unused_key_is_not_shed_with_the_key_that_signed_it(
    keyed: Path, run: Path, keys: tuple[tuple[Registrant, PrivateKey], ...]
) -> None:
    abandoned = signed(keyed, VOLATILITY)
    draw(keyed)

    assert submit(keyed, run, attempts=2, key=OWN).missing == ()

    confirm(keyed)

    for signature in (keyed / "cards").rglob("*.sig"):
        signature.unlink()

    list_keys(keyed, *keys)

    assert findings(keyed) == []

    (reason,) = why(load_board(keyed), MOMENTUM)
    assert abandoned.id[:12] in reason


@pytest.mark.exhaustive
def test_a_retired_key_signs_nothing_new_and_what_it_signed_stands(keyed: Path, run: Path) -> None:
    drawn = signed(keyed, VOLATILITY)
    draw(keyed)
    waiting = signed(keyed, REVERSAL)

    assert submit(keyed, run, attempts=3, key=OWN).missing == ()

    confirm(keyed)
    list_keys(keyed, (WHO, OWN), (WHO, NEXT))
    rules = yaml.safe_load((keyed / "board.yaml").read_text())
    rules["submitter_keys"][0]["retired"] = True
    (keyed / "board.yaml").write_text(yaml.safe_dump(rules, sort_keys=False))

    retired = "is signed with a retired key of A team; sign with the new one"

    assert findings(keyed) == [("signature", retired)]
    assert draw(keyed) == []

    (reason,) = why(load_board(keyed), MOMENTUM)
    assert drawn.id[:12] in reason

    sign_file(BoardFolder(keyed).registration(waiting.id), SIGNED_REGISTRATION, NEXT)
    assert draw(keyed) == [waiting.id]
    assert key_of(keyed, waiting).signed_by == NEXT.public.raw.hex()
    assert findings(keyed) == []


def test_a_registration_removed_with_its_signature_is_missed(keyed: Path) -> None:
    registration = signed(keyed, VOLATILITY)
    draw(keyed)
    path = BoardFolder(keyed).registration(registration.id)
    path.unlink()

    assert sorted(rule for rule, _ in findings(keyed)) == ["drawn-key", "foreign-file"]


def test_a_registration_in_the_boards_name_is_the_boards(board: Path) -> None:
    board_itself = Registrant(name="The Board", contact="x@example.org")
    (problem,) = try_register(board, VOLATILITY, board_itself).problems
    assert problem.startswith("submitter.name: 'The Board' is reserved for baselines")


def test_rules_give_a_contact_to_one_holder_that_is_not_the_board(board: Path) -> None:
    list_keys(board, (WHO, OWN), (Registrant(name="B", contact="TEAM+b@example.org"), THEIRS))
    with pytest.raises(ConfigError, match="A team and B have the same contact"):
        load_rules(board)

    list_keys(board, (Registrant(name="B", contact="board@example.org"), THEIRS))
    with pytest.raises(ConfigError, match="B: its contact is the board's"):
        load_rules(board)


def test_the_command_signs_a_registration(keyed: Path, tmp_path: Path) -> None:
    write_key_pair(tmp_path / "me.key", OWN)
    words = [
        "--on",
        TODAY,
        "register",
        "--board",
        keyed,
        "--division",
        DIVISION,
        "--model",
        VOLATILITY,
    ]
    words += ["--submitter", WHO.name, "--contact", WHO.contact]
    unsigned = call(leaderboard, *words)

    assert unsigned.exit_code == 1
    assert "who did not sign this registration" in unsigned.stdout

    done = call(leaderboard, *words, "--key", tmp_path / "me.key")
    assert done.exit_code == 0, done.output
    assert "git add registrations" in done.stdout
    assert len(list((keyed / "registrations").glob("*.sig"))) == 1
    assert findings(keyed) == []


def test_a_registration_takes_the_system_from_the_file_of_its_run(
    board: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "model: builtin/momentum\nmodel_args: {positions: 5}\ntemperature: 0.5\nwindows: W9\nout: run\n"
    )
    words = ["register", "--board", board, "--division", DIVISION, "--config", file, "--json"]
    words += ["--submitter", "A visitor", "--contact", "visitor@example.org"]
    done = call(leaderboard, "--on", TODAY, *words)

    assert done.exit_code == 0, done.output

    system = json.loads(done.stdout)["registration"]["system"]
    assert (system["model"], system["model_args"]) == ("builtin/momentum", {"positions": 5})

    other = call(leaderboard, "--on", TODAY, *words, "--model", VOLATILITY)
    assert json.loads(other.stdout)["registration"]["system"]["model"] == VOLATILITY


@pytest.mark.parametrize(
    ("text", "expected"),
    [("modle: builtin/momentum", "did you mean 'model'"), ("tasks: sums", "no model given")],
)
def test_a_file_of_a_run_that_names_no_system_is_refused(
    board: Path, tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(f"{text}\n")
    words = ["--division", DIVISION, "--submitter", "A", "--contact", "a@example.org"]
    done = call(leaderboard, "register", "--board", board, *words, "--config", file)

    assert isinstance(done.exception, KtdevalError)
    assert expected in str(done.exception)


# -- what `register` takes is what `check` takes


@on_each_row(
    "name, contact, expected",
    ("=1+1", "x@example.org", "which a spreadsheet would treat as a formula"),
    ("javascript:alert(1)", "x@example.org", "contains markup or a script"),
    ("<b>x</b>", "x@example.org", "contains markup or a script"),
    ("a\x1b[31mred", "x@example.org", "U+001B"),
    ("a\u202eb", "x@example.org", "U+202E"),
    ("", "x@example.org", "submitter.name"),
    (
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "x@example.org",
        "submitter.name",
    ),
    ("X", "nowhere", "an e-mail address, or an https address"),
    ("X", "ftp://example.org", "an address that begins with ftp://"),
)
def test_register_refuses_what_check_refuses(
    board: Path, name: str, contact: str, expected: str
) -> None:
    before = tree(board)
    who = Registrant(name=name, contact=contact)
    problems = try_register(board, VOLATILITY, who).problems

    assert any(expected in problem for problem in problems), problems
    assert tree(board) == before

    system = own_system(board, model=VOLATILITY)
    write_by_hand(board, first(board), system=system, submitter=who)

    assert {message for _, message in findings(board)} == set(problems)
