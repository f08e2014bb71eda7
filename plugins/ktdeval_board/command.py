"""`ktdeval leaderboard`: a group whose commands are imported only when called."""

from __future__ import annotations

from ktdeval.cli import LazyCommand, LazyGroup, parameters_of
from ktdeval_board.options import DayOptions


def _in(module: str, attribute: str, summary: str) -> LazyCommand:
    return LazyCommand(f"ktdeval_board.commands.{module}", attribute, summary)


COMMANDS = {
    "init": _in(
        "init_and_baselines", "init", "Create a board: its rules, README, schemas and CI workflow."
    ),
    "baselines": _in(
        "init_and_baselines",
        "baselines",
        "Run the baselines that a board always shows, and submit them.",
    ),
    "register": _in(
        "register", "register", "Register a system with a board, before its mask key is drawn."
    ),
    "draw": _in(
        "register",
        "draw",
        "Draw the mask keys of registrations; for a board's maintainers and its workflow.",
    ),
    "anchor": _in(
        "anchor", "anchor", "Publish the head of a run's anchors on a board, while the run goes on."
    ),
    "submit": _in("submit", "submit", "Check a run like a board's CI, and write its submission."),
    "check": _in(
        "check", "check", "Check submissions like the board's CI, and record the findings."
    ),
    "sign": _in("sign", "sign", "Sign verdicts with a maintainer's key."),
    "build": _in("site", "build", "Write the static site of a board, or serve it locally."),
    "export": _in(
        "export",
        "export",
        "Write a board's results for every_eval_ever or the Hub.",
    ),
    "import": _in(
        "import_external",
        "import_file",
        "Add a certificate of a mask with its attacks, or a record of every_eval_ever.",
    ),
}
leaderboard = LazyGroup(
    "leaderboard",
    COMMANDS,
    help=(
        "Keep a leaderboard in a git repository: submissions are checked and re-executed, ranked,"
        " and shown on a static site."
    ),
    line="ktdeval leaderboard check my-board",
    params=parameters_of(DayOptions),
    callback=lambda **_: None,  # commands read the group's options
)
