"""The page in a real browser: nothing is wider than the screen, colours follow the system, nothing is asked of the network."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chromium import CHROMIUM, FLAGS, needs_browser
from report_page import check_page
from run_support import ktdeval, store_market

pytest.importorskip("matplotlib")

pytestmark = needs_browser

TASKS = ("blinded_open_research", "bright_open_research", "blinded_fixed_candidate", "blinded_memory_only")

# The page stands in a frame as wide as the screen that is meant: what asks for the width asks the frame's.
PROBE = """<!doctype html><body><iframe width="{width}" height="800" srcdoc="{page}"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const inside = frame.contentDocument, view = frame.contentWindow;
  const root = inside.documentElement, shown = (at) => view.getComputedStyle(inside.querySelector(at));
  const letters = [...inside.querySelectorAll("figure svg text")].map((text) => text.getBoundingClientRect().height);
  const wide = [...inside.querySelectorAll("body *")].filter((part) =>
    part.getBoundingClientRect().right > root.clientWidth + 1 && !part.closest(".scroll, pre, svg") && !part.matches(".skip"));
  const found = {{
    height: root.scrollHeight, width: root.clientWidth, content: root.scrollWidth,
    wide: wide.map((part) => part.outerHTML.slice(0, 80)),
    paper: shown("body").backgroundColor, ink: shown("h1").color, smallest: Math.min(...letters), plots: letters.length,
    order: [...inside.querySelectorAll("main > section")].map((part) => part.querySelector("figure, table").tagName),
    figure: inside.querySelector("figure").getBoundingClientRect().width,
    requests: view.performance.getEntriesByType("resource").length,
  }};
  document.body.textContent = "FOUND" + JSON.stringify(found) + "FOUND";
}};
</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of four cards, of two masks and three modes, on a small market."""
    session = tmp_path_factory.mktemp("desk")
    store_market(session / "market")
    words = ("--model", "builtin/momentum", "--tasks", ",".join(TASKS), "--data", "market")
    for command in (("run", *words, "--windows", "2024-03-01:2024-03-29", "--out", "run", "--quiet"), ("report", "run")):
        done = ktdeval(*command, cwd=session)
        assert done.code == 0, done
    text = (session / "report.html").read_text()
    check_page(text)
    return text


def look(page: str, folder: Path, width: int, dark: bool) -> dict[str, Any]:
    """What a browser of that width and scheme makes of the page."""
    probe = folder / "probe.html"
    probe.write_text(PROBE.format(width=width, page=html.escape(page)))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    window = (f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900", "--dump-dom", str(probe))
    command = [str(CHROMIUM), *FLAGS, "--headless", "--virtual-time-budget=20000", scheme, *window]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    match = re.search(r"FOUND(\{.*\})FOUND", done.stdout, re.S)
    assert match, done.stdout[:300] + done.stderr[-600:]
    found: dict[str, Any] = json.loads(html.unescape(match[1]))
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390], ids=["laptop", "telephone"])
def test_the_page_fits_the_screen_and_follows_its_scheme(page: str, tmp_path: Path, width: int, dark: bool) -> None:
    found = look(page, tmp_path, width, dark)
    assert found["requests"] == 0
    assert width < 1280 or found["height"] <= (len(TASKS) + 2) * 800, "a screen a card, after what is said of all"
    assert set(found["order"]) == {"FIGURE"}, "plots come before tables"
    assert width - 20 <= found["width"] <= width
    assert found["content"] == found["width"], found["wide"]
    assert found["wide"] == []
    assert found["paper"] == ("rgb(21, 25, 31)" if dark else "rgb(255, 255, 255)")
    assert found["ink"] == ("rgb(230, 233, 237)" if dark else "rgb(28, 33, 40)")
    assert found["plots"] > 50
    assert found["smallest"] >= 8, "letters in plots are too small to read"
