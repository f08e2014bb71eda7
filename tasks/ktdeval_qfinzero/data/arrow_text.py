"""Operations on Arrow's columns of text, with the types that pyarrow does not declare."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktdeval_qfinzero.data.rows import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


class TextColumn(Protocol):
    """A column of text without nulls: a `pyarrow.Array`."""

    def __len__(self) -> int: ...


def text_at(texts: TextColumn, row: int) -> str:
    """Return the text of one row."""
    array: pa.Array = texts
    text: str = array[row].as_py()
    return text


def distinct(texts: TextColumn) -> tuple[list[str], IntArray]:
    """Return the distinct texts, in order of appearance, and [n] the index of each row's text."""
    array: pa.Array = texts
    encoded = array.dictionary_encode()
    values: list[str] = encoded.dictionary.to_pylist()
    rows: IntArray = encoded.indices.to_numpy()
    return values, rows


def matches(texts: TextColumn, pattern: str) -> BoolArray:
    """[n] whether the whole text has the form of a regular expression."""
    found = pc.match_substring_regex(texts, f"^(?:{pattern})$")
    return np.array(found.to_numpy(zero_copy_only=False), bool)


def replace_pattern(texts: TextColumn, pattern: str, replacement: str) -> TextColumn:
    """Texts in which what matches a regular expression is replaced."""
    result: TextColumn = pc.replace_substring_regex(texts, pattern, replacement)
    return result


def where(good: BoolArray, texts: TextColumn, otherwise: str) -> TextColumn:
    """Texts of the rows that are good, one other text in the rest."""
    result: TextColumn = pc.if_else(pa.array(good), texts, otherwise)
    return result


def equal_to(texts: TextColumn, text: str) -> BoolArray:
    """[n] whether a text is this one."""
    found = pc.equal(texts, text)
    return np.array(found.to_numpy(zero_copy_only=False), bool)


def as_integers(texts: TextColumn) -> IntArray:
    """[n] whole numbers. Raises pa.ArrowException: a text is none, or too large."""
    array: pa.Array = texts
    return np.array(array.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def as_floats(texts: TextColumn) -> FloatArray:
    """[n] numbers. Raises pa.ArrowException: a text is none."""
    array: pa.Array = texts
    return np.array(array.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def as_e4(texts: TextColumn) -> IntArray:
    """[n] exact ten-thousandths of decimal numbers, all of which fit into eight bytes."""
    array: pa.Array = texts
    exact = array.cast(pa.decimal128(38, 4))
    # Sixteen bytes a number, the low eight first: none of ours needs more.
    halves: IntArray = np.frombuffer(exact.buffers()[1], np.int64)
    first = 2 * int(exact.offset)
    return halves[first : first + 2 * len(texts) : 2].copy()


def as_instants(texts: TextColumn) -> IntArray:
    """[n] nanoseconds since 1970 of days and moments in ISO 8601 without an offset. Raises
    pa.ArrowException: a text is none.
    """
    array: pa.Array = texts
    values = array.cast(pa.timestamp("ns")).cast(pa.int64())
    return np.array(values.to_numpy(zero_copy_only=False), np.int64)
