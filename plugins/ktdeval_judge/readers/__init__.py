"""Readers of declared decisions: one module a program, chosen by `--from` or by near names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ktdeval.errors import UsageError
from ktdeval.values.config_options import near_matches
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import plain
from ktdeval_judge.readers.sample import (
    ReadOptions as ReadOptions,
    Sample as Sample,
    sample_of as sample_of,
)

READERS: tuple[ModuleType, ...] = (plain,)
"""Modules with `name`, `recognises(sample)` and `read(path, options)`. `plain` comes last: it takes
what no program's reader recognises.
"""


def read_declared(path: Path, options: ReadOptions) -> Declared:
    """Return what a file declares. Raises UsageError: no reader of that name, or several recognise
    the file; DataError: it can't be read, with line and column.
    """
    return _reader_of(path, options).read(path, options)  # type: ignore[no-any-return]


def _reader_of(path: Path, options: ReadOptions) -> ModuleType:
    by_name = {reader.name: reader for reader in READERS}
    if options.program is not None:
        if options.program not in by_name:
            near = near_matches(options.program, by_name)
            known = near or f"; there are {', '.join(by_name)}"
            raise UsageError(f"--from: no reader {options.program!r}{known}")
        return by_name[options.program]

    sample = sample_of(path)
    found = [reader for reader in READERS if reader is not plain and reader.recognises(sample)]
    if len(found) > 1:
        raise UsageError(f"{path.name}: may be a file of {_either(found)}; choose with --from")

    return found[0] if found else plain


def _either(readers: Sequence[ModuleType]) -> str:
    return " or of ".join(str(reader.name) for reader in readers)
