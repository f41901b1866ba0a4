"""Leat brings training data from a cloud bucket to the GPUs so that they never wait for it."""

from leat._core import version as _version
from leat._plan import plan

__version__ = _version()
__all__ = ["__version__", "plan"]
