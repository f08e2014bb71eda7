"""Add to a bill of materials what an installed environment does not show: the version of ktdeval, and
the scripts that its pages carry along. Then check that it names what a user gets.

    python .ci/complete_sbom.py sbom/ktdeval.cdx.json VERSION
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

VENDOR = Path(__file__).parent.parent / "plugins" / "kits" / "ktdeval_pages" / "vendor"
_INSIDE = re.compile(
    r"^(?P<name>[@\w./-]+) (?P<version>\d[\w.-]*) \((?P<licence>[\w.-]+)\)$", re.MULTILINE
)


def carried() -> list[dict[str, object]]:
    """Return the scripts below plugins/kits/ktdeval_pages/vendor as components, by name."""
    parts = {}
    for each in json.loads((VENDOR / "versions.json").read_text(encoding="utf-8"))["files"]:
        parts[each["package"]] = (each["version"], each["licence"])

    inside = (VENDOR / "THIRD-PARTY.txt").read_text(encoding="utf-8")
    for found in _INSIDE.finditer(inside):
        parts[found["name"]] = (found["version"], found["licence"])

    components: list[dict[str, object]] = []
    for name, (version, licence) in sorted(parts.items()):
        purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        components.append(
            {
                "bom-ref": purl,
                "type": "library",
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"license": {"id": licence}}],
            }
        )

    return components


def main(path: Path, version: str) -> None:
    """Complete a file and check it."""
    bill = json.loads(path.read_text(encoding="utf-8"))
    bill["metadata"]["component"]["version"] = version
    bill["components"] += carried()
    names = {part["name"].lower() for part in bill["components"]}
    missing = {"numpy", "pandas", "pyarrow", "msgspec", "click", "vega", "vega-lite"} - names
    if missing:
        sys.exit(f"{path}: does not name {', '.join(sorted(missing))}")

    unlicensed = [part["name"] for part in bill["components"] if not part.get("licenses")]
    if unlicensed:
        sys.exit(f"{path}: no licence of {', '.join(unlicensed)}")

    path.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    form = f"{bill['bomFormat']} {bill['specVersion']}"
    sys.stdout.write(f"{path}: {form}, ktdeval {version}, {len(names)} components\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
