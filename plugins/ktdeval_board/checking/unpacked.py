"""How large a packed record would become, told before anything takes it whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

_BLOCK = 1 << 20
_BYTES_OF_VALUE = 8
"""What one value of a column takes at least once it is read, however well it was packed."""


def lines_problem(path: Path, most_bytes: int) -> str | None:
    """Why compressed lines are not to be unpacked, or None.

    The size in the frame's header is looked at first; then everything is unpacked once, a block at a time, for a header may lie.

    Args:
        path: a file of zstd frames.
        most_bytes: the largest size unpacked.
    """
    try:
        with path.open("rb") as stream:
            stated = zstandard.frame_content_size(stream.read(_BLOCK))
            if stated < 0:
                return "its header does not state the size that it has unpacked"
            if stated > most_bytes:
                return f"would have {stated:,} bytes unpacked; at most {most_bytes:,} are taken"
            stream.seek(0)
            found = 0
            with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as reader:
                while block := reader.read(_BLOCK):
                    found += len(block)
                    if found > stated:
                        return f"has more bytes unpacked than the {stated:,} that its header states"
    except zstandard.ZstdError as error:
        return f"is no whole zstd file: {error}"
    return None if found == stated else f"has {found:,} bytes unpacked, its header states {stated:,}"


def table_problem(path: Path, most_bytes: int, most_rows: int) -> str | None:
    """Why a Parquet file is not to be read, or None; only its footer is looked at.

    A footer may lie as well, so the reading itself needs a limit of memory besides.

    Args:
        path: the file.
        most_bytes: the largest size unpacked, of all columns together.
        most_rows: the largest number of rows.
    """
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        return f"is no Parquet file: {' '.join(str(error).split())}"
    if footer.num_rows > most_rows:
        return f"has {footer.num_rows:,} rows; the longest window has {most_rows:,} days"
    chunks = [
        footer.row_group(group).column(column) for group in range(footer.num_row_groups) for column in range(footer.num_columns)
    ]
    size = sum(max(chunk.total_uncompressed_size, 0) for chunk in chunks)
    size = max(size, sum(max(chunk.num_values, 0) for chunk in chunks) * _BYTES_OF_VALUE)
    return f"would have {size:,} bytes unpacked; at most {most_bytes:,} are taken" if size > most_bytes else None
