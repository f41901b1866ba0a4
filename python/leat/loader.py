"""The loader: batches of a dataset, straight from the agent's shared memory."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from leat import _arguments, _core, frameworks, ranks
from leat import job as jobs
from leat.errors import InvalidError, WrongTypeError
from leat.fields import Field
from leat.mix import Mix
from leat.stages import Keeper
from leat.views import Blocks

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from leat._settings import Settings
    from leat._types import Address, Whole

if TYPE_CHECKING:
    _Sequence = Sequence[Any]
else:  # a Sequence of something would be slower to ask for its values
    _Sequence = Sequence

_VALID = _core.outputs()["valid"][0]
_NUMPY = {code: _core.dtype_name(code) for code in range(1, 14)}
_NUMPY[5] = "uint16"  # bfloat16, which numpy has not


def _numbers(data: bytearray, tensors: bool, shape: tuple[int, ...]) -> Any:
    """int64 in a bytearray, as a tensor or an array."""
    if tensors:
        import torch

        flat = torch.frombuffer(data, dtype=torch.int64) if data else torch.empty(0, dtype=torch.int64)
    else:
        import numpy

        flat = numpy.frombuffer(data, dtype=numpy.int64)
    return flat.reshape(shape)


class Ragged(_core.Ragged, _Sequence):
    """Values of different lengths or shapes, one per sample, without copying: arrays or tensors, memoryviews of bytes, or str
    where it is text.

    `values` has all of them, one after the other: uint8 of bytes and text; rows of arrays whose first dimension alone
    varies; numbers of others.
    """

    __slots__ = ()

    @property
    def offsets(self) -> Any:
        """Where each begins in `values`, and where the last ends: int64, one more than there are samples."""
        return _numbers(self._offsets(), self._tensors, (-1,))

    @property
    def shapes(self) -> Any:
        """Of each array: int64, (samples, dimensions)."""
        if not self._varying:
            raise AttributeError("bytes and text have lengths, and no shapes: see offsets")
        data = self._shapes()
        return _numbers(data, self._tensors, (len(self), len(data) // 8 // len(self) if len(self) else 0))

    def tolist(self) -> list[Any]:
        """Copies: a list of str, bytes, or arrays."""
        if self._text:
            return list(self)
        if self._varying:
            return [value.clone() if self._tensors else value.copy() for value in self]
        return [bytes(v) for v in self]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Arrays of tensors: a copy elsewhere, on a GPU for example. Text and bytes: itself, they stay in the host's memory;
        without this method Lightning would take them apart, value by value."""
        if not self._varying or not self._tensors:
            return self
        return RaggedTensors(self.values.to(*args, **kwargs), self.offsets.to(*args, **kwargs), self.shapes.tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are no longer the batch's memory."""
        shapes = self.shapes.tolist() if self._varying else None
        return RaggedTensors._from, (RaggedTensors(self.values, self.offsets, shapes, self._text).__getstate__(),)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} values, {self.nbytes} bytes)"


class RaggedTensors(_Sequence):
    """The same as a Ragged in memory of its own: what Ragged.to() makes on another device, and what copies and pickles of a
    Ragged are."""

    def __init__(self, values: Any, offsets: Any, shapes: Any, text: bool = False) -> None:
        self.values: Any = values
        self.offsets: Any = offsets
        if shapes is not None:
            self.shapes: Any = shapes
        self._text = text
        self._ends = offsets.tolist()

    @classmethod
    def _from(cls, state: dict[str, Any]) -> RaggedTensors:
        made = cls.__new__(cls)
        made.__setstate__(state)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Tensors as bytes: torch pickles those of unsigned types in a form that it cannot read."""
        if not hasattr(self.values, "untyped_storage"):
            return vars(self)
        values = self.values.contiguous().view(-1).view(sys.modules["torch"].uint8)
        return {**vars(self), "values": values, "_was": (self.values.dtype, tuple(self.values.shape))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "_was" in state:
            dtype, shape = vars(self).pop("_was")
            self.values = self.values.view(dtype).view(shape)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        value = self.values[self._ends[i] : self._ends[i + 1]]
        if "shapes" in vars(self):
            return value.reshape(self.shapes[i])
        view = memoryview(value.numpy() if hasattr(value, "numpy") else value)
        return str(view, "utf-8", "surrogateescape") if self._text else view

    @property
    def nbytes(self) -> int:
        """Bytes of all values together."""
        return int(self.values.nbytes)

    def tolist(self) -> list[Any]:
        """Copies: a list of str, bytes, or arrays."""
        if "shapes" not in vars(self):
            return list(self) if self._text else [bytes(value) for value in self]
        return [value.copy() if hasattr(value, "copy") else value.clone() for value in self]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Arrays of tensors: a copy elsewhere, on a GPU for example. Others: itself."""
        if "shapes" not in vars(self) or not hasattr(self.values, "to"):
            return self
        return RaggedTensors(self.values.to(*args, **kwargs), self.offsets.to(*args, **kwargs), self.shapes)

    def __repr__(self) -> str:
        return f"RaggedTensors({len(self)} values, {self.values.dtype}, {getattr(self.values, 'device', 'cpu')})"


