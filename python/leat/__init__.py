"""Leat brings training data from a cloud bucket to the GPUs so that they never wait for it.

    loader = leat.Loader(
        "s3://bucket/imagenet/train",
        batch_size=256,
        fields={"x": leat.image("jpg").random_resized_crop(224).flip(), "y": leat.int("cls")},
    )
    for x, y in loader:
        ...

Loading: Loader, Mix, BatchMix, state_of
Outputs, for `fields`: image, sound, int, float, string, bytes, json, array, tokens, length, has, key, index, valid, stream; of
    blocks of tokens: blocks (a view), cu_seqlens, positions, documents
Looking at a dataset: open, Dataset
Writing one: Writer, Array, Tokens, Label, Optional
Planning: plan
Watching any loop: watch
What can go wrong: errors, of which Error is the base and DatasetChanged one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from leat._core import version as _version
except ImportError as _error:
    if "GLIBC_" not in str(_error):
        raise
    raise ImportError(f"this machine's C library is too old for Leat: {_error}") from None
from leat import errors as errors
from leat._plan import plan
from leat._sample import sample_info
from leat._watch import watch
from leat.batch_mix import BatchMix
from leat.dataset import Dataset
from leat.dataset import open as open
from leat.errors import DatasetChanged, Error
from leat.fields import array as array
from leat.fields import bytes as bytes
from leat.fields import float as float
from leat.fields import has, image, index, key, length, sound, stream, string, tokens, valid
from leat.fields import int as int
from leat.fields import json as json
from leat.loader import Loader
from leat.mix import Mix
from leat.state import state_of
from leat.views import blocks, cu_seqlens, documents, positions
from leat.writer import Array, Label, Optional, Tokens, Writer

__version__: str = _version()
# Without `array`, `bytes`, `float`, `int`, `json` and `open`: `from leat import *` must not replace Python's own.
__all__ = [
    "Array",
    "BatchMix",
    "Dataset",
    "DatasetChanged",
    "Error",
    "Label",
    "Loader",
    "Mix",
    "Optional",
    "Tokens",
    "Writer",
    "__version__",
    "blocks",
    "cu_seqlens",
    "documents",
    "has",
    "image",
    "index",
    "key",
    "length",
    "plan",
    "positions",
    "sample_info",
    "sound",
    "state_of",
    "stream",
    "string",
    "tokens",
    "valid",
    "watch",
]

_PUBLIC = sorted([*__all__, "array", "bytes", "errors", "float", "int", "json", "open"])


def __dir__() -> list[str]:
    return _PUBLIC


if not TYPE_CHECKING:  # checkers know which names there are

    def __getattr__(name):
        """Python finds no such name: perhaps another was meant."""
        from leat import _arguments

        near = "" if name.startswith("_") else _arguments.meant(name, _PUBLIC)
        raise AttributeError(f"module 'leat' has no attribute {name!r}{near}")
