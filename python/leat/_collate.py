"""Samples become a batch, and a batch travels to another process: numbers in shared memory, everything else pickled."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping

import numpy

from leat.errors import InvalidError

ALIGN = 64
_PLAIN_KINDS = "biufcmMSU"  # of numpy's types: their bytes are all there is. Others hold references or have fields


def _torch():
    return sys.modules.get("torch")


def _is_tensor(value):
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _up(n):
    return -(-n // ALIGN) * ALIGN


def _raw(value):
    """The bytes of an array or tensor that lies row by row: uint8, one dimension."""
    if _is_tensor(value):
        return value.reshape(-1).view(_torch().uint8).numpy()
    return value.reshape(-1).view(numpy.uint8)


def _on_cpu(tensor):
    if tensor.device.type != "cpu":
        raise InvalidError(f"a tensor on {tensor.device}: transforms and collate return tensors of the CPU")
    return tensor.detach()


# The default collate: like torch's, but one sample at a time, so that each is put where it stays while it is still in
# the processor's cache.


class _Numbers:
    """Arrays or tensors of one shape, or plain numbers."""

    def __init__(self, first, samples):
        self.tensor = _is_tensor(first)
        if self.tensor:
            self.shape, self.dtype, self.item = tuple(first.shape), first.dtype, first.element_size()
        else:
            first = numpy.asarray(first)
            self.shape, self.dtype, self.item = first.shape, first.dtype, first.dtype.itemsize
        count = samples * self.item
        for n in self.shape:
            count *= n
        self.bytes = count
        self.samples = samples

    def place(self, memory, tensors):
        """Takes its part of the memory."""
        flat = memory[: self.bytes]
        if self.tensor:
            self.out = _torch().from_numpy(flat).view(self.dtype).reshape(self.samples, *self.shape)
        else:
            self.out = flat.view(self.dtype).reshape(self.samples, *self.shape)
        self.whole = self.out if self.tensor or not tensors else _torch().from_numpy(self.out)

    def put(self, i, value):
        if self.tensor != _is_tensor(value):
            raise InvalidError(f"{_described(value)} where the batch's first sample has {self._described()}")
        if self.tensor:
            value = _on_cpu(value)
        elif not isinstance(value, numpy.ndarray):
            value = numpy.asarray(value)
        if tuple(value.shape) != self.shape or value.dtype != self.dtype:
            raise InvalidError(
                f"{_described(value)} where the batch's first sample has {self._described()}: make them alike, or give collate="
            )
        self.out[i] = value

    def _described(self):
        return f"{'a tensor' if self.tensor else 'an array'} of {self.shape}, {self.dtype}"


def _described(value):
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{'a tensor' if _is_tensor(value) else 'an array'} of {tuple(value.shape)}, {value.dtype}"
    return f"a value of type {type(value).__name__}"


class _Listed:
    """Text and bytes: a list."""

    bytes = 0

    def __init__(self, first, samples):
        self.whole = [None] * samples

    def place(self, memory, tensors):
        pass

    def put(self, i, value):
        self.whole[i] = bytes(value) if isinstance(value, memoryview) else value


class _Nested:
    """A dict, tuple or list of others."""

    def __init__(self, first, samples):
        self.like = first
        self.keys = tuple(first) if isinstance(first, Mapping) else range(len(first))
        self.parts = [_part(first[key], samples) for key in self.keys]
        self.bytes = sum(_up(part.bytes) for part in self.parts)

    def place(self, memory, tensors):
        at = 0
        for part in self.parts:
            part.place(memory[at:], tensors)
            at += _up(part.bytes)

    def put(self, i, value):
        if type(value) is not type(self.like) or len(value) != len(self.keys):
            raise InvalidError(
                f"{_shown(value)} where the batch's first sample has {_shown(self.like)}: make them alike, or give collate="
            )
        for key, part in zip(self.keys, self.parts):
            try:
                one = value[key]
            except KeyError:
                raise InvalidError(f"no {key!r}, which the batch's first sample has") from None
            part.put(i, one)

    @property
    def whole(self):
        values = [part.whole for part in self.parts]
        if isinstance(self.like, Mapping):
            return dict(zip(self.keys, values))
        if hasattr(self.like, "_fields"):  # a named tuple
            return type(self.like)(*values)
        return tuple(values) if isinstance(self.like, tuple) else values


def _shown(value):
    return f"a {type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else f"a {type(value).__name__}"


def _part(first, samples):
    if isinstance(first, (str, bytes, memoryview)):
        return _Listed(first, samples)
    if isinstance(first, numpy.ndarray) and first.dtype.kind in "OSUV":
        raise TypeError(f"an array of {first.dtype}, which cannot be stacked: give collate=")
    if _is_tensor(first):
        return _Numbers(_on_cpu(first), samples)
    if isinstance(first, (numpy.ndarray, numpy.generic, bool, int, float, complex)):
        return _Numbers(first, samples)
    if isinstance(first, (Mapping, list, tuple)):
        return _Nested(first, samples)
    raise TypeError(
        f"a value of type {type(first).__name__}: without collate= a transform returns tensors, arrays, numbers, text, bytes, and "
        "dicts, tuples and lists of them"
    )


class Stack:
    """Puts samples together one by one. allocate(bytes) gives the memory, once the first is there."""

    def __init__(self, samples, tensors, allocate):
        self._samples = samples
        self._tensors = tensors
        self._allocate = allocate
        self._part = None

    def put(self, i, value):
        if self._part is None:
            self._part = _part(value, self._samples)
            self._part.place(self._allocate(self._part.bytes), self._tensors)
        self._part.put(i, value)

    def whole(self):
        return self._part.whole


# To another process.


class _Pickler(pickle.Pickler):
    def __init__(self, file, export):
        super().__init__(file, protocol=5)
        self._export = export

    def persistent_id(self, value):
        return self._export.find(value)

    def reducer_override(self, value):
        if not isinstance(value, memoryview):
            return NotImplemented
        if value.format != "B" or value.ndim != 1:
            raise InvalidError(
                f"a memoryview of format {value.format!r} and shape {value.shape} cannot come back from a worker, only one of bytes: "
                "return an array"
            )
        return bytes, (bytes(value),)


def _is_bare(tensor):
    """Whether a tensor is its numbers and nothing else. torch's own pickle carries what others are, as far as that is possible."""
    return (
        tensor.layout is _torch().strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_nested or vars(tensor))
        and not any(getattr(tensor, "names", ()))  # which torch 2.13 has no more
    )


