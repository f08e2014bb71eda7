"""`python -m ktdeval` is `ktdeval`."""

from __future__ import annotations

import sys

from ktdeval.first_screen import print_first_screen


def main() -> int:
    """Print the first screen of help, or run the command line; return its exit code."""
    if sys.flags.optimize <= 1 and print_first_screen(sys.argv[1:]):
        return 0

    from ktdeval.cli.main import main as run_command_line  # noqa: PLC0415 - the screen does without

    return run_command_line()


if __name__ == "__main__":
    sys.exit(main())
