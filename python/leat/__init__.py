"""Leat brings training data from a cloud bucket to the GPUs so that they never wait for it."""

from leat._core import version as _version
from leat._plan import plan
from leat.errors import Error
from leat.fields import bytes, image, index, int, key, string, valid
from leat.loader import Loader

__version__ = _version()
__all__ = [
    "Error",
    "Loader",
    "__version__",
    "bytes",
    "image",
    "index",
    "int",
    "key",
    "plan",
    "string",
    "valid",
]