class Export:
    """A result: `text`, its pickle, in which arrays and tensors are places in memory; `bytes` of memory are needed for those
    that do not lie in `memory` (of a Stack) already. `given`, by id: the batch's own columns, which the loader has
    (leat._columns.Given)."""

    def __init__(self, result, given, memory=None):
        self._given = given
        self._memory = memory
        self._base = memory.__array_interface__["data"][0] if memory is not None else 0
        self._known = {}  # by id; holds the values, so that ids stay theirs
        self._copies = []
        self.bytes = 0
        file = io.BytesIO()
        _Pickler(file, self).dump(result)
        self.text = file.getvalue()

    def find(self, value):
        given = self._given.get(id(value))
        if given is not None and given.is_same(value):
            return ("column", given.number)
        make = self._maker(value)
        if make is None:
            return None
        if id(value) not in self._known:
            self._known[id(value)] = value, make(value)
        return self._known[id(value)][1]

    def _maker(self, value):
        """How its numbers travel; None: as pickle has it."""
        torch = _torch()
        if type(value) is numpy.ndarray:
            return self._array if value.dtype.kind in _PLAIN_KINDS else None
        if torch is None or type(value) not in (torch.Tensor, torch.nn.Parameter):
            return None
        _on_cpu(value)
        if value.requires_grad and not value.is_leaf:
            raise InvalidError(
                "a tensor that remembers how it was computed, for its gradient, cannot come back from a worker: return x.detach()"
            )
        return self._tensor if type(value) is torch.Tensor and _is_bare(value) else None

    def _array(self, value):
        order = _order(value.strides)
        return ("array", *self._lay(value.transpose(order), value.flags.c_contiguous), value.dtype.str, order)

    def _tensor(self, value):
        value = _on_cpu(value).resolve_conj().resolve_neg()
        order = _order(value.stride())
        return ("tensor", *self._lay(value.permute(order), value.is_contiguous()), value.dtype, order)

    def _lay(self, value, straight):
        """(where it lies or will lie, its shape there)."""
        if self._memory is not None and straight:
            at = value.data_ptr() if _is_tensor(value) else value.__array_interface__["data"][0]
            if 0 <= at - self._base < len(self._memory):
                return at - self._base, tuple(value.shape)
        value = value.contiguous() if _is_tensor(value) else numpy.ascontiguousarray(value).reshape(value.shape)
        at = self.bytes
        self._copies.append((at, value))
        self.bytes += _up(value.nbytes)
        return at, tuple(value.shape)

    def copy(self, memory):
        """Copies what does not lie there yet."""
        for at, value in self._copies:
            memory[at : at + value.nbytes] = _raw(value)


def _order(strides):
    """The dimensions as they lie in memory, the slowest first: what is channels_last stays so."""
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


class Import(pickle.Unpickler):
    """The other side. `memory` is where the arrays lie; part(at, bytes) is a view of it, column(i) a column of the batch."""

    def __init__(self, text, part, column):
        super().__init__(io.BytesIO(text))
        self._part = part
        self._column = column
        self._made = {}

    def persistent_load(self, place):
        if place[0] == "column":
            return self._column(place[1])
        if place not in self._made:
            self._made[place] = self._make(*place)
        return self._made[place]

    def _make(self, kind, at, shape, dtype, order):
        count = 1
        for n in shape:
            count *= n
        back = tuple(numpy.argsort(order)) if order else ()
        if kind == "array":
            dtype = numpy.dtype(dtype)
            return self._part(at, count * dtype.itemsize).view(dtype).reshape(shape).transpose(back)
        torch = sys.modules["torch"]
        flat = torch.empty(0, dtype=dtype)
        if count:  # an array of 0 bytes may have strides that torch cannot view as another type
            flat = torch.from_numpy(self._part(at, count * flat.element_size())).view(dtype)
        return flat.reshape(shape).permute(back)
