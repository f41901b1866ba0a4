"""Arguments as people write them: numpy's and torch's numbers, paths and dtypes count like Python's own.

What cannot be taken is an InvalidError that names the argument; where its type is the reason, a WrongTypeError, which is a
TypeError too.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from typing import Any, NoReturn

from leat.errors import InvalidError, WrongTypeError


def meant(word: object, words: Iterable[str]) -> str:
    """ ": did you mean 'resize'?" for a word that is close to one of these, "" for others."""
    import difflib  # only where something is wrong already

    close = difflib.get_close_matches(str(word), list(words), 1, 0.6)
    return f": did you mean {close[0]!r}?" if close else ""


def refuse(name: str, value: object, expected: str, kind: type[InvalidError] = WrongTypeError) -> NoReturn:
    shown = repr(value)
    raise kind(f"{name}={shown if len(shown) <= 80 else shown[:77] + '…'} is not {expected}") from None


def whole(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """A whole number of a range."""
    expected = f"a whole number from {least}" + (f" to {most}" if most < 2**63 - 1 else "")
    if isinstance(value, bool):
        refuse(name, value, expected)
    try:
        number = operator.index(value)
    except TypeError:
        refuse(name, value, expected)
    if not least <= number <= most:
        refuse(name, value, expected, InvalidError)
    return number


def real(name: str, value: Any, finite: bool = True) -> float:
    """A number, not a text that looks like one."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch's complaint of tensors with many values
        refuse(name, value, "a number")
    if finite and not math.isfinite(number):
        refuse(name, value, "a finite number", InvalidError)
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, numpy's too; nothing that is only true or false in a way."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise WrongTypeError(f"{name}={value!r} is neither True nor False")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A text without NUL, which C could not take."""
    if not isinstance(value, str):
        refuse(name, value, "a text")
    if "\0" in value:
        refuse(name, value, "a text without NUL", InvalidError)
    return value


def path(name: str, value: Any) -> str:
    """A path or an address: str, or what pathlib makes."""
    try:
        said = os.fspath(value)
    except TypeError:
        refuse(name, value, "a path or an address")
    return text(name, os.fsdecode(said) if isinstance(said, bytes) else said)


def sequence(value: Any) -> list[Any] | None:
    """The values of a tuple, a list, a torch.Size, an array or a tensor of one dimension; None: it is one value."""
    if isinstance(value, (str, bytes)) or getattr(value, "ndim", 1) == 0 or not hasattr(value, "__iter__"):
        return None
    return list(value)


_PYTHONS = {int: "int64", float: "float64", bool: "bool"}


def dtype(value: Any, name: str = "dtype") -> str:
    """The name of a dtype: torch.bfloat16, numpy.dtype("int32"), numpy.float32, float, or "float32"."""
    if isinstance(value, str):
        return text(name, value)
    if isinstance(value, type):
        return _PYTHONS.get(value, value.__name__)
    found = getattr(value, "name", None)  # numpy's
    if found is None and type(value).__module__ == "torch":
        found = str(value)
    if not isinstance(found, str):
        refuse(name, value, "a dtype")
    return found.rpartition(".")[2]
