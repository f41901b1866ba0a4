"""Looking at a dataset: samples by number and by key, read directly, without an agent.

ds = leat.open("s3://bucket/photos")
ds[0]["jpg"], ds["cats/1.jpg"]["cls"], ds[-3:], len(ds), ds.fields
"""

from __future__ import annotations

import base64
import builtins
import html
import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from leat import _arguments, _core
from leat.errors import CorruptError, InvalidError, NoSuchKeyError, NoSuchSampleError, WrongTypeError
from leat.loader import _NUMPY

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Callable

    from typing_extensions import Self

    from leat._types import Address, Bytes, Seconds
    from leat.fields import Image

    _Samples = Sequence[Any]
    _Values = dict[str, Any]
else:
    _Samples = Sequence
    _Values = dict

_TYPES = {number: name for name, (number, _) in _core.types().items()}  # the library's own table
_DTYPES = _NUMPY
_SHOWN = 8  # samples in a table
_THUMBNAIL = 96  # pixels


class FieldInfo(NamedTuple):
    """What a field holds."""

    type: str  # "image", "int", …; "unknown" when it needs a newer Leat
    optional: bool  # samples may lack it: None
    about: dict[str, Any]  # {"names": […]} of labels, {"dtype": …, "shape": …} of arrays


class Sample(_Values):
    """The values of a sample by field: a dict, with its `key` and its `number` in the dataset."""

    __slots__ = ("key", "number")

    def __init__(self, values: Mapping[str, Any], key: str, number: int) -> None:
        super().__init__(values)
        self.key: str = key
        self.number: int = number

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (dict(self), self.key, self.number)


class Picture:
    """An encoded image, decoded when its pixels are asked for: an array of (height, width, 3), as a loader would have it.

    `bytes` are those of the file; `numpy.asarray(picture)`, `picture.array` and `picture[…]` its pixels.
    """

    __slots__ = ("_array", "bytes", "height", "width")

    def __init__(self, data: bytes, width: int, height: int) -> None:
        self.bytes: builtins.bytes = data
        self.width: int = width  # what the header says, before it is turned; 0 when it could not be read
        self.height: int = height
        self._array: Any = None

    def decode(self, pipeline: str | Image = "") -> Any:
        """The pixels after a pipeline: `leat.image("jpg").resize(64)`, or its text, "resize=64"."""
        import numpy

        text = pipeline if isinstance(pipeline, str) else getattr(pipeline, "_pipeline", None)
        if text is None:
            _arguments.refuse("pipeline", pipeline, "leat.image(…) with its steps, or their text")
        pixels, height, width, channels = _core.decode(self.bytes, text)
        return numpy.frombuffer(pixels, numpy.uint8).reshape(height, width, channels)

    @property
    def array(self) -> Any:
        """The pixels. They are kept: the second time costs nothing."""
        if self._array is None:
            self._array = self.decode()
        return self._array

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, 3) of the pixels."""
        height, width, channels = self.array.shape
        return height, width, channels

    @property
    def dtype(self) -> Any:
        """numpy's uint8."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """3: height, width, channels."""
        return 3

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface: dict[str, Any] = self.array.__array_interface__
        return interface

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        return numpy.array(self.array, dtype=dtype, copy=bool(copy) or None)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __len__(self) -> int:
        return len(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self.bytes == other.bytes

    def __hash__(self) -> int:
        return hash(self.bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Picture, (self.bytes, self.width, self.height)

    def __repr__(self) -> str:
        size = f"{self.width} x {self.height}" if self.width else "size unknown"
        return f"<Picture: {size}, {len(self.bytes)} bytes>"

    def _thumbnail(self, side: int) -> bytes:
        pixels, height, width, channels = _core.decode(self.bytes, f"longest={side}")
        return _core.png(pixels, height, width, channels)

    def _repr_png_(self) -> bytes:
        pixels, height, width, channels = _core.decode(self.bytes, "")
        return _core.png(pixels, height, width, channels)


def _array(data: bytes, dtype: int, shape: Any) -> Any:
    import numpy

    return numpy.frombuffer(bytearray(data), _DTYPES[dtype]).reshape(shape)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "image": lambda v: Picture(*v),
    "json": json.loads,
    "array": lambda v: _array(*v),
    "tokens": lambda v: _array(*v),
}


def _text(value: Any, most: int = 40) -> str:
    """A value in a table."""
    if isinstance(value, Picture):
        return f"{value.width} x {value.height}" if value.width else f"{len(value.bytes)} bytes"
    if hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, bytes) and len(value) > most // 2:
        return f"{len(value)} bytes"
    text = "-" if value is None else value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _split(url: str) -> tuple[str, str]:
    """A URL and what it says of the version."""
    head, mark, tail = url.rpartition("?")
    return (head, tail) if mark and tail.startswith(("id=", "name=")) else (url, "")


