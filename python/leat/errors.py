"""What can go wrong, by kind. Every message says what, where and what to do."""

from __future__ import annotations

import builtins


class Error(Exception):
    """Base of all errors of Leat."""


class InvalidError(Error, ValueError):
    """An argument, setting or state that cannot work."""


class WrongTypeError(InvalidError, TypeError):
    """An argument of a type that cannot work, or one that there is not."""


class NotFoundError(Error, FileNotFoundError):
    """No such dataset, object, file or sample."""


class NoSuchKeyError(NotFoundError, KeyError):
    """No sample of the dataset has this key."""


class NoSuchSampleError(NotFoundError, IndexError):
    """The dataset has no sample of this number."""


class ExistsError(Error, FileExistsError):
    """Something is there already and must not be replaced."""


class DeniedError(Error, PermissionError):
    """Keys, permissions or policies do not allow it."""


class ChangedError(Error):
    """An object is no longer the one that was named."""


class DatasetChanged(ChangedError):
    """Data that a dataset was indexed from are no longer what they were; the message names the object."""


class CorruptError(Error):
    """Bytes that do not match their checksum or format."""


class NetworkError(Error, ConnectionError):
    """A connection, a name or a transfer failed, or the agent was lost for good."""


class TLSError(NetworkError):
    """A certificate or handshake was refused."""


class ServerError(NetworkError):
    """The other side answered with a failure of its own."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed; the message names what was waited for."""


class CancelledError(Error):
    """The call was interrupted."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed, here or in the agent."""


class DiskError(Error, OSError):
    """A local disk or file system failed."""


class BusyError(Error, RuntimeError):
    """Somebody else is using it: another thread, another process."""


class LimitError(Error):
    """A limit of memory, disk or of Leat's own was reached."""


class VersionError(Error):
    """Made by, or speaking to, an incompatible version."""


class UnsupportedError(Error, NotImplementedError):
    """Understood, but not possible here."""


class TransformError(Error, RuntimeError):
    """A loader's transform or collate failed. `__cause__` is the exception it raised, where there was one; `index`, `key` and
    `epoch` say at which sample (of a whole batch: its first)."""

    index: int | None = None
    key: str | None = None
    epoch: int | None = None


# By status of the C library (leat/error.h); others are plain errors.
_KINDS: dict[int, type[Error]] = {
    1: InvalidError,
    2: NotFoundError,
    3: ExistsError,
    4: DeniedError,
    5: DatasetChanged,
    6: CorruptError,
    7: NetworkError,
    8: TLSError,
    9: ServerError,
    10: ServerError,
    11: TimeoutError,
    12: CancelledError,
    13: DiskError,
    14: LimitError,
    15: OutOfMemoryError,
    16: LimitError,
    17: BusyError,
    18: VersionError,
    19: UnsupportedError,
}


def make(status: int, text: str) -> Error:
    """The exception for a status of the C library."""
    return _KINDS.get(status, Error)(text)
