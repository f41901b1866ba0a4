"""The columns of a batch for a transform: in a worker, on the ring's own memory; in the loader's process, as it hands them over."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence

import numpy

from leat import _core

_KINDS = {name: row[0] for name, row in _core.outputs().items()}
_VALID, _JSON, _TEXTS = _KINDS["valid"], _KINDS["json"], (_KINDS["string"], _KINDS["key"])
_ARRAYS = ("array", "tokens", "cu_seqlens")  # ragged ones have values, others bytes
_BFLOAT16 = 5  # enum leat_dtype_code


def _dtype(kind, code):
    if kind == _VALID:
        return numpy.dtype(bool)
    return numpy.dtype("uint16" if code == _BFLOAT16 else _core.dtype_name(code))


def _tensor(array, code):
    import torch

    if code == _BFLOAT16:
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _place(value):
    """Where an array or tensor lies, how it is read and what else is set: x.unsqueeze_(0), x.dtype = … and the like change
    it."""
    if isinstance(value, numpy.ndarray):
        return value.__array_interface__["data"][0], value.shape, value.strides, value.dtype
    if hasattr(value, "data_ptr"):
        how = value.shape, value.stride(), value.dtype, getattr(value, "names", None)
        return value.data_ptr(), how, value.requires_grad, dict(vars(value))
    return None  # a Ragged, of which nothing can be set


class Given:
    """A column that a transform of batches gets. The loader has it too, so it need not travel back while it is the same."""

    def __init__(self, value, number):
        self.value = value  # kept: while it lives no other object has its id
        self.number = number
        self._place = _place(value)

    def is_same(self, value):
        """Whether the loader's column is what the transform returns: the same memory, read in the same way."""
        return value is self.value and _place(value) == self._place


class Fixed:
    """A column of one shape."""

    def __init__(self, array, code, tensors):
        self._array = array
        self._code = code
        self._tensors = tensors and array.ndim > 0

    def item(self, i):
        """Of one sample: a number of numpy's, an array or a tensor."""
        value = self._array[i]
        return _tensor(value, self._code) if self._tensors and self._array.ndim > 1 else value

    def whole(self):
        """An object of its own: the transform may give it another shape, and Leat still reads samples from the column."""
        return _tensor(self._array, self._code) if self._tensors else self._array[...]


class Ragged(Sequence):
    """A column of any length per sample, as leat.Loader hands it over: leat.loader.Ragged over memory of another process."""

    __slots__ = ("_bytes", "_code", "_dims", "_ends", "_kind", "_n", "_shapes", "_tensors", "_unit", "nbytes")

    def __init__(self, root, row, samples, tensors, ends, shapes):
        _, self._kind, self._code, dims, _, count, *_ = row
        self._bytes, self._ends, self._shapes, self._dims, self._tensors = root[:count], ends, shapes, dims, tensors
        self._n = samples
        self._unit = _dtype(self._kind, self._code).itemsize
        for d in dims:
            self._unit *= d or 1
        self.nbytes = int(count)

    def __len__(self):
        return self._n

    def _span(self, i):
        return int(self._ends[i - 1]) if i else 0, int(self._ends[i])

    def _shape(self, i, count):
        """Of the array of sample i, which has this many bytes."""
        if self._shapes is None:
            return tuple(d or count // self._unit for d in self._dims)
        sizes = iter(self._shapes[i].tolist())
        return tuple(d or next(sizes) for d in self._dims)

    def _made(self, data, shape):
        array = data.view(_dtype(self._kind, self._code)).reshape(shape)
        return _tensor(array, self._code) if self._tensors else array

    def item(self, i):
        begin, end = self._span(i)
        data = self._bytes[begin:end]
        if self._dims:
            return self._made(data, self._shape(i, end - begin))
        if self._kind in _TEXTS:
            return str(data.data, "utf-8", "surrogateescape")
        if self._kind == _JSON:
            text = bytes(data)
            return json.loads(text) if text.strip(b" ") else None
        return memoryview(data)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self.item(k) for k in range(*i.indices(self._n))]
        return self.item(range(self._n)[i])

    def _by_rows(self):
        return sum(not d for d in self._dims) == 1 and self._dims[0] == 0

    @property
    def values(self):
        """All values, one after the other."""
        return self._made(self._bytes, (-1, *self._dims[1:]) if self._by_rows() else (-1,))

    @property
    def offsets(self):
        step = self._unit if self._by_rows() else _dtype(self._kind, self._code).itemsize
        offsets = numpy.zeros(self._n + 1, numpy.int64)
        offsets[1:] = self._ends[: self._n] // step
        return _tensor(offsets, 0) if self._tensors else offsets

    @property
    def shapes(self):
        if not self._dims:
            raise AttributeError("bytes and text have lengths, and no shapes: see offsets")
        spans = map(self._span, range(self._n))
        shapes = [self._shape(i, end - begin) for i, (begin, end) in enumerate(spans)]
        shapes = numpy.array(shapes, numpy.int64).reshape(self._n, -1)
        return _tensor(shapes, 0) if self._tensors else shapes

    def tolist(self):
        return [owned(value) for value in self]

    def whole(self, as_tuple):
        if self._kind == _JSON:
            return list(self)
        if as_tuple:
            varying = sum(not d for d in self._dims)
            return (self.values, self.offsets, self.shapes) if varying > 1 else (self.values, self.offsets)
        return self

    def _copied(self):
        from leat.loader import RaggedTensors

        shapes = self.shapes.tolist() if self._dims else None
        return RaggedTensors(self.values, self.offsets, shapes, self._kind in _TEXTS)

    def to(self, *args, **kwargs):
        return self._copied().to(*args, **kwargs) if self._dims and self._tensors else self

    def __reduce__(self):
        """Copies are what copies of leat.loader.Ragged are."""
        copied = self._copied()
        return copied._from, (copied.__getstate__(),)


