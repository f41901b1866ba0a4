"""Types of arguments, for annotations: what a person may write where a number, a size or a dtype is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, SupportsIndex, Union

if TYPE_CHECKING:
    import numpy


class TorchDType(Protocol):
    """torch.float16 and its like, for programs without torch."""

    @property
    def is_floating_point(self) -> bool: ...
    @property
    def itemsize(self) -> int: ...


Whole = SupportsIndex  # int, numpy's integers
Real = Union[SupportsFloat, SupportsIndex]
Size = Union[SupportsIndex, Sequence[SupportsIndex]]  # a square, or (height, width); torch.Size too
Numbers = Union[SupportsFloat, SupportsIndex, Sequence[Union[SupportsFloat, SupportsIndex]]]
DType = Union[str, type, "numpy.dtype[Any]", TorchDType]
Address = Union[str, "os.PathLike[str]"]
Bytes = Union[SupportsIndex, str]  # 2_000_000_000, or "2gb"
Seconds = Union[SupportsFloat, str]  # 30, or "500ms"
