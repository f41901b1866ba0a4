"""MixUp and CutMix of whole batches, drawn from what the batch is: the same wherever it is made, also after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leat import _arguments, _core
from leat.errors import InvalidError, WrongTypeError

if TYPE_CHECKING:
    from leat._types import Real, Whole


class BatchMix:
    """Mixes every picture of a batch with the one before it (the first with the last), as torchvision's MixUp and CutMix do.

    mix = leat.BatchMix(1000, mixup=0.2, cutmix=1.0)
    epoch = loader.epoch
    for x, y, i in loader:  # fields: x an image, y its class, i = leat.index()
        x, y = mix(x, y, epoch=epoch, first=i[0])

    mixup and cutmix are the alphas of their Beta distributions, 0 for never; where both may happen, each does half the
    time. p is the probability that a batch is mixed at all. A batch is known by its epoch and the number of its first
    sample. Works on torch's tensors, wherever they are, and on numpy's arrays.
    """

    def __init__(
        self,
        classes: Whole,
        mixup: Real = 0.0,
        cutmix: Real = 0.0,
        p: Real = 1.0,
        seed: Whole = 0,
        layout: str = "nhwc",
    ) -> None:
        if layout not in ("nhwc", "nchw"):
            raise InvalidError(f"layout={layout!r} is neither 'nhwc' nor 'nchw'")
        self._classes = _arguments.whole("classes", classes, 1)
        self._settings = tuple(_arguments.real(n, v) for n, v in (("mixup", mixup), ("cutmix", cutmix), ("p", p)))
        self._seed = _arguments.whole("seed", seed, 0, 2**64 - 1)
        self._rows = 1 if layout == "nhwc" else 2
        self.draw(0, 0, 1, 1)  # says now what is wrong with the settings

    def draw(
        self, epoch: Whole, first: Whole, height: Whole, width: Whole
    ) -> tuple[float, tuple[int, int, int, int] | None]:
        """(share, box): how much of a picture is its own, and where its partner's pixels are: (left, top, right, bottom), or
        None where all pixels are blended. For those who mix on a GPU by themselves."""
        numbers = {"epoch": epoch, "first": first}
        sides = {"width": width, "height": height}
        return _core.mix(
            *self._settings,
            self._seed,
            *(_arguments.whole(n, v, 0, 2**64 - 1) for n, v in numbers.items()),
            *(_arguments.whole(n, v, 0, 2**32 - 1) for n, v in sides.items()),
        )

    def __call__(self, images: Any, labels: Any, *, epoch: Whole, first: Whole) -> tuple[Any, Any]:
        """(images, labels): blended pixels need a float type; labels become float32 of shape (batch, classes)."""
        share, box = self.draw(epoch, first, *images.shape[self._rows : self._rows + 2])
        return self._pixels(images, share, box), self._labels(labels, share)

    def _pixels(self, images: Any, share: float, box: tuple[int, int, int, int] | None) -> Any:
        if share == 1.0:
            return images
        if box is None:
            if not _is_float(images):
                raise WrongTypeError(f"pixels of type {images.dtype} cannot be blended: ask for a float dtype")
            return _rolled(images) * (1.0 - share) + images * share
        left, top, right, bottom = box
        where = (slice(None),) * self._rows + (slice(top, bottom), slice(left, right))
        out = images.clone() if hasattr(images, "clone") else images.copy()
        out[where] = _rolled(images)[where]
        return out

    def _labels(self, labels: Any, share: float) -> Any:
        if labels.ndim == 1:
            labels = _one_hot(labels, self._classes)
        return _rolled(labels) * (1.0 - share) + labels * share


def _rolled(values: Any) -> Any:
    if hasattr(values, "roll"):
        return values.roll(1, 0)
    import numpy

    return numpy.roll(values, 1, 0)


def _is_float(values: Any) -> bool:
    return bool(values.is_floating_point() if hasattr(values, "is_floating_point") else values.dtype.kind == "f")


def _one_hot(labels: Any, classes: int) -> Any:
    if hasattr(labels, "new_zeros"):
        import torch

        return torch.nn.functional.one_hot(labels.long(), classes).to(torch.float32)
    import numpy

    return numpy.eye(classes, dtype=numpy.float32)[labels]
