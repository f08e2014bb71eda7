"""What reading a card and asking for help may cost: no library of figures that is not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"pandas", "scipy", "pyarrow", "statsmodels"}
LIST_IMPORTED = "import sys; print(*sys.modules)"


def printed(script: str) -> str:
    """What a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [
        "import ktdeval.cards.card, ktdeval.cards.card_reading",
        "import ktdeval.cards as cards\nfor name in cards.__all__: getattr(cards, name)",
    ],
)
def test_reading_a_card_imports_no_heavy_library(script: str) -> None:
    imported = set(printed(f"{script}\n{LIST_IMPORTED}").split())
    assert "ktdeval.cards.card_reading" in imported
    assert not HEAVY & imported


def test_a_printed_ratio_is_judged_without_libraries_of_tables_and_tests() -> None:
    """Of scipy, only its special functions are needed."""
    heavy = ["pandas", "pyarrow", "statsmodels", "scipy.stats", "scipy.integrate"]
    script = (
        "import sys; from ktdeval.cli.main import main;"
        " main('judge --sharpe 6.47 --days 40 --trials 64'.split());"
        f" print('imported:', [name for name in {heavy} if name in sys.modules])"
    )
    assert printed(script).endswith("imported: []\n")


PRINT_ALL_HELP = """
import contextlib, io, sys
import click
from ktdeval.cli.groups import load_command
from ktdeval.cli.main import cli, main

def ask(words, command):
    if words:
        main([*words, "--help"])

    heavy = HEAVY & set(sys.modules)
    if heavy:
        sys.exit(f"{' '.join(words)} --help imports {', '.join(sorted(heavy))}")

    if hasattr(command, "of_providers"):  # data make
        for of_provider in command.of_providers(click.Context(command)):
            ask([*words, of_provider.name], of_provider)

    if isinstance(command, click.Group):
        context = click.Context(command)
        takes_folder = any(isinstance(each, click.Argument) for each in command.params)
        # The modules of these two check cards and serve a market, and import what computes.
        if takes_folder or words == ["leaderboard"]:
            return

        for name in command.list_commands(context):
            if name == "qfinzero":
                continue

            ask([*words, name], load_command(command.get_command(context, name)))

with contextlib.redirect_stdout(io.StringIO()) as shown:
    ask([], cli)

print(shown.getvalue().count("Usage:"))
"""


def test_help_imports_no_library_of_figures() -> None:
    """Of all commands but those inside the groups `leaderboard` and `qfinzero`."""
    heavy = {"pandas", "scipy", "statsmodels", "vl_convert", "openai", "anthropic", "torch"}
    assert int(printed(f"HEAVY = {heavy}\n{PRINT_ALL_HELP}")) > 70
