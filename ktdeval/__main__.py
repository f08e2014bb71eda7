"""Entry point: `python -m ktdeval` runs the `ktdeval` command."""

from __future__ import annotations

import sys

from ktdeval.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
