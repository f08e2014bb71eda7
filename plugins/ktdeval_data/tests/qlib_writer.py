"""A writer of Qlib's binary layout, written from its description, so that the reader is not tested
against itself.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_qlib(
    folder: Path,
    calendar: Sequence[str],
    features: Mapping[str, Mapping[str, tuple[int, Sequence[float]]]],
    instruments: Mapping[str, Sequence[tuple[str, str, str]]],
) -> Path:
    """Write calendar, `features[code][field] = (place of the first day, values)`, and instruments
    by universe.
    """
    (folder / "calendars").mkdir(parents=True)
    (folder / "calendars" / "day.txt").write_text("".join(f"{day}\n" for day in calendar))
    (folder / "instruments").mkdir()

    for universe, rows in instruments.items():
        (folder / "instruments" / f"{universe}.txt").write_text(
            "".join("\t".join(row) + "\n" for row in rows)
        )

    for code, fields in features.items():
        home = folder / "features" / code.lower()
        home.mkdir(parents=True)
        for field, (start, values) in fields.items():
            (home / f"{field}.day.bin").write_bytes(
                struct.pack(f"<{len(values) + 1}f", start, *values)
            )

    return folder
