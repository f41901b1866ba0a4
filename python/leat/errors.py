"""What can go wrong, by kind. Every message says what, where and what to do."""


class Error(Exception):
    """Base of all errors of Leat."""


class InvalidError(Error, ValueError):
    """An argument, setting or state that cannot work."""


class NotFoundError(Error, FileNotFoundError):
    """No such dataset, object, file or sample."""


class DeniedError(Error, PermissionError):
    """Keys, permissions or policies do not allow it."""


class ChangedError(Error):
    """An object is no longer the one that was named."""


class CorruptError(Error):
    """Bytes that do not match their checksum or format."""


class NetworkError(Error, ConnectionError):
    """A connection, a name or a transfer failed, or the agent was lost for good."""


class TLSError(NetworkError):
    """A certificate or handshake was refused."""


class ServerError(NetworkError):
    """The other side answered with a failure of its own."""


class TimeoutError(Error, TimeoutError):
    """A deadline passed; the message names what was waited for."""


class CancelledError(Error):
    """The call was interrupted."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed, here or in the agent."""


class LimitError(Error):
    """A limit of memory, disk or of Leat's own was reached."""


class VersionError(Error):
    """Made by, or speaking to, an incompatible version."""


class UnsupportedError(Error, NotImplementedError):
    """Understood, but not possible here."""


# By status of the C library (leat/error.h); others are plain errors.
_KINDS = {
    1: InvalidError,
    2: NotFoundError,
    4: DeniedError,
    5: ChangedError,
    6: CorruptError,
    7: NetworkError,
    8: TLSError,
    9: ServerError,
    10: ServerError,
    11: TimeoutError,
    12: CancelledError,
    14: LimitError,
    15: OutOfMemoryError,
    16: LimitError,
    18: VersionError,
    19: UnsupportedError,
}


def make(status, text):
    """The exception for a status of the C library."""
    return _KINDS.get(status, Error)(text)
