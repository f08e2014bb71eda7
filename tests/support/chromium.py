"""The browser of the tests of pages."""

from __future__ import annotations

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
DRAWS = "new Promise(done => { requestAnimationFrame(() => done(true)); setTimeout(() => done(false), 5000); })"
"""Whether a page gets frames: a browser without a screen now and then leaves a new page without any for good. Such a page can't be
photographed either, and no script can wake it; loading it again helps."""

needs_browser = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs a browser at {CHROMIUM}: apt-get install chromium")
