"""`python -m ktdeval` is `ktdeval`."""

import sys

from ktdeval.cli.main import main

sys.exit(main())