class Handed:
    """A column as the loader hands it over in its own process."""

    def __init__(self, column, kind, as_tuple):
        self._column = column
        self._kind = kind
        self._tuple = as_tuple

    def item(self, i):
        column = self._column
        if self._tuple:
            return self._of_tuple(i, *column)
        value = column[i]
        return value.numpy()[()] if getattr(column, "ndim", 0) == 1 and hasattr(value, "numpy") else value

    def _of_tuple(self, i, values, offsets, shapes=None):
        value = values[int(offsets[i]) : int(offsets[i + 1])]
        if self._kind in _ARRAYS:
            return value.reshape(shapes[i].tolist()) if shapes is not None else value
        data = memoryview(numpy.asarray(value).view(numpy.uint8))
        return str(data, "utf-8", "surrogateescape") if _KINDS[self._kind] in _TEXTS else data

    def whole(self, as_tuple=False):
        return self._column


class Columns:
    """A batch: samples one by one, or all columns. `plan` says what the user has asked for."""

    def __init__(self, columns, plan, samples):
        self._columns = columns
        self._plan = plan
        self._first = {}  # of the first sample, what Leat's own columns say: the transform may write to them
        self.samples = samples

    @classmethod
    def on_memory(cls, memory, others, layout, samples, plan):
        """On a ring and, for columns that do not lie in it, on `others`, by their number. Also returns weak references to what
        all views hold: as long as one is alive, so is a view."""
        ring = numpy.frombuffer(memory, numpy.uint8)
        roots = [weakref.ref(ring)]
        columns = []
        for c, row in enumerate(layout):
            _, kind, code, dims, offset, count, ends, shapes = row[:8]
            if ends < 0:
                array = ring[offset : offset + count].view(_dtype(kind, code)).reshape(samples, *dims)
                columns.append(Fixed(array, code, plan.tensors))
                continue
            root = others[c] if c in others else ring[offset : offset + count]
            roots += [weakref.ref(root)] if c in others else []
            varying = sum(not d for d in dims)
            ends = ring[ends : ends + 8 * samples].view(numpy.uint64).astype(numpy.int64)
            if shapes >= 0:
                shapes = ring[shapes : shapes + 8 * samples * varying].view(numpy.uint64).astype(numpy.int64)
                shapes = shapes.reshape(samples, varying)
            columns.append(Ragged(root, row, samples, plan.tensors, ends, shapes if varying > 1 else None))
        return cls(columns, plan, samples), roots

    @classmethod
    def handed(cls, values, samples, plan):
        """Of what the loader hands over."""
        values = values.values() if isinstance(values, dict) else values
        kinds, tuples = plan.kinds + plan.hidden, (*plan.tuples, *[False] * len(plan.hidden))
        return cls([Handed(*column) for column in zip(values, kinds, tuples)], plan, samples)

    def _named(self, values):
        return dict(zip(self._plan.names, values)) if self._plan.as_dict else tuple(values)

    def sample(self, i, own=False):
        """One sample; with `own` in memory of its own."""
        values = [column.item(i) for column in self._columns[: len(self._plan.names)]]
        return self._named([owned(value) for value in values] if own else values)

    def stand_in(self, i):
        """Sample i in the place of one that failed: all of it, so that its transform works, but for `valid`."""
        values = [owned(column.item(i)) for column in self._columns[: len(self._plan.names)]]
        for c, kind in enumerate(self._plan.kinds):
            if kind == "valid":
                values[c] = numpy.bool_(False)
        return self._named(values)

    def whole(self):
        """(all columns, {id of a column: Given})."""
        columns = self._columns[: len(self._plan.names)]
        self._first = {kind: self.of(kind, 0, None) for kind in self._plan.known()}
        values = [
            column.whole() if isinstance(column, Fixed) else column.whole(as_tuple)
            for column, as_tuple in zip(columns, self._plan.tuples)
        ]
        given = {id(value): Given(value, c) for c, value in enumerate(values) if not isinstance(value, (list, tuple))}
        return self._named(values), given

    def of(self, kind, i, default):
        """What a column that Leat has asked for says of a sample."""
        if i == 0 and kind in self._first:
            return self._first[kind]
        place = self._plan.place(kind)
        return default if place is None else self._columns[place].item(i)


def owned(value):
    """A copy that depends on no batch."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, numpy.ndarray):
        return value.copy()
    return value.clone() if hasattr(value, "clone") else value


class Plan:
    """What the user has asked for, and which columns Leat has added. Pickled: workers have it too."""

    def __init__(self, fields, as_dict, tensors, wanted):
        self.names = tuple(fields)
        self.kinds = tuple(field._kind for field in fields.values())
        self.tuples = tuple(field._tuple for field in fields.values())
        self.as_dict = as_dict
        self.tensors = tensors
        plain = {kind: c for c, kind in enumerate(self.kinds) if not self.tuples[c]}
        self.hidden = tuple(kind for kind in wanted if kind not in plain)
        hidden = {kind: len(self.names) + n for n, kind in enumerate(self.hidden)}
        self._places = {kind: {**plain, **hidden}[kind] for kind in wanted}

    def outputs(self):
        """Descriptions of the columns that Leat adds."""
        return [(f"leat.{kind}", _KINDS[kind], None, None, 0, False) for kind in self.hidden]

    def known(self):
        """What Leat knows of every sample."""
        return self._places.keys()

    def place(self, kind):
        """The column that says it; None: none does."""
        return self._places.get(kind)
