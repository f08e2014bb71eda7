"""Print the oldest versions that pyproject.toml allows of what ktdeval and its lighter extras need,
as constraints for pip.
"""

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("report", "openai", "anthropic", "google", "qfinzero", "gym")

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
optional = project["optional-dependencies"]
for requirement in [
    *project["dependencies"],
    *(each for extra in EXTRAS for each in optional[extra]),
]:
    name, version = re.fullmatch(r"([\w.-]+)>=([\w.]+)(?:,.*)?", requirement).groups()
    sys.stdout.write(f"{name}=={version}\n")
