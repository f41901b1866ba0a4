"""Mixtures: several datasets read in proportion, as one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from leat import _arguments
from leat.errors import InvalidError, WrongTypeError
from leat.views import Blocks

if TYPE_CHECKING:
    from leat._types import Address, Real, Whole

    _Stream = Union[Address, tuple[Address, Union[Blocks, str]]]


def _view_text(view: Blocks | str) -> str:
    if isinstance(view, (str, Blocks)):
        return str(view)
    raise WrongTypeError(f"{view!r} is not a view: leat.blocks(2048), or its text")


class Mix:
    """Datasets, or views of them, in proportion: for a Loader in the place of an address.

    mix = leat.Mix({"web": 0.7, "code": 0.3}, {"web": "s3://data/web", "code": "s3://data/code"}, view=leat.blocks(2048))
    loader = leat.Loader(mix, fields={"x": leat.tokens("tokens")}, batch_size=64, epoch_size=1_000_000)

    weights: of each stream, adding up to 1; of the first n samples a stream has its weight to within one sample, whatever
    n is. Every stream goes through its own epochs, shuffled again in each: every sample of it once an epoch.
    streams: by the same names an address, or (address, view).
    view: of those streams that name none.
    schedule: instead of weights, [(0, {"web": 0.9, "code": 0.1}), (5_000_000, {…}), …]: from this many samples of all ranks
    on, counted from the beginning of the training.
    temperature: instead of weights, in proportion to size ** (1 / temperature): 1 is by size, large numbers are equal.
    """

    def __init__(
        self,
        weights: Mapping[str, Real] | None = None,
        streams: Mapping[str, _Stream] | None = None,
        *,
        view: Blocks | str | None = None,
        schedule: Sequence[tuple[Whole, Mapping[str, Real]]] | None = None,
        temperature: Real | None = None,
    ) -> None:
        if streams is None or not hasattr(streams, "items") or not streams:
            raise WrongTypeError('a mixture needs streams: {"web": "s3://…", "code": "s3://…"}')
        given = {"weights": weights, "schedule": schedule, "temperature": temperature}
        said = [name for name, value in given.items() if value is not None]
        if len(said) != 1:
            raise InvalidError(f"give one of weights, schedule and temperature, not {' and '.join(said) or 'none'}")
        self.names: tuple[str, ...] = tuple(streams)
        whole: dict[str, Any] = {"streams": [self._stream(name, source, view) for name, source in streams.items()]}
        if weights is not None:
            for stream, weight in zip(whole["streams"], self._weights(weights, "weights")):
                stream["weight"] = weight
        elif schedule is not None:
            whole["schedule"] = [
                {
                    "from": _arguments.whole("schedule's place", at),
                    "weights": self._weights(w, f"schedule, from {at!r} on"),
                }
                for at, w in schedule
            ]
        else:
            whole["temperature"] = _arguments.real("temperature", temperature)
        self._text = json.dumps(whole)

    @staticmethod
    def _stream(name: str, source: _Stream, view: Blocks | str | None) -> dict[str, str]:
        if not isinstance(name, str) or not name:
            raise WrongTypeError(f"{name!r} is not the name of a stream")
        if isinstance(source, tuple):
            if len(source) != 2:
                raise InvalidError(f"stream {name!r} is an address, or (address, view)")
            source, view = source
        stream = {"name": name, "url": _arguments.path(f"stream {name!r}", source)}
        if view is not None:
            stream["view"] = _view_text(view)
        return stream

    def _weights(self, weights: Mapping[str, Real], what: str) -> list[float]:
        if not hasattr(weights, "items") or set(weights) != set(self.names):
            strange = [name for name in weights if name not in self.names] if hasattr(weights, "items") else []
            near = _arguments.meant(strange[0], self.names) if strange else ""
            raise InvalidError(f"{what}: one weight for each of {', '.join(self.names)}, and for nothing else{near}")
        numbers = {name: self._weight(what, name, weight) for name, weight in weights.items()}
        total = math.fsum(numbers.values())
        if abs(total - 1) > 1e-6:
            raise InvalidError(f"{what}: they add up to {total:.9g}, not to 1; divide them by their sum")
        return [numbers[name] for name in self.names]

    @staticmethod
    def _weight(what: str, name: str, weight: Real) -> float:
        if isinstance(weight, bool):
            _arguments.refuse(f"{what}: {name}", weight, "a number from 0 to 1")
        number = _arguments.real(f"{what}: {name}", weight)
        if not 0 <= number <= 1:
            raise InvalidError(f"{what}: {name!r} has {weight!r}, which is not a number from 0 to 1")
        return number

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<leat mixture of {', '.join(self.names)}>"