class Dataset(_Samples):
    """A dataset, open for looking at it. Made by `leat.open`.

    Any thread may use it; after a fork the child's copy opens again by itself; a pickled one opens the same version again.
    """

    def __init__(
        self, url: Address, version: str | None, fields: Sequence[str] | None, cache: int, settings: Mapping[str, Any]
    ) -> None:
        url = _arguments.path("url", url)
        if "://" not in url:
            path, said = _split(url)
            url = os.path.abspath(path) + ("?" + said if said else "")
        self._url = url
        self._asked = fields
        self._settings = dict(settings, cache=cache)
        self._core = _core.Dataset(url=url, version=version, **self._settings)
        rows = self._core.fields()
        self._fields = {
            name: FieldInfo(_TYPES.get(kind, "unknown"), optional, json.loads(about) if about else {})
            for name, kind, about, optional in rows
        }
        names = list(self._fields)
        unknown = [name for name in fields or () if name not in names]
        if unknown:
            near = _arguments.meant(unknown[0], names) or ";"
            raise InvalidError(f"fields: there is no {unknown[0]!r} in {url}{near} it has {', '.join(names)}")
        self._names = names if fields is None else list(fields)
        self._numbers = tuple(names.index(name) for name in self._names)
        self._convert = [_CONVERT.get(self._fields[name].type) for name in self._names]

    @property
    def fields(self) -> dict[str, FieldInfo]:
        """What each field holds, by name."""
        return dict(self._fields)

    @property
    def version(self) -> str:
        """The content id: 64 digits."""
        return self._core.version

    @property
    def url(self) -> str:
        """Its address; a path is absolute."""
        return self._url

    @property
    def classes(self) -> list[str]:
        """Names of the labels, by number: those of the first field that has names. [] where none has."""
        return next((list(f.about["names"]) for f in self._fields.values() if "names" in f.about), [])

    def __len__(self) -> int:
        return self._core.samples

    def _sample(self, number: int) -> Sample:
        key, values = self._core.get(number, self._numbers)
        pairs = zip(self._names, self._convert, values)
        text = key.decode("utf-8", "surrogateescape")
        made = {}
        for name, make, v in pairs:
            try:
                made[name] = make(v) if make and v is not None else v
            except ValueError as error:  # a file of an index that nobody has looked into
                raise CorruptError(
                    f"sample {number} ({text!r}): field {name!r} is not what it should be: {error}"
                ) from None
        return Sample(made, text, number)

    def find(self, key: str | bytes) -> int:
        """The number of the first sample with a key; NoSuchKeyError, a KeyError, when none has it."""
        if not isinstance(key, (str, bytes)):
            _arguments.refuse("key", key, "a text or bytes")
        try:
            return self._core.find(key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key)
        except KeyError as error:
            raise NoSuchKeyError(*error.args) from None

    def __getitem__(self, which: Any) -> Any:
        """A sample by number (negative ones count from the end) or key; a list of samples by slice or list of numbers."""
        if isinstance(which, (str, bytes)):
            return self._sample(self.find(which))
        if isinstance(which, slice):
            return [self._sample(i) for i in range(*which.indices(len(self)))]
        if isinstance(which, (list, tuple)) or getattr(which, "ndim", 0) == 1:
            return [self[i] for i in which]
        if isinstance(which, bool):
            raise WrongTypeError("True and False are not numbers of samples")
        try:
            number = operator.index(which)
        except TypeError:
            raise WrongTypeError(
                f"a sample is asked for by number, key, slice or list of numbers, not {type(which).__name__}"
            ) from None
        n = len(self)
        if not -n <= number < n:
            raise NoSuchSampleError(f"there is no sample {number}: {self._url} has {n}")
        return self._sample(number % n)

    def __iter__(self) -> Iterator[Sample]:
        for i in range(len(self)):
            yield self._sample(i)

    def __contains__(self, key: object) -> bool:
        """Whether a sample has this key."""
        try:
            self.find(key)  # type: ignore[arg-type]
        except KeyError:
            return False
        return True

    def index(self, key: Any, *_: Any) -> int:
        """The number of the first sample with a key: find()."""
        return self.find(key)

    def count(self, key: Any) -> int:
        """Refused: samples are not compared."""
        raise WrongTypeError("samples are not compared: use find(key)")

    def close(self) -> None:
        """Lets go of the dataset. Samples stay as they are."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {k: v for k, v in self._settings.items() if k != "cache"}
        return Dataset, (_split(self._url)[0], self.version, self._asked, self._settings["cache"], settings)

    def _head(self) -> str:
        return f"{self._url}: {len(self):,} samples, version {self.version[:12]}"

    def __repr__(self) -> str:
        rows: list[tuple[str, ...]] = [("#", "key", *(f"{name} ({self._fields[name].type})" for name in self._names))]
        for i in range(min(len(self), _SHOWN)):
            sample = self._sample(i)
            rows.append((str(i), _text(sample.key), *(_text(v) for v in sample.values())))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]
        if len(self) > _SHOWN:
            lines.append(f"… {len(self) - _SHOWN:,} more")
        return "\n".join([self._head(), *lines])

    def _cell(self, value: Any) -> str:
        if not isinstance(value, Picture):
            return html.escape(_text(value, 200))
        try:
            data = base64.b64encode(value._thumbnail(_THUMBNAIL)).decode()
        except Exception as error:  # one bad picture must not hide the others
            return html.escape(f"{_text(value)}: {error}")
        return f'<img src="data:image/png;base64,{data}" title="{html.escape(_text(value))}">'

    def _repr_html_(self) -> str:
        names = "".join(f"<th>{html.escape(n)} <small>{self._fields[n].type}</small></th>" for n in self._names)
        rows = []
        for i in range(min(len(self), _SHOWN)):
            sample = self._sample(i)
            cells = "".join(f"<td>{self._cell(v)}</td>" for v in sample.values())
            rows.append(f"<tr><td>{i}</td><td>{html.escape(_text(sample.key))}</td>{cells}</tr>")
        more = f"<p>… {len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        return (
            f"<p>{html.escape(self._head())}</p><table><thead><tr><th>#</th><th>key</th>{names}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>{more}"
        )


def _bytes_of(name: str, value: Bytes) -> int:
    return _core.size(value, name) if isinstance(value, str) else _arguments.whole(name, value)


def _nanoseconds(name: str, value: Seconds) -> int:
    if isinstance(value, str):
        return _core.duration(value, name)
    seconds = _arguments.real(name, value)
    if not 0 < seconds < 2**63 / 1e9:
        _arguments.refuse(name, value, "a time above 0", InvalidError)
    return int(seconds * 1e9)


def _maybe(name: str, value: str | None) -> str | None:
    return None if value is None else _arguments.text(name, value)


def _store(
    endpoint_url: str | None, region: str | None, profile: str | None, anonymous: bool, timeout: Seconds | None
) -> dict[str, Any]:
    """The settings of a store, as the extension takes them."""
    return {
        "endpoint_url": _maybe("endpoint_url", endpoint_url),
        "region": _maybe("region", region),
        "profile": _maybe("profile", profile),
        "anonymous": _arguments.flag("anonymous", anonymous),
        "timeout": _nanoseconds("timeout", timeout) if timeout is not None else 0,
    }


def open(
    url: Address,
    *,
    version: str | None = None,
    fields: Iterable[str] | None = None,
    cache: Bytes | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    anonymous: bool = False,
    timeout: Seconds | None = None,
) -> Dataset:
    """Opens a dataset for looking at it.

    A sample is a dict: images are `Picture`s, decoded when their pixels are asked for, strings str, JSON what it says,
    arrays and tokens numpy arrays, and None where an optional field has no value.

    version: a content id or a name (else what the URL says, else the current one)
    fields: names of the fields to read (else all)
    cache: bytes of chunks to keep, a number or "64MiB" (the default)
    endpoint_url, region, profile, anonymous: of an S3 server, as for a Loader
    timeout: seconds, or "30s", of one request with all its attempts (5 minutes)
    """
    kept = _bytes_of("cache", cache) if cache is not None else 0
    if isinstance(fields, str):
        _arguments.refuse("fields", fields, "a list of names")
    names = None if fields is None else [_arguments.text("fields", name) for name in fields]
    return Dataset(
        url, _maybe("version", version), names, kept, _store(endpoint_url, region, profile, anonymous, timeout)
    )
