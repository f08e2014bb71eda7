"""Programs in processes of their own that may take so much more memory than they have when they
begin.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LIMITED = """
import resource, sys
import pandas, pyarrow.parquet, pyarrow.compute, zstandard
import ktdeval.cli.main, ktdeval_tables.vendor_tables, ktdeval_raw_markets.sources.document_files, ktdeval.runner.records.ledger_file
import ktdeval.runner.records.episode_journal

pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + {more}
resource.setrlimit(resource.RLIMIT_AS, (most, most))
sys.exit(ktdeval.cli.main.main(sys.argv[1:]))
"""


def ktdeval_within(more_bytes: int, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `ktdeval WORDS`, which may take so many bytes of address space more than what it has
    imported.
    """
    program = _LIMITED.format(more=more_bytes)
    command = [sys.executable, "-c", program, *map(str, words)]

    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)
