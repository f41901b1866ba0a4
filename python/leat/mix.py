"""MixUp and CutMix of whole batches, drawn from what the batch is: the same whoever makes it, also after a restart."""

from __future__ import annotations

from leat import _core
from leat.errors import InvalidError


class Mix:
    """Mixes every picture of a batch with the one before it (the first with the last), as torchvision's MixUp and CutMix do.

    mix = leat.Mix(1000, mixup=0.2, cutmix=1.0)
    epoch = loader.epoch
    for x, y, i in loader:  # fields: x an image, y its class, i = leat.index()
        x, y = mix(x, y, epoch=epoch, first=i[0])

    mixup and cutmix are the alphas of their Beta distributions, 0 for never; where both may happen, each does half the
    time. p is the probability that a batch is mixed at all. A batch is known by its epoch and the number of its first
    sample. Works on torch's tensors, wherever they are, and on numpy's arrays.
    """

    def __init__(self, classes, mixup=0.0, cutmix=0.0, p=1.0, seed=0, layout="nhwc"):
        if layout not in ("nhwc", "nchw"):
            raise InvalidError(f"layout={layout!r} is neither 'nhwc' nor 'nchw'")
        self._classes = classes
        self._settings = (float(mixup), float(cutmix), float(p))
        self._seed = seed
        self._rows = 1 if layout == "nhwc" else 2
        self.draw(0, 0, 1, 1)  # says now what is wrong with the settings

    def draw(self, epoch, first, height, width):
        """(share, box): how much of a picture is its own, and where its partner's pixels are: (left, top, right, bottom), or
        None where all pixels are blended. For those who mix on a GPU by themselves."""
        return _core.mix(*self._settings, self._seed, int(epoch), int(first), width, height)

    def __call__(self, images, labels, *, epoch, first):
        """(images, labels): blended pixels need a float type; labels become float32 of shape (batch, classes)."""
        share, box = self.draw(epoch, first, *images.shape[self._rows : self._rows + 2])
        return self._pixels(images, share, box), self._labels(labels, share)

    def _pixels(self, images, share, box):
        if share == 1.0:
            return images
        if box is None:
            if not _is_float(images):
                raise InvalidError(f"pixels of type {images.dtype} cannot be blended: ask for a float dtype")
            return _rolled(images) * (1.0 - share) + images * share
        left, top, right, bottom = box
        where = (slice(None),) * self._rows + (slice(top, bottom), slice(left, right))
        out = images.clone() if hasattr(images, "clone") else images.copy()
        out[where] = _rolled(images)[where]
        return out

    def _labels(self, labels, share):
        if labels.ndim == 1:
            labels = _one_hot(labels, self._classes)
        return _rolled(labels) * (1.0 - share) + labels * share


def _rolled(values):
    if hasattr(values, "roll"):
        return values.roll(1, 0)
    import numpy

    return numpy.roll(values, 1, 0)


def _is_float(values):
    return values.is_floating_point() if hasattr(values, "is_floating_point") else values.dtype.kind == "f"


def _one_hot(labels, classes):
    if hasattr(labels, "new_zeros"):
        import torch

        return torch.nn.functional.one_hot(labels.long(), classes).to(torch.float32)
    import numpy

    return numpy.eye(classes, dtype=numpy.float32)[labels]