def _plan_numpy(kind: int, dtype: int) -> tuple[Any, Any]:
    """How columns of this kind become arrays: asked once for each, with the first batch."""
    import numpy

    return numpy.ndarray, numpy.dtype(bool if kind == _VALID else _NUMPY[dtype])


def _plan_torch(kind: int, dtype: int) -> tuple[Any, Any]:
    """How columns of this kind become tensors: by DLPack, which needs no numpy and makes nothing on the way."""
    import torch

    # the public function does the same after having looked at what it was given, with every batch
    make = getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)
    if kind == _VALID:  # uint8 in memory
        return lambda capsule: make(capsule).view(torch.bool), None
    return make, None


_NUMBER, _FLAG, _TEXT, _SIZE, _DURATION, _CHOICE = range(1, 7)  # enum leat_setting_type
_SETTINGS = {row[0]: row for row in _core.settings()}
_TRANSFORM: dict[str, Any] = {"transform": None, "collate": None, "transform_on": "sample", "transform_workers": None}
_HIDDEN = {"job", "local_world_size", "members", "mix"}  # found out, not asked for


def _as_text(name: str, value: Any) -> str:
    """A setting as the C library's table reads it, which checks it."""
    _, kind, least, most, _, _ = _SETTINGS[name]
    if kind == _FLAG:
        return "true" if _arguments.flag(name, value) else "false"
    if kind == _NUMBER:
        return str(_arguments.whole(name, value, least, most))
    if isinstance(value, (os.PathLike, Blocks)):
        value = str(value) if isinstance(value, Blocks) else _arguments.path(name, value)
    if isinstance(value, str) or kind not in (_SIZE, _DURATION):
        return _arguments.text(name, value)
    number = _arguments.real(name, value)
    if not 0 <= number < 2**63 / (1 if kind == _SIZE else 1e9) or isinstance(value, bool):
        _arguments.refuse(name, value, "a size or a time that can be", InvalidError)
    if kind == _SIZE:
        return str(int(value))
    return f"{int(number * 1e9)}ns"  # a number is seconds


def _settings(given: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[InvalidError]]:
    """(name, text) of everything that was said, and what is wrong with it."""
    texts, problems = [], []
    for name, value in given.items():
        try:
            if name in _HIDDEN:
                raise InvalidError(f"{name} is not for loaders in Python")
            if name not in _SETTINGS:
                near = _arguments.meant(name, Loader.__signature__.parameters)
                raise WrongTypeError(f"there is no setting {name!r}{near}")
            if value is not None:
                texts.append((name, _as_text(name, value)))
        except InvalidError as error:
            problems.append(error)
    return texts, problems


def _outputs(fields: Any) -> list[InvalidError]:
    """What is wrong with `fields`."""
    if not isinstance(fields, Mapping) or not fields:
        example = '{"x": leat.image("jpg").resize((224, 224)), "y": leat.int("cls")}'
        return [WrongTypeError(f"fields is a dict such as {example}")]
    strange = [name for name, field in fields.items() if not isinstance(name, str) or not isinstance(field, Field)]
    return [
        WrongTypeError(
            f"fields is a dict of outputs: {name!r} is {fields[name]!r}, and not leat.image(…), leat.int(…) or another of "
            "their kind"
        )
        for name in strange
    ]


class _Signature:
    """What help() shows of a loader: the library's own table in the place of **settings, and no types. Made when it is asked for,
    because `inspect` alone takes a fifth of the time of importing Leat."""

    def __get__(self, loader: Any, kind: Any) -> Any:
        import inspect

        own = list(inspect.signature(kind.__init__).parameters.values())[1:]
        said = [p.replace(annotation=p.empty) for p in own if p.kind != p.VAR_KEYWORD]
        names = [name for name in _SETTINGS if name not in _HIDDEN and name not in {p.name for p in own}]
        rest = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        return inspect.Signature(said[:2] + rest + said[2:])  # after url and fields


