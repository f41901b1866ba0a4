"""Writing a dataset, sample by sample.

with leat.Writer("s3://bucket/faces", fields={"jpg": "image", "cls": "int", "emb": leat.Array("float32", [128])}) as w:
    w.write({"jpg": data, "cls": 3, "emb": vector}, key="a/1")
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from leat import _arguments, _core
from leat.dataset import _DTYPES, _TYPES, _bytes_of, _maybe, _store
from leat.errors import InvalidError, WrongTypeError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from leat._types import Address, Bytes, DType, Seconds, Whole

_NUMBERS = {name: number for number, name in _TYPES.items()}
_ZSTD = 2  # LEAT_DATA_TYPE_ZSTD
_INT64 = 1 << 63


class _Spec:
    """What a field holds: a type's name and its description."""

    optional = False

    def __init__(self, type: str, about: dict[str, Any] | None = None) -> None:
        self.type = type
        self.about = about

    def __repr__(self) -> str:
        return f"leat.Optional({self.type})" if self.optional else self.type


class Array(_Spec):
    """Numbers with a shape; None in it varies from sample to sample: leat.Array("float32", [3, None])."""

    def __init__(self, dtype: DType, shape: Whole | Iterable[Whole | None]) -> None:
        sides = _arguments.sequence(shape)
        try:
            sizes = [
                None if n is None else _arguments.whole("shape", n, 1) for n in ([shape] if sides is None else sides)
            ]
        except InvalidError as error:
            words = f"shape={shape!r}: each dimension is a number from 1, or None where it varies"
            raise type(error)(words) from None
        super().__init__("array", {"dtype": _dtype_name(dtype), "shape": sizes})


class Tokens(_Spec):
    """Any number of whole numbers in a row: leat.Tokens("uint16")."""

    def __init__(self, dtype: DType = "uint16") -> None:
        super().__init__("tokens", {"dtype": _dtype_name(dtype)})


class Label(_Spec):
    """An int whose values 0, 1, … have names. Samples give the number or the name."""

    def __init__(self, names: Iterable[str]) -> None:
        listed = [] if isinstance(names, str) or not hasattr(names, "__iter__") else list(names)
        if not listed or not all(isinstance(n, str) for n in listed):
            raise WrongTypeError("names of labels are different texts, the first is 0")
        if len(set(listed)) != len(listed):
            raise InvalidError("names of labels are different texts, the first is 0")
        super().__init__("int", {"names": listed})


class Optional(_Spec):
    """A field that samples may lack: leat.Optional("int"), leat.Optional(leat.Array("float32", [4]))."""

    optional = True

    def __init__(self, spec: FieldSpec) -> None:
        known = _spec("of an optional field", spec)
        super().__init__(known.type, known.about)


FieldSpec = Union[str, _Spec]


def _dtype_name(dtype: DType) -> str:
    """numpy's, torch's and plain names alike."""
    name = _arguments.dtype(dtype)
    if name not in {*_DTYPES.values(), "bfloat16"}:
        raise InvalidError(f"dtype={dtype!r} is not one of {', '.join(sorted({*_DTYPES.values(), 'bfloat16'}))}")
    return name


def _spec(name: str, given: FieldSpec) -> _Spec:
    if isinstance(given, _Spec):
        return given
    if isinstance(given, str) and given in _NUMBERS and given not in ("array", "tokens"):
        return _Spec(given)
    words = ", ".join(f'"{t}"' for t in _NUMBERS if t not in ("array", "tokens"))
    kind = InvalidError if isinstance(given, str) else WrongTypeError
    raise kind(
        f"field {name!r}: {given!r} is not a type: {words}, leat.Array(dtype, shape), leat.Tokens(dtype), "
        "leat.Label(names), or leat.Optional(…) of these"
    )


# How values become what the extension takes. Each raises TypeError or ValueError with what was expected.


def _take_bytes(value: Any, spec: _Spec) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    raise TypeError("bytes")


def _take_image(value: Any, spec: _Spec) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if hasattr(value, "bytes") and isinstance(value.bytes, bytes):  # a Picture of leat.open
        return value.bytes
    raise TypeError("the bytes of an encoded file (JPEG, PNG, …)")


def _take_string(value: Any, spec: _Spec) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise TypeError("a str")


