"""The loader: batches of a dataset, straight from the agent's shared memory."""

from __future__ import annotations

import inspect
import json
import logging
import operator
import os
from collections.abc import Sequence

from leat import _core, ranks
from leat.errors import InvalidError
from leat.fields import Field

_IMAGE, _INT, _BYTES, _STRING, _KEY, _INDEX, _VALID = range(1, 8)
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

    def to(self, *args, **kwargs):
        """Itself: text and bytes stay in the host's memory. Without it Lightning takes it apart, value by value."""
        return self

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


_NUMBER, _FLAG, _TEXT, _SIZE, _DURATION, _CHOICE = range(1, 7)  # enum leat_setting_type
_SETTINGS = {row[0]: row for row in _core.settings()}
_HIDDEN = {"job", "local_world_size", "agent"}  # found out, not asked for


def _as_text(name, kind, value):
    """A setting as the C library's table reads it, which checks it."""
    if kind == _FLAG:
        if type(value).__name__ not in ("bool", "bool_"):  # numpy's too
            raise ValueError(f"{name}={value!r} is neither True nor False")
        return "true" if value else "false"
    if kind == _NUMBER:
        try:
            return str(operator.index(value)) if not isinstance(value, bool) else repr(value)
        except TypeError:
            return repr(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return value
    if kind == _SIZE:
        return str(int(value))
    if kind == _DURATION:  # a number is seconds
        return f"{max(int(value * 1e9), 1 if name == 'linger' else 0)}ns"
    raise ValueError(f"{name}={value!r} is not a text")


def _whole(name, value):
    """A number that is no setting: of an epoch, or of samples."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise InvalidError(f"{name}={value!r} is not a whole number from 0")
    return number


def _settings(given):
    """(name, text) of everything that was said, and what is wrong with it."""
    texts, problems = [], []
    for name, value in given.items():
        if value is None:
            continue
        if name in _HIDDEN:
            problems.append(f"{name} is not for loaders in Python")
            continue
        try:
            texts.append((name, _as_text(name, _SETTINGS.get(name, (name, _TEXT))[1], value)))
        except (ValueError, TypeError, OverflowError) as error:
            problems.append(str(error) if name in str(error) else f"{name}={value!r}: {error}")
    return texts, problems


def _signature():
    """What help() shows: the library's own table."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters.append(inspect.Parameter("url", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    parameters.append(inspect.Parameter("fields", kind))
    for name in _SETTINGS:
        if name not in _HIDDEN:
            parameters.append(inspect.Parameter(name, kind, default=True if name == "shuffle" else None))
    for name, default in (("as_dict", False), ("as_numpy", None)):
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


class Loader:
    """Batches of a dataset, prepared by this machine's agent.

    One pass over the loader is one epoch; the next pass is the next epoch. Batches are tuples in the order of
    `fields` (or dicts with as_dict=True) of tensors where torch is installed, numpy arrays elsewhere, without a copy:
    a batch you keep occupies a slot until it is dropped.

    Which rank of which world this is, is found out at the first batch: from torch.distributed when it is initialised, else
    from RANK and WORLD_SIZE. All ranks then compare what they are about to read, and stop where they differ.

    Settings:
    """

    def __init__(self, url, *, fields, as_dict=False, as_numpy=None, shuffle=True, **settings):
        url = os.fspath(url)
        texts, problems = _settings({"shuffle": shuffle, **settings})
        explicit = settings.get("rank") is not None
        if explicit != (settings.get("world_size") is not None):
            problems.append("give both rank and world_size, or neither")
        if not isinstance(fields, dict) or not fields or not all(isinstance(f, Field) for f in fields.values()):
            problems.append(
                'fields is a dict such as {"x": leat.image("jpg").resize((224, 224)), "y": leat.int("cls")}'
            )
        problems += _core.problems(texts)
        if problems:
            raise InvalidError("; ".join(problems))
        given = dict(texts)
        self._last = given.get("last", "drop")
        self._batch = int(given.get("batch_size", 0)), int(given.get("global_batch_size", 0))
        rank = (int(given["rank"]), int(given["world_size"])) if explicit else ()
        found = ranks.settings(explicit, rank[1] if explicit else None)
        self._core = _core.Loader(
            url=url,
            outputs=[field._describe(name) for name, field in fields.items()],
            settings=texts + found,
            prepare=lambda core: ranks.join(core, core.timeout, *rank),
            warn=logging.getLogger("leat").warning,
            as_dict=as_dict,
            plan=self._choose(as_numpy),
            ragged=Ragged,
        )
        ranks.count(found)

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
        """An epoch: the next one after a pass that has come to its end or was broken off; the rest of one after
        load_state_dict() or seek()."""
        ranks.refuse_workers()
        return iter(self._core)

    def __getitem__(self, key):
        """A DataLoader would index what it is given, and tell of it in its own words."""
        raise InvalidError(
            "a Loader is iterated, not indexed: it is what a DataLoader would be. Where a program insists on one, give it an "
            "IterableDataset whose __iter__ is iter(loader), with batch_size=None and num_workers=0"
        )

    def __len__(self):
        """Batches in a whole epoch."""
        if self._core.batches:
            return self._core.batches
        each, together = self._batch
        together = together or each * ranks.rank_and_world()[1]
        full, rest = divmod(self._core.samples, together)
        return full + (rest > 0 and self._last != "drop")

    @property
    def samples(self):
        """Samples in the dataset."""
        return self._core.samples

    @property
    def version(self):
        """The dataset's content id: what this loader stays with, whatever is published in its place."""
        return self._core.version

    @property
    def epoch(self):
        """The epoch of the next batch."""
        return self._core.epoch

    def set_epoch(self, epoch):
        """Goes to the beginning of an epoch; inside that epoch nothing happens."""
        self._core.set_epoch(_whole("epoch", epoch))

    def seek(self, epoch, position=0):
        """Goes to a position in an epoch: a number of samples, of all ranks together."""
        self._core.seek(_whole("epoch", epoch), _whole("position", position))

    def state_dict(self):
        """The state after the last batch: the same on every rank, JSON."""
        return json.loads(self._core.state())

    def load_state_dict(self, state):
        """Goes to a state that was saved at any world size. It says version, seed and window where this loader was not told
        them; a state that does not fit is refused."""
        self._core.restore(json.dumps(state))

    def stats(self, series=False):
        """Samples, bytes by source, waiting by cause, the agent's pid, socket and log: docs/loader.md lists them.
        With series=True also "series": lists of the main ones over time, and "t", seconds since 1970."""
        numbers = json.loads(self._core.stats())
        if series:
            numbers["series"] = json.loads(self._core.series())
        return numbers

    def close(self):
        """Lets go of the agent. Batches still held stay valid."""
        self._core.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


Loader.__init__.__signature__ = _signature()
Loader.__doc__ += "".join(f"    {row[0]}: {row[5]}\n" for row in _SETTINGS.values() if row[0] not in _HIDDEN)
