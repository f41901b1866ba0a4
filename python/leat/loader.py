"""The loader: batches of a dataset, straight from the agent's shared memory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from leat import _core
from leat.errors import InvalidError
from leat.fields import Field

_IMAGE, _INT, _BYTES, _STRING, _KEY, _INDEX, _VALID = range(1, 8)
_LAST = {"drop": 0, "pad": 1, "short": 2}
_ON_ERROR = {"raise": 0, "skip": 1}
_NUMPY = {
    **{1: "uint8", 2: "int64", 3: "float32", 4: "float16", 5: "uint16", 6: "int8", 7: "int16", 8: "uint16"},
    **{9: "int32", 10: "uint32", 11: "uint64", 12: "float64", 13: "bool"},
}


class Ragged(_core.Ragged, Sequence):
    """Values of different lengths, one a sample, without copying: memoryviews, or str where it is text."""

    __slots__ = ()

    def tolist(self):
        """Copies: a list of str or bytes."""
        return list(self) if self._text else [bytes(v) for v in self]

    def __repr__(self):
        return f"Ragged({len(self)} values, {self.nbytes} bytes)"


def _plan_numpy(kind, dtype):
    """How columns of this kind become arrays: asked once for each, with the first batch."""
    import numpy

    return numpy.ndarray, numpy.dtype(bool if kind == _VALID else _NUMPY[dtype])


def _plan_torch(kind, dtype):
    """How columns of this kind become tensors: by DLPack, which needs no numpy and makes nothing on the way."""
    import torch

    # the public function does the same after having looked at what it was given, with every batch
    make = getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)
    if kind == _VALID:  # uint8 in memory
        return lambda capsule: make(capsule).view(torch.bool), None
    return make, None


def _rank_and_world(rank, world_size):
    """What was said, else torch.distributed when it is initialised, else the environment."""
    if (rank is None) != (world_size is None):
        raise InvalidError("give both rank and world_size, or neither")
    if rank is not None:
        return rank, world_size
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return _variable("RANK", 0), _variable("WORLD_SIZE", 1)


def _variable(name, default):
    text = os.environ.get(name, "")
    if text and not text.isdigit():
        raise InvalidError(f"the environment's {name}={text!r} is not a whole number")
    return int(text) if text else default


def _local_world(world):
    """Ranks on each machine; 0 when it is not known or not the same everywhere."""
    n = _variable("LOCAL_WORLD_SIZE", 0)
    return n if n > 0 and world % n == 0 else 0


def _whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


class _Settings:
    """Collects what is wrong with the arguments, to say it all at once."""

    def __init__(self):
        self.problems = []

    def choice(self, name, value, choices):
        if value not in choices:
            self.problems.append(f"{name}={value!r} is not one of {', '.join(choices)}")

    def number(self, name, value, least, most):
        ok = _whole(value) and least <= value <= most
        if not ok:
            self.problems.append(f"{name}={value!r} is not a whole number from {least} to {most}")
        return ok

    def parsed(self, name, value, parse, scale):
        """Text with a unit, or a number of whole units; None: nothing was said."""
        if value is None:
            return None
        try:
            number = parse(value, name) if isinstance(value, str) else int(value * scale)
        except (InvalidError, ValueError, TypeError, OverflowError) as error:
            self.problems.append(str(error) if name in str(error) else f"{name}={value!r}: {error}")
            return 0
        if not 0 <= number < 2**63:
            self.problems.append(f"{name}={value!r} is out of range")
        return number


class Loader:
    """Batches of a dataset, prepared by this machine's agent.

    One pass over the loader is one epoch; the next pass is the next epoch. Batches are tuples in the order of
    `fields` (or dicts with as_dict=True) of tensors where torch is installed, numpy arrays elsewhere, without a copy:
    a batch you keep occupies a slot until it is dropped.

    batch_size counts the samples of this rank, global_batch_size those of all ranks: give exactly one.
    """

    def __init__(
        self,
        url,
        *,
        fields,
        batch_size=None,
        global_batch_size=None,
        shuffle=True,
        seed=0,
        window=0,
        last="drop",
        on_error="raise",
        rank=None,
        world_size=None,
        epoch=0,
        ram=None,
        threads=0,
        slots=4,
        timeout=600.0,
        as_dict=False,
        as_numpy=None,
        scope=None,
        linger=None,
        endpoint_url=None,
        region=None,
        profile=None,
        anonymous=False,
    ):
        rank, world = _rank_and_world(rank, world_size)
        check = _Settings()
        check.choice("last", last, _LAST)
        check.choice("on_error", on_error, _ON_ERROR)
        for name, value, most in (("seed", seed, 2**63 - 1), ("epoch", epoch, 2**63 - 1), ("window", window, 2**31)):
            check.number(name, value, 0, most)
        check.number("threads", threads, 0, 1024)
        check.number("slots", slots, 2, 64)
        if check.number("world_size", world, 1, 2**31):
            check.number("rank", rank, 0, world - 1)
        if (batch_size is None) == (global_batch_size is None):
            check.problems.append("give exactly one of batch_size and global_batch_size")
        for name, value in (("batch_size", batch_size), ("global_batch_size", global_batch_size)):
            if value is not None:
                check.number(name, value, 1, 2**31)
        if not isinstance(fields, dict) or not fields or not all(isinstance(f, Field) for f in fields.values()):
            check.problems.append(
                'fields is a dict such as {"x": leat.image("jpg").resize((224, 224)), "y": leat.int("cls")}'
            )
        ram = check.parsed("ram", ram, _core.parse_size, 1)
        timeout_ns = check.parsed("timeout", timeout, _core.parse_duration, 1e9)
        linger_ns = check.parsed("linger", linger, _core.parse_duration, 1e9)
        if timeout_ns == 0:
            check.problems.append("timeout is 0: no batch would ever be there in time")
        if check.problems:
            raise InvalidError("; ".join(check.problems))
        self._core = _core.Loader(
            url=os.fspath(url),
            outputs=[field._describe(name) for name, field in fields.items()],
            global_batch=global_batch_size if global_batch_size is not None else batch_size * world,
            rank=rank,
            world=world,
            local_world=_local_world(world),
            last=_LAST[last],
            on_error=_ON_ERROR[on_error],
            shuffle=shuffle,
            seed=seed,
            window=window,
            epoch=epoch,
            ram=ram or 0,
            threads=threads,
            slots=slots,
            timeout_ns=timeout_ns or 0,
            scope=scope,
            linger_ns=0 if linger_ns is None else max(1, linger_ns),
            agent=None,
            endpoint_url=endpoint_url,
            region=region,
            profile=profile,
            anonymous=anonymous,
            as_dict=as_dict,
            plan=self._choose(as_numpy),
            ragged=Ragged,
        )

    @staticmethod
    def _choose(as_numpy):
        if not as_numpy:
            try:
                import torch  # noqa: F401
            except ImportError:
                if as_numpy is False:
                    raise
            else:
                return _plan_torch
        import numpy  # noqa: F401

        return _plan_numpy

    def __iter__(self):
        """One epoch, or the rest of it behind a restored state or a pass that was broken off."""
        return iter(self._core)

    def __len__(self):
        """Batches in a whole epoch."""
        return self._core.batches

    @property
    def samples(self):
        """Samples in the dataset."""
        return self._core.samples

    @property
    def epoch(self):
        """The epoch of the next batch."""
        return self._core.epoch

    def set_epoch(self, epoch):
        """Goes to the beginning of an epoch; nothing happens when the loader is there already."""
        self._core.set_epoch(epoch)

    def state_dict(self):
        """The state behind the last batch: the same on every rank, under 1 KB of JSON."""
        return json.loads(self._core.state())

    def load_state_dict(self, state):
        """Goes to a state of this dataset, seed and window, saved at any world size; refuses others."""
        self._core.restore(json.dumps(state))

    def stats(self):
        """Samples, bytes by source, waiting by cause, the agent's pid, socket and log."""
        return json.loads(self._core.stats())

    def close(self):
        """Lets go of the agent. Batches still held stay valid."""
        self._core.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