def _take_int(value: Any, spec: _Spec) -> Any:
    if isinstance(value, str) and spec.about:
        if value not in spec.about["names"]:
            raise ValueError(f"one of the {len(spec.about['names'])} names of labels")
        return spec.about["names"].index(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("a whole number" + (", or the name of a label" if spec.about else "")) from None
    if not -_INT64 <= number < _INT64:
        raise ValueError("a whole number of 64 bits")
    if spec.about and not 0 <= number < len(spec.about["names"]):
        raise ValueError(f"a label from 0 to {len(spec.about['names']) - 1}")
    return number


def _take_float(value: Any, spec: _Spec) -> Any:
    if isinstance(value, (str, bytes)):
        raise TypeError("a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("a number") from None


def _take_json(value: Any, spec: _Spec) -> Any:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"what JSON can say: {error}") from None


def _from_list(value: Any, dtype: str) -> Any:
    """Lists have no dtype that would warn: numpy alone would make 1 of 1.7 and of "1", and infinity of 1e300."""
    import numpy

    try:
        given = numpy.asarray(value)
        kind = given.dtype.kind
        if given.size and kind == "O":  # ints beyond 64 bits, None, lists of different lengths
            raise TypeError("its elements are not numbers of one shape")
        if given.size and kind not in "biuf":
            raise TypeError(f"its elements are {given.dtype}")
        with numpy.errstate(over="ignore", invalid="ignore"):
            made = given.astype(dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"an array of {dtype}: {error}") from None
    if made.dtype.kind == "f":  # rounded to what the dtype has, but not made infinite
        lost = numpy.isinf(made) & ~numpy.isinf(given)
    elif made.dtype.kind == "b":
        lost = (given != 0) & (given != 1)
    else:
        range_ = numpy.iinfo(dtype)
        lost = (given < range_.min) | (given > range_.max)
        if kind == "f":
            lost |= numpy.trunc(given) != given  # NaN, too
    if lost.any():
        raise ValueError(f"an array of {dtype}, and {given[lost][0]} is no {dtype}")
    return made


def _as_numpy(value: Any, dtype: str) -> Any:
    """A contiguous array of the dtype. Arrays of another one are taken only where nothing can be lost."""
    import numpy

    if type(value).__module__.split(".")[0] == "torch":
        import torch

        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            if dtype != "bfloat16":
                raise TypeError(f"{dtype}, not bfloat16")
            return numpy.ascontiguousarray(value.contiguous().view(torch.int16).numpy().view(numpy.uint16))
        value = value.numpy()
    if dtype == "bfloat16":
        raise TypeError("a torch tensor of bfloat16: numpy has no such numbers")
    if isinstance(value, numpy.ndarray):
        if not numpy.can_cast(value.dtype, dtype, "safe"):
            raise TypeError(f"{dtype}, not {value.dtype}: convert it yourself, numbers could be lost")
        made = numpy.asarray(value, dtype=dtype, order="C")
    else:
        made = _from_list(value, dtype)
    return made if made.dtype.byteorder != ">" else made.astype(made.dtype.newbyteorder("<"))


def _take_array(value: Any, spec: _Spec) -> Any:
    assert spec.about is not None
    made = _as_numpy(value, spec.about["dtype"])
    shape = spec.about["shape"]
    if made.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, made.shape)):
        raise ValueError(f"an array of shape {shape}, not {list(made.shape)}")
    return made.reshape(-1).view("uint8") if made.size else b"", made.shape


def _take_tokens(value: Any, spec: _Spec) -> Any:
    assert spec.about is not None
    made = _as_numpy(value, spec.about["dtype"])
    if made.ndim != 1:
        raise ValueError(f"tokens in a row, not an array of {made.ndim} dimensions")
    return made.view("uint8") if made.size else b""


