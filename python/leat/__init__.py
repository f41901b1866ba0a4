"""Leat brings training data from a cloud bucket to the GPUs so that they never wait for it."""

from leat._core import version as _version
from leat._plan import plan
from leat.errors import Error
from leat.fields import bytes as bytes
from leat.fields import image, index, key, sound, string, valid
from leat.fields import int as int
from leat.loader import Loader
from leat.mix import Mix
from leat.state import state_of

__version__ = _version()
# Without `bytes` and `int`: `from leat import *` must not replace Python's own.
__all__ = [
    "Error",
    "Loader",
    "Mix",
    "__version__",
    "image",
    "index",
    "key",
    "plan",
    "sound",
    "state_of",
    "string",
    "valid",
]
