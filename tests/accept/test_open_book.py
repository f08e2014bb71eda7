"""A program registers what it consists of, runs, and is ranked: as blinded only in windows that came
later, else in the division open book.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec import structs

pytest.importorskip("ktdeval_board", reason="needs ktdeval_board, which is not here")
pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")

from ktdeval.errors import KtdevalError
from ktdeval.harness import BROUGHT
from ktdeval.runner import Registration
from ktdeval_board.board_entries import LoadedBoard
from ktdeval_board.open_book import place_of
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.register import RegisterRequest, draw_keys, register
from ktdeval_command.sandboxes.sandbox import SandboxError, open_sandbox
from ktdeval_command.sandboxes.shown_parts import contents_of
from support.board.board_keys import WHO, confirm, run_under, submit
from support.board.board_runs import DIVISION, begin, plugins
from support.runs.outside_programs import HEAD

pytestmark = pytest.mark.slow  # each test is a whole run

BEFORE = "2024-02-01"  # the window begins on 2024-03-01
AFTER = "2024-06-03"


@dataclass
class Entrant:
    """A program with a library that its sandbox shows, and a board."""

    folder: Path
    library: Path
    market: Path
    board: Path

    @property
    def args(self) -> dict[str, str]:
        return {"run": "python3 agent.py", "readable": str(self.library)}

    def register(self, today: str) -> Registration:
        """Register the program, and let the board draw its key on that day."""
        options: Mapping[str, object] = {
            "model": "remote/mine",
            "agent": "command",
            "agent_args": self.args,
        }
        request = RegisterRequest(DIVISION, options, WHO, today)
        done = register(self.board, request, plugins(), Redactor({}))
        assert done.filed is not None, done.problems
        draw_keys(self.board, today)
        return done.filed.registration

    def run(self, registration: Registration) -> Path:
        """Run it under that key."""
        return run_under(
            self.board,
            registration,
            self.folder / "runs" / "run",
            self.market,
            agent="command",
            agent_args={**registration.system.agent_args, "readable": str(self.library)},
        )

    def ranked(self, run: Path) -> LoadedBoard:
        """Submit the run; the board with its card."""
        outcome = submit(self.board, run)
        assert not outcome.missing
        return confirm(self.board)


@pytest.fixture
def library() -> Iterator[Path]:
    """A folder of this machine that a sandbox may show, unlike one below its own empty /tmp."""
    with TemporaryDirectory(dir="/var", prefix="ktdeval-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def entrant(
    market: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Entrant:
    try:
        open_sandbox("bwrap")
    except SandboxError as error:
        pytest.skip(str(error))

    begin(tmp_path / "board", market, opened_on="2024-01-01")
    made = Entrant(tmp_path / "entrant", library, market, tmp_path / "board")
    made.folder.mkdir()
    (made.library / "weights.bin").write_text("0000")
    (made.folder / "agent.py").write_text(f"{HEAD}\nsubmit()\n")
    monkeypatch.chdir(made.folder)
    return made


def test_a_registration_fixes_what_the_sandbox_shows(entrant: Entrant) -> None:
    """A file of the same size can't be replaced after it."""
    registration = entrant.register(BEFORE)
    assert len(str(registration.system.agent_args[BROUGHT])) == 64
    assert "readable" not in registration.system.agent_args  # a path of this machine

    (entrant.library / "weights.bin").write_text("1234")
    contents_of.cache_clear()  # as a new process
    with pytest.raises(KtdevalError, match="what the sandbox shows besides the system changed"):
        entrant.run(registration)


@pytest.mark.parametrize(
    ("drawn_on", "is_blinded"),
    [(BEFORE, True), (AFTER, False)],
)
def test_a_program_is_ranked_as_blinded_after_its_registration_alone(
    entrant: Entrant, drawn_on: str, is_blinded: bool
) -> None:
    registration = entrant.register(drawn_on)
    board = entrant.ranked(entrant.run(registration))
    (entry,) = board.entries

    assert not entry.card.rankable.value
    assert entry.knowledge == "could have brought the market"
    # the small market is generated: its prices can be known before its days
    assert entry.division is not None
    assert (entry.division.id, entry.registered_before) == (f"{DIVISION}-open-book", None)

    rules = structs.replace(board.rules, market="real")
    place = place_of(entry.card, rules.division(DIVISION), rules, board.registrations)
    if is_blinded:
        assert (place.division.id, place.registered_before) == (DIVISION, drawn_on)
    else:
        assert (place.division.id, place.registered_before) == (f"{DIVISION}-open-book", None)