_TAKE = {
    **{"bytes": _take_bytes, "image": _take_image, "string": _take_string, "int": _take_int, "float": _take_float},
    **{"json": _take_json, "array": _take_array, "tokens": _take_tokens},
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


class Writer:
    """Writes a dataset, straight into its chunks.

    Used with `with`, leaving the block publishes the dataset in one step, and an exception in it publishes nothing. Any thread
    may write. Several processes write one dataset in parts: each opens `Writer(url, fields=…, part=(i, n))`, and when all are
    done one calls `Writer.merge(url, n)`. Samples are in the order in which they were written, parts in theirs.

    url: where, as for `leat pack`
    fields: name and type of each: "bytes", "image", "int", "string", "float", "json", leat.Array, leat.Tokens, leat.Label,
        or leat.Optional of these
    chunk_size: chunks become as large as that at most, a number or "8MiB" (the default)
    compress: True: all fields that can be, or a list of names; values that gain by it are stored with zstd
    name: the version gets this name; no_current=True leaves the current dataset as it is then
    replace: the current dataset, and the name, may be there already
    endpoint_url, region, profile, anonymous, timeout: as for leat.open
    """

    def __init__(
        self,
        url: Address,
        fields: Mapping[str, FieldSpec],
        *,
        chunk_size: Bytes | None = None,
        compress: bool | Iterable[str] = False,
        name: str | None = None,
        no_current: bool = False,
        replace: bool = False,
        part: tuple[Whole, Whole] | None = None,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        timeout: Seconds | None = None,
    ) -> None:
        if not isinstance(fields, Mapping) or not fields or not all(isinstance(n, str) for n in fields):
            raise WrongTypeError('fields is a dict such as {"jpg": "image", "cls": "int"}')
        self._specs = {name: _spec(name, given) for name, given in fields.items()}
        packed = self._compressed(compress)
        rows = [
            (n, _NUMBERS[s.type], json.dumps(s.about) if s.about else None, s.optional, n in packed)
            for n, s in self._specs.items()
        ]
        self._part = _check_part(part)
        if self._part[1] and (name or replace):
            raise InvalidError("name and replace are for the whole: give them to Writer.merge()")
        self._place = _place(
            url, name, no_current, replace, self._part, endpoint_url, region, profile, anonymous, timeout
        )
        self._take = [(n, s, _TAKE[s.type]) for n, s in self._specs.items()]
        size = _bytes_of("chunk_size", chunk_size) if chunk_size is not None else 0
        self.version: str | None = None  # the content id, once it is finished
        self._core = _core.Writer(self._place, rows, size)

    def _compressed(self, compress: bool | Iterable[str]) -> set[str]:
        able = {n for n, s in self._specs.items() if _core.types()[s.type][1] & _ZSTD}
        if isinstance(compress, (list, tuple, set)):
            for name in compress:
                if name not in self._specs:
                    near = _arguments.meant(name, self._specs)
                    raise InvalidError(f"compress: there is no field {name!r}{near}")
                if name not in able:
                    raise InvalidError(
                        f"compress: {name!r} is of type {self._specs[name].type}, which is not compressed"
                    )
            return set(compress)
        if not isinstance(compress, bool):
            raise WrongTypeError(f"compress={compress!r} is neither True, False nor a list of fields")
        return able if compress else set()

    def write(self, sample: Mapping[str, Any], key: str | bytes | None = None) -> None:
        """Appends a sample: a dict with a value for each field; optional ones may be None or left out."""
        values: list[Any] = []
        if not isinstance(sample, Mapping):
            _arguments.refuse("sample", sample, "a dict with a value for each field")
        for name, spec, take in self._take:
            value = sample.get(name)
            if value is None and (spec.optional or spec.type != "json" or name not in sample):  # else it is JSON's null
                if not spec.optional:
                    raise InvalidError(f"{_whose(key)}field {name!r} has no value, and is not optional")
                values.append(None)
                continue
            try:
                values.append(take(value, spec))
            except (TypeError, ValueError) as error:
                kind = WrongTypeError if isinstance(error, TypeError) else InvalidError
                raise kind(f"{_whose(key)}field {name!r} is {_short(value)}; expected was {error}") from None
        if len(sample) > len(values) or not self._specs.keys() >= sample.keys():
            unknown = next(name for name in sample if name not in self._specs)
            near = _arguments.meant(unknown, self._specs) or ";"
            raise InvalidError(f"{_whose(key)}there is no field {unknown!r}{near} there is {', '.join(self._specs)}")
        self._core.add(_key(key), tuple(values))

    @property
    def samples(self) -> int:
        """Written so far."""
        return self._core.samples

    def finish(self) -> str:
        """Publishes the dataset, or the part of one; its content id."""
        version = self.version = self._core.finish()
        self._core.close()
        return version

    def close(self) -> None:
        """Without finish(), nothing of it is seen."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.version is None:
                self.finish()
        finally:
            self.close()

    @staticmethod
    def merge(
        url: Address,
        parts: Whole,
        *,
        name: str | None = None,
        no_current: bool = False,
        replace: bool = False,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        timeout: Seconds | None = None,
    ) -> str:
        """Joins the parts that writers with part=(0, parts) … (parts - 1, parts) have finished, and publishes the whole; its
        content id. No chunk is read or copied."""
        count = _arguments.whole("parts", parts, 1)
        store = (endpoint_url, region, profile, anonymous, timeout)
        return _core.merge(_place(url, name, no_current, replace, (0, count), *store))


def _whose(key: str | bytes | None) -> str:
    return f"sample {key!r}: " if key is not None else ""


def _key(key: str | bytes | None) -> bytes:
    if key is None:
        return b""
    if isinstance(key, str):
        key = key.encode("utf-8", "surrogateescape")
    if not isinstance(key, bytes) or not key:
        raise (InvalidError if isinstance(key, bytes) else WrongTypeError)(
            f"key={key!r} is neither a text nor bytes, or is empty"
        )
    return key


def _check_part(part: tuple[Whole, Whole] | None) -> tuple[int, int]:
    if part is None:
        return 0, 0
    try:
        i, n = (operator.index(v) for v in part)
    except (TypeError, ValueError):
        raise WrongTypeError(f"part={part!r} is not (number, number of parts)") from None
    if not 0 <= i < n:
        raise InvalidError(f"part={part!r}: parts are numbered from 0, and {i} is not one of {n}")
    return i, n


def _place(
    url: Address,
    name: str | None,
    no_current: bool,
    replace: bool,
    part: tuple[int, int],
    endpoint_url: str | None,
    region: str | None,
    profile: str | None,
    anonymous: bool,
    timeout: Seconds | None,
) -> tuple[Any, ...]:
    store = _store(endpoint_url, region, profile, anonymous, timeout)
    flags = (_arguments.flag("no_current", no_current), _arguments.flag("replace", replace))
    where = (_arguments.path("url", url), _maybe("name", name), *flags, *part)
    return (*where, store["endpoint_url"], store["region"], store["profile"], store["anonymous"], store["timeout"])
