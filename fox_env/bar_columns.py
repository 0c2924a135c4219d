"""Columns of bars: what users give for numbers and flags, made into read-only arrays or refused by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fox_env.errors import DataError


def numbers(values: ArrayLike, name: str, length: int) -> NDArray[np.float64]:
    """Copy a column of numbers into a read-only float64 array.

    Parameters
    ----------
    values : array
        Integers, floats, booleans (0 and 1), or objects that are such numbers; None is NaN. Text is refused even
        where it reads as a number, for it does not say its decimal mark.
    name : str
        Column, for the message.
    length : int
        Rows that it must have.

    Raises
    ------
    DataError
        Another type or shape.
    """
    given = _given(values, name, length)
    if given.dtype.kind == "O":
        for row, value in enumerate(given.tolist()):
            if isinstance(value, (str, bytes)):
                raise _wrong(name, "numbers", row, value)
    elif given.dtype.kind not in "biuf":
        raise _wrong(name, "numbers", 0, given[0])
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"Bars: column {name} must hold numbers: {error}.") from error
    array.flags.writeable = False
    return array


def flags(values: ArrayLike, name: str, length: int) -> NDArray[np.bool_]:
    """Copy a column of flags, booleans or the numbers 0 and 1, into a read-only boolean array.

    Raises
    ------
    DataError
        Another value or shape; a text such as ``"False"`` is no flag.
    """
    given = _given(values, name, length)
    if given.dtype.kind != "b":
        for row, value in enumerate(given.tolist()):
            if not (isinstance(value, (bool, int, float, np.bool_)) and value in (0, 1)):
                raise _wrong(name, "True and False", row, value)
    array = np.array(given, dtype=np.bool_)
    array.flags.writeable = False
    return array


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return values as an array; nested lists of unequal lengths are refused."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(f"Bars: column {name} is not one-dimensional: its rows differ in length.") from error


def _given(values: ArrayLike, name: str, length: int) -> NDArray[Any]:
    array = as_array(values, name)
    if array.shape != (length,):
        raise DataError(
            f"Bars: column {name} has shape {array.shape}, but ts has {length} rows; give equal lengths."
        )
    return array


def _wrong(name: str, holds: str, row: int, value: object) -> DataError:
    shown = value.item() if isinstance(value, (np.str_, np.bytes_, np.complexfloating)) else value
    return DataError(f"Bars: column {name} must hold {holds}, but row {row} is {shown!r}; convert it first.")