class Loader:
    """Batches of a dataset, prepared by this machine's agent.

    One pass over the loader is one epoch; the next pass is the next epoch. Batches are tuples in the order of
    `fields` (or dicts with as_dict=True) of tensors where torch is installed, numpy arrays elsewhere. Columns of more than
    64 KiB are not copied: a batch you keep occupies a slot until it is dropped, and is a copy when there is no other slot.

    device="cuda" (or "cuda:1", or a torch.device) hands batches over on a GPU: copied ahead of the program, and normalised there.

    Which rank of which world this is, is found out at the first batch: from torch.distributed when it is initialised, else
    from RANK and WORLD_SIZE. All ranks then compare what they are about to read, and stop where they differ.

    What a loader is given:

        url: a dataset (s3://…, https://…, a folder), or a leat.Mix of several
        fields: what a batch is made of: {"x": leat.image("jpg").resize((224, 224)), "y": leat.int("cls")}
        as_dict: batches are dicts instead of tuples
        as_numpy: arrays, also where torch is installed
        transform: a function of yours, of one sample or of a batch, run in worker processes
        collate: a function of yours that makes a batch of a list of samples
        transform_on: what the transform gets: "sample" or "batch"
        transform_workers: how many processes run them; 0: this one
        device: "cuda", "cuda:1", a number or a torch.device: batches on that GPU
        job: "auto" (or None): the machines of a job fetch from each other; "off": each for itself
    """

    __signature__: Any = _Signature()

    def __init__(
        self,
        url: Address | Mix,
        *,
        fields: Mapping[str, Field],
        as_dict: bool = False,
        as_numpy: bool | None = None,
        shuffle: bool = True,
        transform: Callable[..., Any] | None = None,
        collate: Callable[..., Any] | None = None,
        transform_on: Literal["sample", "batch"] = "sample",
        transform_workers: Whole | None = None,
        device: Any = None,
        job: str | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        self._pid = os.getpid()
        ranks.refuse_import()
        python = {name: self._given[name] for name in _TRANSFORM}
        mix = [("mix", str(url))] if isinstance(url, Mix) else []
        address = "" if isinstance(url, Mix) else _arguments.path("url", url)
        texts, problems = _settings({"shuffle": shuffle, **settings})
        texts += mix
        explicit = settings.get("rank") is not None
        if explicit != (settings.get("world_size") is not None):
            problems.append(InvalidError("give both rank and world_size, or neither"))
        problems += _outputs(fields)
        share = "off"
        try:
            share = jobs.choose(None if job is None else _arguments.text("job", job))
        except InvalidError as error:
            problems.append(error)
        plan = self._choose(as_numpy)
        given = dict(texts)
        made = None
        if not problems:
            made = self._transform(python, fields, as_dict, plan is _plan_torch, given, bool(mix), problems)
            texts = list(given.items())
        missing = [("batch_size", "1")] if any("batch_size" in str(p) for p in problems) else []
        problems += map(InvalidError, _core.problems(missing + texts))  # one that is wrong is not missing too
        if device is not None and as_numpy:
            words = f"device={device!r} gives tensors, and as_numpy=True arrays: leave one of them out"
            problems.append(InvalidError(words))
        if problems:
            wrong = WrongTypeError if any(isinstance(p, WrongTypeError) for p in problems) else InvalidError
            raise wrong("; ".join(map(str, problems)))
        outputs = [field._describe(name) for name, field in fields.items()]
        stages = [made] if made else []
        if device is not None:  # after a transform, which gets pictures as they were asked for
            from leat import device as devices  # who has no GPU need not wait for it

            left, stage = devices.prepare(device, [] if made else outputs, as_dict)
            outputs = outputs if made else left
            stages += stage
        self._last = given.get("last", "drop")
        self._shuffle = bool(shuffle)
        self._batch = int(given.get("batch_size", 0)), int(given.get("global_batch_size", 0))
        rank = [int(given["rank"]), int(given["world_size"])] if explicit else []
        found = ranks.settings(explicit, rank[1] if explicit else None, share)
        self._core = _core.Loader(
            url=address,
            outputs=outputs + (made.plan.outputs() if made else []),
            settings=texts + found,
            prepare=lambda core: ranks.join(
                core,
                core.timeout,
                rank[0] if explicit else None,
                rank[1] if explicit else None,
                share=share,
                scope=given.get("scope", ""),
            ),
            warn=logging.getLogger("leat").warning,
            as_dict=_arguments.flag("as_dict", as_dict),
            plan=plan,
            ragged=Ragged,
        )
        ranks.count(found)
        self._python = made
        if made:
            made.start(self._core.timeout)
        self._keeper = Keeper(self._core, stages) if stages else None
        if "torch.utils.data" in sys.modules:
            kind: Any = getattr(type(self), "_leat_kind", type(self))
            self.__class__ = frameworks.adopted(kind)

    @staticmethod
    def _transform(
        python: dict[str, Any],
        fields: Mapping[str, Field],
        as_dict: bool,
        tensors: bool,
        given: dict[str, str],
        mixed: bool,
        problems: list[InvalidError],
    ) -> Any:
        """The stage that runs the user's Python; None: there is none. It needs more slots, which are added to what was given."""
        if python["transform"] is None and python["collate"] is None:
            asked = [name for name, default in _TRANSFORM.items() if python[name] != default]
            problems += [InvalidError(f"{' and '.join(asked)}: there is no transform")] if asked else []
            return None
        from leat.transform import Stage

        skip = given.get("on_error") == "skip"
        stage = Stage(*python.values(), fields, as_dict, tensors, skip, mixed)  # type: ignore[call-arg]
        slots = stage.slots(given.get("slots"))
        if slots:
            given["slots"] = slots
        problems += map(InvalidError, stage.problems)
        return stage

    @staticmethod
    def _choose(as_numpy: bool | None) -> Any:
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

    def __iter__(self) -> Iterator[Any]:
        """An epoch: the next one after a pass that has come to its end or was broken off; the rest of one after
        load_state_dict() or seek()."""
        ranks.refuse_workers(self._pid)
        return self._keeper.begin() if self._keeper else iter(self._core)

    def __getitem__(self, key: Any) -> Any:
        """A framework would index what it is given, and tell of it in its own words."""
        raise WrongTypeError(frameworks.WHOLE_BATCHES)

    def __len__(self) -> int:
        """Batches in a whole epoch."""
        if self._core.batches:
            return self._core.batches
        full, rest = divmod(self._core.samples, self._samples_together())
        return full + (rest > 0 and self._last != "drop")

    def _world(self) -> int:
        given = self._given["settings"].get("world_size")
        return ranks.rank_and_world()[1] if given is None else _arguments.whole("world_size", given, 1)

    def _samples_together(self) -> int:
        """Samples of all ranks in a batch."""
        each, together = self._batch
        return together or each * self._world()

    def _samples_each(self) -> int:
        each, together = self._batch
        return each or together // self._world()

    def _skip(self, batches: int) -> None:
        """Has the next pass begin this many batches later than it would."""
        first = iter(self._core).take(True)  # knows where that is
        self.seek(first.epoch, first.began + batches * self._samples_together())

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle is opened where it is unpickled, and a copy at once: another loader, which stands where this one does."""
        given = dict(self._given)
        return _again, (getattr(type(self), "_leat_kind", type(self)), given, self.state_dict(), self._pid)

    @property
    def samples(self) -> int:
        """Samples in an epoch, of all ranks: of the dataset, or what `epoch_size` says."""
        return self._core.samples

    @property
    def version(self) -> str:
        """The dataset's content id: what this loader stays with, whatever is published in its place."""
        return self._core.version

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        epoch = self._keeper.epoch if self._keeper else None
        return self._core.epoch if epoch is None else epoch

    def set_epoch(self, epoch: Whole) -> None:
        """Goes to the beginning of an epoch; inside that epoch nothing happens."""
        (self._keeper or self._core).set_epoch(_arguments.whole("epoch", epoch))

    def seek(self, epoch: Whole, position: Whole = 0) -> None:
        """Goes to a position in an epoch: a number of samples, of all ranks together."""
        self._move(self._core.seek, _arguments.whole("epoch", epoch), _arguments.whole("position", position))

    def _move(self, call: Callable[..., None], *to: Any) -> None:
        if self._keeper:
            self._keeper.move(call, *to)
        else:
            call(*to)

    def state_dict(self) -> dict[str, Any]:
        """The state after the last batch: the same on every rank, JSON."""
        state: dict[str, Any] = json.loads((self._keeper and self._keeper.state) or self._core.state())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a state that was saved at any world size. It says version, seed and window where this loader was not told
        them; a state that does not fit is refused."""
        try:
            text = json.dumps(state)
        except (TypeError, ValueError):
            _arguments.refuse("state", state, "what state_dict() has returned")
        self._move(self._core.restore, text)

    def stats(self, series: bool = False) -> dict[str, Any]:
        """Samples, bytes by source, waiting by cause, the agent's pid, socket and log: docs/loader.md lists them.
        With series=True also "series": lists of the main ones over time, and "t", seconds since 1970."""
        numbers: dict[str, Any] = json.loads(self._core.stats())
        if self._python:
            numbers.update(self._python.stats())
        if series:
            numbers["series"] = json.loads(self._core.series())
        return numbers

    def close(self) -> None:
        """Lets go of the agent. Batches still held stay valid."""
        if self._keeper:
            self._keeper.close()
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _again(kind: type[Loader], given: dict[str, Any], state: dict[str, Any], pid: int) -> Loader:
    """A loader from another's pickle. `pid` is of the process that made the first of them."""
    given = dict(given)
    settings = given.pop("settings")
    loader = kind(given.pop("url"), **given, **settings)
    loader.load_state_dict(state)
    loader._pid = pid
    return loader


Loader.__doc__ = (Loader.__doc__ or "") + "".join(
    f"    {row[0]}: {row[5]}\n    " for row in _SETTINGS.values() if row[0] not in _HIDDEN
)
